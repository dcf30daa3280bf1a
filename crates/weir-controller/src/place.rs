//! Which node each part of a graph is on that spans nodes. Pure. Access points are where their interfaces are; functions come as close
//! to them as resources allow, by [`weir_placement`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use weir_api::domain::Domain;
use weir_api::problem::Mistake;
use weir_model::graph::{Function, PortRef, ServiceGraph};
use weir_model::value::Id;
use weir_placement::{
    Demand, Domain as Network, End, Flow, Kind, MAX_MODULES, Module, Network as Build, Placer, Region,
    Server, Sink, Spec, Vertex, VertexId,
};

use crate::facts::{needs, no_image, no_place};
use crate::links::Link;
use crate::split::Places;

/// Longest path between two parts of a graph, in links, that is tried before any is taken.
const LONGEST: u32 = 16;
/// Bandwidths are not asked for yet: links and nodes have more than any graph counts.
const PLENTY: u64 = 1 << 40;

/// A node that a part of a graph could be on.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// What it is to others.
    pub domain: &'a Domain,
    /// Whether it gets no new graphs.
    pub cordoned: bool,
}

fn mistake(path: String, message: String, help: impl Into<String>) -> Mistake {
    Mistake { path, message, help: help.into(), ..Mistake::default() }
}

/// The nodes of the access points.
fn saps(
    graph: &ServiceGraph,
    nodes: &BTreeMap<&str, Facts<'_>>,
    before: Option<&Places>,
    mistakes: &mut Vec<Mistake>,
) -> BTreeMap<Id, String> {
    let mut found = BTreeMap::new();
    for (i, sap) in graph.saps.iter().enumerate() {
        let path = format!("sffg.saps[{i}]");
        let what = format!("access point '{}'", sap.id);
        let wanted = sap.node.as_ref().or(graph.node.as_ref()).map(Id::as_str);
        let had = before.and_then(|b| b.saps.get(&sap.id)).map(String::as_str);
        let open = |name: &str, n: &Facts<'_>| !n.cordoned || had == Some(name);
        let able: Vec<&str> = nodes
            .iter()
            .filter(|(name, n)| open(name, n) && no_place(n.domain, graph.id.as_str(), sap).is_none())
            .map(|(name, _)| *name)
            .collect();
        let node = match (wanted, &able[..]) {
            (Some(wanted), _) if able.contains(&wanted) => wanted,
            (Some(wanted), _) if nodes.contains_key(wanted) => {
                let why = nodes.get(wanted).and_then(|n| no_place(n.domain, graph.id.as_str(), sap));
                let text =
                    format!("{what}: node {wanted}: {}", why.unwrap_or_else(|| "it is cordoned".into()));
                mistakes.push(mistake(path, text, "name a free interface, or an address, of that node"));
                continue;
            }
            (Some(wanted), _) => {
                mistakes.push(mistake(path, format!("{what}: node '{wanted}' is offline"), ""));
                continue;
            }
            (None, [one]) => one,
            (None, []) => {
                let why = nodes.iter().map(|(name, n)| {
                    let why = no_place(n.domain, graph.id.as_str(), sap);
                    format!("node {name}: {}", why.unwrap_or_else(|| "it is cordoned".into()))
                });
                let text =
                    format!("{what}: no node has a place for it: {}", why.collect::<Vec<_>>().join("; "));
                mistakes.push(mistake(path, text, ""));
                continue;
            }
            (None, _) => match had.filter(|had| able.contains(had)) {
                Some(had) => had,
                None => {
                    let text = format!("{what}: nodes {} have a place for it", able.join(", "));
                    mistakes.push(mistake(path, text, "say which with \"node\""));
                    continue;
                }
            },
        };
        found.insert(sap.id.clone(), node.to_owned());
    }
    found
}

