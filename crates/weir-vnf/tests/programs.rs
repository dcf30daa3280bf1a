//! The programs of `examples/vnf` that are written in Rust.

#![forbid(unsafe_code)]

mod examples;
mod port;

use std::path::PathBuf;

use examples::{Host, Lan};

fn program(name: &str) -> PathBuf {
    let this = std::env::current_exe().expect("this program has a path");
    let folder = this.parent().and_then(|deps| deps.parent()).expect("it is in a folder of a folder");
    folder.join("examples").join(name)
}

#[test]
fn the_chain_of_figure_2() {
    let [a, b, c] = ["vnf-a", "vnf-b", "vnf-c"].map(program);
    let here = Host::this();
    examples::chain([&a, &b, &c], [&here; 3]);
}

#[test]
fn the_reverse_proxy() {
    let here = Host::this();
    examples::proxy(&program("vnf-proxy"), &here, here.address);
}

#[test]
fn the_chain_of_figure_2_on_stacks_in_user_space() {
    let [a, b, c] = ["vnf-a", "vnf-b", "vnf-c"].map(program);
    let lan = Lan::new(3);
    let [on_a, on_b, on_c] =
        [(0, "packet"), (1, "xdp"), (2, "packet")].map(|(n, method)| lan.host(n, method));
    lan.talk_from_here(|| examples::chain([&a, &b, &c], [&on_a, &on_b, &on_c]));
}

#[test]
fn the_reverse_proxy_on_a_stack_in_user_space() {
    let lan = Lan::new(1);
    for method in ["packet", "xdp"] {
        let host = lan.host(0, method);
        lan.talk_from_here(|| examples::proxy(&program("vnf-proxy"), &host, Lan::address()));
    }
}

#[test]
fn the_load_balancer() {
    examples::balancer(&program("vnf-balancer"));
}
