//! The allowance that pays for measuring stale graphs again.

/// Ordinary service earns, a probe pays its whole duration and may go into debt.
///
/// With F the ordinary device time, E the probes' and D the last probe's, after every completion
/// `E <= share / (1 - share) * F + D`. All in ns; earnings round down, so the bound is exact.
#[derive(Debug, Clone)]
pub struct Ledger {
    share: f64,
    cap_ns: i64,
    credit_ns: i64,
    ordinary_ns: i64,
    probes_ns: i64,
    last_probe_ns: i64,
}

impl Ledger {
    /// `share` of device time for probes, in [0, 1); `cap_ns` of credit, above 0.
    #[must_use]
    pub fn new(share: f64, cap_ns: i64) -> Self {
        Self { share, cap_ns, credit_ns: 0, ordinary_ns: 0, probes_ns: 0, last_probe_ns: 0 }
    }

    /// Whether a probe may start: the credit is at its cap.
    #[must_use]
    pub fn can_probe(&self) -> bool {
        self.share > 0.0 && self.credit_ns >= self.cap_ns
    }

    /// A valid ordinary completion of `duration_ns`.
    #[allow(clippy::cast_possible_truncation)] // floors a share of a duration in i64
    pub fn earn(&mut self, duration_ns: i64) {
        let earned = (duration_ns as f64 * (self.share / (1.0 - self.share))).floor() as i64;
        self.ordinary_ns += duration_ns;
        self.credit_ns = (self.credit_ns + earned).min(self.cap_ns);
    }

    /// A probe that took `duration_ns`, whether or not it measured anything.
    pub fn pay(&mut self, duration_ns: i64) {
        self.probes_ns += duration_ns;
        self.last_probe_ns = duration_ns;
        self.credit_ns -= duration_ns;
    }

    /// The device has nothing to do: credit is lost, debt stays.
    pub fn idle(&mut self) {
        self.credit_ns = self.credit_ns.min(0);
    }

    /// Credit, negative in debt.
    #[must_use]
    pub fn credit_ns(&self) -> i64 {
        self.credit_ns
    }

    /// (F, E, D) of the invariant.
    #[must_use]
    pub fn totals_ns(&self) -> (i64, i64, i64) {
        (self.ordinary_ns, self.probes_ns, self.last_probe_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::Ledger;

    #[test]
    fn two_percent_of_five_milliseconds_takes_245_of_service() {
        let mut ledger = Ledger::new(0.02, 5_000_000);
        ledger.earn(244_000_000);
        assert!(!ledger.can_probe());
        ledger.earn(1_000_049);
        assert!(ledger.can_probe());
    }

    #[test]
    fn a_probe_may_go_into_debt_and_idling_keeps_it() {
        let mut ledger = Ledger::new(0.5, 5);
        ledger.earn(9);
        ledger.pay(12);
        ledger.idle();
        assert_eq!(ledger.credit_ns(), -7);
        ledger.earn(20);
        ledger.idle();
        assert_eq!(ledger.credit_ns(), 0);
    }

    #[test]
    fn the_bound_holds_after_each_of_a_million_random_completions() {
        let share = 0.02;
        let mut ledger = Ledger::new(share, 5_000_000);
        let mut state = 88_172_645_463_325_252_u64;
        let mut num_probes = 0;
        for _ in 0..1_000_000 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let duration_ns = (state >> 20).cast_signed() % 200_000_000;
            match state % 16 {
                0 => ledger.idle(),
                _ if ledger.can_probe() => {
                    ledger.pay(duration_ns);
                    num_probes += 1;
                }
                _ => ledger.earn(duration_ns),
            }
            let (ordinary, probes, last) = ledger.totals_ns();
            let bound = share / (1.0 - share) * ordinary as f64 + last as f64;
            assert!(probes as f64 <= bound, "{probes} > {bound}");
        }
        assert!(num_probes > 1_000, "{num_probes}");
    }
}
