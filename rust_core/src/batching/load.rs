//! How much work is offered, as a share of what the fleet can do.

/// Arrivals that are remembered: by the first to notice a change, by the second not to take a
/// pause between bursts for one.
const MEMORIES: [f64; 2] = [4000.0, 20_000.0];

/// Offered work and the time it came in.
#[derive(Clone, Debug, Default)]
pub struct OfferedLoad {
    windows: [Window; 2],
}

#[derive(Clone, Debug, Default)]
struct Window {
    work_ns: f64,
    time_ns: f64,
    arrivals: f64,
    last_at_ns: Option<i64>,
}

impl OfferedLoad {
    /// Counts an arrival that takes `least_ns` of device time in a full batch.
    pub fn arrive(&mut self, now_ns: i64, least_ns: f64) {
        for (window, memory) in self.windows.iter_mut().zip(MEMORIES) {
            window.arrive(now_ns, least_ns, memory);
        }
    }

    /// Offered work of late as a share of what replicas of this total speed can do.
    #[must_use]
    pub fn share(&self, speed: f64) -> f64 {
        self.windows[0].share(speed)
    }

    /// The least that the share can be taken to be, of late or for longer, from as few arrivals as
    /// there were: the doubt about the mean of n arrivals is `errors / sqrt(n)`.
    #[must_use]
    pub fn sure_share(&self, speed: f64, errors: f64) -> f64 {
        let [recent, lasting] = &self.windows;
        recent.sure_share(speed, errors).max(lasting.sure_share(speed, errors))
    }
}

impl Window {
    fn arrive(&mut self, now_ns: i64, least_ns: f64, memory: f64) {
        let keep = 1.0 - 1.0 / memory;
        if let Some(last_ns) = self.last_at_ns {
            self.work_ns = self.work_ns * keep + least_ns;
            self.time_ns = self.time_ns * keep + (now_ns - last_ns) as f64;
            self.arrivals = self.arrivals * keep + 1.0;
        }
        self.last_at_ns = Some(now_ns);
    }

    fn share(&self, speed: f64) -> f64 {
        if self.time_ns > 0.0 {
            self.work_ns / (self.time_ns * speed)
        } else {
            0.0
        }
    }

    fn sure_share(&self, speed: f64, errors: f64) -> f64 {
        self.share(speed) * (1.0 - errors / self.arrivals.max(errors * errors).sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::OfferedLoad;

    #[test]
    fn is_the_work_over_the_time_it_came_in() {
        let mut load = OfferedLoad::default();
        for at in 0..10_000 {
            load.arrive(at * 1_000, 1_500.0);
        }
        assert!((load.share(1.0) - 1.5).abs() < 1e-9);
        assert!((load.share(3.0) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn is_not_sure_before_there_were_many() {
        let mut load = OfferedLoad::default();
        assert!(load.sure_share(1.0, 2.5).abs() < 1e-9);
        for at in 0..101 {
            load.arrive(at * 1_000, 1_500.0);
        }
        // 100 arrivals after the first, 98.8 as they fade: 1.5 less a quarter.
        assert!((load.sure_share(1.0, 2.5) - 1.123).abs() < 0.01);
    }
}
