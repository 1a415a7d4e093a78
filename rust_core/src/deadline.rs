//! Which live request runs out of time first.

const ABSENT: u32 = u32::MAX;
/// Children of a node: a wide heap is shallow, and siblings share cache lines.
const ARITY: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    deadline_ns: i64,
    order: u64,
    slot: u32,
}

/// A 4-ary heap that knows where each slot is, so that any of them can leave.
///
/// Ties go to the smaller `order`. Push and remove O(log n), peek O(1).
#[derive(Debug, Default)]
pub struct DeadlineHeap {
    heap: Vec<Due>,
    position: Vec<u32>,
}

impl DeadlineHeap {
    /// Empty.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Slots in the heap.
    #[must_use]
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// True without slots.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// The earliest deadline and its slot.
    #[must_use]
    pub fn peek(&self) -> Option<(i64, u32)> {
        self.heap.first().map(|due| (due.deadline_ns, due.slot))
    }

    /// Adds a slot that is not in the heap.
    pub fn push(&mut self, slot: u32, deadline_ns: i64, order: u64) {
        let needed = slot as usize + 1;
        if self.position.len() < needed {
            self.position.resize(needed, ABSENT);
        }
        self.heap.push(Due { deadline_ns, order, slot });
        self.sift_up(self.heap.len() - 1);
    }

    /// Takes a slot out; does nothing if it is not in the heap.
    pub fn remove(&mut self, slot: u32) {
        let Some(place) = self.position.get_mut(slot as usize) else { return };
        let at = std::mem::replace(place, ABSENT) as usize;
        if at >= self.heap.len() {
            return;
        }
        self.heap.swap_remove(at);
        if at < self.heap.len() {
            self.sift_down(at);
            self.sift_up(at);
        }
    }

    fn sift_up(&mut self, from: usize) {
        let due = self.heap[from];
        let mut at = from;
        while at > 0 && due < self.heap[(at - 1) / ARITY] {
            self.place((at - 1) / ARITY, at);
            at = (at - 1) / ARITY;
        }
        self.settle(due, at);
    }

    fn sift_down(&mut self, from: usize) {
        let due = self.heap[from];
        let mut at = from;
        while let Some(child) = self.least_child(at).filter(|&child| self.heap[child] < due) {
            self.place(child, at);
            at = child;
        }
        self.settle(due, at);
    }

    fn least_child(&self, of: usize) -> Option<usize> {
        let first = ARITY * of + 1;
        let children = first..(first + ARITY).min(self.heap.len());
        children.min_by_key(|&child| self.heap[child])
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
