//! What becomes of a document: which nodes run which part of it. Pure.

use std::collections::{BTreeMap, BTreeSet};

use axum::http::StatusCode;
use serde_json::Value;
use weir_api::members::MissingLink;
use weir_api::plan::{NotPlaced, Placement};
use weir_api::problem::{Mistake, Problem};
use weir_auth::TenantKind;
use weir_model::graph::{Function, GraphParts, InterfaceSap, PortRef, SapKind, ServiceGraph, VlanSap};
use weir_model::nearest::nearest;
use weir_model::requirement::Goal;
use weir_rest::body::Document;
use weir_rest::secrets::{Secrets, restored};

use crate::choose::{Candidate, WhyNot, choose, named};
use crate::facts::{is_composed, needs, no_image, secrets};
use crate::links::{self, Declared, Link, promised};
use crate::migrate::core::Moving;
use crate::place::{Facts, place};
use crate::policy::{Line, explain, lines, with};
use crate::reserved::reserved;
use crate::split::{Had, Keys, Places, Split, SplitError, Tunnel, monitoring_node, split};
use crate::store::{DomainGraph, Part};
use crate::view::View;

/// The changes that a document makes.
#[derive(Debug, Clone)]
pub struct Admission {
    /// The graph with its parts.
    pub graph: DomainGraph,
    /// Where, and why there.
    pub placement: Placement,
    /// What may go wrong.
    pub warnings: Vec<String>,
    /// What has to be proved of the whole first, because no node has all of it.
    pub proof: Option<Proof>,
    /// What policies require, behind what the document does.
    pub policies: Vec<Line>,
    /// How much the document requires.
    pub required: usize,
}

impl Admission {
    /// A problem of it, with the policies that it is about.
    pub fn explain(&self) -> impl Fn(Problem) -> Problem + use<> {
        let (required, policies) = (self.required, self.policies.clone());
        move |problem| explain(problem, required, &policies)
    }
}

/// A graph over several nodes, as one: no node runs it, but its requirements are proved of it.
#[derive(Debug, Clone)]
pub struct Proof {
    /// The document, with interfaces that are nowhere.
    pub document: String,
    /// The images of its functions, with the node that runs each.
    pub images: BTreeSet<(String, String)>,
    /// The nodes of which one proves it.
    pub nodes: BTreeSet<String>,
}

pub(crate) fn refused(text: impl Into<String>) -> Problem {
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, text)
}

/// The nodes whose description is known, but for one.
fn nodes<'v>(
    view: &'v View,
    online: &BTreeSet<String>,
    without: Option<&str>,
) -> BTreeMap<&'v str, Facts<'v>> {
    let facts = |(name, member): (&'v String, &'v crate::store::Member)| {
        let domain = view.known.get(name)?.domain.as_ref()?;
        Some((name.as_str(), Facts { domain, cordoned: member.cordoned }))
    };
    let there = |(name, _): &(&String, &crate::store::Member)| {
        Some(name.as_str()) != without && online.contains(name.as_str())
    };
    view.members.iter().filter(there).filter_map(facts).collect()
}

/// The links between the nodes that are connected, with what all graphs were promised there, and those that were declared and are not there.
pub fn links(view: &View, online: &BTreeSet<String>) -> (Vec<Link>, Vec<MissingLink>) {
    links_but(view, &nodes(view, online, None), None)
}

/// The interfaces of the nodes that are connected that hear each other's probes.
pub(crate) fn adjacencies(view: &View, online: &BTreeSet<String>) -> BTreeSet<[links::Port; 2]> {
    let nodes = nodes(view, online, None);
    links::adjacent(&nodes.iter().map(|(name, n)| (*name, n.domain)).collect())
}

/// The same with what graphs were promised but for one.
fn links_but(
    view: &View,
    nodes: &BTreeMap<&str, Facts<'_>>,
    but: Option<&str>,
) -> (Vec<Link>, Vec<MissingLink>) {
    let others = view.graphs.iter().filter(|(id, _)| Some(id.as_str()) != but);
    let graphs = others.map(|(_, g)| &g.graph);
    let promised = promised(graphs.filter_map(|g| Some((g.bandwidth()?, &g.tunnels[..]))));
    let domains = nodes.iter().map(|(name, n)| (*name, n.domain)).collect();
    links::all(&domains, &view.declared, view.encrypts, &promised)
}

