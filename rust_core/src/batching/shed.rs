//! Which arrivals will not be served, so that they are told at once.

use super::alone::Start;
use super::cost::BatchCost;
use super::forecast::ArrivalForecast;
use super::line::{Judged, Line};
use super::load::OfferedLoad;
use crate::batch::Outlook;
use crate::rng::Rng;

/// Offered load, as a share of capacity and as far as it is sure, below which nothing is refused.
const LEAST_LOAD: f64 = 0.95;
/// Standard errors that the load is doubted by. Less where a batch holds about one request: the few
/// there are would not be told for minutes, and those refused by mistake are mostly lost anyway.
const ERRORS: f64 = 2.5;
const ERRORS_ALONE: f64 = 0.5;
/// Goodput given up for early answers, as the shadows measure it over `PRICE_MEMORY` arrivals.
const PRICE: f64 = 0.02;
const PRICE_MEMORY: f64 = 5000.0;
/// Arrivals under full load before the price is measured at all, while the line is being found,
/// and then before it says anything.
const PRICE_WARM_UP: f64 = 1500.0;
/// Most room that arrivals are granted beyond what there is, where early answers cost too much.
const MAX_RELIEF: f64 = 3.0;
/// How fast the relief moves with each choice of a quantum: slowly, since what is measured lags,
/// and faster up than down where the price is far too high.
const RELIEF_STEP: f64 = 0.008;
const MAX_EXCESS: f64 = 6.0;
/// Share of the relief that is withdrawn with each choice where the price is below its bound.
const RELIEF_FADE: f64 = 0.03;
/// Relief from which the line learns nothing: it is not the line that decides.
const FREE_RELIEF: f64 = 0.02;
/// Weight of a new batch in the usual batch duration, and in the scale of work.
const BATCH_STEP: f64 = 0.1;
const SCALE_STEP: f64 = 0.05;
const SCALE_BOUNDS: (f64, f64) = (0.25, 4.0);
/// For a member whose deadline is near a batch may be cut to this share of its length. A boundary
/// that needs it counts half.
const CUT_RATIO: f64 = 0.8;
const CUT_CHANCE: f64 = 0.5;
/// What batch boundaries add to the doubt about the work: as a share of a batch.
const GRAIN: f64 = 0.3;
/// The same where a batch holds about one request: what those ahead take is known.
const GRAIN_ALONE: f64 = 0.1;
/// Excess of those without any room.
const HOPELESS: f64 = 50.0;
/// One in so many would-be refusals is served like any other.
const CANARY_EVERY: u64 = 128;

/// What is known of an arrival when it is judged.
#[derive(Clone, Copy, Debug)]
pub struct Standing {
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
    /// Where it stands.
    pub judged: Judged,
    /// Room before its last chance, in standard deviations.
    pub ease: f64,
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

    /// Its share of a batch as long as the quantum.
    #[must_use]
    pub fn usual_ns(&self, units: u64) -> f64 {
        self.cost.of_many(1.0, units as f64, self.quantum_ns, self.max_requests)
    }
}

/// Judges arrivals and learns how strictly to.
#[derive(Clone, Debug)]
pub struct Shedder {
    forecast: ArrivalForecast,
    load: OfferedLoad,
    line: Line,
    /// Room granted beyond what there is, as a share of it.
    relief: f64,
    batch_ns: f64,
    /// Device time of batches over the usual times of their members.
    scale: f64,
    canaries: Rng,
    /// Arrivals that the shadows were fed under full load.
    warmed: f64,
    judged: f64,
    served_with: f64,
    served_without: f64,
}

