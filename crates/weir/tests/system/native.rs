//! The native images of this repository between real hosts: what a user can rely on.

use weir_node::compute::cgroup::Cgroup;
use weir_node::compute::hosted::Paths;
use weir_node::instance::InstanceId;

use crate::functions::left;
use crate::lab::{Lab, Ns, Output, poll, until, until_pings};
use crate::node::Node;
use crate::traffic::web_server;

/// A node with one function, whose ports are at the interfaces of the same numbers.
struct Deployed<'a> {
    lab: &'a Lab,
    node: Node<'a>,
    image: &'a str,
    interfaces: &'a [&'a str],
}

impl<'a> Deployed<'a> {
    fn new(lab: &'a Lab, image: &'a str, interfaces: &'a [&'a str], params: &str) -> Deployed<'a> {
        let d = Deployed { lab, node: Node::start(lab), image, interfaces };
        d.apply(params).ok();
        d
    }

    /// Applies the graph with these parameters.
    fn apply(&self, params: &str) -> Output {
        let ports: Vec<String> = (0..self.interfaces.len()).map(|i| format!("{{id: p{i}}}")).collect();
        let mut text = format!(
            "id: {}\nname: g\nSFs:\n  - {{id: f, name: {}, ports: [{}], params: {{{params}}}}}\nsaps:\n",
            self.lab.name("g"),
            self.image,
            ports.join(", ")
        );
        for i in self.interfaces {
            text += &format!("  - {{id: {i}, type: interface, interface: {{if-name: {i}}}}}\n");
        }
        text += "flowrules:\n";
        for (n, i) in self.interfaces.iter().enumerate() {
            let rule = |id: &str, from: &str, to: &str| {
                format!(
                    "  - {{id: {id}{n}, priority: 1, match: {{port_in: '{from}'}}, actions: {{output_to_port: '{to}'}}}}\n"
                )
            };
            text += &rule("in", &format!("sap:{i}"), &format!("sf:f:p{n}"));
            text += &rule("out", &format!("sf:f:p{n}"), &format!("sap:{i}"));
        }
        let file = self.lab.write("graph.yaml", text);
        self.node.weir(&["apply", &file])
    }

    fn handler(&self, name: &str) -> String {
        self.node.weir(&["handler", "read", &self.lab.name("g"), "f", name]).ok()
    }

    /// Refuses parameters, with a message that has this in it.
    #[track_caller]
    fn refuses(&self, params: &str, message: &str) {
        let e = self.apply(params).fails(1);
        assert!(e.contains(message), "{params}: {e}");
    }

    /// Removes the graph; nothing is left of the function.
    fn end(self) {
        self.node.weir(&["delete", &self.lab.name("g")]).ok();
        assert_eq!(left(self.lab), Vec::<String>::new());
        self.node.end();
    }
}

/// A host with an address behind an interface of the node.
fn host<'a>(lab: &'a Lab, name: &str, interface: &str, address: &str) -> Ns<'a> {
    lab.link(("node", interface), (name, "eth0"));
    lab.ip(name, &format!("addr add {address} dev eth0"));
    lab.ns(name)
}

fn curl(from: &Ns, arguments: &[&str]) -> Output {
    from.run(&[&["curl", "-sS", "-f", "--max-time", "5"], arguments].concat())
}

#[test]
fn the_bridge_of_the_kernel_learns_and_isolates() {
    let lab = Lab::new(&["a", "b", "c", "node"]);
    let (a, b) = (host(&lab, "a", "e1", "10.0.0.1/24"), host(&lab, "b", "e2", "10.0.0.2/24"));
    host(&lab, "c", "e3", "10.0.0.3/24");
    let d = Deployed::new(&lab, "linux-bridge", &["e1", "e2", "e3"], "");
    until_pings(&a, "10.0.0.2");
    until_pings(&a, "10.0.0.3");
    let table = d.handler("table");
    assert!(["p1", "p2", "p3"].iter().all(|p| table.contains(p)), "{table}");
    d.apply("ISOLATED: 'p1 p3'").ok();
    assert!(!poll(3, || a.run(&["ping", "-c1", "-W0.3", "10.0.0.3"]).code == 0), "isolated from each other");
    until_pings(&b, "10.0.0.3");
    d.refuses("ISOLATED: 'p1;reboot'", "ISOLATED");
    d.end();
}

