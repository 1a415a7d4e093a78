//! Which batch a free replica gets.
use crate::batch::{BatchReason, Formed};
use crate::check::to_ns;
use crate::error::CoreError;
use crate::p2c::{Draw, Rival};

use super::report::Batch;
use super::{signed, Dispatch, Scheduler};

/// A longer handoff is congestion even if it is usual: no baseline may drift without bound, ns.
const MOST_PLANNED_HANDOFF_NS: i64 = 50_000_000;

/// Rows and units of a request that could run, were it not too large for the replica.
type TooLarge = Option<(u64, u64)>;

/// What was decided for one replica; the members are in `Scheduler::chosen`.
pub(super) struct Plan {
    pub replica: u32,
    pub reason: BatchReason,
    pub predicted_ns: i64,
    pub ready_ns: i64,
    pub rival: Option<Rival>,
}

/// A replica below this share of the fastest one's speed is not given everything that waits.
const SLOW_RATIO: f64 = 0.5;
/// After so long without a batch, what is known of a replica's speed is tried anew.
const FORGOTTEN_NS: i64 = 10_000_000_000;
/// Timers may be so late, ns: event loops count in milliseconds.
const TIMER_NS: i64 = 1_000_000;
/// Standard deviations by which a batch may end early and still find the next one waiting.
const EARLY_DEVIATIONS: f64 = 1.28;

impl Scheduler {
    /// Chooses a free replica and the batch for it; None if nothing can start now.
    ///
    /// Two random choices by expected wait and service; if nothing queued can run there, the
    /// other one, the fastest free one, then one that takes what was too large. With nothing
    /// queued, the batch may be a copy of a late one. O(members * log n).
    ///
    /// # Errors
    /// An unknown pool.
    pub fn form_batch(&mut self, now_ns: i64, pool: i64) -> Result<Option<Batch>, CoreError> {
        let now_ns = self.advance(now_ns)?;
        let slot = self.pool_slot(pool)?;
        self.wake(now_ns, slot);
        let is_idle = self.pools.at(slot).is_some_and(|pool| pool.queued.requests == 0);
        if is_idle {
            return Ok(self.hedge(now_ns, slot));
        }
        Ok(self.plan(now_ns, slot).and_then(|plan| self.begin(now_ns, slot, &plan)))
    }

    fn plan(&mut self, now_ns: i64, pool: u32) -> Option<Plan> {
        let draw = self.draw(now_ns, pool)?;
        let picked = draw.chosen;
        let queue = self.pools.at(pool)?;
        // A replica on probation is asked first, for one request: unasked it would never return.
        let probed = queue.probing.first().copied();
        let other = draw.rival.map(|rival| rival.slot);
        let fastest = queue.fastest_eligible();
        let mut tried = [None; 4];
        let mut is_declined = false;
        let mut too_large = None;
        for (at, replica) in [probed, Some(picked), other, fastest].into_iter().enumerate() {
            let Some(replica) = replica.filter(|_| !tried.contains(&replica)) else { continue };
            tried[at] = Some(replica);
            if self.is_better_left(now_ns, pool, replica) {
                is_declined = true;
                continue;
            }
            match self.form_on(now_ns, pool, replica)? {
                // Only the one that was picked was weighed against the other draw.
                Ok(plan) if replica == picked => return Some(Plan { rival: draw.rival, ..plan }),
                Ok(plan) => return Some(plan),
                Err(misfit) => too_large = too_large.or(misfit),
            }
        }
        if is_declined && too_large.is_none() {
            return None;
        }
        if let Some((rows, units)) = too_large {
            let roomy = self.roomy(pool, rows, units)?;
            if let Ok(plan) = self.form_on(now_ns, pool, roomy)? {
                return Some(plan);
            }
        }
        self.plan_probe(now_ns, pool, fastest.unwrap_or(picked))
    }