impl Shedder {
    /// A shedder that has seen nothing; `seed` chooses the canaries.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            forecast: ArrivalForecast::default(),
            load: OfferedLoad::default(),
            line: Line::default(),
            relief: 0.0,
            batch_ns: 0.0,
            scale: 1.0,
            canaries: Rng::new(seed),
            warmed: 0.0,
            judged: 0.0,
            served_with: 0.0,
            served_without: 0.0,
        }
    }

    /// Notes how long a batch took.
    pub fn batch_took(&mut self, took_ns: f64) {
        let step = if self.batch_ns > 0.0 { BATCH_STEP } else { 1.0 };
        self.batch_ns += step * (took_ns - self.batch_ns);
    }

    /// Notes that a batch takes `batch_ns` whose members usually take `usual_ns` in sum; returns
    /// the ratio, by which the work of each is counted.
    pub fn batch_formed(&mut self, batch_ns: f64, usual_ns: f64) -> f64 {
        let ratio = (batch_ns / usual_ns.max(1.0)).clamp(SCALE_BOUNDS.0, SCALE_BOUNDS.1);
        self.scale += SCALE_STEP * (ratio - self.scale);
        ratio
    }

    /// Forgets what depends on the device's speed.
    pub fn shift(&mut self) {
        self.forecast.clear();
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
        self.load.arrive(now_ns, least_ns);
    }

    /// Adds executed work to the forecast.
    pub fn executed(&mut self, relative_key: f64, work_ns: f64) {
        self.forecast.record(relative_key, work_ns);
    }

    /// Takes in what became of an arrival that was queued: it was dispatched, or is hopeless.
    pub fn ended(&mut self, judged: Option<Judged>, is_served: bool) {
        if let Some(judged) = judged.filter(|judged| judged.is_canary || self.relief < FREE_RELIEF)
        {
            self.line.learn(&judged, is_served);
        }
    }

    /// Prospects of an arrival. O(512).
    ///
    /// Its last chance is the last batch boundary that leaves time for a usual batch. Until then
    /// the device must get through what is ahead of it in key order, through what will come and
    /// overtake it, and through itself.
    #[must_use]
    pub fn prospect(&self, standing: &Standing, outlook: &Outlook, terms: &Terms) -> Prospect {
        if terms.is_alone() {
            return self.prospect_alone(standing, outlook, terms);
        }
        let batch_ns = self.usual_batch_ns(terms);
        let (free_in_ns, chances, room) = chances(standing, batch_ns, outlook, terms);
        let window_ns = (free_in_ns + (chances - 1.0) * batch_ns).max(0.0);
        let (requests, units) = standing.ahead;
        let queued_ns = terms.cost.of_many(requests, units, terms.quantum_ns, terms.max_requests);
        let known_ns = self.scale * (queued_ns + terms.usual_ns(standing.units));
        let coming = self.forecast.overtaking(standing.relative_key, window_ns, terms.tau_ns);
        let work_ns = known_ns + coming.work_ns;
        let room_ns = room * batch_ns * outlook.speed;
        let grain_ns = GRAIN * batch_ns * outlook.speed;
        let spread_ns = (coming.variance + grain_ns * grain_ns).sqrt();
        let excess = if room_ns > 0.0 { (work_ns - room_ns) / spread_ns } else { HOPELESS };
        Prospect {
            judged: judged(excess, standing, terms),
            ease: room_ns / spread_ns,
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
        let overtaking =
            |until_ns| self.forecast.overtaking(standing.relative_key, until_ns, terms.tau_ns);
        let excess = start.excess(overtaking).unwrap_or(HOPELESS);
        let coming = overtaking(start.last_ns.max(0.0));
        let room_ns = (start.last_ns - free_in_ns).max(0.0) * outlook.speed;
        Prospect {
            judged: judged(excess, standing, terms),
            ease: room_ns / (start.spread_ns(&coming) * outlook.speed),
            clear_ns: start.first_ns + coming.work_ns / outlook.speed,
            room_ns,
            is_alone: true,
        }
    }

    fn usual_batch_ns(&self, terms: &Terms) -> f64 {
        if self.batch_ns > 0.0 { self.batch_ns } else { terms.quantum_ns }.max(1.0)
    }

    /// True if an arrival with these prospects should be refused.
    #[must_use]
    pub fn refuses(&self, prospect: &Prospect, speed: f64) -> bool {
        let excess = prospect.judged.excess - self.relief * prospect.ease;
        let errors = if prospect.is_alone { ERRORS_ALONE } else { ERRORS };
        let load = self.load.sure_share(speed, errors);
        excess > self.line.at(prospect.judged.place) && load >= LEAST_LOAD
    }

    /// True if one that should be refused is served all the same, to see whether the line is right.
    pub fn spares(&mut self, prospect: &Prospect) -> bool {
        self.line.is_telling(&prospect.judged) && self.canaries.below(CANARY_EVERY) == 0
    }

    /// Moves the relief, by what two shadows served that differ only in refusing.
    ///
    /// `arrivals` is how many both were fed since the last time, `with` and `without` the weight
    /// that each served of them. Their difference is the price paid for early answers.
    pub fn adjust(&mut self, arrivals: f64, with: f64, without: f64, speed: f64) {
        if self.load.sure_share(speed, ERRORS) < LEAST_LOAD {
            return;
        }
        self.warmed += arrivals;
        if self.warmed < PRICE_WARM_UP {
            return;
        }
        let keep = (1.0 - arrivals / PRICE_MEMORY).max(0.0);
        self.judged = self.judged * keep + arrivals;
        self.served_with = self.served_with * keep + with;
        self.served_without = self.served_without * keep + without;
        if self.judged >= PRICE_WARM_UP {
            self.charge(1.0 - self.served_with / self.served_without);
        }
    }

    /// Grants more room where early answers cost more than they may, and takes it back where not.
    fn charge(&mut self, paid: f64) {
        let excess = ((paid - PRICE) / PRICE).clamp(-1.0, MAX_EXCESS);
        let room = (1.0 + self.relief) * (RELIEF_STEP * excess).exp();
        let fade = 1.0 + RELIEF_FADE * excess.min(0.0);
        self.relief = ((room - 1.0) * fade).clamp(0.0, MAX_RELIEF);
    }
}

fn judged(excess: f64, standing: &Standing, terms: &Terms) -> Judged {
    let place = (standing.slack_ns / terms.tau_ns).max(f64::MIN_POSITIVE).log2();
    Judged { excess: excess.clamp(-HOPELESS, HOPELESS), place, is_canary: false }
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