#[test]
fn the_nat_of_the_kernel_hides_forwards_and_hairpins() {
    let lab = Lab::new(&["inside", "outside", "node"]);
    let inside = host(&lab, "inside", "lan", "10.0.0.5/24");
    let outside = host(&lab, "outside", "wan", "10.7.0.2/24");
    lab.ip("inside", "route add default via 10.0.0.1");
    lab.ip("outside", "addr add 10.99.0.1/32 dev lo");
    let _web = web_server(&lab, "outside", 80, &lab.path(""));
    let _own = web_server(&lab, "inside", 80, &lab.path(""));
    lab.write("page", "a page");
    let base = "INSIDE_IP: 10.0.0.1, INSIDE_NET: 10.0.0.0/24, OUTSIDE_IP: 10.7.0.1, OUTSIDE_NET: 10.7.0.0/24, GATEWAY: 10.7.0.2";
    let d =
        Deployed::new(&lab, "nft-nat", &["lan", "wan"], &format!("{base}, FORWARD: 'tcp 8080 10.0.0.5 80'"));
    until_pings(&inside, "10.99.0.1");
    assert_eq!(curl(&inside, &["http://10.99.0.1/page"]).ok(), "a page");
    assert_eq!(curl(&outside, &["http://10.7.0.1:8080/page"]).ok(), "a page");
    assert_eq!(curl(&inside, &["http://10.7.0.1:8080/page"]).ok(), "a page", "hairpin");
    lab.ip("outside", "route add 10.0.0.0/24 via 10.7.0.1");
    assert_ne!(outside.run(&["ping", "-c1", "-W0.5", "10.0.0.5"]).code, 0, "nothing unasked");
    d.refuses(&format!("{base}, FORWARD: 'tcp 80 10.0.0.5 80; drop'"), "FORWARD");
    d.apply(base).ok();
    assert_ne!(
        curl(&outside, &["--max-time", "1", "http://10.7.0.1:8080/page"]).code,
        0,
        "no longer forwarded"
    );
    assert_eq!(curl(&inside, &["http://10.99.0.1/page"]).ok(), "a page");
    d.end();
}

#[test]
fn dnsmasq_gives_addresses_and_names_and_keeps_its_leases() {
    let lab = Lab::new(&["a", "node"]);
    lab.link(("node", "lan"), ("a", "eth0"));
    let a = lab.ns("a");
    let set =
        lab.write("set.sh", "#!/bin/sh\n[ $1 = bound ] && ip addr add $ip/$mask dev $interface || true\n");
    crate::lab::host(&["chmod", "+x", &set]).ok();
    let base = "ADDRESS: 10.0.0.1, NET: 10.0.0.0/24";
    let d = Deployed::new(
        &lab,
        "dnsmasq",
        &["lan"],
        &format!("{base}, RANGE: 10.0.0.100-10.0.0.199, HOSTS: 'web 10.0.0.5'"),
    );
    let ask =
        ["udhcpc", "-i", "eth0", "-n", "-q", "-f", "-t", "8", "-T", "1", "-s", &set, "-x", "hostname:alice"];
    until("a lease", || a.run(&ask).code == 0);
    assert!(lab.ip("a", "addr show eth0").contains("inet 10.0.0.1"), "an address of the range");
    assert!(d.handler("leases").contains("alice"), "{}", d.handler("leases"));
    let dig = |name: &str| a.run(&["dig", "+short", "+tries=1", "+time=3", "@10.0.0.1", name]).stdout;
    assert_eq!(dig("web.lan"), "10.0.0.5\n");
    assert!(dig("alice.lan").starts_with("10.0.0.1"));
    d.refuses(&format!("{base}, RANGE: \"10.0.0.100-10.0.0.199\\ndhcp-script=/bin/sh\""), "RANGE");
    d.apply(&format!("{base}, RANGE: 10.0.0.50-10.0.0.250, DOMAIN: home.example, HOSTS: 'db 10.0.0.7'")).ok();
    until("the new names", || dig("db.home.example") == "10.0.0.7\n");
    until("the old lease", || dig("alice.home.example").starts_with("10.0.0.1"));
    d.end();
}

