//! The queue of one model version and the policy that turns it into batches.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::cost::BatchCost;
use super::floor::Floor;
use super::index::{Entry, KeyIndex, Load, Order};
use super::key::{AgeClock, KeyShape};
use super::mix::ArrivalMix;
use super::quantum::QuantumLearner;
use super::select::{choose, BatchLimits, Candidate, CloseReason, Terms, MAX_SKIPS};
use super::settings::PolicySettings;
use super::shed::{self, Outlook, Shedder, Standing};
use super::shadow::{Arrival, Quanta, ShadowFleet, MAX_DEVICES};

/// Slower than this share of the fastest replica counts as slow.
const SLOW_RATIO: f64 = 0.8;
/// Most candidates of one batch, whatever its limit.
const MAX_CANDIDATES: usize = 4096;
/// Further candidates looked at, so that misfits do not hide those behind them.
const EXTRA_CANDIDATES: usize = 4 * MAX_SKIPS;
/// Requests given a new key with each arrival, after the shape of the key has changed.
const REKEYS: usize = 4;
/// Without a measured batch for this long, what looks hopeless is tried all the same.
const STALE_AFTER_NS: i64 = 1_000_000_000;
const MIN_OBSERVATIONS: u64 = 4;
const REFRESH_EVERY: u64 = 128;
const LARGE_QUANTILE: f64 = 0.9;

/// Who a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Someone waits for it.
    Interactive,
    /// Takes what is left, within bounds both ways.
    Bulk,
}

/// A request, as the policy sees it.
#[derive(Clone, Copy, Debug)]
pub struct Item {
    /// The caller's own name for it, given back with the batch.
    pub slot: u32,
    /// Its work, >= 1.
    pub units: u64,
    /// Its rows, >= 1.
    pub rows: u32,
    /// Instant by which the answer must be there.
    pub deadline_ns: i64,
    /// Value of the answer, > 0.
    pub weight: f64,
    /// Lane.
    pub lane: Lane,
    /// 1 critical, 2 standard, 3 sheddable.
    pub priority: u8,
}

/// Where a request is in the policy; for `remove`.
pub type Handle = u32;

#[derive(Clone, Copy, Debug)]
struct Queued {
    item: Item,
    order: Order,
    last_start_ns: i64,
    epoch: u32,
    large: bool,
    live: bool,
}

/// A replica that a batch is wanted for.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Speed relative to the cost.
    pub speed: f64,
    /// What it takes.
    pub limits: BatchLimits,
}

/// A batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Formed {
    /// Why it ends where it does.
    pub reason: CloseReason,
    /// Predicted device time on the replica.
    pub predicted_ns: f64,
    /// Its work.
    pub units: u64,
    /// Its rows.
    pub rows: u64,
}

/// A request that is not taken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Refusal {
    /// When what is ahead of it will be done, from now.
    pub retry_after_ns: f64,
}

/// Queue and batch rule of one model version.
#[derive(Clone, Debug)]
pub struct BatchPolicy {
    settings: PolicySettings,
    slab: Vec<Queued>,
    free: Vec<Handle>,
    interactive: KeyIndex,
    bulk: KeyIndex,
    large: KeyIndex,
    last_starts: BinaryHeap<Reverse<(i64, Handle)>>,
    hopeless: Vec<u32>,
    clock: Option<AgeClock>,
    mix: ArrivalMix,
    shape: Option<KeyShape>,
    epoch: u32,
    cursor: usize,
    large_units: f64,
    floor_large: Floor,
    floor_bulk: Floor,
    learner: QuantumLearner,
    shedder: Shedder,
    fleet: ShadowFleet,
    cost: BatchCost,
    observations: u64,
    observed_at_ns: i64,
    candidates: Vec<Candidate>,
    taken: Vec<usize>,
}

