//! Which live request runs out of time first.

const ABSENT: u32 = u32::MAX;
/// Children of a node: a wide heap is shallow, and siblings share cache lines.
const ARITY: usize = 4;
/// Up to so many entries for each that leaves, it is cheaper to put the rest in order again.
const REBUILD_RATIO: usize = 2;

#[derive(Debug, Clone, Copy)]
struct Due {
    deadline_ns: i64,
    order: u64,
    slot: u32,
}

impl Due {
    /// Deadline, then order, as one number: compared without a branch.
    fn rank(&self) -> u128 {
        let deadline = u128::from(self.deadline_ns.cast_unsigned() ^ (1 << 63));
        deadline << 64 | u128::from(self.order)
    }
}

/// A 4-ary heap that knows where each slot is, so that any of them can leave.
///
/// Ties go to the smaller `order`. Push and remove O(log n), peek O(1).
#[derive(Debug, Default)]
struct DeadlineHeap {
    heap: Vec<Due>,
    position: Vec<u32>,
}

impl DeadlineHeap {
    fn peek(&self) -> Option<Due> {
        self.heap.first().copied()
    }

    /// Adds a slot that is not in the heap.
    fn push(&mut self, due: Due) {
        let needed = due.slot as usize + 1;
        if self.position.len() < needed {
            self.position.resize(needed, ABSENT);
        }
        self.heap.push(due);
        self.sift_up(self.heap.len() - 1);
    }

    /// Takes a slot out; None if it is not in the heap.
    fn remove(&mut self, slot: u32) -> Option<Due> {
        let place = self.position.get_mut(slot as usize)?;
        let at = std::mem::replace(place, ABSENT) as usize;
        if at >= self.heap.len() {
            return None;
        }
        let gone = self.heap.swap_remove(at);
        // What took its place goes one way only.
        match self.heap.get(at) {
            None => {}
            Some(moved) if moved.rank() < gone.rank() => self.sift_up(at),
            Some(_) => self.sift_down(at),
        }
        Some(gone)
    }

    /// Forgets where a slot is; false if it is not in the heap. `rebuild` has to follow.
    fn forget(&mut self, slot: u32) -> bool {
        let Some(place) = self.position.get_mut(slot as usize) else { return false };
        std::mem::replace(place, ABSENT) != ABSENT
    }

    /// Drops what was forgotten and puts the rest in order. O(n).
    fn rebuild(&mut self) {
        let position = &self.position;
        self.heap.retain(|due| position[due.slot as usize] != ABSENT);
        for at in (0..self.heap.len()).rev() {
            self.sift_down(at);
        }
    }

    /// Reads what `remove` will look at first. Changes nothing. Reading on, to what would move, costs
    /// more than it saves.
    fn read_ahead(&self, slots: &[u32]) {
        let mut read = 0;
        for &slot in slots {
            let place = self.position.get(slot as usize).copied().unwrap_or(ABSENT);
            if place == ABSENT {
                continue;
            }
            let at = place as usize;
            let nearby = [at, at.saturating_sub(1) / ARITY, ARITY * at + 1, ARITY * at + ARITY];
            for due in nearby.into_iter().filter_map(|at| self.heap.get(at)) {
                read ^= due.deadline_ns;
            }
        }
        std::hint::black_box(read);
    }

    fn sift_up(&mut self, from: usize) {
        let due = self.heap[from];
        let mut at = from;
        while at > 0 && due.rank() < self.heap[(at - 1) / ARITY].rank() {
            self.place((at - 1) / ARITY, at);
            at = (at - 1) / ARITY;
        }
        self.settle(due, at);
    }

    fn sift_down(&mut self, from: usize) {
        let due = self.heap[from];
        let mut at = from;
        while let Some(child) = self.least_child(at) {
            if due.rank() <= self.heap[child].rank() {
                break;
            }
            self.place(child, at);
            at = child;
        }
        self.settle(due, at);
    }

    fn least_child(&self, of: usize) -> Option<usize> {
        let first = ARITY * of + 1;
        let children = first..(first + ARITY).min(self.heap.len());
        children.min_by_key(|&child| self.heap[child].rank())
    }

    fn place(&mut self, from: usize, to: usize) {
        self.settle(self.heap[from], to);
    }

    #[allow(clippy::cast_possible_truncation)] // no more entries than slots
    fn settle(&mut self, due: Due, at: usize) {
        self.heap[at] = due;
        self.position[due.slot as usize] = at as u32;
    }
}

