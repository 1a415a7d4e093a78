//! What is learned: cost, latency, quantiles, quotas; each against a naive model or by hand.
#![allow(
    clippy::float_cmp, // where equality is exact
    clippy::cast_possible_truncation, // small numbers throughout
    clippy::cast_sign_loss
)]
mod support;

use headway_core::bucket::{Quota, TokenBucket};
use headway_core::cost::{Affine, CostModel};
use headway_core::ewma::PeakEwma;
use headway_core::histogram::QuantileHistogram;
use headway_core::median::RecentMedian;
use headway_core::residual::Residuals;
use proptest::prelude::*;

use support::cases;

const PRIOR: Affine = Affine { fixed_ns: 18e6, unit_ns: 22e3 };

fn close(one: f64, two: f64, tolerance: f64) -> bool {
    (one - two).abs() <= tolerance * one.abs().max(two.abs()).max(1.0)
}

/// Weighted least squares over all observations, as the textbook has it.
fn naive_fit(seen: &[(f64, f64)], slope_before: f64) -> (f64, f64) {
    let weight = |index: usize| 0.98f64.powi(i32::try_from(seen.len() - 1 - index).unwrap_or(0));
    let sum = |term: &dyn Fn(f64, f64) -> f64| -> f64 {
        seen.iter().enumerate().map(|(index, &(x, y))| weight(index) * term(x, y)).sum()
    };
    let total = sum(&|_, _| 1.0);
    let (mean_x, mean_y) = (sum(&|x, _| x) / total, sum(&|_, y| y) / total);
    let spread = sum(&|x, _| (x - mean_x) * (x - mean_x)) / total;
    let slope = if spread > 0.0064 * mean_x * mean_x {
        sum(&|x, y| (x - mean_x) * (y - mean_y)) / total / spread
    } else {
        slope_before
    };
    if slope < 0.0 {
        (mean_y, 0.0)
    } else if mean_y - slope * mean_x < 0.0 {
        (0.0, sum(&|x, y| x * y) / sum(&|x, _| x * x))
    } else {
        (mean_y - slope * mean_x, slope)
    }
}

