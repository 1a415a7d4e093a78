//! Arrivals, column by column.

/// One request of a trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TraceRow {
    /// Arrival.
    pub at_ns: i64,
    /// Work, prompt and output.
    pub units: u64,
    /// Rows.
    pub rows: u32,
    /// Deadline, from arrival.
    pub deadline_ns: i64,
    /// Class of the workload, for the report.
    pub class: u8,
    /// 1 interactive, 2 bulk.
    pub lane: u8,
    /// 1 critical, 2 standard, 3 sheddable.
    pub priority: u8,
    /// Tenant.
    pub tenant: u32,
    /// Value of the answer.
    pub weight: f64,
    /// The client gives up this long after arrival; `i64::MAX` for never.
    pub cancel_after_ns: i64,
}

/// Arrivals in order of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// Requests.
    pub rows: Vec<TraceRow>,
    /// Time over which they were offered.
    pub duration_ns: i64,
}

impl Trace {
    /// The part before `until_ns`.
    #[must_use]
    pub fn head(&self, until_ns: i64) -> Self {
        let end = self.rows.partition_point(|row| row.at_ns < until_ns);
        Self { rows: self.rows[..end].to_vec(), duration_ns: until_ns.min(self.duration_ns) }
    }

    /// Units at the given quantile of the sizes; 0 for an empty trace.
    #[must_use]
    pub fn units_quantile(&self, share: f64) -> u64 {
        let mut units: Vec<u64> = self.rows.iter().map(|row| row.units).collect();
        if units.is_empty() {
            return 0;
        }
        units.sort_unstable();
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let at = (share * units.len() as f64) as usize;
        units[at.min(units.len() - 1)]
    }
}
