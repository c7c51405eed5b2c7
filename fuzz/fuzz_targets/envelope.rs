//! Feeds the fuzzer's bytes to the property `envelope`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lspool_fuzz::properties::envelope(data));
