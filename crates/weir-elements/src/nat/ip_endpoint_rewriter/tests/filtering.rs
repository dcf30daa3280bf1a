//! Who may send to a mapping.

use super::*;

const BY_ADDRESS: &str = "FILTERING address-dependent";
const BY_PORT: &str = "FILTERING address-and-port-dependent";

fn from(h: &mut Harness, src: End, port: u16) -> Result<End, String> {
    match &h.send_ip(1, &udp(src, (OUTSIDE, port), b"x"))[0] {
        Outcome::Out(1, p) => {
            let p = p.bytes();
            Ok(([p[16], p[17], p[18], p[19]], u16::from_be_bytes([p[22], p[23]])))
        }
        other => Err(other.reason().to_owned()),
    }
}

#[test]
fn only_those_may_answer_who_were_sent_to() {
    let one = (inside(1), 5000);
    let other_port = (server(1).0, 81);
    for (args, same, port, address) in [
        (&[SNAT, "drop"][..], true, true, true),
        (&[SNAT, "drop", "FILTERING endpoint-independent"], true, true, true),
        (&[SNAT, "drop", BY_ADDRESS], true, true, false),
        (&[SNAT, "drop", BY_PORT], true, false, false),
    ] {
        let mut h = harness(args);
        send(&mut h, 0, one, server(1));
        for (src, passes) in [(server(1), same), (other_port, port), (server(2), address)] {
            let want = if passes { Ok(one) } else { Err("Filtered".to_owned()) };
            assert_eq!(from(&mut h, src, 5000), want, "{args:?} {src:?}");
        }
        assert_eq!(from(&mut h, server(1), 4999), Err("NoMatch".to_owned()));
        // The mapping is the same for all, and each that is sent to may answer.
        assert_eq!(send(&mut h, 0, one, server(2)).1, (OUTSIDE, 5000));
        assert_eq!(from(&mut h, server(2), 5000), Ok(one));
        assert_eq!(h.read("size"), "1");
    }
}

#[test]
fn who_was_sent_to_may_answer_as_long_as_packets_go_there() {
    let one = (inside(1), 5000);
    let mut h = harness(&[SNAT, "drop", BY_PORT, "UDP_TIMEOUT 100"]);
    send(&mut h, 0, one, server(1));
    send(&mut h, 0, one, server(2));
    assert_eq!(
        h.read("peers"),
        "udp 10.0.0.1:5000 <- 198.51.100.1:80 100\nudp 10.0.0.1:5000 <- 198.51.100.2:80 100\n"
    );
    for _ in 0..2 {
        h.now += 60 * SECOND;
        send(&mut h, 0, one, server(1));
        // What comes in does not count.
        let _ = from(&mut h, server(2), 5000);
        h.expire();
    }
    assert_eq!(from(&mut h, server(1), 5000), Ok(one));
    assert_eq!(from(&mut h, server(2), 5000), Err("Filtered".to_owned()));
    h.write("clear", "").unwrap();
    assert_eq!((h.read("peers"), h.read("size")), (String::new(), "0".to_owned()));
}

#[test]
fn what_is_filtered_keeps_no_mapping_alive() {
    let mut h = harness(&[SNAT, "drop", BY_ADDRESS, "UDP_TIMEOUT 100"]);
    send(&mut h, 0, (inside(1), 5000), server(1));
    h.now += 60 * SECOND;
    assert_eq!(from(&mut h, server(2), 5000), Err("Filtered".to_owned()));
    h.now += 60 * SECOND;
    h.expire();
    assert_eq!(h.read("size"), "0");
}

#[test]
fn the_oldest_is_forgotten_when_there_are_too_many() {
    let one = (inside(1), 5000);
    let mut h = harness(&[SNAT, "drop", BY_ADDRESS, "PEER_CAPACITY 2"]);
    for n in 1..=3 {
        send(&mut h, 0, one, server(n));
        h.now += SECOND;
    }
    assert_eq!(from(&mut h, server(1), 5000), Err("Filtered".to_owned()));
    assert_eq!(from(&mut h, server(2), 5000), Ok(one));
    assert_eq!(from(&mut h, server(3), 5000), Ok(one));
}

