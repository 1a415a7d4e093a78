//! Tenants: their quotas, what they have in hand, and what they had of recent device time.
use crate::bucket::TokenBucket;
use crate::fair::{faded, Fading};
use crate::recency::{Part, Recency};
use crate::slab::{slot_of, Slab};

/// Recent device time that shares are judged by: after so long 1/e of it still counts.
pub const DEFAULT_MEMORY_NS: f64 = 5e9;
/// A tenant that asked for nothing during so many memories takes no part in the shares.
const ACTIVE_MEMORIES: f64 = 2.0;
/// A tenant is moved to the head of its list at most once in this part of that time.
const RELINK_PART: i64 = 8;
/// How fast the usual value of a tenant's requests follows them.
const VALUE_GAIN: f64 = 0.05;
/// Idle tenants that one newcomer may look at for a place.
const MAX_LOOKS: usize = 16;

/// What a tenant may have.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TenantTerms {
    /// Refill of its bucket; infinity for no limit.
    pub units_per_s: f64,
    /// Size of its bucket.
    pub burst_units: f64,
    /// Largest request; at least the burst.
    pub largest_units: f64,
    /// Its part in the fair shares, > 0.
    pub weight: f64,
    /// Requests that it may have queued.
    pub max_queued_requests: u64,
    /// Units that it may have queued.
    pub max_queued_units: u64,
}

impl TenantTerms {
    /// A quota alone: weight 1, no bounds on its queue.
    #[must_use]
    pub fn quota(units_per_s: f64, burst_units: f64) -> Self {
        Self {
            units_per_s,
            burst_units,
            largest_units: burst_units,
            weight: 1.0,
            max_queued_requests: u64::MAX,
            max_queued_units: u64::MAX,
        }
    }
}

/// Work done for a request, or reserved for it.
#[derive(Debug, Clone, Copy)]
pub struct Used {
    /// Units.
    pub units: u64,
    /// Device time.
    pub device_ns: f64,
}

/// What a charge touches, in one cache line: with a million tenants, memory is what it costs.
#[derive(Debug)]
#[repr(align(64))]
struct Meter {
    /// Key of the tenant; `FREE` for none.
    key: u64,
    bucket: TokenBucket,
    /// Its part in the fair shares.
    weight: f64,
    /// When it was put at the head of the active ones; `IDLE` if it is not one of them.
    active_at_ns: i64,
}

const FREE: u64 = u64::MAX;
const IDLE: i64 = i64::MIN;
const _: () = assert!(size_of::<Meter>() == 64, "a charge is one cache line");

impl Meter {
    fn part(&self) -> Part {
        if self.active_at_ns == IDLE {
            Part::Idle
        } else {
            Part::Active
        }
    }
}

/// What is known of one tenant besides its bucket.
#[derive(Debug)]
pub struct Tenant {
    /// Requests that it may have queued.
    pub max_queued_requests: u64,
    /// Units that it may have queued.
    pub max_queued_units: u64,
    /// Requests of it that are queued.
    pub queued_requests: u64,
    /// Their units.
    pub queued_units: u64,
    /// Requests of it that are queued or executing.
    pub live: u64,
    device_ns: Fading,
    /// Logarithm of the usual value of its requests; None before there was one.
    value_log: Option<f64>,
}

impl Tenant {
    /// Takes note of the value that a request of it claims, > 0.
    pub fn note_value(&mut self, value: f64) {
        let log = value.ln();
        let usual = self.value_log.get_or_insert(log);
        *usual += VALUE_GAIN * (log - *usual);
    }

    /// Usual value of its requests: their geometric mean; 1 before there was one.
    #[must_use]
    pub fn usual_value(&self) -> f64 {
        self.value_log.map_or(1.0, f64::exp)
    }
}

/// Tenants with a state of their own: at most `capacity`, each call O(1).
///
/// Idle ones make room for newcomers, those first that were idle longest. A tenant is idle when
/// nothing of it is live, its bucket is full and it asked for nothing of late, so that what is
/// forgotten is what a new one begins with; its key is then stale.
#[derive(Debug)]
pub struct TenantTable {
    slab: Slab<Tenant>,
    /// By slot, as the tenants.
    meters: Vec<Meter>,
    recency: Recency,
    memory_ns: f64,
    active_weight: f64,
    num_active: usize,
    device_ns: Fading,
}

