//! The faces of the core in Python. The contract, with its docs, is `_core.pyi`.
//!
//! Every call is short and holds the GIL, but for the waits of `Front`; a lock inside each object
//! makes it safe without one.
mod argument;
mod batch;
mod bucket;
mod cost;
mod edf;
mod ended;
mod engine;
mod enums;
mod error;
mod ewma;
mod front;
mod given;
mod hash;
mod histogram;
mod lock;
mod rng;
mod scheduler;
mod sim;
mod speeds;
mod stats;
mod trace;
mod verdict;

use pyo3::prelude::*;

/// `headway._core`.
#[pymodule(name = "_core", gil_used = false)]
mod core {
    #[pymodule_export]
    use super::batch::Batch;
    #[pymodule_export]
    use super::bucket::TokenBucket;
    #[pymodule_export]
    use super::cost::CostModel;
    #[pymodule_export]
    use super::edf::EdfQueue;
    #[pymodule_export]
    use super::ended::Ended;
    #[pymodule_export]
    use super::engine::{Step, StepGraph, StepPause, StepPrices, StepReason, StepScheduler};
    #[pymodule_export]
    use super::enums::{BatchOutcome, BatchReason, BreakerState, RefusalReason, ReplicaCondition};
    #[pymodule_export]
    use super::error::TenantsFull;
    #[pymodule_export]
    use super::ewma::PeakEwma;
    #[pymodule_export]
    use super::front::Front;
    #[pymodule_export]
    use super::hash::{hash_key, split_point};
    #[pymodule_export]
    use super::histogram::QuantileHistogram;
    #[pymodule_export]
    use super::rng::Rng;
    #[pymodule_export]
    use super::scheduler::Scheduler;
    #[pymodule_export]
    use super::sim::{clairvoyant_bound, simulate, SimReport};
    #[pymodule_export]
    use super::speeds::ReplicaSpeeds;
    #[pymodule_export]
    use super::stats::{PoolStats, ReplicaStats};
    #[pymodule_export]
    use super::trace::Trace;
    #[pymodule_export]
    use super::verdict::{Admission, Reading, Verdict};

    #[pymodule_export]
    #[allow(non_upper_case_globals)] // Python's name
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
