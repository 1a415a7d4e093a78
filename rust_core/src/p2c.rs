//! Choosing a replica by two random draws.
use crate::rng::Rng;

const ABSENT: u32 = u32::MAX;

/// The replicas that could take a batch now, in no meaningful order. All operations O(1).
#[derive(Debug, Default)]
pub struct EligibleIndex {
    slots: Vec<u32>,
    position: Vec<u32>,
}

impl EligibleIndex {
    /// Empty.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Replicas in the index.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// True without replicas.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The replicas, in no meaningful order.
    #[must_use]
    pub fn slots(&self) -> &[u32] {
        &self.slots
    }

    /// Adds a replica; does nothing if it is there.
    #[allow(clippy::cast_possible_truncation)] // no more entries than slots
    pub fn insert(&mut self, slot: u32) {
        let needed = slot as usize + 1;
        if self.position.len() < needed {
            self.position.resize(needed, ABSENT);
        }
        if self.position[slot as usize] == ABSENT {
            self.position[slot as usize] = self.slots.len() as u32;
            self.slots.push(slot);
        }
    }

    /// Takes a replica out; does nothing if it is not there. The last one takes its place.
    pub fn remove(&mut self, slot: u32) {
        let Some(place) = self.position.get_mut(slot as usize) else { return };
        let at = std::mem::replace(place, ABSENT);
        if at == ABSENT {
            return;
        }
        self.slots.swap_remove(at as usize);
        if let Some(&moved) = self.slots.get(at as usize) {
            self.position[moved as usize] = at;
        }
    }

    /// Draws two distinct replicas and keeps the one of lower cost; a lone one wins undrawn.
    ///
    /// Ties go to the first drawn, so that they stay unbiased. O(1), at most two draws.
    /// Source: Mitzenmacher, "The power of two choices in randomized load balancing",
    /// IEEE TPDS 12(10), 2001.
    pub fn pick(&self, rng: &mut Rng, cost: impl Fn(u32) -> f64) -> Option<u32> {
        let first = *self.slots.first()?;
        if self.slots.len() == 1 {
            return Some(first);
        }
        let (one, two) = draw_two(self.slots.len(), rng);
        let (one, two) = (self.slots[one], self.slots[two]);
        Some(if cost(two) < cost(one) { two } else { one })
    }
}

/// Two distinct indices below `len` >= 2, uniform over ordered pairs.
#[allow(clippy::cast_possible_truncation)] // below `len`
fn draw_two(len: usize, rng: &mut Rng) -> (usize, usize) {
    let one = rng.below(len as u64) as usize;
    let two = rng.below(len as u64 - 1) as usize;
    (one, if two >= one { two + 1 } else { two })
}
