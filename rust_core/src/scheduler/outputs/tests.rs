//! Random histories of outputs: each ends once, and every count returns to zero.
#![allow(clippy::cast_possible_wrap)] // small numbers throughout
use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use crate::cost::Affine;
use crate::lanes::Expected;
use crate::limiter::LimiterSettings;
use crate::scheduler::{AdmissionSettings, RefusalReason, Scheduler};
use crate::tenants::TenantTerms;

use super::{OutputOffer, OutputReport};

const LIMIT: usize = 6;
const QUEUE: u64 = 4;
const BURST: f64 = 1_000.0;

#[derive(Debug, Clone)]
enum Step {
    Ask { tenant: usize, units: i64, priority: i64, deadline_ns: i64, service_ns: i64 },
    Begin { hold_ns: i64 },
    Return { which: usize },
    End { which: usize, used: i64 },
    Wait { ns: i64 },
}

fn step() -> impl Strategy<Value = Step> {
    let ask = (0..3usize, 1..60i64, 1..4i64, 0..500i64, -1..300i64);
    prop_oneof![
        6 => ask.prop_map(|(tenant, units, priority, deadline_ns, service_ns)| Step::Ask {
            tenant, units, priority, deadline_ns, service_ns,
        }),
        4 => (1..100i64).prop_map(|hold_ns| Step::Begin { hold_ns }),
        1 => (0..8usize).prop_map(|which| Step::Return { which }),
        3 => (0..8usize, 0..90i64).prop_map(|(which, used)| Step::End { which, used }),
        2 => (0..50i64).prop_map(|ns| Step::Wait { ns }),
    ]
}

fn fixture() -> (Scheduler, i64, Vec<i64>) {
    let mut core = Scheduler::new(1, 8, 3).unwrap_or_else(|error| panic!("{error}"));
    let prior = Affine { fixed_ns: 1.0, unit_ns: 1.0 };
    let pool = core.add_pool(QUEUE as i64, 1 << 62, prior).unwrap_or(-1);
    let limit = LimiterSettings { initial: LIMIT as i64, min: LIMIT as i64, max: LIMIT as i64 };
    let settings = AdmissionSettings { limit, reserved: [0.0; 2] };
    assert_eq!(core.set_admission(pool, &settings), Ok(()));
    // No refill to speak of: what a bucket holds is what was not used.
    let terms = TenantTerms::quota(1e-6, BURST);
    let tenants = (0..3).map(|_| core.register_tenant(0, terms).unwrap_or(-1)).collect();
    (core, pool, tenants)
}

/// A live output, as the model has it: tenant, units, class, and whether it is written.
type Live = BTreeMap<u64, (usize, i64, i64, bool)>;

fn nth(live: &Live, which: usize, is_written: Option<bool>) -> Option<u64> {
    let fitting = live.iter().filter(|(_, each)| is_written.is_none_or(|want| want == each.3));
    let tickets: Vec<u64> = fitting.map(|(&ticket, _)| ticket).collect();
    (!tickets.is_empty()).then(|| tickets[which % tickets.len()])
}

fn ends(core: &mut Scheduler, now_ns: i64, ticket: u64, used_units: i64) -> bool {
    let report = OutputReport { used_units, ..OutputReport::default() };
    core.end_output(now_ns, ticket as i64, &report) == Ok(true)
}

