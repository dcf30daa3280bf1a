//! Functions that are not inline: native ones, between real hosts.

use crate::lab::{Lab, Ns, host, poll, until, until_pings};
use crate::node::Node;
use crate::traffic::{big_file, sha256, web_server};

/// A client and a server in the network 10.0.0.0/24, on both sides of the namespace `node`.
pub fn one_network(lab: &Lab) -> (Ns<'_>, Ns<'_>) {
    lab.link(("node", "lan"), ("client", "eth0"));
    lab.link(("node", "wan"), ("server", "eth0"));
    lab.ip("client", "addr add 10.0.0.1/24 dev eth0");
    lab.ip("server", "addr add 10.0.0.2/24 dev eth0");
    (lab.ns("client"), lab.ns("server"))
}

/// A graph of one function between `lan` and `wan`. Its name is the lab's, so that what is left of it can be found.
pub fn graph(lab: &Lab, image: &str, params: &str) -> String {
    graph_of(lab, &format!("name: {image}, params: {{{params}}}"))
}

/// The same of a function as a document describes it, but for its identifier and its ports.
pub fn graph_of(lab: &Lab, function: &str) -> String {
    let id = lab.name("g");
    let text = format!(
        "id: {id}\nname: g\nSFs:\n  - {{id: f, ports: [{{id: l}}, {{id: r}}], {function}}}\nsaps:\n  \
         - {{id: lan, type: interface, interface: {{if-name: lan}}}}\n  - {{id: wan, type: interface, interface: {{if-name: wan}}}}\n\
         flowrules:\n  - {{id: a, priority: 1, match: {{port_in: 'sap:lan'}}, actions: {{output_to_port: 'sf:f:l'}}}}\n  \
         - {{id: b, priority: 1, match: {{port_in: 'sf:f:l'}}, actions: {{output_to_port: 'sap:lan'}}}}\n  \
         - {{id: c, priority: 1, match: {{port_in: 'sap:wan'}}, actions: {{output_to_port: 'sf:f:r'}}}}\n  \
         - {{id: d, priority: 1, match: {{port_in: 'sf:f:r'}}, actions: {{output_to_port: 'sap:wan'}}}}\n"
    );
    lab.write("graph.yaml", text)
}

/// An image of the test's own: a folder with these scripts.
pub fn image(lab: &Lab, name: &str, manifest: &str, scripts: &[(&str, &str)]) -> String {
    let folder = lab.path(&format!("images/{name}"));
    std::fs::create_dir_all(format!("{folder}/scripts/handlers")).unwrap();
    let text = format!("name: {name}\nkind: native\nports: [left, right]\n{manifest}");
    std::fs::write(format!("{folder}/function.yaml"), text).unwrap();
    for (script, text) in scripts {
        let file = format!("{folder}/scripts/{script}");
        std::fs::write(&file, format!("#!/bin/sh\nset -eu\n{text}\n")).unwrap();
        host(&["chmod", "+x", &file]).ok();
    }
    lab.path("images")
}

/// Forwards between its ports.
pub const BRIDGE: &str = "ip link add bridge0 type bridge
for p in $WEIR_PORTS; do ip link set $p master bridge0 up; done
ip link set bridge0 up";

/// What there is of a lab's functions on the machine, by their namespaces, control groups and interfaces.
pub fn left(lab: &Lab) -> Vec<String> {
    let clean = lab.name("g").replace('-', "_");
    let mut found = Vec::new();
    let entries = |folder: &str| -> Vec<String> {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|e| e.path().display().to_string()).collect()
    };
    let mut folders = vec!["/run/netns".to_owned(), lab.path("store/weir.functions/containers/state")];
    folders.extend(entries("/sys/fs/cgroup").iter().map(|h| format!("{h}/weir")));
    folders.push("/sys/fs/cgroup/weir".to_owned());
    for folder in folders {
        found.extend(entries(&folder).into_iter().filter(|n| n.contains(&clean)));
    }
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap();
    found.extend(mounts.lines().filter(|l| l.contains(&lab.path("store"))).map(str::to_owned));
    let links = lab.ip("node", "-o link show");
    found.extend(links.split([' ', '@', ':']).filter(|w| w.starts_with("wf")).map(str::to_owned));
    // The node's key is no graph's.
    found.extend(entries(&lab.path("engine.ports")).into_iter().filter(|n| !n.ends_with("/wireguard.key")));
    let dpdk = format!("weir-{}", weir_switch::compile::sockets_folder(&lab.name("g"), "f"));
    found.extend(entries("/var/run/dpdk").into_iter().filter(|n| n.ends_with(&dpdk)));
    let files = std::fs::read_dir(lab.path("store/weir.functions")).into_iter().flatten().flatten();
    found.extend(files.map(|e| e.path().display().to_string()).filter(|n| n.contains(&clean)));
    found.sort_unstable();
    found
}