/// The functions and access points in an order in which traffic may come to them, from the first access point on.
fn order(graph: &ServiceGraph) -> BTreeMap<PortRef, usize> {
    let whole = |p: &PortRef| match p {
        PortRef::Sap(id) => PortRef::Sap(id.clone()),
        PortRef::Function { function, .. } => {
            PortRef::Function { function: function.clone(), port: function.clone() }
        }
    };
    let mut next: BTreeMap<PortRef, BTreeSet<PortRef>> = BTreeMap::new();
    for rule in &graph.flowrules {
        for output in &rule.actions.output_to_port {
            next.entry(whole(&rule.matches.port_in)).or_default().insert(whole(output));
        }
    }
    let all = graph.saps.iter().map(|s| PortRef::Sap(s.id.clone()));
    let all = all.chain(
        graph.functions.iter().map(|f| PortRef::Function { function: f.id.clone(), port: f.id.clone() }),
    );
    let mut seen: BTreeMap<PortRef, usize> = BTreeMap::new();
    for start in all {
        let mut queue = VecDeque::from([start]);
        while let Some(place) = queue.pop_front() {
            if seen.contains_key(&place) {
                continue;
            }
            seen.insert(place.clone(), seen.len());
            queue.extend(next.get(&place).into_iter().flatten().cloned());
        }
    }
    seen
}

/// Which node each part of a graph is on. What runs stays where it is as long as that is possible.
///
/// # Errors
/// All that stands against it.
pub fn place(
    graph: &ServiceGraph,
    nodes: &BTreeMap<&str, Facts<'_>>,
    links: &[Link],
    before: Option<&Places>,
) -> Result<Places, Vec<Mistake>> {
    let mut mistakes = Vec::new();
    let saps = saps(graph, nodes, before, &mut mistakes);
    if graph.functions.len() > MAX_MODULES {
        let text = format!("the graph has {} functions", graph.functions.len());
        let help = format!("at most {MAX_MODULES} are placed on several nodes; name one node for all");
        mistakes.push(mistake("sffg.SFs".into(), text, help));
    }
    let had = |f: &Function, name: &str| {
        before.and_then(|b| b.functions.get(&f.id)).is_some_and(|node| node == name)
    };
    for (i, f) in graph.functions.iter().enumerate() {
        let wanted = f.node.as_ref().or(graph.node.as_ref());
        let names: Vec<String> = nodes
            .iter()
            .filter(|(name, _)| wanted.is_none_or(|w| w.as_str() == **name))
            .map(|(name, n)| match no_image(n.domain, f) {
                None if n.cordoned && !had(f, name) => format!("node {name}: it is cordoned"),
                None => String::new(),
                Some(why) => format!("node {name}: {why}"),
            })
            .collect();
        if names.is_empty() {
            let text = format!("node '{}' is offline", wanted.map_or("", |w| w.as_str()));
            mistakes.push(mistake(format!("sffg.SFs[{i}]"), text, ""));
        } else if names.iter().all(|n| !n.is_empty()) {
            let text = format!("no node can run it: {}", names.join("; "));
            mistakes.push(mistake(format!("sffg.SFs[{i}]"), text, ""));
        }
    }
    if !mistakes.is_empty() {
        return Err(mistakes);
    }
    let kept = before.map(|b| &b.functions).filter(|b| !b.is_empty());
    let tried = [kept, None].into_iter().skip(usize::from(kept.is_none()));
    let mut last = String::new();
    for kept in tried {
        match functions(graph, &saps, nodes, links, kept) {
            Ok(functions) => return Ok(Places { functions, saps }),
            Err(why) => last = why,
        }
    }
    Err(last.lines().map(|line| Mistake::from(line.to_owned())).collect())
}

