//! How requests end, and how they go back into the queue.
use crate::error::CoreError;
use crate::tenants::Used;

use super::report::Ended;
use super::{signed, Scheduler};

impl Scheduler {
    /// Ends a request; None if it is not live.
    ///
    /// # Errors
    /// A bad instant.
    pub fn cancel(&mut self, now_ns: i64, ticket: i64) -> Result<Option<Ended>, CoreError> {
        self.advance(now_ns)?;
        let slot = u64::try_from(ticket).ok().and_then(|key| self.live.slot(key));
        Ok(slot.and_then(|slot| self.finish(slot)))
    }

    /// Ends every request whose deadline is at or before `now_ns`, earliest first, and every
    /// queued one that no replica can serve in time any more. O(pools + k log n).
    ///
    /// # Errors
    /// A bad instant.
    pub fn expire(&mut self, now_ns: i64) -> Result<Vec<Ended>, CoreError> {
        let now_ns = self.advance(now_ns)?;
        let mut ended = Vec::new();
        while let Some((_, slot)) = self.deadlines.peek().filter(|due| due.0 <= now_ns) {
            let Some(one) = self.finish(slot) else { break };
            ended.push(one);
        }
        for slot in self.hopeless(now_ns) {
            ended.extend(self.finish(slot));
        }
        Ok(ended)
    }

    fn hopeless(&mut self, now_ns: i64) -> Vec<u32> {
        let mut slots = Vec::new();
        for (_, pool) in self.pools.iter_mut() {
            if pool.queued.requests > 0 {
                pool.policy.take_hopeless(now_ns, &mut slots);
            }
        }
        slots
    }

    /// Ends a request before its answer, or without one.
    pub(super) fn finish(&mut self, slot: u32) -> Option<Ended> {
        self.finish_after(slot, None)
    }

    /// The only way out: takes a request from wherever it is. What it `used` is what its tenant
    /// pays for; None if that is not known.
    pub(super) fn finish_after(&mut self, slot: u32, used: Option<Used>) -> Option<Ended> {
        let ticket = self.live.key(slot)?;
        let request = self.live.take(slot)?;
        self.deadlines.remove(slot);
        let mut ended = Ended { ticket, batch: request.batch, replica: -1 };
        if request.is_queued() {
            if let Some(pool) = self.pool_mut(request.pool) {
                pool.dequeue(slot, &request.item);
            }
        } else {
            if let Some(pool) = self.pool_mut(request.pool) {
                pool.executing_requests -= 1;
            }
            let mut twin = None;
            if let Some(dispatch) = self.dispatches.get_mut(&request.batch) {
                dispatch.live -= 1;
                ended.replica = signed(dispatch.replica);
                twin = dispatch.twin;
            }
            if let Some(copy) = twin.and_then(|twin| self.dispatches.get_mut(&twin)) {
                copy.live -= 1;
            }
        }
        if request.has_failed() {
            self.close_cases(slot);
        }
        self.settle(&request, used);
        Some(ended)
    }

    /// True if an executing request could still be served in time.
    pub(super) fn has_time(&self, now_ns: i64, slot: u32) -> bool {
        let Some(request) = self.live.at(slot) else { return false };
        let Some(pool) = self.pools.slot(request.pool).and_then(|slot| self.pools.at(slot)) else {
            return false;
        };
        let fastest = pool.fastest().and_then(|replica| self.replicas.at(replica));
        let alone_ns = fastest.map_or(0, |replica| pool.alone_ns(request.item.units, replica));
        now_ns.saturating_add(alone_ns.max(1)) <= request.item.deadline_ns
    }

    /// Puts an executing request back at its place. False if its pool is gone.
    pub(super) fn requeue(&mut self, now_ns: i64, slot: u32) -> bool {
        let Some(request) = self.live.at_mut(slot) else { return false };
        let Some(pool_slot) = self.pools.slot(request.pool) else { return false };
        let Some(pool) = self.pools.at_mut(pool_slot) else { return false };
        request.batch = 0;
        self.deadlines.requeue(slot);
        pool.executing_requests -= 1;
        pool.enqueue(now_ns, slot, &request.item);
        let (tenant, item, key) = (request.tenant, request.item, request.pool);
        self.count_queued(tenant, item.units);
        if let Some(ticket) = self.live.key(slot) {
            // While it was executing, its note may have been dropped.
            let over = self.tenants.over(now_ns, tenant);
            self.note_displaceable(key, ticket, &item, over);
        }
        true
    }
}
