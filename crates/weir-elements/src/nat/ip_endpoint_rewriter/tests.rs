use weir_net::Tcp;
use weir_net::checksum::checksum;

use crate::testing::{Harness, Outcome, ip_packet, tcp, udp};

const SECOND: u64 = 1_000_000_000;
const OUTSIDE: [u8; 4] = [192, 0, 2, 1];
const SNAT: &str = "pattern 192.0.2.1 1024-65535 - - 0 1";

type End = ([u8; 4], u16);

fn inside(n: u8) -> [u8; 4] {
    [10, 0, 0, n]
}

fn server(n: u8) -> End {
    ([198, 51, 100, n], 80)
}

fn harness(args: &[&str]) -> Harness {
    Harness::new("IPEndpointRewriter", args, 2, 2)
}

/// Sends a UDP packet; gives output and ends of what left, which has right checksums.
fn send(h: &mut Harness, port: u32, src: End, dst: End) -> (u32, End, End) {
    let out = h.send_ip(port, &udp(src, dst, b"payload"));
    let (port, p) = out[0].out();
    let end = |addr: usize, port: usize| {
        ([p[addr], p[addr + 1], p[addr + 2], p[addr + 3]], u16::from_be_bytes([p[port], p[port + 1]]))
    };
    let (src, dst) = (end(12, 20), end(16, 22));
    assert_eq!(p, udp(src, dst, b"payload"));
    (port, src, dst)
}

fn reason(h: &mut Harness, port: u32, packet: &[u8]) -> String {
    h.send_ip(port, packet)[0].reason().to_owned()
}

#[test]
fn an_endpoint_has_one_outer_endpoint_for_all_destinations() {
    let mut h = harness(&[SNAT, "drop"]);
    let one = (inside(1), 5000);
    for n in 1..4 {
        assert_eq!(send(&mut h, 0, one, server(n)), (0, (OUTSIDE, 5000), server(n)));
    }
    assert_eq!(h.read("size"), "1");
    let (_, two, _) = send(&mut h, 0, (inside(2), 5000), server(1));
    assert!(
        two.1 != 5000 && two.1 >= 1024,
        "the port is taken, also where its destination is another: {two:?}"
    );
    assert_eq!(send(&mut h, 1, server(9), (OUTSIDE, 5000)), (1, server(9), one), "from whomever");
    assert_eq!(send(&mut h, 1, server(9), two), (1, server(9), (inside(2), 5000)));
    assert_eq!(reason(&mut h, 1, &udp(server(1), (OUTSIDE, 4999), b"")), "NoMatch");
    let (_, tcp_out) = (0, h.send_ip(0, &tcp(one, server(1), Tcp::SYN, 1, b""))[0].out().1.to_vec());
    assert_eq!(
        tcp_out,
        tcp((OUTSIDE, 5000), server(1), Tcp::SYN, 1, b""),
        "protocols have ports of their own"
    );
}

#[test]
fn ports_that_are_used_up_are_told_from_a_full_table() {
    let mut h = harness(&["pattern 192.0.2.1 2000-2001 - - 0 1", "drop"]);
    for n in 1..3 {
        send(&mut h, 0, (inside(n), 1), server(n));
    }
    assert_eq!(reason(&mut h, 0, &udp((inside(3), 1), server(3), b"")), "NoPort");
    h.now += 301 * SECOND;
    h.expire();
    send(&mut h, 0, (inside(3), 1), server(3));
    h.write("capacity", "1").unwrap();
    send(&mut h, 0, (inside(4), 1), server(3));
    assert_eq!(h.read("size"), "1", "the one that goes next has made space");
}

#[test]
fn a_hairpin_comes_from_the_outer_endpoint() {
    let mut h = harness(&[SNAT, "drop"]);
    send(&mut h, 0, (inside(1), 5000), server(1));
    let (out, src, dst) = send(&mut h, 0, (inside(2), 6000), (OUTSIDE, 5000));
    assert_eq!((out, src), (0, (OUTSIDE, 6000)));
    // It comes in again, as it is for the outer address.
    assert_eq!(send(&mut h, 1, src, dst), (1, (OUTSIDE, 6000), (inside(1), 5000)));
}

#[test]
fn a_connection_that_ended_goes_soon_and_one_in_use_stays() {
    let one = (inside(1), 5000);
    let start = || {
        let mut h = harness(&[SNAT, "drop"]);
        h.send_ip(0, &tcp(one, server(1), Tcp::SYN, 1, b""))[0].out();
        h
    };
    let after = |h: &mut Harness, seconds: u64| {
        h.now += seconds * SECOND;
        h.expire();
        h.read("size") == "1"
    };
    let mut h = start();
    assert!(after(&mut h, 239));
    assert!(!after(&mut h, 2), "it was never open");
    let mut h = start();
    h.send_ip(1, &tcp(server(1), (OUTSIDE, 5000), Tcp::SYN | Tcp::ACK, 1, b""))[0].out();
    h.send_ip(0, &tcp(one, server(1), Tcp::ACK, 2, b""))[0].out();
    assert!(after(&mut h, 7439), "124 minutes");
    h.send_ip(0, &tcp(one, server(1), Tcp::FIN | Tcp::ACK, 2, b""))[0].out();
    h.send_ip(1, &tcp(server(1), (OUTSIDE, 5000), Tcp::FIN | Tcp::ACK, 2, b""))[0].out();
    h.send_ip(0, &tcp(one, server(1), Tcp::ACK, 3, b""))[0].out();
    assert!(after(&mut h, 239));
    assert!(!after(&mut h, 2), "both sides have ended it");
}

