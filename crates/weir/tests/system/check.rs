//! `weir check` as somebody uses it who has a network, a request, and doubts.

use serde_json::Value;

use crate::lab::{Lab, weir};

/// A network with a platform behind a router, and somebody who may ask for processing.
const NETWORK: &str = "version: 1
boxes:
  internet: {kind: internet}
  phone: {kind: client, owns: 10.1.0.7}
  gw:
    kind: router
    interfaces: {wan: 192.0.2.2/30, lan: 10.1.0.1/24, pop: 10.9.0.1/24}
    routes: [default via 192.0.2.1]
  platform: {kind: platform, owns: 10.9.0.128/25}
links:
  - gw:wan - internet
  - gw:lan - phone
  - gw:pop - platform
owners:
  alice: {role: client, registered: 10.1.0.7}
  content: {role: third-party, registered: 10.1.0.7}
";

const PUSH: &str =
    "FromNetfront() -> IPFilter(allow udp dst port 1500) -> IPRewriter(pattern - - 10.1.0.7 - 0 0) \
                    -> Queue -> TimedUnqueue(120, 100) -> ToNetfront()
REQUIRE can internet phone udp dst port 1500
";

/// What comes is sent on from an address of somebody else.
const SPOOF: &str = "FromNetfront() -> StoreIPAddress(8.8.8.8, src) -> ToNetfront()\n";

/// What comes goes to a server that did not agree.
const RELAY: &str =
    "FromNetfront() -> SetIPAddress(203.0.113.9) -> StoreIPAddress(203.0.113.9, dst) -> ToNetfront()\n";

#[test]
fn requirements_on_the_command_line_decide_the_exit_code() {
    let lab = Lab::new(&[]);
    let file =
        lab.write("f.click", "FromNetfront(in) -> CheckIPHeader -> IPFilter(allow udp) -> ToNetfront(out);");
    let holds = weir(&["check", &file, "--require", "never in out tcp"]).ok();
    assert!(holds.contains("holds: never in out tcp"), "{holds}");
    let out = weir(&["check", &file, "--require", "never in out udp"]);
    assert!(
        out.stdout.contains("violated: never in out udp") && out.stdout.contains("packet 1"),
        "{}",
        out.stdout
    );
    out.fails(1);
    let wrong = weir(&["check", &file, "--require", "never in uot udp"]).fails(1);
    assert!(wrong.contains("'uot'") && wrong.contains("did you mean 'out'?"), "{wrong}");
    let wrong = weir(&["check", &file, "--require", "nevr in out"]).fails(1);
    assert!(wrong.contains("never"), "{wrong}");
}

#[test]
fn a_request_is_checked_against_the_rules_for_who_asks() {
    let lab = Lab::new(&[]);
    let network = lab.write("net.yaml", NETWORK);
    let check = |name: &str, text: &str, owner: &str| {
        let file = lab.write(name, text);
        weir(&["--json", "check", &file, "--topology", &network, "--owner", owner])
    };
    let verdicts = |out: &str| {
        let json: Value = serde_json::from_str(out).unwrap();
        let findings = json["reports"][0]["findings"].as_array().unwrap().clone();
        findings
            .iter()
            .map(|f| format!("{} {}", f["requirement"].as_str().unwrap(), f["verdict"].as_str().unwrap()))
            .collect::<Vec<_>>()
    };
    for owner in ["alice", "content"] {
        let out = check("push.request", PUSH, owner).ok();
        let role = if owner == "alice" { "client" } else { "third-party" };
        let wanted = [
            "REQUIRE can internet phone udp dst port 1500 holds".to_owned(),
            format!("security module {role} holds"),
        ];
        assert_eq!(verdicts(&out), wanted);
        let out = check("spoof.request", SPOOF, owner);
        assert_eq!(verdicts(&out.stdout), [format!("security module {role} violated")]);
        out.fails(1);
    }
    // A customer may send anywhere, a third party may not.
    check("relay.request", RELAY, "alice").ok();
    let out = check("relay.request", RELAY, "content");
    assert!(out.stdout.contains("goes to a destination that did not agree"), "{}", out.stdout);
    out.fails(1);
}

#[test]
fn who_asks_has_to_be_known() {
    let lab = Lab::new(&[]);
    let (network, push) = (lab.write("net.yaml", NETWORK), lab.write("push.request", PUSH));
    let wrong = weir(&["check", &push, "--topology", &network, "--owner", "alise"]).fails(1);
    assert!(wrong.contains("'alise'") && wrong.contains("did you mean 'alice'?"), "{wrong}");
    let wrong = weir(&["check", &push, "--owner", "alice"]).fails(2);
    assert!(wrong.contains("--topology"), "{wrong}");
    let out = weir(&["check", &push, "--topology", &network]).ok();
    assert!(out.contains("the security rules are not checked"), "{out}");
}

