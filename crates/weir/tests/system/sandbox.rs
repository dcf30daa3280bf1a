//! Modules of requests that cannot be proved: they run in functions of their own, and nothing of theirs that breaks a rule leaves the platform.

use serde_json::Value;

use crate::containers::layout;
use crate::domain::{Domain, lab};
use crate::lab::{Lab, Process, until};
use crate::requests::{OFFER, TOPOLOGY, tenant};

/// It answers, and beside each answer sends a packet as somebody else, to one that agreed to get its packets.
const SPOOF: &str =
    "FromNetfront() -> IPFilter(allow udp) -> copies :: Tee -> IPMirror -> out :: ToNetfront();
copies [1] -> StoreIPAddress(198.51.100.66, src) -> StoreIPAddress(10.5.1.1, dst) -> out;
";

/// Prints the sources of the IP packets that come to an interface.
const SOURCES: &str = "
import socket
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
s.bind(('eth0', 0))
print('ready', flush=True)
while True:
    frame, where = s.recvfrom(2048)
    if where[2] != 4:
        print(socket.inet_ntoa(frame[26:30]), flush=True)
";

/// An image of a web server in a container: a program of which nothing is known.
fn pages(lab: &Lab) {
    let folder = lab.path("images/pages");
    std::fs::create_dir_all(&folder).unwrap();
    let manifest = format!(
        "name: pages\nkind: container\nports: [net]\n\
         params: [{{name: ADDRESS, type: text}}, {{name: GATEWAY, type: text}}]\n\
         container:\n  image: {}\n  command: [httpd, -f, -h, /var/lib/web]\n  \
         addresses: {{net: $ADDRESS}}\n  routes: {{0.0.0.0/0: $GATEWAY}}\n",
        layout(lab, "one")
    );
    std::fs::write(format!("{folder}/function.yaml"), manifest).unwrap();
}

/// A domain whose operator lets third parties have sandboxes; the host behind n1 is the next router of its platform.
fn domain<'l>(lab: &'l Lab) -> (Domain<'l>, Vec<Process>) {
    let policy = "policy:\n  third-party: {inconclusive: sandbox}\n";
    lab.write("access.topology.yaml", format!("{TOPOLOGY}{policy}"));
    pages(lab);
    let offer = lab.write("offer.yaml", format!("{OFFER}images: {}\n", lab.path("images")));
    let domain = Domain::start_with(lab, &["--requests", &offer]);
    let nodes = domain.join_all();
    tenant(lab, &domain, "acme", "client");
    tenant(lab, &domain, "video", "third-party");
    lab.ip("h1", "addr add 10.5.1.1/24 dev eth0");
    (domain, nodes)
}

fn asked(domain: &Domain<'_>, file: &str) -> Value {
    domain.weir(&["--json", "request", file, "--context", "video"]).json()
}

#[test]
fn a_module_that_spoofs_is_contained() {
    let lab = lab(false);
    let (domain, _nodes) = domain(&lab);
    let file = lab.write("spoof.click", SPOOF);
    // The policy of clients is another.
    let refused = domain.weir(&["request", &file, "--context", "acme"]);
    assert!(refused.code != 0 && refused.stderr.contains("violated"), "{}", refused.stderr);
    let query = domain.weir(&["query", &file, "--context", "video"]).ok();
    assert!(
        query.contains("contained: security module third-party: violated") && query.contains("in a sandbox"),
        "{query}"
    );
    let made = asked(&domain, &file);
    assert_eq!(made["modules"][0]["sandbox"], "process");
    assert_eq!(made["findings"][0]["verdict"], "contained");
    assert!(made["findings"][0]["packet"].as_str().unwrap().contains("10.5.1.9"), "{made}");
    // Who may get its packets, and for how long: the operator sees those of all, a tenant its own.
    let enforcer = &made["modules"][0]["enforcer"];
    assert_eq!(*enforcer, serde_json::json!({ "destinations": ["10.5.1.1", "10.5.1.9"], "answers": 120 }));
    for who in [None, Some("video"), Some("acme")] {
        let mut asked = vec!["request", "--enforcers"];
        asked.extend(who.iter().flat_map(|who| ["--context", who]));
        let list = domain.weir(&asked).ok();
        match who {
            Some("acme") => assert_eq!(list, "no module runs in a sandbox\n"),
            _ => assert!(list.contains("10.5.1.1, 10.5.1.9") && list.contains("120 s"), "{list}"),
        }
    }
    let h1 = lab.ns("h1");
    let sources = h1.spawn_in_network(&["/usr/bin/python3", "-c", SOURCES]);
    until("the listener", || sources.stdout().contains("ready"));
    let ask = "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(2); s.connect(('10.5.1.9', 7))\n\
        for i in range(100): s.send(b'?'); assert s.recv(9) == b'?'";
    until("answers", || h1.run(&["/usr/bin/python3", "-c", ask]).code == 0);
    until("all answers", || sources.stdout().matches("10.5.1.9").count() >= 100);
    assert!(!sources.stdout().contains("198.51.100.66"), "{}", sources.stdout());
    // The module did send them.
    let sent = |port: &str| -> u64 {
        let id = made["id"].as_str().unwrap();
        let shown = domain.weir(&["--json", "show", id]).json();
        let links = shown["links"].as_array().cloned().unwrap_or_default();
        let from = links.iter().filter(|l| l["from"] == port);
        from.filter_map(|l| l["packets"].as_u64()).sum()
    };
    until("two packets for each", || sent("sf:sandbox-1:net") >= 200);
    // A process has memory of its own.
    let took =
        || serde_json::from_str::<Value>(&domain.weir(&["accounting", "--lines"]).ok()).unwrap_or_default();
    until("its memory", || took()["memory"].as_u64() > Some(0) && took()["cpu"].as_u64() > Some(0));
    assert_eq!(took()["kind"], "process");
    domain.weir(&["request", "--end", made["id"].as_str().unwrap(), "--context", "video"]).ok();
    assert!(domain.ps().is_empty());
}

