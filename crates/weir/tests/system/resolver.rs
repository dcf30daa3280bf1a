//! Functions that a graph asks for by what they can do: which image the node chooses, and what it says of that.

use crate::functions::{left, one_network};
use crate::lab::{Lab, until_pings};
use crate::node::Node;

/// A graph of one function between `lan` and `wan`, which is asked for so.
fn graph(lab: &Lab, asked: &str) -> String {
    let text = format!(
        "id: {}\nname: g\nSFs:\n  - {{id: fw, ports: [inside, outside], {asked}}}\nsaps:\n  \
         - {{id: lan, type: interface, interface: {{if-name: lan}}}}\n  - {{id: wan, type: interface, interface: {{if-name: wan}}}}\n\
         flowrules:\n  - {{id: a, priority: 1, match: {{port_in: 'sap:lan'}}, actions: {{output_to_port: 'sf:fw:inside'}}}}\n  \
         - {{id: b, priority: 1, match: {{port_in: 'sf:fw:inside'}}, actions: {{output_to_port: 'sap:lan'}}}}\n  \
         - {{id: c, priority: 1, match: {{port_in: 'sap:wan'}}, actions: {{output_to_port: 'sf:fw:outside'}}}}\n  \
         - {{id: d, priority: 1, match: {{port_in: 'sf:fw:outside'}}, actions: {{output_to_port: 'sap:wan'}}}}\n",
        lab.name("g")
    );
    lab.write("graph.yaml", text)
}

/// An image with the capability, in a folder of the test's own.
fn image(lab: &Lab, name: &str, more: &str) {
    std::fs::create_dir_all(lab.path("images")).unwrap();
    let text = format!("name: {name}\ncapability: firewall\nports: [inside, outside]\n{more}\n");
    std::fs::write(lab.path(&format!("images/{name}.yaml")), text).unwrap();
}

const WIRE: &str = "click: 'in_0 -> out_1; in_1 -> out_0;'";

fn shown(node: &Node, lab: &Lab) -> (String, String) {
    let f = node.weir(&["--json", "show", &lab.name("g")]).json()["functions"][0].clone();
    let text = |key: &str| f[key].as_str().unwrap_or_default().to_owned();
    (text("image"), text("engine"))
}

#[test]
fn the_node_chooses_the_best_image_that_fits_and_keeps_it() {
    let lab = Lab::new(&["client", "node", "server"]);
    let (client, _server) = one_network(&lab);
    std::fs::create_dir_all(lab.path("images")).unwrap();
    let node = Node::start_with(&lab, &["--images", &lab.path("images")]);

    // What is proved comes before what is not.
    let file = graph(&lab, "capability: firewall");
    let plan = node.weir(&["plan", "--explain", &file]).ok();
    assert!(plan.contains("fw as firewall: firewall (click): of those that fit only it is proved"), "{plan}");
    assert!(
        plan.contains("not nft-firewall (native): it fits, but is not proved, as 'firewall' is"),
        "{plan}"
    );
    let short = node.weir(&["plan", &file]).ok();
    assert!(
        short.contains("fw as firewall: firewall (click)\n") && !short.contains("nft-firewall"),
        "{short}"
    );
    node.weir(&["apply", &file]).ok();
    assert_eq!(shown(&node, &lab), ("firewall".to_owned(), "inline".to_owned()));
    until_pings(&client, "10.0.0.2");

    // A better image changes nothing that runs, also when the graph is applied again or the daemon comes back.
    image(&lab, "a-wire", WIRE);
    assert!(node.weir(&["apply", &file]).ok().contains("unchanged"));
    let plan = node.weir(&["plan", "--explain", &file]).ok();
    assert!(plan.contains("fw as firewall: firewall (click): it runs now, and still fits"), "{plan}");
    assert!(plan.contains("not a-wire (click): it fits, but 'firewall' runs now"), "{plan}");
    node.crash();
    let node = Node::start_with(&lab, &["--images", &lab.path("images")]);
    assert!(node.weir(&["apply", &file]).ok().contains("unchanged"));
    let handlers = node.weir(&["handler", "list", &lab.name("g")]).ok();
    assert!(handlers.contains("connections"), "those of the image that was chosen: {handlers}");

    // One that does not fit any more is replaced while the graph runs.
    graph(&lab, "capability: firewall, constraints: {features: ipv6}, params: {RULES: accept}");
    let plan = node.weir(&["--json", "plan", &file]).json();
    assert_eq!(plan["functions"]["changed"], serde_json::json!(["fw"]));
    assert_eq!(plan["choices"][0]["image"], "nft-firewall");
    let other = &plan["choices"][0]["others"][1];
    assert_eq!(other["image"], "firewall");
    assert_eq!(other["why"], "it has not the feature 'ipv6'");
    node.weir(&["apply", &file]).ok();
    assert_eq!(shown(&node, &lab), ("nft-firewall".to_owned(), "native".to_owned()));
    until_pings(&client, "10.0.0.2");

    node.weir(&["delete", &lab.name("g")]).ok();
    assert_eq!(left(&lab), Vec::<String>::new());
    graph(&lab, "capability: firewall");
    node.weir(&["apply", &file]).ok();
    assert_eq!(shown(&node, &lab).0, "a-wire", "nothing ran, so the one that takes least");
    node.end();
}

