//! Numbers as Python gives them: any size, made safe before anything else sees them.
use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;

use crate::error::CoreError;

/// An integer; beyond 64 bits it saturates, and then fails every range check.
#[derive(Clone, Copy)]
pub struct Int(pub i64);

impl<'a, 'py> FromPyObject<'a, 'py> for Int {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        match object.extract::<i64>() {
            Ok(value) => Ok(Self(value)),
            Err(error) if error.is_instance_of::<PyOverflowError>(object.py()) => {
                Ok(Self(if object.lt(0)? { i64::MIN } else { i64::MAX }))
            }
            Err(error) => Err(error),
        }
    }
}

/// An integer in [0, 2^64), such as a hash or a seed; another one is kept as text for the error.
pub struct Word(Result<u64, String>);

impl Word {
    pub fn get(self, name: &'static str) -> Result<u64, CoreError> {
        self.0.map_err(|given| CoreError::argument(name, given, "from 0 to 2**64 - 1"))
    }

    pub const fn new(value: u64) -> Self {
        Self(Ok(value))
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for Word {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        match object.extract::<u64>() {
            Ok(value) => Ok(Self(Ok(value))),
            Err(error) if error.is_instance_of::<PyOverflowError>(object.py()) => {
                // Python refuses to print integers of more than 4300 digits.
                let given =
                    object.str().map_or_else(|_| "a far larger one".into(), |s| s.to_string());
                Ok(Self(Err(given)))
            }
            Err(error) => Err(error),
        }
    }
}

/// A float; integers beyond its range become infinite.
#[derive(Clone, Copy)]
pub struct Real(pub f64);

impl<'a, 'py> FromPyObject<'a, 'py> for Real {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        match object.extract::<f64>() {
            Ok(value) => Ok(Self(value)),
            Err(error) if error.is_instance_of::<PyOverflowError>(object.py()) => {
                Ok(Self(if object.lt(0)? { f64::NEG_INFINITY } else { f64::INFINITY }))
            }
            Err(error) => Err(error),
        }
    }
}
