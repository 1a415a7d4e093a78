//! Shadow schedulers: the same batch rule with other quanta, on virtual devices.
//!
//! All shadows share one sorted list of recent arrivals; a bit for each shadow says whether the
//! request still waits there. A request is thus inserted once, and a shadow's batch reads the top
//! of the list.

use super::cost::BatchCost;
use super::index::Order;
use super::select::{choose, Candidate, Terms, MAX_SKIPS};
use super::shed::Standing;
use crate::batch::{Limits, Outlook};
use crate::rng::Rng;

/// Shadows that run side by side.
pub const SHADOWS: usize = 16;
/// Two more run with the quanta in force: one refuses nothing, one refuses as the real queue does.
const OPEN: usize = SHADOWS;
const SHEDDING: usize = SHADOWS + 1;
const ALL_SHADOWS: usize = SHADOWS + 2;
/// Devices that a shadow fleet has at most; larger fleets are fed a share of the arrivals.
pub const MAX_DEVICES: usize = 8;
/// Requests remembered; beyond it the lowest key is forgotten.
const MAX_WAITING: usize = 512;
/// Most requests that a shadow's batch considers.
const MAX_CANDIDATES: usize = 256;
const SWEEP_EVERY: u32 = 64;
const ALL: u32 = u32::MAX;
const ALL_BUT_SHEDDING: u32 = ALL & !(1 << SHEDDING);
/// Until a sweep, requests that no shadow has keep these bits.
const UNUSED: u32 = ALL << ALL_SHADOWS;

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
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    arrival: Arrival,
    shadows: u32,
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

/// What the shadow devices are like.
#[derive(Clone, Debug)]
pub struct ShadowFleet {
    /// Cost at speed 1.
    pub cost: BatchCost,
    /// Limits of one batch.
    pub limits: Limits,
    /// Speeds, fastest first; 1 to `MAX_DEVICES` of them.
    pub speeds: Vec<f64>,
    /// How many of them count as fast.
    pub num_fast: usize,
}

/// The shadows and what waits in them.
#[derive(Clone, Debug)]
pub struct ShadowBank {
    waiting: Vec<Waiting>,
    shadows: [Shadow; ALL_SHADOWS],
    noise: Rng,
    /// Weight that an on-time answer adds now; grows instead of old scores shrinking.
    unit: f64,
    until_sweep: u32,
    fed: f64,
    served: [f64; 2],
    candidates: Vec<Candidate>,
    taken: Vec<usize>,
}

