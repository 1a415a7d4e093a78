//! The enumerations.
use pyo3::prelude::*;

use crate::{batch, breaker, scheduler};

/// Why `Scheduler.offer` refused.
#[pyclass(frozen, eq, hash, module = "headway._core", rename_all = "SCREAMING_SNAKE_CASE")]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum RefusalReason {
    QuotaExceeded = 1,
    QuotaImpossible = 2,
    TooLarge = 3,
    QueueFull = 4,
    Overloaded = 5,
    DeadlineUnreachable = 6,
    DeadlineExpired = 7,
    NoCapacity = 8,
    LimitReached = 9,
    TenantQueueFull = 10,
}

impl From<scheduler::RefusalReason> for RefusalReason {
    fn from(reason: scheduler::RefusalReason) -> Self {
        use scheduler::RefusalReason as Core;
        match reason {
            Core::QuotaExceeded => Self::QuotaExceeded,
            Core::QuotaImpossible => Self::QuotaImpossible,
            Core::TooLarge => Self::TooLarge,
            Core::QueueFull => Self::QueueFull,
            Core::Overloaded => Self::Overloaded,
            Core::DeadlineUnreachable => Self::DeadlineUnreachable,
            Core::DeadlineExpired => Self::DeadlineExpired,
            Core::NoCapacity => Self::NoCapacity,
            Core::LimitReached => Self::LimitReached,
            Core::TenantQueueFull => Self::TenantQueueFull,
        }
    }
}

/// Why a batch closed where it did.
#[pyclass(frozen, eq, hash, module = "headway._core", rename_all = "SCREAMING_SNAKE_CASE")]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum BatchReason {
    QueueEmptied = 1,
    MaxRequests = 2,
    MaxRows = 3,
    MaxUnits = 4,
    Deadline = 5,
    Quantum = 6,
    Oversized = 7,
}

impl From<batch::BatchReason> for BatchReason {
    fn from(reason: batch::BatchReason) -> Self {
        use batch::BatchReason as Core;
        match reason {
            Core::QueueEmptied => Self::QueueEmptied,
            Core::MaxRequests => Self::MaxRequests,
            Core::MaxRows => Self::MaxRows,
            Core::MaxUnits => Self::MaxUnits,
            Core::Deadline => Self::Deadline,
            Core::Quantum => Self::Quantum,
            Core::Oversized => Self::Oversized,
        }
    }
}

/// How the execution of a batch ended.
#[pyclass(
    frozen,
    eq,
    hash,
    from_py_object,
    module = "headway._core",
    rename_all = "SCREAMING_SNAKE_CASE"
)]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum BatchOutcome {
    Ok = 1,
    Busy = 2,
    Failed = 3,
    Lost = 4,
}

impl From<BatchOutcome> for scheduler::BatchOutcome {
    fn from(outcome: BatchOutcome) -> Self {
        match outcome {
            BatchOutcome::Ok => Self::Ok,
            BatchOutcome::Busy => Self::Busy,
            BatchOutcome::Failed => Self::Failed,
            BatchOutcome::Lost => Self::Lost,
        }
    }
}

/// What a replica may be given.
#[pyclass(
    frozen,
    eq,
    hash,
    from_py_object,
    module = "headway._core",
    rename_all = "SCREAMING_SNAKE_CASE"
)]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReplicaCondition {
    Connecting = 1,
    Ready = 2,
    Draining = 3,
}

impl From<ReplicaCondition> for scheduler::Condition {
    fn from(condition: ReplicaCondition) -> Self {
        match condition {
            ReplicaCondition::Connecting => Self::Connecting,
            ReplicaCondition::Ready => Self::Ready,
            ReplicaCondition::Draining => Self::Draining,
        }
    }
}

impl From<scheduler::Condition> for ReplicaCondition {
    fn from(condition: scheduler::Condition) -> Self {
        match condition {
            scheduler::Condition::Connecting => Self::Connecting,
            scheduler::Condition::Ready => Self::Ready,
            scheduler::Condition::Draining => Self::Draining,
        }
    }
}

/// What a replica's breaker lets through.
#[pyclass(frozen, eq, hash, module = "headway._core", rename_all = "SCREAMING_SNAKE_CASE")]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum BreakerState {
    Closed = 1,
    Open = 2,
    HalfOpen = 3,
}

impl From<breaker::BreakerState> for BreakerState {
    fn from(state: breaker::BreakerState) -> Self {
        match state {
            breaker::BreakerState::Closed => Self::Closed,
            breaker::BreakerState::Open => Self::Open,
            breaker::BreakerState::HalfOpen => Self::HalfOpen,
        }
    }
}
