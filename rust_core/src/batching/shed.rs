//! Which arrivals will not be served, so that they are told at once.

use super::alone::Start;
use super::bars::{log_gap, Bars, Contender};
use super::cost::BatchCost;
use super::forecast::{ArrivalForecast, Coming};
use super::load::OfferedLoad;
use super::strictness::Strictness;
use crate::batch::{Odds, Outlook};
use crate::check::to_ns;

/// Offered load, as a share of capacity and as far as it is sure, below which nothing is refused.
const LEAST_LOAD: f64 = 0.95;
/// Standard errors that the load is doubted by. Less where a batch holds about one request: the few
/// there are would not be told for minutes, and those refused by mistake are mostly lost anyway.
const ERRORS: f64 = 2.5;
const ERRORS_ALONE: f64 = 0.5;
/// Weight of a new batch in the usual batch duration, and in the scale of work.
const BATCH_STEP: f64 = 0.1;
const SCALE_STEP: f64 = 0.05;
const SCALE_BOUNDS: (f64, f64) = (0.25, 4.0);
/// A last chance that needs a batch to be cut to this share of its length counts half.
const CUT_RATIO: f64 = 0.8;
const CUT_CHANCE: f64 = 0.5;
/// What batch boundaries add to the doubt about the work: as a share of a batch.
const GRAIN: f64 = 0.3;
/// The same where a batch holds about one request: what those ahead take is known.
const GRAIN_ALONE: f64 = 0.1;
/// Moments like the present one that the estimate by work counts for.
const PRIOR: f64 = 1.0;
/// Share of the room that an arrival may fill whatever the bars say, and how coarsely that counts.
/// Bars are those of a queue that refuses nobody; where all are alike they say nothing of a queue
/// that does, and the room would be left empty.
const AMPLE_SHARE: f64 = 0.75;
const AMPLE_GRAIN: f64 = 0.6;
/// Requests from this share of a batch on are judged by work alone: their key may be above the bar
/// without their fitting into what is left.
const LARGE_SHARE: f64 = 0.5;
/// A normal score is about the logarithm of the odds over this.
const LOGISTIC: f64 = 1.702;

/// What is known of an arrival when it is judged.
#[derive(Clone, Copy, Debug)]
pub struct Standing {
    /// When it came.
    pub at_ns: i64,
    /// When the sixteenth before it came.
    pub since_ns: i64,
    /// Time to its deadline.
    pub slack_ns: f64,
    /// Its work.
    pub units: u64,
    /// Its key relative to an average one.
    pub relative_key: f64,
    /// Requests and units ahead of it.
    pub ahead: (f64, f64),
}

/// An arrival's prospects.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prospect {
    /// Chance of being served in time, in [0, 1].
    pub chance: f64,
    /// Time in which what is ahead and coming would be done.
    pub clear_ns: f64,
    /// Device time before its last chance.
    pub room_ns: f64,
    /// It has about a batch to itself.
    pub is_alone: bool,
}

/// What an arrival is judged by, besides its own standing.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// Cost at speed 1.
    pub cost: BatchCost,
    /// Quantum in force.
    pub quantum_ns: f64,
    /// Requests that a batch holds at most.
    pub max_requests: f64,
    /// Mean size of a request.
    pub mean_units: f64,
    /// Mean relative deadline.
    pub tau_ns: f64,
    /// Share of its length that a batch may be cut to.
    pub least_ratio: f64,
}

impl Terms {
    /// Least device time of a request: in a batch that is full.
    #[must_use]
    pub fn least_ns(&self, units: u64) -> f64 {
        self.cost.slope_ns * units as f64 + self.cost.intercept_ns / self.max_requests
    }

    /// True if a usual request fills half a batch or more.
    #[must_use]
    pub fn is_alone(&self) -> bool {
        2.0 * self.cost.slope_ns * self.mean_units > self.quantum_ns - self.cost.intercept_ns
    }

