use super::hassel::TransferFunction;
use super::iptables::{ConnState, NatRange, Ruleset, Target};
use super::*;
use crate::filter::PacketView;

fn routes(table: &RoutingTable) -> Vec<String> {
    let hop = |h: &ImportedHop| {
        let via = h.via.map(|v| format!(" via {v}")).unwrap_or_default();
        let dev = h.dev.as_ref().map(|d| format!(" dev {d}")).unwrap_or_default();
        format!("{via}{dev}")
    };
    let route = |r: &ImportedRoute| match &r.action {
        ImportedAction::Forward(hops) => format!("{}{}", r.prefix, hops.iter().map(hop).collect::<String>()),
        action => format!("{} {action:?}", r.prefix),
    };
    table.routes.iter().map(route).collect()
}

#[test]
fn ip_json_route_is_read() {
    let table = ip_json_route(include_str!("../../tests/data/import/route.json")).unwrap();
    assert_eq!(
        routes(&table),
        [
            "0.0.0.0/0 via 192.0.2.1 dev wan",
            "192.0.2.0/24 dev wan",
            "10.0.0.0/16 dev lan",
            "10.0.0.1 Local",
            "10.1.0.0/16 via 10.0.0.2 dev lan via 192.0.2.9 dev wan",
            "10.9.0.0/16 Blackhole",
            "10.8.0.0/16 Unreachable",
            "198.51.100.0/24 via fe80::2 dev lan",
            "2001:db8::/64 dev lan",
            "::/0 via 2001:db8::1 dev lan",
        ]
    );
    assert_eq!(table.interfaces(), ["wan", "lan"]);
    let addresses: Vec<String> = table.addresses.iter().map(|(d, a)| format!("{d} {a}")).collect();
    assert_eq!(addresses, ["wan 192.0.2.2", "lan 10.0.0.1"]);
    let notes: Vec<String> = table.notes.iter().map(ToString::to_string).collect();
    assert_eq!(
        notes,
        [
            "line 2: route to 0.0.0.0/0: its metric is 200; the route with metric 0 is in use",
            "line 6: route to 10.0.255.255: routes of this type are about frames for everybody on the link",
            "line 14: route to fe80::/64: link-local routes hold for one interface each",
        ]
    );
    let better = r#"[{"dst":"10.0.0.0/8","dev":"a","metric":5},{"dst":"10.0.0.0/8","dev":"b","metric":1}]"#;
    assert_eq!(routes(&ip_json_route(better).unwrap()), ["10.0.0.0/8 dev b"]);
}

#[test]
fn mistakes_in_ip_json_route_are_told() {
    for (text, message) in [
        ("{}", "routes (line 1, column 1): found a map; expected a list of routes"),
        ("[", "document (line 1, column 1): not JSON: EOF while parsing a list"),
        (
            r#"[{"dev":"a"}]"#,
            "routes[0] (line 1, column 2): the field \"dst\" is missing; add \"dst\": a prefix or default",
        ),
        (
            r#"[{"dst":"10.0.0.0/8","dev":"a","encap":"mpls"}]"#,
            "routes[0].encap (line 1, column 40): unknown field \"encap\"; known here: dst, type, gateway, via, dev, nexthops, flags, \
             table, prefsrc, metric, scope, protocol, pref, metrics, mtu, advmss, hoplimit, expires, cache, nhid, age, ipid, used, users, error",
        ),
        (
            r#"[{"dst":"10.0.0.1/8","dev":"a"}]"#,
            "routes[0].dst (line 1, column 9): 10.0.0.1/8 has bits set after the first 8; write 10.0.0.0/8 for the network or \
             10.0.0.1 for the one address",
        ),
        (
            r#"[{"dst":"10.0.0.0/8"}]"#,
            "routes[0] (line 1, column 2): the route to 10.0.0.0/8 has no next hop that is alive; give it a gateway, dev or nexthops",
        ),
        (
            r#"[{"dst":"10.0.0.0/8","type":"throw"}]"#,
            "routes[0].type (line 1, column 29): routes of the type \"throw\" are not modelled; known here: unicast, local, blackhole, \
             unreachable, prohibit",
        ),
        (
            r#"[{"dst":"10.0.0.0/8","dev":"a","table":"7"}]"#,
            "routes[0].table (line 1, column 40): the route is of the table \"7\"; rules that choose a table are not modelled: import the \
             table that is used, by \"ip -json route show table NAME\"",
        ),
        (
            r#"[{"dst":"10.0.0.0/8","gateway":"x","flags":["up"]}]"#,
            "routes[0].flags[0] (line 1, column 45): the flag \"up\" is not known; known here: dead, linkdown, onlink, pervasive, offload, trap",
        ),
        (
            r#"[{"dst":"10.0.0.0/8","type":"local"},{"dst":"10.0.0.0/8","dev":"a"}]"#,
            "routes[1] (line 1, column 38): a second route to 10.0.0.0/8 with the same metric; keep one",
        ),
    ] {
        assert_eq!(ip_json_route(text).expect_err(text).to_string(), message, "{text}");
    }
}

