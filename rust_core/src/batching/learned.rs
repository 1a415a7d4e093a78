//! Device time of a batch, learned: constrained recursive least squares that recovers.

/// Weight that an observation keeps after one more: a memory of about 50 batches.
const FORGET: f64 = 0.98;
/// Observations before the fit replaces the prior.
const MIN_OBSERVATIONS: u64 = 4;
/// Spread of the sizes below which a slope cannot be told from a level.
const MIN_SPREAD: f64 = 0.03;
const LEVEL_STEP: f64 = 0.1;

/// `intercept + slope * units`, both >= 0.
#[derive(Clone, Debug)]
pub struct LearnedCost {
    intercept_ns: f64,
    slope_ns: f64,
    count: f64,
    units: f64,
    units_squared: f64,
    ns: f64,
    units_ns: f64,
    observations: u64,
    square_error: f64,
    mean_error: f64,
    off: u32,
    off_ratio: f64,
}

impl LearnedCost {
    /// Starts from a prior.
    #[must_use]
    pub fn new(intercept_ns: f64, slope_ns: f64) -> Self {
        Self {
            intercept_ns,
            slope_ns,
            count: 0.0,
            units: 0.0,
            units_squared: 0.0,
            ns: 0.0,
            units_ns: 0.0,
            observations: 0,
            square_error: 0.05 * 0.05,
            mean_error: 0.04,
            off: 0,
            off_ratio: 1.0,
        }
    }

    /// Fixed part.
    #[must_use]
    pub fn intercept_ns(&self) -> f64 {
        self.intercept_ns
    }

    /// Nanoseconds a unit.
    #[must_use]
    pub fn slope_ns(&self) -> f64 {
        self.slope_ns
    }

    /// Standard deviation of actual / predicted - 1.
    #[must_use]
    pub fn residual_ratio(&self) -> f64 {
        self.square_error.sqrt()
    }

    /// Batches learned from.
    #[must_use]
    pub fn observations(&self) -> u64 {
        self.observations
    }

    /// Learns from a batch; true if it concluded that the device has changed.
    pub fn observe(&mut self, units: u64, device_ns: f64) -> bool {
        let x = units as f64;
        let predicted = (self.intercept_ns + self.slope_ns * x).max(1.0);
        let ratio = device_ns / predicted;
        let shifted = self.notice(ratio);
        for sum in [
            &mut self.count,
            &mut self.units,
            &mut self.units_squared,
            &mut self.ns,
            &mut self.units_ns,
        ] {
            *sum *= FORGET;
        }
        self.count += 1.0;
        self.units += x;
        self.units_squared += x * x;
        self.ns += device_ns;
        self.units_ns += x * device_ns;
        self.observations += 1;
        if self.observations >= MIN_OBSERVATIONS && !shifted {
            self.solve(ratio);
        }
        shifted
    }

    /// Keeps the error statistics; after three batches off in one direction the whole cost is
    /// scaled and old evidence nearly dropped.
    fn notice(&mut self, ratio: f64) -> bool {
        let error = (ratio - 1.0).abs();
        let threshold = (4.0 * self.mean_error).max(0.25);
        let beyond = error > threshold;
        if !beyond || (self.off > 0 && (ratio > 1.0) != (self.off_ratio > 1.0)) {
            self.off = u32::from(beyond);
            self.off_ratio = ratio;
        } else {
            self.off_ratio = if self.off == 0 { ratio } else { 0.5 * (self.off_ratio + ratio) };
            self.off += 1;
        }
        let error = error.min(threshold);
        self.mean_error += 0.05 * (error - self.mean_error);
        self.square_error += 0.05 * (error * error - self.square_error);
        if self.off < 3 {
            return false;
        }
        self.rescale(self.off_ratio);
        self.off = 0;
        true
    }

    fn rescale(&mut self, ratio: f64) {
        self.intercept_ns *= ratio;
        self.slope_ns *= ratio;
        for sum in
            [&mut self.count, &mut self.units, &mut self.units_squared, &mut self.ns, &mut self.units_ns]
        {
            *sum *= 0.05;
        }
        self.ns *= ratio;
        self.units_ns *= ratio;
    }

    fn solve(&mut self, ratio: f64) {
        let mean = self.units / self.count;
        let variance = self.units_squared / self.count - mean * mean;
        if variance < (MIN_SPREAD * mean).powi(2) {
            let step = ratio.powf(LEVEL_STEP);
            self.intercept_ns *= step;
            self.slope_ns *= step;
            return;
        }
        let slope = (self.units_ns / self.count - mean * self.ns / self.count) / variance;
        let intercept = self.ns / self.count - slope * mean;
        (self.intercept_ns, self.slope_ns) = if slope < 0.0 {
            (self.ns / self.count, 0.0)
        } else if intercept < 0.0 {
            (0.0, self.units_ns / self.units_squared)
        } else {
            (intercept, slope)
        };
    }
}
