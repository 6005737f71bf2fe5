#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lockwright::fuzz::mysql_answer(data));
