//! What others do to functions that are not inline, and to what they are made from: what was there before a change is there after it,
//! or all that was asked for, and nothing is left behind. Hostile peers of rings and descriptors are the tests' of `weir-io`.

use std::time::Duration;

use crate::containers::{layout, registry};
use crate::functions::{BRIDGE, graph, image, left, one_network, state};
use crate::lab::{Lab, Process, host, repository, until, until_pings};
use crate::node::Node;

/// Passes connections on to the registry, and ends each after so many bytes of answers while a file is there.
const PROXY: &str = "
import os, socket, sys, threading
cut, most = sys.argv[1], int(sys.argv[2])
def serve(client):
    server = socket.create_connection(('127.0.0.1', 5000))
    def answers():
        passed = 0
        try:
            while data := server.recv(4096):
                passed += len(data)
                if passed > most and os.path.exists(cut): break
                client.sendall(data)
        except OSError: pass
        for s in (client, server):
            try: s.shutdown(socket.SHUT_RDWR)
            except OSError: pass
    threading.Thread(target=answers, daemon=True).start()
    try:
        while data := client.recv(4096): server.sendall(data)
    except OSError: pass
listener = socket.create_server(('127.0.0.1', 5001))
print('ready', flush=True)
while True: threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
";

/// The registry, behind a line that is cut.
fn cut_registry(lab: &Lab, cut: &str) -> [Process; 2] {
    let registry = registry(lab);
    let proxy = lab.ns("node").spawn(&["/usr/bin/python3", "-c", PROXY, cut, "60000"]);
    until("the proxy", || proxy.stdout().contains("ready"));
    [registry, proxy]
}

#[test]
fn a_registry_that_dies_half_way_leaves_nothing_and_is_asked_again() {
    let lab = Lab::new(&["client", "node", "server"]);
    let (client, _server) = one_network(&lab);
    let cut = lab.write("cut", "");
    let _processes = cut_registry(&lab, &cut);
    let (from, to) = (format!("oci:{}:one", layout(&lab, "one")), "docker://127.0.0.1:5000/apps/box:1");
    lab.ns("node").run(&["skopeo", "copy", "--dest-tls-verify=false", &from, to]).ok();
    let folder = lab.path("images/box");
    std::fs::create_dir_all(&folder).unwrap();
    let manifest = "name: box\nkind: container\nports: [left, right]\ncontainer:\n  image: localhost:5001/apps/box:1\n  \
                    capabilities: [NET_ADMIN]\n  command: [sh, -c, 'ip link add br0 type bridge && brctl addif br0 left && brctl addif br0 right \
                    && ip link set left up && ip link set right up && ip link set br0 up && exec sleep 100000']\n";
    std::fs::write(format!("{folder}/function.yaml"), manifest).unwrap();
    let node = Node::start_with(&lab, &["--images", &lab.path("images")]);
    let file = graph(&lab, "box", "");
    let e = node.weir(&["apply", &file]).fails(1);
    assert!(e.contains("localhost:5001/apps/box@sha256") && e.contains("broke off"), "{e}");
    assert!(node.weir(&["ps"]).ok().contains("no graphs"));
    assert_eq!(left(&lab), Vec::<String>::new());
    let kept = lab.path("store/weir.functions/containers/images");
    let kept = std::fs::read_dir(kept).into_iter().flatten().count();
    assert_eq!(kept, 0, "half of an image is kept");
    std::fs::remove_file(cut).unwrap();
    node.weir(&["apply", &file]).ok();
    until_pings(&client, "10.0.0.2");
    node.weir(&["delete", &lab.name("g")]).ok();
    assert_eq!(left(&lab), Vec::<String>::new());
    node.end();
}

/// client - native - container - process - server
fn chain(lab: &Lab) -> String {
    let mut text = format!(
        "id: {}\nname: g\nSFs:\n  - {{id: n, name: wire, ports: [{{id: left}}, {{id: right}}]}}\n  \
         - {{id: c, name: box-bridge, ports: [{{id: left}}, {{id: right}}]}}\n  \
         - {{id: p, name: 'null', kind: process, ports: [{{id: left}}, {{id: right}}]}}\n\
         saps:\n  - {{id: lan, type: interface, interface: {{if-name: lan}}}}\n  - {{id: wan, type: interface, interface: {{if-name: wan}}}}\nflowrules:\n",
        lab.name("g")
    );
    let places = [
        "sap:lan",
        "sf:n:left",
        "sf:n:right",
        "sf:c:left",
        "sf:c:right",
        "sf:p:left",
        "sf:p:right",
        "sap:wan",
    ];
    for (i, pair) in places.chunks(2).enumerate() {
        for (id, from, to) in [("a", pair[0], pair[1]), ("b", pair[1], pair[0])] {
            text += &format!(
                "  - {{id: {id}{i}, priority: 1, match: {{port_in: '{from}'}}, actions: {{output_to_port: '{to}'}}}}\n"
            );
        }
    }
    lab.write("chain.yaml", text)
}

