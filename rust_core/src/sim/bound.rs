//! What no scheduler can beat, even one that knows the future.
//!
//! The dual of the configuration program of one device: each request has a price, and the best
//! schedule against the prices is found by dynamic programming over device time, whose batches are
//! knapsacks of whole requests. Prices plus that schedule's profit bound the value of every
//! schedule from above, whatever the prices; the subgradient method looks for good ones. Everything
//! is rounded in the schedule's favour (a batch may begin a step earlier than it could and end a
//! step later than it must), so that the bound holds at any step.
//!
//! What is left above the optimum: the configuration program is itself above it (3 to 5 % on
//! instances of six requests, by an independent linear program; `tests/sim/test_bound.py`), a step
//! for each batch, 0.02 % for knapsacks, and what the prices are short of the best ones. Batches
//! with fractions of requests would add another 9 to 10 % there.
//!
//! Source: the configuration program is that of Gilmore and Gomory, Operations Research 9(6),
//! 1961; the length of a step is Polyak's, USSR Comp. Math. 9(3), 1969, its direction that of
//! Camerini, Fratta and Maffioli, Math. Prog. Study 3, 1975.

use super::engine::Device;
use super::trace::{Trace, TraceRow};
use knapsack::{relaxed, Knapsack, Offer};

mod knapsack;

/// How hard to look for good prices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BoundEffort {
    /// Step of time while looking.
    pub search_step_ns: i64,
    /// Iterations of that.
    pub search_rounds: u32,
    /// Step of time for the bound that counts.
    pub final_step_ns: i64,
    /// Iterations of that.
    pub final_rounds: u32,
}

/// Rounds without progress before the steps become shorter; how short they may become.
const PATIENCE: u32 = 5;
const LEAST_AMBITION: f64 = 2e-4;
/// Share of the gap between the best bound and the optimum that is hoped for at first.
const FIRST_AMBITION: f64 = 0.02;
const LAST_AMBITION: f64 = 0.005;
/// How far a direction is bent away from the last one.
const BEND: f64 = 1.5;

#[derive(Clone, Copy, Debug)]
struct Job {
    at_ns: i64,
    due_ns: i64,
    units: f64,
    value: f64,
}

/// A batch of the best schedule.
struct Arc {
    from: usize,
    steps: usize,
}

struct Search<'a> {
    jobs: &'a [Job],
    device: &'a Device,
    max_requests: usize,
    /// Most device time of a batch's members.
    most_run_ns: f64,
    step_ns: i64,
    /// How much longer than its steps a batch may be; `step_ns` for a bound.
    slack_ns: i64,
    /// Instants, in steps.
    num_steps: usize,
    most_steps: usize,
    /// Jobs by the step in which they come, and by the last one in which they can end.
    arrivals: Vec<Vec<usize>>,
    dues: Vec<Vec<usize>>,
    best: Vec<f64>,
    choice: Vec<usize>,
    knapsack: Knapsack,
    /// Bound and length of the batches that may be the best from an instant on.
    lengths: Vec<(f64, usize)>,
}

/// Upper bound of the value served in time on one device, in units of weight.
///
/// With weights of 1: of the number of requests. 0 for an empty trace.
#[must_use]
pub fn clairvoyant_bound(trace: &Trace, device: &Device, effort: &BoundEffort) -> f64 {
    let jobs = jobs_of(trace);
    if jobs.is_empty() {
        return 0.0;
    }
    let mut prices = first_prices(&jobs, device, trace.duration_ns);
    let offered: f64 = jobs.iter().map(|job| job.value).sum();
    // A coarse search that rounds as finely as the last one has prices that suit it.
    let slack_ns = effort.final_step_ns;
    let search = Search::new(&jobs, device, effort.search_step_ns, slack_ns);
    improve(search, &mut prices, effort.search_rounds, FIRST_AMBITION);
    let last = Search::new(&jobs, device, effort.final_step_ns, slack_ns);
    improve(last, &mut prices, effort.final_rounds.max(1), LAST_AMBITION).min(offered)
}

fn jobs_of(trace: &Trace) -> Vec<Job> {
    let job = |row: &TraceRow| Job {
        at_ns: row.at_ns,
        due_ns: row.at_ns + row.deadline_ns,
        units: row.units as f64,
        value: row.weight,
    };
    trace.rows.iter().map(job).collect()
}

/// Prices at which every unit of device time is worth the same: the bound by capacity alone.
fn first_prices(jobs: &[Job], device: &Device, duration_ns: i64) -> Vec<f64> {
    let most = if device.max_requests == 0 { 1e9 } else { device.max_requests as f64 };
    let least_ns = |job: &Job| device.intercept_ns / most + device.slope_ns * job.units;
    let mut rates: Vec<(f64, f64)> =
        jobs.iter().map(|job| (job.value / least_ns(job), least_ns(job))).collect();
    rates.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
    let mut left_ns = duration_ns as f64;
    let mut rate = 0.0;
    for (value_rate, run_ns) in rates {
        left_ns -= run_ns;
        rate = value_rate;
        if left_ns < 0.0 {
            break;
        }
    }
    if left_ns >= 0.0 {
        rate *= 0.5;
    }
    jobs.iter().map(|job| (job.value - rate * least_ns(job)).max(0.0)).collect()
}

