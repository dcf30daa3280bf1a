//! Rules of iptables as boxes: routers that filter, and firewalls between two ports.
//!
//! A router's packets pass: what finds the state of their connection ([`track`]), the router itself, the chain `FORWARD` of
//! the interface that they leave by (or `INPUT`, for the router's own addresses), and what makes new connections known.
//! Rules are those of IPv4: what they make of an IPv6 packet is not known.

mod chains;
mod mss;
mod nat;
mod sctp;
mod track;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use weir_ir::{Builder, Layer, Program, Reason, Width};
use weir_topology::import::iptables::{ConnState, Rule, Ruleset, Table, Target};
use weir_topology::{BoxKind, InterfaceAddr, NetBox};
use weir_verify::{Body, NodeId, NodePort};

use super::{PortEnds, World};
use crate::click::Label;
use chains::{Chains, Fate, TooLong};
use nat::Change;

/// Offset of the annotation with the state of a packet's connection (1 byte).
const STATE: u32 = 41;
/// Offset of the annotation with the number of the interface that a packet came in by (2 bytes).
const INPUT: u32 = 38;

/// Most reasons of a box that are distinguished.
const MAX_CAUSES: usize = 256;

/// An interface of a box, and its first IPv4 address.
#[derive(Debug, Clone, Copy)]
pub(super) struct Interface<'a> {
    pub name: &'a str,
    pub address: Option<u32>,
}

/// The rules of a box, and what has to be known for them.
pub(super) struct Rules<'a> {
    set: &'a Ruleset,
    filter: Table,
    tracks: bool,
}

