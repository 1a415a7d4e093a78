//! Breakers, retry budgets, lateness and hedge credit; each by hand or against a naive model.
mod support;

use headway_core::breaker::{Breaker, BreakerState, Outcomes};
use headway_core::hedge::HedgeBook;
use headway_core::quantile::RecentQuantile;
use headway_core::retry::RetryBudget;
use headway_core::rng::Rng;
use proptest::prelude::*;

use support::cases;

const SECOND: i64 = 1_000_000_000;
const MS: i64 = 1_000_000;

fn tripped(failed: u32, well: u32) -> bool {
    let mut breaker = Breaker::default();
    breaker.settle(0, 1, well, failed, &mut Rng::new(1));
    breaker.is_tripped()
}

#[test]
fn it_trips_at_half_of_at_least_ten() {
    assert!(!tripped(9, 0));
    assert!(tripped(10, 0));
    assert!(tripped(5, 5));
    assert!(!tripped(4, 6));
    assert!(tripped(25, 25));
    assert!(!tripped(24, 26));
}

#[test]
fn only_the_last_fifty_count() {
    let mut outcomes = Outcomes::default();
    outcomes.push(40, true);
    outcomes.push(50, false);
    assert_eq!((outcomes.len(), outcomes.failures()), (50, 0));
    outcomes.push(1_000, true);
    assert_eq!((outcomes.len(), outcomes.failures()), (50, 50));
    outcomes.forgive();
    assert_eq!((outcomes.len(), outcomes.failures()), (50, 49));
}

/// How long it opens, in seconds, when every probe fails.
fn open_times(seed: u64, times: usize) -> Vec<f64> {
    let (mut breaker, mut rng, mut now_ns) = (Breaker::default(), Rng::new(seed), 0);
    breaker.open(now_ns, &mut rng);
    let mut lasted = Vec::new();
    for batch in 0..times as u64 {
        let until_ns = breaker.open_until_ns().expect("open");
        #[allow(clippy::cast_precision_loss)] // seconds
        lasted.push((until_ns - now_ns) as f64 / 1e9);
        now_ns = until_ns;
        breaker.half_open();
        breaker.begin(batch);
        breaker.settle(now_ns, batch, 0, 1, &mut rng);
    }
    lasted
}

#[test]
fn it_stays_open_twice_as_long_each_time_up_to_a_minute() {
    for seed in 0..20 {
        for (lasted, nominal) in open_times(seed, 6).iter().zip([5.0, 10.0, 20.0, 40.0, 60.0, 60.0])
        {
            assert!((lasted / nominal - 1.0).abs() <= 0.1, "{lasted} for {nominal}");
        }
    }
    assert_ne!(open_times(1, 1), open_times(2, 1), "no jitter");
    assert_eq!(open_times(1, 6), open_times(1, 6));
}

#[test]
fn one_probe_at_a_time_and_three_close_it() {
    let (mut breaker, mut rng) = (Breaker::default(), Rng::new(1));
    breaker.open(0, &mut rng);
    assert!(!breaker.lets_through());
    breaker.half_open();
    for batch in 1..=3 {
        assert_eq!(breaker.state(), BreakerState::HalfOpen);
        assert!(breaker.lets_through());
        breaker.begin(batch);
        assert!(!breaker.lets_through());
        breaker.settle(SECOND, batch, 1, 0, &mut rng);
    }
    assert_eq!(breaker.state(), BreakerState::Closed);
    assert_eq!(breaker.outcomes().len(), 0);
}

#[test]
fn a_probe_that_says_nothing_gives_its_place_back() {
    let (mut breaker, mut rng) = (Breaker::default(), Rng::new(1));
    breaker.open(0, &mut rng);
    breaker.half_open();
    breaker.begin(1);
    breaker.settle(SECOND, 1, 0, 0, &mut rng);
    assert_eq!(breaker.state(), BreakerState::HalfOpen);
    assert!(breaker.lets_through());
    // What was sent before it opened is not the probe.
    breaker.begin(2);
    breaker.settle(SECOND, 99, 0, 7, &mut rng);
    assert!(!breaker.lets_through());
    assert_eq!(breaker.state(), BreakerState::HalfOpen);
}

