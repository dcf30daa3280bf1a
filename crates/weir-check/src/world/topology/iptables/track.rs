//! Connection tracking, as Linux does it: which state the connection of a packet is in, and when a connection is known.
//!
//! Connections are distinguished by addresses, protocol, ports of TCP and UDP, and identifiers of ICMP queries. Sequence numbers
//! and checksums are not looked at, as with `nf_conntrack_tcp_be_liberal`. Fragments wait for each other, and go on as the
//! packet that they are parts of. Packets with IP options are not followed: they end here.

use std::time::Duration;

use weir_ir::program::TableId;
use weir_ir::{Builder, E, Layer, Reason, TableDecl, V, Width};
use weir_table::Kind;
use weir_topology::import::iptables::ConnState;

use super::STATE;
use super::chains::number;
use super::nat;

/// Most connections that are known.
const CONNECTIONS: u32 = 1 << 16;
/// How long a connection without packets is known.
const PATIENCE: Duration = Duration::from_secs(300);
pub(super) const ICMP: u8 = 1;
const TCP: u128 = 6;
const UDP: u128 = 17;
const TCP_HEADER: u32 = 20;
const UDP_HEADER: u32 = 8;
/// ICMP queries (RFC 792, RFC 950): request and reply.
const QUERIES: [(u8, u8); 4] = [(8, 0), (13, 14), (15, 16), (17, 18)];
/// The number of a reply follows from that of its query.
const REPLY: u16 = 0x100;
/// ICMP errors (RFC 792).
pub(super) const ERRORS: [u8; 5] = [3, 4, 5, 11, 12];

/// The tables of connections.
#[derive(Debug, Clone, Copy)]
pub(super) struct Connections {
    /// An entry for each direction, by what packets are when they come in.
    pub all: TableId,
    /// One entry, if there is any connection.
    some: TableId,
}

/// Declares the tables, which the programs of a box share.
pub(super) fn tables(b: &mut Builder) -> Connections {
    let key = [
        ("src", Width::W32),
        ("dst", Width::W32),
        ("sport", Width::W16),
        ("dport", Width::W16),
        ("proto", Width::W8),
    ];
    // What packets become: where they come from and go to, and ports or ICMP identifier and kind of query.
    let value = [
        ("to_src", Width::W32),
        ("to_dst", Width::W32),
        ("to_first", Width::W16),
        ("to_second", Width::W16),
        ("reply", Width::W1),
        ("replied", Width::W1),
    ];
    let decl = TableDecl::new("connections", Kind::Exact, &key, &value, CONNECTIONS);
    let all = b.table(TableDecl { shared_name: Some("connections".into()), ..decl }, Vec::new());
    let decl = TableDecl::new("some", Kind::Exact, &[("zero", Width::W8)], &[], 1);
    let some = b.table(TableDecl { shared_name: Some("some".into()), ..decl }, Vec::new());
    Connections { all, some }
}

impl Connections {
    /// Notes that there is a connection, and goes on; the last of what is done with the packet.
    pub(super) fn note(self, b: &mut Builder, then: &dyn Fn(&mut Builder)) {
        let zero = b.constant(Width::W8, 0_u8);
        // There is space for the only entry that anybody makes.
        let entry = b.insert(self.some, &[zero], |b| then(b));
        keep(b, entry);
        then(b);
    }
}

/// The names of the connection of a packet.
pub(super) struct Flow {
    /// Source, destination, then ports or ICMP identifier and kind of query, and the protocol.
    pub key: [V; 5],
    /// The same of packets of the other direction, if nothing is translated.
    pub reply: [V; 5],
    /// What in `reply` may be another number for the connection to be one of its own.
    pub hole: Option<u32>,
    /// The packet may begin a connection.
    pub may_begin: V,
}

/// Finds the state of the packet's connection, and writes it down. The packet has a whole IPv4 header at `net`.
/// With `nat`, destinations of known connections change.
pub(super) fn look(b: &mut Builder, connections: Connections, nat: bool) {
    let fragment = b.load(Width::W16, Layer::Net, 6);
    let part = b.and(fragment, 0x3fff);
    let is_part = b.ne(part, 0);
    b.when(is_part, |b| b.drop(Reason::new("WaitsForFragments")));
    let first = b.load(Width::W8, Layer::Net, 0);
    let plain = b.eq(first, 0x45);
    b.unless(plain, |b| b.drop(Reason::new("IpOptions")));
    mark_transport(b);
    let proto = b.load(Width::W8, Layer::Net, 9);
    let icmp = b.eq(proto, 1);
    b.if_else(
        icmp,
        |b| {
            let error = b.choose_has(
                Layer::Transport,
                8,
                |b| {
                    let kind = b.load(Width::W8, Layer::Transport, 0);
                    one_of(b, kind, &ERRORS)
                },
                |b| b.constant(Width::W1, 0_u8),
            );
            b.if_else(error, |b| related(b, connections, nat), |b| of_flow(b, connections, nat));
        },
        |b| of_flow(b, connections, nat),
    );
    b.clear_mark(Layer::Cursor);
    b.clear_mark(Layer::Transport);
}

