//! Many graphs on one node: applied in one go, and none harms another.

use serde_json::{Value, json};

use crate::lab::{Lab, host, until, until_pings};
use crate::node::{Node, example_node};

/// A graph between VLANs of two interfaces, with an image that is called `image`.
fn tenant(n: usize, image: &str) -> String {
    format!(
        "id: t{n}
name: tenant {n}
SFs:
  - {{id: f, name: {image}, ports: [{{id: a}}, {{id: b}}]}}
saps:
  - {{id: lan, type: vlan, vlan: {{vlan-id: {n}, if-name: lan}}}}
  - {{id: wan, type: vlan, vlan: {{vlan-id: {n}, if-name: wan}}}}
flowrules:
  - {{id: r1, priority: 1, match: {{port_in: 'sap:lan'}}, actions: {{output_to_port: 'sf:f:a'}}}}
  - {{id: r2, priority: 1, match: {{port_in: 'sf:f:b'}}, actions: {{output_to_port: 'sap:wan'}}}}
"
    )
}

/// A wire between two interfaces.
fn wire(id: &str, left: &str, right: &str) -> String {
    format!(
        "id: {id}
name: wire
saps:
  - {{id: l, type: interface, interface: {{if-name: {left}}}}}
  - {{id: r, type: interface, interface: {{if-name: {right}}}}}
flowrules:
  - {{id: a, priority: 1, match: {{port_in: 'sap:l'}}, actions: {{output_to_port: 'sap:r'}}}}
  - {{id: b, priority: 1, match: {{port_in: 'sap:r'}}, actions: {{output_to_port: 'sap:l'}}}}
"
    )
}

/// The states of all graphs by identifier.
fn states(node: &Node) -> std::collections::BTreeMap<String, String> {
    let ps = node.weir(&["--json", "ps"]).json();
    let text = |g: &Value, key: &str| g[key].as_str().unwrap_or_default().to_owned();
    ps.as_array().unwrap().iter().map(|g| (text(g, "id"), text(g, "state"))).collect()
}

