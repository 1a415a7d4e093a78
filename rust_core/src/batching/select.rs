//! The batch rule: which of the candidates, taken in key order, fill one batch.

use super::cost::BatchCost;
use crate::batch::{BatchReason, Limits};

/// Most candidates that a pass steps over.
pub const MAX_SKIPS: usize = 24;
/// A batch cut short by the request limit is chosen again if it leaves this much of the quantum.
const SHORT_RATIO: f64 = 0.93;
const SHRINK_RATIO: f64 = 0.93;
const SLACKEN_RATIO: f64 = 1.02;
/// Most passes of a choice. Aims shrink by 7 % each, so that they span a factor of two million;
/// without an end, an aim of zero or of infinity would shrink for ever.
const MAX_PASSES: usize = 200;

/// A queued request, as the rule sees it.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    /// Time to its deadline.
    pub slack_ns: f64,
    /// Its work.
    pub units: u64,
    /// Its rows.
    pub rows: u64,
    /// Most members of a batch that it joins.
    pub max_companions: u64,
    /// Taken before all others, if it fits: owed by a floor.
    pub is_owed: bool,
    /// Whose it is; the rule does not look at it.
    pub handle: u32,
}

/// Keeps candidates that cannot wait for a whole batch from hiding those behind them.
///
/// In a large fleet under overload more requests are about to become hopeless than a batch looks
/// at. So of those that come after the first, only a few are taken that could not wait for what
/// the first would make.
#[derive(Clone, Copy, Debug)]
pub struct Patience<'a> {
    cost: &'a BatchCost,
    quantum_ns: f64,
    least_ratio: f64,
    first_left: u64,
    units: u64,
    hasty_left: usize,
}

impl<'a> Patience<'a> {
    /// For a batch of at most `limits.requests`, of which `most_hasty` may be unable to wait.
    #[must_use]
    pub fn new(terms: &Terms<'a>, most_hasty: usize) -> Self {
        Self {
            cost: terms.cost,
            quantum_ns: terms.quantum_ns,
            least_ratio: terms.least_ratio,
            first_left: terms.limits.requests,
            units: 0,
            hasty_left: if terms.most_hasty > 0 { most_hasty } else { usize::MAX },
        }
    }

    /// True if a candidate should be looked at.
    pub fn takes(&mut self, slack_ns: f64, units: u64) -> bool {
        if self.first_left > 0 {
            self.first_left -= 1;
            self.units = self.units.saturating_add(units);
            return true;
        }
        let aim_ns = self.quantum_ns.min(self.cost.of(self.units));
        if slack_ns < aim_ns * self.cost.margin * self.least_ratio {
            let is_taken = self.hasty_left > 0;
            self.hasty_left = self.hasty_left.saturating_sub(1);
            return is_taken;
        }
        true
    }
}

/// A batch that was chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// Why it ends where it does.
    pub reason: BatchReason,
    /// Predicted device time.
    pub predicted_ns: f64,
    /// Its work.
    pub units: u64,
    /// Its rows.
    pub rows: u64,
}

/// What the rule works with, besides the candidates.
#[derive(Clone, Copy, Debug)]
pub struct Terms<'a> {
    /// Cost on the replica at hand.
    pub cost: &'a BatchCost,
    /// Longest batch wanted.
    pub quantum_ns: f64,
    /// A batch may be cut to this share of its aim for a member whose deadline is near. In [0, 1].
    pub least_ratio: f64,
    /// What the replica takes.
    pub limits: Limits,
    /// Candidates that are stepped over at no charge since they cannot wait for the batch; see
    /// `hasty_allowed`.
    pub most_hasty: usize,
}

/// How many candidates that cannot wait may be stepped over at no charge in a fleet of so many: the
/// more devices, the more requests are about to become hopeless at any time.
#[must_use]
pub fn hasty_allowed(devices: usize) -> usize {
    MAX_SKIPS * devices.saturating_sub(1)
}