#[test]
fn a_graph_that_no_image_fits_is_refused_with_the_reason_of_each() {
    let lab = Lab::new(&["client", "node", "server"]);
    one_network(&lab);
    image(
        &lab,
        "strange",
        "kind: native\nversion: '3.1'\nnative: {dependencies: {no-such-program: nosuch-package}}",
    );
    image(
        &lab,
        "broken",
        "params: [{name: X, type: text}]\nclick: 'in_0 -> IPFilter($X) -> out_1; in_1 -> out_0;'",
    );
    let node = Node::start_with(&lab, &["--images", &lab.path("images")]);
    let file =
        graph(&lab, "capability: firewall, constraints: {proved: true, version: '>=3'}, params: {X: alow}");
    let e = node.weir(&["apply", &file]).fails(1);
    for part in [
        "sffg.SFs[0]: no image with the capability 'firewall' fits",
        "'broken': it has no version, and >=3 is asked for",
        "'firewall': its version is 2.0, and >=3 is asked for; firewall has no parameter \"X\"",
        "'strange': strange has no parameter \"X\"",
    ] {
        assert!(e.contains(part), "{part}: {e}");
    }
    graph(&lab, "capability: firewall, constraints: {version: '>=3'}");
    let e = node.weir(&["apply", &file]).fails(1);
    assert!(e.contains("'strange'") && e.contains("no-such-program") && e.contains("nosuch-package"), "{e}");
    graph(&lab, "capability: firewall, constraints: {kind: inline}, params: {X: alow}");
    let e = node.weir(&["apply", &file]).fails(1);
    assert!(e.contains("'broken': it cannot be used with these parameters: ") && e.contains("alow"), "{e}");
    graph(&lab, "capability: firewal");
    let e = node.weir(&["apply", &file]).fails(1);
    assert!(e.contains("no image here has the capability 'firewal' (did you mean 'firewall'?)"), "{e}");
    graph(&lab, "capability: firewall, constraints: {proved: yes}");
    let e = node.weir(&["apply", &file]).fails(1);
    assert!(e.contains("true or false"), "{e}");
    assert_eq!(node.weir(&["ps"]).ok(), "no graphs\n");

    // Without a node the best of the images is checked, and which that is, is said.
    graph(&lab, "capability: firewall, params: {RULES: 'deny tcp, allow all'}");
    let checked = lab.ns("client").weir(&["check", &file, "--require", "never sap:lan sap:wan tcp"]);
    assert!(checked.stderr.contains("function fw is checked as the image 'firewall'"), "{}", checked.stderr);
    assert!(checked.stdout.contains("never"), "{}", checked.stdout);
    node.end();
}
