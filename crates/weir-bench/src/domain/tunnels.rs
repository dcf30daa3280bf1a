//! Tunnels between nodes beside those of the kernel and of wireguard-go.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use weir_testkit::{Namespace, link, output};

use super::figure;
use crate::functions::Figure;
use crate::migration::lab::Lab;
use crate::references::process::program;

/// Between the hosts at n1 and n3.
const WIRE: &str = "
id: wire
name: wire
saps:
  - {id: a, type: interface, node: n1, interface: {if-name: lan}}
  - {id: b, type: interface, node: n3, interface: {if-name: lan}}
flowrules:
  - {id: a, priority: 1, match: {port_in: 'sap:a'}, actions: {output_to_port: 'sap:b'}}
  - {id: b, priority: 1, match: {port_in: 'sap:b'}, actions: {output_to_port: 'sap:a'}}
";
/// What all of them take.
const MTU: u32 = 1380;

/// A program that ends with this.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// Two hosts that reach each other; the second one by this address.
struct Hosts<'l> {
    from: &'l Namespace,
    to: &'l Namespace,
    address: &'static str,
}

pub fn measure(samples: usize, quick: bool, all: &mut Vec<Figure>, skipped: &mut Vec<String>) -> Result<()> {
    program("iperf3", "iperf3")?;
    let rounds = if quick { 1 } else { samples.min(3) };
    let mut of = |kind: &str, measured: Result<[Vec<f64>; 3]>| match measured {
        Ok([gigabits, median, high]) => {
            all.push(figure("TCP, Gbit/s", kind, gigabits));
            all.push(figure("ping, us, median", kind, median));
            all.push(figure("99 %", kind, high));
        }
        Err(e) => skipped.push(format!("domain: {kind}: {e:#}")),
    };
    let ours = ours();
    match &ours {
        Ok(lab) => {
            for (kind, name, more) in [
                ("VXLAN", "vxlan", &[][..]),
                ("GRE", "gre", &[]),
                ("VLAN", "vlan", &["--vlans", "100-199"]),
                ("VXLAN in WireGuard", "wireguard", &[]),
            ] {
                of(kind, with(lab, &[&["--encapsulation", name], more].concat(), rounds));
            }
        }
        Err(e) => bail!("the nodes: {e:#}"),
    }
    drop(ours);
    of("kernel, no tunnel", kernel(false, rounds));
    of("kernel VXLAN", kernel(true, rounds));
    of("wireguard-go", wireguard_go(rounds));
    Ok(())
}

fn ours() -> Result<Lab> {
    let lab = Lab::joined("domain-tunnels")?;
    let control = lab.ns("control");
    // One bridge for all VLANs would learn the hosts' addresses from any of them.
    (0..3).for_each(|i| _ = control.ip(&format!("link set p{i} type bridge_slave learning off")));
    for (host, address) in [("h1", "10.7.0.1/24"), ("h3", "10.7.0.3/24")] {
        lab.ns(host).ip(&format!("link set eth0 mtu {MTU}"));
        lab.ns(host).ip(&format!("addr add {address} dev eth0"));
    }
    lab.apply("wire", WIRE)?;
    Ok(lab)
}

/// With the link between the nodes as those say.
fn with(lab: &Lab, options: &[&str], rounds: usize) -> Result<[Vec<f64>; 3]> {
    lab.weir("control", &[&["link", "set", "n1", "n3"], options].concat())?;
    lab.apply("wire", WIRE)?;
    let hosts = Hosts { from: lab.ns("h1"), to: lab.ns("h3"), address: "10.7.0.3" };
    hosts.measure(rounds)
}

