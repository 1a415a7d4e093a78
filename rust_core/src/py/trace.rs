//! Arrivals for the simulator.
use pyo3::prelude::*;

use super::argument::{Int, Real, Word};
use crate::check;
use crate::error::CoreError;
use crate::sim::trace::{Trace as Core, TraceRow};
use crate::sim::workload::{ClassMix, Workload};

/// Most arrivals of one trace: request numbers are 32 bits, and memory is finite.
const MAX_ROWS: usize = 1 << 27;

/// Arrivals, column by column.
#[pyclass(frozen, module = "headway._core")]
pub struct Trace(pub Core);

fn equal(name: &'static str, given: usize, expected: usize) -> Result<(), CoreError> {
    if given == expected {
        return Ok(());
    }
    let given = format!("{given} values for {expected}");
    Err(CoreError::argument(name, given, "as many values as the other columns"))
}

fn positive(name: &'static str, value: f64) -> Result<f64, CoreError> {
    if value > 0.0 && value <= 1e18 {
        return Ok(value);
    }
    Err(CoreError::argument(name, value, "above 0 and at most 1e18"))
}

fn small<T: TryFrom<i64>>(name: &'static str, value: i64) -> Result<T, CoreError> {
    T::try_from(value).map_err(|_| CoreError::argument(name, value, "a small non-negative integer"))
}

fn choice(name: &'static str, value: i64, most: i64) -> Result<u8, CoreError> {
    if (1..=most).contains(&value) {
        return small(name, value);
    }
    Err(CoreError::argument(name, value, "an enum value from 1"))
}

