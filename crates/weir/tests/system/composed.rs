//! Functions that are made of functions.

use crate::functions::left;
use crate::lab::{Lab, until};
use crate::node::Node;
use crate::traffic::web_server;

/// A graph of the image `branch-office`.
fn office(lab: &Lab, rules: &str) -> String {
    let id = lab.name("g");
    let text = format!(
        "id: {id}\nname: g\nSFs:\n  - id: f\n    capability: branch-office\n    ports: [l, r]\n    params:\n      \
         {{ROUTER_IP: 10.0.0.1, DNS_IP: 10.0.0.2, INSIDE_NET: 10.0.0.0/24, HOSTS: 'web 10.7.0.2', OUTSIDE_IP: 10.7.0.1, RULES: '{rules}'}}\n\
         saps:\n  - {{id: lan, type: interface, interface: {{if-name: lan}}}}\n  - {{id: wan, type: interface, interface: {{if-name: wan}}}}\n\
         flowrules:\n  - {{id: a, priority: 1, match: {{port_in: 'sap:lan'}}, actions: {{output_to_port: 'sf:f:l'}}}}\n  \
         - {{id: b, priority: 1, match: {{port_in: 'sf:f:l'}}, actions: {{output_to_port: 'sap:lan'}}}}\n  \
         - {{id: c, priority: 1, match: {{port_in: 'sap:wan'}}, actions: {{output_to_port: 'sf:f:r'}}}}\n  \
         - {{id: d, priority: 1, match: {{port_in: 'sf:f:r'}}, actions: {{output_to_port: 'sap:wan'}}}}\n"
    );
    lab.write("graph.yaml", text)
}

#[test]
fn a_function_may_be_made_of_functions_of_several_kinds() {
    let lab = Lab::new(&["client", "node", "server"]);
    lab.link(("node", "lan"), ("client", "eth0"));
    lab.link(("node", "wan"), ("server", "eth0"));
    lab.ip("client", "addr add 10.0.0.5/24 dev eth0");
    lab.ip("client", "route add default via 10.0.0.1");
    lab.ip("server", "addr add 10.7.0.2/24 dev eth0");
    let client = lab.ns("client");
    lab.write("page", "a page");
    let _web = web_server(&lab, "server", 80, &lab.path(""));
    let _other = web_server(&lab, "server", 81, &lab.path(""));
    let node = Node::start(&lab);
    let id = lab.name("g");

    let file = office(&lab, "allow tcp dst port 80");
    let plan = node.weir(&["plan", "--explain", &file]).ok();
    for line in [
        "f as branch-office: branch-office (graph): it is the only one that fits",
        "f.switch as bridge: bridge (click)",
        "+ function f.nat",
        "+ function f\n",
    ] {
        assert!(plan.contains(line), "{line}: {plan}");
    }
    assert!(!plan.contains('@'), "what stands for ports is nobody's business: {plan}");
    node.weir(&["apply", &file]).ok();
    let dig = || client.run(&["dig", "+short", "+tries=1", "+time=3", "@10.0.0.2", "web.office"]).stdout;
    until("a name", || dig() == "10.7.0.2\n");
    let get = |port: &str| {
        let url = format!("http://10.7.0.2:{port}/page");
        client.run(&["curl", "-sS", "--max-time", "2", &url])
    };
    assert_eq!(get("80").ok(), "a page");
    assert_ne!(get("81").code, 0, "the firewall inside has its rules");
    assert!(node.weir(&["handler", "read", &id, "f.nat", "table"]).ok().contains("10.0.0.5"));

    // It is listed as one, and by its parts.
    let status = node.weir(&["--json", "show", &id]).json();
    let functions: Vec<String> = status["functions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|f| {
            format!(
                "{} {} {}",
                f["id"].as_str().unwrap(),
                f["engine"].as_str().unwrap(),
                f["state"].as_str().unwrap()
            )
        })
        .collect();
    let parts = ["f.switch inline", "f.names native", "f.firewall inline", "f.nat inline"];
    let listed: Vec<String> = ["f graph"].iter().chain(&parts).map(|p| format!("{p} running")).collect();
    assert_eq!(functions, listed);
    assert!(status["functions"][0]["packets_in"].as_u64().unwrap() > 0, "{status}");
    let links = status["links"].to_string();
    assert!(
        links.contains(r#""from":"sap:lan","packets""#) && links.contains(r#""to":"sf:f.switch:p1""#),
        "{links}"
    );
    assert!(!links.contains('@'), "{links}");
    assert!(node.weir(&["handler", "list", &id]).ok().contains("f.firewall"));
    let e = node.weir(&["handler", "read", &id, "f", "rules"]).fails(1);
    assert!(e.contains("made of functions: ask for one of f.switch, f.names, f.firewall, f.nat"), "{e}");
    assert!(node.weir(&["shell", &id, "f.names", "--", "ip", "addr"]).ok().contains("10.0.0.2"));
    node.weir(&["logs", &id, "f.names"]).ok();
    let mut capture = lab.ns("node").spawn_weir(&["capture", &id, "sf:f:r", "-c", "1", "-w", "/dev/null"]);
    until("a captured packet", || {
        get("80");
        !capture.runs()
    });
    assert_eq!(capture.wait().code, 0);

    // A change of its parameters reaches the function inside, and no other; the next daemon knows it all.
    let file = office(&lab, "allow tcp dst port 81");
    let plan = node.weir(&["--json", "plan", &file]).json();
    assert_eq!(plan["functions"]["changed"], serde_json::json!(["f", "f.firewall"]));
    node.weir(&["apply", &file]).ok();
    until("the other page", || get("81").code == 0);
    node.crash();
    let node = Node::start(&lab);
    assert!(node.weir(&["apply", &file]).ok().contains("unchanged"));
    assert_eq!(get("81").ok(), "a page");
    let checked =
        lab.ns("node").weir(&["check", &file, "--require", "never sap:lan sap:wan udp dst port 81"]);
    assert!(checked.stdout.contains("never"), "{}{}", checked.stdout, checked.stderr);
    node.weir(&["delete", &id]).ok();
    assert_eq!(left(&lab), Vec::<String>::new());
    node.end();
}
