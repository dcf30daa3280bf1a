//! Memory that NAT mappings take.

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use weir_packet::Packet;

use crate::graph;
use crate::runner::{BATCH, Sink, Subject, Variant};
use crate::workload::{nat_text, new_flows};

/// Resident memory of a graph with source NAT.
#[derive(Debug, Serialize, Deserialize)]
pub struct Mappings {
    /// Number of mappings.
    pub mappings: u32,
    /// How much larger the process has become, in bytes for each mapping.
    pub bytes_each: f64,
}

/// Makes so many mappings in a fresh graph. To be called before anything else has freed memory, which new tables
/// would take up unseen.
pub fn mappings(mappings: u32) -> Result<Mappings> {
    let built = graph::build(&nat_text(), false)?;
    let mut subject = Subject::new(Variant::JitOptimised, &built)?;
    let (mut packets, mut sink) = (Vec::with_capacity(BATCH), Sink::default());
    let before = resident()?;
    for frame in new_flows(mappings) {
        packets.push(Packet::from_bytes(&frame)?);
        if packets.len() == BATCH {
            subject.run(0, &mut packets, &mut sink);
        }
    }
    subject.run(0, &mut packets, &mut sink);
    let after = resident()?;
    let entries = (0..subject.tables.len() as u32).map(|t| subject.tables.table(t));
    let entries: u32 = entries.filter(|t| t.decl().name == "map").map(weir_table::Table::len).sum();
    ensure!(entries == 2 * mappings, "{mappings} flows made {entries} entries, not two each");
    Ok(Mappings { mappings, bytes_each: after.saturating_sub(before) as f64 / f64::from(mappings) })
}

/// Bytes of memory that the process has.
fn resident() -> Result<u64> {
    let text =
        std::fs::read_to_string("/proc/self/smaps_rollup").context("reading /proc/self/smaps_rollup")?;
    let line = text.lines().find_map(|l| l.strip_prefix("Rss:")).context("no Rss in smaps_rollup")?;
    let kb: u64 = line.trim().trim_end_matches("kB").trim().parse().context("Rss is no number of kB")?;
    Ok(kb * 1024)
}
