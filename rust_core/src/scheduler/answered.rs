//! How the answered members of a batch end: all at once, since a batch is as long as its members.
use crate::batch::Item;
use crate::check::{MAX_NS, MAX_UNITS};
use crate::tenants::Used;

use super::report::Report;
use super::tenancy::Classes;
use super::{Dispatch, Request, Scheduler};

/// By what a batch is shared out to its members.
pub(super) struct Shares<'a> {
    /// Units of the batch as estimated, at least 1.
    units: f64,
    /// Units as counted by the runtime.
    counted: Option<f64>,
    device_ns: Option<f64>,
    /// Units told for single members, by rising ticket.
    told: &'a [(u64, u64)],
}

impl<'a> Shares<'a> {
    pub(super) fn of(dispatch: &Dispatch, report: &Report<'a>) -> Self {
        let is_timed = (1..=MAX_NS).contains(&report.device_ns);
        Self {
            units: dispatch.units.max(1) as f64,
            counted: (report.units > 0).then_some(report.units as f64),
            device_ns: is_timed.then_some(report.device_ns as f64),
            told: report.used,
        }
    }

    /// What an answered request used: as told for it alone, else its share of its batch.
    pub(super) fn used_by(&self, ticket: u64, request: &Request) -> Used {
        let share = request.item.units as f64 / self.units;
        let told = self.told.binary_search_by_key(&ticket, |&(ticket, _)| ticket);
        let units = match (told.ok().and_then(|at| self.told.get(at)), self.counted) {
            (Some(&(_, units)), _) => units.min(MAX_UNITS.unsigned_abs()),
            (None, Some(counted)) => rounded(share * counted),
            (None, None) => request.item.units,
        };
        let device_ns = self.device_ns.map_or(request.device_ns, |device_ns| share * device_ns);
        Used { units, device_ns }
    }
}

/// As `f64::round` for what is not negative, which calls into the C library.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a share of a count
fn rounded(value: f64) -> u64 {
    let whole = value as i64;
    (whole + i64::from(value - whole as f64 >= 0.5)).unsigned_abs()
}

/// Members of one batch that have left; their pool and the deadlines hear of them together.
#[derive(Debug, Default)]
pub(super) struct Leavers {
    slots: Vec<u32>,
    by_class: [u64; 3],
}

impl Scheduler {
    /// Ends a member of a batch that is no longer in the books; `take_leave` has to follow.
    pub(super) fn end_answered(&mut self, ticket: u64, slot: u32, shares: &Shares<'_>) {
        let Some(request) = self.live.at(slot) else { return };
        let (used, reserved) = (shares.used_by(ticket, request), request.reserved());
        let (tenant, has_failed) = (request.tenant, request.has_failed());
        let Item { arrived_ns, priority, .. } = request.item;
        self.live.take(slot);
        self.leavers.slots.push(slot);
        self.leavers.by_class[Classes::of(priority)] += 1;
        if has_failed {
            self.close_cases(slot);
        }
        self.tenants.settle(self.now_ns, tenant, arrived_ns, reserved, used);
    }

    /// Takes the members that left out of their pool's counts, and their deadlines.
    pub(super) fn take_leave(&mut self, pool: u64) {
        let leavers = std::mem::take(&mut self.leavers);
        self.deadlines.end(&leavers.slots);
        if let Some(pool) = self.pool_mut(pool) {
            pool.executing_requests -= leavers.slots.len() as u64;
            for (inflight, left) in pool.classes.inflight.iter_mut().zip(leavers.by_class) {
                *inflight -= left;
            }
        }
        // Its memory is used again.
        self.leavers.slots = leavers.slots;
        self.leavers.slots.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::rounded;

    #[test]
    fn rounds_as_the_library_does() {
        for value in [0.0, 0.49, 0.5, 0.499_999_999_999_999_94, 1.5, 2.5, 7.0, 4.5e15 + 0.5, 2e17] {
            assert!((rounded(value) as f64 - value.round()).abs() < f64::EPSILON, "{value}");
        }
    }
}
