use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use weir_elements::FromArg;
use weir_net::checksum::checksum;
use weir_packet::Layer;

use crate::common::delay::{nanos, seconds};
use crate::common::limit::{Data, Limit, flag};
use crate::prelude::*;

/// Lengths of the IP and of the ICMP echo header.
const IP_LEN: usize = 20;
const ECHO_LEN: usize = 8;
/// The most that fits an IP packet behind both headers.
const MOST_DATA: usize = 65_535 - IP_LEN - ECHO_LEN;
const REQUEST: u8 = 8;
const REPLY: u8 = 0;

engine_node! {
    /// Generates an ICMP echo request (a ping) in each interval, the first after one.
    ///
    /// Packets begin with the IP header; their sequence number and IP identification count from 1. Replies that come in
    /// are printed and counted, and end here. A pulled output gives a request for each pull.
    ICMPPingSource: "0-1/1", "h/a", Source, Graph;
    example "ICMPPingSource(10.0.0.1, 10.0.0.2, INTERVAL 0.2, LIMIT 5) -> Discard;";
    params {
        /// Source address.
        pos src: Ipv4Addr,
        /// Destination address.
        pos dst: Ipv4Addr,
        /// The interval.
        key interval: Duration = Duration::from_secs(1),
        /// Identifier of the requests; replies to others are not counted.
        key identifier: u16 = 0,
        /// How many requests.
        key limit: Limit = Limit::NONE => "-1",
        /// Whether to end the run an interval after the last request.
        key stop: bool = false,
        /// What follows the ICMP header.
        key data: Option<Data> = None,
        /// Whether it generates requests now.
        key active: bool = true,
        /// Whether replies are printed.
        key verbose: bool = true,
    }
    check |s| match s.data.as_ref().map_or(0, |d| d.of_length(None).len()) {
        0..=MOST_DATA => Ok(()),
        n => Err(format!("DATA: an IP packet has space for {MOST_DATA} bytes, not {n}")),
    };
    handlers {
        /// Number of requests generated so far.
        read count = |s, _| Ok(s.state.count.to_string()),
        /// Whether it generates requests.
        read active = |s, _| Ok(s.active.to_string()),
        /// Lets it generate requests, or not.
        write active = |s, value, _| { s.active = flag(value)?; Ok(()) },
        /// Source address.
        read src = |s, _| Ok(s.src.to_string()),
        /// Changes the source address.
        write src = |s, value, _| { s.src = Ipv4Addr::from_arg(value)?; Ok(()) },
        /// Destination address.
        read dst = |s, _| Ok(s.dst.to_string()),
        /// Changes the destination address.
        write dst = |s, value, _| { s.dst = Ipv4Addr::from_arg(value)?; Ok(()) },
        /// Changes how many requests it generates.
        write limit = |s, value, _| { s.limit = Limit::from_arg(value)?; Ok(()) },
        /// The interval.
        read interval = |s, _| Ok(seconds(s.interval)),
        /// Changes the interval.
        write interval = |s, value, _| { s.interval = Duration::from_arg(value)?; Ok(()) },
        /// Losses and round-trip times, in milliseconds, like ping(8).
        read summary = |s, _| Ok(s.state.summary()),
        /// The shortest round-trip time in seconds.
        read rtt_min = |s, _| Ok(s.state.rtt(s.state.shortest)),
        /// The average round-trip time in seconds.
        read rtt_avg = |s, _| Ok(s.state.rtt(s.state.average())),
        /// The longest round-trip time in seconds.
        read rtt_max = |s, _| Ok(s.state.rtt(s.state.longest)),
        /// Starts anew.
        write reset_counts = |s, _, _| { s.state = Pinging { next: s.state.next, ..Pinging::default() }; Ok(()) },
    }
    state Pinging;
}

/// Most requests that are pulled at a time.
const MOST_AT_A_TIME: u32 = 256;

#[derive(Default)]
struct Pinging {
    count: u64,
    /// When the next request is due.
    next: Option<u64>,
    /// When the request of each sequence number was sent, and whether a reply came.
    sent: BTreeMap<u16, (u64, bool)>,
    received: u64,
    duplicates: u64,
    /// Round-trip times in nanoseconds.
    shortest: u64,
    longest: u64,
    sum: u128,
    squares: u128,
    /// When requests were pulled last, and how many at that time.
    pulled: (u64, u32),
}

impl Pinging {
    fn reply(&mut self, sequence: u16, now: u64) -> Option<u64> {
        let (sent, answered) = self.sent.get_mut(&sequence)?;
        let time = now.saturating_sub(*sent);
        if std::mem::replace(answered, true) {
            self.duplicates += 1;
        }
        self.shortest = if self.received == 0 { time } else { self.shortest.min(time) };
        self.longest = self.longest.max(time);
        self.received += 1;
        self.sum = self.sum.saturating_add(time.into());
        self.squares = self.squares.saturating_add(u128::from(time) * u128::from(time));
        Some(time)
    }

    fn average(&self) -> u64 {
        (self.sum / u128::from(self.received.max(1))) as u64
    }

    fn rtt(&self, time: u64) -> String {
        weir_elements::time_text(time / 1000 * 1000)
    }

    fn summary(&self) -> String {
        let once = self.received - self.duplicates;
        let mut out = format!("{} packets transmitted, {once} received", self.count);
        if self.duplicates > 0 {
            out += &format!(", +{} duplicates", self.duplicates);
        }
        if let Some(lost) = (self.count.saturating_sub(once) * 100).checked_div(self.count) {
            out += &format!(", {lost}% packet loss\n");
        }
        if self.received > 0 {
            let average = u128::from(self.average());
            let variance = (self.squares / u128::from(self.received)).saturating_sub(average * average);
            let times = [self.shortest, self.average(), self.longest, variance.isqrt() as u64];
            out += &format!("rtt min/avg/max/mdev = {}\n", times.map(milliseconds).join("/"));
        }
        out
    }
}

