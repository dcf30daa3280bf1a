//! The images of this repository between real hosts.

use crate::lab::{Lab, Ns, PYTHON, repository, two_networks, until, until_pings};
use crate::node::Node;
use crate::traffic::{big_file, sha256, web_server};

/// A node that runs an image between interfaces of the namespace `node`.
fn image<'a>(lab: &'a Lab, name: &str, interfaces: &[&str], params: &str) -> Node<'a> {
    let ports: Vec<String> = (0..interfaces.len()).map(|i| format!("{{id: p{i}}}")).collect();
    let mut text = format!(
        "id: g\nname: g\nSFs:\n  - {{id: f, name: {name}, ports: [{}], params: {{{params}}}}}\nsaps:\n",
        ports.join(", ")
    );
    for i in interfaces {
        text.push_str(&format!("  - {{id: {i}, type: interface, interface: {{if-name: {i}}}}}\n"));
    }
    text.push_str("flowrules:\n");
    for (n, i) in interfaces.iter().enumerate() {
        for (from, to) in
            [(format!("sap:{i}"), format!("sf:f:p{n}")), (format!("sf:f:p{n}"), format!("sap:{i}"))]
        {
            let id = format!("{}{n}", if from.starts_with("sap") { "in" } else { "out" });
            text.push_str(&format!(
                "  - {{id: {id}, priority: 1, match: {{port_in: '{from}'}}, actions: {{output_to_port: '{to}'}}}}\n"
            ));
        }
    }
    let file = lab.write("graph.yaml", text);
    let node = Node::start(lab);
    node.weir(&["apply", &file]).ok();
    node
}

/// A client and a server in the network 10.0.0.0/24, on both sides of the namespace `node`.
fn one_network(lab: &Lab) -> (Ns<'_>, Ns<'_>) {
    lab.link(("node", "lan"), ("client", "eth0"));
    lab.link(("node", "wan"), ("server", "eth0"));
    lab.ip("client", "addr add 10.0.0.1/24 dev eth0");
    lab.ip("server", "addr add 10.0.0.2/24 dev eth0");
    (lab.ns("client"), lab.ns("server"))
}

fn handler(node: &Node, name: &str) -> String {
    node.weir(&["handler", "read", "g", "f", name]).ok()
}

/// Sends a datagram and waits for the error that answers it.
fn refused(from: &Ns, address: &str) -> String {
    let ask = "import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(10)
s.connect((sys.argv[1], 9999))
s.send(b'x')
try:
    s.recv(10)
except ConnectionRefusedError:
    print('refused')";
    from.run(&[PYTHON, "-c", ask, address]).ok()
}

fn ping(from: &Ns, more: &[&str]) -> (i32, String) {
    let out = from.run(&[&["ping", "-c1", "-W2"], more].concat());
    (out.code, out.stdout)
}

#[test]
fn the_firewall_lets_answers_pass_and_what_belongs_to_them() {
    let lab = Lab::new(&["client", "node", "server"]);
    let (client, server) = one_network(&lab);
    let rules = "RULES: 'allow icmp type echo, allow tcp dst port 80, allow udp dst port 9999, deny all'";
    let node = image(&lab, "firewall", &["lan", "wan"], rules);
    until_pings(&client, "10.0.0.2");
    let (_, sum) = big_file(&lab, "file", 3_000_000);
    let (_web, _other) =
        (web_server(&lab, "server", 80, &lab.path("")), web_server(&lab, "server", 81, &lab.path("")));
    let got = lab.path("got");
    client.run(&["curl", "-sS", "--max-time", "30", "-o", &got, "http://10.0.0.2/file"]).ok();
    assert_eq!(sha256(&got), sum);
    assert!(handler(&node, "table").contains("tcp 10.0.0.1:"), "{}", handler(&node, "table"));
    // The error of a closed port belongs to the datagram; a ping in fragments to its first fragment.
    assert_eq!(refused(&client, "10.0.0.2"), "refused\n");
    let (code, out) = ping(&client, &["-s", "6000", "10.0.0.2"]);
    assert_eq!(code, 0, "{out}");
    // Nothing else: by the rules, and unasked from outside.
    client.run(&["curl", "-sS", "--max-time", "1", "http://10.0.0.2:81/"]).fails(28);
    assert_ne!(ping(&server, &["-W", "0.5", "10.0.0.1"]).0, 0);
    let connect = "import socket
s = socket.socket()
s.settimeout(0.5)
try:
    s.connect(('10.0.0.1', 22))
except TimeoutError:
    print('silence')";
    assert_eq!(server.run(&[PYTHON, "-c", connect]).ok(), "silence\n");
    // Segments that no connection has.
    let ack = "from scapy.all import *
sendp(Ether(dst=getmacbyip('10.0.0.1')) / IP(dst='10.0.0.1') / TCP(sport=80, dport=5, flags='A'), iface='eth0', verbose=False)";
    server.run(&[PYTHON, "-c", ack]).ok();
    let show = || node.weir(&["show", "g"]).ok();
    until("the reasons", || ["Denied", "NoConnection"].iter().all(|r| show().contains(r)));
}

