//! The scheduler beside its model.
mod checks;

use std::collections::{BTreeMap, BTreeSet};

use headway_core::cost::Affine;
use headway_core::error::CoreError;
use headway_core::scheduler::{
    BatchOutcome, Condition, Offer, ReplicaLimits, Report, Resilience, Scheduler,
};
use proptest::prelude::*;

use crate::step::Step;

const MS: i64 = 1_000_000;
const MAX_ATTEMPTS: u32 = 3;

/// A live request.
#[derive(Debug, Clone, Copy)]
pub struct Known {
    pool: i64,
    units: u64,
    rows: u64,
    deadline_ns: i64,
    batch: Option<u64>,
    attempts: u32,
}

/// The scheduler and what must be true of it.
pub struct World {
    core: Scheduler,
    now_ns: i64,
    pools: Vec<i64>,
    replicas: BTreeMap<i64, (ReplicaLimits, Condition)>,
    pub live: BTreeMap<u64, Known>,
    pub executing: BTreeMap<u64, (i64, Vec<u64>)>,
    /// Late batches and their copies, both ways.
    twins: BTreeMap<u64, u64>,
    /// Copies seen in this history.
    pub num_copies: usize,
    done: Vec<u64>,
    ended: BTreeSet<u64>,
    /// Every batch takes exactly what the cost model says.
    pub is_exact: bool,
    /// Queued requests that were ended before their deadline.
    pub num_given_up: u64,
}

pub type Check = Result<(), TestCaseError>;

#[allow(clippy::needless_pass_by_value)] // for `map_err`
fn fail(error: CoreError) -> TestCaseError {
    TestCaseError::fail(error.to_string())
}

fn nth<K: Copy, V>(map: &BTreeMap<K, V>, pick: usize) -> Option<K> {
    map.keys().nth(pick.checked_rem(map.len())?).copied()
}

impl World {
    pub fn new() -> Result<Self, TestCaseError> {
        let mut core = Scheduler::new(5, 64, i64::from(MAX_ATTEMPTS)).map_err(fail)?;
        core.add_tenant(0, f64::INFINITY, f64::INFINITY).map_err(fail)?;
        let model = core.add_model(9);
        let prior = Affine { fixed_ns: 18e6, unit_ns: 22e3 };
        let pools: Vec<i64> = (0..2).filter_map(|_| core.add_pool(40, 8_000, prior).ok()).collect();
        core.set_split(model, &pools, &[0.5, 0.5]).map_err(fail)?;
        let settings = Resilience { hedge_share: 1.0, is_pipelined: true, ..Resilience::default() };
        core.set_resilience(&settings).map_err(fail)?;
        let mut world = Self {
            core,
            now_ns: 0,
            pools,
            replicas: BTreeMap::new(),
            live: BTreeMap::new(),
            executing: BTreeMap::new(),
            twins: BTreeMap::new(),
            num_copies: 0,
            done: Vec::new(),
            ended: BTreeSet::new(),
            is_exact: false,
            num_given_up: 0,
        };
        world.warm_up()?;
        Ok(world)
    }

    /// Serves some batches in each pool, so that it is known what is late.
    fn warm_up(&mut self) -> Check {
        for pool in 0..self.pools.len() {
            let limits =
                ReplicaLimits { max_outstanding: 1, max_requests: 0, max_rows: 0, max_units: 0 };
            self.add_replica(pool, limits)?;
            for units in 0..24 {
                self.offer(self.pools[pool], 10 + 10 * units, 1, 500, 1)?;
                self.take(&Step::Form { pool })?;
                self.now_ns += 19 * MS;
                let id = nth(&self.executing, 0).unwrap_or(0);
                let exact_ns = 18 * MS + 22_000 * (10 + 10 * units);
                let report = Report { device_ns: exact_ns, ..Report::bare(BatchOutcome::Ok) };
                self.finish_batch(id, &report)?;
            }
            self.add_replica(pool, limits)?;
        }
        Ok(())
    }

    fn end(&mut self, ticket: u64) -> Check {
        prop_assert!(self.live.remove(&ticket).is_some(), "{ticket} was not live");
        prop_assert!(self.ended.insert(ticket), "{ticket} ended twice");
        Ok(())
    }

