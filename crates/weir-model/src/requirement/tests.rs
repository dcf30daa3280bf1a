use super::*;

fn goal(line: &str) -> Goal {
    let r = Requirement::parse(line).unwrap_or_else(|e| panic!("{line}: {e}"));
    let canonical = r.goal.to_string();
    let again = Requirement::parse(&canonical).unwrap_or_else(|e| panic!("{line} -> {canonical}: {e}"));
    assert_eq!(again.goal, r.goal, "{line} -> {canonical}");
    r.goal
}

fn error(line: &str) -> String {
    Requirement::parse(line).expect_err(line).to_string()
}

#[test]
fn every_form_reads_and_writes() {
    for (line, canonical) in [
        ("can internet client udp dst port 1500", "can internet client udp dst port 1500"),
        ("can internet client", "can internet client"),
        ("can a b true", "can a b"),
        ("can a:0 b:eth1.5 via fw, nat:in tcp", "can a:0 b:eth1.5 via fw, nat:in tcp"),
        ("can a b via fw nat tcp", "can a b via fw, nat tcp"),
        ("can a b via http via tcp , fw", "can a b via http, tcp, fw"),
        ("can a b via fw (tcp or udp)", "can a b via fw tcp or udp"),
        ("can a b via fw !tcp", "can a b via fw not tcp"),
        ("can a b via fw tcp[13] & 2 != 0", "can a b via fw tcp[13] & 0x2 != 0"),
        ("only 10.0.0.0/8 2001:db8::/32 tcp", "only 10.0.0.0/8 2001:db8::/32 tcp"),
        ("all a b strict via x tcp", "all a b strict via x tcp"),
        ("all a b via x strict tcp", "all a b strict via x tcp"),
        ("all a b", "all a b"),
        ("never sap:lan sf:fw:in vlan 5", "never sap:lan sf:fw:in vlan 5"),
        ("return FromDevice@1 gw/rt icmp", "return FromDevice@1 gw/rt icmp"),
        ("invariant a b ip src", "invariant a b ip src"),
        ("  NoLoops  # ever", "noloops"),
        ("require can a b", "can a b"),
    ] {
        assert_eq!(goal(line).to_string(), canonical, "{line}");
    }
}

#[test]
fn the_papers_requirements_mean_what_its_prose_says() {
    for (line, canonical) in [
        // Figure 2.2.
        ("REQUIRE reach 0/0 172.16.15.133 udp 1500", "can 0.0.0.0/0 172.16.15.133 udp dst port 1500"),
        // Section 2.2.5, the client's address and port.
        ("reach 0/0 172.16.15.133:1500 udp", "can 0.0.0.0/0 172.16.15.133 dst port 1500 and udp"),
        // Section 2.2.2, the operator's policy and the payload.
        ("reach 0/0 platform2:if allow tcp port 80 deny all", "only 0.0.0.0/0 platform2:if tcp port 80"),
        ("invariant 0/0 172.16.15.133 tcp payload", "invariant 0.0.0.0/0 172.16.15.133 tcp payload"),
        ("INVARIANT a b proto && dst port && payload", "invariant a b proto, dst port, payload"),
        ("REACH 10/8 172.16/12", "can 10.0.0.0/8 172.16.0.0/12"),
        ("REACH a b deny port 22, allow tcp, deny all", "only a b not port 22 and tcp"),
        ("REACH a b deny tcp", "only a b false"),
        ("reach a b allow udp 53 allow tcp", "only a b udp dst port 53 or tcp"),
    ] {
        assert_eq!(goal(line).to_string(), canonical, "{line}");
    }
}

#[test]
fn the_first_rule_that_matches_decides() {
    use weir_filter::PacketView;
    let Goal::Only { filter, .. } = goal("reach a b allow tcp port 80 deny tcp allow all deny udp") else {
        panic!()
    };
    let packet = |proto: u8, port: u8| {
        vec![0x45, 0, 0, 24, 0, 0, 0, 0, 64, proto, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 4, 0, 0, port]
    };
    for (proto, port, allowed) in [(6, 80, true), (6, 81, false), (17, 53, true), (1, 0, true)] {
        assert_eq!(filter.matches(&PacketView::ip(&packet(proto, port))), allowed, "{proto} {port}");
    }
}

