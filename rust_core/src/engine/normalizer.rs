//! What the catalogue says of the machine, so that no price has to be tuned to it.
use super::catalogue::Graph;

/// Reference rates read off measured graphs.
#[derive(Debug, Clone, Default)]
pub struct Normalizers {
    /// `R_dec`: most certain output tokens/s of any decode graph.
    pub decode_rate: f64,
    /// `R_pre`: most prompt tokens/s that prefill adds to any number of decode rows, none included.
    pub prefill_rate: f64,
    /// `(rows, s)` by rows: the quickest graph with at least as many.
    decode_times: Vec<(u32, f64)>,
}

impl Normalizers {
    /// Least share of a mixed graph's time that its prefill is taken to cost; below is noise.
    const MIN_PREFILL_SHARE: f64 = 0.05;

    /// Reads `graphs` with their costs in s; None is unmeasured.
    #[must_use]
    pub fn new(graphs: &[Graph], cost_s: &[Option<f64>]) -> Self {
        let measured: Vec<(&Graph, f64)> = graphs
            .iter()
            .zip(cost_s)
            .filter_map(|(graph, cost)| cost.map(|cost| (graph, cost)))
            .collect();
        let mut normalizers = Self { decode_times: decode_times(&measured), ..Self::default() };
        normalizers.decode_rate = normalizers
            .decode_times
            .iter()
            .map(|&(rows, time_s)| f64::from(rows) / time_s)
            .fold(0.0, f64::max);
        normalizers.prefill_rate = measured
            .iter()
            .filter(|(graph, _)| graph.prefill_tokens > 0)
            .map(|(graph, time_s)| normalizers.marginal_rate(graph, *time_s))
            .fold(0.0, f64::max);
        normalizers
    }

    /// T(0, streams): the quickest decode step for as many streams as fit; 0 while unmeasured.
    #[must_use]
    pub fn decode_time_s(&self, streams: usize) -> f64 {
        let rows = u32::try_from(streams.max(1)).unwrap_or(u32::MAX);
        let covering = self.decode_times.partition_point(|&(graph_rows, _)| graph_rows < rows);
        self.decode_times.get(covering).or(self.decode_times.last()).map_or(0.0, |&(_, time)| time)
    }

    fn marginal_rate(&self, graph: &Graph, time_s: f64) -> f64 {
        let decode_s = match graph.decode_rows {
            0 => 0.0,
            rows => self.decode_time_s(rows as usize),
        };
        let prefill_s = (time_s - decode_s).max(Self::MIN_PREFILL_SHARE * time_s);
        f64::from(graph.prefill_tokens) / prefill_s
    }
}

/// Decode graphs by rows, each with the least time of any graph that has as many rows. Mixed
/// graphs stand in while no pure one is measured.
fn decode_times(measured: &[(&Graph, f64)]) -> Vec<(u32, f64)> {
    let times = |pure: bool| -> Vec<(u32, f64)> {
        measured
            .iter()
            .filter(|(graph, _)| graph.decode_rows > 0 && (graph.prefill_tokens == 0) == pure)
            .map(|(graph, time_s)| (graph.decode_rows, *time_s))
            .collect()
    };
    let mut entries = times(true);
    if entries.is_empty() {
        entries = times(false);
    }
    entries.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    entries.dedup_by_key(|entry| entry.0);
    let mut least = f64::INFINITY;
    for entry in entries.iter_mut().rev() {
        least = least.min(entry.1);
        entry.1 = least;
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::{Graph, Normalizers};

    fn graph(prefill_tokens: u32, decode_rows: u32) -> Graph {
        Graph {
            name: format!("p{prefill_tokens}-d{decode_rows}"),
            prefill_tokens,
            prompt_rows: u32::from(prefill_tokens > 0),
            decode_rows,
            width: 1,
            feedback: false,
        }
    }

    #[test]
    fn rates_come_from_the_catalogue() {
        let graphs = [graph(0, 1), graph(0, 8), graph(64, 0), graph(64, 8)];
        let cost_s = [Some(0.010), Some(0.020), Some(0.032), Some(0.036)];
        let normalizers = Normalizers::new(&graphs, &cost_s);
        assert!((normalizers.decode_rate - 400.0).abs() < 1e-9);
        assert!((normalizers.prefill_rate - 4_000.0).abs() < 1e-6); // 64 for 16 ms more
        for (streams, time_s) in [(1, 0.010), (2, 0.020), (8, 0.020), (100, 0.020)] {
            assert!((normalizers.decode_time_s(streams) - time_s).abs() < 1e-12);
        }
    }

    #[test]
    fn a_graph_with_more_rows_stands_in_where_it_is_quicker() {
        let normalizers =
            Normalizers::new(&[graph(0, 2), graph(0, 4)], &[Some(0.030), Some(0.020)]);
        assert!((normalizers.decode_time_s(1) - 0.020).abs() < 1e-12);
    }

    #[test]
    fn more_streams_than_rows_take_the_quickest_of_the_largest_graphs() {
        let graphs = [graph(0, 2), Graph { width: 2, ..graph(0, 2) }];
        let normalizers = Normalizers::new(&graphs, &[Some(0.008), Some(0.009)]);
        assert!((normalizers.decode_time_s(3) - 0.008).abs() < 1e-12);
    }

    #[test]
    fn nothing_measured_gives_nothing() {
        let normalizers = Normalizers::new(&[graph(64, 8)], &[None]);
        assert!(normalizers.decode_rate.abs() < 1e-12 && normalizers.prefill_rate.abs() < 1e-12);
        assert!(normalizers.decode_time_s(4).abs() < 1e-12);
    }
}
