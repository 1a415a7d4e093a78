//! A batch on its way out, and how it ended.
use crate::batch::BatchReason;

/// How the execution of a batch ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BatchOutcome {
    /// The worker answered for it.
    Ok = 1,
    /// The worker did not begin it.
    Busy = 2,
    /// It failed as a whole.
    Failed = 3,
    /// The session ended before an answer.
    Lost = 4,
}

/// A batch for one replica; the lists run in parallel.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    /// Unique in the scheduler, from 1.
    pub id: u64,
    /// Pool handle.
    pub pool: u64,
    /// Replica handle.
    pub replica: u64,
    /// Why it closed.
    pub reason: BatchReason,
    /// Device time expected.
    pub predicted_ns: i64,
    /// The replica that was drawn together with this one and looked dearer; -1 for none.
    pub other_replica: i64,
    /// Expected wait and service on this replica; 0 if it was not weighed against another.
    pub score_ns: i64,
    /// The same on the other one.
    pub other_score_ns: i64,
    /// Units of all members.
    pub units: u64,
    /// Rows of all members.
    pub rows: u64,
    /// Members.
    pub tickets: Vec<u64>,
    /// Time from arrival to now.
    pub queued_ns: Vec<i64>,
    /// Deadline less predicted completion.
    pub slack_ns: Vec<i64>,
    /// Executions begun, this one included.
    pub attempts: Vec<u32>,
    /// The late batch that this is a copy of; 0 for none. Its members go on executing there.
    pub hedge_of: u64,
    /// When `form_batch` should be asked again for this batch's sake; 0 for never.
    pub look_at_ns: i64,
    /// Whether the replica still executes its last batch; this one waits there.
    pub is_pipelined: bool,
}

/// How a batch ended, as the worker told it. Measurements out of range count as 0.
#[derive(Debug, Clone, Copy)]
pub struct Report<'a> {
    /// How.
    pub outcome: BatchOutcome,
    /// Measured device time; 0 if indeterminate.
    pub device_ns: i64,
    /// Units as the runtime counted them; 0 for as estimated.
    pub units: i64,
    /// For Busy: when the worker expects to be free, from now.
    pub retry_after_ns: i64,
    /// For Ok: members without a valid result.
    pub retry: &'a [u64],
    /// For Ok: members that failed in the runtime.
    pub failed: i64,
    /// For Ok: members that were not executed, by no fault of the replica.
    pub invalid: i64,
    /// For Ok: units used by single members, prompt and output, by rising ticket.
    pub used: &'a [(u64, u64)],
}

impl Report<'_> {
    /// An outcome without measurements.
    #[must_use]
    pub fn bare(outcome: BatchOutcome) -> Self {
        Self {
            outcome,
            device_ns: 0,
            units: 0,
            retry_after_ns: 0,
            retry: &[],
            failed: 0,
            invalid: 0,
            used: &[],
        }
    }
}

/// A request that ended without the caller's doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// The request.
    pub ticket: u64,
    /// Batch it was executing in; 0 if queued.
    pub batch: u64,
    /// Replica it was executing on; -1 if queued.
    pub replica: i64,
}
