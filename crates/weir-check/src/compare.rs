//! What two worlds do differently.

use std::collections::BTreeSet;
use std::sync::Arc;

use weir_ir::program::Reason;
use weir_verify::checks::{
    Checker, Comparison, Doubt, Evidence, Fate, Filter, Framing, Start, Twin, compare,
};
use weir_verify::{Body, Entry, Hop, How, Limits, Network, NodeId, NodePort};

use crate::hosts::guard_of_hosts;
use crate::report::{ARRIVES, Changes, MADE, Treated};
use crate::world::{Matching, World};

/// The extent of a comparison.
#[derive(Debug, Clone, Copy)]
pub struct Extent {
    /// Limits of the exploration.
    pub limits: Limits,
    /// Most classes of traffic that are shown.
    pub classes: usize,
}

impl Default for Extent {
    fn default() -> Self {
        Extent { limits: Limits::of_networks(), classes: 64 }
    }
}

/// One of two worlds whose networks were put into one.
#[derive(Clone, Copy)]
struct Side<'a> {
    world: &'a World,
    /// Number of its first node.
    first: NodeId,
}

impl Changes {
    /// What becomes of the same packets in two worlds.
    pub fn between(before: (&str, &World), after: (&str, &World), extent: Extent) -> Changes {
        let mut net = before.1.net.clone();
        let first = net.append(after.1.net.clone());
        let sides = [Side { world: before.1, first: 0 }, Side { world: after.1, first }];
        let side = |node: NodeId| sides[usize::from(node >= first)];
        let (old, new) = (before.1.entries(), after.1.entries());
        let mut changes = Changes::new(before.0, after.0);
        let (mut names, mut twins) = (Vec::new(), Vec::new());
        for (name, start) in &old {
            match new.get(name) {
                Some(other) if alike(start, other) => {
                    let place = NodePort { node: other.place.node + first, ..other.place };
                    twins.push(Twin { before: start.clone(), after: Start { place, ..other.clone() } });
                    names.push(name.clone());
                }
                Some(_) => changes.unlike.push(name.clone()),
                None => changes.only_before.push(name.clone()),
            }
        }
        changes.only_after.extend(new.keys().filter(|n| !old.contains_key(*n)).cloned());
        let matching = Matching::new(before.1, after.1);
        if matching.is_whole(after.1) {
            return changes;
        }
        for node in 0..first {
            if let Some(other) = matching.to(node) {
                net.pair_tables(other + first, node);
            }
        }
        let guard = |net: &mut Network, framing| {
            Some(net.add_program("well-formed", &Arc::new(guard_of_hosts(framing)), u32::MAX))
        };
        let hosts = Filter { ip: guard(&mut net, Framing::Ip), ethernet: guard(&mut net, Framing::Ethernet) };
        net.finish();
        let mut checker = Checker::new(&net, extent.limits);
        let found = compare(
            &mut checker,
            &Comparison {
                twins: &twins,
                first: hosts,
                fate: &|node, how, made| side(node).fate(node, how, made),
                same: &|node| node >= first || matching.same(node),
                limit: extent.classes,
            },
        );
        let mut seen = BTreeSet::new();
        for d in &found.differences {
            let Some(name) = names.get(d.twin) else { continue };
            let shown = Treated::new(name, d, |n| sides[n].world, |n, hops| sides[n].hops(hops));
            if seen.insert(shown.class()) {
                changes.differences.push(shown);
            }
        }
        changes.differences.sort_by_key(|d| (d.rank(), d.weight()));
        changes.more = found.more;
        changes.open = found.open.iter().filter_map(|i| names.get(*i)).cloned().collect();
        changes.reason = found.doubt.map(|d| doubt(&d, &side));
        changes
    }
}

fn doubt<'a>(doubt: &Doubt, side: &dyn Fn(NodeId) -> Side<'a>) -> String {
    let Some(node) = doubt.node() else { return doubt.to_string() };
    let side = side(node);
    side.world.not_known(node - side.first)
}

impl Side<'_> {
    /// What people call a node: elements that the configuration gave no name are called by their class.
    fn name(&self, node: NodeId) -> String {
        let name = self.world.net.nodes().get((node - self.first) as usize).map_or("", |n| n.name.as_str());
        name.rsplit_once('@').map_or(name, |(class, _)| class).to_owned()
    }

    fn fate(&self, node: NodeId, how: &How, made: bool) -> Fate {
        let fate = self.fate_of(node, how);
        // What an element asks for a packet is no end of that.
        if made { Fate { text: format!("{MADE}{}", fate.text), ..fate } } else { fate }
    }

    fn fate_of(&self, node: NodeId, how: &How) -> Fate {
        let fate = |text: String| Fate { text, whole: false };
        let own = node - self.first;
        match how {
            How::Sunk if matches!(self.world.net.node(own).body, Body::Sink) => {
                fate(format!("dropped: {}", Reason::DISCARDED))
            }
            How::Sunk => {
                let place = self.world.arrival_name(NodePort { node: own, port: 0 });
                let name = place.unwrap_or_else(|| self.name(node));
                Fate { text: format!("{ARRIVES}{name}"), whole: true }
            }
            How::Drop(_, reason) => fate(format!("dropped: {reason}")),
            How::Exit(port) => {
                fate(format!("leaves {} by output {port}, which leads nowhere", self.name(node)))
            }
            How::Opaque => Fate {
                text: format!("comes to {}, of which it is not known what it does", self.name(node)),
                whole: true,
            },
            How::Loop => fate("loops forever".to_owned()),
            How::Held => fate(format!("waits at {}", self.name(node))),
            How::Orphaned => fate("dropped: what held it is gone".to_owned()),
        }
    }

    /// Hops with this world's own numbers of nodes.
    fn hops(&self, hops: Vec<Hop>) -> Vec<Hop> {
        let own = |h: Hop| Hop { place: NodePort { node: h.place.node - self.first, ..h.place }, ..h };
        hops.into_iter().map(own).collect()
    }
}

/// Whether packets that begin at two places may be the same.
fn alike(a: &Start, b: &Start) -> bool {
    a.framing == b.framing && a.input == b.input
}

/// The hops of one of the two sides of a run in which everything entered twice, and the packets numbered as if it had
/// entered once.
pub(crate) fn hops_of(e: &Evidence, side: usize) -> Vec<Hop> {
    let (entered, starts) = (e.entered.len(), &e.replay.starts);
    let number = |n: usize| if n < entered { n / 2 } else { n - entered / 2 };
    let mut out = Vec::new();
    for (i, &from) in starts.iter().enumerate().filter(|(i, _)| i % 2 == side) {
        let to = starts.get(i + 1).copied().unwrap_or(e.replay.hops.len());
        for hop in e.replay.hops.get(from..to).unwrap_or_default() {
            let mut hop = hop.clone();
            hop.packet = number(hop.packet);
            hop.after.iter_mut().for_each(|l| l.packet = number(l.packet));
            out.push(hop);
        }
    }
    out
}

/// The places by which the packets of such a run come in on the first side, each with its first hop.
pub(crate) fn entered(e: &Evidence) -> Vec<(NodePort, Option<&Hop>)> {
    let each = e.entered.iter().zip(&e.replay.starts).step_by(2);
    each.filter_map(|(entry, start)| match entry {
        Entry::Packet(at, _) => Some((*at, e.replay.hops.get(*start))),
        Entry::Timer(..) => None,
    })
    .collect()
}
