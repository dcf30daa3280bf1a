//! A domain: a controller and three nodes, each in a network namespace of its own, with a host at each.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::lab::{Lab, Ns, Output, Process, WEIR, host as everywhere, poll, repository, until, until_pings};
use crate::traffic::Stream;

pub(crate) const CONTROLLER: &str = "https://10.99.0.254:7443";

/// Over three nodes: hosts at n1 and n3, and a firewall at n2.
pub(crate) const SPAN: &str = "
id: span
name: over three nodes
SFs:
  - {id: fw, name: firewall, node: n2, ports: [{id: inside}, {id: outside}]}
saps:
  - {id: a, type: interface, node: n1, interface: {if-name: lan}}
  - {id: b, type: interface, node: n3, interface: {if-name: lan}}
flowrules:
  - {id: a, priority: 1, match: {port_in: 'sap:a'}, actions: {output_to_port: 'sf:fw:inside'}}
  - {id: b, priority: 1, match: {port_in: 'sf:fw:outside'}, actions: {output_to_port: 'sap:b'}}
  - {id: c, priority: 1, match: {port_in: 'sap:b'}, actions: {output_to_port: 'sf:fw:outside'}}
  - {id: d, priority: 1, match: {port_in: 'sf:fw:inside'}, actions: {output_to_port: 'sap:a'}}
requirements:
  - can a b tcp
";

/// On one node: its two interfaces joined.
pub(crate) const WIRE: &str = "
id: wire
name: wire
saps:
  - {id: l, type: interface, interface: {if-name: lan}}
  - {id: r, type: interface, interface: {if-name: wan}}
flowrules:
  - {id: a, priority: 1, match: {port_in: 'sap:l'}, actions: {output_to_port: 'sap:r'}}
  - {id: b, priority: 1, match: {port_in: 'sap:r'}, actions: {output_to_port: 'sap:l'}}
";

pub(crate) const NODES: [&str; 3] = ["n1", "n2", "n3"];

pub(crate) fn lab(alone: bool) -> Lab {
    let names = ["control", "n1", "n2", "n3", "h1", "h2", "h3"];
    let lab = if alone { Lab::alone(&names) } else { Lab::new(&names) };
    lab.ip("control", "link add br0 type bridge");
    lab.ip("control", "addr add 10.99.0.254/24 dev br0");
    lab.ip("control", "link set br0 up");
    for (i, node) in NODES.iter().enumerate() {
        let (i, port) = (i + 1, format!("p{}", i + 1));
        lab.link((node, "m0"), ("control", &port));
        lab.ip("control", &format!("link set {port} master br0"));
        lab.ip(node, &format!("addr add 10.99.0.{i}/24 dev m0"));
        let host = format!("h{i}");
        lab.link((node, "lan"), (&host, "eth0"));
        lab.link((node, "wan"), (&host, "eth1"));
        lab.ip(&host, &format!("addr add 10.1.0.{i}/24 dev eth0"));
    }
    lab
}

/// What stands behind a text in what a program wrote.
fn printed(process: &Process, before: &str) -> String {
    until(before, || process.stderr().contains(before));
    let text = process.stderr();
    let rest = text.split_once(before).map_or("", |(_, rest)| rest);
    rest.split_whitespace().next().unwrap_or_default().to_owned()
}

/// A controller, with an operator's context.
pub(crate) struct Domain<'l> {
    lab: &'l Lab,
    controller: Process,
    token: String,
}

