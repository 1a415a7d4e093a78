//! A batch.
use pyo3::prelude::*;

use super::enums::BatchReason;
use crate::scheduler;

/// A batch for one replica. The lists run in parallel, one entry a member.
#[pyclass(frozen, get_all, module = "headway._core")]
pub struct Batch {
    id: u64,
    pool: u64,
    replica: u64,
    reason: BatchReason,
    predicted_ns: i64,
    other_replica: i64,
    score_ns: i64,
    other_score_ns: i64,
    units: u64,
    rows: u64,
    tickets: Vec<u64>,
    queued_ns: Vec<i64>,
    slack_ns: Vec<i64>,
    attempts: Vec<u32>,
    hedge_of: u64,
    look_at_ns: i64,
    is_pipelined: bool,
}

#[pymethods]
impl Batch {
    fn __len__(&self) -> usize {
        self.tickets.len()
    }
}

impl From<scheduler::Batch> for Batch {
    fn from(batch: scheduler::Batch) -> Self {
        Self {
            id: batch.id,
            pool: batch.pool,
            replica: batch.replica,
            reason: batch.reason.into(),
            predicted_ns: batch.predicted_ns,
            other_replica: batch.other_replica,
            score_ns: batch.score_ns,
            other_score_ns: batch.other_score_ns,
            units: batch.units,
            rows: batch.rows,
            tickets: batch.tickets,
            queued_ns: batch.queued_ns,
            slack_ns: batch.slack_ns,
            attempts: batch.attempts,
            hedge_of: batch.hedge_of,
            look_at_ns: batch.look_at_ns,
            is_pipelined: batch.is_pipelined,
        }
    }
}
