//! A switch that obeys OpenFlow controllers: real ones (os-ken), and `ovs-ofctl` as a client.

use crate::functions::{image, left};
use crate::lab::{Lab, Ns, Output, Process, WEIR, poll, repository, until, until_pings};
use crate::node::Node;

const EXAMPLE: &str = "examples/openflow/switch.yaml";
const LEARNING: &str = "examples/openflow/learning_switch.py";

/// Three hosts with addresses 10.9.0.1 to 10.9.0.3, behind the interfaces e1 to e3 of a namespace.
fn hosts<'a>(lab: &'a Lab, switch: &str) -> [Ns<'a>; 3] {
    ["a", "b", "c"].map(|name| {
        let n = name.as_bytes()[0] - b'a' + 1;
        lab.link((switch, &format!("e{n}")), (name, "eth0"));
        lab.ip(name, &format!("addr add 10.9.0.{n}/24 dev eth0"));
        lab.ns(name)
    })
}

/// os-ken's learning switch, as a controller in a namespace.
fn learning(lab: &Lab, namespace: &str) -> Process {
    lab.ns(namespace).spawn(&["osken-manager", "--ofp-tcp-listen-port", "6653", LEARNING])
}

/// Whether a host can be reached.
fn reaches(from: &Ns, address: &str) -> bool {
    from.run(&["ping", "-c1", "-W1", address]).code == 0
}

/// What `weir show` says of the switch's controller; nothing while the switch does not answer in time.
fn controller(node: &Node) -> String {
    let shown = node.weir(&["show", "openflow"]).ok();
    let line = shown.lines().find(|l| l.starts_with("switch ") && l.contains("tcp:"));
    line.unwrap_or_default().to_owned()
}

/// `ovs-ofctl` against the switch of the graph, through its own socket.
fn ofctl(node: &Node, command: &str) -> Output {
    let line = format!("ovs-ofctl -O OpenFlow13 {command} unix:$PWD/openflow");
    node.weir(&["shell", "openflow", "switch", "--", "sh", "-c", &line])
}

#[test]
fn a_learning_switch_of_os_ken_controls_a_graph_and_what_becomes_of_it_without() {
    let lab = Lab::new(&["a", "b", "c", "node"]);
    let [a, b, _] = hosts(&lab, "node");
    let node = Node::start(&lab);
    node.weir(&["apply", EXAMPLE]).ok();
    assert!(!reaches(&a, "10.9.0.2"), "without rules nothing passes");
    until("that there is none", || controller(&node).contains("not connected"));
    let mut os_ken = learning(&lab, "node");
    until("the controller", || controller(&node).contains("connected, equal"));
    until_pings(&a, "10.9.0.2");
    until_pings(&a, "10.9.0.3");
    until_pings(&b, "10.9.0.3");
    let rules = ofctl(&node, "dump-flows").ok();
    assert!(rules.contains("priority=1,in_port=1") && rules.contains("actions=output:2"), "{rules}");
    assert!(rules.contains("priority=0 actions=CONTROLLER:65535"), "{rules}");
    // Segments that nobody cut yet, and unfinished checksums.
    let _server = b.spawn(&["iperf3", "-s", "-1"]);
    until("iperf3", || b.run(&["ss", "-ltn"]).stdout.contains(":5201"));
    let report = a.run(&["iperf3", "-c", "10.9.0.2", "-t1", "-J"]).json();
    let bytes = report["end"]["sum_received"]["bytes"].as_u64().unwrap();
    assert!(bytes > 1 << 20, "{bytes} bytes in a second");

    // The controller is gone: rules stay, and nobody is asked for new ones.
    os_ken.kill();
    until("that it is gone", || controller(&node).contains("not connected"));
    assert!(reaches(&a, "10.9.0.2"));
    // In the other mode it forwards by itself.
    let text = std::fs::read_to_string(repository().join(EXAMPLE)).unwrap();
    let changed = text.replace("6653\"}", "6653\", FAIL: standalone, PATIENCE: 0}");
    assert_ne!(changed, text);
    node.weir(&["apply", &lab.write("standalone.yaml", changed)]).ok();
    until_pings(&a, "10.9.0.2");
    assert_eq!(ofctl(&node, "dump-flows").ok().lines().count(), 1, "there are no rules");
    // A controller that comes is obeyed again.
    let _os_ken = learning(&lab, "node");
    until("the controller", || controller(&node).contains("connected, equal"));
    until_pings(&a, "10.9.0.3");
    until("its rules", || ofctl(&node, "dump-flows").ok().contains("priority=0 actions=CONTROLLER"));

    let wrong = text.replace("tcp:127.0.0.1:6653", "udp:127.0.0.1");
    let refused = node.weir(&["apply", &lab.write("wrong.yaml", wrong)]).fails(1);
    assert!(refused.contains("'udp:127.0.0.1' is no controller"), "{refused}");
    // The switch begins as root: a graph's author could have it make a socket anywhere on the node.
    let socket = text.replace("tcp:127.0.0.1:6653", &format!("punix:{}", lab.path("made")));
    let refused = node.weir(&["apply", &lab.write("socket.yaml", socket)]).fails(1);
    assert!(refused.contains("found a socket of the node"), "{refused}");
    node.weir(&["delete", "openflow"]).ok();
    assert_eq!(left(&lab), Vec::<String>::new());
    node.end();
}

