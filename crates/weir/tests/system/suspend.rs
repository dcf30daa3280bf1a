//! Graphs that run while packets come: started by the first, suspended with their state, resumed by the next.

use serde_json::{Value, json};

use crate::functions::{BRIDGE, image};
use crate::lab::{Lab, Ns, PYTHON, Process, host, until};
use crate::node::Node;

/// A translation of UDP ports between two interfaces that lets in only what belongs to a mapping.
fn nat(options: &str) -> String {
    format!(
        "id: nat
name: nat
start: first-packet
{options}
SFs:
  - id: f
    name: f
    ports: [a, b]
    click: |
      rw :: UDPRewriter(pattern - 40000-40000 - - 0 1, drop); rw [0] -> out_1; rw [1] -> out_0;
      in_0 -> c0 :: Classifier(12/0800, -); c0 [1] -> out_1; c0 [0] -> MarkIPHeader(14) -> [0] rw;
      in_1 -> c1 :: Classifier(12/0800, -); c1 [1] -> out_0; c1 [0] -> MarkIPHeader(14) -> [1] rw;
saps:
  - {{id: lan, type: interface, interface: {{if-name: lan}}}}
  - {{id: wan, type: interface, interface: {{if-name: wan}}}}
flowrules:
  - {{id: a, priority: 1, match: {{port_in: 'sap:lan'}}, actions: {{output_to_port: 'sf:f:a'}}}}
  - {{id: b, priority: 1, match: {{port_in: 'sf:f:b'}}, actions: {{output_to_port: 'sap:wan'}}}}
  - {{id: c, priority: 1, match: {{port_in: 'sap:wan'}}, actions: {{output_to_port: 'sf:f:b'}}}}
  - {{id: d, priority: 1, match: {{port_in: 'sf:f:a'}}, actions: {{output_to_port: 'sap:lan'}}}}
"
    )
}

/// A host on each side, that know each other's Ethernet addresses: the first packet is one of theirs.
fn hosts(lab: &Lab) {
    lab.link(("client", "eth0"), ("node", "lan"));
    lab.link(("server", "eth0"), ("node", "wan"));
    let mac = |ns: &str| {
        let shown = lab.ip(ns, "-j link show eth0");
        serde_json::from_str::<Value>(&shown).unwrap()[0]["address"].as_str().unwrap().to_owned()
    };
    for (ns, own, other, theirs) in [("client", 1, 2, mac("server")), ("server", 2, 1, mac("client"))] {
        lab.ip(ns, &format!("addr add 10.0.0.{own}/24 dev eth0"));
        lab.ip(ns, &format!("neigh add 10.0.0.{other} lladdr {theirs} dev eth0"));
    }
}

/// Prints what comes to a UDP port, and from which port.
fn listen(ns: &Ns<'_>, port: u16) -> Process {
    let text = format!(
        "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
         s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind(('', {port})); print('ready', flush=True)\n\
         while True:\n    d, a = s.recvfrom(99); print(d.decode(), a[1], flush=True)"
    );
    let process = ns.spawn_in_network(&[PYTHON, "-c", &text]);
    until("the listener", || process.stdout().contains("ready"));
    process
}

/// Sends numbers from one UDP port to another.
fn send(ns: &Ns<'_>, from: u16, to: (&str, u16), numbers: std::ops::Range<u32>) {
    let text = format!(
        "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
         s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind(('', {from}))\n\
         for n in range({}, {}): s.sendto(str(n).encode(), ('{}', {}))",
        numbers.start, numbers.end, to.0, to.1
    );
    ns.run(&[PYTHON, "-c", &text]).ok();
}

fn state(node: &Node<'_>) -> String {
    let ps = node.weir(&["--json", "ps"]).json();
    ps[0]["state"].as_str().unwrap_or_default().to_owned()
}

/// Whether the data plane runs the graph.
fn is_loaded(node: &Node<'_>) -> bool {
    node.data_plane(&json!({ "do": "list" })).to_string().contains("\"nat\"")
}

fn got(lines: &std::ops::Range<u32>, port: u16) -> String {
    lines.clone().map(|n| format!("{n} {port}\n")).collect()
}

