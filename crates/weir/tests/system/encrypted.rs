//! Encrypted tunnels: between nodes, and to a program that speaks WireGuard.

use crate::domain::{self, Domain, SPAN};
use crate::lab::{Lab, Process, until, until_pings};
use crate::node::Node;
use crate::traffic::{big_file, sha256, web_server};

/// What a host sees on an interface, in the text of tcpdump with the bytes of packets, without times: their digits could be
/// those of a port.
fn watch(lab: &Lab, namespace: &str, interface: &str) -> Process {
    let command = ["tcpdump", "-tlnn", "-A", "-i", interface, "udp and not port 53"];
    let seen = lab.ns(namespace).spawn_in_network(&command);
    until("tcpdump", || seen.stderr().contains("listening on"));
    seen
}

#[test]
fn tunnels_between_nodes_are_encrypted_where_the_controller_says_so() {
    let lab = domain::lab(false);
    let domain = Domain::start_with(&lab, &["--encrypt"]);
    let _nodes = domain.join_all();
    let seen = watch(&lab, "control", "br0");
    let out = domain.apply(SPAN, &[]).ok();
    assert!(out.contains("VXLAN inside of WireGuard takes 110"), "{out}");
    let (h1, h3) = (lab.ns("h1"), lab.ns("h3"));
    until_pings(&h1, "10.1.0.3");
    // The first packet of a new tunnel waits for its handshake, and is not lost.
    let (_, sum) = big_file(&lab, "file", 3_000_000);
    let _server = web_server(&lab, "h3", 80, &lab.path(""));
    let got = lab.path("got");
    lab.ip("h1", "link set eth0 mtu 1390");
    lab.ip("h3", "link set eth0 mtu 1390");
    h1.run(&["curl", "-sS", "--max-time", "60", "-o", &got, "http://10.1.0.3/file"]).ok();
    assert_eq!(sha256(&got), sum);
    h1.run(&["ping", "-c3", "-i0.2", "-p", "5365637265745365", "10.1.0.3"]).ok();
    h3.run(&["ping", "-c1", "-W1", "10.1.0.1"]).fails(1);
    let seen = seen.interrupt().stdout;
    let headers: Vec<&str> = seen.lines().filter(|line| line.starts_with("IP ")).collect();
    let between = |port: &str| headers.iter().any(|header| header.contains(port));
    assert!(between(".51820 > ") && !between(".4789"), "all of it is inside of WireGuard");
    assert!(!seen.contains("SecretSe"), "nobody between the nodes can read it");

    // The data plane of a node begins anew: so do its tunnels.
    let engine = domain.weir(&["--json", "describe", "node", "n2"]).json();
    assert_eq!(engine["domain"]["tunnels"][0]["kind"], "wireguard", "{engine}");
    let socket = lab.path("n2.sock");
    lab.ns("n2").weir(&["engine", "--stop", "--socket", &socket]).ok();
    until_pings(&h1, "10.1.0.3");
    domain.weir(&["delete", "span"]).ok();
    domain.stop_engines();
}

/// A firewall between `lan` and an encrypted tunnel to 10.0.0.2.
fn graph(key: &str) -> String {
    let far =
        format!("{{vni: 42, local-ip: 10.0.0.1, remote-ip: 10.0.0.2, wireguard: {{public-key: '{key}'}}}}");
    format!(
        "id: tunnel
name: an encrypted tunnel
saps:
  - {{id: lan, type: interface, interface: {{if-name: lan}}}}
  - {{id: far, type: vxlan, vxlan: {far}}}
flowrules:
  - {{id: a, priority: 1, match: {{port_in: 'sap:lan'}}, actions: {{output_to_port: 'sap:far'}}}}
  - {{id: b, priority: 1, match: {{port_in: 'sap:far'}}, actions: {{output_to_port: 'sap:lan'}}}}
"
    )
}

