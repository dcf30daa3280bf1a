//! Rewriting of TCP and UDP flows: what `IPRewriter`, `TCPRewriter` and `UDPRewriter` have in common.

use crate::fields::{ipv4, ports, tcp};
use weir_net::Tcp;

use super::live::Part;
use super::mapping::{self, Mappings, nanos};
use super::pattern::{InputSpec, Rule};
use super::shift::Shifts;
use crate::prelude::*;

/// Which flows a rewriter distinguishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kinds {
    /// TCP only.
    Tcp,
    /// TCP and UDP, by protocol.
    TcpAndUdp,
    /// TCP and UDP, whose flows may share a mapping; all have the timeouts of UDP.
    Any,
}

/// A rewriter of flows.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) kind: Kinds,
    pub(super) table: mapping::Settings,
    pub(super) tcp_timeout: Duration,
    pub(super) tcp_done_timeout: Duration,
    pub(super) tcp_nodata_timeout: Duration,
    pub(super) udp_timeout: Duration,
    pub(super) udp_streaming_timeout: Duration,
    pub(super) dst_anno: bool,
}

/// The tables of a rewriter of flows.
pub(super) struct Flows {
    pub(super) mappings: Mappings,
    pub(super) shifts: Option<Shifts>,
}

pub(super) const KEY: &[(&str, Width)] =
    &[("proto", W8), ("src", W32), ("sport", W16), ("dst", W32), ("dport", W16)];
pub(super) const VALUE: &[(&str, Width)] = &[
    ("new_src", W32),
    ("new_sport", W16),
    ("new_dst", W32),
    ("new_dport", W16),
    ("address_change", W16),
    ("change", W16),
    ("state", W8),
    ("settled_above", W8),
];

// Bits of a TCP mapping's state: `<< 1` for the reply direction.
pub(super) const TCP_DONE: u8 = 1;
pub(super) const TCP_DATA: u8 = 4;
// State of a UDP mapping: whether there was a reply (in the lowest bit), and packets (twice; at most 3 are counted).
const UDP_PACKET: u8 = 2;
pub(super) const UDP_PACKETS: u8 = 6;
// Above this, packets leave the state as it is: there were enough before, and replies if this is one.
const SETTLED: u8 = UDP_PACKETS - 1;
const SETTLED_BY_REPLY: u8 = UDP_PACKETS;

/// Key fields of the table: protocol, source address and port, destination address and port.
const DST: u32 = 3;
const DPORT: u32 = 4;

#[derive(Clone, Copy)]
pub(super) struct Flow {
    /// As in the table's key.
    pub(super) proto: V,
    pub(super) packet_proto: V,
    pub(super) src: V,
    pub(super) sport: V,
    pub(super) dst: V,
    pub(super) dport: V,
}

impl Flow {
    pub(super) fn key(self) -> [V; 5] {
        [self.proto, self.src, self.sport, self.dst, self.dport]
    }

    /// Both addresses as 16-bit words.
    fn addresses(self, b: &mut Builder) -> Vec<V> {
        [halves(b, self.src), halves(b, self.dst)].concat()
    }

    /// What an entry makes of it.
    pub(super) fn rewritten(self, b: &mut Builder, entry: E) -> Flow {
        Flow {
            src: b.get(entry, "new_src"),
            sport: b.get(entry, "new_sport"),
            dst: b.get(entry, "new_dst"),
            dport: b.get(entry, "new_dport"),
            ..self
        }
    }

    pub(super) fn reversed(self) -> Flow {
        Flow { src: self.dst, sport: self.dport, dst: self.src, dport: self.sport, ..self }
    }
}

impl Settings {
    /// Declares the tables. `own` stands before the names that the element has for them.
    pub(super) fn declare(&self, b: &mut Builder, own: &str) -> Flows {
        let mappings = Mappings::declare(b, &self.table, own);
        let shifts =
            self.table.inputs.1.shifts.then(|| Shifts::declare(b, &self.table.name, own, self.tcp_timeout));
        Flows { mappings, shifts }
    }

    /// The program of all inputs.
    pub(super) fn program(&self, b: &mut Builder) {
        let m = self.declare(b, "");
        for (input, spec) in self.table.inputs.0.iter().enumerate().take(b.inputs() as usize) {
            b.input(input as u32, |b| {
                let flow = self.flow_of_packet(b, spec);
                b.lookup(
                    m.mappings.map,
                    &flow.key(),
                    |b, entry| apply(b, self, &m, entry, flow, None),
                    |b| {
                        m.mappings.unknown(
                            b,
                            &self.table.inputs,
                            input,
                            (&flow.key(), flow.src),
                            &|b, number, rule| new_mapping(b, &m.mappings, number, rule, flow),
                            &|b, entry, first| apply(b, self, &m, entry, flow, first),
                        );
                    },
                );
            });
        }
    }

