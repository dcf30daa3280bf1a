use super::*;
use weir_net::EtherAddr;

const ACCESS: &str = include_str!("../tests/data/topology/access.yaml");

fn errors(text: &str) -> String {
    Topology::parse(text).expect_err(text).to_string()
}

#[test]
fn every_kind_of_box_is_read() {
    let t = Topology::parse(ACCESS).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((t.name.as_ref().unwrap().as_str(), t.boxes.len(), t.links.len()), ("access", 11, 10));
    let BoxKind::Endpoint(client) = &t.node("client").unwrap().kind else { panic!() };
    assert_eq!((client.role, client.owns[0].to_string()), (EndpointRole::Client, "172.16.15.133".into()));
    assert_eq!((client.ports.as_slice(), client.own_sources_only), (&["0".to_string()][..], false));
    assert_eq!(t.node("client").unwrap().owner.as_ref().unwrap().as_str(), "alice");
    let BoxKind::Router(border) = &t.node("border").unwrap().kind else { panic!() };
    let routes: Vec<String> = border.routes.iter().map(ToString::to_string).collect();
    assert_eq!(
        routes,
        [
            "192.0.2.2 local",
            "198.51.100.1 local",
            "192.0.2.0/30 dev wan",
            "198.51.100.0/24 dev platform3",
            "0.0.0.0/0 via 192.0.2.1 dev wan",
        ]
    );
    assert_eq!(border.interfaces[1].mac, Some(EtherAddr([2, 0, 0, 0, 0, 1])));
    let BoxKind::Switch(core) = &t.node("core").unwrap().kind else { panic!() };
    assert_eq!(core.ports[4].vlans, PortVlans::Unaware);
    assert!(
        matches!(&core.ports[2].vlans, PortVlans::Trunk { tagged, native: Some(n) } if tagged.len() == 2 && n.get() == 10)
    );
    assert!(
        matches!(&core.forwarding, Forwarding::Table { entries, flood_unknown: false } if entries[1].vlan.unwrap().get() == 20)
    );
    let BoxKind::Switch(lan) = &t.node("lan").unwrap().kind else { panic!() };
    assert_eq!((lan.ports.len(), &lan.forwarding), (2, &Forwarding::Learning));
    let BoxKind::Firewall(fw) = &t.node("fw").unwrap().kind else { panic!() };
    let FirewallRules::Filters { rules, stateful: true } = &fw.rules else { panic!() };
    assert_eq!((rules[0].from.as_deref(), rules[1].allow), (Some("inside"), false));
    assert_eq!(rules[2].filter.to_string(), "udp dst port 1500");
    let legacy: Vec<&str> = t.boxes.iter().filter(|b| b.legacy).map(|b| b.name.as_str()).collect();
    assert_eq!(legacy, ["border", "nat", "core", "fw", "lan", "edge"]);
    assert_eq!(t.links[9].to_string(), "lan:phone - client:0");
    assert_eq!(t.policy.third_party.send_to.len(), 4);
    assert_eq!(t.policy.rules(Requester::ThirdParty).inconclusive, Inconclusive::Sandbox);
    assert_eq!(t.policy.rules(Requester::Client), &Policy::default().client);
    assert_eq!(t.owners[1].registered[1].to_string(), "2001:db8::/32");
    assert_eq!(t.requirements[1].text, "reach 0/0 platform2:0 allow tcp port 80 deny all");
    assert!(t.requirements[1].position.unwrap().line > 60);
}

