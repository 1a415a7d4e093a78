//! Device time of a batch, learned.
use crate::check::to_ns;
use crate::residual::Residuals;

/// Weight of the past at each batch: about 50 batches of memory.
const FORGETTING: f64 = 0.98;
/// Batches before the fit replaces the prior.
const MIN_OBSERVATIONS: u64 = 4;
/// Below this squared coefficient of variation of the sizes (8 %), only the level is identifiable.
const MIN_SPREAD: f64 = 0.08 * 0.08;
/// One batch counts for at most this multiple, and at least this fraction, of its prediction.
const MAX_SURPRISE: f64 = 4.0;
/// A batch off by more than this refutes a prior.
const REFUTED_RATIO: f64 = 16.0;
/// Batches in a row, all too slow or all too fast, that mean the device has changed.
const STEP_RUN: usize = 3;
/// How far off a batch must be to count for that: this, and four mean errors.
const STEP_RATIO: f64 = 0.25;
const STEP_ERRORS: f64 = 4.0;
/// What the past still weighs after such a change.
const STEP_MEMORY: f64 = 0.05;

/// `fixed + unit * units`, in ns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Affine {
    /// Fixed part, ns.
    pub fixed_ns: f64,
    /// For each unit, ns.
    pub unit_ns: f64,
}

impl Affine {
    /// Value at `units`, ns.
    #[must_use]
    pub fn at(&self, units: u64) -> f64 {
        self.fixed_ns + self.unit_ns * units as f64
    }

    /// The same with both parts multiplied; the unit part by `units_factor` as well.
    #[must_use]
    pub fn scaled(&self, factor: f64, units_factor: f64) -> Self {
        Self { fixed_ns: self.fixed_ns * factor, unit_ns: self.unit_ns * factor * units_factor }
    }
}

/// Weighted sums of a regression of y on x.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    weight: f64,
    x: f64,
    y: f64,
    xx: f64,
    xy: f64,
}

impl Sums {
    fn add(&mut self, x: f64, y: f64) {
        self.fade(FORGETTING, 1.0);
        self.weight += 1.0;
        self.x += x;
        self.y += y;
        self.xx += x * x;
        self.xy += x * y;
    }

    /// Multiplies all weights by `keep`, and all past y by `y_factor`.
    fn fade(&mut self, keep: f64, y_factor: f64) {
        self.weight *= keep;
        self.x *= keep;
        self.xx *= keep;
        self.y *= keep * y_factor;
        self.xy *= keep * y_factor;
    }

    /// Least squares with both parts >= 0: a negative one is set to 0 and the other solved again.
    /// `slope_ns` stands in for the slope while sizes hardly differ.
    fn solve(&self, slope_ns: f64) -> Affine {
        let (mean_x, mean_y) = (self.x / self.weight, self.y / self.weight);
        let variance = self.xx / self.weight - mean_x * mean_x;
        let slope = if variance > MIN_SPREAD * mean_x * mean_x {
            (self.xy / self.weight - mean_x * mean_y) / variance
        } else {
            slope_ns
        };
        let intercept = mean_y - slope * mean_x;
        if slope < 0.0 {
            Affine { fixed_ns: mean_y, unit_ns: 0.0 }
        } else if intercept < 0.0 {
            Affine { fixed_ns: 0.0, unit_ns: self.xy / self.xx }
        } else {
            Affine { fixed_ns: intercept, unit_ns: slope }
        }
    }
}

/// Device time of a batch = intercept + slope * units, by constrained recursive least squares.
///
/// Forgetting 0.98 a batch, the prior until 4 observations (scaled to a batch that shows it to be
/// off by more than 16); while sizes differ by less than 8 %
/// only the intercept moves. One batch counts for at most 4 times its prediction; three in a row
/// that are off the same way by more than a factor of 1.25 (and 4 mean errors of those before them)
/// rescale the whole fit, so that a changed device is followed at once.
#[derive(Debug, Clone)]
pub struct CostModel {
    fit: Affine,
    sums: Sums,
    observations: u64,
    residuals: Residuals,
    /// Last batches, (units, ns), if they were all off the same way.
    run: Vec<(u64, f64)>,
    run_is_slow: bool,
    /// How far off is not usual; fixed when a run begins, which must not raise it itself.
    tolerated: f64,
}

