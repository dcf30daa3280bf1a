use std::net::Ipv4Addr;

use weir_api::members::FoundBy;
use weir_model::graph::RunAs;

use super::*;
use crate::links::End;
use crate::migrate::core::Kinds;

const GRAPH: &str = "
id: g
name: g
SFs:
  - {id: fw, name: firewall, ports: [in, out]}
saps:
  - {id: lan, type: interface, interface: {if-name: lan}}
  - {id: wan, type: interface, interface: {if-name: lan}, node: n3}
flowrules:
  - {id: a, priority: 1, match: {port_in: 'sap:lan'}, actions: {output_to_port: 'sf:fw:in'}}
  - {id: b, priority: 2, match: {port_in: 'sf:fw:out', ip_proto: 6}, actions: {dec_ttl: true, output_to_port: 'sap:wan'}}
  - {id: c, priority: 1, match: {port_in: 'sap:wan'}, actions: {output_to_port: ['sf:fw:out', 'sap:lan']}}
  - {id: d, priority: 1, match: {port_in: 'sf:fw:in'}, actions: {output_to_port: 'sap:lan'}}
";

fn link(a: u8, b: u8) -> Link {
    let end = |n: u8| End {
        node: format!("n{n}"),
        interface: "m".into(),
        address: Some(Ipv4Addr::new(10, 0, 0, n)),
    };
    Link::new(end(a), end(b), Some(1500), FoundBy::Addresses)
}

fn places(fw: &str) -> Places {
    let id = |text: &str| text.parse::<Id>().unwrap();
    Places {
        functions: BTreeMap::from([(id("fw"), fw.into())]),
        saps: BTreeMap::from([(id("lan"), "n1".into()), (id("wan"), "n3".into())]),
    }
}

fn rules(graph: &ServiceGraph) -> Vec<String> {
    let outputs = |r: &Rule| -> String {
        let all: Vec<String> = r.actions.output_to_port.iter().map(ToString::to_string).collect();
        all.join(" and ")
    };
    graph.flowrules.iter().map(|r| format!("{} to {}", r.matches.port_in, outputs(r))).collect()
}

#[test]
fn each_node_gets_its_functions_and_rules_and_tunnels_to_the_others() {
    let graph = ServiceGraph::parse(GRAPH).unwrap();
    let links = [link(1, 2), link(2, 3), link(1, 3)];
    let taken = BTreeSet::from([0x80_0000]);
    let had = Had { tunnels: &[], taken: &taken };
    let split = split(&graph, &places("n2"), &links, &Keys::new(), had, None).unwrap();
    assert_eq!(
        rules(&split.parts["n1"]),
        ["sap:lan to sap:tunnel-800001", "sap:tunnel-800004 to sap:lan", "sap:tunnel-800005 to sap:lan"]
    );
    assert_eq!(
        rules(&split.parts["n2"]),
        [
            "sf:fw:out to sap:tunnel-800002",
            "sf:fw:in to sap:tunnel-800005",
            "sap:tunnel-800001 to sf:fw:in",
            "sap:tunnel-800003 to sf:fw:out"
        ]
    );
    assert_eq!(
        rules(&split.parts["n3"]),
        ["sap:wan to sap:tunnel-800003 and sap:tunnel-800004", "sap:tunnel-800002 to sap:wan"]
    );
    // What changes packets is done once, where they come in.
    assert!(split.parts["n2"].flowrules[0].actions.dec_ttl);
    let vxlan = |node: &str, id: &str| split.parts[node].sap(&id.parse().unwrap()).unwrap().kind.clone();
    let SapKind::Vxlan { vxlan: sender } = vxlan("n1", "tunnel-800001") else { panic!() };
    let SapKind::Vxlan { vxlan: receiver } = vxlan("n2", "tunnel-800001") else { panic!() };
    assert_eq!((sender.local_ip, sender.remote_ip), (receiver.remote_ip, receiver.local_ip));
    // The same again has the same numbers, also when something else is new.
    let none = BTreeSet::new();
    let had = Had { tunnels: &split.tunnels, taken: &none };
    let again = super::split(&graph, &places("n2"), &links, &Keys::new(), had, None).unwrap();
    assert_eq!(again, split);
}

