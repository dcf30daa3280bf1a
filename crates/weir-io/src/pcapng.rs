//! Writing pcapng: several interfaces in one file, nanosecond time stamps, directions and comments.
//!
//! Format: draft-ietf-opsawg-pcapng, sections 3.1 (options), 4.1 to 4.3 (blocks).

use std::io::{self, Write};

use crate::PortError;

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
/// Options of every block.
const OPT_COMMENT: u16 = 1;
/// Options of the section header.
const SHB_USERAPPL: u16 = 4;
/// Options of an interface description.
const IF_NAME: u16 = 2;
const IF_TSRESOL: u16 = 9;
/// Options of an enhanced packet.
const EPB_FLAGS: u16 = 2;
/// The longest text of an option: its length is 16 bits, and is padded to 4 bytes.
const MAX_TEXT: usize = 65_532;

/// Which direction a packet went in, seen from who owns the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketDirection {
    /// It came in.
    Inbound,
    /// It went out.
    Outbound,
}

/// The link type of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkType {
    /// An Ethernet header (LINKTYPE_ETHERNET).
    Ethernet,
    /// An IPv4 or IPv6 header (LINKTYPE_RAW).
    Ip,
}

/// A packet as it is written.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    /// Of [`PcapngWriter::interface`].
    pub interface: u32,
    /// Nanoseconds since the epoch.
    pub time: u64,
    /// The first bytes of the packet, those of its interface's header first.
    pub bytes: &'a [u8],
    /// How many it had; no less than there are `bytes`.
    pub length: u32,
    /// Its direction.
    pub direction: Option<PacketDirection>,
    /// For readers; may be empty.
    pub comment: &'a str,
}

/// Writes a pcapng file of one section. Buffer the stream yourself.
pub struct PcapngWriter<W> {
    name: String,
    stream: W,
    snaplen: u32,
    interfaces: u32,
}

impl<W: Write> PcapngWriter<W> {
    /// Writes the section header. At most `snaplen` bytes of each packet are kept; `name` is for messages.
    ///
    /// # Errors
    /// Those of writing.
    pub fn new(name: &str, stream: W, snaplen: u32) -> Result<Self, PortError> {
        let mut writer = PcapngWriter { name: name.to_owned(), stream, snaplen, interfaces: 0 };
        let mut body = Vec::new();
        body.extend(0x1a2b_3c4d_u32.to_le_bytes());
        body.extend([1, 0, 0, 0]);
        // The section's length is not known.
        body.extend(u64::MAX.to_le_bytes());
        option(&mut body, SHB_USERAPPL, b"weir");
        end_of_options(&mut body);
        writer.block(SECTION_HEADER, &body)?;
        Ok(writer)
    }

    /// Describes another interface; its packets bear the number that this gives.
    ///
    /// # Errors
    /// Those of writing.
    pub fn interface(&mut self, name: &str) -> Result<u32, PortError> {
        self.interface_of(name, LinkType::Ethernet)
    }

    /// The same for an interface whose packets begin otherwise.
    ///
    /// # Errors
    /// Those of writing.
    pub fn interface_of(&mut self, name: &str, link: LinkType) -> Result<u32, PortError> {
        let number: u16 = match link {
            LinkType::Ethernet => 1,
            LinkType::Ip => 101,
        };
        let mut body = Vec::new();
        body.extend(number.to_le_bytes());
        body.extend([0, 0]);
        body.extend(self.snaplen.to_le_bytes());
        option(&mut body, IF_NAME, name.as_bytes());
        // Powers of ten.
        option(&mut body, IF_TSRESOL, &[9]);
        end_of_options(&mut body);
        self.block(INTERFACE_DESCRIPTION, &body)?;
        self.interfaces += 1;
        Ok(self.interfaces - 1)
    }

    /// Appends a packet.
    ///
    /// # Errors
    /// Those of writing; [`PortError::Format`] if the interface is not described.
    pub fn write(&mut self, record: Record<'_>) -> Result<(), PortError> {
        if record.interface >= self.interfaces {
            let what = format!("interface {} is not described", record.interface);
            return Err(PortError::Format { name: self.name.clone(), what });
        }
        let kept = record.bytes.get(..self.snaplen as usize).unwrap_or(record.bytes);
        let mut body = Vec::with_capacity(kept.len() + 64);
        let (high, low) = ((record.time >> 32) as u32, record.time as u32);
        let length = record.length.max(record.bytes.len() as u32);
        for word in [record.interface, high, low, kept.len() as u32, length] {
            body.extend(word.to_le_bytes());
        }
        body.extend(kept);
        pad(&mut body);
        let options = body.len();
        if let Some(direction) = record.direction {
            let flags = match direction {
                PacketDirection::Inbound => 1_u32,
                PacketDirection::Outbound => 2,
            };
            option(&mut body, EPB_FLAGS, &flags.to_le_bytes());
        }
        if !record.comment.is_empty() {
            option(&mut body, OPT_COMMENT, record.comment.as_bytes());
        }
        if body.len() > options {
            end_of_options(&mut body);
        }
        self.block(ENHANCED_PACKET, &body)
    }

