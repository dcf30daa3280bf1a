//! Reading captures.

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::Path;

use pcap_parser::traits::PcapReaderIterator;
use pcap_parser::{Block, Linktype, PcapBlockOwned, PcapError};
use weir_packet::{Buffers, Layer, NoRoom, Packet};

use super::Encap;
use super::classic::Classic;
use crate::PortError;

/// Longest record that is read, in bytes: more than any capture program writes for one packet.
pub(super) const BUFFER: usize = 1 << 20;
/// Most interfaces of one pcapng section: a file cannot make the list grow without bound.
const MAX_INTERFACES: usize = 4096;
/// The first bytes of a pcapng file.
const PCAPNG_MAGIC: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

/// Reads packets from a capture.
pub struct PcapReader {
    pub(super) name: String,
    format: Format,
    packets: u64,
    /// Packets that were skipped, since no packet is so long.
    pub(super) too_long: u64,
    pub(super) finished: bool,
}

enum Format {
    Classic(Classic),
    Ng(Ng),
}

/// A pcapng file, by the library.
struct Ng {
    inner: Box<dyn PcapReaderIterator + Send>,
    /// One for each interface that the section describes.
    interfaces: Vec<Interface>,
}

#[derive(Debug, Clone, Copy)]
struct Interface {
    encap: Encap,
    clock: Clock,
}

/// How a file counts time.
#[derive(Debug, Clone, Copy)]
struct Clock {
    ticks_per_second: u64,
    offset: i64,
}

impl Clock {
    /// Nanoseconds since the epoch, kept within what 64 bits hold.
    fn nanoseconds(self, ticks: u64) -> u64 {
        let ns = u128::from(ticks) * 1_000_000_000 / u128::from(self.ticks_per_second.max(1));
        let ns = i128::try_from(ns).unwrap_or(i128::MAX);
        let shifted = ns.saturating_add(i128::from(self.offset) * 1_000_000_000);
        u64::try_from(shifted.max(0)).unwrap_or(u64::MAX)
    }
}

/// What one block of the file means for the reader.
enum Step {
    Packet(Packet),
    TooLong,
    Section,
    Interface(Interface),
    Other,
}

impl PcapReader {
    /// Opens a file.
    pub fn open(path: impl AsRef<Path>) -> Result<PcapReader, PortError> {
        let name = path.as_ref().display().to_string();
        match File::open(path) {
            Ok(file) => PcapReader::new(&name, file),
            Err(source) => Err(PortError::Os { name, action: "open the capture", source }),
        }
    }

    /// Reads a capture from a stream, which may be a pipe; `name` is for messages.
    pub fn new(name: &str, mut stream: impl Read + Send + 'static) -> Result<PcapReader, PortError> {
        let damaged = || PortError::Format {
            name: name.to_owned(),
            what: "neither a pcap nor a pcapng file, or its header is damaged".to_owned(),
        };
        let start = read_start(&mut stream).map_err(|source| PortError::Os {
            name: name.to_owned(),
            action: "read the capture",
            source,
        })?;
        let format = if start.starts_with(&PCAPNG_MAGIC) {
            let stream = Cursor::new(start).chain(stream);
            let inner = pcap_parser::create_reader(BUFFER, stream).map_err(|_| damaged())?;
            Format::Ng(Ng { inner, interfaces: Vec::new() })
        } else {
            Format::Classic(Classic::new(&start, stream).ok_or_else(damaged)?)
        };
        Ok(PcapReader { name: name.to_owned(), format, packets: 0, too_long: 0, finished: false })
    }

    /// The next packet with its time stamp; `None` at the end. Packets of Ethernet captures have their link layer marked.
    ///
    /// # Errors
    /// If the file is damaged or of another link type. After an error, the reader is at its end.
    pub fn next_packet(&mut self) -> Result<Option<Packet>, PortError> {
        let mut one = Vec::with_capacity(1);
        self.read(&mut one, 1)?;
        Ok(one.pop())
    }

    /// Whether the end of the capture, or an error, was met.
    pub fn ended(&self) -> bool {
        self.finished
    }

