//! What packets can and cannot reach in a world, and whether it may be consolidated.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use weir_elements::FromArg;
use weir_filter::Expr;
use weir_ir::Program;
use weir_plan::{Classes, Plan};
use weir_switch::rule::FlowRule;
use weir_verify::checks::{Checker, Framing, Reach, RuleList, coverage};
use weir_verify::{Body, Limits, Network, NodeId, NodePort};

use crate::click::Label;
use crate::filter::guard;
use crate::report::{Consolidation, Coverage, Dead};
use crate::routes;
use crate::world::World;

/// Most rules of an element that are each asked about.
const RULES: usize = 256;

/// RuleList of an element: for an input of it their texts, in the order in which they count.
struct Asked {
    node: NodeId,
    texts: Vec<String>,
    rules: RuleList,
}

impl Coverage {
    /// What packets from anywhere can reach in a world.
    pub fn of(file: &str, world: &World, limits: Limits) -> Coverage {
        let mut world = world.clone();
        let elements: Vec<NodeId> = world.elements().collect();
        let wires = split_wires(&mut world.net, &elements);
        let asked = ask_rules(&mut world, &elements);
        world.net.finish();
        let mut checker = Checker::new(&world.net, limits);
        let rules: Vec<RuleList> = asked.iter().map(|a| a.rules.clone()).collect();
        let found = coverage(&mut checker, &world.others, &rules);
        let mut out =
            Coverage { file: file.to_owned(), consolidation: consolidation(&world), ..Coverage::default() };
        let mut add = |world: &World, node: NodeId, what: String, reach: Reach| {
            let dead = Dead::new(world, node, what);
            match reach {
                Reach::Yes => {}
                Reach::No => out.dead.push(dead),
                Reach::Unknown => out.unknown.push(dead),
            }
        };
        // An element that nothing comes to is reported once, not for each port and rule.
        let mut silent = BTreeSet::new();
        let (ports, none) = (inputs(&world), BTreeSet::new());
        for &node in &elements {
            let ports = ports.get(&node).unwrap_or(&none);
            let all = ports.iter().map(|&port| found.place(NodePort { node, port }));
            let best = all.fold(Reach::No, |best, r| match (best, r) {
                (Reach::Yes, _) | (_, Reach::Yes) => Reach::Yes,
                (Reach::Unknown, _) | (_, Reach::Unknown) => Reach::Unknown,
                _ => Reach::No,
            });
            if best != Reach::Yes && !ports.is_empty() {
                silent.insert(node);
                add(&world, node, "no packet comes to it".to_owned(), best);
            }
        }
        for (&(node, port), &place) in wires.iter().filter(|((n, _), _)| !silent.contains(n)) {
            let pattern = pattern(&world, node, port).map(|p| format!(", {p}")).unwrap_or_default();
            add(&world, node, format!("no packet leaves by output {port}{pattern}"), found.place(place));
        }
        let reached = asked.iter().zip(&found.rules).filter(|(a, _)| !silent.contains(&a.node));
        for (a, reach) in reached {
            for (text, reach) in a.texts.iter().zip(reach) {
                add(&world, a.node, format!("no packet is decided by {text}"), *reach);
            }
        }
        for &node in elements.iter().filter(|n| !silent.contains(n)) {
            if let Some(label) = world.labels.get(&node).filter(|l| routes::has_routes(&l.class)) {
                for route in routes::covered(&label.args) {
                    add(&world, node, format!("route '{route}' is covered by longer ones"), Reach::No);
                }
            }
        }
        out.add_drops(&world, &found);
        out.reason = found.doubt.map(|d| d.to_string());
        out
    }
}

/// For each output of the elements that leads somewhere, a place that only its packets come to.
fn split_wires(net: &mut Network, elements: &[NodeId]) -> BTreeMap<(NodeId, u32), NodePort> {
    let mut wires = BTreeMap::new();
    for &node in elements {
        let outputs = net.node(node).outputs.clone();
        if outputs.len() < 2 {
            continue;
        }
        for (port, to) in (0..).zip(&outputs).filter_map(|(i, to)| Some((i, (*to)?))) {
            let between = NodePort { node: net.add("", Body::Pass { lossy: false }), port: 0 };
            net.connect(NodePort { node, port }, between);
            net.connect(between, to);
            wires.insert((node, port), between);
        }
    }
    wires
}

/// The inputs of nodes that something leads to, or that packets begin at.
fn inputs(world: &World) -> BTreeMap<NodeId, BTreeSet<u32>> {
    let wired = world.net.nodes().iter().flat_map(|n| n.outputs.iter().flatten());
    let begin = world.others.iter().map(|s| &s.place);
    let mut all: BTreeMap<NodeId, BTreeSet<u32>> = BTreeMap::new();
    for p in wired.chain(begin) {
        all.entry(p.node).or_default().insert(p.port);
    }
    all
}