    /// Does one thing and checks what comes of it.
    pub fn take(&mut self, step: &Step) -> Check {
        match *step {
            Step::Wait(ms) => self.now_ns += ms * MS,
            Step::Offer { pool, units, rows, slack_ms, lane } => {
                self.offer(pool, units, rows, slack_ms, lane)?;
            }
            Step::Form { pool } => {
                let pool = self.pools[pool];
                if let Some(batch) = self.core.form_batch(self.now_ns, pool).map_err(fail)? {
                    self.check_batch(&batch, pool)?;
                }
            }
            Step::Look => self.look()?,
            Step::Complete { pick, outcome, retry, failed, device_ms } => {
                self.complete(pick, outcome, retry, failed, device_ms)?;
            }
            Step::CompleteTwice { pick } => self.complete_twice(pick)?,
            Step::Cancel { pick } => self.cancel(pick)?,
            Step::Expire => self.expire()?,
            Step::AddReplica { pool, slots, requests, rows, units } => {
                let limits = ReplicaLimits {
                    max_outstanding: slots,
                    max_requests: requests,
                    max_rows: rows,
                    max_units: units,
                };
                self.add_replica(pool, limits)?;
            }
            Step::Condition { pick, condition } => self.set_condition(pick, condition)?,
            Step::RemoveReplica { pick } => self.remove_replica(pick)?,
        }
        Ok(())
    }

    fn offer(&mut self, pool: i64, units: i64, rows: i64, slack_ms: i64, lane: i64) -> Check {
        let deadline_ns = self.now_ns + slack_ms * MS;
        let offer = Offer {
            tenant: 0,
            model: 0,
            pool,
            key_hash: units as u64 * 7 + rows as u64,
            units,
            rows,
            deadline_ns,
            priority: 2,
            lane,
            weight: 1.0,
        };
        let Ok(ticket) = self.core.offer(self.now_ns, &offer).map_err(fail)? else {
            return Ok(());
        };
        prop_assert!(slack_ms > 0 && !self.ended.contains(&ticket));
        let known = Known {
            pool: self.core.pool_of(ticket as i64),
            units: units as u64,
            rows: rows as u64,
            deadline_ns,
            batch: None,
            attempts: 0,
        };
        prop_assert!(pool == -1 || known.pool == pool);
        prop_assert!(self.live.insert(ticket, known).is_none());
        Ok(())
    }

    /// What a gateway's timer does: waits for the next event and asks again.
    fn look(&mut self) -> Check {
        let earliest = self.live.values().map(|known| known.deadline_ns).min();
        if let Some(at_ns) = self.core.next_event_ns() {
            if earliest.is_none_or(|deadline_ns| at_ns < deadline_ns) {
                self.now_ns = self.now_ns.max(at_ns);
            }
        }
        for pool in 0..self.pools.len() {
            self.take(&Step::Form { pool })?;
        }
        Ok(())
    }

    fn complete_twice(&mut self, pick: usize) -> Check {
        let index = pick.checked_rem(self.done.len()).unwrap_or(0);
        if let Some(&id) = self.done.get(index) {
            let report = Report::bare(BatchOutcome::Failed);
            let ended = self.core.complete(self.now_ns, id as i64, &report).map_err(fail)?;
            prop_assert!(ended.is_empty());
        }
        Ok(())
    }

    fn cancel(&mut self, pick: usize) -> Check {
        let Some(ticket) = nth(&self.live, pick) else { return Ok(()) };
        let ended = self.core.cancel(self.now_ns, ticket as i64).map_err(fail)?;
        let batch = self.live.get(&ticket).and_then(|known| known.batch).unwrap_or(0);
        prop_assert_eq!(ended.map(|one| (one.ticket, one.batch)), Some((ticket, batch)));
        self.end(ticket)?;
        prop_assert!(self.core.cancel(self.now_ns, ticket as i64).map_err(fail)?.is_none());
        Ok(())
    }

    fn expire(&mut self) -> Check {
        let due = self.live.iter().filter(|(_, known)| known.deadline_ns <= self.now_ns);
        let due: BTreeSet<u64> = due.map(|(&ticket, _)| ticket).collect();
        let ended = self.core.expire(self.now_ns).map_err(fail)?;
        let told: BTreeSet<u64> = ended.iter().map(|one| one.ticket).collect();
        prop_assert!(due.is_subset(&told), "{due:?} is due, {told:?} ended");
        // Beyond the due ones, only queued requests that nobody can serve in time any more.
        for early in told.difference(&due) {
            let known = self.live.get(early);
            prop_assert!(known.is_some_and(|known| known.batch.is_none()));
            self.num_given_up += 1;
            if self.is_exact {
                prop_assert!(
                    known.is_some_and(|known| !self.could_serve(known)),
                    "{early} had time"
                );
            }
        }
        for one in ended {
            let batch = self.live.get(&one.ticket).and_then(|known| known.batch);
            prop_assert_eq!(one.batch, batch.unwrap_or(0));
            let replica = batch.and_then(|id| self.executing.get(&id)).map_or(-1, |held| held.0);
            prop_assert_eq!(one.replica, replica);
            self.end(one.ticket)?;
        }
        Ok(())
    }

