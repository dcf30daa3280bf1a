//! The kernel's bridge, router and nftables, between veth interfaces in a network namespace.
//!
//! A packet socket sends into one pair; what is forwarded leaves on another, behind which nobody listens. The receiving
//! half runs in the soft interrupt of the sender's processor, so its time is the sender's and that of the kernel thread
//! which takes over under load. Compare with the figure for veth alone, which is most of it.

use std::fmt::Write;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use weir_io::af_packet::{AfPacketPort, Options};
use weir_io::{Netns, Port};
use weir_packet::Packet;
use weir_testkit::Namespace;

use super::process::{need_root, program, run, run_time};
use super::{Effort, Reference};
use crate::stats::Spread;
use crate::workload::{Frames, l2_frames, last_frames};

const BATCH: usize = 32;
/// The processor that the sender keeps to.
const PROCESSOR: usize = 0;

/// All jobs.
pub fn measure(effort: Effort, all: &mut Vec<Reference>) -> Result<()> {
    program("ip", "iproute2")?;
    program("bridge", "iproute2")?;
    program("nft", "nftables")?;
    need_root()?;
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let name = format!("Linux {}", kernel.trim());
    let mut add = |job: &str, workload: Option<String>, found: Result<Spread>| {
        let nanos = found.with_context(|| job.to_owned())?;
        all.push(Reference { program: name.clone(), job: job.to_owned(), workload, nanos });
        anyhow::Ok(())
    };
    add("veth alone", None, alone(effort))?;
    for macs in [1, 1000] {
        add(&format!("bridge, {macs} MACs"), Some(format!("l2-{macs}")), bridge(macs, effort))?;
    }
    add("router, no rules", Some("router-8".into()), router(0, effort))?;
    for rules in [10, 100, 1000] {
        let job = format!("router, nftables: the last of {rules} rules matches");
        add(&job, Some(format!("rules-last-{rules}")), router(rules, effort))?;
    }
    Ok(())
}

fn alone(effort: Effort) -> Result<Spread> {
    let lab = Lab::new()?;
    lab.blast(&l2_frames(1, 1024), "in1", effort)
}

fn bridge(macs: usize, effort: Effort) -> Result<Spread> {
    let lab = Lab::new()?;
    lab.ip("link add name switch type bridge")?;
    for link in ["dev in1 master switch", "dev out0 master switch", "dev switch up"] {
        lab.ip(&format!("link set {link}"))?;
    }
    let frames = l2_frames(macs, 1024);
    let mut batch = String::new();
    let mut known = std::collections::HashSet::new();
    for frame in frames.iter().filter(|f| known.insert(f[..6].to_vec())) {
        let mac: Vec<String> = frame[..6].iter().map(|b| format!("{b:02x}")).collect();
        _ = writeln!(batch, "fdb add {} dev out0 master static", mac.join(":"));
    }
    run(Command::new("bridge").args(["-n", lab.0.name(), "-batch", "-"]), &batch)?;
    lab.blast(&frames, "out1", effort)
}

fn router(rules: u32, effort: Effort) -> Result<Spread> {
    let lab = Lab::new()?;
    for command in [
        "link set dev in1 address 02:00:00:00:00:02",
        "addr add 10.254.0.1/24 dev in1",
        "addr add 10.254.1.1/24 dev out0",
        "neigh add 10.254.1.2 lladdr 02:00:00:00:00:03 dev out0",
        "route add 198.51.100.0/24 via 10.254.1.2",
        "route add 10.0.0.0/8 dev in1",
    ] {
        lab.ip(command)?;
    }
    let settings = ["ip_forward=1", "conf.all.rp_filter=0", "conf.in1.rp_filter=0"];
    let settings: Vec<String> = settings.iter().map(|s| format!("net.ipv4.{s}")).collect();
    run(lab.0.command("sysctl").args(["-q", "-w"]).args(settings), "")?;
    if rules > 0 {
        let mut text =
            "table ip t {\nchain c {\ntype filter hook forward priority 0; policy drop;\n".to_owned();
        for i in 1..rules {
            let (high, low) = (i / 250, i % 250 + 1);
            _ = writeln!(text, "ip saddr 172.16.{high}.{low} udp dport {} drop", 1000 + i);
        }
        text += "udp dport 53 accept\n}\n}\n";
        run(lab.0.command("nft").args(["-f", "-"]), &text)?;
    }
    lab.blast(&last_frames(), "out1", effort)
}

