use std::fs::File;
use std::io::{BufReader, Cursor};

use crate::common::limit::{Probability, Text, flag};
use crate::files::summary::{Reader, Spread};
use crate::prelude::*;

/// The random numbers below this times the probability take a packet.
const CERTAIN: u32 = 1 << 16;

engine_node! {
    /// Reads packets from a file of summaries, as `ToIPSummaryDump` writes it: one packet a line.
    ///
    /// What a line does not have is zero, but for the IP version and header length, the time to live (100), and the
    /// protocol. A packet has headers and the payload of the line; if its length is more than that, the extra length
    /// annotation says how much. Besides the lines of packets, there are lines `!data FIELD…`, `!proto PROTOCOL`,
    /// `!flowid SRC SPORT DST DPORT [PROTOCOL]`, `!aggregate NUMBER`, `!binary` and comments (`#`). The manual of
    /// `ToIPSummaryDump` lists the fields.
    FromIPSummaryDump: "0/1", "h/a", Source, Files;
    example "FromIPSummaryDump(in.dump, STOP true, CHECKSUM true, ALLOW_NONEXISTENT true) -> Discard;";
    example "FromIPSummaryDump(DATA \"!data ip_src ip_dst\n10.0.0.1 10.0.0.2\n\", STOP true) -> Discard;";
    params {
        /// The file; `-` is the standard input.
        pos filename: String = String::new(),
        /// Whether to end the run after the last packet.
        key stop: bool = false,
        /// Whether packets come at the pace of their timestamps.
        key timing: bool = false,
        /// Whether it reads now.
        key active: bool = true,
        /// Accepted for Click's sake: what the dump does not have is always zero.
        key zero: bool = true,
        /// Whether packets have all bytes of their IP length, and right IP, TCP, UDP and ICMP checksums.
        key checksum: bool = false,
        /// The IP protocol of packets whose line does not give it.
        key proto: u8 = 6,
        /// Whether a line whose count is more than one gives as many packets.
        key multipacket: bool = false,
        /// The probability with which a packet is taken.
        key sample: Probability = Probability(1.0),
        /// The fields of lines before the first `!data`.
        key fields: String = String::new(),
        /// The same as FIELDS.
        key contents: String = String::new(),
        /// The same as FIELDS.
        key default_fields: String = String::new(),
        /// The same as FIELDS.
        key default_contents: String = String::new(),
        /// Addresses and ports of packets that have no others: `SRC SPORT DST DPORT [PROTOCOL]`.
        key flowid: String = String::new(),
        /// The same as FLOWID.
        key default_flowid: String = String::new(),
        /// Whether it may be that there is no file.
        key allow_nonexistent: bool = false,
        /// The dump itself, instead of a file.
        key data: Option<Text> = None,
    }
    handlers {
        /// Number of packets read so far.
        read count = |d, _| Ok(d.state.count.to_string()),
        /// The probability with which a packet is taken.
        read sampling_prob = |d, _| Ok(d.sample.0.to_string()),
        /// Whether it reads.
        read active = |d, _| Ok(d.active.to_string()),
        /// Lets it read, or not.
        write active = |d, value, _| { d.active = flag(value)?; Ok(()) },
        /// What its packets begin with.
        read encap = |_, _| Ok("IP".to_owned()),
        /// Name of the file.
        read filename = |d, _| Ok(d.filename.clone()),
        /// Stops reading, and ends the run.
        write stop = |d, _, env| { d.active = false; env.ask_stop(); Ok(()) },
    }
    state Reading;
}

#[derive(Default)]
struct Reading {
    reader: Option<Reader>,
    count: u64,
    /// The packets that the line read last still gives.
    spread: Option<Spread>,
    /// With timing: the packet that is next, and how far the dump's time is behind the clock.
    next: Option<Packet>,
    behind: Option<u64>,
}

impl FromIPSummaryDump {
    fn report(cx: &mut Cx<'_>, text: String) {
        let graph = cx.env().running.clone();
        cx.env().notice(Some(&graph), "print", text);
    }

    /// The next packet that is taken.
    fn next(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        if let Some(packet) = self.state.next.take() {
            return Some(packet);
        }
        loop {
            let packet = self.read(cx)?;
            // Who takes all packets draws no random numbers, as in Click.
            let all = self.sample.0 >= 1.0;
            if all || f64::from(cx.env().random() % CERTAIN) < self.sample.0 * f64::from(CERTAIN) {
                return Some(packet);
            }
        }
    }