/// Subgradient steps; leaves the best prices in `prices` and returns their bound.
///
/// Steps go along the gradient bent away from the last direction where the two disagree, and as far
/// as would close the gap to a target that is `ambition` below the best bound so far.
fn improve(mut search: Search<'_>, prices: &mut Vec<f64>, rounds: u32, ambition: f64) -> f64 {
    let mut best = (f64::INFINITY, prices.clone());
    let mut ambition = ambition;
    let mut stalled = 0;
    let mut direction = vec![0.0; prices.len()];
    for _ in 0..rounds {
        let bound = search.solve(prices);
        stalled = if bound < best.0 * (1.0 - 1e-5) { 0 } else { stalled + 1 };
        if bound < best.0 {
            best = (bound, prices.clone());
        }
        if stalled >= PATIENCE {
            (ambition, stalled) = (f64::max(0.6 * ambition, LEAST_AMBITION), 0);
            prices.clone_from(&best.1);
            direction.fill(0.0);
            let _ = search.solve(prices);
        }
        let used = search.usage(prices);
        bend(&mut direction, &used);
        let square: f64 = direction.iter().map(|part| part * part).sum();
        if square < 1e-12 {
            break;
        }
        let length = (bound - best.0 * (1.0 - ambition)).max(0.0) / square;
        for ((price, part), job) in prices.iter_mut().zip(&direction).zip(search.jobs) {
            *price = (*price - length * part).clamp(0.0, job.value);
        }
    }
    prices.clone_from(&best.1);
    best.0
}

/// Turns `direction` into the next one, given how often the schedule uses each job.
fn bend(direction: &mut [f64], used: &[f64]) {
    let square: f64 = direction.iter().map(|part| part * part).sum();
    let along: f64 = direction.iter().zip(used).map(|(part, used)| part * (1.0 - used)).sum();
    let kept = if along < 0.0 { -BEND * along / square } else { 0.0 };
    for (part, used) in direction.iter_mut().zip(used) {
        *part = 1.0 - used + kept * *part;
    }
}

impl<'a> Search<'a> {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // steps of a trace
    fn new(jobs: &'a [Job], device: &'a Device, step_ns: i64, slack_ns: i64) -> Self {
        let end_ns = jobs.iter().map(|job| job.due_ns).max().unwrap_or(0);
        let num_steps = (end_ns / step_ns) as usize + 2;
        let open = |limit: u64| if limit == 0 { f64::INFINITY } else { limit as f64 };
        let largest_ns = device.intercept_ns + device.slope_ns * open(device.max_units);
        let longest_ns = jobs.iter().map(|job| job.due_ns - job.at_ns).max().unwrap_or(0) as f64;
        let mut search = Self {
            jobs,
            device,
            max_requests: open(device.max_requests).min(1e9) as usize,
            most_run_ns: if device.slope_ns > 0.0 {
                device.slope_ns * open(device.max_units)
            } else {
                f64::INFINITY
            },
            step_ns,
            slack_ns,
            num_steps,
            most_steps: (largest_ns.min(longest_ns) / step_ns as f64).ceil() as usize + 1,
            arrivals: vec![Vec::new(); num_steps],
            dues: vec![Vec::new(); num_steps],
            best: vec![0.0; num_steps + 1],
            choice: vec![0; num_steps + 1],
            knapsack: Knapsack::default(),
            lengths: Vec::new(),
        };
        for (at, job) in jobs.iter().enumerate() {
            search.arrivals[(job.at_ns / step_ns) as usize].push(at);
            search.dues[(job.due_ns / step_ns) as usize].push(at);
        }
        search
    }

    fn offer(&self, job: usize, price: f64) -> Option<Offer> {
        let run_ns = self.device.slope_ns * self.jobs[job].units;
        let profit = self.jobs[job].value - price;
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let due = (self.jobs[job].due_ns / self.step_ns) as usize;
        let density = profit / run_ns.max(1e-9);
        (profit > 1e-9).then_some(Offer { density, profit, run_ns, due, job })
    }

    /// The bound at these prices. O(steps * batch lengths), most of which are cut off.
    fn solve(&mut self, prices: &[f64]) -> f64 {
        let mut open: Vec<Offer> = Vec::new();
        let mut prefix: Vec<(f64, f64)> = Vec::new();
        for now in (0..self.num_steps).rev() {
            // Backwards in time: a job becomes available at its deadline and is gone before its
            // arrival.
            for at in 0..self.dues[now].len() {
                let job = self.dues[now][at];
                if let Some(offer) = self.offer(job, prices[job]) {
                    let place = open.partition_point(|other| other.density > offer.density);
                    open.insert(place, offer);
                }
            }
            if now + 1 < self.num_steps && !self.arrivals[now + 1].is_empty() {
                let gone = &self.arrivals[now + 1];
                open.retain(|offer| !gone.contains(&offer.job));
            }
            self.step(now, &open, &mut prefix);
        }
        prices.iter().sum::<f64>() + self.best[0]
    }

