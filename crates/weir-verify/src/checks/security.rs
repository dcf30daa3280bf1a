//! The security rules for what tenants ask for (change-d4.5.txt, section 2.2.4): spoofing-free and default-off.

use weir_ir::program::{BinOp, Width};

use super::headers::{IPV4, IPV6, Layout, bytes_at, net_at, net_of, original, version};
use super::returns::{KINDS, answer};
use super::{Checker, Evidence, Framing, Search, Start, Target, Verdict};
use crate::expr::{Expr, Exprs};
use crate::network::Place;
use crate::replay::Replay;
use crate::session::{Arrival, Story};

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Requester {
    /// Somebody outside, such as a content provider.
    ThirdParty,
    /// The operator's own customer.
    Client,
    /// The operator.
    Operator,
}

/// Addresses with a common start: bytes in network order, and how many bits count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prefix {
    /// 4 or 16 bytes.
    pub address: Vec<u8>,
    /// Bits that count.
    pub len: u8,
}

/// What is asked for.
#[derive(Debug, Clone, Default)]
pub struct Module {
    /// Where packets come in.
    pub inputs: Vec<Start>,
    /// Where it makes packets by itself, beside its timers.
    pub sources: Vec<Start>,
    /// Where packets leave it.
    pub outputs: Vec<Target>,
    /// For an output, the input by which answers to what left there come in.
    pub answers: Vec<(Place, Start)>,
    /// Its own addresses.
    pub own: Vec<Prefix>,
    /// Addresses that its owner registered, and those of the owner's other modules.
    pub approved: Vec<Prefix>,
    /// Whether it wants traffic that is not addressed to it.
    pub intercepts: bool,
}

/// The labelled policy: what a requester's modules may do. [`Rules::of`] is table 2.1's; operators may have others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// They may take traffic that is not addressed to them.
    pub intercept: bool,
    /// They may send from any address.
    pub spoof: bool,
    /// They may send to any address.
    pub send_anywhere: bool,
}