    fn read(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        if let Some(packet) = self.state.spread.as_mut().and_then(Spread::next) {
            return Some(packet);
        }
        let reader = self.state.reader.as_mut()?;
        let got = reader.next_packet();
        for warning in reader.take_warnings() {
            FromIPSummaryDump::report(cx, warning);
        }
        match got {
            Ok(Some(packet)) if self.multipacket => {
                let mut spread = Spread::new(packet);
                let packet = spread.next();
                self.state.spread = Some(spread);
                return packet;
            }
            Ok(Some(packet)) => return Some(packet),
            Ok(None) => {}
            Err(e) => FromIPSummaryDump::report(cx, format!("{}: {}: {e}", cx.name(), self.filename)),
        }
        self.state.reader = None;
        if self.stop {
            cx.env().ask_stop();
        }
        None
    }

    /// The next packet if it is time for it, or when it will be; `None` at the end.
    fn due(&mut self, cx: &mut Cx<'_>) -> Option<Result<Packet, u64>> {
        let packet = self.next(cx)?;
        if self.timing {
            let now = cx.now();
            let behind = *self.state.behind.get_or_insert(now.saturating_sub(packet.timestamp));
            let when = packet.timestamp.saturating_add(behind);
            if when > now {
                self.state.next = Some(packet);
                return Some(Err(when));
            }
        }
        self.state.count += 1;
        Some(Ok(packet))
    }

    fn source(&self) -> Result<Option<Reader>, String> {
        let reader = |source, name: &str| Reader::new(source, name, self.proto, self.checksum);
        match (&self.data, self.filename.as_str()) {
            (Some(_), name) if !name.is_empty() => Err("FILENAME and DATA exclude each other".to_owned()),
            (Some(data), _) => Ok(Some(reader(Box::new(Cursor::new(data.0.clone())), "DATA"))),
            (None, "") => Err("missing mandatory FILENAME argument (or DATA)".to_owned()),
            (None, "-") => Ok(Some(reader(Box::new(BufReader::new(std::io::stdin())), "<stdin>"))),
            (None, name) => match File::open(name) {
                Ok(file) => {
                    let empty = file.metadata().is_ok_and(|m| m.is_file() && m.len() == 0);
                    if empty && !self.allow_nonexistent {
                        return Err(format!("{name}: the dump is empty"));
                    }
                    Ok(Some(reader(Box::new(BufReader::new(file)), name)))
                }
                Err(e) if e.kind() == std::io::ErrorKind::NotFound && self.allow_nonexistent => Ok(None),
                Err(e) => Err(format!("{name}: {e}")),
            },
        }
    }
}

impl Behavior for FromIPSummaryDump {
    fn open(&mut self, env: &mut Env) -> Result<(), String> {
        let mut reader = self.source()?;
        if let Some(reader) = &mut reader {
            let fields = [&self.fields, &self.contents, &self.default_fields, &self.default_contents];
            if let Some(fields) = fields.into_iter().find(|f| !f.is_empty()) {
                reader.set_fields(fields);
            }
            if let Some(flow) = [&self.flowid, &self.default_flowid].into_iter().find(|f| !f.is_empty()) {
                reader.set_flow(flow);
            }
            let warnings = reader.take_warnings();
            if let Some(first) = warnings.first() {
                env.notice(None, "print", first.clone());
            }
        }
        self.state.reader = reader;
        Ok(())
    }

    fn pull(&mut self, _port: u32, cx: &mut Cx<'_>) -> Option<Packet> {
        if !self.active {
            return None;
        }
        self.due(cx)?.ok()
    }

    fn has_task(&self) -> bool {
        true
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> Ran {
        if !self.active || !cx.output_is_push(0) {
            return Ran::Idle;
        }
        // One at a time, so that sources take turns as in Click.
        match self.due(cx) {
            None => Ran::Idle,
            Some(Err(when)) => Ran::Until(when),
            Some(Ok(packet)) => {
                cx.emit(0, packet);
                Ran::Busy
            }
        }
    }

    fn adopt(&mut self, old: &mut dyn EngineNode) {
        let Some(old) = old.as_any().downcast_mut::<FromIPSummaryDump>() else { return };
        if old.filename == self.filename && old.data == self.data {
            self.state = std::mem::take(&mut old.state);
        }
    }
}
