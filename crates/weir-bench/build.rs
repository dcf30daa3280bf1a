//! Keeps what the figures depend on: the compiler and its flags.

use std::env;
use std::process::Command;

fn main() {
    let rustc = env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let version = Command::new(rustc).arg("--version").output();
    let version = version.map_or("unknown".into(), |o| String::from_utf8_lossy(&o.stdout).trim().to_owned());
    let var = |name| env::var(name).unwrap_or_default();
    println!("cargo:rustc-env=BENCH_RUSTC={version}");
    println!("cargo:rustc-env=BENCH_PROFILE={} (opt-level {})", var("PROFILE"), var("OPT_LEVEL"));
    println!("cargo:rustc-env=BENCH_RUSTFLAGS={}", var("CARGO_ENCODED_RUSTFLAGS").replace('\x1f', " "));
    println!("cargo:rerun-if-changed=build.rs");
}
