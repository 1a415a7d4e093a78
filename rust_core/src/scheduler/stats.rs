//! Pools and replicas at a glance.
use crate::breaker::BreakerState;

use super::limits::Condition;

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
