//! Which bound an arrival meets: of its tenant, of its pool, or of all live requests.
use crate::bucket::Quota;
use crate::check::to_ns;
use crate::limiter::GradientLimiter;
use crate::scheduler::displace::Room;
use crate::scheduler::offer::{Demand, Reading, RefusalReason, Verdict};
use crate::scheduler::pool::Pool;
use crate::scheduler::tenancy::Classes;
use crate::scheduler::{signed, Scheduler};

use super::{Arrival, MIN_RETRY_NS};

/// When to ask again for a version that has no replica, ns.
const NO_CAPACITY_RETRY_NS: i64 = 1_000_000_000;
/// A full queue is worth asking again once this part of it is served: the others wait as well.
pub(in crate::scheduler) const RETRY_PART: i64 = 8;
/// A class that asked for nothing for so long has nothing kept for it, ns.
const RESERVED_FOR_NS: i64 = 10_000_000_000;

/// Why there is no room for an arrival as things are, and what would have to leave.
pub(super) struct Crowding {
    reason: RefusalReason,
    needed: u64,
    available: u64,
    pub(super) room: Room,
}

impl Scheduler {
    pub(in crate::scheduler) fn read_tenant(&self, now_ns: i64, slot: u32) -> Reading {
        let (tenant, bucket) = (self.tenants.at(slot), self.tenants.bucket(slot));
        let Some((tenant, bucket)) = tenant.zip(bucket) else { return Reading::default() };
        Reading {
            tenant_units: bucket.available(now_ns),
            tenant_queued: tenant.queued_requests,
            share_ratio: self.tenants.over(now_ns, slot),
            weight_part: 1.0,
            ..Reading::default()
        }
    }

    pub(super) fn read_pool(
        &mut self,
        now_ns: i64,
        key: u64,
        demand: &Demand,
        reading: &mut Reading,
    ) {
        let Some(pool) = self.pool_mut(key) else { return };
        let class = Classes::of(demand.priority);
        pool.classes.asked_at_ns[class] = Some(now_ns);
        reading.limit = pool.limiter.as_ref().map_or(0, GradientLimiter::limit);
        reading.inflight = pool.classes.total();
        reading.reserved = pool.kept_for_higher(now_ns, class, reading.limit);
        reading.queued_requests = pool.queued.requests;
        reading.queued_units = pool.queued.units;
        reading.executing_requests = pool.executing_requests;
    }

    pub(in crate::scheduler) fn refuse_by_tenant(
        &self,
        now_ns: i64,
        slot: u32,
        demand: &Demand,
        reading: &Reading,
    ) -> Option<Verdict> {
        let tenant = self.tenants.at(slot)?;
        let refuse = |reason, retry_after_ns, needed, available| {
            let reading = *reading;
            Some(Verdict { reason, pool: -1, retry_after_ns, needed, available, reading })
        };
        let held = to_ns(reading.tenant_units.floor());
        let needed = signed(demand.units);
        match self.tenants.bucket(slot)?.check(now_ns, demand.units) {
            Quota::Enough => {}
            Quota::After(wait_ns) => {
                return refuse(RefusalReason::QuotaExceeded, wait_ns, needed, held);
            }
            Quota::Never => return refuse(RefusalReason::QuotaImpossible, 0, needed, held),
        }
        let (requests, units) = (tenant.queued_requests + 1, tenant.queued_units + demand.units);
        let full = RefusalReason::TenantQueueFull;
        if requests > tenant.max_queued_requests {
            let most = signed(tenant.max_queued_requests);
            return refuse(full, MIN_RETRY_NS, signed(requests), most);
        }
        if units > tenant.max_queued_units {
            // Beyond the bound itself it does not even fit an empty queue.
            let never = demand.units > tenant.max_queued_units;
            let retry_ns = if never { 0 } else { MIN_RETRY_NS };
            return refuse(full, retry_ns, signed(units), signed(tenant.max_queued_units));
        }
        None
    }