impl ShadowBank {
    /// Empty shadows, all with the same quanta.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            waiting: Vec::new(),
            shadows: std::array::from_fn(|_| Shadow::default()),
            noise: Rng::new(seed),
            unit: 1.0,
            until_sweep: SWEEP_EVERY,
            fed: 0.0,
            served: [0.0; 2],
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
        refuse: impl Fn(&Standing, &Outlook) -> bool,
    ) {
        self.fed += 1.0;
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
        self.admit(arrival, fleet, refuse);
        for at in 0..ALL_SHADOWS {
            self.start_idle(at, arrival.at_ns, fleet);
        }
    }

    fn admit(
        &mut self,
        arrival: Arrival,
        fleet: &ShadowFleet,
        refuse: impl Fn(&Standing, &Outlook) -> bool,
    ) {
        self.until_sweep -= 1;
        if self.until_sweep == 0 {
            self.until_sweep = SWEEP_EVERY;
            let cost = fleet.cost.at_speed(fleet.speeds[0]);
            self.waiting.retain(|entry| {
                entry.shadows != UNUSED
                    && entry.arrival.deadline_ns as f64
                        > arrival.at_ns as f64 + cost.of(entry.arrival.units)
            });
        }
        let at = self.waiting.partition_point(|entry| entry.arrival.order <= arrival.order);
        if self.waiting.len() >= MAX_WAITING {
            if at == self.waiting.len() {
                return;
            }
            self.waiting.pop();
        }
        let refused = self.sheds(&arrival, at, fleet, refuse);
        let shadows = if refused { ALL_BUT_SHEDDING } else { ALL };
        self.waiting.insert(at, Waiting { arrival, shadows });
    }

    /// True if the shadow that sheds refuses an arrival whose place in the list is `at`.
    fn sheds(
        &self,
        arrival: &Arrival,
        at: usize,
        fleet: &ShadowFleet,
        refuse: impl Fn(&Standing, &Outlook) -> bool,
    ) -> bool {
        let (mut requests, mut units) = (0.0, 0.0);
        for entry in &self.waiting[..at] {
            if entry.shadows & (1 << SHEDDING) != 0 {
                requests += 1.0;
                units += entry.arrival.units as f64;
            }
        }
        let devices = fleet.speeds.len();
        let busy_ns: f64 = self.shadows[SHEDDING].free_at_ns[..devices]
            .iter()
            .map(|free_at_ns| (free_at_ns - arrival.at_ns).max(0) as f64)
            .sum();
        let standing = Standing {
            slack_ns: (arrival.deadline_ns - arrival.at_ns) as f64,
            units: arrival.units,
            relative_key: arrival.relative_key,
            ahead: (requests, units),
        };
        let outlook = Outlook {
            free_in_ns: busy_ns / devices as f64,
            speed: fleet.speeds.iter().sum(),
            num_replicas: devices as u64,
        };
        (requests > 0.0 || busy_ns > 0.0) && refuse(&standing, &outlook)
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
        self.gather(at, now_ns, &cost, &fleet.limits);
        let shadow = &mut self.shadows[at];
        let quantum_ns =
            if device < fleet.num_fast { shadow.quanta.fast_ns } else { shadow.quanta.slow_ns };
        let least_ratio = shadow.quanta.least_ratio;
        let terms = Terms { cost: &cost, quantum_ns, least_ratio, limits: fleet.limits };
        let Some(choice) = choose(&self.candidates, &terms, &mut self.taken) else {
            return false;
        };
        let wobble = 1.0 + cost.spread * 12f64.sqrt() * (self.noise.uniform() - 0.5);
        let took_ns = choice.predicted_ns * wobble.max(0.1);
        for taken in &self.taken {
            let candidate = self.candidates[*taken];
            let entry = &mut self.waiting[candidate.handle as usize];
            entry.shadows &= !(1 << at);
            let on_time = candidate.slack_ns >= took_ns;
            if on_time && at >= OPEN {
                self.served[at - OPEN] += entry.arrival.weight;
            }
            if on_time {
                shadow.score += self.unit * entry.arrival.weight;
            }
        }
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let took_ns = (took_ns as i64).max(1);
        shadow.free_at_ns[device] = now_ns + took_ns;
        true
    }

    /// Collects the best that wait in a shadow.
    fn gather(&mut self, at: usize, now_ns: i64, cost: &BatchCost, limits: &Limits) {
        let bit = 1u32 << at;
        let most = usize::try_from(limits.requests)
            .unwrap_or(MAX_CANDIDATES)
            .saturating_add(2 * MAX_SKIPS)
            .min(MAX_CANDIDATES);
        self.candidates.clear();
        for (handle, entry) in self.waiting.iter().enumerate() {
            if entry.shadows & bit == 0 {
                continue;
            }
            let arrival = &entry.arrival;
            let slack_ns = arrival.deadline_ns as f64 - now_ns as f64;
            if slack_ns < cost.of(arrival.units) * cost.margin {
                continue;
            }
            self.candidates.push(Candidate {
                slack_ns,
                units: arrival.units,
                rows: arrival.rows,
                max_companions: u64::MAX,
                is_owed: false,
                #[allow(clippy::cast_possible_truncation)]
                handle: handle as u32,
            });
            if self.candidates.len() >= most {
                break;
            }
        }
    }
}
