//! Any calls with any numbers, in any order.
#![no_main]
// Each target runs one of them.
#[allow(dead_code)]
#[path = "../src/machines.rs"]
mod machines;

libfuzzer_sys::fuzz_target!(|data: &[u8]| machines::scheduler(data));
