//! The end of a request.
use pyo3::prelude::*;

use crate::scheduler;

/// A request that ended without the caller's doing.
#[pyclass(frozen, get_all, module = "headway._core")]
pub struct Ended {
    ticket: u64,
    batch: u64,
    replica: i64,
}

impl From<scheduler::Ended> for Ended {
    fn from(ended: scheduler::Ended) -> Self {
        Self { ticket: ended.ticket, batch: ended.batch, replica: ended.replica }
    }
}
