//! Whether a request is taken in.
#![allow(clippy::result_large_err)] // refusals are as common as admissions: no allocation for one
mod bounds;

use crate::batch::{Item, Outlook, Priority, Shed};
use crate::batching::price::Price;
use crate::check::to_ns;
use crate::error::CoreError;
use crate::fair::part_kept;
use crate::tenants::Tenant;

use super::displace::Room;
use super::offer::{Admission, Demand, Offer, Reading, RefusalReason, Verdict};
use super::pool::Pool;
use super::tenancy::Classes;
use super::{signed, Request, Scheduler, NOWHERE};
pub(super) use bounds::{no_capacity, RETRY_PART};

pub(super) const MIN_RETRY_NS: i64 = 1_000_000;
/// For so long after a sign of it, a pool counts as overloaded, ns.
const PRESSED_FOR_NS: i64 = 2_000_000_000;

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
                reading: Reading { odds: shed.odds, ..arrival.reading },
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
}
