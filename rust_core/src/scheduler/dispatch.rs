//! Which batch a free replica gets.
use crate::batch::{BatchReason, Formed};
use crate::check::to_ns;
use crate::error::CoreError;
use crate::p2c::Rival;

use super::types::Batch;
use super::{signed, Dispatch, Scheduler, State};

/// A longer handoff is congestion even if it is usual: no baseline may drift without bound, ns.
const MOST_PLANNED_HANDOFF_NS: i64 = 50_000_000;

/// Rows and units of a request that could run, were it not too large for the replica.
type TooLarge = Option<(u64, u64)>;

/// What was decided for one replica; the members are in `Scheduler::chosen`.
struct Plan {
    replica: u32,
    reason: BatchReason,
    predicted_ns: i64,
    ready_ns: i64,
    rival: Option<Rival>,
}

impl Scheduler {
    /// Chooses a free replica and the batch for it; None if nothing can start now.
    ///
    /// Two random choices by expected wait and service; if nothing queued can run there, the
    /// fastest free one, then one that takes what was too large. O(members * log n).
    ///
    /// # Errors
    /// An unknown pool.
    pub fn form_batch(&mut self, now_ns: i64, pool: i64) -> Result<Option<Batch>, CoreError> {
        let now_ns = self.advance(now_ns)?;
        let slot = self.pool_slot(pool)?;
        self.wake_rested(now_ns, slot);
        Ok(self.plan(now_ns, slot).and_then(|plan| self.begin(now_ns, slot, &plan)))
    }

    /// Offers replicas again whose rest after a busy answer is over.
    fn wake_rested(&mut self, now_ns: i64, pool: u32) {
        while let Some(replica) = self.pools.at(pool).and_then(|pool| {
            pool.resting.first().filter(|rest| rest.0 <= now_ns).map(|rest| rest.1)
        }) {
            if let Some(replica) = self.replicas.at_mut(replica) {
                replica.resting_until_ns = None;
            }
            self.recount(replica);
        }
    }

    fn plan(&mut self, now_ns: i64, pool: u32) -> Option<Plan> {
        let queue = self.pools.at(pool)?;
        if queue.queued.requests == 0 {
            return None;
        }
        let median_ns = queue.median_latency_ns();
        let replicas = &self.replicas;
        let score = |slot| replicas.at(slot).map_or(f64::MAX, |r| r.score(now_ns, median_ns));
        let draw = queue.eligible.draw(&mut self.rng, score)?;
        let picked = draw.chosen;
        let fastest = queue.fastest_eligible().filter(|&slot| slot != picked);
        let mut too_large = None;
        for replica in [Some(picked), fastest].into_iter().flatten() {
            match self.form_on(now_ns, pool, replica)? {
                // The fastest one was not weighed against the other draw.
                Ok(plan) if replica == picked => return Some(Plan { rival: draw.rival, ..plan }),
                Ok(plan) => return Some(plan),
                Err(misfit) => too_large = too_large.or(misfit),
            }
        }
        if let Some((rows, units)) = too_large {
            let roomy = self.roomy(pool, rows, units)?;
            if let Ok(plan) = self.form_on(now_ns, pool, roomy)? {
                return Some(plan);
            }
        }
        self.plan_probe(now_ns, pool, fastest.unwrap_or(picked))
    }

    /// The plan for one replica, or what kept it from having one.
    fn form_on(&mut self, now_ns: i64, pool: u32, replica: u32) -> Option<Result<Plan, TooLarge>> {
        let queue = self.pools.at_mut(pool)?;
        let site = queue.site(now_ns, self.replicas.at(replica)?);
        self.chosen.clear();
        Some(match queue.policy.form(&site, &mut self.chosen) {
            Formed::Nothing { too_large } => Err(too_large),
            Formed::Batch { reason, predicted_ns } => {
                Ok(Plan { replica, reason, predicted_ns, ready_ns: site.ready_ns, rival: None })
            }
        })
    }

    /// A free replica that takes so many rows and units in one batch. O(free replicas), and only
    /// asked when the limits of a fleet differ and the large request is all that can run.
    fn roomy(&self, pool: u32, rows: u64, units: u64) -> Option<u32> {
        let takes = |slot: &u32| {
            let replica = self.replicas.at(*slot);
            replica.is_some_and(|r| r.limits.rows >= rows && r.limits.units >= units)
        };
        self.pools.at(pool)?.eligible.slots().iter().copied().find(takes)
    }

