//! Functions in processes of their own, on a node between real hosts.

use weir_node::compute::cgroup::Cgroup;
use weir_node::compute::hosted::Paths;
use weir_node::instance::InstanceId;

use crate::functions::{graph_of, left, one_network, state};
use crate::lab::{Lab, poll, until_pings};
use crate::node::Node;

/// The worker of the function `f`, by its number on this machine.
pub fn worker(lab: &Lab) -> Option<i32> {
    worker_of(lab, "f")
}

/// The worker of a function of the lab's graph.
pub fn worker_of(lab: &Lab, function: &str) -> Option<i32> {
    let functions = lab.path("store/weir.functions");
    let paths = Paths::new(functions.as_ref(), &InstanceId::new(&lab.name("g"), function));
    Cgroup::named(&paths.name).processes().first().copied()
}

pub fn kill(pid: i32) {
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL).unwrap();
}

/// A line of the status of a process, proc_pid_status(5).
pub fn of_status(pid: i32, name: &str) -> String {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_default().trim().to_owned()
}

/// The daemon dies: packets go on, and the next one, which is given, takes the function up.
pub fn next_daemon<'a>(lab: &'a Lab, node: Node<'a>, options: &[&str]) -> Node<'a> {
    let before = worker(lab);
    node.crash();
    until_pings(&lab.ns("client"), "10.0.0.2");
    let node = Node::start_with(lab, options);
    assert!(poll(100, || state(&node, lab) == "running"));
    assert_eq!(worker(lab), before);
    node
}

#[test]
fn a_process_may_do_nothing_but_forward() {
    let lab = Lab::new(&["client", "node", "server"]);
    let (client, _) = one_network(&lab);
    let node = Node::start(&lab);
    node.weir(&["apply", &graph_of(&lab, "name: firewall, kind: process, params: {RULES: allow icmp}")]).ok();
    until_pings(&client, "10.0.0.2");
    let pid = worker(&lab).unwrap();
    for ids in ["Uid", "Gid"] {
        let of_range = |id: &str| id.parse::<u32>().is_ok_and(|id| (0x7000_0000..0x8000_0000).contains(&id));
        assert!(of_status(pid, ids).split_whitespace().all(of_range), "{ids}");
    }
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert_eq!(of_status(pid, set), "0000000000000000", "{set}");
    }
    assert_eq!((of_status(pid, "NoNewPrivs"), of_status(pid, "Seccomp")), ("1".into(), "2".into()));
    assert!(of_status(pid, "NSpid").ends_with("\t1"), "the first process of its namespace");
    for namespace in ["user", "mnt", "pid", "net", "ipc", "uts"] {
        let of = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/{namespace}")).unwrap();
        assert_ne!(of(&pid.to_string()), of("self"), "{namespace}");
    }
    // A shell beside it can do no more to others.
    let inside = |script: &str| node.weir(&["shell", &lab.name("g"), "f", "--", "sh", "-c", script]).stdout;
    for namespace in ["pid", "net", "ipc", "uts"] {
        let link = format!("/proc/{pid}/ns/{namespace}");
        let own = std::fs::read_link(&link).unwrap();
        let there = inside(&format!("readlink /proc/self/ns/{namespace}"));
        assert_eq!(there.trim(), own.display().to_string(), "{namespace}");
    }
    let ids = inside("id -u; id -G");
    assert!(ids.lines().all(|id| id == of_status(pid, "Uid").split_whitespace().next().unwrap()), "{ids}");
    // The first process there is the worker.
    assert_eq!(inside("kill -0 1 && grep CapEff /proc/self/status").trim(), "CapEff:\t0000000000000000");
    let names = |folder: &str| -> Vec<String> {
        let entries = std::fs::read_dir(format!("/proc/{pid}/root{folder}")).unwrap();
        let mut names: Vec<String> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    assert_eq!(
        (names("/"), names("/ports")),
        (vec!["ports".into()], vec![".control".into(), "inside".into(), "outside".into()])
    );
    node.weir(&["delete", &lab.name("g")]).ok();
    assert_eq!(left(&lab), Vec::<String>::new());
    node.end();
}

