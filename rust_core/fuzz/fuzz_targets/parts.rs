//! The parts by themselves, with any numbers.
#![no_main]
// Each target runs one of them.
#[allow(dead_code)]
#[path = "../src/machines.rs"]
mod machines;

libfuzzer_sys::fuzz_target!(|data: &[u8]| machines::parts(data));
