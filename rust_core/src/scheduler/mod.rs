//! The queues, replicas and quotas of one gateway, composed.
//!
//! Every request is in exactly one place: queued in its pool, or executing in one batch. All ways
//! to end it go through `Scheduler::finish`, so it ends once, and every count returns to zero.
mod admission;
mod answered;
mod blame;
mod dispatch;
mod displace;
mod ending;
mod envelope;
mod feedback;
mod hedging;
mod limits;
mod offer;
mod outputs;
mod pool;
mod quota;
mod reads;
mod registry;
mod replica;
mod report;
mod resilience;
mod speed;
mod split;
mod stats;
mod tenancy;
mod wake;

use std::collections::BTreeMap;

use crate::batch::Item;
use crate::check;
use crate::deadline::Deadlines;
use crate::error::CoreError;
use crate::rng::Rng;
use crate::slab::{Slab, MAX_SLOTS};
use crate::tenants::{TenantTable, Used};

use answered::Leavers;
use blame::Case;
use outputs::Output;
use pool::Pool;
use replica::{Replica, Share};

pub use limits::{AdmissionSettings, Condition, ReplicaLimits};
pub use offer::{Admission, Offer, Reading, RefusalReason, Verdict};
pub use outputs::{OutputOffer, OutputReport};
pub use report::{Batch, BatchOutcome, Ended, Report};
pub use resilience::Resilience;
pub use stats::{PoolStats, ReplicaStats};

/// Tenants with a state of their own, unless `limit_tenants` says otherwise: about 200 MB at most.
const DEFAULT_MAX_TENANTS: usize = 1 << 20;

/// A live request. Two cache lines with its key, since batches end at the pace of memory.
#[derive(Debug)]
struct Request {
    pool: u64,
    /// Batch it is executing in; 0 while it is queued.
    batch: u64,
    item: Item,
    /// Slot of its tenant, which stays while anything of it is live.
    tenant: u32,
    attempts: u32,
    /// Key of the replica that failed it last; `NOWHERE` for none.
    failed_on: u64,
    /// Device time that was reserved for it.
    device_ns: f64,
}

const _: () = assert!(size_of::<Request>() <= 104, "a request is about two cache lines");

/// No replica's key.
const NOWHERE: u64 = u64::MAX;

impl Request {
    fn is_queued(&self) -> bool {
        self.batch == 0
    }

    fn reserved(&self) -> Used {
        Used { units: self.item.units, device_ns: self.device_ns }
    }

    fn has_failed(&self) -> bool {
        self.failed_on != NOWHERE
    }
}

#[derive(Debug)]
struct Dispatch {
    pool: u64,
    replica: u64,
    at_ns: i64,
    members: Vec<u64>,
    /// Members that are still live.
    live: usize,
    units: u64,
    predicted_ns: i64,
    /// From dispatch to answer, as planned: the wait behind other batches, device and handoff.
    planned_ns: i64,
    /// True if the replica had nothing else in hand, so that the wait was all handoff.
    to_idle: bool,
    /// When the device should have begun it, handoff included.
    ready_ns: i64,
    /// The batch whose copy this is, or that is a copy of this, while both are executing.
    twin: Option<u64>,
    is_hedge: bool,
    /// When it is late enough for a copy.
    hedge_at_ns: Option<i64>,
}

#[derive(Debug)]
struct Model {
    salt: u64,
    /// (upper end of the interval, pool), ends rising.
    split: Vec<(f64, u64)>,
}

/// The scheduler of one gateway. See `_core.pyi` for the contract of each call.
///
/// Time never goes back inside: an earlier `now_ns` counts as the latest one seen.
#[derive(Debug)]
pub struct Scheduler {
    now_ns: i64,
    rng: Rng,
    max_attempts: u32,
    tenants: TenantTable,
    models: Vec<Model>,
    pools: Slab<Pool>,
    replicas: Slab<Replica>,
    live: Slab<Request>,
    outputs: Slab<Output>,
    deadlines: Deadlines,
    dispatches: BTreeMap<u64, Dispatch>,
    /// By failed batch.
    cases: BTreeMap<u64, Case>,
    /// Failed batches whose blame is open, by the slots of the live requests that were in them.
    cases_of: BTreeMap<u32, Vec<u64>>,
    resilience: Resilience,
    next_batch: u64,
    next_order: u64,
    chosen: Vec<u32>,
    leavers: Leavers,
}

