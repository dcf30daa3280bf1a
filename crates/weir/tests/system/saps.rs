//! Access points that are tunnels, or the host's own stack, with the kernel and Open vSwitch at the other end.

use serde_json::json;

use crate::lab::{Lab, Ns, PYTHON, Process, until, until_pings};
use crate::node::Node;
use crate::traffic::{big_file, sha256, web_server};

/// A client (10.7.0.1) on `lan`; the node, 10.0.0.1, and the other end of its tunnels, 10.0.0.2, on a network between them.
///
/// ```text
/// client eth0 10.7.0.1 --- lan [ node ] wan 10.0.0.1 === 10.0.0.2 eth0 peer
/// ```
fn lab() -> Lab {
    let lab = Lab::new(&["client", "node", "peer"]);
    lab.link(("node", "lan"), ("client", "eth0"));
    lab.link(("node", "wan"), ("peer", "eth0"));
    lab.ip("client", "addr add 10.7.0.1/24 dev eth0");
    lab.ip("node", "addr add 10.0.0.1/24 dev wan");
    lab.ip("peer", "addr add 10.0.0.2/24 dev eth0");
    lab
}

/// A graph with a firewall between `lan` and a tunnel; `tunnel` is the access point's type and section.
fn graph(tunnel: &str) -> String {
    format!(
        "id: tunnel
name: a tunnel behind a firewall
SFs:
  - id: fw
    name: firewall
    ports: [{{id: in}}, {{id: out}}]
    params: {{RULES: 'allow tcp dst port 80 or 5201, allow icmp, deny all', RETURN_RULES: 'allow tcp dst port 5201, deny all'}}
saps:
  - {{id: lan, type: interface, interface: {{if-name: lan}}}}
  - {{id: far, {tunnel}}}
flowrules:
  - {{id: a, priority: 1, match: {{port_in: 'sap:lan'}}, actions: {{output_to_port: 'sf:fw:in'}}}}
  - {{id: b, priority: 1, match: {{port_in: 'sf:fw:in'}}, actions: {{output_to_port: 'sap:lan'}}}}
  - {{id: c, priority: 1, match: {{port_in: 'sap:far'}}, actions: {{output_to_port: 'sf:fw:out'}}}}
  - {{id: d, priority: 1, match: {{port_in: 'sf:fw:out'}}, actions: {{output_to_port: 'sap:far'}}}}
"
    )
}

const VXLAN: &str = "type: vxlan, vxlan: {vni: 42, local-ip: 10.0.0.1, remote-ip: 10.0.0.2}";

/// The kernel's VXLAN at the other end. Its Ethernet address is always the same one: hosts remember it.
fn kernel_vxlan(lab: &Lab, (vni, local): (u32, &str), address: &str) {
    let link = format!("link add vx{vni} address 02:00:00:00:00:{vni} type vxlan id {vni}");
    lab.ip("peer", &format!("{link} local {local} remote 10.0.0.1 dstport 4789 dev eth0"));
    lab.ip("peer", &format!("addr add {address} dev vx{vni}"));
    lab.ip("peer", &format!("link set vx{vni} mtu 1450 up"));
}

/// A file goes both ways through the firewall, whatever the kernels leave undone.
#[track_caller]
fn carries_files(lab: &Lab) {
    let (client, peer) = (lab.ns("client"), lab.ns("peer"));
    let (_, sum) = big_file(lab, "file", 5_000_000);
    let _there = web_server(lab, "peer", 80, &lab.path(""));
    let _here = web_server(lab, "client", 5201, &lab.path(""));
    for (from, url) in [(&client, "http://10.7.0.2/file"), (&peer, "http://10.7.0.1:5201/file")] {
        let got = lab.path("got");
        let curl = ["curl", "-sS", "--max-time", "60", "-o", &got, url];
        // The firewall of the image lets in what was asked for from inside.
        from.run(&curl).ok();
        assert_eq!(sha256(&got), sum, "{url}");
    }
}

