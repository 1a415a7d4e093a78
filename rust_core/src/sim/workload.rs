//! Random arrivals from a description.

use super::trace::{Trace, TraceRow};
use crate::rng::Rng;

/// Deadlines of a class: spread evenly between two bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClassMix {
    /// Share of the requests; shares are scaled to add up to 1.
    pub share: f64,
    /// Shortest relative deadline.
    pub deadline_min_ns: i64,
    /// Longest.
    pub deadline_max_ns: i64,
    /// Value of an answer.
    pub weight: f64,
    /// 1 interactive, 2 bulk.
    pub lane: u8,
    /// 1 critical, 2 standard, 3 sheddable.
    pub priority: u8,
}

/// What arrives.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Time over which requests arrive.
    pub duration_ns: i64,
    /// (from, requests a second) steps, in order of time; the first from 0.
    pub rates: Vec<(i64, f64)>,
    /// Mean time on and mean time off of an on/off process; (0, 0) for a plain Poisson process.
    /// The rate while on is scaled so that the mean stays what `rates` says.
    pub burst_ns: (f64, f64),
    /// Rate while off, as a share of the mean rate.
    pub burst_off_ratio: f64,
    /// Mean of ln(units).
    pub log_units_mean: f64,
    /// Standard deviation of ln(units).
    pub log_units_spread: f64,
    /// Bounds of the units.
    pub units_bounds: (u64, u64),
    /// Classes.
    pub classes: Vec<ClassMix>,
    /// Tenants; requests go to tenant i with a weight of 1 / (i + 1).
    pub tenants: u32,
    /// Share of the requests whose client gives up.
    pub cancel_share: f64,
    /// Mean time until it does.
    pub cancel_mean_ns: f64,
    /// Most rows; rows are even over 1..=most.
    pub max_rows: u32,
}

impl Workload {
    /// The reference: Poisson arrivals, log-normal sizes, 30 % at 120 ms and 70 % at 900 ms.
    #[must_use]
    pub fn reference(rate_per_s: f64, duration_ns: i64) -> Self {
        let class = |share: f64, ms: i64| ClassMix {
            share,
            deadline_min_ns: ms * 1_000_000,
            deadline_max_ns: ms * 1_000_000,
            weight: 1.0,
            lane: 1,
            priority: 2,
        };
        Self {
            duration_ns,
            rates: vec![(0, rate_per_s)],
            burst_ns: (0.0, 0.0),
            burst_off_ratio: 0.0,
            log_units_mean: 4.8,
            log_units_spread: 0.9,
            units_bounds: (16, 4096),
            classes: vec![class(0.3, 120), class(0.7, 900)],
            tenants: 1,
            cancel_share: 0.0,
            cancel_mean_ns: 0.0,
            max_rows: 1,
        }
    }

    /// Draws the arrivals. The same seed gives the same trace.
    #[must_use]
    pub fn draw(&self, seed: u64) -> Trace {
        let mut rng = Rng::new(seed);
        let mut trace = Trace { rows: Vec::new(), duration_ns: self.duration_ns };
        let mut phase = Phase::start(self, &mut rng);
        let mut now_ns = 0.0;
        while let Some(next_ns) = self.next_arrival(now_ns, &mut phase, &mut rng) {
            now_ns = next_ns;
            trace.rows.push(self.row(now_ns, &mut rng));
        }
        trace
    }

    /// Next instant of the piecewise Poisson process, before the end.
    fn next_arrival(&self, now_ns: f64, phase: &mut Phase, rng: &mut Rng) -> Option<f64> {
        let mut now_ns = now_ns;
        let mut left = exponential(rng);
        loop {
            let (rate, step_end_ns) = self.rate_at(now_ns);
            let end_ns = step_end_ns.min(phase.until_ns).min(self.duration_ns as f64);
            let rate = rate * phase.factor;
            let reach = rate * (end_ns - now_ns) / 1e9;
            if reach > left {
                return Some(now_ns + left / rate * 1e9);
            }
            left -= reach;
            now_ns = end_ns;
            if now_ns >= self.duration_ns as f64 {
                return None;
            }
            if now_ns >= phase.until_ns {
                phase.flip(self, rng);
            }
        }
    }