    /// Largest request that fits into the quantum, where batches hold about one request: a batch
    /// takes what fits first, whatever its key. Elsewhere few do not fit, and there is no bound.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // rounds down from above 0
    pub fn fit_units(&self) -> u64 {
        if self.is_alone() {
            ((self.quantum_ns - self.cost.intercept_ns) / self.cost.slope_ns).max(0.0) as u64
        } else {
            u64::MAX
        }
    }

    /// How far it is too large to be judged by its key: 0 for small ones, 1 from half a batch on.
    fn large_share(&self, units: u64) -> f64 {
        let room_ns = (self.quantum_ns - self.cost.intercept_ns).max(1.0);
        (self.cost.slope_ns * units as f64 / (LARGE_SHARE * room_ns)).min(1.0)
    }

    /// Its share of a batch as long as the quantum.
    #[must_use]
    pub fn usual_ns(&self, units: u64) -> f64 {
        self.cost.of_many(1.0, units as f64, self.quantum_ns, self.max_requests)
    }
}

/// Judges arrivals and learns how strictly to.
#[derive(Clone, Debug, Default)]
pub struct Shedder {
    forecast: ArrivalForecast,
    /// Of what does not fit into the quantum; see `Terms::fit_units`.
    long_forecast: ArrivalForecast,
    load: OfferedLoad,
    strictness: Strictness,
    batch_ns: f64,
    /// Device time of batches over the usual times of their members; 0 before the first.
    scale: f64,
}

impl Shedder {
    /// Notes how long a batch took.
    pub fn batch_took(&mut self, took_ns: f64) {
        let step = if self.batch_ns > 0.0 { BATCH_STEP } else { 1.0 };
        self.batch_ns += step * (took_ns - self.batch_ns);
    }

    /// Notes that a batch takes `batch_ns` whose members usually take `usual_ns` in sum; returns
    /// the ratio, by which the work of each is counted.
    pub fn batch_formed(&mut self, batch_ns: f64, usual_ns: f64) -> f64 {
        let ratio = (batch_ns / usual_ns.max(1.0)).clamp(SCALE_BOUNDS.0, SCALE_BOUNDS.1);
        self.scale = self.scale() + SCALE_STEP * (ratio - self.scale());
        ratio
    }

    /// Forgets what depends on the device's speed.
    pub fn shift(&mut self) {
        self.forecast.clear();
        self.long_forecast.clear();
        self.batch_ns = 0.0;
    }

    /// Offered work as a share of what the fleet can do.
    #[must_use]
    pub fn load(&self, speed: f64) -> f64 {
        self.load.share(speed)
    }

    /// Lets time pass and counts an arrival's least device time toward the load.
    pub fn arrive(&mut self, now_ns: i64, least_ns: f64, tau_ns: f64) {
        self.forecast.advance(now_ns, tau_ns);
        self.long_forecast.advance(now_ns, tau_ns);
        self.load.arrive(now_ns, least_ns);
    }

    /// Adds executed work to the forecast; `is_long` says that it did not fit into the quantum.
    pub fn executed(&mut self, relative_key: f64, work_ns: f64, is_long: bool) {
        let forecast = if is_long { &mut self.long_forecast } else { &mut self.forecast };
        forecast.record(relative_key, work_ns);
    }

    /// Counts an arrival that was refused.
    pub fn tell(&mut self) {
        self.strictness.tell();
    }

    /// Counts one that was admitted and has become hopeless. Below full load that is nobody's fault.
    pub fn lose(&mut self, speed: f64) {
        if self.load.sure_share(speed, ERRORS) >= LEAST_LOAD {
            self.strictness.lose();
        }
    }

