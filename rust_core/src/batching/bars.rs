//! How high the bar was: from which key on requests were served, batch after batch.
//!
//! A queue in key order serves a request with the first batch whose bar it has reached, since it
//! ages while it waits. Whether one that comes now will be served in time is therefore read off the
//! bars that followed after earlier moments like this one. Bursts, requests that die in the queue,
//! deadlines too near for a long batch: all are in those bars, and none needs a model of its own.

/// Where the members of a batch end and those who were left behind begin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bar {
    /// Key that a request needed, relative to an average one.
    pub relative_key: f64,
    /// Size of the requests there; 0 if nobody was left behind.
    pub units: u64,
}

/// The bar of a batch that left nobody behind: below every key.
pub const OPEN_BAR: Bar = Bar { relative_key: -1e3, units: 0 };
/// Bars that are remembered: at least so many, at most twice as many.
const REMEMBERED: usize = 512;
/// Every fourth moment is looked at; neighbours say much the same.
const STRIDE: usize = 4;
/// Windows of 1, 2, 4, ... 128 bars, of which the lowest is kept.
const LEVELS: usize = 8;
const MAX_WINDOW: usize = 1 << (LEVELS - 1);
/// How alike two moments are: `1 - (difference in bars / this)^2 - (in log rates / this)^2`, the
/// kernel of Epanechnikov, Theory Probab. Appl. 14(1), 1969.
const BAR_REACH: f64 = 0.65;
const RATE_REACH: f64 = 1.3;
/// Most batches by which what is known of the bars may lag.
const MAX_LAG: f64 = 8.0;
const NOTHING_FOLDED: (f64, u64) = (f64::INFINITY, 0);
/// Arrivals that a rate is measured over.
const RATE_ARRIVALS: usize = 16;

/// An arrival, and the moment at which it competes.
#[derive(Clone, Copy, Debug)]
pub struct Contender {
    /// Its key relative to an average one.
    pub relative_key: f64,
    /// Logarithm of the time in which the last arrivals came; see `RecentArrivals`.
    pub log_gap: f64,
    /// When the next batch is.
    pub first_ns: i64,
    /// Time until then, in mean relative deadlines, >= 0.
    pub first_in: f64,
    /// Time from then to the last batch of usual length that it can wait for, likewise; below 0 if
    /// it can wait for none.
    pub whole_for: f64,
    /// The same for batches that are cut short for it, >= `whole_for`.
    pub cut_for: f64,
    /// Usual time between batches, nanoseconds, > 0.
    pub step_ns: f64,
}

/// What followed after moments like the present one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Followed {
    /// Sum of the weights of those moments; each is in (0, 1].
    pub weight: f64,
    /// Sum of the weights of those after which the contender would have been served.
    pub served: f64,
}

/// The bars of one pool's batches.
#[derive(Clone, Debug)]
pub struct Bars {
    /// Lowest of the 1, 2, 4, ... bars from each on, as keys that do not age.
    lowest: [Vec<f64>; LEVELS],
    /// When each was, in mean relative deadlines.
    ages: Vec<f64>,
    /// Bars relative to an average key, at their time.
    bars: Vec<f64>,
    /// Sizes of requests at the bar; 0 if all were above it.
    units: Vec<u64>,
    log_gaps: Vec<f64>,
    age: f64,
    at_ns: i64,
    /// Of several devices' bars that count as one: how many there are so far, and the lowest.
    folded: usize,
    folded_lowest: (f64, u64),
}

impl Default for Bars {
    fn default() -> Self {
        let room = || Vec::with_capacity(2 * REMEMBERED);
        Self {
            lowest: std::array::from_fn(|_| room()),
            ages: room(),
            bars: room(),
            units: Vec::with_capacity(2 * REMEMBERED),
            log_gaps: room(),
            age: 0.0,
            at_ns: 0,
            folded: 0,
            folded_lowest: NOTHING_FOLDED,
        }
    }
}

impl Bars {
    /// Adds a batch's bar. Amortised O(1).
    ///
    /// `devices` bars count as one, the lowest: a request takes whichever device comes first.
    pub fn record(&mut self, at_ns: i64, bar: &Bar, log_gap: f64, tau_ns: f64, devices: usize) {
        self.age += (at_ns - self.at_ns).max(0) as f64 / tau_ns;
        self.at_ns = self.at_ns.max(at_ns);
        self.folded += 1;
        if bar.relative_key - self.age < self.folded_lowest.0 {
            self.folded_lowest = (bar.relative_key - self.age, bar.units);
        }
        if self.folded >= devices {
            self.push(log_gap);
        }
    }

    fn push(&mut self, log_gap: f64) {
        if self.bars.len() >= 2 * REMEMBERED {
            self.forget_half();
        }
        let (lowest, units) = std::mem::replace(&mut self.folded_lowest, NOTHING_FOLDED);
        self.folded = 0;
        self.ages.push(self.age);
        self.bars.push(lowest + self.age);
        self.units.push(units);
        self.log_gaps.push(log_gap);
        self.extend_lowest(self.bars.len() - 1);
    }