/// What of a graph is too much for the links that its tunnels go over.
fn overfull(graph: &ServiceGraph, tunnels: &[Tunnel], links: &[Link]) -> Vec<Mistake> {
    let Some(bandwidth) = graph.placement.bandwidth else { return Vec::new() };
    let wanted = promised([(bandwidth.kbits(), tunnels)].into_iter());
    let mistake = |((from, to), kbits): (&(String, String), &u64)| {
        let link = links.iter().find(|l| l.from(from).is_some_and(|(_, end)| end.node == *to))?;
        let left = link.left(from).filter(|left| left < kbits)?;
        Some(Mistake {
            path: "sffg.placement.bandwidth".into(),
            message: format!(
                "its tunnels from node '{from}' to '{to}' may carry {kbits} kbit/s, and the link has {left} left of {}",
                link.capacity?
            ),
            help: "ask for less, or put more of the graph on one node".into(),
            ..Mistake::default()
        })
    };
    wanted.iter().filter_map(mistake).collect()
}

/// Packets that are too large for links with a largest packet that was declared.
fn too_large(tunnels: &[Tunnel], links: &[Link], declared: &Declared) -> Vec<String> {
    let warning = |l: &Link| {
        let ends = [l.a.node.as_str(), l.b.node.as_str()];
        let used = tunnels.iter().any(|t| ends.contains(&t.from.as_str()) && ends.contains(&t.to.as_str()));
        let overhead = l.encapsulation.overhead();
        declared.get(&(l.a.node.clone(), l.b.node.clone()))?.mtu?;
        let mtu = l.mtu.filter(|_| used)?;
        let tunnels =
            if overhead == 0 { String::new() } else { format!(", and tunnels take {overhead} of these") };
        Some(format!(
            "the link between nodes '{}' and '{}' takes IP packets of {mtu} bytes{tunnels}: larger ones than {} are lost there",
            ends[0],
            ends[1],
            mtu.saturating_sub(overhead)
        ))
    };
    links.iter().filter_map(warning).collect()
}

