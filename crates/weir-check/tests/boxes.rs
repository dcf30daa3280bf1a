//! Boxes that other systems describe: transfer functions, and rules of iptables.

use std::collections::BTreeMap;

use weir_check::report::Finding;
use weir_check::{Question, Status, World};
use weir_ir::program::{Layer, Reason};
use weir_ir::{Outcome, outcomes};
use weir_model::requirement::Requirement;
use weir_packet::Packet;
use weir_plan::Classes;
use weir_table::TableSet;
use weir_topology::Topology;
use weir_verify::Limits;

use Status::{Holds, Inconclusive, Violated};

fn world(text: &str, files: &BTreeMap<&str, String>) -> World {
    let mut read = |name: &str| {
        files.get(name).cloned().ok_or_else(|| std::io::Error::from(std::io::ErrorKind::NotFound))
    };
    let topology = Topology::parse_with(text, &mut read).unwrap_or_else(|e| panic!("{e}"));
    let world =
        World::of_topology(&topology, &Classes::default(), |_, _| false).unwrap_or_else(|e| panic!("{e:?}"));
    for node in world.net.nodes() {
        if let Some(program) = node.program() {
            weir_ir::check(program).unwrap_or_else(|e| panic!("{}: {e:?}", node.name));
        }
    }
    world
}

fn assert_all(world: &mut World, wanted: &[(&str, Status)]) {
    let questions: Vec<Question> =
        wanted.iter().map(|(l, _)| world.question(&Requirement::parse(l).unwrap()).unwrap()).collect();
    world.net.finish();
    let found: Vec<(&str, Status)> = wanted
        .iter()
        .zip(&questions)
        .map(|((line, _), q)| {
            let a = world.answer(q, Limits::of_networks());
            // Shown if the test fails.
            println!("{line}: {} {:?}", a.status, a.doubt);
            (*line, a.status)
        })
        .collect();
    assert_eq!(found, wanted);
}

/// A line of a transfer function over headers of 16 bytes. `what` are words `FIELD=VALUE[/LEN]`.
fn rule(action: &str, inputs: &str, what: &str, vlan: Option<u16>, outputs: &str) -> String {
    let at = |field: &str| match field {
        "flags" => (0, 8),
        "dport" => (8, 16),
        "sport" => (24, 16),
        "proto" => (40, 8),
        "dst" => (48, 32),
        "src" => (80, 32),
        "vlan" => (112, 16),
        other => panic!("{other}"),
    };
    let mut bits = vec!['x'; 128];
    for word in what.split_whitespace() {
        let (field, value) = word.split_once('=').unwrap();
        let (from, width) = at(field);
        let (value, len) = value.split_once('/').map_or((value, width), |(v, l)| (v, l.parse().unwrap()));
        let value: u32 =
            value.parse().unwrap_or_else(|_| value.parse::<std::net::Ipv4Addr>().unwrap().into());
        for i in 0..len {
            bits[from + i] = if value >> (width - 1 - i) & 1 == 1 { '1' } else { '0' };
        }
    }
    let matches: String = bits.iter().collect();
    let (mask, value) = match vlan {
        Some(v) => (format!("{}{}", "1".repeat(112), "0".repeat(16)), format!("{}{v:016b}", "0".repeat(112))),
        None => ("None".into(), "None".into()),
    };
    format!("{action}$[{inputs}]${matches}${mask}${value}$None$None$[{outputs}]$#$#$$$r$\n")
}

fn function(rules: &[String]) -> String {
    format!("32$r$9$0$0$\n#\n{}", rules.concat())
}

fn links(list: &[(u32, u32)]) -> String {
    let link = |(a, b): &(u32, u32)| format!("link$[{a}]$None$None$None$None$None$[{b}]$#$#$$$_$\n");
    format!("32$$9$0$0$\n#\n{}", list.iter().map(link).collect::<String>())
}