#[test]
fn many_are_applied_in_one_go_all_or_none_or_each_by_itself() {
    let lab = Lab::new(&["node", "peer"]);
    lab.link(("node", "lan"), ("peer", "lan"));
    lab.link(("node", "wan"), ("peer", "wan"));
    let node = Node::start(&lab);
    std::fs::create_dir(lab.path("graphs")).unwrap();
    for n in 1..=30 {
        lab.write(&format!("graphs/{n}.yaml"), tenant(n, if n == 17 { "nosuch" } else { "firewall" }));
    }
    let directory = lab.path("graphs");
    let e = node.weir(&["apply", &directory]).fails(1);
    assert!(e.contains("t17") && e.contains("nosuch") && e.contains("nothing was changed"), "{e}");
    assert!(states(&node).is_empty());

    let each = node.weir(&["apply", "--each", &directory]);
    assert_eq!(each.code, 1);
    assert!(each.stderr.contains("t17") && each.stderr.contains("nosuch"), "{}", each.stderr);
    assert_eq!(each.stdout.matches("created").count(), 29, "{}", each.stdout);
    let now = states(&node);
    assert_eq!((now.len(), now.values().filter(|s| *s == "running").count()), (29, 29), "{now:?}");

    // Files, and options; what is as asked for is left alone.
    let (one, two) =
        (lab.write("one.yaml", tenant(17, "firewall")), lab.write("two.yaml", tenant(31, "firewall")));
    let out = node.weir(&["--json", "apply", &one, "-f", &two, "-f", &directory, "--each"]);
    let list: Value = serde_json::from_str(&out.stdout).unwrap_or_else(|e| panic!("{e}: {out:?}"));
    let outcomes: Vec<&str> =
        list["graphs"].as_array().unwrap().iter().map(|g| g["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes.iter().filter(|o| **o == "created").count(), 2, "{outcomes:?}");
    assert_eq!(outcomes.iter().filter(|o| **o == "unchanged").count(), 29, "{outcomes:?}");
    // The file in the directory is of a graph that the request has already.
    assert_eq!(outcomes.iter().filter(|o| **o == "refused").count(), 1, "{outcomes:?}");

    // All of them come back.
    let before = node.data_plane_pid();
    host(&["kill", "-KILL", &before.to_string()]).ok();
    node.until_replaced(before);
    until("all graphs to run again", || {
        let now = states(&node);
        now.len() == 31 && now.values().all(|s| s == "running")
    });
}

#[test]
fn an_interface_that_is_gone_concerns_its_graph_alone() {
    let lab = Lab::new(&["client", "node", "server", "other"]);
    lab.link(("client", "eth0"), ("node", "lan"));
    lab.link(("server", "eth0"), ("node", "wan"));
    lab.link(("other", "eth0"), ("node", "third"));
    lab.link(("other", "eth1"), ("node", "fourth"));
    lab.ip("client", "addr add 10.0.0.1/24 dev eth0");
    lab.ip("server", "addr add 10.0.0.2/24 dev eth0");
    let node = Node::start(&lab);
    let (a, b) =
        (lab.write("a.yaml", wire("a", "lan", "wan")), lab.write("b.yaml", wire("b", "third", "fourth")));
    node.weir(&["apply", &a, &b]).ok();
    until_pings(&lab.ns("client"), "10.0.0.2");

    lab.ip("node", "link del third");
    until("the interface to be missed", || states(&node)["b"] == "degraded");
    assert!(node.weir(&["show", "b"]).ok().contains("third"));
    let before = node.data_plane_pid();
    host(&["kill", "-KILL", &before.to_string()]).ok();
    node.until_replaced(before);
    // The other graph runs, the daemon says which does not, and why.
    until("the other graph", || states(&node)["a"] == "running" && states(&node)["b"] == "degraded");
    until_pings(&lab.ns("client"), "10.0.0.2");
    assert!(node.weir(&["ps"]).ok().contains("third"));

    // A new graph may not ask for it, and one that has it may still be changed.
    let c = lab.write("c.yaml", wire("c", "nosuch", "nosuch2"));
    assert!(node.weir(&["apply", &c]).fails(1).contains("nosuch"));
    let renamed = lab.write("b2.yaml", wire("b", "third", "fourth").replace("name: wire", "name: wires"));
    node.weir(&["apply", &renamed]).ok();

    lab.link(("other", "eth0"), ("node", "third"));
    until("the interface to be back", || states(&node)["b"] == "running");
}

#[test]
fn a_second_daemon_does_not_take_the_data_plane() {
    let lab = Lab::new(&["node"]);
    let node = Node::start(&lab);
    let (socket, store) = (lab.path("engine.sock"), lab.path("other.db"));
    let e = node.weir(&["node", "--listen", "127.0.0.1:7401", "--socket", &socket, "--store", &store]);
    assert!(e.code != 0 && e.stderr.contains("another node daemon"), "{e:?}");
    assert!(e.stderr.contains(&socket), "{e:?}");
    // It ends with its daemon, however that ends.
    node.crash();
    drop(Node::start(&lab));
}

#[test]
fn the_data_plane_ends_with_its_daemon_if_asked() {
    let lab = Lab::new(&["client", "node", "server"]);
    lab.link(("client", "eth0"), ("node", "lan"));
    lab.link(("server", "eth0"), ("node", "wan"));
    let node = Node::start_with(&lab, &["--stop-engine"]);
    let graph = lab.write("a.yaml", wire("a", "lan", "wan"));
    node.weir(&["apply", &graph]).ok();
    let engine = node.data_plane_pid();
    node.end();
    assert!(!lab.processes().contains(&(engine as u32)), "process {engine} is left");
}

#[test]
fn what_is_written_beside_the_document_is_shown_and_goes_when_it_is_applied_again() {
    let lab = Lab::new(&["client", "node", "server"]);
    let images = lab.path("images");
    std::fs::create_dir(&images).unwrap();
    let image = "name: painter\nports: [a, b]\nhandlers:\n  colour: {handler: p.color, access: rw}\n  \
                 reset: {handler: c.reset, access: w}\nclick: 'in_0 -> p :: Paint(1) -> c :: Counter -> out_1; in_1 -> out_0;'\n";
    lab.write("images/painter.yaml", image);
    lab.link(("client", "eth0"), ("node", "lan"));
    lab.link(("server", "eth0"), ("node", "wan"));
    let node = Node::start_with(&lab, &["--images", &images]);
    let file = lab.write("t.yaml", tenant(5, "painter"));
    node.weir(&["apply", &file]).ok();
    let write = |handler: &str, value: &str| node.weir(&["handler", "write", "t5", "f", handler, value]).ok();
    write("reset", "");
    assert!(!node.weir(&["ps"]).ok().contains("beside"), "a count that begins anew is none");
    write("colour", "3");
    assert!(node.weir(&["ps"]).ok().contains("1 handler beside the document"));
    let show = node.weir(&["show", "t5"]).ok();
    assert!(show.contains("f.colour") && show.contains("\"3\""), "{show}");

    // A daemon that comes back knows it; the document as it is changes nothing, unless it is to be applied again.
    node.crash();
    let node = Node::start_with(&lab, &["--images", &images]);
    until("the state", || states(&node)["t5"] == "running");
    assert_eq!(node.weir(&["--json", "show", "t5"]).json()["drift"][0]["value"], json!("3"));
    assert!(node.weir(&["apply", &file]).ok().contains("unchanged"));
    let read = || node.weir(&["handler", "read", "t5", "f", "colour"]).ok().trim().to_owned();
    assert_eq!(read(), "3");
    node.weir(&["apply", "--again", &file]).ok();
    assert_eq!(read(), "1");
    assert!(!node.weir(&["ps"]).ok().contains("beside"));
}

#[test]
fn a_graph_that_asks_for_too_much_memory_is_refused() {
    let lab = Lab::new(&["client", "node", "server"]);
    let images = lab.path("images");
    std::fs::create_dir(&images).unwrap();
    lab.write("images/greedy.yaml", "name: greedy\nports: [a, b]\nparams: [{name: N, type: text}]\nhandlers: {capacity: {handler: q.capacity, access: rw}}\nclick: 'in_0 -> q :: Queue($N) -> Unqueue -> out_1; in_1 -> out_0;'\n");
    lab.link(("client", "eth0"), ("node", "lan"));
    lab.link(("server", "eth0"), ("node", "wan"));
    let node = Node::start_with(&lab, &["--images", &images, "--graph-memory", "64"]);
    let document =
        |n: &str| tenant(1, "greedy").replace("ports: [", &format!("params: {{N: '{n}'}}, ports: ["));
    let file = lab.write("t.yaml", document("1000000000"));
    let e = node.weir(&["apply", &file]).fails(1);
    assert!(e.contains("sf_f/q") && e.contains("64 MB"), "{e}");
    let file = lab.write("t.yaml", document("1000"));
    node.weir(&["apply", &file]).ok();
    // Nor does it come to that by a handler.
    let capacity = |n: &str| node.weir(&["handler", "write", "t1", "f", "capacity", n]);
    assert!(capacity("1000000000").fails(1).contains("memory"));
    capacity("20000").ok();
    assert!(capacity("100000").fails(1).contains("memory"));
    assert_eq!(node.weir(&["handler", "read", "t1", "f", "capacity"]).ok().trim(), "20000");
}

#[test]
fn the_example_is_one_of_many() {
    let lab = Lab::new(&["client", "node", "server"]);
    let node = example_node(&lab);
    let directory = lab.path("graphs");
    std::fs::create_dir(&directory).unwrap();
    for n in 1..=20 {
        lab.write(&format!("graphs/{n}.yaml"), tenant(n, "firewall"));
    }
    let swaps = node.swaps("firewall-nat");
    node.weir(&["apply", &directory]).ok();
    until_pings(&lab.ns("client"), "10.0.1.1");
    assert_eq!(node.swaps("firewall-nat"), swaps, "others are left alone");
    assert_eq!(states(&node).len(), 21);
}
