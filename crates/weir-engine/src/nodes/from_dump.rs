use weir_io::pcap::PcapReader;
use weir_net::Headers;
use weir_packet::Layer;

use super::limit::flag;
use super::prelude::*;
use crate::device::with_causes;

/// A packet is not IP.
const NOT_IP: Reason = Reason::new("NotIp");

engine_node! {
    /// Reads packets from a capture file (pcap or pcapng, Ethernet).
    FromDump: "0/1-2", "h/h", Source;
    example "FromDump(in.pcap, STOP true) -> Discard;";
    params {
        /// The file; `-` is the standard input.
        pos filename: String,
        /// Whether packets come at the pace at which they were captured.
        key timing: bool = false,
        /// Whether to end the run after the last packet.
        key stop: bool = false,
        /// Whether it reads now.
        key active: bool = true,
        /// Whether packets that are not IP leave on output 1, or are dropped (`NotIp`); of the others the network and
        /// transport headers are marked.
        key force_ip: bool = false,
        /// Most packets that are read at a time.
        key burst: u32 = 32,
        /// Accepted for Click's sake: files are read as a stream.
        key mmap: bool = false,
    }
    handlers {
        /// Number of packets read so far.
        read count = |d, _| Ok(d.state.count.to_string()),
        /// Whether it reads.
        read active = |d, _| Ok(d.active.to_string()),
        /// Lets it read, or not.
        write active = |d, value, _| { d.active = flag(value)?; Ok(()) },
        /// Name of the file.
        read filename = |d, _| Ok(d.filename.clone()),
    }
    state Reading;
}

#[derive(Default)]
struct Reading {
    reader: Option<PcapReader>,
    count: u64,
    /// With timing: the packet that is next, and how far the file's time is behind the clock.
    next: Option<Packet>,
    behind: Option<u64>,
}

impl FromDump {
    fn next(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        if let Some(packet) = self.state.next.take() {
            return Some(packet);
        }
        match self.state.reader.as_mut()?.next_packet() {
            Ok(Some(packet)) => return Some(packet),
            Ok(None) => {}
            Err(e) => {
                let (graph, text) = (cx.env.running.clone(), format!("{}: {}", cx.name(), with_causes(&e)));
                cx.env.notice(Some(&graph), "print", text);
            }
        }
        self.state.reader = None;
        cx.env.stop |= self.stop;
        None
    }

    fn send(&mut self, mut packet: Packet, cx: &mut Cx<'_>) {
        self.state.count += 1;
        if self.force_ip && !mark_ip(&mut packet) {
            if cx.ports().1 > 1 {
                cx.emit(1, packet);
            } else {
                cx.drop(&NOT_IP, packet);
            }
            return;
        }
        cx.emit(0, packet);
    }
}

fn mark_ip(packet: &mut Packet) -> bool {
    let Some(h) = Headers::of_frame(packet.bytes()) else { return false };
    let data = packet.data();
    packet.set_layer(Layer::Net, Some(data + h.net as u32));
    packet.set_layer(Layer::Transport, h.transport.map(|t| data + t as u32).filter(|&t| t <= packet.end()));
    true
}

impl Behavior for FromDump {
    fn open(&mut self, _env: &mut Env) -> Result<(), String> {
        let reader = match self.filename.as_str() {
            "-" => PcapReader::new("standard input", std::io::stdin()),
            file => PcapReader::open(file),
        };
        self.state.reader = Some(reader.map_err(|e| with_causes(&e))?);
        Ok(())
    }

    fn has_task(&self) -> bool {
        true
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> Ran {
        for _ in 0..self.burst.max(1) {
            if !self.active {
                return Ran::Idle;
            }
            let Some(packet) = self.next(cx) else { return Ran::Idle };
            if self.timing {
                let now = cx.now();
                let behind = *self.state.behind.get_or_insert(now.saturating_sub(packet.timestamp));
                let when = packet.timestamp.saturating_add(behind);
                if when > now {
                    self.state.next = Some(packet);
                    return Ran::Until(when);
                }
            }
            self.send(packet, cx);
        }
        Ran::Busy
    }

    fn adopt(&mut self, old: &mut dyn EngineNode) {
        let Some(old) = old.as_any().downcast_mut::<FromDump>() else { return };
        if old.filename == self.filename {
            self.state = std::mem::take(&mut old.state);
        }
    }
}