/// How many packets LSI-0 of a base dropped for a reason.
fn drops(node: &Node, base: &str, reason: &str) -> u64 {
    let status = node.data_plane(&json!({ "do": "status", "graph": format!("node:lsi0:{base}") }));
    let elements = status["status"]["drops"].as_object().cloned().unwrap_or_default();
    elements.values().filter_map(|reasons| reasons[reason].as_u64()).sum()
}

#[track_caller]
fn until_dropped(node: &Node, base: &str, reason: &str) {
    until(reason, || drops(node, base, reason) > 0);
}

fn pings(from: &Ns, address: &str) -> bool {
    from.run(&["ping", "-c1", "-W0.5", address]).code == 0
}

#[test]
fn the_kernels_vxlan_is_the_other_end_of_an_access_point() {
    let lab = lab();
    let node = Node::start(&lab);
    let file = lab.write("graph.yaml", graph(VXLAN));
    node.weir(&["apply", &file]).ok();
    kernel_vxlan(&lab, (42, "10.0.0.2"), "10.7.0.2/24");
    let (client, peer) = (lab.ns("client"), lab.ns("peer"));
    until_pings(&client, "10.7.0.2");
    carries_files(&lab);

    // A trace goes on to where the outer headers are put on.
    let trace =
        lab.ns("node").spawn_weir(&["trace", "tunnel", "--match", "icmp and src host 10.7.0.1", "-c", "1"]);
    until("a packet", || {
        pings(&client, "10.7.0.2");
        trace.stdout().contains("sent to udp at 10.0.0.1:4789")
    });
    let path = trace.interrupt().stdout;
    let at = |text: &str| path.find(text).unwrap_or_else(|| panic!("no {text} in\n{path}"));
    assert!(at("graph tunnel") < at("graph node:lsi0:vxlan:10.0.0.1:4789") && at("VXLANEncap") > 0);

    // Another network, what is no VXLAN, and another host: all from outside that is not the tunnel's.
    let base = "vxlan:10.0.0.1:4789";
    kernel_vxlan(&lab, (43, "10.0.0.2"), "10.7.43.2/24");
    pings(&peer, "10.7.43.1");
    until_dropped(&node, base, "WrongVNI");
    let junk = "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x' * 9, ('10.0.0.1', 4789))";
    peer.run(&[PYTHON, "-c", junk]).ok();
    until_dropped(&node, base, "BadLength");
    lab.ip("peer", "link del vx42");
    lab.ip("peer", "addr add 10.0.0.3/24 dev eth0");
    kernel_vxlan(&lab, (42, "10.0.0.3"), "10.7.0.2/24");
    pings(&peer, "10.7.0.1");
    until_dropped(&node, base, "WrongRemote");
    assert!(!pings(&client, "10.7.0.2"), "answers come from another end than the tunnel's");
    lab.ip("peer", "link del vx42");
    kernel_vxlan(&lab, (42, "10.0.0.2"), "10.7.0.2/24");
    until_pings(&client, "10.7.0.2");

    // A daemon that comes back finds the tunnel as it was.
    let swaps = node.swaps("tunnel");
    node.crash();
    let node = Node::start(&lab);
    until_pings(&client, "10.7.0.2");
    assert_eq!(node.swaps("tunnel"), swaps);
    // An address that is not there when the data plane starts is taken when it comes.
    lab.ip("node", "addr del 10.0.0.1/24 dev wan");
    let pid = node.data_plane_pid();
    lab.ns("node").run(&["kill", "-KILL", &pid.to_string()]).ok();
    node.until_replaced(pid);
    let state = || node.weir(&["ps"]).stdout;
    until("the trouble", || state().contains("degraded: 10.0.0.1 is no address of this host"));
    lab.ip("node", "addr add 10.0.0.1/24 dev wan");
    until_pings(&client, "10.7.0.2");

    let sockets = || lab.ns("node").run(&["ss", "-Hulnw"]).ok();
    assert!(sockets().contains(":4789"));
    node.weir(&["delete", "tunnel"]).ok();
    assert!(!pings(&client, "10.7.0.2"));
    assert!(!sockets().contains(":4789"), "the port is free again");
    node.end();
}