#[test]
fn addresses_belong_to_the_longest_prefix() {
    let t = Topology::parse(ACCESS).unwrap();
    let owners = |prefix: &str| {
        let found = t.owners_of(prefix.parse().unwrap());
        found.iter().map(|b| b.name.clone()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(owners("172.16.15.133"), "client");
    assert_eq!(owners("8.8.8.8"), "internet");
    assert_eq!(owners("172.16.100.0/23"), "platform1 platform2 internet");
    assert_eq!(owners("198.51.100.0/24"), "border platform3 internet");
    assert_eq!(owners("172.16.100.0/25"), "platform1");
    assert_eq!(owners("2001:db8::1"), "internet");
}

#[test]
fn a_routers_next_hops_are_found_and_its_table_is_whole() {
    let table = |routes: &str| {
        let text = format!(
            "boxes:\n  r:\n    kind: router\n    interfaces: {{a: [10.0.0.1/24, 'fd00::1/64'], b: 10.1.0.1/30, c: }}\n    routes: {routes}"
        );
        let t = Topology::parse(&text).map_err(|e| e.to_string())?;
        let BoxKind::Router(r) = &t.boxes[0].kind else { panic!() };
        Ok::<_, String>(r.routes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
    };
    assert_eq!(
        table("['10.9.0.0/16 via 10.0.0.2 via 10.1.0.2', 10.8.0.0/16 dev c, default via fd00::2, 10.7.0.0/16 unreachable, 10.0.0.0/24 blackhole]").unwrap(),
        "fd00::1 local; fd00::/64 dev a; 10.0.0.1 local; 10.1.0.1 local; 10.1.0.0/30 dev b; 10.0.0.0/24 blackhole; \
         10.7.0.0/16 unreachable; 10.8.0.0/16 dev c; 10.9.0.0/16 via 10.0.0.2 dev a via 10.1.0.2 dev b; \
         ::/0 via fd00::2 dev a"
    );
    for (routes, message) in [
        (
            "[10.9.0.0/16 via 10.5.0.1]",
            "the next hop 10.5.0.1 is on the network of no interface; write its interface too",
        ),
        ("[10.9.0.0/16 dev d]", "the router has no interface \"d\"; known here: a, b, c"),
        ("[10.9.0.0/16]", "the route to 10.9.0.0/16 leads nowhere; write, for example"),
        ("[10.9.0.0/16 via]", "something is missing after \"via\""),
        ("[10.9.0.0/16 gw 10.0.0.2]", "\"gw\" does not belong into a route"),
        ("[10.9.0.1/16 via 10.0.0.2]", "10.9.0.1/16 has bits set after the first 16"),
        (
            "[10.9.0.0/16 via 10.0.0.2, 10.9.0.0/16 via 10.1.0.2]",
            "a second route to 10.9.0.0/16; item 0 is one",
        ),
        ("[10.9.0.0/16 via 10.0.0.2 blackhole]", "forwards and does not"),
    ] {
        let error = table(routes).unwrap_err();
        assert!(error.contains(message), "{routes}: {error}");
    }
}

#[test]
fn unnamed_ports_of_end_points_are_counted() {
    let t = Topology::parse(
        "boxes: {i: {kind: internet}, a: {kind: switch, ports: [x]}, b: {kind: switch}}\nlinks: [a - i, b:1 - i, b:2 - i:up]",
    )
    .unwrap();
    let links: Vec<String> = t.links.iter().map(ToString::to_string).collect();
    assert_eq!(links, ["a:x - i:0", "b:1 - i:1", "b:2 - i:up"]);
    let net = t.node("i").unwrap();
    assert_eq!(
        (net.ports(), net.port("up"), net.port("2"), net.port("3")),
        (vec!["0", "1", "up"], Some(2), Some(2), None)
    );
}

#[test]
fn files_are_read_where_that_is_allowed() {
    let text = "boxes: {f: {kind: click, ports: [a, b], file: f.click}}";
    let t = Topology::parse_with(text, &mut |name| Ok(format!("// {name}"))).unwrap();
    assert!(
        matches!(&t.boxes[0].kind, BoxKind::Click(c) if c.config == "// f.click" && c.file.as_deref() == Some("f.click"))
    );
    assert_eq!(
        errors(text),
        "boxes.f.file (line 1, column 47): cannot read the file \"f.click\": this document may not name files; \
         name a file beside the topology's"
    );
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("net.yaml");
    std::fs::write(&path, text).unwrap();
    let error = Topology::load(&path).unwrap_err();
    assert!(
        std::error::Error::source(&error).unwrap().to_string().contains("cannot read the file \"f.click\"")
    );
    std::fs::write(dir.path().join("f.click"), "in_0 -> out_1;").unwrap();
    assert!(Topology::load(&path).is_ok());
    std::fs::write(&path, text.replace("f.click", "../f.click")).unwrap();
    let error = Topology::load(&path).unwrap_err();
    assert!(std::error::Error::source(&error).unwrap().to_string().contains("does not lie in the folder"));
    assert!(Topology::load(&dir.path().join("none.yaml")).is_err());
}

#[test]
fn imported_files_become_tables_and_rules() {
    let text = "
boxes:
  linux:
    kind: router
    routes: {file: route.json, format: ip-json}
    firewall: {file: rules.v4}
  ios:
    kind: router
    routes: {file: cisco.txt, format: show-ip-route}
  fw: {kind: firewall, ports: [lan, wan], rules: {file: rules.v4}}
  box: {kind: transfer, file: box.tf, out-offset: 2}
  net: {kind: internet}
links: [linux:wan - net, linux:lan - fw:lan, box:1 - net]
";
    let t = Topology::parse_with(text, &mut |name| {
        Ok(match name {
            "route.json" => include_str!("../tests/data/import/route.json"),
            "cisco.txt" => include_str!("../tests/data/import/cisco.txt"),
            "rules.v4" => include_str!("../tests/data/import/rules.v4"),
            "box.tf" => include_str!("../tests/data/import/box.tf"),
            other => return Err(std::io::Error::other(other.to_string())),
        }
        .to_string())
    })
    .unwrap_or_else(|e| panic!("{e}"));
    let router = |name: &str| match &t.node(name).unwrap().kind {
        BoxKind::Router(r) => r.clone(),
        other => panic!("{other:?}"),
    };
    let linux = router("linux");
    let interfaces: Vec<String> =
        linux.interfaces.iter().map(|i| format!("{} {}", i.name, i.addresses[0])).collect();
    assert_eq!(interfaces, ["wan 192.0.2.2/24", "lan 10.0.0.1/16"]);
    let routes: Vec<String> = linux.routes.iter().map(ToString::to_string).collect();
    assert_eq!(routes[..3], ["2001:db8::/64 dev lan", "10.0.0.1 local", "192.0.2.2 local"]);
    assert_eq!(routes.last().unwrap(), "::/0 via 2001:db8::1 dev lan");
    assert!(routes.contains(&"10.1.0.0/16 via 10.0.0.2 dev lan via 192.0.2.9 dev wan".to_string()));
    assert!(linux.firewall.unwrap().nat.is_some());
    let ios = router("ios");
    let routes: Vec<String> = ios.routes.iter().map(ToString::to_string).collect();
    // The next hop of BGP is found by the route to it.
    assert!(
        routes.contains(
            &"10.4.0.0/16 via 10.0.0.2 dev GigabitEthernet0/1 via 10.0.0.3 dev GigabitEthernet0/1"
                .to_string()
        ),
        "{routes:?}"
    );
    assert_eq!(routes.last().unwrap(), "0.0.0.0/0 via 192.0.2.1 dev GigabitEthernet0/0.20");
    assert!(matches!(
        &t.node("fw").unwrap().kind,
        BoxKind::Firewall(Firewall { rules: FirewallRules::Iptables(_), .. })
    ));
    let BoxKind::Transfer(tf) = &t.node("box").unwrap().kind else { panic!() };
    assert_eq!((tf.stages, tf.out_offset, tf.ports.join(" ")), (1, 2, "1 2 3 8 9".into()));
    let notes: Vec<String> =
        t.not_modelled.iter().map(|(name, note)| format!("{name} {}", note.line)).collect();
    assert_eq!(
        notes,
        ["linux 2", "linux 6", "linux 14", "linux 4", "linux 23", "linux 23", "fw 4", "fw 23", "fw 23"]
    );
}

#[test]
fn mistakes_in_imported_files_name_the_file_and_line() {
    let read = |text: &str, content: &'static str| {
        Topology::parse_with(text, &mut |_| Ok(content.into())).unwrap_err().to_string()
    };
    assert_eq!(
        read("boxes: {r: {kind: router, routes: {file: r.txt, format: show-ip-route}}}", "\nx"),
        "boxes.r.routes (line 1, column 27): r.txt line 2: \"x\" is not a route; lines are as \"show ip route\" prints them, such as \
         \"S>* 10.0.0.0/8 [1/0] via 192.0.2.1, eth0\""
    );
    assert_eq!(
        read("boxes: {r: {kind: router, routes: {file: r.txt, format: ip}}}", ""),
        "boxes.r.routes.format (line 1, column 57): \"ip\" is not a format of routing tables; known here: ip-json, ip-route, show-ip-route"
    );
    assert_eq!(
        read("boxes: {f: {kind: firewall, ports: [a, b], rules: {file: r.v4}}}", "*filter"),
        "boxes.f.rules (line 1, column 44): r.v4 line 1: the table filter does not end; COMMIT ends a table"
    );
    assert_eq!(
        read(
            "boxes: {t: {kind: transfer, file: t.tf}, i: {kind: internet}}\nlinks: [t:5 - i]",
            "2$r$1$\n\nlink$[1]$$$$$$[2]$#$#$\n"
        ),
        "boxes.t (line 1, column 9): the transfer function of t.tf has no outer port \"5\"; links name a transfer function's outer ports by their numbers"
    );
    let table = "S 10.0.0.0/8 [1/0] via 10.0.0.1\nC 10.1.0.0/16 is directly connected, a\n";
    assert_eq!(
        Topology::parse_with(
            "boxes: {r: {kind: router, routes: {file: r, format: show-ip-route}}}",
            &mut |_| Ok(table.into())
        )
        .unwrap_err()
        .to_string(),
        "boxes.r.routes (line 1, column 27): the next hop 10.0.0.1 is on the network of no interface; write its interface too: \
         \"via ADDRESS dev INTERFACE\""
    );
}

#[test]
fn a_transfer_function_of_links_links_boxes() {
    let function = |rules: &str| format!("2$r$1$0$0$\n#\n{rules}");
    let rule = |from: u32, to: u32| format!("fwd$[{from}]$xxxxxxxx$None$None$None$None$[{to}]$#$#$\n");
    let link = |from: u32, to: u32| format!("link$[{from}]$None$None$None$None$None$[{to}]$#$#$\n");
    let read = |links: String| {
        Topology::parse_with(
            "boxes:\n  a: {kind: transfer, file: a.tf, stages: 2, out-offset: 20}\n  b: {kind: transfer, file: b.tf}\n\
             links:\n  - {file: links.tf}",
            &mut |name| {
                Ok(match name {
                    "a.tf" => function(&[rule(1, 10), rule(2, 10), rule(10, 22)].concat()),
                    "b.tf" => function(&[rule(5, 6), rule(6, 5)].concat()),
                    _ => function(&links),
                })
            },
        )
    };
    let t = read([link(22, 5), link(22, 6), link(6, 1)].concat()).unwrap();
    let BoxKind::Transfer(a) = &t.node("a").unwrap().kind else { panic!() };
    assert_eq!(a.ports, ["1", "2"]);
    let links: Vec<String> = t.links.iter().map(ToString::to_string).collect();
    assert_eq!(links, ["a:2 -> b:5", "a:2 -> b:6", "b:6 -> a:1"]);
    assert_eq!(
        read(link(22, 9)).unwrap_err().to_string(),
        "links[0] (line 5, column 5): links.tf: no box lets packets come in by the port 9; add the transfer function that has the port \
         to \"boxes\""
    );
}

#[test]
fn requirements_speak_of_what_the_network_has_beside_its_ports() {
    let text = |line: &str| {
        format!(
            "boxes: {{i: {{kind: internet}}, r: {{kind: router, interfaces: {{a: 10.0.0.1/24}}}}, \
             c: {{kind: click, ports: [x, y], config: 'in_0 -> f :: IPFilter(allow all) -> out_1'}}}}\n\
             links: [r:a - i]\nrequirements: [\"{line}\"]"
        )
    };
    for line in ["can i r:local tcp", "never i c/f", "can i r:a"] {
        assert_eq!(Topology::parse(&text(line)).unwrap().requirements[0].text, line);
    }
    assert!(errors(&text("can r i:local")).contains("the box i has no port \"local\""));
    assert!(errors(&text("never i d/f")).contains("no box is \"d/f\""));
    // It is no port that a link could lead to.
    assert!(errors(&text("can i r:a").replace("r:a - i", "r:local - i")).contains("has no port \"local\""));
}