#[test]
fn routing_tables_are_read_as_they_were_pasted() {
    let lab = Lab::new(&[]);
    for (format, table) in [
        (
            "ip-route",
            "root@r:~# ip route\ndefault via 192.0.2.1 dev eth1 proto static dead linkdown\n\
            10.11.0.0/24 dev eth0 proto kernel scope link src 10.11.0.1\n192.0.2.0/30 dev eth1 proto kernel scope link src 192.0.2.2\n\
            203.0.113.0/24 proto bgp metric 20\n\tnexthop via 192.0.2.1 dev eth1 weight 1\n",
        ),
        (
            "show-ip-route",
            "VRF blue:\nC>*10.11.0.0/24 is directly connected, eth0, 00:01:27\n\
            C>*192.0.2.0/30 is directly connected, eth1 (vrf red), 00:01:27\nB>*203.0.113.0/24 [20/0] via 192.0.2.1, eth1, rmapsrc 10.11.0.1\n",
        ),
        (
            "show-ip-route",
            "R1#sh ip route\nC        10.11.0.0 255.255.255.0 is directly connected, eth0\n --More-- \n\
            C        192.0.2.0 255.255.255.252 is directly connected, eth1\nO E2     203.0.113.0 255.255.255.0\n\
            \x20          [110/11] via 192.0.2.1, 3w1d, eth1\nR1#\n",
        ),
    ] {
        lab.write("table.txt", table);
        let network = lab.write("net.yaml", format!("boxes:\n  r: {{kind: router, routes: {{file: table.txt, format: {format}}}}}\n  \
            a: {{kind: host, owns: 10.11.0.0/24}}\n  b: {{kind: host, owns: 203.0.113.0/24}}\nlinks: [r:eth0 - a, r:eth1 - b]\n\
            requirements:\n  - can a b dst host 203.0.113.9\n  - never a b dst host 198.51.100.1\n"));
        let out = weir(&["check", &network]).ok();
        assert!(out.contains("holds: can a b dst host 203.0.113.9"), "{format}: {out}");
        assert!(out.contains("holds: never a b dst host 198.51.100.1"), "{format}: {out}");
    }
}

#[test]
fn an_inconclusive_answer_names_the_rule_that_is_not_modelled() {
    let lab = Lab::new(&[]);
    lab.write("gw.rules", "-P FORWARD DROP\n-A FORWARD -p udp -m udp --dport 53 -m limit --limit 5/sec -j ACCEPT\n-A FORWARD -p tcp -j ACCEPT\n");
    let network = lab.write("net.yaml", "boxes:\n  gw:\n    kind: router\n    interfaces: {a: 10.1.0.1/24, b: 10.2.0.1/24}\n    \
        firewall: {file: gw.rules}\n  a: {kind: host, owns: 10.1.0.2}\n  b: {kind: host, owns: 10.2.0.2}\nlinks: [gw:a - a, gw:b - b]\n");
    let out = weir(&["check", &network, "--require", "never a b udp", "--require", "can a b tcp"]);
    assert!(out.stdout.contains("holds: can a b tcp"), "{out:?}");
    let reason = "a packet comes to gw/unknown: gw.rules line 2: -A FORWARD -p udp -m udp --dport 53 -m limit --limit 5/sec -j ACCEPT: the match \
        \"limit\" is not modelled";
    assert!(out.stdout.contains("inconclusive: never a b udp") && out.stdout.contains(reason), "{out:?}");
    out.fails(2);
}

#[test]
fn configurations_with_parameters_are_checked_with_their_values() {
    let lab = Lab::new(&[]);
    let text = "define($PORT 53) FromNetfront(a) -> CheckIPHeader -> IPFilter(allow udp dst port $PORT, deny all) -> ToNetfront(b);";
    let file = lab.write("p.click", text);
    let asked = ["--require", "can a b udp dst port 80"];
    weir(&[&["check", &file][..], &asked].concat()).fails(1);
    let out = weir(&[&["check", &file, "PORT=80"][..], &asked].concat()).ok();
    assert!(out.contains("holds: can a b udp dst port 80"), "{out}");
    weir(&[&["check", "-e", text, "PORT=80"][..], &asked].concat()).ok();
    assert!(weir(&["ir", &file, "PORT=4660", "--stage", "last"]).ok().contains(" = 4660\n"));
    assert!(weir(&["check", &file, &file, "PORT=80"]).ok().contains("no traffic is treated differently"));
    let twice = weir(&["check", &file, "PORT=1", "PORT=2"]).fails(1);
    assert!(twice.contains("parameter 'PORT' is given twice"), "{twice}");
    let network = lab.write("net.yaml", NETWORK);
    let none = weir(&["check", &network, "PORT=1"]).fails(1);
    assert!(none.contains("has no parameter 'PORT'"), "{none}");
    let many = weir(&["check", &file, &file, &file]).fails(2);
    assert!(many.contains("one document too many"), "{many}");
}

#[test]
fn a_check_ends_when_its_time_is_over() {
    let lab = Lab::new(&[]);
    // So many headers are possible that nobody looks at all of them.
    let text = "FromDevice(a) -> CheckIPHeader(14) -> ICMPError(10.0.0.9, unreachable, port) -> IPEncap(4, 10.0.0.1, 10.0.0.2)
        -> CheckTCPHeader -> Queue -> ToDevice(b);";
    let file = lab.write("long.click", text);
    let out = weir(&["check", &file, "--require", "never a b", "--time-limit", "0.01"]);
    assert!(out.stdout.contains("inconclusive: never a b") && out.stdout.contains("explored: "), "{out:?}");
    out.fails(2);
    let wrong = weir(&["check", &file, "--time-limit", "soon"]).fails(2);
    assert!(wrong.contains("'soon' is no number of seconds"), "{wrong}");
}
