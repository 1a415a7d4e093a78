//! Outputs that are streamed: taken in under the limit and the shares, begun lane by lane.
//!
//! They pass through no batch. Which replica has a lane is for the caller to know; who begins
//! next, who gives way and who is refused is decided here (docs/adr/0063).
mod door;

use crate::check;
use crate::error::CoreError;
use crate::lanes::{Expected, LaneEnds, LaneShares, Waiting};

use super::Scheduler;

pub use door::OutputOffer;

/// What became of an output that ends.
#[derive(Debug, Clone, Copy, Default)]
pub struct OutputReport {
    /// Units to pay for: prompt and what was written; 0 where nothing was.
    pub used_units: i64,
    /// How long its writing took, ns.
    pub measured_ns: i64,
    /// How long it was planned to take, ns; 0 where that says nothing of congestion.
    pub planned_ns: i64,
}

/// The outputs of a pool.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    pub shares: LaneShares,
    pub ends: LaneEnds,
    /// Units of those that wait.
    waiting_units: u64,
}

/// A live output.
#[derive(Debug)]
pub(super) struct Output {
    pool: u64,
    /// Slot of its tenant, which stays while anything of it is live.
    tenant: u32,
    place: Waiting,
    units: u64,
    writing: Option<Writing>,
}

/// An output in its lane.
#[derive(Debug, Clone, Copy)]
struct Writing {
    since_ns: i64,
    /// Lanes that it is worth, by its memory.
    size: f64,
    /// Lane time that its tenant was charged.
    cost: f64,
}

impl Scheduler {
    /// The output that begins next; `None` if none waits. O(log n).
    ///
    /// # Errors
    /// An unknown pool.
    pub fn next_output(&self, pool: i64) -> Result<Option<u64>, CoreError> {
        let slot = self.pool_slot(pool)?;
        Ok(self.pools.at(slot).and_then(|pool| pool.lanes.shares.first()))
    }

    /// A waiting output gets a lane. Its tenant is charged for the expected time there, times
    /// `size`: the lanes that its memory would be enough for, >= 1. False if it does not wait.
    ///
    /// # Errors
    /// A duration or a size out of range.
    pub fn begin_output(
        &mut self,
        now_ns: i64,
        ticket: i64,
        expected: Expected,
        size: f64,
    ) -> Result<bool, CoreError> {
        check::duration("hold_ns", expected.hold_ns, 1)?;
        check::duration("longest_ns", expected.longest_ns, 1)?;
        if !(1.0..=1e6).contains(&size) {
            return Err(CoreError::argument("size", size, "from 1 to 1e6"));
        }
        let now_ns = self.advance(now_ns)?;
        let Some(slot) = self.output_slot(ticket) else { return Ok(false) };
        let Some(output) = self.outputs.at_mut(slot).filter(|each| each.writing.is_none()) else {
            return Ok(false);
        };
        let cost = expected.hold_ns as f64 * size;
        output.writing = Some(Writing { since_ns: now_ns, size, cost });
        let (pool, tenant, place, units) = (output.pool, output.tenant, output.place, output.units);
        self.count_dequeued(tenant, units);
        if let Some(pool) = self.pool_mut(pool) {
            pool.lanes.waiting_units -= units;
            pool.lanes.shares.begin(&place, cost);
            pool.lanes.ends.begin(now_ns, place.id, expected);
        }
        Ok(true)
    }

    /// An output that had a lane waits again, at its place: its worker was busy, failed or was
    /// lost. Its tenant is not charged for it. False if it had none.
    pub fn return_output(&mut self, ticket: i64) -> bool {
        let Some(slot) = self.output_slot(ticket) else { return false };
        let Some(output) = self.outputs.at_mut(slot) else { return false };
        let Some(writing) = output.writing.take() else { return false };
        let (pool, tenant, place, units) = (output.pool, output.tenant, output.place, output.units);
        self.count_queued(tenant, units);
        if let Some(pool) = self.pool_mut(pool) {
            pool.lanes.waiting_units += units;
            pool.lanes.shares.give_back(&place, writing.cost);
            pool.lanes.ends.remove(place.id);
        }
        true
    }

