//! Figures of other systems that were measured outside of this repository, beside Weir.

use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::stats::Spread;

/// A pair of figures: another system and Weir, in turns on the same machine.
///
/// `bench/peers.json` is a list of these:
///
/// ```json
/// [{
///   "peer": "BESS", "version": "dpdk-19.11, commit 0123456", "flags": "-O3 -march=native",
///   "workload": "nat-1000", "config": "peers/bess-nat.bess",
///   "ns_per_packet": {"median": 24.1, "min": 23.9, "max": 24.6},
///   "weir_ns": {"median": 14.2, "min": 14.1, "max": 14.6}
/// }]
/// ```
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Peer {
    /// The other system.
    pub peer: String,
    /// Its version.
    pub version: String,
    /// How it was compiled.
    pub flags: String,
    /// Name of the workload.
    pub workload: String,
    /// Its configuration, a file whose path starts at `bench/`.
    pub config: String,
    /// Nanoseconds that it takes for a packet.
    pub ns_per_packet: Spread,
    /// Nanoseconds that Weir took for a packet in the same run.
    pub weir_ns: Spread,
}

/// The list of a file; empty if there is no file.
pub fn read(path: &Path) -> Result<Vec<Peer>> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| {
        format!("{}: each entry has to be as crates/weir-bench/src/peers.rs says", path.display())
    })
}

/// The section of the report; empty if there are no peers.
pub fn markdown(peers: &[Peer]) -> String {
    if peers.is_empty() {
        return String::new();
    }
    let mut out = "\n## Peers\n\nOther systems, built from their sources and measured in turns with Weir on one \
                   machine: total ns per packet, from a source that copies each packet in. *Ratio* is the peer's \
                   time divided by Weir's of the same run: above 1, Weir is faster.\n\n\
                   | workload | peer | ns/packet | Weir then | ratio | configuration |\n\
                   |---|---|---:|---:|---:|---|\n"
        .to_owned();
    for p in peers {
        _ = writeln!(
            out,
            "| {} | {} | {} | {} | {:.2} | [{}]({}) |",
            p.workload,
            p.peer,
            p.ns_per_packet.show(1),
            p.weir_ns.show(1),
            p.ns_per_packet.median / p.weir_ns.median,
            p.config.rsplit('/').next().unwrap_or_default(),
            p.config
        );
    }
    let mut versions: Vec<String> =
        peers.iter().map(|p| format!("- {}: {}, built with `{}`\n", p.peer, p.version, p.flags)).collect();
    versions.sort();
    versions.dedup();
    out + "\n" + &versions.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_becomes_a_section_and_none_leaves_it_out() {
        let text = r#"[{"peer": "BESS", "version": "19.11", "flags": "-O3", "workload": "nat-1000",
            "config": "peers/nat.bess", "ns_per_packet": {"median": 24.0, "min": 23.9, "max": 24.6},
            "weir_ns": {"median": 12.0, "min": 11.0, "max": 13.0}}]"#;
        let file = std::env::temp_dir().join(format!("weir-peers-{}.json", std::process::id()));
        std::fs::write(&file, text).unwrap();
        let peers = read(&file);
        std::fs::remove_file(&file).unwrap();
        let section = markdown(&peers.unwrap());
        let row =
            "| nat-1000 | BESS | 24.0 (23.9–24.6) | 12.0 (11.0–13.0) | 2.00 | [nat.bess](peers/nat.bess) |";
        assert!(section.contains(row) && section.ends_with("- BESS: 19.11, built with `-O3`\n"), "{section}");
        assert_eq!(markdown(&read(&file).unwrap()), "");
    }
}