    /// Two choices. A replica that joined lately yields to the other one, less and less often.
    pub(super) fn draw(&mut self, now_ns: i64, pool: u32) -> Option<Draw> {
        let queue = self.pools.at(pool)?;
        let median_ns = queue.median_latency_ns();
        let replicas = &self.replicas;
        let score = |slot| replicas.at(slot).map_or(f64::MAX, |r| r.score(now_ns, median_ns));
        let draw = queue.eligible.draw(&mut self.rng, score)?;
        let Some(rival) = draw.rival else { return Some(draw) };
        let share = replicas.at(draw.chosen).and_then(|replica| replica.rising_share(now_ns));
        if share.is_some_and(|share| self.rng.uniform() >= share) {
            return Some(Draw { chosen: rival.slot, rival: None });
        }
        Some(draw)
    }

    /// True if the others would have served all that is queued before this much slower replica had
    /// served a single request. It is asked again, and takes it, once that time has passed, or if
    /// it has had nothing for so long that it may be as fast as the others by now. O(log n).
    ///
    /// Source: Lin and Kumar, "Optimal control of a queueing system with two heterogeneous
    /// servers", IEEE TAC 29(8), 1984: the slow server takes work only beyond a queue length.
    fn is_better_left(&mut self, now_ns: i64, pool: u32, replica: u32) -> bool {
        let Some(queue) = self.pools.at(pool) else { return false };
        let Some(candidate) = self.replicas.at(replica) else { return false };
        let speed = candidate.speed.value();
        let idle_ns = now_ns.saturating_sub(candidate.ended_at_ns);
        if speed >= SLOW_RATIO * queue.fastest_speed() || idle_ns >= FORGOTTEN_NS {
            return false;
        }
        let Some(others_ns) = queue.served_without_ns(now_ns, speed) else { return false };
        let alone_ns = to_ns(queue.mean_request_ns() / speed);
        if others_ns >= alone_ns {
            return false;
        }
        let Some(queue) = self.pools.at_mut(pool) else { return false };
        let until_ns = queue.declined_until_ns.get_or_insert(now_ns.saturating_add(alone_ns));
        now_ns < *until_ns
    }

    /// The plan for one replica, or what kept it from having one.
    fn form_on(&mut self, now_ns: i64, pool: u32, replica: u32) -> Option<Result<Plan, TooLarge>> {
        let queue = self.pools.at_mut(pool)?;
        let site = queue.site(now_ns, self.replicas.at(replica)?);
        self.chosen.clear();
        match queue.policy.form(&site, &mut self.chosen) {
            Formed::Nothing { too_large } => Some(Err(too_large)),
            Formed::Batch { reason, predicted_ns } => {
                let ready_ns = site.ready_ns;
                let plan = Plan { replica, reason, predicted_ns, ready_ns, rival: None };
                let Some(left) = self.spare_from(now_ns, pool, replica) else {
                    return Some(Ok(plan));
                };
                if left == 0 {
                    return Some(Err(None));
                }
                Some(Ok(Plan { predicted_ns: to_ns(site.expected.at(left).round()), ..plan }))
            }
        }
    }

    /// Puts chosen members back that this replica failed before, if there is another for them.
    /// Returns the units of those that are left; None if all are.
    fn spare_from(&mut self, now_ns: i64, pool: u32, replica: u32) -> Option<u64> {
        let key = self.replicas.key(replica)?;
        let failed_here =
            |slot: &u32| self.live.at(*slot).is_some_and(|request| request.failed_on == key);
        if !self.chosen.iter().any(failed_here) || !self.has_other(pool, replica) {
            return None;
        }
        let mut left = 0;
        let mut kept = Vec::with_capacity(self.chosen.len());
        for slot in std::mem::take(&mut self.chosen) {
            let request = self.live.at(slot)?;
            if request.failed_on == key {
                self.pools.at_mut(pool)?.policy.insert(now_ns, slot, &request.item);
            } else {
                left += request.item.units;
                kept.push(slot);
            }
        }
        self.chosen = kept;
        Some(left)
    }

