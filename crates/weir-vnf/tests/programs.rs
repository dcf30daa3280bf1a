//! The programs of `examples/vnf` that are written in Rust.

#![forbid(unsafe_code)]

mod examples;
mod port;

use std::path::PathBuf;
use std::process::Command;

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

/// Two stacks in user space on the two ends of shared memory: no packet of theirs is seen by the kernel.
#[test]
fn stacks_in_user_space_on_shared_memory() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let socket = folder.path().join("memif.sock");
    let stack = |more: &str, address: &str| {
        format!("user,device=memif:{}{more},address={address}/24", socket.display())
    };
    let mut c = Command::new(program("vnf-c"));
    c.args(["7000", "10.9.0.2"]).env("WEIR_VNF_STACK", stack("?role=master", "10.9.0.2"));
    let mut c = c.spawn().expect("C was built");
    // C answers the first request as B would.
    let run = || {
        let mut a = Command::new(program("vnf-a"));
        a.args(["7000", "8", "1", "10.9.0.2"]).env("WEIR_VNF_STACK", stack("", "10.9.0.3"));
        a.output().expect("A was built").stdout == b"1 right answers\n"
    };
    let answered = (0..50).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        run()
    });
    let _ = c.kill();
    let _ = c.wait();
    assert!(answered);
}
