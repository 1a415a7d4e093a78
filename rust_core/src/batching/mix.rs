//! What the recent arrivals were like.

const WINDOW: usize = 1000;

/// The last arrivals: relative deadlines, sizes and how fast they come.
#[derive(Clone, Debug)]
pub struct ArrivalMix {
    deadlines_ns: Vec<f64>,
    values: Vec<f64>,
    units: Vec<f64>,
    next: usize,
    value_sum: f64,
    weighted_sum: f64,
    units_sum: f64,
    seen: u64,
}

impl Default for ArrivalMix {
    fn default() -> Self {
        Self {
            deadlines_ns: Vec::with_capacity(WINDOW),
            values: Vec::with_capacity(WINDOW),
            units: Vec::with_capacity(WINDOW),
            next: 0,
            value_sum: 0.0,
            weighted_sum: 0.0,
            units_sum: 0.0,
            seen: 0,
        }
    }
}

impl ArrivalMix {
    /// Adds an arrival; the oldest of more than 1,000 falls out. O(1).
    pub fn record(&mut self, deadline_ns: f64, value: f64, units: u64) {
        let units = units as f64;
        if self.values.len() < WINDOW {
            self.deadlines_ns.push(deadline_ns);
            self.values.push(value);
            self.units.push(units);
        } else {
            let at = self.next;
            self.value_sum -= self.values[at];
            self.weighted_sum -= self.values[at] * self.deadlines_ns[at];
            self.units_sum -= self.units[at];
            self.deadlines_ns[at] = deadline_ns;
            self.values[at] = value;
            self.units[at] = units;
        }
        self.value_sum += value;
        self.weighted_sum += value * deadline_ns;
        self.units_sum += units;
        self.next = (self.next + 1) % WINDOW;
        self.seen += 1;
        if self.next == 0 {
            self.resum();
        }
    }

    /// Arrivals ever recorded.
    #[must_use]
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// Mean relative deadline, weighted by value.
    #[must_use]
    pub fn mean_deadline_ns(&self) -> f64 {
        if self.value_sum > 0.0 {
            self.weighted_sum / self.value_sum
        } else {
            1e9
        }
    }

    /// Mean size.
    #[must_use]
    pub fn mean_units(&self) -> f64 {
        if self.units.is_empty() {
            1.0
        } else {
            (self.units_sum / self.units.len() as f64).max(1.0)
        }
    }

    /// Quantiles of the relative deadline, weighted by value. O(window log window).
    #[must_use]
    pub fn deadline_quantiles<const N: usize>(&self, shares: [f64; N]) -> [f64; N] {
        let mut rows: Vec<(f64, f64)> =
            self.deadlines_ns.iter().copied().zip(self.values.iter().copied()).collect();
        rows.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        shares.map(|share| {
            let mut left = share * self.value_sum;
            for (deadline_ns, value) in &rows {
                left -= value;
                if left <= 0.0 {
                    return *deadline_ns;
                }
            }
            rows.last().map_or(0.0, |row| row.0)
        })
    }

    /// Quantile of the size. O(window).
    #[must_use]
    pub fn units_quantile(&self, share: f64) -> f64 {
        let mut sizes = self.units.clone();
        if sizes.is_empty() {
            return 0.0;
        }
        let last = sizes.len() - 1;
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let at = (share * last as f64).round() as usize;
        *sizes.select_nth_unstable_by(at.min(last), f64::total_cmp).1
    }

    /// Sums drift by rounding; once around the window they are taken anew.
    fn resum(&mut self) {
        self.value_sum = self.values.iter().sum();
        self.units_sum = self.units.iter().sum();
        self.weighted_sum =
            self.values.iter().zip(&self.deadlines_ns).map(|(value, ns)| value * ns).sum();
    }
}