impl BatchPolicy {
    /// An empty queue with a prior for the cost; `seed` only drives the shadows' noise.
    #[must_use]
    pub fn new(settings: PolicySettings, prior: BatchCost, seed: u64) -> Self {
        Self {
            settings,
            slab: Vec::new(),
            free: Vec::new(),
            interactive: KeyIndex::new(),
            bulk: KeyIndex::new(),
            large: KeyIndex::new(),
            last_starts: BinaryHeap::new(),
            hopeless: Vec::new(),
            clock: None,
            mix: ArrivalMix::default(),
            shape: None,
            epoch: 0,
            cursor: 0,
            large_units: f64::INFINITY,
            floor_large: Floor::new(settings.large_share),
            floor_bulk: Floor::new(settings.bulk_min_share),
            learner: QuantumLearner::new(seed),
            shedder: Shedder::default(),
            fleet: ShadowFleet {
                cost: prior,
                limits: BatchLimits::declared(0, 0, 0),
                speeds: vec![1.0],
                num_fast: 1,
            },
            cost: prior,
            observations: 0,
            observed_at_ns: 0,
            candidates: Vec::new(),
            taken: Vec::new(),
        }
    }

    /// Tells which replicas there are. Rare; O(replicas log replicas).
    pub fn set_fleet(&mut self, speeds: &[f64], limits: BatchLimits) {
        let mut speeds: Vec<f64> = speeds.to_vec();
        speeds.sort_unstable_by(|a, b| b.total_cmp(a));
        speeds.truncate(MAX_DEVICES);
        if speeds.is_empty() {
            speeds.push(1.0);
        }
        self.fleet.num_fast =
            speeds.iter().filter(|speed| **speed >= SLOW_RATIO * speeds[0]).count();
        self.fleet.speeds = speeds;
        self.fleet.limits = limits;
    }

    /// Queued requests and units.
    #[must_use]
    pub fn queued(&self) -> Load {
        let (a, b) = (self.interactive.total(), self.bulk.total());
        Load { requests: a.requests + b.requests, units: a.units + b.units }
    }

    /// Quanta in force.
    #[must_use]
    pub fn quanta(&self) -> Quanta {
        if self.settings.fixed_quantum_ns > 0.0 {
            let fixed = self.settings.fixed_quantum_ns;
            return Quanta { fast_ns: fixed, slow_ns: fixed };
        }
        self.learner.quanta()
    }

    /// The learner, for those who ask why.
    #[must_use]
    pub fn learner(&self) -> &QuantumLearner {
        &self.learner
    }

    /// The shedder, likewise.
    #[must_use]
    pub fn shedder(&self) -> &Shedder {
        &self.shedder
    }

    /// Takes the learned cost after a measured batch; `shifted` says that the device changed.
    pub fn observe(&mut self, now_ns: i64, took_ns: f64, cost: BatchCost, shifted: bool) {
        self.cost = cost;
        self.fleet.cost = cost;
        self.observations += 1;
        self.observed_at_ns = now_ns;
        self.shedder.batch_took(took_ns);
        if shifted {
            self.learner.shift();
            self.shedder.shift();
        }
    }

    /// Judges an arrival and learns from it; `Some` refuses it and says when to try again.
    ///
    /// Call it once for each request that comes, before `insert`. O(log n).
    pub fn judge(&mut self, now_ns: i64, item: &Item, outlook: &Outlook) -> Option<Refusal> {
        let weight = item.weight * self.priority_weight(item.priority);
        self.record(now_ns, item, weight);
        if item.lane == Lane::Bulk {
            return None;
        }
        let shape = self.shape_now();
        let tau_ns = shape.tau_ns();
        let clock = self.clock.unwrap_or_default();
        let slack_ns = item.deadline_ns as f64 - now_ns as f64;
        let key = clock.key(shape.density(weight, item.units), slack_ns, tau_ns);
        let order = Order::of(key);
        let terms = self.shed_terms(tau_ns);
        let least_ns = terms.cost.slope_ns * item.units as f64
            + terms.cost.intercept_ns / terms.max_requests;
        self.shedder.arrive(now_ns, least_ns, tau_ns);
        let ahead = self.interactive.ahead_of(order);
        let standing = Standing {
            slack_ns,
            units: item.units,
            relative_key: clock.relative(key),
            ahead: (ahead.requests as f64, ahead.units as f64),
        };
        let prospect = self.shedder.prospect(&standing, outlook, &terms);
        let refused = self.settings.shed_early
            && !self.interactive.is_empty()
            && !self.doubtful(now_ns)
            && self.shedder.refuses(&prospect, outlook.speed);
        if !refused {
            let units = item.units as f64;
            let work_ns = terms.cost.of_many(1.0, units, terms.quantum_ns, terms.max_requests);
            self.shedder.admit(standing.relative_key, work_ns);
        }
        let arrival = Arrival {
            at_ns: now_ns,
            order,
            deadline_ns: item.deadline_ns,
            units: item.units,
            rows: item.rows,
            weight,
            relative_key: standing.relative_key,
        };
        let shedder = &self.shedder;
        self.learner.arrive(arrival, &self.fleet, |standing, outlook| {
            shedder.refuses(&shedder.prospect(standing, outlook, &terms), outlook.speed)
        });
        refused.then_some(Refusal { retry_after_ns: prospect.clear_ns })
    }

