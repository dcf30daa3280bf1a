//! Which node each function of a graph is on that spans nodes, by [`weir_placement`]: as close to its access points as resources and wishes allow.
//! Pure.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use weir_api::problem::Mistake;
use weir_model::graph::{Function, Placement, PortRef, ServiceGraph};
use weir_model::value::{Bandwidth, Id};
use weir_placement::{
    Algorithm, Demand, Domain as Network, End, Flow, Kind, Module, Network as Build, Placer, Region, Server,
    Sink, Spec, Vertex, VertexId,
};

use crate::choose::functions;
use crate::facts::{needs, no_image};
use crate::links::{Link, path, units, usable};
use crate::place::Facts;

/// Where a bandwidth is not known there is more than any graph asks for.
const PLENTY: u64 = 1 << 40;

/// The input of a placement.
#[derive(Debug)]
pub(crate) struct Search<'a> {
    /// The graph.
    pub graph: &'a ServiceGraph,
    /// Where its access points are.
    pub saps: &'a BTreeMap<Id, String>,
    /// The nodes.
    pub nodes: &'a BTreeMap<&'a str, Facts<'a>>,
    /// The links between them.
    pub links: &'a [Link],
}

/// The nodes and links as the placement knows them.
struct Built<'a> {
    network: Network,
    vertices: BTreeMap<&'a str, VertexId>,
    spec: Spec,
}

