//! Requests in deadline order.
use pyo3::prelude::*;

use super::argument::Int;
use super::lock::Lock;
use crate::check;
use crate::edf;

/// Requests by (deadline, ticket), with order statistics.
#[pyclass(frozen, module = "headway._core")]
pub struct EdfQueue(Lock<edf::EdfQueue>);

#[pymethods]
impl EdfQueue {
    #[new]
    fn new() -> Self {
        Self(Lock::new(edf::EdfQueue::new()))
    }

    fn push(&self, ticket: Int, deadline_ns: Int, units: Int) -> PyResult<()> {
        let ticket = check::count("ticket", ticket.0, 0, check::MAX_NS, "from 0 to 2**62")?;
        let deadline_ns = check::instant("deadline_ns", deadline_ns.0)?;
        let units = check::count("units", units.0, 0, check::MAX_UNITS, "from 0 to 2**38")?;
        Ok(self.0.hold().push(ticket, deadline_ns, units)?)
    }

    fn remove(&self, ticket: Int) -> bool {
        u64::try_from(ticket.0).is_ok_and(|ticket| self.0.hold().remove(ticket))
    }

    fn peek(&self) -> Option<(u64, i64)> {
        self.0.hold().peek()
    }

    fn pop(&self) -> Option<u64> {
        self.0.hold().pop()
    }

    fn units_before(&self, deadline_ns: Int) -> u64 {
        self.0.hold().before(deadline_ns.0).1
    }

    fn count_before(&self, deadline_ns: Int) -> usize {
        self.0.hold().before(deadline_ns.0).0
    }

    fn total_units(&self) -> u64 {
        self.0.hold().total_units()
    }

    fn __len__(&self) -> usize {
        self.0.hold().len()
    }
}
