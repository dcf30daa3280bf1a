//! Capture files: reading pcap (micro- and nanoseconds, either byte order) and pcapng, writing pcap.
//!
//! Only Ethernet captures are read. Formats: draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng.

use std::fs::File;
use std::io::{self, BufWriter, Cursor, Read, Write};
use std::path::Path;

use pcap_parser::traits::PcapReaderIterator;
use pcap_parser::{Block, Linktype, PcapBlockOwned, PcapError};
use weir_packet::{Checksum, Layer, Packet};

use crate::{Port, PortError, PortStats, offload};

/// Longest record that is read, in bytes: more than any capture program writes for one packet.
const BUFFER: usize = 1 << 20;
/// Most interfaces of one pcapng section: a file cannot make the list grow without bound.
const MAX_INTERFACES: usize = 4096;
/// The first bytes of a pcapng file.
const PCAPNG_MAGIC: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

/// Reads packets from a capture.
pub struct PcapReader {
    name: String,
    inner: Box<dyn PcapReaderIterator + Send>,
    /// Clocks of the interfaces: one in pcap, one for each description in a section of pcapng.
    clocks: Vec<Clock>,
    packets: u64,
    too_long: u64,
    finished: bool,
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
    Interface(Linktype, Clock),
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
        let fail = |what: String| PortError::Format { name: name.to_owned(), what };
        let start = read_start(&mut stream).map_err(|source| PortError::Os {
            name: name.to_owned(),
            action: "read the capture",
            source,
        })?;
        let inner = pcap_parser::create_reader(BUFFER, Cursor::new(start).chain(stream))
            .map_err(|_| fail("neither a pcap nor a pcapng file, or its header is damaged".to_owned()))?;
        let name = name.to_owned();
        Ok(PcapReader { name, inner, clocks: Vec::new(), packets: 0, too_long: 0, finished: false })
    }

    /// The next packet with its time stamp; `None` at the end.
    ///
    /// # Errors
    /// If the file is damaged or of another link type. After an error, the reader is at its end.
    pub fn next_packet(&mut self) -> Result<Option<Packet>, PortError> {
        while !self.finished {
            let step = match self.inner.next() {
                Ok((len, block)) => {
                    let step = step(&block, &self.clocks);
                    self.inner.consume(len);
                    step
                }
                Err(PcapError::Eof) => {
                    self.finished = true;
                    break;
                }
                Err(PcapError::Incomplete(_)) => match self.inner.refill() {
                    Ok(()) => continue,
                    Err(_) => Err("reading failed"),
                },
                Err(PcapError::UnexpectedEof) => Err("the file ends inside a record"),
                Err(PcapError::BufferTooSmall) => Err("a record is longer than 1 MB"),
                Err(_) => Err("a record is damaged"),
            };
            match step {
                Ok(Step::Packet(p)) => {
                    self.packets += 1;
                    return Ok(Some(p));
                }
                Ok(Step::TooLong) => self.too_long += 1,
                Ok(Step::Section) => self.clocks.clear(),
                Ok(Step::Interface(link, _)) if link != Linktype::ETHERNET => {
                    let number = link.0;
                    return Err(self.damaged(&format!("link type {number}, only Ethernet (1) is supported")));
                }
                Ok(Step::Interface(_, clock)) if self.clocks.len() < MAX_INTERFACES => {
                    self.clocks.push(clock);
                }
                Ok(Step::Interface(..)) => return Err(self.damaged("too many interfaces")),
                Ok(Step::Other) => {}
                Err(what) => return Err(self.damaged(what)),
            }
        }
        Ok(None)
    }

    fn damaged(&mut self, what: &str) -> PortError {
        self.finished = true;
        PortError::Format {
            name: self.name.clone(),
            what: format!("{what} (after {} packets)", self.packets),
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

fn step(block: &PcapBlockOwned<'_>, clocks: &[Clock]) -> Result<Step, &'static str> {
    let (ticks, interface, data) = match block {
        PcapBlockOwned::LegacyHeader(h) => {
            let ticks_per_second = if h.is_nanosecond_precision() { 1_000_000_000 } else { 1_000_000 };
            return Ok(Step::Interface(h.network, Clock { ticks_per_second, offset: 0 }));
        }
        PcapBlockOwned::Legacy(b) => {
            let per_second = clocks.first().map_or(1, |c| c.ticks_per_second);
            let data = b.data.get(..b.caplen as usize);
            (u64::from(b.ts_sec) * per_second + u64::from(b.ts_usec), 0, data)
        }
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
            return Ok(Step::Interface(b.linktype, Clock { ticks_per_second, offset: b.ts_offset() }));
        }
        PcapBlockOwned::NG(_) => return Ok(Step::Other),
    };
    let data = data.ok_or("a packet is longer than its record")?;
    let clock = clocks.get(interface).ok_or("a packet names an interface that is not described")?;
    let Ok(mut p) = Packet::from_bytes(data) else { return Ok(Step::TooLong) };
    p.timestamp = clock.nanoseconds(ticks);
    let start = p.data();
    p.set_layer(Layer::Mac, Some(start));
    Ok(Step::Packet(p))
}

/// Writes packets as pcap with nanosecond time stamps. Buffer the stream yourself, or use [`PcapWriter::create`].
pub struct PcapWriter<W> {
    name: String,
    stream: W,
    snaplen: u32,
}

impl PcapWriter<BufWriter<File>> {
    /// Creates a file, or empties it.
    pub fn create(path: impl AsRef<Path>, snaplen: u32) -> Result<Self, PortError> {
        let name = path.as_ref().display().to_string();
        match File::create(path) {
            Ok(file) => PcapWriter::new(&name, BufWriter::new(file), snaplen),
            Err(source) => Err(PortError::Os { name, action: "create the capture", source }),
        }
    }
}

impl<W: Write> PcapWriter<W> {
    /// Writes the file header. At most `snaplen` bytes of each packet are kept; `name` is for messages.
    pub fn new(name: &str, stream: W, snaplen: u32) -> Result<Self, PortError> {
        let mut writer = PcapWriter { name: name.to_owned(), stream, snaplen };
        let mut header = Vec::with_capacity(24);
        header.extend(0xa1b2_3c4d_u32.to_le_bytes());
        header.extend([2, 0, 4, 0]);
        header.extend([0; 8]);
        header.extend(snaplen.to_le_bytes());
        header.extend(1u32.to_le_bytes());
        writer.put(&header)?;
        Ok(writer)
    }

    /// Appends a packet. A partial checksum is finished in the file; the packet itself stays as it is.
    pub fn write(&mut self, packet: &Packet) -> Result<(), PortError> {
        if packet.checksum() == Checksum::Partial {
            let mut copy = packet.copy();
            // A packet whose checksum cannot be finished is shown as it is.
            let _ = offload::finish_checksum(&mut copy);
            self.record(&copy, copy.len() as u32)
        } else {
            self.record(packet, packet.len() as u32)
        }
    }

    /// Hands all that was written to the stream's destination.
    pub fn flush(&mut self) -> Result<(), PortError> {
        self.stream.flush().map_err(|source| self.fail(source))
    }

    /// Appends what is left of a packet that had `length` bytes.
    pub fn write_cut(&mut self, packet: &Packet, length: u32) -> Result<(), PortError> {
        self.record(packet, length.max(packet.len() as u32))
    }

    fn record(&mut self, packet: &Packet, length: u32) -> Result<(), PortError> {
        let kept = packet.len().min(self.snaplen as usize);
        let seconds = (packet.timestamp / 1_000_000_000) as u32;
        let nanoseconds = (packet.timestamp % 1_000_000_000) as u32;
        let mut header = [0; 16];
        for (to, word) in
            header.as_chunks_mut::<4>().0.iter_mut().zip([seconds, nanoseconds, kept as u32, length])
        {
            *to = word.to_le_bytes();
        }
        self.put(&header)?;
        self.put(&packet.bytes()[..kept])
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), PortError> {
        self.stream.write_all(bytes).map_err(|source| self.fail(source))
    }

    fn fail(&self, source: io::Error) -> PortError {
        PortError::Os { name: self.name.clone(), action: "write the capture", source }
    }
}

/// A port that receives from one capture, sends to another, or both.
pub struct PcapPort {
    name: String,
    reader: Option<PcapReader>,
    writer: Option<PcapWriter<Box<dyn Write + Send>>>,
    /// An error that was met behind packets which had to be returned first.
    pending: Option<PortError>,
    stats: PortStats,
}

impl PcapPort {
    /// A port that receives what `reader` reads.
    pub fn reading(reader: PcapReader) -> PcapPort {
        let name = reader.name.clone();
        PcapPort { name, reader: Some(reader), writer: None, pending: None, stats: PortStats::default() }
    }

    /// A port that writes what is sent, at most `snaplen` bytes of each packet.
    pub fn writing(
        name: &str,
        stream: impl Write + Send + 'static,
        snaplen: u32,
    ) -> Result<PcapPort, PortError> {
        let stream: Box<dyn Write + Send> = Box::new(stream);
        let writer = Some(PcapWriter::new(name, stream, snaplen)?);
        Ok(PcapPort {
            name: name.to_owned(),
            reader: None,
            writer,
            pending: None,
            stats: PortStats::default(),
        })
    }
}

impl Port for PcapPort {
    fn name(&self) -> &str {
        &self.name
    }

    fn receive(&mut self, out: &mut Vec<Packet>, max: usize) -> Result<usize, PortError> {
        if let Some(error) = self.pending.take() {
            return Err(error);
        }
        let Some(reader) = &mut self.reader else {
            return Err(PortError::Direction { name: self.name.clone(), action: "receive" });
        };
        for n in 0..max {
            match reader.next_packet() {
                Ok(Some(p)) => {
                    self.stats.received(p.len());
                    out.push(p);
                }
                Ok(None) => return Ok(n),
                Err(error) if n == 0 => return Err(error),
                Err(error) => {
                    self.pending = Some(error);
                    return Ok(n);
                }
            }
        }
        Ok(max)
    }

    fn send(&mut self, batch: &mut Vec<Packet>) -> Result<usize, PortError> {
        let Some(writer) = &mut self.writer else {
            return Err(PortError::Direction { name: self.name.clone(), action: "send" });
        };
        let mut n = 0;
        let mut result = Ok(());
        for p in batch.iter() {
            result = writer.write(p);
            if result.is_err() {
                break;
            }
            self.stats.sent(p.len());
            n += 1;
        }
        batch.drain(..n);
        result.map(|()| n)
    }

    fn flush(&mut self) -> Result<(), PortError> {
        self.writer.as_mut().map_or(Ok(()), PcapWriter::flush)
    }

    fn ended(&self) -> bool {
        self.pending.is_none() && self.reader.as_ref().is_none_or(|r| r.finished)
    }

    fn stats(&mut self) -> PortStats {
        let rx_malformed = self.reader.as_ref().map_or(0, |r| r.too_long);
        PortStats { rx_malformed, ..self.stats }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weir_net::build;

    fn frame(n: u8) -> Vec<u8> {
        build::udp4(([10, 0, 0, n].into(), 1), ([10, 0, 0, 2].into(), 2), &[n; 30])
    }

    fn read_all(bytes: Vec<u8>) -> Result<Vec<(u64, Vec<u8>)>, PortError> {
        let mut reader = PcapReader::new("test", Cursor::new(bytes))?;
        let mut all = Vec::new();
        while let Some(p) = reader.next_packet()? {
            all.push((p.timestamp, p.bytes().to_vec()));
        }
        Ok(all)
    }

    fn capture(snaplen: u32, times: &[u64]) -> Vec<u8> {
        let mut file = Vec::new();
        let mut writer = PcapWriter::new("test", &mut file, snaplen).unwrap();
        for (i, &time) in times.iter().enumerate() {
            let mut p = Packet::from_bytes(&frame(i as u8)).unwrap();
            p.timestamp = time;
            writer.write(&p).unwrap();
        }
        file
    }

    #[test]
    fn what_was_written_is_read_with_its_time() {
        let times = [1_700_000_000_123_456_789, 1_700_000_001_000_000_001];
        let got = read_all(capture(65_535, &times)).unwrap();
        assert_eq!(got, [(times[0], frame(0)), (times[1], frame(1))]);
        assert_eq!(read_all(capture(20, &times)).unwrap()[1], (times[1], frame(1)[..20].to_vec()));
    }

    #[test]
    fn big_endian_microseconds() {
        let mut file =
            vec![0xa1, 0xb2, 0xc3, 0xd4, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 0, 0, 0, 1];
        for word in [5u32, 7, 3, 3] {
            file.extend(word.to_be_bytes());
        }
        file.extend([1, 2, 3]);
        assert_eq!(read_all(file.clone()).unwrap(), [(5_000_007_000, vec![1, 2, 3])]);
        file[23] = 101;
        let error = read_all(file).unwrap_err().to_string();
        assert_eq!(error, "test: link type 101, only Ethernet (1) is supported (after 0 packets)");
    }

    #[test]
    fn pcapng_with_its_own_clock() {
        let mut file = Vec::new();
        let mut block = |kind: u32, body: &[u8]| {
            let len = 12 + body.len() as u32;
            file.extend([&kind.to_le_bytes()[..], &len.to_le_bytes(), body, &len.to_le_bytes()].concat());
        };
        block(0x0a0d_0d0a, &[0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255]);
        // Ethernet, if_tsresol (9) = 10^-9.
        block(1, &[1, 0, 0, 0, 0, 0, 4, 0, 9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
        block(6, &[0, 0, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0, 3, 0, 0, 0, 3, 0, 0, 0, 1, 2, 3, 0]);
        assert_eq!(read_all(file.clone()).unwrap(), [((1 << 32) + 5, vec![1, 2, 3])]);
        let mut wrong_interface = file;
        wrong_interface[28 + 32 + 8] = 1;
        assert!(read_all(wrong_interface).unwrap_err().to_string().contains("not described"));
    }

    #[test]
    fn a_cut_file_gives_its_whole_packets_first() {
        let mut file = capture(65_535, &[1, 2, 3]);
        file.truncate(file.len() - 1);
        let mut port = PcapPort::reading(PcapReader::new("test", Cursor::new(file)).unwrap());
        let mut out = Vec::new();
        assert_eq!(port.receive(&mut out, 32).unwrap(), 2);
        assert!(!port.ended());
        let error = port.receive(&mut out, 32).unwrap_err().to_string();
        assert_eq!(error, "test: the file ends inside a record (after 2 packets)");
        assert!(port.ended() && port.receive(&mut out, 32).unwrap() == 0);
    }

    #[test]
    fn a_pipe_may_give_one_byte_at_a_time() {
        struct Drip(Cursor<Vec<u8>>);
        impl Read for Drip {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                let one = buffer.len().min(1);
                self.0.read(&mut buffer[..one])
            }
        }
        let mut reader = PcapReader::new("pipe", Drip(Cursor::new(capture(100, &[1, 2])))).unwrap();
        assert_eq!(reader.next_packet().unwrap().unwrap().bytes(), frame(0));
        assert_eq!(reader.next_packet().unwrap().unwrap().bytes(), frame(1));
        assert!(reader.next_packet().unwrap().is_none());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]

        #[test]
        fn damaged_files_give_errors(at in 0usize..200, value: u8, cut in 0usize..300, ng: bool) {
            let mut file = capture(65_535, &[1, 2]);
            if ng {
                file[..4].copy_from_slice(&PCAPNG_MAGIC);
            }
            file[at % 180] = value;
            file.truncate(cut);
            if let Ok(packets) = read_all(file) {
                prop_assert!(packets.len() <= 20);
            }
        }

        #[test]
        fn any_bytes_after_a_valid_header_end(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut file = capture(65_535, &[]);
            file.extend(bytes);
            let _ = read_all(file);
        }
    }
}
