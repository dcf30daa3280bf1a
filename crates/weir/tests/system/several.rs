//! Several controllers of one domain, with their store in a real etcd: whoever is killed, paused or cut off, nothing accepted is lost, nothing is done
//! twice, and packets go on.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::scope;

use serde_json::Value;

use crate::domain::WIRE;
use crate::lab::{Lab, Output, Process, WEIR, poll, until};
use crate::traffic::Stream;

const CONTROLLERS: [&str; 3] = ["c1", "c2", "c3"];
const JOIN: &str = "https://10.99.0.11:7443,https://10.99.0.12:7443,https://10.99.0.13:7443";
const ETCD: &str = "etcd://10.99.0.20:2379";

/// A version of a graph that changes: at the second node, or at both.
fn version(graph: usize, number: usize) -> String {
    let (first, second) = (100 + 2 * graph, 101 + 2 * graph);
    let other = if number.is_multiple_of(2) { "n1" } else { "n2" };
    format!(
        "id: g{graph}\nname: v{number}\nsaps:
  - {{id: l, node: n2, type: vlan, vlan: {{vlan-id: {first}, if-name: m0}}}}
  - {{id: r, node: {other}, type: vlan, vlan: {{vlan-id: {second}, if-name: m0}}}}
flowrules:
  - {{id: a, priority: 1, match: {{port_in: 'sap:l'}}, actions: {{output_to_port: 'sap:r'}}}}
  - {{id: b, priority: 1, match: {{port_in: 'sap:r'}}, actions: {{output_to_port: 'sap:l'}}}}\n"
    )
}

/// A network with three controllers, etcd, and two nodes; two hosts at the first one.
fn lab() -> Lab {
    let lab = Lab::new(&["net", "op", "e", "c1", "c2", "c3", "n1", "n2", "h1", "h2"]);
    lab.ip("net", "link add br0 type bridge");
    lab.ip("net", "link set br0 up");
    let machines = [("n1", 1), ("n2", 2), ("c1", 11), ("c2", 12), ("c3", 13), ("e", 20), ("op", 99)];
    for (name, number) in machines {
        let port = format!("p{number}");
        lab.link((name, "m0"), ("net", &port));
        lab.ip("net", &format!("link set {port} master br0"));
        lab.ip(name, &format!("addr add 10.99.0.{number}/24 dev m0"));
    }
    lab.link(("n1", "lan"), ("h1", "eth0"));
    lab.link(("n1", "wan"), ("h2", "eth0"));
    lab.ip("h1", "addr add 10.1.0.1/24 dev eth0");
    lab.ip("h2", "addr add 10.1.0.2/24 dev eth0");
    lab
}

fn etcd(lab: &Lab) -> Process {
    let data = lab.path("etcd");
    let command = [
        "etcd",
        "--data-dir",
        &data,
        "--listen-client-urls",
        "http://10.99.0.20:2379",
        "--advertise-client-urls",
        "http://10.99.0.20:2379",
        "--listen-peer-urls",
        "http://127.0.0.1:2380",
        "--logger",
        "zap",
    ];
    lab.ns("e").spawn_in_network(&command)
}

fn controller(lab: &Lab, name: &str) -> Process {
    let listen = format!("10.99.0.1{}:7443", &name[1..]);
    lab.ns(name).spawn_in_network(&[WEIR, "controller", "--listen", &listen, "--store", ETCD])
}

fn node(lab: &Lab, name: &str, token: Option<&str>) -> Process {
    let (socket, store) = (lab.path(&format!("{name}.sock")), lab.path(&format!("{name}.db")));
    let command = [
        WEIR, "node", "--socket", &socket, "--store", &store, "--images", "images", "--join", JOIN, "--name",
        name,
    ];
    let token = token.map(|t| ["--token", t]);
    lab.ns(name).spawn_in_network(&[&command[..], token.as_ref().map_or(&[][..], |t| &t[..])].concat())
}

/// Where a controller is.
fn url(number: usize) -> String {
    format!("https://10.99.0.1{}:7443", number + 1)
}

fn word_after(text: &str, before: &str) -> String {
    let rest = text.split_once(before).map_or("", |(_, rest)| rest);
    rest.split_whitespace().next().unwrap_or_default().to_owned()
}

