//! Latency of a replica, pessimistic and forgetting.

/// A latency estimate that jumps to peaks and decays by elapsed time.
///
/// While nothing is observed it relaxes toward a prior, which the caller gives at each reading:
/// an idle replica is neither the fastest of the fleet nor forever the slowest.
/// Source: the peak EWMA of Finagle's load balancer; the prior is ours.
#[derive(Debug, Clone)]
pub struct PeakEwma {
    decay_ns: f64,
    level_ns: f64,
    at_ns: i64,
    observed: bool,
}

impl PeakEwma {
    /// Nothing observed yet. `decay_ns` >= 1: after so long, 1/e of the past is left.
    #[must_use]
    pub fn new(now_ns: i64, decay_ns: i64) -> Self {
        Self { decay_ns: decay_ns as f64, level_ns: 0.0, at_ns: now_ns, observed: false }
    }

    /// Learns from a success. The first one and any peak replace the level.
    pub fn observe(&mut self, now_ns: i64, latency_ns: i64) {
        let latency = latency_ns.max(0) as f64;
        if !self.observed || latency >= self.level_ns {
            self.level_ns = latency;
        } else {
            let kept = self.kept(now_ns);
            self.level_ns = self.level_ns * kept + latency * (1.0 - kept);
        }
        self.observed = true;
        self.at_ns = self.at_ns.max(now_ns);
    }

    /// Learns that a latency is at least so long; raises the level, or changes nothing.
    pub fn raise(&mut self, now_ns: i64, latency_ns: i64) {
        if self.observed && latency_ns as f64 > self.level_ns {
            self.observe(now_ns, latency_ns);
        }
    }

    /// The estimate, ns.
    #[must_use]
    pub fn value_ns(&self, now_ns: i64, prior_ns: f64) -> f64 {
        if !self.observed {
            return prior_ns;
        }
        prior_ns + (self.level_ns - prior_ns) * self.kept(now_ns)
    }

    /// The level at the last observation, ns; None before the first.
    #[must_use]
    pub fn level_ns(&self) -> Option<f64> {
        self.observed.then_some(self.level_ns)
    }

    fn kept(&self, now_ns: i64) -> f64 {
        let elapsed = now_ns.saturating_sub(self.at_ns).max(0) as f64;
        (-elapsed / self.decay_ns).exp()
    }
}