impl<'l> Domain<'l> {
    pub(crate) fn start(lab: &'l Lab) -> Domain<'l> {
        Domain::start_with(lab, &[])
    }

    pub(crate) fn start_with(lab: &'l Lab, options: &[&str]) -> Domain<'l> {
        let controller = Domain::spawn(lab, options);
        let (token, pin) = (printed(&controller, "admin token: "), printed(&controller, "pin="));
        let domain = Domain { lab, controller, token: token.clone() };
        domain.weir(&["context", "add", "home", CONTROLLER, "--token", &token, "--fingerprint", &pin]).ok();
        domain
    }

    fn spawn(lab: &Lab, options: &[&str]) -> Process {
        let store = lab.path("controller.db");
        // A test may have moves wait.
        let moves = format!("WEIR_TEST_MOVES={}", lab.path("."));
        let command = ["env", &moves, WEIR, "controller", "--listen", "10.99.0.254:7443", "--store", &store];
        let controller = lab.ns("control").spawn_in_network(&[&command[..], options].concat());
        until("the controller", || controller.stderr().contains("the controller listens"));
        controller
    }

    /// Kills the controller, and starts it again.
    pub(crate) fn restart(&mut self, options: &[&str]) {
        self.controller.kill();
        self.controller = Domain::spawn(self.lab, options);
    }

    /// What the controller wrote to its log.
    pub(crate) fn said(&self) -> String {
        self.controller.stderr()
    }

    /// What the controller shows clients to be known by.
    pub(crate) fn pin(&self) -> String {
        printed(&self.controller, "pin=")
    }

    /// The admin's token.
    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    pub(crate) fn weir(&self, arguments: &[&str]) -> Output {
        self.lab.ns("control").weir(arguments)
    }

    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        self.weir(&[&["--json"], arguments].concat()).json()
    }

    pub(crate) fn node(&self, name: &str, token: Option<&str>) -> Process {
        self.node_with(name, token, &[])
    }

    pub(crate) fn node_with(&self, name: &str, token: Option<&str>, options: &[&str]) -> Process {
        let (socket, store) = (self.lab.path(&format!("{name}.sock")), self.lab.path(&format!("{name}.db")));
        let command = [WEIR, "node", "--socket", &socket, "--store", &store, "--images", "images"];
        let join = ["--join", CONTROLLER, "--name", name];
        let own = self.lab.path("images");
        let own = Path::new(&own).is_dir().then_some(["--images", own.as_str()]);
        let own = own.as_ref().map_or(&[][..], |o| &o[..]);
        let token = token.map(|t| ["--token", t]);
        let token = token.as_ref().map_or(&[][..], |t| &t[..]);
        self.lab.ns(name).spawn_in_network(&[&command[..], own, &join[..], token, options].concat())
    }

    pub(crate) fn join_all(&self) -> Vec<Process> {
        let token = self.weir(&["token", "--uses", "3"]).ok();
        let nodes = NODES.map(|n| self.node(n, Some(token.trim())));
        until("all nodes", || NODES.iter().all(|n| self.is_online(n) && self.knows(n)));
        nodes.into()
    }

    pub(crate) fn is_online(&self, name: &str) -> bool {
        self.describe(name)["state"] == "online"
    }

    /// Whether the node has said what it has.
    pub(crate) fn knows(&self, name: &str) -> bool {
        self.describe(name)["domain"]["endpoints"].is_array()
    }

    fn describe(&self, name: &str) -> Value {
        let out = self.weir(&["--json", "describe", "node", name]);
        if out.code == 0 { out.json() } else { Value::Null }
    }

    /// A file of the lab.
    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        self.lab.write(name, text)
    }

    pub(crate) fn apply(&self, document: &str, options: &[&str]) -> Output {
        let file = self.lab.write("graph.yaml", document);
        self.weir(&[&["apply", &file], options].concat())
    }

    /// State and nodes of each graph.
    pub(crate) fn ps(&self) -> Vec<(String, String, String)> {
        let list = self.json(&["ps"]);
        let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
        let graph = |g: &Value| (text(&g["id"]), text(&g["node"]), text(&g["state"]));
        list.as_array().unwrap().iter().map(graph).collect()
    }

    /// The graphs that a node has, as it says itself.
    pub(crate) fn at(&self, node: &str) -> Vec<String> {
        let list = self.lab.ns(node).weir(&["--json", "ps", "--node", "http://127.0.0.1:7400"]).json();
        list.as_array().unwrap().iter().map(|g| g["id"].as_str().unwrap().to_owned()).collect()
    }

    pub(crate) fn stop_engines(&self) {
        for name in NODES {
            let socket = self.lab.path(&format!("{name}.sock"));
            _ = self.lab.ns(name).weir(&["engine", "--stop", "--socket", &socket]);
        }
    }
}

fn host<'l>(lab: &'l Lab, name: &str) -> Ns<'l> {
    lab.ns(name)
}

