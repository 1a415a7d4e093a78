//! Chooses the next step. Reads everything and changes nothing.
use super::cost::Purpose;
use super::cost_table::CostTable;
use super::refresh::{self, Demand};
use super::score::{Cohort, Parts, Scorer};
use super::settings::PriceSettings;
use super::view::{price, LaneView, Prompt, Stream};

/// Why a step was chosen. Values are stable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Reason {
    /// Most value per second of device time.
    BestScore = 1,
    /// A prompt alone on the device: the quickest way to its end.
    LonePrompt = 2,
    /// A prompt was passed over for as long as allowed; best score among graphs that serve it.
    PassedOver = 3,
    /// Never measured.
    Bootstrap = 4,
    /// A stale cost, measured again from the allowance.
    Refresh = 5,
}

/// Why there is no step. Values are stable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Pause {
    /// Nothing to do.
    Idle = 1,
    /// Two frames are in flight.
    QueueFull = 2,
    /// The outcome of a frame in flight is needed first.
    AwaitingFeedback = 3,
    /// There are lanes, but no graph with room for any of them.
    NoGraph = 4,
}

/// A chosen step.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// Index in the catalogue.
    pub graph: usize,
    /// Its lanes, by index into the views.
    pub cohort: Cohort,
    /// Why.
    pub reason: Reason,
    /// Cost in s; None while indeterminate.
    pub cost_s: Option<f64>,
    /// Tokens/s; 0 while the cost is indeterminate.
    pub score: f64,
    /// What makes up the value.
    pub parts: Parts,
}

impl Choice {
    /// How its completion is accounted for.
    #[must_use]
    pub fn purpose(&self) -> Purpose {
        match self.reason {
            Reason::Bootstrap => Purpose::Bootstrap,
            Reason::Refresh => Purpose::Refresh,
            _ => Purpose::Ordinary,
        }
    }
}

/// When and under what constraints to choose.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// When the step would start; ages and waits count up to here.
    pub start_ns: i64,
    /// Whether the allowance pays for a probe.
    pub may_probe: bool,
    /// Graphs in flight; they are being measured already.
    pub busy: &'a [usize],
}

/// A graph and what it would score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate {
    /// Index in the catalogue.
    pub graph: usize,
    /// Cost in s.
    pub cost_s: f64,
    /// Tokens/s.
    pub score: f64,
}