/// The pattern of a classifier's output.
fn pattern(world: &World, node: NodeId, port: u32) -> Option<String> {
    let label = world.labels.get(&node)?;
    let classes = ["Classifier", "IPClassifier", "IP6Classifier"];
    let arg = classes.contains(&label.class.as_str()).then(|| label.args.get(port as usize))??;
    Some(format!("pattern {} '{arg}'", port + 1))
}

/// Adds the rules of elements that have some to the network.
fn ask_rules(world: &mut World, elements: &[NodeId]) -> Vec<Asked> {
    let mut asked = Vec::new();
    let inputs = inputs(world);
    for &node in elements {
        let Some(label) = world.labels.get(&node).cloned() else { continue };
        let ports = world.net.node(node).program().and_then(|_| inputs.get(&node));
        for &port in ports.into_iter().flatten() {
            let Some(list) = rules_of(&label, port).filter(|l| l.len() <= RULES) else { continue };
            let (mut texts, mut guards) = (Vec::new(), Vec::new());
            for (text, program) in list {
                texts.push(text);
                guards.push(world.hidden_program("rule", &program));
            }
            if !guards.is_empty() {
                asked.push(Asked { node, texts, rules: RuleList { place: NodePort { node, port }, guards } });
            }
        }
    }
    asked
}

/// The rules of an element for an input, in the order in which they count, each as a program that asks a packet.
fn rules_of(label: &Label, port: u32) -> Option<Vec<(String, Arc<Program>)>> {
    let numbered = |n: usize, arg: &str| format!("rule {} '{}'", n + 1, arg.trim());
    match label.class.as_str() {
        class @ ("IPFilter" | "IP6Filter") if port == 0 => {
            let classifier = class.replace("Filter", "Classifier");
            let each = label.args.iter().enumerate().map(|(n, arg)| {
                let (_, expr) = arg.trim().split_once(char::is_whitespace)?;
                Some((numbered(n, arg), classified(&classifier, expr)?))
            });
            each.collect()
        }
        "FlowTable" => {
            let parsed = label.args.iter().enumerate();
            let mut rules: Vec<(usize, &String, FlowRule)> = parsed
                .filter_map(|(n, arg)| Some((n, arg, FlowRule::from_arg(arg).ok()?)))
                .filter(|(_, _, r)| r.input == port)
                .collect();
            rules.sort_by_key(|(n, _, r)| (std::cmp::Reverse(r.priority), *n));
            let each = rules
                .iter()
                .map(|(n, arg, r)| (numbered(*n, arg), guard(&r.filter, Framing::Ethernet).into()));
            Some(each.collect())
        }
        "Firewall" => {
            let (ports, rules) = label.args.split_at_checked(2)?;
            let here = ports.get(port as usize)?;
            let mut list = Vec::new();
            for (n, arg) in rules.iter().enumerate() {
                let rest = arg.trim().split_once(char::is_whitespace).map_or("", |(_, rest)| rest.trim());
                let (from, filter) = match rest.strip_prefix("from ") {
                    Some(rest) => {
                        let rest = rest.trim_start();
                        let (from, filter) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
                        (Some(from), filter)
                    }
                    None => (None, rest),
                };
                if from.is_some_and(|f| f != here.as_str()) {
                    continue;
                }
                let text = format!("{} for packets from {here}", numbered(n, arg));
                let expr = if filter.trim().is_empty() { Expr::True } else { Expr::parse(filter).ok()? };
                list.push((text, guard(&expr, Framing::Ip).into()));
            }
            Some(list)
        }
        _ => None,
    }
}

/// A classifier that asks for one pattern, as the element itself does.
fn classified(class: &str, pattern: &str) -> Option<Arc<Program>> {
    let config = format!("Idle -> rule :: {class}({pattern}, -); rule [0] -> Discard; rule [1] -> Discard;");
    let plan = Plan::new(&Classes::default(), &config, "rule").ok()?;
    plan.element_program(plan.graph.find("rule")?).cloned()
}

/// Whether a configuration may run beside those of others in one data plane (paper, section 2.4): what it can keep is
/// bounded, and what its elements do is known.
fn consolidation(world: &World) -> Consolidation {
    let mut c = Consolidation { may: true, reasons: Vec::new(), entries: 0, packets: 0 };
    for (i, n) in (0..).zip(world.net.nodes()) {
        if let (Body::Opaque, Some(label)) = (&n.body, world.labels.get(&i)) {
            c.reasons.push(format!("it is not known what {} :: {} does", n.name, label.class));
        }
        for t in n.program().into_iter().flat_map(|p| &p.tables).filter(|t| !t.decl.configured) {
            let capacity = u64::from(t.decl.capacity);
            c.entries += capacity;
            c.packets += capacity * u64::from(t.decl.held);
        }
    }
    c.reasons.sort_unstable();
    c.reasons.dedup();
    c.may = c.reasons.is_empty();
    c
}