/// Decides where a graph goes, whose tenant is of this kind. `asked` is a node that all of it is to be on; `without` one that it is to leave.
///
/// # Errors
/// It cannot be anywhere, and why.
pub fn admit(
    document: &Document,
    kind: Option<TenantKind>,
    asked: Option<&str>,
    view: &View,
    online: &BTreeSet<String>,
    without: Option<&str>,
) -> Result<Admission, Problem> {
    // Secrets that are not told are what they were: the part may be on another node now.
    let known = view.graphs.get(document.graph.id.as_str()).map(|s| &s.graph);
    let told = document.graph.clone();
    let told = known.map_or(told.clone(), |k| restored(told, &k.document, &k.secrets));
    let document = &Document { graph: told, ..document.clone() };
    let graph = &document.graph;
    if view.members.is_empty() {
        return Err(refused(
            "the domain has no nodes: 'weir token' makes a token, 'weir node --join' takes it",
        ));
    }
    reserved(graph, view)?;
    let policies = lines(&view.policies, graph, kind);
    let required = graph.requirements.len();
    let whole_graph = &with(graph, &policies).map_err(|e| explain(e.into(), required, &policies))?;
    let named = named(graph);
    for name in named.iter().copied().chain(asked) {
        if !view.members.contains_key(name) {
            let all: Vec<&str> = view.members.keys().map(String::as_str).collect();
            let hint = match all.len() {
                0..=10 => format!("; there are {}", all.join(", ")),
                _ => nearest(name, all.into_iter()),
            };
            return Err(refused(format!("there is no node '{name}'{hint}")));
        }
    }
    if let Some(asked) = asked
        && let Some(other) = named.iter().find(|n| **n != asked)
    {
        let text =
            format!("the document names node '{other}', and '{asked}' was asked for; change one of them");
        return Err(refused(text));
    }
    // A node that is away for a moment does not lose its graph to another, where it would begin anew.
    if let (Some(known), None, None) = (known, asked, without) {
        let away: Vec<&str> =
            known.parts.keys().map(String::as_str).filter(|n| !online.contains(*n)).collect();
        let elsewhere = !named.is_empty() && away.iter().all(|n| !named.contains(n));
        if !away.is_empty() && !elsewhere {
            let text = format!(
                "the graph is on node '{}', which is offline; wait until it is back, or say another node (--on) for it to begin anew there",
                away.join("', '")
            );
            return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, text));
        }
    }
    // What is on its other nodes stays there.
    let stays = |k: &DomainGraph| k.parts.keys().any(|n| Some(n.as_str()) != without && online.contains(n));
    // So does what somebody moved.
    let moved = |k: &DomainGraph| graph.functions.iter().any(|f| k.moved.contains(f.id.as_str()));
    let stays = known.is_some_and(|k| if without.is_some() { stays(k) } else { moved(k) });
    let one = match (asked, named.len()) {
        (Some(asked), _) => Some(Some(asked)),
        (None, _) if stays => None,
        (None, 0 | 1) => Some(named.first().copied()),
        (None, _) => None,
    };
    let before = view.graphs.get(graph.id.as_str()).map(|s| &s.graph);
    let mut against = Vec::new();
    if let Some(asked) = one {
        let candidates: Vec<Candidate<'_>> = view
            .members
            .iter()
            .filter(|(name, _)| Some(name.as_str()) != without)
            .map(|(name, member)| Candidate {
                name,
                online: online.contains(name),
                cordoned: member.cordoned,
                domain: view.known.get(name).and_then(|k| k.domain.as_ref()),
                graphs: view.graphs.values().filter(|g| g.graph.parts.contains_key(name)).count(),
                has_it: match before {
                    Some(before) => before.parts.contains_key(name),
                    // As after an older store was put back.
                    None => holds(view, name, graph.id.as_str()),
                },
            })
            .collect();
        match choose(graph, &candidates, asked) {
            Ok(choice) => {
                let others = choice.others.into_iter().map(|w| NotPlaced { node: w.node, reason: w.reason });
                let placement = Placement {
                    nodes: vec![choice.node.clone()],
                    reason: choice.reason,
                    others: others.collect(),
                    ..Placement::default()
                };
                let parts = BTreeMap::from([(choice.node.clone(), whole_graph.clone().on_one_node()?)]);
                let graph = domain_graph(document, view, whole(graph, &choice.node), parts, Vec::new());
                return Ok(Admission {
                    graph,
                    placement,
                    warnings: Vec::new(),
                    proof: None,
                    policies,
                    required,
                });
            }
            Err(why) => against = why,
        }
    }
    let reasons = |why: Vec<WhyNot>| {
        why.into_iter().map(|w| {
            let message = format!("node {}: {}", w.node, w.reason);
            Mistake { message, code: w.code, ..Mistake::default() }
        })
    };
    if asked.is_some() {
        return Err(refused("no node can take the graph").with(reasons(against)));
    }
    let several = over_several(document, whole_graph, view, online, without, before);
    let Several { mut graph, placement, warnings, proof } = several.map_err(|mistakes| {
        let text = "no node can take the graph as a whole, and no nodes can in parts";
        let text = if one.is_some() { text } else { "no nodes can take the graph" };
        refused(text).with(reasons(against)).with(mistakes)
    })?;
    let stay = |f: &&String| before.is_some_and(|b| b.functions.get(*f) == graph.functions.get(*f));
    graph.moved = before.iter().flat_map(|b| &b.moved).filter(stay).cloned().collect();
    Ok(Admission { graph, placement, warnings, proof, policies, required })
}

/// Whether a node has a graph of a controller's.
fn holds(view: &View, node: &str, graph: &str) -> bool {
    let graphs = view.known.get(node).map(|k| &k.graphs[..]).unwrap_or_default();
    graphs.iter().any(|g| g.id == graph && g.owner.is_some())
}

/// A graph in parts, on several nodes.
struct Several {
    graph: DomainGraph,
    placement: Placement,
    warnings: Vec<String>,
    proof: Option<Proof>,
}

