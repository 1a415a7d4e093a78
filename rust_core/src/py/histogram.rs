//! Quantiles of many values.
use pyo3::prelude::*;

use super::argument::{Int, Real};
use super::lock::Lock;
use crate::check;
use crate::histogram;

/// Log-linear histogram of non-negative integers, relative error at most 1/64.
#[pyclass(frozen, module = "headway._core")]
pub struct QuantileHistogram(Lock<histogram::QuantileHistogram>);

#[pymethods]
impl QuantileHistogram {
    #[new]
    fn new() -> Self {
        Self(Lock::new(histogram::QuantileHistogram::new()))
    }

    #[pyo3(signature = (value, count = Int(1)), text_signature = "($self, value, count=1)")]
    fn record(&self, value: Int, count: Int) -> PyResult<()> {
        let expected = "from 0 to 2**63 - 1";
        let value = check::count("value", value.0, 0, i64::MAX, expected)?;
        let count = check::count("count", count.0, 0, i64::MAX, expected)?;
        self.0.hold().record(value, count);
        Ok(())
    }

    fn quantile(&self, q: Real) -> PyResult<u64> {
        Ok(self.0.hold().quantile(check::ratio("q", q.0)?))
    }

    fn merge(&self, other: &Self) {
        // A copy first: two locks at once could be taken in two orders.
        let theirs = other.0.hold().clone();
        self.0.hold().merge(&theirs);
    }

    #[getter]
    fn count(&self) -> u64 {
        self.0.hold().count()
    }

    #[getter]
    fn mean(&self) -> f64 {
        self.0.hold().mean()
    }

    #[getter]
    fn max(&self) -> u64 {
        self.0.hold().max()
    }

    fn reset(&self) {
        self.0.hold().reset();
    }
}