#[test]
fn nodes_join_and_a_graph_goes_to_one_of_them() {
    let lab = lab(false);
    let domain = Domain::start(&lab);
    assert!(domain.weir(&["get", "nodes"]).ok().contains("weir token"));
    let e = domain.apply(WIRE, &[]).fails(1);
    assert!(e.contains("the domain has no nodes"), "{e}");
    // What is wrong about joining is said by the node, which ends.
    let wrong = [("text", "it has the form SECRET@sha256:PIN"), ("", "the token is not one")];
    for (token, what) in wrong {
        let out = domain.node("n1", Some(token)).wait();
        assert!(out.code != 0 && out.stderr.contains(what), "{}", out.stderr);
    }
    assert!(domain.node("n1", None).wait().stderr.contains("has not joined"));
    let token = domain.weir(&["token"]).ok().trim().to_owned();
    let (secret, pin) = token.split_once('@').unwrap();
    let other = format!("{secret}@sha256:{}", "0".repeat(64));
    assert!(domain.node("n1", Some(&other)).wait().stderr.contains("its authority has another pin"));
    let unknown = format!("{}@{pin}", secret.chars().rev().collect::<String>());
    assert!(domain.node("n1", Some(&unknown)).wait().stderr.contains("token"));
    let mut n1 = domain.node("n1", Some(&token));
    until("n1", || domain.is_online("n1"));
    // The token was for one node.
    assert!(domain.node("n2", Some(&token)).wait().stderr.contains("used as often as it may be"));
    let token = domain.weir(&["token", "--uses", "2"]).ok().trim().to_owned();
    let [_n2, _n3] = ["n2", "n3"].map(|n| domain.node(n, Some(&token)));
    until("all nodes", || NODES.iter().all(|n| domain.is_online(n) && domain.knows(n)));
    let links = domain.json(&["get", "links"]);
    assert_eq!(links["links"].as_array().unwrap().len(), 3, "{links}");

    // Each has the interfaces: it goes where it is asked to go, else to the first, and stays.
    let plan = domain.json(&["plan", &lab.write("wire.yaml", WIRE)]);
    assert_eq!(plan["placement"]["nodes"][0], "n1", "{plan}");
    domain.apply(WIRE, &["--on", "n2"]).ok();
    assert_eq!(domain.ps(), [("wire".into(), "n2".into(), "running".into())]);
    domain.apply(&WIRE.replace("name: wire", "name: renamed"), &[]).ok();
    assert_eq!((domain.at("n1").len(), domain.at("n2")), (0, vec!["wire".to_owned()]));
    assert!(
        domain.apply(WIRE, &["--on", "n9"]).fails(1).contains("there is no node 'n9'; there are n1, n2, n3")
    );
    let e = domain.apply(&WIRE.replace("if-name: wan", "if-name: wam"), &[]).fails(1);
    assert!(e.contains("node n2: it has no interface 'wam'"), "{e}");
    // At the node itself it cannot be changed.
    let local = ["delete", "wire", "--node", "http://127.0.0.1:7400"];
    assert!(lab.ns("n2").weir(&local).fails(1).contains("is the controller's"));
    // What the node has refused changes nothing.
    let bad = WIRE.replace("id: wire", "id: bad")
        + "SFs:\n  - {id: f, name: firewall, params: {NO: 1}, ports: [a, b]}\n";
    let e = domain.apply(&bad, &[]).fails(1);
    assert!(e.contains("firewall has no parameter \"NO\""), "{e}");
    assert_eq!(domain.ps().len(), 1);

    // A second graph for these interfaces goes elsewhere; both move away from nodes that are drained.
    domain.apply(&WIRE.replace("id: wire", "id: other"), &[]).ok();
    assert_eq!(domain.ps()[0], ("other".into(), "n1".into(), "running".into()));
    domain.weir(&["drain", "n2"]).ok();
    assert_eq!(domain.ps()[1], ("wire".into(), "n3".into(), "running".into()));
    let e = domain.weir(&["drain", "n1"]).fails(1);
    assert!(e.is_empty(), "what stays is said with the rest: {e}");
    assert!(domain.weir(&["forget", "n1"]).fails(1).contains("is to run other"));
    domain.weir(&["delete", "other"]).ok();
    domain.weir(&["forget", "n1"]).ok();
    until("n1 is notified", || {
        let health = lab.ns("n1").run(&["curl", "-sS", "http://127.0.0.1:7400/v1/health"]).json();
        health["controller"]["trouble"].as_str().is_some_and(|t| t.contains("was removed from the domain"))
    });
    assert!(domain.weir(&["uncordon", "n1"]).fails(1).contains("there is no node 'n1'"));
    domain.weir(&["delete", "wire"]).ok();
    // With a token it joins again, as another node of that name.
    n1.interrupt();
    let token = domain.weir(&["token"]).ok();
    n1 = domain.node("n1", Some(token.trim()));
    until("n1 is back", || domain.is_online("n1"));
    // And its name need not be said again.
    n1.interrupt();
    let (socket, store) = (lab.path("n1.sock"), lab.path("n1.db"));
    let command = [WEIR, "node", "--socket", &socket, "--store", &store, "--images", "images"];
    let _n1 = lab.ns("n1").spawn_in_network(&[&command[..], &["--join", CONTROLLER]].concat());
    until("n1 is back", || domain.is_online("n1") && domain.knows("n1"));
    // A document and --on do not contradict each other, and a cordoned node gets no part of a graph.
    let there = WIRE.replace("name: wire", "name: wire\nnode: n1");
    assert!(domain.apply(&there, &["--on", "n3"]).fails(1).contains("the document names node 'n1'"));
    domain.weir(&["cordon", "n1"]).ok();
    domain.weir(&["uncordon", "n2"]).ok();
    let e = domain.apply(SPAN, &[]).fails(1);
    assert!(e.contains("it is cordoned"), "{e}");
    assert_eq!(domain.ps(), []);
    domain.stop_engines();
}

