//! The simulator and the clairvoyant bound. Both may take long and run without the GIL.
use pyo3::prelude::*;

use super::argument::{Int, Real, Word};
use super::stats::PoolStats;
use super::trace::Trace;
use crate::batching::settings::PolicySettings;
use crate::check;
use crate::cost::Affine;
use crate::error::CoreError;
use crate::sim::bound::{clairvoyant_bound as bound, BoundEffort};
use crate::sim::engine::{Device, Fleet, SimResult, SpeedChange};
use crate::sim::headway::HeadwaySetup;
use crate::sim::rival::Rival;
use crate::sim::run::{simulate as run, Choice};

const MAX_REPLICAS: usize = 4096;

/// What a simulation ended with.
#[pyclass(frozen, module = "headway._core")]
pub struct SimReport {
    result: SimResult,
    stats: Option<crate::scheduler::PoolStats>,
}

#[pymethods]
impl SimReport {
    /// One byte a request.
    #[getter]
    fn fates(&self) -> Vec<u8> {
        self.result.endings.iter().map(|ending| ending.fate as u8).collect()
    }

    #[getter]
    fn ended_at_ns(&self) -> Vec<i64> {
        self.result.endings.iter().map(|ending| ending.at_ns).collect()
    }

    #[getter]
    fn batch_sizes(&self) -> Vec<u32> {
        self.result.endings.iter().map(|ending| ending.batch).collect()
    }

    #[getter]
    fn num_batches(&self) -> u64 {
        self.result.batches
    }

    #[getter]
    fn busy_ns(&self) -> f64 {
        self.result.busy_ns
    }

    #[getter]
    fn stats(&self) -> Option<PoolStats> {
        self.stats.map(PoolStats::from)
    }
}

/// Policy settings as they cross the border.
#[allow(clippy::too_many_arguments)]
pub(super) fn settings(
    alpha: f64,
    large_share: f64,
    bulk_share: f64,
    priority_weights: &[f64],
    shed_early: bool,
    fixed_quantum_ns: f64,
) -> Result<PolicySettings, CoreError> {
    let &[critical, standard, sheddable] = priority_weights else {
        let given = format!("{} weights", priority_weights.len());
        let expected = "three: critical, standard, sheddable";
        return Err(CoreError::argument("priority_weights", given, expected));
    };
    let settings = PolicySettings {
        alpha,
        large_share,
        bulk_share,
        priority_weights: [critical, standard, sheddable],
        shed_early,
        fixed_quantum_ns,
    };
    settings.check()?;
    Ok(settings)
}

fn device(
    intercept_ns: f64,
    slope_ns: f64,
    noise: f64,
    max_requests: i64,
    max_rows: i64,
    max_units: i64,
) -> Result<Device, CoreError> {
    let limit = |name, value| check::count(name, value, 0, check::MAX_UNITS, "0 (none) to 2**38");
    Ok(Device {
        intercept_ns: check::cost("intercept_ns", intercept_ns)?,
        slope_ns: check::cost("slope_ns", slope_ns)?,
        noise: check::ratio("noise", noise)?,
        max_requests: limit("max_requests", max_requests)?,
        max_rows: limit("max_rows", max_rows)?,
        max_units: limit("max_units", max_units)?,
    })
}

fn fleet(
    device: Device,
    speeds: Vec<f64>,
    at_ns: &[i64],
    replicas: &[i64],
    new_speeds: &[f64],
) -> Result<Fleet, CoreError> {
    if speeds.is_empty() || speeds.len() > MAX_REPLICAS {
        return Err(CoreError::argument("speeds", speeds.len(), "1 to 4096 replicas"));
    }
    for speed in &speeds {
        if !(*speed > 0.0 && *speed <= 1e6) {
            return Err(CoreError::argument("speeds", speed, "above 0 and at most 1e6"));
        }
    }
    if at_ns.len() != replicas.len() || at_ns.len() != new_speeds.len() {
        let expected = "as many as change_replicas and change_speeds";
        return Err(CoreError::argument("change_at_ns", at_ns.len(), expected));
    }
    let mut changes = Vec::with_capacity(at_ns.len());
    for ((at_ns, replica), speed) in at_ns.iter().zip(replicas).zip(new_speeds) {
        let most = check::MAX_UNITS.min(i64::try_from(speeds.len()).unwrap_or(i64::MAX) - 1);
        let replica = check::count("change_replicas", *replica, 0, most, "one of the replicas")?;
        changes.push(SpeedChange {
            at_ns: check::instant("change_at_ns", *at_ns)?,
            replica: usize::try_from(replica).unwrap_or(0),
            speed: check::cost("change_speeds", *speed)?,
        });
    }
    changes.sort_by_key(|change| change.at_ns);
    Ok(Fleet { device, speeds, changes })
}

