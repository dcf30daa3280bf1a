use std::collections::HashSet;

use weir_ir::program::Reason;
use weir_packet::Provenance;

use super::{Checker, Query, Search, Verdict};
use crate::explore::path::{How, Incomplete, PacketEnd};
use crate::explore::trace::Trace;
use crate::model::packet::SymbolicPacket;
use crate::network::{Body, Network, NodeId, NodePort};
use crate::solve::replay::Replay;

/// How often a packet may wait on its way.
const WAITS: usize = 4;

/// `all SRC DST [via N…] FILTER`: every packet that leaves SRC matching FILTER arrives at DST, whatever is chosen at
/// random. It is the packet that arrives, or a copy of it, whatever was changed in them: no answer to it, and no question that it is
/// the cause of. Losses for lack of capacity do not count, unless `strict`. Of a packet that waits, for an address say, it is taken that
/// what it waits for comes, if that can come; it has to arrive then. The second result lists where either may happen.
pub fn all(c: &mut Checker<'_>, q: &Query, strict: bool) -> (Verdict, Assumptions) {
    let mut look = LossSearch { q, strict, watched: q.watched(), assumptions: Assumptions::default() };
    let watched = look.watched.clone();
    let found = c.seek(q, Some(&q.filter), &watched, |c, _, outcome| {
        c.any(outcome.ended, |c, trace| look.missing(c, trace))
    });
    (c.none(found), look.assumptions)
}

/// Assumptions of a verdict, by the names of nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Assumptions {
    /// Where packets may be lost for lack of capacity.
    pub losses: Vec<String>,
    /// Where packets wait until others let them go, such as answers to what they are the cause of.
    pub waiting: Vec<String>,
}

impl Assumptions {
    /// Adds what another check left out.
    pub fn add(&mut self, other: Assumptions) {
        for (own, others) in [(&mut self.losses, other.losses), (&mut self.waiting, other.waiting)] {
            own.extend(others);
            own.sort_unstable();
            own.dedup();
        }
    }
}

/// The delivery of the packet that was sent, and of its copies, on a path.
enum Delivery {
    /// One arrives.
    Arrives,
    /// Those that arrive may be lost on the way for lack of capacity.
    MayBeLost,
    /// One is lost for lack of capacity.
    Lost,
    /// These wait, and none arrives.
    Waits(Vec<PacketEnd>),
    /// None arrives.
    Ends,
    /// One came to a node of which it is not known what it does, and none arrives.
    Unknown,
}

/// The delivery of a packet that waits.
enum Later {
    /// It arrives, whatever lets it go.
    Arrives,
    /// No packet can let it go.
    Never,
    Unknown,
}

/// The search for a packet that does not arrive.
struct LossSearch<'q> {
    q: &'q Query,
    strict: bool,
    watched: HashSet<NodePort>,
    assumptions: Assumptions,
}

