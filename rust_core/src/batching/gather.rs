//! Which queued requests a batch is chosen from.

use super::cost::BatchCost;
use super::floor::Floor;
use super::index::{Entry, KeyIndex};
use super::queue::Queue;
use super::select::{Candidate, MAX_SKIPS};
use crate::batch::Limits;

/// Most candidates of one batch, whatever its limit.
pub const MAX_CANDIDATES: usize = 4096;
/// Further candidates looked at, so that misfits do not hide those behind them.
const EXTRA_CANDIDATES: usize = 4 * MAX_SKIPS;

/// The replica that a batch is for, as far as candidates depend on it.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// When the device could begin.
    pub ready_ns: i64,
    /// Cost there.
    pub cost: BatchCost,
    /// What it takes.
    pub limits: Limits,
    /// Longest batch wanted.
    pub quantum_ns: f64,
    /// Most device time for bulk work while interactive work waits.
    pub bulk_room_ns: f64,
}

/// Collects candidates: first what the floors owe, then both lanes merged in key order.
pub fn gather(queue: &Queue, place: &Place, floors: [&Floor; 2], out: &mut Vec<Candidate>) {
    out.clear();
    for (index, floor) in [&queue.large, &queue.bulk].into_iter().zip(floors) {
        gather_owed(queue, index, place, floor.owed_ns(), out);
    }
    let owed = out.len();
    let most = usize::try_from(place.limits.requests)
        .unwrap_or(MAX_CANDIDATES)
        .saturating_add(EXTRA_CANDIDATES)
        .min(MAX_CANDIDATES);
    let mut bulk_room_ns =
        if queue.interactive.is_empty() { f64::MAX } else { place.bulk_room_ns };
    let mut interactive = queue.interactive.iter().peekable();
    let mut bulk = queue.bulk.iter().take(most).peekable();
    while out.len() < most + owed {
        let is_bulk = match (interactive.peek(), bulk.peek()) {
            (Some(a), Some(b)) => b.order < a.order,
            (first, _) => first.is_none(),
        };
        let Some(entry) = (if is_bulk { bulk.next() } else { interactive.next() }) else { break };
        if out[..owed].iter().any(|other| other.handle == entry.handle) {
            continue;
        }
        if is_bulk {
            bulk_room_ns -= place.cost.slope_ns * entry.units as f64;
            if bulk_room_ns < 0.0 {
                continue;
            }
        }
        let Some(candidate) = candidate(queue, entry, place) else { continue };
        if candidate.slack_ns >= place.cost.of(entry.units) * place.cost.margin {
            out.push(candidate);
        }
    }
}

/// Adds what a floor owes, best key first, as far as it goes into one batch of the quantum.
fn gather_owed(
    queue: &Queue,
    index: &KeyIndex,
    place: &Place,
    owed_ns: f64,
    out: &mut Vec<Candidate>,
) {
    let mut left_ns = owed_ns;
    for entry in index.iter().take(MAX_SKIPS) {
        let run_ns = place.cost.slope_ns * entry.units as f64;
        if run_ns > left_ns || out.iter().any(|other| other.handle == entry.handle) {
            continue;
        }
        let Some(candidate) = candidate(queue, entry, place) else { continue };
        let needed_ns = place.quantum_ns.max(place.cost.of(entry.units)) * place.cost.margin;
        if candidate.slack_ns >= needed_ns {
            left_ns -= run_ns;
            out.push(Candidate { is_owed: true, ..candidate });
        }
    }
}

fn candidate(queue: &Queue, entry: &Entry, place: &Place) -> Option<Candidate> {
    let item = &queue.get(entry.handle)?.item;
    Some(Candidate {
        slack_ns: item.deadline_ns as f64 - place.ready_ns as f64,
        units: entry.units,
        rows: item.rows,
        max_companions: item.max_companions,
        is_owed: false,
        handle: entry.handle,
    })
}
