//! How many requests a pool may have in hand, by gradient of the delay that nobody planned.
use crate::check;
use crate::error::CoreError;

/// Batches that the short and the long mean remember.
const SHORT_MEMORY: f64 = 10.0;
const LONG_MEMORY: f64 = 600.0;
/// Batches before the limit moves.
const WARM_UP: u64 = 10;
/// Part of the way to the target that one batch moves the limit.
const SMOOTHING: f64 = 0.2;
/// Delays are compared beside this much, ns: below it nothing is congestion.
const FLOOR_NS: f64 = 10_000_000.0;
/// One batch counts as at most this many times its plan, so that a lone stall moves little.
const MOST_RATIO: f64 = 4.0;
/// The baseline never takes more than this for normal, however long it lasts.
const MOST_BASELINE: f64 = 2.0;
/// A limit that is not the constraint shrinks only below this gradient: noise wears it not down.
const CLEAR_GRADIENT: f64 = 2.0 / 3.0;

/// Bounds and start of a limit, in requests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LimiterSettings {
    /// Where it starts.
    pub initial: i64,
    /// Never below.
    pub min: i64,
    /// Never above.
    pub max: i64,
}

impl LimiterSettings {
    /// Checks that 1 <= min <= initial <= max <= 2^24.
    ///
    /// # Errors
    /// The first that is out of range.
    pub fn check(&self) -> Result<(), CoreError> {
        let whole = "from 1 to 2**24";
        check::count("limit_min", self.min, 1, check::MAX_LIVE, whole)?;
        check::count("limit_max", self.max, 1, check::MAX_LIVE, whole)?;
        let expected = "from limit_min to limit_max";
        check::count("limit_initial", self.initial, self.min, self.max, expected)?;
        Ok(())
    }
}

/// A concurrency limit that learns from live traffic alone.
///
/// A sample is what a batch took from dispatch to answer over what was planned for it, so that
/// queueing that the scheduler chose, and a device that is known to be slow, are no congestion.
/// The limit moves toward `limit * clamp(long / short, 0.5, 1) + sqrt(limit)`; up only while at
/// least half of it is in use.
///
/// Source: Netflix concurrency-limits, `Gradient2Limit`, on the unplanned part of the delay.
#[derive(Debug, Clone)]
pub struct GradientLimiter {
    min: f64,
    max: f64,
    limit: f64,
    short: f64,
    long: f64,
    samples: u64,
}

impl GradientLimiter {
    /// At its initial limit, with nothing learned. `settings` must have passed their check.
    #[must_use]
    pub fn new(settings: &LimiterSettings) -> Self {
        let (min, max) = (settings.min as f64, settings.max as f64);
        let limit = settings.initial as f64;
        Self { min, max, limit, short: 1.0, long: 1.0, samples: 0 }
    }

    /// Takes over other bounds; what was learned stays, within them.
    pub fn configure(&mut self, settings: &LimiterSettings) {
        (self.min, self.max) = (settings.min as f64, settings.max as f64);
        self.limit = self.limit.clamp(self.min, self.max);
    }

    /// Requests that may be in hand.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // within [1, 2^24]
    pub fn limit(&self) -> u64 {
        self.limit as u64
    }

    /// Factor on the limit, in [0.5, 1]: below 1 while delays grow.
    #[must_use]
    pub fn gradient(&self) -> f64 {
        (self.long / self.short).clamp(0.5, 1.0)
    }

    /// Takes in a batch that ended well: what it took, what was planned, and how many requests
    /// the pool had in hand. Failures, refusals and cancellations are no samples. O(1).
    pub fn observe(&mut self, measured_ns: i64, planned_ns: i64, inflight: u64) {
        let measured = measured_ns.max(0) as f64 + FLOOR_NS;
        let ratio = (measured / (planned_ns.max(0) as f64 + FLOOR_NS)).min(MOST_RATIO);
        self.samples += 1;
        let seen = self.samples as f64;
        self.short += (ratio - self.short) / seen.min(SHORT_MEMORY);
        self.long += (ratio - self.long) / seen.min(LONG_MEMORY);
        self.long = self.long.min(MOST_BASELINE);
        if self.samples >= WARM_UP {
            self.move_limit(inflight as f64);
        }
    }

    fn move_limit(&mut self, inflight: f64) {
        let gradient = self.gradient();
        let mut target = self.limit * gradient + self.limit.sqrt();
        if inflight < 0.5 * self.limit {
            if gradient > CLEAR_GRADIENT {
                return;
            }
            target = target.min(self.limit);
        }
        let next = self.limit + SMOOTHING * (target - self.limit);
        self.limit = next.clamp(self.min, self.max);
    }
}
