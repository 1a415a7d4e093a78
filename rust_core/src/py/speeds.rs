//! Replicas that write, by how quick they are.
use pyo3::prelude::*;

use super::argument::{Int, Real};
use super::lock::Lock;
use crate::check;
use crate::lanes;

/// Replicas by their wait for a first unit and their gap between units.
#[pyclass(frozen, module = "headway._core")]
pub struct ReplicaSpeeds(Lock<lanes::ReplicaSpeeds>);

#[pymethods]
impl ReplicaSpeeds {
    #[new]
    fn new() -> Self {
        Self(Lock::new(lanes::ReplicaSpeeds::default()))
    }

    fn set(&self, replica: Int, wait_ns: Int, gap_ns: Real) -> PyResult<()> {
        let replica = check::count("replica", replica.0, 0, i64::MAX, "from 0 to 2**63 - 1")?;
        let wait_ns = check::duration("wait_ns", wait_ns.0, 0)?;
        let gap_ns = check::cost("gap_ns", gap_ns.0)?;
        self.0.hold().set(replica, wait_ns.unsigned_abs(), gap_ns);
        Ok(())
    }

    fn remove(&self, replica: Int) {
        if let Ok(replica) = u64::try_from(replica.0) {
            self.0.hold().remove(replica);
        }
    }

    fn quickest(
        &self,
        scale: Real,
        silent_ns: Real,
        num_gaps: Real,
    ) -> PyResult<Option<(f64, f64, f64)>> {
        let scale = check::cost("scale", scale.0)?;
        let silent_ns = check::cost("silent_ns", silent_ns.0)?;
        let num_gaps = check::cost("num_gaps", num_gaps.0)?;
        let found = self.0.hold().quickest(scale, silent_ns, num_gaps);
        Ok(found.map(|found| (found.first_ns, found.rest_ns, found.bound_ns)))
    }

    fn __len__(&self) -> usize {
        self.0.hold().len()
    }
}
