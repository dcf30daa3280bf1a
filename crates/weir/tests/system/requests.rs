//! Requests for processing at a controller with nodes: proved, placed, run, used by hosts, and ended.

use serde_json::Value;

use crate::domain::{Domain, lab};
use crate::lab::{Lab, until};

/// The network: the internet reaches platforms n1 and n2 over a router; the client is behind the same one.
pub(crate) const TOPOLOGY: &str = "
version: 1
name: access
boxes:
  internet: {kind: internet}
  client: {kind: client, owns: 10.1.0.1, owner: acme}
  border:
    kind: router
    interfaces:
      wan: 192.0.2.2/30
      lan: 10.1.0.200/24
      n1: 10.5.1.1/24
    routes: [default via 192.0.2.1]
  n1: {kind: platform, owns: 10.5.1.8/29}
links:
  - border:wan - internet
  - border:lan - client
  - border:n1 - n1
owners:
  acme: {role: client, registered: 10.1.0.1}
  video: {role: third-party, registered: 10.5.1.1}
";

pub(crate) const OFFER: &str = "
topology: access.topology.yaml
platforms:
  n1: {access: [{if-name: lan}], gateway: 10.5.1.1}
";

/// Figure 2.2 with the client's address here, and without the wait of two minutes.
const NOTIFY: &str = "FromNetfront() ->
IPFilter(allow udp port 1500) ->
IPRewriter(pattern - - 10.1.0.1 - 0 0)
-> TimedUnqueue(1,100)
-> ToNetfront()

REQUIRE reach 0/0 10.1.0.1 udp 1500
";

/// It sends what it gets to somebody who asked for nothing.
const FLOOD: &str =
    "FromNetfront() -> IPFilter(allow udp) -> IPRewriter(pattern - - 203.0.113.9 - 0 0) -> ToNetfront()\n";

/// Writes what the operator offers, and says where.
pub(crate) fn offer(lab: &Lab) -> String {
    lab.write("access.topology.yaml", TOPOLOGY);
    lab.write("offer.yaml", OFFER)
}

/// A key of a tenant, and the context that has it.
pub(crate) fn tenant(lab: &Lab, domain: &Domain<'_>, name: &str, kind: &str) {
    let key = lab.path(&format!("{name}.key"));
    domain.weir(&["tenant", "add", name, "--kind", kind]).ok();
    domain.weir(&["key", "new", &key]).ok();
    domain.weir(&["key", "add", name, &format!("{key}.pub"), "--role", "tenant", "--tenant", name]).ok();
    domain
        .weir(&[
            "context",
            "add",
            name,
            crate::domain::CONTROLLER,
            "--key",
            &key,
            "--fingerprint",
            &domain.pin(),
        ])
        .ok();
}