#[test]
fn a_process_keeps_its_connections_through_changes_and_outlives_the_daemon() {
    let lab = Lab::new(&["client", "node", "server"]);
    let (client, _server) = one_network(&lab);
    let node = Node::start(&lab);
    let with =
        |rules: &str| graph_of(&lab, &format!("name: firewall, kind: process, params: {{RULES: '{rules}'}}"));
    node.weir(&["apply", &with("allow icmp, deny all")]).ok();
    until_pings(&client, "10.0.0.2");
    let pid = worker(&lab).unwrap();
    let read =
        |node: &Node, handler: &str| node.weir(&["handler", "read", &lab.name("g"), "f", handler]).ok();
    assert!(read(&node, "rules").contains("icmp"));
    assert_ne!(client.run(&["curl", "-s", "--max-time", "1", "http://10.0.0.2"]).code, 0);
    let status = node.weir(&["--json", "show", &lab.name("g")]).json();
    assert_eq!(status["functions"][0]["engine"], "process");
    let drops = &status["functions"][0]["drops"][0];
    assert!(drops["reason"] == "Denied" && drops["count"].as_u64().unwrap() > 0, "{drops}");

    // A change reaches the process that runs; one that is wrong changes nothing.
    node.weir(&["apply", &with("allow icmp, allow tcp, deny all")]).ok();
    assert!(read(&node, "rules").contains("tcp"));
    let e = node.weir(&["apply", &with("alow icmp")]).fails(1);
    assert!(e.contains("sffg.SFs[0] 'f' (image 'firewall')") && e.contains("alow icmp"), "{e}");
    assert_eq!(worker(&lab), Some(pid));
    until_pings(&client, "10.0.0.2");

    let node = next_daemon(&lab, node, &[]);
    // It can still make others.
    kill(pid);
    assert!(poll(100, || worker(&lab).is_some_and(|now| now != pid)));
    until_pings(&client, "10.0.0.2");
    let events = node.weir(&["events"]).ok();
    assert!(events.contains("the worker ended") && events.contains("it works again"), "{events}");
    node.weir(&["delete", &lab.name("g")]).ok();
    assert_eq!(left(&lab), Vec::<String>::new());
    node.end();
}

#[test]
fn a_process_that_takes_too_much_memory_is_ended_and_started_again() {
    let lab = Lab::new(&["client", "node", "server"]);
    let (client, _server) = one_network(&lab);
    // It keeps a copy of each packet.
    let image = lab.path("images/glutton");
    std::fs::create_dir_all(&image).unwrap();
    let manifest = "name: glutton\nkind: process\nprocess: {memory: 48 MB, cpu: 900}\nports: [a, b]\n\
                    click: 'in_0 -> t :: Tee(2) -> out_1; t[1] -> Queue(1000000) -> DelayUnqueue(1000s) -> Discard; in_1 -> out_0;'\n";
    std::fs::write(format!("{image}/function.yaml"), manifest).unwrap();
    let node = Node::start_with(&lab, &["--images", &lab.path("images")]);
    node.weir(&["apply", &graph_of(&lab, "name: glutton")]).ok();
    until_pings(&client, "10.0.0.2");
    let _flood = client.spawn(&["ping", "-f", "-q", "-c", "60000", "-s", "1400", "10.0.0.2"]);
    let died = || node.weir(&["events"]).ok().contains("out of its memory");
    assert!(poll(200, died), "{}", node.weir(&["events"]).ok());
    until_pings(&client, "10.0.0.2");
    node.weir(&["delete", &lab.name("g")]).ok();
    assert_eq!(left(&lab), Vec::<String>::new());
    node.end();
}

#[test]
fn a_refused_change_leaves_what_runs_at_work() {
    let lab = Lab::new(&["client", "node", "server"]);
    let image = lab.path("images/ends");
    std::fs::create_dir_all(&image).unwrap();
    let manifest = "name: ends\nkind: dpdk\nports: [left, right]\ndpdk: {program: /bin/false}\n";
    std::fs::write(format!("{image}/function.yaml"), manifest).unwrap();
    let (client, _server) = one_network(&lab);
    let node = Node::start_with(&lab, &["--images", &lab.path("images")]);
    node.weir(&["apply", &graph_of(&lab, "name: 'null', kind: process")]).ok();
    until_pings(&client, "10.0.0.2");
    let e = node.weir(&["apply", &graph_of(&lab, "name: ends")]).fails(1);
    assert!(e.contains("what ran before goes on"), "{e}");
    until_pings(&client, "10.0.0.2");
    // Nor does it harm for good that its sockets are removed from outside.
    for folder in std::fs::read_dir(lab.path("engine.ports")).unwrap() {
        std::fs::remove_dir_all(folder.unwrap().path()).unwrap();
    }
    kill(worker(&lab).unwrap());
    until_pings(&client, "10.0.0.2");
    // One that hangs is started again when it is to change.
    let pid = worker(&lab).unwrap();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGSTOP).unwrap();
    node.weir(&["apply", &graph_of(&lab, "name: firewall, kind: process, params: {RULES: allow icmp}")]).ok();
    assert_ne!(worker(&lab), Some(pid));
    until_pings(&client, "10.0.0.2");
    node.weir(&["delete", &lab.name("g")]).ok();
    assert_eq!(left(&lab), Vec::<String>::new());
    node.end();
}

#[test]
fn what_a_process_cannot_be_is_said() {
    let lab = Lab::new(&["client", "node", "server"]);
    let (_client, _server) = one_network(&lab);
    let node = Node::start(&lab);
    for (function, message) in [
        ("name: firewall, kind: container", "it is inline or process"),
        ("name: linux-bridge, kind: process", "of kind native"),
    ] {
        let e = node.weir(&["plan", &graph_of(&lab, function)]).fails(1);
        assert!(e.contains(message), "{function}: {e}");
    }
    node.end();
}
