//! Whether a request is taken in.
use crate::batch::Item;
use crate::bucket::Quota;
use crate::check::to_ns;
use crate::error::CoreError;
use crate::hash::split_point;

use super::pool::Pool;
use super::types::{Demand, Offer, RefusalReason, Verdict};
use super::{signed, Request, Scheduler, State};

/// When to ask again for a version that has no replica, ns.
const NO_CAPACITY_RETRY_NS: i64 = 1_000_000_000;
/// A full queue is worth asking again once this part of it is served: the others wait as well.
const RETRY_PART: i64 = 8;
const MIN_RETRY_NS: i64 = 1_000_000;

impl Scheduler {
    /// Admits a request, or refuses it; a refusal costs the tenant nothing.
    ///
    /// The order of the steps is quota, version, expiry, capacity, size, queue bounds, deadline,
    /// the bound on live requests, and what the policy expects. The bucket is asked first and charged last. O(log n).
    ///
    /// # Errors
    /// A bad argument or an unknown handle.
    pub fn offer(&mut self, now_ns: i64, offer: &Offer) -> Result<Result<u64, Verdict>, CoreError> {
        let demand = offer.check()?;
        let now_ns = self.advance(now_ns)?;
        let tenant = self.tenant_index(offer.tenant)?;
        let chosen = self.choose_pool(offer)?;
        if let Some(verdict) = self.refuse_by_quota(now_ns, tenant, demand.units) {
            return Ok(Err(verdict));
        }
        let Some(key) = chosen else { return Ok(Err(no_capacity(-1))) };
        if let Some(verdict) = self.refuse_by_pool(now_ns, key, &demand) {
            return Ok(Err(verdict));
        }
        let item = self.item(now_ns, &demand);
        if let Some(verdict) = self.shed(now_ns, key, &item) {
            return Ok(Err(verdict));
        }
        Ok(self.admit(now_ns, tenant, key, item))
    }

    fn item(&self, now_ns: i64, demand: &Demand) -> Item {
        Item {
            units: demand.units,
            rows: demand.rows,
            deadline_ns: demand.deadline_ns,
            arrived_ns: now_ns,
            order: self.next_order,
            weight: demand.weight,
            lane: demand.lane,
            priority: demand.priority,
            max_companions: u64::MAX,
        }
    }

    /// Refuses what the policy does not expect to serve in time.
    fn shed(&mut self, now_ns: i64, key: u64, item: &Item) -> Option<Verdict> {
        let pool = self.pool_mut(key)?;
        let outlook = pool.outlook(now_ns);
        let shed = pool.policy.judge(now_ns, item, &outlook)?;
        Some(Verdict {
            reason: RefusalReason::Overloaded,
            pool: signed(key),
            retry_after_ns: to_ns(shed.clear_ns).max(MIN_RETRY_NS),
            needed: to_ns(shed.clear_ns * outlook.speed),
            available: to_ns(shed.room_ns),
        })
    }

    fn tenant_index(&self, tenant: i64) -> Result<usize, CoreError> {
        usize::try_from(tenant)
            .ok()
            .filter(|&index| index < self.tenants.len())
            .ok_or(CoreError::UnknownHandle { kind: "tenant", handle: tenant })
    }

    /// The pinned pool, or the split's; the split's first pool stands in for one without replicas.
    fn choose_pool(&self, offer: &Offer) -> Result<Option<u64>, CoreError> {
        let unknown = CoreError::UnknownHandle { kind: "model", handle: offer.model };
        let index = usize::try_from(offer.model).map_err(|_| unknown.clone())?;
        let model = self.models.get(index).ok_or(unknown)?;
        if offer.pool != -1 {
            self.pool_slot(offer.pool)?;
            return Ok(Some(offer.pool.unsigned_abs()));
        }
        let point = split_point(offer.key_hash, model.salt);
        // Shares may add up to a hair below 1; the last version that has any takes the rest.
        let at = model.split.partition_point(|&(end, _)| end <= point);
        let drawn = model.split.get(at).or_else(|| last_with_share(&model.split));
        let has_capacity = |key: u64| {
            let slot = self.pools.slot(key);
            slot.and_then(|slot| self.pools.at(slot)).is_some_and(Pool::has_capacity)
        };
        let first = model.split.first().map(|&(_, key)| key);
        Ok(drawn.map(|&(_, key)| key).filter(|&key| has_capacity(key)).or(first))
    }

