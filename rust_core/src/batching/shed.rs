//! Which arrivals will not be served, so that they are told at once.

use super::cost::BatchCost;
use super::forecast::ArrivalForecast;
use crate::batch::Outlook;

/// Offered load, as a share of capacity, below which nothing is refused; and its memory.
const LEAST_LOAD: f64 = 1.0;
const LOAD_MEMORY: f64 = 2000.0;
/// Goodput given up for early answers, as the shadows measure it over `PRICE_MEMORY` arrivals.
const PRICE: f64 = 0.01;
const PRICE_MEMORY: f64 = 5000.0;
/// Arrivals before the measured price says anything.
const PRICE_WARM_UP: f64 = 1500.0;
/// Where the line begins, and its bounds.
const FIRST_LINE: f64 = 1.0;
const LINE_BOUNDS: (f64, f64) = (0.92, 4.0);
/// How fast it moves with each choice of a quantum: slowly, since what is measured lags, and faster
/// up than down where the price is far too high.
const LINE_STEP: f64 = 0.004;
const MAX_EXCESS: f64 = 6.0;
/// Weight of a new batch in the usual batch duration.
const BATCH_STEP: f64 = 0.1;

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
    /// Work ahead and coming over the device time before its last chance.
    pub ratio: f64,
    /// Time in which what is ahead and coming would be done.
    pub clear_ns: f64,
    /// Device time before its last chance.
    pub room_ns: f64,
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
    /// Mean relative deadline.
    pub tau_ns: f64,
}

impl Terms {
    /// Least device time of a request: in a batch that is full.
    #[must_use]
    pub fn least_ns(&self, units: u64) -> f64 {
        self.cost.slope_ns * units as f64 + self.cost.intercept_ns / self.max_requests
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
    line: f64,
    batch_ns: f64,
    work_ns: f64,
    time_ns: f64,
    last_at_ns: Option<i64>,
    judged: f64,
    served_with: f64,
    served_without: f64,
}

impl Default for Shedder {
    fn default() -> Self {
        Self {
            forecast: ArrivalForecast::default(),
            line: FIRST_LINE,
            batch_ns: 0.0,
            work_ns: 0.0,
            time_ns: 0.0,
            last_at_ns: None,
            judged: 0.0,
            served_with: 0.0,
            served_without: 0.0,
        }
    }
}

impl Shedder {
    /// Notes how long a batch took.
    pub fn batch_took(&mut self, took_ns: f64) {
        let step = if self.batch_ns > 0.0 { BATCH_STEP } else { 1.0 };
        self.batch_ns += step * (took_ns - self.batch_ns);
    }

    /// Forgets what depends on the device's speed.
    pub fn shift(&mut self) {
        self.forecast.clear();
        self.batch_ns = 0.0;
    }

    /// Ratio of work to time from which arrivals are refused.
    #[must_use]
    pub fn line(&self) -> f64 {
        self.line
    }

    /// Offered work as a share of what the fleet can do.
    #[must_use]
    pub fn load(&self, speed: f64) -> f64 {
        if self.time_ns > 0.0 {
            self.work_ns / (self.time_ns * speed)
        } else {
            0.0
        }
    }

    /// Lets time pass and counts an arrival's least device time toward the load.
    pub fn arrive(&mut self, now_ns: i64, least_ns: f64, tau_ns: f64) {
        self.forecast.advance(now_ns, tau_ns);
        let keep = 1.0 - 1.0 / LOAD_MEMORY;
        if let Some(last_ns) = self.last_at_ns {
            self.work_ns = self.work_ns * keep + least_ns;
            self.time_ns = self.time_ns * keep + (now_ns - last_ns) as f64;
        }
        self.last_at_ns = Some(now_ns);
    }

    /// Adds executed work to the forecast.
    pub fn executed(&mut self, relative_key: f64, work_ns: f64) {
        self.forecast.record(relative_key, work_ns);
    }

    /// Prospects of an arrival. O(512).
    ///
    /// Its last chance is the last batch boundary that leaves time for a usual batch. Until then
    /// the device must get through what is ahead of it in key order, and through what will come
    /// and overtake it.
    #[must_use]
    pub fn prospect(&self, standing: &Standing, outlook: &Outlook, terms: &Terms) -> Prospect {
        let cost = &terms.cost;
        let usual_ns = if self.batch_ns > 0.0 { self.batch_ns } else { terms.quantum_ns };
        let batch_ns = usual_ns.min(terms.quantum_ns).max(1.0);
        let needed_ns = cost.margin * batch_ns.max(cost.of(standing.units));
        let (free_in_ns, chances) = chances(standing.slack_ns - needed_ns, batch_ns, outlook);
        let window_ns = (free_in_ns + (chances - 1.0) * batch_ns).max(0.0);
        let (requests, units) = standing.ahead;
        let ahead_ns = cost.of_many(requests, units, terms.quantum_ns, terms.max_requests);
        let coming_ns = self.forecast.overtaking_ns(standing.relative_key, window_ns, terms.tau_ns);
        let work_ns = ahead_ns + coming_ns;
        let room_ns = chances * batch_ns * outlook.speed;
        Prospect {
            ratio: if room_ns > 0.0 { work_ns / room_ns } else { f64::INFINITY },
            clear_ns: free_in_ns + work_ns / outlook.speed,
            room_ns,
        }
    }

    /// True if an arrival with these prospects should be refused.
    #[must_use]
    pub fn refuses(&self, prospect: &Prospect, speed: f64) -> bool {
        prospect.ratio > self.line && self.load(speed) >= LEAST_LOAD
    }

    /// Moves the line, by what two shadows served that differ only in refusing.
    ///
    /// `arrivals` is how many both were fed since the last time, `with` and `without` the weight
    /// that each served of them. Their difference is the price paid for early answers.
    pub fn adjust(&mut self, arrivals: f64, with: f64, without: f64, speed: f64) {
        let keep = (1.0 - arrivals / PRICE_MEMORY).max(0.0);
        self.judged = self.judged * keep + arrivals;
        self.served_with = self.served_with * keep + with;
        self.served_without = self.served_without * keep + without;
        if self.judged >= PRICE_WARM_UP && self.load(speed) >= LEAST_LOAD {
            let paid = 1.0 - self.served_with / self.served_without;
            let excess = ((paid - PRICE) / PRICE).clamp(-1.0, MAX_EXCESS);
            self.line =
                (self.line * (LINE_STEP * excess).exp()).clamp(LINE_BOUNDS.0, LINE_BOUNDS.1);
        }
    }
}

/// Time until a replica is free, and batch boundaries on each of them within `until_ns`.
///
/// One replica has whole boundaries. Those of several are spread evenly over a batch's time, and a
/// slow replica in a long batch says nothing about when the others are free.
fn chances(until_ns: f64, batch_ns: f64, outlook: &Outlook) -> (f64, f64) {
    if outlook.num_replicas < 2 {
        let last_ns = until_ns - outlook.free_in_ns;
        let whole = if last_ns < 0.0 { 0.0 } else { 1.0 + (last_ns / batch_ns).floor() };
        return (outlook.free_in_ns, whole);
    }
    let free_in_ns = outlook.free_in_ns.min(0.5 * batch_ns);
    (free_in_ns, (1.0 + (until_ns - free_in_ns) / batch_ns).max(0.0))
}