/// A graph in parts, on several nodes; `required` is the same with all that is required of it.
fn over_several(
    document: &Document,
    required: &ServiceGraph,
    view: &View,
    online: &BTreeSet<String>,
    without: Option<&str>,
    before: Option<&DomainGraph>,
) -> Result<Several, Vec<Mistake>> {
    let graph = &document.graph;
    let nodes = nodes(view, online, without);
    let (links, _) = links_but(view, &nodes, Some(graph.id.as_str()));
    let known = before.map(super::store::DomainGraph::places);
    let places = place(graph, &nodes, &links, known.as_ref())?;
    let had = before.map_or(&[][..], |b| &b.tunnels);
    let split = split_in(view, &nodes, &links, (graph, &places), had, None)
        .map_err(|e| vec![Mistake::from(e.to_string())])?;
    let overfull = overfull(graph, &split.tunnels, &links);
    if !overfull.is_empty() {
        return Err(overfull);
    }
    let warnings = too_large(&split.tunnels, &links, &view.declared);
    let by_text = |map: &BTreeMap<_, String>| {
        map.iter().map(|(id, n): (&weir_model::value::Id, _)| (id.to_string(), n.clone())).collect()
    };
    let placement = Placement {
        nodes: split.parts.keys().cloned().collect(),
        reason: match named(graph).len() {
            _ if !graph.placement.apart.is_empty() => "functions are to be on different nodes; each part is as near to its access points as that and resources allow",
            0 | 1 => "no node has all that the graph needs; each part is as near to its access points as resources allow",
            _ => "the document names several nodes; what it leaves open is as near to its access points as resources allow",
        }
        .into(),
        functions: by_text(&places.functions),
        saps: by_text(&places.saps),
        tunnels: split.tunnels.iter().map(ToString::to_string).collect(),
        others: Vec::new(),
    };
    let proof = proof(required, &places, &nodes).map_err(|e| vec![e])?;
    let graph = domain_graph(document, view, places, split.parts, split.tunnels);
    Ok(Several { graph, placement, warnings, proof })
}

/// Splits a graph, with numbers for tunnels that are free in the domain.
fn split_in(
    view: &View,
    nodes: &BTreeMap<&str, Facts<'_>>,
    links: &[Link],
    (graph, places): (&ServiceGraph, &Places),
    had: &[Tunnel],
    moving: Option<&Moving>,
) -> Result<Split, SplitError> {
    let others = view.graphs.iter().filter(|(id, _)| id.as_str() != graph.id.as_str());
    let taken = others.flat_map(|(_, g)| g.graph.tunnels.iter().map(|t| t.number));
    // What a node has still, or has of its own, is not free either.
    let held = view.known.values().filter_map(|k| k.domain.as_ref()).flat_map(|d| &d.tunnels);
    let held = held.filter(|t| t.graph != graph.id.as_str()).filter_map(|t| t.key);
    let ends = view.known.values().filter_map(|k| k.domain.as_ref()).flat_map(|d| &d.endpoints);
    let vlans =
        ends.flat_map(|e| &e.vlans).filter(|v| v.graph != graph.id.as_str()).map(|v| u32::from(v.vlan));
    let taken = taken.chain(held).chain(vlans).collect();
    let key = |(name, n): (&&str, &Facts<'_>)| {
        Some(((*name).to_owned(), n.domain.wireguard.as_ref()?.parse().ok()?))
    };
    let keys: Keys = nodes.iter().filter_map(key).collect();
    split(graph, places, links, &keys, Had { tunnels: had, taken: &taken }, moving)
}

