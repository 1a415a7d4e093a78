//! The production scheduler in the simulator: the very object that the gateway drives.

use super::engine::{Device, Dispatch, FleetState, SimPolicy};
use super::trace::Trace;
use crate::batching::settings::PolicySettings;
use crate::check::MAX_LIVE;
use crate::cost::Affine;
use crate::error::CoreError;
use crate::scheduler::{
    BatchOutcome, Condition, Offer, PoolStats, ReplicaLimits, Report, Scheduler,
};

/// Identifier of the one pool, model and tenant of a simulation.
const ONLY: i64 = 0;

/// How the scheduler is set up.
#[derive(Clone, Debug)]
pub struct HeadwaySetup {
    /// What operators can set.
    pub settings: PolicySettings,
    /// What it believes of the device at the start.
    pub prior: Affine,
    /// False keeps the prior: batches are reported without their times.
    pub is_learning: bool,
    /// Bound of the queue.
    pub max_queued_requests: i64,
    /// Seed of its choices.
    pub seed: u64,
}

/// Headway's scheduler, serving one model with one pool.
pub struct HeadwayPolicy<'a> {
    trace: &'a Trace,
    scheduler: Scheduler,
    pool: i64,
    replicas: Vec<i64>,
    /// Ticket of each request.
    tickets: Vec<u64>,
    /// Request of each slot of a ticket.
    ids: Vec<u32>,
    /// Batch on each replica.
    batches: Vec<u64>,
    present: Vec<bool>,
    is_learning: bool,
}

impl<'a> HeadwayPolicy<'a> {
    /// A scheduler for a fleet.
    ///
    /// # Errors
    /// A setup out of the scheduler's bounds.
    pub fn new(
        trace: &'a Trace,
        device: &Device,
        replicas: usize,
        setup: &HeadwaySetup,
    ) -> Result<Self, CoreError> {
        let max_live = MAX_LIVE.min(setup.max_queued_requests.saturating_mul(2).max(65536));
        let mut scheduler = Scheduler::new(setup.seed, max_live, 3)?;
        scheduler.add_tenant(0, f64::INFINITY, f64::INFINITY)?;
        let model = scheduler.add_model(0);
        let pool = scheduler.add_pool(setup.max_queued_requests, 1 << 60, setup.prior)?;
        scheduler.set_policy(pool, &setup.settings)?;
        scheduler.set_split(model, &[pool], &[1.0])?;
        let limits = ReplicaLimits {
            max_outstanding: 1,
            max_requests: device.max_requests.cast_signed(),
            max_rows: device.max_rows.cast_signed(),
            max_units: device.max_units.cast_signed(),
        };
        let mut handles = Vec::new();
        for _ in 0..replicas {
            let replica = scheduler.add_replica(0, pool, &limits)?;
            scheduler.set_replica_condition(0, replica, Condition::Ready)?;
            handles.push(replica);
        }
        Ok(Self {
            trace,
            scheduler,
            pool,
            replicas: handles,
            tickets: vec![0; trace.rows.len()],
            ids: Vec::new(),
            batches: vec![0; replicas],
            present: vec![true; replicas],
            is_learning: setup.is_learning,
        })
    }

    /// The pool as it is now.
    #[must_use]
    pub fn stats(&self) -> Option<PoolStats> {
        self.scheduler.pool_stats(self.pool).ok()
    }

    /// A replica that is taken away finishes its batch and gets no more.
    fn follow(&mut self, now_ns: i64, state: &FleetState) {
        for replica in 0..self.present.len() {
            if self.present[replica] != state.present[replica] {
                self.present[replica] = state.present[replica];
                let condition =
                    if self.present[replica] { Condition::Ready } else { Condition::Draining };
                let handle = self.replicas[replica];
                let _ = self.scheduler.set_replica_condition(now_ns, handle, condition);
            }
        }
    }
}

/// Slot part of a ticket: small, and unique among live requests.
#[allow(clippy::cast_possible_truncation)] // masked
fn slot(ticket: u64) -> usize {
    (ticket & ((1 << 24) - 1)) as usize
}

impl SimPolicy for HeadwayPolicy<'_> {
    fn arrive(&mut self, now_ns: i64, id: u32, state: &FleetState) -> bool {
        self.follow(now_ns, state);
        let row = &self.trace.rows[id as usize];
        let offer = Offer {
            tenant: ONLY,
            model: ONLY,
            pool: self.pool,
            key_hash: u64::from(row.tenant),
            units: row.units.cast_signed(),
            rows: i64::from(row.rows),
            deadline_ns: row.at_ns + row.deadline_ns,
            priority: i64::from(row.priority),
            lane: i64::from(row.lane),
            weight: row.weight,
        };
        let Ok(Ok(ticket)) = self.scheduler.offer(now_ns, &offer) else { return false };
        self.tickets[id as usize] = ticket;
        if self.ids.len() <= slot(ticket) {
            self.ids.resize(slot(ticket) + 1, 0);
        }
        self.ids[slot(ticket)] = id;
        true
    }

    fn cancel(&mut self, now_ns: i64, id: u32) {
        let ticket = self.tickets[id as usize].cast_signed();
        let _ = self.scheduler.cancel(now_ns, ticket);
    }

    fn form(
        &mut self,
        now_ns: i64,
        state: &FleetState,
        members: &mut Vec<u32>,
    ) -> Option<Dispatch> {
        self.follow(now_ns, state);
        let batch = self.scheduler.form_batch(now_ns, self.pool).ok()??;
        members.extend(batch.tickets.iter().map(|ticket| self.ids[slot(*ticket)]));
        let handle = batch.replica.cast_signed();
        let replica = self.replicas.iter().position(|replica| *replica == handle)?;
        self.batches[replica] = batch.id;
        Some(Dispatch { replica })
    }

    #[allow(clippy::cast_possible_truncation)] // device times are far below 2^53
    fn complete(&mut self, now_ns: i64, replica: usize, _units: u64, took_ns: f64) {
        let device_ns = if self.is_learning { (took_ns as i64).max(1) } else { 0 };
        let report = Report { device_ns, ..Report::bare(BatchOutcome::Ok) };
        let _ = self.scheduler.complete(now_ns, self.batches[replica].cast_signed(), &report);
    }

    fn expire(&mut self, now_ns: i64, dropped: &mut Vec<u32>) {
        if let Ok(ended) = self.scheduler.expire(now_ns) {
            dropped.extend(ended.iter().map(|ended| self.ids[slot(ended.ticket)]));
        }
    }

    fn wake_at_ns(&self, _now_ns: i64) -> Option<i64> {
        self.scheduler.next_event_ns()
    }
}