#[test]
fn a_long_good_time_makes_it_start_at_five_seconds_again() {
    let (mut breaker, mut rng) = (Breaker::default(), Rng::new(1));
    for at_ns in [0, 10 * SECOND] {
        breaker.open(at_ns, &mut rng);
        breaker.close(at_ns + SECOND);
    }
    breaker.open(80 * SECOND, &mut rng);
    let lasts_ns = breaker.open_until_ns().expect("open") - 80 * SECOND;
    assert!((45 * SECOND / 10..=55 * SECOND / 10).contains(&lasts_ns));
}

#[test]
fn retries_are_a_tenth_of_the_requests_beside_ten_a_second() {
    let mut budget = RetryBudget::default();
    let spent = |budget: &mut RetryBudget, now_ns| {
        std::iter::repeat_with(|| budget.spend(now_ns)).take_while(|&taken| taken).count()
    };
    assert_eq!(spent(&mut budget, 0), 100);
    assert_eq!(spent(&mut budget, SECOND), 10);
    assert_eq!(spent(&mut budget, 61 * SECOND), 100);
    for _ in 0..1_000 {
        budget.earn(0.1);
    }
    let got = spent(&mut budget, 61 * SECOND);
    assert!((99..=100).contains(&got), "{got}");
    assert_eq!(budget.refused(), 4);
}

#[test]
fn nothing_is_late_before_twenty_batches_and_then_by_the_95th_percentile() {
    let mut book = HedgeBook::default();
    for percent in 1..=19 {
        book.observe(percent * MS, 10 * MS);
    }
    assert_eq!(book.due_ns(0, 10 * MS), None);
    book.observe(20 * MS, 10 * MS);
    // The 19th of 1/10, 2/10 ... 20/10 of the prediction.
    assert_eq!(book.due_ns(5 * MS, 100 * MS), Some(195 * MS));
    // Of a short one, two milliseconds over its time.
    assert_eq!(book.due_ns(5 * MS, MS), Some(8 * MS));
}

#[test]
fn copies_cost_at_most_their_share_of_the_device() {
    let mut book = HedgeBook::default();
    assert!(!book.can_pay(1));
    for _ in 0..20 {
        book.earn(20 * MS, 0.05);
    }
    assert!(book.can_pay(20 * MS) && !book.can_pay(20 * MS + 1));
    book.pay(20 * MS);
    assert!(!book.can_pay(1));
    // It took half of what it was paid for.
    book.settle(20 * MS, 10 * MS);
    assert!(book.can_pay(10 * MS) && !book.can_pay(10 * MS + 1));
    assert_eq!(book.counts(), (1, 0));
}

proptest! {
    #![proptest_config(cases(200, 7))]

    #[test]
    fn percentiles_are_those_of_the_last_256(values in prop::collection::vec(0..1_000u32, 1..700)) {
        let mut recent = RecentQuantile::default();
        for (at, &value) in values.iter().enumerate() {
            recent.push(value);
            let mut kept = values[(at + 1).saturating_sub(256)..=at].to_vec();
            kept.sort_unstable();
            let rank = (kept.len() * 95).div_ceil(100);
            prop_assert_eq!(recent.percentile(95), Some(kept[rank - 1]));
            prop_assert_eq!(recent.len(), kept.len());
        }
    }

    #[test]
    fn outcomes_are_those_of_the_last_fifty(
        pushes in prop::collection::vec((0..70u32, any::<bool>()), 1..40)
    ) {
        let (mut outcomes, mut all) = (Outcomes::default(), Vec::new());
        for (count, failed) in pushes {
            outcomes.push(count, failed);
            all.extend(std::iter::repeat_n(failed, count as usize));
            let kept = &all[all.len().saturating_sub(50)..];
            prop_assert_eq!(outcomes.len() as usize, kept.len());
            let failures = kept.iter().filter(|&&failed| failed).count();
            prop_assert_eq!(outcomes.failures() as usize, failures);
        }
    }
}
