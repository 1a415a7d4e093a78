//! Headway's scheduling decisions: pure algorithms without clock, I/O or global randomness.
#![cfg_attr(not(feature = "python"), forbid(unsafe_code))]

pub mod batching;
pub mod rng;
pub mod sim;
