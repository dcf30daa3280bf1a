//! Functions in processes that send to each other past the switch, between real hosts.

use serde_json::Value;

use crate::functions::{left, one_network};
use crate::lab::{Lab, poll, until, until_pings};
use crate::node::Node;
use crate::processes::{kill, worker_of};
use crate::traffic::Stream;

/// client - f0 - f1 - … - server, each function a wire in a process of its own. `more` are rules beside those of the chain.
fn chain(lab: &Lab, functions: usize, more: &str) -> String {
    let mut text = format!("id: {}\nname: g\nSFs:\n", lab.name("g"));
    let mut places = vec!["sap:lan".to_owned()];
    for i in 0..functions {
        text += &format!("  - {{id: f{i}, name: 'null', kind: process, ports: [{{id: l}}, {{id: r}}]}}\n");
        places.extend([format!("sf:f{i}:l"), format!("sf:f{i}:r")]);
    }
    places.push("sap:wan".to_owned());
    text += "saps:\n  - {id: lan, type: interface, interface: {if-name: lan}}\n  - {id: wan, type: interface, interface: {if-name: wan}}\n";
    text += "flowrules:\n";
    for (i, pair) in places.chunks(2).enumerate() {
        for (id, from, to) in [("a", &pair[0], &pair[1]), ("b", &pair[1], &pair[0])] {
            text += &format!(
                "  - {{id: {id}{i}, priority: 1, match: {{port_in: '{from}'}}, actions: {{output_to_port: '{to}'}}}}\n"
            );
        }
    }
    lab.write("graph.yaml", text + more)
}

/// A rule about some traffic that there is none of, so that the link from `f0` is the switch's.
const SPLIT: &str = "  - {id: s, priority: 9, match: {port_in: 'sf:f0:r', ip_proto: tcp, tp_dst: 9}, actions: {drop: true}}\n";

fn links(node: &Node, lab: &Lab) -> Vec<Value> {
    node.weir(&["--json", "show", &lab.name("g")]).json()["links"].as_array().unwrap().clone()
}

/// The links that are direct, by their beginnings.
fn direct(node: &Node, lab: &Lab) -> Vec<String> {
    let links = links(node, lab);
    let direct = links.iter().filter(|l| !l["direct"].is_null());
    direct.map(|l| l["from"].as_str().unwrap().to_owned()).collect()
}

#[track_caller]
fn until_direct(node: &Node, lab: &Lab, wanted: &[&str]) {
    assert!(poll(500, || direct(node, lab) == wanted), "{:?}", links(node, lab));
}

fn packets(node: &Node, lab: &Lab, from: &str) -> u64 {
    let links = links(node, lab);
    links.iter().find(|l| l["from"] == from).unwrap()["packets"].as_u64().unwrap()
}

