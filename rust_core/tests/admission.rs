//! Admission beside naive models, on random histories.
#![allow(
    clippy::cast_possible_wrap, // small numbers throughout
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss
)]
mod support;

use std::collections::BTreeMap;

use headway_core::bucket::{Quota, TokenBucket};
use headway_core::limiter::{GradientLimiter, LimiterSettings};
use headway_core::tenants::{TenantTable, TenantTerms};
use proptest::prelude::*;

use support::cases;

const SECOND: i64 = 1_000_000_000;
const MEMORY_NS: f64 = 5e9;

/// One thing that happens to a table of tenants.
#[derive(Debug, Clone)]
enum Step {
    Wait(i64),
    Ask { tenant: usize, device_ms: i64 },
    TakeBack { tenant: usize },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (0..4_000i64).prop_map(Step::Wait),
        6 => (0..4usize, 1..500i64)
            .prop_map(|(tenant, device_ms)| Step::Ask { tenant, device_ms }),
        1 => (0..4usize).prop_map(|tenant| Step::TakeBack { tenant }),
    ]
}

/// What must be true of a tenant with 10 units a second and a burst of 100.
struct Guest {
    key: u64,
    live: u64,
    asked_ns: Option<i64>,
    level: f64,
    at_ns: i64,
}

impl Guest {
    fn new(now_ns: i64, key: u64) -> Self {
        Self { key, live: 0, asked_ns: None, level: 100.0, at_ns: now_ns }
    }

    fn level(&self, now_ns: i64) -> f64 {
        (self.level + (now_ns - self.at_ns) as f64 / 1e9 * 10.0).min(100.0)
    }

    /// Nothing live, a full bucket, and nothing asked for within so many seconds.
    fn is_idle(&self, now_ns: i64, quiet_s: i64) -> bool {
        let is_quiet = self.asked_ns.is_none_or(|at_ns| now_ns - at_ns >= quiet_s * SECOND);
        self.live == 0 && self.level(now_ns) >= 100.0 - 1e-6 && is_quiet
    }
}

/// All that was ever charged, as (tenant, instant, ns): shares are sums over it.
#[derive(Default)]
struct Ledger {
    entries: Vec<(usize, i64, f64)>,
    asked: BTreeMap<usize, i64>,
}

impl Ledger {
    fn left(&self, now_ns: i64, of: impl Fn(usize) -> bool) -> f64 {
        let mine = self.entries.iter().filter(|entry| of(entry.0));
        mine.map(|(_, at_ns, ns)| ns * (-((now_ns - at_ns) as f64) / MEMORY_NS).exp()).sum()
    }
}

