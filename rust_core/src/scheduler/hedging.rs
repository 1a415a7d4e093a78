//! Second copies of late batches, on replicas that have nothing else to do.
use crate::batch::BatchReason;
use crate::check::to_ns;

use super::dispatch::{empty_batch, Plan};
use super::report::Batch;
use super::{Dispatch, Scheduler};

impl Scheduler {
    /// A copy of the batch that is late the longest, for a replica that is free; None if nothing is
    /// late, nobody is free, or there is no device time left for copies. O(members + log n).
    pub(super) fn hedge(&mut self, now_ns: i64, pool: u32) -> Option<Batch> {
        loop {
            let due = *self.pools.at(pool)?.hedge_due.first()?;
            if due.0 > now_ns {
                return None;
            }
            let primary = self.dispatches.get(&due.1)?;
            let spare = self.spare(now_ns, pool, primary.replica)?;
            let primary = self.dispatches.get_mut(&due.1)?;
            let tickets: Vec<u64> = primary.members.clone();
            let plan = self.plan_copy(now_ns, pool, spare, &tickets);
            let can_pay = |plan: &Plan| {
                self.pools.at(pool).is_some_and(|pool| pool.hedges.can_pay(plan.predicted_ns))
            };
            match plan {
                Some(plan) if !can_pay(&plan) => return None,
                Some(plan) => return self.begin_copy(now_ns, pool, &plan, due.1),
                // It would not help, or does not fit: not asked again.
                None => self.forget_due(due.1),
            }
        }
    }

    /// A replica with nothing in its hands, other than the one that is late.
    fn spare(&mut self, now_ns: i64, pool: u32, late: u64) -> Option<u32> {
        let draw = self.draw(now_ns, pool)?;
        let fastest = self.pools.at(pool)?.fastest_eligible();
        let drawn = [Some(draw.chosen), draw.rival.map(|rival| rival.slot), fastest];
        drawn.into_iter().flatten().find(|&slot| {
            self.replicas.key(slot) != Some(late)
                && self.replicas.at(slot).is_some_and(super::replica::Replica::is_spare)
        })
    }

    /// What a copy would take there; None if it does not fit or saves nobody's deadline.
    fn plan_copy(&self, now_ns: i64, pool: u32, spare: u32, tickets: &[u64]) -> Option<Plan> {
        let replica = self.replicas.at(spare)?;
        let site = self.pools.at(pool)?.site(now_ns, replica);
        let live = || tickets.iter().filter_map(|&ticket| self.live.at(self.live.slot(ticket)?));
        let (mut requests, mut rows, mut units) = (0, 0, 0);
        for request in live() {
            requests += 1;
            rows += request.item.rows;
            units += request.item.units;
        }
        let limits = &replica.limits;
        let predicted_ns = to_ns(site.expected.at(units).round());
        let end_ns = site.ready_ns.saturating_add(predicted_ns);
        let fits = rows <= limits.rows && units <= limits.units && requests <= limits.requests;
        if requests == 0 || !fits || !live().any(|one| one.item.deadline_ns >= end_ns) {
            return None;
        }
        Some(Plan {
            replica: spare,
            reason: BatchReason::QueueEmptied,
            predicted_ns,
            ready_ns: site.ready_ns,
            rival: None,
        })
    }

    fn begin_copy(&mut self, now_ns: i64, pool: u32, plan: &Plan, late: u64) -> Option<Batch> {
        let (pool_key, replica_key) = (self.pools.key(pool)?, self.replicas.key(plan.replica)?);
        self.forget_due(late);
        let id = self.next_batch;
        self.next_batch += 1;
        let members = self.dispatches.get(&late)?.members.clone();
        let mut batch = empty_batch(id, pool_key, replica_key, plan, members.len());
        batch.hedge_of = late;
        let end_ns = plan.ready_ns.saturating_add(plan.predicted_ns);
        for ticket in members {
            let Some(request) = self.live.slot(ticket).and_then(|slot| self.live.at(slot)) else {
                continue;
            };
            batch.units += request.item.units;
            batch.rows += request.item.rows;
            batch.tickets.push(ticket);
            batch.queued_ns.push(now_ns.saturating_sub(request.item.arrived_ns));
            batch.slack_ns.push(request.item.deadline_ns.saturating_sub(end_ns));
            batch.attempts.push(request.attempts);
        }
        self.dispatches.get_mut(&late)?.twin = Some(id);
        self.pools.at_mut(pool)?.hedges.pay(plan.predicted_ns);
        self.occupy(now_ns, pool, plan, &mut batch, Some(late))?;
        Some(batch)
    }

    /// A batch is no longer waited for to be late.
    pub(super) fn forget_due(&mut self, id: u64) {
        let Some(dispatch) = self.dispatches.get_mut(&id) else { return };
        let (pool, due_ns) = (dispatch.pool, dispatch.hedge_at_ns.take());
        if let (Some(due_ns), Some(pool)) = (due_ns, self.pool_mut(pool)) {
            pool.hedge_due.remove(&(due_ns, id));
        }
    }

    /// Accounts for a batch that ended: what it earns or costs, and how late its twin was.
    pub(super) fn settle_hedge(
        &mut self,
        now_ns: i64,
        dispatch: &Dispatch,
        device_ns: i64,
        well: u32,
    ) {
        let took_ns = now_ns.saturating_sub(dispatch.ready_ns).max(0);
        let share = self.resilience.hedge_share;
        let twin = dispatch.twin.and_then(|id| self.dispatches.get(&id));
        let late = twin.map(|twin| (twin.replica, twin.ready_ns, twin.predicted_ns));
        let Some(pool) = self.pool_mut(dispatch.pool) else { return };
        if !dispatch.is_hedge {
            if well > 0 {
                pool.hedges.observe(took_ns, dispatch.predicted_ns);
                pool.hedges.earn(device_ns, share);
            }
            return;
        }
        let spent_ns = if device_ns > 0 { device_ns } else { took_ns };
        pool.hedges.settle(dispatch.predicted_ns, spent_ns);
        let Some((replica, ready_ns, predicted_ns)) = late.filter(|_| well > 0) else { return };
        // The late one is stopped and will not tell: it took at least so long.
        pool.hedges.win();
        let so_far_ns = now_ns.saturating_sub(ready_ns).max(0);
        pool.hedges.observe(so_far_ns, predicted_ns);
        let slot = self.replicas.slot(replica);
        if let Some(replica) = slot.and_then(|slot| self.replicas.at_mut(slot)) {
            replica.latency.raise(now_ns, so_far_ns);
        }
        if let Some(slot) = slot {
            self.recount(slot);
        }
    }
}
