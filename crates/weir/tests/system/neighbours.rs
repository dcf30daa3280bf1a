//! Links that nodes find by their probes.

use serde_json::Value;

use crate::domain::{self, Domain, NODES};
use crate::lab::{Lab, PYTHON, until, until_pings};

/// The links as `a interface b interface: how they were found`, then where nodes are joined as well.
fn links(domain: &Domain<'_>) -> (Vec<String>, Vec<String>) {
    let all = domain.json(&["get", "links"]);
    let list = |v: &Value| v.as_array().cloned().unwrap_or_default();
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let end = |e: &Value| format!("{} {}", text(&e["node"]), text(&e["interface"]));
    let ends = |l: &Value| format!("{} {}", end(&l["a"]), end(&l["b"]));
    let found = |l: &Value| list(&l["found"]).iter().map(text).collect::<Vec<_>>().join(" ");
    let links = list(&all["links"]).iter().map(|l| format!("{}: {}", ends(l), found(l))).collect();
    (links, list(&all["others"]).iter().map(ends).collect())
}

/// Waits until the links are these.
#[track_caller]
fn until_links(domain: &Domain<'_>, links_are: &[&str], others_are: &[&str]) {
    let mut last = (Vec::new(), Vec::new());
    let same = crate::lab::poll(1000, || {
        last = links(domain);
        last.0 == links_are && last.1 == others_are
    });
    assert!(same, "waited in vain for {links_are:?}, {others_are:?}: {last:?}");
}

/// Between hosts at n1 and n3.
const WIRE: &str = "
id: far
name: far
saps:
  - {id: a, type: interface, node: n1, interface: {if-name: lan}}
  - {id: b, type: interface, node: n3, interface: {if-name: lan}}
flowrules:
  - {id: a, priority: 1, match: {port_in: 'sap:a'}, actions: {output_to_port: 'sap:b'}}
  - {id: b, priority: 1, match: {port_in: 'sap:b'}, actions: {output_to_port: 'sap:a'}}
";

/// The third node has no network in common with the others but that of a cable, where nobody has addresses.
fn lab() -> Lab {
    let lab = domain::lab(false);
    lab.ip("n3", "addr del 10.99.0.3/24 dev m0");
    lab.ip("n3", "addr add 10.98.0.3/24 dev m0");
    lab.ip("n3", "route add 10.99.0.254 dev m0");
    lab.ip("control", "route add 10.98.0.3 dev br0");
    lab.link(("n1", "x3"), ("n3", "x1"));
    lab.link(("n1", "x2"), ("n2", "x1"));
    // What the bridge gives to the third node has no group addresses: it does not hear the others there.
    lab.ip("control", "link set p3 type bridge_slave mcast_flood off");
    lab
}

#[test]
fn links_are_found_go_with_their_cables_and_come_back() {
    let lab = lab();
    let domain = Domain::start(&lab);
    let _nodes = domain.join_all();
    let all = ["n1 m0 n2 m0: addresses probes", "n1 x3 n3 x1: probes"];
    until_links(&domain, &all, &["n1 x2 n2 x1"]);
    let shown = domain.weir(&["get", "links"]).ok();
    assert!(
        shown.contains("addresses, probes") && shown.contains("joined as well, by probes: n1 (x2)"),
        "{shown}"
    );
    // A cable that is pulled, at either end.
    lab.ip("n2", "link set x1 down");
    until_links(&domain, &all, &[]);
    lab.ip("n1", "link set x3 down");
    until_links(&domain, &all[..1], &[]);
    lab.ip("n2", "link set x1 up");
    lab.ip("n1", "link set x3 up");
    until_links(&domain, &all, &["n1 x2 n2 x1"]);
    // Tunnels need addresses, or VLANs by the operator's word.
    let e = domain.apply(WIRE, &[]).fails(1);
    assert!(e.contains("no link leads from node 'n1' to node 'n3'"), "{e}");
    domain.weir(&["link", "set", "n1", "n3", "--mtu", "1500"]).ok();
    assert!(domain.weir(&["get", "links"]).ok().contains("not there, though declared: n1 to n3"));
    domain.weir(&["link", "set", "n1", "n3", "--encapsulation", "vlan", "--vlans", "50-59"]).ok();
    domain.apply(WIRE, &[]).ok();
    until_pings(&lab.ns("h1"), "10.1.0.3");
    until_links(&domain, &all, &["n1 x2 n2 x1"]);
    domain.weir(&["delete", "far"]).ok();
    domain.stop_engines();
}

/// Catches a probe of the node, and sends what it makes of it: in the name of the other nodes, many, and rubbish.
const FORGE: &str = r"
from scapy.all import *
import random
conf.verb = 0
real = bytes(sniff(iface='eth1', count=1, timeout=20, lfilter=lambda p: p.type == 0x88cc)[0])
def named(name, interface):
    tlv = lambda kind, value: (kind << 9 | len(value)).to_bytes(2, 'big') + value
    begin = 14 + 2 + real[15]
    begin += 2 + real[begin + 1]
    return real[:14] + tlv(1, b'\x07' + name) + tlv(2, b'\x05' + interface) + real[begin:]
frames = [named(b'n2', b'm0'), named(b'n2', b'wan'), named(b'n3', b'm0'), named(b'n1', b'wan')]
frames += [named(b'x%d' % n, b'm0') for n in range(2000)]
random.seed(1)
frames += [real[:n] for n in range(14, len(real))]
frames += [real[:14] + random.randbytes(random.randrange(1400)) for n in range(500)]
sendp([Raw(f) for f in frames], iface='eth1')
print('sent', len(frames))
";

#[test]
fn who_forges_probes_makes_no_links() {
    let lab = lab();
    let domain = Domain::start(&lab);
    let _nodes = domain.join_all();
    let all = ["n1 m0 n2 m0: addresses probes", "n1 x3 n3 x1: probes"];
    until_links(&domain, &all, &["n1 x2 n2 x1"]);
    let sent = lab.ns("h1").run(&[PYTHON, "-c", FORGE]).ok();
    assert!(sent.contains("sent 2"), "{sent}");
    let neighbours = || {
        let node = domain.json(&["describe", "node", "n1"]);
        let ends = node["domain"]["endpoints"].as_array().cloned().unwrap_or_default();
        let at = ends.iter().find(|e| e["interface"] == "wan").cloned().unwrap_or_default();
        at["neighbours"].as_array().map_or(0, Vec::len)
    };
    let mut most = 0;
    until("some of it is heard", || {
        most = most.max(neighbours());
        most > 2
    });
    assert!(most <= 64, "{most}");
    // Nobody else hears that, and those that are there stay.
    until_links(&domain, &all, &["n1 x2 n2 x1"]);
    until("who is silent goes", || neighbours() == 0);
    assert!(NODES.iter().all(|n| domain.is_online(n)));
    domain.stop_engines();
}
