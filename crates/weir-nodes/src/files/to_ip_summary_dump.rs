use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};

use weir_elements::time_text;

use crate::files::summary::{Fields, Form, View, extra_packets};
use crate::prelude::*;

/// The dump cannot be written any more.
const WRITE_FAILED: Reason = Reason::new("WriteFailed");

engine_node! {
    /// Writes a summary of each packet to a file, one line a packet, and passes the packets on if its output is
    /// connected.
    ///
    /// A line has the fields that are asked for, separated by blanks, or `-` where a packet has none. Lines that
    /// begin with `!` describe the dump. `FromIPSummaryDump` reads it. Fields:
    ///
    /// - times and marks: `timestamp`, `ntimestamp`, `ts_sec`, `ts_usec`, `ts_usec1`, `first_timestamp`,
    ///   `first_ntimestamp`, `count`, `link`, `paint`, `direction`, `aggregate`, `wire_len`
    /// - Ethernet: `eth_src`, `eth_dst`, `eth_type`
    /// - IP: `ip_src`, `ip_dst`, `ip_tos`, `ip_dscp`, `ip_ecn`, `ip_ttl`, `ip_frag`, `ip_fragoff`, `ip_id`,
    ///   `ip_sum`, `ip_proto`, `ip_hl`, `ip_len`, `ip_capture_len`, `ip_opt` (`ip_` may be left out)
    /// - TCP and UDP: `sport`, `dport`, `udp_len`, `tcp_seq`, `tcp_ack`, `tcp_off`, `tcp_flags`, `tcp_window`,
    ///   `tcp_urp`, `tcp_opt`, `tcp_ntopt` (without timestamps), `tcp_sack`
    /// - ICMP: `icmp_type`, `icmp_code`, `icmp_type_name`, `icmp_code_name`, `icmp_flowid`, `icmp_seq`,
    ///   `icmp_nextmtu`
    /// - `payload`, `payload_len`, `payload_md5`, `payload_md5_hex`
    ///
    /// A packet of a pulled or unconnected chain ends here; if the file cannot be written, it is dropped
    /// (`WriteFailed`). A hot swap goes on with the file.
    ToIPSummaryDump: "1/0-1", "a/a", Delay, Files;
    example "Idle -> ToIPSummaryDump(out.dump, FIELDS timestamp ip_src sport ip_dst dport ip_proto);";
    params {
        /// The file; `-` is the standard output.
        pos filename: String,
        /// The fields, separated by blanks. Default: `timestamp ip_src`.
        key fields: Option<Fields> = None,
        /// The same as FIELDS.
        key contents: Option<Fields> = None,
        /// The same as FIELDS.
        key data: Option<Fields> = None,
        /// Whether the dump begins with lines that describe it.
        key header: bool = true,
        /// Whether these have the host and the time as well.
        key verbose: bool = false,
        /// Who made the dump, for these lines.
        key banner: String = String::new(),
        /// Whether to write binary records instead of lines.
        key binary: bool = false,
        /// Whether a packet that stands for several (extra packets annotation) gets as many lines.
        key multipacket: bool = false,
        /// Whether a line `!bad …` goes before packets with bad headers.
        key bad_packets: bool = false,
        /// Whether packets shorter than their IP length are bad packets.
        key careful_trunc: bool = true,
        /// Whether the extra length annotation counts.
        key extra_length: bool = true,
    }
    handlers {
        /// Number of lines or records written.
        read count = |d, _| Ok(d.state.count.to_string()),
        /// Name of the file.
        read filename = |d, _| Ok(d.filename.clone()),
        /// Writes to the file what is buffered.
        write flush = |d, _, _| d.state.flush().map_err(|e| format!("{}: {e}", d.filename)),
    }
    state Writing;
}

#[derive(Default)]
struct Writing {
    target: Target,
    count: u64,
    line: Vec<u8>,
}

#[derive(Default)]
enum Target {
    /// Nothing to write to, or writing failed.
    #[default]
    Closed,
    /// Opened, but not emptied: the file of the graph before a swap may go on.
    Ready(File),
    File(BufWriter<File>),
    /// The standard output, before and after the first line.
    StdoutReady,
    Stdout,
}

