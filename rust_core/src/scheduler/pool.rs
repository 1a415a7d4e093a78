//! One pool: the queue of a model version, and what is known of its fleet.
mod fleet;

use std::collections::BTreeSet;

use crate::batch::{default_policy, BatchPolicy, Fleet, Item, Outlook, Site};
use crate::breaker::{BreakerState, Outcomes};
use crate::check::to_ns;
use crate::cost::{Affine, CostModel};
use crate::hedge::HedgeBook;
use crate::limiter::GradientLimiter;
use crate::p2c::EligibleIndex;
use crate::retry::RetryBudget;
use crate::tree::OrderTree;

use super::displace::Displaceable;
use super::envelope::Envelope;
use super::outputs::Lanes;
use super::replica::Replica;
use super::speed::STEPS;
use super::tenancy::Classes;

/// Share of batches that stay within the device time by which deadlines are judged.
///
/// At 8 % and at 20 % of noise the margin that it gives is the best of a sweep: a wider one gives
/// up more requests that would have been in time than it saves.
const JUDGED_QUANTILE: f64 = 2.0 / 3.0;
/// A pool that ran nothing for so long may try what looks infeasible, once in so long.
pub(super) const PROBE_INTERVAL_NS: i64 = 1_000_000_000;
/// How fast the ratio of counted to estimated units, and what residuals have in common, follow.
const RATIO_GAIN: f64 = 0.1;
const COMMON_GAIN: f64 = 0.2;
/// Replicas at least this fast, relative to the fastest, teach the cost model.
const REFERENCE_RATIO: f64 = 0.8;
/// Batches before unlike speeds are looked for: a fit of a few would put its own error on them.
const SPEED_OBSERVATIONS: u64 = 24;
/// Batches before slow replicas no longer teach the cost model.
const SURE_OBSERVATIONS: u64 = 72;
/// Speeds that the policy hears of at most.
const TOLD_SPEEDS: usize = 8;
/// Estimates may be off by this factor at most.
const MAX_UNIT_RATIO: f64 = 64.0;

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Backlog {
    pub requests: u64,
    pub units: u64,
    pub rows: u64,
}

#[derive(Debug)]
pub(super) struct Pool {
    pub policy: Box<dyn BatchPolicy>,
    pub cost: CostModel,
    pub max_queued_requests: u64,
    pub max_queued_units: u64,
    pub queued: Backlog,
    pub executing_batches: u64,
    pub executing_requests: u64,
    pub limiter: Option<GradientLimiter>,
    /// Parts of the limit kept for critical and standard requests.
    pub reserved: [f64; 2],
    pub classes: Classes,
    pub displaceable: Displaceable,
    pub lanes: Lanes,
    pub num_replicas: usize,
    pub eligible: EligibleIndex,
    /// Eligible replicas by speed.
    eligible_speeds: BTreeSet<(u32, u32)>,
    /// Replicas that are or will be able to take batches, by speed.
    capacity_speeds: BTreeSet<(u32, u32)>,
    pub resting: BTreeSet<(i64, u32)>,
    /// Replicas shut out, by when that ends.
    pub open: BTreeSet<(i64, u32)>,
    /// Replicas that wait for a probe.
    pub probing: BTreeSet<u32>,
    /// Replicas that may, or may no longer, be given their next batch while executing, by when.
    pub pipes: BTreeSet<(i64, u32)>,
    /// Ready replicas that are shut out or on probation.
    pub num_ejected: u64,
    /// How the last executions ended, over all replicas.
    pub outcomes: Outcomes,
    pub retries: RetryBudget,
    pub hedges: HedgeBook,
    /// Batches by when they are late enough for a copy.
    pub hedge_due: BTreeSet<(i64, u64)>,
    latencies: OrderTree<(u64, u32), ()>,
    pub envelope: Envelope,
    pub ready_replicas: u64,
    pub free_slots: u64,
    ready_speed_steps: u64,
    working: u64,
    working_until_sum_ns: i128,
    /// Units as counted over units as estimated.
    unit_ratio: Option<f64>,
    common_log: f64,
    /// Until when what waits is not given to a slow replica.
    pub declined_until_ns: Option<i64>,
    pub last_run_ns: Option<i64>,
    pub last_probe_ns: Option<i64>,
}

