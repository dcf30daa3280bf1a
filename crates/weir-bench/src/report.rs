//! Results as text for people and as data.

use std::fmt::Write;

use serde::Serialize;

use crate::machine::Machine;
use crate::memory::Mappings;
use crate::stats::Spread;

/// Everything that a run found.
#[derive(Debug, Serialize)]
pub struct Results {
    /// What it was measured on.
    pub machine: Machine,
    /// Length of frames in bytes.
    pub frame_len: usize,
    /// Number of samples that each median is of.
    pub samples: usize,
    /// Shortest time of a sample in seconds of the processor.
    pub sample_seconds: f64,
    /// The smallest share of a sample's time in which the thread had its processor.
    pub least_share: f64,
    /// Workload by workload.
    pub workloads: Vec<Workload>,
    /// Memory of source NAT.
    pub nat_memory: Vec<Mappings>,
}

/// Results of a workload.
#[derive(Debug, Serialize)]
pub struct Workload {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub about: &'static str,
    /// Time for a packet, way by way.
    pub ways: Vec<Row>,
    /// Times from text to machine code.
    pub compile: Compile,
}

/// One way to do a workload's job.
#[derive(Debug, Serialize)]
pub struct Row {
    /// Its name.
    pub way: &'static str,
    /// Nanoseconds for a packet, from source to sink.
    pub nanos: Spread,
    /// What remains above source to sink, round by round.
    pub above: Spread,
    /// How many times source to sink it is, round by round.
    pub ratio: Spread,
}

/// Microseconds that each step takes, and the size of programs.
#[derive(Debug, Serialize)]
pub struct Compile {
    /// Text to graph.
    pub parse: Spread,
    /// Graph to checked programs.
    pub configure: Spread,
    /// Linking.
    pub link: Spread,
    /// All passes.
    pub optimise: Spread,
    /// Machine code of the program as linked.
    pub jit_linked: Spread,
    /// Machine code of the program after all passes.
    pub jit_optimised: Spread,
    /// Blocks and operations as linked.
    pub linked_size: (usize, usize),
    /// Blocks and operations after all passes.
    pub optimised_size: (usize, usize),
}

const READING: &str = "\
## How to read it

One thread takes prepared frames from memory, copies each into a fresh packet, runs 32 packets as a batch, and drops
what leaves. Frames are UDP over IPv4; payloads, addresses and their order come from a fixed seed. *Source to sink*
is the same without a graph: what it costs to make and drop a packet. *Above* is what remains when that is taken
away, which is the price of the graph; *ratio* is the whole divided by source to sink.

Before anything is measured, each way sends all frames twice, and each packet that leaves is compared byte by byte,
checksums included, with a frame that was computed independently. While it is measured, every packet has to leave.

A figure is the median of the samples, with the smallest and the largest in brackets. In each round every way of
every workload has its turn, so that noise hits all alike; *above* and *ratio* are taken within a round. Time is
processor time of the thread, so what other processes take away does not count, but what they do to caches and clock
speed does. If a spread is wide, or the least share of the processor (above) far from 100 %, run it again.

*As linked* is the program of the graph before any pass, *optimised* the same after all passes. *Hand-written Rust* is
a loop that does the router's job on the same packets: a lower bound, not a competitor, since it has no counters,
handlers, annotations or routes that can change.
";

const LIMITS: &str = "\
## What this does not show

- **Absolute figures mean nothing alone.** The machine is virtual, shared and noisy. Compare ways within a run; do not
  compare with figures of other machines, other runs, or papers.
- Devices, system calls, the engine's loop, queues, and several cores: here packets come from memory and go nowhere.
- Large packets, mixed sizes, TCP, fragments, IPv6, and packets that take rare ways (errors, drops, ICMP).
- Traffic out of the cache: at most 1,024 frames and 1,000 flows; each batch reuses the same few buffers.
- New flows, expiry and changes of tables during traffic: all flows are known before time is taken.
- Latency. A batch of 32 is run at once; no packet's own time is taken.
- Other systems. Nothing here says how Click, VPP or OVS would do.
";

impl Results {
    /// The whole report in Markdown.
    pub fn markdown(&self) -> String {
        let m = &self.machine;
        let mut out = String::from(
            "# Benchmarks of the data plane\n\n\
             <!-- Made by `make bench`, which also writes results.json; not to be edited. -->\n\n",
        );
        let flags = if m.rustflags.is_empty() { "none" } else { m.rustflags };
        _ = write!(
            out,
            "Nanoseconds per packet of {} bytes, one core, memory to memory. Median of {} samples (smallest–largest), \
             each of {} s or more of the processor.\n\n\
             | | |\n|---|---|\n\
             | processor | {} ({} in this machine) |\n| kernel | {} |\n| compiler | {}, profile {}, RUSTFLAGS {flags} |\n\
             | commit (+: files changed since) | {} |\n| load before | {} |\n| least share of the processor | {:.0} % |\n\n{READING}",
            self.frame_len,
            self.samples,
            self.sample_seconds,
            m.cpu,
            m.cpus,
            m.kernel,
            m.rustc,
            m.profile,
            m.commit,
            m.load,
            self.least_share * 100.0,
        );
        out += "\n## Packets\n\n| workload | way | ns/packet | above source to sink | ratio |\n|---|---|---:|---:|---:|\n";
        for w in &self.workloads {
            for (i, r) in w.ways.iter().enumerate() {
                let name = if i == 0 { w.name } else { "" };
                let [above, ratio] = match i {
                    0 => ["".into(), "1".into()],
                    _ => [r.above.show(1), r.ratio.show(2)],
                };
                _ = writeln!(out, "| {name} | {} | {} | {above} | {ratio} |", r.way, r.nanos.show(1));
            }
        }
        out.push('\n');
        for w in &self.workloads {
            _ = writeln!(out, "- **{}**: {}", w.name, w.about);
        }
        out += "\n## Compile times\n\nMicroseconds for each step (of several builds, the first with cold caches), and \
                blocks/operations of the program as linked and after all passes.\n\n\
                | workload | parse | configure | link | optimise | JIT, as linked | JIT, optimised | linked | optimised |\n\
                |---|---:|---:|---:|---:|---:|---:|---:|---:|\n";
        for w in &self.workloads {
            let c = &w.compile;
            let steps = [c.parse, c.configure, c.link, c.optimise, c.jit_linked, c.jit_optimised];
            let steps: Vec<String> = steps.iter().map(|s| s.show(0)).collect();
            let size = |(blocks, ops): (usize, usize)| format!("{blocks}/{ops}");
            _ = writeln!(
                out,
                "| {} | {} | {} | {} |",
                w.name,
                steps.join(" | "),
                size(c.linked_size),
                size(c.optimised_size)
            );
        }
        if !self.nat_memory.is_empty() {
            out += "\n## Memory\n\nResident memory that a process with source NAT grows by, for each mapping (two \
                    table entries: packets and replies), index and timers included.\n\n\
                    | mappings | bytes each |\n|---:|---:|\n";
            for m in &self.nat_memory {
                _ = writeln!(out, "| {} | {:.0} |", m.mappings, m.bytes_each);
            }
        }
        out.push('\n');
        out + LIMITS
    }
}
