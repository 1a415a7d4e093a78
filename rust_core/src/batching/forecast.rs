//! How much work will come that overtakes a request.

const BINS: usize = 512;
const BIN: f64 = 0.05;
/// Bins whose sums are kept, so that a request is judged without a look at each.
const BLOCK: usize = 16;
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

impl Coming {
    /// Both.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self { work_ns: self.work_ns + other.work_ns, variance: self.variance + other.variance }
    }
}

/// Work in some bins, with each request's alone and squared, and the same times the bin's number.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    work: f64,
    work_at: f64,
    square: f64,
    square_at: f64,
}

impl Sums {
    fn of(at: usize, bin: &[f64; 2]) -> Self {
        let at = at as f64;
        Self { work: bin[0], work_at: at * bin[0], square: bin[1], square_at: at * bin[1] }
    }

    fn add(&mut self, other: &Self) {
        self.work += other.work;
        self.work_at += other.work_at;
        self.square += other.square;
        self.square_at += other.square_at;
    }
}

/// Device time of work that was executed, by its key at arrival, as rates.
///
/// Of what arrives, much is never executed; counted as work to come it would make the future look
/// fuller than any device can be, the more so the further one looks.
#[derive(Clone, Debug)]
pub struct ArrivalForecast {
    /// Work, and the sum of its squares for the variance.
    bins: Vec<[f64; 2]>,
    blocks: [Sums; BINS / BLOCK],
    origin: Option<f64>,
    /// What one nanosecond of work adds now; grows instead of old bins shrinking.
    unit: f64,
    at_ns: i64,
    /// Time remembered, for the rates while the memory is not full.
    seen_ns: f64,
}

impl Default for ArrivalForecast {
    fn default() -> Self {
        Self {
            bins: vec![[0.0; 2]; BINS],
            blocks: [Sums::default(); BINS / BLOCK],
            origin: None,
            unit: 1.0,
            at_ns: 0,
            seen_ns: 0.0,
        }
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
            self.bins.iter_mut().flatten().for_each(|sum| *sum /= unit);
            self.sum_blocks();
            self.unit = 1.0;
        }
    }

    /// Adds executed work: its key at arrival relative to an average one, and its device time.
    pub fn record(&mut self, relative_key: f64, work_ns: f64) {
        let at = self.bin(relative_key);
        let more = [self.unit * work_ns, self.unit * work_ns * work_ns];
        self.bins[at][0] += more[0];
        self.bins[at][1] += more[1];
        self.blocks[at / BLOCK].add(&Sums::of(at, &more));
    }

    /// Device time expected within `window_ns` from arrivals with a larger key. O(sqrt(bins)).
    ///
    /// One that comes `t` later has aged `t / tau` less, so that a bin overtakes only for a while.
    #[must_use]
    pub fn overtaking(&self, relative_key: f64, window_ns: f64, tau_ns: f64) -> Coming {
        let Some(origin) = self.origin else { return Coming::default() };
        let place = (relative_key - origin) / BIN;
        let step_ns = tau_ns * BIN;
        // Bins whose middle is above the key, and of them those that lead it for the whole window.
        let from = first_at(place);
        let whole = first_at(place + window_ns / step_ns).max(from);
        let (for_a_while, throughout) = (self.sums(from, whole), self.sums(whole, BINS));
        let lead = 0.5 - place;
        let work = step_ns * (for_a_while.work_at + lead * for_a_while.work).max(0.0)
            + window_ns * throughout.work;
        let square = step_ns * (for_a_while.square_at + lead * for_a_while.square).max(0.0)
            + window_ns * throughout.square;
        self.coming(work, square, window_ns)
    }

    /// Device time expected within `window_ns` from all arrivals. O(sqrt(bins)).
    #[must_use]
    pub fn all(&self, window_ns: f64) -> Coming {
        let sums = self.sums(0, BINS);
        self.coming(window_ns * sums.work, window_ns * sums.square, window_ns)
    }

    /// Forgets all: the device is not what it was.
    pub fn clear(&mut self) {
        self.bins.fill([0.0; 2]);
        self.blocks.fill(Sums::default());
        self.seen_ns = 0.0;
    }

    /// From sums in which each bin counts for as long as it overtakes.
    fn coming(&self, work: f64, square: f64, window_ns: f64) -> Coming {
        let seen = self.unit * self.seen_ns.max(window_ns).max(1.0);
        Coming { work_ns: work / seen, variance: square / seen }
    }

    /// Sums over the bins `from..to`.
    fn sums(&self, from: usize, to: usize) -> Sums {
        let mut sums = Sums::default();
        let mut at = from;
        while at < to {
            if at.is_multiple_of(BLOCK) && at + BLOCK <= to {
                sums.add(&self.blocks[at / BLOCK]);
                at += BLOCK;
            } else {
                sums.add(&Sums::of(at, &self.bins[at]));
                at += 1;
            }
        }
        sums
    }

    fn sum_blocks(&mut self) {
        for (block, bins) in self.bins.chunks_exact(BLOCK).enumerate() {
            let mut sums = Sums::default();
            for (at, bin) in bins.iter().enumerate() {
                sums.add(&Sums::of(block * BLOCK + at, bin));
            }
            self.blocks[block] = sums;
        }
    }

    fn bin(&mut self, relative_key: f64) -> usize {
        let origin = *self.origin.get_or_insert(relative_key - BIN * BINS as f64 / 2.0);
        let place = (relative_key - origin) / BIN;
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // 0 to 511
        let at = place.clamp(0.0, BINS as f64 - 1.0) as usize;
        at
    }
}