impl Pool {
    pub(super) fn new(prior: Affine, max_queued_requests: u64, max_queued_units: u64) -> Self {
        let mut pool = Self {
            policy: default_policy(),
            cost: CostModel::new(prior),
            max_queued_requests,
            max_queued_units,
            queued: Backlog::default(),
            executing_batches: 0,
            executing_requests: 0,
            limiter: None,
            reserved: [0.0; 2],
            classes: Classes::default(),
            displaceable: Displaceable::default(),
            lanes: Lanes::default(),
            num_replicas: 0,
            eligible: EligibleIndex::new(),
            eligible_speeds: BTreeSet::new(),
            capacity_speeds: BTreeSet::new(),
            resting: BTreeSet::new(),
            open: BTreeSet::new(),
            probing: BTreeSet::new(),
            pipes: BTreeSet::new(),
            num_ejected: 0,
            outcomes: Outcomes::default(),
            retries: RetryBudget::default(),
            hedges: HedgeBook::default(),
            hedge_due: BTreeSet::new(),
            latencies: OrderTree::new(),
            envelope: Envelope::default(),
            ready_replicas: 0,
            free_slots: 0,
            ready_speed_steps: 0,
            working: 0,
            working_until_sum_ns: 0,
            unit_ratio: None,
            common_log: 0.0,
            declined_until_ns: None,
            last_run_ns: None,
            last_probe_ns: None,
        };
        pool.tell_policy();
        pool
    }

    pub(super) fn enqueue(&mut self, now_ns: i64, slot: u32, item: &Item) {
        self.policy.insert(now_ns, slot, item);
        self.queued.requests += 1;
        self.queued.units += item.units;
        self.queued.rows += item.rows;
    }

    /// Counts a request out; the policy has let go of it already.
    pub(super) fn count_out(&mut self, item: &Item) {
        self.queued.requests -= 1;
        self.queued.units -= item.units;
        self.queued.rows -= item.rows;
    }

    pub(super) fn dequeue(&mut self, slot: u32, item: &Item) {
        self.policy.remove(slot, item);
        self.count_out(item);
    }

    /// Tells the policy of the fleet and its cost. O(1): of many replicas it hears of the fastest
    /// and the slowest.
    pub(super) fn tell_policy(&mut self) {
        let ends = TOLD_SPEEDS / 2;
        let middle = self.capacity_speeds.len().saturating_sub(TOLD_SPEEDS);
        let fast =
            self.capacity_speeds.iter().rev().take(if middle > 0 { ends } else { TOLD_SPEEDS });
        let slow = self.capacity_speeds.iter().take(if middle > 0 { ends } else { 0 });
        let (mut speeds, mut told) = ([0.0; TOLD_SPEEDS], 0);
        for (speed, &(steps, _)) in speeds.iter_mut().zip(fast.chain(slow)) {
            *speed = f64::from(steps) / STEPS;
            told += 1;
        }
        let speeds = &mut speeds[..told];
        if middle > 0 {
            speeds.sort_unstable_by(|a, b| b.total_cmp(a));
        }
        let unit_ratio = self.unit_ratio.unwrap_or(1.0);
        let fleet = Fleet {
            speeds,
            total_speed: self.ready_speed_steps as f64 / STEPS,
            limits: self.envelope.largest(),
            expected: self.expected(),
            judged: self.cost.cautious(JUDGED_QUANTILE).scaled(1.0, unit_ratio),
        };
        self.policy.set_fleet(&fleet);
    }

    /// When the fleet can take more.
    pub(super) fn outlook(&self, now_ns: i64) -> Outlook {
        let until_sum = self.working_until_sum_ns - i128::from(self.working) * i128::from(now_ns);
        Outlook {
            free_in_ns: until_sum.max(0) as f64 / self.ready_replicas.max(1) as f64,
            speed: (self.ready_speed_steps as f64 / STEPS).max(1.0 / 64.0),
            num_replicas: self.ready_replicas,
        }
    }

    /// Device time of one request of mean size, alone, at speed 1.
    pub(super) fn mean_request_ns(&self) -> f64 {
        self.expected().at(self.queued.units / self.queued.requests.max(1))
    }

    /// Expected cost for estimated units, at speed 1.
    pub(super) fn expected(&self) -> Affine {
        self.cost.expected().scaled(1.0, self.unit_ratio.unwrap_or(1.0))
    }