    fn refuse_by_quota(&self, now_ns: i64, tenant: usize, units: u64) -> Option<Verdict> {
        let bucket = self.tenants.get(tenant)?;
        let (reason, retry_after_ns) = match bucket.check(now_ns, units) {
            Quota::Enough => return None,
            Quota::After(wait_ns) => (RefusalReason::QuotaExceeded, wait_ns),
            Quota::Never => (RefusalReason::QuotaImpossible, 0),
        };
        let held = bucket.available(now_ns).floor();
        Some(Verdict {
            reason,
            pool: -1,
            retry_after_ns,
            needed: signed(units),
            available: crate::check::to_ns(held),
        })
    }

    fn refuse_by_pool(&mut self, now_ns: i64, key: u64, demand: &Demand) -> Option<Verdict> {
        let slot = self.pools.slot(key);
        let Some(pool) = slot.and_then(|slot| self.pools.at(slot)) else {
            return Some(no_capacity(-1));
        };
        let slack_ns = demand.deadline_ns.saturating_sub(now_ns);
        let refuse = |reason, retry_after_ns, needed, available| {
            Some(Verdict { reason, pool: signed(key), retry_after_ns, needed, available })
        };
        if slack_ns <= 0 {
            return refuse(RefusalReason::DeadlineExpired, 0, 1, slack_ns);
        }
        let Some(fastest) = pool.fastest().and_then(|slot| self.replicas.at(slot)) else {
            return Some(no_capacity(signed(key)));
        };
        if let Some((needed, most)) = pool.envelope.excess(demand.rows, demand.units) {
            return refuse(RefusalReason::TooLarge, 0, signed(needed), signed(most));
        }
        let (requests, units) = (pool.queued.requests + 1, pool.queued.units + demand.units);
        if requests > pool.max_queued_requests {
            let bound = signed(pool.max_queued_requests);
            let retry_ns = retry_after_ns(pool, now_ns);
            return refuse(RefusalReason::QueueFull, retry_ns, signed(requests), bound);
        }
        if units > pool.max_queued_units {
            let bound = signed(pool.max_queued_units);
            // Beyond the bound itself it does not even fit an empty queue.
            let never = demand.units > pool.max_queued_units;
            let retry_ns = if never { 0 } else { retry_after_ns(pool, now_ns) };
            return refuse(RefusalReason::QueueFull, retry_ns, signed(units), bound);
        }
        let alone_ns = pool.alone_ns(demand.units, fastest);
        let is_probe = alone_ns > slack_ns;
        if is_probe && !pool.may_admit_probe(now_ns) {
            return refuse(RefusalReason::DeadlineUnreachable, 0, alone_ns, slack_ns);
        }
        if self.live.is_full() {
            let retry_ns = retry_after_ns(pool, now_ns);
            let live = self.live.len() as u64;
            return refuse(RefusalReason::Overloaded, retry_ns, signed(live + 1), signed(live));
        }
        if is_probe {
            self.pool_mut(key)?.last_probe_ns = Some(now_ns);
        }
        None
    }

    fn admit(&mut self, now_ns: i64, tenant: usize, key: u64, item: Item) -> Result<u64, Verdict> {
        let request = Request {
            pool: key,
            item,
            state: State::Queued,
            attempts: 0,
            failed_on: u64::MAX,
            cases: Vec::new(),
        };
        let entered = self.live.insert(request);
        let entered = entered.and_then(|ticket| Some((ticket, self.live.slot(ticket)?)));
        let Some((ticket, slot)) = entered else { return Err(no_capacity(signed(key))) };
        self.next_order += 1;
        self.deadlines.push(slot, item.deadline_ns, item.order);
        if let Some(pool) = self.pool_mut(key) {
            pool.enqueue(now_ns, slot, &item);
        }
        if let Some(bucket) = self.tenants.get_mut(tenant) {
            bucket.take(now_ns, item.units);
        }
        Ok(ticket)
    }
}

fn retry_after_ns(pool: &Pool, now_ns: i64) -> i64 {
    (pool.drain_ns(now_ns) / RETRY_PART).max(MIN_RETRY_NS)
}

fn no_capacity(pool: i64) -> Verdict {
    Verdict {
        reason: RefusalReason::NoCapacity,
        pool,
        retry_after_ns: NO_CAPACITY_RETRY_NS,
        needed: 1,
        available: 0,
    }
}

/// The last entry of a split whose interval is not empty.
fn last_with_share(split: &[(f64, u64)]) -> Option<&(f64, u64)> {
    let end = split.last()?.0;
    split.iter().find(|entry| entry.0 >= end)
}
