//! What is learned when a batch ends, and what becomes of its members.
use crate::breaker::BreakerState;
use crate::check::{MAX_NS, MAX_UNITS};
use crate::error::CoreError;

use super::answered::Shares;
use super::report::{BatchOutcome, Report};
use super::tenancy::NOTHING;
use super::{Dispatch, Scheduler};

impl Scheduler {
    /// Feeds back how a batch ended and frees its slot; returns the tickets that ended without
    /// an answer. An unknown batch is ignored.
    ///
    /// # Errors
    /// A bad instant.
    pub fn complete(
        &mut self,
        now_ns: i64,
        batch: i64,
        report: &Report<'_>,
    ) -> Result<Vec<u64>, CoreError> {
        let now_ns = self.advance(now_ns)?;
        let id = u64::try_from(batch).unwrap_or(0);
        self.forget_due(id);
        let Some(dispatch) = self.dispatches.remove(&id) else { return Ok(Vec::new()) };
        if let Some(twin) = dispatch.twin.and_then(|twin| self.dispatches.get_mut(&twin)) {
            twin.twin = None;
        }
        if !dispatch.is_hedge {
            self.learn_congestion(now_ns, &dispatch, report);
        }
        if let Some(pool) = self.pool_mut(dispatch.pool) {
            pool.executing_batches -= 1;
            if report.outcome != BatchOutcome::Busy {
                pool.last_run_ns = Some(now_ns);
            }
        }
        let tally = self.tally(id, &dispatch, report);
        self.settle_hedge(now_ns, &dispatch, measured(report.device_ns, MAX_NS), tally.well);
        self.settle_replica(now_ns, id, &dispatch, report, &tally);
        Ok(self.settle_members(now_ns, &dispatch, report))
    }

    /// Counts by whose doing each member ended. A failed batch is one failure for now; what
    /// becomes of its members tells the rest.
    fn tally(&mut self, id: u64, dispatch: &Dispatch, report: &Report<'_>) -> Tally {
        match report.outcome {
            BatchOutcome::Busy => Tally::default(),
            BatchOutcome::Failed | BatchOutcome::Lost => {
                Tally { failed: self.open_case(id, dispatch), ..Tally::default() }
            }
            BatchOutcome::Ok => {
                let missing = self.note_missing(dispatch, report.retry);
                let answered = count(dispatch.live).saturating_sub(missing);
                let clamp = |n: i64| u32::try_from(n.max(0)).unwrap_or(0).min(answered);
                let (failed, invalid) = (clamp(report.failed), clamp(report.invalid));
                let well = answered.saturating_sub(failed).saturating_sub(invalid);
                Tally { well, failed: failed + missing, invalid }
            }
        }
    }

    /// Notes who left a live member out; returns how many.
    fn note_missing(&mut self, dispatch: &Dispatch, retry: &[u64]) -> u32 {
        let mut missing = 0;
        for &ticket in retry {
            let slot = self.live.slot(ticket).filter(|_| dispatch.members.contains(&ticket));
            if let Some(request) = slot.and_then(|slot| self.live.at_mut(slot)) {
                request.failed_on = dispatch.replica;
                missing += 1;
            }
        }
        missing
    }

    fn settle_replica(
        &mut self,
        now_ns: i64,
        id: u64,
        dispatch: &Dispatch,
        report: &Report<'_>,
        tally: &Tally,
    ) {
        if let Some(pool) = self.pool_mut(dispatch.pool) {
            pool.outcomes.push(tally.failed, true);
            pool.outcomes.push(tally.well, false);
        }
        let Some(slot) = self.replicas.slot(dispatch.replica) else { return };
        let Some(replica) = self.replicas.at_mut(slot) else { return };
        let began_ns = dispatch.at_ns.max(replica.ended_at_ns);
        replica.end(now_ns, id, dispatch.predicted_ns);
        let was_closed = replica.breaker.state() == BreakerState::Closed;
        replica.breaker.settle(now_ns, id, tally.well, tally.failed, &mut self.rng);
        if !was_closed && replica.breaker.state() == BreakerState::Closed {
            replica.ramp_from_ns = Some(now_ns);
        }
        match report.outcome {
            BatchOutcome::Failed | BatchOutcome::Lost => replica.fail(),
            BatchOutcome::Ok if tally.well == 0 && (tally.failed > 0 || report.failed > 0) => {
                replica.fail();
            }
            // Some members failed: no sample, since failing is quicker than working. Of nothing
            // that was worked on there is nothing to learn either.
            BatchOutcome::Ok if tally.failed > 0 || tally.is_empty_of_work(report) => {
                replica.answer();
            }
            BatchOutcome::Ok => self.learn(now_ns, slot, began_ns, dispatch, report),
            BatchOutcome::Busy => replica.rest(now_ns, measured(report.retry_after_ns, MAX_NS)),
        }
        self.judge_breaker(slot);
        self.recount(slot);
    }

