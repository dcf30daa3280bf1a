//! Metrics, read and checked as Prometheus does.

use std::collections::BTreeMap;

use crate::domain::{Domain, lab as domain_lab};
use crate::functions::{graph_of, image};
use crate::lab::{Lab, host, repository, until, until_pings};
use crate::node::Node;

/// The samples of a text of metrics that Prometheus' own checker finds nothing wrong with.
#[track_caller]
fn samples(lab: &Lab, text: &str) -> BTreeMap<String, f64> {
    let file = lab.write("metrics.txt", text);
    let checked = host(&["sh", "-c", &format!("promtool check metrics < {file}")]);
    assert_eq!((checked.code, checked.stderr.as_str()), (0, ""), "{}", checked.stdout);
    let sample = |line: &str| {
        let (name, value) = line.rsplit_once(' ').unwrap();
        (name.to_owned(), value.parse().unwrap())
    };
    let lines = text.lines().filter(|l| !l.starts_with('#'));
    let samples: BTreeMap<String, f64> = lines.clone().map(sample).collect();
    assert_eq!(samples.len(), lines.count(), "a sample stands twice");
    samples
}

/// Forwards between its ports, and burns some processor time.
const BRIDGE: &str = "ip link add bridge0 type bridge
for p in $WEIR_PORTS; do ip link set $p master bridge0 up; done
ip link set bridge0 up
i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done
sleep 1000 &";

#[test]
fn a_node_counts_what_passes_graphs_and_functions_for_those_who_may_know() {
    let lab = Lab::new(&["client", "node", "server"]);
    lab.link(("node", "lan"), ("client", "eth0"));
    lab.link(("node", "wan"), ("server", "eth0"));
    lab.ip("client", "addr add 10.0.0.1/24 dev eth0");
    lab.ip("server", "addr add 10.0.0.2/24 dev eth0");
    let images = image(&lab, "busy-bridge", "", &[("start", BRIDGE)]);
    let node = Node::start_with(&lab, &["--stop-engine", "--images", &images]);
    let id = lab.name("g");
    node.weir(&["apply", &graph_of(&lab, "name: busy-bridge")]).ok();
    until_pings(&lab.ns("client"), "10.0.0.2");
    let read =
        |path: &str| lab.ns("node").run(&["curl", "-sSi", &format!("http://127.0.0.1:7400{path}")]).ok();
    let whole = read("/metrics");
    assert!(whole.contains("content-type: text/plain; version=0.0.4"), "{whole}");
    assert!(read("/v1/metrics").contains("weir_graph_up"));
    let body = || read("/metrics").split_once("\r\n\r\n").unwrap().1.to_owned();
    let text = body();
    let found = samples(&lab, &text);
    let of = |name: &str| found.get(&name.replace("GRAPH", &id)).copied();
    assert_eq!(of("weir_graph_up{graph=\"GRAPH\",tenant=\"\"}"), Some(1.0), "{text}");
    assert_eq!(of("weir_graphs{state=\"running\"}"), Some(1.0));
    assert_eq!(of("weir_engine_up"), Some(1.0));
    for direction in ["in", "out"] {
        let packets = format!(
            "weir_access_point_packets_total{{graph=\"GRAPH\",access_point=\"lan\",direction=\"{direction}\"}}"
        );
        assert!(of(&packets).unwrap() >= 1.0, "{text}");
        let bytes = packets.replace("packets", "bytes");
        assert!(of(&bytes).unwrap() >= 98.0, "an echo request has 98 bytes: {text}");
        let packets = format!(
            "weir_function_packets_total{{graph=\"GRAPH\",function=\"f\",direction=\"{direction}\"}}"
        );
        assert!(of(&packets).unwrap() >= 2.0, "both directions: {text}");
        let interface =
            format!("weir_interface_packets_total{{interface=\"lan\",direction=\"{direction}\"}}");
        assert!(of(&interface).unwrap() >= 1.0, "{text}");
    }
    let function = "{graph=\"GRAPH\",function=\"f\",kind=\"native\"}";
    assert_eq!(of(&format!("weir_function_up{function}")), Some(1.0));
    assert!(of(&format!("weir_function_memory_bytes{function}")).unwrap() > 0.0, "{text}");
    assert!(of(&format!("weir_function_cpu_seconds_total{function}")).is_some(), "{text}");
    assert!(of("weir_change_seconds_count").unwrap() >= 1.0);

    // An inline function that drops, with a table.
    let firewall = graph_of(&lab, "name: packet-filter, params: {RULES: 'allow icmp'}");
    let out = node.weir(&["apply", &firewall]);
    assert_eq!(out.code, 0, "{}", out.stderr);
    lab.ns("client").run(&["ping", "-c1", "-W1", "10.0.0.2"]);
    lab.ns("client").run(&["sh", "-c", "echo x > /dev/udp/10.0.0.2/9 || echo x | socat - UDP:10.0.0.2:9"]);
    let drops = format!("weir_drops_total{{graph=\"{id}\",function=\"f\"");
    until("a packet that is dropped", || body().contains(&drops));
    let found = samples(&lab, &body());
    assert!(
        found.contains_key(&format!("weir_function_up{{graph=\"{id}\",function=\"f\",kind=\"inline\"}}"))
    );

    // The dashboard asks for nothing that is not there.
    let dashboard = std::fs::read_to_string(repository().join("docs/grafana-dashboard.json")).unwrap();
    let words = dashboard.split(|c: char| !(c.is_ascii_lowercase() || c == '_'));
    let text = body();
    for name in words.filter(|w| w.starts_with("weir_")) {
        let family = name.trim_end_matches("_bucket");
        assert!(text.contains(&format!("# TYPE {family} ")), "no metric {name}");
    }

    // Without a data plane the node still says so.
    node.weir(&["delete", &id]).ok();
    node.end().ok();
}

