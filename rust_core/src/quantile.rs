//! Quantiles of the last few values.

/// Exact quantiles of the last 256 values. Adding one is O(log n) and moves at most 1 KiB.
#[derive(Debug, Clone, Default)]
pub struct RecentQuantile {
    ring: Vec<u32>,
    sorted: Vec<u32>,
    oldest: usize,
}

impl RecentQuantile {
    /// Values kept.
    pub const CAPACITY: usize = 256;

    /// Adds a value; the oldest of 256 leaves.
    pub fn push(&mut self, value: u32) {
        if self.ring.len() < Self::CAPACITY {
            self.ring.push(value);
        } else {
            let old = std::mem::replace(&mut self.ring[self.oldest], value);
            self.oldest = (self.oldest + 1) % Self::CAPACITY;
            self.sorted.remove(self.sorted.partition_point(|&other| other < old));
        }
        self.sorted.insert(self.sorted.partition_point(|&other| other < value), value);
    }

    /// Values held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ring.len()
    }

    /// True without values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    /// The smallest value that at least `percent` % of the values do not exceed; None when empty.
    #[must_use]
    pub fn percentile(&self, percent: usize) -> Option<u32> {
        let rank = (self.sorted.len() * percent).div_ceil(100);
        self.sorted.get(rank.max(1) - 1).copied()
    }
}