    /// Fills in the windows that end with a bar.
    fn extend_lowest(&mut self, last: usize) {
        let still = self.bars[last] - self.ages[last];
        self.lowest.iter_mut().for_each(|level| level.push(still));
        for power in 1..LEVELS {
            let half = 1 << (power - 1);
            let Some(from) = (last + 1).checked_sub(2 * half) else { break };
            let below = &self.lowest[power - 1];
            self.lowest[power][from] = below[from].min(below[from + half]);
        }
    }

    /// Moves all bars where keys have got another shape: `shift` is by how much that of a request of
    /// so many units has grown. O(remembered).
    pub fn reshape(&mut self, shift: impl Fn(u64) -> f64) {
        self.lowest.iter_mut().for_each(Vec::clear);
        for at in 0..self.bars.len() {
            if self.units[at] > 0 {
                self.bars[at] += shift(self.units[at]);
            }
            self.extend_lowest(at);
        }
    }

    /// Forgets all: the device, or what is worth more, is not what it was.
    pub fn clear(&mut self) {
        self.lowest.iter_mut().for_each(Vec::clear);
        self.ages.clear();
        self.bars.clear();
        self.units.clear();
        self.log_gaps.clear();
        (self.folded, self.folded_lowest) = (0, NOTHING_FOLDED);
    }

    /// What followed after moments with a bar and a rate like now. O(remembered).
    ///
    /// A batch that would have to be cut for the contender serves it half of the time.
    #[must_use]
    pub fn after(&self, contender: &Contender) -> Followed {
        let mut followed = Followed::default();
        let Some(last) = self.bars.len().checked_sub(1) else { return followed };
        let lag = lag(contender.first_ns - self.at_ns, contender.step_ns);
        let key = contender.relative_key + contender.first_in;
        let (mut whole_end, mut cut_end) = (0, 0);
        for then in (last.saturating_sub(REMEMBERED)..last.saturating_sub(lag)).step_by(STRIDE) {
            let first = then + 1 + lag;
            let by_bar = (self.bars[then] - self.bars[last]) / BAR_REACH;
            let by_rate = (self.log_gaps[then + lag] - contender.log_gap) / RATE_REACH;
            let weight = 1.0 - by_bar * by_bar - by_rate * by_rate;
            if weight <= 0.0 {
                continue;
            }
            cut_end = self.end(cut_end.max(first), first, contender.cut_for);
            if cut_end > last {
                break; // how it went on is not known yet
            }
            whole_end = self.end(whole_end.max(first), first, contender.whole_for);
            let reaches = |end| end > first && self.lowest_of(first, end) <= key - self.ages[first];
            let share = 0.5 * (f64::from(u8::from(reaches(whole_end))))
                + 0.5 * f64::from(u8::from(reaches(cut_end)));
            followed.weight += weight;
            followed.served += share * weight;
        }
        followed
    }

    /// First bar at or after `from` that is later than `within` after the bar `first`.
    fn end(&self, from: usize, first: usize, within: f64) -> usize {
        let until = self.ages[first] + within;
        let mut end = from;
        while end < self.ages.len() && self.ages[end] <= until {
            end += 1;
        }
        end
    }

    /// Lowest bar in `from..end`, by two windows that overlap.
    fn lowest_of(&self, from: usize, end: usize) -> f64 {
        let num = (end - from).min(MAX_WINDOW);
        let level = &self.lowest[num.ilog2() as usize];
        level[from].min(level[from + num - (1 << num.ilog2())])
    }

    fn forget_half(&mut self) {
        let half = self.bars.len() / 2;
        for values in
            self.lowest.iter_mut().chain([&mut self.ages, &mut self.bars, &mut self.log_gaps])
        {
            values.drain(..half);
        }
        self.units.drain(..half);
    }
}

/// Batches between the last bar that is known and the next batch, beyond the one that is usual.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // 0 to 8
fn lag(behind_ns: i64, step_ns: f64) -> usize {
    (behind_ns as f64 / step_ns - 1.0).round().clamp(0.0, MAX_LAG) as usize
}

/// When the last arrivals came.
#[derive(Clone, Debug, Default)]
pub struct RecentArrivals {
    at_ns: [i64; RATE_ARRIVALS],
    next: usize,
}

impl RecentArrivals {
    /// Adds an arrival; returns when the sixteenth before it came.
    pub fn arrive(&mut self, at_ns: i64) -> i64 {
        let since_ns = std::mem::replace(&mut self.at_ns[self.next], at_ns);
        self.next = (self.next + 1) % RATE_ARRIVALS;
        since_ns
    }

    /// When the sixteenth before the next one came.
    #[must_use]
    pub fn since_ns(&self) -> i64 {
        self.at_ns[self.next]
    }
}

/// Logarithm of the time that the last arrivals took: what a rate is compared by.
#[must_use]
pub fn log_gap(now_ns: i64, since_ns: i64) -> f64 {
    (now_ns.saturating_sub(since_ns).max(1) as f64).ln()
}

#[cfg(test)]
mod tests;
