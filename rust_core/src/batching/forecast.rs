//! How much work will come that overtakes a request.

const BINS: usize = 512;
const BIN: f64 = 0.05;
/// Memory in mean relative deadlines: several bursts. A shorter one takes each burst for the new
/// state of the world, and refuses what would be served after it.
const MEMORY_TAUS: f64 = 10.0;

/// Device time of work that was executed, by its key at arrival, as rates.
///
/// Of what arrives, much is never executed; counted as work to come it would make the future look
/// fuller than any device can be, the more so the further one looks.
#[derive(Clone, Debug)]
pub struct ArrivalForecast {
    bins: Vec<f64>,
    origin: Option<f64>,
    /// What one nanosecond of work adds now; grows instead of old bins shrinking.
    unit: f64,
    at_ns: i64,
    /// Time remembered, for the rates while the memory is not full.
    seen_ns: f64,
}

impl Default for ArrivalForecast {
    fn default() -> Self {
        Self { bins: vec![0.0; BINS], origin: None, unit: 1.0, at_ns: 0, seen_ns: 0.0 }
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
            self.bins.iter_mut().for_each(|bin| *bin /= unit);
            self.unit = 1.0;
        }
    }

    /// Adds executed work: its key at arrival relative to an average one, and its device time.
    pub fn record(&mut self, relative_key: f64, work_ns: f64) {
        let at = self.bin(relative_key);
        self.bins[at] += self.unit * work_ns;
    }

    /// Device time expected within `window_ns` from arrivals with a larger key.
    ///
    /// One that comes `t` later has aged `t / tau` less, so that a bin overtakes only for a while.
    #[must_use]
    pub fn overtaking_ns(&self, relative_key: f64, window_ns: f64, tau_ns: f64) -> f64 {
        let Some(origin) = self.origin else { return 0.0 };
        let place = (relative_key - origin) / BIN;
        let from = self.bin_of(place);
        let step_ns = tau_ns * BIN;
        let work: f64 = self.bins[from..]
            .iter()
            .enumerate()
            .map(|(at, work)| {
                let above_ns = ((from + at) as f64 + 0.5 - place).max(0.0) * step_ns;
                work * above_ns.min(window_ns)
            })
            .sum();
        work / (self.unit * self.seen_ns.max(window_ns).max(1.0))
    }

    /// Forgets all: the device is not what it was.
    pub fn clear(&mut self) {
        self.bins.fill(0.0);
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