#[test]
fn a_graph_spans_nodes_and_is_seen_as_one() {
    let lab = lab(false);
    let domain = Domain::start(&lab);
    let _nodes = domain.join_all();
    // What is required is proved of the whole.
    let e = domain.apply(&SPAN.replace("can a b tcp", "never a b tcp"), &[]).fails(1);
    assert!(e.contains("violated: never a b tcp"), "{e}");
    assert!(NODES.iter().all(|n| domain.at(n).is_empty()), "nothing is left of it");
    let out = domain.apply(SPAN, &[]).ok();
    assert!(out.contains("VXLAN takes 50"), "{out}");
    assert_eq!(domain.ps(), [("span".into(), "n1, n2, n3".into(), "running".into())]);
    let (h1, h3) = (host(&lab, "h1"), host(&lab, "h3"));
    until_pings(&h1, "10.1.0.3");
    // The firewall lets nobody in from the other side.
    h3.run(&["ping", "-c", "1", "-W", "1", "10.1.0.1"]).fails(1);
    let status = domain.json(&["show", "span"]);
    let links: Vec<String> = status["links"]
        .as_array()
        .unwrap()
        .iter()
        .map(|l| format!("{} {}", l["from"].as_str().unwrap(), l["to"].as_str().unwrap()))
        .collect();
    assert_eq!(
        links,
        ["sap:a sf:fw:inside", "sf:fw:outside sap:b", "sf:fw:inside sap:a", "sap:b sf:fw:outside"]
    );
    assert_ne!(domain.weir(&["handler", "read", "span", "fw", "connections"]).ok().trim(), "0");
    // One packet through three machines is one trace.
    let options = ["-m", "icmp type echo", "--count", "1", "--for", "20"];
    let trace = lab.ns("control").spawn_weir(&[&["trace", "span"], &options[..]].concat());
    until("a trace", || {
        _ = h1.run(&["ping", "-c", "1", "-W", "1", "10.1.0.3"]);
        !trace.stdout().is_empty()
    });
    let trace = trace.wait().ok();
    let at: Vec<_> = NODES.iter().map(|n| trace.find(&format!("graph span at node {n}")).unwrap()).collect();
    assert!(at.is_sorted(), "{trace}");
    // And one capture has both ends.
    let file = lab.path("span.pcapng");
    let capture = lab.ns("control").spawn_weir(&["capture", "span", "-m", "icmp", "-w", &file]);
    until("a capture with both ends", || {
        _ = h1.run(&["ping", "-c", "1", "-W", "1", "10.1.0.3"]);
        // What is not whole yet is read as far as it goes.
        let seen = h1.run(&["tshark", "-r", &file, "-T", "fields", "-e", "frame.interface_name"]).stdout;
        seen.contains("sap:a") && seen.contains("sap:b")
    });
    capture.interrupt().ok();
    // It moves to one node, and nothing is left at the others.
    let here = SPAN
        .replace(", node: n2", "")
        .replace("node: n1, ", "")
        .replace("node: n3, interface: {if-name: lan}", "interface: {if-name: wan}");
    domain.apply(&here, &["--on", "n1"]).ok();
    assert_eq!(domain.ps(), [("span".into(), "n1".into(), "running".into())]);
    assert!(domain.at("n2").is_empty() && domain.at("n3").is_empty());
    domain.weir(&["delete", "span"]).ok();
    domain.stop_engines();
}

