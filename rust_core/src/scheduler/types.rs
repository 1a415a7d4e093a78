//! What goes into the scheduler and what comes out.
use crate::batch::{BatchReason, Lane, Limits, Priority};
use crate::batching::price::Price;
use crate::breaker::BreakerState;
use crate::check;
use crate::error::CoreError;
use crate::limiter::LimiterSettings;

/// A request at the door, as the caller gave it.
#[derive(Debug, Clone, Copy)]
pub struct Offer {
    /// Tenant handle.
    pub tenant: i64,
    /// Model handle.
    pub model: i64,
    /// Pinned pool, or -1.
    pub pool: i64,
    /// Hash of the sticky key.
    pub key_hash: u64,
    /// Work units, >= 1.
    pub units: i64,
    /// Rows, >= 1.
    pub rows: i64,
    /// Instant by which the answer must be there.
    pub deadline_ns: i64,
    /// 1 critical, 2 standard, 3 sheddable.
    pub priority: i64,
    /// 1 interactive, 2 bulk.
    pub lane: i64,
    /// Value of the answer, > 0.
    pub weight: f64,
}

/// The checked part of an [`Offer`] that does not name handles.
#[derive(Debug, Clone, Copy)]
pub(super) struct Demand {
    pub units: u64,
    pub rows: u64,
    pub deadline_ns: i64,
    pub priority: Priority,
    pub lane: Lane,
    pub weight: f64,
}

impl Offer {
    pub(super) fn check(&self) -> Result<Demand, CoreError> {
        let priority = match self.priority {
            1 => Priority::Critical,
            2 => Priority::Standard,
            3 => Priority::Sheddable,
            other => {
                let expected = "1 (critical), 2 (standard) or 3 (sheddable)";
                return Err(CoreError::argument("priority", other, expected));
            }
        };
        let lane = match self.lane {
            1 => Lane::Interactive,
            2 => Lane::Bulk,
            other => {
                return Err(CoreError::argument("lane", other, "1 (interactive) or 2 (bulk)"));
            }
        };
        if !(self.weight > 0.0 && self.weight <= 1e18) {
            return Err(CoreError::argument("weight", self.weight, "above 0 and at most 1e18"));
        }
        Ok(Demand {
            units: check::count("units", self.units, 1, check::MAX_UNITS, "from 1 to 2**38")?,
            rows: check::count("rows", self.rows, 1, check::MAX_ROWS, "from 1 to 2**31")?,
            deadline_ns: check::instant("deadline_ns", self.deadline_ns)?,
            priority,
            lane,
            weight: self.weight,
        })
    }
}

/// Why an offer was refused; see `_core.pyi` for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RefusalReason {
    /// The tenant's bucket is empty.
    QuotaExceeded = 1,
    /// More than the tenant's burst.
    QuotaImpossible = 2,
    /// More than any replica takes in one batch.
    TooLarge = 3,
    /// The pool's queue is at its bound.
    QueueFull = 4,
    /// Shed, or the table of live requests is full.
    Overloaded = 5,
    /// It could not finish in time even alone.
    DeadlineUnreachable = 6,
    /// Its deadline had passed.
    DeadlineExpired = 7,
    /// No replica is connected or connecting.
    NoCapacity = 8,
    /// The pool has as many requests in hand as it may, less what is kept for higher classes.
    LimitReached = 9,
    /// The tenant has as much queued as it may.
    TenantQueueFull = 10,
}

/// What admission saw of a pool and a tenant, this request not yet counted in.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Reading {
    /// Requests that the pool may have in hand; 0 for no limit.
    pub limit: u64,
    /// Requests that it had in hand.
    pub inflight: u64,
    /// Of them, kept free for higher classes.
    pub reserved: u64,
    /// Units that the tenant's bucket held; infinite without a quota, negative in debt.
    pub tenant_units: f64,
    /// Requests that the tenant had queued.
    pub tenant_queued: u64,
    /// The tenant's recent device time over its weighted fair share.
    pub share_ratio: f64,
    /// Part of its weight that the request kept: below 1 under overload and beyond the share.
    pub weight_part: f64,
    /// Requests queued in the pool.
    pub queued_requests: u64,
    /// Their units.
    pub queued_units: u64,
    /// Requests executing.
    pub executing_requests: u64,
    /// Time in which the fleet would serve all of that, and the request if it was taken in; 0
    /// where it was refused for another reason than want of room.
    pub drain_ns: i64,
    /// Value that the request earns for a second of device time, and what batches earned of late;
    /// zeros where it was refused before that was looked at.
    pub price: Price,
}

