//! Packets that are shown are as plain as what they show leaves them: wishes, one after the other, of which each is kept that
//! goes with what is known and with those before it.

use weir_ir::program::Width;

use super::Checker;
use super::Framing;
use super::headers::{IPV4, IPV6, bytes_at, net_of, original};
use crate::explore::input::Known;
use crate::explore::session::Entry;
use crate::explore::trace::Trace;
use crate::model::expr::{Expr, Exprs, Node, Source, Symbol};
use crate::model::packet::SymbolicPacket;

const TCP: u128 = 6;
const UDP: u128 = 17;
const ICMP: [u128; 2] = [1, 58];
/// Most headers of VLAN tags that are looked behind.
const TAGS: i64 = 8;
/// Most traces of which the plainest are looked for.
const MOST: usize = 256;

impl Checker<'_> {
    /// The trace with all wishes about its packets that may be fulfilled, and with the first half of these.
    pub(super) fn plainer(&mut self, trace: &Trace) -> Vec<Trace> {
        let entered = trace.entered().iter().filter_map(|e| match e {
            Entry::Packet(_, input) => Some(input.marks[1] == Known::At(0)),
            Entry::Timer(..) => None,
        });
        let framings: Vec<Framing> =
            entered.map(|ip| if ip { Framing::Ip } else { Framing::Ethernet }).collect();
        // Where two networks are compared, each comes in twice.
        let times = framings.len() / (trace.inputs() as usize).max(1);
        let mut kept = Vec::new();
        let mut all = trace.clone();
        for number in 0..trace.inputs() {
            let Some(&framing) = framings.get(number as usize * times.max(1)) else { break };
            self.wish(&mut all, &mut kept, number, framing);
        }
        if kept.is_empty() {
            return Vec::new();
        }
        let half = &kept[..kept.len() / 2];
        let half = half.iter().try_fold(trace.clone(), |trace, &wish| self.session.assume(trace, wish));
        [Some(all), half].into_iter().flatten().collect()
    }

    /// The traces in which the packet that came in last may be plainest first; of those that are alike, the shortest.
    pub(super) fn plainest_first(&mut self, traces: Vec<Trace>, framing: Framing) -> Vec<Trace> {
        if !(2..=MOST).contains(&traces.len()) {
            return traces;
        }
        let mut ranked: Vec<_> = traces
            .into_iter()
            .map(|trace| {
                let (mut plain, mut kept) = (trace.clone(), Vec::new());
                let tags = self.wish(&mut plain, &mut kept, trace.inputs() - 1, framing);
                (tags - kept.len() as i64, self.session.least_length(&trace), trace)
            })
            .collect();
        ranked.sort_by_key(|(rank, length, _)| (*rank, *length));
        ranked.into_iter().map(|(.., trace)| trace).collect()
    }

    /// Assumes what is wished of a packet, as far as that goes; and how many bytes of tags it has then.
    fn wish(&mut self, trace: &mut Trace, kept: &mut Vec<Expr>, number: u32, framing: Framing) -> i64 {
        let get = original(self.session.exprs(), number);
        let mut net = net_of(framing);
        let mut keep = |c: &mut Self, wish: Expr| match c.session.assume(trace.clone(), wish) {
            Some(more) => {
                *trace = more;
                kept.push(wish);
                true
            }
            None => false,
        };
        let is = |c: &mut Self, at: i64, n: i64, v: u128| {
            let x = c.session.exprs();
            let field = bytes_at(x, &get, at, n);
            x.is(field, v)
        };
        let mut six = false;
        if framing == Framing::Ethernet {
            let unicast = is(self, 6, 1, 2);
            keep(self, unicast);
            // No tag if that can be, else one, and so on.
            for _ in 0..TAGS {
                let kinds = [0x0800, 0x86dd].map(|kind| is(self, net - 2, 2, kind));
                if keep(self, kinds[0]) {
                    break;
                }
                if keep(self, kinds[1]) {
                    six = true;
                    break;
                }
                let tag = is(self, net - 2, 2, 0x8100);
                if !keep(self, tag) {
                    return net - net_of(framing);
                }
                net += 4;
            }
        }
        let plain = is(self, net, 1, 0x45);
        if six || !keep(self, plain) {
            let plain = is(self, net, 1, 0x60);
            if !keep(self, plain) {
                return net - net_of(framing);
            }
            six = true;
        }
        let (layout, icmp) = if six { (IPV6, ICMP[1]) } else { (IPV4, ICMP[0]) };
        if !six {
            let whole = is(self, net + 6, 2, 0);
            keep(self, whole);
        }
        let mut proto = None;
        for p in [UDP, TCP, icmp] {
            let wish = is(self, net + layout.proto, 1, p);
            if proto.is_none() && keep(self, wish) {
                proto = Some(p);
            }
        }
        let upper = if proto == Some(TCP) { 20 } else { 8 };
        // As short as can be, and as long as it says.
        let total = layout.transport + upper;
        let says =
            if six { is(self, net + 4, 2, upper as u128) } else { is(self, net + 2, 2, total as u128) };
        keep(self, says);
        let x = self.session.exprs();
        let source = x.source_id(Source::Input(number));
        let len = x.symbol(Width::W32, Symbol::Len(source));
        let says = bytes_at(x, &get, net + if six { 4 } else { 2 }, 2);
        let says = x.resize(Width::W32, says);
        let end = x.plus(says, net + if six { layout.transport } else { 0 });
        let fits = x.equal(len, end);
        keep(self, fits);
        let hops = is(self, net + if six { 7 } else { 8 }, 1, 64);
        keep(self, hops);
        let top = net + layout.transport;
        match proto {
            Some(TCP) => {
                let offset = is(self, top + 12, 1, 0x50);
                keep(self, offset);
            }
            Some(UDP) => {
                let says = is(self, top + 4, 2, 8);
                keep(self, says);
            }
            _ => {}
        }
        if !six {
            let right = right_sum(self.session.exprs(), number, net);
            keep(self, right);
        }
        net - net_of(framing)
    }
}

/// That the checksum of an IPv4 header without options is right.
fn right_sum(x: &mut Exprs, number: u32, net: i64) -> Expr {
    let packet = SymbolicPacket::unknown(x, Source::Input(number));
    let mem = x.mem_id(&packet.mem);
    let end = x.constant(Width::W32, 20);
    let sum = x.make(Width::W16, Node::Checksum { mem, from: net, start: 0, end });
    x.is(sum, 0xffff)
}
