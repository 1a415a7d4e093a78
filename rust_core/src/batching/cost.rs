//! What a batch costs, as the batch rule sees it.
use crate::cost::Affine;

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

/// Standard normal quantile of the share of batches that deadlines are judged by.
const QUANTILE_SCORE: f64 = 0.43;
/// Before any residual is known, deadlines are judged with this much to spare.
const FIRST_MARGIN: f64 = 1.02;
/// More than this says that the model is wrong, not the device noisy.
const MAX_MARGIN: f64 = 1.25;

impl BatchCost {
    /// From what is expected and what deadlines are judged by.
    #[must_use]
    pub fn new(expected: &Affine, judged: &Affine) -> Self {
        let ratio = (judged.fixed_ns + judged.unit_ns) / (expected.fixed_ns + expected.unit_ns);
        let margin = if ratio > 1.0 { ratio.min(MAX_MARGIN) } else { FIRST_MARGIN };
        let (intercept_ns, slope_ns) = (expected.fixed_ns, expected.unit_ns);
        Self { intercept_ns, slope_ns, margin, spread: 0.0 }.with_margin(margin)
    }

    /// The same, judged with another margin.
    #[must_use]
    pub fn with_margin(self, margin: f64) -> Self {
        Self { margin, spread: (margin - 1.0) / QUANTILE_SCORE, ..self }
    }

    /// Predicted device time of a batch.
    #[must_use]
    pub fn of(&self, units: u64) -> f64 {
        self.intercept_ns + self.slope_ns * units as f64
    }

    /// What units alone take, as floors count it: where size costs nothing, by units all the same,
    /// so that shares of batches still add up.
    #[must_use]
    pub fn share_ns(&self, units: u64) -> f64 {
        units as f64 * if self.slope_ns > 0.0 { self.slope_ns } else { 1.0 }
    }

    /// The same on a replica `speed` times as fast.
    #[must_use]
    pub fn at_speed(self, speed: f64) -> Self {
        Self { intercept_ns: self.intercept_ns / speed, slope_ns: self.slope_ns / speed, ..self }
    }

    /// Device time of work that is split into batches of at most `quantum_ns` and `max_requests`.
    ///
    /// Requests longer than the quantum have a batch, and its fixed part, each to themselves.
    #[must_use]
    pub fn of_many(&self, requests: f64, units: f64, quantum_ns: f64, max_requests: f64) -> f64 {
        let run_ns = self.slope_ns * units;
        let room_ns = (quantum_ns - self.intercept_ns).max(0.05 * quantum_ns).max(1.0);
        let batches = (requests / max_requests).max(run_ns / room_ns).min(requests);
        run_ns + self.intercept_ns * batches
    }
}