/// A request that was taken in.
#[derive(Debug, Clone, PartialEq)]
pub struct Admission {
    /// Its name from here on.
    pub ticket: u64,
    /// Where it is queued.
    pub pool: u64,
    /// Tickets of those that had to leave the queue for it; they have ended.
    pub displaced: Vec<u64>,
    /// What admission saw.
    pub reading: Reading,
}

/// How many requests a pool may have in hand, and what part of it is kept for whom.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdmissionSettings {
    /// Bounds of the limit.
    pub limit: LimiterSettings,
    /// Parts of the limit kept for critical and for standard requests, in [0, 1], sum below 1.
    pub reserved: [f64; 2],
}

impl AdmissionSettings {
    pub(super) fn check(&self) -> Result<(), CoreError> {
        self.limit.check()?;
        let [critical, standard] = self.reserved;
        check::ratio("reserved_critical", critical)?;
        check::ratio("reserved_standard", standard)?;
        if critical + standard > 0.95 {
            let expected = "at most 0.95 together with reserved_critical";
            return Err(CoreError::argument("reserved_standard", standard, expected));
        }
        Ok(())
    }
}

/// A refusal and the numbers behind it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Verdict {
    /// Why.
    pub reason: RefusalReason,
    /// Pool that was chosen; -1 if refused before one was.
    pub pool: i64,
    /// When trying again makes sense, from now; 0 where it never does.
    pub retry_after_ns: i64,
    /// What it needed.
    pub needed: i64,
    /// What there was.
    pub available: i64,
    /// What admission saw.
    pub reading: Reading,
}

/// How the execution of a batch ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BatchOutcome {
    /// The worker answered for it.
    Ok = 1,
    /// The worker did not begin it.
    Busy = 2,
    /// It failed as a whole.
    Failed = 3,
    /// The session ended before an answer.
    Lost = 4,
}

/// What a replica may be given. Values are those of `headway.v1.ReplicaCondition`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Condition {
    /// Known but not connected.
    Connecting = 1,
    /// Takes batches.
    Ready = 2,
    /// Finishes what it has.
    Draining = 3,
}

/// Limits of a replica as the caller gave them; 0 for none, but for `max_outstanding`.
#[derive(Debug, Clone, Copy)]
pub struct ReplicaLimits {
    /// Batches at once, >= 1.
    pub max_outstanding: i64,
    /// Requests of one batch.
    pub max_requests: i64,
    /// Rows of one batch.
    pub max_rows: i64,
    /// Units of one batch.
    pub max_units: i64,
}

impl ReplicaLimits {
    pub(super) fn check(&self) -> Result<(u64, Limits), CoreError> {
        let most = 1 << 20;
        let outstanding =
            check::count("max_outstanding", self.max_outstanding, 1, most, "from 1 to 2**20")?;
        let limits = Limits {
            requests: limit("max_requests", self.max_requests)?,
            rows: limit("max_rows", self.max_rows)?,
            units: limit("max_units", self.max_units)?,
        };
        Ok((outstanding, limits))
    }
}

fn limit(name: &'static str, value: i64) -> Result<u64, CoreError> {
    let expected = "from 0 (no limit) to 2**62";
    let value = check::count(name, value, 0, check::MAX_NS, expected)?;
    Ok(if value == 0 { u64::MAX } else { value })
}

/// A batch for one replica; the lists run in parallel.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    /// Unique in the scheduler, from 1.
    pub id: u64,
    /// Pool handle.
    pub pool: u64,
    /// Replica handle.
    pub replica: u64,
    /// Why it closed.
    pub reason: BatchReason,
    /// Device time expected.
    pub predicted_ns: i64,
    /// The replica that was drawn together with this one and looked dearer; -1 for none.
    pub other_replica: i64,
    /// Expected wait and service on this replica; 0 if it was not weighed against another.
    pub score_ns: i64,
    /// The same on the other one.
    pub other_score_ns: i64,
    /// Units of all members.
    pub units: u64,
    /// Rows of all members.
    pub rows: u64,
    /// Members.
    pub tickets: Vec<u64>,
    /// Time from arrival to now.
    pub queued_ns: Vec<i64>,
    /// Deadline less predicted completion.
    pub slack_ns: Vec<i64>,
    /// Executions begun, this one included.
    pub attempts: Vec<u32>,
    /// The late batch that this is a copy of; 0 for none. Its members go on executing there.
    pub hedge_of: u64,
    /// When `form_batch` should be asked again for this batch's sake; 0 for never.
    pub look_at_ns: i64,
    /// Whether the replica still executes its last batch; this one waits there.
    pub is_pipelined: bool,
}

