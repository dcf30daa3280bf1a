//! Generated networks, and the same questions about them for z3.

use std::fmt::Write as _;

use anyhow::{Context, Result};

/// The tree of routers of an access network (change-d4.5.txt, section 2.5.2): eight below each, with a client at each.
struct Tree {
    /// For each router those that stand below it, itself first.
    below: Vec<Vec<usize>>,
}

impl Tree {
    /// Of so many boxes, half of them routers.
    fn new(boxes: usize) -> Tree {
        let n = boxes / 2;
        let mut below: Vec<Vec<usize>> = (0..n).map(|i| vec![i]).collect();
        for i in (1..n).rev() {
            let own = below[i].clone();
            below[(i - 1) / 8].extend(own);
        }
        Tree { below }
    }

    fn routers(&self) -> std::ops::Range<usize> {
        0..self.below.len()
    }

    fn children(&self, i: usize) -> impl Iterator<Item = usize> + use<> {
        let n = self.below.len();
        (8 * i + 1..=8 * i + 8).take_while(move |&c| c < n)
    }
}

/// A topology: `boxes` boxes and the internet.
pub(super) fn access_network(boxes: usize) -> String {
    let tree = Tree::new(boxes);
    let edge = |i: usize, end: usize| {
        let n = 4 * i;
        format!("172.{}.{}.{}", 16 + (n >> 16), (n >> 8) & 255, (n & 255) + end)
    };
    let (up, down) = (|i| edge(i, 1), |i| edge(i, 2));
    let prefix = |i: usize| format!("10.{}.{}.0/24", i >> 8, i & 255);
    let mut out = String::from("version: 1\nboxes:\n  internet: {kind: internet}\n");
    let mut links = String::from("links:\n  - internet - r0:up\n");
    for i in tree.routers() {
        let _ = write!(
            out,
            "  c{i}: {{kind: client, owns: 10.{}.{}.2}}\n  r{i}:\n    kind: router\n    interfaces: {{",
            i >> 8,
            i & 255
        );
        let _ = write!(out, "up: {}/30, lan: 10.{}.{}.1/24", down(i), i >> 8, i & 255);
        for c in tree.children(i) {
            let _ = write!(out, ", d{c}: {}/30", up(c));
        }
        let _ = write!(out, "}}\n    routes: [default via {}", up(i));
        for c in tree.children(i) {
            for &b in &tree.below[c] {
                let _ = write!(out, ", {} via {}", prefix(b), down(c));
            }
        }
        out.push_str("]\n");
        let _ = writeln!(links, "  - r{i}:lan - c{i}");
        for c in tree.children(i) {
            let _ = writeln!(links, "  - r{i}:d{c} - r{c}:up");
        }
    }
    out + &links
}

/// The same with a route more in a router: for documentation addresses, upwards.
pub(super) fn with_route(network: &str, router: usize) -> Result<String> {
    let at = network.find(&format!("\n  r{router}:")).context("there is no such router")?;
    let (before, rest) = network.split_at(at);
    let (up, rest) = rest.split_once("[default via ").context("the router has a default route")?;
    let (via, _) = rest.split_once([',', ']']).context("the list of routes ends")?;
    Ok(format!("{before}{up}[203.0.113.0/24 via {via}, default via {rest}"))
}

/// What holds of a client of that network: packets from the internet come there only with its prefix.
pub(super) fn only(client: usize) -> String {
    format!("only internet c{client} dst net 10.{}.{}.0/24", client >> 8, client & 255)
}