#[test]
fn the_router_forwards_and_says_why_not() {
    let lab = Lab::new(&["client", "node", "server"]);
    two_networks(&lab);
    lab.ip("server", "route add default via 10.0.2.1");
    let params = "LEFT_IP: 10.0.1.1, RIGHT_IP: 10.0.2.1, ROUTES: '10.0.1.0/24 0, 10.0.2.0/24 1'";
    let _node = image(&lab, "router", &["lan", "wan"], params);
    let client = lab.ns("client");
    until_pings(&client, "10.0.2.2");
    until_pings(&lab.ns("server"), "10.0.1.2");
    assert_eq!(ping(&client, &["10.0.2.1"]).0, 0, "the other address of the router");
    let (_, sum) = big_file(&lab, "file", 3_000_000);
    let _web = web_server(&lab, "server", 80, &lab.path(""));
    let got = lab.path("got");
    client.run(&["curl", "-sS", "--max-time", "30", "-o", &got, "http://10.0.2.2/file"]).ok();
    assert_eq!(sha256(&got), sum);
    let (code, out) = ping(&client, &["-t", "1", "10.0.2.2"]);
    assert!(code == 1 && out.contains("From 10.0.1.1") && out.contains("Time to live exceeded"), "{out}");
    let (code, out) = ping(&client, &["10.0.3.3"]);
    assert!(code == 1 && out.contains("Destination Net Unreachable"), "{out}");
    assert_eq!(refused(&client, "10.0.1.1"), "refused\n");
}

#[test]
fn the_ipv6_router_forwards() {
    let lab = Lab::new(&["client", "node", "server"]);
    for (name, link, n) in [("client", "lan", 1), ("server", "wan", 2)] {
        crate::ipv6::host(&lab, name, link, n);
    }
    let params = "LEFT_IP: 'fd00:1::1', RIGHT_IP: 'fd00:2::1', ROUTES: 'fd00:1::/64 0, fd00:2::/64 1'";
    let _node = image(&lab, "router6", &["lan", "wan"], params);
    let client = lab.ns("client");
    let answers = || client.run(&["ping", "-6", "-c1", "-W0.3", "fd00:2::2"]).code == 0;
    until("the server to answer", answers);
    assert_eq!(client.run(&["ping", "-6", "-c1", "-W2", "fd00:1::1"]).code, 0);
    let out = client.run(&["ping", "-6", "-c1", "-W2", "-t1", "fd00:2::2"]).stdout;
    assert!(out.contains("From fd00:1::1") && out.contains("Hop limit"), "{out}");
}