/// How a batch ended, as the worker told it. Measurements out of range count as 0.
#[derive(Debug, Clone, Copy)]
pub struct Report<'a> {
    /// How.
    pub outcome: BatchOutcome,
    /// Measured device time; 0 if indeterminate.
    pub device_ns: i64,
    /// Units as the runtime counted them; 0 for as estimated.
    pub units: i64,
    /// For Busy: when the worker expects to be free, from now.
    pub retry_after_ns: i64,
    /// For Ok: members without a valid result.
    pub retry: &'a [u64],
    /// For Ok: members that failed in the runtime.
    pub failed: i64,
    /// For Ok: members that were not executed, by no fault of the replica.
    pub invalid: i64,
    /// For Ok: units used by single members, prompt and output, by rising ticket.
    pub used: &'a [(u64, u64)],
}

impl Report<'_> {
    /// An outcome without measurements.
    #[must_use]
    pub fn bare(outcome: BatchOutcome) -> Self {
        Self {
            outcome,
            device_ns: 0,
            units: 0,
            retry_after_ns: 0,
            retry: &[],
            failed: 0,
            invalid: 0,
            used: &[],
        }
    }
}

/// A request that ended without the caller's doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// The request.
    pub ticket: u64,
    /// Batch it was executing in; 0 if queued.
    pub batch: u64,
    /// Replica it was executing on; -1 if queued.
    pub replica: i64,
}

/// A pool at a glance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PoolStats {
    /// Requests queued.
    pub queued_requests: u64,
    /// Units queued.
    pub queued_units: u64,
    /// Rows queued.
    pub queued_rows: u64,
    /// Batches executing.
    pub executing_batches: u64,
    /// Requests executing.
    pub executing_requests: u64,
    /// Batches that could start now.
    pub free_slots: u64,
    /// Replicas that take batches.
    pub ready_replicas: u64,
    /// Learned cost: fixed part.
    pub cost_intercept_ns: f64,
    /// Learned cost: for each unit.
    pub cost_slope_ns: f64,
    /// Standard deviation of actual/predicted - 1.
    pub cost_residual_ratio: f64,
    /// Batches learned from.
    pub cost_observations: u64,
    /// Time in which the fleet would serve all that is queued and executing.
    pub drain_ns: i64,
    /// Batch-length quantum; 0 for none.
    pub quantum_ns: i64,
    /// Ready replicas that are shut out or on probation.
    pub ejected_replicas: u64,
    /// Retries that the budget still has.
    pub retry_tokens: f64,
    /// Retries that it refused.
    pub retries_refused: u64,
    /// Second copies sent.
    pub hedges_sent: u64,
    /// Second copies that answered first.
    pub hedges_won: u64,
    /// Device time that they took.
    pub hedge_device_ns: i64,
    /// Requests that it may have in hand; 0 for no limit.
    pub limit: u64,
    /// Factor on the limit: below 1 while unplanned delays grow.
    pub limit_gradient: f64,
    /// Requests queued and executing: critical, standard, sheddable.
    pub inflight: [u64; 3],
    /// Requests displaced from the queue, likewise.
    pub displaced: [u64; 3],
}

/// A replica at a glance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReplicaStats {
    /// Pool handle.
    pub pool: u64,
    /// What it may be given.
    pub condition: Condition,
    /// Batches in hand.
    pub outstanding_batches: usize,
    /// Peak-EWMA of dispatch to result; 0 before the first sample.
    pub latency_ns: i64,
    /// Learned speed relative to the pool's cost model.
    pub speed: f64,
    /// Batches ended well.
    pub completed_batches: u64,
    /// Batches that failed or were lost.
    pub failed_batches: u64,
    /// Busy answers.
    pub busy_answers: u64,
    /// What its breaker lets through.
    pub breaker: BreakerState,
    /// End of its open time; 0 unless open.
    pub open_until_ns: i64,
    /// Request outcomes by which it is judged, at most 50.
    pub recent_outcomes: u32,
    /// Failures among them.
    pub recent_failures: u32,
    /// Median time of an execution beyond the device's, where it was sent to an idle one.
    pub handoff_ns: i64,
}