#[test]
fn nodes_and_the_controller_come_and_go_and_no_packet_is_lost() {
    let lab = lab(true);
    let mut domain = Domain::start(&lab);
    let mut nodes = domain.join_all();
    domain.apply(SPAN, &[]).ok();
    until_pings(&host(&lab, "h1"), "10.1.0.3");
    let stream = Stream::start(&lab, "h1", "h3", "10.1.0.3", 5300, 500);
    // A daemon is killed: it is seen to be gone, its part goes on, and it is taken up again.
    nodes[1].signal("KILL");
    until("n2 is gone", || !domain.is_online("n2"));
    assert!(domain.ps()[0].2.starts_with("degraded"), "{:?}", domain.ps());
    let e = domain.apply(&SPAN.replace("priority: 1", "priority: 2"), &[]).fails(1);
    assert!(e.contains("offline"), "{e}");
    // Meanwhile the controller is killed as well.
    domain.controller.signal("KILL");
    nodes[1] = domain.node("n2", None);
    until("n1 says that its controller is gone", || {
        let health = lab.ns("n1").run(&["curl", "-sS", "http://127.0.0.1:7400/v1/health"]).json();
        health["controller"]["connected"] == false
    });
    domain.controller = Domain::spawn(&lab, &[]);
    until("all nodes", || NODES.iter().all(|n| domain.is_online(n) && domain.knows(n)));
    assert_eq!(domain.ps(), [("span".into(), "n1, n2, n3".into(), "running".into())]);
    // The same again changes nothing at the nodes.
    assert!(domain.apply(SPAN, &[]).ok().contains("unchanged"));
    let received = stream.all_came_once();
    assert!(received.sent > 100, "{}", received.sent);

    // A node that is not there loses later what is deleted, and an old store changes nothing of that.
    let old = lab.path("n3.old");
    fs::copy(lab.path("n3.db"), &old).unwrap();
    nodes[2].signal("KILL");
    until("n3 is gone", || !domain.is_online("n3"));
    domain.weir(&["delete", "span"]).ok();
    assert_eq!(domain.ps(), []);
    fs::copy(&old, lab.path("n3.db")).unwrap();
    nodes[2] = domain.node("n3", None);
    until("n3 has lost it", || domain.is_online("n3") && domain.at("n3").is_empty());
    // Two with one certificate: the second is sent away, and hears why.
    let to = lab.path("copy.member");
    fs::create_dir_all(&to).unwrap();
    fs::copy(lab.path("n3.member/node.pem"), format!("{to}/node.pem")).unwrap();
    let (socket, store) = (lab.path("copy.sock"), lab.path("copy.db"));
    let command = [WEIR, "node", "--socket", &socket, "--store", &store, "--listen", "127.0.0.1:7401"];
    let join = ["--join", CONTROLLER, "--name", "n3"];
    let copy = lab.ns("n3").spawn_in_network(&[&command[..], &join[..]].concat());
    assert!(poll(500, || copy.stderr().contains("connected already")), "{}", copy.stderr());
    assert!(domain.is_online("n3"));
    copy.signal("TERM");
    _ = lab.ns("n3").weir(&["engine", "--stop", "--socket", &socket]);
    domain.stop_engines();
}