#[test]
fn a_link_says_how_tunnels_go_there() {
    let graph = ServiceGraph::parse(GRAPH).unwrap();
    let over = |encapsulation, vlans, links: &[Link], before: &[Tunnel], taken: &BTreeSet<u32>| {
        let links: Vec<Link> = links.iter().map(|l| Link { encapsulation, vlans, ..l.clone() }).collect();
        let had = Had { tunnels: before, taken };
        super::split(&graph, &places("n2"), &links, &Keys::new(), had, None)
    };
    let links = [link(1, 2), link(2, 3), link(1, 3)];
    let kind = |split: &Split, node: &str| {
        split.parts[node].saps.iter().find(|s| s.id.as_str().starts_with("tunnel-")).unwrap().kind.clone()
    };
    let none = BTreeSet::new();
    let gre = over(Encapsulation::Gre, None, &links, &[], &none).unwrap();
    let SapKind::Gre { gre: end } = kind(&gre, "n1") else { panic!() };
    assert_eq!((end.gre_key, end.local_ip.to_string().as_str()), (Some(0x80_0000), "10.0.0.1"));
    // As many VLANs as there are tunnels, but for what others have.
    let taken = BTreeSet::from([101]);
    let vlan = over(Encapsulation::Vlan, Some([100, 105]), &links, &gre.tunnels, &taken).unwrap();
    let numbers: Vec<u32> = vlan.tunnels.iter().map(|t| t.number).collect();
    assert_eq!(numbers, [100, 102, 103, 104, 105]);
    let SapKind::Vlan { vlan: end } = kind(&vlan, "n1") else { panic!() };
    assert_eq!((end.vlan_id.get(), end.if_name.unwrap().as_str()), (100, "m"));
    assert_eq!(vlan.tunnels[0].to_string(), "vlan 100 from n1 to n2: from n1 to sf:fw:in");
    let e = over(Encapsulation::Vlan, Some([100, 104]), &links, &[], &taken).unwrap_err();
    assert!(e.to_string().contains("are in use (100 to 104)"), "{e}");
    // Those of before stay as long as the link takes them.
    let again = over(Encapsulation::Vlan, Some([102, 200]), &links, &vlan.tunnels, &none).unwrap();
    let numbers: Vec<u32> = again.tunnels.iter().map(|t| t.number).collect();
    assert_eq!(numbers, [106, 102, 103, 104, 105]);
}

#[test]
fn nodes_in_between_pass_packets_on() {
    let graph = ServiceGraph::parse(GRAPH).unwrap();
    let none = BTreeSet::new();
    let had = Had { tunnels: &[], taken: &none };
    let split = split(&graph, &places("n1"), &[link(1, 2), link(2, 3)], &Keys::new(), had, None).unwrap();
    assert!(split.parts["n2"].functions.is_empty());
    assert_eq!(rules(&split.parts["n2"]).len(), 3, "to wan, to fw:out, to lan");
    let e = super::split(&graph, &places("n1"), &[link(1, 2)], &Keys::new(), had, None).unwrap_err();
    assert_eq!(e.to_string(), "no link leads from node 'n1' to node 'n3', where 'sap:wan' is");
}

#[test]
fn a_graph_on_one_node_stays_whole() {
    let text = GRAPH.replace("if-name: lan}, node: n3", "if-name: wan}");
    let graph = ServiceGraph::parse(&text).unwrap();
    let mut places = places("n1");
    places.saps.insert("wan".parse().unwrap(), "n1".into());
    let none = BTreeSet::new();
    let split = split(&graph, &places, &[], &Keys::new(), Had { tunnels: &[], taken: &none }, None).unwrap();
    assert_eq!((split.parts.len(), split.tunnels.len()), (1, 0));
    assert_eq!(split.parts["n1"], graph);
}

