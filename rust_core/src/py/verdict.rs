//! A refusal.
use pyo3::prelude::*;

use super::enums::RefusalReason;
use crate::scheduler;

/// A refusal and the numbers behind it.
#[pyclass(frozen, get_all, module = "headway._core")]
pub struct Verdict {
    reason: RefusalReason,
    pool: i64,
    retry_after_ns: i64,
    needed: i64,
    available: i64,
}

impl From<scheduler::Verdict> for Verdict {
    fn from(verdict: scheduler::Verdict) -> Self {
        Self {
            reason: verdict.reason.into(),
            pool: verdict.pool,
            retry_after_ns: verdict.retry_after_ns,
            needed: verdict.needed,
            available: verdict.available,
        }
    }
}
