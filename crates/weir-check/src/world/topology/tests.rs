use weir_model::requirement::Requirement;
use weir_verify::Limits;

use super::*;
use crate::{Question, Status};

/// An access network: a router between the internet and a firewall, behind it a switch with two phones.
const NETWORK: &str = "
version: 1
boxes:
  internet: {kind: internet}
  phone: {kind: client, owns: 10.1.0.7}
  other: {kind: client, owns: 10.1.0.8}
  server: {kind: host, owns: 198.51.100.9}
  gw:
    kind: router
    interfaces: {wan: 192.0.2.2/30, lan: 10.1.0.1/16, dmz: 198.51.100.1/24}
    routes: [default via 192.0.2.1, 10.9.0.0/16 blackhole]
  fw:
    kind: firewall
    ports: [lan, wan]
    rules: [allow from lan all, allow udp dst port 1500]
  sw: {kind: switch}
links:
  - gw:wan - internet
  - gw:lan - fw:wan
  - gw:dmz - server
  - fw:lan - sw:up
  - sw:one - phone
  - sw:two - other
";

fn statuses(text: &str, down: &str, lines: &[&str]) -> Vec<(String, Status)> {
    let topology = Topology::parse(text).unwrap_or_else(|e| panic!("{e}"));
    let is_down = |a: &LinkEnd, b: &LinkEnd| format!("{a} - {b}") == down;
    let mut world = World::of_topology(&topology, &Classes::default(), is_down).unwrap();
    let questions: Vec<Question> =
        lines.iter().map(|l| world.question(&Requirement::parse(l).unwrap()).unwrap()).collect();
    world.net.finish();
    let answer = |q: &Question| {
        let a = world.answer(q, Limits::default());
        // Shown if the test fails.
        println!("{}: {} {:?}", q.requirement.text, a.status, a.doubt);
        (q.requirement.text.clone(), a.status)
    };
    questions.iter().map(answer).collect()
}

fn assert_all(text: &str, down: &str, wanted: &[(&str, Status)]) {
    let lines: Vec<&str> = wanted.iter().map(|(l, _)| *l).collect();
    let wanted: Vec<(String, Status)> = wanted.iter().map(|(l, s)| ((*l).to_owned(), *s)).collect();
    assert_eq!(statuses(text, down, &lines), wanted);
}

#[test]
fn routers_firewalls_and_switches_carry_what_they_should() {
    use Status::{Holds, Violated};
    assert_all(
        NETWORK,
        "",
        &[
            ("can internet phone udp dst port 1500", Holds),
            ("can internet phone via gw, fw, sw udp", Holds),
            ("can internet phone via sw, fw udp", Violated),
            ("can phone other", Holds),
            ("can phone other via gw", Violated),
            ("can phone server via fw tcp dst port 80", Holds),
            ("never phone other src net 10.0.0.0/8", Violated),
            ("can internet 10.1.0.7 udp dst port 1500", Holds),
            ("can server gw:local icmp", Holds),
            ("only internet server dst host 198.51.100.9", Holds),
        ],
    );
}

#[test]
fn a_stateful_firewall_lets_replies_pass() {
    let text = |stateful| {
        format!(
            "boxes:\n  a: {{kind: host, owns: 10.0.0.1}}\n  b: {{kind: host, owns: 10.0.0.2}}\n  fw:\n    kind: firewall\n    \
             ports: [in, out]\n    stateful: {stateful}\n    rules: [allow from in all]\nlinks: [a - fw:in, fw:out - b]\n"
        )
    };
    assert_all(
        &text(true),
        "",
        &[("return a b tcp dst port 80", Status::Holds), ("can b a udp", Status::Holds)],
    );
    assert_all(
        &text(false),
        "",
        &[("return a b tcp dst port 80", Status::Violated), ("never b a", Status::Holds)],
    );
}

#[test]
fn a_link_that_is_down_carries_nothing() {
    use Status::{Holds, Violated};
    assert_all(
        NETWORK,
        "gw:lan - fw:wan",
        &[("can internet phone", Violated), ("can phone other", Holds), ("can internet server", Holds)],
    );
}

#[test]
fn vlans_and_click_boxes_are_kept_apart() {
    use Status::{Holds, Violated};
    let text = "
boxes:
  a: {kind: host, owns: 10.0.0.1}
  b: {kind: host, owns: 10.0.0.2}
  c: {kind: host, owns: 10.0.0.3}
  d: {kind: host, owns: 10.0.0.4}
  s1: {kind: switch, ports: {a: {vlan: 10}, b: {vlan: 20}, t: {trunk: [10, 20]}}}
  s2: {kind: switch, ports: {c: {vlan: 10}, x: {vlan: 20}, t: {trunk: [10, 20]}}}
  box:
    kind: click
    ports: [left, right]
    config: |
      in_0 -> IPFilter(allow udp, deny all) -> out_1;
      in_1 -> Strip(14) -> Unstrip(14) -> out_0;
links: [s1:a - a, s1:b - b, s1:t - s2:t, s2:c - c, s2:x - box:left, box:right - d]
";
    assert_all(
        text,
        "",
        &[
            ("can a c", Holds),
            ("can a b", Violated),
            ("can b c", Violated),
            ("can b d udp", Holds),
            ("can b d tcp", Violated),
            ("can d b tcp", Holds),
            ("can a d", Violated),
        ],
    );
}

/// Section 2.2.5 of the CHANGE paper: the client sits behind a NAT, in front of which platform 3 stands. Nobody outside
/// can send to private addresses, and the NAT has no mapping.
#[test]
fn only_the_platform_in_front_of_the_nat_can_hold_the_papers_module() {
    let network = include_str!("../../../tests/golden/figure-2-1.yaml");
    let request = "
FromNetfront() -> IPFilter(allow udp port 1500) -> IPRewriter(pattern - - 172.16.15.133 - 0 0)
-> TimedUnqueue(120,100) -> ToNetfront()
";
    let topology = Topology::parse(network).unwrap_or_else(|e| panic!("{e}"));
    let request = weir_model::request::Request::parse(request).unwrap();
    let can = Requirement::parse("reach 0/0 172.16.15.133 udp 1500").unwrap();
    assert_all(network, "", &[("reach 0/0 172.16.15.133 udp 1500", Status::Violated)]);
    let on = |platform: &str| {
        let classes = Classes::default();
        let modules = Modules::new(&classes, &request, "request").unwrap();
        let network = World::of_topology(&topology, &classes, |_, _| false).unwrap();
        let mut world = network.with_modules(&modules, platform, &Default::default()).unwrap();
        let question = world.question(&can).unwrap();
        world.net.finish();
        world.answer(&question, Limits::default()).status
    };
    assert_eq!(on("platform3"), Status::Holds);
    assert_eq!(on("platform1"), Status::Violated);
    assert_eq!(on("platform2"), Status::Violated);
}
