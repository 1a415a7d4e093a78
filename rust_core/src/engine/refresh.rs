//! Which graph to run in order to learn its cost.
use super::catalogue::Graph;
use super::cost_table::CostTable;
use super::view::{LaneView, Prompt, Stream};

/// What the lanes could make use of.
#[derive(Debug, Clone, Copy)]
pub struct Demand {
    prompt_tokens: u32,
    num_prompts: u32,
    num_streams: u32,
    width: u32,
}

impl Demand {
    /// Of these lanes.
    #[must_use]
    pub fn new(lanes: &[LaneView<'_>], streams: &[Stream], prompts: &[Prompt]) -> Self {
        let count = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
        Self {
            prompt_tokens: prompts.iter().fold(0, |sum, p| p.left.saturating_add(sum)),
            num_prompts: count(prompts.len()),
            num_streams: count(streams.len()),
            width: streams.iter().map(|s| lanes[s.lane].useful_width()).max().unwrap_or(1),
        }
    }

    /// Whether `graph` has room for any of it.
    #[must_use]
    pub fn serves(&self, graph: &Graph) -> bool {
        let used = self.used(graph);
        used[0] > 0 || used[2] > 0
    }

    fn used(&self, graph: &Graph) -> [u32; 4] {
        [
            graph.prefill_tokens.min(self.prompt_tokens),
            if graph.prefill_tokens > 0 { graph.prompt_rows.min(self.num_prompts) } else { 0 },
            graph.decode_rows.min(self.num_streams),
            if graph.decode_rows > 0 { graph.width.min(self.width) } else { 0 },
        ]
    }
}

fn room(graph: &Graph) -> [u32; 4] {
    [graph.prefill_tokens, graph.prompt_rows, graph.decode_rows, graph.width]
}

/// The next graph without a measurement: least recently tried, then smallest, so that a cold
/// start does not begin with the longest graph. Not one that kept giving no time.
#[must_use]
pub fn unmeasured(table: &CostTable, demand: &Demand, busy: &[usize]) -> Option<usize> {
    let limit = table.settings().bootstrap_attempts;
    let wanted = |graph: usize| {
        table.cost_s()[graph].is_none() && table.costs()[graph].num_invalid() < limit
    };
    candidates(table, demand, busy, wanted)
        .into_iter()
        .min_by_key(|&graph| trial_order(table, graph))
}

/// Any graph with room for a lane, padded or without a time: nothing measured has.
#[must_use]
pub fn last_resort(table: &CostTable, demand: &Demand) -> Option<usize> {
    let graphs = table.graphs();
    (0..graphs.len())
        .filter(|&graph| demand.serves(&graphs[graph]))
        .min_by_key(|&graph| trial_order(table, graph))
}

fn trial_order(table: &CostTable, graph: usize) -> (Option<i64>, u64) {
    (table.costs()[graph].last_attempt_ns(), size(&table.graphs()[graph]))
}

/// Lifetimes after which a stale graph is measured whomever it delays: what nobody measures could
/// have become quick, and nobody would know.
const MOST_LIFETIMES: i64 = 10;

/// True if measuring `graph` makes no stream wait beyond its allowed gap. Who gets no row in it would
/// wait for the next step too, whose length is not known here.
#[must_use]
pub fn delays_nobody(streams: &[Stream], graph: &Graph, cost_s: f64) -> bool {
    graph.decode_rows as usize >= streams.len()
        && streams.iter().all(|stream| stream.overshoot_s + cost_s <= 0.0)
}

/// The graph to measure again: stale or giving no time, least recently tried, then most valuable.
///
/// Only an `allowed` one, or one that was stale for too long.
pub fn stale(
    table: &CostTable,
    demand: &Demand,
    busy: &[usize],
    now_ns: i64,
    allowed: impl Fn(usize) -> bool,
    mut value: impl FnMut(usize) -> f64,
) -> Option<usize> {
    let limit = table.settings().bootstrap_attempts;
    let lifetime_ns = table.settings().lifetime_ns;
    let wanted = |graph: usize| {
        let cost = &table.costs()[graph];
        (cost.is_stale(now_ns, lifetime_ns) || cost.num_invalid() >= limit)
            && (allowed(graph) || cost.is_stale(now_ns, MOST_LIFETIMES * lifetime_ns))
    };
    let found = candidates(table, demand, busy, wanted);
    let attempt = |graph: &usize| table.costs()[*graph].last_attempt_ns();
    let oldest = found.iter().map(attempt).min()?;
    let tied = found.into_iter().filter(|graph| attempt(graph) == oldest);
    let valued: Vec<(f64, usize)> = tied.map(|graph| (value(graph), graph)).collect();
    valued.into_iter().min_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1))).map(|pair| pair.1)
}

/// Graphs with room that no smaller graph of the catalogue has, whose kinds of work are all there.
/// Padded graphs are measured when load first fills them.
///
/// `wanted` first: nearly always there is none, and fitting compares with all graphs.
fn candidates(
    table: &CostTable,
    demand: &Demand,
    busy: &[usize],
    wanted: impl Fn(usize) -> bool,
) -> Vec<usize> {
    let graphs = table.graphs();
    let mut found: Vec<usize> =
        (0..graphs.len()).filter(|&graph| wanted(graph) && !busy.contains(&graph)).collect();
    if !found.is_empty() {
        let used: Vec<[u32; 4]> = graphs.iter().map(|graph| demand.used(graph)).collect();
        found.retain(|&graph| fits(graph, graphs, &used));
    }
    found
}

fn fits(graph: usize, graphs: &[Graph], used: &[[u32; 4]]) -> bool {
    let own = room(&graphs[graph]);
    let kinds_are_there =
        (own[0] == 0 || used[graph][0] > 0) && (own[2] == 0 || used[graph][2] > 0);
    kinds_are_there
        && !graphs.iter().zip(used).any(|(other, other_used)| {
            let other = room(other);
            *other_used == used[graph]
                && other != own
                && other.iter().zip(own).all(|(other, own)| *other <= own)
        })
}

fn size(graph: &Graph) -> u64 {
    u64::from(graph.prefill_tokens) + u64::from(graph.decode_rows) * u64::from(graph.width)
}