    /// Appends up to `max` packets to `out`, as [`next_packet`](PcapReader::next_packet) gives them, and returns how many:
    /// none only at the end of the capture, fewer than `max` if the rest is not at hand.
    ///
    /// # Errors
    /// As `next_packet`; packets before the error are in `out`.
    pub fn read(&mut self, out: &mut Vec<Packet>, max: usize) -> Result<usize, PortError> {
        let before = out.len();
        let mut buffers = Buffers::take(max);
        while out.len() - before < max && !self.finished {
            let next = match &mut self.format {
                // What a pipe brings later is not waited for.
                Format::Classic(classic) if out.len() > before && !classic.ready() => break,
                Format::Classic(classic) => classic.next(&mut buffers),
                Format::Ng(ng) => ng.next(),
            };
            match next {
                Ok(Some(Ok(p))) => {
                    self.packets += 1;
                    out.push(p);
                }
                Ok(Some(Err(NoRoom))) => self.too_long += 1,
                Ok(None) => self.finished = true,
                Err(what) => {
                    self.finished = true;
                    let what = format!("{what} (after {} packets)", self.packets);
                    return Err(PortError::Format { name: self.name.clone(), what });
                }
            }
        }
        Ok(out.len() - before)
    }
}

impl Ng {
    fn next(&mut self) -> Result<Option<Result<Packet, NoRoom>>, String> {
        loop {
            let step = match self.inner.next() {
                Ok((len, block)) => {
                    let step = step(&block, &self.interfaces);
                    self.inner.consume(len);
                    step?
                }
                Err(PcapError::Eof) => return Ok(None),
                Err(PcapError::Incomplete(_)) => {
                    self.inner.refill().map_err(|_| "reading failed")?;
                    continue;
                }
                Err(PcapError::UnexpectedEof) => return Err(super::CUT.to_owned()),
                Err(PcapError::BufferTooSmall) => return Err(super::TOO_LONG.to_owned()),
                Err(_) => return Err("a record is damaged".to_owned()),
            };
            match step {
                Step::Packet(p) => return Ok(Some(Ok(p))),
                Step::TooLong => return Ok(Some(Err(NoRoom))),
                Step::Section => self.interfaces.clear(),
                Step::Interface(interface) if self.interfaces.len() < MAX_INTERFACES => {
                    self.interfaces.push(interface);
                }
                Step::Interface(_) => return Err("too many interfaces".to_owned()),
                Step::Other => {}
            }
        }
    }
}

/// Reads enough that the library recognises the format even if a pipe gives few bytes at a time: the file header of
/// pcap, or the section header block of pcapng if its length is sensible.
fn read_start(stream: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut start = Vec::new();
    stream.take(24).read_to_end(&mut start)?;
    if let Some(&[a, b, c, d, l0, l1, l2, l3, m0, m1, m2, m3]) = start.first_chunk::<12>()
        && [a, b, c, d] == PCAPNG_MAGIC
    {
        let little = [m0, m1, m2, m3] == [0x4d, 0x3c, 0x2b, 0x1a];
        let len =
            if little { u32::from_le_bytes([l0, l1, l2, l3]) } else { u32::from_be_bytes([l0, l1, l2, l3]) };
        let rest = (len as usize).min(BUFFER / 2).saturating_sub(start.len());
        stream.take(rest as u64).read_to_end(&mut start)?;
    }
    Ok(start)
}

fn step(block: &PcapBlockOwned<'_>, interfaces: &[Interface]) -> Result<Step, String> {
    let (ticks, interface, data) = match block {
        PcapBlockOwned::NG(Block::EnhancedPacket(b)) => {
            let ticks = u64::from(b.ts_high) << 32 | u64::from(b.ts_low);
            (ticks, b.if_id as usize, b.data.get(..b.caplen as usize))
        }
        PcapBlockOwned::NG(Block::SimplePacket(b)) => {
            let len = b.data.len().min(b.origlen as usize);
            (0, 0, b.data.get(..len))
        }
        PcapBlockOwned::NG(Block::SectionHeader(_)) => return Ok(Step::Section),
        PcapBlockOwned::NG(Block::InterfaceDescription(b)) => {
            let ticks_per_second =
                b.ts_resolution().ok_or("an interface has an impossible time resolution")?;
            let Linktype(link) = b.linktype;
            let clock = Clock { ticks_per_second, offset: b.ts_offset() };
            return Ok(Step::Interface(Interface { encap: Encap::of_link_type(link)?, clock }));
        }
        _ => return Ok(Step::Other),
    };
    let data = data.ok_or("a packet is longer than its record")?;
    let interface = interfaces.get(interface).ok_or("a packet names an interface that is not described")?;
    let Ok(mut p) = Packet::from_bytes(data) else { return Ok(Step::TooLong) };
    p.timestamp = interface.clock.nanoseconds(ticks);
    if interface.encap == Encap::Ether {
        let start = p.data();
        p.set_layer(Layer::Mac, Some(start));
    }
    Ok(Step::Packet(p))
}