#[test]
fn the_controller_may_be_a_function_of_the_same_graph() {
    let lab = Lab::new(&["a", "b", "c", "node"]);
    let [a, b, _] = hosts(&lab, "node");
    let app = repository().join(LEARNING).display().to_string();
    let start = "ip addr add 10.255.0.1/24 dev left; ip link set dev left up";
    // It keeps nothing elsewhere.
    let run = format!("exec osken-manager --ofp-tcp-listen-port 6653 {app}");
    let native = "native: {memory: 256 MB, processes: 16}\n";
    let images = image(&lab, "learning", native, &[("start", start), ("run", &run)]);
    let node = Node::start_with(&lab, &["--images", &images]);
    let graph = "id: openflow\nname: g\nSFs:\n  \
        - {id: brain, name: learning, ports: [eth]}\n  \
        - {id: switch, name: openflow-switch, ports: [control, a, b], \
           params: {CONTROL: p1, ADDRESS: 10.255.0.2/24, CONTROLLER: 'tcp:10.255.0.1:6653'}}\nsaps:\n  \
        - {id: a, type: interface, interface: {if-name: e1}}\n  - {id: b, type: interface, interface: {if-name: e2}}\n\
        flowrules:\n  \
        - {id: r1, priority: 1, match: {port_in: 'sap:a'}, actions: {output_to_port: 'sf:switch:a'}}\n  \
        - {id: r2, priority: 1, match: {port_in: 'sf:switch:a'}, actions: {output_to_port: 'sap:a'}}\n  \
        - {id: r3, priority: 1, match: {port_in: 'sap:b'}, actions: {output_to_port: 'sf:switch:b'}}\n  \
        - {id: r4, priority: 1, match: {port_in: 'sf:switch:b'}, actions: {output_to_port: 'sap:b'}}\n  \
        - {id: r5, priority: 1, match: {port_in: 'sf:brain:eth'}, actions: {output_to_port: 'sf:switch:control'}}\n  \
        - {id: r6, priority: 1, match: {port_in: 'sf:switch:control'}, actions: {output_to_port: 'sf:brain:eth'}}\n";
    node.weir(&["apply", &lab.write("graph.yaml", graph)]).ok();
    until("the controller", || controller(&node).contains("connected, equal"));
    until_pings(&a, "10.9.0.2");
    until_pings(&b, "10.9.0.1");
    let shown = ofctl(&node, "show").ok();
    assert!(shown.contains("1(p2)") && shown.contains("2(p3)") && !shown.contains("(p1)"), "{shown}");
    node.weir(&["delete", "openflow"]).ok();
    assert_eq!(left(&lab), Vec::<String>::new());
    node.end();
}

/// A switch of its own between three hosts, and `ovs-ofctl` against it.
struct Alone<'a> {
    lab: &'a Lab,
    hosts: [Ns<'a>; 3],
    socket: String,
    _process: Process,
}

