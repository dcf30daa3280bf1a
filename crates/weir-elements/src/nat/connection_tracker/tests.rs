use super::*;
use crate::testing::{Harness, Outcome, tcp, udp};
use weir_net::build;

const SECOND: u64 = 1_000_000_000;
const HOST: ([u8; 4], u16) = ([10, 0, 0, 1], 1000);
const SERVER: ([u8; 4], u16) = ([192, 0, 2, 1], 80);
const INSIDE: u32 = 0;
const OUTSIDE: u32 = 1;

/// The tracker with rules that allow what the inside begins.
fn harness(args: &[&str]) -> Harness {
    Harness::new("ConnectionTracker", args, 4, 4)
}

/// Sends a packet, and again what would begin a connection; gives the last output, or the reason.
fn send(h: &mut Harness, side: u32, packet: &[u8]) -> Result<u32, String> {
    let ended = |out: Vec<Outcome>| match out.into_iter().next() {
        Some(Outcome::Out(port, p)) => {
            assert_eq!(p.bytes(), packet, "packets are not changed");
            Ok(port)
        }
        Some(Outcome::Drop(reason)) => Err(reason),
        None => Err("waits".into()),
    };
    match ended(h.send_ip(side, packet)) {
        Ok(2) => ended(h.send_ip(2, packet)),
        other => other,
    }
}

fn echo(kind: u8, from: [u8; 4], to: [u8; 4]) -> Vec<u8> {
    build::ipv4(from.into(), to.into(), proto::ICMP, &[kind, 0, 0, 0, 0, 7, 0, 1])
}

fn error(from: [u8; 4], to: [u8; 4], about: &[u8]) -> Vec<u8> {
    let body = [&[3, 3, 0, 0, 0, 0, 0, 0], &about[..about.len().min(28)]].concat();
    build::ipv4(from.into(), to.into(), proto::ICMP, &body)
}

fn none() -> Result<u32, String> {
    Err("NoConnection".into())
}

#[test]
fn replies_pass_and_nothing_else_of_the_outside_without_rules() {
    let mut h = harness(&[]);
    let syn = tcp(HOST, SERVER, Tcp::SYN, 1, b"");
    let answer = tcp(SERVER, HOST, Tcp::SYN | Tcp::ACK, 1, b"");
    assert_eq!(send(&mut h, OUTSIDE, &answer), none());
    assert_eq!(send(&mut h, INSIDE, &syn), Ok(0));
    assert_eq!(send(&mut h, OUTSIDE, &answer), Ok(1));
    assert_eq!(h.read("table"), "tcp 10.0.0.1:1000 -> 192.0.2.1:80 inside answered 7440\n");
    assert_eq!(send(&mut h, OUTSIDE, &tcp(SERVER, HOST, Tcp::SYN, 1, b"")), Ok(1), "of the connection");
    assert_eq!(
        send(&mut h, OUTSIDE, &tcp(([192, 0, 2, 2], 80), HOST, Tcp::SYN, 1, b"")),
        Ok(3),
        "for the rules"
    );
    assert_eq!(send(&mut h, OUTSIDE, &tcp(([192, 0, 2, 2], 80), HOST, Tcp::ACK, 1, b"")), none());

    let (ask, answer) = (udp(HOST, SERVER, b"?"), udp(SERVER, HOST, b"!"));
    assert_eq!(send(&mut h, OUTSIDE, &answer), Ok(3));
    assert_eq!((send(&mut h, INSIDE, &ask), send(&mut h, OUTSIDE, &answer)), (Ok(0), Ok(1)));

    assert_eq!(send(&mut h, OUTSIDE, &echo(0, SERVER.0, HOST.0)), none());
    assert_eq!(send(&mut h, INSIDE, &echo(8, HOST.0, SERVER.0)), Ok(0));
    assert_eq!(send(&mut h, OUTSIDE, &echo(0, SERVER.0, HOST.0)), Ok(1));
    assert_eq!(
        send(&mut h, OUTSIDE, &echo(8, SERVER.0, HOST.0)),
        Ok(3),
        "a request of the other side is new"
    );

    let gre = build::ipv4(HOST.0.into(), SERVER.0.into(), 47, b"");
    assert_eq!(send(&mut h, INSIDE, &gre), Ok(0));
    assert_eq!(send(&mut h, OUTSIDE, &build::ipv4(SERVER.0.into(), HOST.0.into(), 47, b"")), Ok(1));
    assert_eq!(h.read("connections"), "4");
}

#[test]
fn packets_from_the_wrong_side_do_not_belong() {
    let mut h = harness(&[]);
    let packet = udp(HOST, SERVER, b"?");
    assert_eq!(send(&mut h, INSIDE, &packet), Ok(0));
    assert_eq!(send(&mut h, OUTSIDE, &packet), none(), "a forged sender");
    assert_eq!(send(&mut h, INSIDE, &udp(SERVER, HOST, b"!")), none());
}