#[test]
fn the_bridge_learns_where_hosts_are() {
    let lab = Lab::new(&["node", "a", "b", "c"]);
    for (i, name) in ["a", "b", "c"].iter().enumerate() {
        lab.link(("node", &format!("port{i}")), (name, "eth0"));
        lab.ip(name, &format!("addr add 10.0.0.{}/24 dev eth0", i + 1));
    }
    let node = image(&lab, "bridge", &["port0", "port1", "port2"], "");
    until_pings(&lab.ns("a"), "10.0.0.2");
    until_pings(&lab.ns("b"), "10.0.0.3");
    assert_eq!(handler(&node, "table").lines().count(), 3, "{}", handler(&node, "table"));
    // What a says to b does not reach c.
    let dump = lab.ns("c").spawn(&["tcpdump", "-nl", "-i", "eth0", "icmp"]);
    until("tcpdump", || dump.stderr().contains("listening on"));
    lab.ns("a").run(&["ping", "-c3", "-i0.05", "-W2", "10.0.0.2"]).ok();
    lab.ns("a").run(&["ping", "-c1", "-W2", "10.0.0.3"]).ok();
    until("the ping to c", || dump.stdout().contains("10.0.0.1 > 10.0.0.3"));
    assert!(!dump.stdout().contains("10.0.0.2"), "{}", dump.stdout());
}

#[test]
fn the_load_balancer_spreads_connections() {
    let lab = Lab::new(&["client", "node", "server"]);
    two_networks(&lab);
    lab.ip("server", "addr add 10.0.2.3/24 dev eth0");
    lab.ip("server", "route add default via 10.0.2.1");
    let params = "VIP: 10.0.1.1, SERVERS_IP: 10.0.2.1, SERVERS_NET: 10.0.2.0/24, SERVICE: tcp dst port 80, \
                  SERVERS: '- - 10.0.2.2 8080 0 1, - - 10.0.2.3 8080 0 1'";
    let node = image(&lab, "load-balancer", &["lan", "wan"], params);
    let client = lab.ns("client");
    until_pings(&client, "10.0.1.1");
    for address in ["10.0.2.2", "10.0.2.3"] {
        std::fs::create_dir(lab.path(address)).unwrap();
        lab.write(&format!("{address}/index.html"), format!("{address}\n"));
    }
    let servers = ["10.0.2.2", "10.0.2.3"].map(|address| {
        let directory = lab.path(address);
        lab.ns("server").spawn(&[
            PYTHON,
            "-m",
            "http.server",
            "8080",
            "--bind",
            address,
            "--directory",
            &directory,
        ])
    });
    let get = || client.run(&["curl", "-sS", "--max-time", "10", "http://10.0.1.1/"]);
    until("both servers", || {
        let both = [get(), get()];
        both.iter().all(|o| o.code == 0) && both[0].stdout != both[1].stdout
    });
    // In turn, unless a late packet of a connection that is forgotten takes one.
    let pages: Vec<String> = (0..8).map(|_| get().ok()).collect();
    let of = |page: &str| pages.iter().filter(|p| p.trim() == page).count();
    assert!(of("10.0.2.2") >= 3 && of("10.0.2.3") >= 3, "{pages:?}");
    assert!(handler(&node, "table").contains("10.0.2.3"));
    client.run(&["curl", "-sS", "--max-time", "0.5", "http://10.0.1.1:81/"]).fails(28);
    drop(servers);
}

#[test]
fn a_forwarded_port_leads_to_the_server_and_no_other_does() {
    let lab = Lab::new(&["client", "node", "server"]);
    two_networks(&lab);
    let params = "SERVER: 10.0.1.2, SERVER_PORT: 8080, SERVICE: tcp dst port 80 or udp dst port 9999, INSIDE_IP: 10.0.1.1, \
                  INSIDE_NET: 10.0.1.0/24, OUTSIDE_IP: 10.0.2.1";
    let _node = image(&lab, "port-forwarding", &["lan", "wan"], params);
    let outside = lab.ns("server");
    until_pings(&outside, "10.0.2.1");
    lab.write("index.html", "inside\n");
    let web = web_server(&lab, "client", 8080, &lab.path(""));
    let page = outside.run(&["curl", "-sS", "--max-time", "20", "http://10.0.2.1/index.html"]).ok();
    assert_eq!(page, "inside\n");
    until("the server's log", || web.stderr().contains("GET /index.html"));
    assert!(
        web.stderr().lines().any(|l| l.starts_with("10.0.2.2 ")),
        "the server sees who asks: {}",
        web.stderr()
    );
    // The server has nothing at the other port: its error passes, and speaks of the address that was asked.
    assert_eq!(refused(&outside, "10.0.2.1"), "refused\n");
    outside.run(&["curl", "-sS", "--max-time", "0.5", "http://10.0.2.1:8080/"]).fails(28);
}