/// A domain of several controllers, and a context for each.
struct Several<'l> {
    lab: &'l Lab,
    controllers: Vec<Process>,
}

impl<'l> Several<'l> {
    fn start(lab: &'l Lab) -> Several<'l> {
        let controllers: Vec<Process> = CONTROLLERS.map(|c| controller(lab, c)).into();
        let all = || controllers.iter().map(Process::stderr).collect::<String>();
        until("a controller leads", || all().contains("this controller leads"));
        let (token, pin) = (word_after(&all(), "admin token: "), word_after(&all(), "pin="));
        assert_eq!(all().matches("admin token: ").count(), 1, "the first one says it, and no other");
        let several = Several { lab, controllers };
        for (i, name) in CONTROLLERS.iter().enumerate() {
            let command = ["context", "add", name, &url(i), "--token", &token, "--fingerprint", &pin];
            lab.ns("op").weir(&command).ok();
        }
        several
    }

    /// Asks one of them.
    fn ask(&self, at: usize, arguments: &[&str]) -> Output {
        // One that is cut off would keep the client waiting.
        self.lab
            .ns("op")
            .run(&[&["timeout", "10", WEIR], arguments, &["--context", CONTROLLERS[at]]].concat())
    }

    /// Asks one of them until there is one that leads: who waits too long for a processor loses that for a moment.
    fn ask_in_time(&self, at: usize, arguments: &[&str]) -> String {
        let mut said = None;
        until("a controller leads", || {
            let output = self.ask(at, arguments);
            let none = output.code == 1 && output.stderr.contains("no controller leads");
            said = Some(output);
            !none
        });
        said.map(Output::ok).unwrap_or_default()
    }

    /// The one that leads, as etcd has it.
    fn leader(&self) -> Option<usize> {
        let endpoint = format!("--endpoints={}", ETCD.replace("etcd", "http"));
        let command =
            ["env", "ETCDCTL_API=3", "etcdctl", &endpoint, "get", "/weir/leader", "--print-value-only"];
        let text = self.lab.ns("op").run(&command).stdout;
        let leader: Value = serde_json::from_str(&text).ok()?;
        (0..3).find(|i| leader["url"] == url(*i))
    }

    /// The nodes that are connected, if that one can say it.
    fn online(&self, at: usize) -> usize {
        let out = self.ask(at, &["--json", "get", "nodes"]);
        if out.code != 0 {
            return 0;
        }
        let nodes = out.json();
        nodes["nodes"].as_array().unwrap().iter().filter(|n| n["state"] == "online").count()
    }

    fn until_all_is_well(&self, but: Option<usize>) {
        for at in (0..3).filter(|at| Some(*at) != but) {
            until(&format!("both nodes, asked of {}", CONTROLLERS[at]), || self.online(at) == 2);
        }
    }
}

/// A request for a graph, and its result.
#[derive(Debug, Default)]
struct Asked {
    accepted: Vec<usize>,
    unknown: Vec<(usize, String)>,
}

/// Clients that change graphs, until it is over.
#[derive(Debug, Default)]
struct Clients {
    over: AtomicBool,
    accepted: [AtomicUsize; 2],
}

impl Clients {
    /// Changes a graph, asked of one controller after the other.
    fn change(&self, several: &Several<'_>, graph: usize) -> Asked {
        let mut asked = Asked::default();
        for number in 1.. {
            if self.over.load(Ordering::Relaxed) {
                break;
            }
            let file = several.lab.write(&format!("g{graph}.yaml"), version(graph, number));
            let message = format!("v{number}");
            let out = several.ask(number % 3, &["apply", &file, "--message", &message]);
            if out.code == 0 {
                asked.accepted.push(number);
                self.accepted[graph].fetch_add(1, Ordering::Relaxed);
            } else {
                asked.unknown.push((number, out.stderr));
            }
        }
        asked
    }

