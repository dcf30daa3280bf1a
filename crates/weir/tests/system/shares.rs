//! Modules of several tenants at one address, each with ports of it.

use serde_json::Value;

use crate::domain::{Domain, lab};
use crate::lab::{Lab, until};
use crate::requests::{OFFER, TOPOLOGY, tenant};

/// A pool of two times 32 ports.
const SHARED: &str = "
topology: access.topology.yaml
platforms:
  n1: {gateway: 10.5.1.1, shared: [{address: 10.5.1.14, if-name: lan, ports: [20000, 20063], each: 32}]}
";

/// What comes by TCP goes on to a server at the client's address.
const WEB: &str = "
version: 1
share: tcp
modules:
  web:
    click: |
      rw :: IPRewriter(pattern $ADDRESS $PORTS 10.1.0.1 8080 0 1);
      FromNetfront() -> IPFilter(allow tcp) -> rw -> out :: ToNetfront();
      rw [1] -> out;
requirements: [can internet web tcp dst port $PORT]
";

/// What comes by UDP is answered.
const ECHO: &str = "
version: 1
share: udp
modules:
  echo: {click: 'FromNetfront() -> IPFilter(allow udp dst port $PORT) -> IPMirror -> ToNetfront()'}
requirements: [can internet echo udp dst port $PORT]
";

/// It sends whatever it gets on from a neighbour's port, and a second time as a fragment.
const SPOOF: &str = "
version: 1
share: udp
modules:
  spoof:
    click: |
      FromNetfront() -> IPFilter(allow udp dst port $PORT) -> copies :: Tee;
      copies [0] -> IPRewriter(pattern $ADDRESS 20000 10.1.0.1 9 0 0) -> out :: ToNetfront();
      copies [1] -> IPMirror -> out;
";

/// Prints source, protocol and source port of IPv4 packets from the shared address that come to an interface.
const SOURCES: &str = "
import socket
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
s.bind(('eth0', 0))
print('ready', flush=True)
while True:
    frame, where = s.recvfrom(2048)
    if where[2] != 4 and frame[26:30] == bytes([10, 5, 1, 14]):
        print(frame[23], int.from_bytes(frame[34:36], 'big'), int.from_bytes(frame[36:38], 'big'), flush=True)
";

fn domain(lab: &Lab) -> (Domain<'_>, Vec<crate::lab::Process>) {
    lab.write("access.topology.yaml", TOPOLOGY);
    let offer = lab.write("offer.yaml", SHARED);
    let domain = Domain::start_with(lab, &["--requests", &offer]);
    let nodes = domain.join_all();
    tenant(lab, &domain, "acme", "client");
    tenant(lab, &domain, "beta", "client");
    lab.ip("h1", "addr add 10.5.1.1/24 dev eth0");
    let set =
        "echo 1 >/proc/sys/net/ipv4/conf/all/accept_local; echo 0 | tee /proc/sys/net/ipv4/conf/*/rp_filter";
    lab.ns("h1").run(&["sh", "-c", set]).ok();
    (domain, nodes)
}

fn made(domain: &Domain<'_>, lab: &Lab, text: &str, who: &str) -> Value {
    let file = lab.write("shared.yaml", text);
    domain.weir(&["--json", "request", &file, "--context", who]).json()
}

/// What a UDP port answers to a text; nothing if it does not.
fn answer(lab: &Lab, port: u16) -> String {
    let ask = format!(
        "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(0.3)\n\
         s.sendto(b'hello', ('10.5.1.14', {port})); print(s.recv(99).decode())"
    );
    lab.ns("h1").run(&["python3", "-c", &ask]).stdout
}

