//! Functions that do not work although they have not ended, what was written to those that end, and images that are archives.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::functions::{BRIDGE, graph, graph_of, image, left, one_network, state};
use crate::lab::{Lab, host, poll, repository, until, until_pings};
use crate::node::Node;
use crate::processes::worker;

/// Looks in some twenty seconds: what hangs is started again after 15.
const PATIENCE: u32 = 1500;

fn signal(pid: i32, signal: Signal) {
    kill(Pid::from_raw(pid), signal).unwrap();
}

/// The state of the graph, as `ps` and as `show` have it.
fn states(node: &Node, lab: &Lab) -> [String; 2] {
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let list = node.weir(&["--json", "ps"]).json();
    let shown = node.weir(&["--json", "show", &lab.name("g")]).json();
    [text(&list[0]["state"]), text(&shown["state"])]
}

#[test]
fn a_process_that_hangs_is_told_and_started_again_if_that_lasts() {
    let lab = Lab::new(&["client", "node", "server"]);
    let (client, _server) = one_network(&lab);
    let node = Node::start(&lab);
    node.weir(&["apply", &graph_of(&lab, "name: 'null', kind: process")]).ok();
    until_pings(&client, "10.0.0.2");
    until("it works", || states(&node, &lab) == ["running", "running"]);
    let (id, pid) = (lab.name("g"), worker(&lab).unwrap());
    let reported = |what: &str| node.weir(&["events", "--graph", &id]).ok().contains(what);

    // One that goes on again was only slow.
    signal(pid, Signal::SIGSTOP);
    until("it is reported", || reported("function-hung") && reported("the worker is stopped by a signal"));
    assert_eq!(
        (states(&node, &lab), state(&node, &lab)),
        (["degraded", "degraded"].map(str::to_owned), "degraded".into())
    );
    let reason = node.weir(&["show", &id]).ok();
    assert!(reason.contains("hung: the worker is stopped by a signal"), "{reason}");
    signal(pid, Signal::SIGCONT);
    until("it works again", || states(&node, &lab) == ["running", "running"] && reported("it works again"));
    assert_eq!(worker(&lab), Some(pid));
    until_pings(&client, "10.0.0.2");

    signal(pid, Signal::SIGSTOP);
    assert!(poll(PATIENCE, || worker(&lab).is_some_and(|now| now != pid)));
    until_pings(&client, "10.0.0.2");
    assert!(reported("it hung for 15 seconds"));
    until("it works again", || states(&node, &lab) == ["running", "running"]);
    node.weir(&["delete", &id]).ok();
    assert_eq!(left(&lab), Vec::<String>::new());
    node.end();
}

#[test]
fn programs_of_the_node_that_are_stopped_are_told_and_started_again() {
    let lab = Lab::new(&["client", "node", "server"]);
    let (client, _server) = one_network(&lab);
    let bridge = "for p in $WEIR_PORTS; do ip link set $p up; done; ip link add br0 type bridge
for p in $WEIR_PORTS; do ip link set $p master br0; done; ip link set br0 up";
    let run = "echo $$ > $WEIR_STATE/pid; exec sleep 1000";
    let images = image(&lab, "sleeper", "", &[("start", bridge), ("run", run), ("stop", "ip link del br0")]);
    let node = Node::start_with(&lab, &["--images", &images]);
    node.weir(&["apply", &graph(&lab, "sleeper", "")]).ok();
    until_pings(&client, "10.0.0.2");
    let id = lab.name("g");
    let pid =
        || -> Option<i32> { node.weir(&["shell", &id, "f", "--", "cat", "pid"]).stdout.trim().parse().ok() };
    let first = pid().unwrap();
    signal(first, Signal::SIGSTOP);
    until("it is reported", || states(&node, &lab) == ["degraded", "degraded"]);
    assert!(node.weir(&["show", &id]).ok().contains("hung: the script run is stopped by a signal"));
    assert!(poll(PATIENCE, || pid().is_some_and(|now| now != first)));
    until("it works again", || states(&node, &lab) == ["running", "running"]);
    until_pings(&client, "10.0.0.2");
    node.weir(&["delete", &id]).ok();
    assert_eq!(left(&lab), Vec::<String>::new());
    node.end();
}

