//! Event-driven simulator of a fleet; it drives the production policy and its rivals.

pub mod bound;
pub mod engine;
pub mod headway;
pub mod rival;
pub mod run;
pub mod trace;
pub mod workload;