    /// The best that can be made of the time from step `now` on.
    fn step(&mut self, now: usize, open: &[Offer], prefix: &mut Vec<(f64, f64)>) {
        self.best[now] = self.best[now + 1];
        self.choice[now] = 0;
        if open.is_empty() {
            return;
        }
        prefix.clear();
        let (mut run_ns, mut profit) = (0.0, 0.0);
        for offer in open {
            run_ns += offer.run_ns;
            profit += offer.profit;
            prefix.push((run_ns, profit));
        }
        let top = self.top_profit(open);
        self.candidates(now, open, prefix, top);
        for at in 0..self.lengths.len() {
            let (most, steps) = self.lengths[at];
            if most <= self.best[now] {
                break;
            }
            let rest = self.best[now + steps];
            let room_ns = self.room_ns(steps);
            let value = self.knapsack.solve(open, room_ns, self.max_requests, now + steps).min(top);
            if value + rest > self.best[now] {
                self.best[now] = value + rest;
                self.choice[now] = steps;
            }
        }
    }

    /// Lists the lengths of a batch that may beat doing nothing for a step, most promising first.
    fn candidates(&mut self, now: usize, open: &[Offer], prefix: &[(f64, f64)], top: f64) {
        self.lengths.clear();
        let all = prefix.last().map_or(0.0, |sum| sum.1);
        let mut pointer = 0;
        for steps in 1..=self.most_steps.min(self.num_steps - now) {
            let room_ns = self.room_ns(steps);
            if room_ns <= 0.0 {
                continue;
            }
            while pointer < prefix.len() && prefix[pointer].0 <= room_ns {
                pointer += 1;
            }
            let most = prefix.get(pointer).map_or(all, |next| next.1).min(top);
            let rest = self.best[now + steps];
            if most + rest > self.best[now] {
                let bound = relaxed(open, room_ns, now + steps).min(top) + rest;
                if bound > self.best[now] {
                    self.lengths.push((bound, steps));
                }
            } else if pointer == prefix.len() {
                break;
            }
        }
        self.lengths.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
    }

    /// What the most profitable members make, as many as a batch may have.
    fn top_profit(&self, open: &[Offer]) -> f64 {
        let mut profits: Vec<f64> = open.iter().map(|offer| offer.profit).collect();
        if profits.len() > self.max_requests {
            profits.select_nth_unstable_by(self.max_requests, |a, b| b.total_cmp(a));
            profits.truncate(self.max_requests);
        }
        profits.iter().sum()
    }

    /// Time for members of a batch that takes `steps`; a batch may seem a step shorter than it is.
    fn room_ns(&self, steps: usize) -> f64 {
        let longest_ns = steps as f64 * self.step_ns as f64 + self.slack_ns as f64;
        (longest_ns - self.device.intercept_ns).min(self.most_run_ns)
    }

    /// How much of each job the best schedule of the last `solve` uses.
    fn usage(&mut self, prices: &[f64]) -> Vec<f64> {
        let mut used = vec![0.0; self.jobs.len()];
        for arc in self.path() {
            let mut open: Vec<Offer> = self.available(&arc, prices);
            open.sort_by(|a, b| b.density.total_cmp(&a.density));
            let (room_ns, end) = (self.room_ns(arc.steps), arc.from + arc.steps);
            self.knapsack.solve(&open, room_ns, self.max_requests, end);
            for job in self.knapsack.members() {
                used[job] += 1.0;
            }
        }
        used
    }

    fn path(&self) -> Vec<Arc> {
        let mut arcs = Vec::new();
        let mut now = 0;
        while now < self.num_steps {
            let steps = self.choice[now];
            if steps > 0 {
                arcs.push(Arc { from: now, steps });
            }
            now += steps.max(1);
        }
        arcs
    }

    fn available(&self, arc: &Arc, prices: &[f64]) -> Vec<Offer> {
        let until_ns = (steps(arc.from) + 1) * self.step_ns;
        let end = self.jobs.partition_point(|job| job.at_ns < until_ns);
        let longest_ns = 1 + self.longest_ns();
        let start_ns = until_ns - self.step_ns - longest_ns;
        let start = self.jobs.partition_point(|job| job.at_ns < start_ns);
        (start..end)
            .filter(|job| self.jobs[*job].due_ns / self.step_ns >= steps(arc.from + arc.steps))
            .filter_map(|job| self.offer(job, prices[job]))
            .collect()
    }

    fn longest_ns(&self) -> i64 {
        self.jobs.iter().map(|job| job.due_ns - job.at_ns).max().unwrap_or(0)
    }
}

/// A number of time steps as the signed integer that instants are.
fn steps(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