#[test]
fn tables_of_frr_and_ios_are_read() {
    let table = show_ip_route(include_str!("../../tests/data/import/frr.txt")).unwrap();
    assert_eq!(
        routes(&table),
        [
            "0.0.0.0/0 via 192.0.2.1 dev wan",
            "10.0.0.0/24 dev lan",
            "10.0.0.1 Local",
            "10.1.0.0/16 via 10.0.0.2 dev lan via 192.0.2.9 dev wan",
            "10.2.0.0/16 via 10.0.0.2 dev lan",
            "10.8.0.0/16 Unreachable",
            "10.9.0.0/16 Blackhole",
            "192.0.2.0/24 dev wan",
        ]
    );
    assert_eq!(table.addresses, [("lan".to_string(), "10.0.0.1".parse().unwrap())]);
    let table = show_ip_route(include_str!("../../tests/data/import/cisco.txt")).unwrap();
    assert_eq!(
        routes(&table),
        [
            "0.0.0.0/0 via 192.0.2.1",
            "10.0.0.0/24 dev GigabitEthernet0/1",
            "10.0.0.1 Local",
            "10.1.0.0/16 via 10.0.0.2 dev GigabitEthernet0/1 via 10.0.0.3 dev GigabitEthernet0/1",
            "10.2.0.0/16 via 10.0.0.2 dev GigabitEthernet0/1",
            "10.3.0.0/16 Blackhole",
            "10.4.0.0/16 via 10.1.2.3",
            "172.16.5.0/24 via 10.0.0.2 dev GigabitEthernet0/1",
            "192.0.2.0/30 dev GigabitEthernet0/0.20",
            "192.0.2.2 Local",
        ]
    );
    assert_eq!(table.interfaces(), ["GigabitEthernet0/1", "GigabitEthernet0/0.20"]);
    let v6 = "C>* 2001:db8::/64 is directly connected, lan, 00:01:00\nB>* ::/0 [20/0] via fe80::1, lan, weight 1, 00:01:00\n";
    assert_eq!(routes(&show_ip_route(v6).unwrap()), ["2001:db8::/64 dev lan", "::/0 via fe80::1 dev lan"]);
    let v6 = "S   2001:DB8::/32 [1/0]\n     via FE80::1, GigabitEthernet0/0\n";
    assert_eq!(routes(&show_ip_route(v6).unwrap()), ["2001:db8::/32 via fe80::1 dev GigabitEthernet0/0"]);
}

