//! Programs of what sends onto segments: routers, ends, switches.

use std::collections::BTreeMap;
use std::net::IpAddr;

use weir_ir::program::TableId;
use weir_ir::{Builder, Layer, Program, Reason, TableDecl, V, Width};
use weir_model::value::IpPrefix;
use weir_table::{KeyMatch, Kind, Row};
use weir_topology::{Forwarding, PortVlans, RouteAction, Router, Switch};

use super::segments::{Neighbour, Port, Segments};
use super::{NEXT, TAG, martians};
use crate::filter::well_formed;

/// The treatment of packets for a prefix.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    /// One of these: output, number of the next port.
    Send(Vec<(u32, u32)>),
    /// They have arrived.
    Local,
    Drop(&'static str),
}

/// Two tables of prefixes, for IPv4 and IPv6, that give numbers of outcomes.
struct Prefixes {
    outcomes: Vec<Outcome>,
    tables: [TableId; 2],
}

impl Prefixes {
    fn declare(b: &mut Builder, name: &str, rows: &BTreeMap<IpPrefix, Outcome>) -> Prefixes {
        let mut outcomes: Vec<Outcome> = rows.values().cloned().collect();
        outcomes.sort();
        outcomes.dedup();
        let tables = [(Width::W32, "4"), (Width::W128, "6")].map(|(width, version)| {
            let of_version = rows.iter().filter(|(p, _)| p.addr().is_ipv4() == (width == Width::W32));
            let content: Vec<Row> = of_version
                .map(|(p, o)| {
                    let addr = match p.addr() {
                        IpAddr::V4(a) => u128::from(u32::from(a)),
                        IpAddr::V6(a) => a.into(),
                    };
                    let number = outcomes.binary_search(o).unwrap_or(0) as u128;
                    let key = vec![KeyMatch::Prefix(addr, p.len().into())];
                    Row { key, value: vec![number], priority: 0, ttl: None }
                })
                .collect();
            let size = content.len().max(1) as u32;
            let decl = TableDecl::new(
                &format!("{name}{version}"),
                Kind::Lpm,
                &[("dst", width)],
                &[("outcome", Width::W32)],
                size,
            );
            b.table(decl.configured(), content)
        });
        Prefixes { outcomes, tables }
    }

    /// Looks the destination of the packet at `net` up. `act` has to end, `none` too.
    fn look(
        &self,
        b: &mut Builder,
        act: &mut dyn FnMut(&mut Builder, &Outcome, bool),
        none: &mut dyn FnMut(&mut Builder, bool),
    ) {
        b.require(Layer::Net, 1, Reason::TRUNCATED);
        let first = b.load(Width::W8, Layer::Net, 0);
        let version = b.shr(first, 4);
        b.switch(version, &[4, 6], |b, case| {
            let Some(case) = case else { return b.drop(Reason::new("BadVersion")) };
            let (len, width, at) = if case == 0 { (20, Width::W32, 16) } else { (40, Width::W128, 24) };
            b.require(Layer::Net, len, Reason::TRUNCATED);
            let dst = b.load(width, Layer::Net, at);
            let entry = b.find(self.tables[case], &[dst], |b| none(b, case == 0));
            let outcome = b.get(entry, "outcome");
            let cases: Vec<u128> = (0..self.outcomes.len() as u128).collect();
            b.switch(outcome, &cases, |b, i| match i.and_then(|i| self.outcomes.get(i)) {
                Some(o) => act(b, o, case == 0),
                None => b.drop(Reason::NO_MATCH),
            });
        });
    }
}

/// Sends the packet by an output to a port of its segment.
fn send(b: &mut Builder, output: u32, next: u32, tag: u16) {
    let next = b.constant(Width::W32, next);
    b.store_anno(NEXT, next);
    let tag = b.constant(Width::W16, tag);
    b.store_anno(TAG, tag);
    b.emit(output);
}

/// One of several next hops, as a hash may choose.
pub(super) fn choose(b: &mut Builder, n: usize, mut way: impl FnMut(&mut Builder, usize)) {
    if n < 2 {
        return way(b, 0);
    }
    let random = b.random();
    let cases: Vec<u128> = (1..n as u128).collect();
    b.switch(random, &cases, |b, i| way(b, i.map_or(0, |i| i + 1)));
}

/// The prefixes of neighbours, longest first where they overlap.
fn neighbours(segments: &Segments<'_>, near: &[Neighbour], output: u32) -> BTreeMap<IpPrefix, Outcome> {
    let mut rows = BTreeMap::new();
    for n in near {
        for p in segments.prefixes(*n) {
            rows.entry(p).or_insert(Outcome::Send(vec![(output, n.number)]));
        }
    }
    rows
}

