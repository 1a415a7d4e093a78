//! A small moving median.

/// Median of the last nine values; one stray value in nine moves it by one rank.
#[derive(Debug, Clone, Default)]
pub struct RecentMedian {
    recent: Vec<i64>,
    oldest: usize,
}

impl RecentMedian {
    const CAPACITY: usize = 9;

    /// Empty.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a value; the oldest of nine leaves.
    pub fn push(&mut self, value: i64) {
        if self.recent.len() < Self::CAPACITY {
            self.recent.push(value);
        } else {
            self.recent[self.oldest] = value;
            self.oldest = (self.oldest + 1) % Self::CAPACITY;
        }
    }

    /// The median (the lower one of an even number); None when empty.
    #[must_use]
    pub fn value(&self) -> Option<i64> {
        let mut sorted = self.recent.clone();
        sorted.sort_unstable();
        sorted.get(sorted.len().checked_sub(1)? / 2).copied()
    }
}