#[test]
fn what_was_written_to_a_function_is_told_and_written_again_when_it_dies() {
    let lab = Lab::new(&["client", "node", "server"]);
    let (client, _server) = one_network(&lab);
    let image = lab.path("images/switch");
    std::fs::create_dir_all(&image).unwrap();
    let manifest = "name: switch\nkind: process\nports: [a, b]\nhandlers: {open: {handler: s.switch, access: rw}, clear: {handler: c.reset, access: w}}\n\
                    click: 'in_0 -> c :: Counter -> s :: Switch(0) -> out_1; s[1] -> Discard; in_1 -> out_0; Message(\"at work\");'\n";
    std::fs::write(format!("{image}/function.yaml"), manifest).unwrap();
    let node = Node::start_with(&lab, &["--images", &lab.path("images")]);
    let file = graph_of(&lab, "name: switch");
    node.weir(&["apply", &file]).ok();
    until_pings(&client, "10.0.0.2");
    let id = lab.name("g");
    let open = |node: &Node| node.weir(&["handler", "read", &id, "f", "open"]).stdout.trim().to_owned();
    node.weir(&["handler", "write", &id, "f", "open", "1"]).ok();
    node.weir(&["handler", "write", &id, "f", "clear", ""]).ok();
    let shown = node.weir(&["show", &id]).ok();
    assert!(shown.contains("beside the document: f.open was written \"1\""), "{shown}");
    assert!(!shown.contains("f.clear"), "a command leaves nothing that the document has not: {shown}");
    assert_eq!(node.weir(&["--json", "ps"]).json()[0]["drift"], 1);
    let pid = worker(&lab).unwrap();
    signal(pid, Signal::SIGKILL);
    assert!(poll(200, || worker(&lab).is_some_and(|now| now != pid) && open(&node) == "1"));
    // The next daemon knows it too.
    node.crash();
    let node = Node::start_with(&lab, &["--images", &lab.path("images")]);
    assert!(node.weir(&["show", &id]).ok().contains("beside the document: f.open"));
    assert!(node.weir(&["apply", &file]).ok().contains("unchanged"));
    assert_eq!(open(&node), "1");
    node.weir(&["apply", "--again", &file]).ok();
    assert_eq!(open(&node), "0", "the document alone");
    assert!(!node.weir(&["show", &id]).ok().contains("beside the document"));
    until_pings(&client, "10.0.0.2");

    // Whoever follows its output is notified when there is no more.
    let mut follower = lab.ns("node").spawn_weir(&["logs", "-f", &id, "f"]);
    until("the output so far", || follower.stdout().contains("at work"));
    node.weir(&["delete", &id]).ok();
    until("the end of the output", || !follower.runs());
    let said = follower.wait();
    assert!(said.code == 0 && said.stderr.contains("is there no longer"), "{}", said.stderr);
    assert_eq!(left(&lab), Vec::<String>::new());
    node.end();
}

#[test]
fn a_node_that_ends_with_its_data_plane_ends_its_functions_and_makes_them_again() {
    let lab = Lab::new(&["client", "node", "server"]);
    let (client, _server) = one_network(&lab);
    let node = Node::start_with(&lab, &["--stop-engine"]);
    node.weir(&["apply", &graph(&lab, "linux-bridge", "")]).ok();
    until_pings(&client, "10.0.0.2");
    let id = lab.name("g");
    node.weir(&["shell", &id, "f", "--", "sh", "-c", "echo kept > note"]).ok();
    assert_eq!(node.end().code, 0);
    let folder = format!("{}/", lab.path("store/weir.functions"));
    let rest: Vec<String> = left(&lab).into_iter().filter(|n| !n.starts_with(&folder)).collect();
    assert_eq!(rest, Vec::<String>::new(), "what it keeps is in its folder alone");

    let node = Node::start(&lab);
    until_pings(&client, "10.0.0.2");
    assert_eq!(node.weir(&["shell", &id, "f", "--", "cat", "note"]).ok(), "kept\n");
    node.weir(&["delete", &id]).ok();
    assert_eq!(left(&lab), Vec::<String>::new());
    node.end();
}

