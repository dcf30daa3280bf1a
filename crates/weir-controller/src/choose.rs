//! Which node a graph goes to. Pure: from the graph and what the nodes say of themselves.

use std::collections::BTreeSet;

use weir_api::domain::Domain;
use weir_api::problem::MistakeCode;
use weir_model::graph::ServiceGraph;
use weir_model::value::Id;

use crate::facts::{NoPlace, needs, no_image, no_place, other_region};

/// A node that a graph could go to.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'a> {
    /// Its name.
    pub name: &'a str,
    /// Whether it is connected.
    pub online: bool,
    /// Whether it gets no new graphs.
    pub cordoned: bool,
    /// What it is to others, if that is known.
    pub domain: Option<&'a Domain>,
    /// How many graphs it has.
    pub graphs: usize,
    /// Whether it has this graph.
    pub has_it: bool,
}

/// Why a graph does not go to a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WhyNot {
    /// The node.
    pub node: String,
    /// What speaks against it.
    pub reason: String,
    /// The code of the mistake that this is.
    pub code: Option<MistakeCode>,
}

/// Where a graph goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The node.
    pub node: String,
    /// What spoke for it.
    pub reason: String,
    /// The others, and what spoke against them.
    pub others: Vec<WhyNot>,
}

/// The nodes that a graph names, for itself or for parts of it.
pub fn named(graph: &ServiceGraph) -> BTreeSet<&str> {
    let functions = graph.functions.iter().map(|f| f.node.as_ref());
    let saps = graph.saps.iter().map(|s| s.node.as_ref());
    functions.chain(saps).chain([graph.node.as_ref()]).flatten().map(Id::as_str).collect()
}

/// Functions, for people.
pub(crate) fn functions<'a>(ids: impl IntoIterator<Item = &'a Id>) -> String {
    let ids: Vec<&str> = ids.into_iter().map(Id::as_str).collect();
    format!("functions '{}'", ids.join("', '"))
}

/// What speaks against a node, if anything does.
fn against(
    graph: &ServiceGraph,
    c: &Candidate<'_>,
    asked: Option<&str>,
) -> Option<(String, Option<MistakeCode>)> {
    let plain = |text: String| Some((text, None));
    if let Some(asked) = asked
        && asked != c.name
    {
        return plain(format!("node '{asked}' was asked for"));
    }
    if !c.online {
        return plain("it is offline".to_owned());
    }
    if c.cordoned && !c.has_it {
        return plain("it is cordoned".to_owned());
    }
    let Some(domain) = c.domain else { return plain("it has not said yet what it has".to_owned()) };
    let placement = &graph.placement;
    let region = other_region(domain, placement.region.as_ref());
    let apart = placement.apart.iter().map(|set| format!("{} are to be on different nodes", functions(set)));
    let places: Vec<NoPlace> =
        graph.saps.iter().filter_map(|s| no_place(domain, graph.id.as_str(), s)).collect();
    let code = places.iter().find_map(NoPlace::code);
    let places = places.iter().map(NoPlace::to_string);
    let images = graph.functions.iter().filter_map(|f| no_image(domain, f));
    let lacks: BTreeSet<String> = places.chain(images).chain(region).chain(apart).collect();
    if lacks.is_empty() && !domain.resources.overcommit && !c.has_it {
        let needs = graph.functions.iter().map(|f| needs(domain, f));
        let (memory, cpu) =
            needs.fold((0, 0), |(m, c): (u64, u64), (memory, cpu)| (m + memory, c + u64::from(cpu)));
        let left = |s: weir_api::domain::Share| s.total.saturating_sub(s.used);
        let (free, time) = (left(domain.resources.memory), left(domain.resources.cpu));
        if memory > free {
            return plain(format!(
                "it has {} MB of memory left, and the graph may take {}",
                free >> 20,
                memory >> 20
            ));
        }
        if cpu > time {
            let cpus = |n: u64| n as f64 / 1000.0;
            return plain(format!(
                "it has {} processors left, and the graph may take {}",
                cpus(time),
                cpus(cpu)
            ));
        }
    }
    (!lacks.is_empty()).then(|| (lacks.into_iter().collect::<Vec<_>>().join(", "), code))
}