proptest! {
    #![proptest_config(cases(256, 20_240_511))]

    #[test]
    fn cost_model_equals_naive_weighted_least_squares(
        fixed in 1e6..5e7f64,
        unit in 0.0..1e5f64,
        batches in prop::collection::vec((1..20_000u64, 0.9..1.1f64), 4..80),
    ) {
        let mut model = CostModel::new(PRIOR);
        let mut seen: Vec<(f64, f64)> = Vec::new();
        let mut naive = (PRIOR.fixed_ns, PRIOR.unit_ns);
        for (units, noise) in batches {
            let device_ns = (fixed + unit * units as f64) * noise;
            // The cap and the step rule are tested by hand below; here nothing may trigger them.
            let predicted = naive.0 + naive.1 * units as f64;
            let surprise = device_ns / predicted;
            if seen.len() >= 4 && !(0.76..1.24).contains(&surprise) {
                continue;
            }
            model.observe(units, device_ns);
            seen.push((units as f64, device_ns));
            if seen.len() >= 4 {
                naive = naive_fit(&seen, naive.1);
            } else if !(1.0 / 16.0..=16.0).contains(&surprise) {
                // One batch refutes the prior.
                naive = (naive.0 * surprise, naive.1 * surprise);
            }
            prop_assert!(close(model.expected().fixed_ns, naive.0, 1e-5), "{:?} {naive:?}", model.expected());
            prop_assert!(close(model.expected().unit_ns, naive.1, 1e-5), "{:?} {naive:?}", model.expected());
        }
        prop_assert_eq!(model.observations(), seen.len() as u64);
    }

    #[test]
    fn cost_is_never_negative_nor_absurd(
        batches in prop::collection::vec((1..1u64 << 40, 1.0..1e18f64), 1..200),
    ) {
        let mut model = CostModel::new(PRIOR);
        for (units, device_ns) in batches {
            model.observe(units, device_ns);
            let fit = model.expected();
            prop_assert!(fit.fixed_ns >= 0.0 && fit.fixed_ns.is_finite(), "{fit:?}");
            prop_assert!(fit.unit_ns >= 0.0 && fit.unit_ns.is_finite(), "{fit:?}");
            prop_assert!(model.predict_ns(units) >= 0);
            prop_assert!(model.quantile_ns(units, 0.9) >= 0);
        }
    }

    #[test]
    fn histogram_is_within_one_in_64(
        values in prop::collection::vec(prop_oneof![0..100u64, 0..1u64 << 62], 1..200),
        q in 0.0..=1.0f64,
    ) {
        let (mut histogram, mut other) = (QuantileHistogram::new(), QuantileHistogram::new());
        for (index, &value) in values.iter().enumerate() {
            if index % 2 == 0 { histogram.record(value, 1) } else { other.record(value, 1) }
        }
        histogram.merge(&other);
        let mut sorted = values.clone();
        sorted.sort_unstable();
        let rank = ((q * values.len() as f64).ceil() as usize).clamp(1, values.len());
        let (exact, found) = (sorted[rank - 1], histogram.quantile(q));
        prop_assert!(exact <= found && found - exact <= exact / 64, "{found} for {exact}");
        prop_assert_eq!(histogram.count(), values.len() as u64);
        prop_assert_eq!(Some(&histogram.max()), sorted.last());
        let mean = values.iter().map(|&value| u128::from(value)).sum::<u128>() as f64 / values.len() as f64;
        prop_assert!(close(histogram.mean(), mean, 1e-12));
    }

    #[test]
    fn bucket_equals_exact_integer_arithmetic(
        rate in 1..10_000i128,
        burst in 1..5_000i128,
        steps in prop::collection::vec((0..2_000_000_000i64, 0..6_000u64, any::<bool>()), 1..60),
    ) {
        // The model counts in billionths of a unit, so that rates per second are exact per ns.
        const SCALE: i128 = 1_000_000_000;
        let mut bucket = TokenBucket::new(0, rate as f64, burst as f64);
        let (mut level, mut now) = (burst * SCALE, 0i64);
        for (elapsed, units, is_return) in steps {
            now += elapsed;
            level = (level + rate * i128::from(elapsed)).min(burst * SCALE);
            let needed = i128::from(units) * SCALE;
            // The bucket forgives a millionth of a unit; skip what lies that near to the edge.
            if (needed - level).abs() < 10_000 || (needed - burst * SCALE).abs() < 10_000 {
                continue;
            }
            if is_return {
                bucket.put_back(now, units);
                level = (level + needed).min(burst * SCALE);
            } else {
                let expected = if needed > burst * SCALE {
                    Quota::Never
                } else if needed <= level {
                    level -= needed;
                    Quota::Enough
                } else {
                    let wait = i64::try_from((needed - level + rate - 1) / rate).unwrap_or(i64::MAX);
                    let found = bucket.check(now, units);
                    let Quota::After(found_ns) = found else { return Err(TestCaseError::fail(format!("{found:?}"))) };
                    prop_assert!((found_ns - wait).abs() <= 2, "{found_ns} for {wait}");
                    prop_assert_eq!(bucket.check(now + found_ns, units), Quota::Enough);
                    found
                };
                prop_assert_eq!(bucket.take(now, units), expected);
            }
            prop_assert!(close(bucket.available(now), level as f64 / SCALE as f64, 1e-6));
        }
    }

    #[test]
    fn residual_quantiles_equal_sorted_ones(ratios in prop::collection::vec(-0.9..3.0f64, 1..200), q in 0.0..=1.0f64) {
        let mut residuals = Residuals::new();
        for &ratio in &ratios {
            residuals.push(ratio);
        }
        let mut last: Vec<f64> = ratios[ratios.len().saturating_sub(64)..].to_vec();
        last.sort_by(f64::total_cmp);
        let place = q * (last.len() - 1) as f64;
        let (low, high) = (last[place.floor() as usize], last[place.ceil() as usize]);
        let expected = low + (high - low) * place.fract();
        prop_assert!(close(residuals.quantile(q), expected, 1e-9));
        let mean = last.iter().sum::<f64>() / last.len() as f64;
        let variance = last.iter().map(|ratio| (ratio - mean).powi(2)).sum::<f64>() / last.len() as f64;
        prop_assert!((residuals.deviation() - variance.sqrt()).abs() < 1e-9);
    }
}

