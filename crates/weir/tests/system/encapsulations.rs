//! Parts of a graph are joined as the links between their nodes say: the packets are the same.

use crate::domain::{self, Domain, NODES, SPAN};
use crate::lab::{Lab, PYTHON, Process, until, until_pings};

/// Sends frames from the first host to the third: of several sizes, with fields that nothing on their way may change.
const SEND: &str = r"
from scapy.all import *
import sys
conf.verb = 0
frames = [Ether(src=sys.argv[1], dst=sys.argv[2]) / IP(src='10.1.0.1', dst='10.1.0.3', id=100 + n, ttl=30 + n, tos=4 * n)
          / UDP(sport=6000, dport=7000) / Raw(bytes((n * i) % 251 for i in range(size)))
          for n, size in enumerate([0, 1, 17, 200, 777, 1200, 1300, 64])]
sendp(frames, iface='eth0')
";

/// The frames that a host gets of those that the first one sends.
fn frames(lab: &Lab, (host, interface): (&str, &str), macs: [&str; 2]) -> Vec<String> {
    let command = ["tcpdump", "-tlnn", "-XX", "-c", "8", "-i", interface, "udp and dst port 7000"];
    let seen = lab.ns(host).spawn_in_network(&command);
    until("tcpdump", || seen.stderr().contains("listening on"));
    lab.ns("h1").run(&[PYTHON, "-c", SEND, macs[0], macs[1]]).ok();
    let text = seen.wait().ok();
    let mut packets = Vec::new();
    for line in text.lines() {
        match line.starts_with("IP ") {
            true => packets.push(line.to_owned()),
            false => packets.last_mut().map_or((), |p: &mut String| p.push_str(line)),
        }
    }
    packets
}

fn mac(lab: &Lab, namespace: &str) -> String {
    lab.ns(namespace).run(&["cat", "/sys/class/net/eth0/address"]).ok().trim().to_owned()
}

/// What is seen between the nodes.
fn between(lab: &Lab) -> Process {
    // The tags of VLANs stand in the packets' own bytes only if nobody takes them off.
    let seen = lab.ns("control").spawn_in_network(&["tcpdump", "-tlnne", "-i", "p2", "not tcp and not arp"]);
    until("tcpdump", || seen.stderr().contains("listening on"));
    seen
}

#[test]
fn packets_are_the_same_whatever_joins_the_parts_of_a_graph() {
    let lab = domain::lab(false);
    // One bridge for all VLANs would learn the hosts' addresses from any of them.
    for port in ["p1", "p2", "p3"] {
        lab.ip("control", &format!("link set {port} type bridge_slave learning off"));
    }
    let domain = Domain::start(&lab);
    let _nodes = domain.join_all();
    let macs = [mac(&lab, "h1"), mac(&lab, "h3")];
    let macs = [macs[0].as_str(), macs[1].as_str()];
    // All of it on one node, with both its interfaces at the first host.
    let on_one = SPAN
        .replace("node: n2", "node: n1")
        .replace("node: n3, interface: {if-name: lan}", "node: n1, interface: {if-name: wan}");
    domain.apply(&on_one, &[]).ok();
    let expected = frames(&lab, ("h1", "eth1"), macs);
    assert_eq!(expected.len(), 8);
    domain.weir(&["delete", "span"]).ok();
    let set = |options: &[&str]| {
        for (a, b) in [("n1", "n2"), ("n2", "n3"), ("n3", "n1")] {
            domain.weir(&[&["link", "set", a, b], options].concat()).ok();
        }
    };
    let ways: [(&str, &[&str], &str, &str); 4] = [
        ("vxlan", &[], "VXLAN takes 50", ".4789: VXLAN"),
        ("gre", &[], "GRE takes 42", "GREv0, key=0x80"),
        ("vlan", &["--vlans", "3000-3011"], "", "vlan 300"),
        ("wireguard", &[], "VXLAN inside of WireGuard takes 110", ".51820"),
    ];
    for (name, options, takes, on_the_wire) in ways {
        set(&[&["--encapsulation", name], options].concat());
        // A graph that runs is joined anew.
        let said = domain.apply(SPAN, &[]).ok();
        assert!(said.contains(takes) && (takes.is_empty() != said.contains("bytes that the path")), "{said}");
        until_pings(&lab.ns("h1"), "10.1.0.3");
        let seen = between(&lab);
        assert_eq!(frames(&lab, ("h3", "eth0"), macs), expected, "{name}");
        let seen = seen.interrupt().stdout;
        assert!(seen.contains(on_the_wire), "{name}: {seen}");
        // The firewall is the same one.
        lab.ns("h3").run(&["ping", "-c1", "-W1", "10.1.0.1"]).fails(1);
        let shown = domain.weir(&["get", "links"]).ok();
        assert_eq!(shown.matches(if name == "wireguard" { "encrypted" } else { name }).count(), 3, "{shown}");
        let figures = domain.json(&["get", "links"]);
        assert_eq!(figures["links"][0]["tunnels"], 2, "{figures}");
    }
    // As large as the interfaces take them, since a VLAN takes nothing of it.
    set(&["--encapsulation", "vlan", "--vlans", "3000-3011"]);
    domain.apply(SPAN, &[]).ok();
    until_pings(&lab.ns("h1"), "10.1.0.3");
    lab.ns("h1").run(&["ping", "-c1", "-W2", "-M", "do", "-s", "1472", "10.1.0.3"]).ok();
    domain.weir(&["delete", "span"]).ok();
    domain.stop_engines();
}

#[test]
fn vlans_of_tunnels_are_nobody_elses() {
    let lab = domain::lab(false);
    let domain = Domain::start(&lab);
    let _nodes = domain.join_all();
    let document = |vlan: u16| {
        format!(
            "id: wire\nname: wire\nsaps:
  - {{id: l, node: n2, type: vlan, vlan: {{vlan-id: {vlan}, if-name: m0}}}}
  - {{id: r, node: n2, type: interface, interface: {{if-name: wan}}}}
flowrules:
  - {{id: a, priority: 1, match: {{port_in: 'sap:l'}}, actions: {{output_to_port: 'sap:r'}}}}\n"
        )
    };
    let set = |vlans: &[&str]| {
        domain.weir(&[&["link", "set", "n1", "n2", "--encapsulation", "vlan"], vlans].concat())
    };
    for (vlans, why) in [
        (&[][..], "say which ones tunnels may have"),
        (&["--vlans", "20-10"], "the first one first"),
        (&["--vlans", "4000-4095"], "1 to 4094"),
    ] {
        let e = set(vlans).fails(1);
        assert!(e.contains(why), "{e}");
    }
    domain.apply(&document(3005), &[]).ok();
    let used = || domain.weir(&["describe", "node", "n2"]).ok().contains("3005 (wire)");
    until("the node says what it has", used);
    let e = set(&["--vlans", "3000-3009"]).fails(1);
    assert!(e.contains("VLAN 3005 is an access point of graph 'wire'"), "{e}");
    set(&["--vlans", "3010-3010"]).ok();
    let e = domain.apply(&document(3010), &[]).fails(1);
    assert!(e.contains("VLAN 3010 is one of the tunnels between nodes 'n1' and 'n2'"), "{e}");
    // One VLAN is too few for two tunnels.
    let e = domain.apply(SPAN, &[]).fails(1);
    assert!(e.contains("may have are in use (3010 to 3010)"), "{e}");
    assert!(NODES.iter().all(|n| !domain.at(n).contains(&"span".to_owned())));
    domain.weir(&["delete", "wire"]).ok();
    domain.stop_engines();
}
