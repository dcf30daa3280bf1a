//! What graphs may come to take of a node, and what a node is to others.

use serde_json::{Value, json};

use crate::functions::left;
use crate::lab::{Lab, host, until};
use crate::node::Node;

/// A native image that does nothing, with limits.
fn image(lab: &Lab, name: &str, limits: &str) {
    let folder = lab.path(&format!("images/{name}"));
    std::fs::create_dir_all(format!("{folder}/scripts")).unwrap();
    let text = format!("name: {name}\ncapability: sink\nkind: native\nports: [p]\nnative: {{{limits}}}\n");
    std::fs::write(format!("{folder}/function.yaml"), text).unwrap();
    std::fs::write(format!("{folder}/scripts/start"), "#!/bin/sh\n").unwrap();
    host(&["chmod", "+x", &format!("{folder}/scripts/start")]).ok();
}

/// A graph of one function at a VLAN.
fn graph(lab: &Lab, n: u16, function: &str) -> (String, String) {
    let id = format!("{}-{n}", lab.name("g"));
    let text = format!(
        "id: {id}\nname: g\nSFs: [{{id: f, ports: [p], {function}}}]\nsaps:\n  \
         - {{id: lan, type: vlan, vlan: {{vlan-id: {n}, if-name: lan}}}}\nflowrules:\n  \
         - {{id: a, priority: 1, match: {{port_in: 'sap:lan'}}, actions: {{output_to_port: 'sf:f:p'}}}}\n"
    );
    (lab.write(&format!("{n}.yaml"), text), id)
}

const OPTIONS: [&str; 3] = ["--memory", "8000", "--images"];

#[test]
fn more_memory_than_the_node_has_is_not_promised_unless_by_name() {
    let lab = Lab::new(&["node", "peer"]);
    lab.link(("node", "lan"), ("peer", "eth0"));
    image(&lab, "big", "memory: 5 GB, cpu: 600");
    image(&lab, "small", "memory: 1 GB");
    let images = lab.path("images");
    let node = Node::start_with(&lab, &[&OPTIONS[..], &[&images]].concat());
    let (first, first_id) = graph(&lab, 1, "name: big");
    let (second, second_id) = graph(&lab, 2, "name: big");
    node.weir(&["apply", &first]).ok();
    for command in ["apply", "plan"] {
        let e = node.weir(&[command, &second]).fails(1);
        assert!(e.contains("the graph may come to take 5 GB of memory, and 3 GB of 8 GB are left"), "{e}");
        assert!(e.contains(&format!("graph {first_id} 5 GB")) && e.contains("--overcommit"), "{e}");
    }
    assert_eq!(left(&lab).iter().filter(|l| l.contains("_2_") || l.contains(&second_id)).count(), 0);
    // What it has is its own, and what is chosen is what fits into the rest.
    node.weir(&["apply", "--again", &first]).ok();
    graph(&lab, 2, "capability: sink, constraints: {memory: 6 GB}");
    let plan = node.weir(&["plan", "--explain", &second]).ok();
    assert!(plan.contains("f as sink: small (native): it is the only one that fits"), "{plan}");
    assert!(plan.contains("not big (native): it may take 5 GB of memory, and 3 GB is left here"), "{plan}");
    node.weir(&["apply", &second]).ok();
    node.weir(&["delete", &first_id]).ok();
    graph(&lab, 2, "name: big");
    node.weir(&["apply", &second]).ok();
    node.end();

    // A node that may promise more takes both; without that it keeps them, and takes no third.
    let node = Node::start_with(&lab, &[&["--overcommit"], &OPTIONS[..], &[&images]].concat());
    node.weir(&["apply", &first]).ok();
    assert_eq!(node.weir(&["--json", "node", "--describe"]).json()["resources"]["overcommit"], true);
    node.end();
    let node = Node::start_with(&lab, &[&OPTIONS[..], &[&images]].concat());
    until("both run", || {
        let states = node.weir(&["--json", "ps"]).json();
        states.as_array().unwrap().iter().all(|g| g["state"] == "running")
    });
    let (third, _) = graph(&lab, 3, "name: small");
    let e = node.weir(&["apply", &third]).fails(1);
    assert!(e.contains("0 bytes of 8 GB are left"), "{e}");
    for id in [&first_id, &second_id] {
        node.weir(&["delete", id]).ok();
    }
    node.weir(&["apply", &third]).ok();
    node.weir(&["delete", &format!("{}-3", lab.name("g"))]).ok();
    assert_eq!(left(&lab), Vec::<String>::new());
    node.end();
}

#[test]
fn a_node_describes_itself_and_tells_when_that_changes() {
    let lab = Lab::new(&["node", "peer"]);
    lab.link(("node", "lan"), ("peer", "eth0"));
    lab.ip("node", "addr add 10.0.0.1/24 dev lan");
    image(&lab, "small", "memory: 1 GB, cpu: 1000");
    let node = Node::start_with(&lab, &[&OPTIONS[..], &[&lab.path("images")], &["--cpus", "1.5"]].concat());
    let describe = || node.weir(&["--json", "node", "--describe"]).json();
    let used = |domain: &Value| domain["resources"]["memory"]["used"].as_u64().unwrap();
    until("the data plane takes memory", || used(&describe()) > 0);
    let before = describe();
    assert_eq!(before["endpoints"][0]["interface"], "lan");
    assert_eq!(before["endpoints"][0]["addresses"], json!(["10.0.0.1/24"]));
    assert_eq!((&before["endpoints"][0]["up"], &before["endpoints"][0]["mtu"]), (&json!(true), &json!(1500)));
    let sinks: Vec<&Value> =
        before["capabilities"].as_array().unwrap().iter().filter(|c| c["capability"] == "sink").collect();
    assert_eq!(sinks[0]["images"][0]["image"], "small");
    let kinds: Vec<&str> =
        before["kinds"].as_array().unwrap().iter().map(|k| k["kind"].as_str().unwrap()).collect();
    assert!(["click", "native", "container"].iter().all(|k| kinds.contains(k)), "{kinds:?}");
    let (memory, cpu) = (&before["resources"]["memory"], &before["resources"]["cpu"]);
    assert_eq!((&memory["total"], &cpu["total"]), (&json!(8000u64 << 20), &json!(1500)));

    let events = || node.weir(&["events"]).ok();
    let reported = || {
        events().matches(" domain ").count() + events().matches("the description of the node changed").count()
    };
    let earlier = reported();
    let (file, id) = graph(&lab, 7, "capability: sink");
    node.weir(&["apply", &file]).ok();
    let now = describe();
    assert_eq!(now["endpoints"][0]["vlans"], json!([{ "vlan": 7, "graph": id }]));
    assert!(used(&now) > 1 << 30, "{now}");
    until("the event", || reported() > earlier && events().contains("end points"));
    let text = node.weir(&["node", "--describe"]).ok();
    assert!(text.contains(&format!("7 ({id})")) && text.contains("1 of 1.5 processors"), "{text}");
    let (more, _) = graph(&lab, 8, "name: small");
    let e = node.weir(&["apply", &more]).fails(1);
    assert!(e.contains(&format!("1 of processors, and 0.5 of 1.5 are left (graph {id} 1)")), "{e}");
    node.weir(&["delete", &id]).ok();
    assert_eq!(describe()["endpoints"][0]["vlans"], json!([]));
    assert_eq!(left(&lab), Vec::<String>::new());
    node.end();
}