#[test]
fn the_nat_forwards_ports_and_counts_what_it_has_no_port_for() {
    let lab = Lab::new(&["client", "node", "server"]);
    two_networks(&lab);
    let params = "INSIDE_IP: 10.0.1.1, INSIDE_NET: 10.0.1.0/24, OUTSIDE_IP: 10.0.2.1, PORTS: 2000-2002, \
                  FILTERING: address-dependent, FORWARD: 'tcp 8080 10.0.1.2 80, udp 9999 10.0.1.2, udp 2001 10.0.1.2'";
    let node = image(&lab, "nat", &["lan", "wan"], params);
    let (client, outside) = (lab.ns("client"), lab.ns("server"));
    until_pings(&outside, "10.0.2.1");
    lab.write("index.html", "inside\n");
    let web = web_server(&lab, "client", 80, &lab.path(""));
    let get =
        |from: &Ns| from.run(&["curl", "-sS", "--max-time", "20", "http://10.0.2.1:8080/index.html"]).ok();
    assert_eq!(get(&outside), "inside\n");
    until("the server's log", || web.stderr().contains("GET /index.html"));
    assert!(web.stderr().lines().any(|l| l.starts_with("10.0.2.2 ")), "{}", web.stderr());
    // From the inside it is the same, and the server sees the outer address.
    assert_eq!(get(&client), "inside\n");
    until("the server's log", || web.stderr().lines().any(|l| l.starts_with("10.0.2.1 ")));
    // Nothing listens on the other port, whose error speaks of the address that was asked.
    assert_eq!(refused(&outside, "10.0.2.1"), "refused\n");
    outside.run(&["curl", "-sS", "--max-time", "0.5", "http://10.0.2.1:80/"]).fails(28);
    assert!(handler(&node, "table").contains("tcp (10.0.1.2, 80) => (10.0.2.1, 8080) forwarded"));
    // Of three ports one is forwarded: the third socket gets none.
    let send = "import socket
for port in [3000, 3001, 3002]:
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind(('10.0.1.2', port))
    s.sendto(b'x', ('10.0.2.2', 5000))";
    client.run(&[PYTHON, "-c", send]).ok();
    until("the reason", || node.weir(&["show", "g"]).ok().contains("NoPort"));
    let ports = || {
        let table = handler(&node, "table");
        [2000, 2001, 2002].map(|n| {
            let end = format!("=> (10.0.2.1, {n}) [*0 1]");
            table.lines().any(|l| l.starts_with("udp") && l.contains(&end))
        })
    };
    assert_eq!(ports(), [true, false, true]);
    assert!(handler(&node, "peers").contains(" <- 10.0.2.2:0 "), "{}", handler(&node, "peers"));
    // Another list takes effect at once, and the mappings stay.
    let document = std::fs::read_to_string(lab.path("graph.yaml")).unwrap();
    let file = lab.write("graph.yaml", document.replace("tcp 8080", "tcp 8081"));
    node.weir(&["apply", &file]).ok();
    let other = outside.run(&["curl", "-sS", "--max-time", "20", "http://10.0.2.1:8081/index.html"]).ok();
    assert_eq!(other, "inside\n");
    outside.run(&["curl", "-sS", "--max-time", "0.5", "http://10.0.2.1:8080/"]).fails(28);
    assert_eq!(ports(), [true, false, true]);
    // What is wrong with one is reported with its place.
    let file = lab.write("graph.yaml", document.replace("udp 9999 10.0.1.2", "udp 99999 10.0.1.2"));
    let out = node.weir(&["apply", &file]);
    let reported = "function.click:2:1: While configuring 'sf_f/nat :: IPEndpointRewriter': FORWARD: entry 2, 'udp 99999 10.0.1.2': \
                '99999' is not a port from 1 to 65535";
    assert!(out.code != 0 && out.stderr.contains(reported), "{out:?}");
}

