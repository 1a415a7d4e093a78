//! What `Scheduler.admit` answers.
use pyo3::prelude::*;

use super::enums::RefusalReason;
use crate::scheduler;

/// A refusal and the numbers behind it.
#[pyclass(frozen, get_all, module = "headway._core")]
pub struct Verdict {
    reason: RefusalReason,
    pool: i64,
    retry_after_ns: i64,
    needed: i64,
    available: i64,
    reading: Reading,
}

/// What admission saw of the pool and the tenant, the request itself not counted.
#[pyclass(frozen, get_all, module = "headway._core")]
#[derive(Clone)]
pub struct Reading {
    limit: u64,
    inflight: u64,
    reserved: u64,
    tenant_units: f64,
    tenant_queued: u64,
    share_ratio: f64,
    weight_part: f64,
    queued_requests: u64,
    queued_units: u64,
    executing_requests: u64,
    drain_ns: i64,
    offered_per_s: f64,
    earned_per_s: f64,
    chance: f64,
    wanted_chance: f64,
}

/// A request that was taken in.
#[pyclass(frozen, get_all, module = "headway._core")]
pub struct Admission {
    ticket: u64,
    pool: u64,
    displaced: Vec<u64>,
    reading: Reading,
}

impl From<scheduler::Reading> for Reading {
    fn from(reading: scheduler::Reading) -> Self {
        Self {
            limit: reading.limit,
            inflight: reading.inflight,
            reserved: reading.reserved,
            tenant_units: reading.tenant_units,
            tenant_queued: reading.tenant_queued,
            share_ratio: reading.share_ratio,
            weight_part: reading.weight_part,
            queued_requests: reading.queued_requests,
            queued_units: reading.queued_units,
            executing_requests: reading.executing_requests,
            drain_ns: reading.drain_ns,
            offered_per_s: reading.price.offered_per_s,
            earned_per_s: reading.price.earned_per_s,
            chance: reading.odds.chance,
            wanted_chance: reading.odds.wanted,
        }
    }
}

impl From<scheduler::Admission> for Admission {
    fn from(admission: scheduler::Admission) -> Self {
        Self {
            ticket: admission.ticket,
            pool: admission.pool,
            displaced: admission.displaced,
            reading: admission.reading.into(),
        }
    }
}

impl From<scheduler::Verdict> for Verdict {
    fn from(verdict: scheduler::Verdict) -> Self {
        Self {
            reason: verdict.reason.into(),
            pool: verdict.pool,
            retry_after_ns: verdict.retry_after_ns,
            needed: verdict.needed,
            available: verdict.available,
            reading: verdict.reading.into(),
        }
    }
}

/// A ticket or a verdict.
#[derive(IntoPyObject)]
pub enum Answer {
    Ticket(u64),
    Verdict(Verdict),
}

/// An admission or a verdict.
#[derive(IntoPyObject)]
pub enum Decision {
    Admission(Admission),
    Verdict(Verdict),
}
