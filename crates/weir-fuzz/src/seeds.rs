//! Inputs to start from: what the examples, the tests and the library hold already.

use std::net::Ipv4Addr;

use weir_io::pcap::PcapWriter;
use weir_ir::program_of;
use weir_net::build::{TcpFields, arp, ethernet, icmp_echo, tag_vlan, tcp4, udp4};
use weir_net::probe::Probe;
use weir_net::{EtherAddr, ethertype};
use weir_packet::Packet;
use weir_plan::Classes;
use weir_protocol::{Answer, Command, Event, GraphInfo, Reply, Request};

use crate::mutate::Random;

/// A whole service.
pub(crate) const FIREWALL_NAT: &str = include_str!("../../../examples/firewall-nat.click");

fn texts<'a>(list: impl IntoIterator<Item = &'a str>) -> Vec<Vec<u8>> {
    list.into_iter().map(|t| t.as_bytes().to_vec()).collect()
}

/// Click configurations.
pub(crate) fn click() -> Vec<Vec<u8>> {
    let classes = Classes::default();
    let examples = classes.iter().flat_map(|c| c.info().examples.iter().copied());
    let syntax = [
        "require(package p); define($A 1, $B \"x y\"); elementclass C { $p, K $k | input -> Paint($p) -> output }\n\
         Idle -> C($A, K 2) -> Discard;",
        "elementclass C { -> Null -> || $a | -> Paint($a) -> } Idle -> C -> C(3) -> Tee => [0] Discard, [1] Discard;",
        "a, b :: Idle; a -> { -> Null -> } -> Discard; b -> Discard; // comment\n/* other */ # 3 \"file\"\n",
    ];
    texts(examples.chain(syntax).chain([FIREWALL_NAT]))
}

/// Service graphs.
pub(crate) fn service_graphs() -> Vec<Vec<u8>> {
    texts([
        include_str!("../../../examples/firewall-nat.yaml"),
        include_str!("../../weir-model/tests/good/everything.yaml"),
        include_str!("../../weir-model/tests/good/figure-4.yaml"),
        include_str!("../../weir-model/tests/good/figure-4.json"),
    ])
}

/// Function templates.
pub(crate) fn templates() -> Vec<Vec<u8>> {
    texts([
        include_str!("../../../images/null/function.yaml"),
        include_str!("../../../images/firewall/function.yaml"),
        include_str!("../../../images/nat/function.yaml"),
        include_str!("../../../images/branch-office/function.yaml"),
    ])
}

/// Requirements.
pub(crate) fn requirements() -> Vec<Vec<u8>> {
    texts([
        include_str!("../../../docs/requirements.md"),
        include_str!("../../weir-model/tests/bad/requirements.requirement"),
        "can internet client:0 via nat, fw tcp dst port 80",
        "all a 10.0.0.0/8 strict via x y udp",
        "invariant 0/0 172.16.15.133 tcp payload && ip src, dst port",
        "REQUIRE reach 0/0 platform2:if allow tcp port 80 deny all",
        "REACH 10.0.0.1:80 2001:db8::/32 udp 1500",
        "return a b icmp\nnoloops\nnever sf:a:b sap:c vlan 5 # why",
    ])
}

/// Requests.
pub(crate) fn requests() -> Vec<Vec<u8>> {
    texts([
        "FromNetfront() ->\nIPFilter(allow udp port 1500) ->\nIPRewriter(pattern - - 172.16.15.133 - 0 0)\n\
         -> TimedUnqueue(120,100)\n-> ToNetfront()\n\nREQUIRE reach 0/0 172.16.15.133 udp 1500\n",
        "a:\nFromNetfront -> all :: Print(\"x)\") -> { /* noloops */ -> Null -> } -> ToNetfront; // b:\n\
         b:\nIdle -> Discard;\na:0 -> b:in;\ncan x y tcp;\nnoloops\n# c\n",
        include_str!("../../weir-model/tests/bad/figure.request"),
    ])
}

/// Topologies.
pub(crate) fn topologies() -> Vec<Vec<u8>> {
    texts([
        include_str!("../../weir-topology/tests/data/topology/access.yaml"),
        include_str!("../../weir-topology/tests/bad/network.topology.yaml"),
        include_str!("../../weir-topology/tests/bad/places.topology.yaml"),
    ])
}

/// Routing tables of Linux.
pub(crate) fn ip_json_routes() -> Vec<Vec<u8>> {
    texts([include_str!("../../weir-topology/tests/data/import/route.json")])
}

