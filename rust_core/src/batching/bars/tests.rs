use super::{
    log_gap, Bar, Bars, Contender, Followed, RecentArrivals, OPEN_BAR, REMEMBERED, STRIDE,
};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

const MS: i64 = 1_000_000;
const TAU_NS: f64 = 1e9;

fn bar(relative_key: f64) -> Bar {
    Bar { relative_key, units: 100 }
}

/// A batch every 100 ms; the n-th has the n-th of these bars, and `gap` before it.
fn history(bars: impl IntoIterator<Item = (f64, f64)>) -> Bars {
    let mut history = Bars::default();
    for (at, (key, gap)) in (1_i64..).zip(bars) {
        history.record(at * 100 * MS, &bar(key), gap, TAU_NS, 1);
    }
    history
}

/// Comes right after the last bar, and can be in batches for `for_ms` from the next on.
fn contender(history: &Bars, key: f64, for_ms: f64) -> Contender {
    Contender {
        relative_key: key,
        log_gap: 0.0,
        first_ns: history.at_ns + 100 * MS,
        first_in: 0.1,
        whole_for: for_ms / 1e3,
        cut_for: for_ms / 1e3,
        step_ns: 1e8,
    }
}

fn chance(followed: &Followed) -> f64 {
    followed.served / followed.weight
}

#[test]
fn without_a_past_nothing_is_known() {
    let empty = Bars::default();
    assert_eq!(empty.after(&contender(&empty, 9.0, 500.0)), Followed::default());
}

#[test]
fn a_key_above_a_steady_bar_is_served_and_one_below_is_not() {
    let steady = history((0..200).map(|_| (1.0, 0.0)));
    // It has aged by 0.1 at the next batch.
    assert!((chance(&steady.after(&contender(&steady, 0.91, 0.0))) - 1.0).abs() < 1e-12);
    assert!(chance(&steady.after(&contender(&steady, 0.89, 0.0))).abs() < 1e-12);
}

#[test]
fn who_can_wait_ages_up_to_the_bar() {
    let steady = history((0..200).map(|_| (1.0, 0.0)));
    // After the next batch, nine more of 0.1 each: 0.01 + 0.1 + 0.9.
    assert!((chance(&steady.after(&contender(&steady, 0.01, 901.0))) - 1.0).abs() < 1e-12);
    assert!(chance(&steady.after(&contender(&steady, -0.01, 899.0))).abs() < 1e-12);
}

#[test]
fn the_chance_is_how_often_the_bar_came_down_in_time() {
    // Every fifth bar is low. Of the four moments at high bars two have it among the next two; the
    // one at a low bar has not, and weighs 1 - (0.3 / 0.65)^2 = 0.787 where the last bar was high.
    let history = history((0..403).map(|at| (if at % 5 == 0 { 0.7 } else { 1.0 }, 0.0)));
    let share = chance(&history.after(&contender(&history, 0.65, 100.0)));
    assert!((share - 2.0 / 4.787).abs() < 0.01, "{share}");
}

#[test]
fn moments_with_another_rate_do_not_count() {
    // Bars are high where arrivals are dense, in turns of 50.
    let dense = |at: i32| at / 50 % 2 == 0;
    let history = history((0..375).map(|at| if dense(at) { (3.0, -2.0) } else { (1.0, 2.0) }));
    let now = Contender { log_gap: -2.0, ..contender(&history, 0.95, 0.0) };
    // The last is from a sparse turn, and none had such a rate.
    assert_eq!(history.after(&now), Followed::default());
    let sparse = Contender { log_gap: 2.0, ..now };
    assert!(chance(&history.after(&sparse)) > 0.95);
}

#[test]
fn a_batch_that_has_to_be_cut_counts_half() {
    let steady = history((0..200).map(|_| (1.0, 0.0)));
    let cut = Contender { whole_for: -0.1, ..contender(&steady, 2.0, 0.0) };
    assert!((chance(&steady.after(&cut)) - 0.5).abs() < 1e-12);
}

#[test]
fn a_batch_that_left_nobody_behind_serves_all() {
    let mut history = Bars::default();
    for at in 1..100 {
        history.record(at * 100 * MS, &OPEN_BAR, 0.0, TAU_NS, 1);
    }
    assert!((chance(&history.after(&contender(&history, -9.0, 0.0))) - 1.0).abs() < 1e-12);
}

#[test]
fn of_several_devices_the_lowest_bar_counts() {
    let mut history = Bars::default();
    for at in 1..=600 {
        let key = if at % 3 == 1 { 0.5 } else { 2.0 };
        history.record(at * 10 * MS, &bar(key), 0.0, TAU_NS, 3);
    }
    // 0.02 is what the first of three has aged when the third comes.
    let now = Contender { step_ns: 3e7, ..contender(&history, 0.43, 0.0) };
    assert!((chance(&history.after(&now)) - 1.0).abs() < 1e-12);
}