    /// Where and when a batch would run on `replica`.
    pub(super) fn site(&self, now_ns: i64, replica: &Replica) -> Site {
        let speed = replica.speed.value();
        let unit_ratio = self.unit_ratio.unwrap_or(1.0);
        let mut limits = replica.limits;
        if replica.breaker.state() == BreakerState::HalfOpen {
            // A probe risks one request, not a batch of them.
            limits.requests = 1;
        }
        Site {
            now_ns,
            ready_ns: replica.ready_ns(now_ns),
            limits,
            expected: self.cost.expected().scaled(1.0 / speed, unit_ratio),
            judged: self.cost.cautious(JUDGED_QUANTILE).scaled(1.0 / speed, unit_ratio),
            speed,
        }
    }

    /// Time that a request of `units` is judged to take on an idle `replica`.
    pub(super) fn alone_ns(&self, units: u64, replica: &Replica) -> i64 {
        let unit_ratio = self.unit_ratio.unwrap_or(1.0);
        let judged = self.cost.cautious(JUDGED_QUANTILE).scaled(1.0, unit_ratio);
        to_ns((judged.at(units) / replica.speed.value()).round()).saturating_add(replica.handoff_ns)
    }

    /// True if a request may be admitted that looks infeasible: nothing ran for a second, and no
    /// other one was let in for that in the last.
    pub(super) fn may_admit_probe(&self, now_ns: i64) -> bool {
        self.may_run_probe(now_ns) && is_old(self.last_probe_ns, now_ns)
    }

    /// True if nothing ran for so long that stale evidence may be tested.
    pub(super) fn may_run_probe(&self, now_ns: i64) -> bool {
        self.executing_batches == 0 && is_old(self.last_run_ns, now_ns)
    }

    /// Time in which the fleet would serve all that is queued and executing.
    pub(super) fn drain_ns(&self, now_ns: i64) -> i64 {
        let cost = self.expected();
        let speed = (self.ready_speed_steps as f64 / STEPS).max(1.0 / 64.0);
        let work = self.policy.work_ns(now_ns, &cost, &self.envelope.largest());
        let mut queue_ns = work / speed;
        if work > 0.0 {
            // However many replicas there are, one batch takes its time.
            let mean_units = self.queued.units / self.queued.requests.max(1);
            let fleet = self.ready_replicas.max(1) as f64;
            queue_ns = queue_ns.max(cost.at(mean_units) * fleet / speed);
        }
        to_ns(queue_ns + self.outlook(now_ns).free_in_ns)
    }

    /// Learns from a batch that ended well: `units` it was estimated at, `counted` by the
    /// runtime (0 for unknown), `device_ns` > 0 on a replica of this pool.
    pub(super) fn learn(
        &mut self,
        now_ns: i64,
        replica: &mut Replica,
        units: u64,
        counted: u64,
        device_ns: i64,
    ) {
        if counted > 0 && units > 0 {
            let ratio = (counted as f64 / units as f64).clamp(1.0 / MAX_UNIT_RATIO, MAX_UNIT_RATIO);
            let old = self.unit_ratio.unwrap_or(ratio);
            self.unit_ratio = Some(old + RATIO_GAIN * (ratio - old));
        }
        let units = if counted > 0 { counted } else { units };
        let device_ns = device_ns as f64;
        let is_reference = self.cost.observations() < SURE_OBSERVATIONS
            || replica.speed.value() >= REFERENCE_RATIO * self.fastest_speed();
        if self.cost.observations() >= SPEED_OBSERVATIONS && self.num_replicas > 1 {
            let predicted = self.cost.expected().at(units).max(1.0) / replica.speed.value();
            let residual = (predicted / device_ns).ln();
            if replica.speed.is_settled() {
                self.common_log += COMMON_GAIN * (residual - self.common_log);
            }
            replica.speed.learn(residual - self.common_log);
        }
        // With what the batch just taught of the replica, so that a new slow one blurs no fit. A
        // slow one gets larger batches: in a common fit its speed and the slope would be confused,
        // and both could drift far off.
        let speed = replica.speed.value();
        let is_changed = is_reference && self.cost.observe(units, device_ns * speed);
        self.policy.observe(now_ns, device_ns * speed, is_changed);
        self.tell_policy();
    }
}

fn is_old(at_ns: Option<i64>, now_ns: i64) -> bool {
    at_ns.is_none_or(|at_ns| now_ns.saturating_sub(at_ns) >= PROBE_INTERVAL_NS)
}