/// Makes the connection of a packet that begins one known: both directions of it, or none. Ends: by `out`.
pub(super) fn confirm(b: &mut Builder, connections: Connections, out: &dyn Fn(&mut Builder)) {
    let state = b.load_anno(Width::W8, STATE);
    let new = b.eq(state, number(ConnState::New));
    b.unless(new, |b| out(b));
    let leave = |b: &mut Builder| {
        b.clear_mark(Layer::Transport);
        out(b);
    };
    mark_transport(b);
    flow(b, Layer::Net, &|b, flow| {
        let Some(flow) = flow else { return leave(b) };
        let forth = b.insert(connections.all, &flow.key, |b| b.drop(Reason::FULL));
        let back = b.insert(connections.all, &flow.reply, |b| {
            b.remove(forth);
            b.drop(Reason::FULL);
        });
        for (entry, reply) in [(forth, 0_u8), (back, 1)] {
            b.set(entry, "reply", reply);
            keep(b, entry);
        }
        connections.note(b, &leave);
    });
}

/// Lets a connection be known for a while.
pub(super) fn keep(b: &mut Builder, entry: E) {
    b.touch(entry, PATIENCE.as_nanos() as u64);
}

/// The state of a packet that is no ICMP error.
fn of_flow(b: &mut Builder, connections: Connections, nat: bool) {
    flow(b, Layer::Net, &|b, flow| {
        let Some(flow) = flow else { return set(b, ConnState::Invalid) };
        let new = b.constant(Width::W8, number(ConnState::New));
        let known = b.constant(Width::W8, number(ConnState::Established));
        b.lookup(
            connections.all,
            &flow.key,
            |b, entry| {
                keep(b, entry);
                let is_reply = b.get(entry, "reply");
                b.if_else(
                    is_reply,
                    |b| {
                        b.store_anno(STATE, known);
                        let first = if nat { origin(b, entry, &flow) } else { flow.reply };
                        b.lookup(connections.all, &first, |b, first| b.set(first, "replied", 1_u8), |_| {});
                    },
                    |b| {
                        let replied = b.get(entry, "replied");
                        let state = b.select(replied, known, new);
                        b.store_anno(STATE, state);
                    },
                );
                if nat {
                    nat::arrive(b, entry);
                }
            },
            |b| {
                let state = b.select(flow.may_begin, new, number(ConnState::Invalid));
                b.store_anno(STATE, state);
                if nat {
                    nat::begin(b, &flow);
                }
            },
        );
    });
}

/// What the packets of the other direction are when they come in: the opposite of what those of this one become.
fn origin(b: &mut Builder, entry: E, flow: &Flow) -> [V; 5] {
    let [src, dst, first, second] = ["to_src", "to_dst", "to_first", "to_second"].map(|f| b.get(entry, f));
    let (first, second) = match flow.hole {
        // A reply to a query: its kind is that of the query.
        Some(2) => (first, flow.reply[3]),
        _ => (second, first),
    };
    [dst, src, first, second, flow.key[4]]
}

/// An ICMP error is related to the connection of the packet that it is about, if it goes to who sent that.
fn related(b: &mut Builder, connections: Connections, nat: bool) {
    set(b, ConnState::Invalid);
    // Where there is no connection, it need not be looked at.
    let zero = b.constant(Width::W8, 0_u8);
    b.lookup(connections.some, &[zero], |b, _| quoted(b, connections.all, nat), |_| {});
}

/// The state of an ICMP error where there are connections.
fn quoted(b: &mut Builder, connections: TableId, nat: bool) {
    b.if_has(
        Layer::Transport,
        28,
        |b| {
            b.set_mark(Layer::Cursor, Layer::Transport, 8);
            let first = b.load(Width::W8, Layer::Cursor, 0);
            let (to, sender) = (b.load(Width::W32, Layer::Net, 16), b.load(Width::W32, Layer::Cursor, 12));
            let (plain, back) = (b.eq(first, 0x45), b.eq(to, sender));
            let good = b.and(plain, back);
            b.when(good, |b| {
                b.set_mark(Layer::Transport, Layer::Cursor, 20);
                flow(b, Layer::Cursor, &|b, flow| {
                    let Some(flow) = flow else { return };
                    // Both directions of a connection are there: it goes where those of the other one do.
                    b.lookup(
                        connections,
                        &flow.reply,
                        |b, entry| {
                            set(b, ConnState::Related);
                            if nat {
                                nat::error(b, entry, flow.hole);
                            }
                        },
                        |_| {},
                    );
                });
            });
        },
        |_| {},
    );
}