fn milliseconds(nanoseconds: u64) -> String {
    format!("{}.{:03}", nanoseconds / 1_000_000, nanoseconds / 1000 % 1000)
}

impl ICMPPingSource {
    /// The next request; it has an IP identification that is not 0.
    fn make(&mut self, now: u64) -> Option<Packet> {
        let sequence = (self.state.count % 0xffff) as u16 + 1;
        let data = self.data.as_ref().map(|d| d.of_length(None)).unwrap_or_default();
        let mut echo = vec![REQUEST, 0, 0, 0];
        echo.extend(self.identifier.to_be_bytes());
        echo.extend(sequence.to_be_bytes());
        echo.extend(data);
        put16(&mut echo, 2, checksum);
        let len = u16::try_from(IP_LEN + echo.len()).ok()?;
        let mut bytes = vec![0x45, 0];
        bytes.extend(len.to_be_bytes());
        bytes.extend(sequence.to_be_bytes());
        bytes.extend([0, 0, 200, 1, 0, 0]);
        bytes.extend(self.src.octets());
        bytes.extend(self.dst.octets());
        put16(&mut bytes, 10, checksum);
        bytes.extend(echo);
        let mut packet = Packet::from_bytes(&bytes).ok()?;
        let data = packet.data();
        packet.set_layer(Layer::Net, Some(data));
        packet.set_layer(Layer::Transport, Some(data + IP_LEN as u32));
        for (to, from) in packet.anno.iter_mut().zip(self.dst.octets()) {
            *to = from;
        }
        packet.timestamp = now;
        self.state.count += 1;
        self.state.sent.insert(sequence, (now, false));
        Some(packet)
    }

    /// What to print about a reply; `None` if it is not one to a request of this element.
    fn hear(&mut self, packet: &Packet, now: u64) -> Option<String> {
        let ip = packet.from_layer(Layer::Net);
        let header = usize::from(ip.first()? & 15) * 4;
        let echo = ip.get(header..)?.get(..ECHO_LEN)?;
        let word = |at: usize| Some(u16::from_be_bytes(echo.get(at..at + 2)?.try_into().ok()?));
        if *ip.get(9)? != 1 || *echo.first()? != REPLY || word(4)? != self.identifier {
            return None;
        }
        let sequence = word(6)?;
        let came = if packet.timestamp == 0 { now } else { packet.timestamp };
        let time = milliseconds(self.state.reply(sequence, came)?);
        let from = Ipv4Addr::from(<[u8; 4]>::try_from(ip.get(12..16)?).ok()?);
        let len = u16::from_be_bytes(ip.get(2..4)?.try_into().ok()?);
        let len = usize::from(len).saturating_sub(header + ECHO_LEN);
        Some(format!("{len} bytes from {from}: icmp_seq={sequence} ttl={} time={time} ms", ip.get(8)?))
    }
}

/// Writes what follows from all bytes.
fn put16(bytes: &mut [u8], at: usize, value: fn(&[u8]) -> u16) {
    let value = value(bytes).to_be_bytes();
    if let Some(place) = bytes.get_mut(at..at + 2) {
        place.copy_from_slice(&value);
    }
}

impl Behavior for ICMPPingSource {
    fn push(&mut self, _port: u32, packets: &mut Vec<Packet>, cx: &mut Cx<'_>) {
        for mut packet in packets.drain(..) {
            let heard = self.hear(&packet, cx.now());
            if let Some(text) = heard.filter(|_| self.verbose) {
                let graph = cx.env().running.clone();
                let text = format!("{} :: ICMPPingSource: {text}", cx.name());
                cx.env().notice(Some(&graph), "print", text);
            }
            cx.leaves(&mut packet, "heard as a reply");
        }
    }

    fn pull(&mut self, _port: u32, cx: &mut Cx<'_>) -> Option<Packet> {
        if !self.active {
            return None;
        }
        if self.limit.reached(self.state.count) {
            if self.stop {
                cx.env().ask_stop();
            }
            return None;
        }
        // Whoever pulls as long as there is something would never come to an end.
        let now = cx.now();
        if self.state.pulled.0 != now {
            self.state.pulled = (now, 0);
        }
        if self.state.pulled.1 >= MOST_AT_A_TIME {
            cx.try_at(now + 1);
            return None;
        }
        self.state.pulled.1 += 1;
        self.make(now)
    }

    fn has_task(&self) -> bool {
        true
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> Ran {
        let now = cx.now();
        if !self.active || !cx.output_is_push(0) {
            // Who is switched on again begins at once.
            self.state.next = Some(now);
            return Ran::Idle;
        }
        let next = *self.state.next.get_or_insert(now.saturating_add(nanos(self.interval)));
        if now < next {
            return Ran::Until(next);
        }
        if self.limit.reached(self.state.count) {
            if self.stop {
                cx.env().ask_stop();
            }
            return Ran::Idle;
        }
        if let Some(packet) = self.make(now) {
            cx.emit(0, packet);
        }
        // One that is late by more than an interval does not catch up.
        let next = next.saturating_add(nanos(self.interval));
        let next = if next > now { next } else { now.saturating_add(nanos(self.interval).max(1)) };
        self.state.next = Some(next);
        Ran::Until(next)
    }

    fn adopt(&mut self, old: &mut dyn EngineNode) {
        if let Some(old) = old.as_any().downcast_mut::<ICMPPingSource>() {
            self.state = std::mem::take(&mut old.state);
        }
    }
}