#[test]
fn an_image_may_be_an_archive() {
    let lab = Lab::new(&["client", "node", "server"]);
    let (client, _server) = one_network(&lab);
    let bridge = repository().join("images/linux-bridge");
    std::fs::create_dir_all(lab.path("images")).unwrap();
    host(&["cp", "-r", bridge.to_str().unwrap(), &lab.path("packed")]).ok();
    let manifest = lab.path("packed/function.yaml");
    let text = std::fs::read_to_string(&manifest).unwrap().replace("name: linux-bridge", "name: packed");
    std::fs::write(&manifest, text).unwrap();
    let archive = lab.path("images/packed.tar.gz");
    host(&["tar", "-C", &lab.path(""), "-czf", &archive, "packed"]).ok();
    lab.write("images/wrong.tar.zst", "no archive");
    let node = Node::start_with(&lab, &["--images", &lab.path("images")]);
    let listed = node.weir(&["images"]).ok();
    assert!(
        listed.contains("packed") && listed.contains("wrong.tar.zst cannot be used: it cannot be unpacked"),
        "{listed}"
    );
    node.weir(&["apply", &graph(&lab, "packed", "")]).ok();
    until_pings(&client, "10.0.0.2");
    // What runs is the node's own.
    std::fs::remove_file(&archive).unwrap();
    assert!(!node.weir(&["images"]).ok().contains("packed ("));
    until_pings(&client, "10.0.0.2");
    node.weir(&["delete", &lab.name("g")]).ok();
    assert_eq!(left(&lab), Vec::<String>::new());
    node.end();
}

#[test]
fn a_socket_that_is_removed_comes_back() {
    let lab = Lab::new(&["client", "node", "server"]);
    let (client, _server) = one_network(&lab);
    let node = Node::start(&lab);
    node.weir(&["apply", &graph_of(&lab, "name: 'null'")]).ok();
    until_pings(&client, "10.0.0.2");
    let pid = node.data_plane_pid();
    let socket = lab.path("engine.sock");
    std::fs::remove_file(&socket).unwrap();
    node.crash();
    let node = Node::start(&lab);
    assert_eq!(node.data_plane_pid(), pid, "the data plane that runs");
    assert_eq!(
        node.weir(&["delete", &lab.name("g")]).ok().trim(),
        format!("graph {}: deleted", lab.name("g"))
    );
    assert_eq!(client.run(&["ping", "-c1", "-W0.5", "10.0.0.2"]).code, 1, "it is gone");
    node.end();
}

