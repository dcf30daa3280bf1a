use std::collections::HashSet;

use weir_ir::program::{BinOp, Layer, Width};

use super::headers::{IPV4, IPV6, Layout, by_net, bytes_at, net_at, net_of, original, version};
use super::{Bits, Checker, Field, Framing, Query, Verdict};
use crate::explore::session::Arrival;
use crate::explore::trace::Trace;
use crate::model::packet::SymbolicPacket;
use crate::network::Network;
use crate::solve::replay::{Counted, Replay};

/// `invariant SRC DST FIELD…`: on every path, each field has at DST the value that it had at SRC.
pub fn invariant(c: &mut Checker<'_>, q: &Query, fields: &[Field]) -> Verdict {
    let (net, watched) = (c.net, q.watched());
    let found = c.seek_arrivals(
        q,
        Some(&q.filter),
        Counted::Answers,
        (&watched, &HashSet::new()),
        |c, start, arrival| {
            let framings = (start.framing, q.framing_at(arrival.place));
            let paths = c.session.settled(&arrival.trace, &arrival.packet);
            c.any(paths, |c, (trace, packet)| {
                let arrival = Arrival { place: arrival.place, packet, trace };
                c.any(fields, |c, &field| {
                    let traces = changed(c, &arrival, framings, field);
                    c.search_all(traces, |r| differs(net, q, r, field, framings))
                })
            })
        },
    );
    c.none(found)
}

/// The traces in which a field may be another one than it was.
fn changed(c: &mut Checker<'_>, arrival: &Arrival, framings: (Framing, Framing), field: Field) -> Vec<Trace> {
    let packet = &arrival.packet;
    let number = arrival.trace.inputs() - 1;
    let (src_net, dst_net) = (net_of(framings.0), net_at(packet, framings.1));
    let now = |x: &mut crate::Exprs, at: i64| packet.byte(x, at);
    let then = original(c.session.exprs(), number);
    // Each: a trace, where the bits stand before and after (none: they cannot be the same), where IP's fields were.
    let mut places: Vec<(Trace, Option<Bits>, i64, i64, Layout)> = Vec::new();
    match field {
        Field::Ether(bits) => places.push((arrival.trace.clone(), Some(bits), 0, packet.data, IPV4)),
        Field::Transport(_) | Field::Payload => {
            let bits = if let Field::Transport(bits) = field { Some(bits) } else { None };
            for (trace, a) in c.by_header_length(&arrival.trace, src_net, &then) {
                for (trace, b) in c.by_header_length(&trace, dst_net, now) {
                    places.push((trace, bits, src_net + a.transport, dst_net + b.transport, a));
                }
            }
        }
        Field::Net { v4, v6 } => {
            for (a, b) in [(IPV4, IPV4), (IPV6, IPV6), (IPV4, IPV6), (IPV6, IPV4)] {
                let bits = if a == IPV4 { v4 } else { v6 };
                // Of packets that do not have the field nothing is asked.
                if a == b && bits.is_none() {
                    continue;
                }
                let x = c.session.exprs();
                let (was, is) = (version(x, &then, src_net, a), version(x, now, dst_net, b));
                let both = x.both(was, is);
                let trace = c.session.assume(arrival.trace.clone(), both);
                places.extend(trace.map(|s| (s, bits.filter(|_| a == b), src_net, dst_net, a)));
            }
        }
    }
    let mut out = Vec::new();
    for (trace, bits, a, b, layout) in places {
        match field {
            Field::Ether(_) | Field::Net { .. } | Field::Transport(_) => {
                let Some(Bits { offset, width, mask }) = bits else {
                    out.push(trace);
                    continue;
                };
                let (offset, n) = (i64::from(offset), i64::from(width.bytes()));
                let x = c.session.exprs();
                let m = x.constant(width, mask);
                let old = bytes_at(x, &then, a + offset, n);
                let new = bytes_at(x, now, b + offset, n);
                let (old, new) = (x.binary(BinOp::And, old, m), x.binary(BinOp::And, new, m));
                let same = x.equal(old, new);
                let other = x.not(same);
                out.extend(c.session.assume(trace, other));
            }
            Field::Payload => {
                // Within the transport header, what a NAT or a checksum element writes is no payload.
                let first = a + payload_offset(c, &trace, src_net, layout);
                let written = packet.mem.writes.range(first..).next().is_some();
                let same_source =
                    packet.source() == c.session.exprs().source_id(crate::model::expr::Source::Input(number));
                let whole = holds_all(c, &trace, packet, src_net, layout);
                if a != b || written || !same_source || !whole {
                    out.push(trace);
                }
            }
        }
    }
    out
}

/// Whether a packet on its path still reaches to where IP says that it ended when it came in.
fn holds_all(c: &mut Checker<'_>, trace: &Trace, packet: &SymbolicPacket, net: i64, layout: Layout) -> bool {
    let get = original(c.session.exprs(), trace.inputs() - 1);
    let x = c.session.exprs();
    let (at, more) = if layout.version == 6 { (4, 40) } else { (2, 0) };
    let len = bytes_at(x, get, net + at, 2);
    let len = x.resize(Width::W32, len);
    let (want, have) = (x.plus(len, net + more), x.plus(packet.end.0, packet.end.1));
    let enough = x.at_most(want, have);
    // The same, as elements ask it that check lengths: what is behind the header's start, where that is in the packet.
    let there = packet.reaches(x, net + more.max(1));
    let rest = packet.rest(x, net + more);
    let holds = x.at_most(len, rest);
    let is_so = |e| c.session.truth(trace, e) == Some(true);
    is_so(enough) || is_so(there) && is_so(holds)
}

/// Offset from the transport header of what counts as payload.
fn payload_offset(c: &mut Checker<'_>, trace: &Trace, net: i64, layout: Layout) -> i64 {
    let number = trace.inputs() - 1;
    let get = original(c.session.exprs(), number);
    let proto = get(c.session.exprs(), net + layout.proto);
    match c.session.value(trace, proto) {
        Some(6) => 20,
        Some(17) => 8,
        // Not known, or another protocol: the ports and a checksum may be there, but no more.
        _ => 20,
    }
}

/// Whether the field differs, in a run, between a packet that came in last and one that arrived.
fn differs(net: &Network, q: &Query, r: &Replay, field: Field, framings: (Framing, Framing)) -> bool {
    let from = r.starts.last().copied().unwrap_or(0);
    let Some(first) = r.hops.get(from) else { return false };
    let old = by_net(&first.before, net_of(framings.0) as usize, field);
    q.arrived(net, r, Counted::Answers).any(|(_, packet)| {
        let net = match framings.1 {
            Framing::Ethernet => 14,
            Framing::Ip => packet.layer(Layer::Net).map_or(0, |at| at.saturating_sub(packet.data()) as usize),
        };
        by_net(packet.bytes(), net, field) != old
    })
}