/// An older store: what was made since stays, what was changed or moved is not undone, what was deleted does not come back, and all of it is said.
#[test]
fn an_older_store_of_the_controller_undoes_nothing() {
    let lab = lab(false);
    let mut domain = Domain::start(&lab);
    let _nodes = domain.join_all();
    let graph = |id: &str, priority: u8| {
        WIRE.replace("id: wire", &format!("id: {id}"))
            .replace("priority: 1", &format!("priority: {priority}"))
    };
    let apply = |domain: &Domain<'_>, id: &str, priority: u8, node: &str| {
        domain.apply(&graph(id, priority), &["--on", node]).ok();
    };
    let (store, backup) = (lab.path("controller.db"), lab.path("backup"));
    apply(&domain, "same", 1, "n3");
    apply(&domain, "moved", 1, "n1");
    // While it runs.
    domain.weir(&["controller", "backup", &backup, "--store", &store]).ok();
    domain.weir(&["delete", "same"]).ok();
    apply(&domain, "moved", 1, "n2");
    apply(&domain, "new", 1, "n1");
    assert!(
        domain
            .weir(&["controller", "restore", &backup, "--store", &store])
            .fails(1)
            .contains("runs with the store")
    );
    domain.controller.kill();
    domain.weir(&["controller", "restore", &backup, "--store", &store]).ok();
    domain.controller = Domain::spawn(&lab, &[]);
    until("all nodes", || NODES.iter().all(|n| domain.is_online(n) && domain.knows(n)));
    let trouble = |node: &str| domain.describe(node)["trouble"].to_string();
    until("it is said", || {
        let [n1, n2, n3] = NODES.map(trouble);
        n1.contains("graph new:")
            && n1.contains("graph moved:")
            && n2.contains("graph moved:")
            && n3.contains("graph same:")
    });
    let at = || NODES.map(|n| domain.at(n));
    let named = |names: [&[&str]; 3]| names.map(|n| n.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>());
    assert_eq!(at(), named([&["new"], &["moved"], &[]]));
    // The operator says.
    domain.weir(&["delete", "same"]).ok();
    domain.weir(&["delete", "new"]).ok();
    apply(&domain, "moved", 1, "n2");
    until("it is as it was said", || at() == named([&[], &["moved"], &[]]));
    until("no trouble is left", || NODES.iter().all(|n| trouble(n) == "null" || trouble(n) == "[]"));
    // Another restart is nothing special.
    domain.controller.kill();
    domain.controller = Domain::spawn(&lab, &[]);
    until("all nodes", || NODES.iter().all(|n| domain.is_online(n) && domain.knows(n)));
    assert!(domain.apply(&graph("moved", 1), &["--on", "n2"]).ok().contains("unchanged"));
    domain.stop_engines();
}

#[test]
fn a_tenant_of_a_domain_has_its_own_graphs_and_no_others() {
    let lab = lab(false);
    let domain = Domain::start(&lab);
    let _nodes = domain.join_all();
    let key = lab.path("alice");
    domain.weir(&["key", "new", &key]).ok();
    domain.weir(&["tenant", "add", "acme", "--graphs", "1"]).ok();
    domain.weir(&["key", "add", "alice", &format!("{key}.pub"), "--role", "tenant", "--tenant", "acme"]).ok();
    let pin = printed(&domain.controller, "pin=");
    domain.weir(&["context", "add", "acme", CONTROLLER, "--key", &key, "--fingerprint", &pin]).ok();
    domain.weir(&["context", "use", "home"]).ok();
    let alice = |arguments: &[&str]| domain.weir(&[arguments, &["--context", "acme"]].concat());
    domain.apply(&WIRE.replace("id: wire", "id: secret"), &["--on", "n1"]).ok();
    let own = lab.write("own.yaml", WIRE);
    alice(&["apply", &own, "--on", "n2"]).ok();
    assert_eq!(domain.json(&["ps"])[1]["tenant"], "acme");
    let list = alice(&["ps"]).ok();
    assert!(list.contains("wire") && !list.contains("secret"), "{list}");
    assert!(alice(&["show", "secret"]).fails(1).contains("there is no graph 'secret'"));
    let second = lab.write("second.yaml", WIRE.replace("id: wire", "id: second"));
    assert!(alice(&["apply", &second, "--on", "n3"]).fails(1).contains("quota"));
    for forbidden in [&["get", "nodes"][..], &["token"], &["drain", "n1"], &["events", "--graph", "secret"]] {
        let out = alice(forbidden);
        assert!(out.code != 0 || !out.stdout.contains("secret"), "{forbidden:?}: {}", out.stdout);
    }
    assert!(!alice(&["events"]).ok().contains("secret"));
    alice(&["delete", "wire"]).ok();
    // A node's certificate is no login.
    let pem = lab.path("n1.member/node.pem");
    let curl = ["curl", "-sk", "--cert", &pem, "--key", &pem, "-o", "/dev/null", "-w", "%{http_code}"];
    let graphs = format!("{CONTROLLER}/v1/graphs");
    let status = lab.ns("n1").run(&[&curl[..], &[&graphs]].concat()).ok();
    assert_eq!(status, "401");
    domain.weir(&["delete", "secret"]).ok();
    domain.stop_engines();
}