#[test]
fn who_gets_the_port_next_inherits_nobody() {
    let mut h = harness(&["pattern 192.0.2.1 5000 - - 0 1", "drop", BY_ADDRESS]);
    send(&mut h, 0, (inside(1), 1), server(1));
    // The mapping goes before who was sent to is forgotten.
    send(&mut h, 0, (inside(2), 2), server(2));
    assert_eq!(from(&mut h, server(1), 5000), Err("Filtered".to_owned()));
    assert_eq!(from(&mut h, server(2), 5000), Ok((inside(2), 2)));
}

#[test]
fn both_ends_of_a_hairpin_have_to_send() {
    let mut h = harness(&[SNAT, "drop", BY_PORT]);
    let (one, two) = ((inside(1), 5000), (inside(2), 6000));
    send(&mut h, 0, two, (OUTSIDE, 5000));
    send(&mut h, 0, one, server(1));
    assert_eq!(from(&mut h, (OUTSIDE, 6000), 5000), Err("Filtered".to_owned()));
    send(&mut h, 0, one, (OUTSIDE, 6000));
    assert_eq!(from(&mut h, (OUTSIDE, 6000), 5000), Ok(one));
    assert_eq!(from(&mut h, (OUTSIDE, 5000), 6000), Ok(two));
}

#[test]
fn pings_are_answered_by_whom_they_went_to() {
    for filtering in [BY_ADDRESS, BY_PORT] {
        let mut h = harness(&[SNAT, "drop", filtering]);
        let to = server(1).0;
        h.send_ip(0, &ping(8, inside(1), to, 2000))[0].out();
        assert_eq!(reason(&mut h, 1, &ping(0, server(2).0, OUTSIDE, 2000)), "Filtered");
        assert_eq!(
            h.send_ip(1, &ping(0, to, OUTSIDE, 2000))[0].out(),
            (1, &ping(0, to, inside(1), 2000)[..])
        );
    }
}

#[test]
fn a_tcp_peer_may_answer_as_long_as_the_connection_lives() {
    let (one, out) = ((inside(1), 5000), (OUTSIDE, 5000));
    let mut h = harness(&[SNAT, "drop", BY_PORT]);
    let passes = |h: &mut Harness| {
        matches!(&h.send_ip(1, &tcp(server(1), out, Tcp::ACK, 1, b""))[0], Outcome::Out(..))
    };
    for flags in [Tcp::SYN, Tcp::ACK] {
        h.send_ip(0, &tcp(one, server(1), flags, 1, b""))[0].out();
    }
    h.now += 7400 * SECOND;
    h.expire();
    assert!(passes(&mut h));
    // Another connection keeps the mapping; of this one, that it is over counts.
    h.send_ip(0, &tcp(one, server(1), Tcp::FIN | Tcp::ACK, 2, b""))[0].out();
    for flags in [Tcp::SYN, Tcp::ACK] {
        h.send_ip(0, &tcp(one, server(2), flags, 1, b""))[0].out();
    }
    assert!(passes(&mut h));
    h.now += 241 * SECOND;
    h.expire();
    assert!(!passes(&mut h));
    assert_eq!(h.read("size"), "1");
}

#[test]
fn an_unknown_behaviour_is_told() {
    let class = crate::class_named("IPEndpointRewriter").unwrap();
    let e = class.configure(&[SNAT.to_owned(), "FILTERING symmetric".to_owned()]).err().unwrap().join("; ");
    assert!(
        e.contains("FILTERING: 'symmetric' is not a filtering behaviour: write endpoint-independent"),
        "{e}"
    );
}
