//! Shadow schedulers: the same batch rule with other quanta, on virtual devices.
//!
//! All shadows share one sorted list of recent arrivals; see `waiting`. The one that runs with the
//! quanta in force and refuses nothing also says how high its bars were; see `bars`.

use super::bars::{log_gap, Bar, Bars, OPEN_BAR};
use super::index::Order;
use super::select::{choose, hasty_allowed, Candidate, Patience, Terms, MAX_SKIPS};
use super::shed::Standing;
use super::waiting::{Place, WaitingList};
use crate::batch::Outlook;
use crate::rng::Rng;

mod fleet;
pub use fleet::ShadowFleet;

/// Shadows that run side by side.
pub const SHADOWS: usize = 16;
/// Two more run with the quanta in force: one refuses nothing, one refuses as the real queue does.
const OPEN: usize = SHADOWS;
const SHEDDING: usize = SHADOWS + 1;
/// All of them.
pub const ALL_SHADOWS: usize = SHADOWS + 2;
/// Devices that a shadow fleet has at most; larger fleets are fed a share of the arrivals.
pub const MAX_DEVICES: usize = 4;
/// Most requests that a shadow's batch considers.
const MAX_CANDIDATES: usize = 256;
const SWEEP_EVERY: u32 = 64;

/// An arrival, as the shadows see it.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// When it came.
    pub at_ns: i64,
    /// Its place in the real queue's order.
    pub order: Order,
    /// Its deadline.
    pub deadline_ns: i64,
    /// Its work.
    pub units: u64,
    /// Its rows.
    pub rows: u64,
    /// What serving it in time counts.
    pub weight: f64,
    /// Its key relative to an average one.
    pub relative_key: f64,
    /// When the sixteenth before it came: how fast they come.
    pub since_ns: i64,
    /// Mean relative deadline when it came.
    pub tau_ns: f64,
}

/// Quanta of one shadow: for the fast replicas and for the slow ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quanta {
    /// On replicas of ordinary speed.
    pub fast_ns: f64,
    /// On replicas much slower than the fastest.
    pub slow_ns: f64,
    /// Share of it that a batch may be cut to for a member whose deadline is near.
    pub least_ratio: f64,
}

impl Default for Quanta {
    fn default() -> Self {
        Self { fast_ns: 0.0, slow_ns: 0.0, least_ratio: 1.0 }
    }
}

#[derive(Clone, Debug, Default)]
struct Shadow {
    quanta: Quanta,
    /// When each device is free; devices beyond the fleet's are not looked at.
    free_at_ns: [i64; MAX_DEVICES],
    score: f64,
}

/// The shadows and what waits in them.
#[derive(Clone, Debug)]
pub struct ShadowBank {
    waiting: WaitingList,
    shadows: [Shadow; ALL_SHADOWS],
    noise: Rng,
    /// Weight that an on-time answer adds now; grows instead of old scores shrinking.
    unit: f64,
    until_sweep: u32,
    fed: f64,
    served: [f64; 2],
    bars: Bars,
    /// Of the last arrival.
    tau_ns: f64,
    since_ns: i64,
    candidates: Vec<Candidate>,
    taken: Vec<usize>,
}