#[test]
fn the_first_packet_starts_a_graph_and_the_next_resumes_it_with_its_state() {
    let lab = Lab::new(&["client", "node", "server"]);
    hosts(&lab);
    let node = Node::start(&lab);
    let file = lab.write("nat.yaml", nat(""));
    node.weir(&["apply", &file]).ok();
    assert_eq!(state(&node), "idle");
    assert!(!is_loaded(&node), "nothing of it runs");
    let (client, server) = (lab.ns("client"), lab.ns("server"));
    let outside = listen(&server, 7);
    // Many at once: none is lost, and they come in order.
    send(&client, 1000, ("10.0.0.2", 7), 0..100);
    until("100 packets", || outside.stdout().lines().count() == 101);
    assert_eq!(outside.stdout(), format!("ready\n{}", got(&(0..100), 40000)));
    until("the graph", || state(&node) == "running");

    // Suspended, and resumed by a packet that only the mapping lets in.
    assert!(node.weir(&["suspend", "nat"]).ok().contains("is suspended"));
    assert_eq!((state(&node).as_str(), is_loaded(&node)), ("idle", false));
    node.weir(&["suspend", "nat"]).ok();
    let inside = listen(&client, 1000);
    send(&server, 7, ("10.0.0.1", 40000), 0..5);
    until("five packets", || inside.stdout().lines().count() == 6);
    assert_eq!(inside.stdout(), format!("ready\n{}", got(&(0..5), 7)));
    until("the graph", || state(&node) == "running");

    // Whoever dies meanwhile, it sleeps on, and has its state.
    node.weir(&["suspend", "nat"]).ok();
    let before = node.data_plane_pid();
    host(&["kill", "-KILL", &before.to_string()]).ok();
    node.until_replaced(before);
    node.crash();
    let node = Node::start(&lab);
    until("it is settled", || state(&node) == "idle");
    send(&server, 7, ("10.0.0.1", 40000), 5..8);
    until("eight packets", || inside.stdout().lines().count() == 9);

    // A damaged state: said, and the graph is not started. Without the state it is.
    node.weir(&["suspend", "nat"]).ok();
    let folder = lab.path("store/weir.suspended");
    let path = std::fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
    let kept = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, kept.replace("40000", "40001")).unwrap();
    send(&server, 7, ("10.0.0.1", 40000), 8..9);
    until("a failure", || state(&node) == "failed");
    let shown = node.weir(&["show", "nat"]).ok();
    assert!(shown.contains("is damaged") && shown.contains("--anew"), "{shown}");
    assert!(node.weir(&["resume", "nat"]).fails(1).contains("is damaged"));
    node.weir(&["resume", "nat", "--anew"]).ok();
    assert_eq!(state(&node), "running");
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
    send(&client, 1001, ("10.0.0.2", 7), 100..101);
    until("a packet of a new mapping", || outside.stdout().contains("100 40000"));
    assert!(!inside.stdout().contains('8'), "what came for the old one is not let in");

    // By itself, when no packets come.
    let file = lab.write("nat.yaml", nat("idle: 1"));
    node.weir(&["apply", &file]).ok();
    until("its sleep", || state(&node) == "idle");
    send(&client, 1001, ("10.0.0.2", 7), 101..102);
    until("a packet", || outside.stdout().contains("101 40000"));
    node.weir(&["delete", "nat"]).ok();

    // What runs at all times is not suspended.
    let file = lab.write("nat.yaml", nat("").replace("start: first-packet", ""));
    node.weir(&["apply", &file]).ok();
    assert!(node.weir(&["suspend", "nat"]).fails(1).contains("start: first-packet"));
    let file = lab.write("nat.yaml", nat("idle: 5").replace("start: first-packet", ""));
    assert!(node.weir(&["apply", &file]).fails(1).contains("add start: first-packet"));
}

