use std::net::Ipv4Addr;

use weir_net::Tcp;

use super::*;
use crate::class_named;
use crate::testing::{Harness, Outcome, ip_packet, tcp, udp};
use proptest::prelude::*;
use std::collections::HashSet;
use weir_net::checksum::{checksum, pseudo4};
use weir_packet::Checksum;

mod eviction;

const SECOND: u64 = 1_000_000_000;
const SNAT: &str = "pattern 192.0.2.1 1024-65535 - - 0 1";
const OUTSIDE: [u8; 4] = [192, 0, 2, 1];

type End = ([u8; 4], u16);

fn inside(n: u8) -> [u8; 4] {
    [10, 0, 0, n]
}

fn server(n: u8) -> End {
    ([198, 51, 100, n], 80)
}

fn harness(args: &[&str]) -> Harness {
    Harness::new("IPRewriter", args, 2, 2)
}

/// Source and destination of an IPv4 packet, and a check of its checksums.
fn ends(p: &[u8]) -> (End, End) {
    assert!(sums_ok(p), "{p:02x?}");
    let addr = |at: usize| [p[at], p[at + 1], p[at + 2], p[at + 3]];
    let port = |at: usize| u16::from_be_bytes([p[at], p[at + 1]]);
    ((addr(12), port(20)), (addr(16), port(22)))
}

/// Whether header and transport checksum are those that a full computation gives.
fn sums_ok(p: &[u8]) -> bool {
    let header = checksum(&p[..20]) == 0;
    let pseudo = pseudo4(
        Ipv4Addr::new(p[12], p[13], p[14], p[15]),
        Ipv4Addr::new(p[16], p[17], p[18], p[19]),
        p[9],
        (p.len() - 20) as u16,
    );
    let none = p[9] == proto::UDP && p[26..28] == [0, 0];
    header && (none || pseudo.add_bytes(&p[20..]).finish() == 0)
}

/// Sends a UDP packet; gives the output and the two ends of what left.
fn send(h: &mut Harness, port: u32, src: End, dst: End) -> (u32, End, End) {
    let out = h.send_ip(port, &udp(src, dst, b"payload"));
    let (port, bytes) = out[0].out();
    let (src, dst) = ends(bytes);
    (port, src, dst)
}

fn send_tcp(h: &mut Harness, port: u32, src: End, dst: End, flags: u8, payload: &[u8]) -> (End, End) {
    ends(h.send_ip(port, &tcp(src, dst, flags, 1, payload))[0].out().1)
}

#[test]
fn a_mapping_is_made_used_again_and_reversed() {
    let mut h = harness(&[SNAT, "drop"]);
    let (src, dst) = ((inside(1), 5000), server(1));
    for _ in 0..2 {
        assert_eq!(send(&mut h, 0, src, dst), (0, (OUTSIDE, 5000), dst), "the own port is free");
    }
    assert_eq!(h.read("nmappings"), "1");
    let out = h.send_ip(1, &udp(dst, (OUTSIDE, 5000), b"reply"));
    let Outcome::Out(1, p) = &out[0] else { panic!("{out:?}") };
    assert_eq!(ends(p.bytes()), (dst, src));
    assert_eq!(p.anno[..4], src.0, "the destination annotation follows");
    assert_eq!(h.send_ip(1, &udp(server(2), (OUTSIDE, 5000), b""))[0].reason(), "NoMatch", "another server");
    assert_eq!(
        h.send_ip(1, &tcp(dst, (OUTSIDE, 5000), 2, 0, b""))[0].reason(),
        "NoMatch",
        "another protocol"
    );
}

#[test]
fn a_flow_that_is_its_own_reply_leaves_as_one_once() {
    let mut h = harness(&["pattern 192.0.2.1 4000-4009# - - 0 1", "drop"]);
    let own = (OUTSIDE, 4000);
    assert_eq!(send(&mut h, 0, own, own), (0, own, own), "it makes the mapping");
    for port in [1, 0] {
        assert_eq!(send(&mut h, port, own, own), (1, own, own));
    }
    assert_eq!(h.read("size"), "1");
}