/// Chooses a batch; `taken` gets the positions of its members in `candidates`.
///
/// `candidates` come best first. Every member can be served within `margin` times the predicted
/// time before its deadline. None only if no candidate could be served in time even alone.
/// O(candidates * passes), with about 40 passes, and at most 200.
pub fn choose(candidates: &[Candidate], terms: &Terms, taken: &mut Vec<usize>) -> Option<Choice> {
    let cost = terms.cost;
    let smallest = candidates.iter().map(|candidate| candidate.units).min()?;
    let mut aim_ns = terms.quantum_ns.min(cost.of(reach(candidates, &terms.limits)));
    let floor_ns = cost.of(smallest);
    let mut passes = 0;
    while aim_ns >= floor_ns && passes < MAX_PASSES {
        passes += 1;
        if let Some(choice) = fill(candidates, terms, aim_ns, taken) {
            return Some(tighten(candidates, terms, aim_ns, choice, taken));
        }
        aim_ns *= SHRINK_RATIO;
    }
    alone(candidates, terms, taken)
}

/// Units of the batch that key order alone would make: aiming for more would only demand more
/// slack of the members than they need.
fn reach(candidates: &[Candidate], limits: &Limits) -> u64 {
    let most = usize::try_from(limits.requests).unwrap_or(usize::MAX);
    let units = candidates.iter().take(most).map(|candidate| candidate.units).sum::<u64>();
    units.min(limits.units)
}

/// A batch cut short by the request limit needs less time, so more candidates are in time for it.
fn tighten(
    candidates: &[Candidate],
    terms: &Terms,
    aim_ns: f64,
    choice: Choice,
    taken: &mut Vec<usize>,
) -> Choice {
    if choice.reason != BatchReason::MaxRequests || choice.predicted_ns >= SHORT_RATIO * aim_ns {
        return choice;
    }
    fill(candidates, terms, SLACKEN_RATIO * choice.predicted_ns, taken).unwrap_or(choice)
}

/// The best candidate that can be served at all, by itself.
fn alone(candidates: &[Candidate], terms: &Terms, taken: &mut Vec<usize>) -> Option<Choice> {
    taken.clear();
    let fits = |candidate: &Candidate| {
        candidate.slack_ns >= terms.cost.of(candidate.units) * terms.cost.margin
            && candidate.units <= terms.limits.units
            && candidate.rows <= terms.limits.rows
    };
    let at = candidates.iter().position(fits)?;
    taken.push(at);
    let predicted_ns = terms.cost.of(candidates[at].units);
    Some(Choice {
        reason: if candidates.len() == 1 {
            BatchReason::QueueEmptied
        } else if predicted_ns > terms.quantum_ns {
            BatchReason::Oversized
        } else {
            BatchReason::Deadline
        },
        predicted_ns,
        units: candidates[at].units,
        rows: candidates[at].rows,
    })
}

