//! The batch policy of Headway: value per device time, under a quantum that is learned.

use super::cost::BatchCost;
use super::floor::Floor;
use super::gather::MAX_CANDIDATES;
use super::index::Order;
use super::key::{AgeClock, KeyShape};
use super::mix::ArrivalMix;
use super::price::{offered_per_s, Earnings, Price};
use super::quantum::QuantumLearner;
use super::queue::{Queue, Queued, NUM_LOW};
use super::select::Candidate;
use super::settings::PolicySettings;
use super::shadow::{Quanta, ShadowFleet, MAX_DEVICES};
use super::shed::Shedder;
use crate::batch::{BatchPolicy, Fleet, Formed, Item, Lane, Limits, Outlook, Priority, Shed, Site};
use crate::check::to_ns;
use crate::cost::Affine;

mod forming;
mod judging;

/// Slower than this share of the fastest replica counts as slow.
const SLOW_RATIO: f64 = 0.8;
/// Requests given a new key with each arrival, after the shape of the key has changed.
const REKEYS: u32 = 4;
/// Without an ended batch for this long, or before this many, nothing is given up as hopeless.
const STALE_AFTER_NS: i64 = 1_000_000_000;
const MIN_OBSERVATIONS: u64 = 4;
/// Arrivals between two looks at which sizes are the largest tenth.
const REFRESH_EVERY: u64 = 128;
const LARGE_QUANTILE: f64 = 0.9;
/// Share of device time that a class has while higher ones fill the batches: what keeps a steady
/// stream of them from starving it, at a price that they hardly feel.
const LOW_CLASS_SHARE: f64 = 0.02;
/// Weight of the newest quantile in the margin that deadlines are judged with.
const MARGIN_STEP: f64 = 0.05;

/// Queue and batch rule of one model version.
///
/// Requests wait in the order of a static key. A batch takes them in that order, as far as each
/// member can wait for a batch of the quantum's length; see `select`. The quantum is learned by
/// shadow schedulers; see `quantum`. Arrivals that will not be served are refused; see `shed`.
#[derive(Debug, Clone)]
pub struct ValuePolicy {
    settings: PolicySettings,
    queue: Queue,
    clock: Option<AgeClock>,
    mix: ArrivalMix,
    shape: Option<KeyShape>,
    epoch: u32,
    /// Handles below it may still have a key of an older shape.
    to_rekey: u32,
    large_units: f64,
    floor_large: Floor,
    floor_bulk: Floor,
    floors_low: [Floor; NUM_LOW],
    learner: QuantumLearner,
    shedder: Shedder,
    earnings: Earnings,
    fleet: ShadowFleet,
    /// What the shadow fleet is owed of the arrivals.
    shadow_credit: f64,
    observations: u64,
    observed_at_ns: i64,
    candidates: Vec<Candidate>,
    taken: Vec<usize>,
}

impl ValuePolicy {
    /// An empty queue; `seed` drives the noise of the shadow devices.
    #[must_use]
    pub fn new(settings: PolicySettings, seed: u64) -> Self {
        let unknown = Affine { fixed_ns: 0.0, unit_ns: 0.0 };
        Self {
            settings,
            queue: Queue::default(),
            clock: None,
            mix: ArrivalMix::default(),
            shape: None,
            epoch: 0,
            to_rekey: 0,
            large_units: f64::INFINITY,
            floor_large: Floor::new(settings.large_share),
            floor_bulk: Floor::new(settings.bulk_share),
            floors_low: [Floor::new(LOW_CLASS_SHARE); NUM_LOW],
            learner: QuantumLearner::new(seed),
            shedder: Shedder::default(),
            earnings: Earnings::default(),
            fleet: ShadowFleet {
                cost: BatchCost::new(&unknown, &unknown),
                limits: Limits { requests: u64::MAX, rows: u64::MAX, units: u64::MAX },
                speeds: vec![1.0],
                num_fast: 1,
                share: 1.0,
                fit_units: u64::MAX,
            },
            shadow_credit: 0.0,
            observations: 0,
            observed_at_ns: 0,
            candidates: Vec::new(),
            taken: Vec::new(),
        }
    }

    /// Quanta in force.
    #[must_use]
    pub fn quanta(&self) -> Quanta {
        let fixed_ns = self.settings.fixed_quantum_ns;
        if fixed_ns > 0.0 {
            return Quanta { fast_ns: fixed_ns, slow_ns: fixed_ns, ..Quanta::default() };
        }
        self.learner.quanta()
    }

    /// The quantum learner, for those who ask why.
    #[must_use]
    pub fn learner(&self) -> &QuantumLearner {
        &self.learner
    }

    /// The shedder, likewise.
    #[must_use]
    pub fn shedder(&self) -> &Shedder {
        &self.shedder
    }

    fn weight(&self, item: &Item) -> f64 {
        let [critical, standard, sheddable] = self.settings.priority_weights;
        item.weight
            * match item.priority {
                Priority::Critical => critical,
                Priority::Standard => standard,
                Priority::Sheddable => sheddable,
            }
    }