/// The nodes of the functions.
fn functions(
    graph: &ServiceGraph,
    saps: &BTreeMap<Id, String>,
    nodes: &BTreeMap<&str, Facts<'_>>,
    links: &[Link],
    kept: Option<&BTreeMap<Id, String>>,
) -> Result<BTreeMap<Id, String>, String> {
    if graph.functions.is_empty() {
        return Ok(BTreeMap::new());
    }
    let mut build = Build::new();
    let mut vertices: BTreeMap<&str, VertexId> = BTreeMap::new();
    for (name, n) in nodes {
        let had = |f: &Function| kept.and_then(|k| k.get(&f.id)).is_some_and(|k| k == name);
        let can = |(i, f): (usize, &Function)| {
            let open = !n.cordoned || had(f);
            if open && no_image(n.domain, f).is_none() { 1u64 << i } else { 0 }
        };
        let r = &n.domain.resources;
        let (cpu, memory) = match r.overcommit {
            true => (u64::MAX, u64::MAX),
            false => {
                (r.cpu.total.saturating_sub(r.cpu.used), r.memory.total.saturating_sub(r.memory.used) >> 20)
            }
        };
        let bounded = |v: u64| u32::try_from(v).unwrap_or(u32::MAX).min(1 << 30);
        let server = Server {
            cpu: bounded(cpu),
            memory: bounded(memory),
            internal: PLENTY,
            region: Region(0),
            kinds: graph.functions.iter().enumerate().map(can).fold(0, |all, bit| all | bit),
        };
        vertices.insert(name, build.add(Vertex::Server(server)));
    }
    for link in links {
        if let (Some(a), Some(b)) = (vertices.get(&*link.a.node), vertices.get(&*link.b.node)) {
            build.cable(*a, *b, PLENTY, 1);
        }
    }
    let mut access: BTreeMap<&Id, VertexId> = BTreeMap::new();
    for (id, node) in saps {
        let vertex = build.add(Vertex::Access);
        if let Some(server) = vertices.get(node.as_str()) {
            build.cable(vertex, *server, PLENTY, 0);
        }
        access.insert(id, vertex);
    }
    let spec = spec(graph, nodes, &vertices, &access, kept);
    let mut network = Network::new(build).map_err(|e| e.to_string())?;
    let mut placer = Placer::new(weir_placement::Algorithm::default(), 1);
    let mut last = String::new();
    for bound in (0..=LONGEST).map(Some).chain([None]) {
        let demand = Demand::new(Spec { max_delay: bound, ..spec.clone() }).map_err(|e| e.to_string())?;
        match placer.place(&mut network, &demand) {
            Ok(placed) => {
                let name =
                    |v: &VertexId| vertices.iter().find(|(_, at)| *at == v).map(|(n, _)| (*n).to_owned());
                let at = graph.functions.iter().zip(&placed.servers);
                return Ok(at.filter_map(|(f, v)| Some((f.id.clone(), name(v)?))).collect());
            }
            Err(refusal) => last = refusal.to_string(),
        }
    }
    let demand = Demand::new(spec).map_err(|e| e.to_string())?;
    let Ok(explained) = network.explain(&demand) else { return Err(last) };
    let mut lines = Vec::new();
    for (f, verdicts) in graph.functions.iter().zip(&explained.modules) {
        let node = |(name, vertex): (&&str, &VertexId)| {
            let (_, reason) = verdicts.nodes.iter().find(|(v, _)| v == vertex)?;
            Some(format!("node {name}: {reason}"))
        };
        let nodes: Vec<String> = vertices.iter().filter_map(node).collect();
        lines.push(format!("function {}: {}", f.id, nodes.join("; ")));
    }
    Err(format!("{last}\n{}", lines.join("\n")))
}

