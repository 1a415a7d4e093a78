//! Whether an output is taken in, and who gives way to it.
#![allow(clippy::result_large_err)] // refusals are as common as admissions: no allocation for one
use crate::batch::Lane;
use crate::check;
use crate::error::CoreError;
use crate::lanes::Waiting;
use crate::limiter::GradientLimiter;
use crate::scheduler::admission::{no_capacity, MIN_RETRY_NS, RETRY_PART};
use crate::scheduler::offer::{priority_of, Admission, Demand, Reading, RefusalReason, Verdict};
use crate::scheduler::tenancy::Classes;
use crate::scheduler::{signed, Scheduler};

use super::Output;

/// An output at the door, as the caller gave it.
#[derive(Debug, Clone, Copy)]
pub struct OutputOffer {
    /// Tenant handle.
    pub tenant: i64,
    /// Pool handle.
    pub pool: i64,
    /// Prompt and expected output, >= 1.
    pub units: i64,
    /// Instant by which it must be written.
    pub deadline_ns: i64,
    /// 1 critical, 2 standard, 3 sheddable.
    pub priority: i64,
    /// Lanes of the fleet, >= 0: the limit is never below.
    pub lanes: i64,
    /// True if a replica takes an output now.
    pub is_open: bool,
    /// Least time from a lane to the last unit, ns; -1 where there is no evidence.
    pub service_ns: i64,
}

/// A checked output at the door.
struct Arrival {
    now_ns: i64,
    pool: u64,
    tenant: u32,
    weight: f64,
    place: Waiting,
    demand: Demand,
    wait_ns: i64,
    reading: Reading,
}

impl OutputOffer {
    fn check(&self) -> Result<Demand, CoreError> {
        check::count("lanes", self.lanes, 0, check::MAX_NS, "from 0 to 2**62")?;
        if self.service_ns != -1 {
            check::duration("service_ns", self.service_ns, 0)?;
        }
        Ok(Demand {
            units: check::count("units", self.units, 1, check::MAX_UNITS, "from 1 to 2**38")?,
            rows: 1,
            deadline_ns: check::instant("deadline_ns", self.deadline_ns)?,
            priority: priority_of(self.priority)?,
            lane: Lane::Interactive,
            weight: 1.0,
        })
    }
}

impl Scheduler {
    /// Takes an output in, or refuses it; a refusal costs the tenant nothing.
    ///
    /// The order of the steps: quota, the tenant's own queue, expiry, time, the pool's limit, its
    /// queue, the bound on live outputs. For want of room an output that waits leaves first: of a
    /// lower class, or of a tenant with more in hand for its weight. O(log n).
    ///
    /// # Errors
    /// A bad argument or an unknown handle.
    pub fn admit_output(
        &mut self,
        now_ns: i64,
        offer: &OutputOffer,
    ) -> Result<Result<Admission, Verdict>, CoreError> {
        let demand = offer.check()?;
        let now_ns = self.advance(now_ns)?;
        let tenant = self.tenant_slot(offer.tenant)?;
        self.pool_slot(offer.pool)?;
        self.tenants.touch(now_ns, tenant);
        let arrival = self.output_arrival(now_ns, tenant, offer, demand);
        if let Some(verdict) =
            self.refuse_by_tenant(now_ns, tenant, &arrival.demand, &arrival.reading)
        {
            return Ok(Err(Verdict { pool: offer.pool, ..verdict }));
        }
        if let Some(verdict) = refuse_by_time(&arrival, offer.service_ns) {
            return Ok(Err(verdict));
        }
        let mut displaced = Vec::new();
        if let Some((reason, needed, available)) = self.output_crowding(&arrival) {
            let place = arrival.place;
            let lanes = self.pool_mut(arrival.pool).map(|pool| &pool.lanes);
            let victim = lanes
                .and_then(|lanes| lanes.shares.victim(place.class, place.tenant, arrival.weight));
            let Some(victim) = victim else {
                return Ok(Err(self.refuse_output(&arrival, reason, needed, available)));
            };
            self.displace_output(victim.id);
            displaced.push(victim.id);
        }
        Ok(self.enter_output(&arrival, displaced))
    }

    fn output_arrival(
        &mut self,
        now_ns: i64,
        tenant: u32,
        offer: &OutputOffer,
        demand: Demand,
    ) -> Arrival {
        let (pool, class) = (offer.pool.unsigned_abs(), Classes::of(demand.priority));
        let weight = self.tenants.weight(tenant);
        let (key, id) = (offer.tenant.unsigned_abs(), u64::MAX);
        let place = Waiting { tenant: key, class, deadline_ns: demand.deadline_ns, id };
        let mut reading = self.read_tenant(now_ns, tenant);
        let mut wait_ns = 0;
        if let Some(pool) = self.pool_mut(pool) {
            let ahead = pool.lanes.shares.ahead(&place, weight);
            if ahead > 0 || !offer.is_open {
                wait_ns = pool.lanes.ends.wait_ns(now_ns, ahead);
            }
            pool.classes.asked_at_ns[class] = Some(now_ns);
            let limit = pool.limiter.as_ref().map_or(0, GradientLimiter::limit);
            reading.limit = if limit > 0 { limit.max(offer.lanes.unsigned_abs()) } else { 0 };
            reading.inflight = pool.classes.total();
            reading.reserved = pool.kept_for_higher(now_ns, class, reading.limit);
            reading.share_ratio = pool.lanes.shares.over(key);
            reading.queued_requests = pool.lanes.shares.num_waiting();
            reading.queued_units = pool.lanes.waiting_units;
            reading.executing_requests = pool.lanes.ends.len() as u64;
            reading.drain_ns = wait_ns;
        }
        Arrival { now_ns, pool, tenant, weight, place, demand, wait_ns, reading }
    }

