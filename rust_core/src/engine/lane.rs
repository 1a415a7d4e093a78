//! One request on the device, and the service it has had.
use super::seconds;
use super::settings::PriceSettings;
use crate::error::CoreError;

/// What is known of a request when it takes a lane.
#[derive(Debug, Clone, PartialEq)]
pub struct LaneSpec {
    /// When it arrived, before any queue; waiting counts from here.
    pub arrived_at_ns: i64,
    /// Prompt tokens in all.
    pub prompt_tokens: u32,
    /// Prompt tokens still to do; fewer than `prompt_tokens` where a prefix was reused.
    pub prompt_left: u32,
    /// Output tokens published before it took the lane.
    pub generated: u32,
    /// Most output tokens; above `generated`.
    pub output_limit: u32,
    /// Multiplies all its prices; above 0.
    pub weight: f64,
    /// Probability that draft j is accepted if those before it were, in [0, 1].
    pub acceptance: Vec<f64>,
    /// When its first token is due.
    pub first_token_deadline_ns: Option<i64>,
    /// When its last token is due.
    pub completion_deadline_ns: Option<i64>,
    /// Longest wanted time between deliveries.
    pub gap_target_ns: Option<i64>,
    /// Expected output tokens in all, where something is known of them.
    pub expected_tokens: Option<f64>,
    /// Whether its next step needs the outcome of the last one (a grammar, a stop string).
    pub feedback: bool,
}

impl LaneSpec {
    /// A request that arrived at 0 and of which nothing has been done and nothing else is known.
    #[must_use]
    pub fn new(prompt_tokens: u32, output_limit: u32) -> Self {
        Self {
            arrived_at_ns: 0,
            prompt_tokens,
            prompt_left: prompt_tokens,
            generated: 0,
            output_limit,
            weight: 1.0,
            acceptance: Vec::new(),
            first_token_deadline_ns: None,
            completion_deadline_ns: None,
            gap_target_ns: None,
            expected_tokens: None,
            feedback: false,
        }
    }

    /// Names the first field out of range.
    ///
    /// # Errors
    /// A field out of its range.
    pub fn check(&self) -> Result<(), CoreError> {
        if self.prompt_left > self.prompt_tokens {
            return Err(CoreError::argument(
                "prompt_left",
                self.prompt_left,
                "at most prompt_tokens",
            ));
        }
        if self.output_limit <= self.generated {
            return Err(CoreError::argument("output_limit", self.output_limit, "above generated"));
        }
        if !self.weight.is_finite() || self.weight <= 0.0 {
            return Err(CoreError::argument("weight", self.weight, "finite and above 0"));
        }
        if self.gap_target_ns.is_some_and(|ns| ns <= 0) {
            return Err(CoreError::argument(
                "gap_target_ns",
                self.gap_target_ns.unwrap_or(0),
                "above 0",
            ));
        }
        if self.expected_tokens.is_some_and(|tokens| !tokens.is_finite()) {
            return Err(CoreError::argument("expected_tokens", "not a number", "finite"));
        }
        check_acceptance(&self.acceptance)
    }
}

/// Names the first acceptance probability outside [0, 1], or too many of them.
///
/// # Errors
/// As said.
pub fn check_acceptance(acceptance: &[f64]) -> Result<(), CoreError> {
    if acceptance.len() >= super::Catalogue::MAX_WIDTH as usize {
        return Err(CoreError::argument("acceptance", acceptance.len(), "at most 63 drafts"));
    }
    match acceptance.iter().find(|chance| !(0.0..=1.0).contains(*chance)) {
        Some(chance) => Err(CoreError::argument("acceptance", chance, "in [0, 1]")),
        None => Ok(()),
    }
}

/// Expected tokens by width: `1 + Σ_{j<k} Π_{m<=j} q_m` at index `k - 1`.
#[must_use]
pub fn yields(acceptance: &[f64]) -> Vec<f64> {
    let mut total = 1.0;
    let mut prefix = 1.0;
    let mut yields = vec![total];
    for chance in acceptance {
        prefix *= chance;
        total += prefix;
        yields.push(total);
    }
    yields
}

/// What a step did for a lane.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Work {
    /// Nothing.
    None,
    /// Prompt tokens; the last of them publish the first output token.
    Prompt(u32),
    /// Output tokens.
    Decode(u32),
}

/// A step as the service histories see it.
#[derive(Debug, Clone, Copy)]
pub struct Elapsed {
    /// When its output was published.
    pub end_ns: i64,
    /// Time it occupied, s.
    pub occupied_s: f64,
    /// `T_N` when it was chosen, s; 0 while unmeasured.
    pub decode_time_s: f64,
    /// `R_pre` when it was chosen, tokens/s; 0 while unmeasured.
    pub prefill_rate: f64,
    /// Weight of this step in the recent shares.
    pub moved: f64,
}