#[test]
fn bars_follow_when_keys_get_another_shape() {
    let mut history = history((0..200).map(|_| (1.0, 0.0)));
    let served = |history: &Bars, key| chance(&history.after(&contender(history, key, 0.0)));
    assert!(served(&history, 1.2) > 0.99);
    history.reshape(|units| units as f64 / 200.0);
    assert!(served(&history, 1.2) < 0.01);
    assert!(served(&history, 1.5) > 0.99);
}

#[test]
fn forgets_all_when_told() {
    let mut history = history((0..200).map(|_| (1.0, 0.0)));
    history.clear();
    assert_eq!(history.after(&contender(&history, 9.0, 0.0)), Followed::default());
}

#[test]
fn remembers_a_bounded_past() {
    let mut history = history((0..10_000).map(|_| (1.0, 0.0)));
    assert!(history.bars.capacity() <= 2 * REMEMBERED);
    for _ in 0..2 * REMEMBERED {
        history.record(history.at_ns + 100 * MS, &bar(5.0), 0.0, TAU_NS, 1);
    }
    assert!(chance(&history.after(&contender(&history, 4.0, 0.0))).abs() < 1e-12);
}

#[test]
fn sixteen_arrivals_back_is_when_the_sixteenth_came() {
    let mut recent = RecentArrivals::default();
    for at in 0..40 {
        assert_eq!(recent.since_ns(), if at < 16 { 0 } else { at - 16 });
        recent.arrive(at);
    }
    assert!((log_gap(1_100, 100) - 1000_f64.ln()).abs() < 1e-12);
}

proptest! {
    #![proptest_config(ProptestConfig {
        rng_seed: RngSeed::Fixed(20_240_511),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// What followed, by walking along every past.
    #[test]
    fn equals_a_walk_along_every_past(
        past in prop::collection::vec((1..200_i64, -1.0..1.0f64, -1.0..1.0f64), 1..1_200),
        key in -1.5..1.5f64,
        first_ms in 0..300_i64,
        whole_ms in -50.0..2_000.0f64,
        more_ms in 0.0..50.0f64,
    ) {
        let mut history = Bars::default();
        let mut naive: Vec<(f64, f64, f64)> = Vec::new();
        let mut now_ms = 0;
        for (gap_ms, key, log_gap) in past {
            now_ms += gap_ms;
            history.record(now_ms * MS, &bar(key), log_gap, TAU_NS, 1);
            naive.push((now_ms as f64 / 1e3, key, log_gap));
        }
        let contender = Contender {
            relative_key: key,
            log_gap: 0.1,
            first_ns: (now_ms + first_ms) * MS,
            first_in: first_ms as f64 / 1e3,
            whole_for: whole_ms / 1e3,
            cut_for: (whole_ms + more_ms).max(0.0) / 1e3,
            step_ns: 1e8,
        };
        let followed = history.after(&contender);
        // What was forgotten, as the history says it.
        let naive = &naive[naive.len() - history.bars.len()..];
        let wanted = walk(naive, &contender, first_ms);
        prop_assert!((followed.weight - wanted.weight).abs() < 1e-9, "{followed:?} {wanted:?}");
        prop_assert!((followed.served - wanted.served).abs() < 1e-9, "{followed:?} {wanted:?}");
    }
}

/// The definition: for each moment, go on from batch to batch until the last that can be waited for.
fn walk(past: &[(f64, f64, f64)], contender: &Contender, first_ms: i64) -> Followed {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // 0 to 8
    let lag = (first_ms as f64 / 100.0 - 1.0).round().clamp(0.0, 8.0) as usize;
    let last = past.len() - 1;
    let mut followed = Followed::default();
    let mut then = last.saturating_sub(REMEMBERED);
    while then + 1 + lag <= last {
        let first = then + 1 + lag;
        let by_bar = (past[then].1 - past[last].1) / 0.65;
        let by_rate = (past[then + lag].2 - contender.log_gap) / 1.3;
        let weight = 1.0 - by_bar * by_bar - by_rate * by_rate;
        let after = |at: usize| past[at].0 - past[first].0;
        if weight > 0.0 && after(last) > contender.cut_for {
            let reaches = |within: f64| {
                let chances = (first..=last).take(128).take_while(|at| after(*at) <= within);
                chances
                    .into_iter()
                    .any(|at| contender.relative_key + contender.first_in + after(at) >= past[at].1)
            };
            let share = [contender.whole_for, contender.cut_for]
                .map(|within| f64::from(u8::from(reaches(within))));
            followed.weight += weight;
            followed.served += weight * 0.5 * (share[0] + share[1]);
        }
        then += STRIDE;
    }
    followed
}