/// What the placement is asked for.
fn spec(
    graph: &ServiceGraph,
    nodes: &BTreeMap<&str, Facts<'_>>,
    vertices: &BTreeMap<&str, VertexId>,
    access: &BTreeMap<&Id, VertexId>,
    kept: Option<&BTreeMap<Id, String>>,
) -> Spec {
    let module = |(i, f): (usize, &Function)| {
        let wanted = f.node.as_ref().or(graph.node.as_ref()).map(Id::as_str);
        let wanted = wanted.or(kept.and_then(|k| k.get(&f.id)).map(String::as_str));
        let most = nodes.values().map(|n| needs(n.domain, f)).max().unwrap_or_default();
        Module {
            memory: u32::try_from(most.0 >> 20).unwrap_or(u32::MAX).min(1 << 30),
            cpu: most.1.min(1 << 30),
            kind: u8::try_from(i).ok().map(Kind),
            node: wanted.and_then(|w| vertices.get(w)).copied(),
            ..Module::default()
        }
    };
    let modules: Vec<Module> = graph.functions.iter().enumerate().map(module).collect();
    // Traffic passes in both directions; the demand has to be without cycles, so each pair is joined in one.
    let order = order(graph);
    let number = |p: &PortRef| match p {
        PortRef::Sap(_) => order.get(p).copied(),
        PortRef::Function { function, .. } => {
            order.get(&PortRef::Function { function: function.clone(), port: function.clone() }).copied()
        }
    };
    let mut spec = Spec { modules, ..Spec::default() };
    let mut seen = BTreeSet::new();
    let index = |f: &Id| graph.functions.iter().position(|g| g.id == *f);
    for rule in &graph.flowrules {
        for output in &rule.actions.output_to_port {
            let (mut from, mut to) = (&rule.matches.port_in, output);
            let (Some(mut a), Some(mut b)) = (number(from), number(to)) else { continue };
            if a > b {
                (from, to, a, b) = (to, from, b, a);
            }
            if a == b || !seen.insert((a, b)) {
                continue;
            }
            let from = match from {
                PortRef::Function { function, .. } => index(function).map(End::Module),
                PortRef::Sap(id) => access.get(id).map(|v| {
                    spec.sources.push(*v);
                    End::Source(spec.sources.len() - 1)
                }),
            };
            let to = match to {
                PortRef::Function { function, .. } => index(function).map(End::Module),
                PortRef::Sap(id) => access.get(id).map(|v| {
                    spec.sinks.push(Sink::OneOf(vec![*v]));
                    End::Sink(spec.sinks.len() - 1)
                }),
            };
            // What goes from one access point to another concerns no function.
            if let (Some(from), Some(to)) = (from, to)
                && (matches!(from, End::Module(_)) || matches!(to, End::Module(_)))
            {
                spec.flows.push(Flow { from, to, bandwidth: 0 });
            }
        }
    }
    spec
}

#[cfg(test)]
mod tests {

    use weir_api::domain::{DomainImage, Endpoint, ResourceUse, Share};

    use super::*;
    use crate::links;

    const GRAPH: &str = "
id: g
name: g
SFs:
  - {id: a, name: firewall, ports: [in, out]}
  - {id: b, name: nat, ports: [in, out]}
saps:
  - {id: lan, type: interface, interface: {if-name: lan}}
  - {id: wan, type: interface, interface: {if-name: wan}}
flowrules:
  - {id: r1, priority: 1, match: {port_in: 'sap:lan'}, actions: {output_to_port: 'sf:a:in'}}
  - {id: r2, priority: 1, match: {port_in: 'sf:a:out'}, actions: {output_to_port: 'sf:b:in'}}
  - {id: r3, priority: 1, match: {port_in: 'sf:b:out'}, actions: {output_to_port: 'sap:wan'}}
  - {id: r4, priority: 1, match: {port_in: 'sap:wan'}, actions: {output_to_port: 'sf:b:out'}}
  - {id: r5, priority: 1, match: {port_in: 'sf:b:in'}, actions: {output_to_port: 'sf:a:out'}}
  - {id: r6, priority: 1, match: {port_in: 'sf:a:in'}, actions: {output_to_port: 'sap:lan'}}
";

    /// A node with these interfaces and images; a function of any takes 100 MB.
    fn domain(number: u8, interfaces: &[&str], images: &[&str], free: u64) -> Domain {
        let endpoint = |name: &&str| Endpoint {
            interface: (*name).to_owned(),
            up: true,
            mac: None,
            mtu: Some(1500),
            addresses: match *name {
                "m" => vec![format!("10.0.0.{number}/24")],
                _ => Vec::new(),
            },
            graph: None,
            vlans: Vec::new(),
        };
        let image = |name: &&str| DomainImage {
            image: (*name).to_owned(),
            kind: "click".into(),
            secrets: Vec::new(),
            memory: 100 << 20,
            cpu: None,
            lack: None,
        };
        let share = |total| Share { total, used: 0 };
        Domain {
            endpoints: interfaces.iter().chain(&["m"]).map(endpoint).collect(),
            images: images.iter().map(image).collect(),
            resources: ResourceUse { memory: share(free << 20), cpu: share(4000), overcommit: false },
            ..Domain::default()
        }
    }

