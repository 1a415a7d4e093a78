//! The key by which requests compete: value per device time, and how near the deadline is.

use super::cost::BatchCost;
use super::index::Order;

/// Drift of a coefficient beyond which queued requests get their keys anew.
const DRIFT_RATIO: f64 = 1.1;
const MAX_SIZE_DRIFT: f64 = 2.0;

/// Shape of the key: `ln(value * units^alpha / (fixed + share * units)) - slack / tau - age`.
///
/// Only the ratio of `fixed` to `share` matters, so they are scaled to add up to 1 at
/// `typical_units`; a device that slows as a whole then moves no key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KeyShape {
    alpha: f64,
    fixed: f64,
    share: f64,
    typical_units: f64,
    tau_ns: f64,
}

impl KeyShape {
    /// The shape for a cost and a mix.
    ///
    /// `max_requests` bounds a batch: `intercept / max_requests` is the least share of the fixed
    /// cost that a member can carry. `tau_ns` is the mean relative deadline.
    #[must_use]
    pub fn new(
        alpha: f64,
        cost: &BatchCost,
        max_requests: f64,
        typical_units: f64,
        tau_ns: f64,
    ) -> Self {
        let fixed = cost.intercept_ns / max_requests;
        let whole = (fixed + cost.slope_ns * typical_units).max(f64::MIN_POSITIVE);
        Self {
            alpha,
            fixed: fixed / whole,
            share: cost.slope_ns / whole,
            typical_units,
            tau_ns: tau_ns.max(1.0),
        }
    }

    /// Logarithm of value per device time.
    #[must_use]
    pub fn density(&self, value: f64, units: u64) -> f64 {
        let units = units as f64;
        let cost = (self.fixed + self.share * units).max(f64::MIN_POSITIVE);
        (value / cost).ln() + self.alpha * units.ln()
    }

    /// Mean relative deadline that it was made with.
    #[must_use]
    pub fn tau_ns(&self) -> f64 {
        self.tau_ns
    }

    /// True if `other` would order requests noticeably otherwise.
    #[must_use]
    pub fn differs(&self, other: &Self) -> bool {
        let within = |ratio: f64, drift: f64| (1.0 / drift..=drift).contains(&ratio);
        let fixed = other.fixed / (other.fixed + other.share * self.typical_units);
        (self.fixed - fixed).abs() > DRIFT_RATIO - 1.0
            || !within(other.tau_ns / self.tau_ns, DRIFT_RATIO)
            || !within(other.typical_units / self.typical_units, MAX_SIZE_DRIFT)
    }
}

/// Ageing of queued requests: time counted in units of tau, whatever tau was meanwhile.
///
/// A key with `deadline / tau` would jump for all requests whenever tau moves. Measured on this
/// clock, a queued request gains `dt / tau` while `dt` passes, and keys given out at different
/// times stay comparable.
#[derive(Clone, Copy, Debug, Default)]
pub struct AgeClock {
    age: f64,
    at_ns: i64,
}

impl AgeClock {
    /// Lets time pass; going back does nothing.
    pub fn advance(&mut self, now_ns: i64, tau_ns: f64) {
        if now_ns > self.at_ns {
            self.age += (now_ns - self.at_ns) as f64 / tau_ns;
            self.at_ns = now_ns;
        }
    }

    /// Starts at `now_ns`, so that the first interval is not counted from zero.
    #[must_use]
    pub fn starting_at(now_ns: i64) -> Self {
        Self { age: 0.0, at_ns: now_ns }
    }

    /// Static key of a request whose deadline is `slack_ns` away.
    #[must_use]
    pub fn key(&self, density: f64, slack_ns: f64, tau_ns: f64) -> f64 {
        density - slack_ns / tau_ns - self.age
    }

    /// A key as distance from "average request due now": comparable between instants.
    #[must_use]
    pub fn relative(&self, key: f64) -> f64 {
        key + self.age
    }

    /// Order of a key.
    #[must_use]
    pub fn order(key: f64) -> Order {
        Order::of(key)
    }
}