    /// True if another replica of the pool takes batches and is not shut out.
    fn has_other(&self, pool: u32, replica: u32) -> bool {
        let usable = self.pools.at(pool).map_or(0, |p| p.ready_replicas - p.num_ejected);
        let is_usable = self.replicas.at(replica).is_some_and(|r| !r.share().ejected);
        usable > u64::from(is_usable)
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
        self.read_ahead(members.iter().copied());
        self.deadlines.begin(&members);
        for &slot in &members {
            self.begin_member(now_ns, slot, end_ns, &mut batch);
        }
        self.chosen = members;
        self.occupy(now_ns, pool, plan, &mut batch, None)?;
        Some(batch)
    }

    /// Takes note of a batch that goes out: at its replica, in its pool, and when to look again.
    pub(super) fn occupy(
        &mut self,
        now_ns: i64,
        pool: u32,
        plan: &Plan,
        batch: &mut Batch,
        hedge_of: Option<u64>,
    ) -> Option<()> {
        let replica = self.replicas.at_mut(plan.replica)?;
        let to_idle = replica.is_idle(now_ns);
        let unplanned_ns = replica.handoff_ns.saturating_sub(MOST_PLANNED_HANDOFF_NS).max(0);
        let end_ns = plan.ready_ns.saturating_add(plan.predicted_ns);
        replica.begin(now_ns, batch.id, plan.predicted_ns);
        let queue = self.pools.at_mut(pool)?;
        queue.executing_batches += 1;
        queue.declined_until_ns = None;
        queue.last_run_ns = Some(now_ns);
        let early = EARLY_DEVIATIONS * queue.cost.residual_ratio() * plan.predicted_ns as f64;
        replica.lead_ns = replica.handoff_ns + TIMER_NS + to_ns(early).min(plan.predicted_ns / 2);
        let can_hedge =
            self.resilience.hedge_share > 0.0 && hedge_of.is_none() && queue.ready_replicas > 1;
        let hedge_at_ns =
            if can_hedge { queue.hedges.due_ns(plan.ready_ns, plan.predicted_ns) } else { None };
        if let Some(at_ns) = hedge_at_ns {
            queue.hedge_due.insert((at_ns, batch.id));
        }
        self.recount(plan.replica);
        let opens_ns = self.pools.at(pool)?.next_pipe_ns(now_ns);
        batch.look_at_ns = opens_ns.into_iter().chain(hedge_at_ns).min().unwrap_or(0);
        batch.is_pipelined = !to_idle;
        let dispatch = Dispatch {
            pool: batch.pool,
            replica: batch.replica,
            at_ns: now_ns,
            members: batch.tickets.clone(),
            live: batch.tickets.len(),
            units: batch.units,
            predicted_ns: plan.predicted_ns,
            planned_ns: end_ns.saturating_sub(now_ns).saturating_sub(unplanned_ns),
            to_idle,
            ready_ns: plan.ready_ns,
            twin: hedge_of,
            is_hedge: hedge_of.is_some(),
            hedge_at_ns,
        };
        self.dispatches.insert(batch.id, dispatch);
        Some(())
    }

    fn begin_member(&mut self, now_ns: i64, slot: u32, end_ns: i64, batch: &mut Batch) {
        let Some(ticket) = self.live.key(slot) else { return };
        let Some(request) = self.live.at_mut(slot) else { return };
        request.batch = batch.id;
        request.attempts += 1;
        let (item, attempts, pool) = (request.item, request.attempts, request.pool);
        let earned = if attempts == 1 { self.resilience.retry_share } else { 0.0 };
        let tenant = request.tenant;
        self.count_dequeued(tenant, item.units);
        if let Some(pool) = self.pool_mut(pool) {
            pool.retries.earn(earned);
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

pub(super) fn empty_batch(id: u64, pool: u64, replica: u64, plan: &Plan, members: usize) -> Batch {
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
        hedge_of: 0,
        look_at_ns: 0,
        is_pipelined: false,
    }
}
