//! What goes wrong in a domain: tenants that want the same at the same time, and links that come and go.

use std::thread::{scope, sleep};
use std::time::Duration;

use serde_json::Value;

use crate::domain::{self, CONTROLLER, Domain, SPAN};
use crate::lab::{Lab, Output, host, until, until_pings};

/// A native image that does nothing and may take 5 GB.
fn image(lab: &Lab) {
    let folder = lab.path("images/big");
    std::fs::create_dir_all(format!("{folder}/scripts")).unwrap();
    let text = "name: big\nkind: native\nports: [p]\nnative: {memory: 5 GB}\n";
    std::fs::write(format!("{folder}/function.yaml"), text).unwrap();
    std::fs::write(format!("{folder}/scripts/start"), "#!/bin/sh\n").unwrap();
    host(&["chmod", "+x", &format!("{folder}/scripts/start")]).ok();
}

/// A graph of one function at a VLAN.
fn graph(id: &str, vlan: u16) -> String {
    format!(
        "id: {id}\nname: {id}\nSFs: [{{id: f, ports: [p], name: big}}]\nsaps:\n  \
         - {{id: lan, type: vlan, vlan: {{vlan-id: {vlan}, if-name: lan}}}}\nflowrules:\n  \
         - {{id: a, priority: 1, match: {{port_in: 'sap:lan'}}, actions: {{output_to_port: 'sf:f:p'}}}}\n"
    )
}

#[test]
fn of_two_tenants_that_race_for_the_last_memory_one_gets_it() {
    let lab = domain::lab(false);
    image(&lab);
    let domain = Domain::start(&lab);
    let token = domain.weir(&["token"]).ok();
    let _n1 = domain.node_with("n1", Some(token.trim()), &["--memory", "8000"]);
    until("n1", || domain.is_online("n1") && domain.knows("n1"));
    let tenants = ["one", "two"].map(|name| (name, format!("{}-{name}", lab.name("g"))));
    for (name, _) in &tenants {
        let key = lab.path(name);
        domain.weir(&["key", "new", &key]).ok();
        domain.weir(&["tenant", "add", name]).ok();
        domain.weir(&["key", "add", name, &format!("{key}.pub"), "--role", "tenant", "--tenant", name]).ok();
        let pin = domain.pin();
        domain.weir(&["context", "add", name, CONTROLLER, "--key", &key, "--fingerprint", &pin]).ok();
    }
    domain.weir(&["context", "use", "home"]).ok();
    for round in 0..3 {
        let apply = |i: usize| {
            let (name, id) = &tenants[i];
            let file = lab.write(&format!("{name}.yaml"), graph(id, 10 + i as u16));
            domain.weir(&["apply", &file, "--context", name])
        };
        let [first, second]: [Output; 2] = scope(|s| {
            let both = [s.spawn(|| apply(0)), s.spawn(|| apply(1))];
            both.map(|one| one.join().unwrap())
        });
        let (got, other) = if first.code == 0 { (0, second) } else { (1, first) };
        let e = other.fails(1);
        assert!(e.contains("memory"), "round {round}: {e}");
        assert!(!e.contains(&tenants[got].1), "whose graph has it is not said: {e}");
        let (_, id) = &tenants[got];
        assert_eq!(domain.ps(), [(id.clone(), "n1".to_owned(), "running".to_owned())]);
        assert_eq!(domain.at("n1"), [id.as_str()], "nothing of the other one is there");
        domain.weir(&["delete", id]).ok();
    }
    domain.stop_engines();
}

#[test]
fn a_node_whose_link_flaps_runs_on_and_has_what_was_accepted_last() {
    let lab = domain::lab(false);
    let domain = Domain::start(&lab);
    let _nodes = domain.join_all();
    domain.apply(SPAN, &[]).ok();
    until_pings(&lab.ns("h1"), "10.1.0.3");
    let data_plane = || {
        // The daemon and the data plane, by the socket in their command lines.
        host(&["pgrep", "-f", "--", &lab.path("n2.sock")]).stdout
    };
    let before = data_plane();
    assert!(!before.is_empty());
    let mut accepted = String::new();
    for (n, down) in [100, 700, 1500, 300, 2500, 200, 1900, 50].into_iter().enumerate() {
        lab.ip("control", "link set p2 down");
        sleep(Duration::from_millis(down));
        lab.ip("control", "link set p2 up");
        let name = format!("version {n}");
        let out = domain.apply(&SPAN.replace("name: over three nodes", &format!("name: {name}")), &[]);
        if out.code == 0 {
            accepted = name;
        }
    }
    until("n2 is there", || domain.is_online("n2"));
    let last = SPAN.replace("name: over three nodes", "name: at last");
    until("a change is accepted", || domain.apply(&last, &[]).code == 0);
    let names = |list: Value| -> Vec<String> {
        list.as_array().unwrap().iter().map(|g| g["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(domain.json(&["ps"])), ["at last"], "after {accepted}");
    for node in domain::NODES {
        let at_node =
            || names(lab.ns(node).weir(&["--json", "ps", "--node", "http://127.0.0.1:7400"]).json());
        until("each has its part", || at_node() == ["at last"]);
    }
    until_pings(&lab.ns("h1"), "10.1.0.3");
    assert_eq!(data_plane(), before, "no process was started again");
    domain.weir(&["delete", "span"]).ok();
    domain.stop_engines();
}