impl ShadowBank {
    /// Empty shadows, all with the same quanta.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            waiting: WaitingList::new(SHEDDING),
            shadows: std::array::from_fn(|_| Shadow::default()),
            noise: Rng::new(seed),
            unit: 1.0,
            until_sweep: SWEEP_EVERY,
            fed: 0.0,
            served: [0.0; 2],
            bars: Bars::default(),
            tau_ns: 1e9,
            since_ns: 0,
            candidates: Vec::new(),
            taken: Vec::new(),
        }
    }

    /// Sets the quanta of the two shadows that follow the real queue.
    pub fn follow(&mut self, quanta: Quanta) {
        self.shadows[OPEN].quanta = quanta;
        self.shadows[SHEDDING].quanta = quanta;
    }

    /// Arrivals fed, and weight served with and without refusing, since last asked.
    pub fn take_served(&mut self) -> (f64, f64, f64) {
        let taken = (self.fed, self.served[1], self.served[0]);
        (self.fed, self.served) = (0.0, [0.0; 2]);
        taken
    }

    /// Weight served in time by each shadow, old arrivals counting less.
    #[must_use]
    pub fn scores(&self) -> [f64; SHADOWS] {
        std::array::from_fn(|at| self.shadows[at].score / self.unit)
    }

    /// Bars of the shadow that refuses nothing.
    #[must_use]
    pub fn bars(&self) -> &Bars {
        &self.bars
    }

    /// Moves the bars where keys have got another shape; see `Bars::reshape`. None: none of them
    /// says anything of the new one.
    pub fn reshape(&mut self, shift: Option<impl Fn(u64) -> f64>) {
        match shift {
            Some(shift) => self.bars.reshape(shift),
            None => self.bars.clear(),
        }
    }

    /// Quanta of each shadow.
    #[must_use]
    pub fn quanta(&self) -> [Quanta; SHADOWS] {
        std::array::from_fn(|at| self.shadows[at].quanta)
    }

    /// Sets a shadow's quanta and score.
    pub fn set(&mut self, at: usize, quanta: Quanta, score: f64) {
        self.shadows[at].quanta = quanta;
        self.shadows[at].score = score * self.unit;
    }

    /// Forgets all but a share of the scores.
    pub fn keep(&mut self, share: f64) {
        for shadow in &mut self.shadows {
            shadow.score *= share;
        }
        self.bars.clear();
    }

    /// Feeds an arrival to every shadow. Amortised O(shadows), bounded by the list's size.
    ///
    /// `refuse` is how the real queue judges an arrival; the shadow that sheds asks it with what
    /// stands in its own queue.
    pub fn feed(
        &mut self,
        arrival: Arrival,
        fleet: &ShadowFleet,
        memory: f64,
        refuse: impl Fn(&Standing, &Outlook, &Bars) -> bool,
    ) {
        self.fed += 1.0;
        self.tau_ns = arrival.tau_ns;
        self.unit *= 1.0 + 1.0 / memory;
        if self.unit > 1e100 {
            for shadow in &mut self.shadows {
                shadow.score /= self.unit;
            }
            self.unit = 1.0;
        }
        for at in 0..ALL_SHADOWS {
            self.run(at, arrival.at_ns, fleet);
        }
        self.since_ns = arrival.since_ns;
        self.admit(arrival, fleet, refuse);
        for at in 0..ALL_SHADOWS {
            self.start_idle(at, arrival.at_ns, fleet);
        }
    }

    fn admit(
        &mut self,
        arrival: Arrival,
        fleet: &ShadowFleet,
        refuse: impl Fn(&Standing, &Outlook, &Bars) -> bool,
    ) {
        self.until_sweep -= 1;
        if self.until_sweep == 0 {
            self.until_sweep = SWEEP_EVERY;
            let cost = fleet.cost.at_speed(fleet.speeds[0]);
            self.waiting.sweep(|waiting| {
                waiting.deadline_ns as f64 > arrival.at_ns as f64 + cost.of(waiting.units)
            });
        }
        let place = self.waiting.place(arrival.order);
        let is_refused = self.sheds(&arrival, place, fleet, refuse);
        self.waiting.insert(place, &arrival, is_refused.then_some(SHEDDING));
    }

    /// True if the shadow that sheds refuses an arrival that has this place in the list.
    fn sheds(
        &self,
        arrival: &Arrival,
        place: Place,
        fleet: &ShadowFleet,
        refuse: impl Fn(&Standing, &Outlook, &Bars) -> bool,
    ) -> bool {
        let ahead = self.waiting.ahead(place, arrival.units, fleet.fit_units);
        let devices = fleet.speeds.len();
        let busy_ns: f64 = self.shadows[SHEDDING].free_at_ns[..devices]
            .iter()
            .map(|free_at_ns| (free_at_ns - arrival.at_ns).max(0) as f64)
            .sum();
        let standing = Standing {
            at_ns: arrival.at_ns,
            since_ns: arrival.since_ns,
            slack_ns: (arrival.deadline_ns - arrival.at_ns) as f64,
            units: arrival.units,
            relative_key: arrival.relative_key,
            // Work to come and the load are those of the whole fleet.
            ahead: (ahead.0 / fleet.share, ahead.1 / fleet.share),
        };
        let outlook = Outlook {
            free_in_ns: busy_ns / devices as f64,
            speed: fleet.total_speed(),
            num_replicas: fleet.replicas() as u64,
        };
        (ahead.0 > 0.0 || busy_ns > 0.0) && refuse(&standing, &outlook, &self.bars)
    }

    /// Lets a shadow's devices work on what waits until `now_ns`.
    fn run(&mut self, at: usize, now_ns: i64, fleet: &ShadowFleet) {
        loop {
            let device = self.first_free(at, fleet);
            let start_ns = self.shadows[at].free_at_ns[device];
            if start_ns >= now_ns || !self.start(at, device, start_ns, fleet) {
                break;
            }
        }
        for free_at_ns in &mut self.shadows[at].free_at_ns {
            *free_at_ns = (*free_at_ns).max(now_ns);
        }
    }

    /// Starts devices that stand idle at `now_ns`.
    fn start_idle(&mut self, at: usize, now_ns: i64, fleet: &ShadowFleet) {
        for device in 0..fleet.speeds.len() {
            if self.shadows[at].free_at_ns[device] <= now_ns
                && !self.start(at, device, now_ns, fleet)
            {
                break;
            }
        }
    }

    fn first_free(&self, at: usize, fleet: &ShadowFleet) -> usize {
        let free = &self.shadows[at].free_at_ns;
        (0..fleet.speeds.len()).min_by_key(|device| free[*device]).unwrap_or(0)
    }

    /// Runs one batch; false if nothing can be served in time.
    fn start(&mut self, at: usize, device: usize, now_ns: i64, fleet: &ShadowFleet) -> bool {
        let cost = fleet.cost.at_speed(fleet.speeds[device]);
        let is_fast = device < fleet.num_fast;
        let quanta = self.shadows[at].quanta;
        let quantum_ns = if is_fast { quanta.fast_ns } else { quanta.slow_ns };
        let least_ratio = quanta.least_ratio;
        let most_hasty = hasty_allowed(fleet.speeds.len());
        let terms =
            Terms { cost: &cost, quantum_ns, least_ratio, limits: fleet.limits, most_hasty };
        let is_cut = self.gather(at, now_ns, &terms);
        let Some(choice) = choose(&self.candidates, &terms, &mut self.taken) else {
            return false;
        };
        if at == OPEN && is_fast {
            let need_ns = choice.predicted_ns * cost.margin * least_ratio;
            let bar = self.bar(now_ns, need_ns, is_cut);
            let log_gap = log_gap(now_ns, self.since_ns);
            self.bars.record(now_ns, &bar, log_gap, self.tau_ns, fleet.num_fast);
        }
        let wobble = 1.0 + cost.spread * 12f64.sqrt() * (self.noise.uniform() - 0.5);
        let took_ns = choice.predicted_ns * wobble.max(0.1);
        let shadow = &mut self.shadows[at];
        for taken in &self.taken {
            let candidate = self.candidates[*taken];
            self.waiting.leave(candidate.handle, at);
            let on_time = candidate.slack_ns >= took_ns;
            let weight = self.waiting.at(candidate.handle).weight;
            if on_time && at >= OPEN {
                self.served[at - OPEN] += weight;
            }
            if on_time {
                shadow.score += self.unit * weight;
            }
        }
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let took_ns = (took_ns as i64).max(1);
        shadow.free_at_ns[device] = now_ns + took_ns;
        true
    }

    /// The bar of the batch just chosen: the key that best tells its members from those who could
    /// have waited for it too, with the fewest units on the wrong side. `is_cut` says that there
    /// were more candidates than were looked at.
    fn bar(&self, now_ns: i64, need_ns: f64, is_cut: bool) -> Bar {
        let total: u64 = self.taken.iter().map(|at| self.candidates[*at].units).sum();
        let mut next_taken = self.taken.iter().copied().peekable();
        let (mut wrong, mut fewest, mut last_above, mut is_open) = (total, total, None, true);
        for (at, candidate) in self.candidates.iter().enumerate() {
            if next_taken.next_if_eq(&at).is_some() {
                wrong -= candidate.units;
            } else if candidate.slack_ns >= need_ns {
                // One large misfit says little of where the bar is.
                wrong += candidate.units.min(total / 4);
                is_open = false;
            }
            if wrong < fewest {
                (fewest, last_above) = (wrong, Some(at));
            }
        }
        let last = self.candidates.len() - 1;
        match last_above {
            _ if is_open && !is_cut => OPEN_BAR,
            _ if is_open => self.bar_between(last, last, now_ns),
            None => self.bar_between(0, 0, now_ns),
            Some(at) => self.bar_between(at, (at + 1).min(last), now_ns),
        }
    }

    fn bar_between(&self, above: usize, below: usize, now_ns: i64) -> Bar {
        let [above, below] = [above, below].map(|candidate| {
            let waiting = self.waiting.at(self.candidates[candidate].handle);
            let aged = (now_ns - waiting.at_ns) as f64 / self.tau_ns;
            Bar { relative_key: waiting.relative_key + aged, units: waiting.units }
        });
        let relative_key = 0.5 * (above.relative_key + below.relative_key);
        Bar { relative_key, units: u64::midpoint(above.units, below.units).max(1) }
    }

    /// Collects the best that wait in a shadow; true if there are more.
    fn gather(&mut self, at: usize, now_ns: i64, terms: &Terms) -> bool {
        let cost = terms.cost;
        let mut patience = Patience::new(terms, MAX_SKIPS);
        let most = usize::try_from(terms.limits.requests)
            .unwrap_or(MAX_CANDIDATES)
            .saturating_add(2 * MAX_SKIPS)
            .min(MAX_CANDIDATES);
        self.candidates.clear();
        for (handle, waiting) in self.waiting.of_shadow(at) {
            let slack_ns = waiting.deadline_ns as f64 - now_ns as f64;
            if slack_ns < cost.of(waiting.units) * cost.margin
                || !patience.takes(slack_ns, waiting.units)
            {
                continue;
            }
            self.candidates.push(Candidate {
                slack_ns,
                units: waiting.units,
                rows: waiting.rows,
                max_companions: u64::MAX,
                is_owed: false,
                handle,
            });
            if self.candidates.len() >= most {
                return true;
            }
        }
        false
    }
}
