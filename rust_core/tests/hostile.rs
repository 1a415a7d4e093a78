//! The machines of the fuzz targets on random bytes, for stable Rust.
#[path = "../fuzz/src/machines.rs"]
mod machines;
mod support;

use proptest::prelude::*;

use support::cases;

proptest! {
    #![proptest_config(cases(1_000, 20_261_129))]

    #[test]
    fn the_scheduler_takes_any_calls(data in prop::collection::vec(any::<u8>(), 0..2_000)) {
        machines::scheduler(&data);
    }

    #[test]
    fn the_parts_take_any_numbers(data in prop::collection::vec(any::<u8>(), 0..2_000)) {
        machines::parts(&data);
    }
}
