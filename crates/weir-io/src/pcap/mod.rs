//! Capture files: reading pcap (micro- and nanoseconds, either byte order) and pcapng, writing pcap.
//!
//! Captures hold Ethernet frames or raw IP packets. Formats: draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng.

mod classic;
mod read;
mod write;

use std::io::Write;

use weir_packet::Packet;

use crate::{Port, PortError, PortStats};

pub use read::PcapReader;
pub use write::{BUFFER, Format, PcapWriter};

/// What is wrong with a file that ends too early.
const CUT: &str = "the file ends inside a record";
/// What is wrong with a record that does not fit the buffer.
const TOO_LONG: &str = "a record is longer than 1 MB";

/// What the packets of a capture begin with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Encap {
    /// Ethernet header.
    #[default]
    Ether,
    /// IP header.
    Ip,
}

impl Encap {
    /// By the number that files bear (`LINKTYPE_…`).
    fn of_link_type(number: i32) -> Result<Encap, String> {
        match number {
            1 => Ok(Encap::Ether),
            // Raw IP: as the standard says, of BSD, of version 4 and of version 6.
            101 | 12 | 228 | 229 => Ok(Encap::Ip),
            n => Err(format!("link type {n}; Ethernet (1) and raw IP (101) are supported")),
        }
    }

    fn link_type(self) -> u32 {
        match self {
            Encap::Ether => 1,
            Encap::Ip => 101,
        }
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
        let before = out.len();
        let result = reader.read(out, max);
        let n = out.len() - before;
        for p in &out[before..] {
            self.stats.received(p.len());
        }
        match result {
            Err(error) if n == 0 => Err(error),
            result => {
                self.pending = result.err();
                Ok(n)
            }
        }
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
    use std::io::{self, Cursor, Read};

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
        assert_eq!(read_all(file.clone()).unwrap().len(), 1, "raw IP");
        file[23] = 105;
        let error = read_all(file).unwrap_err().to_string();
        assert_eq!(
            error,
            "test: link type 105; Ethernet (1) and raw IP (101) are supported (after 0 packets)"
        );
    }

    #[test]
    fn microseconds_and_raw_ip_are_written_and_read() {
        let mut file = Vec::new();
        let format = Format { snaplen: 100, encap: Encap::Ip, nano: false };
        let mut writer = PcapWriter::with_format("test", &mut file, format).unwrap();
        let mut p = Packet::from_bytes(&frame(1)[14..]).unwrap();
        p.timestamp = 5_000_007_999;
        writer.write(&p).unwrap();
        let mut reader = PcapReader::new("test", Cursor::new(file)).unwrap();
        let got = reader.next_packet().unwrap().unwrap();
        assert_eq!((got.timestamp, got.bytes()), (5_000_007_000, p.bytes()));
        assert_eq!(got.layer(weir_packet::Layer::Mac), None);
    }

    #[test]
    fn records_over_the_borders_of_blocks_are_whole() {
        let times: Vec<u64> = (0..20_000).collect();
        let file = capture(65_535, &times);
        assert!(file.len() > BUFFER * 6);
        let mut reader = PcapReader::new("test", Cursor::new(file)).unwrap();
        let mut all = Vec::new();
        while reader.read(&mut all, 50).unwrap() > 0 {}
        assert!(reader.ended());
        assert_eq!(all.len(), times.len());
        for (i, p) in all.iter().enumerate() {
            assert_eq!((p.timestamp, p.bytes()), (i as u64, &frame(i as u8)[..]));
        }
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
                file[..4].copy_from_slice(&[0x0a, 0x0d, 0x0d, 0x0a]);
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