/// `wireguard-go` in the namespace `peer`, with the kernel's VXLAN inside; gives its key.
fn peer(lab: &Lab, of_node: &str) -> (Process, String) {
    let peer = lab.ns("peer");
    // Its control socket is one of the machine's, with the name of the interface.
    let wg = format!("wg{}", std::process::id());
    let program = peer.spawn(&["wireguard-go", "-f", &wg]);
    until("wireguard-go", || lab.ip("peer", "-o link show").contains(&wg));
    let private = lab.write("peer.key", peer.run(&["wg", "genkey"]).ok());
    let public = peer.run(&["sh", "-c", &format!("wg pubkey < {private}")]).ok().trim().to_owned();
    // What is for the node goes by the tunnel, but for the tunnel's own packets.
    let of_node = ["peer", of_node, "endpoint", "10.0.0.1:51820", "allowed-ips", "10.0.0.1/32"];
    let own = ["wg", "set", &wg, "listen-port", "51820", "private-key", &private, "fwmark", "7"];
    peer.run(&[&own[..], &of_node].concat()).ok();
    lab.ip("peer", &format!("link set {wg} mtu 1440 up"));
    lab.ip("peer", &format!("route add 10.0.0.1 dev {wg} src 10.0.0.2 table 7"));
    lab.ip("peer", "rule add not fwmark 7 to 10.0.0.1 table 7");
    lab.ip("peer", "link add vx42 type vxlan id 42 local 10.0.0.2 remote 10.0.0.1 dstport 4789");
    lab.ip("peer", "addr add 10.7.0.2/24 dev vx42");
    lab.ip("peer", "link set vx42 mtu 1390 up");
    (program, public)
}

#[test]
fn another_programs_wireguard_is_the_other_end_of_an_access_point() {
    let lab = Lab::new(&["client", "node", "peer"]);
    lab.link(("node", "lan"), ("client", "eth0"));
    lab.link(("node", "wan"), ("peer", "eth0"));
    lab.ip("client", "addr add 10.7.0.1/24 dev eth0");
    lab.ip("client", "link set eth0 mtu 1390");
    lab.ip("node", "addr add 10.0.0.1/24 dev wan");
    lab.ip("peer", "addr add 10.0.0.2/24 dev eth0");
    let node = Node::start(&lab);
    let described = lab.ns("node").weir(&["--json", "node", "--describe"]).json();
    let own = described["wireguard"].as_str().unwrap_or_default().to_owned();
    let (_wireguard, key) = peer(&lab, &own);
    // Nobody else has the key of the other end: with another one nothing comes.
    let wrong = format!("{}{}", if key.starts_with('A') { "B" } else { "A" }, &key[1..]);
    node.weir(&["apply", &lab.write("graph.yaml", graph(&wrong))]).ok();
    let client = lab.ns("client");
    client.run(&["ping", "-c2", "-W1", "10.7.0.2"]).fails(1);
    node.weir(&["apply", &lab.write("graph.yaml", graph(&key))]).ok();
    until_pings(&client, "10.7.0.2");
    let (_, sum) = big_file(&lab, "file", 3_000_000);
    let _server = web_server(&lab, "peer", 80, &lab.path(""));
    let got = lab.path("got");
    client.run(&["curl", "-sS", "--max-time", "60", "-o", &got, "http://10.7.0.2/file"]).ok();
    assert_eq!(sha256(&got), sum);
    // Without encryption nobody gets in, though the addresses and the number are right.
    lab.ip("peer", "rule del not fwmark 7 to 10.0.0.1 table 7");
    client.run(&["ping", "-c1", "-W1", "10.7.0.2"]).fails(1);
    lab.ip("peer", "rule add not fwmark 7 to 10.0.0.1 table 7");
    until_pings(&client, "10.7.0.2");
    // A daemon that comes back has the same key, and finds the tunnel as it was.
    node.crash();
    let node = Node::start(&lab);
    until_pings(&client, "10.7.0.2");
    assert_eq!(lab.ns("node").weir(&["--json", "node", "--describe"]).json()["wireguard"], own.as_str());
    node.weir(&["delete", "tunnel"]).ok();
    node.end();
}
