//! The costs of a catalogue, and what follows from them.
use super::catalogue::{Catalogue, Graph};
use super::cost::{Execution, GraphCost};
use super::normalizer::Normalizers;
use super::prefill::PrefillPlan;
use super::seconds;
use super::settings::CostSettings;

/// Measured costs, reference rates and the prefill plan of one catalogue.
#[derive(Debug, Clone)]
pub struct CostTable {
    catalogue: Catalogue,
    settings: CostSettings,
    costs: Vec<GraphCost>,
    cost_s: Vec<Option<f64>>,
    planned_s: Vec<Option<f64>>,
    normalizers: Normalizers,
    plan: PrefillPlan,
    longest_prompt: u32,
}

impl CostTable {
    /// Change of a prefill cost, as a share, that makes a new plan.
    const REPLAN: f64 = 0.02;

    /// Nothing measured yet.
    #[must_use]
    pub fn new(catalogue: Catalogue, settings: CostSettings) -> Self {
        let num_graphs = catalogue.graphs().len();
        Self {
            catalogue,
            settings,
            costs: vec![GraphCost::default(); num_graphs],
            cost_s: vec![None; num_graphs],
            planned_s: vec![None; num_graphs],
            normalizers: Normalizers::default(),
            plan: PrefillPlan::default(),
            longest_prompt: 0,
        }
    }

    /// Takes in an execution of `graph`; false if its device time was indeterminate.
    pub fn observe(&mut self, graph: usize, execution: &Execution) -> bool {
        let valid = self.costs[graph].observe(execution, self.settings.lifetime_ns);
        let cost_s = self.costs[graph].cost_ns().map(seconds);
        if cost_s != self.cost_s[graph] {
            self.cost_s[graph] = cost_s;
            self.normalizers = Normalizers::new(self.catalogue.graphs(), &self.cost_s);
            self.replan(graph);
        }
        valid
    }

    /// Makes the plan exact for prompts up to `tokens`.
    pub fn expect_prompt(&mut self, tokens: u32) {
        self.longest_prompt = self.longest_prompt.max(tokens);
        self.plan.extend_to(self.longest_prompt);
    }

    /// Notes that `graph` was chosen.
    pub fn attempt(&mut self, graph: usize, now_ns: i64) {
        self.costs[graph].attempt(now_ns);
    }

    /// The graphs.
    #[must_use]
    pub fn graphs(&self) -> &[Graph] {
        self.catalogue.graphs()
    }

    /// What is known of each graph.
    #[must_use]
    pub fn costs(&self) -> &[GraphCost] {
        &self.costs
    }

    /// Cost in s of each graph; None while indeterminate.
    #[must_use]
    pub fn cost_s(&self) -> &[Option<f64>] {
        &self.cost_s
    }

    /// Cost in s of the longest measured graph.
    #[must_use]
    pub fn longest_s(&self) -> f64 {
        self.cost_s.iter().flatten().copied().fold(0.0, f64::max)
    }

    /// Reference rates.
    #[must_use]
    pub fn normalizers(&self) -> &Normalizers {
        &self.normalizers
    }

    /// The quickest way to finish a prompt alone.
    #[must_use]
    pub fn plan(&self) -> &PrefillPlan {
        &self.plan
    }

    /// Settings of the costs.
    #[must_use]
    pub fn settings(&self) -> &CostSettings {
        &self.settings
    }

    fn replan(&mut self, graph: usize) {
        let moved = match (self.planned_s[graph], self.cost_s[graph]) {
            (Some(planned), Some(cost)) => (cost - planned).abs() > Self::REPLAN * planned,
            _ => true,
        };
        if self.graphs()[graph].prefill_tokens == 0 || !moved {
            return;
        }
        self.planned_s.clone_from(&self.cost_s);
        let prefill: Vec<(usize, u32, i64)> = self
            .graphs()
            .iter()
            .enumerate()
            .filter(|(_, graph)| graph.prefill_tokens > 0)
            .filter_map(|(index, graph)| {
                Some((index, graph.prefill_tokens, self.costs[index].cost_ns()?))
            })
            .collect();
        self.plan = PrefillPlan::new(&prefill);
        self.plan.extend_to(self.longest_prompt);
    }
}
