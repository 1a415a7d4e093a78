//! How the core's errors look in Python.
use pyo3::create_exception;
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::PyErr;

use crate::error::CoreError;

create_exception!(headway._core, TenantsFull, PyValueError);

impl From<CoreError> for PyErr {
    fn from(error: CoreError) -> Self {
        let message = error.to_string();
        match error {
            CoreError::UnknownHandle { .. } => PyKeyError::new_err(message),
            CoreError::TenantsFull => TenantsFull::new_err(message),
            CoreError::Argument { .. } | CoreError::PoolInUse { .. } => {
                PyValueError::new_err(message)
            }
        }
    }
}
