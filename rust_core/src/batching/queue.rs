//! What is queued, found by slot, by key and by the last instant at which it can start.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::index::{Entry, KeyIndex, Load, Order};
use crate::batch::{Item, Lane, Priority};

const NONE: u32 = u32::MAX;
/// Classes below the highest.
pub const NUM_LOW: usize = 2;

fn rank(priority: Priority) -> usize {
    match priority {
        Priority::Critical => 0,
        Priority::Standard => 1,
        Priority::Sheddable => 2,
    }
}

/// Where a request is in the queue.
pub type Handle = u32;

/// A queued request.
#[derive(Clone, Copy, Debug)]
pub struct Queued {
    /// The scheduler's name for it.
    pub slot: u32,
    /// The request.
    pub item: Item,
    /// Its place.
    pub order: Order,
    /// Its key when it came, relative to an average one.
    pub relative_key: f64,
    /// Last instant at which the fastest replica could start it alone.
    pub last_start_ns: i64,
    /// Which shape its key was made with.
    pub epoch: u32,
    /// Among the largest tenth.
    pub is_large: bool,
    /// Interactive, and longer than the quantum.
    pub is_long: bool,
    /// Where it is in `Queue::low`; set by the queue.
    pub low: Option<usize>,
}

/// Requests in key order, by lane. Memory is bounded by the most that were queued at once.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    slab: Vec<Option<Queued>>,
    free: Vec<Handle>,
    /// Handle of each slot.
    handles: Vec<Handle>,
    /// Someone waits for these.
    pub interactive: KeyIndex,
    /// Background work.
    pub bulk: KeyIndex,
    /// The largest tenth, of both lanes.
    pub large: KeyIndex,
    /// Interactive requests that were longer than the quantum when they came: where a batch holds
    /// about one request, whatever fits into the quantum goes before them.
    pub long: KeyIndex,
    /// Interactive requests of class standard and sheddable that came after one of a higher class.
    pub low: [KeyIndex; NUM_LOW],
    /// Rank of the highest class that was seen here; without one above it, a class needs no index.
    highest: Option<usize>,
    last_starts: BinaryHeap<Reverse<(i64, Handle)>>,
}

impl Queue {
    /// Requests and units in it.
    #[must_use]
    pub fn total(&self) -> Load {
        let (a, b) = (self.interactive.total(), self.bulk.total());
        Load { requests: a.requests + b.requests, units: a.units + b.units }
    }