/// A network namespace with two pairs, in0–in1 and out0–out1; it goes away with them.
struct Lab(Namespace);

impl Lab {
    fn new() -> Result<Lab> {
        let lab = Lab(Namespace::try_new("kernel")?);
        for pair in ["in", "out"] {
            lab.ip(&format!("link add name {pair}0 type veth peer name {pair}1"))?;
            for end in ["0", "1"] {
                lab.ip(&format!("link set dev {pair}{end} up"))?;
            }
        }
        Ok(lab)
    }

    fn ip(&self, arguments: &str) -> Result<()> {
        let mut command = Command::new("ip");
        run(command.args(["-n", self.0.name()]).args(arguments.split(' ')), "").map(|_| ())
    }

    /// Packets that an interface has received.
    fn received(&self, interface: &str) -> Result<u64> {
        let text =
            run(Command::new("ip").args(["-n", self.0.name(), "-j", "-s", "link", "show", interface]), "")?;
        let json: serde_json::Value = serde_json::from_str(&text)?;
        json[0]["stats64"]["rx"]["packets"].as_u64().context("ip shows no received packets")
    }

    /// Nanoseconds for a packet from the socket on in0 until interface `last` has received it.
    fn blast(&self, frames: &Frames, last: &str, effort: Effort) -> Result<Spread> {
        let options = Options { bypass_qdisc: true, promiscuous: false, ..Options::default() };
        let mut port = AfPacketPort::open_in(&Netns::Named(self.0.name().to_owned()), "in0", &options)?;
        let me = Pid::from_raw(0);
        let before = sched_getaffinity(me)?;
        let mut one = CpuSet::new();
        one.set(PROCESSOR)?;
        sched_setaffinity(me, &one)?;
        let time = Duration::from_millis(if effort.quick { 20 } else { 200 });
        let samples: Result<Vec<f64>> =
            (0..=effort.samples).map(|_| self.round(&mut port, frames, last, time)).collect();
        sched_setaffinity(me, &before)?;
        // The first warms the caches.
        Ok(Spread::of(samples?.into_iter().skip(1)))
    }

    /// Sends all frames again and again until `time` is over.
    fn round(&self, port: &mut AfPacketPort, frames: &Frames, last: &str, time: Duration) -> Result<f64> {
        let received = self.received(last)?;
        let (start, begin) = (spent()?, Instant::now());
        let (mut sent, mut batch) = (0, Vec::with_capacity(BATCH));
        while begin.elapsed() < time {
            for frame in frames.iter() {
                batch.push(Packet::from_bytes(frame)?);
                while batch.len() == BATCH {
                    sent += port.send(&mut batch)?;
                }
            }
        }
        let spent = spent()? - start;
        let received = self.received(last)? - received;
        ensure!(received * 100 >= sent as u64 * 99, "of {sent} packets only {received} came to {last}");
        Ok(spent.as_nanos() as f64 / received as f64)
    }
}

/// Processor time of this thread and of the kernel thread for soft interrupts.
fn spent() -> Result<Duration> {
    let kernel_thread = soft_interrupts().map_or(Ok(Duration::ZERO), |path| run_time(&path));
    Ok(run_time("/proc/thread-self".as_ref())? + kernel_thread?)
}

fn soft_interrupts() -> Option<PathBuf> {
    let wanted = format!("ksoftirqd/{PROCESSOR}\n");
    let mut processes = std::fs::read_dir("/proc").ok()?.flatten().map(|p| p.path());
    processes.find(|p| std::fs::read_to_string(p.join("comm")).is_ok_and(|comm| comm == wanted))
}