    /// Hands all that was written to the stream's destination.
    ///
    /// # Errors
    /// Those of writing.
    pub fn flush(&mut self) -> Result<(), PortError> {
        self.stream.flush().map_err(|source| self.fail(source))
    }

    /// A block: its type and length, the body (a multiple of 4 bytes), the length again.
    fn block(&mut self, kind: u32, body: &[u8]) -> Result<(), PortError> {
        let length = (body.len() as u32 + 12).to_le_bytes();
        let mut block = Vec::with_capacity(body.len() + 12);
        block.extend(kind.to_le_bytes());
        block.extend(length);
        block.extend(body);
        block.extend(length);
        self.stream.write_all(&block).map_err(|source| self.fail(source))
    }

    fn fail(&self, source: io::Error) -> PortError {
        PortError::Os { name: self.name.clone(), action: "write the capture", source }
    }
}

fn option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    let value = value.get(..MAX_TEXT).unwrap_or(value);
    body.extend(code.to_le_bytes());
    body.extend((value.len() as u16).to_le_bytes());
    body.extend(value);
    pad(body);
}

fn end_of_options(body: &mut Vec<u8>) {
    body.extend([0; 4]);
}

fn pad(body: &mut Vec<u8>) {
    body.resize(body.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use pcap_parser::traits::PcapReaderIterator;
    use pcap_parser::{Block, OptionCode, PcapBlockOwned, PcapError, PcapNGReader};

    use super::*;
    use crate::pcap::PcapReader;

    fn file() -> Vec<u8> {
        let mut file = Vec::new();
        let mut writer = PcapngWriter::new("t", &mut file, 20).unwrap();
        let a = writer.interface("sap:lan").unwrap();
        let b = writer.interface("sf:nat:wan").unwrap();
        let record = |interface, time, bytes, direction, comment| Record {
            interface,
            time,
            bytes,
            length: 90,
            direction,
            comment,
        };
        let time = 1_700_000_000_123_456_789;
        writer.write(record(a, time, &[1; 14], Some(PacketDirection::Inbound), "")).unwrap();
        writer
            .write(record(b, time + 1, &[2; 64], Some(PacketDirection::Outbound), "dropped: Denied"))
            .unwrap();
        writer.write(record(b, time + 2, &[3; 17], None, "")).unwrap();
        assert!(writer.write(record(2, 0, &[], None, "")).is_err(), "no such interface");
        file
    }

    #[test]
    fn another_reader_finds_names_directions_and_comments() {
        let file = file();
        let mut reader = PcapNGReader::new(65_536, &file[..]).unwrap();
        let (mut names, mut packets) = (Vec::new(), Vec::new());
        loop {
            match reader.next() {
                Ok((used, block)) => {
                    match block {
                        PcapBlockOwned::NG(Block::InterfaceDescription(d)) => {
                            assert_eq!(d.ts_resolution(), Some(1_000_000_000));
                            names.push(d.if_name().unwrap().unwrap().to_owned());
                        }
                        PcapBlockOwned::NG(Block::EnhancedPacket(p)) => {
                            let value = |code| {
                                let found = p.options.iter().find(|o| o.code == code);
                                found.map(|o| o.value.to_vec())
                            };
                            packets.push((
                                p.if_id,
                                p.caplen,
                                p.origlen,
                                value(OptionCode(EPB_FLAGS)).map(|v| v[0]),
                                value(OptionCode::Comment).map(|v| v[..15].to_vec()),
                            ));
                        }
                        _ => {}
                    }
                    reader.consume(used);
                }
                Err(PcapError::Eof) => break,
                Err(PcapError::Incomplete(_)) => reader.refill().unwrap(),
                Err(e) => panic!("{e:?}"),
            }
        }
        assert_eq!(names, ["sap:lan", "sf:nat:wan"]);
        let comment = Some(b"dropped: Denied".to_vec());
        assert_eq!(
            packets,
            [(0, 14, 90, Some(1), None), (1, 20, 90, Some(2), comment), (1, 17, 90, None, None)]
        );
    }

    #[test]
    fn what_is_written_can_be_read_back_to_the_nanosecond() {
        let mut reader = PcapReader::new("t", io::Cursor::new(file())).unwrap();
        let mut times = Vec::new();
        while let Some(p) = reader.next_packet().unwrap() {
            times.push((p.timestamp % 1_000, p.len()));
        }
        assert_eq!(times, [(789, 14), (790, 20), (791, 17)]);
    }
}