#[test]
fn a_request_is_proved_runs_at_its_address_and_ends() {
    let lab = lab(false);
    let offer = offer(&lab);
    let domain = Domain::start_with(&lab, &["--requests", &offer]);
    let _nodes = domain.join_all();
    tenant(&lab, &domain, "acme", "client");
    tenant(&lab, &domain, "video", "third-party");
    // The host of n1's lan is the gateway of the platform, and has the client's address.
    lab.ip("h1", "addr add 10.5.1.1/24 dev eth0");
    // What it sends as the gateway comes back to it as the client: it has to take packets from an address of its own.
    let set =
        "echo 1 >/proc/sys/net/ipv4/conf/all/accept_local; echo 0 | tee /proc/sys/net/ipv4/conf/*/rp_filter";
    lab.ns("h1").run(&["sh", "-c", set]).ok();
    let file = lab.write("notify.click", NOTIFY);
    let asked = domain.weir(&["--json", "query", &file, "--context", "acme"]).json();
    assert_eq!(asked["id"], Value::Null);
    assert_eq!(
        domain.weir(&["--json", "request"]).json().as_array().unwrap().len(),
        0,
        "a query starts nothing"
    );

    let made = domain.weir(&["--json", "request", &file, "--context", "acme"]).json();
    assert_eq!(made["node"], "n1");
    assert_eq!(made["modules"][0]["address"], "10.5.1.9");
    let findings = made["findings"].as_array().unwrap();
    assert!(findings.iter().all(|f| f["verdict"] == "holds"), "{findings:?}");
    let reach = findings.iter().find(|f| f["requirement"].as_str().unwrap().contains("reach")).unwrap();
    assert!(reach["packet"].is_string(), "{reach}");
    let id = made["id"].as_str().unwrap().to_owned();

    // What is sent to the module on port 1500 comes back to the client's address; what is sent to another port does not.
    let receive = "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('10.1.0.1', 1500))\n\
        while True: print(s.recv(99).decode(), flush=True)";
    let receiver = lab.ns("h1").spawn_in_network(&["/usr/bin/python3", "-c", receive]);
    until("a notification", || {
        for (port, text) in [(1501, "wrong"), (1500, "notify")] {
            let send = format!("echo -n {text} >/dev/udp/10.5.1.9/{port}");
            lab.ns("h1").run(&["bash", "-c", &send]);
        }
        receiver.stdout().contains("notify")
    });
    assert!(!receiver.stdout().contains("wrong"));

    // Each tenant knows of its own.
    let list = |who: &str| domain.weir(&["--json", "request", "--context", who]).json();
    assert_eq!(list("acme").as_array().unwrap().len(), 1);
    assert_eq!(list("video").as_array().unwrap().len(), 0);
    let others = domain.weir(&["request", "--end", &id, "--context", "video"]);
    assert!(others.code != 0 && others.stderr.contains("there is no request"), "{}", others.stderr);

    // The access point is taken; then it is free again.
    let second = domain.weir(&["request", &file, "--context", "acme"]);
    assert!(second.stderr.contains("all access points for requests are taken"), "{}", second.stderr);
    domain.weir(&["request", "--end", &id, "--context", "acme"]).ok();
    assert_eq!(list("acme").as_array().unwrap().len(), 0);
    assert!(domain.ps().is_empty());

    // A third party may not send to who agreed to nothing; a client may.
    let flood = lab.write("flood.click", FLOOD);
    let refused = domain.weir(&["request", &flood, "--context", "video"]);
    assert!(
        refused.code != 0 && refused.stderr.contains("security module third-party"),
        "{}",
        refused.stderr
    );
    assert!(domain.ps().is_empty(), "nothing is half done");
    // It ends when its time is over.
    let made = domain.weir(&["--json", "request", &flood, "--lifetime", "3", "--context", "acme"]).json();
    assert_eq!(made["tenant"], "acme");
    until("its end", || domain.ps().is_empty());
    assert_ne!(made["id"], id.as_str(), "no identifier is used again");
    // A script of a tenant's own runs by a request only.
    let graph = "id: g\nname: g\nSFs: [{id: f, name: f, click: 'in_0 -> out_0;', ports: [p]}]\n";
    let file = lab.write("script.yaml", graph);
    let refused = domain.weir(&["apply", &file, "--context", "acme"]);
    assert!(refused.stderr.contains("weir request"), "{}", refused.stderr);
}

/// A stock filter before a module that forwards to the client.
const STOCK: &str = "
version: 1
lifetime: 5
modules:
  filter: {image: packet-filter, params: {RULES: 'allow udp dst port 1500, deny all'}}
  forward: {click: 'FromNetfront() -> IPRewriter(pattern - - 10.1.0.1 - 0 0) -> ToNetfront()'}
links: ['filter:outside -> forward:netfront0']
requirements:
  - can internet client via filter udp dst port 1500
";