proptest! {
    #![proptest_config(cases(300, 20_240_512))]

    #[test]
    fn shares_are_those_of_a_ledger(steps in prop::collection::vec(step(), 1..120)) {
        let weights = [1.0, 1.0, 2.0, 0.5];
        let mut table = TenantTable::new(8);
        let slots: Vec<u32> = weights
            .iter()
            .filter_map(|&weight| {
                let terms = TenantTerms { weight, ..TenantTerms::quota(1e9, 1e9) };
                table.add(0, terms).and_then(|key| table.slot(key))
            })
            .collect();
        let (mut ledger, mut now_ns) = (Ledger::default(), 0);
        for step in steps {
            match step {
                Step::Wait(ms) => now_ns += ms * 1_000_000,
                Step::Ask { tenant, device_ms } => {
                    table.touch(now_ns, slots[tenant]);
                    table.add_time(now_ns, slots[tenant], now_ns, device_ms as f64 * 1e6);
                    ledger.entries.push((tenant, now_ns, device_ms as f64 * 1e6));
                    ledger.asked.insert(tenant, now_ns);
                }
                Step::TakeBack { tenant } => {
                    let last = ledger.entries.iter().rposition(|entry| entry.0 == tenant);
                    if let Some((_, at_ns, ns)) = last.map(|at| ledger.entries.remove(at)) {
                        table.add_time(now_ns, slots[tenant], at_ns, -ns);
                    }
                }
            }
            for (tenant, &slot) in slots.iter().enumerate() {
                let own_ns = ledger.left(now_ns, |other| other == tenant);
                let all_ns = ledger.left(now_ns, |_| true);
                // Who asked within the last 8.75 s takes part, who did not within 10 s does not.
                let asked = |within_ns: i64| -> f64 {
                    let mut active = ledger.asked.iter().filter(|asked| now_ns - asked.1 < within_ns);
                    active.by_ref().map(|asked| weights[*asked.0]).sum()
                };
                let (least, most) = (asked(8_750_000_000), asked(10 * SECOND));
                let over = table.over(now_ns, slot);
                if own_ns > 1.0 && least > 0.0 {
                    let part = own_ns / all_ns / weights[tenant];
                    prop_assert!(over >= part * least * 0.999 - 1e-6, "{over} {part} {least}");
                    // The table retires tenants when it is asked for something, so it may lag.
                    let lag: f64 = weights.iter().sum();
                    prop_assert!(over <= part * most.max(lag) * 1.001 + 1e-6, "{over} {part} {most}");
                }
                prop_assert!(over >= 0.0);
            }
        }
    }

    /// Four places, newcomers all the time: who is forgotten had nothing to lose by it.
    #[test]
    fn only_idle_tenants_make_room(
        steps in prop::collection::vec((0..5u8, 0..4usize, 0..15_000i64), 1..150)
    ) {
        let mut table = TenantTable::new(4);
        let mut known: Vec<Guest> = Vec::new();
        let mut now_ns = 0;
        for (kind, at, number) in steps {
            let guest = known.get_mut(at);
            let slot = guest.as_ref().and_then(|guest| table.slot(guest.key));
            prop_assert_eq!(slot.is_some(), guest.is_some());
            match (kind, guest.zip(slot)) {
                (0, _) => now_ns += number * 1_000_000,
                (1, Some((guest, slot))) => {
                    table.touch(now_ns, slot);
                    let taken = table.bucket_mut(slot).map(|bucket| bucket.take(now_ns, 20));
                    guest.asked_ns = Some(now_ns);
                    let level = guest.level(now_ns);
                    prop_assert_eq!(taken == Some(Quota::Enough), level >= 20.0 - 1e-6);
                    if taken == Some(Quota::Enough) {
                        (guest.level, guest.at_ns) = (level - 20.0, now_ns);
                    }
                }
                (2, Some((guest, slot))) => {
                    guest.live = u64::from(number % 2 == 0);
                    table.at_mut(slot).expect("known").live = guest.live;
                }
                (3 | 4, _) => {
                    let was_full = known.len() == 4;
                    let key = table.add(now_ns, TenantTerms::quota(10.0, 100.0));
                    let lost = known.iter().position(|guest| table.slot(guest.key).is_none());
                    match (key, lost.map(|at| known.remove(at))) {
                        (None, lost) => {
                            prop_assert!(was_full && lost.is_none());
                            prop_assert!(!known.iter().any(|guest| guest.is_idle(now_ns - 1_000_000, 10)));
                        }
                        (Some(_), Some(lost)) => {
                            prop_assert!(was_full && lost.is_idle(now_ns, 8));
                        }
                        (Some(_), None) => prop_assert!(!was_full),
                    }
                    known.extend(key.map(|key| Guest::new(now_ns, key)));
                }
                _ => {}
            }
            prop_assert_eq!(table.len(), known.len());
        }
    }

    #[test]
    fn a_bucket_charges_what_was_used(
        steps in prop::collection::vec((0..200i64, 1..60u64, 0..80u64), 1..60),
    ) {
        // Rate 10/s, burst 100, so that a model can count in whole units of 0.1 s.
        let mut bucket = TokenBucket::new(0, 10.0, 100.0);
        let (mut level, mut now_ns) = (100.0_f64, 0_i64);
        for (wait_ds, taken, used) in steps {
            now_ns += wait_ds * SECOND / 10;
            level = (level + wait_ds as f64).min(100.0);
            let answer = bucket.take(now_ns, taken);
            prop_assert_eq!(answer == Quota::Enough, taken as f64 <= level + 1e-6);
            if answer == Quota::Enough {
                level -= taken as f64;
                bucket.settle(now_ns, taken, used);
                level = (level + taken as f64 - used as f64).clamp(-100.0, 100.0);
            } else if let Quota::After(wait_ns) = answer {
                let expected = (taken as f64 - level) / 10.0;
                prop_assert!((wait_ns as f64 / 1e9 - expected).abs() < 1e-6);
            }
            prop_assert!((bucket.available(now_ns) - level).abs() < 1e-6);
        }
    }

    #[test]
    fn a_limit_stays_within_its_bounds_and_rises_only_in_use(
        samples in prop::collection::vec((0..400i64, 1..100i64, 0..300u64), 1..300),
    ) {
        let settings = LimiterSettings { initial: 100, min: 8, max: 200 };
        let mut limiter = GradientLimiter::new(&settings);
        for (measured_ms, planned_ms, inflight) in samples {
            let before = limiter.limit();
            limiter.observe(measured_ms * 1_000_000, planned_ms * 1_000_000, inflight);
            prop_assert!((8..=200).contains(&limiter.limit()));
            prop_assert!(limiter.limit() <= before || 2 * inflight + 2 > before);
            prop_assert!((0.5..=1.0).contains(&limiter.gradient()));
        }
    }
}

