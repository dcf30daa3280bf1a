//! Ports that are forwarded.

use super::*;

const FORWARD: &str = "FORWARD \"tcp 8080 10.0.0.7 80, udp 53 10.0.0.8\"";
const WEB: End = ([10, 0, 0, 7], 80);
const DNS: End = ([10, 0, 0, 8], 53);

#[test]
fn forwarded_ports_work_from_outside_and_inside_and_stay() {
    for filtering in ["endpoint-independent", "address-and-port-dependent"] {
        let mut h = harness(&[SNAT, "drop", FORWARD, &format!("FILTERING {filtering}")]);
        for _ in 0..2 {
            let asked = tcp(server(1), (OUTSIDE, 8080), Tcp::SYN, 1, b"");
            assert_eq!(h.send_ip(1, &asked)[0].out(), (1, &tcp(server(1), WEB, Tcp::SYN, 1, b"")[..]));
            let answer = tcp(WEB, server(1), Tcp::SYN | Tcp::ACK, 1, b"");
            let answered = tcp((OUTSIDE, 8080), server(1), Tcp::SYN | Tcp::ACK, 1, b"");
            assert_eq!(h.send_ip(0, &answer)[0].out(), (0, &answered[..]));
            assert_eq!(send(&mut h, 1, server(2), (OUTSIDE, 53)), (1, server(2), DNS));
            // An inside host asks, and is answered, by its own outer endpoint.
            assert_eq!(
                send(&mut h, 0, (inside(1), 5000), (OUTSIDE, 53)),
                (0, (OUTSIDE, 5000), (OUTSIDE, 53))
            );
            assert_eq!(send(&mut h, 1, (OUTSIDE, 5000), (OUTSIDE, 53)), (1, (OUTSIDE, 5000), DNS));
            assert_eq!(send(&mut h, 0, DNS, (OUTSIDE, 5000)), (0, (OUTSIDE, 53), (OUTSIDE, 5000)));
            h.now += 100_000 * SECOND;
            h.expire();
            h.write("clear", "").unwrap();
        }
        assert_eq!(reason(&mut h, 1, &udp(server(1), (OUTSIDE, 8080), b"")), "NoMatch", "of TCP alone");
        assert_eq!(
            h.read("table"),
            "tcp (10.0.0.7, 80) => (192.0.2.1, 8080) forwarded\nudp (10.0.0.8, 53) => (192.0.2.1, 53) forwarded\n"
        );
    }
}

#[test]
fn no_mapping_gets_a_forwarded_port() {
    let forward = "FORWARD \"udp 2000 10.0.0.7, udp 2001 10.0.0.8, udp 2003 10.0.0.7 1\"";
    for order in ["", "#", "?"] {
        let mut h = harness(&[&format!("pattern 192.0.2.1 2000-2004{order} - - 0 1"), "drop", forward]);
        let mut ports: Vec<u16> = (1..3).map(|n| send(&mut h, 0, (inside(n), 2000), server(1)).1.1).collect();
        ports.sort_unstable();
        assert_eq!(ports, [2002, 2004], "{order}");
        assert_eq!(reason(&mut h, 0, &udp((inside(3), 2000), server(1), b"")), "NoPort");
        // That they are used up for one protocol says nothing about another.
        h.send_ip(0, &tcp((inside(3), 2000), server(1), Tcp::SYN, 1, b""))[0].out();
    }
    // A pattern without a choice.
    for pattern in ["pattern 192.0.2.1 - - - 0 1", "pattern 192.0.2.1 2000 - - 0 1"] {
        let mut h = harness(&[pattern, "drop", forward]);
        assert_eq!(reason(&mut h, 0, &udp((inside(3), 2000), server(1), b"")), "NoPort");
        assert_eq!(send(&mut h, 1, server(1), (OUTSIDE, 2000)).2, (WEB.0, 2000));
    }
}

#[test]
fn fragments_of_forwarded_packets_pass() {
    let mut h = harness(&[SNAT, "drop", FORWARD]);
    let asked = udp(server(1), (OUTSIDE, 53), &[9; 40]);
    let want = udp(server(1), DNS, &[9; 40]);
    assert_eq!(h.send_ip(1, &fragment(&asked, 2, 32, false)).len(), 0);
    let out = h.send_ip(1, &fragment(&asked, 0, 16, true));
    let mut left: Vec<&[u8]> = out.iter().map(|o| o.out().1).collect();
    left.sort_unstable();
    let mut parts = [fragment(&want, 0, 16, true), fragment(&want, 2, 32, false)];
    parts.sort_unstable();
    assert_eq!(left, parts.iter().map(Vec::as_slice).collect::<Vec<_>>());
}