#[test]
fn mistakes_in_show_ip_route_are_told() {
    for (text, message) in [
        (
            "hello world",
            "routing table (line 1, column 1): \"hello world\" is not a route; lines are as \"show ip route\" prints them, such as \
             \"S>* 10.0.0.0/8 [1/0] via 192.0.2.1, eth0\"",
        ),
        (
            "S 10.0.0.0/8 [1/0] by 10.0.0.1",
            "routing table (line 1, column 1): \"by 10.0.0.1\" is not understood; write \"via ADDRESS, INTERFACE\", \"is directly \
             connected, INTERFACE\" or \"unreachable (blackhole)\"",
        ),
        (
            "S>* 10.0.0.0/8 [1/0] via 10.0.0.1, eth0, label 16, weight 1, 00:00:01",
            "routing table (line 1, column 1): \"label\" in \"via 10.0.0.1, eth0, label 16, weight 1, 00:00:01\" is not understood; tunnels, \
             labels and routes into other VRFs are not modelled",
        ),
        (
            "S>* 10.0.0.0/8 [1/0] via 10.0.0.1, eth0 (vrf red), 00:00:01",
            "routing table (line 1, column 1): \"(vrf\" in \"via 10.0.0.1, eth0 (vrf red), 00:00:01\" is not understood; tunnels, labels and \
             routes into other VRFs are not modelled",
        ),
        (
            "C>* 10.0.0.0/8 is directly connected, a\nC>* 10.0.0.0/8 is directly connected, b",
            "routing table (line 2, column 1): a second route to 10.0.0.0/8 in use; line 1 is one",
        ),
        (
            "S>  10.0.0.0/8 [1/0] via 10.0.0.1 inactive",
            "routing table (line 1, column 1): the route to 10.0.0.0/8 has no next hop in use; its next hops stand behind it, or below",
        ),
        (
            "S 10.0.0.0 [1/0] via 1.1.1.1",
            "routing table (line 1, column 1): the route to 10.0.0.0 has no prefix length; write its length, such as 10.0.0.0/8",
        ),
        (
            "  via 10.0.0.1, a",
            "routing table (line 1, column 1): \"via 10.0.0.1, a\" belongs to no route; a line with its destination stands before it",
        ),
        (
            "VRF red:\n",
            "routing table (line 1, column 1): another routing table begins: \"VRF red:\"; import the table of one VRF",
        ),
    ] {
        assert_eq!(show_ip_route(text).expect_err(text).to_string(), message, "{text}");
    }
}