/// Deadlines of all live requests, the earliest first.
///
/// Those that are executing are few beside those that may be queued, and are kept apart: the end
/// of a batch then finds all of its members in the cache, however long the queue is. Push, begin
/// and remove O(log n), peek O(1).
#[derive(Debug, Default)]
pub struct Deadlines {
    queued: DeadlineHeap,
    executing: DeadlineHeap,
}

impl Deadlines {
    /// Empty.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Slots in it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.queued.heap.len() + self.executing.heap.len()
    }

    /// True without slots.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The earliest deadline and its slot; ties go to the smaller `order`.
    #[must_use]
    pub fn peek(&self) -> Option<(i64, u32)> {
        let tops = self.queued.peek().into_iter().chain(self.executing.peek());
        tops.min_by_key(Due::rank).map(|due| (due.deadline_ns, due.slot))
    }

    /// Adds a queued slot that is not in it.
    pub fn push(&mut self, slot: u32, deadline_ns: i64, order: u64) {
        self.queued.push(Due { deadline_ns, order, slot });
    }

    /// Queued slots begin to execute. What is not queued is left alone.
    pub fn begin(&mut self, slots: &[u32]) {
        // Each is at a place of its own: waiting for memory once is cheaper than for each.
        self.queued.read_ahead(slots);
        for &slot in slots {
            if let Some(due) = self.queued.remove(slot) {
                self.executing.push(due);
            }
        }
    }

    /// An executing slot is queued again; does nothing if it is not executing.
    pub fn requeue(&mut self, slot: u32) {
        if let Some(due) = self.executing.remove(slot) {
            self.queued.push(due);
        }
    }

    /// Takes out slots that executed together.
    ///
    /// Where they are most of what executes, as in a small fleet, the few that stay are put in order
    /// again instead: O(1) a slot.
    pub fn end(&mut self, slots: &[u32]) {
        if self.executing.heap.len() > REBUILD_RATIO * slots.len() {
            for &slot in slots {
                self.remove(slot);
            }
            return;
        }
        for &slot in slots {
            if !self.executing.forget(slot) {
                self.queued.remove(slot);
            }
        }
        self.executing.rebuild();
    }

    /// Takes a slot out; does nothing if it is not in it.
    pub fn remove(&mut self, slot: u32) {
        if self.executing.remove(slot).is_none() {
            self.queued.remove(slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::Deadlines;

    #[test]
    fn among_equals_the_first_to_come_is_first_wherever_it_is() {
        let mut due = Deadlines::new();
        due.push(3, 10, 1);
        due.push(4, 10, 0);
        due.begin(&[4]);
        assert_eq!(due.peek(), Some((10, 4)));
        due.remove(4);
        assert_eq!(due.peek(), Some((10, 3)));
    }

    proptest! {
        /// Beside a sorted set, with slots that come, begin, go back and leave.
        #[test]
        fn agrees_with_a_sorted_set(
            steps in prop::collection::vec((0u8..5, 0u32..60, -40i64..40), 1..600)
        ) {
            let (mut due, mut model) = (Deadlines::new(), BTreeSet::new());
            for (order, (kind, slot, deadline_ns)) in (0u64..).zip(steps) {
                let known = model.iter().find(|&&(_, _, other)| other == slot).copied();
                match (kind, known) {
                    (0 | 1, None) => {
                        due.push(slot, deadline_ns, order);
                        model.insert((deadline_ns, order, slot));
                    }
                    (0, Some(entry)) => {
                        due.remove(slot);
                        model.remove(&entry);
                    }
                    (1 | 2, _) => due.begin(&[slot, slot + 1]),
                    (3, _) => {
                        // Some of them queued, some executing, some not there.
                        let slots: Vec<u32> = (slot..60).step_by(1 + slot as usize % 3).collect();
                        due.end(&slots);
                        model.retain(|entry| !slots.contains(&entry.2));
                    }
                    _ => due.requeue(slot),
                }
                prop_assert_eq!(due.len(), model.len());
                prop_assert_eq!(due.peek(), model.first().map(|&(at_ns, _, slot)| (at_ns, slot)));
            }
            while let Some((at_ns, _, slot)) = model.pop_first() {
                prop_assert_eq!(due.peek(), Some((at_ns, slot)));
                due.remove(slot);
            }
            prop_assert!(due.is_empty());
        }
    }
}
