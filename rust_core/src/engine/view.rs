//! Lanes with their prices at the instant of a decision.
use super::cost_table::CostTable;
use super::lane::{LaneSpec, Service};
use super::normalizer::Normalizers;
use super::pressure::{prompt_pressure, stream_pressure, Urgency};
use super::seconds;
use super::settings::PriceSettings;

/// One lane as a decision sees it: its service includes what is expected of frames in flight.
#[derive(Debug, Clone, Copy)]
pub struct LaneView<'a> {
    /// Handle; ties go to the lower.
    pub id: u32,
    /// What was known at the start.
    pub spec: &'a LaneSpec,
    /// Expected tokens by width.
    pub yields: &'a [f64],
    /// Service had and expected.
    pub service: Service,
}

impl LaneView<'_> {
    fn output_left(&self) -> u32 {
        self.spec.output_limit.saturating_sub(self.service.generated)
    }

    fn expected_left(&self) -> f64 {
        let left = f64::from(self.output_left());
        let expected = |total: f64| (total - f64::from(self.service.generated)).clamp(1.0, left);
        self.spec.expected_tokens.map_or(left, expected)
    }

    /// `E[min(tokens, left)]` at verification width `width`.
    #[must_use]
    pub fn expected_tokens(&self, width: u32) -> f64 {
        let last = (width.min(self.output_left()) as usize).min(self.yields.len());
        if last == 0 {
            0.0
        } else {
            self.yields[last - 1]
        }
    }

    /// Widest verification that can still gain something.
    #[must_use]
    pub fn useful_width(&self) -> u32 {
        self.output_left().min(u32::try_from(self.yields.len()).unwrap_or(u32::MAX))
    }
}

/// A decoding stream; `weight` is in all its prices.
#[derive(Debug, Clone, Copy)]
pub struct Stream {
    /// Index of its lane.
    pub lane: usize,
    /// Intrinsic price of a token.
    pub token_value: f64,
    /// Proportional-fair price of a token.
    pub fair_value: f64,
    /// Price of a delivery, beyond the end of the wait for it.
    pub delivery_value: f64,
    /// Price of waiting, tokens/s².
    pub age_price: f64,
    /// Price of waiting beyond the allowed gap, tokens/s².
    pub stall_price: f64,
    /// Mean delivery gap, s.
    pub gap_s: f64,
    /// Since its last delivery, s.
    pub age_s: f64,
    /// That beyond the allowed gap, s; negative within it.
    pub overshoot_s: f64,
}

/// A prompt.
#[derive(Debug, Clone, Copy)]
pub struct Prompt {
    /// Index of its lane.
    pub lane: usize,
    /// Tokens left.
    pub left: u32,
    /// Price of a token.
    pub token_price: f64,
    /// Price of its completion, which publishes the first token.
    pub completion_price: f64,
    /// Order in a graph: largest first, behind those that have waited for too long.
    pub rank: f64,
    /// Time since its last service over its patience; from 1 on it may be passed over no more.
    pub passed_over: f64,
    /// Time since its arrival over its patience; from 1 on it is served by relative wait.
    pub overdue: f64,
}

/// The shared terms of the prices.
struct Terms<'a> {
    prices: &'a PriceSettings,
    normalizers: &'a Normalizers,
    start_ns: i64,
    num_streams: f64,
    num_prompts: f64,
    decode_time_s: f64,
    fair_rate: f64,
}

