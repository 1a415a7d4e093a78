//! The batch-length quantum, learned by shadows that try others on the live arrivals.

use std::collections::VecDeque;

use super::bars::{Bars, RecentArrivals};
use super::mix::ArrivalMix;
use super::shadow::{Arrival, Quanta, ShadowBank, ShadowFleet, SHADOWS};
use super::shed::Standing;
use crate::batch::Outlook;

/// Arrivals that a score remembers: about what resolves a difference of 1 %.
const MEMORY: f64 = 1500.0;
/// Arrivals before scores are trusted.
const WARM_UP: u64 = 375;
/// Shortest time between two choices.
const CHOOSE_EVERY_NS: i64 = 500_000_000;
/// The incumbent is kept unless beaten by this much.
const INCUMBENT_BONUS: f64 = 1.002;
/// Shadow 0, the safe one, is left only for a clear gain, and returned to for a small one.
const LEAVE_SAFE: f64 = 1.01;
const RETURN_SAFE: f64 = 1.005;
/// Share of the scores that survives when the device turns out to be another.
const KEEP_AFTER_SHIFT: f64 = 0.05;
/// Around the incumbent, and itself.
const NEIGHBOURS: [f64; 4] = [0.9, 1.0, 1.07, 1.2];
/// What a batch may be cut to, where that pays: see `select::Terms::least_ratio`.
const CUT_RATIO: f64 = 0.8;
/// Arrivals kept back for the next batch, unless there are more: what shadows know must not be old.
const MAX_PENDING: usize = 64;
/// A shadow that has the incumbent's quanta.
const INCUMBENT: usize = 10;
/// Quanta that differ by less than this ratio are taken for the same.
const SAME_PLACE: f64 = 0.02;

/// Learns the quantum of one model version.
#[derive(Clone, Debug)]
pub struct QuantumLearner {
    bank: ShadowBank,
    pending: VecDeque<Arrival>,
    recent: RecentArrivals,
    chosen: Quanta,
    safe: bool,
    started_at_ns: Option<i64>,
    choose_at_ns: i64,
}

