//! The value of a graph and its best lanes per second of device time.
use super::catalogue::Graph;
use super::stall::Stalls;
use super::view::{LaneView, Prompt, Stream};

/// Value of a step by part, in output tokens. Their sum over the cost is the score.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Parts {
    /// Output tokens, by their intrinsic price.
    pub tokens: f64,
    /// Output tokens, by their proportional-fair price.
    pub fairness: f64,
    /// Prompt work, and first tokens.
    pub prompts: f64,
    /// Deliveries: the waits they end.
    pub deliveries: f64,
    /// Waits beyond the allowed gap, ended less grown.
    pub stalls: f64,
    /// Waiting of all streams during the step; not above 0.
    pub waiting: f64,
}

impl Parts {
    /// All of it.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.tokens + self.fairness + self.prompts + self.deliveries + self.stalls + self.waiting
    }
}

/// The lanes of a step, by index into the views.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Cohort {
    /// Prompts with the tokens they get, in order.
    pub prompts: Vec<(usize, u32)>,
    /// Streams, ascending.
    pub streams: Vec<usize>,
}

/// Row values at one width: `fixed + slope × T`, and more once beyond the allowed gap.
struct Rows {
    width: u32,
    fixed: Vec<f64>,
    /// Sums of the most valuable 0, 1, 2, … of `fixed`.
    best_sums: Vec<f64>,
}

/// Scores graphs over the same lanes.
pub struct Scorer<'a> {
    lanes: &'a [LaneView<'a>],
    streams: &'a [Stream],
    prompts: &'a [Prompt],
    rows: Vec<Rows>,
    slopes: Vec<f64>,
    slope_sum: f64,
    most_slope: f64,
    stalls: Stalls,
    age_price: f64,
    order: Vec<u32>,
    values: Vec<f64>,
}