impl LossSearch<'_> {
    /// Looks for a run that goes as a trace says, in which the packet that came last does not arrive.
    fn missing(&mut self, c: &mut Checker<'_>, trace: Trace) -> Search {
        let traces = sorted(c, self.q, trace);
        c.any(traces, |c, TraceArrivals { trace, others }| match self.delivery(c, &trace, &others) {
            Delivery::Arrives | Delivery::Lost => Search::Impossible,
            Delivery::MayBeLost => lost(c, &trace),
            Delivery::Waits(ends) => self.waits(c, &trace, &ends),
            Delivery::Ends => self.search(c, &trace),
            Delivery::Unknown => Search::Unknown,
        })
    }

    /// Looks for a run that goes as a trace says, in which the packet that was sent did not arrive.
    fn search(&self, c: &mut Checker<'_>, trace: &Trace) -> Search {
        let (net, q, sent) = (c.net, self.q, trace.sent() as usize);
        let arrives =
            |r: &Replay| r.arrived_of(sent).any(|(place, packet)| q.meant_at(net, place, packet).is_some());
        c.search(trace, |r| !q.via.is_empty() || !arrives(r))
    }

    fn delivery(&mut self, c: &Checker<'_>, trace: &Trace, others: &[usize]) -> Delivery {
        let (net, q) = (c.net, self.q);
        let own = |e: &&PacketEnd| is_own(c, trace, &e.packet);
        if !self.strict {
            note_losses(net, trace, &mut self.assumptions.losses);
        }
        // For each packet that arrives, whether it cannot be lost on a path to DST.
        let watched = &self.watched;
        let comes = |place: NodePort, p: &SymbolicPacket| watched.contains(&place) && is_own(c, trace, p);
        let ends = trace.ends().iter().enumerate().filter(|(i, _)| !others.contains(i));
        let paths: Vec<Vec<_>> = ends.map(|(_, e)| e.route.up_to_each(comes).into_iter().collect()).collect();
        // Which of several visits of one packet is meant, is not known here.
        let is_guarded = q.to.iter().any(|t| t.only.is_some());
        if is_guarded && paths.iter().any(|visits| visits.len() > 1) {
            return Delivery::Unknown;
        }
        let arriving: Vec<bool> = paths
            .iter()
            .flatten()
            .filter(|path| q.via_all(path))
            .map(|path| !path[..path.len() - 1].iter().any(|p| is_lossy(net, p.node)))
            .collect();
        let short = |e: &PacketEnd| matches!(&e.how, How::Drop(_, r) if is_capacity_loss(r));
        let waiting: Vec<_> =
            trace.ends().iter().filter(own).filter(|e| c.session.is_held(trace, e)).cloned().collect();
        if arriving.iter().any(|&lossless| lossless || !self.strict) {
            Delivery::Arrives
        } else if !arriving.is_empty() {
            Delivery::MayBeLost
        } else if !self.strict && trace.ends().iter().filter(own).any(short) {
            Delivery::Lost
        } else if trace.ends().iter().any(|e| e.how == How::Opaque) {
            Delivery::Unknown
        } else if !waiting.is_empty() {
            Delivery::Waits(waiting)
        } else {
            Delivery::Ends
        }
    }

    /// The same where the packet waits.
    fn waits(&mut self, c: &mut Checker<'_>, trace: &Trace, ends: &[PacketEnd]) -> Search {
        let mut never = true;
        for end in ends {
            match self.later(c, trace, end, WAITS) {
                Later::Arrives => {
                    note(c.net, end.node, &mut self.assumptions.waiting);
                    return Search::Impossible;
                }
                Later::Never => {}
                Later::Unknown => never = false,
            }
        }
        if never {
            return self.search(c, trace);
        }
        if !c.proving {
            let found = self.after_one_more(c, trace);
            if matches!(found, Search::Found(_)) {
                return found;
            }
            c.session.give_up(Incomplete::Waiting);
        }
        Search::Unknown
    }

    /// What becomes of a packet that waits when it is let go, whatever that is by, and whatever stands in tables then.
    fn later(&mut self, c: &mut Checker<'_>, trace: &Trace, end: &PacketEnd, left: usize) -> Later {
        let from: Vec<NodePort> = self.q.others.iter().map(|s| s.place).collect();
        if !c.session.may_let_go(trace, end, &from) {
            return Later::Never;
        }
        let Some(left) = left.checked_sub(1) else { return Later::Unknown };
        let Some(traces) = c.session.let_go(trace, end, &self.watched) else { return Later::Unknown };
        for trace in traces {
            for TraceArrivals { trace, others } in sorted(c, self.q, trace) {
                // Whether others arrive that waited, too, is not asked. What became an answer meanwhile is no other.
                if !trace.ends().iter().any(|e| c.session.is_sent(&trace, &e.packet)) {
                    continue;
                }
                match self.delivery(c, &trace, &others) {
                    Delivery::Arrives | Delivery::Lost => {}
                    Delivery::Waits(ends) => {
                        let goes_on = ends.iter().any(|end| {
                            let arrives = matches!(self.later(c, &trace, end, left), Later::Arrives);
                            if arrives {
                                note(c.net, end.node, &mut self.assumptions.waiting);
                            }
                            arrives
                        });
                        if !goes_on {
                            return Later::Unknown;
                        }
                    }
                    Delivery::Unknown => return Later::Unknown,
                    Delivery::MayBeLost | Delivery::Ends => {
                        if !c.session.is_impossible(&trace) {
                            return Later::Unknown;
                        }
                    }
                }
            }
        }
        Later::Arrives
    }

    /// Looks for a run in which one more packet of anybody lets the packet go, and it does not arrive.
    fn after_one_more(&mut self, c: &mut Checker<'_>, before: &Trace) -> Search {
        let q = self.q;
        c.any(&q.others, |c, start| {
            let traces = c.launch(before, start, None);
            let ended = c.session.run(traces, &self.watched).ended;
            c.any(ended, |c, trace| {
                let traces = sorted(c, q, trace);
                c.any(traces, |c, TraceArrivals { trace, others }| match self.delivery(c, &trace, &others) {
                    Delivery::Ends => self.search(c, &trace),
                    Delivery::MayBeLost => lost(c, &trace),
                    Delivery::Unknown => Search::Unknown,
                    Delivery::Arrives | Delivery::Lost | Delivery::Waits(_) => Search::Impossible,
                })
            })
        })
    }
}

