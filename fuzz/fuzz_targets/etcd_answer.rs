#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lockwright::fuzz::etcd_answer(data));