    /// True if a replica that began on it alone now would be in time, with 3 % to spare: the margin
    /// by which deadlines are judged while no batch was ever off.
    fn could_serve(&self, known: &Known) -> bool {
        let alone_ns = 18 * MS + 22_000 * known.units as i64;
        self.now_ns + alone_ns + alone_ns * 3 / 100 <= known.deadline_ns
    }

    fn add_replica(&mut self, pool: usize, limits: ReplicaLimits) -> Check {
        let pool = self.pools[pool];
        let handle = self.core.add_replica(self.now_ns, pool, &limits).map_err(fail)?;
        let ready = Condition::Ready;
        self.core.set_replica_condition(self.now_ns, handle, ready).map_err(fail)?;
        prop_assert!(self.replicas.insert(handle, (limits, ready)).is_none());
        Ok(())
    }

    fn set_condition(&mut self, pick: usize, condition: u8) -> Check {
        let Some(handle) = nth(&self.replicas, pick) else { return Ok(()) };
        let condition = match condition {
            0 => Condition::Connecting,
            1 => Condition::Draining,
            _ => Condition::Ready,
        };
        self.core.set_replica_condition(self.now_ns, handle, condition).map_err(fail)?;
        if let Some(replica) = self.replicas.get_mut(&handle) {
            replica.1 = condition;
        }
        Ok(())
    }

    fn remove_replica(&mut self, pick: usize) -> Check {
        let Some(handle) = nth(&self.replicas, pick) else { return Ok(()) };
        self.replicas.remove(&handle);
        let on_it = self.executing.iter().filter(|(_, batch)| batch.0 == handle);
        let expected: BTreeSet<u64> = on_it.map(|(&id, _)| id).collect();
        let ids = self.core.remove_replica(self.now_ns, handle).map_err(fail)?;
        prop_assert_eq!(ids.iter().copied().collect::<BTreeSet<_>>(), expected);
        for id in ids {
            self.finish_batch(id, &Report::bare(BatchOutcome::Lost))?;
        }
        Ok(())
    }

    fn complete(
        &mut self,
        pick: usize,
        outcome: u8,
        retry: u8,
        failed: i64,
        device_ms: i64,
    ) -> Check {
        let Some(id) = nth(&self.executing, pick) else { return Ok(()) };
        let members = self.executing.get(&id).map(|batch| batch.1.clone()).unwrap_or_default();
        let again = members.iter().enumerate().filter(|(at, _)| retry >> (at % 8) & 1 == 1);
        let again: Vec<u64> = again.map(|(_, &ticket)| ticket).collect();
        let units: u64 = members.iter().filter_map(|t| self.live.get(t)).map(|k| k.units).sum();
        let exact_ns = 18 * MS + 22_000 * units as i64;
        let report = match outcome {
            0 => Report::bare(BatchOutcome::Busy),
            1 => Report::bare(BatchOutcome::Failed),
            2 => Report::bare(BatchOutcome::Lost),
            3 => Report { retry: &again, failed, ..Report::bare(BatchOutcome::Ok) },
            4 if !self.is_exact => {
                Report { device_ns: device_ms * MS, units: 99, ..Report::bare(BatchOutcome::Ok) }
            }
            _ => Report { device_ns: exact_ns, ..Report::bare(BatchOutcome::Ok) },
        };
        self.finish_batch(id, &report)
    }

    fn finish_batch(&mut self, id: u64, report: &Report<'_>) -> Check {
        let ended = self.core.complete(self.now_ns, id as i64, report).map_err(fail)?;
        let Some((_, members)) = self.executing.remove(&id) else { return Ok(()) };
        self.done.push(id);
        let twin = self.twins.remove(&id);
        if let Some(twin) = twin {
            self.twins.remove(&twin);
        }
        for ticket in members {
            let Some(known) = self.live.get_mut(&ticket) else { continue };
            if known.batch != Some(id) && (twin.is_none() || known.batch != twin) {
                continue;
            }
            let is_answered = report.outcome == BatchOutcome::Ok && !report.retry.contains(&ticket);
            if !is_answered && twin.is_some() {
                // The other copy goes on.
                prop_assert!(!ended.contains(&ticket));
                known.batch = twin;
                continue;
            }
            if report.outcome == BatchOutcome::Busy {
                known.attempts -= 1;
            }
            known.batch = None;
            if is_answered || ended.contains(&ticket) {
                prop_assert!(!(is_answered && ended.contains(&ticket)));
                self.end(ticket)?;
            } else {
                prop_assert!(known.attempts < MAX_ATTEMPTS && known.deadline_ns > self.now_ns);
            }
        }
        prop_assert!(ended.iter().all(|ticket| self.ended.contains(ticket)));
        Ok(())
    }
}