#[allow(clippy::too_many_lines)] // one history, step by step
fn run(steps: &[Step]) -> Result<(), TestCaseError> {
    let (mut core, pool, tenants) = fixture();
    let (mut live, mut now_ns) = (Live::new(), 0);
    let mut held = [BURST; 3];
    for step in steps {
        match *step {
            Step::Wait { ns } => now_ns += ns,
            Step::Ask { tenant, units, priority, deadline_ns, service_ns } => {
                let deadline_ns = now_ns + deadline_ns;
                let handle = tenants[tenant];
                let (lanes, is_open) = (0, false);
                let offer = OutputOffer {
                    tenant: handle,
                    pool,
                    units,
                    deadline_ns,
                    priority,
                    lanes,
                    is_open,
                    service_ns,
                };
                let waiting = live.values().filter(|each| !each.3).count();
                match core.admit_output(now_ns, &offer) {
                    Ok(Ok(admission)) => {
                        prop_assert!(deadline_ns > now_ns && units as f64 <= held[tenant] + 1e-3);
                        for ticket in &admission.displaced {
                            let Some(gone) = live.remove(ticket) else {
                                return Err(TestCaseError::fail("displaced what is not live"));
                            };
                            prop_assert!(!gone.3, "what is written is never put out");
                            prop_assert!(
                                gone.2 > priority || (gone.2 == priority && gone.0 != tenant)
                            );
                            held[gone.0] += gone.1 as f64;
                        }
                        live.insert(admission.ticket, (tenant, units, priority, false));
                        held[tenant] -= units as f64;
                        prop_assert!(live.len() <= LIMIT);
                    }
                    Ok(Err(verdict)) => {
                        let retries = verdict.retry_after_ns > 0;
                        let is_certain = match verdict.reason {
                            RefusalReason::QuotaExceeded => retries && units as f64 > held[tenant],
                            RefusalReason::DeadlineExpired => deadline_ns <= now_ns,
                            RefusalReason::DeadlineUnreachable => {
                                verdict.needed > verdict.available && service_ns >= 0
                            }
                            RefusalReason::LimitReached => retries && live.len() >= LIMIT,
                            RefusalReason::QueueFull => retries && waiting as u64 >= QUEUE,
                            _ => false,
                        };
                        prop_assert!(is_certain, "{verdict:?} with {live:?}");
                    }
                    Err(error) => return Err(TestCaseError::fail(error.to_string())),
                }
            }
            Step::Begin { hold_ns } => {
                let Ok(Some(ticket)) = core.next_output(pool) else {
                    prop_assert!(live.values().all(|each| each.3));
                    continue;
                };
                let expected = Expected { hold_ns, longest_ns: 2 * hold_ns };
                prop_assert_eq!(core.begin_output(now_ns, ticket as i64, expected, 1.0), Ok(true));
                prop_assert_eq!(core.begin_output(now_ns, ticket as i64, expected, 1.0), Ok(false));
                let lowest = live.values().filter(|each| !each.3).map(|each| each.2).min();
                let Some(begun) = live.get_mut(&ticket) else {
                    return Err(TestCaseError::fail("began what is not live"));
                };
                prop_assert_eq!(Some(begun.2), lowest, "the highest class begins");
                begun.3 = true;
            }
            Step::Return { which } => {
                let Some(ticket) = nth(&live, which, Some(true)) else { continue };
                prop_assert!(core.return_output(ticket as i64));
                live.entry(ticket).and_modify(|each| each.3 = false);
            }
            Step::End { which, used } => {
                let Some(ticket) = nth(&live, which, None) else { continue };
                prop_assert!(ends(&mut core, now_ns, ticket, used));
                prop_assert!(!ends(&mut core, now_ns, ticket, used));
                let (tenant, units, ..) = live.remove(&ticket).unwrap_or_default();
                held[tenant] = (held[tenant] + (units - used) as f64).clamp(-BURST, BURST);
            }
        }
        let waiting = live.values().filter(|each| !each.3).count() as u64;
        prop_assert_eq!(core.waiting_outputs(now_ns, pool).map(|found| found.0), Ok(waiting));
        prop_assert_eq!(core.num_outputs(), live.len());
        let stats = core.pool_stats(pool).map(|stats| stats.inflight.iter().sum::<u64>());
        prop_assert_eq!(stats, Ok(live.len() as u64));
    }
    for ticket in live.into_keys() {
        prop_assert!(ends(&mut core, now_ns, ticket, 0));
    }
    prop_assert_eq!(core.num_outputs(), 0);
    prop_assert_eq!(core.waiting_outputs(now_ns, pool), Ok((0, 0)));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300,
        rng_seed: RngSeed::Fixed(20_261_130),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn outputs_end_once_and_every_count_returns(steps in prop::collection::vec(step(), 1..120)) {
        run(&steps)?;
    }
}

#[test]
fn a_pool_that_is_removed_ends_its_outputs() {
    let (mut core, pool, tenants) = fixture();
    let offer = OutputOffer {
        tenant: tenants[0],
        pool,
        units: 600,
        deadline_ns: 10,
        priority: 2,
        lanes: 0,
        is_open: false,
        service_ns: -1,
    };
    assert!(matches!(core.admit_output(0, &offer), Ok(Ok(_))));
    assert_eq!(core.remove_pool(0, pool), Ok(vec![]));
    assert_eq!(core.num_outputs(), 0);
    // Its quota is whole again.
    assert_eq!(core.charge(0, tenants[0], 1_000), Ok(0));
}
