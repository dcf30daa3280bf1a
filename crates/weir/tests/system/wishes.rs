//! What graphs ask of their placement, and the links between nodes that it goes by.

use serde_json::Value;

use crate::domain::{self, Domain, NODES};
use crate::lab::{until, until_pings};

/// Two functions between hosts at n1 and n3.
fn chain(placement: &str) -> String {
    format!(
        "
id: chain
name: two functions
SFs:
  - {{id: one, name: 'null', ports: [{{id: left}}, {{id: right}}]}}
  - {{id: two, name: 'null', ports: [{{id: left}}, {{id: right}}]}}
saps:
  - {{id: a, type: interface, node: n1, interface: {{if-name: lan}}}}
  - {{id: b, type: interface, node: n3, interface: {{if-name: lan}}}}
flowrules:
  - {{id: a, priority: 1, match: {{port_in: 'sap:a'}}, actions: {{output_to_port: 'sf:one:left'}}}}
  - {{id: b, priority: 1, match: {{port_in: 'sf:one:right'}}, actions: {{output_to_port: 'sf:two:left'}}}}
  - {{id: c, priority: 1, match: {{port_in: 'sf:two:right'}}, actions: {{output_to_port: 'sap:b'}}}}
  - {{id: d, priority: 1, match: {{port_in: 'sap:b'}}, actions: {{output_to_port: 'sf:two:right'}}}}
  - {{id: e, priority: 1, match: {{port_in: 'sf:two:left'}}, actions: {{output_to_port: 'sf:one:right'}}}}
  - {{id: f, priority: 1, match: {{port_in: 'sf:one:left'}}, actions: {{output_to_port: 'sap:a'}}}}
placement: {placement}
"
    )
}

/// Where a graph's functions would go.
fn planned(domain: &Domain<'_>, placement: &str) -> Value {
    let file = domain.file("chain.yaml", &chain(placement));
    domain.json(&["plan", &file])["placement"]["functions"].clone()
}

#[test]
fn functions_go_where_the_graph_wishes_or_it_says_which_wish_cannot_be_kept() {
    let lab = domain::lab(false);
    let domain = Domain::start(&lab);
    let token = domain.weir(&["token", "--uses", "3"]).ok();
    let region = |node: &str| if node == "n2" { "east" } else { "west" };
    let _nodes = NODES.map(|n| domain.node_with(n, Some(token.trim()), &["--region", region(n)]));
    until("all nodes", || NODES.iter().all(|n| domain.is_online(n) && domain.knows(n)));
    assert!(domain.weir(&["describe", "node", "n2"]).ok().contains("it is in region east"));
    let east = planned(&domain, "{region: east}");
    assert_eq!((&east["one"], &east["two"]), (&"n2".into(), &"n2".into()), "{east}");
    let apart = planned(&domain, "{apart: [[one, two]]}");
    assert_ne!(apart["one"], apart["two"], "{apart}");
    let together = planned(&domain, "{together: [[one, two]]}");
    assert_eq!(together["one"], together["two"], "{together}");
    // There is one node in the east.
    let file = domain.file("chain.yaml", &chain("{region: east, apart: [[one, two]]}"));
    let e = domain.weir(&["plan", "--explain", &file]).fails(1);
    assert!(
        e.contains("sffg.placement.apart[0]: functions 'one', 'two' are to be on different nodes")
            && e.contains("sffg.placement.region: its functions are to be in region 'east'"),
        "{e}"
    );
    let e = domain.apply(&chain("{region: north}"), &[]).fails(1);
    assert!(e.contains("region 'north'") && domain.ps().is_empty(), "{e}");
    let e = domain.apply(&chain("{apart: [[one, three]]}"), &[]).fails(1);
    assert!(e.contains("placement.apart[0]") && e.contains("there is no function \"three\""), "{e}");
    // A graph that runs goes by new wishes.
    domain.apply(&chain("{together: [[one, two]]}"), &[]).ok();
    until_pings(&lab.ns("h1"), "10.1.0.3");
    domain.apply(&chain("{region: east}"), &[]).ok();
    assert_eq!(domain.ps(), [("chain".into(), "n1, n2, n3".into(), "running".into())]);
    until_pings(&lab.ns("h1"), "10.1.0.3");
    domain.weir(&["delete", "chain"]).ok();
    domain.stop_engines();
}