impl Elapsed {
    /// A step of `occupied_s` that published at `end_ns`.
    #[must_use]
    pub fn new(
        end_ns: i64,
        occupied_s: f64,
        decode_time_s: f64,
        prefill_rate: f64,
        memory_steps: f64,
    ) -> Self {
        let moved = if decode_time_s > 0.0 {
            1.0 - (-occupied_s / (memory_steps * decode_time_s)).exp()
        } else {
            0.0
        };
        Self { end_ns, occupied_s, decode_time_s, prefill_rate, moved }
    }
}

/// Service a request has had; copied to project the service of frames in flight.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Service {
    /// Prompt tokens still to do.
    pub prompt_left: u32,
    /// Output tokens published.
    pub generated: u32,
    /// Recent rate as a share of the reference rate of its phase.
    pub share: f64,
    /// Recent deliveries as a share of one every decode step.
    pub delivery_share: f64,
    /// Mean time between deliveries, s; 0 while unknown.
    pub gap_s: f64,
    /// When output was last published, or when it began to decode.
    pub published_at_ns: i64,
    /// When it was last served, or arrived.
    pub served_at_ns: i64,
}

impl Service {
    /// Takes in a step that ran while the lane was there.
    pub fn advance(&mut self, work: Work, elapsed: &Elapsed, prices: &PriceSettings) {
        self.move_shares(work, elapsed);
        match work {
            Work::None => {}
            Work::Prompt(tokens) => {
                self.served_at_ns = elapsed.end_ns;
                self.prompt_left = self.prompt_left.saturating_sub(tokens);
                if self.prompt_left == 0 {
                    self.generated += 1;
                    self.gap_s = elapsed.decode_time_s;
                    self.published_at_ns = elapsed.end_ns;
                }
            }
            Work::Decode(tokens) => {
                self.served_at_ns = elapsed.end_ns;
                self.generated += tokens;
                if tokens > 0 {
                    self.deliver(elapsed.end_ns, prices);
                }
            }
        }
    }

    fn deliver(&mut self, end_ns: i64, prices: &PriceSettings) {
        let gap_s = seconds(end_ns - self.published_at_ns);
        let weight = if self.gap_s > 0.0 { prices.gap_weight } else { 1.0 };
        self.gap_s += weight * (gap_s - self.gap_s);
        self.published_at_ns = end_ns;
    }

    fn move_shares(&mut self, work: Work, elapsed: &Elapsed) {
        let Elapsed { occupied_s, decode_time_s, prefill_rate, .. } = *elapsed;
        if occupied_s <= 0.0 || decode_time_s <= 0.0 {
            return;
        }
        let steps = decode_time_s / occupied_s;
        let (share, deliveries) = match work {
            Work::None => (0.0, 0.0),
            Work::Decode(tokens) => (f64::from(tokens) * steps, steps * f64::from(tokens.min(1))),
            Work::Prompt(tokens) if prefill_rate > 0.0 => {
                (f64::from(tokens) / (occupied_s * prefill_rate), 0.0)
            }
            Work::Prompt(_) => return,
        };
        self.share += elapsed.moved * (share - self.share);
        self.delivery_share += elapsed.moved * (deliveries - self.delivery_share);
    }
}

/// A request on the device.
#[derive(Debug, Clone)]
pub struct Lane {
    /// What was known at the start.
    pub spec: LaneSpec,
    /// Expected tokens by width.
    pub yields: Vec<f64>,
    /// Service had.
    pub service: Service,
    /// When it took the lane.
    pub admitted_at_ns: i64,
    /// Cancelled: out of the next step, gone when no frame in flight has it.
    pub leaving: bool,
    /// Left out of steps until it is let go on: its reader is behind.
    pub held: bool,
}

impl Lane {
    /// A lane admitted among `num_others`; `decode_time_s` is `T_N`.
    #[must_use]
    pub fn new(spec: LaneSpec, now_ns: i64, num_others: usize, decode_time_s: f64) -> Self {
        let service = Service {
            prompt_left: spec.prompt_left,
            generated: spec.generated,
            share: 1.0 / (num_others as f64 + 1.0),
            delivery_share: 1.0 / (num_others as f64 + 1.0),
            gap_s: if spec.prompt_left == 0 { decode_time_s } else { 0.0 },
            published_at_ns: spec.arrived_at_ns,
            served_at_ns: spec.arrived_at_ns,
        };
        let yields = yields(&spec.acceptance);
        Self { spec, yields, service, admitted_at_ns: now_ns, leaving: false, held: false }
    }
}

#[cfg(test)]
mod tests {
    use super::yields;

    #[test]
    fn a_draft_counts_only_behind_accepted_ones() {
        let expected = [1.0, 1.5, 1.75, 1.9];
        for (value, expected) in yields(&[0.5, 0.5, 0.6]).iter().zip(expected) {
            assert!((value - expected).abs() < 1e-12);
        }
    }
}