#[test]
fn a_program_of_which_nothing_is_known_answers_from_a_sandbox() {
    let lab = lab(false);
    let (domain, _nodes) = domain(&lab);
    let text = |params: &str| {
        format!("version: 1\nmodules:\n  pages: {{image: pages, params: {{GATEWAY: $GATEWAY{params}}}}}\n")
    };
    let file = lab.write("pages.yaml", text(", ADDRESS: $ADDRESS/24"));
    let refused = domain.weir(&["request", &file, "--context", "acme"]);
    assert!(refused.code != 0 && refused.stderr.contains("kind container"), "{}", refused.stderr);
    let wrong = lab.write("wrong.yaml", text(""));
    let refused = domain.weir(&["request", &wrong, "--context", "video"]);
    assert!(
        refused.code != 0 && refused.stderr.contains("needs the parameter ADDRESS"),
        "{}",
        refused.stderr
    );
    assert!(domain.ps().is_empty(), "nothing is half done");
    let made = asked(&domain, &file);
    assert_eq!(made["modules"][0]["sandbox"], "container");
    assert_eq!(made["findings"][0]["verdict"], "contained");
    let curl = ["curl", "-sS", "--max-time", "3", "http://10.5.1.9/"];
    until("an answer", || lab.ns("h1").run(&curl).stdout == "made from one\n");
    domain.weir(&["request", "--end", made["id"].as_str().unwrap(), "--context", "video"]).ok();
    assert!(domain.ps().is_empty());
}

/// It answers who asks.
const ECHO: &str = "FromNetfront() -> IPFilter(allow udp) -> IPMirror -> ToNetfront();\n";

#[test]
fn accounts_outlive_whoever_is_killed() {
    let lab = lab(false);
    let (mut domain, mut nodes) = domain(&lab);
    let offer = lab.path("offer.yaml");
    let file = lab.write("echo.click", ECHO);
    let made = asked(&domain, &file);
    let id = made["id"].as_str().unwrap().to_owned();
    let account = |domain: &Domain<'_>, who: &str| -> Value {
        let out = domain.weir(&["accounting", "--lines", "--request", &id, "--context", who]).ok();
        let mut lines = out.lines().filter(|l| l.starts_with('{'));
        let record = lines.next().map_or(Value::Null, |l| serde_json::from_str(l).unwrap());
        assert_eq!(lines.next(), None);
        record
    };
    let ask = "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(20); s.connect(('10.5.1.9', 7))\n\
        for i in range(100): s.send(b'?'); assert s.recv(9) == b'?'";
    let ask = || drop(lab.ns("h1").run(&["/usr/bin/python3", "-c", ask]).ok());
    let counted = |domain: &Domain<'_>, n: u64| {
        until("the account", || account(domain, "video")["packets_in"] == n);
        let r = account(domain, "video");
        assert_eq!(
            (&r["packets_out"], &r["bytes_in"], &r["bytes_out"]),
            (&n.into(), &(29 * n).into(), &(29 * n).into()),
            "{r}"
        );
    };
    ask();
    counted(&domain, 100);
    domain.restart(&["--requests", &offer]);
    ask();
    counted(&domain, 200);
    nodes[0].kill();
    ask();
    nodes[0] = domain.node("n1", None);
    counted(&domain, 300);
    // Who is not the tenant is not told.
    assert_eq!(account(&domain, "acme"), Value::Null);
    assert_eq!(account(&domain, "home")["tenant"], "video");
    domain.weir(&["request", "--end", &id, "--context", "video"]).ok();
    let r = account(&domain, "video");
    let [began, ended, seconds] = ["began", "ended", "seconds"].map(|f| r[f].as_u64().unwrap());
    assert_eq!((ended - began, &r["packets_in"]), (seconds, &300.into()), "{r}");
    domain.restart(&["--requests", &offer]);
    assert_eq!(account(&domain, "video"), r, "what ended stays as it was");
    assert!(domain.weir(&["accounting"]).ok().contains("ended"));
}

#[test]
fn the_example_of_the_manual_does_what_it_says() {
    let lab = Lab::new(&[]);
    let (program, folder) = (format!("WEIR={}", crate::lab::WEIR), format!("TMPDIR={}", lab.path("")));
    let run = crate::lab::repository().join("examples/requests/run");
    let out =
        crate::lab::host(&["env", &program, &folder, "timeout", "-k", "10", "180", run.to_str().unwrap()]);
    let said = out.ok();
    assert_eq!(
        crate::lab::host(&["pgrep", "-f", &lab.path("tmp")]).stdout,
        "",
        "it leaves no program behind"
    );
    for part in [
        "all requirements hold on platform3",
        "woke the phone",
        "contained: security module third-party",
        "== done",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
}