#[test]
fn a_port_serves_many_destinations_but_one_flow_to_each() {
    let mut h = harness(&["pattern 192.0.2.1 4000-4001 - - 0 1", "drop"]);
    let mut seen = HashSet::new();
    for client in [1, 2] {
        for s in 1..=9 {
            let (_, src, dst) = send(&mut h, 0, (inside(client), 4000), server(s));
            assert!(seen.insert((src, dst)));
            assert_eq!(send(&mut h, 1, dst, src), (1, dst, (inside(client), 4000)));
        }
    }
    assert_eq!(h.read("nmappings"), "18");
}

#[test]
fn when_no_port_is_left_new_flows_fail_and_leave_nothing_behind() {
    let mut h = harness(&["pattern 192.0.2.1 4000-4009? - - 0 1", "drop"]);
    let mut ports = HashSet::new();
    for client in 1..=10 {
        ports.insert(send(&mut h, 0, (inside(client), 99), server(1)).1.1);
    }
    assert_eq!(ports, (4000..=4009).collect());
    for _ in 0..3 {
        assert_eq!(h.send_ip(0, &udp((inside(11), 99), server(1), b""))[0].reason(), "NoPort");
    }
    assert_eq!((h.read("nmappings"), h.read("mapping_failures")), ("10".into(), "3".into()));
    send(&mut h, 0, (inside(11), 99), server(2));
}

#[test]
fn sequential_ranges_count_up_and_wrap() {
    let mut h = harness(&["pattern 192.0.2.1 65533-65535# - - 0 1", "drop"]);
    let ports: Vec<u16> = (1..=5).map(|s| send(&mut h, 0, (inside(1), 65534), server(s)).1.1).collect();
    assert_eq!(ports, [65533, 65534, 65535, 65533, 65534]);
}

#[test]
fn expiry_frees_the_port_in_both_directions() {
    let mut h = harness(&["pattern 192.0.2.1 4000-4000 - - 0 1", "drop", "UDP_TIMEOUT 20"]);
    let mut h2 = harness(&["pattern 192.0.2.1 4000-4001 - - 0 1", "drop", "UDP_TIMEOUT 20"]);
    for h in [&mut h, &mut h2] {
        send(h, 0, (inside(1), 1), server(1));
        h.now += 15 * SECOND;
        h.expire();
        // A reply keeps the mapping alive.
        let port = if h.read("table").contains("4001") { 4001 } else { 4000 };
        send(h, 1, server(1), (OUTSIDE, port));
        h.now += 15 * SECOND;
        h.expire();
        assert_eq!(h.read("size"), "1");
        h.now += 6 * SECOND;
        h.expire();
        assert_eq!(h.read("size"), "0");
        assert_eq!(h.send_ip(1, &udp(server(1), (OUTSIDE, port), b""))[0].reason(), "NoMatch");
        send(h, 0, (inside(2), 1), server(1));
    }
}

#[test]
fn a_udp_stream_lives_longer_than_a_question_and_its_answer() {
    let mut h = harness(&[SNAT, "drop", "UDP_TIMEOUT 10", "UDP_STREAMING_TIMEOUT 100"]);
    for (n, port) in [(2, 5001), (3, 5002)] {
        for _ in 1..n {
            send(&mut h, 0, (inside(1), port), server(1));
        }
        send(&mut h, 1, server(1), (OUTSIDE, port));
    }
    h.now += 11 * SECOND;
    h.expire();
    let table = h.read("table");
    assert!(table.contains("5002") && !table.contains("5001"), "{table}");
}