    pub(super) fn refuse_by_pool(
        &mut self,
        now_ns: i64,
        key: u64,
        demand: &Demand,
        reading: &Reading,
    ) -> Option<Verdict> {
        let slot = self.pools.slot(key);
        let Some(pool) = slot.and_then(|slot| self.pools.at(slot)) else {
            return Some(no_capacity(-1, *reading));
        };
        let slack_ns = demand.deadline_ns.saturating_sub(now_ns);
        let refuse = |reason, needed, available| {
            let (pool, reading) = (signed(key), *reading);
            Some(Verdict { reason, pool, retry_after_ns: 0, needed, available, reading })
        };
        if slack_ns <= 0 {
            return refuse(RefusalReason::DeadlineExpired, 1, slack_ns);
        }
        let Some(fastest) = pool.fastest().and_then(|slot| self.replicas.at(slot)) else {
            return Some(no_capacity(signed(key), *reading));
        };
        if let Some((needed, most)) = pool.envelope.excess(demand.rows, demand.units) {
            return refuse(RefusalReason::TooLarge, signed(needed), signed(most));
        }
        if demand.units > pool.max_queued_units {
            // It does not even fit an empty queue.
            let needed = pool.queued.units + demand.units;
            let bound = signed(pool.max_queued_units);
            return refuse(RefusalReason::QueueFull, signed(needed), bound);
        }
        let alone_ns = pool.alone_ns(demand.units, fastest);
        if alone_ns > slack_ns {
            if !pool.may_admit_probe(now_ns) {
                return refuse(RefusalReason::DeadlineUnreachable, alone_ns, slack_ns);
            }
            self.pool_mut(key)?.last_probe_ns = Some(now_ns);
        }
        None
    }

    /// Which bound leaves no room for an arrival; None if there is room.
    pub(super) fn crowding(&self, key: u64, arrival: &Arrival) -> Option<Crowding> {
        let slot = self.pools.slot(key)?;
        let pool = self.pools.at(slot)?;
        let reading = &arrival.reading;
        let one = Room { requests: 1, units: 0 };
        let held = reading.inflight + reading.reserved + 1;
        if reading.limit > 0 && held > reading.limit {
            // One for one: even where the limit has shrunk far below what is in hand.
            let room = one;
            let available = reading.limit.saturating_sub(reading.reserved);
            let (reason, needed) = (RefusalReason::LimitReached, reading.inflight + 1);
            return Some(Crowding { reason, needed, available, room });
        }
        let reason = RefusalReason::QueueFull;
        let requests = pool.queued.requests + 1;
        if requests > pool.max_queued_requests {
            let available = pool.max_queued_requests;
            return Some(Crowding { reason, needed: requests, available, room: one });
        }
        let units = pool.queued.units + arrival.item.units;
        if units > pool.max_queued_units {
            let available = pool.max_queued_units;
            let room = Room { requests: 1, units: units - available };
            return Some(Crowding { reason, needed: units, available, room });
        }
        if self.live.is_full() {
            let available = self.live.len() as u64;
            let reason = RefusalReason::Overloaded;
            return Some(Crowding { reason, needed: available + 1, available, room: one });
        }
        None
    }

    pub(super) fn refuse_crowded(
        &mut self,
        key: u64,
        arrival: &Arrival,
        crowding: &Crowding,
    ) -> Verdict {
        let (mut retry_after_ns, mut reading) = (MIN_RETRY_NS, arrival.reading);
        if let Some(pool) = self.pool_mut(key) {
            pool.classes.pressed_at_ns = Some(arrival.now_ns);
            reading.drain_ns = pool.drain_ns(arrival.now_ns);
            retry_after_ns = (reading.drain_ns / RETRY_PART).max(MIN_RETRY_NS);
        }
        Verdict {
            reason: crowding.reason,
            pool: signed(key),
            retry_after_ns,
            needed: signed(crowding.needed),
            available: signed(crowding.available),
            reading,
        }
    }
}

impl Pool {
    /// Requests of the limit that are kept free for classes higher than `class`, as far as these
    /// do not use them already. Nothing is kept for a class that did not ask of late.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // parts of a limit
    pub(in crate::scheduler) fn kept_for_higher(
        &self,
        now_ns: i64,
        class: usize,
        limit: u64,
    ) -> u64 {
        let kept = self.reserved.iter().enumerate().take(class);
        let unused = kept.map(|(higher, &part)| {
            let asked = self.classes.asked_at_ns[higher];
            let is_there = asked.is_some_and(|at_ns| now_ns - at_ns < RESERVED_FOR_NS);
            let reserved = if is_there { (part * limit as f64) as u64 } else { 0 };
            reserved.saturating_sub(self.classes.inflight[higher])
        });
        unused.sum()
    }
}

pub(in crate::scheduler) fn no_capacity(pool: i64, reading: Reading) -> Verdict {
    Verdict {
        reason: RefusalReason::NoCapacity,
        pool,
        retry_after_ns: NO_CAPACITY_RETRY_NS,
        needed: 1,
        available: 0,
        reading,
    }
}