/// Two routers of three stages, with outer ports 1 to 3 and 11 to 13: tags in, routes, access lists out.
fn backbone() -> (String, BTreeMap<&'static str, String>) {
    let a = function(&[
        rule("fwd", "1, 2", "vlan=10", None, "100"),
        rule("fwd", "3", "vlan=30", None, "100"),
        rule("rw", "100", "dst=10.1.5.0/24", Some(10), "201, 202"),
        rule("rw", "100", "dst=10.1.0.0/16", Some(10), "201"),
        rule("fwd", "100", "dst=10.9.0.0/16", None, ""),
        rule("rw", "100", "", Some(30), "203"),
        rule("fwd", "201", "proto=6 dport=22", None, ""),
        rule("fwd", "201", "", None, "301"),
        rule("fwd", "202", "", None, "302"),
        rule("fwd", "203", "", None, "303"),
    ]);
    let b = function(&[
        rule("fwd", "11, 12, 13", "", None, "1100"),
        rule("rw", "1100", "dst=10.2.0.0/16", Some(20), "1211"),
        rule("rw", "1100", "dst=10.1.0.0/16", Some(30), "1213"),
        rule("rw", "1100", "dst=10.66.0.0/16", Some(30), "1213"),
        rule("fwd", "1211", "", None, "1311"),
        rule("fwd", "1213", "", None, "1313"),
    ]);
    let text = "
boxes:
  a: {kind: transfer, file: a.tf, stages: 3, out-offset: 300}
  b: {kind: transfer, file: b.tf, stages: 3, out-offset: 1300}
links:
  - {file: links.tf}
";
    let files = [("a.tf", a), ("b.tf", b), ("links.tf", links(&[(303, 13), (1313, 3)]))];
    (text.into(), files.into_iter().collect())
}

#[test]
fn transfer_functions_carry_what_their_rules_say() {
    let (text, files) = backbone();
    let mut w = world(&text, &files);
    assert_all(
        &mut w,
        &[
            ("can a:1 a:2 dst net 10.1.5.0/24", Holds),
            ("only a:1 a:2 dst net 10.1.5.0/24", Holds),
            ("only a:2 a:1 dst net 10.1.0.0/16", Holds),
            ("can a:2 a:1 tcp dst port 23", Holds),
            ("can a:2 a:1 tcp dst port 22", Violated),
            ("can a:1 b:11 dst net 10.2.0.0/16", Holds),
            ("only a:1 b:11 dst net 10.2.0.0/16", Holds),
            ("never a:1 b:11 dst net 10.9.0.0/16", Holds),
            ("can b:11 a:1 dst net 10.1.0.0/16", Holds),
            ("never b:11 a:2 not dst net 10.1.5.0/24", Holds),
            ("can a:1 b:12", Violated),
            // 10.66/16 goes from a to b, which sends it back, and so on.
            ("noloops", Violated),
        ],
    );
}

/// Two hosts with a router between them that has rules.
const ROUTER: &str = "
boxes:
  lan: {kind: host, owns: 10.77.1.2, sources: own}
  wan: {kind: host, owns: 10.77.2.2, sources: own}
  gw:
    kind: router
    interfaces: {lan: 10.77.1.1/24, wan: 10.77.2.1/24}
    firewall: {file: gw.rules}
links: [lan - gw:lan, gw:wan - wan]
";

fn router(rules: &str) -> World {
    world(ROUTER, &[("gw.rules", rules.to_owned())].into())
}

