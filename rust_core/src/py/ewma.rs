//! Latency, pessimistic and forgetting.
use pyo3::prelude::*;

use super::argument::Int;
use super::lock::Lock;
use crate::check;
use crate::ewma;

/// Latency estimate that jumps to peaks and decays by elapsed time, toward its prior.
#[pyclass(frozen, module = "headway._core")]
pub struct PeakEwma {
    estimate: Lock<ewma::PeakEwma>,
    prior_ns: f64,
}

#[pymethods]
impl PeakEwma {
    #[new]
    #[pyo3(signature = (now_ns, *, decay_ns, prior_ns))]
    fn new(now_ns: Int, decay_ns: Int, prior_ns: Int) -> PyResult<Self> {
        let now_ns = check::instant("now_ns", now_ns.0)?;
        let decay_ns = check::duration("decay_ns", decay_ns.0, 1)?;
        let prior_ns = check::duration("prior_ns", prior_ns.0, 0)? as f64;
        Ok(Self { estimate: Lock::new(ewma::PeakEwma::new(now_ns, decay_ns)), prior_ns })
    }

    fn observe(&self, now_ns: Int, latency_ns: Int) -> PyResult<()> {
        let now_ns = check::instant("now_ns", now_ns.0)?;
        let latency_ns = check::duration("latency_ns", latency_ns.0, 0)?;
        self.estimate.hold().observe(now_ns, latency_ns);
        Ok(())
    }

    fn value_ns(&self, now_ns: Int) -> PyResult<f64> {
        let now_ns = check::instant("now_ns", now_ns.0)?;
        Ok(self.estimate.hold().value_ns(now_ns, self.prior_ns))
    }
}