impl Writing {
    /// Writes what is in `line`.
    fn put(&mut self) -> io::Result<()> {
        match &mut self.target {
            Target::File(f) => f.write_all(&self.line),
            Target::Stdout => io::stdout().lock().write_all(&self.line),
            _ => Ok(()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.target {
            Target::File(f) => f.flush(),
            Target::Stdout => io::stdout().flush(),
            _ => Ok(()),
        }
    }

    fn open(&self) -> bool {
        matches!(self.target, Target::File(_) | Target::Stdout)
    }
}

impl ToIPSummaryDump {
    fn fields(&self) -> Fields {
        let given = self.fields.as_ref().or(self.contents.as_ref()).or(self.data.as_ref());
        given.cloned().unwrap_or_else(|| {
            Fields(["timestamp", "ip_src"].iter().filter_map(|n| crate::files::summary::find(n)).collect())
        })
    }

    /// Empties the file and describes the dump, when that was not done yet.
    fn begin(&mut self, cx: &mut Cx<'_>) {
        let begun = match std::mem::take(&mut self.state.target) {
            Target::Ready(file) => file.set_len(0).map(|()| Target::File(BufWriter::new(file))),
            Target::StdoutReady => Ok(Target::Stdout),
            other => {
                self.state.target = other;
                return;
            }
        };
        let done = begun.and_then(|target| {
            self.state.target = target;
            self.fields = Some(self.fields());
            self.state.line.clear();
            if self.header {
                let head = self.head(cx.now());
                self.state.line.extend(head.as_bytes());
            }
            self.state.put()
        });
        if let Err(e) = done {
            self.fails(&e, cx);
        }
    }

    fn head(&self, now: u64) -> String {
        let mut head = "!IPSummaryDump 1.3\n".to_owned();
        if !self.banner.is_empty() {
            head += &format!("!creator {}\n", weir_click::quote(self.banner.as_bytes()));
        }
        if self.verbose {
            if let Ok(host) = std::fs::read_to_string("/proc/sys/kernel/hostname") {
                head += &format!("!host {}\n", host.trim());
            }
            head += &format!("!runtime {}\n", time_text(now));
        }
        let name = |n: &'static str| if n == "ntimestamp" && !self.binary { "timestamp" } else { n };
        let names: Vec<&str> = self.fields().0.iter().map(|f| name(f.name)).collect();
        head += &format!("!data {}\n", names.join(" "));
        if self.binary {
            head += "!binary\n";
        }
        head
    }

    fn fails(&mut self, error: &io::Error, cx: &mut Cx<'_>) {
        self.state.target = Target::Closed;
        let (graph, text) = (cx.env().running.clone(), format!("{}: {}: {error}", cx.name(), self.filename));
        cx.env().notice(Some(&graph), "print", text);
    }

    /// Writes a packet; false if that fails.
    fn write(&mut self, packet: &Packet, cx: &mut Cx<'_>) -> bool {
        self.begin(cx);
        let mut count = 1;
        if self.multipacket && !self.fields().0.iter().any(|f| f.name == "count") {
            count += extra_packets(packet);
        }
        for i in 0..count {
            if !self.state.open() {
                return false;
            }
            self.state.line.clear();
            self.summary(packet, i, count);
            match self.state.put() {
                Ok(()) => self.state.count += 1,
                Err(e) => self.fails(&e, cx),
            }
        }
        self.state.open()
    }

    /// Appends line `i` of `count` that a packet gets.
    fn summary(&mut self, packet: &Packet, i: u32, count: u32) {
        let mut view = View::new(packet, self.careful_trunc);
        if !self.extra_length {
            view.extra_length = 0;
        }
        if count > 1 {
            view.share(i, count);
        }
        let Fields(fields) = self.fields.as_ref().unwrap_or(const { &Fields(Vec::new()) });
        let got: Vec<_> = fields.iter().map(|f| (f, (f.get)(&view))).collect();
        let line = &mut self.state.line;
        let absent = || got.iter().find_map(|(_, g)| view.complaint(g.as_ref().err().copied()?));
        if self.bad_packets
            && let Some(problem) = view.problem.clone().or_else(absent)
        {
            let text = format!("!bad {problem}\n");
            if self.binary {
                line.extend(((text.len() as u32 + 4) | (1 << 31)).to_be_bytes());
            }
            line.extend(text.as_bytes());
        }
        if self.binary {
            let start = line.len();
            line.extend([0; 4]);
            for (field, value) in &got {
                field.form.write(value.as_ref().ok(), line);
            }
            let len = (line.len() - start) as u32;
            if let Some(place) = line.get_mut(start..start + 4) {
                place.copy_from_slice(&len.to_be_bytes());
            }
            return;
        }
        let mut text = String::new();
        for (i, (field, value)) in got.iter().enumerate() {
            if i > 0 {
                text.push(' ');
            }
            match value {
                Ok(value) => (field.print)(&view, value, &mut text),
                Err(_) => text.push('-'),
            }
        }
        text.push('\n');
        line.extend(text.as_bytes());
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

impl Behavior for ToIPSummaryDump {
    fn open(&mut self, _env: &mut Env) -> Result<(), String> {
        let fields = self.fields();
        if self.binary
            && let Some(field) = fields.0.iter().find(|f| f.form == Form::TextOnly)
        {
            return Err(format!("FIELDS: {} cannot be written with BINARY true", field.name));
        }
        self.fields = Some(fields);
        self.state.target = match self.filename.as_str() {
            "-" => Target::StdoutReady,
            file => {
                let opened = OpenOptions::new().write(true).create(true).truncate(false).open(file);
                Target::Ready(opened.map_err(|e| format!("{file}: cannot create the dump: {e}"))?)
            }
        };
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
        if cx.input_is_push(0) || (cx.ports().1 > 0 && !cx.output_is_push(0)) {
            return Ran::Idle;
        }
        let passes = cx.ports().1 > 0;
        for _ in 0..32 {
            let Some(packet) = cx.pull(0) else { return Ran::Idle };
            let written = self.write(&packet, cx);
            if passes {
                cx.emit(0, packet);
            } else {
                self.end(packet, written, cx);
            }
        }
        Ran::Busy
    }

    fn adopt(&mut self, old: &mut dyn EngineNode) {
        let Some(old) = old.as_any().downcast_mut::<ToIPSummaryDump>() else { return };
        let names = |d: &ToIPSummaryDump| d.fields().0.iter().map(|f| f.name).collect::<Vec<_>>();
        if old.filename == self.filename && old.binary == self.binary && names(old) == names(self) {
            self.state = std::mem::take(&mut old.state);
        }
    }
}
