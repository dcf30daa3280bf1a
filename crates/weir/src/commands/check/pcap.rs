//! Packets of a report as a capture file.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use weir_check::report::Report;
use weir_io::pcapng::{LinkType, PacketDirection, PcapngWriter, Record};

/// Longest packet that is kept.
const SNAPLEN: u32 = 1 << 18;

/// Writes the packets that come in, each with its place as interface and its requirement as comment. Packets of a
/// requirement are a microsecond apart.
pub(super) fn write(file: &Path, report: &Report) -> anyhow::Result<()> {
    let stream = BufWriter::new(File::create(file)?);
    let mut writer = PcapngWriter::new(&file.display().to_string(), stream, SNAPLEN)?;
    let mut interfaces = BTreeMap::new();
    for finding in &report.findings {
        for (i, packet) in (0..).zip(&finding.packets) {
            let link = if packet.ip { LinkType::Ip } else { LinkType::Ethernet };
            let interface = match interfaces.get(&(&packet.place, packet.ip)) {
                Some(&known) => known,
                None => {
                    let number = writer.interface_of(&packet.place, link)?;
                    interfaces.insert((&packet.place, packet.ip), number);
                    number
                }
            };
            let comment = format!("{} ({})", finding.requirement, finding.verdict);
            writer.write(Record {
                interface,
                time: finding.time + 1000 * i,
                bytes: &packet.bytes,
                length: packet.bytes.len() as u32,
                direction: Some(PacketDirection::Inbound),
                comment: &comment,
            })?;
        }
    }
    writer.flush()?;
    Ok(())
}