    fn shed_terms(&self, tau_ns: f64) -> shed::Terms {
        shed::Terms {
            cost: self.cost,
            quantum_ns: self.quantum_for(self.fleet.speeds[0]),
            max_requests: self.max_requests(),
            tau_ns,
        }
    }

    /// Lets the shadows catch up, and the shedder learn from them.
    fn learn(&mut self, now_ns: i64) {
        let terms = self.shed_terms(self.mix.mean_deadline_ns());
        let shedder = &self.shedder;
        let served = self.learner.advance(now_ns, &self.mix, &self.fleet, |standing, outlook| {
            shedder.refuses(&shedder.prospect(standing, outlook, &terms), outlook.speed)
        });
        if let Some((arrivals, with, without)) = served {
            let speed = self.fleet.speeds.iter().sum();
            self.shedder.adjust(arrivals, with, without, speed);
        }
    }

    /// Queues a request. O(log n) amortised.
    pub fn insert(&mut self, now_ns: i64, item: Item) -> Handle {
        let weight = item.weight * self.priority_weight(item.priority);
        self.pass_time(now_ns);
        let shape = self.shape_now();
        let order = self.order_of(now_ns, &item, weight, &shape);
        let large = item.units as f64 >= self.large_units;
        let last_start_ns = self.last_start(&item);
        let queued = Queued { item, order, last_start_ns, epoch: self.epoch, large, live: true };
        let handle = self.free.pop().unwrap_or_else(|| {
            self.slab.push(queued);
            u32::try_from(self.slab.len() - 1).unwrap_or(u32::MAX)
        });
        self.slab[handle as usize] = queued;
        self.add_to_indices(handle);
        self.last_starts.push(Reverse((last_start_ns, handle)));
        self.trim_last_starts();
        for _ in 0..REKEYS {
            self.rekey_next(now_ns);
        }
        handle
    }

    /// Takes a request out, by its handle.
    pub fn remove(&mut self, handle: Handle) {
        if self.slab.get(handle as usize).is_some_and(|queued| queued.live) {
            self.detach(handle);
        }
    }

    /// Slots of requests that can no longer be served in time by any replica; they are out.
    pub fn take_hopeless(&mut self, now_ns: i64, out: &mut Vec<u32>) {
        self.drop_hopeless(now_ns);
        out.append(&mut self.hopeless);
    }

    /// Next instant after `now_ns` at which `take_hopeless` may have something.
    #[must_use]
    pub fn next_hopeless_ns(&self, now_ns: i64) -> Option<i64> {
        if !self.hopeless.is_empty() {
            return Some(now_ns);
        }
        let Reverse((last_start_ns, handle)) = self.last_starts.peek()?;
        if *last_start_ns < now_ns {
            return Some(self.slab[*handle as usize].item.deadline_ns.max(now_ns));
        }
        Some(last_start_ns + 1)
    }