#[test]
fn a_full_table_forgets_the_tenant_that_was_idle_longest() {
    let mut table = TenantTable::new(3);
    let quota = TenantTerms::quota(10.0, 10.0);
    let keys: Vec<u64> = (0..3).filter_map(|_| table.add(0, quota)).collect();
    for (at, key) in keys.iter().enumerate() {
        let slot = table.slot(*key).unwrap_or_default();
        table.touch(at as i64 * SECOND, slot);
    }
    // All three are active: there is no place.
    assert_eq!(table.add(2 * SECOND, quota), None);
    // 10 s after the first one asked it is idle, and its place is given away.
    let fourth = table.add(10 * SECOND, quota);
    assert!(fourth.is_some());
    assert_eq!(table.slot(keys[0]), None, "its key is stale");
    assert!(table.slot(keys[1]).is_some());
    assert_eq!(table.len(), 3);
}

#[test]
fn a_tenant_with_work_or_debt_keeps_its_place() {
    let mut table = TenantTable::new(2);
    let quota = TenantTerms::quota(1.0, 100.0);
    let keys: Vec<u64> = (0..2).filter_map(|_| table.add(0, quota)).collect();
    let slots: Vec<u32> = keys.iter().filter_map(|key| table.slot(*key)).collect();
    if let Some(busy) = table.at_mut(slots[0]) {
        busy.live = 1;
    }
    if let Some(owing) = table.bucket_mut(slots[1]) {
        owing.take(0, 90);
    }
    assert_eq!(table.add(60 * SECOND, quota), None);
    // The bucket is full again after 90 s.
    assert!(table.add(90 * SECOND, quota).is_some());
    assert!(table.slot(keys[0]).is_some());
    assert_eq!(table.slot(keys[1]), None);
}

#[test]
fn a_steady_delay_is_no_congestion_and_a_new_one_is() {
    let settings = LimiterSettings { initial: 400, min: 8, max: 1_000 };
    let mut limiter = GradientLimiter::new(&settings);
    for _ in 0..2_000 {
        limiter.observe(30_000_000, 30_000_000, 400);
    }
    // Grown while at least half of it was in use; the last step is 0.2 sqrt(800).
    assert!((800..=806).contains(&limiter.limit()), "{}", limiter.limit());
    for _ in 0..60 {
        limiter.observe(150_000_000, 30_000_000, 1_000);
    }
    // (150 + 10) / (30 + 10) = 4 times the plan: the gradient is at its floor.
    assert!(limiter.gradient() < 0.51);
    assert!(limiter.limit() < 20, "{}", limiter.limit());
}

#[test]
fn what_queueing_explains_moves_nothing() {
    let settings = LimiterSettings { initial: 400, min: 8, max: 400 };
    let mut limiter = GradientLimiter::new(&settings);
    for batch in 1..500_i64 {
        let took_ns = batch * 1_000_000;
        limiter.observe(took_ns, took_ns, 400);
    }
    assert_eq!(limiter.limit(), 400);
}
