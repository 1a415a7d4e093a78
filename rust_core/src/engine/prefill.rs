//! The quickest way to finish a prompt that has the device to itself.
use super::seconds;

/// Exact prefill plan: `H(0) = 0`, `H(p) = min over graphs of T(g) + H(max(0, p - capacity(g)))`.
///
/// H depends on p only through the multiples of the capacities' common divisor that cover it, so
/// the table has one entry a multiple. Past its last entry the graph of the best rate is repeated.
#[derive(Debug, Clone, Default)]
pub struct PrefillPlan {
    options: Vec<Choice>,
    unit_tokens: u32,
    completion_ns: Vec<i64>,
    first: Vec<usize>,
    fastest: usize,
}

#[derive(Debug, Clone, Copy)]
struct Choice {
    graph: usize,
    units: usize,
    cost_ns: i64,
}

impl PrefillPlan {
    /// Longest table, in units; 8 bytes each twice.
    pub const MAX_UNITS: usize = 65_536;

    /// Plans over `(graph, prefill tokens, cost in ns)`; tokens and costs above 0.
    #[must_use]
    pub fn new(graphs: &[(usize, u32, i64)]) -> Self {
        let unit_tokens =
            graphs.iter().fold(0, |unit, &(_, tokens, _)| common_divisor(unit, tokens));
        let options: Vec<Choice> = graphs
            .iter()
            .map(|&(graph, tokens, cost_ns)| Choice {
                graph,
                units: (tokens / unit_tokens) as usize,
                cost_ns,
            })
            .collect();
        let rate = |option: &Choice| option.units as f64 / option.cost_ns as f64;
        let fastest = (0..options.len())
            .max_by(|&a, &b| rate(&options[a]).total_cmp(&rate(&options[b])).then(b.cmp(&a)))
            .unwrap_or(0);
        Self { options, unit_tokens, completion_ns: vec![0], first: vec![0], fastest }
    }

    /// Extends the table to `tokens`, as far as it may grow. O(units × graphs) once.
    pub fn extend_to(&mut self, tokens: u32) {
        if self.options.is_empty() {
            return;
        }
        let last = self.units(tokens).min(Self::MAX_UNITS);
        for units in self.completion_ns.len()..=last {
            let after = |option: &Choice| {
                option.cost_ns + self.completion_ns[units.saturating_sub(option.units)]
            };
            let best = (0..self.options.len())
                .min_by_key(|&option| after(&self.options[option]))
                .unwrap_or(0);
            let completion_ns = after(&self.options[best]);
            self.completion_ns.push(completion_ns);
            self.first.push(best);
        }
    }

    /// H(tokens) in s; 0 without prefill graphs.
    #[must_use]
    pub fn completion_s(&self, tokens: u32) -> f64 {
        let Some(fastest) = self.options.get(self.fastest) else { return 0.0 };
        let (repeats, units) = self.within_table(self.units(tokens), fastest.units);
        repeats as f64 * seconds(fastest.cost_ns) + seconds(self.completion_ns[units])
    }

    /// The graph to start with; None without prefill graphs or prompt tokens.
    #[must_use]
    pub fn first_graph(&self, tokens: u32) -> Option<usize> {
        let fastest = self.options.get(self.fastest)?;
        let (repeats, units) = self.within_table(self.units(tokens), fastest.units);
        match (repeats, units) {
            (0, 0) => None,
            (0, units) => Some(self.options[self.first[units]].graph),
            _ => Some(fastest.graph),
        }
    }

    fn units(&self, tokens: u32) -> usize {
        tokens.div_ceil(self.unit_tokens.max(1)) as usize
    }

    fn within_table(&self, units: usize, step: usize) -> (usize, usize) {
        let beyond = units.saturating_sub(self.completion_ns.len() - 1);
        let repeats = beyond.div_ceil(step);
        (repeats, units.saturating_sub(repeats * step))
    }
}

fn common_divisor(a: u32, b: u32) -> u32 {
    if b == 0 {
        a
    } else {
        common_divisor(b, a % b)
    }
}

#[cfg(test)]
mod tests {
    use super::PrefillPlan;

    #[test]
    fn a_padded_graph_may_be_the_quicker_way() {
        let mut plan =
            PrefillPlan::new(&[(0, 64, 2_000_000), (1, 128, 3_000_000), (2, 256, 4_000_000)]);
        plan.extend_to(129);
        assert!((plan.completion_s(129) - 4e-3).abs() < 1e-12);
        assert_eq!(plan.first_graph(129), Some(2));
        assert_eq!(plan.first_graph(0), None);
    }

    #[test]
    fn beyond_the_table_the_best_rate_repeats() {
        let mut plan = PrefillPlan::new(&[(0, 1, 1_000_000_000), (1, 3, 2_000_000_000)]);
        plan.extend_to(4);
        assert!((plan.completion_s(4) - 3.0).abs() < 1e-12);
        assert!((plan.completion_s(10) - 7.0).abs() < 1e-12);
        assert_eq!(plan.first_graph(10), Some(1));
    }
}
