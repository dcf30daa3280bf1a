//! TCP through a firewall with source NAT: the engine with the example of that name, and the kernel's routing with
//! nftables, in turns.

use std::time::Duration;

use anyhow::{Context, Result};
use weir_io::interface::Method;

use super::forward::Engine;
use super::lab::Lab;
use super::{Effort, Figure, TCP};
use crate::references::process::{Running, program, run};
use crate::stats::Spread;

/// The graph, for interfaces `lan` and `wan`.
const GRAPH: &str = include_str!("../../../../examples/firewall-nat.click");

/// The router of a measurement.
#[derive(Debug, Clone, Copy)]
enum Router {
    Engine(Method),
    Kernel,
}

/// Rates, and processor time of the whole machine for a byte.
pub fn measure(effort: Effort, all: &mut Vec<Figure>, skipped: &mut Vec<String>) -> Result<()> {
    program("iperf3", "iperf3")?;
    program("nft", "nftables")?;
    let routers = [
        (Router::Engine(Method::Packet), "Weir, firewall and NAT, AF_PACKET"),
        (Router::Engine(Method::Xdp), "Weir, firewall and NAT, AF_XDP"),
        (Router::Kernel, "kernel routing, nftables firewall and masquerade"),
    ];
    let mut found: Vec<(Vec<f64>, Vec<f64>)> = vec![Default::default(); routers.len()];
    for _ in 0..effort.samples {
        for ((router, name), (rates, costs)) in routers.iter().zip(&mut found) {
            match transfer(*router, effort.time) {
                Ok((rate, cost)) => {
                    rates.push(rate);
                    costs.push(cost);
                }
                Err(e) => skipped.push(format!("TCP, {name}: {e:#}")),
            }
        }
    }
    for ((_, name), (rates, costs)) in routers.iter().zip(found) {
        if rates.is_empty() {
            continue;
        }
        let note = format!("{} ns of the machine's processors a byte", Spread::of(costs).show(3));
        all.push(Figure { what: TCP.into(), who: (*name).into(), value: Spread::of(rates), note });
    }
    Ok(())
}

/// Gbit/s, and nanoseconds of all processors for a byte.
fn transfer(router: Router, time: Duration) -> Result<(f64, f64)> {
    let lab = Lab::new()?;
    for (place, address, gateway) in [("sender", "10.0.1.2", "10.0.1.1"), ("sink", "10.0.2.2", "10.0.2.1")] {
        lab.ip(place, &format!("addr add {address}/24 dev eth0"))?;
        lab.ip(place, &format!("route add default via {gateway}"))?;
    }
    let _engine = match router {
        Router::Engine(method) => Some(Engine::start(&lab, method, GRAPH)?),
        Router::Kernel => {
            lab.ip("middle", "addr add 10.0.1.1/24 dev lan")?;
            lab.ip("middle", "addr add 10.0.2.1/24 dev wan")?;
            lab.exec("middle", "sysctl -qw net.ipv4.ip_forward=1")?;
            let rules = "table ip t {\nchain f {\ntype filter hook forward priority 0; policy drop;\n\
                         ct state established,related accept\ntcp dport { 80, 5201 } accept\n\
                         udp dport 5201 accept\n}\nchain n {\ntype nat hook postrouting priority 100;\n\
                         oifname \"wan\" masquerade\n}\n}\n";
            run(lab.command("middle", "nft").args(["-f", "-"]), rules)?;
            None
        }
    };
    let mut server = lab.command("sink", "iperf3");
    let mut server = Running::start(server.args(["-s", "-1", "--forceflush"]))?;
    server.hear("listening", |line| line.contains("listening").then_some(()))?;
    let before = busy()?;
    let seconds = time.as_secs().max(1).to_string();
    let text = run(lab.command("sender", "iperf3").args(["-J", "-c", "10.0.2.2", "-t", &seconds]), "")?;
    let busy = busy()? - before;
    let json: serde_json::Value = serde_json::from_str(&text)?;
    let end = &json["end"]["sum_received"];
    let rate = end["bits_per_second"].as_f64().context("iperf3 gives no rate")?;
    let bytes = end["bytes"].as_f64().filter(|&b| b > 0.0).context("iperf3 sent nothing")?;
    Ok((rate / 1e9, busy.as_nanos() as f64 / bytes))
}

/// Time that all processors of the machine have worked.
fn busy() -> Result<Duration> {
    let text = std::fs::read_to_string("/proc/stat")?;
    // user, nice, system, idle, iowait, irq, softirq; in hundredths of a second.
    let ticks: Vec<u64> =
        text.lines().next().unwrap_or_default().split_whitespace().skip(1).flat_map(str::parse).collect();
    let worked: u64 = [0, 1, 2, 5, 6].iter().filter_map(|&i| ticks.get(i)).sum();
    Ok(Duration::from_millis(worked * 10))
}