fn set(b: &mut Builder, state: ConnState) {
    let state = b.constant(Width::W8, number(state));
    b.store_anno(STATE, state);
}

/// Sets `transport` behind the IPv4 header at `net`, which has no options.
pub(super) fn mark_transport(b: &mut Builder) {
    b.require(Layer::Net, 20, Reason::TRUNCATED);
    b.set_mark(Layer::Transport, Layer::Net, 20);
}

pub(super) fn one_of(b: &mut Builder, v: V, list: &[u8]) -> V {
    let mut any = b.constant(Width::W1, 0_u8);
    for n in list {
        let same = b.eq(v, *n);
        any = b.or(any, same);
    }
    any
}

/// Goes on with what names the connection of the packet of the IPv4 header at `net` and what stands at `transport`; with
/// nothing, if it can be of no connection.
pub(super) fn flow(b: &mut Builder, net: Layer, then: &dyn Fn(&mut Builder, Option<Flow>)) {
    let (src, dst) = (b.load(Width::W32, net, 12), b.load(Width::W32, net, 16));
    let proto = b.load(Width::W8, net, 9);
    let keys = move |own: [V; 2], other: [V; 2]| {
        ([src, dst, own[0], own[1], proto], [dst, src, other[0], other[1], proto])
    };
    b.switch(proto, &[ICMP.into(), TCP, UDP], |b, case| {
        let always = b.constant(Width::W1, 1_u8);
        let least = match case {
            Some(0) => 8,
            // Who has no whole header is of no connection, and would not be translated. What an ICMP error quotes is cut.
            Some(1) if net == Layer::Net => TCP_HEADER,
            Some(_) if net == Layer::Net => UDP_HEADER,
            Some(_) => 4,
            None => {
                let none = b.constant(Width::W16, 0_u16);
                let (key, reply) = keys([none; 2], [none; 2]);
                return then(b, Some(Flow { key, reply, hole: None, may_begin: always }));
            }
        };
        b.if_has(
            Layer::Transport,
            least,
            |b| {
                if case == Some(0) {
                    return query(b, &keys, then);
                }
                let sport = b.load(Width::W16, Layer::Transport, 0);
                let dport = b.load(Width::W16, Layer::Transport, 2);
                let may_begin = if least == TCP_HEADER {
                    // SYN alone, or ACK without FIN, SYN and RST: one that began earlier (nf_conntrack_tcp_loose).
                    let flags = b.load(Width::W8, Layer::Transport, 13);
                    let bits = b.and(flags, 0x17);
                    let (syn, ack) = (b.eq(bits, 0x02), b.eq(bits, 0x10));
                    b.or(syn, ack)
                } else {
                    always
                };
                let (key, reply) = keys([sport, dport], [dport, sport]);
                then(b, Some(Flow { key, reply, hole: Some(3), may_begin }));
            },
            |b| then(b, None),
        );
    });
}

/// A key in both directions, of two numbers in each.
type Keys<'k> = &'k dyn Fn([V; 2], [V; 2]) -> ([V; 5], [V; 5]);

/// ICMP queries and their replies: the identifier and the kind of query stand for ports.
fn query(b: &mut Builder, keys: Keys<'_>, then: &dyn Fn(&mut Builder, Option<Flow>)) {
    let kind = b.load(Width::W8, Layer::Transport, 0);
    let id = b.load(Width::W16, Layer::Transport, 4);
    let none = b.constant(Width::W16, 0_u16);
    let (mut own, mut other, mut asks) = (none, none, b.constant(Width::W1, 0_u8));
    for (request, reply) in QUERIES {
        let (is_request, is_reply) = (b.eq(kind, request), b.eq(kind, reply));
        let query = b.constant(Width::W16, u16::from(request));
        let answer = b.constant(Width::W16, REPLY | u16::from(request));
        for (is, here, there) in [(is_request, query, answer), (is_reply, answer, query)] {
            own = b.select(is, here, own);
            other = b.select(is, there, other);
        }
        asks = b.or(asks, is_request);
    }
    let known = b.ne(own, 0);
    b.if_else(
        known,
        |b| {
            let (key, reply) = keys([id, own], [id, other]);
            then(b, Some(Flow { key, reply, hole: Some(2), may_begin: asks }));
        },
        |b| then(b, None),
    );
}
