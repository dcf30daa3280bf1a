//! The security rules for what tenants ask for (change-d4.5.txt, section 2.2.4): spoofing-free and default-off.

use std::collections::HashSet;

use weir_ir::program::{BinOp, Width};

use super::headers::{IPV4, IPV6, Layout, bytes_at, net_at, net_of, original, version};
use super::histories::{HISTORIES, Looked, Others};
use super::{Checker, Framing, Search, Start, Target, Verdict};
use crate::explore::frontier::Interest;
use crate::explore::session::{Arrival, Entry, Outcome};
use crate::explore::trace::Trace;
use crate::model::expr::{Expr, Exprs};
use crate::network::NodePort;
use crate::solve::replay::{Counted, Replay};

/// Addresses with a common start: bytes in network order, and how many bits count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prefix {
    /// 4 or 16 bytes.
    pub address: Vec<u8>,
    /// Bits that count.
    pub len: u8,
}

/// A module that is asked for. What comes in by `inputs` and `answers` is addressed to the module, or to whose traffic it wants:
/// routing sees to that, and so does the network that is checked.
#[derive(Debug, Clone, Default)]
pub struct Module {
    /// Where packets come in.
    pub inputs: Vec<Start>,
    /// Where it makes packets by itself, beside its timers.
    pub sources: Vec<Start>,
    /// Where packets leave it.
    pub outputs: Vec<Target>,
    /// For an output, the input by which answers to what left there come in.
    pub answers: Vec<(NodePort, Start)>,
    /// Addresses of others whose traffic it wants.
    pub intercepts: Vec<Prefix>,
}

/// The rules for a requester's modules.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    /// Addresses whose traffic they may take beside what is addressed to them; `None`: anything.
    pub receive: Option<Vec<Prefix>>,
    /// Sources of what they send; `None`: anything.
    pub send_from: Option<Allowed>,
    /// Destinations of what they send; `None`: anything.
    pub send_to: Option<Allowed>,
}

/// Addresses that packets may have.
#[derive(Debug, Clone, Default)]
pub struct Allowed {
    /// Those of these prefixes.
    pub prefixes: Vec<Prefix>,
    /// The source of the packet that came in, as it was then.
    pub entered: bool,
}

/// The rule that a module breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rule {
    /// Explicit addressing: it takes only what is addressed to it.
    Addressing,
    /// It sends from its own address, or from the unchanged source of what it answers or forwards.
    Source,
    /// It sends to who agreed: registered addresses, the owner's modules, the source of what is answered.
    Destination,
}

/// Which of the three checks showed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// What it emits with no input.
    StandAlone,
    /// A packet of any client.
    Packet,
    /// A TCP handshake, the far side answering.
    Handshake,
}

/// The outcome: `Holds`, or the first rule that is broken, at which stage.
#[derive(Debug)]
pub struct Security {
    /// Whether the module is safe.
    pub verdict: Verdict,
    /// What is broken, if something is.
    pub broken: Option<(Rule, Stage)>,
}

/// Checks a module against rules: all that can leave it, by itself, after any packet, and after the answer to what it
/// sent for a TCP connection; also where packets of others came before.
pub fn secure(c: &mut Checker<'_>, m: &Module, rules: &Rules) -> Security {
    let may = |p: &Prefix| rules.receive.as_ref().is_none_or(|list| list.iter().any(|q| q.contains(p)));
    if !m.intercepts.iter().all(may) {
        return Security {
            verdict: Verdict::Violated(None),
            broken: Some((Rule::Addressing, Stage::Packet)),
        };
    }
    if rules.send_from.is_none() && rules.send_to.is_none() {
        return Security { verdict: Verdict::Holds(None), broken: None };
    }
    let watched = m.outputs.iter().map(|t| t.place).collect();
    let mut look = RuleSearch { m, rules, watched, broken: None };
    let mut found = look.alone(c);
    if !matches!(found, Search::Found(_)) {
        // What the check explores is all that packets of anybody may do.
        let later = c.histories(HISTORIES, Others::Looked, |c, before| look.after(c, before));
        found = c.any([found, later], |_, s| s);
    }
    Security { verdict: c.none(found), broken: look.broken }
}

/// The search for a packet that breaks a rule.
struct RuleSearch<'a> {
    m: &'a Module,
    rules: &'a Rules,
    watched: HashSet<NodePort>,
    /// What was broken.
    broken: Option<(Rule, Stage)>,
}