#[test]
fn prometheus_has_a_token_that_is_good_for_metrics_alone_and_tenants_see_theirs() {
    let lab = domain_lab(false);
    let domain = Domain::start(&lab);
    let _nodes = domain.join_all();
    let graph = |id: &str, sap: &str, tenant: &str| {
        format!(
            "id: {id}\nname: {id}\n{tenant}saps: [{{id: a, type: interface, interface: {{if-name: {sap}}}}}]\n\
             flowrules: [{{id: r, priority: 1, match: {{port_in: 'sap:a'}}, actions: {{output_to_port: 'sap:a'}}}}]\n"
        )
    };
    domain.weir(&["tenant", "add", "acme"]).ok();
    domain.apply(&graph("own", "lan", ""), &["--on", "n1"]).ok();
    domain.apply(&graph("theirs", "wan", "tenant: acme\n"), &["--on", "n1"]).ok();
    let token = domain.weir(&["key", "metrics"]).ok().trim().to_owned();
    let ask = |path: &str, token: &str| {
        let (header, url) =
            (format!("authorization: Bearer {token}"), format!("https://10.99.0.254:7443{path}"));
        lab.ns("control").run(&["curl", "-sSk", "-H", &header, &url]).ok()
    };
    let running = "weir_graph_up{graph=\"theirs\",tenant=\"acme\"} 1\n";
    until("the graph to run", || ask("/metrics", &token).contains(running));
    let found = samples(&lab, &ask("/metrics", &token));
    assert_eq!(found.get("weir_nodes{state=\"online\"}"), Some(&3.0), "{found:?}");
    assert_eq!(found.get("weir_node_graphs{node=\"n1\"}"), Some(&2.0));
    assert!(found["weir_reconcile_seconds_count"] >= 3.0);
    // Those of a node, through its controller.
    let of_node = samples(&lab, &ask("/v1/nodes/n1/v1/metrics", &token));
    assert_eq!(of_node.get("weir_graphs{state=\"running\"}"), Some(&2.0), "{of_node:?}");

    let refused = ask("/v1/graphs", &token);
    assert!(refused.contains("good for reading metrics, and for nothing else"), "{refused}");
    let (key, public) = (lab.path("key"), lab.path("key.pub"));
    domain.weir(&["key", "new", &key]).ok();
    domain.weir(&["key", "add", "alice", &public, "--role", "read-only", "--tenant", "acme"]).ok();
    let pin = domain.weir(&["--json", "context", "show", "home"]).json();
    let pin = pin["fingerprint"].as_str().unwrap().to_owned();
    let url = "https://10.99.0.254:7443";
    domain.weir(&["context", "add", "alice", url, "--key", &key, "--fingerprint", &pin]).ok();
    let signed = domain.weir(&["sign", "GET", "/metrics", "--context", "alice"]).ok();
    let text = ask("/metrics", signed.trim());
    assert!(
        text.contains("graph=\"theirs\"") && !text.contains("own") && !text.contains("weir_node"),
        "{text}"
    );
    samples(&lab, &text);

    // A new token makes the one before worthless, and so does its removal.
    let second = domain.weir(&["key", "metrics"]).ok().trim().to_owned();
    assert!(ask("/metrics", &token).contains("not known here"));
    assert!(ask("/metrics", &second).contains("weir_graph_up"));
    domain.weir(&["key", "remove", "metrics"]).ok();
    assert!(ask("/metrics", &second).contains("not known here"));
    domain.weir(&["delete", "own"]).ok();
    domain.weir(&["delete", "theirs"]).ok();
    domain.stop_engines();
}