/// A graph with a function at another node, as far as that is possible: what has to be proved of it first.
///
/// # Errors
/// It cannot be there, and why.
pub(crate) fn admit_move(
    graph: &ServiceGraph,
    stored: &DomainGraph,
    kind: Option<TenantKind>,
    view: &View,
    online: &BTreeSet<String>,
    (function, to): (&Function, &str),
) -> Result<Option<Proof>, Problem> {
    let nodes = nodes(view, online, None);
    let Some(node) = nodes.get(to) else {
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, format!("node '{to}' is offline")));
    };
    if node.cordoned {
        return Err(refused(format!(
            "node '{to}' is cordoned: it gets no more functions; 'weir uncordon {to}' changes that"
        )));
    }
    if let Some(why) = no_image(node.domain, function) {
        return Err(refused(format!("node '{to}' cannot run function '{}': {why}", function.id)));
    }
    let mut places = stored.places();
    places.functions.insert(function.id.clone(), to.to_owned());
    if let Some(monitoring) = &graph.monitoring {
        monitoring_node(monitoring, &places)
            .map_err(|e| refused(format!("the function cannot move: {e}")))?;
    }
    let (links, _) = links_but(view, &nodes, Some(graph.id.as_str()));
    let found = place(graph, &nodes, &links, Some(&places));
    let found = found.map_err(|why| refused(format!("node '{to}' cannot take the function")).with(why))?;
    if found.functions != places.functions {
        return Err(refused(format!(
            "node '{to}' has not enough left for function '{}': 'weir describe node {to}' shows what it has",
            function.id
        )));
    }
    let policies = lines(&view.policies, graph, kind);
    let required =
        with(graph, &policies).map_err(|e| explain(e.into(), graph.requirements.len(), &policies))?;
    proof(&required, &places, &nodes).map_err(|e| refused("the function cannot move").with([e]))
}

/// The parts of a graph whose function moves, or has moved, to where it is in `stored`.
///
/// # Errors
/// A node that it needs is offline, or no path leads there.
pub(crate) fn in_parts(
    graph: &ServiceGraph,
    stored: &DomainGraph,
    view: &View,
    online: &BTreeSet<String>,
) -> Result<DomainGraph, Problem> {
    let nodes = nodes(view, online, None);
    let (links, _) = links_but(view, &nodes, Some(graph.id.as_str()));
    let (places, moving) = (stored.places(), stored.moving.as_ref());
    let split = split_in(view, &nodes, &links, (graph, &places), &stored.tunnels, moving);
    let Split { parts, tunnels } = split.map_err(|e| refused(e.to_string()))?;
    let part = |graph: ServiceGraph| Part { document: graph.to_json().to_string(), tag: None };
    let parts = parts.into_iter().map(|(node, graph)| (node, part(graph))).collect();
    Ok(DomainGraph { parts, tunnels, ..stored.clone() })
}

/// The places of a graph that is on one node as a whole.
fn whole(graph: &ServiceGraph, node: &str) -> Places {
    Places {
        functions: graph.functions.iter().map(|f| (f.id.clone(), node.to_owned())).collect(),
        saps: graph.saps.iter().map(|s| (s.id.clone(), node.to_owned())).collect(),
    }
}

fn domain_graph(
    document: &Document,
    view: &View,
    places: Places,
    parts: BTreeMap<String, ServiceGraph>,
    tunnels: Vec<Tunnel>,
) -> DomainGraph {
    let whole = document.graph.to_json();
    let taken = document.graph.functions.iter().filter_map(|f| {
        let node = places.functions.get(&f.id)?;
        Some(needs(view.known.get(node)?.domain.as_ref()?, f))
    });
    let (memory, cpu) =
        taken.fold((0, 0), |(m, c): (u64, u64), (memory, cpu)| (m + memory, c + u64::from(cpu)));
    let secret = |f: &Function| {
        let domain = view.known.get(places.functions.get(&f.id)?)?.domain.as_ref()?;
        let names = secrets(domain, f);
        (!names.is_empty()).then(|| (f.id.to_string(), names))
    };
    let secrets: Secrets = document.graph.functions.iter().filter_map(secret).collect();
    let part = |graph: ServiceGraph| Part { document: graph.to_json().to_string(), tag: None };
    DomainGraph {
        text: document.text.clone().unwrap_or_else(|| whole.to_string()),
        document: whole.get("sffg").cloned().unwrap_or(Value::Null),
        tenant: document.graph.tenant.as_ref().map(ToString::to_string),
        functions: places.functions.into_iter().map(|(id, node)| (id.to_string(), node)).collect(),
        saps: places.saps.into_iter().map(|(id, node)| (id.to_string(), node)).collect(),
        parts: parts.into_iter().map(|(node, graph)| (node, part(graph))).collect(),
        secrets,
        memory,
        cpu,
        tunnels,
        moved: BTreeSet::new(),
        moving: None,
    }
}

