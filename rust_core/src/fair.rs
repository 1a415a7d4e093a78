//! Weighted fair shares: who has had more of the recent device time than the others.

/// Least part of its weight that a tenant's request keeps, however far over its share it is.
const LEAST_PART: f64 = 1.0 / 32.0;
/// Two tenants within one step of each other count as equally far over their shares.
const STEP: f64 = 1.25;

/// An amount that fades: after one memory, 1/e of it is left.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Fading {
    amount: f64,
    at_ns: i64,
}

impl Fading {
    /// What is left at `now_ns`. Never negative.
    #[must_use]
    pub fn at(&self, now_ns: i64, memory_ns: f64) -> f64 {
        faded(self.amount, self.at_ns, now_ns, memory_ns)
    }

    /// Adds an amount as of now; negative takes it back.
    pub fn add(&mut self, now_ns: i64, amount: f64, memory_ns: f64) {
        self.amount = (self.at(now_ns, memory_ns) + amount).max(0.0);
        self.at_ns = self.at_ns.max(now_ns);
    }
}

/// What is left at `now_ns` of an amount that was due at `since_ns`.
#[must_use]
pub fn faded(amount: f64, since_ns: i64, now_ns: i64, memory_ns: f64) -> f64 {
    let passed_ns = now_ns.saturating_sub(since_ns);
    if passed_ns <= 0 {
        // The usual case within a batch, and an exponential less.
        return amount;
    }
    amount * (-(passed_ns as f64) / memory_ns).exp()
}

/// Part of its weight that a request keeps, in [1/32, 1], when its tenant has had `over` times
/// its fair share.
///
/// The square makes the share hold: a tenant that offers ten times the others' work then gets
/// little more than they do.
#[must_use]
pub fn part_kept(over: f64) -> f64 {
    if over <= 1.0 {
        return 1.0;
    }
    (1.0 / (over * over)).max(LEAST_PART)
}

/// Whole steps by which a tenant is over its fair share; 0 for one within it.
#[must_use]
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // clamped
pub fn steps_over(over: f64) -> u32 {
    if over <= 1.0 {
        return 0;
    }
    (over.ln() / STEP.ln()).min(1000.0) as u32
}