    /// If nothing ran for a second and nothing looks feasible, tries one request all the same:
    /// the cost model may be wrong, and only a batch can tell.
    fn plan_probe(&mut self, now_ns: i64, pool: u32, replica: u32) -> Option<Plan> {
        let queue = self.pools.at_mut(pool)?;
        if !queue.may_run_probe(now_ns) {
            return None;
        }
        let site = queue.site(now_ns, self.replicas.at(replica)?);
        let member = queue.policy.probe(&site)?;
        self.chosen.clear();
        self.chosen.push(member);
        let units = self.live.at(member)?.item.units;
        Some(Plan {
            replica,
            reason: BatchReason::Deadline,
            predicted_ns: to_ns(site.expected.at(units).round()),
            ready_ns: site.ready_ns,
            rival: None,
        })
    }

    /// Moves the chosen members from queued to executing.
    fn begin(&mut self, now_ns: i64, pool: u32, plan: &Plan) -> Option<Batch> {
        let (pool_key, replica_key) = (self.pools.key(pool)?, self.replicas.key(plan.replica)?);
        let id = self.next_batch;
        self.next_batch += 1;
        let end_ns = plan.ready_ns.saturating_add(plan.predicted_ns);
        let members = std::mem::take(&mut self.chosen);
        let mut batch = empty_batch(id, pool_key, replica_key, plan, members.len());
        if let Some(rival) = &plan.rival {
            batch.other_replica = self.replicas.key(rival.slot).map_or(-1, signed);
            batch.score_ns = to_ns(rival.chosen_cost);
            batch.other_score_ns = to_ns(rival.cost);
        }
        for &slot in &members {
            self.begin_member(now_ns, slot, end_ns, &mut batch);
        }
        self.chosen = members;
        let replica = self.replicas.at_mut(plan.replica)?;
        let to_idle = replica.outstanding.is_empty();
        let unplanned_ns = replica.handoff_ns.saturating_sub(MOST_PLANNED_HANDOFF_NS).max(0);
        replica.begin(now_ns, id, plan.predicted_ns);
        self.recount(plan.replica);
        let queue = self.pools.at_mut(pool)?;
        queue.executing_batches += 1;
        queue.last_run_ns = Some(now_ns);
        let dispatch = Dispatch {
            pool: pool_key,
            replica: replica_key,
            at_ns: now_ns,
            members: batch.tickets.clone(),
            live: batch.tickets.len(),
            units: batch.units,
            predicted_ns: plan.predicted_ns,
            planned_ns: end_ns.saturating_sub(now_ns).saturating_sub(unplanned_ns),
            to_idle,
        };
        self.dispatches.insert(id, dispatch);
        Some(batch)
    }

    fn begin_member(&mut self, now_ns: i64, slot: u32, end_ns: i64, batch: &mut Batch) {
        let Some(ticket) = self.live.key(slot) else { return };
        let Some(request) = self.live.at_mut(slot) else { return };
        request.state = State::Executing { batch: batch.id };
        request.attempts += 1;
        let (item, attempts, pool) = (request.item, request.attempts, request.pool);
        let tenant = request.charge.tenant;
        self.count_dequeued(tenant, item.units);
        if let Some(pool) = self.pool_mut(pool) {
            pool.count_out(&item);
            pool.executing_requests += 1;
        }
        batch.units += item.units;
        batch.rows += item.rows;
        batch.tickets.push(ticket);
        batch.queued_ns.push(now_ns.saturating_sub(item.arrived_ns));
        batch.slack_ns.push(item.deadline_ns.saturating_sub(end_ns));
        batch.attempts.push(attempts);
    }
}

fn empty_batch(id: u64, pool: u64, replica: u64, plan: &Plan, members: usize) -> Batch {
    Batch {
        id,
        pool,
        replica,
        reason: plan.reason,
        predicted_ns: plan.predicted_ns,
        other_replica: -1,
        score_ns: 0,
        other_score_ns: 0,
        units: 0,
        rows: 0,
        tickets: Vec::with_capacity(members),
        queued_ns: Vec::with_capacity(members),
        slack_ns: Vec::with_capacity(members),
        attempts: Vec::with_capacity(members),
    }
}
