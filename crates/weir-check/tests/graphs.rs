//! Requirements on the service graph of the example.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use weir_check::{Status, World};
use weir_model::graph::ServiceGraph;
use weir_model::requirement::Requirement;
use weir_model::template::Template;
use weir_plan::{Classes, Plan};
use weir_switch::compile::plan;
use weir_switch::config::Compiled;
use weir_verify::Limits;

/// Asks about the graph of firewall and NAT, with the images of the repository: `packet-filter` and `snat`, of which all of this
/// is proved.
fn asked(requirement: &str) -> Status {
    let text = fs::read_to_string(root().join("examples/firewall-nat.yaml")).unwrap();
    let text =
        text.replace("name: firewall\n", "name: packet-filter\n").replace("name: nat\n", "name: snat\n");
    answer(&text, requirement)
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Asks about a graph with the images of the repository.
fn answer(text: &str, requirement: &str) -> Status {
    let graph = ServiceGraph::parse(text).unwrap();
    let images: BTreeMap<String, Template> = fs::read_dir(root().join("images"))
        .unwrap()
        .map(|entry| Template::load(&entry.unwrap().path()).unwrap())
        .map(|image| (image.name.to_string(), image))
        .collect();
    let image = |name: &str| images.get(name).ok_or("there is no image".to_owned());
    let compiled = Compiled::new(plan(&graph, |f| image(f.name.as_str())).unwrap());
    let classes = Classes::with(weir_switch::CLASSES.iter().copied());
    let plan = Plan::new(&classes, &compiled.config.text, "graph").unwrap();
    let mut world = World::of_graph(&graph, &compiled.plan.names(), &plan).unwrap();
    let question = world.question(&Requirement::parse(requirement).unwrap()).unwrap();
    world.net.finish();
    world.answer(&question, Limits::of_networks()).status
}

#[test]
fn what_a_function_that_is_not_inline_does_is_not_known() {
    let rule = |id: &str, from: &str, to: &str| {
        format!(
            "  - {{id: {id}, priority: 1, match: {{port_in: '{from}'}}, actions: {{output_to_port: '{to}'}}}}\n"
        )
    };
    let text = format!(
        "id: g\nname: g\nSFs: [{{id: f, name: linux-bridge, ports: [{{id: l}}, {{id: r}}]}}]\nsaps:\n  \
         - {{id: a, type: interface, interface: {{if-name: a}}}}\n  - {{id: b, type: interface, interface: {{if-name: b}}}}\n  \
         - {{id: c, type: interface, interface: {{if-name: c}}}}\nflowrules:\n{}{}{}{}",
        rule("r1", "sap:a", "sf:f:l"),
        rule("r2", "sf:f:r", "sap:b"),
        rule("r3", "sap:b", "sf:f:r"),
        rule("r4", "sf:f:l", "sap:a"),
    );
    for unknown in
        ["all a b", "never a b", "can a b", "return a b", "invariant a b payload", "well-formed all a b udp"]
    {
        assert_eq!(answer(&text, unknown), Status::Inconclusive, "{unknown}");
    }
    // What it may send is anything, and what does not meet it is known.
    assert_eq!(answer(&text, "can sf:f:r b udp"), Status::Holds);
    assert_eq!(answer(&text, "never sf:f:r a"), Status::Holds);
    assert_eq!(answer(&text, "never a c"), Status::Inconclusive);
    assert_eq!(answer(&text, "never c b"), Status::Holds);
}

#[test]
fn what_the_firewall_denies_does_not_arrive_whatever_strangers_left() {
    assert_eq!(asked("never client server tcp dst port 22"), Status::Holds);
    assert_eq!(asked("can client server tcp dst port 80"), Status::Holds);
    assert_eq!(asked("never client server tcp dst port 80"), Status::Violated);
    assert_eq!(asked("never server client"), Status::Violated, "answers of the NAT itself, at least");
}

#[test]
fn what_needs_addresses_that_were_asked_for_and_answered_is_found() {
    // A mapping, and an answer to who has the client's address, after somebody asked for it.
    assert_eq!(asked("can server client tcp"), Status::Holds);
    // The same for both sides.
    assert_eq!(asked("return client server tcp dst port 80"), Status::Holds);
}

#[test]
fn that_nothing_arrives_is_proved_although_packets_wait_for_addresses() {
    assert_eq!(asked("can client server udp dst port 9999"), Status::Violated);
    assert_eq!(asked("noloops"), Status::Holds);
    // Mappings of TCP have other ports than those of UDP, and ports may stand behind options.
    let only = "only client server arp or icmp or tcp dst port 80 or tcp dst port 5201 or tcp dst port 5202 or udp dst port 5202";
    assert_eq!(asked(only), Status::Holds);
}

/// A graph of one function, with its ports `inside` and `outside`.
fn between_lan_and_wan(image: &str, params: &str) -> String {
    let head = format!(
        "{{id: g, name: g, SFs: [{{id: f, name: {image}, ports: [{{id: inside}}, {{id: outside}}], params: {{{params}}}}}],\n"
    );
    head + r#"saps: [{id: lan, type: interface, interface: {if-name: lan}}, {id: wan, type: interface, interface: {if-name: wan}}],
flowrules: [
{id: a, priority: 1, match: {port_in: "sap:lan"}, actions: {output_to_port: "sf:f:inside"}},
{id: b, priority: 1, match: {port_in: "sf:f:inside"}, actions: {output_to_port: "sap:lan"}},
{id: c, priority: 1, match: {port_in: "sf:f:outside"}, actions: {output_to_port: "sap:wan"}},
{id: d, priority: 1, match: {port_in: "sap:wan"}, actions: {output_to_port: "sf:f:outside"}}]}"#
}

