//! `weir node` and the commands that talk to it: service graphs that start, change and end under traffic.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde_json::{Value, json};

use crate::lab::{Lab, Ns, Output, Process, WEIR, host, poll, repository, two_networks, until, until_pings};
use crate::traffic::{Stream, big_file, sha256, web_server};

const EXAMPLE: &str = "examples/firewall-nat.yaml";
/// A UDP port that the example's firewall allows.
const UDP_PORT: u16 = 5202;

/// A node in the namespace `node`, with its daemon.
pub struct Node<'a> {
    lab: &'a Lab,
    daemon: Process,
}

impl<'a> Node<'a> {
    /// Starts the daemon and waits until it answers. State that an earlier daemon left is taken up.
    pub fn start(lab: &'a Lab) -> Node<'a> {
        Node::start_with(lab, &[])
    }

    /// The same, with options.
    pub fn start_with(lab: &'a Lab, options: &[&str]) -> Node<'a> {
        let mut daemon = Node::spawn(lab, options);
        let answers = poll(200, || lab.ns("node").weir(&["ps"]).code == 0 || !daemon.runs());
        assert!(answers && daemon.runs(), "the node does not start: {}", daemon.stderr());
        until("the data plane", || daemon.stderr().contains("the data plane is process"));
        Node { lab, daemon }
    }

    pub fn spawn(lab: &Lab, options: &[&str]) -> Process {
        let (socket, store) = (lab.path("engine.sock"), lab.path("store/weir.db"));
        let command = ["node", "--socket", &socket, "--store", &store, "--images", "images"];
        lab.ns("node").spawn_in_network(&[&[WEIR], &command[..], options].concat())
    }

    /// Runs a command against the node.
    pub fn weir(&self, arguments: &[&str]) -> Output {
        self.lab.ns("node").weir(arguments)
    }

    /// Applies a document; has to succeed.
    #[track_caller]
    fn apply(&self, document: &str) -> String {
        let file = self.lab.write("graph.yaml", document);
        self.weir(&["apply", &file]).ok()
    }

    /// Applies a document that has to be refused, and gives the message. Nothing may have changed by it.
    #[track_caller]
    fn refuses(&self, document: &str) -> String {
        let before = self.state();
        let file = self.lab.write("refused.yaml", document);
        let message = self.weir(&["apply", &file]).fails(1);
        assert_eq!(self.state(), before, "something was changed by what was refused: {message}");
        message
    }

    /// What the node and the data plane say they run, once all of it is compiled.
    fn state(&self) -> (Value, Value) {
        let list = || self.data_plane(&json!({ "do": "list" }));
        until("all graphs are compiled", || !list().to_string().contains("interpreter"));
        (self.weir(&["--json", "ps"]).json(), list())
    }

    /// Asks the data plane itself, past the daemon.
    pub fn data_plane(&self, command: &Value) -> Value {
        self.ask_data_plane(command).unwrap()
    }

    /// The same, if it is there.
    fn ask_data_plane(&self, command: &Value) -> std::io::Result<Value> {
        let mut request = command.clone();
        request["id"] = 1.into();
        let mut socket = UnixStream::connect(self.lab.path("engine.sock"))?;
        writeln!(socket, "{request}")?;
        let mut line = String::new();
        BufReader::new(socket).read_line(&mut line)?;
        let reply: Value = serde_json::from_str(&line)?;
        Ok(reply["done"]["answer"].clone())
    }

    /// Waits until the data plane is another process.
    pub fn until_replaced(&self, pid: u64) {
        let hello = json!({ "do": "hello" });
        let other = |answer: Value| answer["pid"].as_u64().is_some_and(|now| now != pid);
        until("another data plane", || self.ask_data_plane(&hello).is_ok_and(other));
    }

    /// Process id of the data plane.
    pub fn data_plane_pid(&self) -> u64 {
        self.data_plane(&json!({ "do": "hello" }))["pid"].as_u64().unwrap()
    }

    /// How often a graph was swapped.
    pub fn swaps(&self, graph: &str) -> u64 {
        let list = self.data_plane(&json!({ "do": "list" }));
        let graphs = list["graphs"].as_array().unwrap();
        let graph =
            graphs.iter().find(|g| g["name"] == graph).unwrap_or_else(|| panic!("no {graph} in {list}"));
        graph["swaps"].as_u64().unwrap()
    }

    /// Number of NAT mappings of the example.
    fn mappings(&self) -> u64 {
        let text = self.weir(&["handler", "read", "firewall-nat", "nat", "mappings"]).ok();
        text.trim().parse().unwrap_or_else(|e| panic!("{e}: {text}"))
    }

    /// Ends the daemon as an operator does.
    pub fn end(self) -> Output {
        self.daemon.signal("TERM");
        self.daemon.wait()
    }

    /// What the daemon has logged.
    pub fn log(&self) -> String {
        self.daemon.stderr()
    }

    /// `kill -9`.
    pub fn crash(self) {
        self.daemon.signal("KILL");
        self.daemon.wait();
    }
}

/// The example document.
pub fn example() -> String {
    std::fs::read_to_string(repository().join(EXAMPLE)).unwrap()
}

/// The example document with port 8080 open as well.
fn changed() -> String {
    let changed = example().replace("allow tcp dst port 80 or", "allow tcp dst port 80 or 8080 or");
    assert_ne!(changed, example());
    changed
}

/// A node that runs the example between two networks.
pub fn example_node(lab: &Lab) -> Node<'_> {
    two_networks(lab);
    let node = Node::start(lab);
    let out = node.weir(&["apply", EXAMPLE]).ok();
    assert!(out.contains("firewall-nat") && out.contains("created"), "{out}");
    until_pings(&lab.ns("client"), "10.0.1.1");
    node
}

#[test]
fn a_data_plane_that_waits_awake_for_packets_sleeps_when_none_come() {
    let lab = Lab::new(&["client", "node", "server"]);
    two_networks(&lab);
    let node = Node::start_with(&lab, &["--busy-poll", "2000"]);
    node.weir(&["apply", EXAMPLE]).ok();
    let client = lab.ns("client");
    until_pings(&client, "10.0.1.1");
    let stat = format!("/proc/{}/stat", node.data_plane_pid());
    // In hundredths of a second (proc(5)).
    let taken = || -> u64 {
        let text = std::fs::read_to_string(&stat).unwrap();
        let fields: Vec<&str> = text.rsplit(')').next().unwrap().split_whitespace().collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    };
    let pings = client.run(&["ping", "-q", "-c", "1000", "-i", "0.001", "10.0.1.1"]).ok();
    assert!(pings.contains(" 0% packet loss"), "{pings}");
    std::thread::sleep(Duration::from_millis(200));
    let before = taken();
    std::thread::sleep(Duration::from_secs(2));
    let idle = taken() - before;
    assert!(idle < 50, "{idle} hundredths of a second in two seconds without packets");
    let error = lab.ns("node").weir(&["node", "--busy-poll", "2s"]).fails(2);
    assert!(error.contains("invalid value '2s' for '--busy-poll <MICROS>'"), "{error}");
    node.end();
}

/// A page of a web server.
pub fn page(client: &Ns, url: &str) -> Output {
    client.run(&["curl", "-sS", "--max-time", "10", url])
}

#[test]
fn a_graph_changes_under_its_connections() {
    let lab = Lab::alone(&["client", "node", "server"]);
    let node = example_node(&lab);
    let client = lab.ns("client");
    let (_, sum) = big_file(&lab, "file", 12_000_000);
    lab.write("index.html", "a page\n");
    let web = web_server(&lab, "server", 80, &lab.path(""));
    let _other = web_server(&lab, "server", 8080, &lab.path(""));
    assert_eq!(page(&client, "http://10.0.2.2/").ok(), "a page\n");
    assert!(web.stderr().lines().all(|l| l.starts_with("10.0.2.1 ")), "{}", web.stderr());
    let blocked = ["curl", "-sS", "--max-time", "1", "http://10.0.2.2:8080/"];
    client.run(&blocked).fails(28);

    let stream = Stream::start(&lab, "client", "server", "10.0.2.2", UDP_PORT, 2000);
    // A connection that goes on for about four seconds.
    let got = lab.path("got");
    let download = client.spawn(&[
        "curl",
        "-sS",
        "--limit-rate",
        "3M",
        "--max-time",
        "50",
        "-o",
        &got,
        "http://10.0.2.2/file",
    ]);
    until("the download", || std::fs::metadata(&got).is_ok_and(|m| m.len() > 0));
    let mappings = node.mappings();
    assert!(mappings >= 3, "{mappings}");

    let file = lab.write("changed.yaml", changed());
    let plan = node.weir(&["plan", &file]).ok();
    assert!(
        plan.contains("~ function firewall") && plan.contains("kept") && !plan.contains("lost"),
        "{plan}"
    );
    assert_eq!(node.swaps("firewall-nat"), 0, "a plan changes nothing");
    let out = node.apply(&changed());
    assert!(out.contains("changed"), "{out}");
    assert!(node.mappings() >= mappings);
    assert_eq!(page(&client, "http://10.0.2.2:8080/").ok(), "a page\n");
    assert_eq!(node.swaps("firewall-nat"), 1);
    assert!(node.apply(&changed()).contains("unchanged"));
    assert_eq!(node.swaps("firewall-nat"), 1, "the same document again is no swap");

    download.wait().ok();
    assert_eq!(sha256(&got), sum, "the connection lived through the change");
    let r = stream.all_came_once();
    assert_eq!(r.sources, ["10.0.2.1"]);
    for device in ["lan", "wan"] {
        let features = lab.ns("node").run(&["ethtool", "-k", device]).ok();
        assert!(features.contains("tcp-segmentation-offload: on"), "{features}");
    }
}

#[test]
fn fifty_hot_swaps_lose_nothing() {
    let lab = Lab::alone(&["client", "node", "server"]);
    let node = example_node(&lab);
    let files = [lab.write("a.yaml", example()), lab.write("b.yaml", changed())];
    let stream = Stream::start(&lab, "client", "server", "10.0.2.2", UDP_PORT, 2000);
    for i in 1..=50 {
        node.weir(&["apply", &files[i % 2]]).ok();
    }
    stream.all_came_once();
    assert_eq!(node.swaps("firewall-nat"), 50);
    assert_eq!(node.mappings(), 1);
}

#[test]
fn a_killed_daemon_costs_no_packet_and_takes_up_what_runs() {
    let lab = Lab::alone(&["client", "node", "server"]);
    let node = example_node(&lab);
    node.apply(&changed());
    let stream = Stream::start(&lab, "client", "server", "10.0.2.2", UDP_PORT, 2000);
    let (pid, ps) = (node.data_plane_pid(), node.weir(&["--json", "ps"]).json());
    node.crash();
    let e = lab.ns("node").weir(&["ps"]).fails(3);
    assert!(e.contains("127.0.0.1:7400"), "{e}");

    let node = Node::start(&lab);
    assert_eq!(node.data_plane_pid(), pid, "the data plane is the same process");
    until("it is known to run", || node.weir(&["--json", "ps"]).json() == ps);
    assert_eq!(node.swaps("firewall-nat"), 1, "what runs was not loaded again");
    assert_eq!(node.mappings(), 1);
    // It is managed again, not only seen.
    node.apply(&example());
    assert_eq!(node.swaps("firewall-nat"), 2);
    stream.all_came_once();
}

#[test]
fn a_killed_data_plane_is_started_again() {
    let lab = Lab::new(&["client", "node", "server"]);
    let node = example_node(&lab);
    let pid = node.data_plane_pid();
    host(&["kill", "-9", &pid.to_string()]).ok();
    until_pings(&lab.ns("client"), "10.0.1.1");
    assert_ne!(node.data_plane_pid(), pid);
    until("it is known to run", || node.weir(&["--json", "ps"]).json()[0]["state"] == "running");
}

/// A transparent firewall of a tenant between two VLANs of the trunk.
fn tenant(name: &str, client_vlan: u16, server_vlan: u16) -> String {
    format!(
        r#"
id: {name}
name: network of {name}
SFs:
  - id: fw
    name: firewall
    ports: [{{id: inside}}, {{id: outside}}]
    params: {{RULES: "allow icmp, allow udp, allow tcp dst port 80, deny all"}}
saps:
  - {{id: client, type: vlan, vlan: {{vlan-id: {client_vlan}, if-name: trunk}}}}
  - {{id: server, type: vlan, vlan: {{vlan-id: {server_vlan}, if-name: trunk}}}}
flowrules:
  - {{id: r1, priority: 1, match: {{port_in: "sap:client"}}, actions: {{output_to_port: "sf:fw:inside"}}}}
  - {{id: r2, priority: 1, match: {{port_in: "sf:fw:inside"}}, actions: {{output_to_port: "sap:client"}}}}
  - {{id: r3, priority: 1, match: {{port_in: "sf:fw:outside"}}, actions: {{output_to_port: "sap:server"}}}}
  - {{id: r4, priority: 1, match: {{port_in: "sap:server"}}, actions: {{output_to_port: "sf:fw:outside"}}}}
"#
    )
}

#[test]
fn tenants_with_the_same_addresses_are_kept_apart() {
    const PORTS: [(&str, u16); 4] =
        [("a-client", 101), ("a-server", 102), ("b-client", 201), ("b-server", 202)];
    let mut lab = Lab::alone(&["node", "switch"]);
    lab.link(("node", "trunk"), ("switch", "trunk"));
    // A switch with four access ports and a trunk: this kernel has no VLAN devices, so Weir is the switch as well.
    let mut config =
        "trunk :: Queue(10000) -> ToDevice(trunk); FromDevice(trunk, PROMISC true) -> vlan :: Classifier("
            .to_owned();
    config.extend(PORTS.map(|(_, id)| format!("12/8100 14/{id:04x}%0fff, ")));
    config.push_str("-); vlan [4] -> Discard;\n");
    for (i, (name, id)) in PORTS.into_iter().enumerate() {
        lab.namespace(name);
        lab.link(("switch", name), (name, "eth0"));
        let host = if name.ends_with("client") { 1 } else { 2 };
        lab.ip(name, &format!("addr add 10.0.0.{host}/24 dev eth0"));
        config.push_str(&format!(
            "FromDevice({name}, PROMISC true) -> VLANEncap({id}) -> trunk;\n\
             vlan [{i}] -> VLANDecap -> Queue -> ToDevice({name});\n"
        ));
    }
    let lab = lab;
    let mut switch = lab.ns("switch").spawn_weir(&["run", "-e", &config]);
    let node = Node::start(&lab);
    node.apply(&tenant("a", 101, 102));
    node.apply(&tenant("b", 201, 202));
    let web = ["a", "b"].map(|t| {
        std::fs::create_dir(lab.path(t)).unwrap();
        lab.write(&format!("{t}/index.html"), format!("the page of {t}\n"));
        until_pings(&lab.ns(&format!("{t}-client")), "10.0.0.2");
        web_server(&lab, &format!("{t}-server"), 80, &lab.path(t))
    });
    assert!(switch.runs(), "{}", switch.stderr());

    let dump = lab.ns("switch").spawn(&[
        "tcpdump",
        "-nel",
        "-i",
        "trunk",
        "--immediate-mode",
        "tcp[tcpflags] & tcp-syn != 0 or (vlan and tcp[tcpflags] & tcp-syn != 0)",
    ]);
    until("tcpdump", || dump.stderr().contains("listening on"));
    for t in ["a", "b"] {
        let client = lab.ns(&format!("{t}-client"));
        assert_eq!(page(&client, "http://10.0.0.2/").ok(), format!("the page of {t}\n"));
    }
    for id in [101, 102, 201, 202] {
        until(&format!("VLAN {id} on the wire"), || dump.stdout().contains(&format!("vlan {id},")));
    }
    dump.interrupt();
    for server in &web {
        assert_eq!(server.stderr().matches("GET /").count(), 1, "{}", server.stderr());
    }

    // One goes; the other's packets do not notice.
    let stream = Stream::start(&lab, "b-client", "b-server", "10.0.0.2", 5201, 2000);
    node.weir(&["delete", "a"]).ok();
    assert_ne!(
        lab.ns("a-client").run(&["ping", "-c3", "-i0.1", "-W1", "10.0.0.2"]).code,
        0,
        "graph a still forwards"
    );
    stream.all_came_once();
    assert_eq!(page(&lab.ns("b-client"), "http://10.0.0.2/").ok(), "the page of b\n");
    let ps = node.weir(&["--json", "ps"]).json();
    assert_eq!((ps.as_array().unwrap().len(), &ps[0]["id"]), (1, &json!("b")), "{ps}");
    assert!(node.weir(&["delete", "a"]).fails(1).contains("a"));

    // It comes again, on the other's VLAN: refused. On its own: taken.
    assert!(node.refuses(&tenant("a", 101, 202)).contains("202"));
    node.apply(&tenant("a", 101, 102));
    until_pings(&lab.ns("a-client"), "10.0.0.2");
}

#[test]
fn handlers_of_functions() {
    let lab = Lab::new(&["client", "node", "server"]);
    let node = example_node(&lab);
    let _web = web_server(&lab, "server", 80, &lab.path(""));
    page(&lab.ns("client"), "http://10.0.2.2/").ok();
    let hits = |n: &Node| n.weir(&["handler", "read", "firewall-nat", "firewall", "hits"]).ok();
    assert!(
        hits(&node).lines().next().unwrap().contains(|c: char| ('1'..='9').contains(&c)),
        "{}",
        hits(&node)
    );
    node.weir(&["handler", "write", "firewall-nat", "firewall", "reset"]).ok();
    let table = node.weir(&["handler", "read", "firewall-nat", "nat", "table"]).ok();
    assert!(table.contains("10.0.1.2") && table.contains("10.0.2.1"), "{table}");
    let e = node.weir(&["handler", "read", "firewall-nat", "nat", "mapings"]).fails(1);
    assert!(e.contains("mapings"), "{e}");
    assert!(
        node.weir(&["handler", "write", "firewall-nat", "nat", "mappings", "3"])
            .fails(1)
            .contains("mappings")
    );
    assert!(node.weir(&["handler", "read", "firewall-nat", "fire", "hits"]).fails(1).contains("fire"));
    let list = node.weir(&["handler", "list", "firewall-nat"]).ok();
    let row = |text: &str, words: [&str; 3]| text.lines().any(|l| l.split_whitespace().eq(words));
    assert!(row(&list, ["firewall", "hits", "r"]) && row(&list, ["nat", "table", "r"]), "{list}");
    let of_nat = node.weir(&["handler", "list", "firewall-nat", "nat"]).ok();
    assert!(row(&of_nat, ["nat", "mappings", "r"]) && !of_nat.contains("firewall"), "{of_nat}");
    assert!(node.weir(&["handler", "list", "firewall-nat", "nta"]).fails(1).contains("did you mean 'nat'?"));
    assert!(node.weir(&["handler", "read", "nothing", "nat", "mappings"]).fails(1).contains("nothing"));
}

#[test]
fn bad_documents_change_nothing() {
    let lab = Lab::new(&["client", "node", "server"]);
    let node = example_node(&lab);
    let good = example();
    let other = good.replace("id: firewall-nat", "id: other").replace("if-name: lan", "if-name: spare");
    for (what, document, words) in [
        ("a change with a duplicate rule", good.replace("id: r2", "id: r1"), &["r1"][..]),
        ("a change with a duplicate function", good.replace("id: nat\n", "id: firewall\n"), &["firewall"]),
        ("a change with an unknown image", good.replace("name: nat\n", "name: natt\n"), &["natt"]),
        ("a change with wrong rules", good.replace("deny all\"", "deny everything\""), &["everything"]),
        ("a change to an unknown interface", good.replace("if-name: lan", "if-name: nosuch0"), &["nosuch0"]),
        ("malformed YAML", good.replace("SFs:", "SFs: ["), &["line"]),
        (
            "a new graph with an unknown interface",
            other.replace("spare", "nosuch0").replace("if-name: wan", "if-name: spare"),
            &["nosuch0"],
        ),
        ("an interface in use", good.replace("id: firewall-nat", "id: other"), &["lan", "firewall-nat"]),
        ("one of two interfaces in use", other, &["wan", "firewall-nat"]),
        ("nothing", String::new(), &["empty"]),
    ] {
        lab.ip("node", "link add spare type veth peer name spare-peer");
        let e = node.refuses(&document);
        assert!(words.iter().all(|w| e.contains(w)), "{what}: {e}");
        lab.ip("node", "link del spare");
    }
    until_pings(&lab.ns("client"), "10.0.1.1");
    assert!(node.weir(&["apply", "/nowhere/graph.yaml"]).fails(3).contains("/nowhere/graph.yaml"));
}

#[test]
fn a_node_says_why_it_cannot_start() {
    let lab = Lab::new(&["node"]);
    let node = Node::start(&lab);
    // The same address again.
    let (socket, store) = (lab.path("2.sock"), lab.path("2.db"));
    let e = node.weir(&["node", "--socket", &socket, "--store", &store]);
    assert!(e.code == 1 || e.code == 3, "{e:?}");
    assert!(e.stderr.contains("127.0.0.1:7400") && e.stderr.contains("in use"), "{}", e.stderr);
    // The same store again.
    let e = node.weir(&[
        "node",
        "--listen",
        "127.0.0.1:7401",
        "--socket",
        &socket,
        "--store",
        &lab.path("store/weir.db"),
    ]);
    assert!(e.code == 1 || e.code == 3, "{e:?}");
    assert!(e.stderr.contains("weir.db"), "{}", e.stderr);
    // A store that is none.
    let text = lab.write("text.db", "this is no store, whatever its name says\n".repeat(100));
    let e = node.weir(&["node", "--listen", "127.0.0.1:7401", "--socket", &socket, "--store", &text]);
    assert!(e.code == 1 || e.code == 3, "{e:?}");
    assert!(e.stderr.contains("text.db"), "{}", e.stderr);
    assert!(node.weir(&["ps"]).ok().contains("no graphs"));
}

#[test]
fn a_full_disk_is_an_error_and_no_more() {
    let lab = Lab::new(&["client", "node", "server"]);
    let disk = lab.path("store");
    std::fs::create_dir(&disk).unwrap();
    host(&["mount", "-t", "tmpfs", "-o", "size=1m", "weir-test", &disk]).ok();
    let node = example_node(&lab);
    let filler = format!("{disk}/filler");
    _ = host(&["dd", "if=/dev/zero", &format!("of={filler}"), "bs=4k", "count=1000"]);
    // What the store has allocated already takes some changes yet.
    let files = [lab.write("a.yaml", changed()), lab.write("b.yaml", example())];
    let mut before = node.state();
    let refused = (0..100).find_map(|i| {
        let file = &files[i % 2];
        let o = node.weir(&["apply", file]);
        if o.code != 0 {
            return Some((o, file));
        }
        before = node.state();
        None
    });
    let (o, file) = refused.expect("the disk is full, and every change is taken");
    let e = o.fails(1);
    assert!(e.contains("full"), "{e}");
    assert_eq!(node.state(), before, "something was changed by what was refused");
    until_pings(&lab.ns("client"), "10.0.1.1");

    // Space again: the same document is taken.
    std::fs::remove_file(&filler).unwrap();
    let swaps = node.swaps("firewall-nat");
    assert!(node.weir(&["apply", file]).ok().contains("changed"));
    assert_eq!(node.swaps("firewall-nat"), swaps + 1);
}