    /// Worth of an answer in time.
    fn value(&self, item: &Item) -> f64 {
        self.weight(item) * (item.units as f64).powf(self.settings.alpha)
    }

    fn quantum_for(&self, speed: f64) -> f64 {
        let quanta = self.quanta();
        let is_slow = speed < SLOW_RATIO * self.fleet.speeds[0];
        let quantum_ns = if is_slow { quanta.slow_ns } else { quanta.fast_ns };
        if quantum_ns > 0.0 {
            quantum_ns
        } else {
            f64::MAX
        }
    }

    fn max_requests(&self) -> f64 {
        self.fleet.limits.requests.min(MAX_CANDIDATES as u64) as f64
    }

    fn pass_time(&mut self, now_ns: i64) -> AgeClock {
        let tau_ns = self.mix.mean_deadline_ns();
        let clock = self.clock.get_or_insert(AgeClock::starting_at(now_ns));
        clock.advance(now_ns, tau_ns);
        *clock
    }

    /// Counts an arrival. Bulk work has no say in what is urgent, unless there is nothing else.
    fn record(&mut self, now_ns: i64, item: &Item) {
        if item.lane == Lane::Interactive || self.mix.seen() == 0 {
            let slack_ns = item.deadline_ns.saturating_sub(now_ns).max(1) as f64;
            self.mix.record(slack_ns, self.weight(item), item.units);
            if self.mix.seen().is_multiple_of(REFRESH_EVERY) {
                self.large_units = self.mix.units_quantile(LARGE_QUANTILE);
            }
        }
    }

    /// The shape in force; a new epoch begins when cost or mix have drifted from it.
    #[allow(clippy::cast_possible_truncation)] // handles are u32
    fn shape_now(&mut self) -> KeyShape {
        let wanted = KeyShape::new(
            self.settings.alpha,
            &self.fleet.cost,
            self.max_requests(),
            self.mix.mean_units(),
            self.mix.mean_deadline_ns(),
        );
        match self.shape {
            Some(shape) if !shape.differs(&wanted) => shape,
            last => {
                let shift = last
                    .map(|last| move |units| wanted.density(1.0, units) - last.density(1.0, units));
                self.learner.reshape(shift);
                self.shape = Some(wanted);
                self.epoch = self.epoch.wrapping_add(1);
                self.to_rekey = self.queue.capacity() as u32;
                wanted
            }
        }
    }

    fn key(&self, now_ns: i64, item: &Item, shape: &KeyShape, clock: &AgeClock) -> f64 {
        let slack_ns = item.deadline_ns as f64 - now_ns as f64;
        clock.key(shape.density(self.weight(item), item.units), slack_ns, shape.tau_ns())
    }

    /// Gives queued requests of an older epoch keys of this one, a few at a time. O(log n).
    fn rekey_some(&mut self, now_ns: i64, shape: &KeyShape, clock: &AgeClock) {
        for _ in 0..REKEYS.min(self.to_rekey) {
            self.to_rekey -= 1;
            let Some(queued) = self.queue.get(self.to_rekey) else { continue };
            if queued.epoch != self.epoch {
                let key = self.key(now_ns, &queued.item, shape, clock);
                self.queue.move_to(self.to_rekey, Order::of(key), self.epoch);
            }
        }
    }

    /// Last instant at which the fastest replica could start on it alone.
    fn last_start(&self, item: &Item) -> i64 {
        let cost = self.fleet.cost.at_speed(self.fleet.speeds[0]);
        item.deadline_ns.saturating_sub(to_ns(cost.of(item.units) * cost.margin))
    }

    /// True if the cost rests on too little, or too old, evidence to give anything up by it.
    fn is_doubtful(&self, now_ns: i64) -> bool {
        self.observations < MIN_OBSERVATIONS
            || now_ns.saturating_sub(self.observed_at_ns) > STALE_AFTER_NS
    }
}

impl BatchPolicy for ValuePolicy {
    fn judge(&mut self, now_ns: i64, item: &Item, outlook: &Outlook) -> Option<Shed> {
        self.judge_arrival(now_ns, item, outlook)
    }

    fn configure(&mut self, settings: &PolicySettings) {
        self.settings = *settings;
        self.floor_large = Floor::new(settings.large_share);
        self.floor_bulk = Floor::new(settings.bulk_share);
        self.shape = None;
    }

