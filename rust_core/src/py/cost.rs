//! Device time of a batch, learned.
use pyo3::prelude::*;

use super::argument::{Int, Real};
use super::lock::Lock;
use crate::check;
use crate::cost::{self, Affine};
use crate::error::CoreError;

/// Device time of a batch = intercept + slope * units.
#[pyclass(frozen, module = "headway._core")]
pub struct CostModel(Lock<cost::CostModel>);

fn units_of(units: Int) -> Result<u64, CoreError> {
    check::count("units", units.0, 1, check::MAX_NS, "from 1 to 2**62")
}

#[pymethods]
impl CostModel {
    #[new]
    #[pyo3(signature = (*, prior_intercept_ns, prior_slope_ns))]
    fn new(prior_intercept_ns: Real, prior_slope_ns: Real) -> PyResult<Self> {
        let prior = Affine {
            fixed_ns: check::cost("prior_intercept_ns", prior_intercept_ns.0)?,
            unit_ns: check::cost("prior_slope_ns", prior_slope_ns.0)?,
        };
        Ok(Self(Lock::new(cost::CostModel::new(prior))))
    }

    fn observe(&self, units: Int, device_ns: Int) -> PyResult<()> {
        let units = units_of(units)?;
        let device_ns = check::duration("device_ns", device_ns.0, 0)?;
        self.0.hold().observe(units, device_ns as f64);
        Ok(())
    }

    fn predict_ns(&self, units: Int) -> PyResult<i64> {
        Ok(self.0.hold().predict_ns(units_of(units)?))
    }

    fn quantile_ns(&self, units: Int, quantile: Real) -> PyResult<i64> {
        let quantile = check::ratio("quantile", quantile.0)?;
        Ok(self.0.hold().quantile_ns(units_of(units)?, quantile))
    }

    #[getter]
    fn intercept_ns(&self) -> f64 {
        self.0.hold().expected().fixed_ns
    }

    #[getter]
    fn slope_ns(&self) -> f64 {
        self.0.hold().expected().unit_ns
    }

    #[getter]
    fn residual_ratio(&self) -> f64 {
        self.0.hold().residual_ratio()
    }

    #[getter]
    fn observations(&self) -> u64 {
        self.0.hold().observations()
    }
}