impl Hosts<'_> {
    fn measure(&self, rounds: usize) -> Result<[Vec<f64>; 3]> {
        let begun = Instant::now();
        while output(self.from.command("ping").args(["-c1", "-W1", self.address])).is_err() {
            ensure!(begun.elapsed() < Duration::from_secs(20), "{} does not answer", self.address);
        }
        let (mut gigabits, mut median, mut high) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..rounds {
            gigabits.push(self.tcp()?);
            let times = self.ping()?;
            median.push(times[times.len() / 2]);
            high.push(times[times.len() * 99 / 100]);
        }
        Ok([gigabits, median, high])
    }

    fn tcp(&self) -> Result<f64> {
        let mut server = self.to.command("iperf3");
        server.args(["-s", "-1", "-B", self.address]).stdout(Stdio::null()).stderr(Stdio::null());
        let _server = Ends(server.spawn()?);
        let begun = Instant::now();
        loop {
            let client =
                output(self.from.command("iperf3").args(["-c", self.address, "-t", "2", "-O", "1", "-J"]));
            match client {
                Ok(text) => {
                    let said: Value = serde_json::from_str(&text)?;
                    let bits = said["end"]["sum_received"]["bits_per_second"].as_f64();
                    return Ok(bits.context("iperf3 says no rate")? / 1e9);
                }
                // The server is not there yet.
                Err(e) => ensure!(begun.elapsed() < Duration::from_secs(5), "iperf3: {e}"),
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Microseconds, in order.
    fn ping(&self) -> Result<Vec<f64>> {
        let text = output(self.from.command("ping").args(["-i", "0.002", "-c", "500", self.address]))?;
        let time = |line: &str| line.split_once("time=")?.1.split(' ').next()?.parse().ok();
        let mut times: Vec<f64> = text.lines().filter_map(time).map(|ms: f64| ms * 1e3).collect();
        ensure!(times.len() > 400, "{} of 500 pings came back", times.len());
        times.sort_by(f64::total_cmp);
        Ok(times)
    }
}

/// Hosts `a` and `b`, each at a machine, `x` and `y`, and a link between these.
fn row(name: &str) -> Result<[Namespace; 4]> {
    let new = |n: &str| Namespace::try_new(&format!("{name}{n}"));
    let [a, x, y, b] = [new("a")?, new("x")?, new("y")?, new("b")?];
    link((&a, "eth0"), (&x, "lan"));
    link((&b, "eth0"), (&y, "lan"));
    link((&x, "m0"), (&y, "m0"));
    x.ip("addr add 10.99.0.1/24 dev m0");
    y.ip("addr add 10.99.0.2/24 dev m0");
    for host in [&a, &b] {
        host.ip(&format!("link set eth0 mtu {MTU}"));
    }
    Ok([a, x, y, b])
}

/// The kernel's bridge, and its VXLAN.
fn kernel(tunnel: bool, rounds: usize) -> Result<[Vec<f64>; 3]> {
    let [a, x, y, b] = row("k")?;
    for (machine, own, other) in [(&x, 1, 2), (&y, 2, 1)] {
        machine.ip("link add br0 type bridge");
        machine.ip("link set br0 up");
        machine.ip("link set lan master br0");
        if tunnel {
            let ends = format!("local 10.99.0.{own} remote 10.99.0.{other}");
            machine.ip(&format!("link add vx type vxlan id 5 {ends} dstport 4789"));
            machine.ip("link set vx up");
            machine.ip("link set vx master br0");
        } else {
            machine.ip("link set m0 master br0");
        }
    }
    a.ip("addr add 10.7.0.1/24 dev eth0");
    b.ip("addr add 10.7.0.3/24 dev eth0");
    Hosts { from: &a, to: &b, address: "10.7.0.3" }.measure(rounds)
}

/// wireguard-go between machines that route.
fn wireguard_go(rounds: usize) -> Result<[Vec<f64>; 3]> {
    program("wireguard-go", "wireguard-go")?;
    program("wg", "wireguard-tools")?;
    let [a, x, y, b] = row("w")?;
    let mut running = Vec::new();
    let mut keys = Vec::new();
    let name = |i: usize| format!("wgb{}x{i}", std::process::id() % 100_000);
    for (i, machine) in [&x, &y].into_iter().enumerate() {
        let mut command = machine.command("wireguard-go");
        command.args(["-f", &name(i)]).stdout(Stdio::null()).stderr(Stdio::null());
        running.push(Ends(command.spawn()?));
        let private = output(machine.command("wg").arg("genkey"))?.trim().to_owned();
        let public = output(machine.command("sh").args(["-c", &format!("echo {private} | wg pubkey")]))?;
        keys.push((private, public.trim().to_owned()));
    }
    for (i, (machine, host)) in [(&x, &a), (&y, &b)].into_iter().enumerate() {
        let (own, far, wg) = (i + 1, 2 - i, name(i));
        let begun = Instant::now();
        while !machine.ip("-o link show").contains(&wg) {
            ensure!(begun.elapsed() < Duration::from_secs(10), "wireguard-go makes no interface");
            std::thread::sleep(Duration::from_millis(20));
        }
        let (peer, private) = (&keys[1 - i].1, &keys[i].0);
        let set = format!(
            "echo {private} | wg set {wg} listen-port 51820 private-key /dev/stdin peer {peer} endpoint 10.99.0.{far}:51820 allowed-ips 0.0.0.0/0"
        );
        output(machine.command("sh").args(["-c", &set]))?;
        machine.ip(&format!("link set {wg} mtu 1420 up"));
        machine.ip(&format!("route add 10.7.{far}.0/24 dev {wg}"));
        machine.ip(&format!("addr add 10.7.{own}.254/24 dev lan"));
        output(machine.command("sysctl").args(["-qw", "net.ipv4.ip_forward=1"]))?;
        host.ip(&format!("addr add 10.7.{own}.3/24 dev eth0"));
        host.ip(&format!("route add default via 10.7.{own}.254"));
    }
    let measured = Hosts { from: &a, to: &b, address: "10.7.2.3" }.measure(rounds);
    drop(running);
    measured
}
