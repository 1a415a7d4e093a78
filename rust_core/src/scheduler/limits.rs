//! What replicas take and pools may have in hand, as the caller gives it.
use crate::batch::Limits;
use crate::check;
use crate::error::CoreError;
use crate::limiter::LimiterSettings;

/// How many requests a pool may have in hand, and what part of it is kept for whom.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdmissionSettings {
    /// Bounds of the limit.
    pub limit: LimiterSettings,
    /// Parts of the limit kept for critical and for standard requests, in [0, 1], sum below 1.
    pub reserved: [f64; 2],
}

impl AdmissionSettings {
    pub(super) fn check(&self) -> Result<(), CoreError> {
        self.limit.check()?;
        let [critical, standard] = self.reserved;
        check::ratio("reserved_critical", critical)?;
        check::ratio("reserved_standard", standard)?;
        if critical + standard > 0.95 {
            let expected = "at most 0.95 together with reserved_critical";
            return Err(CoreError::argument("reserved_standard", standard, expected));
        }
        Ok(())
    }
}

/// What a replica may be given. Values are those of `headway.v1.ReplicaCondition`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Condition {
    /// Known but not connected.
    Connecting = 1,
    /// Takes batches.
    Ready = 2,
    /// Finishes what it has.
    Draining = 3,
}

/// Limits of a replica as the caller gave them; 0 for none, but for `max_outstanding`.
#[derive(Debug, Clone, Copy)]
pub struct ReplicaLimits {
    /// Batches at once, >= 1.
    pub max_outstanding: i64,
    /// Requests of one batch.
    pub max_requests: i64,
    /// Rows of one batch.
    pub max_rows: i64,
    /// Units of one batch.
    pub max_units: i64,
}

impl ReplicaLimits {
    pub(super) fn check(&self) -> Result<(u64, Limits), CoreError> {
        let most = 1 << 20;
        let outstanding =
            check::count("max_outstanding", self.max_outstanding, 1, most, "from 1 to 2**20")?;
        let limits = Limits {
            requests: limit("max_requests", self.max_requests)?,
            rows: limit("max_rows", self.max_rows)?,
            units: limit("max_units", self.max_units)?,
        };
        Ok((outstanding, limits))
    }
}

fn limit(name: &'static str, value: i64) -> Result<u64, CoreError> {
    let expected = "from 0 (no limit) to 2**62";
    let value = check::count(name, value, 0, check::MAX_NS, expected)?;
    Ok(if value == 0 { u64::MAX } else { value })
}