    /// Goes on with the entry of a flow, as if its first packet had come on an input; sends the packet to output 0 if
    /// the input's specification makes no mappings.
    pub(super) fn create(&self, b: &mut Builder, m: &Flows, input: usize, flow: Flow) -> E {
        let inputs = &self.table.inputs;
        let (map, key) = (m.mappings.map, flow.key());
        b.lookup(
            map,
            &key,
            |_, _| {},
            |b| match inputs.0.get(input) {
                Some(InputSpec::Map(_) | InputSpec::Mapper(_)) => {
                    m.mappings.make(b, inputs, input, flow.src, &|b, number, rule| {
                        new_mapping(b, &m.mappings, number, rule, flow)
                    });
                }
                _ => b.emit(0),
            },
        );
        let entry = b.find(map, &key, |b| b.emit(0));
        b.touch(entry, nanos(self.tcp_nodata_timeout));
        entry
    }

    /// Reads the flow of a packet and marks its transport header: 20 bytes of TCP or 8 of UDP are there.
    fn flow_of_packet(&self, b: &mut Builder, spec: &InputSpec) -> Flow {
        let refuse = |reason: Reason| {
            move |b: &mut Builder| match spec {
                InputSpec::Pass(out) => b.emit(*out),
                _ => b.drop(reason),
            }
        };
        require_ip(b);
        mark_transport(b, refuse(Reason::new("Fragment")), refuse(Reason::TRUNCATED));
        let proto = ipv4::PROTOCOL.load(b);
        let protocols = self.protocols();
        let cases: Vec<u128> = protocols.iter().map(|&p| p.into()).collect();
        b.switch(proto, &cases, |b, case| match case.and_then(|i| protocols.get(i)) {
            Some(&proto::TCP) => b.require_or(Layer::Transport, 20, refuse(Reason::TRUNCATED)),
            Some(_) => b.require_or(Layer::Transport, 8, refuse(Reason::TRUNCATED)),
            None => refuse(Reason::new("NotRewritable"))(b),
        });
        let of_table = if self.kind == Kinds::Any { b.constant(W8, 0_u8) } else { proto };
        Flow {
            proto: of_table,
            packet_proto: proto,
            src: ipv4::SRC.load(b),
            sport: ports::SRC.load(b),
            dst: ipv4::DST.load(b),
            dport: ports::DST.load(b),
        }
    }

    fn protocols(&self) -> &'static [u8] {
        match self.kind {
            Kinds::Tcp => &[proto::TCP],
            Kinds::TcpAndUdp | Kinds::Any => &[proto::TCP, proto::UDP],
        }
    }
}

/// Makes the two entries of a mapping; gives that of packets.
pub(super) fn new_mapping(
    b: &mut Builder,
    m: &Mappings,
    number: usize,
    rule: &Rule,
    flow: Flow,
) -> Option<E> {
    let pattern = rule.pattern?;
    m.require_space(b, number, flow.packet_proto);
    let live = m.live(b, number, &pattern);
    let mut new = Flow {
        src: live.src.fixed(flow.src),
        sport: live.sport.fixed(flow.sport),
        dst: live.dst.unwrap_or(flow.dst),
        dport: live.dport.unwrap_or(flow.dport),
        ..flow
    };
    let (key, reply_key) = (flow.key(), new.reversed().key());
    let (forward, reply) = match (live.src, live.sport) {
        (_, Part::OneOf(range)) => {
            let (f, r, port) = m.claim_pair(b, number, &key, &reply_key, DPORT, range, Some(flow.sport));
            new.sport = port;
            (f, r)
        }
        (Part::OneOf(range), _) => {
            let (f, r, addr) = m.claim_pair(b, number, &key, &reply_key, DST, range, None);
            new.src = addr;
            (f, r)
        }
        _ => m.insert_pair(b, &key, &reply_key),
    };
    for (e, from, to) in [(reply, new.reversed(), flow.reversed()), (forward, flow, new)] {
        b.set(e, "new_src", to.src);
        b.set(e, "new_sport", to.sport);
        b.set(e, "new_dst", to.dst);
        b.set(e, "new_dport", to.dport);
        // What the rewriting adds to the checksums is the same for all packets (RFC 1624).
        let (old, new) = (from.addresses(b), to.addresses(b));
        let addresses = checksum_change(b, &old, &new);
        let ports = checksum_change(b, &[from.sport, from.dport], &[to.sport, to.dport]);
        let all = b.sum16(addresses, ports);
        b.set(e, "address_change", addresses);
        b.set(e, "change", all);
    }
    m.tie(b, (forward, reply), number, rule.outputs);
    b.set(forward, "settled_above", SETTLED);
    b.set(reply, "settled_above", SETTLED_BY_REPLY);
    Some(forward)
}