#[test]
fn the_shaper_limits_and_connections_live_with_that() {
    let lab = Lab::new(&["client", "node", "server"]);
    let (client, _) = one_network(&lab);
    let node = image(&lab, "shaper", &["lan", "wan"], "RATE: 20Mbps, RETURN_RATE: 20Mbps, QUEUE: 100");
    until_pings(&client, "10.0.0.2");
    let (_, sum) = big_file(&lab, "file", 2_000_000);
    let _web = web_server(&lab, "server", 80, &lab.path(""));
    let got = lab.path("got");
    client.run(&["curl", "-sS", "--max-time", "50", "-o", &got, "http://10.0.0.2/file"]).ok();
    assert_eq!(sha256(&got), sum);
    // More at once than the bucket and the queue hold.
    let flood = "import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, 32, 1 << 24)  # SO_SNDBUFFORCE
for _ in range(2000):
    s.sendto(bytes(1400), ('10.0.0.2', 9999))";
    client.run(&[PYTHON, "-c", flood]).ok();
    until("dropped frames", || handler(&node, "dropped").trim() != "0");
    until_pings(&client, "10.0.0.2");
}

#[test]
fn a_broken_image_is_told_and_the_others_work() {
    let lab = Lab::new(&["node", "peer"]);
    lab.link(("node", "lan"), ("peer", "lan"));
    lab.link(("node", "wan"), ("peer", "wan"));
    let images = lab.path("images");
    std::fs::create_dir_all(format!("{images}/broken")).unwrap();
    lab.write("images/broken/function.yaml", "name: broken\nports: [a, b]\n");
    lab.write(
        "images/broken/function.click",
        "in_0 -> Strip(14)\n   -> Frobnicate -> out_1;\nin_1 -> out_0;\n",
    );
    lab.write("images/yaml.yaml", "name: unreadable\nprots: [a]\n");
    lab.write(
        "images/passwd.yaml",
        "name: passwd\nports: [a, b]\nclick: 'in_0 -> ToDump(/etc/passwd); in_1 -> Discard;'\n",
    );
    let graph = |name: &str| {
        let rule = |id: &str, from: &str, to: &str| {
            format!(
                "  - {{id: {id}, priority: 1, match: {{port_in: '{from}'}}, actions: {{output_to_port: '{to}'}}}}\n"
            )
        };
        let text = format!(
            "id: g\nname: g\nSFs:\n  - {{id: f, name: {name}, ports: [{{id: a}}, {{id: b}}]}}\nsaps:\n  \
             - {{id: l, type: interface, interface: {{if-name: lan}}}}\nflowrules:\n{}{}",
            rule("r1", "sap:l", "sf:f:a"),
            rule("r2", "sf:f:a", "sap:l"),
        );
        lab.write(&format!("{name}.yaml"), text)
    };
    let node = Node::start_with(&lab, &["--images", &images]);
    let list = lab.ns("node").run(&["curl", "-sS", "http://127.0.0.1:7400/v1/images"]).json();
    let broken: Vec<&str> =
        list["errors"].as_array().unwrap().iter().map(|e| e["name"].as_str().unwrap()).collect();
    assert_eq!(broken.len(), 3, "{list}");
    assert!(["broken", "unreadable", "passwd"].iter().all(|n| broken.contains(n)), "{list}");
    assert!(list["images"].as_array().unwrap().iter().any(|i| i["name"] == "firewall"), "{list}");
    node.weir(&["apply", &graph("firewall")]).ok();
    // A node and `weir check` say the same.
    let folders =
        ["--images", &images, "--images", repository().join("images").to_str().unwrap()].map(str::to_owned);
    let folders: Vec<&str> = folders.iter().map(String::as_str).collect();
    lab.ns("node").weir(&[&["check", &graph("firewall")], &folders[..]].concat()).ok();
    for (name, what) in [
        ("broken", "broken/function.click:2:7: undeclared element 'Frobnicate'"),
        ("unreadable", "'unreadable' is broken"),
        ("passwd", "passwd.yaml:3:17: "),
        ("absent", "there is no image 'absent'"),
    ] {
        let e = node.weir(&["apply", &graph(name)]).fails(1);
        assert!(e.contains(what), "{name}: {e}");
        let e = lab.ns("node").weir(&[&["check", &graph(name)], &folders[..]].concat()).fails(1);
        assert!(e.contains(what), "{name}: {e}");
    }
}
