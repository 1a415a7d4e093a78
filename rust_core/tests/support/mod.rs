//! What the property tests share.
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// So many cases, the same at each run.
pub fn cases(count: u32, seed: u64) -> ProptestConfig {
    ProptestConfig {
        cases: count,
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}