/// The same as people read them.
pub(crate) fn ip_routes() -> Vec<Vec<u8>> {
    texts([
        "default via 192.0.2.1 dev wan proto static metric 100\n10.0.0.0/16 dev lan scope link src 10.0.0.1 linkdown\n\
            10.1.0.0/16 nhid 12 proto bgp\n\tnexthop via 10.0.0.2 dev lan weight 1\n\tnexthop via inet6 fe80::1 dev b weight 1 dead\n\
            unreachable 10.8.0.0/16 mtu lock 1400\nthrow 10.9.0.0/16\ndefault via fe80::1 dev a pref medium expires 9sec\n\
            broadcast 10.0.255.255 dev lan table local\nroot@gw:~#\n",
    ])
}

/// Routing tables of FRR and IOS.
pub(crate) fn show_ip_routes() -> Vec<Vec<u8>> {
    texts([
        "R1#sh ip route\nVRF blue:\nO[1]>*10.0.0.0/8 [110/2] (12) via 10.9.0.1, eth0 (vrf red), rmapsrc 10.9.0.2\n  b via 10.9.0.3, a\n\
         <--- More --->\r\rO E2 10.1.0.0 255.255.0.0\n  [110/11] via 10.0.0.1, 3w1d, in\n10.0.0.0/24 is subnetted, 1 subnets\nC 10.2.0.0 is \
         directly connected, \u{8}b\n",
        include_str!("../../weir-topology/tests/data/import/frr.txt"),
        include_str!("../../weir-topology/tests/data/import/cisco.txt"),
    ])
}

/// Rules of Linux.
pub(crate) fn iptables_rules() -> Vec<Vec<u8>> {
    texts([
        include_str!("../../weir-topology/tests/data/import/rules.v4"),
        "-P FORWARD DROP -c 5 300\n-N a\n-A FORWARD -p tcp --syn -j TCPMSS --set-mss 1400\n-A a -j MARK --set-xmark 1/1\n-A a -j FOO --x 1\n",
    ])
}

/// Transfer functions.
pub(crate) fn transfer_functions() -> Vec<Vec<u8>> {
    texts([include_str!("../../weir-topology/tests/data/import/box.tf")])
}

/// Filters.
pub(crate) fn filters() -> Vec<Vec<u8>> {
    texts([
        "tcp dst port 80 or 443",
        "ip src net 10.0.0.0/8 and not (udp port 53 || icmp type echo)",
        "host 10.0.0.1 or 10.0.0.2 and ip frag",
        "tcp opt syn and not ack",
        "tcp[((tcp[12] & 0xf0) >> 2):1] = 0x78 or len + 2 * 3 > 60",
        "vlan 5 and ip6 protochain 17 and tags all arp host 10/8",
        "not (ether[0] & 1 = 1 or mpls 16) and icmp[icmptype] != icmp-echo",
        "portrange 1-1024",
        "(tcp ? port 80 : ip proto 17)",
        "ip[2:2] & 0xfff >= 40 and tcp[13] & 0x12 == 0x02",
        "ether src 02:00:00:00:00:01 and vlan 5",
        "ip6 host 2001:db8::1 or arp",
        "net 10.0.0.0 mask 255.0.255.0 and ip ttl < 10 and ip dscp 46 and ip vers 4",
        "src and dst port 7 or src or dst host 10.0.1.1",
        "-",
    ])
}

/// Programs: the cases of the passes' tests, and those of the element library.
pub(crate) fn programs() -> Vec<Vec<u8>> {
    let mut all = texts([
        include_str!("../../weir-ir/tests/passes/cases/conditions.ir"),
        include_str!("../../weir-ir/tests/passes/cases/forward.ir"),
        include_str!("../../weir-ir/tests/passes/cases/layers.ir"),
        include_str!("../../weir-ir/tests/passes/cases/stores.ir"),
        include_str!("../../weir-ir/tests/passes/cases/sums.ir"),
    ]);
    let elements = weir_elements::classes().filter_map(|c| c.configure(&[]).ok());
    all.extend(elements.map(|e| program_of(&*e, "e", 1, 2).to_string().into_bytes()));
    all
}

