//! The replicas of a pool, counted as they change: who is eligible, fastest, about to be free.
use std::collections::BTreeSet;

use crate::check::to_ns;

use super::Pool;
use crate::scheduler::replica::Share;
use crate::scheduler::speed::STEPS;

impl Pool {
    /// Brings the totals from one share of a replica to the next.
    pub(in crate::scheduler) fn recount(&mut self, slot: u32, old: &Share, new: &Share) {
        if old.capacity != new.capacity {
            if let Some(limits) = &old.capacity {
                self.envelope.remove(limits);
            }
            if let Some(limits) = &new.capacity {
                self.envelope.add(limits);
            }
        }
        let speed = |share: &Share| (share.speed_steps, slot);
        let in_capacity = |share: &Share| share.capacity.is_some().then(|| speed(share));
        change(&mut self.capacity_speeds, in_capacity(old), in_capacity(new));
        let eligible = |share: &Share| share.is_eligible().then(|| speed(share));
        change(&mut self.eligible_speeds, eligible(old), eligible(new));
        if new.is_eligible() {
            self.eligible.insert(slot);
        } else {
            self.eligible.remove(slot);
        }
        self.recount_ready(old, new);
        let at = |due_ns: Option<i64>| due_ns.map(|due_ns| (due_ns, slot));
        change(&mut self.open, at(old.open_until_ns), at(new.open_until_ns));
        change(&mut self.pipes, at(old.pipe_turns_at_ns), at(new.pipe_turns_at_ns));
        change(&mut self.resting, at(old.resting_until_ns), at(new.resting_until_ns));
        let probing = |share: &Share| share.probing.then_some(slot);
        change(&mut self.probing, probing(old), probing(new));
        self.recount_latency(slot, old.latency_ns, new.latency_ns);
        self.recount_work(old.working_until_ns, new.working_until_ns);
        self.free_slots -= old.free_slots;
        self.free_slots += new.free_slots;
        if old.capacity != new.capacity || old.speed_steps != new.speed_steps {
            self.tell_policy();
        }
    }

    fn recount_ready(&mut self, old: &Share, new: &Share) {
        if old.ready {
            self.ready_replicas -= 1;
            if old.ejected {
                self.num_ejected -= 1;
            } else {
                self.ready_speed_steps -= u64::from(old.speed_steps);
            }
        }
        if new.ready {
            self.ready_replicas += 1;
            if new.ejected {
                self.num_ejected += 1;
            } else {
                self.ready_speed_steps += u64::from(new.speed_steps);
            }
        }
    }

    fn recount_latency(&mut self, slot: u32, old_ns: Option<u64>, new_ns: Option<u64>) {
        if old_ns == new_ns {
            return;
        }
        if let Some(latency_ns) = old_ns {
            self.latencies.remove(&(latency_ns, slot));
        }
        if let Some(latency_ns) = new_ns {
            self.latencies.insert((latency_ns, slot), 0, ());
        }
    }

    fn recount_work(&mut self, old_ns: Option<i64>, new_ns: Option<i64>) {
        if let Some(until_ns) = old_ns {
            self.working -= 1;
            self.working_until_sum_ns -= i128::from(until_ns);
        }
        if let Some(until_ns) = new_ns {
            self.working += 1;
            self.working_until_sum_ns += i128::from(until_ns);
        }
    }

    /// True if a replica is or will be able to take batches.
    pub(in crate::scheduler) fn has_capacity(&self) -> bool {
        !self.capacity_speeds.is_empty()
    }

    /// The fastest replica that is or will be able to take batches.
    pub(in crate::scheduler) fn fastest(&self) -> Option<u32> {
        self.capacity_speeds.last().map(|&(_, slot)| slot)
    }

    /// The fastest replica that could take a batch now.
    pub(in crate::scheduler) fn fastest_eligible(&self) -> Option<u32> {
        self.eligible_speeds.last().map(|&(_, slot)| slot)
    }

    pub(in crate::scheduler) fn fastest_speed(&self) -> f64 {
        self.capacity_speeds.last().map_or(0.0, |&(steps, _)| f64::from(steps) / STEPS)
    }

    /// Median latency of the replicas; before any is known, the cost of a batch.
    pub(in crate::scheduler) fn median_latency_ns(&self) -> f64 {
        let middle = self.latencies.len().saturating_sub(1) / 2;
        self.latencies
            .select(middle)
            .map_or(self.cost.expected().fixed_ns, |((latency_ns, _), ())| latency_ns as f64)
    }

    /// When a replica is about to be free, or a slow one is asked again; None with nothing queued.
    pub(in crate::scheduler) fn next_pipe_ns(&self, now_ns: i64) -> Option<i64> {
        let pipe_ns = self.pipes.first().map(|pipe| pipe.0);
        let looks = pipe_ns.into_iter().chain(self.declined_until_ns);
        looks.filter(|&at_ns| at_ns > now_ns && self.queued.requests > 0).min()
    }

    /// Time in which the ready replicas but for one of `speed` would serve all that is queued;
    /// None without any.
    pub(in crate::scheduler) fn served_without_ns(&self, now_ns: i64, speed: f64) -> Option<i64> {
        let total = self.ready_speed_steps as f64 / STEPS - speed;
        if total < 1.0 / 64.0 {
            return None;
        }
        let work_ns = self.policy.work_ns(now_ns, &self.expected(), &self.envelope.largest());
        let least_ns = self.mean_request_ns() / self.fastest_speed();
        Some(to_ns((work_ns / total).max(least_ns) + self.outlook(now_ns).free_in_ns))
    }
}

/// Puts the new entry of a replica in the place of its old one. Most changes leave most sets alone.
fn change<T: Ord>(set: &mut BTreeSet<T>, old: Option<T>, new: Option<T>) {
    if old == new {
        return;
    }
    if let Some(old) = old {
        set.remove(&old);
    }
    set.extend(new);
}