impl Search<'_> {
    /// The nodes of the functions. What runs stays where it is as long as that is possible.
    ///
    /// # Errors
    /// There is no place, and why.
    pub fn find(&self, kept: Option<&BTreeMap<Id, String>>) -> Result<BTreeMap<Id, String>, Vec<Mistake>> {
        if self.graph.functions.is_empty() {
            return Ok(BTreeMap::new());
        }
        let placement = &self.graph.placement;
        if let Some(kept) = kept.filter(|k| !k.is_empty())
            && let Ok(found) = self.seek(placement, Some(kept))
        {
            return Ok(found);
        }
        self.seek(placement, None).map_err(|why| self.explain(why))
    }

    /// Access points between which packets go that take longer than they may.
    pub fn too_far(&self) -> Vec<Mistake> {
        let placement = &self.graph.placement;
        let Some(most) = placement.max_delay else { return Vec::new() };
        let links = usable(self.links, placement);
        let mut mistakes = Vec::new();
        for rule in &self.graph.flowrules {
            for output in &rule.actions.output_to_port {
                let (PortRef::Sap(a), PortRef::Sap(b)) = (&rule.matches.port_in, output) else { continue };
                let (Some(from), Some(to)) = (self.saps.get(a), self.saps.get(b)) else { continue };
                let message = match path(&links, from, to) {
                    Some((_, delay)) if delay <= units(most.micros()) => continue,
                    Some((_, delay)) => {
                        format!("from access point '{a}' to '{b}' it takes {} us", u64::from(delay) * 10)
                    }
                    None => format!("no links whose delay is known lead from access point '{a}' to '{b}'"),
                };
                let mistake =
                    Mistake { path: "sffg.placement.max-delay".into(), message, ..Mistake::default() };
                if !mistakes.contains(&mistake) {
                    mistakes.push(mistake);
                }
            }
        }
        mistakes
    }

    /// The closest places with these wishes.
    fn seek(
        &self,
        placement: &Placement,
        kept: Option<&BTreeMap<Id, String>>,
    ) -> Result<BTreeMap<Id, String>, String> {
        let Built { mut network, vertices, spec } = self.build(placement, kept)?;
        let mut placer = Placer::new(Algorithm::default(), 1);
        // The servers, and the largest delay.
        let mut attempt = |bound: Option<u32>| {
            let demand = Demand::new(Spec { max_delay: bound, ..spec.clone() }).map_err(|e| e.to_string())?;
            let placed = placer.place(&mut network, &demand).map_err(|e| e.to_string())?;
            network.release(placed.service).map_err(|e| e.to_string())?;
            Ok::<_, String>((placed.servers, placed.delay))
        };
        let (mut best, mut most) = attempt(placement.max_delay.map(|d| units(d.micros())))?;
        // The least bound at which there is a place.
        let mut least = 0;
        while least < most {
            let middle = least + (most - least) / 2;
            match attempt(Some(middle)) {
                Ok((servers, delay)) => (best, most) = (servers, delay.min(middle)),
                Err(_) => least = middle + 1,
            }
        }
        let name = |v: &VertexId| vertices.iter().find(|(_, at)| *at == v).map(|(n, _)| (*n).to_owned());
        let at = self.graph.functions.iter().zip(&best);
        Ok(at.filter_map(|(f, v)| Some((f.id.clone(), name(v)?))).collect())
    }

    /// Why there is no place: what each node says to each function, and the wishes without which there would be one.
    fn explain(&self, why: String) -> Vec<Mistake> {
        let mut mistakes = vec![Mistake::from(why)];
        let whole = &self.graph.placement;
        let mut without = |path: String, changed: Placement, message: String| {
            if self.seek(&changed, None).is_ok() {
                let help = "without this there is a place".to_owned();
                mistakes.push(Mistake { path, message, help, ..Mistake::default() });
            }
        };
        if let Some(region) = &whole.region {
            let changed = Placement { region: None, ..whole.clone() };
            let text = format!("its functions are to be in region '{region}'");
            without("sffg.placement.region".into(), changed, text);
        }
        for (i, set) in whole.together.iter().enumerate() {
            let mut changed = whole.clone();
            changed.together.remove(i);
            let text = format!("{} are to be on one node", functions(set));
            without(format!("sffg.placement.together[{i}]"), changed, text);
        }
        for (i, set) in whole.apart.iter().enumerate() {
            let mut changed = whole.clone();
            changed.apart.remove(i);
            let text = format!("{} are to be on different nodes", functions(set));
            without(format!("sffg.placement.apart[{i}]"), changed, text);
        }
        if let Some(most) = whole.max_delay {
            let changed = Placement { max_delay: None, ..whole.clone() };
            let text = format!("packets are to spend at most {most} on links whose delay is known");
            without("sffg.placement.max-delay".into(), changed, text);
        }
        if let Some(bandwidth) = whole.bandwidth {
            let changed = Placement { bandwidth: None, ..whole.clone() };
            let text = format!("links are to have {bandwidth} left for each of its flows");
            without("sffg.placement.bandwidth".into(), changed, text);
        }
        let explained = self.build(whole, None).ok().and_then(|Built { network, vertices, spec }| {
            let explained = network.explain(&Demand::new(spec).ok()?).ok()?;
            Some((vertices, explained))
        });
        let Some((vertices, explained)) = explained else { return mistakes };
        for (f, verdicts) in self.graph.functions.iter().zip(&explained.modules) {
            let node = |(name, vertex): (&&str, &VertexId)| {
                let (_, reason) = verdicts.nodes.iter().find(|(v, _)| v == vertex)?;
                Some(format!("node {name}: {reason}"))
            };
            let nodes: Vec<String> = vertices.iter().filter_map(node).collect();
            mistakes.push(format!("function {}: {}", f.id, nodes.join("; ")).into());
        }
        mistakes
    }

    /// The number of a region: 0 is none.
    fn region(&self, name: Option<&str>) -> Region {
        let all: BTreeSet<&str> = self.nodes.values().filter_map(|n| n.domain.region.as_deref()).collect();
        let wanted = self.graph.placement.region.as_ref().map(Id::as_str);
        let all: BTreeSet<&str> = all.into_iter().chain(wanted).collect();
        let at = name.and_then(|name| all.iter().position(|n| *n == name));
        Region(at.map_or(0, |at| u32::try_from(at).unwrap_or(u32::MAX - 1) + 1))
    }

    /// The network, and what is to be placed on it.
    fn build(&self, placement: &Placement, kept: Option<&BTreeMap<Id, String>>) -> Result<Built<'_>, String> {
        let mut build = Build::new();
        let mut vertices: BTreeMap<&str, VertexId> = BTreeMap::new();
        for (name, n) in self.nodes {
            let had = |f: &Function| kept.and_then(|k| k.get(&f.id)).is_some_and(|k| k == name);
            let can = |(i, f): (usize, &Function)| {
                let open = !n.cordoned || had(f);
                if open && no_image(n.domain, f).is_none() { 1u64 << i } else { 0 }
            };
            let r = &n.domain.resources;
            let left = |s: weir_api::domain::Share| s.total.saturating_sub(s.used);
            let (cpu, memory) = match r.overcommit {
                true => (u64::MAX, u64::MAX),
                false => (left(r.cpu), left(r.memory) >> 20),
            };
            let bounded = |v: u64| u32::try_from(v).unwrap_or(u32::MAX).min(1 << 30);
            let server = Server {
                cpu: bounded(cpu),
                memory: bounded(memory),
                internal: PLENTY,
                region: self.region(n.domain.region.as_deref()),
                kinds: self.graph.functions.iter().enumerate().map(can).fold(0, |all, bit| all | bit),
            };
            vertices.insert(name, build.add(Vertex::Server(server)));
        }
        for link in usable(self.links, placement) {
            let (a, b) = (link.a.node.as_str(), link.b.node.as_str());
            if let (Some(from), Some(to)) = (vertices.get(a), vertices.get(b)) {
                build.link(*from, *to, link.left(a).unwrap_or(PLENTY), link.weight());
                build.link(*to, *from, link.left(b).unwrap_or(PLENTY), link.weight());
            }
        }
        let mut access: BTreeMap<&Id, VertexId> = BTreeMap::new();
        for (id, node) in self.saps {
            let vertex = build.add(Vertex::Access);
            if let Some(server) = vertices.get(node.as_str()) {
                build.cable(vertex, *server, PLENTY, 0);
            }
            access.insert(id, vertex);
        }
        let spec = self.spec(placement, &vertices, &access, kept);
        let network = Network::new(build).map_err(|e| e.to_string())?;
        Ok(Built { network, vertices, spec })
    }

    /// What the placement is asked for.
    fn spec(
        &self,
        placement: &Placement,
        vertices: &BTreeMap<&str, VertexId>,
        access: &BTreeMap<&Id, VertexId>,
        kept: Option<&BTreeMap<Id, String>>,
    ) -> Spec {
        let joined = placement.joined();
        let module = |(i, f): (usize, &Function)| {
            let wanted = f.node.as_ref().or(self.graph.node.as_ref()).map(Id::as_str);
            let wanted = wanted.or(kept.and_then(|k| k.get(&f.id)).map(String::as_str));
            let most = self.nodes.values().map(|n| needs(n.domain, f)).max().unwrap_or_default();
            let region = placement.region.as_ref().filter(|_| f.node.is_none());
            let in_set = |set: &[Id]| set.contains(&f.id);
            let bit = |(i, set): (usize, &Vec<Id>)| if in_set(set) { 1u64 << i } else { 0 };
            Module {
                region: region.map(|region| self.region(Some(region.as_str()))),
                together: joined
                    .iter()
                    .position(|set| set.contains(&f.id))
                    .and_then(|n| u8::try_from(n).ok()),
                apart: placement.apart.iter().enumerate().map(bit).fold(0, |all, bit| all | bit),
                memory: u32::try_from(most.0 >> 20).unwrap_or(u32::MAX).min(1 << 30),
                cpu: most.1.min(1 << 30),
                kind: u8::try_from(i).ok().map(Kind),
                node: wanted.and_then(|w| vertices.get(w)).copied(),
            }
        };
        let modules: Vec<Module> = self.graph.functions.iter().enumerate().map(module).collect();
        // Traffic passes in both directions; the demand has to be without cycles, so each pair is joined in one.
        let order = order(self.graph);
        let number = |p: &PortRef| match p {
            PortRef::Sap(_) => order.get(p).copied(),
            PortRef::Function { function, .. } => {
                order.get(&PortRef::Function { function: function.clone(), port: function.clone() }).copied()
            }
        };
        let mut spec = Spec { modules, ..Spec::default() };
        let mut seen = BTreeSet::new();
        let index = |f: &Id| self.graph.functions.iter().position(|g| g.id == *f);
        for rule in &self.graph.flowrules {
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
                    let bandwidth = placement.bandwidth.map_or(0, Bandwidth::kbits);
                    spec.flows.push(Flow { from, to, bandwidth });
                }
            }
        }
        spec
    }
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
