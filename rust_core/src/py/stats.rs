//! Pools and replicas at a glance.
use pyo3::prelude::*;

use super::enums::{BreakerState, ReplicaCondition};
use crate::scheduler;

/// A pool at a glance.
#[pyclass(frozen, get_all, module = "headway._core")]
pub struct PoolStats {
    queued_requests: u64,
    queued_units: u64,
    queued_rows: u64,
    executing_batches: u64,
    executing_requests: u64,
    free_slots: u64,
    ready_replicas: u64,
    cost_intercept_ns: f64,
    cost_slope_ns: f64,
    cost_residual_ratio: f64,
    cost_observations: u64,
    drain_ns: i64,
    quantum_ns: i64,
    ejected_replicas: u64,
    retry_tokens: f64,
    retries_refused: u64,
    hedges_sent: u64,
    hedges_won: u64,
    hedge_device_ns: i64,
    limit: u64,
    limit_gradient: f64,
    inflight: (u64, u64, u64),
    displaced: (u64, u64, u64),
}

impl From<scheduler::PoolStats> for PoolStats {
    fn from(stats: scheduler::PoolStats) -> Self {
        Self {
            queued_requests: stats.queued_requests,
            queued_units: stats.queued_units,
            queued_rows: stats.queued_rows,
            executing_batches: stats.executing_batches,
            executing_requests: stats.executing_requests,
            free_slots: stats.free_slots,
            ready_replicas: stats.ready_replicas,
            cost_intercept_ns: stats.cost_intercept_ns,
            cost_slope_ns: stats.cost_slope_ns,
            cost_residual_ratio: stats.cost_residual_ratio,
            cost_observations: stats.cost_observations,
            drain_ns: stats.drain_ns,
            quantum_ns: stats.quantum_ns,
            ejected_replicas: stats.ejected_replicas,
            retry_tokens: stats.retry_tokens,
            retries_refused: stats.retries_refused,
            hedges_sent: stats.hedges_sent,
            hedges_won: stats.hedges_won,
            hedge_device_ns: stats.hedge_device_ns,
            limit: stats.limit,
            limit_gradient: stats.limit_gradient,
            inflight: stats.inflight.into(),
            displaced: stats.displaced.into(),
        }
    }
}

/// A replica at a glance.
#[pyclass(frozen, get_all, module = "headway._core")]
pub struct ReplicaStats {
    pool: u64,
    condition: ReplicaCondition,
    outstanding_batches: usize,
    latency_ns: i64,
    speed: f64,
    completed_batches: u64,
    failed_batches: u64,
    busy_answers: u64,
    breaker: BreakerState,
    open_until_ns: i64,
    recent_outcomes: u32,
    recent_failures: u32,
    handoff_ns: i64,
}

impl From<scheduler::ReplicaStats> for ReplicaStats {
    fn from(stats: scheduler::ReplicaStats) -> Self {
        Self {
            pool: stats.pool,
            condition: stats.condition.into(),
            outstanding_batches: stats.outstanding_batches,
            latency_ns: stats.latency_ns,
            speed: stats.speed,
            completed_batches: stats.completed_batches,
            failed_batches: stats.failed_batches,
            busy_answers: stats.busy_answers,
            breaker: stats.breaker.into(),
            open_until_ns: stats.open_until_ns,
            recent_outcomes: stats.recent_outcomes,
            recent_failures: stats.recent_failures,
            handoff_ns: stats.handoff_ns,
        }
    }
}
