//! Other programs, as Debian packages them, measured in the same run.
//!
//! They are started with folders of their own, on packets in memory, and ended by process identifier. Like Weir they
//! are charged the processor time of the thread that moves packets.

mod kernel;
mod open_vswitch;
pub mod process;
mod testpmd;

use std::path::Path;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use weir_io::pcap::PcapWriter;
use weir_packet::Packet;

use crate::stats::Spread;
use crate::workload::Frames;

/// The result of another program.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Reference {
    /// The program and its version.
    pub program: String,
    /// What it did.
    pub job: String,
    /// Name of the workload it is comparable with, if there is one.
    pub workload: Option<String>,
    /// Nanoseconds for a packet.
    pub nanos: Spread,
}

/// Appends what a program takes; what was measured before an error counts.
type Measure = fn(Effort, &mut Vec<Reference>) -> Result<()>;

/// Measures all that are installed; says in `skipped` which are not.
pub fn measure(samples: usize, quick: bool, skipped: &mut Vec<String>) -> Vec<Reference> {
    let mut all = Vec::new();
    let programs: [(&str, Measure); 3] = [
        ("dpdk-testpmd", testpmd::measure),
        ("the kernel's bridge, router and nftables", kernel::measure),
        ("Open vSwitch", open_vswitch::measure),
    ];
    for (name, measure) in programs {
        eprintln!("references: {name}");
        if let Err(e) = measure(Effort { samples, quick }, &mut all) {
            skipped.push(format!("{name}: {e:#}"));
        }
    }
    all
}

/// How much is measured.
#[derive(Debug, Clone, Copy)]
struct Effort {
    samples: usize,
    quick: bool,
}

/// Writes frames as pcap.
pub fn write_pcap(frames: &Frames, path: &Path) -> Result<()> {
    let mut file = PcapWriter::create(path, 65_535)?;
    for frame in frames.iter() {
        file.write(&Packet::from_bytes(frame)?)?;
    }
    Ok(file.flush()?)
}
