//! How far predictions were off, as an empirical distribution.

const CAPACITY: usize = 64;

/// The last 64 ratios actual/predicted - 1, kept sorted. O(64) to add, O(1) to ask.
#[derive(Debug, Clone, Default)]
pub struct Residuals {
    recent: Vec<f64>,
    sorted: Vec<f64>,
    oldest: usize,
}

impl Residuals {
    /// Empty.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a finite ratio; the oldest of 64 leaves.
    pub fn push(&mut self, ratio: f64) {
        if self.recent.len() < CAPACITY {
            self.recent.push(ratio);
        } else {
            let leaving = std::mem::replace(&mut self.recent[self.oldest], ratio);
            self.oldest = (self.oldest + 1) % CAPACITY;
            let at = self.sorted.partition_point(|&kept| kept < leaving);
            self.sorted.remove(at);
        }
        let at = self.sorted.partition_point(|&kept| kept < ratio);
        self.sorted.insert(at, ratio);
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        *self = Self::new();
    }

    /// Number of ratios, at most 64.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sorted.len()
    }

    /// True without ratios.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }

    /// The `quantile` in [0, 1] by linear interpolation between order statistics; 0 when empty.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // within [0, 63]
    pub fn quantile(&self, quantile: f64) -> f64 {
        let Some(last) = self.sorted.len().checked_sub(1) else { return 0.0 };
        let place = quantile.clamp(0.0, 1.0) * last as f64;
        let below = place.floor() as usize;
        let (low, high) = (self.sorted[below], self.sorted[(below + 1).min(last)]);
        low + (high - low) * (place - below as f64)
    }

    /// Standard deviation; 0 when empty.
    #[must_use]
    pub fn deviation(&self) -> f64 {
        let mean = self.mean_of(|ratio| ratio);
        self.mean_of(|ratio| (ratio - mean) * (ratio - mean)).sqrt()
    }

    /// Mean distance from 0; 0 when empty.
    #[must_use]
    pub fn mean_distance(&self) -> f64 {
        self.mean_of(f64::abs)
    }

    fn mean_of(&self, term: impl Fn(f64) -> f64) -> f64 {
        if self.is_empty() {
            return 0.0;
        }
        self.sorted.iter().map(|&ratio| term(ratio)).sum::<f64>() / self.len() as f64
    }
}