#[test]
fn a_script_that_takes_its_time_holds_up_no_other_graph() {
    let lab = Lab::new(&["client", "node", "server"]);
    let (client, _server) = one_network(&lab);
    lab.link(("node", "more"), ("client", "eth1"));
    // A file is what the scripts wait for.
    let (start, stop) = (lab.path("may-start"), lab.path("may-stop"));
    let wait = |file: &str| format!("echo waits; while [ ! -e {file} ]; do sleep 0.05; done");
    let begin = format!("{}\n{BRIDGE}", wait(&start));
    let end = format!("{}\nip link del bridge0", wait(&stop));
    let images = image(&lab, "slow", "", &[("start", &begin), ("stop", &end)]);
    let node = Node::start_with(&lab, &["--images", &images]);
    let (slow, id) = (graph(&lab, "slow", ""), lab.name("g"));
    let other = |interface: &str| {
        let text = format!(
            "id: other\nname: other\nSFs: [{{id: f, name: 'null', ports: [{{id: a}}, {{id: b}}]}}]\n\
             saps: [{{id: x, type: interface, interface: {{if-name: {interface}}}}}]\nflowrules:\n  \
             - {{id: in, priority: 1, match: {{port_in: 'sap:x'}}, actions: {{output_to_port: 'sf:f:a'}}}}\n"
        );
        lab.write("other.yaml", text)
    };
    let mut first = lab.ns("node").spawn_weir(&["apply", &slow]);
    until("the script runs", || !left(&lab).is_empty());
    node.weir(&["apply", &other("more")]).ok();
    // What the first is about to have is not another's.
    let taken = node.weir(&["apply", &other("lan")]).fails(1);
    assert!(taken.contains("lan"), "{taken}");
    let listed = node.weir(&["--json", "ps"]).json();
    let state =
        |id: &str| listed.as_array().unwrap().iter().find(|g| g["id"] == id).unwrap()["state"].clone();
    assert_eq!((state("other"), state(&id)), ("running".into(), "starting".into()));
    // What is begun is removed when it has come to its end.
    let mut removed = lab.ns("node").spawn_weir(&["delete", &id]);
    assert!(first.runs() && removed.runs());
    lab.write("may-start", "");
    let said = first.wait();
    assert_eq!(said.code, 0, "{}", said.stderr);
    lab.write("may-stop", "");
    assert_eq!(removed.wait().code, 0);
    std::fs::remove_file(&stop).unwrap();
    node.weir(&["apply", &slow]).ok();
    until_pings(&client, "10.0.0.2");

    let mut first = lab.ns("node").spawn_weir(&["delete", &id]);
    until("it is not wanted", || !node.weir(&["ps"]).ok().contains(&id));
    node.weir(&["delete", "other"]).ok();
    node.weir(&["apply", &other("lan")]).ok();
    assert!(first.runs());
    // A change of the same graph waits.
    let mut again = lab.ns("node").spawn_weir(&["apply", &slow]);
    node.weir(&["delete", "other"]).ok();
    assert!(again.runs());
    lab.write("may-stop", "");
    assert_eq!((first.wait().code, again.wait().code), (0, 0));
    until_pings(&client, "10.0.0.2");
    node.weir(&["delete", &id]).ok();
    assert_eq!(left(&lab), Vec::<String>::new());
    node.end();
}

#[test]
fn a_node_that_begins_with_a_function_that_takes_its_time_has_its_other_graphs_at_once() {
    let lab = Lab::new(&["client", "node", "server"]);
    let (client, _server) = one_network(&lab);
    lab.link(("node", "more"), ("client", "eth1"));
    lab.link(("node", "most"), ("server", "eth1"));
    lab.ip("client", "addr add 10.0.1.1/24 dev eth1");
    lab.ip("server", "addr add 10.0.1.2/24 dev eth1");
    let wait = format!("while [ -e {} ]; do sleep 0.05; done\n{BRIDGE}", lab.path("wait"));
    let images = image(&lab, "slow", "", &[("start", &wait)]);
    let node = Node::start_with(&lab, &["--images", &images, "--stop-engine"]);
    let (id, other) = (lab.name("g"), lab.name("other"));
    node.weir(&["apply", &graph(&lab, "slow", "")]).ok();
    let text = std::fs::read_to_string(graph_of(&lab, "name: 'null'")).unwrap();
    let text = text
        .replace(&id, &other)
        .replace("if-name: lan", "if-name: more")
        .replace("if-name: wan", "if-name: most");
    let inline = lab.write("other.yaml", text);
    node.weir(&["apply", &inline]).ok();
    until_pings(&client, "10.0.0.2");
    until_pings(&client, "10.0.1.2");
    lab.write("wait", "");
    node.end();

    let node = Node::start_with(&lab, &["--images", &images, "--stop-engine"]);
    until_pings(&client, "10.0.1.2");
    let state = |id: &str| {
        let list = node.weir(&["--json", "ps"]).json();
        let entry = list.as_array().unwrap().iter().find(|g| g["id"] == id).cloned().unwrap_or_default();
        entry["state"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!((state(&id), state(&other)), ("starting".to_owned(), "running".to_owned()));
    node.weir(&["delete", &other]).ok();
    node.weir(&["apply", &inline]).ok();
    assert_eq!(state(&id), "starting");
    std::fs::remove_file(lab.path("wait")).unwrap();
    until("it works", || state(&id) == "running");
    until_pings(&client, "10.0.0.2");
    node.weir(&["delete", &id]).ok();
    node.weir(&["delete", &other]).ok();
    assert_eq!(left(&lab), Vec::<String>::new());
    node.end();
}