#[test]
fn the_address_is_that_of_the_first_pattern_with_one_and_stays() {
    let mut h = Harness::new("IPEndpointRewriter", &["keep 0 0", SNAT, "drop", FORWARD], 3, 2);
    assert_eq!(send(&mut h, 2, server(1), (OUTSIDE, 53)).2, DNS);
    let e = h.write("pattern1", "192.0.2.9 1024-65535 - - 0 1").unwrap_err();
    assert!(e.contains("ports of the pattern's address are forwarded"), "{e}");
}

#[test]
fn bad_entries_are_told_with_their_number() {
    let class = crate::class_named("IPEndpointRewriter").unwrap();
    let errors = |forward: &str| {
        let args = [SNAT.to_owned(), "drop".to_owned(), format!("FORWARD {forward}")];
        class.configure(&args).err().unwrap_or_default().join("\n")
    };
    assert_eq!(errors("\"\""), "");
    assert_eq!(errors("\"tcp 1 10.0.0.1 2,\""), "");
    for (forward, error) in [
        (
            "\"tcp 80 10.0.0.1, sctp 1 10.0.0.2\"",
            "FORWARD: entry 2, 'sctp 1 10.0.0.2': 'sctp' is not tcp or udp; write",
        ),
        (
            "\"tcp 65536 10.0.0.1\"",
            "entry 1, 'tcp 65536 10.0.0.1': '65536' is not a port from 1 to 65535; write",
        ),
        ("\"tcp 80 10.0.0.1 http\"", "'http' is not a port from 1 to 65535"),
        ("\"tcp 80 10.0.0\"", "'10.0.0' is not an IP address"),
        ("\"tcp 80\"", "entry 1, 'tcp 80': write PROTOCOL PORT ADDRESS [PORT], such as tcp 8080 10.0.0.5 80"),
        ("\", tcp 80 10.0.0.1\"", "entry 1, '': write"),
        (
            "\"tcp 80 10.0.0.1, tcp 80 10.0.0.2\"",
            "entry 2, 'tcp 80 10.0.0.2': entry 1 forwards that port already",
        ),
        (
            "\"udp 90 192.0.2.1 91\"",
            "FORWARD: entry 1: 192.0.2.1 is the outer address itself; write that of an inside host",
        ),
        ("\"udp 90 0.0.0.0\"", "entry 1, 'udp 90 0.0.0.0': 0.0.0.0 is no host's address"),
        ("\"udp 90 224.0.0.1\"", "224.0.0.1 is no host's address"),
        (
            "\"tcp 80 10.0.0.1, tcp 81 10.0.0.1 80\"",
            "entry 1 forwards port 80 to the same address and port, whose answers can come from one port only",
        ),
    ] {
        let found = errors(forward);
        assert!(found.contains(error), "{forward}: {found}");
    }
    let args = ["pattern 10.0.0.1-10.0.0.9 - 0 1".to_owned(), FORWARD.to_owned()];
    let e = class.configure(&args).err().unwrap().join("\n");
    assert!(e.contains("FORWARD: no input gives its packets one source address"), "{e}");
}

#[test]
fn errors_about_forwarded_packets_are_translated() {
    let args = [SNAT, "drop", FORWARD];
    let mut h = Harness::graph(
        &[("ie", "ICMPRewriter", &["rw"], 1, 2), ("rw", "IPEndpointRewriter", &args, 2, 2)],
        &[],
    );
    let error = |src: [u8; 4], dst: [u8; 4], about: &[u8]| {
        let mut p = udp((src, 0x0300), (dst, 0), &[]);
        p[9] = 1;
        p[20..28].copy_from_slice(&[3, 3, 0, 0, 0, 0, 0, 0]);
        p.extend(about);
        let len = (p.len() as u16).to_be_bytes();
        p[2..4].copy_from_slice(&len);
        for (at, from, to) in [(22, 20, p.len()), (10, 0, 20)] {
            p[at..at + 2].copy_from_slice(&[0, 0]);
            let sum = checksum(&p[from..to]);
            p[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        }
        p
    };
    // The server refuses what was forwarded, and an outside router an answer of the server.
    let (inner, outer) = (udp(server(1), DNS, b"abc"), udp(server(1), (OUTSIDE, 53), b"abc"));
    let out = h.send_ip(0, &error(DNS.0, server(1).0, &inner));
    assert_eq!(out[0].out(), (0, &error(DNS.0, server(1).0, &outer)[..]));
    let (inner, outer) = (udp(DNS, server(1), b"abc"), udp((OUTSIDE, 53), server(1), b"abc"));
    let out = h.send_ip(0, &error(server(2).0, OUTSIDE, &outer));
    assert_eq!(out[0].out(), (0, &error(server(2).0, DNS.0, &inner)[..]));
}