/// A router: forwards by its table, and takes what is for itself (by the output behind those of its interfaces).
pub(super) fn router(segments: &Segments<'_>, node: usize, name: &str, r: &Router) -> Program {
    let n = r.interfaces.len() as u32;
    let near: Vec<Vec<Neighbour>> = (0..r.interfaces.len()).map(|i| segments.behind((node, i))).collect();
    let interface = |name: &str| r.interfaces.iter().position(|i| i.name == name);
    let mut rows: BTreeMap<IpPrefix, Outcome> = BTreeMap::new();
    for route in &r.routes {
        let outcome = match &route.action {
            RouteAction::Local => Outcome::Local,
            RouteAction::Blackhole => Outcome::Drop("Blackhole"),
            RouteAction::Unreachable => Outcome::Drop("Unreachable"),
            RouteAction::Prohibit => Outcome::Drop("Prohibited"),
            RouteAction::Forward(hops) => {
                let hop = |hop: &weir_topology::NextHop| {
                    let i = interface(&hop.interface)?;
                    let near = near.get(i)?;
                    let next = match hop.via {
                        Some(via) => segments.next_hop(near, via),
                        None => segments.owner(near, route.prefix),
                    };
                    Some((i as u32, next))
                };
                for i in hops.iter().filter(|h| h.via.is_none()).filter_map(|h| interface(&h.interface)) {
                    on_link(
                        segments,
                        r,
                        route.prefix,
                        (i, near.get(i).map_or(&[], Vec::as_slice)),
                        &mut rows,
                    );
                }
                Outcome::Send(hops.iter().filter_map(hop).collect())
            }
        };
        rows.insert(route.prefix, outcome);
    }
    let (own, ends) = martians::destinations(r);
    for (prefixes, outcome) in [(own, Outcome::Local), (ends, Outcome::Drop(martians::MARTIAN))] {
        for prefix in prefixes {
            rows.entry(prefix).or_insert_with(|| outcome.clone());
        }
    }
    let mut b = Builder::new(name, n, n + 1);
    let table = Prefixes::declare(&mut b, "routes", &rows);
    let tag =
        |i: u32| r.interfaces.get(i as usize).and_then(|i| i.vlan).map_or(0, weir_model::value::VlanId::get);
    b.all_inputs(
        |b, i| take(b, segments.number((node, i as usize)), tag(i)),
        |b| {
            martians::require_source(b, r);
            table.look(
                b,
                &mut |b, outcome, v4| match outcome {
                    Outcome::Local => b.emit(n),
                    Outcome::Drop(reason) => b.drop(Reason::new(reason)),
                    Outcome::Send(ways) => {
                        decrement(b, v4);
                        choose(b, ways.len(), |b, way| match ways.get(way) {
                            Some(&(output, next)) => send(b, output, next, tag(output)),
                            None => b.drop(Reason::UNCONNECTED),
                        });
                    }
                },
                &mut |b, _| b.drop(Reason::new("NoRoute")),
            );
        },
    );
    b.finish()
}

/// Rows for who is on the network of a connected route, where no longer route stands before it.
fn on_link(
    segments: &Segments<'_>,
    r: &Router,
    prefix: IpPrefix,
    (interface, near): (usize, &[Neighbour]),
    rows: &mut BTreeMap<IpPrefix, Outcome>,
) {
    for n in near {
        for own in segments.prefixes(*n).into_iter().filter(|own| prefix.contains(own) && *own != prefix) {
            let longer = r.routes.iter().any(|q| q.prefix.contains(&own) && q.prefix.len() > prefix.len());
            if !longer {
                rows.insert(own, Outcome::Send(vec![(interface as u32, n.number)]));
            }
        }
    }
}

/// Goes on with what is for this port, or else drops it.
fn take(b: &mut Builder, own: u32, tag: u16) {
    let found = b.load_anno(Width::W16, TAG);
    let other = b.ne(found, tag);
    b.when(other, |b| b.drop(Reason::new("OtherVlan")));
    let next = b.load_anno(Width::W32, NEXT);
    let other = b.ne(next, own);
    b.when(other, |b| b.drop(Reason::new("OtherHost")));
}

fn decrement(b: &mut Builder, v4: bool) {
    let at = if v4 { 8 } else { 7 };
    let ttl = b.load(Width::W8, Layer::Net, at);
    let over = b.le(ttl, 1);
    b.when(over, |b| b.drop(Reason::TTL_EXPIRED));
    let less = b.sub(ttl, 1);
    b.store(Layer::Net, at, less);
    if v4 {
        let (before, after) = (b.constant(Width::W16, 0x0100_u16), b.constant(Width::W16, 0_u16));
        weir_elements::build::update_ip_checksum(b, &[before], &[after]);
    }
}