/// Ethernet frames.
pub(crate) fn frames() -> Vec<Vec<u8>> {
    let (a, b) = (Ipv4Addr::new(10, 0, 1, 2), Ipv4Addr::new(10, 0, 2, 2));
    let (mac_a, mac_b) = (EtherAddr([2, 0, 0, 0, 1, 2]), EtherAddr([2, 0, 0, 0, 1, 1]));
    let syn = TcpFields { flags: 2, seq: 1, ..Default::default() };
    let fin = TcpFields { flags: 0x11, seq: 2, ..Default::default() };
    let mut tagged = udp4((a, 5000), (b, 53), b"query");
    tag_vlan(&mut tagged, 0x2005);
    let v6 = [&[0x60, 0, 0, 0, 0, 8, 17, 64][..], &[0xfd; 32], &[0, 7, 0, 53, 0, 8, 0, 0]].concat();
    vec![
        tcp4((a, 40000), (b, 80), syn, b""),
        tcp4((b, 80), (a, 40000), fin, b"GET / HTTP/1.1\r\n"),
        udp4((a, 5000), (b, 5201), b"payload"),
        icmp_echo(a, b, 7, 1, b"ping"),
        arp(1, (mac_a, a), (EtherAddr([0; 6]), Ipv4Addr::new(10, 0, 1, 1))),
        arp(2, (mac_b, b), (mac_a, a)),
        tagged,
        ethernet(mac_a, mac_b, ethertype::IPV6, &v6),
    ]
}

/// Packets for the programs of the library, see `packet_series` of the targets.
pub(crate) fn packet_series() -> Vec<Vec<u8>> {
    let record = |to: usize, later: u8, bytes: &[u8]| [&[to as u8, bytes.len() as u8, later], bytes].concat();
    let mut all = Vec::new();
    for plan in 0..=u8::MAX {
        let mut series = vec![plan];
        for (i, frame) in frames().iter().enumerate() {
            // Each frame with its Ethernet header and, where it has one, from its IP header on.
            series.extend(record(i + usize::from(plan), i as u8, frame));
            series.extend(record(i, 0, &frame[14..]));
        }
        all.push(series);
    }
    all
}

/// Graphs of generated programs, see `generated`.
pub(crate) fn choices() -> Vec<Vec<u8>> {
    let graph = |seed: u64| {
        let mut random = Random::new(seed);
        let mut bytes = |n: usize| -> Vec<u8> { (0..n).map(|_| random.byte()).collect() };
        let mut input = bytes(25);
        for _ in 0..1 + input[0] % 3 {
            let half = 20 + bytes(1)[0] / 2;
            input.push(half);
            input.extend(bytes(2 * usize::from(half)));
        }
        for i in 0..6 {
            let len = 40 + bytes(1)[0] % 60;
            // The first input, mostly; each mark within the packet, or not set.
            input.extend([len, if i % 3 == 2 { i } else { 0 }, i * 5]);
            input.extend(bytes(4).iter().map(|m| if m % 5 == 0 { 200 } else { m % 20 }));
            input.extend(bytes(1));
            input.extend(bytes(len.into()).iter().map(|b| if seed.is_multiple_of(2) { b % 3 } else { *b }));
        }
        input
    };
    (0..60).map(graph).collect()
}

/// Captures.
pub(crate) fn captures() -> Vec<Vec<u8>> {
    let mut pcap = Vec::new();
    let mut writer = PcapWriter::new("seed", &mut pcap, 64).expect("memory takes any bytes");
    for (i, frame) in (1..).zip(frames()) {
        let mut packet = Packet::from_bytes(&frame).expect("a frame fits a packet");
        packet.timestamp = i * 1_500_000_000;
        writer.write(&packet).expect("memory takes any bytes");
    }
    drop(writer);
    // Other link types, in one record each: what stands in front of the IP header is left to the fuzzer, and to these starts.
    let starts: [(u8, &[u8]); 8] = [
        (0, &[2, 0, 0, 0]),
        (9, &[0xff, 3, 0, 0x21]),
        (50, &[0x0f, 0, 8, 0]),
        (105, &[0x88, 3]),
        (113, &[0; 14]),
        (119, &[0x80, 0x21, 0x10, 1, 0, 0, 0, 64]),
        (127, &[0, 0, 17, 0, 3, 0, 0, 0x80, 0, 0, 0, 0]),
        (192, &[0, 0, 8, 0, 105, 0, 0, 0]),
    ];
    let others = starts.iter().map(|(link, start)| {
        let mut file = pcap[..24].to_vec();
        file[20] = *link;
        let bytes = [*start, &[8, 0, 0x45, 0, 0, 28], &[7; 60]].concat();
        let len = (bytes.len() as u32).to_le_bytes();
        file.extend([&[0; 8][..], &len, &len, &bytes].concat());
        file
    });
    others.chain([pcap.clone(), pcapng()]).collect()
}

