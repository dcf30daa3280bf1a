//! Logins: keys, contexts and TLS, with the real program on both sides.

use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::lab::{Lab, Output, Process, until};
use crate::node::Node;

/// What stands behind a text on standard error of the daemon, up to a space or the end of the line.
fn printed(daemon: &Process, before: &str) -> String {
    until(before, || daemon.stderr().contains(before));
    let text = daemon.stderr();
    let rest = text.split_once(before).map_or("", |(_, rest)| rest);
    rest.split_whitespace().next().unwrap_or_default().trim_end_matches('\u{1b}').to_owned()
}

const GRAPH: &str = "
id: wire
name: wire
saps:
  - {id: l, type: interface, interface: {if-name: l0}}
  - {id: r, type: interface, interface: {if-name: r0}}
flowrules:
  - {id: a, priority: 1, match: {port_in: 'sap:l'}, actions: {output_to_port: 'sap:r'}}
";

#[test]
fn an_operator_lets_a_tenant_in_and_everything_is_recorded() {
    let lab = Lab::new(&["node", "other"]);
    lab.link(("node", "l0"), ("other", "l1"));
    lab.link(("node", "r0"), ("other", "r1"));
    let options = ["--login", "--stop-engine"];
    let daemon = Node::spawn(&lab, &options);
    let token = printed(&daemon, "admin token: ");
    until("the data plane", || daemon.stderr().contains("the data plane is process"));
    let weir = |arguments: &[&str]| lab.ns("node").weir(arguments);

    let refused = weir(&["ps"]).fails(1);
    assert!(refused.contains("asks for a login") && refused.contains("weir context add"), "{refused}");
    weir(&["context", "add", "root", "http://127.0.0.1:7400", "--token", &token]).ok();
    let file = std::fs::metadata(lab.path("config/weir/contexts.yaml")).unwrap();
    assert_eq!(file.permissions().mode() & 0o777, 0o600);
    assert!(!weir(&["context", "show"]).ok().contains(&token), "a secret is shown");
    assert_eq!(weir(&["whoami"]).ok().trim(), "admin: operator");

    let (key, public) = (lab.path("key"), lab.path("key.pub"));
    weir(&["key", "new", &key]).ok();
    weir(&["key", "new", &key]).fails(1);
    assert_eq!(std::fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    let add = ["key", "add", "alice", &public, "--role", "tenant", "--tenant", "acme"];
    assert!(weir(&add).fails(1).contains("there is no tenant 'acme'"));
    weir(&["tenant", "add", "acme", "--graphs", "1"]).ok();
    weir(&add).ok();
    assert!(weir(&["key", "add", "bob", &key, "--role", "operator"]).fails(1).contains("private key"));

    weir(&["context", "add", "acme", "127.0.0.1:7400", "--key", &key]).ok();
    let alice = |arguments: &[&str]| weir(&[arguments, &["--context", "acme"]].concat());
    assert!(alice(&["whoami"]).ok().starts_with("alice: tenant of tenant acme, key SHA256:"));
    let graph = lab.write("wire.yaml", GRAPH);
    alice(&["apply", &graph]).ok();
    let list = alice(&["--json", "ps"]).json();
    assert_eq!((list[0]["id"].as_str(), list[0]["tenant"].as_str()), (Some("wire"), Some("acme")));
    let second = lab.write(
        "second.yaml",
        GRAPH.replace("id: wire", "id: second").replace("l0", "lo").replace("r0", "r9"),
    );
    assert!(alice(&["apply", &second]).fails(1).contains("would have 2 graphs and may have 1 graph"));
    let refused = alice(&["key", "list"]).fails(1);
    assert!(refused.contains("'alice' (tenant acme) may not read keys"), "{refused}");
    assert!(weir(&["key", "list"]).ok().contains("alice"));
    assert!(weir(&["tenant", "list"]).ok().contains("1 of 1"));
    assert!(alice(&["top", "--once", "-i", "200ms"]).ok().contains("wire"));

    // Other clients sign too.
    let signed = alice(&["sign", "GET", "/v1/graphs"]).ok();
    let header = format!("authorization: Bearer {}", signed.trim());
    let curl = || lab.ns("node").run(&["curl", "-sS", "-H", &header, "http://127.0.0.1:7400/v1/graphs"]);
    assert_eq!(curl().json()[0]["id"], "wire");
    assert!(curl().json()["detail"].as_str().unwrap().contains("used before"));

    let records = weir(&["--json", "audit"]).ok();
    let records: Vec<Value> = records.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let of_alice: Vec<_> = records.iter().filter(|r| r["who"]["name"] == "alice").collect();
    let outcome =
        |r: &&Value| (r["action"].as_str().unwrap().to_owned(), r["outcome"].as_str().unwrap().to_owned());
    let denied = ["change-graph", "read-keys", "read-devices"].map(|action| (action, "denied"));
    let expected = [&[("change-graph", "done")][..], &denied].concat();
    assert_eq!(
        of_alice.iter().map(outcome).collect::<Vec<_>>(),
        expected.into_iter().map(|(a, o)| (a.to_owned(), o.to_owned())).collect::<Vec<_>>()
    );
    assert!(weir(&["audit"]).ok().contains("alice"));

    // Keys that cannot sign are refused at once.
    let missing = weir(&["context", "add", "x", "http://127.0.0.1:7400", "--key", "nothing"]).fails(1);
    assert!(missing.contains("ssh-keygen -t ed25519"), "{missing}");
    let locked = lab.path("locked");
    let keygen = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "sesame", "-f", &locked];
    if lab.ns("node").run(&["sh", "-c", "command -v ssh-keygen"]).code == 0 {
        lab.ns("node").run(&keygen).ok();
        let encrypted = weir(&["context", "add", "x", "http://127.0.0.1:7400", "--key", &locked]).fails(1);
        assert!(encrypted.contains("passphrase"), "{encrypted}");
    }
    std::fs::remove_file(&key).unwrap();
    assert!(alice(&["ps"]).fails(3).contains("cannot read the key"));
    assert!(weir(&["ps", "--context", "acne"]).fails(3).contains("'acme'"));

    // A lost admin token is made anew by who has the store, while no daemon has it.
    let store = lab.path("store/weir.db");
    let anew = ["node", "--new-admin-token", "--store", &store];
    assert!(weir(&anew).fails(1).contains("in use"));
    daemon.signal("TERM");
    daemon.wait();
    let new = weir(&anew).ok();
    let daemon = Node::spawn(&lab, &options);
    until("the data plane", || daemon.stderr().contains("the data plane is process"));
    assert!(!daemon.stderr().contains("admin token"), "{}", daemon.stderr());
    assert!(weir(&["ps"]).fails(1).contains("--new-admin-token"));
    weir(&["context", "add", "root", "http://127.0.0.1:7400", "--token", new.trim()]).ok();
    assert_eq!(weir(&["--json", "ps"]).json()[0]["id"], "wire");
    weir(&["delete", "wire"]).ok();
    daemon.signal("TERM");
    daemon.wait();
}