/// Open vSwitch in the namespace `peer`, in user space, with a bridge `br-int` that has 10.7.0.2 and a port `far`.
struct Switch<'a> {
    lab: &'a Lab,
    socket: String,
    _processes: [Process; 2],
}

impl<'a> Switch<'a> {
    fn start(lab: &'a Lab) -> Switch<'a> {
        let peer = lab.ns("peer");
        let (database, socket) = (lab.path("ovs.db"), format!("unix:{}", lab.path("ovs.sock")));
        let schema = "/usr/share/openvswitch/vswitch.ovsschema";
        crate::lab::host(&["ovsdb-tool", "create", &database, schema]).ok();
        let run = format!("OVS_RUNDIR={}", lab.path(""));
        let listen = format!("--remote=p{socket}");
        let server = peer.spawn(&["env", &run, "ovsdb-server", &database, &listen, "--unixctl=none"]);
        until("the database", || std::path::Path::new(&lab.path("ovs.sock")).exists());
        let control = format!("--unixctl={}", lab.path("ovs.ctl"));
        let switch = peer.spawn(&["env", &run, "ovs-vswitchd", &socket, &control]);
        let s = Switch { lab, socket, _processes: [server, switch] };
        s.set("--no-wait init");
        // The network of the tunnels: Open vSwitch has its own routes and neighbours.
        lab.ip("peer", "addr del 10.0.0.2/24 dev eth0");
        s.set("add-br br-phy -- set bridge br-phy datapath_type=netdev -- add-port br-phy eth0");
        s.set("add-br br-int -- set bridge br-int datapath_type=netdev");
        lab.ip("peer", "addr add 10.0.0.2/24 dev br-phy");
        lab.ip("peer", "addr add 10.7.0.2/24 dev br-int");
        lab.ip("peer", "link set br-phy up");
        lab.ip("peer", "link set br-int up");
        // It would set an MTU back that it did not set itself.
        s.set("set interface br-int mtu_request=1400");
        s
    }

    fn set(&self, arguments: &str) {
        let database = format!("--db={}", self.socket);
        let words: Vec<&str> = arguments.split_whitespace().collect();
        self.lab.ns("peer").run(&[&["ovs-vsctl", "--timeout=30", &database], &words[..]].concat()).ok();
    }

    /// Makes `far` the end of a tunnel of this type, to the node, with these options as well.
    fn tunnel(&self, kind: &str, options: &str) {
        let ends = "options:remote_ip=10.0.0.1 options:local_ip=10.0.0.2";
        self.set(&format!(
            "--if-exists del-port br-int far -- add-port br-int far -- set interface far type={kind} {ends} {options}"
        ));
    }
}

#[test]
fn open_vswitch_is_the_other_end_of_gre_and_vxlan() {
    let lab = lab();
    let node = Node::start(&lab);
    // `examples/gre.yaml`: key 1.
    node.weir(&["apply", "examples/gre.yaml"]).ok();
    let switch = Switch::start(&lab);
    let client = lab.ns("client");
    switch.tunnel("gre", "options:key=1");
    until_pings(&client, "10.7.0.2");
    carries_files(&lab);
    let peer = lab.ns("peer");
    for options in ["options:key=2", ""] {
        switch.tunnel("gre", options);
        let before = drops(&node, "gre:10.0.0.1", "WrongKey");
        until("WrongKey", || {
            pings(&peer, "10.7.0.1");
            drops(&node, "gre:10.0.0.1", "WrongKey") > before
        });
        assert!(!pings(&client, "10.7.0.2"), "{options}");
    }

    // Without a key, and with checksums.
    let example = std::fs::read_to_string(crate::lab::repository().join("examples/gre.yaml")).unwrap();
    let keyless = example.replace(", gre-key: \"0x1\"", "");
    assert_ne!(example, keyless);
    let file = lab.write("graph.yaml", keyless);
    node.weir(&["apply", &file]).ok();
    switch.tunnel("gre", "options:csum=true");
    until_pings(&client, "10.7.0.2");

    node.weir(&["delete", "part-1"]).ok();
    let file = lab.write("graph.yaml", graph(VXLAN));
    node.weir(&["apply", &file]).ok();
    switch.tunnel("vxlan", "options:key=42 options:csum=true");
    until_pings(&client, "10.7.0.2");
    carries_files(&lab);
    node.end();
}

#[test]
fn a_graph_is_told_of_packets_that_are_too_large() {
    let lab = lab();
    let node = Node::start(&lab);
    let file = lab.write("graph.yaml", graph(VXLAN));
    let warning = "warning: packets of 1451 to 1500 bytes from sap:lan are too large for sap:far";
    for command in ["plan", "apply"] {
        let out = node.weir(&[command, &file]).ok();
        assert!(out.contains(warning) && out.contains("the path to 10.0.0.2 one of 1550"), "{out}");
    }
    kernel_vxlan(&lab, (42, "10.0.0.2"), "10.7.0.2/24");
    let client = lab.ns("client");
    until_pings(&client, "10.7.0.2");
    let ping = |size: &str| client.run(&["ping", "-c1", "-W0.5", "-Mdo", "-s", size, "10.7.0.2"]).code == 0;
    assert!(ping("1422"), "1450 bytes");
    assert!(!ping("1423"), "1451 bytes");
    until_dropped(&node, "vxlan:10.0.0.1:4789", "TooLong");
    let trace =
        lab.ns("node").spawn_weir(&["trace", "tunnel", "--match", "icmp and src host 10.7.0.1", "-c", "1"]);
    until("a packet that is followed", || {
        ping("1423");
        trace.stdout().contains("not sent to udp at 10.0.0.1:4789: TooLong")
    });
    trace.interrupt();
    for (namespace, interface) in [("node", "wan"), ("peer", "eth0")] {
        lab.ip(namespace, &format!("link set {interface} mtu 1550"));
    }
    lab.ip("peer", "link set vx42 mtu 1500");
    until("the larger packet", || ping("1472"));
    let shown = node.weir(&["show", "tunnel"]).ok();
    assert!(!shown.contains("warning"), "{shown}");

    // The address of this end goes, and comes back.
    let (state, events) =
        (|| node.weir(&["ps"]).stdout, || node.weir(&["events", "--graph", "tunnel"]).stdout);
    lab.ip("node", "addr del 10.0.0.1/24 dev wan");
    let gone = "sap 'far': 10.0.0.1 is no address of this node any more";
    until("the trouble", || state().contains(&format!("degraded: {gone}")) && events().contains(gone));
    lab.ip("node", "addr add 10.0.0.1/24 dev wan");
    until("no trouble", || {
        !state().contains("degraded") && events().contains("its tunnels lead somewhere again")
    });
    until("the tunnel", || ping("1472"));

    lab.ip("node", "link set wan mtu 100");
    let file = lab.write("other.yaml", graph(VXLAN).replace("vni: 42", "vni: 43"));
    let error = node.weir(&["apply", &file]).fails(1);
    assert!(error.contains("sffg.saps[1]: no IP packet passes: VXLAN takes 50 of the 100 bytes"), "{error}");
    node.end();
}

/// A graph with a firewall between `lan` and the host's own stack, in which one port is open.
const HOST: &str = "
id: host
name: the node behind a firewall
SFs:
  - id: fw
    name: firewall
    ports: [{id: in}, {id: out}]
    params: {RULES: 'deny all', RETURN_RULES: 'allow tcp dst port 7400, deny all'}
saps:
  - {id: lan, type: interface, interface: {if-name: lan}}
  - {id: stack, type: host-stack, host-stack: {ip: 10.7.0.9/24, if-name: stack}}
flowrules:
  - {id: a, priority: 1, match: {port_in: 'sap:lan'}, actions: {output_to_port: 'sf:fw:out'}}
  - {id: b, priority: 1, match: {port_in: 'sf:fw:out'}, actions: {output_to_port: 'sap:lan'}}
  - {id: c, priority: 1, match: {port_in: 'sap:stack'}, actions: {output_to_port: 'sf:fw:in'}}
  - {id: d, priority: 1, match: {port_in: 'sf:fw:in'}, actions: {output_to_port: 'sap:stack'}}
";

#[test]
fn the_nodes_rest_is_reached_through_a_firewall_in_a_graph() {
    let lab = lab();
    let node = Node::start_with(&lab, &["--listen", "0.0.0.0:7400", "--no-login", "--no-tls"]);
    let file = lab.write("graph.yaml", HOST);
    node.weir(&["apply", &file]).ok();
    let client = lab.ns("client");
    let get = |url: &str| client.run(&["curl", "-sS", "-f", "--max-time", "2", url]);
    until("REST", || get("http://10.7.0.9:7400/v1/graphs").stdout.contains("the node behind a firewall"));
    let _other = web_server(&lab, "node", 7401, &lab.path(""));
    get("http://10.7.0.9:7401/").fails(28);
    assert!(!pings(&client, "10.7.0.9"));

    // The interface stays with the data plane, gets other addresses with the graph, and goes with it.
    let address = || lab.ns("node").run(&["ip", "-br", "addr", "show", "stack"]);
    let index = || lab.ns("node").run(&["cat", "/sys/class/net/stack/ifindex"]).stdout;
    let before = index();
    node.crash();
    let node = Node::start_with(&lab, &["--listen", "0.0.0.0:7400", "--no-login", "--no-tls"]);
    assert_eq!(index(), before);
    until("REST", || get("http://10.7.0.9:7400/v1/graphs").code == 0);
    let file = lab.write("graph.yaml", HOST.replace("10.7.0.9/24", "10.7.0.10/24"));
    node.weir(&["apply", &file]).ok();
    assert!(address().ok().contains("10.7.0.10/24"));
    until("REST", || get("http://10.7.0.10:7400/v1/graphs").code == 0);
    get("http://10.7.0.9:7400/v1/graphs").fails(28);
    node.weir(&["delete", "host"]).ok();
    assert_ne!(address().code, 0);
    node.end();
}

#[test]
fn access_points_of_others_are_refused() {
    let lab = lab();
    let node = Node::start(&lab);
    let refused = |text: &str| {
        let file = lab.write("refused.yaml", text);
        node.weir(&["apply", &file]).fails(1)
    };
    let error = refused(&HOST.replace("name: the", "tenant: alice\nname: the"));
    assert!(error.contains("sffg.saps[1].host-stack: only a graph of the operator's"), "{error}");
    let error = refused(&HOST.replace("if-name: stack", "if-name: wan"));
    assert!(error.contains("there is an interface wan already"), "{error}");
    let file = lab.write("graph.yaml", HOST.replace(", if-name: stack", ""));
    node.weir(&["apply", &file]).ok();
    let links = lab.ns("node").run(&["ip", "-br", "link"]).stdout;
    let own = links.split_whitespace().find(|w| w.starts_with("wh")).unwrap().to_owned();
    let other = |sap: &str| graph(sap).replace("if-name: lan", "if-name: wan");
    let error = refused(&other(&format!("type: interface, interface: {{if-name: {own}}}")));
    assert!(error.contains("an interface that the node makes for a graph"), "{error}");
    let file = lab.write("tunnel.yaml", other(VXLAN));
    node.weir(&["apply", &file]).ok();
    let error = refused(&other(VXLAN).replace("id: tunnel", "id: second").replace("wan", "else"));
    assert!(
        error.contains("the VXLAN tunnel 42 to 10.0.0.2 at 10.0.0.1 port 4789 is an access point"),
        "{error}"
    );
    // The address is none of this host.
    let error = refused(
        &other(VXLAN)
            .replace("id: tunnel", "id: second")
            .replace("local-ip: 10.0.0.1", "local-ip: 10.0.0.7")
            .replace("wan", "else"),
    );
    assert!(error.contains("10.0.0.7 is no address of this host"), "{error}");
    node.end();
}