/// An echo request (8) or reply (0).
fn ping(kind: u8, src: [u8; 4], dst: [u8; 4], id: u16) -> Vec<u8> {
    let [high, low] = id.to_be_bytes();
    let mut p = vec![0x45, 0, 0, 33, 0, 0, 0, 0, 64, 1, 0, 0];
    p.extend([src, dst].concat());
    p.extend([kind, 0, 0, 0, high, low, 0, 7, 1, 2, 3, 4, 5]);
    let sum = checksum(&p[20..]);
    p[22..24].copy_from_slice(&sum.to_be_bytes());
    let sum = checksum(&p[..20]);
    p[10..12].copy_from_slice(&sum.to_be_bytes());
    p
}

#[test]
fn pings_have_their_identifier_translated() {
    let mut h = harness(&[SNAT, "drop"]);
    let to = server(1).0;
    assert_eq!(h.send_ip(0, &ping(8, inside(1), to, 2000))[0].out(), (0, &ping(8, OUTSIDE, to, 2000)[..]));
    let second = h.send_ip(0, &ping(8, inside(2), to, 2000))[0].out().1.to_vec();
    let id = u16::from_be_bytes([second[24], second[25]]);
    assert!(id != 2000 && second == ping(8, OUTSIDE, to, id));
    assert_eq!(h.send_ip(1, &ping(0, to, OUTSIDE, 2000))[0].out(), (1, &ping(0, to, inside(1), 2000)[..]));
    assert_eq!(h.send_ip(1, &ping(0, to, OUTSIDE, id))[0].out(), (1, &ping(0, to, inside(2), 2000)[..]));
    assert_eq!(
        reason(&mut h, 1, &ping(8, to, OUTSIDE, 2000)),
        "NoMatch",
        "a request is not for an inside host"
    );
    assert_eq!(reason(&mut h, 1, &ping(13, to, OUTSIDE, 2000)), "NotRewritable");
    h.now += 61 * SECOND;
    h.expire();
    assert_eq!(h.read("size"), "0");
}

/// A fragment of a UDP packet: its bytes from `at` on, in units of 8; more follow or not.
fn fragment(packet: &[u8], at: usize, len: usize, more: bool) -> Vec<u8> {
    let mut p = packet[..20].to_vec();
    p.extend(&packet[20 + at * 8..20 + at * 8 + len]);
    let total = (p.len() as u16).to_be_bytes();
    p[2..4].copy_from_slice(&total);
    p[4..6].copy_from_slice(&[7, 7]);
    let field = (at as u16 | if more { 0x2000 } else { 0 }).to_be_bytes();
    p[6..8].copy_from_slice(&field);
    p[10..12].copy_from_slice(&[0, 0]);
    let sum = checksum(&p[..20]);
    p[10..12].copy_from_slice(&sum.to_be_bytes());
    p
}

#[test]
fn fragments_follow_the_first_in_whatever_order_they_come() {
    let (one, out) = ((inside(1), 5000), (OUTSIDE, 5000));
    let (sent, want) = (udp(one, server(1), &[9; 40]), udp(out, server(1), &[9; 40]));
    let parts = [(0, 16, true), (2, 16, true), (4, 16, false)];
    let cut = |p: &[u8]| parts.map(|(at, len, more)| fragment(p, at, len, more));
    let (sent, want) = (cut(&sent), cut(&want));
    for order in [[0, 1, 2], [1, 2, 0], [2, 0, 1]] {
        let mut h = harness(&[SNAT, "drop"]);
        let mut left: Vec<Vec<u8>> = Vec::new();
        for i in order {
            let ends = h.send_ip(0, &sent[i]);
            left.extend(ends.iter().map(|end| end.out().1.to_vec()));
        }
        left.sort();
        let mut want = want.to_vec();
        want.sort();
        assert_eq!(left, want, "{order:?}");
        assert_eq!(h.held(), 0);
    }
}

#[test]
fn fragments_without_a_first_one_are_dropped_in_time() {
    let mut h = harness(&[SNAT, "drop"]);
    let packet = udp((inside(1), 5000), server(1), &[9; 400]);
    let last = fragment(&packet, 2, 16, true);
    for _ in 0..16 {
        assert!(h.send_ip(0, &last).is_empty());
    }
    assert_eq!(reason(&mut h, 0, &last), "Full", "so many wait");
    h.now += 11 * SECOND;
    h.expire();
    assert_eq!(h.held(), 0);
    // As of 4,096 packets the oldest goes, whoever sent them.
    for i in 0..5000_u16 {
        let mut p = last.clone();
        p[4..6].copy_from_slice(&i.to_be_bytes());
        h.send_ip(0, &p);
    }
    assert!(h.held() <= 4096);
}

#[test]
fn what_the_kernel_left_unfinished_stays_so() {
    let mut h = harness(&[SNAT, "drop"]);
    let mut p = ip_packet(&udp((inside(1), 5000), server(1), b"x"));
    p.csum = weir_packet::Checksum::Partial as u8;
    let out = h.send_packet(0, p);
    let Outcome::Out(0, p) = &out[0] else { panic!("{out:?}") };
    assert_eq!(p.csum, weir_packet::Checksum::Partial as u8);
}

#[test]
fn bad_arguments_are_explained() {
    let class = crate::class_named("IPEndpointRewriter").unwrap();
    let e = class.configure(&["pattern 1.0.0.1 - 2.0.0.2 80 0 1".to_owned()]).err().unwrap().join("; ");
    assert!(e.contains("destination address and port must be '-' here"), "{e}");
}

mod filtering;
mod forward;
mod lifetimes;