    /// Ends an output, waiting or written; false if it had ended.
    ///
    /// Its quota is settled with the units used, and its tenant's share with the time that it held
    /// its lane. The limit learns from what its writing took beyond the plan.
    ///
    /// # Errors
    /// Units or a duration out of range.
    pub fn end_output(
        &mut self,
        now_ns: i64,
        ticket: i64,
        report: &OutputReport,
    ) -> Result<bool, CoreError> {
        let most = check::MAX_UNITS;
        let used = check::count("used_units", report.used_units, 0, most, "from 0 to 2**38")?;
        check::duration("measured_ns", report.measured_ns, 0)?;
        check::duration("planned_ns", report.planned_ns, 0)?;
        let now_ns = self.advance(now_ns)?;
        let Some(output) = self.output_slot(ticket).and_then(|slot| self.outputs.take(slot)) else {
            return Ok(false);
        };
        self.settle_output(&output, used);
        let place = output.place;
        let Some(pool) = self.pool_mut(output.pool) else { return Ok(true) };
        let Some(writing) = output.writing else {
            pool.lanes.waiting_units -= output.units;
            pool.lanes.shares.withdraw(&place);
            pool.classes.inflight[place.class] -= 1;
            return Ok(true);
        };
        let held_ns = now_ns.saturating_sub(writing.since_ns);
        pool.lanes.shares.end(place.tenant, writing.cost, held_ns as f64 * writing.size);
        pool.lanes.ends.remove(place.id);
        if used > 0 {
            pool.lanes.ends.learn(held_ns);
        }
        let inflight = pool.classes.total();
        if let Some(limiter) = pool.limiter.as_mut().filter(|_| report.planned_ns > 0) {
            limiter.observe(report.measured_ns, report.planned_ns, inflight);
        }
        pool.classes.inflight[place.class] -= 1;
        Ok(true)
    }

    /// Outputs that wait in a pool, and the time until one more would get a lane behind them.
    ///
    /// # Errors
    /// An unknown pool or a bad instant.
    pub fn waiting_outputs(&mut self, now_ns: i64, pool: i64) -> Result<(u64, i64), CoreError> {
        let (now_ns, slot) = (self.advance(now_ns)?, self.pool_slot(pool)?);
        let Some(pool) = self.pools.at_mut(slot) else { return Ok((0, 0)) };
        let waiting = pool.lanes.shares.num_waiting();
        Ok((waiting, pool.lanes.ends.wait_ns(now_ns, waiting)))
    }

    /// Outputs that wait or are written.
    #[must_use]
    pub fn num_outputs(&self) -> usize {
        self.outputs.len()
    }

    /// Ends the outputs of a pool that is removed.
    pub(super) fn end_outputs_of(&mut self, pool: u64) {
        let inside = self.outputs.iter().filter(|(_, output)| output.pool == pool);
        let slots: Vec<u32> = inside.map(|(slot, _)| slot).collect();
        for slot in slots {
            if let Some(output) = self.outputs.take(slot) {
                self.settle_output(&output, 0);
            }
        }
    }

    fn output_slot(&self, ticket: i64) -> Option<u32> {
        u64::try_from(ticket).ok().and_then(|key| self.outputs.slot(key))
    }

    /// Settles quota and counts with the tenant of an output that has ended.
    fn settle_output(&mut self, output: &Output, used: u64) {
        let (now_ns, tenant) = (self.now_ns, output.tenant);
        if output.writing.is_none() {
            self.count_dequeued(tenant, output.units);
        }
        if let Some(bucket) = self.tenants.bucket_mut(tenant) {
            bucket.settle(now_ns, output.units, used);
        }
        if let Some(tenant) = self.tenants.at_mut(tenant) {
            tenant.live -= 1;
        }
    }
}

#[cfg(test)]
mod tests;
