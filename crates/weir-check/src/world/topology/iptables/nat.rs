//! Translation of addresses by the table nat, as Linux does it: the first packet of a connection is asked of the rules, all
//! others go as it did. Destinations change before a packet is routed, sources when it leaves.

use std::net::IpAddr;

use weir_elements::build::{halves, update_checksum, update_ip_checksum, update_transport_checksum};
use weir_ir::{Builder, E, Layer, Reason, V, Width};
use weir_topology::import::iptables::{ConnState, NatRange, Target};

use super::chains::number;
use super::track::{self, Connections, Flow, ICMP};
use super::{STATE, sctp};

/// Offset of the annotation that says what is to happen to the source (1 byte): [`KNOWN`], [`FRESH`].
const SOURCE: u32 = 37;
/// It becomes what the annotations say.
pub(super) const KNOWN: u8 = 1;
/// The rules say.
const FRESH: u8 = 2;
/// Of an ICMP error: its address becomes what the annotation says.
pub(super) const QUOTES: u8 = 3;
/// Offsets of annotations: the address and port of the source to come, or of the destination that there was.
const ADDRESS: u32 = 32;
const PORT: u32 = 28;

/// Most addresses of a range.
const MAX_ADDRESSES: u32 = 64;
const TCP: u8 = 6;
const UDP: u8 = 17;

/// Where the port ranges end within which Linux stays if a source port is taken (`nf_nat_core.c`).
const CLASSES: [(u16, u16, u16); 3] = [(511, 1, 511), (1023, 600, 1023), (u16::MAX, 1024, u16::MAX)];

/// A change of an address and port; `None` stays.
#[derive(Debug, Clone, Copy)]
pub(super) struct Change {
    pub address: Option<(u32, u32)>,
    pub ports: Option<(u16, u16)>,
}

impl Change {
    /// What a target makes of packets, where `own` is the address of the interface. `None` if that is not modelled.
    pub(super) fn of(target: &Target, own: Option<u32>) -> Option<Change> {
        let range = |r: &NatRange| {
            let address = match r.addresses {
                None => None,
                Some((IpAddr::V4(lo), IpAddr::V4(hi))) => Some((u32::from(lo), u32::from(hi))),
                Some(_) => return None,
            };
            let few = address.is_none_or(|(lo, hi)| lo <= hi && hi - lo < MAX_ADDRESSES);
            few.then_some(Change { address, ports: r.ports })
        };
        match target {
            Target::Snat(r) | Target::Dnat(r) => range(r),
            Target::Masquerade(ports) | Target::Redirect(ports) => {
                own.map(|own| Change { address: Some((own, own)), ports: *ports })
            }
            _ => None,
        }
    }

    /// Goes on with an address of the range, any of them.
    fn address(&self, b: &mut Builder, was: V, then: &dyn Fn(&mut Builder, V)) {
        let Some((lo, hi)) = self.address else { return then(b, was) };
        super::super::send::choose(b, (hi - lo + 1) as usize, |b, i| {
            let address = b.constant(Width::W32, lo + i as u32);
            then(b, address);
        });
    }
}

/// The packet is of a connection that is known: its destination becomes what the entry says, and its source will.
pub(super) fn arrive(b: &mut Builder, entry: E) {
    let (address, port) = (b.get(entry, "to_src"), b.get(entry, "to_first"));
    remember(b, KNOWN, address, port);
    let (dst, second) = (b.get(entry, "to_dst"), b.get(entry, "to_second"));
    rewrite(b, Side::Destination, dst, second);
}

/// The packet may begin a connection: remembers where it goes to, before the rules change that.
pub(super) fn begin(b: &mut Builder, flow: &Flow) {
    let [_, dst, _, second, _] = flow.key;
    remember(b, FRESH, dst, second);
}

pub(super) fn remember(b: &mut Builder, what: u8, address: V, port: V) {
    let what = b.constant(Width::W8, what);
    b.store_anno(SOURCE, what);
    b.store_anno(ADDRESS, address);
    b.store_anno(PORT, port);
}