/// What of a graph over several nodes is not as in the same graph on one, so that nothing can be proved by it.
fn differs(graph: &ServiceGraph, places: &Places) -> Option<String> {
    // Frames that are too large for a tunnel are dropped there, and its queue may be full.
    if let Some(r) = graph.requirements.iter().find(|r| matches!(r.goal, Goal::All { .. })) {
        return Some(format!(
            "'{}' speaks of all packets, and tunnels drop those that are too large",
            r.text
        ));
    }
    for rule in &graph.flowrules {
        for output in &rule.actions.output_to_port {
            let from = &rule.matches.port_in;
            // What functions note on packets for those behind them stays at the node.
            if let (PortRef::Function { function: a, .. }, PortRef::Function { function: b, .. }) =
                (from, output)
                && places.node(from) != places.node(output)
            {
                return Some(format!(
                    "packets go from function '{a}' to function '{b}' at another node, and their annotations do not"
                ));
            }
        }
    }
    None
}

/// The whole graph as one, if anything is required of it.
fn proof(
    graph: &ServiceGraph,
    places: &Places,
    nodes: &BTreeMap<&str, Facts<'_>>,
) -> Result<Option<Proof>, Mistake> {
    if graph.requirements.is_empty() {
        return Ok(None);
    }
    if let Some(why) = differs(graph, places) {
        return Err(Mistake {
            path: "sffg.requirements".into(),
            message: format!("what is required cannot be known of a graph over several nodes: {why}"),
            help: "put the graph on one node, or leave the requirement out".into(),
            ..Mistake::default()
        });
    }
    let mut parts: GraphParts = graph.clone().into_parts();
    let mut interfaces: BTreeMap<(String, String), usize> = BTreeMap::new();
    for sap in &mut parts.saps {
        let node = places.saps.get(&sap.id).cloned().unwrap_or_default();
        // Interfaces of one name are different ones at different nodes.
        let mut another = |name: &str| {
            let new = interfaces.len();
            let number = *interfaces.entry((node.clone(), name.to_owned())).or_insert(new);
            format!("proof{number}").parse().ok()
        };
        match &mut sap.kind {
            SapKind::Interface { interface: InterfaceSap { if_name, .. } }
            | SapKind::Vlan { vlan: VlanSap { if_name: Some(if_name), .. } } => {
                if let Some(name) = another(if_name.as_str()) {
                    *if_name = name;
                }
            }
            _ => {}
        }
    }
    let mut images = BTreeSet::new();
    for (i, f) in graph.functions.iter().enumerate().filter(|(_, f)| f.click.is_none()) {
        if f.capability.is_some() {
            return Err(Mistake {
                path: format!("sffg.SFs[{i}].capability"),
                message:
                    "what is required of a graph over several nodes is proved of the images that it names"
                        .into(),
                help: "name an image, or leave the requirements out".into(),
                ..Mistake::default()
            });
        }
        let node = places.functions.get(&f.id).cloned().unwrap_or_default();
        if nodes.get(node.as_str()).is_none_or(|n| is_composed(n.domain, f)) {
            return Err(Mistake {
                path: format!("sffg.SFs[{i}]"),
                message: "what is required of a graph over several nodes is proved of functions that are not made of functions".into(),
                help: "name those within, or leave the requirements out".into(),
                ..Mistake::default()
            });
        }
        images.insert((f.template.as_ref().unwrap_or(&f.name).to_string(), node));
    }
    let whole = ServiceGraph::from_parts(&parts).and_then(ServiceGraph::on_one_node);
    let whole = whole.map_err(|e| Mistake::from(format!("the graph cannot be proved as a whole: {e}")))?;
    let at_functions: BTreeSet<String> = places.functions.values().cloned().collect();
    let at_saps = || places.saps.values().cloned().collect();
    let nodes = if at_functions.is_empty() { at_saps() } else { at_functions };
    Ok(Some(Proof { document: whole.to_json().to_string(), images, nodes }))
}