#[test]
fn one_batch_refutes_a_prior_that_is_off_by_a_hundred() {
    let mut model = CostModel::new(Affine { fixed_ns: 1.8e9, unit_ns: 2.2e6 });
    model.observe(1000, 40_000_000.0);
    // Predicted 4 s, took 40 ms: a hundredth of both parts.
    assert!(close(model.expected().fixed_ns, 18e6, 1e-9));
    assert!(close(model.expected().unit_ns, 22e3, 1e-9));
}

#[test]
fn prior_holds_until_the_fourth_batch() {
    let mut model = CostModel::new(PRIOR);
    for (units, device_ns) in [(100, 3e6), (200, 5e6), (300, 7e6)] {
        model.observe(units, device_ns);
        assert_eq!(model.expected(), PRIOR);
    }
    model.observe(400, 9e6);
    assert!(close(model.expected().fixed_ns, 1e6, 1e-9), "{:?}", model.expected());
    assert!(close(model.expected().unit_ns, 2e4, 1e-9), "{:?}", model.expected());
    assert_eq!(model.predict_ns(500), 11_000_000);
}

#[test]
fn indeterminate_times_teach_nothing() {
    let mut model = CostModel::new(PRIOR);
    for _ in 0..10 {
        model.observe(100, 0.0);
        model.observe(0, 5e6);
    }
    assert_eq!((model.observations(), model.expected()), (0, PRIOR));
}

#[test]
fn same_size_batches_move_the_level_only() {
    let mut model = CostModel::new(PRIOR);
    for _ in 0..50 {
        model.observe(100, 22e6);
    }
    // 22 ms - 100 * 22 us = 19.8 ms
    assert!(close(model.expected().fixed_ns, 19.8e6, 1e-9), "{:?}", model.expected());
    assert_eq!(model.expected().unit_ns, 22e3);
}

#[test]
fn a_violated_constraint_is_solved_again_not_clamped() {
    // Falling with size: slope 0, intercept the mean (weights aside), not the extrapolated 11 ms.
    let mut falling = CostModel::new(PRIOR);
    for (units, device_ns) in [(100, 10e6), (200, 9e6), (300, 8e6), (400, 7e6)] {
        falling.observe(units, device_ns);
    }
    assert_eq!(falling.expected().unit_ns, 0.0);
    assert!((8.4e6..8.6e6).contains(&falling.expected().fixed_ns), "{:?}", falling.expected());

    // A negative intercept: 0, and the slope through the origin, sum(xy) / sum(xx).
    let mut steep = CostModel::new(PRIOR);
    for (units, device_ns) in [(100, 1e6), (200, 3e6), (300, 5e6), (400, 7e6)] {
        steep.observe(units, device_ns);
    }
    assert_eq!(steep.expected().fixed_ns, 0.0);
    assert!((16_600.0..16_750.0).contains(&steep.expected().unit_ns), "{:?}", steep.expected());
}

fn learned() -> CostModel {
    let mut model = CostModel::new(PRIOR);
    for round in 0..20 {
        let units = 100 + 100 * (round % 5);
        model.observe(units, 18e6 + 22e3 * units as f64);
    }
    model
}

#[test]
fn one_stray_batch_hardly_moves_the_fit() {
    let mut model = learned();
    model.observe(300, 10e9);
    let predicted = model.expected().at(300);
    // Exact 24.6 ms; the stray one counts for four times that, at 1 part in 18 of the weight.
    assert!(predicted < 24.6e6 * 1.25, "{predicted}");
}

#[test]
fn a_changed_device_is_followed_after_three_batches() {
    for factor in [0.25, 4.0, 50.0] {
        let mut model = learned();
        for _ in 0..3 {
            model.observe(300, 24.6e6 * factor);
        }
        let off = model.expected().at(300) / (24.6e6 * factor) - 1.0;
        assert!(off.abs() < 0.02, "factor {factor}: off by {off}");
    }
}