impl QuantumLearner {
    /// A learner that has seen nothing.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            bank: ShadowBank::new(seed),
            pending: VecDeque::with_capacity(MAX_PENDING),
            recent: RecentArrivals::default(),
            chosen: Quanta::default(),
            safe: true,
            started_at_ns: None,
            choose_at_ns: 0,
        }
    }

    /// The quanta in force; zero before the first choice.
    #[must_use]
    pub fn quanta(&self) -> Quanta {
        self.chosen
    }

    /// Bars of the shadow that refuses nothing.
    #[must_use]
    pub fn bars(&self) -> &Bars {
        self.bank.bars()
    }

    /// Notes that keys have got another shape; see `ShadowBank::reshape`.
    pub fn reshape(&mut self, shift: Option<impl Fn(u64) -> f64>) {
        self.bank.reshape(shift);
    }

    /// When the sixteenth arrival before the next one came.
    #[must_use]
    pub fn since_ns(&self) -> i64 {
        self.recent.since_ns()
    }

    /// What the shadows score now, for those who ask why.
    #[must_use]
    pub fn scores(&self) -> [(Quanta, f64); SHADOWS] {
        let (quanta, scores) = (self.bank.quanta(), self.bank.scores());
        std::array::from_fn(|at| (quanta[at], scores[at]))
    }

    /// Notes an arrival. O(1) amortised over the batches, which do the work.
    pub fn arrive(
        &mut self,
        arrival: Arrival,
        fleet: &ShadowFleet,
        refuse: impl Fn(&Standing, &Outlook, &Bars) -> bool,
    ) {
        self.started_at_ns.get_or_insert(arrival.at_ns);
        self.recent.arrive(arrival.at_ns);
        self.pending.push_back(arrival);
        if self.pending.len() >= MAX_PENDING {
            for _ in 0..2 {
                self.feed_one(fleet, &refuse);
            }
        }
    }

    fn feed_one(
        &mut self,
        fleet: &ShadowFleet,
        refuse: impl Fn(&Standing, &Outlook, &Bars) -> bool,
    ) -> bool {
        let Some(arrival) = self.pending.pop_front() else { return false };
        self.bank.feed(arrival, fleet, MEMORY, refuse);
        true
    }

    /// Forgets most of what it knows: the device is not what it was.
    pub fn shift(&mut self) {
        self.bank.keep(KEEP_AFTER_SHIFT);
    }

    /// Catches up with the arrivals and chooses anew where that is due.
    ///
    /// Returns what the two shadows that follow the real queue served since the last choice, for
    /// the shedder: (arrivals, weight with refusing, weight without).
    pub fn advance(
        &mut self,
        now_ns: i64,
        mix: &ArrivalMix,
        fleet: &ShadowFleet,
        refuse: impl Fn(&Standing, &Outlook, &Bars) -> bool,
    ) -> Option<(f64, f64, f64)> {
        while self.feed_one(fleet, &refuse) {}
        if now_ns < self.choose_at_ns || mix.seen() == 0 {
            return None;
        }
        self.choose_at_ns = now_ns + CHOOSE_EVERY_NS;
        self.choose(now_ns, mix, fleet);
        self.bank.follow(self.chosen);
        Some(self.bank.take_served())
    }

    fn choose(&mut self, now_ns: i64, mix: &ArrivalMix, fleet: &ShadowFleet) {
        let quantiles = mix.deadline_quantiles([0.05, 0.25, 0.5, 0.75, 0.95]);
        let waited_ns = now_ns - self.started_at_ns.unwrap_or(now_ns);
        let warm = mix.seen() >= WARM_UP && waited_ns as f64 >= 2.0 * quantiles[4];
        if warm {
            self.pick();
        }
        self.place(&quantiles, fleet);
        if self.safe || !warm {
            self.chosen = self.bank.quanta()[0];
        }
    }

    /// Takes the best place, with some loyalty to the incumbent and to the safe one, and there the
    /// better of the two ratios.
    fn pick(&mut self) {
        let (quanta, scores) = (self.bank.quanta(), self.bank.scores());
        let is_incumbent = |at: usize| is_near(quanta[at], self.chosen);
        let loyal = |at: usize| scores[at] * if is_incumbent(at) { INCUMBENT_BONUS } else { 1.0 };
        let best_of = |shadows: &mut dyn Iterator<Item = usize>| {
            shadows.max_by(|a, b| loyal(*a).total_cmp(&loyal(*b))).unwrap_or(0)
        };
        let best = best_of(&mut (0..SHADOWS));
        let safest = best_of(&mut (0..2));
        let needed = if self.safe { LEAVE_SAFE } else { RETURN_SAFE };
        self.safe = loyal(best) <= scores[safest] * needed;
        self.chosen = quanta[if self.safe { safest } else { best }];
    }

    /// Moves the shadows to where the mix and the incumbent now want them.
    fn place(&mut self, quantiles: &[f64; 5], fleet: &ShadowFleet) {
        let targets = targets(quantiles, self.chosen, fleet);
        let (old, scores) = (self.bank.quanta(), self.bank.scores());
        for (at, target) in targets.into_iter().enumerate() {
            if !is_near(target, old[at]) {
                self.bank.set(at, target, score_at(target, &old, &scores));
            }
        }
    }
}

/// True if a shadow need not move: its score stays that of one place.
fn is_near(a: Quanta, b: Quanta) -> bool {
    same(a.fast_ns, b.fast_ns) && same(a.slow_ns, b.slow_ns) && is_alike(a, b)
}

/// True if both cut batches short in the same way.
fn is_alike(a: Quanta, b: Quanta) -> bool {
    (a.least_ratio - b.least_ratio).abs() < 1e-9
}

/// Where the shadows should stand. The first two are the safe ones.
///
/// Half a quantile of the relative deadlines is a good place for one device: two batches must fit into
/// it, the one that runs and one's own. Of n devices one is free sooner; 1 + 1 / sqrt(n) batches are
/// what fits best for 1, 4 and 12 that are alike. The others are at and around the incumbent.
fn targets(quantiles: &[f64; 5], chosen: Quanta, fleet: &ShadowFleet) -> [Quanta; SHADOWS] {
    let is_alike = fleet.num_fast == fleet.speeds.len();
    let left = if is_alike { 1.0 + 1.0 / (fleet.speeds.len() as f64).sqrt() } else { 2.0 };
    let half = |ns: f64| ns / left / (1.015 + 0.3 * fleet.cost.spread);
    let fast_ns = if chosen.fast_ns > 0.0 { chosen.fast_ns } else { half(quantiles[0]) };
    let slow_ns = if chosen.slow_ns > 0.0 { chosen.slow_ns } else { 2.0 * fast_ns };
    let chosen = Quanta { fast_ns, slow_ns, least_ratio: 1.0 };
    let low_ns = 1.4 * fleet.cost.intercept_ns;
    let high_ns = half(quantiles[4]).max(low_ns);
    if fleet.num_fast < fleet.speeds.len() {
        let kinks = [0, 1, 2, 3].map(|at| half(quantiles[at]));
        unlike_targets(kinks, chosen, low_ns, high_ns)
    } else {
        alike_targets([half(quantiles[0]), half(quantiles[1]), half(quantiles[2]), low_ns], chosen)
    }
}

