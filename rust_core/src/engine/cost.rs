//! What one graph costs: device time, and handoff where it leaves the device idle.
use super::window::{RecentShare, Window};

/// Why an execution ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Chosen for its value.
    Ordinary,
    /// Never measured before.
    Bootstrap,
    /// A stale cost measured again, from the allowance.
    Refresh,
    /// Run to learn acceptance, by the engine's own decision.
    AcceptanceProbe,
}

impl Purpose {
    /// Whether it shows how often the graph waits for feedback in normal service.
    #[must_use]
    pub fn is_ordinary(self) -> bool {
        matches!(self, Self::Ordinary | Self::Bootstrap)
    }
}

/// One completed execution of a graph.
#[derive(Debug, Clone, Copy)]
pub struct Execution {
    /// Why it ran.
    pub purpose: Purpose,
    /// Time on the device; None or not above 0 is indeterminate.
    pub device_ns: Option<i64>,
    /// From the instant the device could have started it to its completion.
    pub wall_ns: i64,
    /// Whether it was submitted to an idle device.
    pub drained: bool,
    /// Whether the next submission had to wait for its outcome.
    pub feedback: bool,
    /// When it completed.
    pub completed_at_ns: i64,
}

/// The measured cost of one graph.
#[derive(Debug, Clone, Default)]
pub struct GraphCost {
    device: Window<9>,
    handoff: Window<9>,
    feedback: RecentShare,
    last_attempt_ns: Option<i64>,
    num_invalid: u32,
}

impl GraphCost {
    /// Takes in a completed execution; false if its device time was indeterminate.
    ///
    /// Handoff counts only where the device was idle at submission; the share of executions that
    /// wait for feedback moves by ordinary ones alone.
    pub fn observe(&mut self, execution: &Execution, lifetime_ns: i64) -> bool {
        let now_ns = execution.completed_at_ns;
        self.last_attempt_ns = Some(now_ns);
        if execution.purpose.is_ordinary() {
            self.feedback.push(execution.feedback);
        }
        let Some(device_ns) = execution.device_ns.filter(|&ns| ns > 0) else {
            self.num_invalid += 1;
            return false;
        };
        self.num_invalid = 0;
        self.device.push(device_ns, now_ns, lifetime_ns);
        if execution.drained {
            self.handoff.push((execution.wall_ns - device_ns).max(0), now_ns, lifetime_ns);
        }
        true
    }

    /// Median device time plus the charged handoff; None while indeterminate.
    #[must_use]
    pub fn cost_ns(&self) -> Option<i64> {
        #[allow(clippy::cast_possible_truncation)] // a share of a duration in i64
        let handoff = (self.handoff.median().unwrap_or(0) as f64 * self.feedback.value()) as i64;
        Some(self.device.median()? + handoff)
    }

    /// Whether the newest measurement is older than `lifetime_ns`. It stays usable.
    #[must_use]
    pub fn is_stale(&self, now_ns: i64, lifetime_ns: i64) -> bool {
        self.device.newest_at_ns().is_some_and(|at_ns| now_ns - at_ns > lifetime_ns)
    }

    /// Later of the last valid measurement and the last attempt; None before the first.
    #[must_use]
    pub fn last_attempt_ns(&self) -> Option<i64> {
        self.last_attempt_ns
    }

    /// Notes that it was chosen, whatever comes of it.
    pub fn attempt(&mut self, now_ns: i64) {
        self.last_attempt_ns = Some(now_ns);
    }

    /// Indeterminate executions since the last valid one.
    #[must_use]
    pub fn num_invalid(&self) -> u32 {
        self.num_invalid
    }
}

#[cfg(test)]
mod tests {
    use super::{Execution, GraphCost, Purpose};

    const LIFETIME_NS: i64 = 30_000_000_000;

    fn run(device_us: i64, wall_us: i64, drained: bool, feedback: bool) -> Execution {
        Execution {
            purpose: Purpose::Ordinary,
            device_ns: Some(device_us * 1_000),
            wall_ns: wall_us * 1_000,
            drained,
            feedback,
            completed_at_ns: 0,
        }
    }

    #[test]
    fn a_late_host_does_not_make_a_pipelined_graph_dearer() {
        let mut cost = GraphCost::default();
        cost.observe(&run(29_000, 29_000, false, false), LIFETIME_NS);
        cost.observe(&run(28_500, 61_000, true, false), LIFETIME_NS);
        assert_eq!(cost.cost_ns(), Some(28_500_000));
    }

    #[test]
    fn handoff_is_charged_by_the_share_that_waited_for_feedback() {
        let mut cost = GraphCost::default();
        cost.observe(&run(10_000, 14_000, true, true), LIFETIME_NS);
        assert_eq!(cost.cost_ns(), Some(14_000_000));
        (0..3).for_each(|_| {
            cost.observe(&run(10_000, 14_000, true, false), LIFETIME_NS);
        });
        assert_eq!(cost.cost_ns(), Some(11_000_000));
    }

    #[test]
    fn probes_measure_and_leave_the_share_alone() {
        let mut cost = GraphCost::default();
        cost.observe(&run(10_000, 12_000, true, true), LIFETIME_NS);
        for purpose in [Purpose::Refresh, Purpose::AcceptanceProbe] {
            for _ in 0..4 {
                let probe = Execution { purpose, ..run(20_000, 24_000, true, false) };
                cost.observe(&probe, LIFETIME_NS);
            }
        }
        assert_eq!(cost.cost_ns(), Some(24_000_000));
    }

    #[test]
    fn a_zero_or_missing_time_is_indeterminate() {
        let mut cost = GraphCost::default();
        for device_ns in [None, Some(0), Some(-1)] {
            assert!(!cost.observe(&Execution { device_ns, ..run(1, 5, true, true) }, LIFETIME_NS));
            assert_eq!(cost.cost_ns(), None);
        }
        assert_eq!(cost.num_invalid(), 3);
    }

    #[test]
    fn a_stale_cost_stays_usable() {
        let mut cost = GraphCost::default();
        cost.observe(&run(10_000, 10_000, false, false), LIFETIME_NS);
        assert!(!cost.is_stale(LIFETIME_NS, LIFETIME_NS));
        assert!(cost.is_stale(LIFETIME_NS + 1, LIFETIME_NS));
        assert_eq!(cost.cost_ns(), Some(10_000_000));
    }
}