#[test]
fn the_end_of_a_tcp_connection_shortens_its_life() {
    let timeouts = ["TCP_TIMEOUT 1000", "TCP_DONE_TIMEOUT 10", "TCP_NODATA_TIMEOUT 100"];
    let start = || {
        let mut h = harness(&[SNAT, "drop", timeouts[0], timeouts[1], timeouts[2]]);
        send_tcp(&mut h, 0, (inside(1), 5000), server(1), Tcp::SYN, b"");
        send_tcp(&mut h, 1, server(1), (OUTSIDE, 5000), Tcp::SYN | Tcp::ACK, b"");
        h
    };
    let lives = |h: &mut Harness, seconds: u64| {
        h.now += (seconds - 1) * SECOND;
        h.expire();
        let before = h.read("size") == "1";
        h.now += 2 * SECOND + seconds * SECOND / 64;
        h.expire();
        before && h.read("size") == "0"
    };
    let client = |h: &mut Harness, flags, data: &[u8]| {
        send_tcp(h, 0, (inside(1), 5000), server(1), flags, data);
    };
    let reply = |h: &mut Harness, flags, data: &[u8]| {
        send_tcp(h, 1, server(1), (OUTSIDE, 5000), flags, data);
    };
    assert!(lives(&mut start(), 100), "no data");
    let mut h = start();
    client(&mut h, Tcp::ACK, b"data");
    assert!(lives(&mut h, 100), "data one way");
    let mut h = start();
    client(&mut h, Tcp::ACK, b"data");
    reply(&mut h, Tcp::ACK, b"data");
    assert!(lives(&mut h, 1000), "data both ways");
    let mut h = start();
    client(&mut h, Tcp::FIN | Tcp::ACK, b"");
    assert!(lives(&mut h, 100), "one side has finished");
    let mut h = start();
    client(&mut h, Tcp::FIN | Tcp::ACK, b"");
    reply(&mut h, Tcp::FIN | Tcp::ACK, b"");
    client(&mut h, Tcp::ACK, b"");
    assert!(lives(&mut h, 10), "both sides have finished");
    client(&mut h, Tcp::SYN, b"");
    assert!(lives(&mut h, 100), "a new connection with the same ports");
    let mut h = start();
    reply(&mut h, Tcp::RST, b"");
    assert!(lives(&mut h, 10), "reset");
}

#[test]
fn capacity_bounds_the_mappings_and_can_be_changed() {
    let mut h = harness(&[SNAT, "drop", "MAPPING_CAPACITY 2"]);
    assert_eq!(h.read("capacity"), "2");
    send(&mut h, 0, (inside(1), 1), server(1));
    send(&mut h, 0, (inside(2), 1), server(1));
    assert_eq!(h.send_ip(0, &udp((inside(3), 1), server(1), b""))[0].reason(), "Full");
    send(&mut h, 0, (inside(1), 1), server(1));
    h.write("capacity", "3").unwrap();
    send(&mut h, 0, (inside(3), 1), server(1));
    assert_eq!((h.read("size"), h.read("mapping_failures")), ("3".into(), "1".into()));
    h.now += SECOND;
    send(&mut h, 0, (inside(2), 1), server(1));
    h.write("capacity", "1").unwrap();
    assert_eq!(h.read("table").lines().count(), 2, "those that expire next have gone");
    assert!(h.read("table").contains("(10.0.0.2, 1, "));
    h.write("capacity", "3").unwrap();
    assert!(h.write("capacity", "4000000000").unwrap_err().contains("more than the 1048576 mappings"));
    h.write("clear", "").unwrap();
    assert_eq!(h.read("size"), "0");
    send(&mut h, 0, (inside(4), 1), server(1));
}

#[test]
fn keep_and_pass_change_nothing() {
    let mut h = harness(&["keep 0 1", "pass 1"]);
    let (a, b) = ((inside(1), 1), server(1));
    assert_eq!(send(&mut h, 1, b, a), (1, b, a), "pass makes no mapping");
    assert_eq!(h.read("size"), "0");
    assert_eq!(send(&mut h, 0, a, b), (0, a, b));
    assert_eq!(send(&mut h, 0, b, a), (1, b, a), "the reply leaves on ROUTPUT, whichever input it came on");
    assert_eq!(h.read("patterns"), "<keep> [1]\n<nochange>\n");
}