/// A pcapng file: section, interface, one packet (draft-ietf-opsawg-pcapng sections 4.1 to 4.3).
fn pcapng() -> Vec<u8> {
    let block = |kind: u32, body: &[u8]| {
        let len = (12 + body.len() as u32).to_le_bytes();
        [&kind.to_le_bytes()[..], &len, body, &len].concat()
    };
    let section = [&0x1a2b_3c4d_u32.to_le_bytes()[..], &[1, 0, 0, 0], &[0xff; 8]].concat();
    let interface = [1, 0, 0, 0, 0, 0, 4, 0];
    let frame = [0x11_u8; 60];
    let packet = [&[0; 12][..], &60_u32.to_le_bytes(), &60_u32.to_le_bytes(), &frame].concat();
    [block(0x0a0d_0d0a, &section), block(1, &interface), block(6, &packet)].concat()
}

/// Lines of the control protocol.
pub(crate) fn control_lines() -> Vec<Vec<u8>> {
    let graph = || "g".to_owned();
    let info = GraphInfo {
        name: graph(),
        tag: "t".into(),
        elements: 3,
        swaps: 1,
        engine: "compiled".into(),
        trouble: "eth0 is down".into(),
    };
    let commands = [
        Command::Hello,
        Command::Load {
            graph: graph(),
            config: "Idle -> Discard;".into(),
            file: "f".into(),
            tag: "t".into(),
            scope: Some(graph()),
            memory: Some(1 << 20),
        },
        Command::Status { graph: graph() },
        Command::Write { graph: graph(), handler: "c.reset".into(), value: "1".into() },
        Command::Restore { graph: graph(), snapshot: serde_json::json!({ "tables": [1.5, null, "x"] }) },
        Command::Export { graph: graph(), function: "f".into() },
        Command::Import { graph: graph(), function: "f".into(), state: "weir-state 1 sha256:00\n{}".into() },
        Command::ExportRound { graph: graph(), function: "f".into(), first: true, last: false },
        Command::ImportRound {
            graph: graph(),
            function: "f".into(),
            round: "weir-round 1 sha256:00\n{}".into(),
            leave: Some(vec!["nat.map".into()]),
        },
        Command::Exchange {
            graph: graph(),
            writes: vec![("s.switch".into(), "1".into())],
            holds: vec![("f".into(), true)],
            reads: vec!["c.count".into()],
        },
        Command::Trace { graph: graph(), filter: "tcp".into(), count: 3, functions: Vec::new() },
        Command::Capture {
            graph: graph(),
            points: vec!["c[0]".into()],
            filter: String::new(),
            snaplen: 64,
            count: 0,
        },
        Command::Cancel { request: 7 },
    ];
    let replies = [
        Reply::Done { id: 1, answer: Answer::Graphs { graphs: vec![info] } },
        Reply::Failed { id: 2, errors: vec!["no such graph".into()] },
        Reply::Event { id: 3, event: Event::End },
        Reply::Event {
            id: 3,
            event: Event::Packet { time: 1, length: 60, bytes: "00ff".into(), point: "c".into() },
        },
    ];
    let requests = (1..).zip(commands).map(|(id, command)| serde_json::to_vec(&Request { id, command }));
    requests.chain(replies.iter().map(serde_json::to_vec)).filter_map(Result::ok).collect()
}

/// Probes of nodes, one with fields of another program.
pub fn probes() -> Vec<Vec<u8>> {
    let probe = |node: &str, interface: &str, seconds| {
        let probe = Probe { domain: *b"a domain", node: node.into(), interface: interface.into(), seconds };
        probe.frame(EtherAddr([2, 0, 0, 0, 0, 1])).unwrap_or_default()
    };
    let mut more = probe("n1", "eth0", 120);
    more.truncate(more.len() - 2);
    more.extend([0x0a, 2, b'h', b'i', 0xfe, 6, 0, 0x80, 0xc2, 1, 0, 1, 0, 0]);
    vec![probe("n1", "m0", 3), probe("a-node-with-a-longer-name", "enp0s31f6.4000", 0), more]
}
