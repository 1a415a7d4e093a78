//! Quantiles of many values in little memory.

const BITS: u32 = 6;
const PER_OCTAVE: u64 = 1 << BITS;
/// Exact buckets below 64, then 64 for each octave up to 2^63.
const BUCKETS: usize = (64 - BITS as usize) << BITS;

/// A log-linear histogram of integers in [0, 2^63); relative error at most 1/64.
///
/// 3,712 buckets, 29 KiB, fixed. Record O(1), quantile O(buckets).
/// Source: the bucket layout of Tene's `HdrHistogram`.
#[derive(Debug, Clone)]
pub struct QuantileHistogram {
    buckets: Vec<u64>,
    count: u64,
    sum: u128,
    max: u64,
}

impl Default for QuantileHistogram {
    fn default() -> Self {
        Self::new()
    }
}

impl QuantileHistogram {
    /// Empty.
    #[must_use]
    pub fn new() -> Self {
        Self { buckets: vec![0; BUCKETS], count: 0, sum: 0, max: 0 }
    }

    /// Adds `count` times `value`; counts stop at 2^64 - 1. Values from 2^63 on count as 2^63 - 1.
    pub fn record(&mut self, value: u64, count: u64) {
        let value = value.min((1 << 63) - 1);
        if let Some(bucket) = self.buckets.get_mut(bucket_of(value)) {
            *bucket = bucket.saturating_add(count);
        }
        if count > 0 {
            self.count = self.count.saturating_add(count);
            self.sum = self.sum.saturating_add(u128::from(value) * u128::from(count));
            self.max = self.max.max(value);
        }
    }

    /// Upper edge of the bucket of the q-quantile (the value of rank ceil(q * count), at least
    /// the first); 0 when empty.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // q in [0, 1]
    pub fn quantile(&self, q: f64) -> u64 {
        if self.count == 0 {
            return 0;
        }
        let rank = ((q.clamp(0.0, 1.0) * self.count as f64).ceil() as u64).clamp(1, self.count);
        let mut passed = 0u64;
        for (index, &count) in self.buckets.iter().enumerate() {
            passed = passed.saturating_add(count);
            if passed >= rank {
                return upper_edge(index);
            }
        }
        self.max
    }

    /// Adds all that `other` holds.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine = mine.saturating_add(*theirs);
        }
        self.count = self.count.saturating_add(other.count);
        self.sum = self.sum.saturating_add(other.sum);
        self.max = self.max.max(other.max);
    }

    /// Values recorded.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Mean, exact; 0 when empty.
    #[must_use]
    pub fn mean(&self) -> f64 {
        if self.count == 0 {
            return 0.0;
        }
        self.sum as f64 / self.count as f64
    }

    /// Largest value, exact; 0 when empty.
    #[must_use]
    pub fn max(&self) -> u64 {
        self.max
    }

    /// Forgets all.
    pub fn reset(&mut self) {
        self.buckets.fill(0);
        (self.count, self.sum, self.max) = (0, 0, 0);
    }
}

#[allow(clippy::cast_possible_truncation)] // below BUCKETS
fn bucket_of(value: u64) -> usize {
    if value < PER_OCTAVE {
        return value as usize;
    }
    let shift = value.ilog2() - BITS;
    ((u64::from(shift) << BITS) + (value >> shift)) as usize
}

fn upper_edge(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < 2 * PER_OCTAVE {
        return bucket;
    }
    let shift = (bucket >> BITS) - 1;
    let lead = bucket - (shift << BITS);
    ((lead + 1) << shift) - 1
}
