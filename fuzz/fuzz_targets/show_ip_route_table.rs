#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::show_ip_route_table(data));
