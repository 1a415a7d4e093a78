//! The lock inside each object.
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A mutex that outlives a panic of its holder; the state it guards is valid between any two
/// statements of the core.
#[derive(Debug, Default)]
pub struct Lock<T>(Mutex<T>);

impl<T> Lock<T> {
    pub fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    pub fn hold(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
