//! The most profitable batch of whole requests that fits a room, by branch and bound.
//!
//! Source: Horowitz and Sahni, J. ACM 21(2), 1974; the bound of a node is Dantzig's, Operations
//! Research 5(2), 1957.

/// Nodes looked at before the root's bound is taken for the answer.
const MAX_NODES: u32 = 400;
/// A batch is good enough within this share of its bound, which is added to the answer.
const TOLERANCE: f64 = 2e-4;

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
    path: Vec<usize>,
    taken: Vec<usize>,
    best: f64,
    slack: f64,
    nodes: u32,
}

impl Knapsack {
    /// Upper bound of the profit of a batch of at most `most` members within `room_ns`, from those
    /// offers (by falling density) that may end as late as `end`. Never below the best batch; above
    /// it by at most 0.02 %, unless the search was given up.
    ///
    /// Less than `floor` is not looked into: the answer is then what was found to be below it.
    pub fn solve(
        &mut self,
        offers: &[Offer],
        room_ns: f64,
        most: usize,
        end: usize,
        floor: f64,
    ) -> f64 {
        self.items.clear();
        self.items.extend(offers.iter().filter(|offer| offer.due >= end && offer.run_ns <= room_ns));
        self.taken.clear();
        self.prepare();
        let root = self.bound(0, room_ns, most);
        if root <= floor {
            return root;
        }
        (self.best, self.slack, self.nodes) = (0.0, TOLERANCE * root, 0);
        self.path.clear();
        self.branch(0, room_ns, most, 0.0);
        if self.nodes >= MAX_NODES {
            root
        } else {
            root.min(self.best + self.slack)
        }
    }

    /// Jobs of the best batch that the last `solve` found.
    pub fn members(&self) -> impl Iterator<Item = usize> + '_ {
        self.taken.iter().map(|at| self.items[*at].job)
    }

    fn prepare(&mut self) {
        let (mut run_ns, mut profit) = (0.0, 0.0);
        self.prefix.clear();
        self.prefix.push((0.0, 0.0));
        for item in &self.items {
            run_ns += item.run_ns;
            profit += item.profit;
            self.prefix.push((run_ns, profit));
        }
        self.peaks.clear();
        self.peaks.resize(self.items.len() + 1, 0.0);
        for at in (0..self.items.len()).rev() {
            self.peaks[at] = self.items[at].profit.max(self.peaks[at + 1]);
        }
    }

    /// What the items from `at` on can add at most: with a fraction of the first that does not fit.
    fn bound(&self, at: usize, left_ns: f64, most: usize) -> f64 {
        let (run_ns, profit) = self.prefix[at];
        let end = at + self.prefix[at + 1..].partition_point(|sum| sum.0 - run_ns <= left_ns);
        let whole = self.prefix[end];
        let part = self
            .items
            .get(end)
            .map_or(0.0, |item| (left_ns - (whole.0 - run_ns)).max(0.0) * item.density);
        (whole.1 - profit + part).min(most as f64 * self.peaks[at])
    }

    fn branch(&mut self, from: usize, left_ns: f64, most: usize, profit: f64) {
        if profit > self.best {
            self.best = profit;
            self.taken.clone_from(&self.path);
        }
        if most == 0 {
            return;
        }
        for at in from..self.items.len() {
            self.nodes += 1;
            let is_hopeless =
                profit + self.bound(at, left_ns, most) <= self.best + self.slack;
            if is_hopeless || self.nodes >= MAX_NODES {
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
