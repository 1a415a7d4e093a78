//! Choosing a replica by two random draws.
use crate::rng::Rng;

const ABSENT: u32 = u32::MAX;

/// What was drawn, and what it was drawn against.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Draw {
    /// The replica to take.
    pub chosen: u32,
    /// The other one, with the costs of both; None for a lone replica, which nobody weighed.
    pub rival: Option<Rival>,
}

/// The replica that was drawn and not taken.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rival {
    /// The replica.
    pub slot: u32,
    /// Its cost.
    pub cost: f64,
    /// Cost of the one that was taken.
    pub chosen_cost: f64,
}

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
    pub fn draw(&self, rng: &mut Rng, cost: impl Fn(u32) -> f64) -> Option<Draw> {
        let first = *self.slots.first()?;
        if self.slots.len() == 1 {
            return Some(Draw { chosen: first, rival: None });
        }
        let (one, two) = draw_two(self.slots.len(), rng);
        let (one, two) = (self.slots[one], self.slots[two]);
        let (cost_one, cost_two) = (cost(one), cost(two));
        let (chosen, slot, chosen_cost, cost) = if cost_two < cost_one {
            (two, one, cost_two, cost_one)
        } else {
            (one, two, cost_one, cost_two)
        };
        Some(Draw { chosen, rival: Some(Rival { slot, cost, chosen_cost }) })
    }

    /// The replica that [`draw`](Self::draw) takes.
    pub fn pick(&self, rng: &mut Rng, cost: impl Fn(u32) -> f64) -> Option<u32> {
        self.draw(rng, cost).map(|draw| draw.chosen)
    }
}

/// Two distinct indices below `len` >= 2, uniform over ordered pairs.
#[allow(clippy::cast_possible_truncation)] // below `len`
fn draw_two(len: usize, rng: &mut Rng) -> (usize, usize) {
    let one = rng.below(len as u64) as usize;
    let two = rng.below(len as u64 - 1) as usize;
    (one, if two >= one { two + 1 } else { two })
}
