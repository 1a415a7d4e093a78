//! The last few values of something, and their median.

/// A ring of the last `N` values with the instants they came at.
#[derive(Debug, Clone)]
pub struct Window<const N: usize> {
    entries: Vec<(i64, i64)>,
}

impl<const N: usize> Default for Window<N> {
    fn default() -> Self {
        Self { entries: Vec::with_capacity(N) }
    }
}

impl<const N: usize> Window<N> {
    /// Adds `value`. What is older than `lifetime_ns` leaves first, then the oldest of `N`.
    ///
    /// Only a newer value drives an old one out, so the window never empties by itself.
    pub fn push(&mut self, value: i64, now_ns: i64, lifetime_ns: i64) {
        self.entries.retain(|&(at_ns, _)| now_ns - at_ns <= lifetime_ns);
        if self.entries.len() == N {
            self.entries.remove(0);
        }
        self.entries.push((now_ns, value));
    }

    /// When the newest value came.
    #[must_use]
    pub fn newest_at_ns(&self) -> Option<i64> {
        self.entries.last().map(|&(at_ns, _)| at_ns)
    }

    /// Median, the lower one of an even number; None when empty.
    #[must_use]
    pub fn median(&self) -> Option<i64> {
        let mut values: Vec<i64> = self.entries.iter().map(|&(_, value)| value).collect();
        values.sort_unstable();
        values.get(values.len().checked_sub(1)? / 2).copied()
    }

    /// How many values it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// Share of set flags among the last sixteen.
#[derive(Debug, Clone, Copy, Default)]
pub struct RecentShare {
    flags: u16,
    num_seen: u32,
}

impl RecentShare {
    /// Adds a flag; the oldest of sixteen leaves.
    pub fn push(&mut self, flag: bool) {
        self.flags = (self.flags << 1) | u16::from(flag);
        self.num_seen = (self.num_seen + 1).min(u16::BITS);
    }

    /// In [0, 1]; 0 before the first flag.
    #[must_use]
    pub fn value(&self) -> f64 {
        f64::from(self.flags.count_ones()) / f64::from(self.num_seen.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::{RecentShare, Window};

    #[test]
    fn the_median_is_of_the_last_nine() {
        let mut window = Window::<9>::default();
        (1..=12).for_each(|value| window.push(value, value, 1_000));
        assert_eq!(window.median(), Some(8)); // of 4..=12
    }

    #[test]
    fn old_values_leave_when_a_newer_one_comes_and_not_before() {
        let mut window = Window::<9>::default();
        window.push(10, 0, 100);
        assert_eq!(window.median(), Some(10));
        window.push(40, 101, 100);
        assert_eq!((window.median(), window.len()), (Some(40), 1));
    }

    #[test]
    fn the_share_is_of_the_last_sixteen() {
        let mut share = RecentShare::default();
        assert!(share.value() < 1e-12);
        share.push(true);
        share.push(false);
        assert!((share.value() - 0.5).abs() < 1e-12);
        (0..16).for_each(|_| share.push(false));
        assert!(share.value() < 1e-12);
    }
}
