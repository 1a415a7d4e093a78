//! Whether a request is taken in.
#![allow(clippy::result_large_err)] // refusals are as common as admissions: no allocation for one
use crate::batch::{Item, Outlook, Priority, Shed};
use crate::batching::price::Price;
use crate::bucket::Quota;
use crate::check::to_ns;
use crate::error::CoreError;
use crate::fair::part_kept;
use crate::hash::split_point;
use crate::limiter::GradientLimiter;
use crate::tenants::Tenant;

use super::displace::Room;
use super::pool::Pool;
use super::tenancy::Classes;
use super::types::{Admission, Demand, Offer, Reading, RefusalReason, Verdict};
use super::{signed, Request, Scheduler, NOWHERE};

/// When to ask again for a version that has no replica, ns.
const NO_CAPACITY_RETRY_NS: i64 = 1_000_000_000;
/// A full queue is worth asking again once this part of it is served: the others wait as well.
const RETRY_PART: i64 = 8;
const MIN_RETRY_NS: i64 = 1_000_000;
/// For so long after a sign of it, a pool counts as overloaded, ns.
const PRESSED_FOR_NS: i64 = 2_000_000_000;
/// A class that asked for nothing for so long has nothing kept for it, ns.
const RESERVED_FOR_NS: i64 = 10_000_000_000;

/// A request at the door: what it wants, who wants it, and what admission saw.
struct Arrival {
    now_ns: i64,
    tenant: u32,
    item: Item,
    /// What its tenant had of its fair share.
    over: f64,
    device_ns: f64,
    reading: Reading,
}

/// Why there is no room for an arrival as things are, and what would have to leave.
struct Crowding {
    reason: RefusalReason,
    needed: u64,
    available: u64,
    room: Room,
}

impl Scheduler {
    /// Admits a request, or refuses it; a refusal costs the tenant nothing.
    ///
    /// The order of the steps: quota, the tenant's own queue, version, expiry, capacity, size,
    /// deadline, the pool's limit, its queue, the bound on live requests, and what the policy
    /// expects. For want of room, queued requests of a lower class, or of a tenant further over
    /// its fair share, leave before it is refused. O(log n).
    ///
    /// # Errors
    /// A bad argument or an unknown handle.
    pub fn admit(
        &mut self,
        now_ns: i64,
        offer: &Offer,
    ) -> Result<Result<Admission, Verdict>, CoreError> {
        let demand = offer.check()?;
        let now_ns = self.advance(now_ns)?;
        let tenant = self.tenant_slot(offer.tenant)?;
        let chosen = self.choose_pool(offer)?;
        self.tenants.touch(now_ns, tenant);
        if let Some(tenant) = self.tenants.at_mut(tenant) {
            tenant.note_value(demand.weight);
        }
        let mut reading = self.read_tenant(now_ns, tenant);
        if let Some(verdict) = self.refuse_by_tenant(now_ns, tenant, &demand, &reading) {
            return Ok(Err(verdict));
        }
        let Some(key) = chosen else { return Ok(Err(no_capacity(-1, reading))) };
        self.read_pool(now_ns, key, &demand, &mut reading);
        if let Some(verdict) = self.refuse_by_pool(now_ns, key, &demand, &reading) {
            return Ok(Err(verdict));
        }
        let arrival = self.arrival(now_ns, tenant, key, &demand, reading);
        Ok(self.make_room(key, &arrival).and_then(|victims| self.enter(key, &arrival, &victims)))
    }

    /// `admit`, where only the ticket is wanted.
    ///
    /// # Errors
    /// As `admit`.
    pub fn offer(&mut self, now_ns: i64, offer: &Offer) -> Result<Result<u64, Verdict>, CoreError> {
        Ok(self.admit(now_ns, offer)?.map(|admission| admission.ticket))
    }

    fn arrival(
        &self,
        now_ns: i64,
        tenant: u32,
        key: u64,
        demand: &Demand,
        mut reading: Reading,
    ) -> Arrival {
        let pool = self.pools.slot(key).and_then(|slot| self.pools.at(slot));
        let over = reading.share_ratio;
        let is_pressed = pool.is_some_and(|pool| pool.is_pressed(now_ns));
        let usual = self.tenants.at(tenant).map_or(1.0, Tenant::usual_value);
        reading.weight_part = if is_pressed { part_kept(over) } else { 1.0 };
        // Under overload a caller's weights order its own requests, and buy it nothing of others.
        let value = if is_pressed { demand.weight / usual } else { demand.weight };
        let item = Item {
            units: demand.units,
            rows: demand.rows,
            deadline_ns: demand.deadline_ns,
            arrived_ns: now_ns,
            order: self.next_order,
            weight: value * reading.weight_part,
            lane: demand.lane,
            priority: demand.priority,
            max_companions: u64::MAX,
        };
        let device_ns = pool.map_or(0.0, |pool| pool.usual_ns(demand.units));
        reading.price = pool.map_or_else(Price::default, |pool| pool.policy.price(&item));
        Arrival { now_ns, tenant, item, over, device_ns, reading }
    }