/// An end sends: to who owns the destination on its segment, or else to a router there.
pub(super) fn host(segments: &Segments<'_>, port: Port, name: &str, own_sources_only: bool) -> Program {
    let mut b = Builder::new(name, 1, 1);
    let near = segments.behind(port);
    let routers: Vec<u32> = near.iter().filter(|n| segments.is_router(**n)).map(|n| n.number).collect();
    let table = Prefixes::declare(&mut b, "neighbours", &neighbours(segments, &near, 0));
    let sources = own_sources_only.then(|| Own::declare(&mut b, "sources", segments, port.0));
    b.input(0, |b| {
        well_formed(b, |b| b.drop(Reason::BAD_HEADER));
        if let Some(sources) = &sources {
            sources.require_source(b);
        }
        table.look(
            b,
            &mut |b, outcome, _| match outcome {
                Outcome::Send(ways) => send(b, 0, ways.first().map_or(0, |w| w.1), 0),
                _ => b.drop(Reason::NO_MATCH),
            },
            &mut |b, _| {
                choose(b, routers.len(), |b, way| send(b, 0, routers.get(way).copied().unwrap_or(0), 0));
            },
        );
    });
    b.finish()
}

/// What leaves a box that knows nothing of segments: for who owns the destination behind the port; else for whom it was
/// for, if that is behind the port; else for a router there.
pub(super) fn forward(segments: &Segments<'_>, port: Port, name: &str) -> Program {
    let mut b = Builder::new(name, 1, 1);
    let near = segments.behind(port);
    let router = near.iter().find(|n| segments.is_router(**n)).map_or(0, |n| n.number);
    let numbers: Vec<u32> = near.iter().map(|n| n.number).collect();
    let table = Prefixes::declare(&mut b, "neighbours", &neighbours(segments, &near, 0));
    b.input(0, |b| {
        table.look(
            b,
            &mut |b, outcome, _| match outcome {
                Outcome::Send(ways) => send(b, 0, ways.first().map_or(0, |w| w.1), 0),
                _ => b.drop(Reason::NO_MATCH),
            },
            &mut |b, _| {
                let next = b.load_anno(Width::W32, NEXT);
                if let Some(known) = among(b, next, &numbers) {
                    b.when(known, |b| b.emit(0));
                }
                send(b, 0, router, 0);
            },
        );
    });
    b.finish()
}

/// A table of the addresses that a box owns: those of its prefixes that no longer prefix of another box takes out.
struct Own(Prefixes);

/// What it says of the addresses of others.
const OTHERS: Outcome = Outcome::Drop("OtherHost");

impl Own {
    fn declare(b: &mut Builder, name: &str, segments: &Segments<'_>, node: usize) -> Own {
        let row = |(prefix, own)| (prefix, if own { Outcome::Local } else { OTHERS });
        Own(Prefixes::declare(b, name, &segments.owned(node).into_iter().map(row).collect()))
    }

    /// Drops packets whose source is none of them.
    fn require_source(&self, b: &mut Builder) {
        b.require(Layer::Net, 1, Reason::TRUNCATED);
        let first = b.load(Width::W8, Layer::Net, 0);
        let version = b.shr(first, 4);
        let local = self.0.outcomes.binary_search(&Outcome::Local).unwrap_or(usize::MAX);
        b.switch(version, &[4, 6], |b, case| {
            let Some(case) = case else { return b.drop(Reason::new("BadVersion")) };
            let (len, width, at) = if case == 0 { (20, Width::W32, 12) } else { (40, Width::W128, 8) };
            b.require(Layer::Net, len, Reason::TRUNCATED);
            let src = b.load(width, Layer::Net, at);
            let entry = b.find(self.0.tables[case], &[src], |b| b.drop(Reason::new("SourceNotOwn")));
            let outcome = b.get(entry, "outcome");
            let other = b.ne(outcome, local as u32);
            b.when(other, |b| b.drop(Reason::new("SourceNotOwn")));
        });
    }
}

/// An end takes what is for its port, and of what is for nobody known what is addressed to it.
pub(super) fn accept(segments: &Segments<'_>, port: Port, name: &str) -> Program {
    let mut b = Builder::new(name, 1, 1);
    let own = Own::declare(&mut b, "own", segments, port.0);
    let number = segments.number(port);
    b.input(0, |b| {
        let tag = b.load_anno(Width::W16, TAG);
        let tagged = b.ne(tag, 0);
        b.when(tagged, |b| b.drop(Reason::new("OtherVlan")));
        let next = b.load_anno(Width::W32, NEXT);
        let mine = b.eq(next, number);
        b.when(mine, |b| b.emit(0));
        let other = b.ne(next, 0);
        b.when(other, |b| b.drop(Reason::new("OtherHost")));
        let other = |b: &mut Builder| b.drop(Reason::new("OtherHost"));
        let mut act = |b: &mut Builder, outcome: &Outcome, _: bool| match outcome {
            Outcome::Local => b.emit(0),
            _ => other(b),
        };
        own.0.look(b, &mut act, &mut |b, _| other(b));
    });
    b.finish()
}