/// First bin whose middle is at or above `place`; all are if it is NaN.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // 0 to 512
fn first_at(place: f64) -> usize {
    (place - 0.5).ceil().clamp(0.0, BINS as f64) as usize
}

#[cfg(test)]
mod tests {
    use super::{ArrivalForecast, BIN, BINS};
    use proptest::prelude::*;

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
    fn all_that_comes_comes_for_the_whole_window() {
        let (all, forecast) = (steady(0.0).all(1e9), steady(0.0));
        // 100 requests of 4 ms; of those below the key none would overtake.
        assert!((all.work_ns - 4e8).abs() < 2e6, "{all:?}");
        assert_eq!(all, forecast.overtaking(-100.0, 1e9, TAU_NS));
        let both = all.and(&all);
        assert!((both.work_ns - 2.0 * all.work_ns).abs() < 1.0);
        assert!((both.variance - 2.0 * all.variance).abs() < 1.0);
    }

    #[test]
    fn forgets_all_when_told() {
        let mut forecast = steady(0.0);
        forecast.clear();
        assert!(forecast.overtaking(-2.0, 1e8, TAU_NS).work_ns.abs() < 1.0);
    }

    proptest! {
        /// Beside the sum over each piece of work, at the middle of its bin.
        #[test]
        fn is_the_sum_of_what_overtakes(
            executed in proptest::collection::vec((-14.0..14.0_f64, 1e5..1e8_f64), 1..60),
            key in -15.0..15.0_f64,
            window_ns in 0.0..2e10_f64,
        ) {
            let mut forecast = ArrivalForecast::default();
            for (key, work_ns) in &executed {
                forecast.advance(1, TAU_NS);
                forecast.record(*key, *work_ns);
            }
            // Ten times the memory later, in which all has faded alike.
            forecast.advance(100_000_000_001, TAU_NS);
            let origin = executed[0].0 - BIN * BINS as f64 / 2.0;
            let faded = (-10.0_f64).exp();
            let seen_ns = 10.0 * TAU_NS * (1.0 - faded);
            let (mut work_ns, mut variance) = (0.0, 0.0);
            for (other, work) in &executed {
                let bin = ((other - origin) / BIN).clamp(0.0, BINS as f64 - 1.0).floor();
                let middle = origin + (bin + 0.5) * BIN;
                let overtaking_ns = ((middle - key) * TAU_NS).clamp(0.0, window_ns);
                let rate = faded * overtaking_ns / window_ns.max(seen_ns);
                work_ns += work * rate;
                variance += work * work * rate;
            }
            let coming = forecast.overtaking(key, window_ns, TAU_NS);
            let near = |a: f64, b: f64| (a - b).abs() <= 1e-6 * b + 1e-6;
            prop_assert!(near(coming.work_ns, work_ns), "{coming:?} {work_ns}");
            prop_assert!(near(coming.variance, variance), "{coming:?} {variance}");
        }
    }
}
