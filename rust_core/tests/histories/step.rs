//! What can happen to a scheduler.
use proptest::prelude::*;

/// One call, or time passing; `pick` chooses among what is there.
#[derive(Debug, Clone)]
pub enum Step {
    Wait(i64),
    Offer { pool: i64, units: i64, rows: i64, slack_ms: i64, lane: i64 },
    Form { pool: usize },
    Look,
    Complete { pick: usize, outcome: u8, retry: u8, failed: i64, device_ms: i64 },
    CompleteTwice { pick: usize },
    Cancel { pick: usize },
    Expire,
    AddReplica { pool: usize, slots: i64, requests: i64, rows: i64, units: i64 },
    Condition { pick: usize, condition: u8 },
    RemoveReplica { pick: usize },
}

/// Any of them, the usual more often.
pub fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..40i64).prop_map(Step::Wait),
        12 => (-1..2i64, 1..400i64, 1..4i64, -5..600i64, 1..3i64).prop_map(
            |(pool, units, rows, slack_ms, lane)| Step::Offer { pool, units, rows, slack_ms, lane }
        ),
        8 => (0..2usize).prop_map(|pool| Step::Form { pool }),
        6 => Just(Step::Look),
        6 => (any::<usize>(), 0..6u8, any::<u8>(), 0..2i64, 0..60i64).prop_map(
            |(pick, outcome, retry, failed, device_ms)| Step::Complete {
                pick, outcome, retry, failed, device_ms
            }
        ),
        1 => any::<usize>().prop_map(|pick| Step::CompleteTwice { pick }),
        3 => any::<usize>().prop_map(|pick| Step::Cancel { pick }),
        2 => Just(Step::Expire),
        2 => (0..2usize, 1..3i64, 0..9i64, 0..9i64, 0..900i64).prop_map(
            |(pool, slots, requests, rows, units)| Step::AddReplica {
                pool, slots, requests, rows, units
            }
        ),
        3 => (any::<usize>(), 0..4u8)
            .prop_map(|(pick, condition)| Step::Condition { pick, condition }),
        1 => any::<usize>().prop_map(|pick| Step::RemoveReplica { pick }),
    ]
}