#[test]
fn chains_decide_as_they_are_written() {
    let rules = "*filter
:INPUT DROP [0:0]
:FORWARD DROP [0:0]
:web - [0:0]
:deep - [0:0]
-A INPUT -i lan -p icmp -j ACCEPT
-A FORWARD -i lan -p tcp -m multiport --dports 80,443 -j web
-A FORWARD -i lan -o wan -p udp -m udp ! --dport 53 -g deep
-A FORWARD -i lan -p udp -j ACCEPT
-A FORWARD -i wan -p udp -j REJECT
-A FORWARD ! -i wan -p icmp -m icmp --icmp-type 8 -j ACCEPT
-A web -s 10.77.1.0/24 -p tcp --tcp-flags SYN,ACK SYN -j RETURN
-A web -j ACCEPT
-A deep -p udp -m udp --sport 7 -j RETURN
-A deep -p udp -m udp --dport 7000:7010 -j ACCEPT
COMMIT
";
    let mut w = router(rules);
    assert_all(
        &mut w,
        &[
            ("can lan wan tcp dst port 80", Holds),
            ("can lan wan tcp dst port 80 and tcp[13] & 18 = 2", Violated),
            ("can lan wan tcp dst port 81", Violated),
            ("can lan wan udp dst port 53", Holds),
            ("can lan wan udp dst port 7005", Holds),
            ("never lan wan udp src port 7 and dst port 7005", Holds),
            // The third rule is not for what has no ports: fragments, and packets that are cut short.
            ("only lan wan not udp or dst port 53 or dst portrange 7000-7010", Violated),
            (
                "only lan wan not udp or ip[6:2] & 8191 != 0 or ip[2:2] < 80 or dst port 53 or dst portrange 7000-7010",
                Holds,
            ),
            ("can lan wan icmp type 8", Holds),
            ("never lan wan icmp type 0", Holds),
            ("never wan lan", Holds),
            ("can lan gw:local icmp", Holds),
            ("never wan gw:local", Holds),
            ("never lan gw:local udp", Holds),
        ],
    );
}

#[test]
fn only_what_belongs_to_a_connection_comes_back() {
    let rules = "*filter
:FORWARD DROP [0:0]
-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A FORWARD -m conntrack --ctstate INVALID -j DROP
-A FORWARD -i lan -m conntrack --ctstate NEW -j ACCEPT
COMMIT
";
    let mut w = router(rules);
    assert_all(
        &mut w,
        &[
            ("return lan wan udp dst port 53", Holds),
            ("return lan wan tcp dst port 80", Holds),
            ("can wan lan udp", Holds),
            ("can wan lan icmp type 3", Holds),
        ],
    );
}

#[test]
fn what_is_not_modelled_leaves_just_these_packets_open() {
    let rules = "*filter
:FORWARD DROP [0:0]
-A FORWARD -p udp -m udp --dport 99 -m string --string x --algo bm -j ACCEPT
-A FORWARD -p udp -m udp --dport 53 -j ACCEPT
COMMIT
";
    let mut w = router(rules);
    assert_all(
        &mut w,
        &[
            ("can lan wan udp dst port 53", Holds),
            ("never lan wan tcp", Holds),
            ("never lan wan udp dst port 98", Holds),
            ("never lan wan udp", Violated),
            ("never lan wan udp dst port 99", Inconclusive),
        ],
    );
    let mut w = router("*mangle\n-A FORWARD -j MARK\nCOMMIT\n*filter\n:FORWARD DROP [0:0]\nCOMMIT\n");
    assert_all(&mut w, &[("never lan wan", Inconclusive)]);
    assert!(
        w.notes.iter().any(|n| n == "gw: rules of other tables than filter and nat: lines 2"),
        "{:?}",
        w.notes
    );
}

#[test]
fn chains_of_the_kernel_need_no_line_and_listed_rules_are_rules() {
    let saved = "*filter\n-A FORWARD -p tcp -m tcp --dport 23 -j DROP\nCOMMIT\n";
    let listed =
        "-P FORWARD ACCEPT\n-N LIMITS\n-A FORWARD -j LIMITS\n-A LIMITS -p tcp -m tcp --dport 23 -j DROP\n";
    for rules in [saved, listed] {
        let wanted = [("never lan wan tcp dst port 23", Holds), ("can lan wan tcp dst port 80", Holds)];
        assert_all(&mut router(rules), &wanted);
    }
}

