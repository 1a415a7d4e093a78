//! The most profitable batch of whole requests that fits a room, by branch and bound.
//!
//! Source: Horowitz and Sahni, J. ACM 21(2), 1974; the bound of a node is Dantzig's, Operations
//! Research 5(2), 1957.

/// Nodes looked at before the bounds of those left over are taken for the answer.
const MAX_NODES: u32 = 150;
/// A batch is good enough within this share of its bound, which is added to the answer.
const TOLERANCE: f64 = 2e-4;
/// Offers are looked into until they would fill the room so many times, and are so many.
const DEPTH: f64 = 3.0;
const MIN_OFFERS: usize = 32;

/// A request that a batch may take.
#[derive(Clone, Copy, Debug)]
pub struct Offer {
    /// Profit for a nanosecond.
    pub density: f64,
    /// Value less price; above 0.
    pub profit: f64,
    /// Device time.
    pub run_ns: f64,
    /// Last step in which a batch with it may end.
    pub due: usize,
    /// Whose it is.
    pub job: usize,
}

/// Finds batches; keeps its memory from one to the next.
#[derive(Debug, Default)]
pub struct Knapsack {
    items: Vec<Offer>,
    /// Device time and profit of the items before each place.
    prefix: Vec<(f64, f64)>,
    /// Largest profit from each place on.
    peaks: Vec<f64>,
    /// Density of what was not looked into; 0 if nothing was left.
    tail: f64,
    path: Vec<usize>,
    taken: Vec<usize>,
    best: f64,
    /// Highest bound of what was not searched.
    unsearched: f64,
    slack: f64,
    nodes: u32,
}

impl Knapsack {
    /// Upper bound of the profit of a batch of at most `most` members within `room_ns`, from those
    /// offers (by falling density) that may end as late as `end`.
    ///
    /// Never below the best batch; above it by at most 0.02 %, unless the search is given up.
    pub fn solve(&mut self, offers: &[Offer], room_ns: f64, most: usize, end: usize) -> f64 {
        self.collect(offers, room_ns, end);
        let root = self.bound(0, room_ns, most);
        (self.best, self.unsearched, self.nodes) = (0.0, 0.0, 0);
        self.slack = TOLERANCE * root;
        self.path.clear();
        self.taken.clear();
        self.branch(0, room_ns, most, 0.0);
        root.min(self.unsearched.max(self.best + self.slack))
    }

    /// Jobs of the best batch that the last `solve` found.
    pub fn members(&self) -> impl Iterator<Item = usize> + '_ {
        self.taken.iter().map(|at| self.items[*at].job)
    }

    fn collect(&mut self, offers: &[Offer], room_ns: f64, end: usize) {
        self.items.clear();
        self.prefix.clear();
        self.prefix.push((0.0, 0.0));
        self.tail = 0.0;
        let (mut run_ns, mut profit) = (0.0, 0.0);
        for offer in offers {
            if offer.due < end || offer.run_ns > room_ns {
                continue;
            }
            if run_ns > DEPTH * room_ns && self.items.len() >= MIN_OFFERS {
                self.tail = offer.density;
                break;
            }
            run_ns += offer.run_ns;
            profit += offer.profit;
            self.items.push(*offer);
            self.prefix.push((run_ns, profit));
        }
        let mut peak = if self.tail > 0.0 { f64::INFINITY } else { 0.0 };
        self.peaks.clear();
        self.peaks.resize(self.items.len() + 1, peak);
        for at in (0..self.items.len()).rev() {
            peak = peak.max(self.items[at].profit);
            self.peaks[at] = peak;
        }
    }

    /// What the items from `at` on can add at most: with a fraction of the first that does not fit.
    fn bound(&self, at: usize, left_ns: f64, most: usize) -> f64 {
        let (run_ns, profit) = self.prefix[at];
        let end = at + self.prefix[at + 1..].partition_point(|sum| sum.0 - run_ns <= left_ns);
        let whole = self.prefix[end];
        let density = self.items.get(end).map_or(self.tail, |item| item.density);
        let part = (left_ns - (whole.0 - run_ns)).max(0.0) * density;
        let peak = self.peaks[at];
        let by_count = if most == 0 { 0.0 } else { most as f64 * peak };
        (whole.1 - profit + part).min(by_count)
    }

    fn branch(&mut self, from: usize, left_ns: f64, most: usize, profit: f64) {
        if profit > self.best {
            self.best = profit;
            self.taken.clone_from(&self.path);
        }
        for at in from..=self.items.len() {
            let bound = profit + self.bound(at, left_ns, most);
            if bound <= self.best + self.slack {
                return;
            }
            self.nodes += 1;
            if self.nodes >= MAX_NODES || at == self.items.len() {
                self.unsearched = self.unsearched.max(bound);
                return;
            }
            let item = self.items[at];
            if item.run_ns <= left_ns {
                self.path.push(at);
                self.branch(at + 1, left_ns - item.run_ns, most - 1, profit + item.profit);
                self.path.pop();
            }
        }
    }
}

/// Profit of the best batch with a fraction of a request: quicker than `Knapsack`, and never below.
pub fn relaxed(offers: &[Offer], room_ns: f64, end: usize) -> f64 {
    let (mut left_ns, mut profit) = (room_ns, 0.0);
    for offer in offers {
        if offer.due < end {
            continue;
        }
        if offer.run_ns >= left_ns {
            return profit + left_ns * offer.density;
        }
        profit += offer.profit;
        left_ns -= offer.run_ns;
    }
    profit
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    /// Best profit of at most `most` offers within `room_ns`, by trying every subset.
    fn exhaustive(offers: &[Offer], room_ns: f64, most: u32, end: usize) -> f64 {
        let mut best = 0.0;
        for subset in 0..1u32 << offers.len() {
            let chosen = || offers.iter().enumerate().filter(move |(at, _)| subset >> at & 1 == 1);
            let run_ns: f64 = chosen().map(|(_, offer)| offer.run_ns).sum();
            let is_open = chosen().all(|(_, offer)| offer.due >= end);
            if subset.count_ones() <= most && run_ns <= room_ns && is_open {
                best = f64::max(best, chosen().map(|(_, offer)| offer.profit).sum());
            }
        }
        best
    }

    #[test]
    fn is_the_best_batch_of_whole_requests() {
        let mut knapsack = Knapsack::default();
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let mut offers: Vec<Offer> = (0..9)
                .map(|job| {
                    let (profit, run_ns) = (0.1 + rng.uniform(), 1.0 + 9.0 * rng.uniform());
                    let due = if rng.uniform() < 0.2 { 4 } else { 5 };
                    Offer { density: profit / run_ns, profit, run_ns, due, job }
                })
                .collect();
            offers.sort_by(|a, b| b.density.total_cmp(&a.density));
            for most in [1, 2, 9] {
                let best = exhaustive(&offers, 15.0, most, 5);
                let found = knapsack.solve(&offers, 15.0, most as usize, 5);
                assert!(found >= best - 1e-9, "seed {seed}: {found} below {best}");
                assert!(relaxed(&offers, 15.0, 5) >= best - 1e-9);
                // The tolerance is of the bound at the root, which is at most three times the best.
                assert!(
                    found <= best * (1.0 + 3.0 * TOLERANCE) + 1e-9,
                    "seed {seed}: {found}, {best}"
                );
            }
        }
    }
}
