//! How many requests may be executed again.

/// Retries a second that are there without any traffic, and how many of those can be saved up.
const FLOOR_PER_S: f64 = 10.0;
const FLOOR_MOST: f64 = 100.0;
/// Retries that can be saved up: ten seconds' worth of 500 requests a second.
const MOST: f64 = 500.0;

/// Retries up to a share of the requests, with a small minimum.
///
/// It bounds what a sick fleet has to do beside its load: without it every request of an outage
/// would be executed as often as it may be. Source: the retry budget of Finagle.
#[derive(Debug, Clone)]
pub struct RetryBudget {
    tokens: f64,
    at_ns: Option<i64>,
    refused: u64,
}

impl Default for RetryBudget {
    fn default() -> Self {
        Self { tokens: FLOOR_MOST, at_ns: None, refused: 0 }
    }
}

impl RetryBudget {
    /// A request was executed for the first time; it earns a part of a retry.
    pub fn earn(&mut self, part: f64) {
        self.tokens = (self.tokens + part).min(MOST);
    }

    /// Takes one retry; false if there is none left. O(1).
    pub fn spend(&mut self, now_ns: i64) -> bool {
        let elapsed_ns = self.at_ns.map_or(0, |at_ns| now_ns.saturating_sub(at_ns).max(0));
        self.at_ns = Some(now_ns);
        if self.tokens < FLOOR_MOST {
            let refill = elapsed_ns as f64 / 1e9 * FLOOR_PER_S;
            self.tokens = (self.tokens + refill).min(FLOOR_MOST);
        }
        let is_enough = self.tokens >= 1.0;
        if is_enough {
            self.tokens -= 1.0;
        } else {
            self.refused += 1;
        }
        is_enough
    }

    /// Retries there are, as of the last one taken or earned.
    #[must_use]
    pub fn tokens(&self) -> f64 {
        self.tokens
    }

    /// Retries refused.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused
    }
}
