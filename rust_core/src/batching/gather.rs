//! Which queued requests a batch is chosen from.

use super::cost::BatchCost;
use super::floor::Floor;
use super::index::{Entry, KeyIndex};
use super::queue::{Queue, NUM_LOW};
use super::select::{Candidate, Patience, Terms, MAX_SKIPS};
use crate::batch::Limits;

/// Most candidates of one batch, whatever its limit.
pub const MAX_CANDIDATES: usize = 4096;
/// Further candidates looked at, so that misfits do not hide those behind them.
const EXTRA_CANDIDATES: usize = 4 * MAX_SKIPS;
/// Of them, those that cannot wait for the batch that the first would make.
const MAX_HASTY: usize = 2 * MAX_SKIPS;
/// Further entries looked at that can no longer be served, or are too many of such.
const MAX_SCAN: usize = 4096;

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
    /// Share of it that a batch may be cut to; see `select::Terms`.
    pub least_ratio: f64,
    /// See `select::Terms`.
    pub most_hasty: usize,
}

impl Place {
    /// What the batch rule works with there.
    #[must_use]
    pub fn terms(&self) -> Terms<'_> {
        Terms {
            cost: &self.cost,
            quantum_ns: self.quantum_ns,
            least_ratio: self.least_ratio,
            limits: self.limits,
            most_hasty: self.most_hasty,
        }
    }
}

/// Which requests a batch is open to, besides those that a floor is owed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenTo {
    /// The interactive lane.
    Interactive,
    /// Both, the bulk lane last.
    Both,
}

/// Collects candidates: first what the floors owe, then the lanes that the batch is open to, each
/// in key order.
pub fn gather(
    queue: &Queue,
    place: &Place,
    floors: [&Floor; 2],
    open_to: OpenTo,
    out: &mut Vec<Candidate>,
) {
    out.clear();
    for (index, floor) in [&queue.large, &queue.bulk].into_iter().zip(floors) {
        gather_owed(queue, index, place, floor.owed_ns(), out);
    }
    let owed = out.len();
    let mut patience = Patience::new(&place.terms(), MAX_HASTY);
    let most = usize::try_from(place.limits.requests)
        .unwrap_or(MAX_CANDIDATES)
        .saturating_add(EXTRA_CANDIDATES)
        .min(MAX_CANDIDATES);
    // What is hopeless but not yet ended must not make a batch cost more than a bounded scan.
    let bulk = queue.bulk.iter().take(if open_to == OpenTo::Both { usize::MAX } else { 0 });
    for entry in queue.interactive.iter().chain(bulk).take(most + MAX_SCAN) {
        if out.len() >= most + owed {
            break;
        }
        if out[..owed].iter().any(|other| other.handle == entry.handle) {
            continue;
        }
        let Some(candidate) = candidate(queue, entry, place) else { continue };
        if candidate.slack_ns >= place.cost.of(entry.units) * place.cost.margin
            && patience.takes(candidate.slack_ns, entry.units)
        {
            out.push(candidate);
        }
    }
}

/// Adds what a floor owes, best key first.
fn gather_owed(
    queue: &Queue,
    index: &KeyIndex,
    place: &Place,
    owed_ns: f64,
    out: &mut Vec<Candidate>,
) {
    let mut left_ns = owed_ns;
    for entry in index.iter().take(MAX_SKIPS) {
        let run_ns = place.cost.share_ns(entry.units);
        if run_ns > left_ns || out.iter().any(|other| other.handle == entry.handle) {
            continue;
        }
        let Some(candidate) = candidate(queue, entry, place) else { continue };
        if candidate.slack_ns >= place.cost.of(entry.units) * place.cost.margin {
            left_ns -= run_ns;
            out.push(Candidate { is_owed: true, ..candidate });
        }
    }
}

/// Puts what the lower classes are owed before all other candidates.
pub fn put_low_first(
    queue: &Queue,
    place: &Place,
    owed_ns: [f64; NUM_LOW],
    out: &mut Vec<Candidate>,
) {
    let mut first = Vec::new();
    for (index, owed_ns) in queue.low.iter().zip(owed_ns) {
        gather_owed(queue, index, place, owed_ns, &mut first);
    }
    if first.is_empty() {
        return;
    }
    out.retain(|other| first.iter().all(|owed| owed.handle != other.handle));
    out.splice(0..0, first);
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