    /// Prospects of an arrival. O(512).
    ///
    /// `bars` say what became of requests with its key after moments like this one. The work ahead
    /// and to come says what is to be expected where there were few such moments, and whether there
    /// is ample room whatever the bars say.
    #[must_use]
    pub fn prospect(
        &self,
        standing: &Standing,
        outlook: &Outlook,
        terms: &Terms,
        bars: &Bars,
    ) -> Prospect {
        if terms.is_alone() {
            return self.prospect_alone(standing, outlook, terms);
        }
        let batch_ns = self.usual_batch_ns(terms);
        let (free_in_ns, chances, room) = chances(standing, batch_ns, outlook, terms);
        let window_ns = (free_in_ns + (chances - 1.0) * batch_ns).max(0.0);
        let (requests, units) = standing.ahead;
        let queued_ns = terms.cost.of_many(requests, units, terms.quantum_ns, terms.max_requests);
        let known_ns = self.scale() * (queued_ns + terms.usual_ns(standing.units));
        let device_ns = batch_ns * outlook.speed;
        let coming = self.forecast.overtaking(standing.relative_key, window_ns, terms.tau_ns);
        let work_ns = known_ns + coming.work_ns;
        let room_ns = room * device_ns;
        let enough = |room_ns: f64, grain: f64| {
            let grain_ns = grain * device_ns;
            let spread_ns = (coming.variance + grain_ns * grain_ns).sqrt();
            share_below((room_ns - work_ns) / spread_ns)
        };
        let by_work = enough(room_ns, GRAIN);
        let by_ample = enough(AMPLE_SHARE * room_ns, AMPLE_GRAIN);
        let followed = bars.after(&contender(standing, batch_ns, free_in_ns, terms));
        let by_bars = (followed.served + PRIOR * by_work) / (followed.weight + PRIOR);
        let small = by_bars.max(by_ample);
        let large = terms.large_share(standing.units);
        Prospect {
            chance: if room > 0.0 { small + large * (by_work.min(small) - small) } else { 0.0 },
            clear_ns: free_in_ns + work_ns / outlook.speed,
            room_ns,
            is_alone: false,
        }
    }

    /// The same where batches hold about one request each.
    fn prospect_alone(&self, standing: &Standing, outlook: &Outlook, terms: &Terms) -> Prospect {
        let batch_ns = self.usual_batch_ns(terms);
        let free_in_ns = free_in_ns(batch_ns, outlook);
        let (requests, units) = standing.ahead;
        let ahead_ns = terms.cost.slope_ns * units + terms.cost.intercept_ns * requests;
        let start = Start {
            first_ns: free_in_ns + ahead_ns / outlook.speed,
            last_ns: standing.slack_ns - terms.cost.margin * terms.cost.of(standing.units),
            speed: outlook.speed,
            grain_ns: GRAIN_ALONE * batch_ns,
        };
        let overtaking = |within_ns| self.overtaking(standing, within_ns, terms);
        let coming = overtaking(start.last_ns.max(0.0));
        Prospect {
            chance: start.chance(overtaking),
            clear_ns: start.first_ns + coming.work_ns / outlook.speed,
            room_ns: (start.last_ns - free_in_ns).max(0.0) * outlook.speed,
            is_alone: true,
        }
    }

    /// What will go before an arrival, where batches hold about one request each.
    fn overtaking(&self, standing: &Standing, within_ns: f64, terms: &Terms) -> Coming {
        let overtaking = |forecast: &ArrivalForecast| {
            forecast.overtaking(standing.relative_key, within_ns, terms.tau_ns)
        };
        if standing.units > terms.fit_units() {
            self.forecast.all(within_ns).and(&overtaking(&self.long_forecast))
        } else {
            overtaking(&self.forecast)
        }
    }

    fn usual_batch_ns(&self, terms: &Terms) -> f64 {
        if self.batch_ns > 0.0 { self.batch_ns } else { terms.quantum_ns }.max(1.0)
    }

    fn scale(&self) -> f64 {
        if self.scale > 0.0 {
            self.scale
        } else {
            1.0
        }
    }

    /// The chance that an arrival has, and the one that is asked for.
    #[must_use]
    pub fn odds(&self, prospect: &Prospect) -> Odds {
        Odds { chance: prospect.chance, wanted: self.strictness.least(prospect.is_alone) }
    }

    /// True if so much is offered that an arrival may be refused at all.
    #[must_use]
    pub fn is_full(&self, is_alone: bool, speed: f64) -> bool {
        let errors = if is_alone { ERRORS_ALONE } else { ERRORS };
        self.load.sure_share(speed, errors) >= LEAST_LOAD
    }