#[test]
fn squid_passes_what_is_allowed_and_nothing_beside_it() {
    let lab = Lab::new(&["inside", "outside", "node"]);
    let inside = host(&lab, "inside", "lan", "10.0.0.5/24");
    host(&lab, "outside", "wan", "10.7.0.2/24");
    lab.ip("inside", "route add default via 10.0.0.1");
    lab.write("page", "a page");
    let _web = web_server(&lab, "outside", 80, &lab.path(""));
    let base = "INSIDE_IP: 10.0.0.1, INSIDE_NET: 10.0.0.0/24, OUTSIDE_IP: 10.7.0.1, OUTSIDE_NET: 10.7.0.0/24, SERVERS: 10.7.0.2";
    let d = Deployed::new(&lab, "squid", &["lan", "wan"], base);
    let by_proxy = |url: &str| curl(&inside, &["-x", "http://10.0.0.1:3128", url]);
    until("the page", || by_proxy("http://10.7.0.2/page").stdout == "a page");
    assert_ne!(curl(&inside, &["--max-time", "1", "http://10.7.0.2/page"]).code, 0, "past the proxy");
    d.apply(&format!("{base}, DENY: 10.7.0.2")).ok();
    until("it is denied", || by_proxy("http://10.7.0.2/page").stderr.contains("403"));
    d.refuses(&format!("{base}, ALLOW: \"good.test\\nhttp_access allow all\""), "ALLOW");
    d.end();
}