#[allow(clippy::cast_possible_truncation)] // checked
fn rival(name: &str, linger_ns: f64, margin_ns: f64, quantum_ns: f64) -> Result<Rival, CoreError> {
    let linger_ns = check::cost("linger_ns", linger_ns)? as i64;
    Ok(match name {
        "one_by_one" => Rival::OneByOne,
        "fixed_batch" => Rival::FixedBatch { linger_ns },
        "earliest_deadline" => {
            Rival::EarliestDeadline { linger_ns, margin_ns: check::cost("margin_ns", margin_ns)? }
        }
        "first_in_time" => Rival::FirstInTime,
        "shortest_first" => {
            Rival::ShortestFirst { quantum_ns: check::cost("quantum_ns", quantum_ns)? }
        }
        other => {
            let expected = "headway, one_by_one, fixed_batch, earliest_deadline, first_in_time \
                            or shortest_first";
            return Err(CoreError::argument("policy", other, expected));
        }
    })
}

/// Simulates a scheduler over a trace.
#[pyfunction]
#[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)] // the contract's keywords
#[pyo3(signature = (
    trace, *, policy, seed, intercept_ns, slope_ns, noise, max_requests, max_rows, max_units,
    speeds, change_at_ns, change_replicas, change_speeds, linger_ns, margin_ns, quantum_ns,
    prior_intercept_ns, prior_slope_ns, learns, max_queued_requests, alpha, large_share,
    bulk_share, priority_weights, shed_early, fixed_quantum_ns
))]
pub fn simulate(
    py: Python<'_>,
    trace: &Bound<'_, Trace>,
    policy: &str,
    seed: Word,
    intercept_ns: Real,
    slope_ns: Real,
    noise: Real,
    max_requests: Int,
    max_rows: Int,
    max_units: Int,
    speeds: Vec<f64>,
    change_at_ns: Vec<i64>,
    change_replicas: Vec<i64>,
    change_speeds: Vec<f64>,
    linger_ns: Real,
    margin_ns: Real,
    quantum_ns: Real,
    prior_intercept_ns: Real,
    prior_slope_ns: Real,
    learns: bool,
    max_queued_requests: Int,
    alpha: Real,
    large_share: Real,
    bulk_share: Real,
    priority_weights: Vec<f64>,
    shed_early: bool,
    fixed_quantum_ns: Real,
) -> PyResult<SimReport> {
    let seed = seed.get("seed")?;
    let device =
        device(intercept_ns.0, slope_ns.0, noise.0, max_requests.0, max_rows.0, max_units.0)?;
    let fleet = fleet(device, speeds, &change_at_ns, &change_replicas, &change_speeds)?;
    let choice = if policy == "headway" {
        Choice::Headway(HeadwaySetup {
            settings: settings(
                alpha.0,
                large_share.0,
                bulk_share.0,
                &priority_weights,
                shed_early,
                fixed_quantum_ns.0,
            )?,
            prior: Affine { fixed_ns: prior_intercept_ns.0, unit_ns: prior_slope_ns.0 },
            is_learning: learns,
            max_queued_requests: max_queued_requests.0,
            seed,
        })
    } else {
        Choice::Rival(rival(policy, linger_ns.0, margin_ns.0, quantum_ns.0)?)
    };
    let trace = &trace.get().0;
    // The device's noise and the scheduler's draws must not be the same numbers.
    let noise_seed = seed ^ 0x6E6F_6973_6500_0001;
    let (result, stats) = py.detach(|| run(trace, &fleet, &choice, noise_seed))?;
    Ok(SimReport { result, stats })
}

/// Upper bound of the weight that any scheduler could serve in time on one device.
#[pyfunction]
#[allow(clippy::too_many_arguments)]
#[pyo3(signature = (
    trace, *, intercept_ns, slope_ns, max_requests, max_units, search_step_ns, search_rounds,
    final_step_ns, final_rounds
))]
pub fn clairvoyant_bound(
    py: Python<'_>,
    trace: &Bound<'_, Trace>,
    intercept_ns: Real,
    slope_ns: Real,
    max_requests: Int,
    max_units: Int,
    search_step_ns: Int,
    search_rounds: Int,
    final_step_ns: Int,
    final_rounds: Int,
) -> PyResult<f64> {
    let device = device(intercept_ns.0, slope_ns.0, 0.0, max_requests.0, 0, max_units.0)?;
    let step = |name, value: Int| check::duration(name, value.0, 10_000);
    let rounds = |name, value: Int| {
        let count = check::count(name, value.0, 0, 100_000, "from 0 to 100000")?;
        Ok::<u32, CoreError>(u32::try_from(count).unwrap_or(0))
    };
    let effort = BoundEffort {
        search_step_ns: step("search_step_ns", search_step_ns)?.max(10_000),
        search_rounds: rounds("search_rounds", search_rounds)?,
        final_step_ns: step("final_step_ns", final_step_ns)?.max(10_000),
        final_rounds: rounds("final_rounds", final_rounds)?,
    };
    let trace = &trace.get().0;
    Ok(py.detach(|| bound(trace, &device, &effort)))
}