#[test]
fn beyond_its_machine_a_node_asks_for_a_login_and_speaks_tls() {
    let lab = Lab::new(&["node", "client"]);
    lab.link(("node", "eth0"), ("client", "eth0"));
    for (namespace, address) in [("node", "10.9.0.1/24"), ("client", "10.9.0.2/24")] {
        lab.ip(namespace, &format!("addr add {address} dev eth0"));
        lab.ip(namespace, "link set eth0 up");
    }
    let options = ["--listen", "0.0.0.0:7400", "--hostname", "node.example", "--stop-engine"];
    let daemon = Node::spawn(&lab, &options);
    let token = printed(&daemon, "admin token: ");
    let fingerprint = printed(&daemon, "certificate has the fingerprint ");
    let weir = |arguments: &[&str]| -> Output { lab.ns("client").weir(arguments) };
    let add = |name: &str, url: &str, more: &[&str]| weir(&[&["context", "add", name, url], more].concat());
    let whoami = |name: &str| weir(&["whoami", "--context", name]);

    add("pinned", "https://10.9.0.1:7400", &["--token", &token, "--fingerprint", &fingerprint]).ok();
    until("the node", || whoami("pinned").code == 0);
    assert_eq!(whoami("pinned").ok().trim(), "admin: operator");
    let key = lab.path("key");
    weir(&["key", "new", &key]).ok();
    weir(&["key", "add", "alice", &format!("{key}.pub"), "--role", "read-only"]).ok();
    let authority = lab.path("store/weir.authority/authority.pem");
    add("rooted", "https://10.9.0.1:7400", &["--key", &key, "--ca", &authority]).ok();
    assert!(whoami("rooted").ok().starts_with("alice: read-only, key"));
    let stream = weir(&["events", "-n", "3", "--context", "rooted"]).ok();
    assert!(stream.contains("engine-up"), "{stream}");

    // Who is not who was expected gets nothing.
    let wrong = format!("sha256:{}", "0".repeat(64));
    add("wrong", "https://10.9.0.1:7400", &["--token", &token, "--fingerprint", &wrong]).ok();
    assert!(whoami("wrong").fails(3).contains("is not trusted"));
    lab.ip("node", "addr add 10.9.0.3/24 dev eth0");
    add("named", "https://10.9.0.3:7400", &["--key", &key, "--ca", &authority]).ok();
    assert!(whoami("named").fails(3).contains("is not trusted"), "its certificate is not for this address");
    // An address that came later is one of the node's for tokens, and for who knows its pin.
    add("later", "https://10.9.0.3:7400", &["--key", &key, "--fingerprint", &fingerprint]).ok();
    assert!(whoami("later").ok().starts_with("alice"));
    assert!(add("none", "https://10.9.0.1:7400", &["--key", &key]).fails(1).contains("--fingerprint"));
    assert!(weir(&["ps", "--node", "https://10.9.0.1:7400"]).fails(1).contains("--fingerprint"));
    add("plain", "http://10.9.0.1:7400", &["--key", &key]).ok();
    assert!(whoami("plain").fails(3).contains("https"));
    add("clear", "http://10.9.0.1:7400", &["--token", &token]).ok();
    assert!(whoami("clear").fails(1).contains("in the clear"));
    assert!(!daemon.stderr().contains("REST has no"), "{}", daemon.stderr());
    daemon.signal("TERM");
    daemon.wait();

    // Without both, by name and with a warning.
    let daemon = Node::spawn(&lab, &["--listen", "0.0.0.0:7400", "--no-login", "--no-tls", "--stop-engine"]);
    until("the node", || weir(&["ps", "--node", "http://10.9.0.1:7400"]).code == 0);
    assert!(daemon.stderr().contains("REST has no login") && daemon.stderr().contains("REST has no TLS"));
    daemon.signal("TERM");
    daemon.wait();
}
