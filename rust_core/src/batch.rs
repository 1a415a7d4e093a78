//! What a batch policy is asked, and what it answers. The scheduler knows nothing else of it.
use crate::batching::price::Price;
use crate::batching::settings::PolicySettings;
use crate::check::to_ns;
use crate::cost::Affine;

/// Which work a request may hold up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// Somebody waits for it.
    Interactive,
    /// Background work.
    Bulk,
}

/// What is shed first when there is too much work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// Shed last.
    Critical = 1,
    /// The usual.
    Standard = 2,
    /// Shed first.
    Sheddable = 3,
}

/// A queued request, as a policy sees it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Item {
    /// Work units, 1 to 2^38.
    pub units: u64,
    /// Rows, 1 to 2^31.
    pub rows: u64,
    /// Instant by which the answer must be there.
    pub deadline_ns: i64,
    /// Instant of arrival.
    pub arrived_ns: i64,
    /// Number of the arrival: unique, and the tie-breaker.
    pub order: u64,
    /// Value of the answer, > 0.
    pub weight: f64,
    /// Lane.
    pub lane: Lane,
    /// Priority class.
    pub priority: Priority,
    /// Most members of a batch that it joins, itself included; lowered after failures, so that
    /// a poison member ends up alone.
    pub max_companions: u64,
}

/// Limits of one batch; `u64::MAX` for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Requests.
    pub requests: u64,
    /// Rows.
    pub rows: u64,
    /// Units.
    pub units: u64,
}

/// Where and when a batch would run.
#[derive(Debug, Clone, Copy)]
pub struct Site {
    /// Now.
    pub now_ns: i64,
    /// When its answer would be back if the device took no time: the work already on the
    /// replica, and the handoff.
    pub ready_ns: i64,
    /// The replica's limits.
    pub limits: Limits,
    /// Device time expected on this replica.
    pub expected: Affine,
    /// Device time on this replica that deadlines are judged by: a quantile of the learned cost.
    pub judged: Affine,
    /// Speed of this replica relative to the pool's cost model.
    pub speed: f64,
}

impl Site {
    /// Instant by which a batch of `units` is judged to be answered.
    #[must_use]
    pub fn judged_end_ns(&self, units: u64) -> i64 {
        self.ready_ns.saturating_add(to_ns(self.judged.at(units).round()))
    }

    /// True if a request could be answered in time, alone.
    #[must_use]
    pub fn is_feasible(&self, item: &Item) -> bool {
        self.judged_end_ns(item.units) <= item.deadline_ns
    }
}

/// Why a batch closed where it did. Values are those of `headway.v1.BatchReason`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BatchReason {
    /// Everything feasible that was queued is in it.
    QueueEmptied = 1,
    /// The limit on requests.
    MaxRequests = 2,
    /// The limit on rows.
    MaxRows = 3,
    /// The limit on units.
    MaxUnits = 4,
    /// One more member would have made another one late.
    Deadline = 5,
    /// The batch-length quantum.
    Quantum = 6,
    /// One request too large to share a batch.
    Oversized = 7,
}

/// The fleet that serves a queue.
#[derive(Debug, Clone, Copy)]
pub struct Fleet<'a> {
    /// Speeds of the replicas, fastest first; of a large fleet the fastest and the slowest.
    pub speeds: &'a [f64],
    /// Sum of the speeds of all replicas.
    pub total_speed: f64,
    /// Largest limits of one batch.
    pub limits: Limits,
    /// Expected device time at speed 1, for units as estimated.
    pub expected: Affine,
    /// Device time at speed 1 that deadlines are judged by.
    pub judged: Affine,
}

/// When the fleet can take more.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outlook {
    /// Mean time until a replica is free; idle ones count as 0.
    pub free_in_ns: f64,
    /// Sum of the replicas' speeds.
    pub speed: f64,
    /// Replicas that take batches.
    pub num_replicas: u64,
}

/// A request that a policy does not want, since it would not be served in time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shed {
    /// Time in which the work ahead of it would be done, and until when asking again is idle.
    pub clear_ns: f64,
    /// Device time, over the fleet, before its last chance.
    pub room_ns: f64,
    /// Why it is not expected to be served.
    pub odds: Odds,
}

/// What an arrival that was refused early was judged by.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Odds {
    /// Its chance of being served in time, in [0, 1].
    pub chance: f64,
    /// The chance that was asked for, in (0, 1); 0 where none was looked at.
    pub wanted: f64,
}

/// A policy's answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Formed {
    /// A batch; its members are no longer queued.
    Batch {
        /// Why it closed.
        reason: BatchReason,
        /// Device time expected, ns.
        predicted_ns: i64,
    },
    /// Nothing queued can run there now.
    Nothing {
        /// Rows and units of a request that is in time but too large for this replica.
        too_large: Option<(u64, u64)>,
    },
}

/// Orders the queue of a pool and forms its batches.
///
/// Slots name requests; a slot is queued at most once. Same calls, same answers.
pub trait BatchPolicy: std::fmt::Debug + Send {
    /// Queues a request. O(log n).
    fn insert(&mut self, now_ns: i64, slot: u32, item: &Item);

    /// Judges an arrival before it is queued; `Some` if it will not be served in time.
    ///
    /// Called once for each request, also for one that is refused. O(log n).
    fn judge(&mut self, _now_ns: i64, _item: &Item, _outlook: &Outlook) -> Option<Shed> {
        None
    }

    /// Takes in what an operator set; a policy without settings ignores it.
    fn configure(&mut self, _settings: &PolicySettings) {}

    /// Takes in that the fleet or what is known of its cost has changed.
    fn set_fleet(&mut self, _fleet: &Fleet<'_>) {}

    /// Takes in that a batch ended well after `device_ns` at speed 1; 0 if that is not known.
    /// `is_changed` says that the cost model found the device to be another than before.
    fn observe(&mut self, _now_ns: i64, _device_ns: f64, _is_changed: bool) {}

    /// Takes out requests that no replica can serve in time any more, and appends their slots.
    fn take_hopeless(&mut self, _now_ns: i64, _out: &mut Vec<u32>) {}

    /// Next instant at which `take_hopeless` may have some.
    fn next_hopeless_ns(&self, _now_ns: i64) -> Option<i64> {
        None
    }

    /// Takes a queued request out; `item` as it was inserted. O(log n).
    fn remove(&mut self, slot: u32, item: &Item);

    /// Takes the members of a batch out of the queue and appends their slots to `out`.
    /// Every member is judged to end in time, and the limits hold.
    fn form(&mut self, site: &Site, out: &mut Vec<u32>) -> Formed;

    /// Takes out the request with the most time left that fits the replica, whether judged in
    /// time or not, to find out whether a cost model that refuses everything is right. O(log n).
    fn probe(&mut self, site: &Site) -> Option<u32>;

    /// Device time, at `cost`, to serve what is queued and not yet hopeless, ns.
    fn work_ns(&self, now_ns: i64, cost: &Affine, limits: &Limits) -> f64;

    /// What a request offers for device time, and what batches earned of late. O(1).
    fn price(&self, _item: &Item) -> Price {
        Price::default()
    }

    /// The batch-length quantum, ns; 0 where there is none.
    fn quantum_ns(&self) -> i64 {
        0
    }
}

/// The policy of new pools.
#[must_use]
pub fn default_policy() -> Box<dyn BatchPolicy> {
    Box::new(crate::batching::policy::ValuePolicy::new(PolicySettings::default(), 0))
}
