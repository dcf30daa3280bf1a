//! What a node says against a function that is to move there.

use std::collections::{BTreeMap, BTreeSet};

use weir_api::domain::Domain;
use weir_model::graph::ServiceGraph;

use crate::admit::admit_move;
use crate::place::tests::domain;
use crate::store::{DomainGraph, Member};
use crate::view::{Known, View};

const GRAPH: &str = "
id: g
name: g
SFs: [{id: f, name: nat, ports: [a, b]}]
saps: [{id: l, type: interface, interface: {if-name: lan}}]
flowrules:
  - {id: a, priority: 1, match: {port_in: 'sap:l'}, actions: {output_to_port: 'sf:f:a'}}
  - {id: b, priority: 1, match: {port_in: 'sf:f:a'}, actions: {output_to_port: 'sap:l'}}
";

/// What is said to a move of the function from n1 to n2, with that in n2.
fn said(there: Domain, cordoned: bool, online: bool) -> Result<(), String> {
    let member = |cordoned| Member { number: "1".into(), joined: 0, certificate: 0, cordoned };
    let known = |domain| Known { domain: Some(domain), ..Known::default() };
    let view = View {
        members: BTreeMap::from([("n1".into(), member(false)), ("n2".into(), member(cordoned))]),
        known: BTreeMap::from([
            ("n1".into(), known(domain(1, &["lan"], &["nat"], 1000))),
            ("n2".into(), known(there)),
        ]),
        ..View::default()
    };
    let names: &[&str] = if online { &["n1", "n2"] } else { &["n1"] };
    let online: BTreeSet<String> = names.iter().map(|n| (*n).to_owned()).collect();
    let graph = ServiceGraph::parse(GRAPH).unwrap();
    let stored = DomainGraph {
        document: graph.to_json()["sffg"].clone(),
        text: GRAPH.into(),
        tenant: None,
        functions: BTreeMap::from([("f".into(), "n1".into())]),
        saps: BTreeMap::from([("l".into(), "n1".into())]),
        secrets: BTreeMap::default(),
        memory: 0,
        cpu: 0,
        tunnels: Vec::new(),
        moved: BTreeSet::new(),
        moving: None,
        parts: BTreeMap::new(),
    };
    let moved = admit_move(&graph, &stored, None, &view, &online, (&graph.functions[0], "n2"));
    moved.map(drop).map_err(|p| p.to_string())
}

#[test]
fn a_node_that_lacks_something_says_what() {
    assert_eq!(said(domain(2, &["wan"], &["nat"], 1000), false, true), Ok(()));
    let refused = |there, cordoned, online, why: &str| {
        let e = said(there, cordoned, online).unwrap_err();
        assert!(e.contains(why), "{e}");
    };
    refused(domain(2, &["wan"], &["firewall"], 1000), false, true, "it has no image 'nat'");
    refused(domain(2, &["wan"], &["nat"], 50), false, true, "has not enough left for function 'f'");
    refused(domain(2, &["wan"], &["nat"], 1000), true, true, "is cordoned");
    refused(domain(2, &["wan"], &["nat"], 1000), false, false, "is offline");
}
