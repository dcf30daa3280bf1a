//! What filters ask of packets: of those without an Ethernet header, of padding, of IPv6 headers, of tags.

use std::collections::BTreeMap;

use weir_check::{Status, World};
use weir_model::graph::ServiceGraph;
use weir_model::request::Request;
use weir_model::requirement::Requirement;
use weir_plan::{Classes, Plan};
use weir_topology::Topology;
use weir_verify::Limits;

use Status::{Holds, Inconclusive, Violated};

fn topology(text: &str, files: &BTreeMap<&str, String>) -> World {
    let mut read = |name: &str| {
        files.get(name).cloned().ok_or_else(|| std::io::Error::from(std::io::ErrorKind::NotFound))
    };
    let topology = Topology::parse_with(text, &mut read).unwrap_or_else(|e| panic!("{e}"));
    World::of_topology(&topology, &Classes::default(), |_, _| false).unwrap_or_else(|e| panic!("{e:?}"))
}

fn answer(world: &World, line: &str) -> Result<Status, String> {
    let mut world = world.clone();
    let question = world.question(&Requirement::parse(line).unwrap()).map_err(|e| e.to_string())?;
    world.net.finish();
    Ok(world.answer(&question, Limits::of_networks()).status)
}

fn click(config: &str, requirement: &str) -> Status {
    let request = Request::parse(&format!("{config}\nREQUIRE {requirement}")).unwrap();
    let mut world = World::of_request(&request, &Classes::default(), "test").unwrap();
    let question = world.question(&request.requirements[0]).unwrap();
    world.net.finish();
    world.answer(&question, Limits::of_networks()).status
}

/// Two hosts, and what stands between them.
fn hosts(middle: &str) -> String {
    format!(
        "version: 1\nname: t\nboxes:\n  a: {{kind: host, owns: 10.0.0.0/24}}\n  b: {{kind: host, owns: 10.0.1.0/24}}\n{middle}"
    )
}

const ROUTER: &str = "  r: {kind: router, interfaces: {x: 10.0.0.9/24, y: 10.0.1.9/24}}
links: [r:x - a, r:y - b]";

/// Bytes of an IP header are not read as an Ethernet header.
#[test]
fn hosts_send_neither_tags_nor_arp() {
    let world = topology(&hosts(ROUTER), &BTreeMap::new());
    for line in
        ["all a b vlan 7", "never a b vlan", "never a b arp", "never a b vlan and udp", "can a b not vlan"]
    {
        assert_eq!(answer(&world, line), Ok(Holds), "{line}");
    }
    for line in ["never a b ether host 02:00:00:00:00:01", "can a b ether[0] & 1 = 0 and udp"] {
        let error = answer(&world, line).unwrap_err();
        assert!(error.contains("Ethernet"), "{line}: {error}");
    }
}

#[test]
fn a_firewall_box_may_speak_of_tags_but_not_of_ethernet_addresses() {
    let with = |rule: &str| {
        hosts(&format!(
            "  f: {{kind: firewall, ports: [in, out], rules: [deny {rule}, allow all]}}\nlinks: [f:in - a, f:out - b]"
        ))
    };
    for rule in ["vlan 5", "arp", "ether proto 0x8100"] {
        assert_eq!(answer(&topology(&with(rule), &BTreeMap::new()), "can a b udp"), Ok(Holds), "{rule}");
    }
    let error = Topology::parse(&with("ether host 02:00:00:00:00:01")).unwrap_err().to_string();
    assert!(error.contains("Ethernet header"), "{error}");
}

/// Who has the address passes, and nothing is known of addresses.
#[test]
fn an_imported_rule_with_a_mac_address_may_match() {
    let rules = "*filter
:FORWARD DROP [0:0]
-A FORWARD -i x -m mac --mac-source 02:00:00:00:00:05 -j ACCEPT
COMMIT
";
    let text = hosts(
        "  r:
    kind: router
    interfaces: {x: 10.0.0.9/24, y: 10.0.1.9/24}
    firewall: {file: rules}
links: [r:x - a, r:y - b]",
    );
    let world = topology(&text, &BTreeMap::from([("rules", rules.to_owned())]));
    assert_eq!(answer(&world, "never a b udp"), Ok(Inconclusive));
    assert_eq!(answer(&world, "never b a udp"), Ok(Holds));
}

/// A port that lies behind the end of the IP packet is none.
#[test]
fn padding_holds_no_ports() {
    let behind = |filter: &str| {
        format!(
            "FromDevice(a) -> Classifier(12/0800) -> CheckIPHeader(14) -> IPFilter({filter}) -> Queue -> ToDevice(b);"
        )
    };
    let filter = behind("deny tcp dst port 23, allow all");
    assert_eq!(click(&filter, "never a b tcp dst port 23"), Holds);
    assert_eq!(click(&filter, "never a b tcp dst port 24"), Violated);
    // Where nobody looks at the length, the filter and the requirement still mean the same.
    let marked = "FromDevice(a) -> Classifier(12/0800) -> MarkIPHeader(14) -> IPFilter(deny tcp dst port 23, allow all)
        -> Queue -> ToDevice(b);";
    assert_eq!(click(marked, "never a b tcp dst port 23"), Holds);
}

#[test]
fn bytes_of_the_ipv6_header_are_not_those_of_ipv4() {
    let text = "FromDevice(a) -> Classifier(12/86dd) -> MarkIP6Header(14) -> IP6Filter(deny ip6[6] = 43, allow all) -> Queue -> ToDevice(b);";
    assert_eq!(click(text, "never a b ip6[6] = 44"), Violated);
    // Too many lengths of extension headers for a proof; there must be no packet, though.
    assert_ne!(click(text, "never a b ip6[6] = 43"), Violated);
}

/// A frame gets a tag, even one that is cut short behind its EtherType.
#[test]
fn a_tag_that_was_put_on_is_there() {
    let graph = "id: g
name: a tag for all
SFs: []
saps:
  - {id: a, type: interface, interface: {if-name: left}}
  - {id: b, type: interface, interface: {if-name: right}}
flowrules:
  - {id: r, priority: 1, match: {port_in: 'sap:a'}, actions: {push_vlan: 100, output_to_port: 'sap:b'}}
";
    let graph = ServiceGraph::parse(graph).unwrap();
    let compiled = weir_switch::compile::plan(&graph, |_| Err("there is no image".to_owned())).unwrap();
    let compiled = weir_switch::config::Compiled::new(compiled);
    let classes = Classes::with(weir_switch::CLASSES.iter().copied());
    let plan = Plan::new(&classes, &compiled.config.text, "graph").unwrap();
    let world = World::of_graph(&graph, &compiled.plan.names(), &plan).unwrap();
    assert_eq!(answer(&world, "only a b vlan 100"), Ok(Holds));
    assert_eq!(answer(&world, "can a b vlan and udp"), Ok(Holds));
    assert_eq!(answer(&world, "can a b udp"), Ok(Violated));
}