#[test]
fn a_flow_whose_reply_is_itself_has_one_entry() {
    let mut h = harness(&["keep 0 1", "drop"]);
    let a = (inside(1), 7);
    assert_eq!(send(&mut h, 0, a, a), (0, a, a));
    assert_eq!(send(&mut h, 0, a, a), (1, a, a), "what comes later is the reply");
    h.now += 1000 * SECOND;
    h.expire();
    assert_eq!(h.read("table"), "");
}

#[test]
fn destinations_are_rewritten_for_port_forwarding() {
    let mut h = harness(&["drop", "pattern - - 10.0.0.1 8080 0 1"]);
    let client = ([203, 0, 113, 9], 3333);
    assert_eq!(send(&mut h, 1, client, (OUTSIDE, 80)), (0, client, (inside(1), 8080)));
    assert_eq!(send(&mut h, 0, (inside(1), 8080), client), (1, (OUTSIDE, 80), client));
}

#[test]
fn a_flow_that_is_its_own_reply_gets_the_first_port() {
    let mut h = harness(&["pattern 192.0.2.1 1025-65535# - - 0 1", "drop"]);
    let a = (OUTSIDE, 1025);
    assert_eq!(send(&mut h, 0, a, a), (0, a, a));
    assert_eq!(send(&mut h, 0, a, a), (1, a, a), "what comes later is the reply");
}

#[test]
fn replies_get_the_annotation_of_the_first_packet() {
    let mut h = harness(&[SNAT, "drop", "REPLY_ANNO PAINT"]);
    let paint = |h: &mut Harness, port, src, dst, paint| {
        let mut p = ip_packet(&udp(src, dst, b"abc"));
        p.anno[16] = paint;
        let Outcome::Out(_, p) = h.send_packet(port, p).remove(0) else { panic!("dropped") };
        p.anno[16]
    };
    let (client, out) = ((inside(1), 5000), (OUTSIDE, 5000));
    assert_eq!(paint(&mut h, 0, client, server(1), 2), 2);
    assert_eq!(paint(&mut h, 0, client, server(1), 7), 7, "packets keep their own");
    assert_eq!(paint(&mut h, 1, server(1), out, 0), 2);
}

#[test]
fn a_mapper_chooses_the_pattern_of_each_flow() {
    let resolved = |class: &str, args: &[&str], links: usize| {
        let args: Vec<String> = args.iter().map(|a| (*a).to_owned()).collect();
        let all = [weir_ir::Peer { name: "m", class, args: &args }];
        let mut e = class_named("IPRewriter").unwrap().configure(&["m".to_owned()]).unwrap();
        e.resolve(&Peers::new(&all, "e")).unwrap();
        Harness::of(e, 1, links as u32)
    };
    let mut h = resolved("RoundRobinIPMapper", &["- - - - 0 0", "- - - - 1 0", "- - 10.9.9.9 - 2 0"], 3);
    let mut outs = Vec::new();
    for s in [1, 2, 1, 3, 4, 2] {
        outs.push(send(&mut h, 0, (inside(1), 1), server(s)).0);
    }
    assert_eq!(outs, [0, 1, 0, 2, 0, 1], "known flows stay where they are");
    assert_eq!(h.read("patterns"), "<mapper> [4]\n");
    assert!(h.read("table").contains("=> (10.0.0.1, 1, 10.9.9.9, 80) [*2 0] i0"), "{}", h.read("table"));

    let two = ["10 0xbeef", "- - - - 0 0 1", "- - - - 1 0 2"];
    let three = [&two[..], &["- - - - 2 0 3"]].concat();
    let (mut h2, mut h3) =
        (resolved("SourceIPHashMapper", &two, 2), resolved("SourceIPHashMapper", &three, 3));
    let mut counts = [0; 3];
    for client in 1..=200 {
        let to = |h: &mut Harness, s| send(h, 0, (inside(client), 1), server(s)).0;
        let (before, after) = (to(&mut h2, 1), to(&mut h3, 1));
        assert_eq!(to(&mut h3, 2), after, "a source has one server");
        assert!(after == before || after == 2, "only a new server takes sources away");
        counts[after as usize] += 1;
    }
    assert!(counts.iter().all(|&n| n > 20), "{counts:?}");
}