#[test]
fn the_example_of_the_manual_does_what_it_says() {
    let lab = Lab::new(&[]);
    let (program, folder) = (format!("WEIR={WEIR}"), format!("TMPDIR={}", lab.path("")));
    let run = repository().join("examples/domain/run");
    let out = everywhere(&["env", &program, &folder, "timeout", "-k", "10", "180", run.to_str().unwrap()]);
    let said = out.ok();
    assert_eq!(everywhere(&["pgrep", "-f", &lab.path("tmp")]).stdout, "", "it leaves no program behind");
    for part in [
        "three machines",
        "0% packet loss",
        "the firewall lets nobody in",
        "placed anew: node 'n2' is lost",
        "== done",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

/// A graph that lets everything through, and what the operator requires of it.
#[test]
fn policies_hold_for_what_runs_and_for_what_comes() {
    let lab = lab(false);
    let domain = Domain::start(&lab);
    let _nodes = domain.join_all();
    domain.apply(WIRE, &["--on", "n2"]).ok();
    domain.apply(&SPAN.replace("requirements:\n  - can a b tcp\n", ""), &[]).ok();
    // What is wrong about a policy is said; what runs and does not hold it stands against it.
    let e = domain.weir(&["policy", "set", "x", "--require", "can * * tcp"]).fails(1);
    assert!(e.contains("require[0]: 'can * * tcp' is nothing to require of every graph"), "{e}");
    let mail = ["policy", "set", "no-mail", "--require", "never * * tcp dst port 25"];
    let e = domain.weir(&mail).fails(1);
    assert!(
        e.contains("graph 'wire', policy 'no-mail'")
            && e.contains("violated: never sap:l sap:r tcp dst port 25"),
        "{e}"
    );
    assert!(e.contains("graph 'span'"), "the firewall of the graph over three nodes lets it out: {e}");
    assert!(domain.weir(&["policy", "list"]).ok().contains("no policies"));
    domain.weir(&["delete", "span"]).ok();
    // With --keep they stay, and cannot be changed until they hold it.
    domain.weir(&[&mail[..], &["--keep"]].concat()).ok();
    let e = domain.apply(&WIRE.replace("name: wire", "name: renamed"), &[]).fails(1);
    assert!(e.contains("policy 'no-mail'") && e.contains("violated"), "{e}");
    let e = domain.apply(&WIRE.replace("id: wire", "id: other"), &["--on", "n1"]).fails(1);
    assert!(e.contains("policy 'no-mail'"), "{e}");
    let plan =
        domain.weir(&["plan", &lab.write("other.yaml", WIRE.replace("id: wire", "id: other"))]).fails(1);
    assert!(plan.contains("policy 'no-mail'"), "{plan}");
    let filter = "actions: {output_to_port: 'sap:r'}}\n  - {id: mail, priority: 2, match: {port_in: 'sap:l', filter: 'tcp dst port 25'}, actions: {drop: true}}\n  - {id: back, priority: 2, match: {port_in: 'sap:r', filter: 'tcp dst port 25'}, actions: {drop: true}}";
    let without = WIRE.replacen("actions: {output_to_port: 'sap:r'}}", filter, 1);
    domain.apply(&without, &[]).ok();
    assert!(
        !domain.weir(&["show", "wire", "--document"]).stdout.contains("never"),
        "the document is as it was written"
    );
    assert_eq!(domain.json(&["policy", "list"])[0]["graphs"], 1);
    // Of the tenants of one kind alone.
    domain.weir(&["policy", "remove", "no-mail"]).ok();
    domain.weir(&["tenant", "add", "acme", "--kind", "third-party"]).ok();
    domain.weir(&["policy", "set", "third", "--kind", "third-party", "--require", "never * * udp"]).ok();
    domain.apply(&WIRE.replace("id: wire", "id: free"), &["--on", "n1"]).ok();
    let e = domain.apply(&WIRE.replace("id: wire", "id: acmes\ntenant: acme"), &["--on", "n3"]).fails(1);
    assert!(e.contains("policy 'third'"), "{e}");
    assert!(domain.weir(&["events"]).ok().contains("policy 'third' is set"));
    domain.stop_engines();
}
