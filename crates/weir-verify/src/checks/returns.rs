use super::headers::{IPV4, IPV6, Layout, bytes_at, net_at, net_of, original};
use super::{Checker, Framing, Query, Search, Start, Target, Verdict};
use crate::explore::frontier::Interest;
use crate::explore::session::Arrival;
use crate::explore::trace::Trace;
use crate::model::expr::Expr;
use crate::model::packet::SymbolicPacket;
use crate::network::NodePort;
use crate::solve::replay::Counted;

/// The path of replies.
#[derive(Debug, Clone)]
pub struct ReturnPath {
    /// Where replies of a place of DST enter the network.
    pub replies: Vec<(NodePort, Start)>,
    /// SRC, as a place that packets come to.
    pub home: Vec<Target>,
}

const TCP: u128 = 6;
const UDP: u128 = 17;
/// SCTP, DCCP and UDP-Lite, whose ports stand where those of UDP do.
const OTHERS: [u128; 3] = [132, 33, 136];

/// `return SRC DST FILTER`: as [`can`](super::can), and the reply (addresses and ports swapped; of TCP a SYN/ACK that
/// acknowledges; protocols without ports have none) reaches SRC again, as the reply to what it sent, through the state that
/// the packet left.
pub fn returns(c: &mut Checker<'_>, q: &Query, return_path: &ReturnPath) -> Verdict {
    // What the first packet leaves in tables counts for the reply.
    let later = return_path.home.iter().map(|t| t.place).collect();
    let found = c.seek_arrivals(q, None, Counted::Sent, (&q.watched(), &later), |c, start, arrival| {
        let framing = q.framing_at(arrival.place);
        let reply = return_path.replies.iter().find(|(p, _)| *p == arrival.place);
        let Some((_, reply)) = reply.filter(|_| q.came_by(&arrival)) else { return Search::Impossible };
        let traces = c.filtered(arrival.trace.clone(), framing, &q.filter, true);
        c.any(traces, |c, trace| {
            let kinds = [TCP, UDP].into_iter().chain(OTHERS).flat_map(|proto| [(IPV4, proto), (IPV6, proto)]);
            c.any(kinds, |c, kind| {
                let answers = answers(c, &trace, &arrival, framing, reply, kind);
                c.any(answers, |c, back| home(c, &back, start, return_path, kind.0))
            })
        })
    });
    c.exists(found)
}

/// The traces with the reply to what arrived, about to enter: one, unless where the ports of what arrived stand depends on
/// more than its header.
pub(super) fn answers(
    c: &mut Checker<'_>,
    trace: &Trace,
    arrival: &Arrival,
    framing: Framing,
    reply: &Start,
    (layout, proto): (Layout, u128),
) -> Vec<Trace> {
    let net = net_at(&arrival.packet, framing);
    let Some(trace) = c.plain(trace, net, layout, |x, at| arrival.packet.byte(x, at)) else {
        return Vec::new();
    };
    let paths = c.session.settled(&trace, &arrival.packet);
    paths
        .into_iter()
        .filter_map(|(trace, asked)| answer(c, &trace, &asked, framing, reply, (layout, proto)))
        .collect()
}

/// The same of a packet all of whose bytes stand at known positions, without options.
fn answer(
    c: &mut Checker<'_>,
    trace: &Trace,
    asked: &SymbolicPacket,
    framing: Framing,
    reply: &Start,
    (layout, proto): (Layout, u128),
) -> Option<Trace> {
    let net = net_at(asked, framing);
    let seen = |x: &mut crate::Exprs, at: i64| asked.byte(x, at);
    let x = c.session.exprs();
    let is_proto = seen(x, net + layout.proto);
    let is_proto = x.is(is_proto, proto);
    let trace = c.session.assume(trace.clone(), is_proto)?;
    let mut back = c.session.packet(&trace, reply.place, &reply.input)?;
    let get = original(c.session.exprs(), back.inputs() - 1);
    let at = net_of(reply.framing);
    back = c.plain(&back, at, layout, &get)?;
    let mut conditions = Vec::new();
    let x = c.session.exprs();
    let mut equal = |x: &mut crate::Exprs, to: i64, from: i64, n: i64| {
        let (a, b) = (bytes_at(x, &get, at + to, n), bytes_at(x, seen, net + from, n));
        let same = x.equal(a, b);
        conditions.push(same);
    };
    equal(x, layout.src, layout.dst, layout.address);
    equal(x, layout.dst, layout.src, layout.address);
    equal(x, layout.proto, layout.proto, 1);
    equal(x, layout.transport, layout.transport + 2, 2);
    equal(x, layout.transport + 2, layout.transport, 2);
    let mut is = |x: &mut crate::Exprs, to: i64, n: i64, v: u128| {
        let a = bytes_at(x, &get, at + to, n);
        let same = x.is(a, v);
        conditions.push(same);
    };
    if layout == IPV4 {
        // No fragment; long enough.
        is(x, 6, 2, 0);
    }
    is(x, if layout == IPV4 { 8 } else { 7 }, 1, 64);
    if proto == TCP {
        is(x, layout.transport + 12, 1, 0x50);
        is(x, layout.transport + 13, 1, 0x12);
        let seq = bytes_at(x, seen, net + layout.transport + 4, 4);
        let next = x.plus(seq, 1);
        let ack = bytes_at(x, &get, at + layout.transport + 8, 4);
        let same = x.equal(ack, next);
        conditions.push(same);
    }
    for condition in conditions {
        back = c.session.assume(back, condition)?;
    }
    Some(back)
}

/// Lets the reply in and looks for it at home.
fn home(
    c: &mut Checker<'_>,
    back: &Trace,
    start: &Start,
    return_path: &ReturnPath,
    layout: Layout,
) -> Search {
    let watched = return_path.home.iter().map(|t| t.place).collect();
    let asked = original(c.session.exprs(), back.inputs() - 2);
    let arrivals = c.session.run_for(Interest::Arrivals, vec![back.clone()], &watched).arrivals;
    // The reply itself: neither an answer to it, nor what it let go.
    let reply = back.inputs() - 1;
    let arrivals: Vec<_> = arrivals.into_iter().filter_map(|a| c.counted(a, Counted::Sent, reply)).collect();
    let all = |c: &mut Checker<'_>, a: Arrival| {
        c.session.settled(&a.trace, &a.packet).into_iter().map(move |s| (a.place, s))
    };
    let arrivals: Vec<_> = arrivals.into_iter().flat_map(|a| all(c, a)).collect();
    c.any(arrivals, |c, (place, (trace, p))| {
        let framing = return_path.home.iter().find(|t| t.place == place).map_or(Framing::Ip, |t| t.framing);
        let (net, at) = (net_at(&p, framing), net_of(start.framing));
        let x = c.session.exprs();
        let same: Vec<Expr> = [
            (layout.src, layout.dst, layout.address),
            (layout.dst, layout.src, layout.address),
            (layout.transport, layout.transport + 2, 2),
            (layout.transport + 2, layout.transport, 2),
        ]
        .map(|(to, from, n)| {
            let (a, b) = (bytes_at(x, |x, i| p.byte(x, i), net + to, n), bytes_at(x, &asked, at + from, n));
            x.equal(a, b)
        })
        .into();
        let trace = same.into_iter().try_fold(trace, |s, e| c.session.assume(s, e));
        let Some(trace) = trace else { return Search::Impossible };
        c.search(&trace, |r| r.arrived_last(Counted::Sent).any(|(p, _)| watched.contains(&p)))
    })
}
