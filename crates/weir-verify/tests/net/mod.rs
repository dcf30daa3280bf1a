//! Networks of real elements, for tests: `name class(args)` lines and wires.

#![allow(dead_code, reason = "each test uses some of it")]

use std::collections::HashMap;
use std::sync::Arc;

use weir_elements::filter::{RuleList, View};
use weir_ir::{Builder, Layer, Width, check, program_of};
use weir_verify::checks::{Checker, Filter, Framing, Query, Start, Target, Verdict};
use weir_verify::{Body, Limits, Network, NodeId, NodePort, SymbolicInput};

/// A network under construction.
#[derive(Default)]
pub struct Net {
    pub net: Network,
    names: HashMap<String, NodeId>,
}

impl Net {
    /// `text`: a line for each node (`name = Class(args)`, or `name = pass|queue|sink|opaque`) and each wire (`a:1 -> b:0`, ports
    /// may be left out).
    pub fn new(text: &str) -> Net {
        let mut n = Net::default();
        let mut counts: HashMap<String, (u32, u32)> = HashMap::new();
        let wires = text.lines().map(str::trim).filter(|l| !l.contains(" = "));
        let split = |p: &str| {
            let (name, port) = p.split_once(':').unwrap_or((p, "0"));
            (name.to_owned(), port.parse::<u32>().unwrap() + 1)
        };
        for line in wires {
            let hops: Vec<&str> = line.split(" -> ").collect();
            for w in hops.windows(2) {
                let (from, to) = (split(w[0]), split(w[1]));
                let c = counts.entry(from.0).or_insert((1, 1));
                c.1 = c.1.max(from.1);
                let c = counts.entry(to.0).or_insert((1, 1));
                c.0 = c.0.max(to.1);
            }
        }
        for line in text.lines().map(str::trim).filter(|l| !l.is_empty()) {
            if let Some((name, what)) = line.split_once(" = ") {
                n.node(name, what, counts.get(name).copied().unwrap_or((1, 1)));
            } else {
                let hops: Vec<&str> = line.split(" -> ").collect();
                for w in hops.windows(2) {
                    let (from, to) = (n.port(w[0]), n.port(w[1]));
                    n.net.connect(from, to);
                }
            }
        }
        n.net.finish();
        n
    }

    fn node(&mut self, name: &str, what: &str, ports: (u32, u32)) {
        let id = match what {
            "pass" => self.net.add(name, Body::Pass { lossy: false }),
            "queue" => self.net.add(name, Body::Pass { lossy: true }),
            "sink" => self.net.add(name, Body::Sink),
            "opaque" => self.net.add(name, Body::Opaque),
            _ => {
                let program = element(name, what, ports);
                self.net.add_program(name, &program, 0)
            }
        };
        self.names.insert(name.to_owned(), id);
    }

    /// `name` or `name:port`.
    pub fn port(&self, text: &str) -> NodePort {
        let (name, port) = text.split_once(':').unwrap_or((text, "0"));
        NodePort { node: self.names[name], port: port.parse().unwrap() }
    }

    /// A guard for a filter over IP packets.
    pub fn filter(&mut self, filter: &str) -> Filter {
        let program = element("filter", &format!("IPClassifier({filter}, -)"), (1, 2));
        Filter { ip: Some(self.net.add_program("filter", &program, 0)), ethernet: None }
    }

    /// A query over Ethernet frames from one input to another.
    pub fn frames(&mut self, from: &str, to: &str, filter: &str) -> Query {
        let guard = self.guard(filter, View::Ethernet);
        let filter = Filter { ip: None, ethernet: Some(guard) };
        let framing = Framing::Ethernet;
        let from = vec![Start::new(self.port(from), framing, SymbolicInput::frame())];
        let to = vec![Target::new(self.port(to), framing)];
        Query { others: from.clone(), from, to, filter, ..Query::default() }
    }

    /// A query over IP packets from one input to another, with a filter that IPv6 packets only match.
    pub fn ipv6(&mut self, from: &str, to: &str, filter: &str) -> Query {
        let guard = self.guard(filter, View::Ip6);
        let filter = Filter { ip: Some(guard), ethernet: None };
        Query { filter, ..self.query(from, to, "") }
    }

    fn guard(&mut self, filter: &str, view: View) -> NodeId {
        let expr: weir_filter::Expr = filter.parse().unwrap();
        let mut b = Builder::new("filter", 1, 2);
        let mut plan = RuleList::new(view, [(&expr, 0)]);
        plan.declare(&mut b, "filter");
        b.input(0, |b| {
            if view == View::Ip6 {
                b.require_or(Layer::Net, 40, |b| b.emit(1));
                let first = b.load(Width::W8, Layer::Net, 0);
                let version = b.shr(first, 4);
                let six = b.eq(version, 6);
                b.unless(six, |b| b.emit(1));
            }
            plan.run(b, |b, _, _, _| b.emit(0));
            if !b.ended() {
                b.emit(1);
            }
        });
        self.net.add_program("filter", &Arc::new(b.finish()), 0)
    }

    /// A query over IP packets from some inputs to others.
    pub fn query(&mut self, from: &str, to: &str, filter: &str) -> Query {
        let start = |p: &str| Start::new(self.port(p), Framing::Ip, SymbolicInput::ip());
        let target = |p: &str| Target::new(self.port(p), Framing::Ip);
        let from: Vec<Start> = from.split(' ').map(start).collect();
        let to = to.split(' ').map(target).collect();
        let filter = if filter.is_empty() { Filter::default() } else { self.filter(filter) };
        Query { others: from.clone(), from, to, filter, ..Query::default() }
    }

    /// The query with other places that packets may come from.
    pub fn others(&self, mut q: Query, from: &str) -> Query {
        let start = |p: &str| Start::new(self.port(p), Framing::Ip, SymbolicInput::ip());
        q.others = from.split_whitespace().map(start).collect();
        q
    }
}

/// The program of `Class(args)` with so many ports.
pub fn element(name: &str, what: &str, (inputs, outputs): (u32, u32)) -> Arc<weir_ir::Program> {
    let (class, args) = what.split_once('(').unwrap_or((what, ")"));
    let args: Vec<String> =
        args.trim_end_matches(')').split(", ").filter(|a| !a.is_empty()).map(str::to_owned).collect();
    let class = weir_elements::class_named(class).unwrap_or_else(|| panic!("no class {class}"));
    let element = class.configure(&args).unwrap_or_else(|e| panic!("{what}: {e:?}"));
    let program = program_of(&*element, name, inputs, outputs);
    check(&program).unwrap();
    Arc::new(program)
}

/// Checks on a network, with the usual limits.
pub fn checker(n: &Net) -> Checker<'_> {
    Checker::new(&n.net, Limits::default())
}

pub fn holds(v: &Verdict) -> bool {
    matches!(v, Verdict::Holds(_))
}

/// The answer is this one, and a run shows it.
pub fn shown(v: &Verdict, yes: bool) {
    match v {
        Verdict::Holds(Some(e)) if yes => assert!(!e.replay.hops.is_empty()),
        Verdict::Violated(Some(e)) if !yes => assert!(!e.replay.hops.is_empty()),
        v => panic!("{v:?}"),
    }
}