    /// Which bound leaves no room, what the arrival would make it, and what it is.
    fn output_crowding(&mut self, arrival: &Arrival) -> Option<(RefusalReason, u64, u64)> {
        let (reading, live) = (&arrival.reading, self.outputs.len() as u64);
        let is_full = self.outputs.is_full();
        if reading.limit > 0 && reading.inflight + reading.reserved + 1 > reading.limit {
            let available = reading.limit.saturating_sub(reading.reserved);
            return Some((RefusalReason::LimitReached, reading.inflight + 1, available));
        }
        let bound = self.pool_mut(arrival.pool)?.max_queued_requests;
        if reading.queued_requests + 1 > bound {
            return Some((RefusalReason::QueueFull, reading.queued_requests + 1, bound));
        }
        is_full.then_some((RefusalReason::Overloaded, live + 1, live))
    }

    fn refuse_output(
        &mut self,
        arrival: &Arrival,
        reason: RefusalReason,
        needed: u64,
        available: u64,
    ) -> Verdict {
        // As many have to end, or an eighth of the queue where the others come again as well.
        let behind = match reason {
            RefusalReason::LimitReached => needed.saturating_sub(available + 1),
            _ => arrival.reading.queued_requests / RETRY_PART.unsigned_abs(),
        };
        let mut retry_after_ns = MIN_RETRY_NS;
        if let Some(pool) = self.pool_mut(arrival.pool) {
            let wait_ns = pool.lanes.ends.wait_ns(arrival.now_ns, behind);
            retry_after_ns = wait_ns.max(MIN_RETRY_NS);
        }
        Verdict {
            reason,
            pool: signed(arrival.pool),
            retry_after_ns,
            needed: signed(needed),
            available: signed(available),
            reading: arrival.reading,
        }
    }

    fn displace_output(&mut self, ticket: u64) {
        let slot = self.outputs.slot(ticket);
        let Some(output) = slot.and_then(|slot| self.outputs.take(slot)) else { return };
        self.settle_output(&output, 0);
        if let Some(pool) = self.pool_mut(output.pool) {
            pool.lanes.waiting_units -= output.units;
            pool.lanes.shares.withdraw(&output.place);
            pool.classes.inflight[output.place.class] -= 1;
            pool.classes.displaced[output.place.class] += 1;
        }
    }

    fn enter_output(
        &mut self,
        arrival: &Arrival,
        displaced: Vec<u64>,
    ) -> Result<Admission, Verdict> {
        let (pool, tenant, units) = (arrival.pool, arrival.tenant, arrival.demand.units);
        let output = Output { pool, tenant, place: arrival.place, units, writing: None };
        let entered = self.outputs.insert(output);
        let entered = entered.and_then(|key| Some((key, self.outputs.slot(key)?)));
        // There is room: `output_crowding` has looked.
        let Some((ticket, slot)) = entered else {
            return Err(no_capacity(signed(pool), arrival.reading));
        };
        let place = Waiting { id: ticket, ..arrival.place };
        if let Some(output) = self.outputs.at_mut(slot) {
            output.place = place;
        }
        if let Some(bucket) = self.tenants.bucket_mut(tenant) {
            bucket.take(arrival.now_ns, units);
        }
        if let Some(tenant) = self.tenants.at_mut(tenant) {
            tenant.live += 1;
        }
        self.count_queued(tenant, units);
        if let Some(pool) = self.pool_mut(pool) {
            pool.lanes.waiting_units += units;
            pool.lanes.shares.push(&place, arrival.weight);
            pool.classes.inflight[place.class] += 1;
        }
        Ok(Admission { ticket, pool, displaced, reading: arrival.reading })
    }
}

/// What has passed its deadline, or would. `service_ns` is -1 where there is no evidence.
fn refuse_by_time(arrival: &Arrival, service_ns: i64) -> Option<Verdict> {
    let slack_ns = arrival.demand.deadline_ns.saturating_sub(arrival.now_ns);
    let refuse = |reason, needed| {
        let (pool, reading) = (signed(arrival.pool), arrival.reading);
        Some(Verdict { reason, pool, retry_after_ns: 0, needed, available: slack_ns, reading })
    };
    if slack_ns <= 0 {
        return refuse(RefusalReason::DeadlineExpired, 1);
    }
    let needed_ns = arrival.wait_ns.saturating_add(service_ns);
    if service_ns >= 0 && needed_ns > slack_ns {
        return refuse(RefusalReason::DeadlineUnreachable, needed_ns);
    }
    None
}
