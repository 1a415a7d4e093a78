//! Outputs that are written in lanes: who begins next, when lanes fall free, which replica is quick.
//!
//! An output holds a lane for seconds and costs what its neighbours leave it, so that neither
//! batches nor their cost models say anything of it (docs/adr/0063).
mod ends;
mod shares;
mod speeds;

pub use ends::{Expected, LaneEnds};
pub use shares::{LaneShares, Waiting};
pub use speeds::{Quickest, ReplicaSpeeds};

/// A float as a key, in the total order.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Rank(f64);

impl Eq for Rank {}

impl PartialOrd for Rank {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Rank {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}
