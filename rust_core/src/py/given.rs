//! What the scheduler is given, as the core takes it.
use pyo3::prelude::*;

use super::argument::{Int, Real};
use crate::check;
use crate::scheduler::{Offer, ReplicaLimits};
use crate::tenants::TenantTerms;

/// A quota with what a tenant may have besides; `queue` bounds its queued requests and units.
pub(super) fn terms(
    quota: TenantTerms,
    largest_units: Option<Real>,
    weight: Real,
    queue: [Int; 2],
) -> PyResult<TenantTerms> {
    let [requests, units] = queue;
    Ok(TenantTerms {
        largest_units: largest_units.map_or(quota.burst_units, |largest| largest.0),
        weight: weight.0,
        max_queued_requests: bound("max_queued_requests", requests)?,
        max_queued_units: bound("max_queued_units", units)?,
        ..quota
    })
}

/// A request of `[tenant, model, pool]`, of `[units, rows]`, in `[priority, lane]`.
pub(super) fn offer(
    place: [Int; 3],
    key_hash: u64,
    size: [Int; 2],
    deadline_ns: Int,
    class: [Int; 2],
    weight: Real,
) -> Offer {
    let [tenant, model, pool] = place.map(|handle| handle.0);
    let [units, rows] = size.map(|count| count.0);
    let [priority, lane] = class.map(|kind| kind.0);
    let (deadline_ns, weight) = (deadline_ns.0, weight.0);
    Offer { tenant, model, pool, key_hash, units, rows, deadline_ns, priority, lane, weight }
}

pub(super) fn limits(outstanding: Int, requests: Int, rows: Int, units: Int) -> ReplicaLimits {
    ReplicaLimits {
        max_outstanding: outstanding.0,
        max_requests: requests.0,
        max_rows: rows.0,
        max_units: units.0,
    }
}

/// A ticket and its units; None where one is negative.
pub(super) fn natural(pair: &(Int, Int)) -> Option<(u64, u64)> {
    Some((u64::try_from(pair.0 .0).ok()?, u64::try_from(pair.1 .0).ok()?))
}

/// A bound on what a tenant has queued; 0 for none.
fn bound(name: &'static str, value: Int) -> PyResult<u64> {
    let value = check::count(name, value.0, 0, check::MAX_NS, "from 0 (no bound) to 2**62")?;
    Ok(if value == 0 { u64::MAX } else { value })
}