fn rules() -> Ruleset {
    iptables_save(include_str!("../../tests/data/import/rules.v4")).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn iptables_rules_are_read() {
    let rules = rules();
    let filter = rules.filter.as_ref().unwrap();
    let forward = filter.chain("FORWARD").unwrap();
    assert_eq!((forward.accepts, forward.rules.len()), (Some(false), 7));
    let texts: Vec<String> = forward.rules.iter().map(|r| r.filter.to_string()).collect();
    assert_eq!(
        texts,
        [
            "true",
            "true",
            "not ip src host 10.0.0.66",
            "ip dst host 10.0.0.5 and tcp and (tcp dst port 80 or tcp dst port 443 or tcp dst port 8000-8010)",
            "proto 1 and icmp type 8",
            "tcp and tcp transp[0] >= 0 and not tcp dst port 22 and tcp transp[13] & 0x17 == 2",
            "true",
        ]
    );
    let [replies, _, out, web, ping, log, ppp] = forward.rules.as_slice() else { panic!() };
    assert_eq!(replies.states, Some(vec![ConnState::Established, ConnState::Related]));
    assert_eq!((replies.line, replies.target.clone()), (19, Target::Accept));
    assert!(replies.text.starts_with("-A FORWARD -m conntrack"));
    assert_eq!(out.states.as_ref().unwrap().len(), 4);
    assert!(!out.states.as_ref().unwrap().contains(&ConnState::Invalid));
    assert!(
        out.in_interface.as_ref().unwrap().fits("lan") && !out.out_interface.as_ref().unwrap().fits("lan")
    );
    assert_eq!((&web.target, &filter.chains[3].name), (&Target::Jump(3), &"web".to_string()));
    assert!(ping.uncertain && !log.uncertain);
    assert_eq!(log.target, Target::Continue);
    assert_eq!(ppp.target, Target::Reject("icmp-admin-prohibited".into()));
    assert!(
        ppp.in_interface.as_ref().unwrap().fits("ppp7") && !ppp.in_interface.as_ref().unwrap().fits("pp")
    );
    let web = filter.chain("web").unwrap();
    assert_eq!((web.accepts, &web.rules[0].target), (None, &Target::Goto(4)));
    assert_eq!(
        web.rules[0].filter.to_string(),
        "ip src host 198.51.100.5 or ip src net 198.51.100.6/31 or ip src host 198.51.100.8"
    );
    assert_eq!(web.rules[1].filter.to_string(), "ip[6:2] & 0x1fff != 0");
    assert_eq!(web.rules[2].filter.to_string(), "ip src net 203.0.113.0/24");
    let nat = rules.nat.as_ref().unwrap();
    let pre = &nat.chain("PREROUTING").unwrap().rules;
    let to = |a: &str, b: &str| Some((a.parse().unwrap(), b.parse().unwrap()));
    assert_eq!(
        pre[0].target,
        Target::Dnat(NatRange { addresses: to("10.0.0.5", "10.0.0.5"), ports: Some((80, 80)) })
    );
    assert_eq!(pre[1].target, Target::Redirect(Some((5353, 5353))));
    let post = &nat.chain("POSTROUTING").unwrap().rules;
    assert_eq!(post[0].target, Target::Masquerade(Some((1024, 65535))));
    assert_eq!(
        post[1].target,
        Target::Snat(NatRange { addresses: to("192.0.2.2", "192.0.2.3"), ports: None })
    );
    let notes: Vec<String> = rules.not_modelled.iter().map(|n| format!("{}: {}", n.line, n.reason)).collect();
    assert_eq!(
        notes,
        [
            "4: rules of the table raw are not modelled",
            "23: the match \"limit\" is not modelled: the rule may or may not match",
            "23: the option --limit is not modelled: the rule may or may not match",
        ]
    );
}

#[test]
fn a_negated_match_on_ports_does_not_fit_fragments() {
    let rules =
        iptables_save("*filter\n:FORWARD DROP\n-A FORWARD -p tcp ! --dport 22 -j ACCEPT\nCOMMIT\n").unwrap();
    let filter = &rules.filter.unwrap().chains[0].rules[0].filter;
    let mut packet = vec![0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 4, 0, 0, 80];
    packet.extend([0; 16]);
    assert!(filter.matches(&PacketView::ip(&packet)));
    packet[23] = 22;
    assert!(!filter.matches(&PacketView::ip(&packet)));
    packet[7] = 1;
    assert!(!filter.matches(&PacketView::ip(&packet)), "a fragment has no ports");
}

#[test]
fn mistakes_in_iptables_rules_are_told() {
    let in_table = |rule: &str| format!("*filter\n:FORWARD DROP [0:0]\n:a - [0:0]\n{rule}\nCOMMIT\n");
    for (rule, message) in [
        (
            "-A FORWRD -j ACCEPT",
            "rules (line 4, column 1): the table filter has no chain \"FORWRD\"; did you mean \"FORWARD\"?",
        ),
        (
            "-A FORWARD -j ACEPT",
            "rules (line 4, column 1): the target \"ACEPT\" is not modelled; known here: ACCEPT, DROP, REJECT, RETURN, LOG, SNAT, DNAT, \
             MASQUERADE, REDIRECT and chains of the table",
        ),
        (
            "-A FORWARD -p tcpp -j DROP",
            "rules (line 4, column 1): \"tcpp\" is not a protocol; write a name such as tcp, or a number",
        ),
        (
            "-A FORWARD --dport 80 -j DROP",
            "rules (line 4, column 1): --dport without a protocol that has ports; write -p tcp or -p udp before it",
        ),
        (
            "-A FORWARD -p tcp --dport 80:70 -j DROP",
            "rules (line 4, column 1): \"80:70\" is not a port or range of ports; write, for example, 80 or 1024:65535",
        ),
        (
            "-A FORWARD -m state --state ESTABLISHD -j DROP",
            "rules (line 4, column 1): \"ESTABLISHD\" is not a state; did you mean \"ESTABLISHED\"?",
        ),
        (
            "-A FORWARD -s",
            "rules (line 4, column 1): a value is missing after -s; write it behind the option",
        ),
        (
            "-A FORWARD -s 10.0.0.1/8 -j DROP",
            "rules (line 4, column 1): 10.0.0.1/8 has bits set after the first 8; write 10.0.0.0/8 for the network or 10.0.0.1 for the one address",
        ),
        (
            "-A FORWARD -j SNAT --to-source 10.0.0.1",
            "rules (line 4, column 1): SNAT stands in the table filter; it belongs into the table nat",
        ),
        (
            "-A FORWARD -m comment --comment \"x -j DROP",
            "rules (line 4, column 1): a string does not end; end it with \"",
        ),
        ("-A FORWARD tcp", "rules (line 4, column 1): \"tcp\" is not an option; options begin with -"),
        ("-A a -j a", "rules (line 1, column 1): the chain a jumps to itself; jumps never lead back"),
        (
            "-A FORWARD -j ACCEPT !",
            "rules (line 4, column 1): \"!\" stands before nothing; it stands before an option",
        ),
        (
            "-A FORWARD -p tcp --tcp-flags SYN SYN,ACK -j DROP",
            "rules (line 4, column 1): flags are to be set that are not looked at; --tcp-flags MASK SET: the mask holds the set",
        ),
        (":a - [0:0]", "rules (line 4, column 1): a second chain \"a\"; keep one"),
        ("*nat", "rules (line 1, column 1): the table filter does not end; COMMIT ends a table"),
        (
            "hello",
            "rules (line 4, column 1): \"hello\" is not understood; a line is \":CHAIN POLICY\", \"-A CHAIN …\" or COMMIT",
        ),
    ] {
        assert_eq!(iptables_save(&in_table(rule)).expect_err(rule).to_string(), message, "{rule}");
    }
    let error = iptables_save("*filter\n:FORWARD ACCEPT\n").unwrap_err().to_string();
    assert_eq!(error, "rules (line 1, column 1): the table filter does not end; COMMIT ends a table");
    // A user's chains that jump to each other.
    let text = "*filter\n:a -\n:b -\n-A a -j b\n-A b -g a\nCOMMIT\n";
    assert!(iptables_save(text).unwrap_err().to_string().contains("the chain a jumps to itself"));
}

#[test]
fn transfer_functions_are_read() {
    let tf = TransferFunction::parse(include_str!("../../tests/data/import/box.tf")).unwrap();
    assert_eq!(
        (tf.header_len, tf.prefix.as_str(), tf.rules.len(), tf.send_on_receiving_port),
        (4, "gw", 4, false)
    );
    let [fwd, rw, drop, link] = tf.rules.as_slice() else { panic!() };
    assert_eq!(
        (fwd.in_ports.as_slice(), fwd.out_ports.as_slice(), fwd.id.as_str()),
        (&[1, 2][..], &[3][..], "gw_1")
    );
    assert!(
        fwd.matches.as_ref().unwrap().matches(&[10, 0, 0, 5])
            && !fwd.matches.as_ref().unwrap().matches(&[10, 0, 0, 6])
    );
    assert_eq!(fwd.matches.as_ref().unwrap().to_string(), "00001010,00000000,00000000,00000101");
    let rewrite = rw.rewrite.as_ref().unwrap();
    assert_eq!(
        (rewrite.mask.as_slice(), rewrite.value.as_slice()),
        (&[255, 255, 255, 0][..], &[0, 0, 0, 9][..])
    );
    assert!(drop.out_ports.is_empty() && drop.matches.as_ref().unwrap().matches(&[10, 9, 9, 9]));
    assert_eq!((link.is_link, link.matches.is_none()), (true, true));
    assert_eq!(tf.links().collect::<Vec<_>>(), [(3, 10), (3, 11)]);
    assert_eq!(tf.ports(), [1, 2, 3, 10, 11]);
    assert_eq!(tf.layout().unwrap()[0].field, crate::requirement::HeaderField::IpDst);
    // The shape of the old files: an empty second line, the identifier right behind the influences.
    let old =
        TransferFunction::parse("2$r1$4$\n\nfwd$[100001]$10xxxxxx$None$None$None$None$[100003]$#$#$r1_1$\n")
            .unwrap();
    assert_eq!((old.header_len, old.rules[0].id.as_str(), old.rules[0].line), (1, "r1_1", 3));
}

#[test]
fn mistakes_in_transfer_functions_are_told() {
    let with = |rule: &str| format!("2$r$1$0$0$\n#\n{rule}\n");
    for (text, message) in [
        (
            String::new(),
            "transfer function (line 1, column 1): \"\" does not begin a transfer function; the first line is 2*LENGTH$NAME$COUNT$0$0$, with a length of 1 to 256 bytes",
        ),
        (
            "3$r$".into(),
            "transfer function (line 1, column 1): \"3$r$\" does not begin a transfer function; the first line is 2*LENGTH$NAME$COUNT$0$0$, with a length of 1 to 256 bytes",
        ),
        (
            with("fwdd$"),
            "transfer function (line 3, column 1): \"fwdd\" is not an action; a rule begins with fwd$, rw$ or link$",
        ),
        (
            with("fwd$1$"),
            "transfer function (line 3, column 1): \"1\" is not a list of ports; write numbers such as [100001, 100002]",
        ),
        (
            with("fwd$[1]$0000000$None$None$None$None$[2]$#$#$"),
            "transfer function (line 3, column 1): the wildcard \"0000000\" does not have 8 bits; the first line says headers of 1 bytes",
        ),
        (
            with(&["fwd$[1]$10xxxxxx,xxxxxxx1$None$None$None$None$[2]$#$#$"; 3].join("\n")),
            "transfer function (line 1, column 1): the first line says headers of 1 bytes, and all wildcards have 2; for headers of 2 bytes, the first line begins with 4",
        ),
        (
            with("fwd$[1]$0000000z$None$None$None$None$[2]$#$#$"),
            "transfer function (line 3, column 1): \"0000000z\" is not a wildcard; it consists of 0, 1 and x",
        ),
        (
            with("fwd$[1]$None$None$None$None$None$[2]$#$#$"),
            "transfer function (line 3, column 1): \"fwd\" matches nothing; the third field is a wildcard",
        ),
        (
            with("rw$[1]$00000000$None$None$None$None$[2]$#$#$"),
            "transfer function (line 3, column 1): a rewrite without mask or value; the fourth and fifth fields are wildcards",
        ),
        (
            with("rw$[1]$00000000$11111111$00000001$None$None$[2]$#$#$"),
            "transfer function (line 3, column 1): the rewrite has a 1 where the mask keeps the bit; the mask has 0 for each bit that is rewritten",
        ),
        (
            with("rw$[1]$00000000$1111111x$00000001$None$None$[2]$#$#$"),
            "transfer function (line 3, column 1): \"1111111x\" has an x; mask and rewrite consist of 0 and 1",
        ),
        (
            with("fwd$[1]$00000000$None$None$None$None$[2]$#x#$#$"),
            "transfer function (line 3, column 1): the rules that it affects are not listed as they should be; the ninth and tenth fields are #RULE;WILDCARD;[PORTS]#… and #RULE#…",
        ),
    ] {
        assert_eq!(TransferFunction::parse(&text).expect_err(&text).to_string(), message, "{text}");
    }
}
