use std::net::Ipv4Addr;

use weir_net::{EtherAddr, Ipv4, build};

use crate::common::gap::Gap;
use crate::common::limit::{Limit, flag};
use crate::prelude::*;

engine_node! {
    /// Generates UDP packets in Ethernet frames at a rate, for measurements. It is pulled.
    FastUDPSource: "0/1", "l/l", Source, Process;
    example "FastUDPSource(100000, 500000, 60, 02:00:00:00:00:01, 10.0.0.1, 1234, 02:00:00:00:00:02, 10.0.0.2, 1234) -> Discard;";
    params {
        /// Packets per second.
        pos rate: u32,
        /// How many packets.
        pos limit: Limit,
        /// Length of the frames, at least 60.
        pos length: u32,
        /// Ethernet address of the sender.
        pos srceth: EtherAddr,
        /// Address of the sender.
        pos srcip: Ipv4Addr,
        /// Port of the sender.
        pos sport: u16,
        /// Ethernet address of the receiver.
        pos dsteth: EtherAddr,
        /// Address of the receiver.
        pos dstip: Ipv4Addr,
        /// Port of the receiver.
        pos dport: u16,
        /// Whether packets have a UDP checksum.
        pos checksum: bool = true,
        /// After so many packets both ports grow by 1; 0: they stay.
        pos interval: u32 = 0,
        /// Whether it generates packets now.
        pos active: bool = true,
        /// Whether to end the run after the last packet.
        key stop: bool = false,
    }
    check |s| if (60..=9000).contains(&s.length) { Ok(()) } else { Err("LENGTH: write a number from 60 to 9000".into()) };
    handlers {
        /// Number of packets generated so far.
        read count = |s, _| Ok(s.state.count.to_string()),
        /// Packets per second.
        read rate = |s, _| Ok(s.rate.to_string()),
        /// Changes the rate.
        write rate = |s, value, _| {
            s.rate = <u32 as weir_elements::FromArg>::from_arg(value)?;
            s.state.gap.reset();
            Ok(())
        },
        /// Starts anew.
        write reset = |s, _, _| { s.state = Made::default(); Ok(()) },
        /// Whether it generates packets.
        read active = |s, _| Ok(s.active.to_string()),
        /// Lets it generate packets, or not.
        write active = |s, value, _| { s.active = flag(value)?; Ok(()) },
    }
    state Made;
}

/// Length of the headers of Ethernet, IPv4 and UDP.
const HEADERS: usize = 42;
/// Time to live, as in Click.
const TTL: u8 = 250;

#[derive(Default)]
struct Made {
    count: u64,
    gap: Gap,
    /// The frame, and for which ports it is.
    frame: Vec<u8>,
    ports: [u16; 2],
}

impl FastUDPSource {
    fn refresh(&mut self) {
        let turns = self.state.count.checked_div(self.interval.into()).unwrap_or(0) as u16;
        let ports = [self.sport.wrapping_add(turns), self.dport.wrapping_add(turns)];
        if ports == self.state.ports && !self.state.frame.is_empty() {
            return;
        }
        let payload = vec![0; self.length as usize - HEADERS];
        let mut frame = build::udp4((self.srcip, ports[0]), (self.dstip, ports[1]), &payload);
        frame[..6].copy_from_slice(&self.dsteth.octets());
        frame[6..12].copy_from_slice(&self.srceth.octets());
        if !self.checksum {
            frame[40..42].fill(0);
        }
        if let Ok(mut ip) = Ipv4::new(&mut frame[14..]) {
            ip.set_ttl(TTL);
            ip.fill_checksum();
        }
        self.state.frame = frame;
        self.state.ports = ports;
    }
}

impl Behavior for FastUDPSource {
    fn pull(&mut self, _port: u32, cx: &mut Cx<'_>) -> Option<Packet> {
        let now = cx.now();
        if !self.active || self.rate == 0 || self.limit.reached(self.state.count) {
            return None;
        }
        if !self.state.gap.is_due(now) {
            self.state.gap.due().into_iter().for_each(|due| cx.try_at(due));
            return None;
        }
        self.refresh();
        let mut packet = Packet::from_bytes(&self.state.frame).ok()?;
        packet.timestamp = now;
        self.state.gap.happened(now, 1, self.rate);
        self.state.count += 1;
        if self.limit.reached(self.state.count) && self.stop {
            cx.env().ask_stop();
        }
        Some(packet)
    }

    fn adopt(&mut self, old: &mut dyn EngineNode) {
        if let Some(old) = old.as_any().downcast_mut::<FastUDPSource>() {
            self.state.count = old.state.count;
        }
    }
}