impl CostModel {
    /// Starts at a prior; both parts >= 0 and finite.
    #[must_use]
    pub fn new(prior: Affine) -> Self {
        Self {
            fit: prior,
            sums: Sums::default(),
            observations: 0,
            residuals: Residuals::new(),
            run: Vec::with_capacity(STEP_RUN),
            run_is_slow: false,
            tolerated: STEP_RATIO,
        }
    }

    /// Learns from a batch of `units` >= 1 that took `device_ns`; 0 or less teaches nothing. O(64).
    ///
    /// True if it concludes that the device is not what it was.
    pub fn observe(&mut self, units: u64, device_ns: f64) -> bool {
        if device_ns <= 0.0 || units == 0 {
            return false;
        }
        let mut is_changed = false;
        let mut counted_ns = device_ns;
        if self.is_fitted() {
            is_changed = self.notice(units, device_ns);
            let predicted = self.fit.at(units).max(1.0);
            counted_ns = device_ns.clamp(predicted / MAX_SURPRISE, predicted * MAX_SURPRISE);
        }
        self.sums.add(units as f64, counted_ns);
        self.observations += 1;
        if self.is_fitted() {
            self.fit = self.sums.solve(self.fit.unit_ns);
        } else {
            self.doubt_prior(units, device_ns);
        }
        is_changed
    }

    /// True once the fit has replaced the prior.
    #[must_use]
    pub fn is_fitted(&self) -> bool {
        self.observations >= MIN_OBSERVATIONS
    }

    /// The fit: expected device time.
    #[must_use]
    pub fn expected(&self) -> Affine {
        self.fit
    }

    /// What deadlines are judged by: the `quantile`, but never less than what is expected.
    #[must_use]
    pub fn cautious(&self, quantile: f64) -> Affine {
        self.fit.scaled(1.0 + self.residuals.quantile(quantile).max(0.0), 1.0)
    }

    /// Expected device time of a batch, ns.
    #[must_use]
    pub fn predict_ns(&self, units: u64) -> i64 {
        to_ns(self.fit.at(units).round())
    }

    /// Device time exceeded by a share `1 - quantile` of batches, ns.
    #[must_use]
    pub fn quantile_ns(&self, units: u64, quantile: f64) -> i64 {
        let factor = 1.0 + self.residuals.quantile(quantile);
        to_ns((self.fit.at(units) * factor).round())
    }

    /// Standard deviation of actual/predicted - 1 over the last 64 batches.
    #[must_use]
    pub fn residual_ratio(&self) -> f64 {
        self.residuals.deviation()
    }

    /// Batches learned from.
    #[must_use]
    pub fn observations(&self) -> u64 {
        self.observations
    }

    /// Records how far off a prediction was, and rescales the fit if the device has changed; true
    /// if it did.
    fn notice(&mut self, units: u64, device_ns: f64) -> bool {
        let ratio = self.ratio(units, device_ns);
        // As a factor: a device a tenth as quick and one ten times as quick are equally far off.
        let distance = ratio.max(1.0 / ratio) - 1.0;
        if distance <= self.tolerated || self.run_is_slow != (ratio > 1.0) {
            self.run.clear();
        }
        if self.run.is_empty() {
            self.tolerated = STEP_RATIO.max(STEP_ERRORS * self.residuals.mean_distance());
        }
        if distance > self.tolerated {
            self.run_is_slow = ratio > 1.0;
            self.run.push((units, device_ns));
        }
        if self.run.len() < STEP_RUN {
            self.residuals.push(ratio - 1.0);
            return false;
        }
        let logs = self.run.iter().map(|&(units, device_ns)| self.ratio(units, device_ns).ln());
        let step = (logs.sum::<f64>() / self.run.len() as f64).exp();
        self.sums.fade(STEP_MEMORY, step);
        self.fit = self.fit.scaled(step, 1.0);
        self.residuals.clear();
        self.run.clear();
        true
    }

    /// A prior that one batch shows to be off by more than 16 is scaled to it: under one that is far
    /// too high nothing seems feasible, and the next batch might not come for long.
    fn doubt_prior(&mut self, units: u64, device_ns: f64) {
        let ratio = self.ratio(units, device_ns);
        if !(1.0 / REFUTED_RATIO..=REFUTED_RATIO).contains(&ratio) {
            self.fit = self.fit.scaled(ratio, 1.0);
        }
    }

    fn ratio(&self, units: u64, device_ns: f64) -> f64 {
        device_ns / self.fit.at(units).max(1.0)
    }
}
