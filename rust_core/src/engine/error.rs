//! What a caller of the engine can get wrong.
use std::fmt;

/// A refused call. Nothing has changed when one is returned.
#[derive(Debug, Clone, PartialEq)]
pub enum EngineError {
    /// An argument outside its range.
    Argument {
        /// Name of the argument.
        name: &'static str,
        /// What was given.
        value: String,
        /// What would be accepted.
        expected: &'static str,
    },
    /// A lane that was never given out, or has left.
    UnknownLane(u32),
    /// A completion for another frame than the oldest in flight.
    UnexpectedFrame {
        /// What was given.
        frame: u64,
        /// The oldest in flight, if any.
        oldest: Option<u64>,
    },
}

impl EngineError {
    /// An argument outside its range.
    #[must_use]
    pub fn argument(name: &'static str, value: impl fmt::Display, expected: &'static str) -> Self {
        Self::Argument { name, value: value.to_string(), expected }
    }
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Argument { name, value, expected } => {
                write!(f, "{name} must be {expected}, got {value}")
            }
            Self::UnknownLane(lane) => write!(f, "no lane has the handle {lane}; it may have left"),
            Self::UnexpectedFrame { frame, oldest: Some(oldest) } => {
                write!(f, "frame {frame} cannot complete before frame {oldest}")
            }
            Self::UnexpectedFrame { frame, oldest: None } => {
                write!(f, "frame {frame} cannot complete: no frame is in flight")
            }
        }
    }
}

impl std::error::Error for EngineError {}