#[test]
fn a_request_of_images_ends_in_time_and_one_who_floods_harms_nobody() {
    let lab = lab(false);
    lab.write("access.topology.yaml", TOPOLOGY);
    let images = crate::lab::repository().join("images");
    let offered = format!("{OFFER}images: {}\nrate: 3\n", images.display());
    let offer = lab.write("offer.yaml", &offered);
    let mut domain = Domain::start_with(&lab, &["--requests", &offer]);
    let _nodes = domain.join_all();
    tenant(&lab, &domain, "acme", "client");
    tenant(&lab, &domain, "video", "third-party");
    lab.ip("h1", "addr add 10.5.1.1/24 dev eth0");
    let set =
        "echo 1 >/proc/sys/net/ipv4/conf/all/accept_local; echo 0 | tee /proc/sys/net/ipv4/conf/*/rp_filter";
    lab.ns("h1").run(&["sh", "-c", set]).ok();

    // What a program does cannot be proved.
    let squid = lab.write("squid.yaml", "version: 1\nmodules: {cache: {image: squid}}\n");
    let refused = domain.weir(&["request", &squid, "--context", "acme"]);
    assert!(refused.code != 0 && refused.stderr.contains("cannot be proved"), "{}", refused.stderr);
    assert!(refused.stderr.contains("native"), "{}", refused.stderr);

    let file = lab.write("stock.yaml", STOCK);
    let made = domain.weir(&["--json", "request", &file, "--lifetime", "600", "--context", "acme"]).json();
    let findings = made["findings"].as_array().unwrap();
    assert!(findings.len() == 3 && findings.iter().all(|f| f["verdict"] == "holds"), "{findings:?}");
    let receive = "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('10.1.0.1', 1500))\n\
        while True: print(s.recv(99).decode(), flush=True)";
    let receiver = lab.ns("h1").spawn_in_network(&["/usr/bin/python3", "-c", receive]);
    let address = made["modules"][0]["address"].as_str().unwrap().to_owned();
    until("a notification", || {
        lab.ns("h1").run(&["bash", "-c", &format!("echo -n notify >/dev/udp/{address}/1500")]);
        receiver.stdout().contains("notify")
    });
    domain.weir(&["request", "--end", made["id"].as_str().unwrap(), "--context", "acme"]).ok();

    // Its lifetime holds although the controller is not there.
    domain.weir(&["request", &file, "--context", "acme"]).ok();
    assert_eq!(domain.ps().len(), 1);
    domain.restart(&["--requests", &offer]);
    until("its end", || domain.ps().is_empty());

    // Who asks without end is stopped; others are not.
    let flood = "for i in $(seq 40); do $0 query $1 --context acme & done; wait";
    let program = crate::lab::WEIR;
    let flooding = lab.ns("control").spawn(&["bash", "-c", flood, program, &file]);
    until("a refusal", || flooding.stderr().contains("ask again in"));
    let other = lab.write("noloops.click", "noloops\n");
    domain.weir(&["query", &other, "--context", "video"]).ok();
    drop(flooding);

    // The network changes: the client is not reached any more.
    let without = TOPOLOGY.replace("  - border:lan - client\n", "");
    lab.write("access.topology.yaml", &without);
    until("the new topology", || {
        domain.weir(&["query", &file, "--context", "acme"]).stderr.contains("can internet client via filter")
    });
    // One with mistakes changes nothing.
    lab.write("access.topology.yaml", "version: 1\n");
    let refused = domain.weir(&["query", &file, "--context", "video"]);
    assert!(refused.stderr.contains("can internet client via filter"), "{}", refused.stderr);
}

#[test]
fn a_client_finds_its_controller_by_dhcp() {
    let lab = lab(false);
    let domain = Domain::start(&lab);
    let serve = |option: &str| {
        let leases = format!("--dhcp-leasefile={}", lab.path("leases"));
        let range = "--dhcp-range=10.99.0.100,10.99.0.110,255.255.255.0";
        let mut command =
            vec!["dnsmasq", "-k", "--conf-file=/dev/null", "--pid-file=", "--port=0", "--user=root"];
        command.extend(["--interface=br0", "--bind-interfaces", "--log-facility=-", range, &leases]);
        command.extend((!option.is_empty()).then_some(option));
        let server = lab.ns("control").spawn(&command);
        until("dnsmasq", || server.stderr().contains("sockets bound exclusively"));
        server
    };
    let client = lab.ns("n1");
    let add = ["context", "add", "found", "dhcp:m0", "--token", domain.token()];
    let server = serve("");
    let said = client.weir(&add).stderr;
    assert!(said.contains("does not say where a controller is"), "{said}");
    drop(server);
    let _server = serve(&format!("--dhcp-option=224,{} {}", crate::domain::CONTROLLER, domain.pin()));
    client.weir(&add).ok();
    assert!(client.weir(&["--json", "ps", "--context", "found"]).json().as_array().unwrap().is_empty());
    assert!(client.weir(&["context", "add", "x", "dhcp:nosuch"]).stderr.contains("nosuch"));
}
