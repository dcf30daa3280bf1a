//! Reading pcap files (draft-ietf-opsawg-pcap) in large blocks.
//!
//! The file is not mapped into memory: one that is cut while it is read would end the process.

use std::io::Read;

use weir_packet::{Buffers, Layer, NoRoom, Packet};

use super::Encap;
use super::read::BUFFER;

/// Length of the header of a file, and of a record, in bytes.
const FILE_HEADER: usize = 24;
const RECORD_HEADER: usize = 16;

/// A pcap file.
pub struct Classic {
    stream: Box<dyn Read + Send>,
    buffer: Box<[u8]>,
    /// What was read and not used yet.
    start: usize,
    end: usize,
    big_endian: bool,
    /// Nanoseconds of a unit of the part of the time below a second.
    unit: u64,
    link_type: u32,
}

impl Classic {
    /// A file of which `header` was read already. `None` if that is no header.
    pub fn new(header: &[u8], stream: impl Read + Send + 'static) -> Option<Classic> {
        let header: &[u8; FILE_HEADER] = header.try_into().ok()?;
        let magic = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
        let (big_endian, unit) = match (magic, magic.swap_bytes()) {
            (0xa1b2_c3d4, _) => (false, 1000),
            (0xa1b2_3c4d, _) => (false, 1),
            (_, 0xa1b2_c3d4) => (true, 1000),
            (_, 0xa1b2_3c4d) => (true, 1),
            _ => return None,
        };
        Some(Classic {
            stream: Box::new(stream),
            buffer: vec![0; BUFFER].into_boxed_slice(),
            start: 0,
            end: 0,
            big_endian,
            unit,
            link_type: word(header, 20, big_endian),
        })
    }

    /// The next packet, or that it is longer than packets are; `None` at the end of the file.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub fn next(&mut self, buffers: &mut Buffers) -> Result<Option<Result<Packet, NoRoom>>, String> {
        let encap = Encap::of_link_type(self.link_type as i32)?;
        if !self.has(RECORD_HEADER)? {
            return if self.start == self.end { Ok(None) } else { Err(super::CUT.to_owned()) };
        }
        let header = &self.buffer[self.start..self.start + RECORD_HEADER];
        let [seconds, part, len] = [0, 4, 8].map(|at| word(header, at, self.big_endian));
        let record = RECORD_HEADER.saturating_add(len as usize);
        if record > BUFFER {
            return Err(super::TOO_LONG.to_owned());
        }
        if !self.has(record)? {
            return Err(super::CUT.to_owned());
        }
        let bytes = &self.buffer[self.start + RECORD_HEADER..self.start + record];
        self.start += record;
        Ok(Some(buffers.packet(bytes).map(|mut p| {
            p.timestamp = u64::from(seconds) * 1_000_000_000 + u64::from(part) * self.unit;
            if encap == Encap::Ether {
                let start = p.data();
                p.set_layer(Layer::Mac, Some(start));
            }
            p
        })))
    }

    /// Whether the next record is in the buffer as a whole.
    pub fn ready(&self) -> bool {
        let rest = &self.buffer[self.start..self.end];
        rest.len() >= RECORD_HEADER && rest.len() - RECORD_HEADER >= word(rest, 8, self.big_endian) as usize
    }

    /// Whether so many bytes of the file are in the buffer; reads them if need be.
    fn has(&mut self, len: usize) -> Result<bool, String> {
        if self.end - self.start >= len {
            return Ok(true);
        }
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        while self.end < len {
            match self.stream.read(&mut self.buffer[self.end..]) {
                Ok(0) => return Ok(false),
                Ok(n) => self.end += n,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(format!("reading failed: {e}")),
            }
        }
        Ok(true)
    }
}

/// A 32-bit number of a header that has four bytes there.
fn word(header: &[u8], at: usize, big_endian: bool) -> u32 {
    let bytes = [header[at], header[at + 1], header[at + 2], header[at + 3]];
    if big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
}