#[test]
fn a_clamped_segment_size_changes_options_and_no_more() {
    let rules = "*filter
:FORWARD ACCEPT [0:0]
-A FORWARD -i lan -p tcp -m tcp --tcp-flags SYN,RST SYN -j TCPMSS --clamp-mss-to-pmtu
-A FORWARD -p tcp -m tcp --dport 23 -j DROP
COMMIT
";
    assert_all(
        &mut router(rules),
        &[
            ("never lan wan tcp dst port 23", Holds),
            ("can lan wan tcp dst port 80", Holds),
            ("invariant lan wan ip src, dst port", Holds),
            // An option may be added where there was none, to SYNs from the one side.
            ("invariant lan wan ip len", Violated),
            ("invariant wan lan ip len", Holds),
        ],
    );
}

#[test]
fn what_depends_on_marks_or_unknown_targets_is_open_and_the_rule_is_told() {
    let rules = "*filter
:FORWARD DROP [0:0]
:SVC - [0:0]
-A FORWARD -p tcp -m tcp --dport 23 -j DROP
-A FORWARD -j MARK --set-xmark 0x4000/0x0
-A FORWARD -p tcp -j SVC
-A FORWARD -p udp -j NFQUEUE --queue-num 1
-A SVC -m mark ! --mark 0x4000/0x4000 -j RETURN
-A SVC -j ACCEPT
COMMIT
";
    let mut w = router(rules);
    assert_all(
        &mut w,
        &[
            ("never lan wan tcp dst port 23", Holds),
            ("can lan wan tcp dst port 80", Inconclusive),
            ("never lan wan udp", Inconclusive),
            ("never lan wan icmp", Holds),
        ],
    );
    for (line, reason) in [
        (
            "can lan wan tcp dst port 80",
            "a packet comes to gw/unknown: gw.rules line 8: -A SVC -m mark ! --mark 0x4000/0x4000 -j RETURN: the match \"mark\" is not \
             modelled",
        ),
        (
            "never lan wan udp",
            "a packet comes to gw/unknown: gw.rules line 7: -A FORWARD -p udp -j NFQUEUE --queue-num 1: the target \"NFQUEUE\" is not \
             modelled",
        ),
    ] {
        let question = w.question(&Requirement::parse(line).unwrap()).unwrap();
        w.net.finish();
        let answer = w.answer(&question, Limits::of_networks());
        assert_eq!(Finding::new(&w, &answer).reason, reason, "{line}");
    }
}

#[test]
fn addresses_are_translated_and_back() {
    let rules = "*nat
:PREROUTING ACCEPT [0:0]
:POSTROUTING ACCEPT [0:0]
-A PREROUTING -i wan -p tcp -m tcp --dport 8080 -j DNAT --to-destination 10.77.1.2:80
-A POSTROUTING -o wan -p tcp -m tcp --dport 443 -j SNAT --to-source 10.77.2.1:40000-40010
-A POSTROUTING -o wan -j MASQUERADE
COMMIT
*filter
:FORWARD DROP [0:0]
-A FORWARD -m conntrack --ctstate ESTABLISHED -j ACCEPT
-A FORWARD -m conntrack --ctstate INVALID -j DROP
-A FORWARD -i lan -j ACCEPT
-A FORWARD -d 10.77.1.2/32 -i wan -p tcp -m tcp --dport 80 -j ACCEPT
COMMIT
";
    let mut w = router(rules);
    assert_all(
        &mut w,
        &[
            ("can lan wan udp src host 10.77.2.1", Holds),
            // Replies to what comes in by the last rule without translation leave as they are.
            ("only lan wan src host 10.77.2.1", Violated),
            ("can lan wan tcp dst port 443 and src portrange 40000-40010", Holds),
            ("can wan lan tcp dst port 80", Holds),
            ("return lan wan udp dst port 53", Holds),
            ("return lan wan tcp dst port 443", Holds),
            ("invariant lan wan ip src", Violated),
        ],
    );
}