    /// Handles ever given out: those below are used or free.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.slab.len()
    }

    /// Interactive requests that go before one with this place, as far as is known. O(log n).
    #[must_use]
    pub fn ahead(&self, order: Order, is_long: bool) -> Load {
        let long_ahead = self.long.ahead_of(order);
        if is_long {
            self.interactive.total().less(self.long.total()).and(long_ahead)
        } else {
            self.interactive.ahead_of(order).less(long_ahead)
        }
    }

    /// A request by its handle.
    #[must_use]
    pub fn get(&self, handle: Handle) -> Option<&Queued> {
        self.slab.get(handle as usize)?.as_ref()
    }

    /// Adds a request. O(log n).
    #[allow(clippy::cast_possible_truncation)] // slots are u32, and there are no more handles
    pub fn insert(&mut self, mut queued: Queued) {
        queued.low = self.low_rank(&queued.item);
        let handle = self.free.pop().unwrap_or_else(|| {
            self.slab.push(None);
            (self.slab.len() - 1) as Handle
        });
        let slot = queued.slot as usize;
        if self.handles.len() <= slot {
            self.handles.resize(slot + 1, NONE);
        }
        self.handles[slot] = handle;
        self.slab[handle as usize] = Some(queued);
        self.index(handle, &queued);
        self.last_starts.push(Reverse((queued.last_start_ns, handle)));
        self.trim();
    }

    /// Takes a request out by its slot; does nothing if it is not queued. O(log n).
    pub fn remove_slot(&mut self, slot: u32) {
        let handle = self.handles.get(slot as usize).copied().unwrap_or(NONE);
        if handle != NONE {
            self.remove(handle);
        }
    }

    /// Takes a request out. O(log n).
    pub fn remove(&mut self, handle: Handle) -> Option<Queued> {
        let queued = self.slab.get_mut(handle as usize)?.take()?;
        self.unindex(handle, &queued);
        self.handles[queued.slot as usize] = NONE;
        self.free.push(handle);
        Some(queued)
    }

    /// Gives a request another place. O(log n).
    pub fn move_to(&mut self, handle: Handle, order: Order, epoch: u32) {
        let Some(mut queued) = self.get(handle).copied() else { return };
        self.unindex(handle, &queued);
        (queued.order, queued.epoch) = (order, epoch);
        self.index(handle, &queued);
        self.slab[handle as usize] = Some(queued);
    }

    /// The request whose last start is earliest, if that is before `now_ns`.
    pub fn overdue(&mut self, now_ns: i64) -> Option<Queued> {
        while let Some(Reverse((last_start_ns, handle))) = self.last_starts.peek().copied() {
            match self.get(handle) {
                Some(queued) if queued.last_start_ns == last_start_ns => {
                    return (last_start_ns < now_ns).then_some(*queued);
                }
                _ => self.last_starts.pop(),
            };
        }
        None
    }

    /// Sets another last start for the request that `overdue` returned.
    pub fn postpone(&mut self, slot: u32, last_start_ns: i64) {
        let handle = self.handles[slot as usize];
        self.last_starts.pop();
        if let Some(Some(queued)) = self.slab.get_mut(handle as usize) {
            queued.last_start_ns = last_start_ns;
            self.last_starts.push(Reverse((last_start_ns, handle)));
        }
    }

    /// Earliest last start, and the deadline that goes with it.
    #[must_use]
    pub fn next_due(&self) -> Option<(i64, i64)> {
        let Reverse((last_start_ns, handle)) = self.last_starts.peek()?;
        let deadline_ns =
            self.get(*handle).map_or(*last_start_ns, |queued| queued.item.deadline_ns);
        Some((*last_start_ns, deadline_ns))
    }

    fn index(&mut self, handle: Handle, queued: &Queued) {
        let entry = Entry { order: queued.order, handle, units: queued.item.units };
        match queued.item.lane {
            Lane::Interactive => self.interactive.insert(entry),
            Lane::Bulk => self.bulk.insert(entry),
        }
        if queued.is_large {
            self.large.insert(entry);
        }
        if queued.is_long {
            self.long.insert(entry);
        }
        if let Some(rank) = queued.low {
            self.low[rank].insert(entry);
        }
    }

    fn low_rank(&mut self, item: &Item) -> Option<usize> {
        if item.lane != Lane::Interactive {
            return None;
        }
        let class = rank(item.priority);
        match self.highest {
            Some(highest) if highest <= class => (class > highest).then(|| class - 1),
            _ => {
                self.highest = Some(class);
                self.index_below(class);
                None
            }
        }
    }

    /// Indexes what is queued below `class`, the first of its kind here. O(n log n), twice at most.
    #[allow(clippy::cast_possible_truncation)] // handles are u32
    fn index_below(&mut self, class: usize) {
        for handle in 0..self.slab.len() {
            let Some(queued) = &mut self.slab[handle] else { continue };
            let below = rank(queued.item.priority);
            if queued.item.lane == Lane::Interactive && below > class && queued.low.is_none() {
                queued.low = Some(below - 1);
                let (order, units) = (queued.order, queued.item.units);
                self.low[below - 1].insert(Entry { order, handle: handle as Handle, units });
            }
        }
    }

    fn unindex(&mut self, handle: Handle, queued: &Queued) {
        match queued.item.lane {
            Lane::Interactive => self.interactive.remove(queued.order, handle),
            Lane::Bulk => self.bulk.remove(queued.order, handle),
        };
        if queued.is_large {
            self.large.remove(queued.order, handle);
        }
        if queued.is_long {
            self.long.remove(queued.order, handle);
        }
        if let Some(rank) = queued.low {
            self.low[rank].remove(queued.order, handle);
        }
    }

    /// The heap keeps entries of requests that are gone; at twice the queue they are dropped.
    fn trim(&mut self) {
        let live = self.slab.len() - self.free.len();
        if self.last_starts.len() > 2 * live + 64 {
            let slab = &self.slab;
            self.last_starts.retain(|Reverse((at_ns, handle))| {
                slab[*handle as usize].is_some_and(|queued| queued.last_start_ns == *at_ns)
            });
        }
    }
}

#[cfg(test)]
mod tests;
