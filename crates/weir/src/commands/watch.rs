//! `weir trace` and `weir capture`.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use anyhow::{Context, anyhow};
use weir_engine::protocol::Event;
use weir_io::pcap::PcapWriter;
use weir_node::rest::{CaptureRequest, Direction, TraceRequest};
use weir_packet::Packet;

use super::remote::NodeArgs;
use super::steps;
use crate::ui::{Failure, Ui};

/// Options of `weir trace`.
#[derive(Debug, clap::Args)]
pub(crate) struct TraceArgs {
    /// The graph's identifier
    graph: String,
    /// Which packets, in the filter language (as 'tcp dst port 80'); all, if left out
    #[arg(default_value = "")]
    filter: String,
    /// How many packets
    #[arg(short, long, value_name = "N", default_value_t = 1)]
    count: u32,
    #[command(flatten)]
    node: NodeArgs,
}

/// Options of `weir capture`.
#[derive(Debug, clap::Args)]
pub(crate) struct CaptureArgs {
    /// The graph's identifier
    graph: String,
    /// Where: sap:ID, sf:FUNCTION:PORT, or an element of the configuration (element, element[output], [input]element)
    point: String,
    /// Which packets, in the filter language; all, if left out
    #[arg(default_value = "")]
    filter: String,
    /// At an access point or function port: packets that come from there, or that go there
    #[arg(long, value_enum, default_value = "from")]
    direction: Way,
    /// pcap file; - is standard output, for `| tshark -r -`
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    write: PathBuf,
    /// How many packets; 0 is until Ctrl-C
    #[arg(short, long, value_name = "N", default_value_t = 0)]
    count: u64,
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
}

pub(crate) fn trace(args: &TraceArgs, ui: &Ui) -> Result<(), Failure> {
    let request = TraceRequest { filter: args.filter.clone(), count: args.count };
    let events = args.node.client().trace(&args.graph, &request)?;
    ui.progress("waiting for packets; Ctrl-C ends");
    for event in events {
        let event = event?;
        if let Event::Trace { .. } = event {
            ui.print(&event, || steps::text(*ui, &event))?;
        }
    }
    Ok(())
}

pub(crate) fn capture(args: &CaptureArgs, ui: &Ui) -> Result<(), Failure> {
    let request = CaptureRequest {
        point: args.point.clone(),
        direction: match args.direction {
            Way::From => Direction::From,
            Way::To => Direction::To,
        },
        filter: args.filter.clone(),
        snaplen: args.snaplen,
        count: args.count,
    };
    let events = args.node.client().capture(&args.graph, &request)?;
    let out: Box<dyn Write> = if args.write.as_os_str() == "-" {
        Box::new(io::stdout())
    } else {
        let file =
            File::create(&args.write).with_context(|| format!("cannot write {}", args.write.display()))?;
        Box::new(BufWriter::new(file))
    };
    let mut pcap = PcapWriter::new(&args.write.display().to_string(), out, args.snaplen)
        .context("cannot write the capture")?;
    pcap.flush().context("cannot write the capture")?;
    ui.progress("capturing; Ctrl-C ends");
    let mut packets = 0_u64;
    for event in events {
        let Event::Packet { time, length, bytes, .. } = event? else { continue };
        let mut packet = Packet::from_bytes(&unhex(&bytes)?).map_err(|e| anyhow!(e))?;
        packet.timestamp = time;
        pcap.write_cut(&packet, length).context("cannot write the capture")?;
        // A reader behind a pipe wants to see each packet at once.
        pcap.flush().context("cannot write the capture")?;
        packets += 1;
    }
    ui.progress(&format!("{packets} packets"));
    Ok(())
}

fn unhex(text: &str) -> Result<Vec<u8>, Failure> {
    let digit = |c: u8| (c as char).to_digit(16).map(|d| d as u8);
    text.as_bytes()
        .chunks(2)
        .map(|pair| Some(digit(pair[0])? << 4 | digit(*pair.get(1)?)?))
        .collect::<Option<_>>()
        .ok_or_else(|| Failure::Other(anyhow!("the node sent a packet that is not hexadecimal")))
}
