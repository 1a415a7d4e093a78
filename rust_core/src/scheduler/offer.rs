//! A request at the door, and what it is told.
use crate::batch::{Lane, Odds, Priority};
use crate::batching::price::Price;
use crate::check;
use crate::error::CoreError;

/// A request at the door, as the caller gave it.
#[derive(Debug, Clone, Copy)]
pub struct Offer {
    /// Tenant handle.
    pub tenant: i64,
    /// Model handle.
    pub model: i64,
    /// Pinned pool, or -1.
    pub pool: i64,
    /// Hash of the sticky key.
    pub key_hash: u64,
    /// Work units, >= 1.
    pub units: i64,
    /// Rows, >= 1.
    pub rows: i64,
    /// Instant by which the answer must be there.
    pub deadline_ns: i64,
    /// 1 critical, 2 standard, 3 sheddable.
    pub priority: i64,
    /// 1 interactive, 2 bulk.
    pub lane: i64,
    /// Value of the answer, > 0.
    pub weight: f64,
}

/// The checked part of an [`Offer`] that does not name handles.
#[derive(Debug, Clone, Copy)]
pub(super) struct Demand {
    pub units: u64,
    pub rows: u64,
    pub deadline_ns: i64,
    pub priority: Priority,
    pub lane: Lane,
    pub weight: f64,
}

impl Offer {
    pub(super) fn check(&self) -> Result<Demand, CoreError> {
        let priority = priority_of(self.priority)?;
        let lane = match self.lane {
            1 => Lane::Interactive,
            2 => Lane::Bulk,
            other => {
                return Err(CoreError::argument("lane", other, "1 (interactive) or 2 (bulk)"));
            }
        };
        if !(self.weight > 0.0 && self.weight <= 1e18) {
            return Err(CoreError::argument("weight", self.weight, "above 0 and at most 1e18"));
        }
        Ok(Demand {
            units: check::count("units", self.units, 1, check::MAX_UNITS, "from 1 to 2**38")?,
            rows: check::count("rows", self.rows, 1, check::MAX_ROWS, "from 1 to 2**31")?,
            deadline_ns: check::instant("deadline_ns", self.deadline_ns)?,
            priority,
            lane,
            weight: self.weight,
        })
    }
}

/// The class that a number on the wire stands for.
pub(super) fn priority_of(value: i64) -> Result<Priority, CoreError> {
    match value {
        1 => Ok(Priority::Critical),
        2 => Ok(Priority::Standard),
        3 => Ok(Priority::Sheddable),
        other => {
            let expected = "1 (critical), 2 (standard) or 3 (sheddable)";
            Err(CoreError::argument("priority", other, expected))
        }
    }
}

/// Why an offer was refused; see `_core.pyi` for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RefusalReason {
    /// The tenant's bucket is empty.
    QuotaExceeded = 1,
    /// More than the tenant's burst.
    QuotaImpossible = 2,
    /// More than any replica takes in one batch.
    TooLarge = 3,
    /// The pool's queue is at its bound.
    QueueFull = 4,
    /// Shed, or the table of live requests is full.
    Overloaded = 5,
    /// It could not finish in time even alone.
    DeadlineUnreachable = 6,
    /// Its deadline had passed.
    DeadlineExpired = 7,
    /// No replica is connected or connecting.
    NoCapacity = 8,
    /// The pool has as many requests in hand as it may, less what is kept for higher classes.
    LimitReached = 9,
    /// The tenant has as much queued as it may.
    TenantQueueFull = 10,
}

/// What admission saw of a pool and a tenant, this request not yet counted in.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Reading {
    /// Requests that the pool may have in hand; 0 for no limit.
    pub limit: u64,
    /// Requests that it had in hand.
    pub inflight: u64,
    /// Of them, kept free for higher classes.
    pub reserved: u64,
    /// Units that the tenant's bucket held; infinite without a quota, negative in debt.
    pub tenant_units: f64,
    /// Requests that the tenant had queued.
    pub tenant_queued: u64,
    /// The tenant's recent device time over its weighted fair share.
    pub share_ratio: f64,
    /// Part of its weight that the request kept: below 1 under overload and beyond the share.
    pub weight_part: f64,
    /// Requests queued in the pool.
    pub queued_requests: u64,
    /// Their units.
    pub queued_units: u64,
    /// Requests executing.
    pub executing_requests: u64,
    /// Time in which the fleet would serve all of that, and the request if it was taken in; 0
    /// where it was refused for another reason than want of room.
    pub drain_ns: i64,
    /// Value that the request earns for a second of device time, and what batches earned of late;
    /// zeros where it was refused before that was looked at.
    pub price: Price,
    /// Where it was refused because it would not be served in time: how that was judged.
    pub odds: Odds,
}

/// A request that was taken in.
#[derive(Debug, Clone, PartialEq)]
pub struct Admission {
    /// Its name from here on.
    pub ticket: u64,
    /// Where it is queued.
    pub pool: u64,
    /// Tickets of those that had to leave the queue for it; they have ended.
    pub displaced: Vec<u64>,
    /// What admission saw.
    pub reading: Reading,
}

/// A refusal and the numbers behind it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Verdict {
    /// Why.
    pub reason: RefusalReason,
    /// Pool that was chosen; -1 if refused before one was.
    pub pool: i64,
    /// When trying again makes sense, from now; 0 where it never does.
    pub retry_after_ns: i64,
    /// What it needed.
    pub needed: i64,
    /// What there was.
    pub available: i64,
    /// What admission saw.
    pub reading: Reading,
}
