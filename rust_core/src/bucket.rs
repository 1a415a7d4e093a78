//! A tenant's quota.
use crate::check::to_ns;

/// Rounding that a comparison forgives: a millionth of a unit and a few ulps.
const SLACK_UNITS: f64 = 1e-6;
const SLACK_RATIO: f64 = 1e-12;

/// Whether a bucket holds enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quota {
    /// It does.
    Enough,
    /// It will after so many ns.
    After(i64),
    /// It never will: more than the burst.
    Never,
}

/// A token bucket in work units with continuous refill, full at the start.
///
/// Work is taken at its estimate and settled at what it took, so that the level may fall below
/// zero: a debt that the refill pays off, of at most the largest request.
///
/// Source: RFC 2697, section 3, in work units instead of bytes.
#[derive(Debug, Clone)]
pub struct TokenBucket {
    units_per_s: f64,
    burst: f64,
    /// Most units of one request; above `burst` where a quota is divided over gateways.
    largest: f64,
    level: f64,
    at_ns: i64,
}

impl TokenBucket {
    /// Full. Both numbers > 0; infinity is no limit.
    #[must_use]
    pub fn new(now_ns: i64, units_per_s: f64, burst_units: f64) -> Self {
        let (burst, level) = (burst_units, burst_units);
        Self { units_per_s, burst, largest: burst_units, level, at_ns: now_ns }
    }

    /// Lets single requests of up to `largest_units` pass a full bucket, on credit.
    pub fn set_largest(&mut self, largest_units: f64) {
        self.largest = largest_units.max(self.burst);
    }

    /// Changes the quota; the level stays, up to the new burst.
    pub fn set_quota(&mut self, now_ns: i64, units_per_s: f64, burst_units: f64) {
        let level = self.available(now_ns);
        self.at_ns = self.at_ns.max(now_ns);
        self.units_per_s = units_per_s;
        self.burst = burst_units;
        self.largest = burst_units;
        // Infinity carries no debt: coming from it, the bucket is full.
        self.level = level.min(burst_units);
    }

    /// Units it holds.
    #[must_use]
    pub fn available(&self, now_ns: i64) -> f64 {
        let elapsed_ns = now_ns.saturating_sub(self.at_ns).max(0);
        if elapsed_ns == 0 {
            return self.level;
        }
        (self.level + self.units_per_s * (elapsed_ns as f64 / 1e9)).min(self.burst)
    }

    /// Whether it holds `units`, changing nothing.
    #[must_use]
    pub fn check(&self, now_ns: i64, units: u64) -> Quota {
        let (needed, level) = (units as f64, self.available(now_ns));
        let forgiven = SLACK_UNITS + needed * SLACK_RATIO;
        // What is larger than the bucket itself waits until that is full, and leaves a debt.
        let wanted = needed.min(self.burst);
        if needed > self.largest + forgiven {
            Quota::Never
        } else if wanted <= level + forgiven {
            Quota::Enough
        } else {
            Quota::After(to_ns(((wanted - level) / self.units_per_s * 1e9).ceil()).max(1))
        }
    }

    /// True if it holds all it can: nothing is lost by forgetting it.
    #[must_use]
    pub fn is_full(&self, now_ns: i64) -> bool {
        self.available(now_ns) >= self.burst
    }

    /// Takes `units` if it holds them.
    pub fn take(&mut self, now_ns: i64, units: u64) -> Quota {
        let answer = self.check(now_ns, units);
        if answer == Quota::Enough {
            self.set_level(now_ns, self.available(now_ns) - units as f64);
        }
        answer
    }

    /// Gives `units` back, up to the burst.
    pub fn put_back(&mut self, now_ns: i64, units: u64) {
        self.set_level(now_ns, self.available(now_ns) + units as f64);
    }

    /// Replaces a charge of `taken` units by what was really `used`, which may leave a debt.
    pub fn settle(&mut self, now_ns: i64, taken: u64, used: u64) {
        self.set_level(now_ns, self.available(now_ns) + taken as f64 - used as f64);
    }

    fn set_level(&mut self, now_ns: i64, level: f64) {
        self.level = level.clamp(-self.largest, self.burst);
        self.at_ns = self.at_ns.max(now_ns);
    }
}