/// Looks for a run that goes as a trace says, in which the packet is lost for lack of capacity.
fn lost(c: &mut Checker<'_>, trace: &Trace) -> Search {
    let (mut found, sent) = (c.search(trace, |_| true), trace.sent() as usize);
    if let Search::Found(e) = &mut found {
        e.replay.lose(sent, |node| is_lossy(c.net, node));
    }
    found
}

/// Whether a packet is the one that was sent, or a copy of it.
fn is_own(c: &Checker<'_>, trace: &Trace, packet: &SymbolicPacket) -> bool {
    c.session.is_sent(trace, packet) && packet.is(c.session.known_exprs(), Provenance::Sent) == Some(true)
}

/// A trace, and those of its packets, by number, that came to DST and are not meant there.
struct TraceArrivals {
    trace: Trace,
    others: Vec<usize>,
}

/// A trace by which of its packets are meant at the places of DST that they came to.
fn sorted(c: &mut Checker<'_>, q: &Query, trace: Trace) -> Vec<TraceArrivals> {
    let mut all = vec![TraceArrivals { trace, others: Vec::new() }];
    if q.to.iter().all(|t| t.only.is_none()) {
        return all;
    }
    for i in 0..all.first().map_or(0, |s| s.trace.ends().len()) {
        all = all.into_iter().flat_map(|s| by_meaning(c, q, s, i)).collect();
    }
    all
}

/// The same for one packet.
fn by_meaning(
    c: &mut Checker<'_>,
    q: &Query,
    TraceArrivals { trace, others }: TraceArrivals,
    i: usize,
) -> Vec<TraceArrivals> {
    let visits = trace.ends().get(i).map(|e| e.route.kept()).unwrap_or_default();
    let visits = visits.into_iter().filter(|(_, packet)| is_own(c, &trace, packet));
    let visits: Vec<_> = visits.filter_map(|(place, packet)| Some((q.target_at(place)?, packet))).collect();
    let (mut all, mut left, mut came) = (Vec::new(), vec![trace], false);
    for (target, packet) in visits {
        let Some(guard) = target.only else {
            all.extend(left.drain(..).map(|trace| TraceArrivals { trace, others: others.clone() }));
            break;
        };
        came = true;
        let mut asked = |wanted| -> Vec<Trace> {
            left.iter().flat_map(|s| c.session.guard_of(s.clone(), packet.clone(), guard, wanted)).collect()
        };
        let (yes, no) = (asked(true), asked(false));
        all.extend(yes.into_iter().map(|trace| TraceArrivals { trace, others: others.clone() }));
        left = no;
    }
    let others: Vec<usize> = others.into_iter().chain(came.then_some(i)).collect();
    all.extend(left.into_iter().map(|trace| TraceArrivals { trace, others: others.clone() }));
    all
}

/// Whether a packet was dropped because something was full.
fn is_capacity_loss(reason: &Reason) -> bool {
    [Reason::FULL, Reason::NO_SPACE].contains(reason)
}

/// Lists where packets may be lost for lack of capacity.
fn note_losses(net: &Network, trace: &Trace, losses: &mut Vec<String>) {
    for e in trace.ends() {
        if matches!(&e.how, How::Drop(_, r) if is_capacity_loss(r)) {
            note(net, e.node, losses);
        }
        e.route.places().iter().filter(|p| is_lossy(net, p.node)).for_each(|p| note(net, p.node, losses));
    }
}

fn note(net: &Network, node: NodeId, names: &mut Vec<String>) {
    let name = &net.node(node).name;
    if !names.contains(name) {
        names.push(name.clone());
    }
}

/// Whether a node may lose packets for lack of capacity.
fn is_lossy(net: &Network, node: NodeId) -> bool {
    matches!(net.node(node).body, Body::Pass { lossy: true })
}
