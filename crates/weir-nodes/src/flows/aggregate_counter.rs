use std::collections::BTreeMap;
use std::io::Write;
use std::net::Ipv4Addr;

use weir_packet::Layer;

use crate::common::limit::flag;
use crate::files::summary::{aggregate, extra_length, extra_packets};
use crate::prelude::*;

/// Most aggregates that are counted, so that hostile traffic does not fill the memory.
const MOST: usize = 1 << 22;
/// A packet belongs to an aggregate that is not counted.
const NOT_COUNTED: Reason = Reason::new("NotCounted");

engine_node! {
    /// Counts the packets, or the bytes, of each aggregate annotation.
    ///
    /// The handlers `write_file`, `write_text_file` and `write_ip_file` write the counts to a file, `-` being the
    /// standard output. A frozen counter, and what comes in on input 1, changes the counts of aggregates that it has seen,
    /// and makes no others; 4,194,304 are the most. With two outputs, packets that are not counted leave on output 1.
    AggregateCounter: "1-2/1-2", "a/ah", Delay, Files;
    example "Idle -> AggregateCounter(BYTES true) -> Discard;";
    params {
        /// Whether bytes are counted, and not packets.
        key bytes: bool = false,
        /// Whether what is in front of the IP header does not count.
        key ip_bytes: bool = false,
        /// Whether a packet counts as many as it stands for (extra packets annotation).
        key multipacket: bool = true,
        /// Whether bytes that were not captured (extra length annotation) count.
        key extra_length: bool = true,
        /// Ends the run when there are so many aggregates.
        key aggregate_stop: Option<u64> = None,
        /// Freezes when there are so many aggregates.
        key aggregate_freeze: Option<u64> = None,
        /// Ends the run when so much was counted.
        key count_stop: Option<u64> = None,
        /// Freezes when so much was counted.
        key count_freeze: Option<u64> = None,
        /// First line of the files.
        key banner: String = String::new(),
    }
    handlers {
        /// Number of aggregates.
        read nagg = |c, _| Ok(c.state.counts.len().to_string()),
        /// What was counted in all.
        read count = |c, _| Ok(c.state.total.to_string()),
        /// Whether no further aggregates are counted.
        read freeze = |c, _| Ok(c.state.frozen.to_string()),
        /// Freezes it, or not.
        write freeze = |c, value, _| { c.state.frozen = flag(value)?; Ok(()) },
        /// Whether it counts.
        read active = |c, _| Ok((!c.state.inactive).to_string()),
        /// Lets it count, or not.
        write active = |c, value, _| { c.state.inactive = !flag(value)?; Ok(()) },
        /// Ends counting, and the run.
        write stop = |c, _, env| { c.state.inactive = true; env.ask_stop(); Ok(()) },
        /// First line of the files.
        read banner = |c, _| Ok(c.banner.clone()),
        /// Changes the first line of the files.
        write banner = |c, value, _| { c.banner = value.to_owned(); Ok(()) },
        /// Writes the counts in binary, 32 bits each for aggregate and count, the lower byte first.
        write write_file = |c, file, _| c.write_to(file, &c.binary()),
        /// Writes a line for each aggregate: its number and its count.
        write write_text_file = |c, file, _| c.write_to(file, c.text("", |a| a.to_string()).as_bytes()),
        /// Writes a line for each aggregate, as an IP address.
        write write_ip_file = |c, file, _| c.write_to(file, c.text("!ip\n", |a| Ipv4Addr::from(a).to_string()).as_bytes()),
        /// Makes of each count an aggregate, and counts how often it occurs.
        write counts_pdf = |c, _, _| { c.counts_pdf(); Ok(()) },
        /// Forgets all counts.
        write clear = |c, _, _| { c.state.counts.clear(); c.state.total = 0; Ok(()) },
    }
    state Counts;
}

#[derive(Default)]
struct Counts {
    counts: BTreeMap<u32, u64>,
    total: u64,
    frozen: bool,
    inactive: bool,
}

