//! The step scheduler of generative models: which prepared graph runs next, and for whom.
//!
//! A graph is a non-preemptible piece of device time. Each step takes the graph and lanes with the
//! most service value per second. `selector` decides and changes nothing; `scheduler` owns lanes,
//! costs and the frames in flight. Time is an argument everywhere.
pub mod catalogue;
pub mod cost;
pub mod cost_table;
pub mod frame;
pub mod lane;
pub mod ledger;
pub mod normalizer;
pub mod prefill;
pub mod pressure;
pub mod refresh;
pub mod scheduler;
pub mod score;
pub mod selector;
pub mod settings;
pub mod stall;
pub mod view;
pub mod window;

pub use catalogue::{Catalogue, Graph};
pub use scheduler::StepScheduler;
pub use settings::Settings;

/// Seconds of a duration in nanoseconds; scores are computed in tokens and seconds.
#[must_use]
pub fn seconds(ns: i64) -> f64 {
    ns as f64 * 1e-9
}