/// Rewrites the packet as its entry says, follows the state of the flow, and lets the packet leave.
fn apply(b: &mut Builder, e: &Settings, m: &Flows, entry: E, flow: Flow, first: Option<u32>) {
    let new = flow.rewritten(b, entry);
    ipv4::SRC.store(b, new.src);
    ipv4::DST.store(b, new.dst);
    ports::SRC.store(b, new.sport);
    ports::DST.store(b, new.dport);
    let (addresses, all) = (b.get(entry, "address_change"), b.get(entry, "change"));
    apply_ip_change(b, addresses);
    if e.dst_anno {
        b.store_anno(anno::DST_IP, new.dst);
    }
    let is_tcp = b.eq(flow.packet_proto, proto::TCP);
    b.if_else(
        is_tcp,
        |b| {
            // Known already, but not where both protocols have met.
            b.require(Layer::Transport, 20, Reason::TRUNCATED);
            apply_transport_change(b, 16, false, addresses, all);
            match e.kind {
                Kinds::Any => udp_state(b, e, m, entry, flow),
                _ => tcp_state(b, e, m, entry, flow),
            }
            if let Some(shifts) = &m.shifts {
                shifts.apply(b, entry, flow, new);
            }
        },
        |b| {
            apply_transport_change(b, 6, true, addresses, all);
            udp_state(b, e, m, entry, flow);
        },
    );
    m.mappings.leave(b, entry, first);
}

/// Follows a TCP connection: which sides have sent data, which have finished.
fn tcp_state(b: &mut Builder, e: &Settings, m: &Flows, entry: E, flow: Flow) {
    let flags = tcp::FLAGS.load(b);
    let words = tcp::DATA_OFFSET.load(b);
    let words = b.shr(words, 4);
    let tcp_len = b.shl(words, 2);
    let tcp_len = b.resize(W32, tcp_len);
    let ip_len = ip_header_len(b);
    let headers = b.add(ip_len, tcp_len);
    let len = ipv4::LENGTH.load(b);
    let len = b.resize(W32, len);
    let payload = b.lt(headers, len);

    let reply = b.get(entry, "reply");
    let state = b.get(entry, "state");
    let shift = b.resize(W8, reply);
    let zero = b.constant(W8, 0_u8);
    let has = |b: &mut Builder, flag: u8| {
        let bit = b.and(flags, flag);
        b.ne(bit, 0)
    };
    let bit = |b: &mut Builder, bit: u8| {
        let bit = b.constant(W8, bit);
        b.shl(bit, shift)
    };
    let done = bit(b, TCP_DONE);
    let data = bit(b, TCP_DATA);
    // RST ends both sides, FIN this one; SYN and data show that it lives.
    let (rst, fin, syn) = (has(b, Tcp::RST), has(b, Tcp::FIN), has(b, Tcp::SYN));
    let alive = b.or(syn, payload);
    let not_done = b.not(done);
    let reopened = b.and(state, not_done);
    let next = b.select(alive, reopened, state);
    let finished = b.or(state, done);
    let next = b.select(fin, finished, next);
    let reset = b.or(state, TCP_DONE | TCP_DONE << 1);
    let next = b.select(rst, reset, next);
    let data = b.select(payload, data, zero);
    let next = b.or(next, data);
    set_state(b, m, entry, flow, state, next);

    let all = |b: &mut Builder, bit: u8| {
        let both = bit | bit << 1;
        let bits = b.and(next, both);
        b.eq(bits, both)
    };
    let (both_done, both_data) = (all(b, TCP_DONE), all(b, TCP_DATA));
    let [done, data, no_data] =
        [e.tcp_done_timeout, e.tcp_timeout, e.tcp_nodata_timeout].map(|t| b.constant(W64, nanos(t)));
    let timeout = b.select(both_data, data, no_data);
    let timeout = b.select(both_done, done, timeout);
    b.touch(entry, timeout);
}

/// Follows a UDP flow: whether it is more than a question and an answer.
fn udp_state(b: &mut Builder, e: &Settings, m: &Flows, entry: E, flow: Flow) {
    let state = b.get(entry, "state");
    let settled_above = b.get(entry, "settled_above");
    // So it is for nearly all packets.
    let settled = b.gt(state, settled_above);
    let next = b.choose(
        settled,
        |_| state,
        |b| {
            let reply = b.get(entry, "reply");
            let reply = b.resize(W8, reply);
            let next = b.or(state, reply);
            let few = b.lt(next, UDP_PACKETS);
            let more = b.add(next, UDP_PACKET);
            let next = b.select(few, more, next);
            set_state(b, m, entry, flow, state, next);
            next
        },
    );
    let streaming = b.gt(next, UDP_PACKETS);
    // Each path with its own constant, so that the code need not work the time out for each packet.
    let touch = |b: &mut Builder, t: Duration| {
        let timeout = b.constant(W64, nanos(t));
        b.touch(entry, timeout);
    };
    b.if_else(streaming, |b| touch(b, e.udp_streaming_timeout), |b| touch(b, e.udp_timeout));
}

/// Both entries of a mapping have its state.
fn set_state(b: &mut Builder, m: &Flows, entry: E, flow: Flow, old: V, next: V) {
    let changed = b.ne(old, next);
    b.when(changed, |b| {
        b.set(entry, "state", next);
        // Read again: packets that change nothing, nearly all, need not keep it.
        let new = flow.rewritten(b, entry);
        b.lookup(m.mappings.map, &new.reversed().key(), |b, other| b.set(other, "state", next), |_| {});
    });
}