#[test]
fn tenants_share_an_address_and_neither_gets_nor_sends_what_is_the_others() {
    let lab = lab(false);
    let (domain, _nodes) = domain(&lab);
    let first = made(&domain, &lab, ECHO, "acme");
    let module = &first["modules"][0];
    assert_eq!(
        (&module["address"], &module["ports"], &module["protocols"]),
        (&"10.5.1.14".into(), &"20000-20031".into(), &"udp".into()),
        "{first}"
    );
    let second = made(&domain, &lab, ECHO, "beta");
    assert_eq!(second["modules"][0]["ports"], "20032-20063", "{second}");
    // TCP has ports of its own.
    let web = made(&domain, &lab, WEB, "beta");
    assert_eq!(web["modules"][0]["ports"], "20000-20031", "{web}");
    let none = lab.write("none.yaml", ECHO);
    let refused = domain.weir(&["request", &none, "--context", "acme"]);
    assert!(refused.stderr.contains("no ports left"), "{}", refused.stderr);
    let wrong = lab.write("wrong.yaml", WEB.replace("tcp dst port $PORT", "udp dst port $PORT"));
    let refused = domain.weir(&["query", &wrong, "--context", "acme"]);
    assert!(refused.code != 0 && refused.stderr.contains("violated"), "{}", refused.stderr);

    until("answers of both", || answer(&lab, 20_000) == "hello\n" && answer(&lab, 20_032) == "hello\n");
    assert_eq!(answer(&lab, 20_001), "", "its module takes one port");
    let folder = lab.path("web");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(format!("{folder}/page"), "a page").unwrap();
    let serve = ["python3", "-m", "http.server", "8080", "--bind", "10.1.0.1", "--directory", &folder];
    let _server = lab.ns("h1").spawn_in_network(&serve);
    until("the server", || lab.ns("h1").run(&["ss", "-Hltn", "sport = :8080"]).stdout.contains("8080"));
    until("a page", || {
        let curl = ["curl", "-s", "-m", "2", "http://10.5.1.14:20000/page"];
        lab.ns("h1").run(&curl).stdout == "a page"
    });

    // The second tenant has a module that sends from the port of the first, which is still there, and in its own name too.
    domain.weir(&["request", "--end", second["id"].as_str().unwrap(), "--context", "beta"]).ok();
    let spoof = made(&domain, &lab, SPOOF, "beta");
    assert_eq!(spoof["modules"][0]["ports"], "20032-20063", "{spoof}");
    let sniffer = lab.ns("h1").spawn_in_network(&["python3", "-c", SOURCES]);
    until("the sniffer", || sniffer.stdout().contains("ready"));
    until("its own answer", || answer(&lab, 20_032) == "hello\n");
    for _ in 0..20 {
        answer(&lab, 20_032);
    }
    let id = spoof["id"].as_str().unwrap();
    let status = domain.json(&["show", id]).to_string();
    assert!(status.contains("WrongPort"), "{status}");
    let seen = sniffer.stdout();
    assert!(seen.contains("17 20032 "), "{seen}");
    assert!(!seen.contains("17 20000 9\n"), "nothing leaves from a neighbour's port: {seen}");
    assert_eq!(answer(&lab, 20_000), "hello\n", "the neighbour goes on");

    // Whole addresses are others, and a tenant takes no ports by a graph of its own.
    lab.write(
        "offer.yaml",
        OFFER.replace(
            "gateway",
            "shared: [{address: 10.5.1.9, if-name: lan, ports: [1, 9], each: 9}], gateway",
        ),
    );
    let plain =
        lab.write("plain.click", "FromNetfront() -> IPFilter(allow udp) -> IPMirror -> ToNetfront()\n");
    until("the new offer", || {
        let asked = domain.weir(&["--json", "query", &plain, "--context", "acme"]);
        asked.code == 0 && asked.json()["modules"][0]["address"] == "10.5.1.10"
    });
    let graph = "id: g\nname: g\nSFs: []\nsaps: [{id: s, type: interface, interface: {if-name: lan, share: '10.5.1.14:1-9'}}]\nflowrules: []\n";
    let file = lab.write("graph.yaml", graph);
    let refused = domain.weir(&["apply", &file, "--context", "acme"]);
    assert!(refused.stderr.contains("weir request"), "{}", refused.stderr);
}
