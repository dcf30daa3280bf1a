//! Writing captures.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use weir_packet::{Checksum, Packet};

use super::Encap;
use crate::{PortError, offload};

/// Bytes that are written at once.
pub const BUFFER: usize = 1 << 18;

/// The format of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Format {
    /// Most bytes of each packet that are kept.
    pub snaplen: u32,
    /// What packets begin with.
    pub encap: Encap,
    /// Whether times are in nanoseconds, else in microseconds.
    pub nano: bool,
}

impl Format {
    /// Ethernet frames with nanoseconds.
    pub fn ethernet(snaplen: u32) -> Format {
        Format { snaplen, encap: Encap::Ether, nano: true }
    }
}

/// Writes packets as pcap. Buffer the stream yourself (by [`BUFFER`] bytes), or use [`PcapWriter::create`].
pub struct PcapWriter<W> {
    name: String,
    stream: W,
    format: Format,
}

impl PcapWriter<BufWriter<File>> {
    /// Creates a file, or empties it.
    pub fn create(path: impl AsRef<Path>, snaplen: u32) -> Result<Self, PortError> {
        let name = path.as_ref().display().to_string();
        match File::create(path) {
            Ok(file) => PcapWriter::new(&name, BufWriter::with_capacity(BUFFER, file), snaplen),
            Err(source) => Err(PortError::Os { name, action: "create the capture", source }),
        }
    }
}

impl<W: Write> PcapWriter<W> {
    /// Writes the file header, for Ethernet frames with nanoseconds. At most `snaplen` bytes of each packet are kept; `name`
    /// is for messages.
    pub fn new(name: &str, stream: W, snaplen: u32) -> Result<Self, PortError> {
        PcapWriter::with_format(name, stream, Format::ethernet(snaplen))
    }

    /// Writes the file header for packets of a format.
    pub fn with_format(name: &str, stream: W, format: Format) -> Result<Self, PortError> {
        let mut writer = PcapWriter { name: name.to_owned(), stream, format };
        let magic: u32 = if format.nano { 0xa1b2_3c4d } else { 0xa1b2_c3d4 };
        let mut header = Vec::with_capacity(24);
        header.extend(magic.to_le_bytes());
        header.extend([2, 0, 4, 0]);
        header.extend([0; 8]);
        header.extend(format.snaplen.to_le_bytes());
        header.extend(format.encap.link_type().to_le_bytes());
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
        let kept = packet.len().min(self.format.snaplen as usize);
        let seconds = (packet.timestamp / 1_000_000_000) as u32;
        let nanoseconds = (packet.timestamp % 1_000_000_000) as u32;
        let part = if self.format.nano { nanoseconds } else { nanoseconds / 1000 };
        let mut header = [0; 16];
        for (to, word) in header.as_chunks_mut::<4>().0.iter_mut().zip([seconds, part, kept as u32, length]) {
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