    fn learn(
        &mut self,
        now_ns: i64,
        slot: u32,
        began_ns: i64,
        dispatch: &Dispatch,
        report: &Report<'_>,
    ) {
        let Some(replica) = self.replicas.at_mut(slot) else { return };
        // Waiting for the replica's last batch says nothing of this one.
        let latency_ns = now_ns.saturating_sub(began_ns);
        let device_ns = measured(report.device_ns, MAX_NS);
        let is_timed = device_ns > 0;
        let handoff_ns = (is_timed && dispatch.to_idle).then(|| latency_ns - device_ns);
        replica.succeed(now_ns, latency_ns, handoff_ns);
        let counted = measured(report.units, MAX_UNITS << 20).unsigned_abs();
        // Without a count, units of members that left early may or may not have been worked on.
        // Still, a batch that took longer than all of them should have is a lesson: were it not
        // one, a cost model that is too low would make every batch late and never learn of it.
        let is_whole = counted > 0
            || dispatch.live == dispatch.members.len()
            || device_ns > dispatch.predicted_ns;
        let Some(pool) = self.pools.slot(dispatch.pool).and_then(|slot| self.pools.at_mut(slot))
        else {
            return;
        };
        if is_timed && is_whole {
            pool.learn(now_ns, replica, dispatch.units, counted, device_ns);
        } else {
            pool.policy.observe(now_ns, 0.0, false);
        }
    }

    fn settle_members(
        &mut self,
        now_ns: i64,
        dispatch: &Dispatch,
        report: &Report<'_>,
    ) -> Vec<u64> {
        let mut retry = Vec::new();
        if report.outcome == BatchOutcome::Ok {
            retry.extend_from_slice(report.retry);
            retry.sort_unstable();
        }
        let twin = dispatch.twin.filter(|twin| self.dispatches.contains_key(twin));
        self.read_ahead(dispatch.members.iter().filter_map(|&ticket| self.live.slot(ticket)));
        let shares = Shares::of(dispatch, report);
        let mut without_answer = Vec::new();
        for &ticket in &dispatch.members {
            // A member that is live is executing here: only `complete` moves it elsewhere.
            let Some(slot) = self.live.slot(ticket) else { continue };
            let is_answered =
                report.outcome == BatchOutcome::Ok && retry.binary_search(&ticket).is_err();
            if is_answered {
                self.credit(slot);
                match twin {
                    None => self.end_answered(ticket, slot, &shares),
                    Some(copy) => self.end_copied(ticket, slot, copy, &shares),
                }
            } else if let Some(batch) = twin {
                // The other copy goes on, and this one's end is not the request's.
                if let Some(request) = self.live.at_mut(slot) {
                    request.batch = batch;
                }
            } else if !self.try_again(now_ns, slot, dispatch, report.outcome) {
                self.finish_after(slot, Some(NOTHING));
                without_answer.push(ticket);
            }
        }
        self.take_leave(dispatch.pool);
        without_answer
    }

    /// Ends a member of a batch that is no longer in the books, but whose copy is.
    fn end_copied(&mut self, ticket: u64, slot: u32, copy: u64, shares: &Shares<'_>) {
        let Some(request) = self.live.at_mut(slot) else { return };
        request.batch = copy;
        let used = shares.used_by(ticket, request);
        self.finish_after(slot, Some(used));
    }

    /// Queues a member again if it has an attempt and the time left.
    fn try_again(
        &mut self,
        now_ns: i64,
        slot: u32,
        dispatch: &Dispatch,
        outcome: BatchOutcome,
    ) -> bool {
        let max_attempts = self.max_attempts;
        let Some(request) = self.live.at_mut(slot) else { return false };
        if outcome == BatchOutcome::Busy {
            request.attempts -= 1;
        } else if request.attempts >= max_attempts {
            return false;
        } else {
            // A poison member must not take its companions along: halves, and alone at last.
            let companions = if request.attempts + 1 >= max_attempts {
                1
            } else if outcome == BatchOutcome::Failed {
                (dispatch.members.len() as u64 / 2).max(1)
            } else {
                u64::MAX
            };
            request.item.max_companions = request.item.max_companions.min(companions);
        }
        let is_free = outcome == BatchOutcome::Busy;
        self.has_time(now_ns, slot)
            && (is_free || self.may_retry(now_ns, dispatch))
            && self.requeue(now_ns, slot)
    }

    /// Takes a retry from the budget. Telling a poison member from its companions is not counted
    /// as long as the pool as a whole works: it is bounded by the attempts.
    fn may_retry(&mut self, now_ns: i64, dispatch: &Dispatch) -> bool {
        let Some(pool) = self.pool_mut(dispatch.pool) else { return false };
        let is_isolation = dispatch.members.len() > 1 && !pool.outcomes.is_bad();
        is_isolation || pool.retries.spend(now_ns)
    }
}

/// Members of a batch by how they ended, as far as its replica is concerned.
#[derive(Debug, Default)]
struct Tally {
    well: u32,
    failed: u32,
    invalid: u32,
}

impl Tally {
    /// True for an answer to a batch of which nothing was executed.
    fn is_empty_of_work(&self, report: &Report<'_>) -> bool {
        self.well == 0 && self.failed == 0 && (self.invalid > 0 || report.device_ns <= 0)
    }
}

fn count(members: usize) -> u32 {
    u32::try_from(members).unwrap_or(u32::MAX)
}

/// A measurement that came from a worker: 0 unless within range.
fn measured(value: i64, most: i64) -> i64 {
    if (0..=most).contains(&value) {
        value
    } else {
        0
    }
}