#[test]
fn links_come_and_go_with_rules_captures_and_daemons_and_lose_nothing() {
    let lab = Lab::alone(&["client", "node", "server"]);
    let (client, _server) = one_network(&lab);
    let node = Node::start(&lab);
    let id = lab.name("g");
    let all = ["sf:f0:r", "sf:f1:l", "sf:f1:r", "sf:f2:l"];
    node.weir(&["apply", &chain(&lab, 3, "")]).ok();
    until_pings(&client, "10.0.0.2");
    until_direct(&node, &lab, &all);
    assert!(node.weir(&["show", &id]).ok().contains("direct link"));

    let stream = Stream::start(&lab, "client", "server", "10.0.0.2", 9000, 500);
    for i in 0..10 {
        let before = packets(&node, &lab, "sf:f0:r");
        node.weir(&["apply", &chain(&lab, 3, if i % 2 == 0 { SPLIT } else { "" })]).ok();
        if i % 3 > 0 {
            until_direct(&node, &lab, if i % 2 == 0 { &all[1..] } else { &all });
        }
        // Whatever carries them, they are counted.
        until("packets", || packets(&node, &lab, "sf:f0:r") > before + 20);
    }
    node.weir(&["apply", &chain(&lab, 3, "")]).ok();
    until_direct(&node, &lab, &all);

    // Who watches a link sees its packets, and those of a trace go through the graph.
    let out = lab.path("seen.pcap");
    for place in ["sf:f0:r", "sf:f1:r"] {
        node.weir(&["capture", &id, place, "--match", "udp", "-c", "5", "-w", &out]).ok();
        assert!(std::fs::metadata(&out).unwrap().len() > 24 + 5 * 16);
    }
    let trace = node.weir(&["trace", &id, "--match", "udp", "-c", "1"]).ok();
    assert!(trace.contains("FromDevice") || trace.contains("FromLink") || trace.contains("lsi"), "{trace}");
    until_direct(&node, &lab, &all);

    // A daemon that comes back finds them as they are, with their counts.
    let before = packets(&node, &lab, "sf:f1:r");
    node.crash();
    let node = Node::start(&lab);
    until_direct(&node, &lab, &all);
    assert!(packets(&node, &lab, "sf:f1:r") > before);
    let status = node.weir(&["--json", "show", &id]).json();
    for f in status["functions"].as_array().unwrap() {
        assert!(f["packets_in"].as_u64().unwrap() > before, "{f}");
    }

    // A graph may do without them.
    node.weir(&["apply", &chain(&lab, 3, "direct-links: false\n")]).ok();
    until_direct(&node, &lab, &[]);
    node.weir(&["apply", &chain(&lab, 3, "")]).ok();
    until_direct(&node, &lab, &all);
    let setup: Vec<u64> =
        links(&node, &lab).iter().filter_map(|l| l["direct"]["setup_micros"].as_u64()).collect();
    println!("set up in {setup:?} µs");
    let r = stream.all_came_once();
    assert_eq!(r.account["disordered"], 0, "{}", r.account);
    node.weir(&["delete", &id]).ok();
    assert_eq!(left(&lab), Vec::<String>::new());
    node.end();
}

#[test]
fn the_death_of_a_function_is_nobody_elses() {
    let lab = Lab::alone(&["client", "node", "server"]);
    let (client, _server) = one_network(&lab);
    let node = Node::start(&lab);
    let id = lab.name("g");
    let all = ["sf:f0:r", "sf:f1:l"];
    node.weir(&["apply", &chain(&lab, 2, "")]).ok();
    until_pings(&client, "10.0.0.2");
    until_direct(&node, &lab, &all);
    for function in ["f0", "f1", "f1", "f0"] {
        let stream = Stream::start(&lab, "client", "server", "10.0.0.2", 9000, 500);
        let (pid, before) = (worker_of(&lab, function).unwrap(), packets(&node, &lab, "sf:f0:r"));
        kill(pid);
        assert!(poll(200, || worker_of(&lab, function).is_some_and(|now| now != pid)));
        until("packets", || packets(&node, &lab, "sf:f0:r") > before + 100);
        until_pings(&client, "10.0.0.2");
        until_direct(&node, &lab, &all);
        let r = stream.stop();
        let (disordered, received) = (&r.account["disordered"], r.account["received"].as_u64().unwrap());
        assert!(r.twice == 0 && *disordered == 0 && received > 0, "{}", r.account);
    }
    // Nor is that of the data plane the functions' end: they find the next one, and each other.
    let (pid, workers) = (node.data_plane_pid(), ["f0", "f1"].map(|f| worker_of(&lab, f)));
    kill(i32::try_from(pid).unwrap());
    node.until_replaced(pid);
    until_pings(&client, "10.0.0.2");
    until_direct(&node, &lab, &all);
    assert_eq!(["f0", "f1"].map(|f| worker_of(&lab, f)), workers);
    node.weir(&["delete", &id]).ok();
    assert_eq!(left(&lab), Vec::<String>::new());
    node.end();
}
