//! Who was used last: slots in two lists, those in use of late and the idle ones.

const NONE: u32 = u32::MAX;

/// One of the two lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Used of late.
    Active = 0,
    /// Not used of late.
    Idle = 1,
}

#[derive(Debug, Clone, Copy)]
struct Links {
    newer: u32,
    older: u32,
}

#[derive(Debug, Clone, Copy)]
struct Ends {
    newest: u32,
    oldest: u32,
}

/// Two lists of slots, newest first; each slot is in one of them at most. All calls O(1).
///
/// The links are apart from what they order: eight bytes a slot stay in the cache where the
/// records themselves do not, and a slot that moves touches two neighbours anywhere.
#[derive(Debug)]
pub struct Recency {
    links: Vec<Links>,
    ends: [Ends; 2],
}

impl Default for Recency {
    fn default() -> Self {
        Self { links: Vec::new(), ends: [Ends { newest: NONE, oldest: NONE }; 2] }
    }
}

impl Recency {
    /// The slot of a list that was put there first.
    #[must_use]
    pub fn oldest(&self, part: Part) -> Option<u32> {
        Some(self.ends[part as usize].oldest).filter(|&slot| slot != NONE)
    }

    /// Puts a slot that is in neither list at the head of one.
    pub fn push(&mut self, part: Part, slot: u32) {
        if self.links.len() <= slot as usize {
            self.links.resize(slot as usize + 1, Links { newer: NONE, older: NONE });
        }
        let ends = &mut self.ends[part as usize];
        let next = std::mem::replace(&mut ends.newest, slot);
        if next == NONE {
            ends.oldest = slot;
        } else {
            self.links[next as usize].newer = slot;
        }
        self.links[slot as usize] = Links { newer: NONE, older: next };
    }

    /// Takes a slot out of the list that it is in.
    pub fn remove(&mut self, part: Part, slot: u32) {
        let Links { newer, older } = self.links[slot as usize];
        let ends = &mut self.ends[part as usize];
        if newer == NONE {
            ends.newest = older;
        } else {
            self.links[newer as usize].older = older;
        }
        if older == NONE {
            ends.oldest = newer;
        } else {
            self.links[older as usize].newer = newer;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Part, Recency};

    proptest! {
        /// Beside two plain vectors, oldest first.
        #[test]
        fn agrees_with_two_vectors(
            steps in prop::collection::vec((0u32..12, any::<bool>(), any::<bool>()), 1..200)
        ) {
            let (mut lists, mut model) = (Recency::default(), [Vec::new(), Vec::new()]);
            for (slot, is_idle, stays_out) in steps {
                for (at, part) in [Part::Active, Part::Idle].into_iter().enumerate() {
                    if let Some(place) = model[at].iter().position(|&other| other == slot) {
                        model[at].remove(place);
                        lists.remove(part, slot);
                    }
                }
                if !stays_out {
                    model[usize::from(is_idle)].push(slot);
                    lists.push(if is_idle { Part::Idle } else { Part::Active }, slot);
                }
                prop_assert_eq!(lists.oldest(Part::Active), model[0].first().copied());
                prop_assert_eq!(lists.oldest(Part::Idle), model[1].first().copied());
            }
            for (at, part) in [Part::Active, Part::Idle].into_iter().enumerate() {
                for &slot in &model[at] {
                    prop_assert_eq!(lists.oldest(part), Some(slot));
                    lists.remove(part, slot);
                }
                prop_assert_eq!(lists.oldest(part), None);
            }
        }
    }
}