impl TenantTable {
    /// Empty.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self {
            slab: Slab::new(capacity, 0),
            meters: Vec::new(),
            recency: Recency::default(),
            memory_ns: DEFAULT_MEMORY_NS,
            active_weight: 0.0,
            num_active: 0,
            device_ns: Fading::default(),
        }
    }

    /// Tenants that it knows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slab.len()
    }

    /// True without tenants.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slab.is_empty()
    }

    /// Tenants that asked for something of late.
    #[must_use]
    pub fn num_active(&self) -> usize {
        self.num_active
    }

    /// Sets how long device time counts, > 0.
    pub fn set_memory(&mut self, memory_ns: f64) {
        self.memory_ns = memory_ns.max(1.0);
    }

    /// Adds a tenant; `None` if the table is full and no idle one could be found in a few looks.
    pub fn add(&mut self, now_ns: i64, terms: TenantTerms) -> Option<u64> {
        self.retire(now_ns);
        if self.slab.is_full() && !self.make_room(now_ns) {
            return None;
        }
        let key = self.slab.insert(Tenant {
            max_queued_requests: terms.max_queued_requests,
            max_queued_units: terms.max_queued_units,
            queued_requests: 0,
            queued_units: 0,
            live: 0,
            device_ns: Fading::default(),
            value_log: None,
        })?;
        let mut bucket = TokenBucket::new(now_ns, terms.units_per_s, terms.burst_units);
        bucket.set_largest(terms.largest_units);
        let meter = Meter { key, bucket, weight: terms.weight, active_at_ns: IDLE };
        let slot = self.slab.slot(key)?;
        match self.meters.get_mut(slot as usize) {
            Some(free) => *free = meter,
            None => self.meters.push(meter),
        }
        self.recency.push(Part::Idle, slot);
        Some(key)
    }

    /// Changes what a tenant may have; what its bucket holds stays, up to the new burst.
    pub fn set_terms(&mut self, now_ns: i64, slot: u32, terms: &TenantTerms) {
        let Some(meter) = self.meters.get_mut(slot as usize) else { return };
        meter.bucket.set_quota(now_ns, terms.units_per_s, terms.burst_units);
        meter.bucket.set_largest(terms.largest_units);
        if meter.part() == Part::Active {
            self.active_weight += terms.weight - meter.weight;
        }
        meter.weight = terms.weight;
        if let Some(tenant) = self.slab.at_mut(slot) {
            tenant.max_queued_requests = terms.max_queued_requests;
            tenant.max_queued_units = terms.max_queued_units;
        }
    }

    /// Slot of a key that is not stale.
    #[must_use]
    pub fn slot(&self, key: u64) -> Option<u32> {
        let slot = slot_of(key);
        self.meters.get(slot as usize).filter(|meter| meter.key == key).map(|_| slot)
    }

    /// A tenant by slot.
    #[must_use]
    pub fn at(&self, slot: u32) -> Option<&Tenant> {
        self.slab.at(slot)
    }

    /// A tenant by slot, to change.
    pub fn at_mut(&mut self, slot: u32) -> Option<&mut Tenant> {
        self.slab.at_mut(slot)
    }

    /// A tenant's part in the fair shares, by slot.
    #[must_use]
    pub fn weight(&self, slot: u32) -> f64 {
        self.meters.get(slot as usize).map_or(1.0, |meter| meter.weight)
    }

    /// A tenant's quota, by slot.
    #[must_use]
    pub fn bucket(&self, slot: u32) -> Option<&TokenBucket> {
        self.meters.get(slot as usize).map(|meter| &meter.bucket)
    }

    /// A tenant's quota, to charge.
    pub fn bucket_mut(&mut self, slot: u32) -> Option<&mut TokenBucket> {
        self.meters.get_mut(slot as usize).map(|meter| &mut meter.bucket)
    }

    /// Takes note that a tenant asks for something.
    #[allow(clippy::cast_possible_truncation)] // a span of some seconds
    pub fn touch(&mut self, now_ns: i64, slot: u32) {
        let relink_ns = (ACTIVE_MEMORIES * self.memory_ns) as i64 / RELINK_PART;
        let Some(meter) = self.meters.get(slot as usize) else { return };
        let part = meter.part();
        if part == Part::Idle || now_ns.saturating_sub(meter.active_at_ns) >= relink_ns {
            self.retire(now_ns);
            self.move_to(Part::Active, now_ns, slot);
        }
    }

    /// Reads what the ends of requests will look at, so that waiting for memory overlaps.
    pub fn read_ahead(&self, slots: impl Iterator<Item = u32>) {
        let mut read = 0;
        for slot in slots {
            read ^= self.at(slot).map_or(0, |tenant| tenant.live);
            read ^= self.meters.get(slot as usize).map_or(0, |meter| meter.key);
        }
        std::hint::black_box(read);
    }

    /// Adds device time to a tenant's account, as of `since_ns`; negative takes it back.
    pub fn add_time(&mut self, now_ns: i64, slot: u32, since_ns: i64, device_ns: f64) {
        let memory_ns = self.memory_ns;
        let Some(tenant) = self.slab.at_mut(slot) else { return };
        let left_ns = faded(device_ns, since_ns, now_ns, memory_ns);
        tenant.device_ns.add(now_ns, left_ns, memory_ns);
        self.device_ns.add(now_ns, left_ns, memory_ns);
    }

    /// Settles with a tenant what a request of it used, in place of what was reserved for it when
    /// it came, at `since_ns`; the request is no longer live.
    pub fn settle(&mut self, now_ns: i64, slot: u32, since_ns: i64, reserved: Used, used: Used) {
        self.add_time(now_ns, slot, since_ns, used.device_ns - reserved.device_ns);
        if used.units != reserved.units {
            if let Some(bucket) = self.bucket_mut(slot) {
                bucket.settle(now_ns, reserved.units, used.units);
            }
        }
        if let Some(tenant) = self.slab.at_mut(slot) {
            tenant.live -= 1;
        }
    }

    /// What a tenant had of recent device time over its fair share of it: 1 for exactly that.
    ///
    /// Shares are by weight among the tenants that asked for something of late, so that one that
    /// is alone is never over its own.
    #[must_use]
    pub fn over(&self, now_ns: i64, slot: u32) -> f64 {
        let Some(tenant) = self.slab.at(slot) else { return 0.0 };
        let weight = self.weight(slot);
        let own_ns = tenant.device_ns.at(now_ns, self.memory_ns);
        let all_ns = self.device_ns.at(now_ns, self.memory_ns).max(own_ns);
        if own_ns <= 0.0 || self.active_weight <= 0.0 {
            return 0.0;
        }
        (own_ns / all_ns) * (self.active_weight / weight)
    }

    /// Lets those retire that asked for nothing of late. Amortised O(1): each was touched before.
    #[allow(clippy::cast_possible_truncation)] // a span of some seconds
    fn retire(&mut self, now_ns: i64) {
        let active_ns = (ACTIVE_MEMORIES * self.memory_ns) as i64;
        while let Some(slot) = self.recency.oldest(Part::Active) {
            let linked_at_ns = self.meters[slot as usize].active_at_ns;
            if now_ns.saturating_sub(linked_at_ns) < active_ns {
                return;
            }
            self.move_to(Part::Idle, now_ns, slot);
        }
        self.active_weight = 0.0; // nobody is left: no rounding either
    }

    fn make_room(&mut self, now_ns: i64) -> bool {
        for _ in 0..MAX_LOOKS {
            let Some(slot) = self.recency.oldest(Part::Idle) else { return false };
            let is_live = self.slab.at(slot).is_none_or(|tenant| tenant.live > 0);
            let meter = &mut self.meters[slot as usize];
            self.recency.remove(Part::Idle, slot);
            if !is_live && meter.bucket.is_full(now_ns) {
                meter.key = FREE;
                self.slab.take(slot);
                return true;
            }
            self.recency.push(Part::Idle, slot);
        }
        false
    }

    /// Puts a tenant at the head of a list.
    fn move_to(&mut self, part: Part, now_ns: i64, slot: u32) {
        let meter = &mut self.meters[slot as usize];
        let from = meter.part();
        meter.active_at_ns = if part == Part::Active { now_ns } else { IDLE };
        self.recency.remove(from, slot);
        self.recency.push(part, slot);
        match (from, part) {
            (Part::Idle, Part::Active) => {
                self.active_weight += meter.weight;
                self.num_active += 1;
            }
            (Part::Active, Part::Idle) => {
                self.active_weight -= meter.weight;
                self.num_active -= 1;
            }
            _ => {}
        }
    }
}
