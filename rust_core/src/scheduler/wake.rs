//! What the passing of time alone changes.
use super::replica::Pipe;
use super::Scheduler;

impl Scheduler {
    /// Offers replicas again whose rest or open time is over, or that are about to be free.
    /// O(log n) for each.
    pub(super) fn wake(&mut self, now_ns: i64, pool: u32) {
        self.wake_rested(now_ns, pool);
        self.wake_open(now_ns, pool);
        self.wake_pipes(now_ns, pool);
        self.readmit(now_ns, pool);
    }

    fn wake_rested(&mut self, now_ns: i64, pool: u32) {
        while let Some(slot) = self.pools.at(pool).and_then(|pool| {
            pool.resting.first().filter(|rest| rest.0 <= now_ns).map(|rest| rest.1)
        }) {
            if let Some(replica) = self.replicas.at_mut(slot) {
                replica.resting_until_ns = None;
            }
            self.recount(slot);
        }
    }

    fn wake_open(&mut self, now_ns: i64, pool: u32) {
        while let Some(slot) = self
            .pools
            .at(pool)
            .and_then(|pool| pool.open.first().filter(|open| open.0 <= now_ns).map(|open| open.1))
        {
            if let Some(replica) = self.replicas.at_mut(slot) {
                replica.breaker.half_open();
            }
            self.recount(slot);
        }
    }

    fn wake_pipes(&mut self, now_ns: i64, pool: u32) {
        while let Some(slot) = self
            .pools
            .at(pool)
            .and_then(|pool| pool.pipes.first().filter(|pipe| pipe.0 <= now_ns).map(|pipe| pipe.1))
        {
            if let Some(replica) = self.replicas.at_mut(slot) {
                replica.pipe = if replica.pipe == Pipe::Early { Pipe::Open } else { Pipe::Late };
            }
            self.recount(slot);
        }
    }
}