#[test]
fn a_graph_that_takes_its_time_to_start_holds_up_no_other_first_packet() {
    let lab = Lab::new(&["client", "node", "server"]);
    hosts(&lab);
    lab.link(("node", "more"), ("client", "eth1"));
    let start = lab.path("may-start");
    let begin = format!("touch $WEIR_STATE/begun; while [ ! -e {start} ]; do sleep 0.05; done\n{BRIDGE}");
    let images = image(&lab, "slow", "", &[("start", &begin), ("stop", "ip link del bridge0")]);
    let node = Node::start_with(&lab, &["--images", &images]);
    let slow = "id: slow\nname: slow\nstart: first-packet\n\
                SFs: [{id: f, name: slow, ports: [{id: left}, {id: right}]}]\n\
                saps: [{id: x, type: interface, interface: {if-name: more}}]\nflowrules:\n  \
                - {id: in, priority: 1, match: {port_in: 'sap:x'}, actions: {output_to_port: 'sf:f:left'}}\n";
    node.weir(&["apply", &lab.write("slow.yaml", slow)]).ok();
    node.weir(&["apply", &lab.write("nat.yaml", nat(""))]).ok();
    let (client, server) = (lab.ns("client"), lab.ns("server"));
    let outside = listen(&server, 7);
    lab.ip("client", "addr add 10.9.0.1/24 dev eth1");
    lab.ip("client", "neigh add 10.9.0.2 lladdr 02:00:00:00:00:02 dev eth1");
    send(&client, 1000, ("10.9.0.2", 7), 0..1);
    let states = || {
        let ps = node.weir(&["--json", "ps"]).json();
        let state = |id: &str| {
            let graph = ps.as_array().unwrap().iter().find(|g| g["id"] == id).unwrap();
            graph["state"].as_str().unwrap_or_default().to_owned()
        };
        (state("slow"), state("nat"))
    };
    let begun = || node.weir(&["shell", "slow", "f", "--", "ls"]).stdout.contains("begun");
    until("its script runs", begun);
    send(&client, 1000, ("10.0.0.2", 7), 0..5);
    until("five packets", || outside.stdout().lines().count() == 6);
    until("the other graph", || states().1 == "running");
    assert_eq!(states().0, "starting");
    lab.write("may-start", "");
    until("its start", || states().0 == "running");
    node.weir(&["delete", "slow"]).ok();
    node.weir(&["delete", "nat"]).ok();
    node.end();
}

/// Graphs that send back what comes on a VLAN.
fn echo(n: u32) -> String {
    format!(
        "id: t{n}\nname: echo\nstart: first-packet\n\
         SFs: [{{id: f, name: f, ports: [a], click: 'in_0 -> EtherMirror -> out_0;'}}]\n\
         saps: [{{id: s, type: vlan, vlan: {{vlan-id: {n}, if-name: lan}}}}]\n\
         flowrules:\n  - {{id: a, priority: 1, match: {{port_in: 'sap:s'}}, actions: {{output_to_port: 'sf:f:a'}}}}\n  \
         - {{id: b, priority: 1, match: {{port_in: 'sf:f:a'}}, actions: {{output_to_port: 'sap:s'}}}}\n"
    )
}

/// Sends frames on VLANs 1 to 200, 10 on each, and 2,000 on VLAN 300, and prints how many of each of the first came back.
const FLOOD: &str = "
import socket
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
s.bind(('eth0', 0))
s.setsockopt(socket.SOL_SOCKET, 33, 8 << 20)
s.settimeout(10)
frame = lambda vlan, n: b'\\x02' * 6 + b'\\x04' * 6 + bytes([0x81, 0, vlan >> 8, vlan & 255, 0x12, 0x34, vlan >> 8, vlan & 255, n & 255]) + bytes(45)
for n in range(10):
    for vlan in range(1, 201):
        s.send(frame(vlan, n))
for n in range(2000):
    s.send(frame(300, n))
back = {}
while sum(len(v) for k, v in back.items() if k <= 200) < 2000:
    data, where = s.recvfrom(200)
    if where[2] != 4 and data[12:14] == b'\\x12\\x34':
        back.setdefault(data[14] * 256 + data[15], []).append(data[16])
print(all(v == list(range(10)) for k, v in back.items() if k <= 200), len([k for k in back if k <= 200]))
";

#[test]
fn many_are_started_at_once_and_a_flood_for_one_harms_no_other() {
    let lab = Lab::new(&["client", "node"]);
    lab.link(("client", "eth0"), ("node", "lan"));
    let node = Node::start(&lab);
    std::fs::create_dir(lab.path("graphs")).unwrap();
    for n in 1..=300 {
        lab.write(&format!("graphs/{n}.yaml"), echo(n));
    }
    node.weir(&["apply", &lab.path("graphs")]).ok();
    let count = |state: &str| {
        let ps = node.weir(&["--json", "ps"]).json();
        ps.as_array().unwrap().iter().filter(|g| g["state"] == state).count()
    };
    assert_eq!(count("idle"), 300);
    let lsi = || node.data_plane(&json!({ "do": "list" })).to_string();
    assert!(!lsi().contains("\"t1\""), "{}", lsi());
    assert_eq!(lab.ns("client").run(&[PYTHON, "-c", FLOOD]).ok(), "True 200\n");
    until("what was started", || count("running") == 201);
    assert_eq!(count("idle"), 99);
}