/// One pass in key order for a batch of at most `aim_ns`; None if nothing fits.
fn fill(
    candidates: &[Candidate],
    terms: &Terms,
    aim_ns: f64,
    taken: &mut Vec<usize>,
) -> Option<Choice> {
    taken.clear();
    let cost = terms.cost;
    let need_ns = aim_ns * cost.margin * terms.least_ratio;
    let mut limit_ns = aim_ns;
    let mut batch =
        Choice { reason: BatchReason::QueueEmptied, predicted_ns: 0.0, units: 0, rows: 0 };
    let (mut skips, mut hasty) = (0, 0);
    let mut most = terms.limits.requests;
    for (at, candidate) in candidates.iter().enumerate() {
        let misfit = if batch.units + candidate.units > terms.limits.units {
            BatchReason::MaxUnits
        } else if batch.rows + candidate.rows > terms.limits.rows {
            BatchReason::MaxRows
        } else if candidate.slack_ns < need_ns
            || cost.of(batch.units + candidate.units) * cost.margin > candidate.slack_ns
        {
            BatchReason::Deadline
        } else if cost.of(batch.units + candidate.units) > limit_ns {
            BatchReason::Quantum
        } else if taken.len() as u64 >= candidate.max_companions {
            BatchReason::MaxRequests
        } else {
            most = most.min(candidate.max_companions);
            limit_ns = limit_ns.min(candidate.slack_ns / cost.margin);
            batch.units += candidate.units;
            batch.rows += candidate.rows;
            taken.push(at);
            if taken.len() as u64 >= most {
                if at + 1 < candidates.len() {
                    batch.reason = BatchReason::MaxRequests;
                }
                break;
            }
            continue;
        };
        if batch.reason == BatchReason::QueueEmptied {
            batch.reason = misfit;
        }
        if candidate.slack_ns < need_ns && hasty < terms.most_hasty {
            hasty += 1;
        } else if !candidate.is_owed {
            skips += 1;
        }
        if skips > MAX_SKIPS {
            break;
        }
    }
    if taken.len() == 1 && matches!(batch.reason, BatchReason::MaxUnits | BatchReason::MaxRows) {
        batch.reason = BatchReason::Oversized;
    }
    batch.predicted_ns = cost.of(batch.units);
    (!taken.is_empty()).then_some(batch)
}

#[cfg(test)]
mod tests {
    use super::{choose, BatchCost, BatchReason, Candidate, Limits, Patience, Terms};

    const MS: f64 = 1e6;
    const COST: BatchCost =
        BatchCost { intercept_ns: 18.0 * MS, slope_ns: 0.022 * MS, margin: 1.0, spread: 0.0 };
    const LIMITS: Limits = Limits { requests: 32, rows: u64::MAX, units: 16_384 };

    fn terms() -> Terms<'static> {
        Terms {
            cost: &COST,
            quantum_ns: 500.0 * MS,
            least_ratio: 1.0,
            limits: LIMITS,
            most_hasty: super::hasty_allowed(3),
        }
    }

    fn candidate(slack_ms: f64) -> Candidate {
        Candidate {
            slack_ns: slack_ms * MS,
            units: 100,
            rows: 1,
            max_companions: u64::MAX,
            is_owed: false,
            handle: 0,
        }
    }

    #[test]
    fn those_who_cannot_wait_do_not_hide_those_who_can() {
        // The first 32 would take 88.4 ms, for which 40 that have 50 ms cannot wait.
        let mut candidates = vec![candidate(50.0); 40];
        candidates.extend(vec![candidate(500.0); 60]);
        let mut taken = Vec::new();
        let choice = choose(&candidates, &terms(), &mut taken).expect("there are some");
        assert_eq!(taken, (40..72).collect::<Vec<_>>());
        assert!((choice.predicted_ns - 88.4 * MS).abs() < 1.0);
    }

    #[test]
    fn a_request_longer_than_the_quantum_is_called_so_only_if_it_keeps_others_out() {
        let terms = Terms { quantum_ns: 15.0 * MS, ..terms() };
        let mut taken = Vec::new();
        let mut reason_among = |count| {
            let candidates = vec![candidate(500.0); count];
            let choice = choose(&candidates, &terms, &mut taken).expect("there are some");
            assert_eq!(taken, [0]);
            choice.reason
        };
        assert_eq!(reason_among(1), BatchReason::QueueEmptied);
        assert_eq!(reason_among(2), BatchReason::Oversized);
    }

    #[test]
    fn few_are_looked_at_that_cannot_wait_for_what_the_first_would_make() {
        let mut patience = Patience::new(&terms(), 2);
        for _ in 0..32 {
            assert!(patience.takes(50.0 * MS, 100));
        }
        let seen = [50.0, 89.0, 88.0, 50.0, 89.0].map(|ms| patience.takes(ms * MS, 100));
        assert_eq!(seen, [true, true, true, false, true]);
    }
}
