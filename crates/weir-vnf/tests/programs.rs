//! The programs of `examples/vnf` that are written in Rust.

#![forbid(unsafe_code)]

mod examples;
mod port;

use std::path::PathBuf;

fn program(name: &str) -> PathBuf {
    let this = std::env::current_exe().expect("this program has a path");
    let folder = this.parent().and_then(|deps| deps.parent()).expect("it is in a folder of a folder");
    folder.join("examples").join(name)
}

#[test]
fn the_chain_of_figure_2() {
    examples::chain(&program("vnf-a"), &program("vnf-b"), &program("vnf-c"));
}

#[test]
fn the_reverse_proxy() {
    examples::proxy(&program("vnf-proxy"));
}

#[test]
fn the_load_balancer() {
    examples::balancer(&program("vnf-balancer"));
}
