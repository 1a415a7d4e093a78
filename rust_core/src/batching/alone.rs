//! Whether an arrival will start in time where a usual request has a batch, or half of one, to itself.
//!
//! Batches are then as irregular as requests: there are no boundaries to count, and whoever has
//! nobody ahead comes next.

use super::forecast::Coming;

/// A normal score is about the logarithm of the odds over this.
const LOGISTIC: f64 = 1.7;
/// Mean square over square of the mean of the sizes of overtaking work: that of exponential ones.
const SCATTER: f64 = 2.0;

/// When an arrival can start.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// Time until it does if nothing overtakes it, nanoseconds.
    pub first_ns: f64,
    /// Time until its last chance, nanoseconds.
    pub last_ns: f64,
    /// Sum of the replicas' speeds.
    pub speed: f64,
    /// Doubt about when batches end, nanoseconds, > 0.
    pub grain_ns: f64,
}

impl Start {
    /// By how much what comes is too much for a start in time, in standard deviations; `overtaking`
    /// is asked for what will overtake within a time. None if it is too late already.
    #[must_use]
    pub fn excess(&self, overtaking: impl Fn(f64) -> Coming) -> Option<f64> {
        if self.first_ns > self.last_ns {
            return None;
        }
        let until_last = overtaking(self.last_ns);
        let done_ns = self.first_ns + until_last.work_ns / self.speed;
        let at_last = (done_ns - self.last_ns) / self.spread_ns(&until_last);
        Some(at_last.min(score_of_any(&overtaking(self.first_ns))))
    }

    /// Standard deviation of the time for what will overtake.
    #[must_use]
    pub fn spread_ns(&self, coming: &Coming) -> f64 {
        (coming.variance / (self.speed * self.speed) + self.grain_ns * self.grain_ns).sqrt()
    }
}

/// The chance that anything comes at all, as a normal score.
fn score_of_any(coming: &Coming) -> f64 {
    if coming.variance <= 0.0 {
        return f64::NEG_INFINITY;
    }
    let count = SCATTER * coming.work_ns * coming.work_ns / coming.variance;
    count.exp_m1().ln() / LOGISTIC
}

#[cfg(test)]
mod tests {
    use super::{Coming, Start};

    fn start(first_ns: f64, last_ns: f64) -> Start {
        Start { first_ns, last_ns, speed: 1.0, grain_ns: 1.0 }
    }

    /// Work at a rate of one half, in requests that all take 50.
    fn half(window_ns: f64) -> Coming {
        Coming { work_ns: 0.5 * window_ns, variance: 25.0 * window_ns }
    }

    #[test]
    fn is_too_late_if_what_is_ahead_takes_longer_than_there_is() {
        assert_eq!(start(101.0, 100.0).excess(half), None);
        assert!(start(100.0, 100.0).excess(half).is_some());
    }

    #[test]
    fn is_what_there_is_to_do_less_the_time_in_standard_deviations() {
        // 300 + 500 of 1000; variance 25,000 + 1.
        let excess = start(300.0, 1000.0).excess(half).unwrap_or(f64::NAN);
        assert!((excess + 200.0 / 25_001f64.sqrt()).abs() < 1e-9, "{excess}");
    }

    #[test]
    fn whoever_is_next_is_sure_of_it_if_nothing_comes() {
        assert_eq!(start(0.0, 1.0).excess(half), Some(f64::NEG_INFINITY));
        let nothing = |_| Coming::default();
        assert_eq!(start(99.0, 100.0).excess(nothing), Some(f64::NEG_INFINITY));
        // 2 * 50^2 / 2500 = 2 expected: ln(e^2 - 1) / 1.7 = 1.09 is less hopeful than 50 in 2,501.
        let excess = start(100.0, 100.0).excess(half).unwrap_or(f64::NAN);
        assert!((excess - 50.0 / 2501f64.sqrt()).abs() < 1e-9, "{excess}");
        // 2 * 5^2 / 250 = 0.2 expected: ln(e^0.2 - 1) / 1.7.
        let excess = start(10.0, 10.0).excess(half).unwrap_or(f64::NAN);
        assert!((excess + 0.887).abs() < 1e-3, "{excess}");
    }

    #[test]
    fn several_replicas_do_it_sooner() {
        let three = Start { speed: 3.0, ..start(300.0, 1000.0) };
        let excess = three.excess(half).unwrap_or(f64::NAN);
        let spread = (25_000.0 / 9.0 + 1f64).sqrt();
        assert!((excess - (300.0 + 500.0 / 3.0 - 1000.0) / spread).abs() < 1e-9, "{excess}");
    }
}
