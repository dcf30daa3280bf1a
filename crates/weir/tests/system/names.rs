//! Names of modules at a DNS server: BIND, told by dynamic updates.

use crate::domain::{Domain, lab};
use crate::lab::{Lab, Process, until};
use crate::requests::{OFFER, TOPOLOGY, tenant};

const ZONE: &str = "modules.example.org";
const SECRET: &str = "c2VjcmV0LW9mLXRoZS10ZXN0LTEyMzQ1Njc4OTA=";
/// The address of the server: that of the controller's host.
const SERVER: &str = "10.99.0.254";
const ECHO: &str = "FromNetfront() -> IPFilter(allow udp) -> IPMirror -> ToNetfront()\n";

fn key(secret: &str) -> String {
    format!("key \"weir\" {{\n\talgorithm hmac-sha256;\n\tsecret \"{secret}\";\n}};\n")
}

/// Writes what the server needs.
fn zone(lab: &Lab) {
    let folder = lab.path("bind");
    std::fs::create_dir_all(&folder).unwrap();
    let configuration = format!(
        "{}options {{ directory \"{folder}\"; listen-on {{ {SERVER}; }}; listen-on-v6 {{ none; }}; recursion no; \
         pid-file \"{folder}/pid\"; session-keyfile \"{folder}/session\"; dnssec-validation no; }};\n\
         controls {{ }};\nzone \"{ZONE}\" {{ type primary; file \"zone\"; allow-update {{ key \"weir\"; }}; }};\n",
        key(SECRET)
    );
    lab.write("bind/named.conf", configuration);
    let records = "$TTL 60\n@ IN SOA ns root 1 3600 600 86400 60\n@ IN NS ns\nns IN A 10.99.0.254\n";
    lab.write("bind/zone", records);
}

fn serve(lab: &Lab) -> Process {
    let server = lab.ns("control").spawn(&["/usr/sbin/named", "-g", "-c", &lab.path("bind/named.conf")]);
    until("the name server", || server.stderr().contains("all zones loaded"));
    server
}

/// The addresses of a name.
fn found(lab: &Lab, name: &str) -> String {
    let ask = ["dig", &format!("@{SERVER}"), "+short", "+time=1", "+tries=1", &format!("{name}.{ZONE}")];
    lab.ns("control").run(&ask).stdout
}

#[test]
fn modules_have_names_until_they_end_whatever_fails_in_between() {
    let lab = lab(false);
    lab.write("access.topology.yaml", TOPOLOGY);
    zone(&lab);
    lab.write("dns.key", key("d3Jvbmc="));
    let dns = format!("dns: {{server: {SERVER}, zone: {ZONE}, key: dns.key}}\n");
    let offer = lab.write(
        "offer.yaml",
        format!("{}{dns}", OFFER.replace("{if-name: lan}", "{if-name: lan, vlans: [100, 109]}")),
    );
    let server = serve(&lab);
    let mut domain = Domain::start_with(&lab, &["--requests", &offer]);
    let _nodes = domain.join_all();
    tenant(&lab, &domain, "acme", "client");
    let file = lab.write("echo.click", ECHO);
    let make = |domain: &Domain<'_>| domain.weir(&["--json", "request", &file, "--context", "acme"]).json();
    let events = |domain: &Domain<'_>| domain.weir(&["events"]).stdout;

    let made = make(&domain);
    let (id, address) = (made["id"].as_str().unwrap(), made["modules"][0]["address"].as_str().unwrap());
    let name = format!("module.{id}.{ZONE}");
    assert_eq!(made["modules"][0]["name-in-dns"], name.as_str(), "{made}");
    // The key is a wrong one, and then the right one.
    until("a word of the wrong key", || events(&domain).contains("is the key the one that it has"));
    assert_eq!(found(&lab, &format!("module.{id}")), "");
    lab.write("dns.key", key(SECRET));
    until("the name", || found(&lab, &format!("module.{id}")) == format!("{address}\n"));
    until("a word of it", || events(&domain).contains("are right again"));

    // It ends while the server is not there, and so does the controller.
    drop(server.interrupt());
    domain.weir(&["request", "--end", id, "--context", "acme"]).ok();
    let second = make(&domain);
    let second = second["id"].as_str().unwrap();
    until("a word of the server", || events(&domain).contains("it is tried again"));
    domain.restart(&["--requests", &offer]);
    let _server = serve(&lab);
    until("the second name", || !found(&lab, &format!("module.{second}")).is_empty());
    until("the end of the first", || found(&lab, &format!("module.{id}")).is_empty());
    domain.weir(&["request", "--end", second, "--context", "acme"]).ok();
    until("the end of the second", || found(&lab, &format!("module.{second}")).is_empty());
}