impl Scheduler {
    /// Holds at most `max_live` requests, each executed at most `max_attempts` times, and as many
    /// outputs.
    ///
    /// # Errors
    /// A bound below 1 or above its largest value.
    pub fn new(seed: u64, max_live: i64, max_attempts: i64) -> Result<Self, CoreError> {
        let max_live = check::count("max_live", max_live, 1, check::MAX_LIVE, "from 1 to 2**24")?;
        let max_live = usize::try_from(max_live).unwrap_or(MAX_SLOTS);
        let max_attempts =
            check::count("max_attempts", max_attempts, 1, 1 << 20, "from 1 to 2**20")?;
        Ok(Self {
            now_ns: i64::MIN,
            rng: Rng::new(seed),
            max_attempts: u32::try_from(max_attempts).unwrap_or(u32::MAX),
            tenants: TenantTable::new(DEFAULT_MAX_TENANTS),
            models: Vec::new(),
            pools: Slab::new(MAX_SLOTS, 0),
            replicas: Slab::new(MAX_SLOTS, 0),
            live: Slab::new(max_live, 1),
            outputs: Slab::new(max_live, 1),
            deadlines: Deadlines::new(),
            dispatches: BTreeMap::new(),
            cases: BTreeMap::new(),
            cases_of: BTreeMap::new(),
            resilience: Resilience::default(),
            next_batch: 1,
            next_order: 0,
            chosen: Vec::new(),
            leavers: Leavers::default(),
        })
    }

    /// Checks an instant and moves time on to it.
    fn advance(&mut self, now_ns: i64) -> Result<i64, CoreError> {
        let now_ns = check::instant("now_ns", now_ns)?;
        self.now_ns = self.now_ns.max(now_ns);
        Ok(self.now_ns)
    }

    /// Reads requests and their tenants: each is at a place of its own, and waiting for memory once
    /// is cheaper than for each. Changes nothing.
    fn read_ahead(&self, slots: impl Iterator<Item = u32>) {
        let mut read = 0;
        let requests = slots.filter_map(|slot| self.live.at(slot));
        self.tenants.read_ahead(requests.map(|request| {
            // Fields from one end of the record to the other.
            let Request { pool, batch, item, attempts, failed_on, device_ns, .. } = request;
            read ^= pool ^ batch ^ item.units ^ item.order ^ item.max_companions ^ failed_on;
            read ^= u64::from(*attempts) ^ device_ns.to_bits();
            request.tenant
        }));
        std::hint::black_box(read);
    }

    fn pool_slot(&self, handle: i64) -> Result<u32, CoreError> {
        slot_of(&self.pools, "pool", handle)
    }

    fn tenant_slot(&self, handle: i64) -> Result<u32, CoreError> {
        u64::try_from(handle)
            .ok()
            .and_then(|key| self.tenants.slot(key))
            .ok_or(CoreError::UnknownHandle { kind: "tenant", handle })
    }

    fn replica_slot(&self, handle: i64) -> Result<u32, CoreError> {
        slot_of(&self.replicas, "replica", handle)
    }

    fn pool_mut(&mut self, key: u64) -> Option<&mut Pool> {
        let slot = self.pools.slot(key)?;
        self.pools.at_mut(slot)
    }

    /// Tells a replica's pool what changed about it.
    fn recount(&mut self, slot: u32) {
        let Some(replica) = self.replicas.at_mut(slot) else { return };
        let new = replica.share();
        let old = std::mem::replace(&mut replica.counted, new);
        let pool = replica.pool;
        if old != new {
            if let Some(pool) = self.pool_mut(pool) {
                pool.recount(slot, &old, &new);
            }
        }
    }

    /// Takes a replica out of its pool's totals.
    fn uncount(&mut self, slot: u32) -> Option<Replica> {
        let replica = self.replicas.take(slot)?;
        if let Some(pool) = self.pool_mut(replica.pool) {
            pool.recount(slot, &replica.counted, &Share::default());
            pool.num_replicas -= 1;
        }
        Some(replica)
    }
}

fn slot_of<T>(slab: &Slab<T>, kind: &'static str, handle: i64) -> Result<u32, CoreError> {
    u64::try_from(handle)
        .ok()
        .and_then(|key| slab.slot(key))
        .ok_or(CoreError::UnknownHandle { kind, handle })
}

/// A key or count as the signed integer that crosses the border; keys fit 63 bits.
fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
