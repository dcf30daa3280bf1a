//! Packets of a report as a capture file.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use weir_check::report::Shown;
use weir_io::pcapng::{LinkType, PacketDirection, PcapngWriter, Record};

/// Longest packet that is kept.
const SNAPLEN: u32 = 1 << 18;

/// A comment, the time of the first packet, and the packets.
pub(super) type Run<'a> = (String, u64, &'a [Shown]);

/// Writes the packets of some runs, each with a comment and the time of its first packet. The place where a packet comes in
/// is its interface; packets of a run are a microsecond apart.
pub(super) fn write<'a>(file: &Path, runs: impl Iterator<Item = Run<'a>>) -> anyhow::Result<()> {
    let stream = BufWriter::new(File::create(file)?);
    let mut writer = PcapngWriter::new(&file.display().to_string(), stream, SNAPLEN)?;
    let mut interfaces = BTreeMap::new();
    for (comment, time, packets) in runs {
        for (i, packet) in (0..).zip(packets) {
            let link = if packet.ip { LinkType::Ip } else { LinkType::Ethernet };
            let interface = match interfaces.get(&(&packet.place, packet.ip)) {
                Some(&known) => known,
                None => {
                    let number = writer.interface_of(&packet.place, link)?;
                    interfaces.insert((&packet.place, packet.ip), number);
                    number
                }
            };
            writer.write(Record {
                interface,
                time: time + 1000 * i,
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