impl RuleSearch<'_> {
    /// What leaves although nothing came in.
    fn alone(&mut self, c: &mut Checker<'_>) -> Search {
        let blank = c.session.blank();
        let mut alone = c.session.timers(&self.watched).arrivals;
        for source in &self.m.sources {
            let traces = c.launch(&blank, source, None);
            alone.extend(c.session.run_for(Interest::Arrivals, traces, &self.watched).arrivals);
        }
        c.any(alone, |c, arrival| self.leaves(c, &arrival, &[], Stage::StandAlone))
    }

    /// What leaves for a packet, and for the answer to that.
    fn after(&mut self, c: &mut Checker<'_>, before: &Trace) -> Looked {
        let (m, mut all) = (self.m, Vec::new());
        let found = c.any(&m.inputs, |c, input| {
            let traces = c.launch(before, input, None);
            let Outcome { mut arrivals, ended } = c.session.run_for(Interest::Entries, traces, &self.watched);
            all.extend(ended);
            arrivals.retain(|a| a.trace.uses_all_others());
            c.any(arrivals, |c, arrival| {
                let entered = self.entered(&arrival.trace);
                match self.leaves(c, &arrival, &entered, Stage::Packet) {
                    Search::Found(e) => Search::Found(e),
                    none if !before.is_blank() => none,
                    none => {
                        let later = self.answered(c, &arrival);
                        c.any([none, later], |_, s| s)
                    }
                }
            })
        });
        Looked { found, ended: Some(all) }
    }

    /// What leaves when the far side answers what left.
    fn answered(&mut self, c: &mut Checker<'_>, arrival: &Arrival) -> Search {
        let m = self.m;
        let Some((_, back)) = m.answers.iter().find(|(p, _)| *p == arrival.place) else {
            return Search::Impossible;
        };
        let framing = m.framing_at(arrival.place);
        let answers = super::returns::answers(c, &arrival.trace, arrival, framing, back, (IPV4, 6));
        let arrivals = c.session.run_for(Interest::Arrivals, answers, &self.watched).arrivals;
        c.any(arrivals, |c, arrival| {
            let entered = self.entered(&arrival.trace);
            self.leaves(c, &arrival, &entered, Stage::Handshake)
        })
    }

    /// The packets that came in, and where their network headers are.
    fn entered(&self, trace: &Trace) -> Vec<(u32, i64)> {
        let starts = || self.m.inputs.iter().chain(self.m.answers.iter().map(|(_, s)| s));
        let framing = |at: &NodePort| starts().find(|s| s.place == *at).map_or(Framing::Ip, |s| s.framing);
        let packets = trace.entered().iter().filter_map(|e| match e {
            Entry::Packet(at, _) => Some(net_of(framing(at))),
            Entry::Timer(..) => None,
        });
        (0..).zip(packets).collect()
    }

    /// Whether a packet that leaves may break a rule.
    fn leaves(
        &mut self,
        c: &mut Checker<'_>,
        arrival: &Arrival,
        entered: &[(u32, i64)],
        stage: Stage,
    ) -> Search {
        let framing = self.m.framing_at(arrival.place);
        let packet = &arrival.packet;
        let net = net_at(packet, framing);
        let rules =
            [(Rule::Source, &self.rules.send_from, true), (Rule::Destination, &self.rules.send_to, false)];
        let kinds = [IPV4, IPV6].into_iter().flat_map(|layout| rules.map(|r| (layout, r)));
        c.any(kinds, |c, (layout, (rule, allowed, source))| {
            let Some(allowed) = allowed else { return Search::Impossible };
            let x = c.session.exprs();
            let is = version(x, |x, at| packet.byte(x, at), net, layout);
            let Some(trace) = c.session.assume(arrival.trace.clone(), is) else { return Search::Impossible };
            // Addresses of IPv6 reach to where ports are behind a short header.
            let paths = match layout {
                IPV6 => c.session.settled(&trace, packet),
                _ => vec![(trace, packet.clone())],
            };
            let place = arrival.place;
            let found = c.any(paths, |c, (trace, packet)| {
                let x = c.session.exprs();
                let at = net + if source { layout.src } else { layout.dst };
                let address = bytes_at(x, |x, at| packet.byte(x, at), at, layout.address);
                let wrong = outside(x, address, allowed, layout, entered);
                let Some(trace) = c.session.assume(trace, wrong) else { return Search::Impossible };
                c.search(&trace, |r| {
                    left(r, place, framing).iter().any(|bytes| is_wrong(bytes, source, allowed, r, entered))
                })
            });
            if matches!(found, Search::Found(_)) {
                self.broken = Some((rule, stage));
            }
            found
        })
    }
}