/// The step worth most per second, or the one that learns a cost that is missing.
///
/// `lanes` by ascending handle, all runnable. O(graphs × lanes); a selection of rows is O(lanes).
///
/// # Errors
/// The reason why there is none.
pub fn select(
    lanes: &[LaneView<'_>],
    table: &CostTable,
    prices: &PriceSettings,
    context: &Context<'_>,
) -> Result<Choice, Pause> {
    if lanes.is_empty() {
        return Err(Pause::Idle);
    }
    let (streams, prompts) = price(context.start_ns, lanes, table, prices);
    let mut scorer = Scorer::new(lanes, &streams, &prompts, table.longest_s());
    let demand = Demand::new(lanes, &streams, &prompts);
    if table.cost_s().iter().any(Option::is_none) {
        if let Some(graph) = refresh::unmeasured(table, &demand, context.busy) {
            return Ok(finish(&mut scorer, table, graph, Reason::Bootstrap));
        }
    }
    let Some((graph, reason)) = ordinary(&mut scorer, table, prices, &streams, &prompts) else {
        let graph = refresh::last_resort(table, &demand).ok_or(Pause::NoGraph)?;
        return Ok(finish(&mut scorer, table, graph, Reason::Bootstrap));
    };
    if context.may_probe {
        let mut busy = context.busy.to_vec();
        busy.push(graph);
        // The bound is near enough to rank by among equals, and does not need a selection of rows.
        let value = |index: usize| bound(&mut scorer, table, index).unwrap_or(f64::MIN);
        let allowed = |index: usize| {
            table.cost_s()[index].is_none_or(|cost_s| {
                refresh::delays_nobody(&streams, &table.graphs()[index], cost_s)
            })
        };
        let probe = refresh::stale(table, &demand, &busy, context.start_ns, allowed, value);
        if let Some(graph) = probe {
            return Ok(finish(&mut scorer, table, graph, Reason::Refresh));
        }
    }
    Ok(finish(&mut scorer, table, graph, reason))
}

/// The score of every measured graph that serves a lane, in catalogue order.
#[must_use]
pub fn candidates(
    lanes: &[LaneView<'_>],
    table: &CostTable,
    prices: &PriceSettings,
    start_ns: i64,
) -> Vec<Candidate> {
    let (streams, prompts) = price(start_ns, lanes, table, prices);
    let mut scorer = Scorer::new(lanes, &streams, &prompts, table.longest_s());
    (0..table.graphs().len()).filter_map(|graph| score(&mut scorer, table, graph)).collect()
}

fn ordinary(
    scorer: &mut Scorer<'_>,
    table: &CostTable,
    prices: &PriceSettings,
    streams: &[Stream],
    prompts: &[Prompt],
) -> Option<(usize, Reason)> {
    if let ([], [prompt], true) = (streams, prompts, prices.plan_lone_prompt) {
        if let Some(graph) = table.plan().first_graph(prompt.left) {
            return Some((graph, Reason::LonePrompt));
        }
    }
    let passed_over = prompts.iter().any(|prompt| prompt.passed_over >= 1.0);
    if passed_over {
        let serving = |graph: usize| table.graphs()[graph].prefill_tokens > 0;
        if let Some(graph) = best(scorer, table, serving) {
            return Some((graph, Reason::PassedOver));
        }
    }
    best(scorer, table, |_| true).map(|graph| (graph, Reason::BestScore))
}

/// The best graph. Scores within a billionth of each other are equal; the shorter graph wins, then
/// the earlier. Graphs are tried by what they could score at best, until none can win any more.
fn best(
    scorer: &mut Scorer<'_>,
    table: &CostTable,
    allowed: impl Fn(usize) -> bool,
) -> Option<usize> {
    let mut bounds: Vec<(f64, usize)> = (0..table.graphs().len())
        .filter(|&graph| allowed(graph))
        .filter_map(|graph| Some((bound(scorer, table, graph)?, graph)))
        .collect();
    bounds.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let mut best: Option<Candidate> = None;
    for (bound, graph) in bounds {
        if best.is_some_and(|best| bound < best.score - tolerance(bound, best.score)) {
            break;
        }
        let Some(candidate) = score(scorer, table, graph) else { continue };
        if best.is_none_or(|best| beats(&candidate, &best)) {
            best = Some(candidate);
        }
    }
    best.map(|candidate| candidate.graph)
}

const EQUAL: f64 = 1e-9;

fn tolerance(a: f64, b: f64) -> f64 {
    EQUAL * a.abs().max(b.abs())
}

fn beats(candidate: &Candidate, incumbent: &Candidate) -> bool {
    let difference = candidate.score - incumbent.score;
    let tolerance = tolerance(candidate.score, incumbent.score);
    if difference.abs() > tolerance {
        return difference > 0.0;
    }
    let longer = candidate.cost_s - incumbent.cost_s;
    if longer.abs() > EQUAL * incumbent.cost_s {
        return longer < 0.0;
    }
    candidate.graph < incumbent.graph
}

fn score(scorer: &mut Scorer<'_>, table: &CostTable, graph: usize) -> Option<Candidate> {
    let cost_s = table.cost_s()[graph]?;
    let value = scorer.value(&table.graphs()[graph], cost_s)?;
    Some(Candidate { graph, cost_s, score: value / cost_s })
}

fn bound(scorer: &mut Scorer<'_>, table: &CostTable, graph: usize) -> Option<f64> {
    let cost_s = table.cost_s()[graph]?;
    Some(scorer.bound(&table.graphs()[graph], cost_s)? / cost_s)
}

fn finish(scorer: &mut Scorer<'_>, table: &CostTable, graph: usize, reason: Reason) -> Choice {
    let cost_s = table.cost_s()[graph];
    let time_s = cost_s.unwrap_or(0.0);
    let cohort = scorer.cohort(&table.graphs()[graph], time_s);
    let parts = scorer.parts(&table.graphs()[graph], &cohort, time_s);
    let score = cost_s.map_or(0.0, |cost_s| parts.total() / cost_s);
    Choice { graph, cohort, reason, cost_s, score, parts }
}
