//! From which chance of being served on an arrival is admitted.

/// Chance below which arrivals are refused at first, and bounds of what it may become.
const FIRST_LEAST: f64 = 0.65;
const BOUNDS: (f64, f64) = (0.3, 0.92);
/// The same where a batch holds about one request. Whoever is refused there by mistake makes room
/// for one that is admitted by mistake, and few arrivals come to learn from.
const LEAST_ALONE: f64 = 0.75;
/// Share of those not served that should be told at once.
const WANTED_TOLD: f64 = 0.975;
/// Goodput given up for early answers, as the shadows measure it: below the first there is some to
/// spare, above the second there is not.
const CHEAP: f64 = 0.003;
const DEAR: f64 = 0.016;
/// Arrivals over which price and told share are remembered.
const MEMORY: f64 = 5000.0;
/// Arrivals under full load before the price is measured at all, and then before it says anything.
const WARM_UP: f64 = 1500.0;
/// How far the odds move with each choice of a quantum, as a logarithm: slowly, since what is
/// measured lags, and faster where the price is far too high.
const STEP: f64 = 0.02;
const MAX_EXCESS: f64 = 3.0;
/// A told share so far above what is wanted counts as fully too strict.
const TOLD_STEP: f64 = 0.01;

/// Learns how strictly to judge.
#[derive(Clone, Debug)]
pub struct Strictness {
    least: f64,
    told: f64,
    untold: f64,
    /// Arrivals that the shadows were fed under full load.
    warmed: f64,
    fed: f64,
    served_with: f64,
    served_without: f64,
}

impl Default for Strictness {
    fn default() -> Self {
        Self {
            least: FIRST_LEAST,
            told: 0.0,
            untold: 0.0,
            warmed: 0.0,
            fed: 0.0,
            served_with: 0.0,
            served_without: 0.0,
        }
    }
}

impl Strictness {
    /// Least chance with which an arrival is admitted, in (0, 1).
    #[must_use]
    pub fn least(&self, is_alone: bool) -> f64 {
        if is_alone {
            LEAST_ALONE
        } else {
            self.least
        }
    }

    /// Counts a refusal.
    pub fn tell(&mut self) {
        self.told += 1.0;
    }

    /// Counts one that was admitted and has become hopeless.
    pub fn lose(&mut self) {
        self.untold += 1.0;
    }

    /// Takes in what two shadows served that differ only in refusing, under full load.
    ///
    /// `arrivals` is how many both were fed since the last time, `with` and `without` the weight
    /// that each served of them. Their difference is the price paid for early answers.
    pub fn adjust(&mut self, arrivals: f64, with: f64, without: f64) {
        let keep = (1.0 - arrivals / MEMORY).max(0.0);
        self.told *= keep;
        self.untold *= keep;
        self.warmed += arrivals;
        if self.warmed < WARM_UP {
            return;
        }
        self.fed = self.fed * keep + arrivals;
        self.served_with = self.served_with * keep + with;
        self.served_without = self.served_without * keep + without;
        if self.fed >= WARM_UP && self.served_without > 0.0 {
            self.shift(1.0 - self.served_with / self.served_without);
        }
    }

    /// Less strict where it is dear or more than wanted are told, stricter where it is cheap and
    /// fewer are.
    fn shift(&mut self, paid: f64) {
        let told = self.told / (self.told + self.untold).max(1.0);
        let is_enough = told >= WANTED_TOLD;
        let dear = ((paid - DEAR) / DEAR).clamp(0.0, MAX_EXCESS);
        let needless = ((told - WANTED_TOLD) / TOLD_STEP).clamp(0.0, 1.0);
        let spare = if is_enough { 0.0 } else { ((CHEAP - paid) / CHEAP).clamp(0.0, 1.0) };
        let odds = self.least / (1.0 - self.least) * (STEP * (spare - dear - needless)).exp();
        self.least = (odds / (1.0 + odds)).clamp(BOUNDS.0, BOUNDS.1);
    }
}

#[cfg(test)]
mod tests {
    use super::{Strictness, BOUNDS, FIRST_LEAST, LEAST_ALONE};

    /// `rounds` choices of 200 arrivals each, of which `lost` in a hundred die untold.
    fn live(rounds: u32, price: f64, lost: u32) -> Strictness {
        let mut strictness = Strictness::default();
        for _ in 0..rounds {
            for at in 0..100 {
                if at < lost {
                    strictness.lose();
                } else {
                    strictness.tell();
                }
            }
            strictness.adjust(200.0, 100.0 * (1.0 - price), 100.0);
        }
        strictness
    }

    #[test]
    fn nothing_moves_before_there_is_evidence() {
        // 1,500 arrivals are let pass, and then 1,500 are needed.
        assert!((live(13, 0.5, 50).least(false) - FIRST_LEAST).abs() < 1e-12);
        assert!(live(16, 0.5, 50).least(false) < FIRST_LEAST);
    }

    #[test]
    fn grows_lenient_where_early_answers_are_dear() {
        let dear = live(1000, 0.03, 10).least(false);
        assert!((dear - BOUNDS.0).abs() < 1e-12, "{dear}");
    }

    #[test]
    fn grows_strict_where_they_are_cheap_and_too_few_are_told() {
        let cheap = live(1000, 0.0, 10).least(false);
        assert!((cheap - BOUNDS.1).abs() < 1e-12, "{cheap}");
    }

    #[test]
    fn rests_between_the_prices() {
        let between = live(1000, 0.01, 10).least(false);
        assert!((between - FIRST_LEAST).abs() < 1e-12, "{between}");
    }

    #[test]
    fn gives_goodput_back_where_more_than_wanted_are_told() {
        let all_told = live(1000, 0.0, 0).least(false);
        assert!((all_told - BOUNDS.0).abs() < 1e-12, "{all_told}");
    }

    #[test]
    fn a_request_with_a_batch_to_itself_needs_a_better_chance() {
        assert!((live(1000, 0.03, 10).least(true) - LEAST_ALONE).abs() < 1e-12);
    }
}
