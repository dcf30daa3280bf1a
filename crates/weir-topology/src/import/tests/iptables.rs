//! Rules of Linux.

use crate::import::iptables::{ConnState, NatRange, Ruleset, Target};
use crate::import::*;
use weir_filter::PacketView;

fn rules() -> Ruleset {
    iptables_save(include_str!("../../../tests/data/import/rules.v4")).unwrap_or_else(|e| panic!("{e}"))
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
    assert_eq!(ping.unknown, ["the match \"limit\"", "the option --limit"]);
    assert!(log.unknown.is_empty());
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
            "rules (line 4, column 1): \"hello\" is not understood; a line is \":CHAIN POLICY\", \"-A CHAIN …\" or COMMIT, or as \
             \"iptables -S\" prints it",
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

/// A chain's rules in short: line, target, and what is not modelled.
fn short(rules: &Ruleset, chain: &str) -> Vec<String> {
    let tables = [&rules.filter, &rules.nat].into_iter().flatten();
    let chain = tables.filter_map(|t| t.chain(chain)).next().expect("the chain is there");
    chain
        .rules
        .iter()
        .map(|r| format!("{} {:?} {}", r.line, r.target, r.unknown.join(", ")).trim().to_owned())
        .collect()
}

#[test]
fn what_iptables_lists_is_read() {
    let listed = "-P INPUT DROP\n-P FORWARD DROP -c 5 300\n-P OUTPUT ACCEPT\n-N LIMITS\n-A FORWARD -j LIMITS\n\
                  -A LIMITS -p tcp -m tcp --dport 23 -c 10 500 -j DROP\n-A LIMITS -j ACCEPT\n";
    let rules = iptables_save(listed).unwrap_or_else(|e| panic!("{e}"));
    let filter = rules.filter.as_ref().unwrap();
    assert_eq!(
        (filter.chain("FORWARD").unwrap().accepts, filter.chain("LIMITS").unwrap().accepts),
        (Some(false), None)
    );
    assert_eq!(short(&rules, "FORWARD"), ["5 Jump(3)"]);
    assert_eq!(short(&rules, "LIMITS"), ["6 Drop", "7 Accept"]);
    assert!(rules.not_modelled.is_empty(), "{:?}", rules.not_modelled);
    let nat =
        iptables_save("-P PREROUTING ACCEPT\n-P POSTROUTING ACCEPT\n-A POSTROUTING -o wan -j MASQUERADE\n")
            .unwrap();
    assert_eq!(short(&nat, "POSTROUTING"), ["3 Masquerade(None)"]);
    assert!(nat.filter.is_none());
    let mangle =
        iptables_save("-P PREROUTING ACCEPT\n-P FORWARD ACCEPT\n-A PREROUTING -j MARK --set-xmark 1\n")
            .unwrap();
    assert_eq!(mangle.other_tables, [3]);
}

#[test]
fn chains_of_the_kernel_need_no_line() {
    let rules = iptables_save("*filter\n-A FORWARD -p tcp -m tcp --dport 23 -j DROP\nCOMMIT\n").unwrap();
    assert_eq!(rules.filter.as_ref().unwrap().chain("FORWARD").unwrap().accepts, Some(true));
    let notes: Vec<String> = rules.not_modelled.iter().map(ToString::to_string).collect();
    assert_eq!(
        notes,
        ["line 2: the chain FORWARD: no line says its policy; ACCEPT is taken, which is the kernel's own"]
    );
    let error = iptables_save("*nat\n-A FORWARD -j ACCEPT\nCOMMIT\n").unwrap_err().to_string();
    assert_eq!(
        error,
        "rules (line 2, column 1): the table nat has no chain \"FORWARD\"; known here: PREROUTING, INPUT, OUTPUT, POSTROUTING"
    );
}

#[test]
fn a_target_that_is_not_modelled_makes_its_rule_unknown() {
    let rules = "*filter\n:FORWARD ACCEPT [0:0]\n\
        -A FORWARD -p tcp -m tcp --tcp-flags SYN,RST SYN -j TCPMSS --clamp-mss-to-pmtu\n\
        -A FORWARD -j MARK --set-xmark 0x4000/0x0\n\
        -A FORWARD -j CONNMARK --restore-mark --nfmask 0xffffffff --ctmask 0xffffffff\n\
        -A FORWARD -m mark ! --mark 0x4000/0x4000 -j RETURN\n\
        -A FORWARD -j NFQUEUE --queue-num 1 --queue-bypass -p udp\n\
        -A FORWARD -j ACEPT\nCOMMIT\n";
    let rules = iptables_save(rules).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(
        short(&rules, "FORWARD"),
        [
            "3 ClampMss",
            "4 Continue",
            "5 Continue",
            "6 Return the match \"mark\", the option --mark",
            "7 Unknown the target \"NFQUEUE\"",
            "8 Unknown the target \"ACEPT\"",
        ]
    );
    let last = rules.not_modelled.last().unwrap().to_string();
    assert_eq!(
        last,
        "line 8: -A FORWARD -j ACEPT: the target \"ACEPT\" is not modelled: what becomes of packets that fit is not known"
    );
}
