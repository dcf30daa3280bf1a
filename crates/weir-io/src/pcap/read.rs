//! Reading captures.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use weir_packet::{Buffers, Layer, MAX_LEN, Packet};

use super::classic::{Classic, FILE_HEADER};
use super::input::Input;
use super::link::Link;
use super::ng::{MAGIC, Ng};
use crate::PortError;

/// What is wrong with a file that ends too early.
pub(super) const CUT: &str = "the file ends inside a record";

/// Reads packets from a capture.
pub struct PcapReader {
    pub(super) name: String,
    input: Input,
    format: Format,
    packets: u64,
    marks_ip: bool,
    too_long: Vec<TooLong>,
    /// How many there were.
    pub(super) all_too_long: u64,
    pub(super) finished: bool,
}

enum Format {
    Classic(Classic),
    Ng(Ng),
}

/// A packet that is longer than packets are.
#[derive(Debug)]
pub struct TooLong {
    /// Its first bytes.
    pub packet: Packet,
    /// How many bytes it has in the capture.
    pub len: usize,
    /// Its number in the capture, from 1.
    pub number: u64,
}

/// A packet as it was read.
pub(super) struct ReadPacket {
    /// The packet, or the first bytes of one that is too long.
    packet: Packet,
    len: usize,
}

impl ReadPacket {
    /// A packet of `len` bytes, in front of which stand `before` bytes that were looked at.
    #[inline]
    pub(super) fn read(
        input: &mut Input,
        buffers: &mut Buffers,
        (before, len): (usize, usize),
        time: u64,
    ) -> Result<ReadPacket, String> {
        let kept = len.min(MAX_LEN);
        if !input.has(before + kept)? {
            return Err(CUT.to_owned());
        }
        let bytes = &input.at_hand()[before..before + kept];
        let mut packet = buffers.packet(bytes).map_err(|e| e.to_string())?;
        packet.timestamp = time;
        input.consume(before + kept);
        if len > kept && !input.skip((len - kept) as u64)? {
            return Err(CUT.to_owned());
        }
        Ok(ReadPacket { packet, len })
    }
}

impl PcapReader {
    /// Opens a file.
    ///
    /// # Errors
    /// If the file cannot be read, or is no capture.
    pub fn open(path: impl AsRef<Path>) -> Result<PcapReader, PortError> {
        let name = path.as_ref().display().to_string();
        match File::open(path) {
            Ok(file) => PcapReader::new(&name, file),
            Err(source) => Err(PortError::Os { name, action: "open the capture", source }),
        }
    }

    /// Reads a capture from a stream, which may be a pipe; `name` is for messages.
    ///
    /// # Errors
    /// If the stream cannot be read, or begins as no capture does.
    pub fn new(name: &str, stream: impl Read + Send + 'static) -> Result<PcapReader, PortError> {
        let format_error = |what: String| PortError::Format { name: name.to_owned(), what };
        let mut input = Input::new(stream);
        let whole = input.has(FILE_HEADER).map_err(format_error)?;
        let start = input.at_hand();
        let format = if start.starts_with(&MAGIC) {
            Format::Ng(Ng::new())
        } else {
            let header = start.first_chunk::<FILE_HEADER>().filter(|_| whole);
            let classic = header.and_then(Classic::new).ok_or_else(|| {
                format_error("neither a pcap nor a pcapng file, or its header is damaged".to_owned())
            })?;
            input.consume(FILE_HEADER);
            Format::Classic(classic)
        };
        Ok(PcapReader {
            name: name.to_owned(),
            input,
            format,
            packets: 0,
            marks_ip: false,
            too_long: Vec::new(),
            all_too_long: 0,
            finished: false,
        })
    }

    /// Lets the network and transport headers of IP packets be marked, whatever link header stands in front.
    ///
    /// # Errors
    /// If it is known already that the link type is one whose headers are not known.
    pub fn mark_ip(&mut self) -> Result<(), PortError> {
        self.marks_ip = true;
        let Format::Classic(classic) = &self.format else { return Ok(()) };
        if !classic.link.has_ip() {
            return Err(self.fail(&no_ip(classic.link), 0));
        }
        Ok(())
    }

    /// The next packet with its time stamp; `None` at the end. Packets of Ethernet captures have their link layer marked.
    ///
    /// # Errors
    /// If the file is damaged. After an error, the reader is at its end.
    pub fn next_packet(&mut self) -> Result<Option<Packet>, PortError> {
        let mut one = Vec::with_capacity(1);
        while one.is_empty() && !self.finished {
            self.read(&mut one, 1)?;
        }
        Ok(one.pop())
    }

    /// Whether the end of the capture, or an error, was met.
    pub fn ended(&self) -> bool {
        self.finished
    }

    /// The packets that the last [`read`](PcapReader::read) found to be too long. They are not among those that it gave.
    pub fn too_long(&mut self) -> impl Iterator<Item = TooLong> {
        self.too_long.drain(..)
    }

    /// Appends up to `max` packets to `out`, as [`next_packet`](PcapReader::next_packet) gives them, and returns how many it found,
    /// with those that are [too long](PcapReader::too_long): none only at the end of the capture, fewer than `max` if the rest is not
    /// at hand.
    ///
    /// # Errors
    /// As `next_packet`; packets before the error are in `out`.
    pub fn read(&mut self, out: &mut Vec<Packet>, max: usize) -> Result<usize, PortError> {
        let mut found = 0;
        self.too_long.clear();
        let mut buffers = Buffers::take(max);
        while found < max && !self.finished {
            let start = self.input.used();
            let next = match &mut self.format {
                // What a pipe brings later is not waited for.
                Format::Classic(classic) if found > 0 && !classic.ready(&self.input) => break,
                Format::Classic(classic) => {
                    classic.next(&mut self.input, &mut buffers).map(|p| p.map(|p| (p, classic.link)))
                }
                Format::Ng(ng) if found > 0 && !ng.ready(&self.input) => break,
                Format::Ng(ng) => ng.next(&mut self.input, &mut buffers),
            };
            let (ReadPacket { mut packet, len }, link) = match next {
                Ok(Some((_, link))) if self.marks_ip && !link.has_ip() => {
                    return Err(self.fail(&no_ip(link), start));
                }
                Ok(Some(next)) => next,
                Ok(None) => {
                    self.finished = true;
                    break;
                }
                Err(what) => return Err(self.fail(&what, start)),
            };
            found += 1;
            self.packets += 1;
            if link.is_ethernet() {
                let data = packet.data();
                packet.set_layer(Layer::Mac, Some(data));
            }
            if self.marks_ip {
                link.mark_ip(&mut packet);
            }
            if len > packet.len() {
                self.all_too_long += 1;
                self.too_long.push(TooLong { packet, len, number: self.packets });
            } else {
                out.push(packet);
            }
        }
        Ok(found)
    }

    /// What is wrong with the record that begins at a byte of the file. Nothing more is read.
    fn fail(&mut self, what: &str, record: u64) -> PortError {
        self.finished = true;
        let at = match &self.format {
            Format::Classic(_) => record,
            Format::Ng(ng) => ng.start,
        };
        let what = format!("{what} (after {} packets, at byte {at})", self.packets);
        PortError::Format { name: self.name.clone(), what }
    }
}

/// What is wrong if IP packets are to be found behind headers that are not known.
fn no_ip(link: Link) -> String {
    format!(
        "it is not known where packets of the link type {} have their IP header; without FORCE_IP they come as they are",
        link.0
    )
}