/// The node for a whole graph: where it is already, or else the one with the least to do.
///
/// # Errors
/// What speaks against each node.
pub fn choose(
    graph: &ServiceGraph,
    nodes: &[Candidate<'_>],
    asked: Option<&str>,
) -> Result<Choice, Vec<WhyNot>> {
    let mut others = Vec::new();
    let mut fit = Vec::new();
    for c in nodes {
        match against(graph, c, asked) {
            Some((reason, code)) => others.push(WhyNot { node: c.name.to_owned(), reason, code }),
            None => fit.push(c),
        }
    }
    // In tenths: what is used moves by itself, and placement should not.
    let used = |c: &Candidate<'_>| {
        let memory = c.domain.map(|d| d.resources.memory).unwrap_or_default();
        u128::from(memory.used) * 10 / u128::from(memory.total.max(1))
    };
    fit.sort_by_key(|c| (!c.has_it, c.graphs, used(c), c.name));
    let mut fit = fit.into_iter();
    let Some(best) = fit.next() else { return Err(others) };
    let reason = if asked.is_some() {
        "it was asked for".to_owned()
    } else if best.has_it {
        "the graph is there".to_owned()
    } else {
        format!("it has all that the graph needs, and the fewest graphs: {}", best.graphs)
    };
    let rest = fit.map(|c| {
        let reason = match best.has_it {
            true => format!("it would do; the graph is at '{}'", best.name),
            false => format!("it would do; it has {} graphs", c.graphs),
        };
        WhyNot { node: c.name.to_owned(), reason, code: None }
    });
    others.extend(rest);
    others.sort_by(|a, b| a.node.cmp(&b.node));
    Ok(Choice { node: best.name.to_owned(), reason, others })
}

#[cfg(test)]
mod tests {
    use weir_api::domain::Endpoint;

    use super::*;

    const GRAPH: &str = "
id: g
name: g
saps:
  - {id: lan, type: interface, interface: {if-name: lan}}
  - {id: wan, type: vlan, vlan: {vlan-id: 5, if-name: wan}}
flowrules:
  - {id: a, priority: 1, match: {port_in: 'sap:lan'}, actions: {output_to_port: 'sap:wan'}}
";

    fn domain(interfaces: &[&str]) -> Domain {
        let endpoint = |name: &&str| Endpoint {
            interface: (*name).to_owned(),
            up: true,
            mac: None,
            mtu: None,
            addresses: vec!["10.0.0.1/24".into()],
            graph: None,
            vlans: Vec::new(),
            neighbours: Vec::new(),
        };
        Domain { endpoints: interfaces.iter().map(endpoint).collect(), ..Domain::default() }
    }

    fn node<'a>(name: &'a str, domain: &'a Domain) -> Candidate<'a> {
        Candidate { name, online: true, cordoned: false, domain: Some(domain), graphs: 0, has_it: false }
    }

    #[test]
    fn a_graph_goes_where_its_interfaces_are_and_stays_where_it_is() {
        let graph = ServiceGraph::parse(GRAPH).unwrap();
        let (all, some) = (domain(&["lan", "wan"]), domain(&["lan"]));
        let [a, b, c] = [node("a", &some), node("b", &all), node("c", &all)];
        let choice = choose(&graph, &[a, b, c], None).unwrap();
        assert_eq!(choice.node, "b");
        assert_eq!(
            choice.others[0],
            WhyNot { node: "a".into(), reason: "it has no interface 'wan'".into(), code: None }
        );
        assert_eq!(choose(&graph, &[a, Candidate { graphs: 1, ..b }, c], None).unwrap().node, "c");
        let here = Candidate { graphs: 7, has_it: true, cordoned: true, ..b };
        assert_eq!(choose(&graph, &[a, here, c], None).unwrap().node, "b");
        assert_eq!(choose(&graph, &[a, here, c], Some("c")).unwrap().node, "c");
        let none = [a, Candidate { online: false, ..b }, Candidate { cordoned: true, ..c }];
        let why: Vec<String> =
            choose(&graph, &none, None).unwrap_err().into_iter().map(|w| w.reason).collect();
        assert_eq!(why, ["it has no interface 'wan'", "it is offline", "it is cordoned"]);
    }

    #[test]
    fn a_tunnel_ends_at_a_node_that_has_its_address() {
        let text = |ip: &str| {
            let vxlan = format!("{{vni: 7, local-ip: {ip}, remote-ip: 10.0.0.9}}");
            format!("id: g\nname: g\nsaps:\n  - {{id: t, type: vxlan, vxlan: {vxlan}}}\n")
        };
        let domain = domain(&[]);
        let with = super::tests::domain(&["lan"]);
        let nodes = [node("a", &domain), node("b", &with)];
        let graph = ServiceGraph::parse(&text("10.0.0.1")).unwrap();
        assert_eq!(choose(&graph, &nodes, None).unwrap().node, "b");
        let graph = ServiceGraph::parse(&text("10.0.0.2")).unwrap();
        assert!(choose(&graph, &nodes, None).unwrap_err()[1].reason.contains("not the address 10.0.0.2"));
    }

    #[test]
    fn only_what_others_have_has_the_code_of_that() {
        let graph = ServiceGraph::parse(GRAPH).unwrap();
        let mut taken = domain(&["lan", "wan"]);
        taken.endpoints[0].graph = Some("other".into());
        let mut own = domain(&["lan"]);
        own.endpoints[0].graph = Some("g".into());
        let why = choose(&graph, &[node("a", &taken), node("b", &own)], None).unwrap_err();
        assert_eq!(why[0].reason, "its interface 'lan' is an access point of graph 'other'");
        assert_eq!(why[0].code, Some(MistakeCode::AccessPointTaken));
        assert_eq!((why[1].reason.as_str(), why[1].code), ("it has no interface 'wan'", None));
    }
}
