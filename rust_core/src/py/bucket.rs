//! A token bucket.
use pyo3::prelude::*;

use super::argument::{Int, Real};
use super::lock::Lock;
use crate::bucket::{self, Quota};
use crate::check;
use crate::error::CoreError;

/// Continuous refill, in work units; full at the start.
#[pyclass(frozen, module = "headway._core")]
pub struct TokenBucket(Lock<bucket::TokenBucket>);

fn units_of(units: Int) -> Result<u64, CoreError> {
    check::count("units", units.0, 0, check::MAX_UNITS, "from 0 to 2**38")
}

#[pymethods]
impl TokenBucket {
    #[new]
    #[pyo3(signature = (now_ns, *, units_per_s, burst_units))]
    fn new(now_ns: Int, units_per_s: Real, burst_units: Real) -> PyResult<Self> {
        let now_ns = check::instant("now_ns", now_ns.0)?;
        let units_per_s = check::positive("units_per_s", units_per_s.0)?;
        let burst_units = check::positive("burst_units", burst_units.0)?;
        Ok(Self(Lock::new(bucket::TokenBucket::new(now_ns, units_per_s, burst_units))))
    }

    fn try_take(&self, now_ns: Int, units: Int) -> PyResult<i64> {
        let now_ns = check::instant("now_ns", now_ns.0)?;
        Ok(match self.0.hold().take(now_ns, units_of(units)?) {
            Quota::Enough => 0,
            Quota::After(wait_ns) => wait_ns,
            Quota::Never => -1,
        })
    }

    fn put_back(&self, now_ns: Int, units: Int) -> PyResult<()> {
        let now_ns = check::instant("now_ns", now_ns.0)?;
        self.0.hold().put_back(now_ns, units_of(units)?);
        Ok(())
    }

    fn available(&self, now_ns: Int) -> PyResult<f64> {
        Ok(self.0.hold().available(check::instant("now_ns", now_ns.0)?))
    }
}
