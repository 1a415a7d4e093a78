//! The machines of the fuzz targets on random bytes, for stable Rust.
#[path = "../fuzz/src/machines.rs"]
mod machines;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

fn cases() -> ProptestConfig {
    ProptestConfig {
        cases: 1_000,
        rng_seed: RngSeed::Fixed(20_261_129),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn the_scheduler_takes_any_calls(data in prop::collection::vec(any::<u8>(), 0..2_000)) {
        machines::scheduler(&data);
    }

    #[test]
    fn the_parts_take_any_numbers(data in prop::collection::vec(any::<u8>(), 0..2_000)) {
        machines::parts(&data);
    }
}