impl AggregateCounter {
    /// Counts a packet; false if its aggregate is not counted.
    fn count(&mut self, packet: &Packet, port: u32, env: &mut Env) -> bool {
        if self.state.inactive {
            return false;
        }
        let amount = self.amount(packet);
        let full = self.state.frozen || port == 1 || self.state.counts.len() >= MOST;
        let counts = &mut self.state.counts;
        match counts.get_mut(&aggregate(packet)) {
            Some(count) => *count = count.saturating_add(amount),
            None if full => return false,
            None => {
                counts.insert(aggregate(packet), amount);
                let aggregates = counts.len() as u64;
                if self.aggregate_stop == Some(aggregates) {
                    env.ask_stop();
                }
                self.state.frozen |= self.aggregate_freeze == Some(aggregates);
            }
        }
        let before = self.state.total;
        self.state.total = before.saturating_add(amount);
        let reached = |limit: Option<u64>| limit.is_some_and(|n| before < n && self.state.total >= n);
        if reached(self.count_stop) {
            env.ask_stop();
        }
        self.state.frozen |= reached(self.count_freeze);
        true
    }

    fn amount(&self, packet: &Packet) -> u64 {
        if !self.bytes {
            return if self.multipacket { u64::from(extra_packets(packet)) + 1 } else { 1 };
        }
        let header = match packet.layer(Layer::Net) {
            Some(at) if self.ip_bytes => at.saturating_sub(packet.data()),
            _ => 0,
        };
        let extra = if self.extra_length { extra_length(packet) } else { 0 };
        (packet.len() as u64).saturating_sub(header.into()) + u64::from(extra)
    }

    fn head(&self) -> String {
        let mut head = "!IPAggregate 1.0\n".to_owned();
        if !self.banner.is_empty() {
            head = format!("{head}{}\n", self.banner.trim_end());
        }
        head + &format!("!num_nonzero {}\n", self.state.counts.len())
    }

    fn text(&self, kind: &str, name: fn(u32) -> String) -> String {
        let lines = self.state.counts.iter().map(|(a, n)| format!("{} {n}\n", name(*a)));
        self.head() + kind + &lines.collect::<String>()
    }

    fn binary(&self) -> Vec<u8> {
        let mut bytes = (self.head() + "!packed_le\n").into_bytes();
        for (aggregate, count) in &self.state.counts {
            bytes.extend(aggregate.to_le_bytes());
            bytes.extend(u32::try_from(*count).unwrap_or(u32::MAX).to_le_bytes());
        }
        bytes
    }

    fn write_to(&self, file: &str, bytes: &[u8]) -> Result<(), String> {
        let done = match file.trim() {
            "" => return Err("name a file, or - for the standard output".to_owned()),
            "-" => std::io::stdout().lock().write_all(bytes).and_then(|()| std::io::stdout().flush()),
            file => std::fs::write(file, bytes),
        };
        done.map_err(|e| format!("{}: {e}", file.trim()))
    }

    fn counts_pdf(&mut self) {
        let mut pdf = BTreeMap::new();
        for count in self.state.counts.values() {
            *pdf.entry(u32::try_from(*count).unwrap_or(u32::MAX)).or_insert(0) += 1;
        }
        self.state.total = pdf.values().sum();
        self.state.counts = pdf;
    }
}

impl Behavior for AggregateCounter {
    fn push(&mut self, port: u32, packets: &mut Vec<Packet>, cx: &mut Cx<'_>) {
        let (_, outputs) = cx.ports();
        for packet in packets.drain(..) {
            let counted = self.count(&packet, port, cx.env());
            cx.emit(if counted || outputs < 2 { 0 } else { 1 }, packet);
        }
    }

    fn pull(&mut self, _port: u32, cx: &mut Cx<'_>) -> Option<Packet> {
        let (_, outputs) = cx.ports();
        let packet = cx.pull(0)?;
        if self.count(&packet, 0, cx.env()) || outputs < 2 {
            return Some(packet);
        }
        cx.drop(&NOT_COUNTED, packet);
        None
    }

    fn adopt(&mut self, old: &mut dyn EngineNode) {
        if let Some(old) = old.as_any().downcast_mut::<AggregateCounter>() {
            self.state = std::mem::take(&mut old.state);
        }
    }
}