/// Forgets what an earlier box remembered.
pub(super) fn forget(b: &mut Builder) {
    let none = b.constant(Width::W8, 0_u8);
    b.store_anno(SOURCE, none);
}

/// Whether the packet is of no known connection (1 bit).
pub(super) fn is_fresh(b: &mut Builder) -> V {
    let what = b.load_anno(Width::W8, SOURCE);
    b.eq(what, FRESH)
}

/// An ICMP error about a packet that a connection changed: it goes to who sent that, and quotes what that sent. `entry` is of
/// packets of the connection that go where the error does; the quoted header stands at `cursor`, what it carries at
/// `transport`. As Linux's `nf_nat_icmp_reply_translation`, but for the checksum of a quoted header of TCP or UDP, which stays.
pub(super) fn error(b: &mut Builder, entry: E, hole: Option<u32>) {
    b.require(Layer::Net, 24, Reason::TRUNCATED);
    let [src, dst, first, second] = ["to_src", "to_dst", "to_first", "to_second"].map(|f| b.get(entry, f));
    let (quoted_src, quoted_dst) =
        (b.load(Width::W32, Layer::Cursor, 12), b.load(Width::W32, Layer::Cursor, 16));
    let addresses = [halves(b, quoted_src), halves(b, quoted_dst)].concat();
    let others = [halves(b, dst), halves(b, src)].concat();
    let sum = b.load(Width::W16, Layer::Cursor, 10);
    let updated = update_checksum(b, sum, &addresses, &others);
    let (mut old, mut new) = ([&addresses[..], &[sum]].concat(), [&others[..], &[updated]].concat());
    let mut words: Vec<(u32, V)> = Vec::new();
    match hole {
        Some(2) => {
            let [id, sum] = [4, 2].map(|at| b.load(Width::W16, Layer::Transport, at));
            words.push((2, update_checksum(b, sum, &[id], &[first])));
            words.push((4, first));
        }
        Some(_) => words.extend([(0, second), (2, first)]),
        None => {}
    }
    for (at, word) in &words {
        old.push(b.load(Width::W16, Layer::Transport, *at));
        new.push(*word);
    }
    // That of the error, behind a header without options.
    let outer = b.load(Width::W16, Layer::Net, 22);
    let outer = update_checksum(b, outer, &old, &new);
    b.store(Layer::Net, 22, outer);
    b.store(Layer::Cursor, 10, updated);
    b.store(Layer::Cursor, 12, dst);
    b.store(Layer::Cursor, 16, src);
    for (at, word) in words {
        b.store(Layer::Transport, at, word);
    }
    // Who sent it may be on the way: its own address changes only where that of the connection does.
    let hidden = b.ne(quoted_dst, src);
    b.when(hidden, |b| {
        let none = b.constant(Width::W16, 0_u16);
        remember(b, QUOTES, src, none);
    });
    address(b, 16, dst);
}

/// Changes an address of the packet, with the checksum of its header.
pub(super) fn address(b: &mut Builder, at: u32, to: V) {
    let old = b.load(Width::W32, Layer::Net, at);
    let (old, new) = (halves(b, old), halves(b, to));
    b.store(Layer::Net, at, to);
    update_ip_checksum(b, &old, &new);
}

/// Changes the destination of a packet that begins a connection. `out` has to end.
pub(super) fn destination(b: &mut Builder, change: &Change, out: &dyn Fn(&mut Builder)) {
    let (was, proto) = (b.load(Width::W32, Layer::Net, 16), b.load(Width::W8, Layer::Net, 9));
    let (tcp, udp) = (b.eq(proto, TCP), b.eq(proto, UDP));
    let has_ports = b.or(tcp, udp);
    track::mark_transport(b);
    let change = *change;
    let port = b.choose(
        has_ports,
        |b| {
            b.require(Layer::Transport, 4, Reason::TRUNCATED);
            match change.ports {
                Some((lo, hi)) => any_of(b, lo, hi),
                None => b.load(Width::W16, Layer::Transport, 2),
            }
        },
        |b| b.constant(Width::W16, 0_u16),
    );
    change.address(b, was, &|b, address| {
        rewrite(b, Side::Destination, address, port);
        out(b);
    });
}