/// Whether some destination address leads from the internet to the last client: reachability as z3's engine for networks
/// takes it (Lopes et al., NSDI 2015), of addresses only.
pub(super) fn access_network_for_z3(boxes: usize) -> String {
    let tree = Tree::new(boxes);
    let mut out =
        String::from("(set-option :fp.engine datalog)\n(set-option :fp.datalog.default_relation doc)\n");
    for i in tree.routers() {
        let _ = writeln!(out, "(declare-rel r{i} ((_ BitVec 32)))");
    }
    out.push_str("(declare-rel client ((_ BitVec 32)))\n(declare-var d (_ BitVec 32))\n(rule (r0 d))\n");
    let within = |i: usize| format!("(= ((_ extract 31 8) d) #x{:06x})", 0x0a_0000 + i);
    for i in tree.routers() {
        for c in tree.children(i) {
            for &b in &tree.below[c] {
                let _ = writeln!(out, "(rule (=> (and (r{i} d) {}) (r{c} d)))", within(b));
            }
        }
        if i > 0 {
            let here: Vec<String> = tree.below[i].iter().map(|&b| within(b)).collect();
            let others = format!("(not (or {} false))", here.join(" "));
            let _ = writeln!(out, "(rule (=> (and (r{i} d) {others}) (r{} d)))", (i - 1) / 8);
        }
    }
    let last = tree.below.len() - 1;
    let _ = writeln!(out, "(rule (=> (and (r{last} d) {}) (client d)))\n(query client)", within(last));
    out
}

/// The port that rule `k` of classifier `i` takes.
fn port(i: usize, k: usize) -> usize {
    10 * i + k + 1
}

/// `n` classifiers that take out nine kinds of packets each.
pub(super) fn chain(n: usize) -> String {
    let mut out = String::new();
    for i in 0..n {
        let ports: Vec<String> = (0..9).map(|k| format!("udp dst port {}", port(i, k))).collect();
        let _ = writeln!(out, "c{i} :: IPClassifier({}, -);", ports.join(", "));
    }
    out.push_str("FromNetfront(in) -> CheckIPHeader -> c0;\n");
    for i in 0..n {
        for k in 0..9 {
            let _ = writeln!(out, "c{i}[{k}] -> Discard;");
        }
        let next = if i + 1 < n { format!("c{}", i + 1) } else { "ToNetfront(out)".into() };
        let _ = writeln!(out, "c{i}[9] -> {next};");
    }
    out
}

/// The same with a question at each branch whether packets can go that way, as a symbolic executor asks that knows no
/// sets: of three fields only, for headers without options.
pub(super) fn chain_for_z3(n: usize) -> String {
    let mut out = String::from(
        "(set-logic QF_BV)\n(declare-const proto (_ BitVec 8))\n(declare-const frag (_ BitVec 13))\n(declare-const dport (_ BitVec 16))\n",
    );
    for i in 0..n {
        for k in 0..9 {
            let matches =
                format!("(and (= proto #x11) (= frag (_ bv0 13)) (= dport (_ bv{} 16)))", port(i, k));
            let _ = writeln!(
                out,
                "(push)\n(assert {matches})\n(check-sat)\n(pop)\n(assert (not {matches}))\n(check-sat)"
            );
        }
    }
    out + "(assert (= proto #x11))\n(check-sat)\n"
}

/// The paper's network (figure 2.1): the client sits behind a NAT, in front of which platform 3 stands.
pub(super) const PAPERS_NETWORK: &str = "
boxes:
  internet: {kind: internet}
  client: {kind: client, owns: 172.16.15.133}
  border:
    kind: router
    interfaces: {wan: 192.0.2.2/30, lan: 198.51.100.1/24}
    routes: [default via 192.0.2.1]
  edge: {kind: switch}
  platform3: {kind: platform, owns: 198.51.100.16/28}
  nat:
    kind: click
    ports: [inside, outside]
    config: |
      in_0 -> out_1;
      in_1 -> IPFilter(allow dst net 172.16.0.0/16, deny all) -> out_0;
  core: {kind: switch}
  platform1: {kind: platform, owns: 172.16.100.0/24}
  platform2: {kind: platform, owns: 172.16.101.0/24}
links: [border:wan - internet, border:lan - edge:a, edge:b - platform3, edge:c - nat:outside, nat:inside - core:a,
        core:b - platform1, core:c - platform2, core:d - client]
";

/// The paper's request (figure 2.2).
pub(super) const PAPERS_REQUEST: &str = "
FromNetfront() ->
IPFilter(allow udp port 1500) ->
IPRewriter(pattern - - 172.16.15.133 - 0 0)
-> TimedUnqueue(120,100)
-> ToNetfront()

REQUIRE reach 0/0 172.16.15.133 udp 1500
";