    /// Finds room for an arrival: the queued requests that have to leave for it, or a refusal.
    fn make_room(&mut self, key: u64, arrival: &Arrival) -> Result<Vec<u32>, Verdict> {
        let (now_ns, item) = (arrival.now_ns, &arrival.item);
        let crowding = self.crowding(key, arrival);
        let mut victims = Vec::new();
        if let Some(crowding) = &crowding {
            victims = self.victims(key, item, arrival.over, crowding.room);
            if victims.is_empty() {
                return Err(self.refuse_crowded(key, arrival, crowding));
            }
        }
        let Some((shed, outlook)) = self.shed(now_ns, key, item) else { return Ok(victims) };
        if let Some(pool) = self.pool_mut(key) {
            pool.classes.pressed_at_ns = Some(now_ns);
        }
        if victims.is_empty() {
            victims = self.victims(key, item, arrival.over, Room::default());
        }
        if victims.is_empty() && !self.goes_before(now_ns, key, item) {
            return Err(Verdict {
                reason: RefusalReason::Overloaded,
                pool: signed(key),
                retry_after_ns: to_ns(shed.clear_ns).max(MIN_RETRY_NS),
                needed: to_ns(shed.clear_ns * outlook.speed),
                available: to_ns(shed.room_ns),
                reading: arrival.reading,
            });
        }
        Ok(victims)
    }

    /// True for a critical request while lower classes ask: they are shed in its place, and a
    /// forecast that may be wrong is no reason to refuse it.
    fn goes_before(&mut self, now_ns: i64, key: u64, item: &Item) -> bool {
        let is_critical = item.priority == Priority::Critical;
        is_critical && self.pool_mut(key).is_some_and(|pool| pool.has_lower_classes(now_ns))
    }

    /// What the policy does not expect to serve in time.
    fn shed(&mut self, now_ns: i64, key: u64, item: &Item) -> Option<(Shed, Outlook)> {
        let pool = self.pool_mut(key)?;
        let outlook = pool.outlook(now_ns);
        Some((pool.policy.judge(now_ns, item, &outlook)?, outlook))
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

    fn read_tenant(&self, now_ns: i64, slot: u32) -> Reading {
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

    fn read_pool(&mut self, now_ns: i64, key: u64, demand: &Demand, reading: &mut Reading) {
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

    fn refuse_by_tenant(
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

    fn refuse_by_pool(
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
    fn crowding(&self, key: u64, arrival: &Arrival) -> Option<Crowding> {
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

    fn refuse_crowded(&mut self, key: u64, arrival: &Arrival, crowding: &Crowding) -> Verdict {
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

    /// Takes an arrival in, in the place of the victims.
    fn enter(
        &mut self,
        key: u64,
        arrival: &Arrival,
        victims: &[u32],
    ) -> Result<Admission, Verdict> {
        let displaced = self.displace(key, victims);
        let (now_ns, item) = (arrival.now_ns, arrival.item);
        let (tenant, device_ns) = (arrival.tenant, arrival.device_ns);
        let (attempts, failed_on) = (0, NOWHERE);
        let request = Request { pool: key, batch: 0, item, tenant, attempts, failed_on, device_ns };
        let entered = self.live.insert(request);
        let entered = entered.and_then(|ticket| Some((ticket, self.live.slot(ticket)?)));
        // There is room: `crowding` has looked.
        let Some((ticket, slot)) = entered else {
            return Err(no_capacity(signed(key), arrival.reading));
        };
        self.reserve(now_ns, key, &item, tenant, device_ns);
        self.next_order += 1;
        self.deadlines.push(slot, item.deadline_ns, item.order);
        let mut reading = arrival.reading;
        if let Some(pool) = self.pool_mut(key) {
            pool.enqueue(now_ns, slot, &item);
            reading.drain_ns = pool.drain_ns(now_ns);
        }
        self.note_displaceable(key, ticket, &item, arrival.over);
        Ok(Admission { ticket, pool: key, displaced, reading })
    }

    fn displace(&mut self, key: u64, victims: &[u32]) -> Vec<u64> {
        let mut displaced = Vec::with_capacity(victims.len());
        for &victim in victims {
            let class = self.live.at(victim).map(|request| Classes::of(request.item.priority));
            if let (Some(class), Some(pool)) = (class, self.pool_mut(key)) {
                pool.classes.displaced[class] += 1;
            }
            displaced.extend(self.finish(victim).map(|ended| ended.ticket));
        }
        displaced
    }
}

impl Pool {
    /// True if there lately was more work than the fleet could do in time.
    fn is_pressed(&self, now_ns: i64) -> bool {
        let pressed = self.classes.pressed_at_ns;
        pressed.is_some_and(|at_ns| now_ns.saturating_sub(at_ns) < PRESSED_FOR_NS)
    }

    /// True if requests that are not critical came of late.
    fn has_lower_classes(&self, now_ns: i64) -> bool {
        let lower = self.classes.asked_at_ns.iter().skip(1).flatten();
        lower.into_iter().any(|&at_ns| now_ns.saturating_sub(at_ns) < PRESSED_FOR_NS)
    }

    /// Device time that a request of `units` usually takes, its share of the batch included.
    fn usual_ns(&self, units: u64) -> f64 {
        if self.classes.unit_ns > 0.0 {
            self.classes.unit_ns * units as f64
        } else {
            self.expected().at(units)
        }
    }

    /// Requests of the limit that are kept free for classes higher than `class`, as far as these
    /// do not use them already. Nothing is kept for a class that did not ask of late.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // parts of a limit
    fn kept_for_higher(&self, now_ns: i64, class: usize, limit: u64) -> u64 {
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

fn no_capacity(pool: i64, reading: Reading) -> Verdict {
    Verdict {
        reason: RefusalReason::NoCapacity,
        pool,
        retry_after_ns: NO_CAPACITY_RETRY_NS,
        needed: 1,
        available: 0,
        reading,
    }
}

/// The last entry of a split whose interval is not empty.
fn last_with_share(split: &[(f64, u64)]) -> Option<&(f64, u64)> {
    let end = split.last()?.0;
    split.iter().find(|entry| entry.0 >= end)
}