impl<'a> Scorer<'a> {
    /// `prompts` in the order they are served; no graph takes more than `longest_s`.
    #[must_use]
    pub fn new(
        lanes: &'a [LaneView<'a>],
        streams: &'a [Stream],
        prompts: &'a [Prompt],
        longest_s: f64,
    ) -> Self {
        let slopes: Vec<f64> = streams.iter().map(|s| s.age_price * s.gap_s).collect();
        Self {
            lanes,
            streams,
            prompts,
            rows: Vec::new(),
            slope_sum: slopes.iter().sum(),
            most_slope: slopes.iter().copied().fold(0.0, f64::max),
            slopes,
            stalls: Stalls::new(streams, longest_s),
            age_price: streams.iter().map(|s| s.age_price).sum(),
            order: Vec::with_capacity(streams.len()),
            values: Vec::with_capacity(streams.len()),
        }
    }

    /// No less than `value`, in O(log lanes): the best of each part, though of different lanes.
    pub fn bound(&mut self, graph: &Graph, time_s: f64) -> Option<f64> {
        let num_rows = self.num_rows(graph);
        let prompts = self.prompt_value(graph);
        if !self.serves(graph) {
            return None;
        }
        let rows = self.rows_at(graph.width);
        let slope = self.slope_sum.min(num_rows as f64 * self.most_slope);
        let within = self.rows[rows].best_sums[num_rows] + slope * time_s;
        let ended = if num_rows > 0 { self.stalls.ended(time_s) } else { 0.0 };
        Some(prompts + within + ended - self.waiting(time_s) - self.stalls.grown(time_s))
    }

    /// Value of `graph` with its best lanes in `time_s`; None if it serves no lane.
    pub fn value(&mut self, graph: &Graph, time_s: f64) -> Option<f64> {
        let num_rows = self.num_rows(graph);
        let prompts = self.prompt_value(graph);
        if !self.serves(graph) {
            return None;
        }
        let rows = if num_rows > 0 { self.row_value(graph, num_rows, time_s) } else { 0.0 };
        Some(prompts + rows - self.waiting(time_s) - self.stalls.grown(time_s))
    }

    /// The best lanes for `graph`: the top-valued rows, and prompts in their order.
    pub fn cohort(&mut self, graph: &Graph, time_s: f64) -> Cohort {
        let mut cohort = Cohort::default();
        self.fill(graph, |prompt, tokens| cohort.prompts.push((prompt.lane, tokens)));
        let num_rows = self.num_rows(graph);
        if num_rows > 0 {
            self.fill_values(graph.width, time_s);
            self.put_best_first(num_rows);
            let mut chosen = self.order[..num_rows].to_vec();
            chosen.sort_unstable();
            cohort.streams = chosen.iter().map(|&row| self.streams[row as usize].lane).collect();
        }
        cohort
    }

    /// What makes up the value of `cohort`.
    #[must_use]
    pub fn parts(&self, graph: &Graph, cohort: &Cohort, time_s: f64) -> Parts {
        let mut parts = Parts {
            waiting: -self.waiting(time_s),
            stalls: -self.stalls.grown(time_s),
            prompts: self.prompt_value(graph),
            ..Parts::default()
        };
        let mut served = cohort.streams.iter().peekable();
        for stream in self.streams {
            if served.next_if(|&&lane| lane == stream.lane).is_some() {
                let tokens = self.lanes[stream.lane].expected_tokens(graph.width);
                parts.tokens += tokens * stream.token_value;
                parts.fairness += tokens * stream.fair_value;
                parts.deliveries += stream.delivery_value
                    + stream.age_price * stream.gap_s * (stream.age_s + time_s);
                parts.stalls +=
                    stream.stall_price * stream.gap_s * (stream.overshoot_s + time_s).max(0.0);
            }
        }
        parts
    }

    fn serves(&self, graph: &Graph) -> bool {
        self.num_rows(graph) > 0 || (graph.prefill_tokens > 0 && !self.prompts.is_empty())
    }

    fn num_rows(&self, graph: &Graph) -> usize {
        self.streams.len().min(graph.decode_rows as usize)
    }

    fn fill(&self, graph: &Graph, mut take: impl FnMut(&Prompt, u32)) {
        let mut left = graph.prefill_tokens;
        for prompt in self.prompts.iter().take(graph.prompt_rows as usize) {
            if left == 0 {
                break;
            }
            let tokens = prompt.left.min(left);
            left -= tokens;
            take(prompt, tokens);
        }
    }

    fn prompt_value(&self, graph: &Graph) -> f64 {
        let mut value = 0.0;
        self.fill(graph, |prompt, tokens| {
            value += f64::from(tokens) * prompt.token_price;
            if tokens == prompt.left {
                value += prompt.completion_price;
            }
        });
        value
    }

    fn row_value(&mut self, graph: &Graph, num_rows: usize, time_s: f64) -> f64 {
        if num_rows == self.streams.len() {
            let rows = self.rows_at(graph.width);
            let within = self.rows[rows].best_sums[num_rows] + self.slope_sum * time_s;
            return within + self.stalls.ended(time_s);
        }
        self.fill_values(graph.width, time_s);
        self.values.select_nth_unstable_by(num_rows, |a, b| b.total_cmp(a));
        self.values[..num_rows].iter().sum()
    }

    /// Waiting of all streams for the whole step: `Σ price × T² / 2`, the part that depends on T.
    fn waiting(&self, time_s: f64) -> f64 {
        self.age_price * time_s * time_s / 2.0
    }

    fn rows_at(&mut self, width: u32) -> usize {
        if let Some(found) = self.rows.iter().position(|rows| rows.width == width) {
            return found;
        }
        let fixed: Vec<f64> = self
            .streams
            .iter()
            .map(|stream| {
                let tokens = self.lanes[stream.lane].expected_tokens(width);
                tokens * (stream.token_value + stream.fair_value)
                    + stream.delivery_value
                    + stream.age_price * stream.gap_s * stream.age_s
            })
            .collect();
        self.rows.push(Rows { width, best_sums: best_sums(&fixed), fixed });
        self.rows.len() - 1
    }

    fn fill_values(&mut self, width: u32, time_s: f64) {
        let rows = self.rows_at(width);
        self.values.clear();
        let within = self.rows[rows].fixed.iter().zip(&self.slopes);
        self.values.extend(within.map(|(fixed, slope)| fixed + slope * time_s));
        if self.stalls.any(time_s) {
            for (value, stream) in self.values.iter_mut().zip(self.streams) {
                let over_s = (stream.overshoot_s + time_s).max(0.0);
                *value += stream.stall_price * stream.gap_s * over_s;
            }
        }
    }

    /// Puts the `num_rows` most valuable rows first, in no order; ties go to the lower lane.
    fn put_best_first(&mut self, num_rows: usize) {
        let values = &self.values;
        self.order.clear();
        self.order.extend(0..u32::try_from(values.len()).unwrap_or(u32::MAX));
        if num_rows < self.order.len() {
            self.order.select_nth_unstable_by(num_rows, |&a, &b| {
                values[b as usize].total_cmp(&values[a as usize]).then(a.cmp(&b))
            });
        }
    }
}

fn best_sums(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(|a, b| b.total_cmp(a));
    let mut sum = 0.0;
    let mut sums = Vec::with_capacity(values.len() + 1);
    sums.push(sum);
    sums.extend(sorted.iter().map(|value| {
        sum += value;
        sum
    }));
    sums
}