impl Rules {
    /// The rules of the paper.
    pub fn of(who: Requester) -> Rules {
        let operator = who == Requester::Operator;
        Rules { intercept: operator, spoof: operator, send_anywhere: who != Requester::ThirdParty }
    }
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
    /// The far side answering: of TCP, the handshake.
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

/// Checks a module against rules: all that can leave it, by itself, after any packet addressed to it, and after the answer
/// to what it sent then, for TCP a SYN/ACK. What packets of several senders do together is not looked at.
pub fn secure(c: &mut Checker<'_>, m: &Module, rules: Rules) -> Security {
    let refused = |rule, stage, e: Option<Box<Evidence>>| Security {
        verdict: Verdict::Violated(e),
        broken: Some((rule, stage)),
    };
    if m.intercepts && !rules.intercept {
        return refused(Rule::Addressing, Stage::Packet, None);
    }
    if rules.spoof && rules.send_anywhere {
        return Security { verdict: Verdict::Holds(None), broken: None };
    }
    let mut unsolved = false;
    let watched = m.outputs.iter().map(|t| t.place).collect();
    let blank = c.session.blank();
    let mut alone = c.session.timers(&watched).arrivals;
    for source in &m.sources {
        let stories = c.launch(&blank, source, None);
        alone.extend(c.session.run(stories, &watched).arrivals);
    }
    for a in &alone {
        if let Some((rule, e)) = outcome(broken(c, m, rules, a, &[]), &mut unsolved) {
            return refused(rule, Stage::StandAlone, Some(e));
        }
    }
    for input in &m.inputs {
        for story in addressed(c, m, &blank, input) {
            let from = [(0, net_of(input.framing))];
            for arrival in c.session.run(vec![story], &watched).arrivals {
                if let Some((rule, e)) = outcome(broken(c, m, rules, &arrival, &from), &mut unsolved) {
                    return refused(rule, Stage::Packet, Some(e));
                }
                let Some((_, back)) = m.answers.iter().find(|(p, _)| *p == arrival.place) else { continue };
                let framing = m.framing_at(arrival.place);
                let from = [(0, net_of(input.framing)), (1, net_of(back.framing))];
                for kind in KINDS {
                    let answer = answer(c, &arrival.story, &arrival, framing, back, kind);
                    // What comes in is addressed to the module: routing sees to that.
                    let answers = answer.map_or(Vec::new(), |a| to_own(c, m, &a, back.framing));
                    for arrival in c.session.run(answers, &watched).arrivals {
                        if let Some((rule, e)) = outcome(broken(c, m, rules, &arrival, &from), &mut unsolved)
                        {
                            return refused(rule, Stage::Handshake, Some(e));
                        }
                    }
                }
            }
        }
    }
    let verdict = c.doubt(unsolved).map_or(Verdict::Holds(None), Verdict::Inconclusive);
    Security { verdict, broken: None }
}

fn outcome(found: Vec<(Rule, Search)>, unsolved: &mut bool) -> Option<(Rule, Box<Evidence>)> {
    for (rule, search) in found {
        match search {
            Search::Found(e) => return Some((rule, e)),
            Search::Impossible => {}
            Search::Unknown => *unsolved = true,
        }
    }
    None
}

/// A packet of anybody that is addressed to the module.
fn addressed(c: &mut Checker<'_>, m: &Module, before: &Story, input: &Start) -> Vec<Story> {
    let stories = c.launch(before, input, None);
    stories.into_iter().flat_map(|s| to_own(c, m, &s, input.framing)).collect()
}

/// The story if the packet that comes in last is addressed to the module, for each address.
fn to_own(c: &mut Checker<'_>, m: &Module, story: &Story, framing: Framing) -> Vec<Story> {
    let get = original(c.session.exprs(), story.inputs() - 1);
    let net = net_of(framing);
    let mut out = Vec::new();
    for prefix in &m.own {
        let layout = layout_of(prefix);
        let x = c.session.exprs();
        let version = version(x, &get, net, layout);
        let dst = bytes_at(x, &get, net + layout.dst, layout.address);
        let within = within(x, dst, prefix);
        out.extend(c.session.assume(story.clone(), version).and_then(|s| c.session.assume(s, within)));
    }
    out
}

/// What may be broken by a packet that leaves; `from`: the packets that came in, and where their network headers are.
fn broken(
    c: &mut Checker<'_>,
    m: &Module,
    rules: Rules,
    arrival: &Arrival,
    from: &[(u32, i64)],
) -> Vec<(Rule, Search)> {
    let framing = m.framing_at(arrival.place);
    let packet = &arrival.packet;
    let net = net_at(packet, framing);
    let mut out = Vec::new();
    for layout in [IPV4, IPV6] {
        let x = c.session.exprs();
        let is = version(x, |x, at| packet.byte(x, at), net, layout);
        let Some(story) = c.session.assume(arrival.story.clone(), is) else { continue };
        let x = c.session.exprs();
        let [src, dst] = [layout.src, layout.dst]
            .map(|at| bytes_at(x, |x, at| packet.byte(x, at), net + at, layout.address));
        let sources: Vec<Expr> = from
            .iter()
            .map(|&(packet, net)| {
                let get = original(x, packet);
                bytes_at(x, get, net + layout.src, layout.address)
            })
            .collect();
        let place = arrival.place;
        let wrong = |x: &mut Exprs, e: Expr, prefixes: &[&[Prefix]]| {
            let mut ok = x.constant(Width::W1, 0);
            for p in prefixes.iter().copied().flatten().filter(|p| layout_of(p) == layout) {
                let one = within(x, e, p);
                ok = x.binary(BinOp::Or, ok, one);
            }
            for &s in &sources {
                let same = x.equal(e, s);
                ok = x.binary(BinOp::Or, ok, same);
            }
            x.not(ok)
        };
        let shown = |r: &Replay, from_us: bool, prefixes: &[Prefix]| {
            left(r, place, framing).iter().any(|bytes| is_wrong(bytes, from_us, prefixes, r, from))
        };
        if !rules.spoof {
            let wrong = wrong(c.session.exprs(), src, &[&m.own]);
            if let Some(story) = c.session.assume(story.clone(), wrong) {
                out.push((Rule::Source, c.search(&story, |r| shown(r, true, &m.own))));
            }
        }
        if !rules.send_anywhere {
            let wrong = wrong(c.session.exprs(), dst, &[&m.approved]);
            if let Some(story) = c.session.assume(story, wrong) {
                out.push((Rule::Destination, c.search(&story, |r| shown(r, false, &m.approved))));
            }
        }
    }
    out
}

/// The packets, from their network header on, that came to a place in the course of what entered last.
fn left(r: &Replay, place: Place, framing: Framing) -> Vec<Vec<u8>> {
    let net = |p: &weir_packet::Packet| match (framing, p.layer(weir_ir::Layer::Net)) {
        (Framing::Ip, Some(at)) => (at - p.data().min(at)) as usize,
        (Framing::Ip, None) => 0,
        (Framing::Ethernet, _) => 14,
    };
    let arrived = r.arrived_last().filter(|(p, _)| *p == place);
    arrived.filter_map(|(_, p)| p.bytes().get(net(p)..).map(<[u8]>::to_vec)).collect()
}

/// Whether an address of a packet that left is neither within one of the prefixes nor the source of one that came in.
fn is_wrong(bytes: &[u8], source: bool, prefixes: &[Prefix], r: &Replay, from: &[(u32, i64)]) -> bool {
    let layout = match bytes.first().map(|b| b >> 4) {
        Some(4) => IPV4,
        Some(6) => IPV6,
        _ => return false,
    };
    let n = layout.address as usize;
    let at = if source { layout.src } else { layout.dst } as usize;
    let Some(address) = bytes.get(at..at + n) else { return false };
    let within = |p: &&Prefix| {
        let (bytes, bits) = (usize::from(p.len / 8), p.len % 8);
        let rest = |a: &[u8]| a.get(bytes).map_or(0, |b| u16::from(*b) >> (8 - bits));
        p.address.len() == n
            && p.address[..bytes] == address[..bytes]
            && (bits == 0 || rest(&p.address) == rest(address))
    };
    let entered = |&(packet, net): &(u32, i64)| {
        let hop = r.starts.get(packet as usize).and_then(|&h| r.hops.get(h));
        let at = (net + layout.src) as usize;
        hop.and_then(|h| h.before.get(at..at + n)) == Some(address)
    };
    !prefixes.iter().any(|p| within(&p)) && !from.iter().any(entered)
}

impl Module {
    fn framing_at(&self, place: Place) -> Framing {
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