impl<'a> Rules<'a> {
    pub(super) fn new(set: &'a Ruleset) -> Rules<'a> {
        let rules = |t: &Option<Table>| {
            t.iter().flat_map(|t| &t.chains).flat_map(|c| &c.rules).any(|r: &Rule| r.states.is_some())
        };
        Rules {
            set,
            filter: set.filter.clone().unwrap_or_default(),
            tracks: rules(&set.filter) || rules(&set.nat) || translates(set),
        }
    }

    /// Why what a box with these rules does is not modelled, if it is not.
    pub(super) fn not_modelled(&self) -> Option<String> {
        let lines: Vec<String> = self.set.other_tables.iter().map(ToString::to_string).collect();
        (!lines.is_empty())
            .then(|| format!("rules of other tables than filter and nat: lines {}", lines.join(", ")))
    }

    /// A rule with what of it is not modelled.
    fn doubt(&self, rule: &Rule, what: &str) -> String {
        format!("{} line {}: {}: {what} is not modelled", self.set.file, rule.line, rule.text)
    }

    /// A rule of which not all is modelled.
    fn unknown(&self, rule: &Rule) -> String {
        self.doubt(rule, rule.unknown.first().map_or("its translation here", String::as_str))
    }

    /// Notes the interface that packets come in by, finds the states of their connections, and changes destinations. Input
    /// and output for each interface; behind these, as many outputs each for packets that [`sctp::fresh`] and [`sctp::known`] are
    /// about, and then those for packets that are not known about.
    fn arrival(&self, name: &str, interfaces: &[Interface<'_>]) -> Built {
        let n = interfaces.len() as u32;
        let mut b = Builder::new(name, n, 3 * n + MAX_CAUSES as u32);
        let causes = Causes::new(3 * n);
        let connections = self.tracks.then(|| track::tables(&mut b));
        let mut done = Ok(());
        for (i, interface) in (0..).zip(interfaces) {
            b.input(i, |b| {
                let number = b.constant(Width::W16, i);
                b.store_anno(INPUT, number);
                nat::forget(b);
                let Some(connections) = connections else { return b.emit(i) };
                six(b, |b| b.emit(i));
                let Some(table) = self.translation() else {
                    track::look(b, connections, false);
                    return b.emit(i);
                };
                track::look(b, connections, true);
                sctp::arrive(b, &|b| b.emit(2 * n + i));
                let state = b.load_anno(Width::W8, STATE);
                let new = b.eq(state, chains::number(ConnState::New));
                let fresh = nat::is_fresh(b);
                let asked = b.and(new, fresh);
                b.unless(asked, |b| b.emit(i));
                let mut chains = Chains::new(table);
                chains.input = Some(interface.name);
                let result = chains.run(b, "PREROUTING", &mut |b, fate| match fate {
                    Fate::Accept => b.emit(i),
                    Fate::Drop | Fate::Reject => b.drop(Reason::DENIED),
                    Fate::Unknown(rule) => causes.end(b, || self.unknown(rule)),
                    Fate::Translate(rule) => {
                        let emit = |b: &mut Builder| {
                            let one = sctp::is_one(b);
                            b.when(one, |b| b.emit(n + i));
                            b.emit(i);
                        };
                        match Change::of(&rule.target, interface.address) {
                            Some(change) => nat::destination(b, &change, &emit),
                            None => causes.end(b, || self.unknown(rule)),
                        }
                    }
                });
                if result.is_err() {
                    done = Err(TooLong);
                }
            });
        }
        done.map(|()| causes.finish(b))
    }

    /// Makes new connections known, and changes sources. Input and output for each interface; behind these, as many outputs for
    /// packets that [`sctp::fresh`] is about, with inputs by which they go on, and then those for packets that are not known about.
    fn departure(&self, name: &str, interfaces: &[Interface<'_>]) -> Built {
        let n = interfaces.len() as u32;
        let mut b = Builder::new(name, 2 * n, 2 * n + MAX_CAUSES as u32);
        let causes = Causes::new(2 * n);
        let connections = self.tracks.then(|| track::tables(&mut b));
        let mut done = Ok(());
        for (i, interface) in (0..).zip(interfaces) {
            b.input(n + i, |b| b.emit(i));
            b.input(i, |b| {
                let Some(connections) = connections else { return b.emit(i) };
                six(b, |b| b.emit(i));
                let Some(table) = self.translation() else {
                    return track::confirm(b, connections, &|b| b.emit(i));
                };
                let mut rules = |b: &mut Builder, connect: &dyn Fn(&mut Builder, Option<&Change>)| {
                    let mut chains = Chains::new(table);
                    chains.output = Some(interface.name);
                    let result = chains.run(b, "POSTROUTING", &mut |b, fate| match fate {
                        Fate::Accept => connect(b, None),
                        Fate::Drop | Fate::Reject => b.drop(Reason::DENIED),
                        Fate::Unknown(rule) => causes.end(b, || self.unknown(rule)),
                        Fate::Translate(rule) => match Change::of(&rule.target, interface.address) {
                            Some(change) => connect(b, Some(&change)),
                            None => causes.end(b, || self.unknown(rule)),
                        },
                    });
                    if result.is_err() {
                        done = Err(TooLong);
                    }
                };
                nat::leave(b, connections, &mut rules, (&|b| b.emit(i), &|b| b.emit(n + i)));
            });
        }
        done.map(|()| causes.finish(b))
    }

    /// The table nat, if it translates anything.
    fn translation(&self) -> Option<&Table> {
        self.set.nat.as_ref().filter(|_| translates(self.set))
    }

    /// A chain of the table filter, for packets that leave by an interface, or by none: those that pass leave by output 0,
    /// those that are not known about by the others.
    fn chain(&self, name: &str, chain: &str, inputs: &[&str], output: Option<&str>) -> Built {
        let mut b = Builder::new(name, 1, 1 + MAX_CAUSES as u32);
        let causes = Causes::new(1);
        let mut chains = Chains::new(&self.filter);
        chains.output = output;
        // Interfaces that no rule distinguishes.
        let mut kinds: BTreeMap<Vec<bool>, Vec<usize>> = BTreeMap::new();
        for (i, input) in inputs.iter().enumerate() {
            let rules = self.filter.chains.iter().flat_map(|c| &c.rules);
            let fits = rules.filter_map(|r| r.in_interface.as_ref()).map(|m| m.fits(input)).collect();
            kinds.entry(fits).or_default().push(i);
        }
        let kinds: Vec<Vec<usize>> = kinds.into_values().collect();
        let mut done = Ok(());
        b.input(0, |b| {
            six(b, |b| {
                causes.end(b, || {
                    format!("no IPv4 packet, and the rules of {} are those of IPv4", self.set.file)
                });
            });
            let number = b.load_anno(Width::W16, INPUT);
            let mut rules = |b: &mut Builder, kind: &[usize]| {
                chains.input = kind.first().and_then(|i| inputs.get(*i)).copied();
                let result = chains.run(b, chain, &mut |b, fate| match fate {
                    Fate::Accept => b.emit(0),
                    Fate::Drop => b.drop(Reason::DENIED),
                    Fate::Reject => b.drop(Reason::new("Rejected")),
                    Fate::Unknown(rule) | Fate::Translate(rule) => causes.end(b, || self.unknown(rule)),
                });
                if result.is_err() {
                    done = Err(TooLong);
                }
            };
            let Some((last, others)) = kinds.split_last() else { return b.drop(Reason::DENIED) };
            for kind in others {
                let mut here = b.constant(Width::W1, 0_u8);
                for i in kind {
                    let same = b.eq(number, *i as u32);
                    here = b.or(here, same);
                }
                b.when(here, |b| rules(b, kind));
            }
            rules(b, last);
        });
        done.map(|()| causes.finish(b))
    }
}

/// A program, and for each of its last outputs why it is not known what becomes of packets there.
type Built = Result<(Program, Vec<String>), TooLong>;

/// The reasons for which it is not known what becomes of packets: each has an output of its own, from a number on.
struct Causes {
    first: u32,
    list: RefCell<Vec<String>>,
}

impl Causes {
    fn new(first: u32) -> Causes {
        Causes { first, list: RefCell::default() }
    }

    /// Ends the program for packets of which it is not known what becomes of them.
    fn end(&self, b: &mut Builder, cause: impl FnOnce() -> String) {
        let mut list = self.list.borrow_mut();
        // The last of many stands for all that follow.
        let cause = if list.len() + 1 < MAX_CAUSES {
            cause()
        } else {
            "one of many rules that are not modelled".into()
        };
        let place = list.iter().position(|c| *c == cause).unwrap_or(list.len());
        if place == list.len() {
            list.push(cause);
        }
        b.emit(self.first + place as u32);
    }

    fn finish(self, b: Builder) -> (Program, Vec<String>) {
        let (mut program, list) = (b.finish(), self.list.into_inner());
        program.outputs = self.first + list.len() as u32;
        (program, list)
    }
}

/// Whether some rule translates addresses.
pub(super) fn translates(set: &Ruleset) -> bool {
    let rules = set.nat.iter().flat_map(|t| &t.chains).flat_map(|c| &c.rules);
    let translation = |t: &Target| {
        matches!(t, Target::Snat(_) | Target::Dnat(_) | Target::Masquerade(_) | Target::Redirect(_))
    };
    rules.into_iter().any(|r| translation(&r.target))
}

/// The interfaces of a box.
fn interfaces(b: &NetBox) -> Vec<Interface<'_>> {
    if let BoxKind::Router(r) = &b.kind {
        let address = |a: &InterfaceAddr| match a.host().addr() {
            IpAddr::V4(a) => Some(u32::from(a)),
            IpAddr::V6(_) => None,
        };
        let interfaces = r.interfaces.iter();
        return interfaces
            .map(|i| Interface { name: &i.name, address: i.addresses.iter().find_map(address) })
            .collect();
    }
    b.ports().into_iter().map(|name| Interface { name, address: None }).collect()
}

/// Does something else with what is no IPv4 packet; it has to end.
fn six(b: &mut Builder, other: impl FnOnce(&mut Builder)) {
    b.require(Layer::Net, 20, Reason::TRUNCATED);
    let first = b.load(Width::W8, Layer::Net, 0);
    let version = b.shr(first, 4);
    let six = b.ne(version, 4);
    b.when(six, other);
}

impl World {
    /// Puts rules around a router whose program is `node`: gives for each interface where packets come in and where they
    /// leave.
    pub(super) fn add_rules(
        &mut self,
        (i, b): (usize, &NetBox),
        set: &Ruleset,
        node: NodeId,
        local: Option<NodeId>,
    ) -> Vec<PortEnds> {
        let rules = Rules::new(set);
        if rules.tracks {
            let what =
                "packets with IP options, and fragments, are taken to end here, for connections are tracked";
            self.notes.push(format!("{}: {what}", b.name));
        }
        let interfaces = interfaces(b);
        let names: Vec<&str> = interfaces.iter().map(|i| i.name).collect();
        let n = names.len() as u32;
        let (arrival, departure) =
            (rules.arrival(&b.name, &interfaces), rules.departure(&b.name, &interfaces));
        let arrival = self.rules_node(b, (i, "PREROUTING"), 3 * n, arrival);
        let departure = self.rules_node(b, (i, "POSTROUTING"), 2 * n, departure);
        if rules.translation().is_some() {
            let [fresh, known] = [sctp::fresh, sctp::known].map(|p| Arc::new(p(&b.name)));
            for port in 0..n {
                let next = NodePort { node, port };
                self.guess(b, i, &fresh, NodePort { node: arrival, port: n + port }, next);
                self.guess(b, i, &known, NodePort { node: arrival, port: 2 * n + port }, next);
                let out = NodePort { node: departure, port: n + port };
                self.guess(b, i, &fresh, out, out);
            }
        }
        let mut ends = Vec::new();
        let exits = (0..n).map(|port| (port, "FORWARD", names.get(port as usize).copied()));
        for (port, chain, output) in exits.chain(local.map(|_| (n, "INPUT", None))) {
            let program = rules.chain(&b.name, chain, &names, output);
            if program.is_err() {
                let what = "what becomes of packets is not known: its chains jump to each other too often";
                self.notes.push(format!("{}: {what}", b.name));
            }
            let filter = self.rules_node(b, (i, chain), 1, program);
            self.net.connect(NodePort { node, port }, NodePort { node: filter, port: 0 });
            if port == n {
                if let Some(local) = local {
                    self.net.connect(NodePort { node: filter, port: 0 }, NodePort { node: local, port: 0 });
                }
                continue;
            }
            self.net.connect(NodePort { node: filter, port: 0 }, NodePort { node: departure, port });
            self.net.connect(NodePort { node: arrival, port }, NodePort { node, port });
            ends.push((NodePort { node: arrival, port }, NodePort { node: departure, port }));
        }
        ends
    }

    /// Puts a program between an output and an input that does what may happen to packets of protocols that are not modelled.
    fn guess(&mut self, b: &NetBox, i: usize, program: &Arc<Program>, from: NodePort, to: NodePort) {
        let guess = self.net.add_guess(format!("{}/unknown", b.name), program, i as u32);
        let label = Label { class: "Iptables".into(), args: ["unknown".to_owned()].into(), hidden: false };
        self.labels.insert(guess, label);
        self.causes.insert(guess, sctp::CAUSE.into());
        self.net.connect(from, NodePort { node: guess, port: 0 });
        self.net.connect(NodePort { node: guess, port: 0 }, to);
    }

    /// A program of rules; of what leaves by its outputs from `first` on it is not known what becomes of it.
    fn rules_node(&mut self, b: &NetBox, (i, chain): (usize, &str), first: u32, program: Built) -> NodeId {
        let name = format!("{}/{chain}", b.name);
        let label =
            |chain: &str| Label { class: "Iptables".into(), args: [chain.to_owned()].into(), hidden: false };
        let (node, causes) = match program {
            Ok((p, causes)) => (self.net.add_program(name, &Arc::new(p), i as u32), causes),
            Err(TooLong) => (self.net.add(name, Body::Opaque), Vec::new()),
        };
        self.labels.insert(node, label(chain));
        for (port, cause) in (first..).zip(causes) {
            let opaque = self.net.add(format!("{}/unknown", b.name), Body::Opaque);
            self.labels.insert(opaque, label("unknown"));
            self.causes.insert(opaque, cause);
            self.net.connect(NodePort { node, port }, NodePort { node: opaque, port: 0 });
        }
        node
    }
}