    /// Waits until more changes are accepted.
    fn until_more(&self, several: &Several<'_>) {
        let count = |g: usize| self.accepted[g].load(Ordering::Relaxed);
        let before = [count(0), count(1)];
        let standing = || {
            several
                .controllers
                .iter()
                .map(|c| c.stderr().lines().last().map(str::to_owned))
                .collect::<Vec<_>>()
        };
        let more = poll(6000, || (0..2).all(|g| count(g) > before[g]));
        assert!(more, "no change is accepted: {before:?}, {:?}", standing());
    }
}

/// What is there is the last that was accepted, or later and of unknown outcome; what was accepted is in the history once, and in order.
fn check(several: &Several<'_>, graph: usize, asked: &Asked) {
    let id = format!("g{graph}");
    let last = asked.accepted.last().copied().unwrap_or_default();
    let name = |at: &str| {
        let out = several.lab.ns(at).weir(&["--json", "ps", "--node", "http://127.0.0.1:7400"]).json();
        out.as_array().unwrap().iter().find(|g| g["id"] == id.as_str()).map(|g| g["name"].clone())
    };
    let shown = several.ask(0, &["--json", "ps"]).json();
    let stands = shown.as_array().unwrap().iter().find(|g| g["id"] == id.as_str()).unwrap().clone();
    let number: usize = stands["name"].as_str().unwrap()[1..].parse().unwrap();
    assert!(
        number == last || number > last && asked.unknown.iter().any(|(n, _)| *n == number),
        "{number} of {asked:?}"
    );
    until("the node runs what is wanted", || name("n2") == Some(stands["name"].clone()));
    let history = several.ask(1, &["--json", "history", &id]).json();
    let revisions = history["revisions"].as_array().unwrap();
    let messages: Vec<usize> =
        revisions.iter().rev().map(|r| r["message"].as_str().unwrap()[1..].parse().unwrap()).collect();
    assert!(
        messages.is_sorted() && messages.iter().collect::<BTreeSet<_>>().len() == messages.len(),
        "{messages:?}"
    );
    let kept = |n: &&usize| messages.first().is_some_and(|first| *n >= first);
    assert!(asked.accepted.iter().filter(kept).all(|n| messages.contains(n)), "{messages:?} of {asked:?}");
}

/// Changes go on while that is done, and are right in the end; packets do not notice.
fn under_changes(several: &mut Several<'_>, what: impl FnOnce(&mut Several<'_>, &Clients)) {
    let packets = Stream::start(several.lab, "h1", "h2", "10.1.0.2", 5000, 200);
    let clients = Clients::default();
    let other = Several { lab: several.lab, controllers: Vec::new() };
    let asked = scope(|s| {
        let changing = [0, 1].map(|graph| {
            let (other, clients) = (&other, &clients);
            s.spawn(move || clients.change(other, graph))
        });
        // Whatever goes wrong: clients end.
        let done = catch_unwind(AssertUnwindSafe(|| {
            clients.until_more(several);
            what(several, &clients);
            clients.until_more(several);
        }));
        clients.over.store(true, Ordering::Relaxed);
        let asked: Vec<Asked> = changing.into_iter().map(|c| c.join().unwrap()).collect();
        if let Err(e) = done {
            eprintln!("{asked:?}");
            resume_unwind(e);
        }
        asked
    });
    several.until_all_is_well(None);
    for (graph, asked) in asked.iter().enumerate() {
        check(several, graph, asked);
        several.ask_in_time(2, &["delete", &format!("g{graph}")]);
    }
    packets.all_came_once();
}

fn nodes(several: &Several<'_>) -> Vec<Process> {
    let token = several.ask_in_time(0, &["token", "--uses", "2"]);
    let nodes = ["n1", "n2"].map(|n| node(several.lab, n, Some(token.trim())));
    several.until_all_is_well(None);
    // Between the hosts of the first node.
    let file = several.lab.write("wire.yaml", format!("{WIRE}node: n1\n"));
    several.ask_in_time(1, &["apply", &file]);
    nodes.into()
}

fn stop(lab: &Lab) {
    for name in ["n1", "n2"] {
        _ = lab.ns(name).weir(&["engine", "--stop", "--socket", &lab.path(&format!("{name}.sock"))]);
    }
}