/// A switch: to the port behind which the one that a packet is for stands, or to all of the VLAN but where it came from.
pub(super) fn switch(segments: &Segments<'_>, node: usize, name: &str, s: &Switch) -> Program {
    let n = s.ports.len() as u32;
    let mut places: BTreeMap<u32, u32> = BTreeMap::new();
    for port in 0..n {
        for near in segments.behind((node, port as usize)) {
            places.entry(near.number).or_insert(port);
        }
    }
    let flood = !matches!(s.forwarding, Forwarding::Table { flood_unknown: false, .. });
    let mut b = Builder::new(name, n, n);
    for port in 0..n {
        let Some(vlans) = s.ports.get(port as usize).map(|p| &p.vlans) else { continue };
        b.input(port, |b| {
            let tag = b.load_anno(Width::W16, TAG);
            let found = accepted(vlans);
            let tags: Vec<u128> = found.iter().map(|(tag, _)| u128::from(*tag)).collect();
            let forward = |b: &mut Builder, vlan: Option<u16>| {
                let outputs: Vec<(u32, Option<u16>)> = (0..n)
                    .filter(|o| *o != port)
                    .filter_map(|o| Some((o, sent_tag(&s.ports.get(o as usize)?.vlans, vlan)?)))
                    .collect();
                by_number(b, &places, &outputs, flood);
            };
            match vlans {
                PortVlans::Unaware => forward(b, None),
                _ => b.switch(tag, &tags, |b, case| match case.and_then(|i| found.get(i)) {
                    Some((_, vlan)) => forward(b, Some(*vlan)),
                    None => b.drop(Reason::new("OtherVlan")),
                }),
            }
        });
    }
    b.finish()
}

/// The tags that a port takes, each with its VLAN; 0 is no tag.
fn accepted(vlans: &PortVlans) -> Vec<(u16, u16)> {
    match vlans {
        PortVlans::Unaware => Vec::new(),
        PortVlans::Access(v) => vec![(0, v.get())],
        PortVlans::Trunk { tagged, native } => {
            let mut all: Vec<(u16, u16)> = tagged.iter().map(|v| (v.get(), v.get())).collect();
            if let Some(native) = native {
                all.retain(|(tag, _)| *tag != native.get());
                all.push((0, native.get()));
            }
            all
        }
    }
}

/// The tag that frames of a VLAN (`None`: of a port that knows none) leave a port with, if they may: `Some(None)` as it is.
fn sent_tag(vlans: &PortVlans, vlan: Option<u16>) -> Option<Option<u16>> {
    match (vlans, vlan) {
        (PortVlans::Unaware, _) => Some(None),
        // What a port without VLANs brings passes to ports with one as it is.
        (PortVlans::Access(v), Some(vlan)) => (v.get() == vlan).then_some(Some(0)),
        (PortVlans::Trunk { native: Some(n), .. }, Some(vlan)) if n.get() == vlan => Some(Some(0)),
        (PortVlans::Trunk { tagged, .. }, Some(vlan)) => {
            tagged.iter().any(|t| t.get() == vlan).then_some(Some(vlan))
        }
        (_, None) => None,
    }
}

fn by_number(b: &mut Builder, places: &BTreeMap<u32, u32>, outputs: &[(u32, Option<u16>)], flood: bool) {
    let next = b.load_anno(Width::W32, NEXT);
    let out = |b: &mut Builder, (output, tag): (u32, Option<u16>)| {
        if let Some(tag) = tag {
            let tag = b.constant(Width::W16, tag);
            b.store_anno(TAG, tag);
        }
        b.emit(output);
    };
    for &(output, tag) in outputs {
        let here: Vec<u32> = places.iter().filter(|(_, p)| **p == output).map(|(n, _)| *n).collect();
        if let Some(found) = among(b, next, &here) {
            b.when(found, |b| out(b, (output, tag)));
        }
    }
    let known = b.ne(next, 0);
    b.when(known, |b| b.drop(Reason::new("OtherVlan")));
    match outputs.split_last() {
        Some((last, rest)) if flood => {
            for &o in rest {
                b.fork(|b| out(b, o));
            }
            out(b, *last);
        }
        _ => b.drop(Reason::new("UnknownAddress")),
    }
}

/// Whether a number is one of these.
fn among(b: &mut Builder, v: V, list: &[u32]) -> Option<V> {
    let mut found = None;
    for &n in list {
        let same = b.eq(v, n);
        found = Some(match found {
            Some(before) => b.or(before, same),
            None => same,
        });
    }
    found
}
