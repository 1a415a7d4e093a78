//! What a batch costs, as the batch rule sees it.

/// Device time of a batch on one replica: `intercept + slope * units`, and how sure that is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchCost {
    /// Fixed part, nanoseconds, >= 0.
    pub intercept_ns: f64,
    /// Nanoseconds a unit, >= 0.
    pub slope_ns: f64,
    /// A deadline is judged against this multiple (>= 1) of the prediction: a quantile of it.
    pub margin: f64,
    /// Standard deviation of actual / predicted - 1.
    pub spread: f64,
}

/// Standard normal quantile of 2/3. On the reference device (uniform noise of 8 %) it gives a
/// margin of 2 %, at 20 % noise 5 %: both the best of a sweep over fixed margins.
const QUANTILE_SCORE: f64 = 0.43;
/// A spread above this says that the model is wrong, not the device noisy.
const MAX_SPREAD: f64 = 0.5;

impl BatchCost {
    /// Cost from learned coefficients and their residual spread.
    #[must_use]
    pub fn new(intercept_ns: f64, slope_ns: f64, residual_ratio: f64) -> Self {
        let spread = residual_ratio.clamp(0.0, MAX_SPREAD);
        Self { intercept_ns, slope_ns, margin: 1.0 + QUANTILE_SCORE * spread, spread }
    }

    /// Predicted device time of a batch.
    #[must_use]
    pub fn of(&self, units: u64) -> f64 {
        self.intercept_ns + self.slope_ns * units as f64
    }

    /// The same on a replica `speed` times as fast.
    #[must_use]
    pub fn at_speed(self, speed: f64) -> Self {
        Self { intercept_ns: self.intercept_ns / speed, slope_ns: self.slope_ns / speed, ..self }
    }

    /// Device time of work that is split into batches of at most `quantum_ns` and `max_requests`.
    #[must_use]
    pub fn of_many(&self, requests: f64, units: f64, quantum_ns: f64, max_requests: f64) -> f64 {
        let run_ns = self.slope_ns * units;
        let room_ns = (quantum_ns - self.intercept_ns).max(0.05 * quantum_ns).max(1.0);
        run_ns + self.intercept_ns * (requests / max_requests).max(run_ns / room_ns)
    }
}