/// What charon is told as a server that keeps its socket in its own /run.
const SERVER: &str = "
charon {
  load = random nonce openssl hmac kdf aes sha1 sha2 gcm kernel-libipsec kernel-netlink socket-default vici
  threads = 16
  plugins { kernel-libipsec { load = yes }
    vici { socket = unix:///run/vici } }
}
swanctl { load = random openssl }
";

const CONNECTION: &str = "
connections { home {
  version = 2
  local_addrs = 10.7.0.2
  local { auth = psk
    id = vpn.example.org }
  remote { auth = psk
    id = home@example.org }
  children { net { local_ts = 10.20.0.0/24
    remote_ts = 10.0.0.0/24 } } } }
secrets { ike-home { id = home@example.org
  secret = \"a long secret\" } }
";

#[test]
fn the_ipsec_client_joins_a_network_and_lets_nothing_out_in_clear() {
    let lab = Lab::new(&["inside", "server", "node"]);
    let inside = host(&lab, "inside", "lan", "10.0.0.5/24");
    let server = host(&lab, "server", "wan", "10.7.0.2/24");
    lab.ip("inside", "route add default via 10.0.0.1");
    lab.ip("server", "addr add 10.20.0.1/24 dev lo");
    let run = lab.path("run");
    std::fs::create_dir_all(&run).unwrap();
    let configuration = lab.write("strongswan.conf", SERVER);
    lab.write("swanctl.conf", CONNECTION);
    let environment = format!("STRONGSWAN_CONF={configuration}");
    let folder = format!("SWANCTL_DIR={}", lab.path(""));
    let start = format!("mount --bind {run} /run && exec env {environment} /usr/lib/ipsec/charon");
    let _charon = server.spawn(&["unshare", "-m", "sh", "-c", &start]);
    let uri = format!("unix://{run}/vici");
    let load = ["env", &environment, &folder, "swanctl", "--load-all", "--noprompt", "--uri", &uri];
    until("the server", || server.run(&load).code == 0);

    let base = "INSIDE_IP: 10.0.0.1, INSIDE_NET: 10.0.0.0/24, OUTSIDE_IP: 10.7.0.1, OUTSIDE_NET: 10.7.0.0/24, SERVER: 10.7.0.2, \
                SERVER_ID: vpn.example.org, ID: home@example.org, REMOTE_NETS: 10.20.0.0/24";
    let d =
        Deployed::new(&lab, "strongswan-client", &["lan", "wan"], &format!("{base}, PSK: 'a long secret'"));
    until("the tunnel", || d.handler("state").contains("established"));
    until_pings(&inside, "10.20.0.1");
    let dump = server.spawn(&["tcpdump", "-nli", "eth0", "-c", "3", "udp port 4500"]);
    until("it listens", || dump.stderr().contains("listening"));
    inside.run(&["ping", "-c3", "-i0.2", "10.20.0.1"]).ok();
    assert_eq!(dump.wait().code, 0, "it is encrypted, and over UDP");
    assert_ne!(inside.run(&["ping", "-c1", "-W0.5", "10.7.0.2"]).code, 0, "outside of the tunnel");
    d.refuses(&format!("{base}, PSK: 'a long secret', DPD: 0"), "DPD");
    let id = lab.name("g");
    let log = d.node.weir(&["logs", &id, "f"]).ok();
    assert!(!log.contains("a long secret"), "the key is in the log");
    // It is shown nowhere, and a document that comes from the node leaves it as it is.
    let document = d.node.weir(&["show", &id, "--document"]).ok();
    let shown = [
        document.clone(),
        d.node.weir(&["--json", "show", &id]).ok(),
        d.node.weir(&["show", &id, "--config"]).ok(),
    ];
    assert!(
        shown.iter().all(|text| !text.contains("a long secret")) && document.contains("***"),
        "{shown:?}"
    );
    let back = lab.write("back.json", &document);
    assert!(d.node.weir(&["apply", &back]).ok().contains("unchanged"));
    assert!(d.handler("state").contains("established"));
    let other = lab.write("other.json", document.replace(&id, "other"));
    let e = d.node.weir(&["plan", &other]).fails(1);
    assert!(e.contains("a secret that this node does not know: give the value of PSK"), "{e}");
    let paths = Paths::new(lab.path("store/weir.functions").as_ref(), &InstanceId::new(&id, "f"));
    let processes = Cgroup::named(&paths.name).processes();
    assert!(!processes.is_empty());
    for pid in processes {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&environment).contains("a long secret"), "process {pid}");
    }
    for file in [paths.secret("PSK").as_path(), lab.path("store/weir.db").as_ref()] {
        let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(file).unwrap());
        assert_eq!(mode & 0o777, 0o600, "{}", file.display());
    }
    d.end();
}

/// What runs in these functions comes from tenants: scripts are held to be whole, and never to evaluate text.
#[test]
fn scripts_of_the_images_are_whole() {
    let images = crate::lab::repository().join("images");
    let mut common = std::collections::BTreeMap::new();
    for entry in
        std::fs::read_dir(images).unwrap().map(|e| e.unwrap().path()).filter(|p| p.join("scripts").is_dir())
    {
        // An image is whole by itself, so what several need stands in each: alike.
        for shared in ["check.sh", "ports.sh"] {
            if let Ok(text) = std::fs::read_to_string(entry.join("scripts").join(shared)) {
                assert_eq!(
                    *common.entry(shared).or_insert(text.clone()),
                    text,
                    "{} differs",
                    entry.display()
                );
            }
        }
        let list =
            crate::lab::host(&["find", entry.to_str().unwrap(), "-type", "f", "-path", "*/scripts/*"]).ok();
        for script in list.lines() {
            let text = std::fs::read_to_string(script).unwrap();
            assert!(!text.contains("eval "), "{script} evaluates text");
            if text.starts_with("#!/bin/sh") || script.ends_with(".sh") {
                crate::lab::host(&["sh", "-n", script]).ok();
            }
        }
    }
}
