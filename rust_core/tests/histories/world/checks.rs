//! What must be true of each batch, and of all counts after each step.
use headway_core::batch::BatchReason;
use headway_core::scheduler::{Batch, BatchOutcome, Condition, Report};
use proptest::prelude::*;

use super::{fail, nth, Check, Known, World, MAX_ATTEMPTS};
use crate::step::Step;

impl World {
    pub(super) fn check_batch(&mut self, batch: &Batch, pool: i64) -> Check {
        let replica = batch.replica as i64;
        let known = self.replicas.get(&replica);
        prop_assert!(known.is_some_and(|known| known.1 == Condition::Ready));
        let limits = known.map(|known| known.0);
        let Some(limits) = limits else { return Ok(()) };
        let over = |value: u64, limit: i64| limit > 0 && value > limit as u64;
        prop_assert!(!batch.tickets.is_empty());
        prop_assert!(!over(batch.tickets.len() as u64, limits.max_requests), "{batch:?}");
        prop_assert!(!over(batch.rows, limits.max_rows), "{batch:?}");
        prop_assert!(!over(batch.units, limits.max_units), "{batch:?}");
        let in_hand = self.executing.values().filter(|other| other.0 == replica).count();
        // One more than its only slot may be on its way to where it waits.
        prop_assert!(in_hand < (limits.max_outstanding as usize).max(2));
        prop_assert_eq!(batch.is_pipelined, in_hand > 0);
        if batch.hedge_of > 0 {
            return self.check_copy(batch);
        }
        let (mut units, mut rows) = (0, 0);
        for (index, ticket) in batch.tickets.iter().enumerate() {
            let Some(known) = self.live.get_mut(ticket) else {
                return Err(TestCaseError::fail(format!("{ticket} is not live")));
            };
            prop_assert_eq!((known.pool, known.batch), (pool, None));
            known.batch = Some(batch.id);
            known.attempts += 1;
            prop_assert_eq!(known.attempts, batch.attempts[index]);
            prop_assert!(known.attempts <= MAX_ATTEMPTS);
            // A lone probe may be late; nobody else is begun without the time for it.
            let is_probe = batch.tickets.len() == 1 && batch.reason == BatchReason::Deadline;
            prop_assert!(is_probe || batch.slack_ns[index] >= 0, "{batch:?}");
            units += known.units;
            rows += known.rows;
        }
        prop_assert_eq!((units, rows), (batch.units, batch.rows));
        let is_new = self.executing.insert(batch.id, (replica, batch.tickets.clone())).is_none();
        prop_assert!(is_new);
        Ok(())
    }

    /// A copy has the live members of the late batch, on another replica that had nothing to do.
    fn check_copy(&mut self, batch: &Batch) -> Check {
        let late = self.executing.get(&batch.hedge_of).cloned();
        let Some((replica, members)) = late else {
            return Err(TestCaseError::fail(format!("{batch:?} copies nothing")));
        };
        prop_assert!(!batch.is_pipelined && replica != batch.replica as i64);
        let live = members.into_iter().filter(|ticket| self.live.contains_key(ticket));
        prop_assert_eq!(live.collect::<Vec<_>>(), batch.tickets.clone());
        prop_assert!(self.twins.insert(batch.id, batch.hedge_of).is_none());
        prop_assert!(self.twins.insert(batch.hedge_of, batch.id).is_none());
        self.executing.insert(batch.id, (batch.replica as i64, batch.tickets.clone()));
        self.num_copies += 1;
        Ok(())
    }

    /// All counts agree with who is where.
    pub fn check_counts(&self) -> Check {
        prop_assert_eq!(self.core.num_live(), self.live.len());
        prop_assert_eq!(self.core.num_executing(), self.executing.len());
        for (&ticket, known) in &self.live {
            prop_assert_eq!(self.core.pool_of(ticket as i64), known.pool);
        }
        for &pool in &self.pools {
            let stats = self.core.pool_stats(pool).map_err(fail)?;
            let queued: Vec<&Known> = self
                .live
                .values()
                .filter(|known| known.pool == pool && known.batch.is_none())
                .collect();
            prop_assert_eq!(stats.queued_requests, queued.len() as u64);
            prop_assert_eq!(stats.queued_units, queued.iter().map(|k| k.units).sum::<u64>());
            prop_assert_eq!(stats.queued_rows, queued.iter().map(|k| k.rows).sum::<u64>());
            let here = |known: &&Known| known.pool == pool && known.batch.is_some();
            prop_assert_eq!(
                stats.executing_requests as usize,
                self.live.values().filter(here).count()
            );
        }
        let earliest = self.live.values().map(|known| known.deadline_ns).min();
        prop_assert!(earliest.is_none() || self.core.next_event_ns() <= earliest);
        prop_assert!(earliest.is_none() || self.core.next_event_ns().is_some());
        for &handle in self.replicas.keys() {
            let stats = self.core.replica_stats(handle).map_err(fail)?;
            let in_hand = self.executing.values().filter(|batch| batch.0 == handle).count();
            prop_assert_eq!(stats.outstanding_batches, in_hand);
        }
        Ok(())
    }

    /// Ends everything; nothing may be left.
    pub fn wind_down(&mut self) -> Check {
        while let Some(id) = nth(&self.executing, 0) {
            self.finish_batch(id, &Report::bare(BatchOutcome::Lost))?;
        }
        while !self.live.is_empty() {
            self.take(&Step::Cancel { pick: 0 })?;
        }
        while !self.replicas.is_empty() {
            self.take(&Step::RemoveReplica { pick: 0 })?;
        }
        self.check_counts()?;
        for &pool in &self.pools {
            let stats = self.core.pool_stats(pool).map_err(fail)?;
            let left = (stats.queued_requests, stats.queued_units, stats.executing_batches);
            prop_assert_eq!(left, (0, 0, 0));
            prop_assert_eq!((stats.free_slots, stats.ready_replicas, stats.drain_ns), (0, 0, 0));
            prop_assert!(self.core.remove_pool(self.now_ns, pool).map_err(fail)?.is_empty());
        }
        prop_assert_eq!(self.core.next_event_ns(), None);
        Ok(())
    }
}
