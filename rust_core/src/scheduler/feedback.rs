//! What is learned when a batch ends, and what becomes of its members.
use crate::check::{MAX_NS, MAX_UNITS};
use crate::error::CoreError;

use super::types::{BatchOutcome, Report};
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
        let Some(dispatch) = self.dispatches.remove(&id) else { return Ok(Vec::new()) };
        self.learn_congestion(now_ns, &dispatch, report);
        if let Some(pool) = self.pool_mut(dispatch.pool) {
            pool.executing_batches -= 1;
            if report.outcome != BatchOutcome::Busy {
                pool.last_run_ns = Some(now_ns);
            }
        }
        self.settle_replica(now_ns, id, &dispatch, report);
        Ok(self.settle_members(now_ns, &dispatch, report))
    }

    fn settle_replica(&mut self, now_ns: i64, id: u64, dispatch: &Dispatch, report: &Report<'_>) {
        let Some(slot) = self.replicas.slot(dispatch.replica) else { return };
        let Some(replica) = self.replicas.at_mut(slot) else { return };
        replica.end(now_ns, id, dispatch.predicted_ns);
        match report.outcome {
            BatchOutcome::Ok if report.failed <= 0 => {
                self.learn(now_ns, slot, dispatch, report);
            }
            // Some members failed: no sample, since failing is quicker than working.
            BatchOutcome::Ok if is_below(report.failed, dispatch.members.len()) => replica.answer(),
            BatchOutcome::Ok | BatchOutcome::Failed | BatchOutcome::Lost => replica.fail(),
            BatchOutcome::Busy => replica.rest(now_ns, measured(report.retry_after_ns, MAX_NS)),
        }
        self.recount(slot);
    }

    fn learn(&mut self, now_ns: i64, slot: u32, dispatch: &Dispatch, report: &Report<'_>) {
        let Some(replica) = self.replicas.at_mut(slot) else { return };
        let latency_ns = now_ns.saturating_sub(dispatch.at_ns);
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
        let mut without_answer = Vec::new();
        for &ticket in &dispatch.members {
            // A member that is live is executing here: only `complete` moves it elsewhere.
            let Some(slot) = self.live.slot(ticket) else { continue };
            let is_answered =
                report.outcome == BatchOutcome::Ok && retry.binary_search(&ticket).is_err();
            if is_answered {
                self.note_used(slot, dispatch, report);
                self.finish(slot);
            } else if !self.try_again(now_ns, slot, dispatch, report.outcome) {
                self.note_unused(slot);
                self.finish(slot);
                without_answer.push(ticket);
            }
        }
        without_answer
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
        self.requeue(now_ns, slot)
    }
}

fn is_below(failed: i64, members: usize) -> bool {
    usize::try_from(failed).is_ok_and(|failed| failed < members)
}

/// A measurement that came from a worker: 0 unless within range.
fn measured(value: i64, most: i64) -> i64 {
    if (0..=most).contains(&value) {
        value
    } else {
        0
    }
}