#[test]
fn errors_about_known_packets_pass() {
    let mut h = harness(&[]);
    let packets = [udp(HOST, SERVER, b"?"), tcp(HOST, SERVER, Tcp::SYN, 1, b""), echo(8, HOST.0, SERVER.0)];
    for packet in packets {
        let e = error([203, 0, 113, 1], HOST.0, &packet);
        assert_eq!(send(&mut h, OUTSIDE, &e), none());
        assert_eq!(send(&mut h, INSIDE, &packet), Ok(0));
        assert_eq!(send(&mut h, OUTSIDE, &e), Ok(1));
        assert_eq!(send(&mut h, INSIDE, &e), none(), "from where it was sent");
        assert_eq!(
            send(&mut h, OUTSIDE, &error(SERVER.0, [10, 0, 0, 9], &packet)),
            none(),
            "to another host"
        );
    }
    let reply = udp(SERVER, HOST, b"!");
    assert_eq!(send(&mut h, OUTSIDE, &reply), Ok(1));
    assert_eq!(send(&mut h, INSIDE, &error(HOST.0, SERVER.0, &reply)), Ok(0), "the host has closed its port");
    let redirect = {
        let mut e = error(SERVER.0, HOST.0, &udp(HOST, SERVER, b"?"));
        e[20] = 5;
        e
    };
    assert_eq!(send(&mut h, OUTSIDE, &redirect), none());
}

#[test]
fn flags_that_make_no_sense_and_cut_packets_end() {
    let mut h = harness(&[]);
    for flags in [0, Tcp::SYN | Tcp::FIN, Tcp::SYN | Tcp::RST, Tcp::PSH] {
        assert_eq!(send(&mut h, INSIDE, &tcp(HOST, SERVER, flags, 1, b"")), Err("BadFlags".into()));
    }
    let syn = tcp(HOST, SERVER, Tcp::SYN, 1, b"");
    for n in 0..syn.len() {
        assert_eq!(h.send_ip(0, &syn[..n])[0].reason(), "Truncated", "{n} bytes");
    }
    assert_eq!(h.read("connections"), "0");
}

#[test]
fn fragments_go_the_way_of_the_first() {
    let mut h = harness(&[]);
    let whole = udp(HOST, SERVER, &[1; 40]);
    let part = |from: usize, to: usize, more: bool| {
        let mut p = build::ipv4(HOST.0.into(), SERVER.0.into(), proto::UDP, &whole[20 + from..20 + to]);
        let field = (from / 8) as u16 | if more { 0x2000 } else { 0 };
        p[6..8].copy_from_slice(&field.to_be_bytes());
        p
    };
    let (first, second, third) = (part(0, 16, true), part(16, 32, true), part(32, 48, false));
    assert_eq!(send(&mut h, INSIDE, &second), Err("waits".into()));
    assert_eq!(h.send_ip(0, &first)[0].out().0, 2, "rules decide about the first");
    let out = h.send_ip(2, &first);
    let mut sent: Vec<_> = out.iter().map(Outcome::out).collect();
    sent.sort();
    assert_eq!(sent, [(0, &first[..]), (0, &second[..])]);
    assert_eq!(send(&mut h, INSIDE, &third), Ok(0));
    // Of what rules deny, no fragment passes.
    let mut h = harness(&[]);
    h.send_ip(0, &first);
    assert_eq!(send(&mut h, INSIDE, &third), Err("waits".into()));
    h.now += 11 * SECOND;
    assert_eq!(h.expire()[0].reason(), "TimedOut");
}

#[test]
fn connections_end_and_expire() {
    let mut h = harness(&["TCP_DONE_TIMEOUT 5", "TCP_NEW_TIMEOUT 20", "TCP_TIMEOUT 100"]);
    let left = |h: &mut Harness, seconds: u64| {
        h.now += seconds * SECOND;
        h.expire();
        h.read("connections")
    };
    let forth = |flags| tcp(HOST, SERVER, flags, 1, b"");
    let back = |flags| tcp(SERVER, HOST, flags, 1, b"");
    send(&mut h, INSIDE, &forth(Tcp::SYN)).unwrap();
    assert_eq!(left(&mut h, 21), "0", "nobody answered");
    send(&mut h, INSIDE, &forth(Tcp::SYN)).unwrap();
    send(&mut h, OUTSIDE, &back(Tcp::SYN | Tcp::ACK)).unwrap();
    assert_eq!(left(&mut h, 90), "1");
    send(&mut h, INSIDE, &forth(Tcp::FIN | Tcp::ACK)).unwrap();
    assert_eq!(left(&mut h, 90), "1", "one side may go on sending");
    send(&mut h, OUTSIDE, &back(Tcp::FIN | Tcp::ACK)).unwrap();
    assert!(h.read("table").contains("over"), "{}", h.read("table"));
    assert_eq!(h.send_ip(0, &forth(Tcp::SYN))[0].out().0, 2, "the ports are used again: rules decide anew");
    assert_eq!(left(&mut h, 0), "0");
    send(&mut h, INSIDE, &forth(Tcp::SYN)).unwrap();
    send(&mut h, OUTSIDE, &back(Tcp::RST)).unwrap();
    assert_eq!(left(&mut h, 6), "0");
}

#[test]
fn a_full_table_evicts_for_new_connections_only_new_ones() {
    let mut h = harness(&["CAPACITY 2"]);
    let from = |port| tcp((HOST.0, port), SERVER, Tcp::SYN, 1, b"");
    let to = |port| tcp(SERVER, (HOST.0, port), Tcp::SYN | Tcp::ACK, 1, b"");
    for port in [1, 2] {
        send(&mut h, INSIDE, &from(port)).unwrap();
    }
    send(&mut h, OUTSIDE, &to(1)).unwrap();
    assert_eq!(send(&mut h, INSIDE, &from(3)), Ok(0));
    assert_eq!(send(&mut h, OUTSIDE, &to(2)), none(), "it was evicted");
    send(&mut h, OUTSIDE, &to(3)).unwrap();
    assert_eq!(send(&mut h, INSIDE, &from(4)), Err("Full".into()));
}