    fn rate_at(&self, now_ns: f64) -> (f64, f64) {
        let next = self.rates.partition_point(|(from_ns, _)| *from_ns as f64 <= now_ns);
        let end_ns = self.rates.get(next).map_or(f64::INFINITY, |step| step.0 as f64);
        (self.rates[next.saturating_sub(1)].1, end_ns)
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn row(&self, now_ns: f64, rng: &mut Rng) -> TraceRow {
        let (low, high) = self.units_bounds;
        let log = self.log_units_mean + self.log_units_spread * normal(rng);
        let class = self.pick_class(rng);
        let mix = &self.classes[class];
        let width = (mix.deadline_max_ns - mix.deadline_min_ns) as f64;
        let spread = if width > 0.0 { width * rng.uniform() } else { 0.0 };
        let quits = self.cancel_share > 0.0 && rng.uniform() < self.cancel_share;
        let rows = if self.max_rows > 1 {
            1 + (rng.uniform() * f64::from(self.max_rows)) as u32
        } else {
            1
        };
        TraceRow {
            at_ns: now_ns as i64,
            units: (log.exp().round() as u64).clamp(low, high),
            rows,
            deadline_ns: mix.deadline_min_ns + spread as i64,
            class: class as u8,
            lane: mix.lane,
            priority: mix.priority,
            tenant: self.pick_tenant(rng),
            weight: mix.weight,
            cancel_after_ns: if quits {
                (exponential(rng) * self.cancel_mean_ns) as i64
            } else {
                i64::MAX
            },
        }
    }

    fn pick_class(&self, rng: &mut Rng) -> usize {
        let sum: f64 = self.classes.iter().map(|class| class.share).sum();
        let mut left = rng.uniform() * sum;
        for (at, class) in self.classes.iter().enumerate() {
            left -= class.share;
            if left < 0.0 {
                return at;
            }
        }
        self.classes.len() - 1
    }

    fn pick_tenant(&self, rng: &mut Rng) -> u32 {
        if self.tenants < 2 {
            return 0;
        }
        let sum: f64 = (1..=self.tenants).map(|rank| 1.0 / f64::from(rank)).sum();
        let mut left = rng.uniform() * sum;
        for rank in 1..=self.tenants {
            left -= 1.0 / f64::from(rank);
            if left < 0.0 {
                return rank - 1;
            }
        }
        self.tenants - 1
    }
}

/// Whether an on/off process is on, and until when.
struct Phase {
    on: bool,
    until_ns: f64,
    factor: f64,
}

impl Phase {
    fn start(workload: &Workload, rng: &mut Rng) -> Self {
        let mut phase = Self { on: false, until_ns: 0.0, factor: 1.0 };
        if workload.burst_ns.0 <= 0.0 {
            phase.until_ns = f64::INFINITY;
        } else {
            phase.flip(workload, rng);
        }
        phase
    }

    fn flip(&mut self, workload: &Workload, rng: &mut Rng) {
        let (on_ns, off_ns) = workload.burst_ns;
        self.on = !self.on;
        let low = workload.burst_off_ratio;
        let high = ((on_ns + off_ns) - low * off_ns) / on_ns;
        self.factor = if self.on { high } else { low };
        self.until_ns += exponential(rng) * if self.on { on_ns } else { off_ns };
    }
}

fn exponential(rng: &mut Rng) -> f64 {
    -(1.0 - rng.uniform()).ln()
}

/// Standard normal, by Box and Muller, Ann. Math. Stat. 29(2), 1958.
fn normal(rng: &mut Rng) -> f64 {
    let radius = (2.0 * exponential(rng)).sqrt();
    radius * (2.0 * std::f64::consts::PI * rng.uniform()).cos()
}
