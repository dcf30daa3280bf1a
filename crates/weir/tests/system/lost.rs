//! Nodes that are lost: what was there goes on elsewhere, if it may.

use crate::domain::{self, Domain, SPAN, WIRE};
use crate::lab::{Lab, host, until, until_pings};

/// A graph over three nodes whose firewall may be anywhere, and is at n2 first.
fn span_with_a_free_firewall(domain: &Domain<'_>) {
    domain.apply(SPAN, &[]).ok();
    let free = SPAN.replace("name: firewall, node: n2", "name: firewall") + "placement: {when-lost: move}\n";
    domain.apply(&free, &[]).ok();
    assert_eq!(domain.ps(), [("span".into(), "n1, n2, n3".into(), "running".into())], "what runs stays");
}

/// Kills all that runs on a machine: the daemon, the data plane and functions.
fn kill_machine(lab: &Lab, node: &str) {
    let pids = host(&["ip", "netns", "pids", &lab.name(node)]).ok();
    let pids: Vec<&str> = pids.split_whitespace().collect();
    host(&[&["kill", "-s", "KILL"], &pids[..]].concat()).ok();
}

/// A machine is killed or cut off: the function that was there is on another node, and packets go on; when it is back, it has lost its old part.
#[test]
fn a_function_of_a_lost_node_goes_on_at_another_one() {
    let lab = domain::lab(false);
    let domain = Domain::start(&lab);
    let mut nodes = domain.join_all();
    let (h1, h3) = (lab.ns("h1"), lab.ns("h3"));
    span_with_a_free_firewall(&domain);
    until_pings(&h1, "10.1.0.3");

    // The whole machine ends.
    kill_machine(&lab, "n2");
    until("it is placed anew", || domain.ps() == [("span".into(), "n1, n3".into(), "running".into())]);
    until_pings(&h1, "10.1.0.3");
    h3.run(&["ping", "-c", "1", "-W", "1", "10.1.0.1"]).fails(1);
    assert!(domain.weir(&["events"]).ok().contains("placed anew: node 'n2' is lost"));
    assert!(!domain.weir(&["get", "links"]).ok().contains("n2"), "nothing leads there any more");
    nodes[1] = domain.node("n2", None);
    until("n2 is back, without the graph", || domain.is_online("n2") && domain.at("n2").is_empty());
    until_pings(&h1, "10.1.0.3");
    assert_eq!(domain.ps(), [("span".into(), "n1, n3".into(), "running".into())], "it stays where it is");

    // The machine is cut off, and runs on: there are two copies until it is back, and only one of them has packets.
    domain.weir(&["delete", "span"]).ok();
    span_with_a_free_firewall(&domain);
    until_pings(&h1, "10.1.0.3");
    lab.ip("n2", "link set m0 down");
    until("it is placed anew", || domain.ps() == [("span".into(), "n1, n3".into(), "running".into())]);
    until_pings(&h1, "10.1.0.3");
    assert_eq!(domain.at("n2"), ["span"], "nobody could say it to the node");
    lab.ip("n2", "link set m0 up");
    until("n2 is back, without the graph", || domain.is_online("n2") && domain.at("n2").is_empty());
    until_pings(&h1, "10.1.0.3");
    h3.run(&["ping", "-c", "1", "-W", "1", "10.1.0.1"]).fails(1);
    domain.weir(&["delete", "span"]).ok();
    domain.stop_engines();
}

/// Whole graphs, as the domain says; what can be nowhere else says why, and what is to wait does.
#[test]
fn what_can_be_nowhere_else_says_so_and_what_is_to_wait_waits() {
    let lab = domain::lab(false);
    let domain = Domain::start_with(&lab, &["--when-lost", "move"]);
    let mut nodes = domain.join_all();
    domain.apply(&WIRE.replace("id: wire", "id: moves"), &["--on", "n1"]).ok();
    let other = |id: &str, sap: &str, policy: &str| {
        let graph = WIRE
            .replace("id: wire", &format!("id: {id}"))
            .replace("type: interface, interface: {if-name: lan}", sap);
        graph.replace(
            "type: interface, interface: {if-name: wan}",
            "type: vlan, vlan: {vlan-id: 7, if-name: m0}",
        ) + policy
    };
    // An address that n1 alone has, and an interface of that node that the document names.
    let tunnel = "type: gre, gre: {local-ip: 10.99.0.1, remote-ip: 10.99.0.77}";
    domain.apply(&other("address", tunnel, ""), &[]).ok();
    let named = "node: n1, type: vlan, vlan: {vlan-id: 9, if-name: m0}";
    domain.apply(&other("named", named, "").replace("vlan-id: 7", "vlan-id: 8"), &[]).ok();
    let waits =
        other("waits", "type: vlan, vlan: {vlan-id: 5, if-name: m0}", "placement: {when-lost: keep}\n");
    domain.apply(&waits.replace("vlan-id: 7", "vlan-id: 6"), &["--on", "n1"]).ok();
    assert!(
        domain.ps().iter().all(|(_, node, state)| node == "n1" && state == "running"),
        "{:?}",
        domain.ps()
    );
    nodes[0].kill();
    let state = |id: &str| domain.ps().into_iter().find(|g| g.0 == id).unwrap();
    until("what can move is moved", || state("moves").1 == "n2" && state("moves").2 == "running");
    assert_eq!(domain.at("n2"), ["moves"]);
    let reason = |id: &str| {
        let list = domain.json(&["ps"]);
        let graph = list.as_array().unwrap().iter().find(|g| g["id"] == id).unwrap().clone();
        graph["reason"].as_str().unwrap_or_default().to_owned()
    };
    until("what cannot says why", || {
        let address = reason("address");
        address.contains("access point 'l' is at node 'n1', and no other node has a place for it")
            && address.contains("node n2: it has not the address 10.99.0.1")
            && reason("named").contains("access point 'l' is to be at node 'n1', as the document says")
    });
    assert!(domain.weir(&["show", "named"]).fails(1).contains("access point 'l' is to be at node 'n1'"));
    assert!(reason("waits").contains("as far as is known it goes on there"), "{}", reason("waits"));
    let failed = |id: &str| {
        let events = domain.weir(&["events", "--graph", id]).ok();
        events.lines().filter(|l| l.contains("cannot be placed anew")).count()
    };
    assert_eq!((failed("address"), failed("named"), failed("waits"), failed("moves")), (1, 1, 0, 0));
    // It is back: what waited is there as it was, and what was moved is not.
    nodes[0] = domain.node("n1", None);
    until("n1 is back", || domain.is_online("n1") && domain.at("n1") == ["address", "named", "waits"]);
    until("all run", || domain.ps().iter().all(|g| g.2 == "running"));
    assert_eq!(state("moves").1, "n2");
    for id in ["moves", "address", "named", "waits"] {
        domain.weir(&["delete", id]).ok();
    }
    domain.stop_engines();
}