/// Eight places, each with whole batches and with batches that may be cut short.
fn alike_targets(far: [f64; 4], chosen: Quanta) -> [Quanta; SHADOWS] {
    let around = NEIGHBOURS.map(|ratio| ratio * chosen.fast_ns);
    std::array::from_fn(|at| Quanta {
        fast_ns: *far.iter().chain(&around).nth(at / 2).unwrap_or(&chosen.fast_ns),
        least_ratio: if at % 2 == 0 { 1.0 } else { CUT_RATIO },
        ..chosen
    })
}

/// With slow replicas, five vary the quantum of those, and few cut batches short.
fn unlike_targets(kinks: [f64; 4], chosen: Quanta, low_ns: f64, high_ns: f64) -> [Quanta; SHADOWS] {
    let fast = |fast_ns: f64| Quanta { fast_ns, ..chosen };
    let slow = |slow_ns: f64| Quanta { slow_ns, ..chosen };
    let cut = |whole: Quanta| Quanta { least_ratio: CUT_RATIO, ..whole };
    let longer = |step: f64| slow(chosen.fast_ns * (high_ns / chosen.fast_ns).max(1.0).powf(step));
    [
        fast(kinks[0]),
        cut(fast(kinks[0])),
        fast(kinks[1]),
        fast(kinks[2]),
        fast(kinks[3]),
        fast(low_ns),
        fast(high_ns),
        fast(0.93 * chosen.fast_ns),
        fast(1.07 * chosen.fast_ns),
        cut(chosen),
        chosen,
        longer(0.0),
        longer(1.0 / 3.0),
        longer(2.0 / 3.0),
        slow(0.8 * chosen.slow_ns),
        slow(1.25 * chosen.slow_ns),
    ]
}

/// Score that a shadow starts with where it moves to, from those of the shadows before the move.
///
/// Both quanta are taken to act by factors of their own: one read off the shadows that vary the
/// quantum of fast replicas, the other off those that vary that of slow ones.
fn score_at(target: Quanta, old: &[Quanta; SHADOWS], scores: &[f64; SHADOWS]) -> f64 {
    let common = Quanta { fast_ns: old[INCUMBENT].fast_ns, slow_ns: old[0].slow_ns, ..target };
    if common.fast_ns <= 0.0 {
        return 0.0;
    }
    let pairs = || old.iter().zip(scores).filter(|(quanta, _)| is_alike(**quanta, target));
    let by_fast = |ns: f64| {
        let line = pairs().filter(|(quanta, _)| same(quanta.slow_ns, common.slow_ns));
        interpolate(line.map(|(quanta, score)| (quanta.fast_ns, *score)), ns)
    };
    let by_slow = |ns: f64| {
        let line = pairs().filter(|(quanta, _)| same(quanta.fast_ns, common.fast_ns));
        interpolate(line.map(|(quanta, score)| (quanta.slow_ns, *score)), ns)
    };
    let usual = by_slow(common.slow_ns);
    let factor = if usual > 0.0 { by_slow(target.slow_ns) / usual } else { 1.0 };
    by_fast(target.fast_ns) * factor
}

fn same(a: f64, b: f64) -> bool {
    (a / b).ln().abs() < SAME_PLACE
}

/// Value at `at` on the line through the nearest points on either side, in the logarithm.
fn interpolate(points: impl Iterator<Item = (f64, f64)>, at: f64) -> f64 {
    let (mut below, mut above) = ((f64::NEG_INFINITY, None), (f64::INFINITY, None));
    for (place, score) in points {
        let offset = (place / at).ln();
        if offset <= 0.0 && offset > below.0 {
            below = (offset, Some(score));
        }
        if offset >= 0.0 && offset < above.0 {
            above = (offset, Some(score));
        }
    }
    match (below.1, above.1) {
        (Some(low), Some(high)) if above.0 > below.0 => {
            low + (high - low) * -below.0 / (above.0 - below.0)
        }
        (Some(score), _) | (_, Some(score)) => score,
        (None, None) => 0.0,
    }
}