#[test]
fn whoever_leads_is_killed_or_paused() {
    let lab = lab();
    let _etcd = etcd(&lab);
    let mut several = Several::start(&lab);
    let _nodes = nodes(&several);
    under_changes(&mut several, |several, clients| {
        for _ in 0..2 {
            until("one leads", || several.leader().is_some());
            let at = several.leader().unwrap();
            several.controllers[at].kill();
            until("another one leads", || several.leader().is_some_and(|new| new != at));
            several.until_all_is_well(Some(at));
            clients.until_more(several);
            several.controllers[at] = controller(several.lab, CONTROLLERS[at]);
            several.until_all_is_well(None);
        }
        // One that is paused does not know that it does not lead any more.
        until("one leads", || several.leader().is_some());
        let at = several.leader().unwrap();
        several.controllers[at].signal("STOP");
        let others = || (0..3).filter(|i| *i != at).any(|i| several.online(i) == 2);
        until("another one leads", others);
        clients.until_more(several);
        several.controllers[at].signal("CONT");
    });
    stop(&lab);
}

#[test]
fn whoever_leads_is_cut_off_and_etcd_is_paused() {
    let lab = lab();
    let etcd = etcd(&lab);
    let mut several = Several::start(&lab);
    let _nodes = nodes(&several);
    under_changes(&mut several, |several, clients| {
        // From etcd alone: nodes and clients reach it still.
        until("one leads", || several.leader().is_some());
        let at = several.leader().unwrap();
        lab.ip(CONTROLLERS[at], "route add blackhole 10.99.0.20/32");
        until("another one leads", || several.leader().is_some_and(|new| new != at));
        several.until_all_is_well(Some(at));
        clients.until_more(several);
        lab.ip(CONTROLLERS[at], "route del blackhole 10.99.0.20/32");
        several.until_all_is_well(None);
        // From all.
        until("one leads", || several.leader().is_some());
        let at = several.leader().unwrap();
        let port = format!("p1{}", at + 1);
        lab.ip("net", &format!("link set {port} down"));
        until("another one leads", || (0..3).any(|i| i != at && several.online(i) == 2));
        clients.until_more(several);
        lab.ip("net", &format!("link set {port} up"));
        several.until_all_is_well(None);
        // Nobody leads while etcd is silent, and what runs goes on.
        etcd.signal("STOP");
        until("nobody leads", || (0..3).all(|at| several.online(at) == 0));
        etcd.signal("CONT");
        several.until_all_is_well(None);
    });
    stop(&lab);
}

/// What is in etcd becomes a file, and that a domain in etcd again, or in SQLite.
#[test]
fn a_backup_of_several_controllers_is_restored_by_one_command() {
    let lab = lab();
    let _etcd = etcd(&lab);
    let mut several = Several::start(&lab);
    let _nodes = nodes(&several);
    let (first, second) = (lab.path("first.weir"), lab.path("second.weir"));
    let at_etcd =
        |command: &[&str]| lab.ns("op").weir(&[&["controller"], command, &["--store", ETCD]].concat());
    assert!(at_etcd(&["backup", &first]).ok().contains("is a backup of the controller sha256:"));
    let later = lab.write("g0.yaml", version(0, 1));
    several.ask(0, &["apply", &later]).ok();
    assert!(at_etcd(&["restore", &first]).fails(1).contains("a controller leads"));
    several.controllers.iter_mut().for_each(Process::kill);
    until("the lease is over", || at_etcd(&["restore", &first]).code == 0);
    assert!(std::path::Path::new(&format!("{first}.before-1")).exists());
    several.controllers = CONTROLLERS.map(|c| controller(&lab, c)).into();
    several.until_all_is_well(None);
    let graphs = || -> Vec<Value> {
        several.ask(2, &["--json", "ps"]).json().as_array().unwrap().iter().map(|g| g["id"].clone()).collect()
    };
    assert_eq!(graphs(), ["wire"], "what came later is not known");
    until("what a node has of it is named", || several.ask(0, &["get", "nodes"]).ok().contains("g0"));
    several.ask(1, &["apply", &later]).ok();
    assert_eq!(graphs(), ["g0", "wire"]);
    // One controller with a file of its own has the same.
    at_etcd(&["backup", &second]).ok();
    drop(several);
    let store = lab.path("controller.db");
    lab.ns("op").weir(&["controller", "restore", &second, "--store", &store]).ok();
    let alone = [WEIR, "controller", "--listen", "10.99.0.11:7443", "--store", &store];
    let alone = Several { lab: &lab, controllers: vec![lab.ns("c1").spawn_in_network(&alone)] };
    until("both nodes", || alone.online(0) == 2);
    assert_eq!(alone.ask(0, &["--json", "ps"]).json().as_array().unwrap().len(), 2);
    stop(&lab);
}
