//! `weir capture`.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, anyhow};
use clap_complete::engine::ArgValueCandidates;
use weir_api::watch::{CaptureRequest, Captured, Direction};
use weir_elements::FromArg;
use weir_io::pcap::PcapWriter;
use weir_io::pcapng::{PacketDirection, PcapngWriter, Record};
use weir_packet::Packet;

use super::complete;
use super::live::follow;
use super::remote::NodeArgs;
use crate::ui::{Failure, Ui};

/// Options of `weir capture`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The graph's identifier
    #[arg(add = ArgValueCandidates::new(complete::graphs))]
    graph: String,
    /// Where: sap:ID, sf:FUNCTION:PORT, or an element of the configuration (element, element[output], [input]element);
    /// every access point, if left out
    #[arg(value_name = "LINK", add = ArgValueCandidates::new(complete::places))]
    links: Vec<String>,
    /// Which packets, in the filter language (as 'udp port 53'); all, if left out
    #[arg(short = 'm', long = "match", value_name = "FILTER", default_value = "")]
    filter: String,
    /// At an access point or function port: packets that come from there, that go there, or both
    #[arg(long, value_enum, default_value = "both")]
    direction: Way,
    /// File in the pcapng format, or in the older pcap if it is named so; - is standard output, for `| tshark -r -`
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    write: PathBuf,
    /// How many packets; 0 is until Ctrl-C
    #[arg(short, long, value_name = "N", default_value_t = 0)]
    count: u64,
    /// End after this time (as 10, 500ms, 2min)
    #[arg(long = "for", value_name = "TIME", value_parser = Duration::from_arg)]
    duration: Option<Duration>,
    /// Most bytes of each packet
    #[arg(long, value_name = "BYTES", default_value_t = 65_535)]
    snaplen: u32,
    #[command(flatten)]
    node: NodeArgs,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Way {
    From,
    To,
    Both,
}

pub(crate) fn run(args: &Args, ui: &Ui) -> Result<(), Failure> {
    let standard = args.write.as_os_str() == "-";
    if standard && io::stdout().is_terminal() {
        return Err(Failure::refused(
            "a capture is no text for a terminal; write it with -w FILE, or read it with | tshark -r -",
        ));
    }
    let request = CaptureRequest {
        points: args.links.clone(),
        direction: match args.direction {
            Way::From => Direction::From,
            Way::To => Direction::To,
            Way::Both => Direction::Both,
        },
        filter: args.filter.clone(),
        snaplen: args.snaplen,
        count: args.count,
    };
    let events = args.node.client()?.capture(&args.graph, &request)?;
    let out: Box<dyn Write> = if standard {
        Box::new(BufWriter::new(io::stdout()))
    } else {
        let file =
            File::create(&args.write).with_context(|| format!("cannot write {}", args.write.display()))?;
        Box::new(BufWriter::new(file))
    };
    let mut file = CaptureFile::new(args, out)?;
    ui.progress("capturing; Ctrl-C ends");
    let (mut packets, mut overrun) = (0_u64, None);
    follow(events, args.duration, |event| {
        match event {
            Captured::Packet { time, length, bytes, point, direction } => {
                file.write(time, length, &unhex(&bytes)?, &point, direction)?;
                packets += 1;
            }
            Captured::Notice { text, .. } => overrun = Some(text),
        }
        Ok(())
    })?;
    let s = if packets == 1 { "" } else { "s" };
    ui.note(&format!("{packets} packet{s} captured"));
    match overrun {
        Some(text) => Err(Failure::refused(text)),
        None => Ok(()),
    }
}

/// The file that is written, in its format.
enum CaptureFile {
    /// The interfaces are described as they are first seen, the named ones at once.
    Pcapng {
        writer: PcapngWriter<Box<dyn Write>>,
        interfaces: HashMap<String, u32>,
    },
    Pcap(PcapWriter<Box<dyn Write>>),
}

impl CaptureFile {
    fn new(args: &Args, out: Box<dyn Write>) -> Result<CaptureFile, Failure> {
        let failed = "cannot write the capture";
        let name = args.write.display().to_string();
        if args.write.extension().is_some_and(|e| e == "pcap") {
            let mut writer = PcapWriter::new(&name, out, args.snaplen).context(failed)?;
            writer.flush().context(failed)?;
            return Ok(CaptureFile::Pcap(writer));
        }
        let mut writer = PcapngWriter::new(&name, out, args.snaplen).context(failed)?;
        let mut interfaces = HashMap::new();
        for link in &args.links {
            if !interfaces.contains_key(link) {
                interfaces.insert(link.clone(), writer.interface(link).context(failed)?);
            }
        }
        writer.flush().context(failed)?;
        Ok(CaptureFile::Pcapng { writer, interfaces })
    }

    /// Appends a packet. A reader behind a pipe wants to see each at once.
    fn write(
        &mut self,
        time: u64,
        length: u32,
        bytes: &[u8],
        link: &str,
        direction: Option<Direction>,
    ) -> Result<(), Failure> {
        let failed = "cannot write the capture";
        match self {
            CaptureFile::Pcap(writer) => {
                let mut packet = Packet::from_bytes(bytes).map_err(|e| anyhow!(e))?;
                packet.timestamp = time;
                writer.write_cut(&packet, length).context(failed)?;
                writer.flush().context(failed)?;
            }
            CaptureFile::Pcapng { writer, interfaces } => {
                let interface = match interfaces.get(link) {
                    Some(interface) => *interface,
                    None => {
                        let interface = writer.interface(link).context(failed)?;
                        interfaces.insert(link.to_owned(), interface);
                        interface
                    }
                };
                let direction = match direction {
                    Some(Direction::From) => Some(PacketDirection::Inbound),
                    Some(Direction::To) => Some(PacketDirection::Outbound),
                    Some(Direction::Both) | None => None,
                };
                let record = Record { interface, time, bytes, length, direction, comment: "" };
                writer.write(record).context(failed)?;
                writer.flush().context(failed)?;
            }
        }
        Ok(())
    }
}

fn unhex(text: &str) -> Result<Vec<u8>, Failure> {
    let digit = |c: u8| (c as char).to_digit(16).map(|d| d as u8);
    text.as_bytes()
        .chunks(2)
        .map(|pair| match *pair {
            [high, low] => Some(digit(high)? << 4 | digit(low)?),
            _ => None,
        })
        .collect::<Option<_>>()
        .ok_or_else(|| Failure::Other(anyhow!("the node sent a packet that is not hexadecimal")))
}

#[cfg(test)]
mod tests {
    use super::unhex;

    #[test]
    fn bytes_are_read_from_hexadecimal() {
        assert_eq!(unhex("00fF10").unwrap(), [0, 255, 16]);
        assert!(unhex("0").is_err() && unhex("0g").is_err());
    }
}