#[test]
fn a_hairpin_goes_out_and_comes_back() {
    // Client 1 reaches client 2 by the outside address: both ends are rewritten.
    let mut h = Harness::new("IPRewriter", &["pattern 192.0.2.1 1024-65535 10.0.0.2 8080 0 0"], 1, 1);
    let (client, target) = ((inside(1), 5000), (inside(2), 8080));
    assert_eq!(send(&mut h, 0, client, (OUTSIDE, 80)), (0, (OUTSIDE, 5000), target));
    assert_eq!(send(&mut h, 0, target, (OUTSIDE, 5000)), (0, (OUTSIDE, 80), client));
}

#[test]
fn without_a_range_the_later_flow_takes_over() {
    let mut h = harness(&["pattern 192.0.2.1 - - - 0 1", "drop"]);
    for client in [1, 2] {
        assert_eq!(send(&mut h, 0, (inside(client), 9), server(1)), (0, (OUTSIDE, 9), server(1)));
        assert_eq!(send(&mut h, 1, server(1), (OUTSIDE, 9)), (1, server(1), (inside(client), 9)));
        assert_eq!(h.read("table").lines().count(), 2, "nothing is left of the earlier");
    }
}

#[test]
fn addresses_may_come_from_a_range() {
    let mut h = harness(&["pattern 192.0.2.1-192.0.2.2# - 0 1", "drop"]);
    for (client, last) in [(1, 1), (2, 2)] {
        assert_eq!(send(&mut h, 0, (inside(client), 9), server(1)).1, ([192, 0, 2, last], 9));
    }
    assert_eq!(h.send_ip(0, &udp((inside(3), 9), server(1), b""))[0].reason(), "NoAddress");
}

#[test]
fn what_cannot_be_rewritten_is_dropped_or_passed() {
    let packet = udp((inside(1), 1), server(1), b"payload");
    let change = |at: usize, to: u8| {
        let mut p = packet.clone();
        p[at] = to;
        p
    };
    let cases = [
        (change(9, 1), "NotRewritable"),
        (change(7, 1), "Fragment"),
        (change(0, 0x4f), "Truncated"),
        (packet[..27].to_vec(), "Truncated"),
        (tcp((inside(1), 1), server(1), 2, 0, b"")[..39].to_vec(), "Truncated"),
    ];
    for (p, reason) in cases {
        assert_eq!(harness(&[SNAT, "drop"]).send_ip(0, &p)[0].reason(), reason);
        assert_eq!(harness(&["drop", "pass 1"]).send_ip(1, &p)[0].out(), (1, &p[..]));
    }
}

#[test]
fn every_prefix_of_a_packet_ends_somewhere() {
    for whole in [udp((inside(1), 1), server(1), b"payload"), tcp((inside(1), 1), server(1), 2, 0, b"abc")] {
        for n in 0..=whole.len() {
            assert_eq!(harness(&[SNAT, "drop"]).send_ip(0, &whole[..n]).len(), 1);
        }
    }
}

#[test]
fn the_destination_annotation_can_be_left_alone() {
    let mut h = harness(&["drop", "pattern - - 10.0.0.1 8080 0 1", "DST_ANNO false"]);
    let out = h.send_ip(1, &udp(server(1), (OUTSIDE, 80), b""));
    let Outcome::Out(0, p) = &out[0] else { panic!("{out:?}") };
    assert_eq!(p.anno[..4], OUTSIDE);
}

