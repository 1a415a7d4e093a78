//! Headway's scheduling decisions: pure algorithms without clock, I/O or global randomness.
//!
//! Instants and durations are integer nanoseconds of the caller's monotonic clock. The same calls
//! give the same results. With the feature `python`, `py` wraps all of it for `CPython`.
#![cfg_attr(not(feature = "python"), forbid(unsafe_code))]

pub mod batch;
pub mod batching;
pub mod breaker;
pub mod bucket;
pub mod check;
pub mod cost;
pub mod deadline;
pub mod edf;
pub mod engine;
pub mod error;
pub mod ewma;
pub mod fair;
pub mod hash;
pub mod hedge;
pub mod histogram;
pub mod lanes;
pub mod limiter;
pub mod median;
pub mod p2c;
pub mod quantile;
pub mod recency;
pub mod residual;
pub mod retry;
pub mod rng;
pub mod scheduler;
pub mod sim;
pub mod slab;
pub mod tenants;
pub mod tree;

#[cfg(feature = "python")]
mod py;
