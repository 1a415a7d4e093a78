//! Prepared graphs and what they have room for.
use std::collections::HashSet;

use crate::error::CoreError;

/// A prepared execution: runs to its end once started, whoever uses its rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Graph {
    /// Unique in its catalogue.
    pub name: String,
    /// Prompt tokens it can take; 0 for a decode graph.
    pub prefill_tokens: u32,
    /// Prompts that may share `prefill_tokens`; at least 1 where there are any.
    pub prompt_rows: u32,
    /// Streams it can decode for; 0 for a prefill graph.
    pub decode_rows: u32,
    /// Positions verified a decode row, the certain one included; at least 1.
    pub width: u32,
    /// Whether the next submission always waits for its outcome (it has completion inputs).
    pub feedback: bool,
}

impl Graph {
    fn check(&self) -> Result<(), CoreError> {
        if self.name.is_empty() {
            return Err(CoreError::argument("name", "''", "a non-empty graph name"));
        }
        if self.prefill_tokens == 0 && self.decode_rows == 0 {
            let expected = "above 0 for prefill_tokens, decode_rows or both";
            return Err(CoreError::argument("decode_rows", 0, expected));
        }
        if self.prefill_tokens > 0 && self.prompt_rows == 0 {
            let expected = "at least 1 in a graph with prefill_tokens";
            return Err(CoreError::argument("prompt_rows", 0, expected));
        }
        if self.width == 0 || self.width > Catalogue::MAX_WIDTH {
            return Err(CoreError::argument("width", self.width, "between 1 and 64"));
        }
        Ok(())
    }
}

/// Graphs in the order that breaks ties.
#[derive(Debug, Clone)]
pub struct Catalogue {
    graphs: Vec<Graph>,
}

impl Catalogue {
    /// Most graphs a catalogue may hold.
    pub const MAX_GRAPHS: usize = 1_024;
    /// Widest verification.
    pub const MAX_WIDTH: u32 = 64;

    /// Checks and takes the graphs.
    ///
    /// # Errors
    /// Names the field of a graph out of range, a name used twice, or a catalogue of bad size.
    pub fn new(graphs: Vec<Graph>) -> Result<Self, CoreError> {
        if graphs.is_empty() || graphs.len() > Self::MAX_GRAPHS {
            return Err(CoreError::argument("graphs", graphs.len(), "1 to 1024 graphs"));
        }
        let mut names = HashSet::new();
        for graph in &graphs {
            graph.check()?;
            if !names.insert(graph.name.as_str()) {
                return Err(CoreError::argument("name", &graph.name, "unique in its catalogue"));
            }
        }
        Ok(Self { graphs })
    }

    /// All graphs.
    #[must_use]
    pub fn graphs(&self) -> &[Graph] {
        &self.graphs
    }
}

#[cfg(test)]
mod tests {
    use super::{Catalogue, Graph};

    fn graph(name: &str) -> Graph {
        Graph {
            name: name.into(),
            prefill_tokens: 0,
            prompt_rows: 0,
            decode_rows: 1,
            width: 1,
            feedback: false,
        }
    }

    #[test]
    fn refusals_name_the_field() {
        let cases = [
            (vec![], "graphs must be 1 to 1024 graphs, got 0"),
            (vec![graph("a"), graph("a")], "name must be unique in its catalogue, got a"),
            (
                vec![Graph { decode_rows: 0, ..graph("a") }],
                "decode_rows must be above 0 for prefill_tokens, decode_rows or both, got 0",
            ),
            (vec![Graph { width: 0, ..graph("a") }], "width must be between 1 and 64, got 0"),
        ];
        for (graphs, message) in cases {
            let error = Catalogue::new(graphs).expect_err(message);
            assert_eq!(error.to_string(), message);
        }
    }
}