#[test]
fn a_function_that_moves_is_at_two_nodes_and_packets_turn_from_one_to_the_other() {
    let graph = ServiceGraph::parse(GRAPH).unwrap();
    let links = [link(1, 2), link(2, 3), link(1, 3)];
    let none = BTreeSet::new();
    let first =
        split(&graph, &places("n2"), &links, &Keys::new(), Had { tunnels: &[], taken: &none }, None).unwrap();
    let moving = |stage| Moving::new("fw", ["n2", "n1"], stage);
    let at = |split: &Split, node: &str| {
        let f = split.parts.get(node).and_then(|p| p.functions.first());
        f.map(|f| f.state)
    };
    let stage = |stage, before: &Split| {
        let had = Had { tunnels: &before.tunnels, taken: &none };
        let places = places(if stage == Stage::Arrived { "n1" } else { "n2" });
        split(&graph, &places, &links, &Keys::new(), had, Some(&moving(stage))).unwrap()
    };
    let said = |state| Some(Some(state));
    let stopped = said(FunctionState::Stopped);
    let prepared = stage(Stage::Prepared, &first);
    assert_eq!((at(&prepared, "n2"), at(&prepared, "n1")), (said(FunctionState::Running), stopped));
    // All that led to it leads there as before, by the same tunnels.
    assert!(first.tunnels.iter().all(|t| prepared.tunnels.contains(t)));
    assert_eq!(rules(&prepared.parts["n1"])[0], "sap:lan to sap:tunnel-800000");
    let ready = stage(Stage::Ready, &prepared);
    let moving_state = said(FunctionState::Moving);
    assert_eq!((at(&ready, "n2"), at(&ready, "n1")), (moving_state, moving_state));
    let by_number = |s: &Split| s.tunnels.iter().map(|t| (t.number, t.clone())).collect::<BTreeMap<_, _>>();
    assert_eq!(by_number(&ready), by_number(&prepared), "no tunnel is another one");
    // Where packets come in, one word leads them from the old place to the new one.
    let at_n1 = rules(&ready.parts["n1"]);
    for rule in ["sap:lan to sf:turn-0:in", "sf:turn-0:old to sap:tunnel-800000", "sf:turn-0:new to sf:fw:in"]
    {
        assert!(at_n1.contains(&rule.to_owned()), "{at_n1:?}");
    }
    let turn = ready.parts["n3"].functions.iter().find(|f| f.id.as_str() == "turn-1").unwrap();
    assert_eq!(turn.click.as_deref(), Some(crate::migrate::turns::CLICK));
    // What the function sends to itself stays where it is, and what is under way to the old place gets there.
    assert!(rules(&ready.parts["n2"]).contains(&"sap:tunnel-800000 to sf:fw:in".to_owned()));
    let turned = stage(Stage::Turned, &ready);
    assert_eq!(turned, ready, "a turn takes no other parts");
    let arrived = stage(Stage::Arrived, &turned);
    assert_eq!((at(&arrived, "n2"), at(&arrived, "n1")), (None, Some(Some(FunctionState::Running))));
    assert!(arrived.tunnels.iter().all(|t| turned.tunnels.contains(t)), "and no new ones at the end");
    // One that goes into a process is in one there alone, also while it is at both nodes.
    let into = Kinds { from: None, to: Some(RunAs::Process) };
    for (stage, at, kinds) in [
        (Stage::Prepared, "n2", [Some(None), Some(into.to)]),
        (Stage::Turned, "n2", [Some(None), Some(into.to)]),
        (Stage::Arrived, "n1", [None, Some(into.to)]),
        // The move failed.
        (Stage::Arrived, "n2", [Some(None), None]),
    ] {
        let moving = Moving { kinds: Some(into), ..moving(stage) };
        let had = Had { tunnels: &ready.tunnels, taken: &none };
        let split = split(&graph, &places(at), &links, &Keys::new(), had, Some(&moving)).unwrap();
        let kind = |node: &str| {
            let own = split.parts.get(node)?.functions.iter().find(|f| f.id.as_str() == "fw");
            own.map(|f| f.kind)
        };
        assert_eq!(["n2", "n1"].map(kind), kinds, "{stage:?} at {at}");
    }
}
