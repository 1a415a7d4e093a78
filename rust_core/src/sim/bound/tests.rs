//! Against the optimum, by exhaustion.
use super::*;
use crate::rng::Rng;
use crate::sim::trace::TraceRow;

const DEVICE: Device = Device {
    intercept_ns: 18e6,
    slope_ns: 22e3,
    noise: 0.0,
    max_requests: 2,
    max_rows: 0,
    max_units: 0,
};

/// Sum over the instances of the configuration program's value, solved by `HiGHS` at 0.25 ms as
/// `tests/sim/test_bound.py` does. The bound may be 1 % above it, which is what 60 rounds leave.
const PROGRAM: f64 = 163.45;

/// Largest number of requests on time, by trying every order of every batch.
fn optimum(jobs: &[Job], left: u32, now_ns: i64) -> u32 {
    let mut best = 0;
    for batch in 1..(1u32 << jobs.len()) {
        if batch & !left != 0 || batch.count_ones() > 2 {
            continue;
        }
        let members = || jobs.iter().enumerate().filter(move |(at, _)| batch >> at & 1 == 1);
        let start_ns = members().map(|(_, job)| job.at_ns).fold(now_ns, i64::max);
        let units: f64 = members().map(|(_, job)| job.units).sum();
        #[allow(clippy::cast_possible_truncation)]
        let end_ns = start_ns + (DEVICE.intercept_ns + DEVICE.slope_ns * units) as i64;
        if members().all(|(_, job)| end_ns <= job.due_ns) {
            best = best.max(batch.count_ones() + optimum(jobs, left & !batch, end_ns));
        }
    }
    best
}

#[test]
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn is_never_below_the_optimum_and_near_it() {
    let effort = BoundEffort {
        search_step_ns: 1_000_000,
        search_rounds: 60,
        final_step_ns: 250_000,
        final_rounds: 60,
    };
    let (mut bounds, mut optima) = (0.0, 0.0);
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let mut rows: Vec<TraceRow> = (0..6)
            .map(|_| TraceRow {
                at_ns: (rng.uniform() * 80e6) as i64,
                units: 50 + (rng.uniform() * 1500.0) as u64,
                rows: 1,
                deadline_ns: 40_000_000 + (rng.uniform() * 60e6) as i64,
                class: 0,
                lane: 1,
                priority: 2,
                tenant: 0,
                weight: 1.0,
                cancel_after_ns: i64::MAX,
            })
            .collect();
        rows.sort_by_key(|row| row.at_ns);
        let trace = Trace { rows, duration_ns: 80_000_000 };
        let jobs = jobs_of(&trace);
        let optimum = f64::from(optimum(&jobs, (1 << jobs.len()) - 1, 0));
        let bound = clairvoyant_bound(&trace, &DEVICE, &effort);
        assert!(bound >= optimum - 1e-9, "seed {seed}: {bound} below {optimum}");
        bounds += bound;
        optima += optimum;
    }
    assert!((optima - 156.0).abs() < 1e-9);
    assert!(bounds <= 1.01 * PROGRAM, "{bounds} against {PROGRAM}");
}