#[test]
fn tables_are_listed_as_click_lists_them() {
    let mut h = harness(&[SNAT, "drop"]);
    send(&mut h, 0, (inside(1), 5000), server(1));
    send_tcp(&mut h, 0, (inside(1), 6000), server(1), Tcp::SYN, b"");
    assert_eq!(
        h.read("udp_table"),
        "(10.0.0.1, 5000, 198.51.100.1, 80) => (192.0.2.1, 5000, 198.51.100.1, 80) [*0 1] i0 exp300\n\
         (198.51.100.1, 80, 192.0.2.1, 5000) => (198.51.100.1, 80, 10.0.0.1, 5000) [0 *1] i0 exp300\n"
    );
    assert_eq!(h.read("tcp_table").lines().count(), 2);
    assert_eq!(h.read("table").lines().count(), 4);
    assert_eq!(h.read("tcp_lookup 198.51.100.1 80 192.0.2.1 6000"), "198.51.100.1 80 10.0.0.1 6000");
    assert_eq!(h.read("tcp_lookup 198.51.100.1 80 192.0.2.1 5000"), "", "that flow is of UDP");
    assert!(h.read("timeouts").starts_with("tcp 86400\ntcp_done 240\n"));
}

#[test]
fn inputs_with_a_named_pattern_take_turns() {
    let args = ["pattern nat 0 1", "pattern nat 0 1"].map(str::to_owned);
    let named = ["nat 192.0.2.1 4000-4009# - -".to_owned()];
    let all = [weir_ir::Peer { name: "p", class: "IPRewriterPatterns", args: &named }];
    let mut e = class_named("IPRewriter").unwrap().configure(&args).unwrap();
    e.resolve(&Peers::new(&all, "e")).unwrap();
    let mut h = Harness::of(e, 2, 2);
    let mut ports = Vec::new();
    for (i, s) in [(0, 1), (1, 2), (0, 3)] {
        ports.push(send(&mut h, i, (inside(1), 1), server(s)).1.1);
    }
    assert_eq!(ports, [4000, 4001, 4002]);
    // Elements that share the pattern share its counter too: the declaration does not depend on the element.
    let mut other = class_named("IPRewriter").unwrap().configure(&["drop".into(), args[0].clone()]).unwrap();
    other.resolve(&Peers::new(&all, "other")).unwrap();
    let shared = |h: &Harness| {
        let mut decls = h.program.tables.iter().map(|t| t.decl.clone());
        decls.find(|d| d.shared_name.as_deref() == Some("pattern nat")).unwrap()
    };
    assert_eq!(shared(&h), shared(&Harness::of(other, 2, 2)));

    let mut e = class_named("IPRewriter").unwrap().configure(&args).unwrap();
    let errors = e.resolve(&Peers::new(&[], "e")).unwrap_err();
    assert!(errors[1].contains("input spec 1: no such pattern 'nat'"), "{errors:?}");
}

#[test]
fn bad_arguments_are_explained() {
    let errors = |args: &[&str]| {
        let args: Vec<String> = args.iter().map(|a| (*a).to_owned()).collect();
        class_named("IPRewriter").unwrap().configure(&args).err().unwrap().join("\n")
    };
    assert!(errors(&[]).contains("at least one input specification"));
    let e = errors(&["drop", "pattern 1.2.3 - - - 0 1"]);
    assert!(e.contains("input spec 1: bad source address"), "{e}");
    let e = errors(&["drop", "TCP_TIMEOUT soon"]);
    assert!(e.contains("TCP_TIMEOUT: 'soon' is not a time"), "{e}");
    let e = class_named("IPRewriter").unwrap().configure(&["pattern - - - - 0 3".into(), "drop".into()]);
    assert_eq!(e.unwrap().ports(), "2/4-");
}

