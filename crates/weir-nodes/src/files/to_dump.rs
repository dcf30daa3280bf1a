use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Stdout, Write};

use weir_io::pcap::{BUFFER, Encap, Format, PcapWriter};

use crate::prelude::*;
use weir_io::with_causes;

/// The capture cannot be written any more.
const WRITE_FAILED: Reason = Reason::new("WriteFailed");

engine_node! {
    /// Writes packets to a capture file (pcap), and passes them on if its output is connected.
    ///
    /// A hot swap does not begin the file anew.
    ToDump: "1/0-1", "a/a", Delay, Files;
    example "Idle -> ToDump(out.pcap);";
    params {
        /// The file; `-` is the standard output.
        pos filename: String,
        /// Most bytes of each packet that are written; 0: all.
        pos snaplen: u32 = 0,
        /// What packets begin with: `ETHER` or `IP`.
        pos encap: String = String::from("ETHER"),
        /// Whether times are written in nanoseconds, else in microseconds.
        key nano: bool = true,
        /// Accepted for Click's sake: packets have no length beside that of their bytes.
        key extra_length: bool = true,
        /// Whether each packet is written to the disk at once.
        key unbuffered: bool = false,
    }
    handlers {
        /// Number of packets written.
        read count = |d, _| Ok(d.state.count.to_string()),
        /// Writes to the disk what is buffered.
        write flush = |d, _, _| match &mut d.state.file {
            Dump::Open(w) => w.flush().map_err(|e| with_causes(&e)),
            _ => Ok(()),
        },
        /// Name of the file.
        read filename = |d, _| Ok(d.filename.clone()),
    }
    state Writing;
}

#[derive(Default)]
struct Writing {
    file: Dump,
    count: u64,
}

#[derive(Default)]
enum Dump {
    /// Nothing to write to, or writing failed.
    #[default]
    Closed,
    /// Opened, but not emptied: the file of the graph before a swap may go on.
    Ready(Target),
    Open(PcapWriter<BufWriter<Target>>),
}

enum Target {
    File(File),
    Stdout(Stdout),
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Target::File(f) => f.write(bytes),
            Target::Stdout(s) => s.write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match self {
            Target::File(f) => f.flush(),
            Target::Stdout(s) => s.flush(),
        }
    }
}

impl ToDump {
    fn is_ip(&self) -> bool {
        self.encap.eq_ignore_ascii_case("IP")
    }

    /// Empties the file and writes its header, when that was not done yet.
    fn begin(&mut self, cx: &mut Cx<'_>) {
        let target = match std::mem::take(&mut self.state.file) {
            Dump::Ready(target) => target,
            other => {
                self.state.file = other;
                return;
            }
        };
        if let Target::File(f) = &target
            && let Err(e) = f.set_len(0)
        {
            return self.fails(&e, cx);
        }
        let snaplen = if self.snaplen == 0 { 262_144 } else { self.snaplen };
        let encap = if self.is_ip() { Encap::Ip } else { Encap::Ether };
        let format = Format { snaplen, encap, nano: self.nano };
        let buffered = BufWriter::with_capacity(BUFFER, target);
        match PcapWriter::with_format(&self.filename, buffered, format) {
            Ok(writer) => self.state.file = Dump::Open(writer),
            Err(e) => self.fails(&e, cx),
        }
    }

    fn fails(&mut self, error: &dyn std::error::Error, cx: &mut Cx<'_>) {
        self.state.file = Dump::Closed;
        let (graph, text) = (cx.env().running.clone(), format!("{}: {}", cx.name(), with_causes(error)));
        cx.env().notice(Some(&graph), "print", text);
    }

    fn write(&mut self, packet: &Packet, cx: &mut Cx<'_>) -> bool {
        self.begin(cx);
        let Dump::Open(writer) = &mut self.state.file else { return false };
        let mut done = writer.write(packet);
        if self.unbuffered && done.is_ok() {
            done = writer.flush();
        }
        match done {
            Ok(()) => self.state.count += 1,
            Err(e) => self.fails(&e, cx),
        }
        matches!(self.state.file, Dump::Open(_))
    }

    /// The end of a packet that is not passed on.
    fn end(&mut self, mut packet: Packet, written: bool, cx: &mut Cx<'_>) {
        if written {
            let path = format!("written to {}", self.filename);
            cx.leaves(&mut packet, &path);
        } else {
            cx.drop(&WRITE_FAILED, packet);
        }
    }
}

impl Behavior for ToDump {
    fn open(&mut self, _env: &mut Env) -> Result<(), String> {
        if !self.is_ip() && !matches!(self.encap.to_ascii_uppercase().as_str(), "ETHER" | "ETHERNET") {
            return Err(format!("ENCAP {}: give ETHER or IP", self.encap));
        }
        let target = match self.filename.as_str() {
            "-" => Target::Stdout(std::io::stdout()),
            file => {
                let opened = OpenOptions::new().write(true).create(true).truncate(false).open(file);
                Target::File(opened.map_err(|e| format!("{file}: cannot create the capture: {e}"))?)
            }
        };
        self.state.file = Dump::Ready(target);
        Ok(())
    }

    fn push(&mut self, _port: u32, packets: &mut Vec<Packet>, cx: &mut Cx<'_>) {
        let passes = cx.ports().1 > 0;
        for packet in packets.drain(..) {
            let written = self.write(&packet, cx);
            if passes {
                cx.emit(0, packet);
            } else {
                self.end(packet, written, cx);
            }
        }
    }

    fn pull(&mut self, _port: u32, cx: &mut Cx<'_>) -> Option<Packet> {
        let packet = cx.pull(0)?;
        self.write(&packet, cx);
        Some(packet)
    }

    fn has_task(&self) -> bool {
        true
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> Ran {
        self.begin(cx);
        if cx.input_is_push(0) || cx.ports().1 > 0 {
            return Ran::Idle;
        }
        for _ in 0..32 {
            let Some(packet) = cx.pull(0) else { return Ran::Idle };
            let written = self.write(&packet, cx);
            self.end(packet, written, cx);
        }
        Ran::Busy
    }

    fn adopt(&mut self, old: &mut dyn EngineNode) {
        let Some(old) = old.as_any().downcast_mut::<ToDump>() else { return };
        if old.filename == self.filename && old.snaplen == self.snaplen {
            self.state = std::mem::take(&mut old.state);
        }
    }
}