    /// Forms a batch for a free replica; its members' slots go to `out` and leave the queue.
    pub fn form(&mut self, now_ns: i64, target: &Target, out: &mut Vec<u32>) -> Option<Formed> {
        self.learn(now_ns);
        self.drop_hopeless(now_ns);
        let cost = self.cost.at_speed(target.speed);
        let quantum_ns = self.quantum_for(target.speed);
        self.gather(now_ns, &cost, target, quantum_ns);
        let queued = self.queued();
        let terms = Terms { cost: &cost, quantum_ns, limits: target.limits };
        let chosen = choose(&self.candidates, &terms, &mut self.taken);
        let chosen = chosen.or_else(|| self.probe(now_ns, &cost, &target.limits))?;
        self.settle_floors(&cost, quantum_ns, (self.taken.len() as u64) < queued.requests);
        for at in 0..self.taken.len() {
            let handle = self.candidates[self.taken[at]].handle;
            out.push(self.slab[handle as usize].item.slot);
            self.detach(handle);
        }
        Some(Formed {
            reason: chosen.reason,
            predicted_ns: chosen.predicted_ns,
            units: chosen.units,
            rows: chosen.rows,
        })
    }

    fn priority_weight(&self, priority: u8) -> f64 {
        let at = usize::from(priority.clamp(1, 3)) - 1;
        self.settings.priority_weights[at]
    }

    fn quantum_for(&self, speed: f64) -> f64 {
        let quanta = self.quanta();
        let slow = speed < SLOW_RATIO * self.fleet.speeds[0];
        let quantum_ns = if slow { quanta.slow_ns } else { quanta.fast_ns };
        if quantum_ns > 0.0 {
            quantum_ns
        } else {
            f64::MAX
        }
    }

    fn pass_time(&mut self, now_ns: i64) {
        let clock = self.clock.get_or_insert(AgeClock::starting_at(now_ns));
        clock.advance(now_ns, self.mix.mean_deadline_ns());
    }

    fn max_requests(&self) -> f64 {
        self.fleet.limits.requests.min(MAX_CANDIDATES as u64) as f64
    }

    fn record(&mut self, now_ns: i64, item: &Item, weight: f64) {
        self.pass_time(now_ns);
        if item.lane == Lane::Interactive || self.mix.seen() == 0 {
            let slack_ns = item.deadline_ns.saturating_sub(now_ns).max(1) as f64;
            self.mix.record(slack_ns, weight, item.units);
            if self.mix.seen() % REFRESH_EVERY == 0 {
                self.large_units = self.mix.units_quantile(LARGE_QUANTILE);
            }
        }
    }

    /// The shape in force; a new epoch begins when cost or mix have drifted from it.
    fn shape_now(&mut self) -> KeyShape {
        let wanted = KeyShape::new(
            self.settings.alpha,
            &self.cost,
            self.max_requests(),
            self.mix.mean_units(),
            self.mix.mean_deadline_ns(),
        );
        match self.shape {
            Some(shape) if !shape.differs(&wanted) => shape,
            _ => {
                self.shape = Some(wanted);
                self.epoch = self.epoch.wrapping_add(1);
                self.cursor = self.slab.len();
                wanted
            }
        }
    }

    fn order_of(&self, now_ns: i64, item: &Item, weight: f64, shape: &KeyShape) -> Order {
        let slack_ns = item.deadline_ns as f64 - now_ns as f64;
        let density = shape.density(weight, item.units);
        let clock = self.clock.unwrap_or_default();
        Order::of(clock.key(density, slack_ns, shape.tau_ns()))
    }

    /// Gives the next queued request of an older epoch a key of this one. O(log n).
    fn rekey_next(&mut self, now_ns: i64) {
        let Some(at) = self.cursor.checked_sub(1) else { return };
        self.cursor = at;
        let queued = self.slab[at];
        let Some(shape) = self.shape else { return };
        if !queued.live || queued.epoch == self.epoch {
            return;
        }
        #[allow(clippy::cast_possible_truncation)]
        let handle = at as Handle;
        let weight = queued.item.weight * self.priority_weight(queued.item.priority);
        self.remove_from_indices(handle);
        self.slab[at].order = self.order_of(now_ns, &queued.item, weight, &shape);
        self.slab[at].epoch = self.epoch;
        self.add_to_indices(handle);
    }

