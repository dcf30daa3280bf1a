//! What a graph in the kernel costs beside the kernel's own bridge: `cargo run -p weir-ebpf --release --example measure`, as root.

#[expect(dead_code, reason = "more is for tests")]
#[path = "../tests/support/graph.rs"]
mod graph;
#[expect(dead_code, reason = "more is for tests")]
#[path = "../tests/support/loaded.rs"]
mod loaded;

use std::thread::sleep;
use std::time::Duration;

use loaded::{Loaded, netns};
use weir_ebpf::Hook;
use weir_testkit::Hosts;

/// Gigabits a second of one TCP connection, and the milliseconds of a ping there and back.
fn figures(net: &Hosts) -> (f64, f64) {
    net.left.exec("ping -c 2 -i 0.05 -W 2 10.9.0.2");
    net.right.exec("iperf3 -s -1 -D");
    sleep(Duration::from_millis(300));
    let text = net.left.exec("iperf3 -c 10.9.0.2 -t 2 -J");
    let received = text.split("\"sum_received\"").nth(1).unwrap_or_default();
    let rate = received.split("\"bits_per_second\":").nth(1).unwrap_or_default();
    let rate: f64 = rate.trim().split([',', '\n']).next().unwrap_or_default().parse().expect("a number");
    let text = net.left.exec("ping -c 1000 -i 0.001 -q 10.9.0.2");
    let times = text.split("mdev = ").nth(1).unwrap_or_default();
    let average: f64 = times.split('/').nth(1).unwrap_or_default().parse().expect("a number");
    (rate / 1e9, average)
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

fn main() {
    let (mut rates, mut times) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        let net = Hosts::new();
        net.middle.ip("link add name bridge0 type bridge");
        for name in ["left", "right"] {
            net.middle.ip(&format!("link set {name} master bridge0"));
        }
        net.middle.ip("link set bridge0 up");
        let bridge = figures(&net);
        drop(net);
        let net = Hosts::new();
        let middle = netns(&net.middle);
        let mut loaded = Loaded::new(&middle, Hook::Tc);
        loaded.attach(&middle).expect("the interfaces are free");
        let kernel = figures(&net);
        println!("bridge {bridge:?}, firewall in the kernel {kernel:?} (Gbit/s, ms there and back)");
        rates.push(kernel.0 / bridge.0);
        times.push(kernel.1 / bridge.1);
    }
    println!("rates {rates:.2?}, times {times:.2?}");
    println!("median: rate {:.2} of the bridge's, time {:.2}", median(rates), median(times));
}