#[test]
fn quantile_follows_the_residuals_seen() {
    let mut model = learned();
    assert_eq!(model.quantile_ns(300, 0.9), 24_600_000);
    for round in 0..64 {
        model.observe(300, 24.6e6 * if round % 2 == 0 { 1.1 } else { 0.9 });
    }
    let high = model.quantile_ns(300, 0.9) as f64 / model.predict_ns(300) as f64;
    assert!((1.08..1.12).contains(&high), "{high}");
    assert!((0.09..0.11).contains(&model.residual_ratio()), "{}", model.residual_ratio());
}

#[test]
fn peak_ewma_jumps_to_peaks_decays_and_relaxes() {
    let second = 1_000_000_000;
    let mut latency = PeakEwma::new(0, 10 * second);
    assert_eq!(latency.value_ns(5, 700.0), 700.0);
    latency.observe(0, 1_000);
    assert_eq!(latency.value_ns(0, 700.0), 1_000.0);
    latency.observe(0, 4_000);
    assert_eq!(latency.value_ns(0, 700.0), 4_000.0);
    // One decay later: 1/e of the way is left, toward the sample and toward the prior alike.
    latency.observe(10 * second, 1_000);
    let level = 4_000.0 / std::f64::consts::E + 1_000.0 * (1.0 - 1.0 / std::f64::consts::E);
    assert!(close(latency.value_ns(10 * second, 700.0), level, 1e-12));
    let relaxed = 700.0 + (level - 700.0) / std::f64::consts::E;
    assert!(close(latency.value_ns(20 * second, 700.0), relaxed, 1e-12));
    // Long idle, it is the prior: neither the fastest nor the slowest.
    assert!(close(latency.value_ns(1_000 * second, 700.0), 700.0, 1e-9));
}

#[test]
fn median_of_nine_ignores_strays() {
    let mut median = RecentMedian::new();
    assert_eq!(median.value(), None);
    for value in [5, 1_000_000, 6, 7, 5] {
        median.push(value);
    }
    assert_eq!(median.value(), Some(6));
    for _ in 0..9 {
        median.push(9);
    }
    assert_eq!(median.value(), Some(9));
}

#[test]
fn histogram_of_known_values() {
    let mut histogram = QuantileHistogram::new();
    assert_eq!((histogram.quantile(0.5), histogram.max(), histogram.count()), (0, 0, 0));
    histogram.record(10, 90);
    histogram.record(1_000, 10);
    assert_eq!(histogram.quantile(0.5), 10);
    assert_eq!(histogram.quantile(0.9), 10);
    // 1000 lies in [1000, 1007]: 2^9 <= 1000 < 2^10, buckets of 8.
    assert_eq!(histogram.quantile(0.91), 1_007);
    assert_eq!((histogram.mean(), histogram.max(), histogram.count()), (109.0, 1_000, 100));
    histogram.reset();
    assert_eq!((histogram.quantile(1.0), histogram.mean()), (0, 0.0));
    histogram.record(u64::MAX, u64::MAX);
    assert_eq!(histogram.quantile(1.0), (1 << 63) - 1);
}

#[test]
fn a_quota_change_keeps_what_the_bucket_holds() {
    let mut bucket = TokenBucket::new(0, 10.0, 100.0);
    assert_eq!(bucket.take(0, 60), Quota::Enough);
    bucket.set_quota(0, 1.0, 1_000.0);
    assert_eq!(bucket.available(0), 40.0);
    assert_eq!(bucket.check(0, 50), Quota::After(10_000_000_000));
    bucket.set_quota(0, 1.0, 30.0);
    assert_eq!(bucket.available(0), 30.0);
    assert_eq!(bucket.check(0, 31), Quota::Never);
    bucket.set_quota(0, f64::INFINITY, f64::INFINITY);
    assert_eq!(bucket.take(1, 1 << 38), Quota::Enough);
}