    fn add_to_indices(&mut self, handle: Handle) {
        let queued = &self.slab[handle as usize];
        let entry = Entry { order: queued.order, handle, units: queued.item.units };
        match queued.item.lane {
            Lane::Interactive => self.interactive.insert(entry),
            Lane::Bulk => self.bulk.insert(entry),
        }
        if queued.large {
            self.large.insert(entry);
        }
    }

    fn remove_from_indices(&mut self, handle: Handle) {
        let queued = &self.slab[handle as usize];
        match queued.item.lane {
            Lane::Interactive => self.interactive.remove(queued.order, handle),
            Lane::Bulk => self.bulk.remove(queued.order, handle),
        };
        if queued.large {
            self.large.remove(queued.order, handle);
        }
    }

    fn detach(&mut self, handle: Handle) {
        self.remove_from_indices(handle);
        self.slab[handle as usize].live = false;
        self.free.push(handle);
    }

    /// Last instant at which the fastest replica could start on it alone.
    fn last_start(&self, item: &Item) -> i64 {
        let cost = self.cost.at_speed(self.fleet.speeds[0]);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let needed_ns = (cost.of(item.units) * cost.margin) as i64;
        item.deadline_ns.saturating_sub(needed_ns)
    }

    /// True if the cost rests on too little, or too old, evidence to refuse anything by it.
    fn doubtful(&self, now_ns: i64) -> bool {
        self.observations < MIN_OBSERVATIONS
            || now_ns.saturating_sub(self.observed_at_ns) > STALE_AFTER_NS
    }

    fn drop_hopeless(&mut self, now_ns: i64) {
        while let Some(Reverse((last_start_ns, handle))) = self.last_starts.peek().copied() {
            if last_start_ns >= now_ns {
                break;
            }
            let queued = self.slab[handle as usize];
            let current = queued.live && queued.last_start_ns == last_start_ns;
            if current && self.doubtful(now_ns) && queued.item.deadline_ns > now_ns {
                break;
            }
            self.last_starts.pop();
            if !current {
                continue;
            }
            let last_start_ns = self.last_start(&queued.item);
            if last_start_ns >= now_ns {
                self.slab[handle as usize].last_start_ns = last_start_ns;
                self.last_starts.push(Reverse((last_start_ns, handle)));
            } else {
                self.hopeless.push(queued.item.slot);
                self.detach(handle);
            }
        }
    }

    /// The heap keeps entries of requests that are gone; at twice the queue they are dropped.
    fn trim_last_starts(&mut self) {
        let live = self.slab.len() - self.free.len();
        if self.last_starts.len() > 2 * live + 64 {
            let slab = &self.slab;
            self.last_starts.retain(|Reverse((at_ns, handle))| {
                let queued = &slab[*handle as usize];
                queued.live && queued.last_start_ns == *at_ns
            });
        }
    }

    /// Collects the candidates: what the floors owe, then both lanes in key order.
    fn gather(&mut self, now_ns: i64, cost: &BatchCost, target: &Target, quantum_ns: f64) {
        self.candidates.clear();
        self.gather_owed(now_ns, cost, quantum_ns);
        let owed = self.candidates.len();
        let most = usize::try_from(target.limits.requests)
            .unwrap_or(MAX_CANDIDATES)
            .saturating_add(EXTRA_CANDIDATES)
            .min(MAX_CANDIDATES);
        let bulk_room_ns = self.bulk_room(quantum_ns - cost.intercept_ns);
        let mut bulk_ns = 0.0;
        let mut first = self.interactive.iter().peekable();
        let mut second = self.bulk.iter().peekable();
        while self.candidates.len() < most + owed {
            let bulk = match (first.peek(), second.peek()) {
                (Some(a), Some(b)) => b.order < a.order,
                (Some(_), None) => false,
                (None, Some(_)) => true,
                (None, None) => break,
            };
            let Some(entry) = (if bulk { second.next() } else { first.next() }) else { break };
            if bulk {
                bulk_ns += cost.slope_ns * entry.units as f64;
                if bulk_ns > bulk_room_ns {
                    continue;
                }
            }
            let queued = &self.slab[entry.handle as usize];
            let slack_ns = queued.item.deadline_ns as f64 - now_ns as f64;
            if slack_ns < cost.of(entry.units) * cost.margin
                || self.candidates[..owed].iter().any(|other| other.handle == entry.handle)
            {
                continue;
            }
            self.candidates.push(Candidate {
                slack_ns,
                units: entry.units,
                rows: queued.item.rows,
                owed: false,
                handle: entry.handle,
            });
        }
    }