pub fn state(node: &Node, lab: &Lab) -> String {
    let status = node.weir(&["--json", "show", &lab.name("g")]).json();
    status["functions"][0]["state"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_native_firewall_keeps_its_connections_while_rules_change_and_the_daemon_dies() {
    let lab = Lab::new(&["client", "node", "server"]);
    let (client, server) = one_network(&lab);
    let node = Node::start(&lab);
    let file = graph(&lab, "nft-firewall", "RULES: 'icmp type echo-request accept; tcp dport 80 accept'");
    node.weir(&["apply", &file]).ok();
    until_pings(&client, "10.0.0.2");
    let (_, sum) = big_file(&lab, "file", 3_000_000);
    let (_web, _other) =
        (web_server(&lab, "server", 80, &lab.path("")), web_server(&lab, "server", 81, &lab.path("")));
    let got = lab.path("got");
    client.run(&["curl", "-sS", "--max-time", "30", "-o", &got, "http://10.0.0.2/file"]).ok();
    assert_eq!(sha256(&got), sum);
    client.run(&["curl", "-sS", "--max-time", "1", "http://10.0.0.2:81/"]).fails(28);
    assert_ne!(server.run(&["ping", "-c1", "-W0.5", "10.0.0.1"]).code, 0, "nothing unasked from outside");

    // A slow download goes on over a change of the rules, and over the end of the daemon.
    let slow = client.spawn(&["curl", "-sS", "--limit-rate", "600k", "-o", &got, "http://10.0.0.2/file"]);
    until("the download", || std::fs::metadata(&got).is_ok_and(|m| m.len() < 2_000_000 && m.len() > 10_000));
    graph(&lab, "nft-firewall", "RULES: 'tcp dport 81 accept'");
    node.weir(&["apply", &file]).ok();
    let id = lab.name("g");
    assert!(node.weir(&["handler", "read", &id, "f", "rules"]).ok().contains("81"));
    let before = left(&lab);
    node.crash();
    let node = Node::start(&lab);
    assert_eq!(left(&lab), before, "it was adopted");
    assert_eq!(slow.wait().code, 0);
    assert_eq!(sha256(&got), sum);
    client.run(&["curl", "-sS", "--max-time", "5", "-o", "/dev/null", "http://10.0.0.2:81/file"]).ok();
    client.run(&["curl", "-sS", "--max-time", "1", "http://10.0.0.2/file"]).fails(28);

    // What is wrong is said as the script says it, and what was in force stays.
    graph(&lab, "nft-firewall", "RULES: 'tcp dport 80 acept'");
    let e = node.weir(&["apply", &file]).fails(1);
    assert!(e.contains("the script update of function 'f' failed") && e.contains("acept"), "{e}");
    client.run(&["curl", "-sS", "--max-time", "5", "-o", "/dev/null", "http://10.0.0.2:81/file"]).ok();
    assert!(node.weir(&["shell", &id, "f", "--", "nft", "list", "ruleset"]).ok().contains("81"));

    node.weir(&["delete", &id]).ok();
    assert_eq!(left(&lab), Vec::<String>::new());
    node.end();
}

#[test]
fn a_function_that_dies_is_started_again_with_its_last_output_told_and_its_neighbour_untouched() {
    let lab = Lab::new(&["client", "node", "server"]);
    let (client, _server) = one_network(&lab);
    let run = "echo working; echo $$ > $WEIR_STATE/pid; exec sleep 1000";
    let images =
        image(&lab, "sleeper", "", &[("start", BRIDGE), ("run", run), ("stop", "ip link del bridge0")]);
    let node = Node::start_with(&lab, &["--images", &images]);
    node.weir(&["apply", &graph(&lab, "sleeper", "")]).ok();
    until_pings(&client, "10.0.0.2");
    let id = lab.name("g");
    // A shell ends with all else of the function when that is started again.
    let pid = || {
        let cat = node.weir(&["shell", &id, "f", "--", "cat", "pid"]);
        (cat.code == 0).then(|| cat.stdout.trim().to_owned())
    };
    let first = pid().unwrap();
    // The node has no huge pages itself.
    let status = std::fs::read_to_string(format!("/proc/{first}/status")).unwrap();
    assert!(status.contains("THP_enabled:\t1"), "{status}");
    host(&["kill", "-KILL", &first]).ok();
    until("another process", || pid().is_some_and(|p| p != first));
    until("it works", || state(&node, &lab) == "running");
    until("it is reported", || node.weir(&["events", "--graph", &id]).ok().contains("function-up"));
    let events = node.weir(&["events", "--graph", &id]).ok();
    assert!(events.contains("run ended (killed by SIGKILL); its last output: working"), "{events}");
    until_pings(&client, "10.0.0.2");
    assert_eq!(node.weir(&["logs", &id, "f"]).ok(), "working\nworking\n");

    // An interface that somebody removes, or the whole namespace, comes back.
    let links = lab.ip("node", "-o link show");
    let interface = links.split_whitespace().find(|w| w.starts_with("wf")).unwrap();
    lab.ip("node", &format!("link del {}", interface.split(['@', ':']).next().unwrap()));
    until("it is down", || node.weir(&["events", "--graph", &id]).ok().contains("an interface was removed"));
    until("it works", || {
        let events = node.weir(&["events", "--graph", &id]).ok();
        events.lines().last().is_some_and(|e| e.contains("function-up"))
    });
    // The switch takes the interface again a moment later.
    until("it works", || state(&node, &lab) == "running");
    until_pings(&client, "10.0.0.2");
    // Over the daemon's end it is watched again.
    let second = pid().unwrap();
    node.crash();
    let node = Node::start(&lab);
    until("it works", || state(&node, &lab) == "running");
    host(&["kill", "-KILL", &second]).ok();
    until("its death is reported", || {
        node.weir(&["events", "--graph", &id]).ok().matches("run ended").count() >= 2
    });
    until("it works", || state(&node, &lab) == "running");
    node.weir(&["delete", &id]).ok();
    assert_eq!(left(&lab), Vec::<String>::new());
}

#[test]
fn a_function_that_does_not_come_back_is_told_wherever_its_graph_is() {
    let lab = Lab::new(&["client", "node", "server"]);
    one_network(&lab);
    let start = "if [ -e broken ]; then echo 'it is broken' >&2; exit 1; fi";
    let run = "while [ ! -e broken ]; do sleep 0.1; done; exit 7";
    let images = image(&lab, "breaks", "", &[("start", start), ("run", run)]);
    let node = Node::start_with(&lab, &["--images", &images]);
    node.weir(&["apply", &graph(&lab, "breaks", "")]).ok();
    let id = lab.name("g");
    let ps = || node.weir(&["--json", "ps"]).json()[0]["state"].as_str().unwrap_or_default().to_owned();
    assert_eq!((ps(), state(&node, &lab)), ("running".to_owned(), "running".to_owned()));
    node.weir(&["shell", &id, "f", "--", "touch", "broken"]).ok();
    until("it cannot be started", || {
        node.weir(&["show", &id]).ok().contains("it cannot be started again: the script start")
    });
    assert_eq!((ps(), state(&node, &lab)), ("degraded".to_owned(), "failed".to_owned()));
    let events = node.weir(&["events", "--graph", &id]).ok();
    assert!(events.contains("run ended (exit status 7)") && events.contains("it is broken"), "{events}");
    // The node brings itself to the desired state again meanwhile: that is no reason to remove it, with what it keeps.
    let checks = || node.weir(&["events"]).ok().matches("device-up").count();
    let before = checks();
    lab.ip("node", "link set lan down");
    until("the interface is down", || node.weir(&["events"]).ok().contains("device-down"));
    lab.ip("node", "link set lan up");
    until("the interface is up", || checks() > before);
    assert!(!poll(10, || ps() != "degraded"));
    // A handler, a shell and an update still find it, and it comes back by itself when the cause is gone.
    node.weir(&["shell", &id, "f", "--", "rm", "broken"]).ok();
    until("it works", || ps() == "running" && state(&node, &lab) == "running");
    node.weir(&["delete", &id]).ok();
    assert_eq!(left(&lab), Vec::<String>::new());
}

#[test]
fn what_fails_is_told_and_leaves_nothing() {
    let lab = Lab::new(&["client", "node", "server"]);
    one_network(&lab);
    let images = image(&lab, "bad-start", "", &[("start", "echo 'no such thing: give THING' >&2; exit 3")]);
    image(&lab, "hangs", "", &[("start", "echo waiting; sleep 1000")]);
    image(
        &lab,
        "needs",
        "native: {dependencies: {no-such-program: no-such-package, other-program: other-package}}\n",
        &[("start", BRIDGE)],
    );
    image(&lab, "lies", "handlers: {count: {access: r}}\n", &[("start", BRIDGE)]);
    image(&lab, "nothing", "", &[]);
    let eats = "x=$(head -c 100000000 /dev/zero | tr '\\0' x); echo ${#x}";
    image(&lab, "eats", "native: {memory: 8 MB}\n", &[("start", eats)]);
    let forks = "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 1000 & done";
    image(&lab, "forks", "native: {processes: 8}\n", &[("start", forks)]);
    image(&lab, "renames", "", &[("start", "ip link set left name other")]);
    image(&lab, "moves", "", &[("start", "ip link set right netns 1; ip link set left up")]);
    image(&lab, "interpreter", "", &[("start", "")]);
    let script = lab.path("images/interpreter/scripts/start");
    std::fs::write(&script, "#!/bin/no-such-shell -e\n").unwrap();
    let node = Node::start_with(&lab, &["--images", &images]);
    // What can be seen before, a plan says.
    let planned = node.weir(&["plan", &graph(&lab, "needs", "")]).fails(1);
    for package in ["no-such-package", "other-package"] {
        assert!(planned.contains(&format!("install the Debian package {package}")), "{planned}");
    }
    let elsewhere = std::fs::read_to_string(graph(&lab, "linux-bridge", ""))
        .unwrap()
        .replace("if-name: wan", "if-name: wan7");
    let planned = node.weir(&["plan", &lab.write("elsewhere.yaml", &elsewhere)]).fails(1);
    assert!(planned.contains("there is no interface `wan7`"), "{planned}");
    let tunnel = elsewhere.replace(
        "type: interface, interface: {if-name: wan7}",
        "type: gre, gre: {local-ip: 10.9.9.9, remote-ip: 10.9.9.8}",
    );
    let planned = node.weir(&["plan", &lab.write("elsewhere.yaml", &tunnel)]).fails(1);
    assert!(planned.contains("10.9.9.9 is no address of this host"), "{planned}");
    for (name, reported) in [
        ("renames", "its script start took the interface of port left away"),
        ("moves", "its script start took the interface of port right away"),
        (
            "bad-start",
            "the script start of function 'f' failed (exit status 3); it says: no such thing: give THING",
        ),
        (
            "hangs",
            "the script start of function 'f' did not end within 10 seconds and was killed; it says: waiting",
        ),
        ("needs", "install the Debian package no-such-package"),
        ("nothing", "neither scripts/start nor scripts/run"),
        ("interpreter", "its first line asks for /bin/no-such-shell, which is not there"),
        ("eats", "the script start of function 'f' failed"),
        ("forks", "the script start of function 'f' failed"),
    ] {
        let e = node.weir(&["apply", &graph(&lab, name, "")]).fails(1);
        assert!(e.contains(reported), "{name}: {e}");
        assert_eq!(left(&lab), Vec::<String>::new(), "{name}");
    }
    let images = node.weir(&["images"]).ok();
    assert!(images.contains("the public handler 'count' has no file scripts/handlers/count"), "{images}");
}

#[test]
fn ports_come_and_go_and_writes_are_made_while_a_function_works() {
    let lab = Lab::new(&["client", "node", "server", "third"]);
    let (client, server) = one_network(&lab);
    lab.link(("node", "extra"), ("third", "eth0"));
    lab.ip("third", "addr add 10.0.0.3/24 dev eth0");
    let handler = "if [ $1 = read ]; then cat $WEIR_STATE/value; else cat > $WEIR_STATE/value; fi";
    let update = "for p in $WEIR_PORTS; do ip link set $p master bridge0 up; done; echo updated $PARAM_WORD";
    let manifest = "handlers: {value: {access: rw}}\nparams: [{name: WORD, type: text, default: none}]\n";
    let images = image(
        &lab,
        "bridge3",
        manifest,
        &[("start", BRIDGE), ("update", update), ("handlers/value", handler)],
    );
    let manifest = format!("{images}/bridge3/function.yaml");
    let text = std::fs::read_to_string(&manifest).unwrap().replace("[left, right]", "[left, right, more]");
    std::fs::write(&manifest, text).unwrap();
    let node = Node::start_with(&lab, &["--images", &images]);
    let file = graph(&lab, "bridge3", "");
    node.weir(&["apply", &file]).ok();
    until_pings(&client, "10.0.0.2");

    let two = std::fs::read_to_string(&file).unwrap();
    let three = two
        .replace("{id: r}]", "{id: r}, {id: m}], handlers: {value: '7'}")
        .replace("params: {}", "params: {WORD: \"two words; $(reboot)\"}")
        .replace(
            "flowrules:\n",
            "  - {id: extra, type: interface, interface: {if-name: extra}}\nflowrules:\n",
        )
        + "  - {id: e, priority: 1, match: {port_in: 'sap:extra'}, actions: {output_to_port: 'sf:f:m'}}\n  \
           - {id: g, priority: 1, match: {port_in: 'sf:f:m'}, actions: {output_to_port: 'sap:extra'}}\n";
    let bigger = lab.write("three.yaml", &three);
    node.weir(&["apply", &bigger]).ok();
    until_pings(&server, "10.0.0.3");
    let id = lab.name("g");
    assert_eq!(node.weir(&["handler", "read", &id, "f", "value"]).ok().trim(), "7");
    assert!(node.weir(&["logs", &id, "f"]).ok().ends_with("updated two words; $(reboot)\n"));
    node.weir(&["handler", "write", &id, "f", "value", "9"]).ok();
    assert_eq!(node.weir(&["handler", "read", &id, "f", "value"]).ok().trim(), "9");

    node.weir(&["apply", &file]).ok();
    until_pings(&client, "10.0.0.2");
    assert_ne!(client.run(&["ping", "-c1", "-W0.5", "10.0.0.3"]).code, 0);
    node.weir(&["delete", &id]).ok();
    assert_eq!(left(&lab), Vec::<String>::new());
}

#[test]
fn a_node_that_sees_no_control_groups_refuses_what_it_could_not_limit() {
    let lab = Lab::new(&["client", "node", "server"]);
    let (client, _server) = one_network(&lab);
    // As `ip netns exec` starts it.
    let (socket, store) = (lab.path("engine.sock"), lab.path("store/weir.db"));
    let command = ["node", "--socket", &socket, "--store", &store, "--images", "images", "--stop-engine"];
    let node = lab.ns("node").spawn_weir(&command);
    let weir = |arguments: &[&str]| lab.ns("node").weir(arguments);
    until("the node answers", || weir(&["ps"]).code == 0);
    for kind in ["name: linux-bridge", "name: 'null', kind: process"] {
        let file = graph_of(&lab, kind);
        for command in ["plan", "apply"] {
            let e = weir(&[command, &file]).fails(1);
            assert!(e.contains("nsenter --net=/run/netns/NAME"), "{command} {kind}: {e}");
        }
    }
    assert_eq!(left(&lab), Vec::<String>::new());
    weir(&["apply", &graph_of(&lab, "name: 'null'")]).ok();
    until_pings(&client, "10.0.0.2");
    assert_eq!(node.interrupt().code, 0);
}
