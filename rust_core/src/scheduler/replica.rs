//! One replica: what it has in hand and what is known of it.
use crate::batch::Limits;
use crate::breaker::{Breaker, BreakerState};
use crate::ewma::PeakEwma;
use crate::median::RecentMedian;

use super::limits::Condition;
use super::speed::Speed;

/// After so long, 1/e of an old latency is left. Source: Finagle's default for peak EWMA.
const LATENCY_DECAY_NS: i64 = 10_000_000_000;
/// Rest after a busy answer that names no time; doubles with each in a row.
const FIRST_REST_NS: i64 = 2_000_000;
const MAX_DOUBLINGS: u32 = 7;
/// Longest rest that a worker can ask for.
const MAX_REST_NS: i64 = 10_000_000_000;
/// Failures in a row that still worsen the score: at most 2^6 times.
const MAX_PENALTY_RUN: u32 = 6;

/// A replica that joins a busy fleet, or returns to it, reaches its full share in so long.
const RAMP_NS: i64 = 3_000_000_000;
/// Its share at first.
const FIRST_SHARE: f64 = 0.1;

/// Where a replica is in the execution of its only batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pipe {
    /// Far from the predicted end: what waits at the worker cannot be chosen anew.
    Early,
    /// About to end: the next batch may leave.
    Open,
    /// Over its time: it may be stalled, and nothing should wait behind it.
    Late,
}

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
    /// Ready, but shut out by its breaker, or on probation.
    pub ejected: bool,
    pub open_until_ns: Option<i64>,
    /// Waits for a probe.
    pub probing: bool,
    /// While it executes its only batch, when it may or may no longer be given the next.
    pub pipe_turns_at_ns: Option<i64>,
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
    /// Until when others have the worker, by its own word.
    pub taken_until_ns: i64,
    pub breaker: Breaker,
    /// Since when its share rises; None once it has all of it.
    pub ramp_from_ns: Option<i64>,
    /// Whether it may be given its next batch before this one has ended.
    pub is_pipelined: bool,
    /// Whether the time for that has come.
    pub pipe: Pipe,
    /// How long before its end the next one should leave.
    pub lead_ns: i64,
    /// When its last batch ended.
    pub ended_at_ns: i64,
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
            taken_until_ns: now_ns,
            breaker: Breaker::default(),
            ramp_from_ns: None,
            is_pipelined: false,
            pipe: Pipe::Early,
            lead_ns: 0,
            ended_at_ns: now_ns,
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
        let state = self.breaker.state();
        let open = ready && self.resting_until_ns.is_none() && self.breaker.lets_through();
        let one_slot = state == BreakerState::HalfOpen;
        let most = if one_slot { 1 } else { self.max_outstanding };
        let mut free = most.saturating_sub(self.outstanding.len() as u64);
        // What waits at the worker cannot be chosen anew, so the second batch leaves late; and not
        // before it is known what it would save.
        let may_pipe = open
            && !one_slot
            && self.is_pipelined
            && self.max_outstanding == 1
            && self.handoff_ns > 0
            && self.outstanding.len() == 1;
        if may_pipe && self.pipe == Pipe::Open {
            free = 1;
        }
        let pipe_turns_at_ns = match self.pipe {
            Pipe::Early => Some(self.busy_until_ns.saturating_sub(self.lead_ns)),
            Pipe::Open => Some(self.busy_until_ns.saturating_add(self.lead_ns)),
            Pipe::Late => None,
        };
        Share {
            capacity: (self.condition != Condition::Draining).then_some(self.limits),
            ready,
            free_slots: if open { free } else { 0 },
            resting_until_ns: self.resting_until_ns,
            speed_steps: self.speed.steps(),
            latency_ns: self.latency.level_ns().map(|level| level as u64),
            working_until_ns: (!self.outstanding.is_empty()).then_some(self.busy_until_ns),
            ejected: ready && state != BreakerState::Closed,
            open_until_ns: self.breaker.open_until_ns().filter(|_| ready),
            probing: one_slot && open && free > 0,
            pipe_turns_at_ns: pipe_turns_at_ns.filter(|_| may_pipe),
        }
    }

    /// Expected wait and service: latency for each batch in hand and this one, and the penalty
    /// for failing. `median_ns` is the pool's; a slower replica's prior is longer.
    pub(super) fn score(&self, now_ns: i64, median_ns: f64) -> f64 {
        let latency = self.latency.value_ns(now_ns, median_ns / self.speed.value());
        let penalty = f64::from(1u32 << self.failure_run.min(MAX_PENALTY_RUN));
        latency * (self.outstanding.len() as f64 + 1.0) * penalty
    }

    /// When a batch sent now would begin on the device. Handoff counts where it leaves the device
    /// idle: a batch that arrives before the last one has ended costs none.
    pub(super) fn ready_ns(&self, now_ns: i64) -> i64 {
        self.busy_until_ns.max(self.taken_until_ns).max(now_ns.saturating_add(self.handoff_ns))
    }

    /// The part of its share that it gets by now; None for all.
    pub(super) fn rising_share(&self, now_ns: i64) -> Option<f64> {
        let age_ns = now_ns.saturating_sub(self.ramp_from_ns?).max(0);
        let share = FIRST_SHARE + (1.0 - FIRST_SHARE) * age_ns as f64 / RAMP_NS as f64;
        (share < 1.0).then_some(share)
    }

    /// True if nothing is in its hands and nothing is held against it.
    pub(super) fn is_spare(&self) -> bool {
        self.outstanding.is_empty() && self.breaker.state() == BreakerState::Closed
    }

    pub(super) fn begin(&mut self, now_ns: i64, batch: u64, predicted_ns: i64) {
        self.busy_until_ns = self.ready_ns(now_ns).saturating_add(predicted_ns);
        self.outstanding.push(batch);
        self.pending_ns = self.pending_ns.saturating_add(predicted_ns);
        self.pipe = Pipe::Early;
        self.breaker.begin(batch);
    }

    pub(super) fn end(&mut self, now_ns: i64, batch: u64, predicted_ns: i64) {
        self.outstanding.retain(|&id| id != batch);
        self.pending_ns = self.pending_ns.saturating_sub(predicted_ns).max(0);
        self.busy_until_ns = now_ns.saturating_add(self.pending_ns);
        self.ended_at_ns = now_ns;
        self.pipe = Pipe::Early;
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

    /// True if a batch sent now would find an idle device, for all that is known.
    pub(super) fn is_idle(&self, now_ns: i64) -> bool {
        self.outstanding.is_empty() && self.taken_until_ns <= now_ns
    }

    /// The worker was occupied: neither a sample nor a penalty, but a rest. Where batches may
    /// follow others, the next one leaves as long before the end of the others' as of its own.
    pub(super) fn rest(&mut self, now_ns: i64, asked_ns: i64) {
        self.busy_answers += 1;
        let own_ns = FIRST_REST_NS << self.busy_run.min(MAX_DOUBLINGS);
        self.busy_run = self.busy_run.saturating_add(1);
        let asked_ns = asked_ns.min(MAX_REST_NS);
        self.taken_until_ns = now_ns.saturating_add(asked_ns);
        let lead_ns = if self.is_pipelined { self.lead_ns } else { 0 };
        let rest_ns = own_ns.max(asked_ns - lead_ns);
        self.resting_until_ns = Some(now_ns.saturating_add(rest_ns));
    }

    /// The worker called before its rest was over: a batch sent now begins in so long.
    pub(super) fn end_rest(&mut self, now_ns: i64, free_in_ns: i64) {
        if self.resting_until_ns.take().is_some() {
            self.taken_until_ns = now_ns.saturating_add(free_in_ns.min(MAX_REST_NS));
        }
    }
}
