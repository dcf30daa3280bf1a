//! Which node each part of a graph is on that spans nodes. Pure. Access points are where their interfaces are; functions come as close
//! to them as resources allow, by [`weir_placement`].

use std::collections::BTreeMap;

use weir_api::domain::Domain;
use weir_api::problem::Mistake;
use weir_model::graph::{Function, ServiceGraph};
use weir_model::value::Id;
use weir_placement::MAX_MODULES;

use crate::facts::{NoPlace, no_image, no_place, other_region};
use crate::links::Link;
use crate::search::Search;
use crate::split::Places;

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
        let region = graph.placement.region.as_ref();
        let inside = |name: &&str| {
            region.is_some() && nodes.get(name).is_some_and(|n| other_region(n.domain, region).is_none())
        };
        let inside: Vec<&str> = able.iter().copied().filter(inside).collect();
        let node = match (wanted, &able[..]) {
            (Some(wanted), _) if able.contains(&wanted) => wanted,
            (Some(wanted), _) if nodes.contains_key(wanted) => {
                let why = nodes.get(wanted).and_then(|n| no_place(n.domain, graph.id.as_str(), sap));
                let why = why.unwrap_or(NoPlace::Cordoned);
                let text = format!("{what}: node {wanted}: {why}");
                let help = "name a free interface, or an address, of that node";
                mistakes.push(Mistake { code: why.code(), ..mistake(path, text, help) });
                continue;
            }
            (Some(wanted), _) => {
                mistakes.push(mistake(path, format!("{what}: node '{wanted}' is offline"), ""));
                continue;
            }
            (None, [one]) => one,
            (None, []) => {
                let mut code = None;
                let why = nodes.iter().map(|(name, n)| {
                    let why = no_place(n.domain, graph.id.as_str(), sap).unwrap_or(NoPlace::Cordoned);
                    code = code.or(why.code());
                    format!("node {name}: {why}")
                });
                let why = why.collect::<Vec<_>>().join("; ");
                let text = format!("{what}: no node has a place for it: {why}");
                mistakes.push(Mistake { code, ..mistake(path, text, "") });
                continue;
            }
            (None, _) => match (had.filter(|had| able.contains(had)), &inside[..]) {
                (Some(node), _) => node,
                (None, [node]) => node,
                _ => {
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
    let search = Search { graph, saps: &saps, nodes, links };
    let far = search.too_far();
    if !far.is_empty() {
        return Err(far);
    }
    let functions = search.find(before.map(|b| &b.functions))?;
    Ok(Places { functions, saps })
}

#[cfg(test)]
pub(crate) mod tests {

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
    pub fn domain(number: u8, interfaces: &[&str], images: &[&str], free: u64) -> Domain {
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
            neighbours: Vec::new(),
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

    #[test]
    fn wishes_hold_or_are_why_there_is_no_place() {
        let both = ["firewall", "nat"];
        let n = |number, interfaces: &[&str]| domain(number, interfaces, &both, 1000);
        let all = [n(1, &["lan"]), n(2, &["wan"]), n(3, &[])];
        let wish = |placement: &str| format!("{GRAPH}placement: {placement}\n");
        let apart = placed(&wish("{apart: [[a, b]]}"), &all, None).unwrap();
        assert!(apart == "a n1, b n2" || apart == "a n2, b n1", "{apart}");
        let small = [domain(1, &["lan"], &both, 150), domain(2, &["wan"], &both, 150), n(3, &[])];
        assert_eq!(placed(&wish("{together: [[a, b]]}"), &small, None).unwrap(), "a n3, b n3");
        // What runs moves if it has to.
        let id = |text: &str| text.parse::<Id>().unwrap();
        let functions = BTreeMap::from([(id("a"), "n1".to_owned()), (id("b"), "n1".to_owned())]);
        let before = Places { functions, saps: BTreeMap::new() };
        let moved = placed(&wish("{apart: [[a, b]]}"), &all, Some(&before)).unwrap();
        assert!(moved != "a n1, b n1", "{moved}");
        // Where it cannot be, the wish is named.
        let few = [domain(1, &["lan"], &both, 150), domain(2, &["wan"], &both, 150)];
        let e = placed(&wish("{together: [[a, b]]}"), &few, None).unwrap_err();
        assert!(e.contains("sffg.placement.together[0]: functions 'a', 'b' are to be on one node"), "{e}");
        let one = [domain(1, &["lan"], &both, 1000), domain(2, &["wan"], &[], 1000)];
        let e = placed(&wish("{apart: [[a, b]]}"), &one, None).unwrap_err();
        assert!(
            e.contains("sffg.placement.apart[0]: functions 'a', 'b' are to be on different nodes"),
            "{e}"
        );

        let at = |region: &str, d: Domain| Domain { region: Some(region.into()), ..d };
        let regions = [at("west", n(1, &["lan"])), at("west", n(2, &["wan"])), at("east", n(3, &["lan"]))];
        let east = wish("{region: east}");
        assert_eq!(placed(&east, &regions, None).unwrap(), "a n3, b n3");
        let one = [at("west", n(1, &["lan"])), at("west", n(2, &["wan"])), at("east", n(3, &[]))];
        let e = placed(&wish("{region: north}"), &one, None).unwrap_err();
        assert!(e.contains("placement.region: its functions are to be in region 'north'"), "{e}");
        assert!(e.contains("node n1: in another region"), "{e}");
        let named = east.replace("name: nat", "node: n1, name: nat");
        assert_eq!(placed(&named, &regions, None).unwrap(), "a n3, b n1");
    }
}