    /// What an arrival is refused for, or None. O(512) under full load, O(1) below.
    #[must_use]
    pub fn refusal(
        &self,
        standing: &Standing,
        outlook: &Outlook,
        terms: &Terms,
        bars: &Bars,
    ) -> Option<Prospect> {
        if !self.is_full(terms.is_alone(), outlook.speed) {
            return None;
        }
        let prospect = self.prospect(standing, outlook, terms, bars);
        let odds = self.odds(&prospect);
        (odds.chance < odds.wanted).then_some(prospect)
    }

    /// Takes in what two shadows served that differ only in refusing; see `Strictness::adjust`.
    pub fn adjust(&mut self, arrivals: f64, with: f64, without: f64, speed: f64) {
        if self.load.sure_share(speed, ERRORS) >= LEAST_LOAD {
            self.strictness.adjust(arrivals, with, without);
        }
    }
}

/// How an arrival competes for the batches to come.
fn contender(standing: &Standing, batch_ns: f64, free_in_ns: f64, terms: &Terms) -> Contender {
    let longest_ns = batch_ns.min(terms.quantum_ns);
    let alone_ns = terms.cost.of(standing.units);
    let wait_for = |least_ns: f64| {
        let last_ns = standing.slack_ns - terms.cost.margin * least_ns.max(alone_ns);
        (last_ns - free_in_ns) / terms.tau_ns
    };
    Contender {
        relative_key: standing.relative_key,
        log_gap: log_gap(standing.at_ns, standing.since_ns),
        first_ns: standing.at_ns.saturating_add(to_ns(free_in_ns)),
        first_in: free_in_ns / terms.tau_ns,
        whole_for: wait_for(longest_ns),
        cut_for: wait_for(terms.least_ratio * longest_ns),
        step_ns: batch_ns,
    }
}

/// Share of a normal distribution below a score, to within 0.01.
fn share_below(score: f64) -> f64 {
    1.0 / (1.0 + (-LOGISTIC * score).exp())
}

/// Time until a replica is free. Of several, a slow one in a long batch says nothing about when the
/// others are.
fn free_in_ns(batch_ns: f64, outlook: &Outlook) -> f64 {
    if outlook.num_replicas < 2 {
        outlook.free_in_ns
    } else {
        outlook.free_in_ns.min(0.5 * batch_ns)
    }
}

/// Time until a replica is free, batch boundaries until an arrival's last chance, and what
/// they are worth: one that needs a batch to be cut is worth less.
fn chances(
    standing: &Standing,
    batch_ns: f64,
    outlook: &Outlook,
    terms: &Terms,
) -> (f64, f64, f64) {
    let longest_ns = batch_ns.min(terms.quantum_ns);
    let alone_ns = terms.cost.of(standing.units);
    let until = |least_ns: f64| standing.slack_ns - terms.cost.margin * least_ns.max(alone_ns);
    let (free_in_ns, chances) = boundaries(until(CUT_RATIO * longest_ns), batch_ns, outlook);
    let (_, sure) = boundaries(until(longest_ns), batch_ns, outlook);
    (free_in_ns, chances, sure + CUT_CHANCE * (chances - sure))
}

/// Time until a replica is free, and batch boundaries on each of them within `until_ns`.
///
/// One replica has whole boundaries. Those of several are spread evenly over a batch's time.
fn boundaries(until_ns: f64, batch_ns: f64, outlook: &Outlook) -> (f64, f64) {
    let free_in_ns = free_in_ns(batch_ns, outlook);
    let last_ns = until_ns - free_in_ns;
    if outlook.num_replicas < 2 {
        let whole = if last_ns < 0.0 { 0.0 } else { 1.0 + (last_ns / batch_ns).floor() };
        return (free_in_ns, whole);
    }
    (free_in_ns, (1.0 + last_ns / batch_ns).max(0.0))
}

#[cfg(test)]
mod tests;