#[test]
fn a_daemon_that_is_killed_while_it_deploys_leaves_the_whole_graph_or_nothing() {
    let lab = Lab::new(&["client", "node", "server"]);
    let (client, _server) = one_network(&lab);
    let images = image(&lab, "wire", "", &[("start", BRIDGE)]);
    host(&["cp", "-r", &repository().join("examples/container/box-bridge").display().to_string(), &images])
        .ok();
    let script = repository().join("scripts/busybox-image").display().to_string();
    host(&[&script, &format!("{images}/box-bridge/layout")]).ok();
    let options = ["--images", &images];
    let (id, file) = (lab.name("g"), chain(&lab));
    let mut node = Node::start_with(&lab, &options);
    let mut none = 0;
    for delay in [0, 20, 60, 120, 200, 300, 450, 700, 1200] {
        let apply = lab.ns("node").spawn_weir(&["apply", &file]);
        std::thread::sleep(Duration::from_millis(delay));
        node.crash();
        apply.wait();
        node = Node::start_with(&lab, &options);
        // What was stored is done; what was not is undone.
        let listed = || node.weir(&["--json", "ps"]).json();
        until("the graph is whole or nothing of it is there", || match listed()[0]["state"].as_str() {
            Some(state) => state == "running",
            None => left(&lab).is_empty(),
        });
        if listed()[0].is_null() {
            none += 1;
            continue;
        }
        until_pings(&client, "10.0.0.2");
        node.weir(&["delete", &id]).ok();
        assert_eq!(left(&lab), Vec::<String>::new(), "after {delay} ms");
    }
    assert!(none > 0, "it was always ready before the daemon was killed");
    node.end();
}

#[test]
fn a_namespace_that_is_deleted_from_outside_is_made_again() {
    let lab = Lab::new(&["client", "node", "server"]);
    let (client, _server) = one_network(&lab);
    let images = image(&lab, "wire", "", &[("start", BRIDGE), ("stop", "ip link del bridge0")]);
    let node = Node::start_with(&lab, &["--images", &images]);
    let (id, file) = (lab.name("g"), graph(&lab, "wire", ""));
    node.weir(&["apply", &file]).ok();
    until_pings(&client, "10.0.0.2");
    let before = left(&lab);
    let name = before.iter().find_map(|n| n.strip_prefix("/run/netns/")).unwrap().to_owned();
    host(&["ip", "netns", "del", &name]).ok();
    until("it is reported", || node.weir(&["events", "--graph", &id]).ok().contains("function-up"));
    until("all is there again", || left(&lab) == before && state(&node, &lab) == "running");
    until_pings(&client, "10.0.0.2");
    // An interface that was renamed in it is none of its ports.
    host(&["ip", "netns", "exec", &name, "ip", "link", "set", "left", "down"]).ok();
    host(&["ip", "netns", "exec", &name, "ip", "link", "set", "left", "name", "other"]).ok();
    until("it is reported", || {
        node.weir(&["events", "--graph", &id]).ok().contains("its interface left was renamed or moved")
    });
    until("all is there again", || left(&lab) == before && state(&node, &lab) == "running");
    until_pings(&client, "10.0.0.2");
    node.weir(&["delete", &id]).ok();
    assert_eq!(left(&lab), Vec::<String>::new());
    node.end();
}

#[test]
fn a_disk_that_fills_while_an_image_is_copied_leaves_nothing_and_what_runs_goes_on() {
    let lab = Lab::new(&["client", "node", "server"]);
    let (client, _server) = one_network(&lab);
    let disk = Disk::mount(&lab.path("store"));
    let images = image(&lab, "wire", "", &[("start", BRIDGE), ("stop", "ip link del bridge0")]);
    let script = repository().join("scripts/busybox-image").display().to_string();
    host(&["cp", "-r", &repository().join("examples/container/box-bridge").display().to_string(), &images])
        .ok();
    host(&[&script, &format!("{images}/box-bridge/layout")]).ok();
    let node = Node::start_with(&lab, &["--images", &images]);
    let (id, file) = (lab.name("g"), graph(&lab, "wire", ""));
    node.weir(&["apply", &file]).ok();
    let there = || -> Vec<String> { left(&lab).into_iter().filter(|n| !n.contains("tmpfs")).collect() };
    let before = there();
    assert!(!before.is_empty());
    // Less than the image needs.
    disk.resize(900);
    let container = std::fs::read_to_string(graph(&lab, "box-bridge", "")).unwrap();
    let container = lab.write("container.yaml", container.replace(&id, &format!("{id}2")));
    let e = node.weir(&["apply", &container]).fails(1);
    assert!(e.contains("No space left on device"), "{e}");
    assert_eq!(there(), before, "something of the container is left");
    until_pings(&client, "10.0.0.2");
    disk.resize(100_000);
    node.weir(&["delete", &id]).ok();
    node.weir(&["apply", &container]).ok();
    until_pings(&client, "10.0.0.2");
    node.weir(&["delete", &format!("{id}2")]).ok();
    node.end();
}

/// A file system of its own.
struct Disk(String);

impl Disk {
    fn mount(at: &str) -> Disk {
        std::fs::create_dir_all(at).unwrap();
        host(&["mount", "-t", "tmpfs", "-o", "size=100m", "weirtest", at]).ok();
        Disk(at.to_owned())
    }

    /// Makes it so large, in KiB.
    fn resize(&self, size: u32) {
        host(&["mount", "-o", &format!("remount,size={size}k"), &self.0]).ok();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        _ = host(&["umount", "-l", &self.0]);
    }
}