    fn set_fleet(&mut self, fleet: &Fleet<'_>) {
        let fresh = BatchCost::new(&fleet.expected, &fleet.judged);
        // An empirical quantile jumps with each batch, and the margin need not.
        self.fleet.cost = fresh.with_margin(
            self.fleet.cost.margin + MARGIN_STEP * (fresh.margin - self.fleet.cost.margin),
        );
        self.fleet.limits = fleet.limits;
        let total: f64 = fleet.speeds.iter().sum();
        self.fleet.speeds.clear();
        let most = fleet.speeds.len().min(MAX_DEVICES);
        // Of a large fleet some of each speed, the fastest and the slowest among them.
        let step = fleet.speeds.len().saturating_sub(1) as f64 / (most.max(2) - 1) as f64;
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // below speeds.len()
        let sampled = (0..most).map(|at| fleet.speeds[(at as f64 * step).round() as usize]);
        self.fleet.speeds.extend(sampled);
        if self.fleet.speeds.is_empty() {
            self.fleet.speeds.push(1.0);
        }
        let fastest = self.fleet.speeds[0];
        self.fleet.num_fast =
            self.fleet.speeds.iter().filter(|speed| **speed >= SLOW_RATIO * fastest).count();
        let whole = fleet.total_speed.max(total).max(f64::MIN_POSITIVE);
        let shadowed: f64 = self.fleet.speeds.iter().sum();
        self.fleet.share = if total > 0.0 { (shadowed / whole).min(1.0) } else { 1.0 };
    }

    fn observe(&mut self, now_ns: i64, device_ns: f64, is_changed: bool) {
        self.observations += 1;
        self.observed_at_ns = now_ns;
        if device_ns > 0.0 {
            self.shedder.batch_took(device_ns);
        }
        if is_changed {
            self.learner.shift();
            self.shedder.shift();
        }
    }

    fn insert(&mut self, now_ns: i64, slot: u32, item: &Item) {
        let clock = self.pass_time(now_ns);
        let shape = self.shape_now();
        let key = self.key(now_ns, item, &shape, &clock);
        self.queue.insert(Queued {
            slot,
            relative_key: clock.relative(key),
            item: *item,
            order: Order::of(key),
            last_start_ns: self.last_start(item),
            epoch: self.epoch,
            is_large: item.units as f64 >= self.large_units,
            is_long: item.lane == Lane::Interactive && item.units > self.fleet.fit_units,
            low: None,
        });
        self.rekey_some(now_ns, &shape, &clock);
    }

    fn remove(&mut self, slot: u32, _item: &Item) {
        self.queue.remove_slot(slot);
    }

    fn take_hopeless(&mut self, now_ns: i64, out: &mut Vec<u32>) {
        while let Some(queued) = self.queue.overdue(now_ns) {
            let last_start_ns = self.last_start(&queued.item);
            if last_start_ns >= now_ns {
                self.queue.postpone(queued.slot, last_start_ns);
            } else if self.is_doubtful(now_ns) && queued.item.deadline_ns > now_ns {
                break;
            } else {
                self.queue.remove_slot(queued.slot);
                if queued.item.lane == Lane::Interactive {
                    self.shedder.lose(self.fleet.total_speed());
                }
                out.push(queued.slot);
            }
        }
    }

    fn next_hopeless_ns(&self, now_ns: i64) -> Option<i64> {
        let (last_start_ns, deadline_ns) = self.queue.next_due()?;
        let given_up_at_ns = last_start_ns.saturating_add(1);
        let is_kept = last_start_ns < now_ns || self.is_doubtful(now_ns);
        Some(if is_kept { deadline_ns.max(now_ns) } else { given_up_at_ns })
    }

    fn form(&mut self, site: &Site, out: &mut Vec<u32>) -> Formed {
        self.form_batch(site, out)
    }

    fn probe(&mut self, site: &Site) -> Option<u32> {
        let entries = self.queue.interactive.iter().chain(self.queue.bulk.iter());
        let fits = entries.take(MAX_CANDIDATES).find(|entry| {
            self.queue.get(entry.handle).is_some_and(|queued| {
                queued.item.deadline_ns > site.now_ns
                    && queued.item.units <= site.limits.units
                    && queued.item.rows <= site.limits.rows
            })
        });
        let handle = fits?.handle;
        self.queue.remove(handle).map(|queued| queued.slot)
    }

    fn work_ns(&self, _now_ns: i64, cost: &Affine, limits: &Limits) -> f64 {
        let load = self.queue.total();
        let run_ns = cost.unit_ns * load.units as f64;
        let room_ns = (self.quantum_for(self.fleet.speeds[0]) - cost.fixed_ns).max(1.0);
        let by_count = load.requests.div_ceil(limits.requests);
        let batches = by_count.max(load.units.div_ceil(limits.units)) as f64;
        run_ns + cost.fixed_ns * batches.max(run_ns / room_ns)
    }

    fn price(&self, item: &Item) -> Price {
        let cost = &self.fleet.cost;
        let device_ns = cost.intercept_ns / self.max_requests() + cost.slope_ns * item.units as f64;
        Price {
            offered_per_s: offered_per_s(self.value(item), device_ns),
            earned_per_s: self.earnings.per_s(),
        }
    }

    fn quantum_ns(&self) -> i64 {
        to_ns(self.quanta().fast_ns)
    }
}