/// Goes on with the change that the rules say, if they say one.
type Then<'a> = &'a (dyn Fn(&mut Builder, Option<&Change>) + 'a);

/// The code that a packet goes on with.
type Next<'a> = &'a dyn Fn(&mut Builder);

/// The packet leaves: its source becomes what was remembered, or what a change says. Ends: by `out`, or by `guess` if it is of
/// a protocol of which the rest is not modelled.
pub(super) fn leave(
    b: &mut Builder,
    connections: Connections,
    rules: &mut dyn FnMut(&mut Builder, Then<'_>),
    (out, guess): (Next<'_>, Next<'_>),
) {
    let what = b.load_anno(Width::W8, SOURCE);
    let known = b.eq(what, KNOWN);
    b.when(known, |b| {
        let (address, port) = (b.load_anno(Width::W32, ADDRESS), b.load_anno(Width::W16, PORT));
        rewrite(b, Side::Source, address, port);
        out(b);
    });
    let quotes = b.eq(what, QUOTES);
    b.when(quotes, |b| {
        b.require(Layer::Net, 20, Reason::TRUNCATED);
        let source = b.load_anno(Width::W32, ADDRESS);
        address(b, 12, source);
        out(b);
    });
    let (state, fresh) = (b.load_anno(Width::W8, STATE), b.eq(what, FRESH));
    let new = b.eq(state, number(ConnState::New));
    let other = b.and(new, fresh);
    b.unless(other, |b| out(b));
    rules(b, &|b, change| {
        let none = Change { address: None, ports: None };
        let change = *change.unwrap_or(&none);
        let was = b.load(Width::W32, Layer::Net, 12);
        change.address(b, was, &|b, source| {
            let one = sctp::is_one(b);
            b.when(one, |b| {
                address(b, 12, source);
                guess(b);
            });
            connect(b, connections, (source, change.ports), out);
        });
    });
}

/// Makes the connection of a packet that begins one known, with the source that it gets.
fn connect(
    b: &mut Builder,
    connections: Connections,
    (address, ports): (V, Option<(u16, u16)>),
    out: &dyn Fn(&mut Builder),
) {
    track::mark_transport(b);
    track::flow(b, Layer::Net, &|b, flow| {
        let Some(flow) = flow else { return out(b) };
        let [src, dst, first, second, proto] = flow.key;
        let (old_dst, old_second) = (b.load_anno(Width::W32, ADDRESS), b.load_anno(Width::W16, PORT));
        let mut reply = flow.reply;
        reply[1] = address;
        // A connection is known in both directions or not at all.
        let finish = |b: &mut Builder, own: V, claimed: Option<E>| {
            let mut reply = reply;
            if let Some(hole) = flow.hole {
                reply[hole as usize] = own;
            }
            let key = [src, old_dst, first, old_second, proto];
            let forth = b.insert(connections.all, &key, |b| {
                if let Some(back) = claimed {
                    b.remove(back);
                }
                b.drop(Reason::FULL);
            });
            let back = claimed.unwrap_or_else(|| {
                b.insert(connections.all, &reply, |b| {
                    b.remove(forth);
                    b.drop(Reason::FULL);
                })
            });
            // Of a reply, what names the connection at either end changes places; an ICMP identifier does not.
            let (back_first, back_second) =
                if flow.hole == Some(2) { (first, reply[3]) } else { (old_second, first) };
            let values = [
                (forth, [address, dst, own, second], 0_u8),
                (back, [old_dst, src, back_first, back_second], 1),
            ];
            for (entry, [src, dst, first, second], is_reply) in values {
                b.set(entry, "to_src", src);
                b.set(entry, "to_dst", dst);
                b.set(entry, "to_first", first);
                b.set(entry, "to_second", second);
                b.set(entry, "reply", is_reply);
                track::keep(b, entry);
            }
            connections.note(b, &|b| {
                rewrite(b, Side::Source, address, own);
                out(b);
            });
        };
        let Some(hole) = flow.hole else {
            b.lookup(connections.all, &reply, |b, _| b.drop(Reason::new("TupleInUse")), |_| {});
            return finish(b, first, None);
        };
        // Its own, if that is free.
        let keep_if_free = |b: &mut Builder| {
            let mut key = reply;
            key[hole as usize] = first;
            b.lookup(connections.all, &key, |_, _| {}, |b| finish(b, first, None));
        };
        let claim = |b: &mut Builder, lo: u16, hi: u16| {
            let start = any_of(b, 0, hi - lo);
            let (lo, hi) = (b.constant(Width::W16, lo), b.constant(Width::W16, hi));
            let (entry, own) =
                b.claim(connections.all, &reply, hole, lo, hi, start, |b| b.drop(Reason::FULL));
            finish(b, own, Some(entry));
        };
        match ports {
            Some((lo, hi)) => {
                let (above, below) = (b.ge(first, u32::from(lo)), b.le(first, u32::from(hi)));
                let inside = b.and(above, below);
                b.when(inside, keep_if_free);
                claim(b, lo, hi);
            }
            None if hole == 2 => {
                keep_if_free(b);
                claim(b, 0, u16::MAX);
            }
            None => {
                keep_if_free(b);
                for (last, lo, hi) in CLASSES {
                    if last == u16::MAX {
                        return claim(b, lo, hi);
                    }
                    let here = b.le(first, u32::from(last));
                    b.when(here, |b| claim(b, lo, hi));
                }
            }
        }
    });
}

/// Any number of a range.
fn any_of(b: &mut Builder, lo: u16, hi: u16) -> V {
    if lo == hi {
        return b.constant(Width::W16, lo);
    }
    let random = b.random();
    let offset = b.rem(random, u32::from(hi - lo) + 1);
    let number = b.add(offset, u32::from(lo));
    b.resize(Width::W16, number)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Source,
    Destination,
}

/// Changes an address and what the transport header says of that side (a port, an ICMP identifier), with all checksums.
fn rewrite(b: &mut Builder, side: Side, address: V, port: V) {
    let (at, offset) = if side == Side::Source { (12, 0) } else { (16, 2) };
    let old = b.load(Width::W32, Layer::Net, at);
    let words = [halves(b, old), halves(b, address)];
    track::mark_transport(b);
    let proto = b.load(Width::W8, Layer::Net, 9);
    for (own, sum, least) in [(TCP, 16, 18), (UDP, 6, 8)] {
        let is = b.eq(proto, own);
        b.when(is, |b| {
            b.require(Layer::Transport, least, Reason::TRUNCATED);
            let before = b.load(Width::W16, Layer::Transport, offset);
            b.store(Layer::Transport, offset, port);
            update_transport_checksum(b, sum, own == UDP, [&words[0], &words[1]], [&[before], &[port]]);
        });
    }
    let icmp = b.eq(proto, ICMP);
    b.when(icmp, |b| {
        // The one side of a query is its identifier, the other its kind, which stays.
        b.require(Layer::Transport, 8, Reason::TRUNCATED);
        if side == Side::Source {
            let before = b.load(Width::W16, Layer::Transport, 4);
            b.store(Layer::Transport, 4, port);
            let field = b.load(Width::W16, Layer::Transport, 2);
            let updated = update_checksum(b, field, &[before], &[port]);
            b.store(Layer::Transport, 2, updated);
        }
    });
    b.store(Layer::Net, at, address);
    update_ip_checksum(b, &words[0], &words[1]);
    b.clear_mark(Layer::Transport);
}
