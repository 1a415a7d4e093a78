//! When a second copy of a batch is due, and whether it can be paid.
use crate::quantile::RecentQuantile;

/// A batch is late beyond this percentile of how late batches were.
const LATE_PERCENT: usize = 95;
/// Fewer batches say nothing of what is late.
const MIN_BATCHES: usize = 20;
/// What is late by less is not looked at: timers of an event loop are a millisecond coarse.
const LEAST_LATE_NS: i64 = 2_000_000;
/// Device time that can be saved up for copies, ns.
const MOST_CREDIT_NS: f64 = 1e9;
/// Lateness is kept in thousandths of the prediction.
const SCALE: f64 = 1000.0;

/// How late the batches of a pool were, and the device time that is left for second copies.
///
/// Every batch earns a share of its device time; a copy costs what it takes. Without credit there
/// is no copy, so that the extra device time stays below that share.
#[derive(Debug, Clone, Default)]
pub struct HedgeBook {
    lateness: RecentQuantile,
    credit_ns: f64,
    sent: u64,
    won: u64,
    spent_ns: i64,
}

impl HedgeBook {
    /// A batch took `took_ns` from when it should have begun; `predicted_ns` was expected.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // clamped
    pub fn observe(&mut self, took_ns: i64, predicted_ns: i64) {
        let ratio = took_ns.max(0) as f64 / predicted_ns.max(1) as f64;
        self.lateness.push((SCALE * ratio).min(1e9) as u32);
    }

    /// When a batch that begins at `ready_ns` is late; None while nothing is known.
    #[must_use]
    pub fn due_ns(&self, ready_ns: i64, predicted_ns: i64) -> Option<i64> {
        if self.lateness.len() < MIN_BATCHES {
            return None;
        }
        let ratio = f64::from(self.lateness.percentile(LATE_PERCENT)?) / SCALE;
        let usual_ns = crate::check::to_ns(ratio * predicted_ns as f64);
        Some(ready_ns.saturating_add(usual_ns.max(predicted_ns.saturating_add(LEAST_LATE_NS))))
    }

    /// A batch used the device for `device_ns`; `share` of it may be spent on copies.
    pub fn earn(&mut self, device_ns: i64, share: f64) {
        self.credit_ns = (self.credit_ns + share * device_ns.max(0) as f64).min(MOST_CREDIT_NS);
    }

    /// True if a copy of so much device time can be paid.
    #[must_use]
    pub fn can_pay(&self, predicted_ns: i64) -> bool {
        self.credit_ns >= predicted_ns as f64
    }

    /// A copy was sent.
    pub fn pay(&mut self, predicted_ns: i64) {
        self.credit_ns -= predicted_ns as f64;
        self.sent += 1;
    }

    /// A copy ended: pays for what it really took.
    pub fn settle(&mut self, predicted_ns: i64, took_ns: i64) {
        let left_ns = self.credit_ns + (predicted_ns - took_ns.max(0)) as f64;
        self.credit_ns = left_ns.min(MOST_CREDIT_NS);
        self.spent_ns = self.spent_ns.saturating_add(took_ns.max(0));
    }

    /// Device time that copies took.
    #[must_use]
    pub fn spent_ns(&self) -> i64 {
        self.spent_ns
    }

    /// A copy answered first.
    pub fn win(&mut self) {
        self.won += 1;
    }

    /// Copies sent, and those that answered first.
    #[must_use]
    pub fn counts(&self) -> (u64, u64) {
        (self.sent, self.won)
    }
}