/// Streams by lane, and prompts in the order they are served.
#[must_use]
pub fn price(
    start_ns: i64,
    lanes: &[LaneView<'_>],
    table: &CostTable,
    prices: &PriceSettings,
) -> (Vec<Stream>, Vec<Prompt>) {
    let num_prompts = lanes.iter().filter(|lane| lane.service.prompt_left > 0).count();
    let num_streams = lanes.len() - num_prompts;
    let normalizers = table.normalizers();
    let terms = Terms {
        prices,
        normalizers,
        start_ns,
        num_streams: num_streams as f64,
        num_prompts: num_prompts as f64,
        decode_time_s: normalizers.decode_time_s(num_streams),
        fair_rate: normalizers.decode_rate / (lanes.len().max(1)) as f64,
    };
    let mut streams = Vec::with_capacity(num_streams);
    let mut prompts = Vec::with_capacity(num_prompts);
    for (index, lane) in lanes.iter().enumerate() {
        if lane.service.prompt_left > 0 {
            prompts.push(terms.prompt(index, lane, table));
        } else {
            streams.push(terms.stream(index, lane));
        }
    }
    prompts.sort_by(|a, b| {
        let overdue = |prompt: &Prompt| if prompt.overdue < 1.0 { 0.0 } else { prompt.overdue };
        overdue(b)
            .total_cmp(&overdue(a))
            .then(b.rank.total_cmp(&a.rank))
            .then(lanes[a.lane].id.cmp(&lanes[b.lane].id))
    });
    (streams, prompts)
}

impl Terms<'_> {
    fn fair_price(&self, coefficient: f64, share: f64) -> f64 {
        let share = share.max(self.prices.share_floor);
        coefficient * self.fair_rate * self.decode_time_s / share
    }

    fn stream(&self, index: usize, lane: &LaneView<'_>) -> Stream {
        let prices = self.prices;
        let needed_s = lane.expected_left() * self.decode_time_s;
        let pressure = stream_pressure(self.completion(lane, needed_s), prices);
        let token_value = prices.output_value + prices.retirement_value / lane.expected_left();
        let gap_target_s = lane.spec.gap_target_ns.map_or(0.0, seconds);
        let reference_s = self.decode_time_s.max(prices.gap_reference_share * gap_target_s);
        let rate = if reference_s > 0.0 {
            lane.spec.weight * self.normalizers.decode_rate / (self.num_streams * reference_s)
        } else {
            0.0
        };
        let entitled_s = self.decode_time_s * (1.0 + self.num_prompts);
        let allowed_s = entitled_s.max(prices.gap_margin * gap_target_s);
        let age_s = seconds((self.start_ns - lane.service.published_at_ns).max(0));
        let fair = |coefficient, share| self.fair_price(coefficient, share) * lane.spec.weight;
        Stream {
            lane: index,
            token_value: lane.spec.weight * pressure * token_value,
            fair_value: pressure * fair(prices.fairness, lane.service.share),
            delivery_value: fair(prices.delivery_fairness, lane.service.delivery_share),
            age_price: prices.age * rate,
            stall_price: prices.stall * rate,
            gap_s: lane.service.gap_s,
            age_s,
            overshoot_s: age_s - allowed_s,
        }
    }

    fn prompt(&self, index: usize, lane: &LaneView<'_>, table: &CostTable) -> Prompt {
        let prices = self.prices;
        let left = lane.service.prompt_left;
        let left_s = table.plan().completion_s(left);
        let own_s = table.plan().completion_s(lane.spec.prompt_tokens)
            + prices.wait_steps * self.decode_time_s;
        let urgency = Urgency {
            waited_s: seconds(self.start_ns - lane.spec.arrived_at_ns),
            own_s,
            first_token: self.deadline(lane, lane.spec.first_token_deadline_ns, left_s),
            completion: self.completion(lane, left_s + lane.expected_left() * self.decode_time_s),
        };
        let price = lane.spec.weight * prompt_pressure(&urgency, prices);
        let share = lane.service.share.max(prices.share_floor);
        let per_rate = prices.prompt_weight * self.normalizers.decode_rate
            + prices.fairness * self.fair_rate / share;
        let prefill_rate = self.normalizers.prefill_rate;
        // Without a decode graph there is no exchange rate; prompt work is all there is to compare.
        let token = if prefill_rate > 0.0 && self.normalizers.decode_rate > 0.0 {
            per_rate / prefill_rate
        } else {
            prices.prompt_weight * prices.output_value
        };
        let completion = prices.output_value + self.fair_price(prices.fairness, share);
        let alone_s = left_s + self.decode_time_s;
        let since_s = seconds(self.start_ns - lane.service.served_at_ns);
        let patience_s = prices.patience * own_s;
        Prompt {
            lane: index,
            left,
            token_price: price * token,
            completion_price: price * completion,
            rank: if alone_s > 0.0 { price / alone_s } else { price },
            passed_over: if patience_s > 0.0 { since_s / patience_s } else { 0.0 },
            overdue: if patience_s > 0.0 { urgency.waited_s / patience_s } else { 0.0 },
        }
    }

    fn completion(&self, lane: &LaneView<'_>, needed_s: f64) -> Option<(f64, f64, f64)> {
        self.deadline(lane, lane.spec.completion_deadline_ns, needed_s)
    }

    fn deadline(
        &self,
        lane: &LaneView<'_>,
        deadline_ns: Option<i64>,
        needed_s: f64,
    ) -> Option<(f64, f64, f64)> {
        deadline_ns.map(|deadline_ns| {
            let left_s = seconds(deadline_ns - self.start_ns);
            (needed_s, left_s, seconds(deadline_ns - lane.spec.arrived_at_ns))
        })
    }
}