#[test]
fn a_firewall_between_two_ports_has_rules_too() {
    let text = "
boxes:
  lan: {kind: host, owns: 10.77.1.2}
  wan: {kind: host, owns: 10.77.1.3}
  fw: {kind: firewall, ports: [in, out], rules: {file: fw.rules}}
links: [lan - fw:in, fw:out - wan]
";
    let rules = "*filter
:FORWARD DROP [0:0]
-A FORWARD -m state --state ESTABLISHED -j ACCEPT
-A FORWARD -i in -o out -j ACCEPT
COMMIT
";
    let mut w = world(text, &[("fw.rules", rules.to_owned())].into());
    assert_all(
        &mut w,
        &[
            ("can lan wan ip tcp", Holds),
            ("return lan wan udp", Holds),
            // The rules are those of IPv4.
            ("never lan wan ip6", Inconclusive),
        ],
    );
    let nat = "*nat\n:POSTROUTING ACCEPT\n-A POSTROUTING -j SNAT --to-source 10.0.0.1\nCOMMIT\n";
    let mut read = |_: &str| Ok(nat.to_owned());
    let topology = Topology::parse_with(text, &mut read).unwrap();
    let errors = World::of_topology(&topology, &Classes::default(), |_, _| false).unwrap_err();
    assert_eq!(
        errors,
        [
            "box fw: its rules translate addresses, but a firewall forwards frames as they are; make it a router"
        ]
    );
}

/// A router that has space for one direction of a connection only knows none, and lets nobody through.
#[test]
fn a_packet_that_is_dropped_for_want_of_room_begins_no_connection() {
    let nat = |target: &str| {
        format!(
            "*nat\n:PREROUTING ACCEPT [0:0]\n:POSTROUTING ACCEPT [0:0]\n-A POSTROUTING -o wan -j {target}\nCOMMIT\n"
        )
    };
    let filter =
        "*filter\n:FORWARD ACCEPT [0:0]\n-A FORWARD -m conntrack --ctstate ESTABLISHED -j ACCEPT\nCOMMIT\n";
    let free = "SNAT --to-source 192.0.2.1:1000-1010";
    for rules in [nat("MASQUERADE"), nat(free), filter.to_owned()] {
        let world = router(&rules);
        let node = world.net.nodes().iter().find(|n| n.name.ends_with("/POSTROUTING")).unwrap();
        for space in [1, 2] {
            let mut program = weir_ir::Program::clone(node.program().unwrap());
            let table = program.tables.iter().position(|t| t.decl.name == "connections").unwrap();
            program.tables[table].decl.capacity = space;
            let mut tables = TableSet::new(program.tables.iter().map(|t| &t.decl)).unwrap();
            let frame = weir_net::build::udp4(([10, 0, 0, 1].into(), 5), ([203, 0, 113, 1].into(), 53), b"");
            let mut packet = Packet::from_bytes(&frame[14..]).unwrap();
            packet.set_layer(Layer::Net, Some(packet.data()));
            // Of a new connection that rules have not changed yet.
            (packet.anno[41], packet.anno[37]) = (1, 2);
            let ended = outcomes(&program, &mut tables, 1, packet);
            match &ended[..] {
                [Outcome::Dropped(reason)] => assert_eq!((space, reason), (1, &Reason::FULL), "{rules}"),
                [Outcome::Exit(1, _)] => assert_eq!(space, 2, "{rules}"),
                _ => panic!("{rules}: {ended:?}"),
            }
            assert_eq!(tables.table(table as u32).len(), if space == 1 { 0 } else { 2 }, "{rules}");
        }
    }
}

