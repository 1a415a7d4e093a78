//! Who leaves the queue when there is no room for somebody better.
use std::collections::BinaryHeap;

use crate::batch::{Item, Priority};
use crate::fair::steps_over;

use super::Scheduler;

/// Requests that one arrival may displace; what needs more room than that is refused.
const MAX_VICTIMS: usize = 64;
/// Within a class, a tenant must be this many steps further over its share than the arrival's.
const MARGIN_STEPS: u32 = 2;
/// The heaps keep entries of requests that are gone; at twice the queue they are dropped.
const LEAST_KEPT: usize = 64;

/// A queued request as something to give up; the greatest goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    /// How far its tenant was over its fair share.
    steps: u32,
    /// Complement of its value for each unit of work: the least valuable is the greatest.
    cheapness: u64,
    ticket: u64,
}

/// The queued requests of a pool by class, the first to be displaced on top.
#[derive(Debug, Default)]
pub(super) struct Displaceable {
    heaps: [BinaryHeap<Entry>; 3],
}

/// What an arrival needs: room for so many more requests and units in the queue.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Room {
    pub requests: u64,
    pub units: u64,
}

fn class_of(priority: Priority) -> usize {
    priority as usize - 1
}

impl Displaceable {
    /// Notes a queued request; `over` is what its tenant had of its fair share.
    pub(super) fn push(&mut self, ticket: u64, item: &Item, over: f64) {
        // The bits of a positive float order as the float does.
        let cheapness = !(item.weight / item.units as f64).to_bits();
        let entry = Entry { steps: steps_over(over), cheapness, ticket };
        self.heaps[class_of(item.priority)].push(entry);
    }

    /// Drops entries of requests that are gone, once they are the greater part.
    fn trim(&mut self, queued: u64, is_queued: impl Fn(u64) -> bool) {
        let total: usize = self.heaps.iter().map(BinaryHeap::len).sum();
        if total as u64 > 2 * queued + LEAST_KEPT as u64 {
            for heap in &mut self.heaps {
                heap.retain(|entry| is_queued(entry.ticket));
            }
        }
    }
}

impl Scheduler {
    /// Notes that a request was admitted and may be displaced while it is queued.
    pub(super) fn note_displaceable(&mut self, pool: u64, ticket: u64, item: &Item, over: f64) {
        let Some(slot) = self.pools.slot(pool) else { return };
        let live = &self.live;
        let Some(pool) = self.pools.at_mut(slot) else { return };
        pool.displaceable.push(ticket, item, over);
        let queued = pool.queued.requests;
        pool.displaceable.trim(queued, |ticket| queued_slot(live, ticket).is_some());
    }

    /// Queued requests to give up for an arrival; empty if there are not enough.
    ///
    /// Lower classes first, the lowest before the others; within the arrival's own class those of
    /// a tenant clearly further over its fair share; among equals the least valuable.
    /// O(k log n) for k victims.
    pub(super) fn victims(&mut self, pool: u64, item: &Item, over: f64, room: Room) -> Vec<u32> {
        let mut found = Vec::new();
        let (mut requests, mut units) = (0, 0);
        let mut popped = Vec::new();
        let own = class_of(item.priority);
        let Some(pool_slot) = self.pools.slot(pool) else { return found };
        let live = &self.live;
        let Some(pool) = self.pools.at_mut(pool_slot) else { return found };
        for class in (own..3).rev() {
            let heap = &mut pool.displaceable.heaps[class];
            while requests < room.requests.max(1) || units < room.units {
                let Some(entry) = heap.peek().copied() else { break };
                let Some(slot) = queued_slot(live, entry.ticket) else {
                    heap.pop();
                    continue;
                };
                let is_better = class > own || entry.steps >= steps_over(over) + MARGIN_STEPS;
                if !is_better || found.len() >= MAX_VICTIMS {
                    break;
                }
                heap.pop();
                // Who came back from a replica was noted again, and may be here twice.
                if found.contains(&slot) {
                    continue;
                }
                popped.push((class, entry));
                found.push(slot);
                requests += 1;
                units += live.at(slot).map_or(0, |request| request.item.units);
            }
        }
        if requests < room.requests.max(1) || units < room.units {
            found.clear();
            for (class, entry) in popped {
                pool.displaceable.heaps[class].push(entry);
            }
        }
        found
    }
}

fn queued_slot(live: &crate::slab::Slab<super::Request>, ticket: u64) -> Option<u32> {
    let slot = live.slot(ticket)?;
    let is_queued = live.at(slot).is_some_and(super::Request::is_queued);
    is_queued.then_some(slot)
}