    fn placed(text: &str, domains: &[Domain], before: Option<&Places>) -> Result<String, String> {
        let graph = ServiceGraph::parse(text).unwrap();
        let names = ["n1", "n2", "n3"];
        let links = links::found(names.iter().copied().zip(domains));
        let facts = |domain| Facts { domain, cordoned: false };
        let nodes = names.iter().copied().zip(domains.iter().map(facts)).collect();
        let text = |p: Places| {
            let functions: Vec<String> =
                p.functions.iter().map(|(id, node)| format!("{id} {node}")).collect();
            functions.join(", ")
        };
        let errors = |all: Vec<Mistake>| {
            let all: Vec<String> = all.iter().map(|m| format!("{}: {}", m.path, m.message)).collect();
            all.join("\n")
        };
        place(&graph, &nodes, &links, before).map(text).map_err(errors)
    }

    #[test]
    fn functions_are_near_their_access_points_where_there_is_memory() {
        let both = ["firewall", "nat"];
        let all =
            [domain(1, &["lan"], &both, 1000), domain(2, &["wan"], &both, 1000), domain(3, &[], &both, 1000)];
        let near = placed(GRAPH, &all, None).unwrap();
        assert!(!near.contains("n3"), "one link is enough: {near}");
        let small =
            [domain(1, &["lan"], &both, 150), domain(2, &["wan"], &both, 150), domain(3, &[], &both, 1000)];
        assert_eq!(placed(GRAPH, &small, None).unwrap(), "a n1, b n2");
        let none =
            [domain(1, &["lan"], &both, 50), domain(2, &["wan"], &both, 50), domain(3, &[], &both, 1000)];
        assert_eq!(placed(GRAPH, &none, None).unwrap(), "a n3, b n3");
        let e = placed(GRAPH, &[domain(1, &["lan", "wan"], &both, 150)], None).unwrap_err();
        assert!(e.contains("no place was found") || e.contains("no server"), "{e}");
    }

    #[test]
    fn functions_are_where_they_can_run_where_they_were_and_where_they_are_wished() {
        let all = [
            domain(1, &["lan"], &["firewall"], 1000),
            domain(2, &["wan"], &["firewall"], 1000),
            domain(3, &[], &["firewall", "nat"], 1000),
        ];
        assert!(placed(GRAPH, &all, None).unwrap().contains("b n3"));
        let wish = GRAPH.replace("name: firewall", "node: n2, name: firewall");
        assert_eq!(placed(&wish, &all, None).unwrap(), "a n2, b n3");
        let id = |text: &str| text.parse::<Id>().unwrap();
        let functions = BTreeMap::from([(id("a"), "n2".to_owned()), (id("b"), "n3".to_owned())]);
        let before = Places { functions, saps: BTreeMap::new() };
        assert_eq!(placed(GRAPH, &all, Some(&before)).unwrap(), "a n2, b n3");
        let e = placed(&GRAPH.replace("name: nat", "node: n1, name: nat"), &all, None).unwrap_err();
        assert_eq!(e, "sffg.SFs[1]: no node can run it: node n1: it has no image 'nat'");
    }

    #[test]
    fn an_interface_that_several_nodes_have_is_told_apart_by_name() {
        let all = [
            domain(1, &["lan"], &["firewall", "nat"], 1000),
            domain(2, &["lan", "wan"], &["firewall", "nat"], 1000),
        ];
        let e = placed(GRAPH, &all, None).unwrap_err();
        assert_eq!(e, "sffg.saps[0]: access point 'lan': nodes n1, n2 have a place for it");
        let said = GRAPH.replace("{id: lan,", "{id: lan, node: n1,");
        assert!(placed(&said, &all, None).is_ok());
        let e = placed(&GRAPH.replace("{id: lan,", "{id: lan, node: n7,"), &all, None).unwrap_err();
        assert_eq!(e, "sffg.saps[0]: access point 'lan': node 'n7' is offline");
    }
}
