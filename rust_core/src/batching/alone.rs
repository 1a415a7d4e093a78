//! Whether an arrival will start in time where a usual request has a batch, or half of one, to itself.
//!
//! Batches are then as irregular as requests: there are no boundaries to count, and whoever has
//! nobody ahead comes next.

use super::forecast::Coming;

/// Mean square over square of the mean of the sizes of overtaking work: that of exponential ones.
const SCATTER: f64 = 2.0;
/// Where it is larger, the other factor is below the least number there is.
const MAX_EXPONENT: f64 = 700.0;

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
    /// The chance of a start in time; `overtaking` is asked for what will overtake within a time.
    ///
    /// It starts when the work before it has run down for the first time: by the last chance, as
    /// Brownian motion with the same mean and variance would (the inverse Gaussian distribution:
    /// Folks and Chhikara, J. R. Stat. Soc. B 40(3), 1978). Work that comes in few large pieces is
    /// no such motion; that none comes before its turn is a chance of its own.
    #[must_use]
    pub fn chance(&self, overtaking: impl Fn(f64) -> Coming) -> f64 {
        if self.first_ns > self.last_ns {
            return 0.0;
        }
        let coming = overtaking(self.last_ns);
        let spread_ns = self.spread_ns(&coming);
        let spare = (self.last_ns - coming.work_ns / self.speed) / spread_ns;
        let ahead = self.first_ns / spread_ns;
        run_down(ahead, spare).max(chance_of_none(&overtaking(self.first_ns)))
    }

    /// Standard deviation of the time for what will overtake.
    #[must_use]
    pub fn spread_ns(&self, coming: &Coming) -> f64 {
        (coming.variance / (self.speed * self.speed) + self.grain_ns * self.grain_ns).sqrt()
    }
}

/// The chance that nothing comes.
fn chance_of_none(coming: &Coming) -> f64 {
    if coming.variance <= 0.0 {
        return 1.0;
    }
    (-SCATTER * coming.work_ns * coming.work_ns / coming.variance).exp()
}

/// The chance that Brownian motion of unit variance and this drift falls by `ahead` within unit time.
fn run_down(ahead: f64, drift: f64) -> f64 {
    let at_end = normal(drift - ahead);
    let sooner = (2.0 * drift * ahead).min(MAX_EXPONENT).exp() * normal(-drift - ahead);
    (at_end + sooner).clamp(0.0, 1.0)
}

/// Normal distribution function, accurate far into the tails.
fn normal(score: f64) -> f64 {
    0.5 * libm::erfc(-score * std::f64::consts::FRAC_1_SQRT_2)
}

#[cfg(test)]
mod tests {
    use super::{normal, run_down, Coming, Start};
    use proptest::prelude::*;

    fn start(first_ns: f64, last_ns: f64) -> Start {
        Start { first_ns, last_ns, speed: 1.0, grain_ns: 1.0 }
    }

    /// Work at a rate of one half, in requests that all take 50.
    fn half(window_ns: f64) -> Coming {
        Coming { work_ns: 0.5 * window_ns, variance: 25.0 * window_ns }
    }

    fn near(found: f64, wanted: f64) {
        assert!((found - wanted).abs() < 1e-5, "{found} is not {wanted}");
    }

    #[test]
    fn is_none_if_what_is_ahead_takes_longer_than_there_is() {
        near(start(101.0, 100.0).chance(half), 0.0);
        assert!(start(100.0, 100.0).chance(half) > 0.0);
    }

    /// The distribution function of `scipy.stats.invgauss`, for work ahead, drift and spread.
    #[test]
    fn is_that_of_the_inverse_gaussian_distribution() {
        for (ahead, drift, spread, wanted) in [
            (300.0, 500.0, 200.0, 0.898_607_7),
            (300.0, 500.0, 500.0, 0.837_361_8),
            (100.0, 50.0, 100.0, 0.490_138_3),
            (10.0, 400.0, 300.0, 0.997_046_4),
            (300.0, 100.0, 100.0, 0.035_527_2),
        ] {
            near(run_down(ahead / spread, drift / spread), wanted);
        }
        // 300 ahead, and 500 of 1000 to come with a variance of 25,000 + 1.
        near(start(300.0, 1000.0).chance(half), run_down(300.0 / 158.117, 500.0 / 158.117));
        // No drift: twice the chance to be there at the end, by reflection.
        near(run_down(1.0, 0.0), 2.0 * 0.158_655_3);
    }

    #[test]
    fn whoever_is_next_is_sure_of_it_if_nothing_comes() {
        let nothing = |_| Coming::default();
        near(start(99.0, 100.0).chance(nothing), 1.0);
        near(start(0.0, 1.0).chance(half), 1.0);
        // 2 * 5^2 / 250 = 0.2 expected until its turn, and no time to run them down.
        near(start(10.0, 10.0).chance(half), (-0.2f64).exp());
    }

    #[test]
    fn several_replicas_do_it_sooner() {
        let three = Start { speed: 3.0, ..start(300.0, 1000.0) };
        let spread = (25_000.0 / 9.0 + 1f64).sqrt();
        near(three.chance(half), run_down(300.0 / spread, (1000.0 - 500.0 / 3.0) / spread));
    }

    proptest! {
        #[test]
        fn is_a_chance_that_falls_with_what_is_ahead(
            ahead in 0.0..50.0_f64, drift in -50.0..50.0_f64, more in 0.0..5.0_f64,
        ) {
            let chance = run_down(ahead, drift);
            prop_assert!((0.0..=1.0).contains(&chance), "{chance}");
            prop_assert!(run_down(ahead + more, drift) <= chance + 1e-6);
            prop_assert!(run_down(ahead, drift + more) >= chance - 1e-6);
            prop_assert!((normal(drift) + normal(-drift) - 1.0).abs() < 1e-12);
        }
    }
}
