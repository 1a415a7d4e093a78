//! What a request costs its tenant: reserved when it is admitted, settled when it ends.
use crate::batch::{Item, Priority};
use crate::check::MAX_NS;
use crate::tenants::Used;

use super::report::{BatchOutcome, Report};
use super::{Dispatch, Request, Scheduler};

/// How fast the device time of a unit follows the batches.
const TIME_GAIN: f64 = 0.1;

/// Nothing was done for it, or nothing that its tenant should pay for.
pub(super) const NOTHING: Used = Used { units: 0, device_ns: 0.0 };

/// Requests of a pool that are queued or executing, by class, and when each class last asked.
#[derive(Debug, Default)]
pub(super) struct Classes {
    pub inflight: [u64; 3],
    pub asked_at_ns: [Option<i64>; 3],
    /// Device time of a unit, whole batches taken together; 0 before any is known.
    pub unit_ns: f64,
    /// Requests displaced from the queue, by class.
    pub displaced: [u64; 3],
    /// When a queued request was last given up or an arrival shed.
    pub pressed_at_ns: Option<i64>,
}

impl Classes {
    pub(super) fn total(&self) -> u64 {
        self.inflight.iter().sum()
    }

    pub(super) fn of(priority: Priority) -> usize {
        priority as usize - 1
    }

    /// Learns from a batch what a unit takes.
    pub(super) fn learn(&mut self, units: u64, device_ns: i64) {
        let unit_ns = device_ns as f64 / units.max(1) as f64;
        let gain = if self.unit_ns > 0.0 { TIME_GAIN } else { 1.0 };
        self.unit_ns += gain * (unit_ns - self.unit_ns);
    }
}

impl Scheduler {
    /// Charges an admitted request to its tenant.
    pub(super) fn reserve(
        &mut self,
        now_ns: i64,
        pool: u64,
        item: &Item,
        tenant: u32,
        device_ns: f64,
    ) {
        self.tenants.add_time(now_ns, tenant, now_ns, device_ns);
        if let Some(bucket) = self.tenants.bucket_mut(tenant) {
            bucket.take(now_ns, item.units);
        }
        if let Some(tenant) = self.tenants.at_mut(tenant) {
            tenant.live += 1;
        }
        self.count_queued(tenant, item.units);
        let class = Classes::of(item.priority);
        if let Some(pool) = self.pool_mut(pool) {
            pool.classes.inflight[class] += 1;
        }
    }

    pub(super) fn count_queued(&mut self, tenant: u32, units: u64) {
        if let Some(tenant) = self.tenants.at_mut(tenant) {
            tenant.queued_requests += 1;
            tenant.queued_units += units;
        }
    }

    pub(super) fn count_dequeued(&mut self, tenant: u32, units: u64) {
        if let Some(tenant) = self.tenants.at_mut(tenant) {
            tenant.queued_requests -= 1;
            tenant.queued_units -= units;
        }
    }

    /// Settles with the tenant of a request that has ended.
    ///
    /// What never ran is given back whole, and so is what failed by no fault of its own; what
    /// ended early while it ran is paid for as estimated, since the device worked on it.
    pub(super) fn settle(&mut self, request: &Request, used: Option<Used>) {
        let (now_ns, tenant) = (self.now_ns, request.tenant);
        let is_queued = request.is_queued();
        let class = Classes::of(request.item.priority);
        if let Some(pool) = self.pool_mut(request.pool) {
            pool.classes.inflight[class] -= 1;
            if is_queued && used.is_none() {
                pool.classes.pressed_at_ns = Some(now_ns);
            }
        }
        if is_queued {
            self.count_dequeued(tenant, request.item.units);
        }
        let reserved = request.reserved();
        let used = used.unwrap_or(if is_queued { NOTHING } else { reserved });
        self.tenants.settle(now_ns, tenant, request.item.arrived_ns, reserved, used);
    }
}

impl Scheduler {
    /// Learns from a batch that ended well: what a unit takes, and whether anything but the plan
    /// held it up.
    pub(super) fn learn_congestion(&mut self, now_ns: i64, dispatch: &Dispatch, report: &Report) {
        let is_sample = report.outcome == BatchOutcome::Ok
            && report.failed <= 0
            && report.retry.is_empty()
            && dispatch.live > 0;
        let Some(pool) = self.pool_mut(dispatch.pool).filter(|_| is_sample) else { return };
        if (1..=MAX_NS).contains(&report.device_ns) {
            pool.classes.learn(dispatch.units, report.device_ns);
        }
        let inflight = pool.classes.total();
        if let Some(limiter) = &mut pool.limiter {
            let measured_ns = now_ns.saturating_sub(dispatch.at_ns);
            limiter.observe(measured_ns, dispatch.planned_ns, inflight);
        }
    }
}
