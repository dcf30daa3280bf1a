//! What graphs say of themselves: measurements of real traffic, zones and alarms.

use serde_json::Value;

use crate::lab::{Lab, repository, until, until_pings};
use crate::node::Node;

/// The alarms of the example: topics and messages.
fn alarms(node: &Node<'_>) -> Vec<(String, String)> {
    let out = node.weir(&["events", "--json", "--graph", "monitored"]).ok();
    let events = out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let alarm = |e: Value| (text(&e["alarm"]["topic"]), text(&e["alarm"]["message"]));
    events.filter(|e| e["kind"] == "alarm").map(alarm).collect()
}

#[test]
fn load_raises_alarms_and_its_end_clears_them() {
    let lab = Lab::new(&["client", "node", "server"]);
    lab.link(("node", "lan"), ("client", "eth0"));
    lab.link(("node", "wan"), ("server", "eth0"));
    lab.ip("client", "addr add 10.0.0.1/24 dev eth0");
    lab.ip("server", "addr add 10.0.0.2/24 dev eth0");
    let example = repository().join("examples/monitoring.yaml");
    let text = std::fs::read_to_string(&example).unwrap();
    let page = std::fs::read_to_string(repository().join("docs/monitoring.md")).unwrap();
    let block = text.split_once("monitoring: |").unwrap().1;
    assert!(page.contains(block), "docs/monitoring.md shows another text than examples/monitoring.yaml");

    let node = Node::start_with(&lab, &["--stop-engine"]);
    node.weir(&["apply", example.to_str().unwrap()]).ok();
    let client = lab.ns("client");
    until_pings(&client, "10.0.0.2");
    until("the calm zone", || node.weir(&["ps"]).ok().contains("running, in calm"));
    assert_eq!(alarms(&node), [], "nothing has happened");

    // About 6 Mbit/s, in bursts of one packet; a busy machine sends a fifth of that.
    let load = client.spawn(&["ping", "-q", "-i", "0.002", "-s", "1400", "10.0.0.2"]);
    let said = |topic: &str, message: &str| alarms(&node).contains(&(topic.to_owned(), message.to_owned()));
    until("an alarm", || said("alarms/lan", "the lan is busy"));
    until("an alarm of the risk", || said("alarms/scale", "add a replica"));
    let mut show = Value::Null;
    until("values of both measurements, in the busy zone", || {
        show = node.weir(&["show", "monitored", "--json"]).json();
        let value = |i: usize| show["monitoring"]["measurements"][i]["value"].as_f64();
        let zone = |name: &str| {
            let zones = show["monitoring"]["zones"].as_array().unwrap();
            zones.iter().find(|z| z["name"] == name).unwrap()["entered"].as_bool()
        };
        let risky = value(1).is_some_and(|risk| risk > 0.0 && risk <= 1.0);
        risky
            && value(0).is_some_and(|rate| rate > 100_000.0)
            && (zone("busy"), zone("calm")) == (Some(true), Some(false))
    });
    let shown = node.weir(&["show", "monitored"]).ok();
    assert!(shown.contains("overload.risk.rx") && shown.contains("entered"), "{shown}");
    drop(load);
    until("the end of the alarm", || said("alarms/lan", "the lan is calm again"));
    until("the end of the risk", || said("alarms/scale", "take a replica away"));

    // Each was said once.
    let all = alarms(&node);
    assert_eq!(all.iter().filter(|(_, m)| m == "the lan is busy").count(), 1, "{all:?}");

    // The same document with another load: the zones of a text that stayed are not entered anew.
    let before = alarms(&node).len();
    let again = lab.write("again.yaml", text.replace("a wire that is watched", "a wire"));
    node.weir(&["apply", &again]).ok();
    until("the graph", || node.weir(&["ps"]).ok().contains("running, in calm"));
    assert_eq!(alarms(&node).len(), before);
}

#[test]
fn mistakes_in_monitoring_are_refused_with_their_places() {
    let lab = Lab::new(&["node"]);
    let node = Node::start_with(&lab, &["--stop-engine"]);
    let text = std::fs::read_to_string(repository().join("examples/monitoring.yaml")).unwrap();
    let text = text.replace("rate.rx(sap = lan", "rate.rx(sap = lam").replace("calm->busy", "calm->bussy");
    let file = lab.write("bad.yaml", &text);
    for command in ["plan", "apply"] {
        let error = node.weir(&[command, &file]).fails(1);
        assert!(error.contains("line 11, column 3 of it: there is no zone \"bussy\""), "{error}");
    }
    let file = lab.write("bad.yaml", text.replace("calm->bussy", "calm->busy"));
    let error = node.weir(&["apply", &file]).fails(1);
    assert!(error.contains("no access point \"lam\"") && error.contains("known here: lan, wan"), "{error}");
    let zones: String = (0..10_000).map(|i| format!("    z{i} = 1 < 2;\n")).collect();
    let many = text.replace("  zones {\n", &format!("  zones {{\n{zones}"));
    let error = node.weir(&["apply", &lab.write("many.yaml", many)]).fails(1);
    assert!(error.contains("more than 1000 zones"), "{error}");
}
