//! What a caller can get wrong. Becomes Python in one `From` impl (`py::error`).
use std::fmt;

/// A refused argument or handle. Nothing has changed when one is returned.
#[derive(Debug, Clone, PartialEq)]
pub enum CoreError {
    /// An argument outside its range.
    Argument {
        /// Name of the argument, as in `_core.pyi`.
        name: &'static str,
        /// What was given.
        value: String,
        /// What would be accepted.
        expected: &'static str,
    },
    /// A handle that was never given out, or no longer stands for anything.
    UnknownHandle {
        /// "pool", "replica", "tenant", "model" or "lane".
        kind: &'static str,
        /// What was given.
        handle: i64,
    },
    /// A table of tenants none of which is idle.
    TenantsFull,
    /// A pool that still has replicas.
    PoolInUse {
        /// The pool.
        pool: i64,
        /// Replicas to remove first.
        num_replicas: usize,
    },
}

impl CoreError {
    /// An argument outside its range.
    #[must_use]
    pub fn argument(name: &'static str, value: impl fmt::Display, expected: &'static str) -> Self {
        Self::Argument { name, value: value.to_string(), expected }
    }
}

impl fmt::Display for CoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Argument { name, value, expected } => {
                write!(f, "{name} must be {expected}, got {value}")
            }
            Self::UnknownHandle { kind, handle } => write!(f, "no {kind} has the handle {handle}"),
            Self::TenantsFull => f.write_str(
                "tenants must be fewer at once: every place is taken by a tenant that is not idle",
            ),
            Self::PoolInUse { pool, num_replicas } => {
                write!(f, "pool {pool} still has {num_replicas} replicas; remove them first")
            }
        }
    }
}

impl std::error::Error for CoreError {}