    /// Device time that bulk work may take of a batch while interactive work waits.
    fn bulk_room(&self, room_ns: f64) -> f64 {
        if self.interactive.is_empty() {
            f64::MAX
        } else {
            self.settings.bulk_max_share * room_ns
        }
    }

    fn gather_owed(&mut self, now_ns: i64, cost: &BatchCost, quantum_ns: f64) {
        for (index, floor) in [(&self.large, &self.floor_large), (&self.bulk, &self.floor_bulk)] {
            let mut left_ns = floor.owed_ns();
            for entry in index.iter().take(MAX_SKIPS) {
                let run_ns = cost.slope_ns * entry.units as f64;
                let queued = &self.slab[entry.handle as usize];
                let slack_ns = queued.item.deadline_ns as f64 - now_ns as f64;
                let fits = run_ns <= left_ns
                    && slack_ns >= quantum_ns * cost.margin
                    && cost.of(entry.units) <= quantum_ns;
                if !fits || self.candidates.iter().any(|other| other.handle == entry.handle) {
                    continue;
                }
                left_ns -= run_ns;
                self.candidates.push(Candidate {
                    slack_ns,
                    units: entry.units,
                    rows: queued.item.rows,
                    owed: true,
                    handle: entry.handle,
                });
            }
        }
    }

    /// When nothing looks feasible, on evidence too thin or too old to trust: try the best alone.
    fn probe(
        &mut self,
        now_ns: i64,
        cost: &BatchCost,
        limits: &BatchLimits,
    ) -> Option<super::select::Choice> {
        if !self.doubtful(now_ns) {
            return None;
        }
        let fits = |entry: &&Entry| {
            let item = &self.slab[entry.handle as usize].item;
            item.deadline_ns > now_ns
                && item.units <= limits.units
                && u64::from(item.rows) <= limits.rows
        };
        let mut entries = self.interactive.iter().chain(self.bulk.iter()).take(MAX_SKIPS);
        let entry = *entries.find(fits)?;
        let item = self.slab[entry.handle as usize].item;
        self.observed_at_ns = now_ns;
        self.candidates.clear();
        self.candidates.push(Candidate {
            slack_ns: item.deadline_ns as f64 - now_ns as f64,
            units: item.units,
            rows: item.rows,
            owed: false,
            handle: entry.handle,
        });
        self.taken.clear();
        self.taken.push(0);
        Some(super::select::Choice {
            reason: CloseReason::Deadline,
            predicted_ns: cost.of(item.units),
            units: item.units,
            rows: u64::from(item.rows),
        })
    }

    fn settle_floors(&mut self, cost: &BatchCost, quantum_ns: f64, left_behind: bool) {
        let (mut large_ns, mut bulk_ns) = (0.0, 0.0);
        for at in &self.taken {
            let queued = &self.slab[self.candidates[*at].handle as usize];
            let run_ns = cost.slope_ns * queued.item.units as f64;
            if queued.large {
                large_ns += run_ns;
            }
            if queued.item.lane == Lane::Bulk {
                bulk_ns += run_ns;
            }
        }
        let room_ns = (quantum_ns.min(1e15) - cost.intercept_ns).max(0.0);
        self.floor_large.settle(large_ns, room_ns, left_behind && !self.large.is_empty());
        self.floor_bulk.settle(bulk_ns, room_ns, left_behind && !self.bulk.is_empty());
    }
}