#[test]
fn a_port_that_the_nat_forwards_is_open() {
    let graph = between_lan_and_wan(
        "nat",
        r#"INSIDE_IP: 10.0.1.1, INSIDE_NET: 10.0.1.0/24, OUTSIDE_IP: 10.0.2.1, FILTERING: address-dependent,
        FORWARD: "tcp 8080 10.0.1.5 80""#,
    );
    assert_eq!(answer(&graph, "can wan lan tcp and dst host 10.0.1.5 and dst port 80"), Status::Holds);
}

#[test]
fn the_stateful_firewall_stops_what_its_rules_deny_whatever_came_before() {
    let graph = between_lan_and_wan("firewall", r#"RULES: "allow tcp dst port 80, deny all""#);
    let asked = |requirement| answer(&graph, requirement);
    assert_eq!(asked("well-formed never lan wan tcp dst port 22"), Status::Holds);
    assert_eq!(asked("never lan wan udp"), Status::Holds);
    assert_eq!(asked("never lan wan tcp dst port 80"), Status::Violated);
    assert_eq!(asked("return lan wan tcp dst port 80"), Status::Holds);
    assert_eq!(asked("never wan lan tcp dst port 22"), Status::Violated, "an answer to who began from there");
}

#[test]
fn beyond_a_tunnel_anything_may_come_from_and_only_what_passes_goes_there() {
    let text = "
id: g
name: g
saps:
  - {id: lan, type: interface, interface: {if-name: eth1}}
  - {id: far, type: vxlan, vxlan: {vni: 42, local-ip: 10.0.0.1, remote-ip: 10.0.0.2}}
flowrules:
  - {id: a, priority: 1, match: {port_in: 'sap:lan', ip_proto: tcp, tp_dst: 80}, actions: {output_to_port: 'sap:far'}}
  - {id: b, priority: 1, match: {port_in: 'sap:far'}, actions: {output_to_port: 'sap:lan'}}
";
    assert_eq!(answer(text, "never lan far udp"), Status::Holds);
    assert_eq!(answer(text, "can far lan src host 10.0.0.1 and udp"), Status::Holds);
    assert_eq!(answer(text, "never far lan udp"), Status::Violated);
}
