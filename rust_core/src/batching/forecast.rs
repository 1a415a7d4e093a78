//! How much work will come that overtakes a request.

const BINS: usize = 512;
const BIN: f64 = 0.05;
/// Memory in mean relative deadlines: several bursts. A shorter one takes each burst for the new
/// state of the world, and refuses what would be served after it.
const MEMORY_TAUS: f64 = 10.0;

/// Work to come, of requests that arrive independently.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Coming {
    /// Device time expected.
    pub work_ns: f64,
    /// Its variance, ns squared.
    pub variance: f64,
}

/// Device time of work that was executed, by its key at arrival, as rates.
///
/// Of what arrives, much is never executed; counted as work to come it would make the future look
/// fuller than any device can be, the more so the further one looks.
#[derive(Clone, Debug)]
pub struct ArrivalForecast {
    bins: Vec<f64>,
    /// The same with squares, for the variance.
    squares: Vec<f64>,
    origin: Option<f64>,
    /// What one nanosecond of work adds now; grows instead of old bins shrinking.
    unit: f64,
    at_ns: i64,
    /// Time remembered, for the rates while the memory is not full.
    seen_ns: f64,
}

impl Default for ArrivalForecast {
    fn default() -> Self {
        let bins = vec![0.0; BINS];
        Self { squares: bins.clone(), bins, origin: None, unit: 1.0, at_ns: 0, seen_ns: 0.0 }
    }
}

impl ArrivalForecast {
    /// Lets time pass.
    pub fn advance(&mut self, now_ns: i64, tau_ns: f64) {
        let passed_ns = (now_ns - self.at_ns).max(0) as f64;
        if self.origin.is_some() {
            let fade = (-passed_ns / (MEMORY_TAUS * tau_ns)).exp();
            self.seen_ns = self.seen_ns * fade + MEMORY_TAUS * tau_ns * (1.0 - fade);
            self.unit /= fade.max(1e-100);
        }
        self.at_ns = now_ns;
        if self.unit > 1e100 {
            let unit = self.unit;
            self.bins.iter_mut().chain(&mut self.squares).for_each(|bin| *bin /= unit);
            self.unit = 1.0;
        }
    }

    /// Adds executed work: its key at arrival relative to an average one, and its device time.
    pub fn record(&mut self, relative_key: f64, work_ns: f64) {
        let at = self.bin(relative_key);
        self.bins[at] += self.unit * work_ns;
        self.squares[at] += self.unit * work_ns * work_ns;
    }

    /// Device time expected within `window_ns` from arrivals with a larger key.
    ///
    /// One that comes `t` later has aged `t / tau` less, so that a bin overtakes only for a while.
    #[must_use]
    pub fn overtaking(&self, relative_key: f64, window_ns: f64, tau_ns: f64) -> Coming {
        let Some(origin) = self.origin else { return Coming::default() };
        let place = (relative_key - origin) / BIN;
        let from = self.bin_of(place);
        let step_ns = tau_ns * BIN;
        let (mut work, mut square) = (0.0, 0.0);
        for (at, bin) in self.bins.iter().enumerate().skip(from) {
            let above_ns = (at as f64 + 0.5 - place).max(0.0) * step_ns;
            let overtaking_ns = above_ns.min(window_ns);
            work += bin * overtaking_ns;
            square += self.squares[at] * overtaking_ns;
        }
        let whole = self.unit * self.seen_ns.max(window_ns).max(1.0);
        Coming { work_ns: work / whole, variance: square / whole }
    }

    /// Forgets all: the device is not what it was.
    pub fn clear(&mut self) {
        self.bins.fill(0.0);
        self.squares.fill(0.0);
        self.seen_ns = 0.0;
    }

    fn bin(&mut self, relative_key: f64) -> usize {
        let origin = *self.origin.get_or_insert(relative_key - BIN * BINS as f64 / 2.0);
        self.bin_of((relative_key - origin) / BIN)
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::unused_self)]
    fn bin_of(&self, place: f64) -> usize {
        place.clamp(0.0, BINS as f64 - 1.0) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::{ArrivalForecast, BIN};

    const TAU_NS: f64 = 1e9;

    /// One request of 4 ms every 10 ms for 100 s, all with the same key.
    fn steady(key: f64) -> ArrivalForecast {
        let mut forecast = ArrivalForecast::default();
        for at in 1..=10_000_i64 {
            forecast.advance(at * 10_000_000, TAU_NS);
            forecast.record(key, 4e6);
        }
        forecast
    }

    #[test]
    fn expects_the_rate_at_which_work_was_executed() {
        let coming = steady(0.0).overtaking(-2.0, 1e8, TAU_NS);
        // 10 requests of 4 ms in 100 ms; a sum of Poisson many: 10 times 4 ms squared.
        assert!((coming.work_ns - 4e7).abs() < 2e5, "{coming:?}");
        assert!((coming.variance - 1.6e14).abs() < 1e12, "{coming:?}");
    }

    #[test]
    fn later_arrivals_overtake_only_while_their_lead_lasts() {
        // A lead of a tenth of tau lasts 100 ms, whatever the window; to the width of a bin.
        let coming = steady(0.0).overtaking(-0.1, 1e9, TAU_NS);
        assert!((coming.work_ns - 4e7).abs() < BIN * 4e8, "{coming:?}");
        assert!(steady(0.0).overtaking(0.1, 1e9, TAU_NS).work_ns.abs() < 1.0);
    }

    #[test]
    fn forgets_all_when_told() {
        let mut forecast = steady(0.0);
        forecast.clear();
        assert!(forecast.overtaking(-2.0, 1e8, TAU_NS).work_ns.abs() < 1.0);
    }
}