#[test]
fn links_are_used_as_the_operator_says_they_are() {
    let lab = domain::lab(false);
    let mut domain = Domain::start(&lab);
    let _nodes = domain.join_all();
    for (a, b, delay) in [("n1", "n2", "1 ms"), ("n3", "n2", "1 ms"), ("n1", "n3", "50 ms")] {
        domain.weir(&["link", "set", a, b, "--delay", delay, "--capacity", "100 Mbit/s"]).ok();
    }
    assert!(domain.weir(&["link", "set", "n1", "n9"]).fails(1).contains("there is no node 'n9'"));
    assert!(domain.weir(&["link", "set", "n1", "n2", "--delay", "1"]).fails(2).contains("such as 5 ms"));
    // What takes too long one way goes another way, or is refused.
    let e = domain.apply(&chain("{max-delay: 1 ms}"), &[]).fails(1);
    assert!(e.contains("sffg.placement.max-delay: packets are to spend at most 1 ms on links"), "{e}");
    domain.apply(&chain("{max-delay: 10 ms, bandwidth: 60 Mbit/s}"), &[]).ok();
    let link = |domain: &Domain<'_>, a: &str, b: &str| {
        let all = domain.json(&["get", "links"])["links"].clone();
        let found = all.as_array().unwrap().iter().find(|l| l["a"]["node"] == a && l["b"]["node"] == b);
        found.cloned().unwrap_or_default()
    };
    assert_eq!(link(&domain, "n1", "n3")["tunnels"], 0, "it goes over n2");
    let used = link(&domain, "n1", "n2");
    assert_eq!((&used["forth"]["promised"], &used["capacity"]), (&60_000.into(), &100_000.into()), "{used}");
    let h1 = lab.ns("h1");
    until_pings(&h1, "10.1.0.3");
    // A second graph has not enough left there.
    let second = chain("{max-delay: 10 ms, bandwidth: 60 Mbit/s}").replace("id: chain", "id: second");
    let second = second.replace("if-name: lan", "if-name: wan");
    let e = domain.apply(&second, &[]).fails(1);
    assert!(e.contains("bandwidth"), "{e}");
    // What passes is measured.
    until("traffic over the link is seen", || {
        _ = h1.run(&["ping", "-c", "20", "-i", "0.01", "-s", "1000", "10.1.0.3"]);
        link(&domain, "n1", "n2")["forth"]["measured"].as_u64().is_some_and(|bits| bits > 0)
    });
    // What was said outlives the controller.
    domain.restart(&[]);
    until("all nodes", || NODES.iter().all(|n| domain.is_online(n) && domain.knows(n)));
    assert_eq!(link(&domain, "n2", "n3")["delay"], 1000);
    // Small packets, and a secret, on one link alone.
    let options = ["--mtu", "1300", "--encapsulation", "wireguard", "--delay", "1 ms"];
    domain.weir(&[&["link", "set", "n1", "n2"], &options[..]].concat()).ok();
    let out = domain.apply(&chain("{max-delay: 10 ms}"), &[]).ok();
    assert!(out.contains("takes IP packets of 1300 bytes, and tunnels take 110"), "{out}");
    until_pings(&h1, "10.1.0.3");
    let kinds = domain.json(&["describe", "node", "n2"])["domain"]["tunnels"].clone();
    let kinds: Vec<&str> = kinds.as_array().unwrap().iter().map(|t| t["kind"].as_str().unwrap()).collect();
    assert!(kinds.contains(&"wireguard") && kinds.contains(&"vxlan"), "{kinds:?}");
    domain.weir(&["delete", "chain"]).ok();

    // Nodes that reach each other where they have no network in common.
    for (node, own, other, way) in
        [("n1", "10.98.0.1", "10.98.0.3", "10.99.0.3"), ("n3", "10.98.0.3", "10.98.0.1", "10.99.0.1")]
    {
        lab.ip(node, &format!("addr add {own}/32 dev m0"));
        lab.ip(node, &format!("route add {other}/32 via {way}"));
    }
    domain.weir(&["link", "set", "n3", "n1", "--addresses", "10.98.0.3", "10.98.0.1"]).ok();
    until("the link is there", || link(&domain, "n1", "n3")["a"]["address"] == "10.98.0.1");
    domain.apply(&chain("{}"), &[]).ok();
    until_pings(&h1, "10.1.0.3");
    assert!(domain.weir(&["describe", "node", "n1"]).ok().contains("10.98.0.3"));
    domain.weir(&["link", "remove", "n1", "n3"]).ok();
    assert!(domain.weir(&["link", "remove", "n1", "n3"]).fails(1).contains("nothing was said of a link"));
    assert_eq!(link(&domain, "n1", "n3")["a"]["address"], "10.99.0.1");
    domain.weir(&["delete", "chain"]).ok();
    domain.stop_engines();
}
