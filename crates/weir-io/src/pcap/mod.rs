//! Capture files: reading pcap (micro- and nanoseconds, either byte order) and pcapng, of any link type; writing pcap of Ethernet
//! frames or IP packets. Formats: draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng.

mod classic;
mod input;
mod link;
mod ng;
mod read;
mod write;

use std::io::Write;

use weir_packet::Packet;

use crate::{Lost, Port, PortError, PortStats};

pub use read::{PcapReader, TooLong};
pub use write::{BUFFER, Format, PcapWriter};

/// The link type of a capture that is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Encap {
    /// Ethernet header.
    #[default]
    Ether,
    /// IP header.
    Ip,
}

impl Encap {
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
        let rx_malformed = self.reader.as_ref().map_or(0, |r| r.all_too_long);
        PortStats { rx_malformed, ..self.stats }
    }

    fn lost(&self) -> Lost {
        Lost { malformed: self.reader.as_ref().map_or(0, |r| r.all_too_long), ..self.stats.lost() }
    }
}

#[cfg(test)]
mod tests;