#[test]
fn fields_have_names_and_places() {
    for field in HeaderField::all() {
        let Goal::Invariant { fields, .. } = goal(&format!("invariant a b {field}")) else { panic!() };
        assert_eq!(fields, [KeptField { field, proto: None }], "{field}");
    }
    let kept = |text: &str| match goal(&format!("invariant a b {text}")) {
        Goal::Invariant { fields, .. } => {
            fields.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(kept("ip src host ip dst ether src vlan"), "ip src, ip dst, ether src, vlan");
    assert_eq!(kept("src dst port dst"), "ip src, dst port, ip dst");
    assert_eq!(kept("udp dest port and ttl, ttl"), "udp dst port, ip ttl");
    let bits = HeaderField::DstPort.bits().unwrap();
    assert_eq!((bits.layer, bits.offset, bits.width), (FieldLayer::Transport, 16, 16));
    assert_eq!(HeaderField::IpDst.bits_ipv6().unwrap().offset, 24 * 8);
    assert_eq!(HeaderField::IpId.bits_ipv6(), None);
}

#[test]
fn mistakes_are_told_with_place_and_remedy() {
    for (line, message) in [
        (
            "",
            "column 1: a requirement is missing; it begins with can, only, all, never, invariant, return, noloops, reach",
        ),
        ("cann a b", "column 1: \"cann\" is not a requirement; did you mean \"can\"?"),
        (
            "can",
            "column 4: a place is missing: where the traffic begins; write a node such as internet, a node's port \
             such as fw:lan, or a prefix such as 10.0.0.0/8",
        ),
        (
            "can a (b) tcp",
            "column 7: \"(b)\" is not a place; write a node such as internet, a node's port such as fw:lan, or a \
             prefix such as 10.0.0.0/8",
        ),
        (
            "can 10.0.0.1/8 b",
            "column 5: 10.0.0.1/8 has bits set after the first 8; write 10.0.0.0/8 for the network or 10.0.0.1 for the \
             one address",
        ),
        (
            "can a 10.0.0.1:80 tcp",
            "column 7: \"10.0.0.1:80\" is an address with a port; write 10.0.0.1, and \"port 80\" with src or dst in the filter",
        ),
        ("never a b tcp prot 80", "column 15: \"prot\" is not known; did you mean \"proto\"?"),
        (
            "never a b tcp and",
            "column 18: the filter ends where a term should stand; write a term such as \"tcp\"",
        ),
        (
            "can a b via",
            "column 12: a place is missing: what the traffic passes; write a node such as internet, a node's port \
             such as fw:lan, or a prefix such as 10.0.0.0/8",
        ),
        ("can a b strict tcp", "column 9: \"strict\" has no meaning here; it goes with \"all\" only"),
        ("invariant a b", "column 14: a field is missing; write, for example, \"dst port, payload\""),
        ("invariant a b dst prot", "column 19: \"prot\" is not a header field; did you mean \"proto\"?"),
        (
            "invariant a b tcp",
            "column 15: \"tcp\" is a protocol, not a header field; write a field of it, such as \"tcp dst port\"",
        ),
        (
            "noloops a",
            "column 9: \"a\" does not belong here; \"noloops\" stands alone: it is about all traffic",
        ),
        (
            "reach a b allow deny all",
            "column 17: a filter is missing after \"allow\"; write, for example, \"allow tcp port 80\" or \"allow all\"",
        ),
        ("reach a b allow tcp prot 80", "column 21: \"prot\" is not known; did you mean \"proto\"?"),
        ("reach 0/0 b sctpp 1500", "column 13: \"sctpp\" is not known; did you mean \"sctp\"?"),
    ] {
        assert_eq!(error(line), message, "{line}");
    }
    assert_eq!(
        error("can a b # x\ntcp"),
        "column 1: the requirement goes over several lines; write one requirement a line"
    );
    let deep = format!("reach a b {}", "deny tcp allow udp ".repeat(80));
    assert!(error(&deep).contains("nest too deeply"), "{}", error(&deep));
    let many = format!("can a b via {}", vec!["x"; MAX_VIA + 1].join(","));
    assert!(error(&many).contains("at most 64"), "{}", error(&many));
    assert!(error(&format!("can a b {}", " ".repeat(1 << 20) + "x")).contains("at most"));
}

#[test]
fn a_text_tells_all_mistakes_with_their_lines() {
    let text = "# what must hold\n\ncan a b tcp\n  nevr a b\nall a b prot # x\nnoloops\n";
    let errors = Requirement::parse_all(text).unwrap_err();
    assert_eq!(
        errors.to_string(),
        "requirement (line 4, column 3): \"nevr\" is not a requirement; did you mean \"never\"?\n\
         requirement (line 5, column 9): \"prot\" is not known; did you mean \"proto\"?"
    );
    let all = Requirement::parse_all(&text.replace("nevr", "never").replace("prot", "tcp")).unwrap();
    let lines: Vec<_> = all.iter().map(|r| (r.position.unwrap().line, r.text.as_str())).collect();
    assert_eq!(lines, [(3, "can a b tcp"), (4, "never a b"), (5, "all a b tcp"), (6, "noloops")]);
    assert_eq!(all[1].position.unwrap().column, 3);
    let names: Vec<String> = all[0].places().map(ToString::to_string).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(Requirement::parse_all("").unwrap(), []);
    let many = "noloops\n".repeat(MAX_REQUIREMENTS + 1);
    assert!(Requirement::parse_all(&many).unwrap_err().to_string().contains("at most 10000"));
    let wrong = "x\n".repeat(5 * DocErrors::MAX);
    assert_eq!(Requirement::parse_all(&wrong).unwrap_err().errors().len(), DocErrors::MAX);
}
