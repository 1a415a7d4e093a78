//! One replica: what it has in hand and what is known of it.
use crate::batch::Limits;
use crate::ewma::PeakEwma;
use crate::median::RecentMedian;

use super::speed::Speed;
use super::types::Condition;

/// After so long, 1/e of an old latency is left. Source: Finagle's default for peak EWMA.
const LATENCY_DECAY_NS: i64 = 10_000_000_000;
/// Rest after a busy answer that names no time; doubles with each in a row.
const FIRST_REST_NS: i64 = 2_000_000;
const MAX_DOUBLINGS: u32 = 7;
/// Longest rest that a worker can ask for.
const MAX_REST_NS: i64 = 10_000_000_000;
/// Failures in a row that still worsen the score: at most 2^6 times.
const MAX_PENALTY_RUN: u32 = 6;

/// What a pool counts of a replica; the pool's totals change only by differences of these.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Share {
    /// Limits, while it is or will be able to take batches.
    pub capacity: Option<Limits>,
    pub ready: bool,
    pub free_slots: u64,
    pub resting_until_ns: Option<i64>,
    pub speed_steps: u32,
    pub latency_ns: Option<u64>,
    pub working_until_ns: Option<i64>,
}

impl Share {
    pub(super) fn is_eligible(&self) -> bool {
        self.free_slots > 0
    }
}

#[derive(Debug)]
pub(super) struct Replica {
    /// Key of its pool.
    pub pool: u64,
    pub condition: Condition,
    pub max_outstanding: u64,
    pub limits: Limits,
    /// Ids of the batches in hand.
    pub outstanding: Vec<u64>,
    /// Device time expected of them.
    pub pending_ns: i64,
    /// When it should have finished them.
    pub busy_until_ns: i64,
    pub resting_until_ns: Option<i64>,
    pub latency: PeakEwma,
    pub speed: Speed,
    handoff: RecentMedian,
    pub handoff_ns: i64,
    busy_run: u32,
    failure_run: u32,
    pub completed_batches: u64,
    pub failed_batches: u64,
    pub busy_answers: u64,
    /// What the pool counts of it now.
    pub counted: Share,
}

impl Replica {
    pub(super) fn new(now_ns: i64, pool: u64, max_outstanding: u64, limits: Limits) -> Self {
        Self {
            pool,
            condition: Condition::Connecting,
            max_outstanding,
            limits,
            outstanding: Vec::new(),
            pending_ns: 0,
            busy_until_ns: now_ns,
            resting_until_ns: None,
            latency: PeakEwma::new(now_ns, LATENCY_DECAY_NS),
            speed: Speed::default(),
            handoff: RecentMedian::new(),
            handoff_ns: 0,
            busy_run: 0,
            failure_run: 0,
            completed_batches: 0,
            failed_batches: 0,
            busy_answers: 0,
            counted: Share::default(),
        }
    }

    /// What the pool should count of it.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // latencies are in [0, 2^63)
    pub(super) fn share(&self) -> Share {
        let ready = self.condition == Condition::Ready;
        let free = self.max_outstanding.saturating_sub(self.outstanding.len() as u64);
        let open = ready && self.resting_until_ns.is_none();
        Share {
            capacity: (self.condition != Condition::Draining).then_some(self.limits),
            ready,
            free_slots: if open { free } else { 0 },
            resting_until_ns: self.resting_until_ns,
            speed_steps: self.speed.steps(),
            latency_ns: self.latency.level_ns().map(|level| level as u64),
            working_until_ns: (!self.outstanding.is_empty()).then_some(self.busy_until_ns),
        }
    }

    /// Expected wait and service: latency for each batch in hand and this one, and the penalty
    /// for failing. `median_ns` is the pool's; a slower replica's prior is longer.
    pub(super) fn score(&self, now_ns: i64, median_ns: f64) -> f64 {
        let latency = self.latency.value_ns(now_ns, median_ns / self.speed.value());
        let penalty = f64::from(1u32 << self.failure_run.min(MAX_PENALTY_RUN));
        latency * (self.outstanding.len() as f64 + 1.0) * penalty
    }

    pub(super) fn begin(&mut self, now_ns: i64, batch: u64, predicted_ns: i64) {
        self.outstanding.push(batch);
        self.pending_ns = self.pending_ns.saturating_add(predicted_ns);
        self.busy_until_ns = self.busy_until_ns.max(now_ns).saturating_add(predicted_ns);
    }

    pub(super) fn end(&mut self, now_ns: i64, batch: u64, predicted_ns: i64) {
        self.outstanding.retain(|&id| id != batch);
        self.pending_ns = self.pending_ns.saturating_sub(predicted_ns).max(0);
        self.busy_until_ns = now_ns.saturating_add(self.pending_ns);
    }

    /// A batch ended well. `handoff_ns` is what it took beyond the device, where that is known.
    pub(super) fn succeed(&mut self, now_ns: i64, latency_ns: i64, handoff_ns: Option<i64>) {
        self.answer();
        self.latency.observe(now_ns, latency_ns);
        if let Some(handoff_ns) = handoff_ns {
            self.handoff.push(handoff_ns.max(0));
            self.handoff_ns = self.handoff.value().unwrap_or(0);
        }
    }

    /// The worker answered for a batch: it works, whatever became of single members.
    pub(super) fn answer(&mut self) {
        self.completed_batches += 1;
        (self.busy_run, self.failure_run) = (0, 0);
    }

    /// A batch failed: no sample, only a penalty.
    pub(super) fn fail(&mut self) {
        self.failed_batches += 1;
        self.busy_run = 0;
        self.failure_run = self.failure_run.saturating_add(1);
    }

    /// The worker was occupied: neither a sample nor a penalty, but a rest.
    pub(super) fn rest(&mut self, now_ns: i64, asked_ns: i64) {
        self.busy_answers += 1;
        let own_ns = FIRST_REST_NS << self.busy_run.min(MAX_DOUBLINGS);
        self.busy_run = self.busy_run.saturating_add(1);
        let rest_ns = own_ns.max(asked_ns.min(MAX_REST_NS));
        self.resting_until_ns = Some(now_ns.saturating_add(rest_ns));
    }
}
