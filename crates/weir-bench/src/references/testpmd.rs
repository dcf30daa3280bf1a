//! dpdk-testpmd: forwards between ports that need no device.
//!
//! Null ports give empty mbufs, of which port 0 copies 64 bytes into each (`copy=1`), and free what is sent. Pcap ports
//! copy packets of a file in memory round and round (`infinite_rx`), so that the bytes are those of real packets.

use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result};

use super::process::{Folder, HugePages, Running, need_root, program, version};
use super::{Effort, Reference, write_pcap};
use crate::stats::Spread;
use crate::workload::last_frames;

const NULL: [&str; 2] = ["net_null0,size=64,copy=1", "net_null1,size=64,copy=0,no-rx=1"];
/// The thread that forwards; the main thread reads commands.
const WORKER: &str = "rte-worker-";

/// All modes.
pub fn measure(effort: Effort, all: &mut Vec<Reference>) -> Result<()> {
    let testpmd = program("dpdk-testpmd", "dpdk-dev")?;
    need_root()?;
    let folder = Folder::new("testpmd")?;
    let pcap = folder.file("frames.pcap");
    write_pcap(&last_frames(), &pcap)?;
    let pcap = format!("net_pcap0,rx_pcap={},infinite_rx=1", pcap.display());
    let huge = HugePages::reserve(192);
    let memory: &[&str] = if huge.is_some() { &["--in-memory"] } else { &["--no-huge"] };
    let name = format!("dpdk-testpmd {}", version("dpdk-dev"));
    for (mode, workload) in [("io", "chain-null-0"), ("macswap", "chain-macswap"), ("5tswap", "chain-5tswap")]
    {
        for (ports, vdevs) in [("null ports", &NULL[..]), ("pcap ports, UDP packets", &[&pcap])] {
            let mut command = Command::new("stdbuf");
            command.arg("-oL").arg(&testpmd).args(["-l", "0,1", "-m", "256", "--no-pci", "--no-telemetry"]);
            command.args(memory).arg(format!("--file-prefix=weir-bench-{}", std::process::id()));
            vdevs.iter().for_each(|vdev| _ = command.args(["--vdev", *vdev]));
            command.args(["--", "-i", "--nb-cores=1", "--total-num-mbufs=8192"]);
            command.arg(format!("--forward-mode={mode}"));
            let nanos = forward(&mut command, effort).with_context(|| format!("mode {mode}, {ports}"))?;
            let (job, workload) = (format!("{mode}, {ports}"), Some(workload.to_owned()));
            all.push(Reference { program: name.clone(), job, workload, nanos });
        }
    }
    Ok(())
}

/// Nanoseconds of the worker for a packet, start to stop.
fn forward(command: &mut Command, effort: Effort) -> Result<Spread> {
    let mut testpmd = Running::start(command)?;
    let mut round = |time: Duration| -> Result<f64> {
        let before = testpmd.thread_time(WORKER).unwrap_or_default();
        testpmd.say("start")?;
        testpmd.hear("that it forwards", |line| line.contains("packet forwarding - ports=").then_some(()))?;
        sleep(time);
        testpmd.say("stop")?;
        testpmd.hear("statistics", |line| line.contains("Accumulated forward statistics").then_some(()))?;
        let sent: u64 = testpmd.hear("how many packets it sent", |line| {
            line.trim().strip_prefix("TX-packets:")?.split_whitespace().next()?.parse().ok()
        })?;
        testpmd.hear("that it is done", |line| line.contains("Done.").then_some(()))?;
        Ok((testpmd.thread_time(WORKER)? - before).as_nanos() as f64 / sent as f64)
    };
    // The first round starts threads and fills caches.
    round(Duration::from_millis(100))?;
    let time = Duration::from_millis(if effort.quick { 100 } else { 400 });
    let samples: Vec<f64> = (0..effort.samples).map(|_| round(time)).collect::<Result<_>>()?;
    Ok(Spread::of(samples))
}
