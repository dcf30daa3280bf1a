//! One graph with functions of every kind in a row, between real hosts.

use crate::functions::{left, one_network};
use crate::lab::{Lab, Ns, host, poll, repository, until};
use crate::node::Node;
use crate::traffic::{Stream, big_file, sha256, web_server};

/// client - native - container - inline - process - vm - server
fn chain(lab: &Lab, rules: &str) -> String {
    let functions = [
        (
            "native",
            "name: nft-firewall, params: {RULES: 'meta l4proto { tcp, udp, icmp } accept'}",
            ["inside", "outside"],
        ),
        ("container", "name: box-bridge", ["left", "right"]),
        ("inline", &format!("name: packet-filter, params: {{RULES: '{rules}'}}"), ["inside", "outside"]),
        ("process", "name: 'null', kind: process", ["left", "right"]),
        ("vm", "name: guest", ["left", "right"]),
    ];
    let mut places = vec!["sap:lan".to_owned()];
    let mut text = format!("id: {}\nname: g\nSFs:\n", lab.name("g"));
    for (id, says, [a, b]) in functions {
        text += &format!("  - {{id: {id}, {says}, ports: [{{id: {a}}}, {{id: {b}}}]}}\n");
        places.extend([format!("sf:{id}:{a}"), format!("sf:{id}:{b}")]);
    }
    places.push("sap:wan".to_owned());
    text += "saps:\n  - {id: lan, type: interface, interface: {if-name: lan}}\n  - {id: wan, type: interface, interface: {if-name: wan}}\nflowrules:\n";
    for (i, pair) in places.chunks(2).enumerate() {
        for (id, from, to) in [("a", &pair[0], &pair[1]), ("b", &pair[1], &pair[0])] {
            text += &format!(
                "  - {{id: {id}{i}, priority: 1, match: {{port_in: '{from}'}}, actions: {{output_to_port: '{to}'}}}}\n"
            );
        }
    }
    lab.write("graph.yaml", text)
}

/// The images of the container and of the guest.
fn images(lab: &Lab) -> String {
    let images = lab.path("images");
    host(&["cp", "-r", &repository().join("examples/container").display().to_string(), &images]).ok();
    let script = |name: &str| repository().join("scripts").join(name).display().to_string();
    host(&[&script("busybox-image"), &format!("{images}/box-bridge/layout")]).ok();
    host(&[&script("guest-image"), &format!("{images}/guest")]).ok();
    let manifest = "name: guest\nkind: vm\nports: [left, right]\nvm: {kernel: vmlinuz, initrd: initrd.gz, arguments: 'console=ttyS0 quiet', memory: 96 MB, accelerator: tcg}\n";
    std::fs::write(format!("{images}/guest/function.yaml"), manifest).unwrap();
    images
}

/// The path of an echo request from where it enters the graph. One that was on its path already when the trace began is followed from
/// where it comes out of a function.
fn path_from_the_start(lab: &Lab, client: &Ns<'_>) -> String {
    let id = lab.name("g");
    let ask = ["trace", &id, "--match", "icmp and src host 10.0.0.1", "-c", "1"];
    let mut path = String::new();
    assert!(
        poll(10, || {
            let mut trace = lab.ns("node").spawn_weir(&ask);
            until("the trace", || {
                client.run(&["ping", "-c1", "-W1", "10.0.0.2"]);
                !trace.runs()
            });
            path = trace.wait().ok();
            path.contains("sf:native:inside")
        }),
        "{path}"
    );
    path
}

/// A packet is followed through functions of every kind, and inside of the process.
fn follows_through_all(lab: &Lab, node: &Node<'_>, client: &Ns<'_>) {
    let id = lab.name("g");
    let path = path_from_the_start(lab, client);
    let places = [
        "sf:native:inside",
        "sf:container:left",
        "sf_inline/",
        "sf:process:left",
        &format!("graph {id}/process"),
        "memif:right",
        "sf:vm:left",
    ];
    let mut rest = path.as_str();
    for place in places {
        let (_, behind) = rest.split_once(place).unwrap_or_else(|| panic!("{place}: {path}"));
        rest = behind;
    }
    for out in ["native:outside", "container:right", "process:right", "vm:right"] {
        assert!(path.contains(&format!("came out by sf:{out}")), "{path}");
    }
    // What a function makes of a packet is not said to be the packet: its answer to ARP is its own.
    assert!(!path.contains("not known"), "{path}");
    assert!(node.weir(&["show", &id]).ok().contains("running"));
}

#[test]
fn a_chain_of_every_kind_is_changed_and_outlives_the_daemon_without_losing_a_packet() {
    let lab = Lab::alone(&["client", "node", "server"]);
    let images = images(&lab);
    let (client, _server) = one_network(&lab);
    let options = ["--images", &images];
    let node = Node::start_with(&lab, &options);
    let id = lab.name("g");
    node.weir(&["apply", &chain(&lab, "allow tcp, allow udp, allow icmp, deny all")]).ok();
    let came = poll(3000, || client.run(&["ping", "-c1", "-W1", "10.0.0.2"]).code == 0);
    assert!(came, "{}\n{}", node.weir(&["show", &id]).ok(), node.weir(&["logs", &id, "vm"]).ok());
    let status = node.weir(&["--json", "show", &id]).json();
    let kinds: Vec<&str> =
        status["functions"].as_array().unwrap().iter().map(|f| f["engine"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["native", "container", "inline", "process", "vm"]);
    let (_, sum) = big_file(&lab, "file", 1_000_000);
    let _web = web_server(&lab, "server", 80, &lab.path(""));
    let got = lab.path("got");
    client.run(&["curl", "-sS", "--max-time", "60", "-o", &got, "http://10.0.0.2/file"]).ok();
    assert_eq!(sha256(&got), sum);

    follows_through_all(&lab, &node, &client);
    let stream = Stream::start(&lab, "client", "server", "10.0.0.2", 9000, 200);
    node.weir(&["apply", &chain(&lab, "allow udp, allow icmp, deny all")]).ok();
    assert_ne!(client.run(&["curl", "-sS", "--max-time", "1", "http://10.0.0.2/"]).code, 0);
    node.crash();
    let node = Node::start_with(&lab, &options);
    assert!(poll(100, || node.weir(&["ps"]).ok().contains("running")));
    stream.all_came_once();
    node.weir(&["delete", &id]).ok();
    assert_eq!(left(&lab), Vec::<String>::new());
    node.end();
}