#[pymethods]
impl Trace {
    #[new]
    #[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)] // columns, by value
    #[pyo3(signature = (
        *, duration_ns, at_ns, units, rows, deadline_ns, classes, lanes, priorities, tenants,
        weights, cancel_after_ns
    ))]
    fn new(
        duration_ns: Int,
        at_ns: Vec<i64>,
        units: Vec<i64>,
        rows: Vec<i64>,
        deadline_ns: Vec<i64>,
        classes: Vec<i64>,
        lanes: Vec<i64>,
        priorities: Vec<i64>,
        tenants: Vec<i64>,
        weights: Vec<f64>,
        cancel_after_ns: Vec<i64>,
    ) -> PyResult<Self> {
        let num = at_ns.len();
        for (name, len) in [
            ("units", units.len()),
            ("rows", rows.len()),
            ("deadline_ns", deadline_ns.len()),
            ("classes", classes.len()),
            ("lanes", lanes.len()),
            ("priorities", priorities.len()),
            ("tenants", tenants.len()),
            ("weights", weights.len()),
            ("cancel_after_ns", cancel_after_ns.len()),
        ] {
            equal(name, len, num)?;
        }
        if num > MAX_ROWS {
            return Err(CoreError::argument("at_ns", num, "at most 2**27 arrivals").into());
        }
        let mut trace = Core {
            rows: Vec::with_capacity(num),
            duration_ns: check::duration("duration_ns", duration_ns.0, 1)?,
        };
        let mut before_ns = 0;
        for at in 0..num {
            if at_ns[at] < before_ns {
                let expected = "instants from 0 on, in order";
                return Err(CoreError::argument("at_ns", at_ns[at], expected).into());
            }
            before_ns = check::instant("at_ns", at_ns[at])?;
            let cancel_ns = cancel_after_ns[at];
            trace.rows.push(TraceRow {
                at_ns: before_ns,
                units: check::count("units", units[at], 1, check::MAX_UNITS, "from 1 to 2**38")?,
                rows: small("rows", rows[at].max(1))?,
                deadline_ns: check::duration("deadline_ns", deadline_ns[at], 1)?,
                class: small("classes", classes[at])?,
                lane: choice("lanes", lanes[at], 2)?,
                priority: choice("priorities", priorities[at], 3)?,
                tenant: small("tenants", tenants[at])?,
                weight: positive("weights", weights[at])?,
                cancel_after_ns: if cancel_ns < 0 { i64::MAX } else { cancel_ns },
            });
        }
        Ok(Self(trace))
    }

    #[staticmethod]
    #[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)]
    #[pyo3(signature = (
        *, seed, duration_ns, rate_from_ns, rates_per_s, burst_on_ns, burst_off_ns,
        burst_off_ratio, log_units_mean, log_units_spread, min_units, max_units, class_shares,
        class_min_deadlines_ns, class_max_deadlines_ns, class_weights, class_lanes,
        class_priorities, tenants, cancel_share, cancel_mean_ns, max_rows
    ))]
    fn draw(
        seed: Word,
        duration_ns: Int,
        rate_from_ns: Vec<i64>,
        rates_per_s: Vec<f64>,
        burst_on_ns: Real,
        burst_off_ns: Real,
        burst_off_ratio: Real,
        log_units_mean: Real,
        log_units_spread: Real,
        min_units: Int,
        max_units: Int,
        class_shares: Vec<f64>,
        class_min_deadlines_ns: Vec<i64>,
        class_max_deadlines_ns: Vec<i64>,
        class_weights: Vec<f64>,
        class_lanes: Vec<i64>,
        class_priorities: Vec<i64>,
        tenants: Int,
        cancel_share: Real,
        cancel_mean_ns: Real,
        max_rows: Int,
    ) -> PyResult<Self> {
        equal("rates_per_s", rates_per_s.len(), rate_from_ns.len())?;
        if rates_per_s.is_empty() || rate_from_ns[0] != 0 {
            let expected = "at least one step, the first from 0";
            return Err(CoreError::argument("rate_from_ns", "other steps", expected).into());
        }
        let num = class_shares.len();
        equal("class_min_deadlines_ns", class_min_deadlines_ns.len(), num)?;
        equal("class_max_deadlines_ns", class_max_deadlines_ns.len(), num)?;
        equal("class_weights", class_weights.len(), num)?;
        equal("class_lanes", class_lanes.len(), num)?;
        equal("class_priorities", class_priorities.len(), num)?;
        if num == 0 || num > 256 {
            return Err(CoreError::argument("class_shares", num, "1 to 256 classes").into());
        }
        let mut classes = Vec::with_capacity(num);
        for at in 0..num {
            let deadline_min_ns =
                check::duration("class_min_deadlines_ns", class_min_deadlines_ns[at], 1)?;
            classes.push(ClassMix {
                share: positive("class_shares", class_shares[at])?,
                deadline_min_ns,
                deadline_max_ns: check::duration(
                    "class_max_deadlines_ns",
                    class_max_deadlines_ns[at].max(deadline_min_ns),
                    1,
                )?,
                weight: positive("class_weights", class_weights[at])?,
                lane: choice("class_lanes", class_lanes[at], 2)?,
                priority: choice("class_priorities", class_priorities[at], 3)?,
            });
        }
        let least = check::count("min_units", min_units.0, 1, check::MAX_UNITS, "from 1")?;
        let most = check::count("max_units", max_units.0, 1, check::MAX_UNITS, "from 1")?;
        let duration_ns = check::duration("duration_ns", duration_ns.0, 1)?;
        for rate in &rates_per_s {
            check::cost("rates_per_s", *rate)?;
            if *rate * duration_ns as f64 / 1e9 > MAX_ROWS as f64 {
                let expected = "at most 2**27 arrivals over the duration";
                return Err(CoreError::argument("rates_per_s", rate, expected).into());
            }
        }
        let workload = Workload {
            duration_ns,
            rates: rate_from_ns.into_iter().zip(rates_per_s).collect(),
            burst_ns: (
                check::cost("burst_on_ns", burst_on_ns.0)?,
                check::cost("burst_off_ns", burst_off_ns.0)?,
            ),
            burst_off_ratio: check::ratio("burst_off_ratio", burst_off_ratio.0)?,
            log_units_mean: log_units_mean.0.clamp(-40.0, 40.0),
            log_units_spread: check::cost("log_units_spread", log_units_spread.0)?,
            units_bounds: (least, most.max(least)),
            classes,
            tenants: small("tenants", tenants.0)?,
            cancel_share: check::ratio("cancel_share", cancel_share.0)?,
            cancel_mean_ns: check::cost("cancel_mean_ns", cancel_mean_ns.0)?,
            max_rows: small("max_rows", max_rows.0)?,
        };
        Ok(Self(workload.draw(seed.get("seed")?)))
    }

    fn head(&self, until_ns: Int) -> Self {
        Self(self.0.head(until_ns.0))
    }

    fn __len__(&self) -> usize {
        self.0.rows.len()
    }

    #[getter]
    fn duration_ns(&self) -> i64 {
        self.0.duration_ns
    }

    #[getter]
    fn at_ns(&self) -> Vec<i64> {
        self.0.rows.iter().map(|row| row.at_ns).collect()
    }

    #[getter]
    fn units(&self) -> Vec<u64> {
        self.0.rows.iter().map(|row| row.units).collect()
    }

    #[getter]
    fn rows(&self) -> Vec<u32> {
        self.0.rows.iter().map(|row| row.rows).collect()
    }

    #[getter]
    fn deadline_ns(&self) -> Vec<i64> {
        self.0.rows.iter().map(|row| row.deadline_ns).collect()
    }

    #[getter]
    fn classes(&self) -> Vec<u16> {
        self.0.rows.iter().map(|row| u16::from(row.class)).collect()
    }

    #[getter]
    fn lanes(&self) -> Vec<u16> {
        self.0.rows.iter().map(|row| u16::from(row.lane)).collect()
    }

    #[getter]
    fn priorities(&self) -> Vec<u16> {
        self.0.rows.iter().map(|row| u16::from(row.priority)).collect()
    }

    #[getter]
    fn tenants(&self) -> Vec<u32> {
        self.0.rows.iter().map(|row| row.tenant).collect()
    }

    #[getter]
    fn weights(&self) -> Vec<f64> {
        self.0.rows.iter().map(|row| row.weight).collect()
    }

    #[getter]
    fn cancel_after_ns(&self) -> Vec<i64> {
        let signed = |ns: i64| if ns == i64::MAX { -1 } else { ns };
        self.0.rows.iter().map(|row| signed(row.cancel_after_ns)).collect()
    }
}