#[test]
fn protocols_whose_translation_is_not_modelled_leave_the_answers_about_others() {
    let text = "
version: 1
name: t
boxes:
  r:
    kind: router
    interfaces: {lan: 10.11.0.1/24, wan: 192.0.2.2/30}
    routes: [default via 192.0.2.1]
    firewall: {file: rules}
  a: {kind: host, owns: 10.11.0.0/24, sources: own}
  b: {kind: internet}
links: [r:lan - a, r:wan - b]
";
    let rules = "*nat
:POSTROUTING ACCEPT [0:0]
-A POSTROUTING -o wan -j MASQUERADE
COMMIT
*filter
:FORWARD ACCEPT [0:0]
-A FORWARD -o wan -p udp -j DROP
-A FORWARD -o lan -m state --state ESTABLISHED,RELATED -j ACCEPT
-A FORWARD -o lan -j DROP
COMMIT
";
    let mut w = world(text, &BTreeMap::from([("rules", rules.to_owned())]));
    let wanted = [
        ("never a b udp", Holds),
        ("can a b tcp dst port 80", Holds),
        ("never b a udp", Holds),
        // One that is of no connection goes as it is.
        ("can a b sctp", Holds),
        // Whether what comes back is of a connection, a module of the kernel says.
        ("never b a sctp", Inconclusive),
        ("return a b sctp", Inconclusive),
        ("return a b tcp", Holds),
        ("never a b tcp dst port 80", Violated),
    ];
    assert_all(&mut w, &wanted);
    let q = w.question(&Requirement::parse("never b a sctp").unwrap()).unwrap();
    let answer = w.answer(&q, Limits::of_networks());
    let finding = Finding::new(&w, &answer);
    assert!(finding.reason.contains("connections of SCTP, DCCP and UDP-Lite"), "{}", finding.reason);
    let named = finding.trace.iter().any(|s| s.node.contains("r/unknown"));
    assert!(named, "the packet of an example passes there: {:?}", finding.trace);
}

/// Held against Linux: a router forwards no broadcast of its networks, no group, and nothing from an address of its own; what
/// is for all, or for a group, comes to itself.
#[test]
fn a_router_takes_broadcasts_and_forwards_no_address_that_no_host_has() {
    let text = "
version: 1
name: t
boxes:
  r:
    kind: router
    interfaces: {lan: 10.1.0.1/16, wan: 10.2.0.2/30}
    routes: [default via 10.2.0.1]
    firewall: {file: rules}
  a: {kind: host, owns: 10.1.0.0/16}
  b: {kind: internet}
links: [r:lan - a, r:wan - b]
";
    let rules = "*filter
:INPUT ACCEPT [0:0]
-A INPUT -d 10.1.0.1/32 -j DROP
-A INPUT -d 10.2.0.2/32 -j DROP
COMMIT
";
    let mut w = world(text, &BTreeMap::from([("rules", rules.to_owned())]));
    let never = [
        "dst host 255.255.255.255",
        "dst net 224.0.0.0/4",
        "dst host 10.2.0.3",
        "dst host 10.2.0.0",
        "dst host 10.1.255.255",
        "dst net 127.0.0.0/8",
        "src host 10.1.0.1",
        "src host 10.2.0.2",
        "src net 224.0.0.0/4",
        "src host 255.255.255.255",
        "src net 127.0.0.0/8",
        "src net 0.0.0.0/8",
    ];
    let never: Vec<String> = never.iter().map(|f| format!("never a b udp and {f}")).collect();
    let mut wanted: Vec<(&str, Status)> = never.iter().map(|line| (line.as_str(), Holds)).collect();
    wanted.extend([
        ("can a r:local udp dst host 255.255.255.255", Holds),
        ("can a r:local udp and src host 0.0.0.0 and dst host 255.255.255.255", Holds),
        ("can a r:local udp dst host 10.1.255.255", Holds),
        ("can a r:local udp dst host 224.0.0.1", Holds),
        ("never a r:local udp", Violated),
        ("never a r:local udp dst host 10.1.0.1", Holds),
        ("can a b udp dst host 8.8.8.8", Holds),
        ("can a b udp dst host 240.1.1.1", Holds),
        ("can a b udp dst host 10.2.0.1", Holds),
    ]);
    assert_all(&mut w, &wanted);
}