impl<'a> Alone<'a> {
    fn start(lab: &'a Lab, options: &[&str]) -> Alone<'a> {
        let hosts = hosts(lab, "switch");
        let socket = lab.path("switch.sock");
        let target = format!("punix:{socket}");
        let ports = ["--port", "e1", "--port", "e2", "--port", "e3", "--controller", &target];
        let process = lab.ns("switch").spawn(&[&[WEIR, "openflow-switch"], &ports[..], options].concat());
        let switch = Alone { lab, hosts, socket, _process: process };
        until("the switch", || switch.ask(&["show"]).code == 0);
        switch
    }

    fn ask(&self, arguments: &[&str]) -> Output {
        let (command, rest) = arguments.split_first().unwrap();
        let target = format!("unix:{}", self.socket);
        let front = ["ovs-ofctl", "-O", "OpenFlow13", "--timeout=20", command, &target];
        self.lab.ns("switch").run(&[&front[..], rest].concat())
    }

    #[track_caller]
    fn has(&self, arguments: &[&str], texts: &[&str]) {
        let out = self.ask(arguments).ok();
        texts.iter().for_each(|text| assert!(out.contains(text), "no `{text}` in\n{out}"));
    }

    #[track_caller]
    fn refuses(&self, arguments: &[&str], code: &str) {
        let out = self.ask(arguments);
        assert!((out.stdout.clone() + &out.stderr).contains(code), "no {code}: {out:?}");
    }
}

#[test]
fn ovs_ofctl_sets_what_packets_meet() {
    let lab = Lab::new(&["a", "b", "c", "switch"]);
    let switch = Alone::start(&lab, &["--datapath", "abc", "--tables", "4"]);
    let [a, b, _] = &switch.hosts;
    switch.has(&["show"], &["dpid:0000000000000abc", "n_tables:4", "1(e1)", "3(e3)", "LIVE"]);
    assert!(!reaches(a, "10.9.0.2"));
    // Two tables, metadata, priorities.
    switch.ask(&["add-flow", "priority=0,actions=write_metadata:0x7/0xf,goto_table:1"]).ok();
    switch.ask(&["add-flow", "table=1,priority=10,metadata=0x7/0xf,arp,actions=FLOOD"]).ok();
    switch.ask(&["add-flow", "table=1,priority=10,icmp,nw_dst=10.9.0.0/24,in_port=1,actions=output:2"]).ok();
    switch.ask(&["add-flow", "table=1,priority=10,icmp,in_port=2,actions=output:1"]).ok();
    until_pings(a, "10.9.0.2");
    assert!(!reaches(a, "10.9.0.3"));
    switch.ask(&["add-flow", "table=1,priority=20,icmp,nw_dst=10.9.0.2,actions=drop"]).ok();
    assert!(!reaches(a, "10.9.0.2"), "a higher priority drops them");
    switch
        .has(&["dump-flows", "table=1"], &["priority=20,icmp,nw_dst=10.9.0.2 actions=drop", "n_packets=1,"]);
    switch.ask(&["del-flows", "--strict", "table=1,priority=20,icmp,nw_dst=10.9.0.2"]).ok();
    assert!(reaches(a, "10.9.0.2"));
    // Not strict: all that are covered.
    switch.ask(&["mod-flows", "table=1,icmp,actions=drop"]).ok();
    assert!(!reaches(a, "10.9.0.2"));
    switch.has(&["dump-aggregate", "table=1,icmp"], &["flow_count=2"]);
    // Groups: a copy to each of two hosts.
    switch.ask(&["add-group", "group_id=9,type=all,bucket=output:2,bucket=output:3"]).ok();
    switch.ask(&["mod-flows", "table=1,icmp,in_port=1,actions=group:9"]).ok();
    switch.ask(&["mod-flows", "table=1,icmp,in_port=2,actions=output:1"]).ok();
    assert!(reaches(a, "10.9.0.2"));
    switch.has(&["dump-group-stats"], &["group_id=9", "ref_count=1", "packet_count=1"]);
    // The first port that is live; its link goes.
    switch
        .ask(&["mod-group", "group_id=9,type=ff,bucket=watch_port:3,output:3,bucket=watch_port:2,output:2"])
        .ok();
    switch.ask(&["add-flow", "table=1,priority=10,icmp,in_port=3,actions=output:1"]).ok();
    until_pings(a, "10.9.0.3");
    assert!(!reaches(a, "10.9.0.2"));
    lab.ip("c", "link set eth0 down");
    until_pings(a, "10.9.0.2");
    lab.ip("c", "link set eth0 up");
    until_pings(a, "10.9.0.3");
    // A group that goes takes its entries with it.
    switch.ask(&["del-groups", "group_id=9"]).ok();
    assert!(!switch.ask(&["dump-flows"]).ok().contains("group:9"));
    // A meter.
    switch.ask(&["add-meter", "meter=1,pktps,burst,band=type=drop,rate=1,burst_size=2"]).ok();
    switch.ask(&["add-flow", "table=1,priority=30,icmp,in_port=1,actions=meter:1,output:2"]).ok();
    let flood = a.run(&["ping", "-c10", "-i0.01", "-W1", "10.9.0.2"]).stdout;
    let passed = (2..5).any(|n| flood.contains(&format!(" {n} received")));
    assert!(passed, "{flood}");
    switch.has(&["meter-stats", "meter=1"], &["flow_count:1", "packet_in_count:10"]);
    // What is changed on the path: the other host sees another source, with right checksums.
    switch.ask(&["add-flow", "table=1,priority=30,udp,in_port=1,actions=set_field:10.9.0.99->ip_src,set_field:7777->udp_dst,output:2"]).ok();
    let listener = b.spawn(&["socat", "-u", "UDP-RECVFROM:7777", "SYSTEM:echo $SOCAT_PEERADDR; cat"]);
    until("a listener", || b.run(&["ss", "-lun"]).stdout.contains(":7777"));
    a.run(&["sh", "-c", "echo hello | socat -u - UDP-SENDTO:10.9.0.2:1234"]).ok();
    until("the datagram", || listener.stdout().contains("10.9.0.99") && listener.stdout().contains("hello"));
    // Time-outs, and what a monitor hears.
    let target = format!("unix:{}", switch.socket);
    let control = format!("--unixctl={}", lab.path("monitor.ctl"));
    let monitor = ["ovs-ofctl", "-O", "OpenFlow13", &control, "monitor", &target, "65534"];
    let monitor = lab.ns("switch").spawn(&monitor);
    switch
        .ask(&["add-flow", "table=2,priority=5,hard_timeout=1,send_flow_rem,cookie=0x77,ip,actions=drop"])
        .ok();
    switch.ask(&["add-flow", "table=1,priority=40,icmp,in_port=1,actions=CONTROLLER:65535"]).ok();
    assert!(!reaches(a, "10.9.0.2"));
    let heard = || monitor.stdout() + &monitor.stderr();
    until("what a monitor hears", || {
        let heard = heard();
        heard.contains("OFPT_FLOW_REMOVED")
            && heard.contains("cookie:0x77")
            && heard.contains("OFPT_PACKET_IN")
    });
    lab.ip("c", "link set eth0 down");
    until("the port's state", || heard().contains("OFPT_PORT_STATUS"));
    // The packet of a controller.
    let packet = "ffffffffffff0200000000010806000108000604000102000000000a0a0900630000000000000a090002";
    switch.ask(&["packet-out", &format!("in_port=controller packet={packet} actions=output:2")]).ok();
    until("the question of ARP is answered", || b.run(&["ip", "neigh"]).stdout.contains("02:00:00:00:00:0a"));
}

/// Runs `openssl`.
fn openssl(lab: &Lab, arguments: &str) {
    lab.ns("switch")
        .run(&[&["openssl"], &arguments.split_whitespace().collect::<Vec<_>>()[..]].concat())
        .ok();
}

/// A certificate of an authority, in files of the lab.
fn certificate(lab: &Lab, name: &str, authority: &str) {
    let file = |end: &str| lab.path(&format!("{name}.{end}"));
    openssl(
        lab,
        &format!("req -newkey rsa:2048 -nodes -subj /CN={name} -keyout {} -out {}", file("key"), file("csr")),
    );
    let extensions = lab.write("extensions", "basicConstraints=CA:FALSE\n");
    let signer = format!("-CA {0}.pem -CAkey {0}.key -CAcreateserial", lab.path(authority));
    openssl(
        lab,
        &format!("x509 -req -in {} {signer} -extfile {extensions} -out {}", file("csr"), file("pem")),
    );
}

#[test]
fn controllers_by_tls_show_a_certificate_of_the_authority() {
    let lab = Lab::new(&["a", "b", "c", "switch"]);
    for authority in ["ours", "theirs"] {
        let [key, pem] = ["key", "pem"].map(|end| lab.path(&format!("{authority}.{end}")));
        openssl(
            &lab,
            &format!("req -x509 -newkey rsa:2048 -nodes -subj /CN={authority} -keyout {key} -out {pem}"),
        );
    }
    certificate(&lab, "sw", "ours");
    certificate(&lab, "good", "ours");
    certificate(&lab, "bad", "theirs");
    let [own, key, authority] = ["sw.pem", "sw.key", "ours.pem"].map(|f| lab.path(f));
    let files = ["--certificate", &own, "--key", &key, "--authority", &authority];
    let targets = ["--controller", "ptls:6654", "--controller", "tls:127.0.0.1:6653"];
    let switch = Alone::start(&lab, &[&files[..], &targets[..]].concat());
    let ask = |name: &str| {
        let [own, key] = ["pem", "key"].map(|end| lab.path(&format!("{name}.{end}")));
        let front =
            ["ovs-ofctl", "-O", "OpenFlow13", "--timeout=20", "-c", &own, "-p", &key, "-C", &authority];
        lab.ns("switch").run(&[&front[..], &["show", "ssl:127.0.0.1:6654"]].concat())
    };
    assert!(ask("good").ok().contains("1(e1)"));
    assert_ne!(ask("bad").code, 0, "one of another authority");
    // Dialled: os-ken shows another certificate of the authority.
    let [own, key] = ["good.pem", "good.key"].map(|f| lab.path(f));
    let tls = [
        "--ctl-privkey",
        &key,
        "--ctl-cert",
        &own,
        "--ca-certs",
        &authority,
        "--ofp-ssl-listen-port",
        "6653",
    ];
    let _os_ken = lab.ns("switch").spawn(&[&["osken-manager"], &tls[..], &[LEARNING]].concat());
    let [a, ..] = &switch.hosts;
    until_pings(a, "10.9.0.2");
}

#[test]
fn what_cannot_be_is_refused_with_its_code_and_the_rest_goes_on() {
    let lab = Lab::new(&["a", "b", "c", "switch"]);
    let switch = Alone::start(&lab, &["--tables", "4"]);
    let [a, ..] = &switch.hosts;
    switch.ask(&["add-flow", "priority=0,actions=NORMAL"]).ok();
    until_pings(a, "10.9.0.2");
    switch.ask(&["add-flow", "priority=7,ip,nw_dst=172.16.0.0/12,actions=drop"]).ok();
    for (request, code) in [
        (["add-flow", "table=9,actions=drop"], "OFPFMFC_BAD_TABLE_ID"),
        (["add-flow", "table=2,actions=goto_table:9"], "OFPBIC_BAD_TABLE_ID"),
        (["add-flow", "actions=group:5"], "OFPBAC_BAD_OUT_GROUP"),
        (["add-flow", "actions=meter:5,output:1"], "OFPMMFC_UNKNOWN_METER"),
        (["add-flow", "check_overlap,priority=7,ip,actions=output:1"], "OFPFMFC_OVERLAP"),
        (["add-group", "group_id=1,type=all,bucket=group:1"], "OFPGMFC_LOOP"),
        (["mod-group", "group_id=1,type=all"], "OFPGMFC_UNKNOWN_GROUP"),
        (["mod-meter", "meter=1,kbps,band=type=drop,rate=1"], "OFPMMFC_UNKNOWN_METER"),
        (["dump-ports", "77"], "OFPBRC_BAD_PORT"),
    ] {
        switch.refuses(&request, code);
    }
    // Bytes that are no message, of somebody who has the socket.
    let hostile = "import os, socket, sys\n\
        for n in range(200):\n  \
          s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])\n  \
          s.send(b'\\x04\\x00\\x00\\x08\\x00\\x00\\x00\\x01' + bytes([4, n % 32, 0, 8 + n]) + os.urandom(n + 4)); s.close()\n";
    switch.lab.ns("switch").run(&[crate::lab::PYTHON, "-c", hostile, &switch.socket]).ok();
    assert!(poll(50, || reaches(a, "10.9.0.2")), "packets go on");
    switch.has(
        &["dump-flows"],
        &["priority=7,ip,nw_dst=172.16.0.0/12 actions=drop", "priority=0 actions=NORMAL"],
    );
    let refused = lab.ns("switch").weir(&["openflow-switch", "--port", "none"]);
    assert!(refused.stderr.contains("no interface `none`"), "{refused:?}");
}