#[test]
fn a_partial_checksum_stays_the_sum_of_the_pseudo_header() {
    for whole in [udp((inside(1), 1), server(1), b"abc"), tcp((inside(1), 1), server(1), 2, 0, b"abc")] {
        let field = if whole[9] == proto::UDP { 26 } else { 36 };
        let partial = |p: &[u8]| {
            let addr = |at: usize| Ipv4Addr::new(p[at], p[at + 1], p[at + 2], p[at + 3]);
            pseudo4(addr(12), addr(16), p[9], (p.len() - 20) as u16).fold().to_be_bytes()
        };
        let mut bytes = whole.clone();
        let sum = partial(&bytes);
        bytes[field..field + 2].copy_from_slice(&sum);
        let mut p = ip_packet(&bytes);
        p.csum = Checksum::Partial as u8;
        let out = harness(&["pattern 192.0.2.1 1024-65535 203.0.113.7 99 0 1", "drop"]).send_packet(0, p);
        let Outcome::Out(0, p) = &out[0] else { panic!("{out:?}") };
        let bytes = p.bytes();
        assert_eq!(bytes[12..20], [192, 0, 2, 1, 203, 0, 113, 7]);
        assert_eq!(bytes[field..field + 2], partial(bytes));
        assert_eq!(checksum(&bytes[..20]), 0);
        assert_eq!(p.csum, Checksum::Partial as u8);
    }
}

#[test]
fn a_million_mappings_fit() {
    let n = 1_000_000;
    let mut h = harness(&[SNAT, "drop", &format!("MAPPING_CAPACITY {n}")]);
    let flow = |i: u32| {
        let [_, a, b, c] = (i / 50).to_be_bytes();
        (([10, a, b, c], 2000 + (i % 50) as u16), server((i % 250) as u8))
    };
    for i in 0..n {
        let (src, dst) = flow(i);
        h.send_ip(0, &udp(src, dst, b""))[0].out();
    }
    assert_eq!((h.read("size"), h.read("mapping_failures")), (n.to_string(), "0".to_owned()));
    assert_eq!(h.send_ip(0, &udp(([11, 0, 0, 1], 1), server(1), b""))[0].reason(), "Full");
    for i in (0..n).step_by(997) {
        let (src, dst) = flow(i);
        let (_, outside, _) = send(&mut h, 0, src, dst);
        assert_eq!(send(&mut h, 1, dst, outside), (1, dst, src));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any packet has, after it was rewritten, the checksums that a full computation gives; and its reply is
    /// restored to what was sent.
    #[test]
    fn checksums_are_right_and_replies_are_restored(
        src: (u32, u16), dst: (u32, u16), new_src in 1..u32::MAX, new_dst in 1..u32::MAX, dport in 1..u16::MAX,
        payload in proptest::collection::vec(any::<u8>(), 0..70), is_tcp: bool, no_sum: bool, flags: u8,
    ) {
        let (src, dst) = ((src.0.to_be_bytes(), src.1), (dst.0.to_be_bytes(), dst.1));
        let packet = |src, dst| {
            if is_tcp {
                return tcp(src, dst, flags, 7, &payload);
            }
            let mut p = udp(src, dst, &payload);
            if no_sum {
                p[26..28].copy_from_slice(&[0, 0]);
            }
            p
        };
        let addr = Ipv4Addr::from_bits;
        let spec = format!("pattern {} 1-65535 {} {dport} 0 1", addr(new_src), addr(new_dst));
        let mut h = harness(&[&spec, "drop"]);
        let out = h.send_ip(0, &packet(src, dst));
        let bytes = out[0].out().1;
        let (to_src, to_dst) = ends(bytes);
        prop_assert_eq!((to_src.0, to_dst), (new_src.to_be_bytes(), (new_dst.to_be_bytes(), dport)));
        // Byte for byte what a sender with these addresses would have made, checksums included.
        prop_assert_eq!(bytes, &packet(to_src, to_dst)[..]);
        let out = h.send_ip(1, &packet(to_dst, to_src));
        prop_assert_eq!(out[0].out(), (1, &packet(dst, src)[..]));
    }
}