/// Whether an address is none of those that are allowed.
fn outside(x: &mut Exprs, address: Expr, allowed: &Allowed, layout: Layout, entered: &[(u32, i64)]) -> Expr {
    let mut ok = x.constant(Width::W1, 0);
    for p in allowed.prefixes.iter().filter(|p| layout_of(p) == layout) {
        let one = within(x, address, p);
        ok = x.binary(BinOp::Or, ok, one);
    }
    for &(packet, net) in entered.iter().filter(|_| allowed.entered) {
        let get = original(x, packet);
        let source = bytes_at(x, get, net + layout.src, layout.address);
        let same = x.equal(address, source);
        ok = x.binary(BinOp::Or, ok, same);
    }
    x.not(ok)
}

/// The packets, from their network header on, that came to a place because of what entered last.
fn left(r: &Replay, place: NodePort, framing: Framing) -> Vec<Vec<u8>> {
    let net = |p: &weir_packet::Packet| match (framing, p.layer(weir_ir::Layer::Net)) {
        (Framing::Ip, Some(at)) => (at - p.data().min(at)) as usize,
        (Framing::Ip, None) => 0,
        (Framing::Ethernet, _) => 14,
    };
    let arrived = r.arrived_last(Counted::All).filter(|(p, _)| *p == place);
    arrived.filter_map(|(_, p)| p.bytes().get(net(p)..).map(<[u8]>::to_vec)).collect()
}

/// Whether an address of a packet that left is none of those that are allowed.
fn is_wrong(bytes: &[u8], source: bool, allowed: &Allowed, r: &Replay, entered: &[(u32, i64)]) -> bool {
    let layout = match bytes.first().map(|b| b >> 4) {
        Some(4) => IPV4,
        Some(6) => IPV6,
        _ => return false,
    };
    let n = layout.address as usize;
    let at = if source { layout.src } else { layout.dst } as usize;
    let Some(address) = bytes.get(at..at + n) else { return false };
    let came_with = |&(packet, net): &(u32, i64)| {
        let hop = r.starts.get(packet as usize).and_then(|&h| r.hops.get(h));
        let at = (net + layout.src) as usize;
        hop.and_then(|h| h.before.get(at..at + n)) == Some(address)
    };
    let host = Prefix { address: address.to_vec(), len: 8 * n as u8 };
    let is_one = allowed.prefixes.iter().any(|p| p.contains(&host));
    let may = is_one || allowed.entered && entered.iter().any(came_with);
    !may
}

impl Prefix {
    /// Whether all addresses of another are among its own.
    pub fn contains(&self, other: &Prefix) -> bool {
        let (bytes, bits) = (usize::from(self.len / 8), self.len % 8);
        let rest = |a: &[u8]| a.get(bytes).map_or(0, |b| u16::from(*b) >> (8 - bits));
        self.address.len() == other.address.len()
            && self.len <= other.len
            && self.address.get(..bytes) == other.address.get(..bytes)
            && (bits == 0 || rest(&self.address) == rest(&other.address))
    }
}

impl Module {
    fn framing_at(&self, place: NodePort) -> Framing {
        self.outputs.iter().find(|t| t.place == place).map_or(Framing::Ip, |t| t.framing)
    }
}

fn layout_of(prefix: &Prefix) -> Layout {
    if prefix.address.len() == 4 { IPV4 } else { IPV6 }
}

/// Whether an address is within a prefix.
fn within(x: &mut Exprs, address: Expr, prefix: &Prefix) -> Expr {
    let width = x.width(address);
    let value = prefix.address.iter().fold(0, |v: u128, b| v << 8 | u128::from(*b));
    let low = width.max().checked_shr(prefix.len.into()).unwrap_or(0);
    let mask = x.constant(width, !low & width.max());
    let part = x.binary(BinOp::And, address, mask);
    x.is(part, value & !low & width.max())
}
