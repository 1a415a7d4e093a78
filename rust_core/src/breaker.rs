//! Whether a replica is trusted with requests, by how the last ones ended.
use crate::rng::Rng;

/// Outcomes that count.
pub const WINDOW: u32 = 50;
/// Fewer outcomes say nothing.
pub const MIN_OUTCOMES: u32 = 10;
/// How long it first stays open, and at most, ns.
pub const FIRST_OPEN_NS: i64 = 5_000_000_000;
/// See [`FIRST_OPEN_NS`].
pub const MAX_OPEN_NS: i64 = 60_000_000_000;
/// Probes that must end well before it closes.
pub const PROBES: u32 = 3;
/// Times are drawn from 1 ± this, so that replicas that failed together do not return together.
const JITTER: f64 = 0.1;
/// Closed for so long, it is as if it had never opened.
const FORGIVEN_NS: i64 = MAX_OPEN_NS;
const MASK: u64 = (1 << WINDOW) - 1;

/// What a breaker lets through. Values are those of `headway.v1.BreakerState`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum BreakerState {
    /// Everything.
    #[default]
    Closed = 1,
    /// Nothing, for a time.
    Open = 2,
    /// One probe at a time.
    HalfOpen = 3,
}

/// The last outcomes, newest in the lowest bit; a set bit is a failure.
#[derive(Debug, Clone, Copy, Default)]
pub struct Outcomes {
    bits: u64,
    len: u32,
}

impl Outcomes {
    /// Adds outcomes; beyond the window the oldest leave. O(1).
    pub fn push(&mut self, count: u32, failed: bool) {
        let count = count.min(WINDOW);
        let ones = if failed { (1u64 << count) - 1 } else { 0 };
        self.bits = ((self.bits << count) | ones) & MASK;
        self.len = (self.len + count).min(WINDOW);
    }

    /// Takes the newest failure for a success: somebody else was to blame for it.
    pub fn forgive(&mut self) {
        self.bits &= self.bits.wrapping_sub(1);
    }

    /// Outcomes held.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// True without outcomes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Failures among them.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.bits.count_ones()
    }

    /// True if at least half of at least ten outcomes are failures.
    #[must_use]
    pub fn is_bad(&self) -> bool {
        self.len >= MIN_OUTCOMES && 2 * self.failures() >= self.len
    }
}

/// Closed, open, half-open; judged by request. All operations O(1).
///
/// It never opens by itself: whoever owns it asks [`is_tripped`](Self::is_tripped), and knows
/// whether a fleet can do without this replica.
#[derive(Debug, Clone, Default)]
pub struct Breaker {
    outcomes: Outcomes,
    state: BreakerState,
    until_ns: i64,
    /// Times it opened without a long good time between.
    run: u32,
    closed_at_ns: i64,
    probe: Option<u64>,
    passed: u32,
}

impl Breaker {
    /// What it lets through.
    #[must_use]
    pub fn state(&self) -> BreakerState {
        self.state
    }

    /// The outcomes by which it judges.
    #[must_use]
    pub fn outcomes(&self) -> &Outcomes {
        &self.outcomes
    }

    /// End of the present open time; None unless open.
    #[must_use]
    pub fn open_until_ns(&self) -> Option<i64> {
        (self.state == BreakerState::Open).then_some(self.until_ns)
    }

    /// True if one more batch may go out: closed, or half-open without a probe on its way.
    #[must_use]
    pub fn lets_through(&self) -> bool {
        match self.state {
            BreakerState::Closed => true,
            BreakerState::Open => false,
            BreakerState::HalfOpen => self.probe.is_none(),
        }
    }

    /// Takes note that `batch` goes out; half-open, it is the probe.
    pub fn begin(&mut self, batch: u64) {
        if self.state == BreakerState::HalfOpen {
            self.probe = Some(batch);
        }
    }

    /// Takes note of how a batch ended: requests that went well, and failures of the replica.
    /// What the client or the load is to blame for counts as neither.
    pub fn settle(&mut self, now_ns: i64, batch: u64, well: u32, failed: u32, rng: &mut Rng) {
        let was_probe = self.probe == Some(batch);
        if was_probe {
            self.probe = None;
        }
        match self.state {
            BreakerState::Closed => {
                self.outcomes.push(failed, true);
                self.outcomes.push(well, false);
            }
            BreakerState::HalfOpen if was_probe && failed > 0 => self.open(now_ns, rng),
            BreakerState::HalfOpen if was_probe && well > 0 => {
                self.passed += 1;
                if self.passed >= PROBES {
                    self.close(now_ns);
                }
            }
            // What was sent before it opened has been judged.
            BreakerState::Open | BreakerState::HalfOpen => {}
        }
    }

    /// Adds failures that turned out to be the replica's only now.
    pub fn blame(&mut self, failed: u32) {
        if self.state == BreakerState::Closed {
            self.outcomes.push(failed, true);
        }
    }

    /// Takes a failure back.
    pub fn forgive(&mut self) {
        self.outcomes.forgive();
    }

    /// True if it should open.
    #[must_use]
    pub fn is_tripped(&self) -> bool {
        self.state == BreakerState::Closed && self.outcomes.is_bad()
    }

    /// Opens it: 5 s, twice as long each time up to 60 s, 10 % more or less.
    pub fn open(&mut self, now_ns: i64, rng: &mut Rng) {
        if self.state == BreakerState::Closed
            && now_ns.saturating_sub(self.closed_at_ns) >= FORGIVEN_NS
        {
            self.run = 0;
        }
        let nominal_ns = (FIRST_OPEN_NS << self.run.min(8)).min(MAX_OPEN_NS);
        self.run = self.run.saturating_add(1);
        let factor = 1.0 - JITTER + 2.0 * JITTER * rng.uniform();
        self.until_ns = now_ns.saturating_add(crate::check::to_ns(nominal_ns as f64 * factor));
        self.state = BreakerState::Open;
        (self.probe, self.passed) = (None, 0);
    }

    /// Lets probes through from now on.
    pub fn half_open(&mut self) {
        self.state = BreakerState::HalfOpen;
        (self.probe, self.passed) = (None, 0);
    }

    /// Lets everything through, with a clean record.
    pub fn close(&mut self, now_ns: i64) {
        self.state = BreakerState::Closed;
        self.outcomes = Outcomes::default();
        self.closed_at_ns = now_ns;
        self.probe = None;
    }
}
