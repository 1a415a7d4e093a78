//! The production policy in the simulator.

use super::engine::{Device, Dispatch, FleetState, SimPolicy};
use super::trace::Trace;
use crate::batching::cost::BatchCost;
use crate::batching::learned::LearnedCost;
use crate::batching::placement::SpeedTable;
use crate::batching::policy::{BatchPolicy, Handle, Item, Lane, Target};
use crate::batching::select::BatchLimits;
use crate::batching::shed::Outlook;
use crate::batching::settings::PolicySettings;

const GONE: Handle = Handle::MAX;
/// Batches between two updates of the policy's view of the fleet.
const FLEET_EVERY: u64 = 16;

/// Headway's policy, with a learned or a known cost.
pub struct HeadwayPolicy<'a> {
    trace: &'a Trace,
    policy: BatchPolicy,
    cost: LearnedCost,
    known: Option<BatchCost>,
    speeds: SpeedTable,
    present: Vec<bool>,
    limits: BatchLimits,
    handles: Vec<Handle>,
    completions: u64,
    free_at_ns: Vec<f64>,
}

impl<'a> HeadwayPolicy<'a> {
    /// The policy for a fleet; `prior` is what it believes of the device at the start, and
    /// `known` keeps it from learning.
    #[must_use]
    pub fn new(
        trace: &'a Trace,
        settings: PolicySettings,
        device: &Device,
        num_replicas: usize,
        prior: (f64, f64),
        known: bool,
        seed: u64,
    ) -> Self {
        let limits =
            BatchLimits::declared(device.max_requests, device.max_rows, device.max_units);
        let cost = LearnedCost::new(prior.0, prior.1);
        let exact =
            BatchCost::new(device.intercept_ns, device.slope_ns, device.noise / 3f64.sqrt());
        let first = BatchCost::new(prior.0, prior.1, cost.residual_ratio());
        let mut policy =
            BatchPolicy::new(settings, if known { exact } else { first }, seed);
        policy.set_fleet(&vec![1.0; num_replicas], limits);
        Self {
            trace,
            policy,
            cost,
            known: known.then_some(exact),
            speeds: SpeedTable::new(num_replicas),
            present: vec![true; num_replicas],
            limits,
            handles: vec![GONE; trace.rows.len()],
            completions: 0,
            free_at_ns: vec![0.0; num_replicas],
        }
    }

    /// The policy inside.
    #[must_use]
    pub fn policy(&self) -> &BatchPolicy {
        &self.policy
    }

    fn outlook(&self, now_ns: i64, state: &FleetState) -> Outlook {
        let (mut free_in_ns, mut speed, mut num) = (0.0, 0.0, 0.0);
        for replica in (0..state.free.len()).filter(|replica| state.present[*replica]) {
            if !state.free[replica] {
                free_in_ns += (self.free_at_ns[replica] - now_ns as f64).max(0.0);
            }
            speed += self.speeds.speed(replica);
            num += 1.0;
        }
        Outlook { free_in_ns: free_in_ns / f64::max(num, 1.0), speed: f64::max(speed, 0.01) }
    }

    fn refresh_fleet(&mut self) {
        let speeds: Vec<f64> = (0..self.present.len())
            .filter(|replica| self.present[*replica])
            .map(|replica| self.speeds.speed(replica))
            .collect();
        self.policy.set_fleet(&speeds, self.limits);
    }
}

impl SimPolicy for HeadwayPolicy<'_> {
    fn arrive(&mut self, now_ns: i64, id: u32, state: &FleetState) -> bool {
        if state.present != self.present {
            self.present.clone_from(&state.present);
            self.refresh_fleet();
        }
        let row = &self.trace.rows[id as usize];
        let item = Item {
            slot: id,
            units: row.units,
            rows: row.rows,
            deadline_ns: row.at_ns + row.deadline_ns,
            weight: row.weight,
            lane: if row.lane == 2 { Lane::Bulk } else { Lane::Interactive },
            priority: row.priority,
        };
        if self.policy.judge(now_ns, &item, &self.outlook(now_ns, state)).is_some() {
            return false;
        }
        self.handles[id as usize] = self.policy.insert(now_ns, item);
        true
    }

    fn cancel(&mut self, _now_ns: i64, id: u32) {
        let handle = std::mem::replace(&mut self.handles[id as usize], GONE);
        self.policy.remove(handle);
    }

    fn form(
        &mut self,
        now_ns: i64,
        state: &FleetState,
        members: &mut Vec<u32>,
    ) -> Option<Dispatch> {
        let mut free: Vec<usize> = (0..state.free.len())
            .filter(|replica| state.free[*replica] && state.present[*replica])
            .collect();
        free.sort_by(|a, b| self.speeds.speed(*b).total_cmp(&self.speeds.speed(*a)));
        for replica in free {
            let target = Target { speed: self.speeds.speed(replica), limits: self.limits };
            if let Some(formed) = self.policy.form(now_ns, &target, members) {
                self.free_at_ns[replica] = now_ns as f64 + formed.predicted_ns;
                for id in members.iter() {
                    self.handles[*id as usize] = GONE;
                }
                return Some(Dispatch { replica });
            }
        }
        None
    }

    fn complete(&mut self, now_ns: i64, replica: usize, units: u64, took_ns: f64) {
        self.completions += 1;
        if let Some(cost) = self.known {
            self.policy.observe(now_ns, took_ns, cost, false);
            return;
        }
        let speed = self.speeds.speed(replica);
        let predicted_ns = self.cost.intercept_ns() + self.cost.slope_ns() * units as f64;
        let shifted = self.cost.observe(units, took_ns * speed);
        self.speeds.observe(replica, predicted_ns / speed / took_ns);
        let cost = BatchCost::new(
            self.cost.intercept_ns(),
            self.cost.slope_ns(),
            self.cost.residual_ratio(),
        );
        self.policy.observe(now_ns, took_ns, cost, shifted);
        if self.completions % FLEET_EVERY == 0 && self.present.len() > 1 {
            self.refresh_fleet();
        }
    }

    fn expire(&mut self, now_ns: i64, dropped: &mut Vec<u32>) {
        self.policy.take_hopeless(now_ns, dropped);
        for id in dropped.iter() {
            self.handles[*id as usize] = GONE;
        }
    }

    fn wake_at_ns(&self, now_ns: i64) -> Option<i64> {
        self.policy.next_hopeless_ns(now_ns)
    }
}
