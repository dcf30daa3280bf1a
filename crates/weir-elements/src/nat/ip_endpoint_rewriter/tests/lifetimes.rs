//! How long mappings live (RFC 5382 section 5, RFC 7857 sections 2 and 7).

use super::*;

const ONE: End = ([10, 0, 0, 1], 5000);
const OUT: End = (OUTSIDE, 5000);

fn out(h: &mut Harness, to: End, flags: u8) {
    h.send_ip(0, &tcp(ONE, to, flags, 1, b""))[0].out();
}

fn back(h: &mut Harness, from: End, flags: u8) {
    h.send_ip(1, &tcp(from, OUT, flags, 1, b""))[0].out();
}

/// A connection that is open.
fn open(h: &mut Harness, to: End) {
    out(h, to, Tcp::SYN);
    back(h, to, Tcp::SYN | Tcp::ACK);
    out(h, to, Tcp::ACK);
}

/// Whether the mapping is there after so many seconds.
fn after(h: &mut Harness, seconds: u64) -> bool {
    h.now += seconds * SECOND;
    h.expire();
    h.read("size") == "1"
}

#[test]
fn beginning_and_end_have_times_of_their_own() {
    let args = [SNAT, "drop", "TCP_NEW_TIMEOUT 30", "TCP_DONE_TIMEOUT 60"];
    let mut h = harness(&args);
    out(&mut h, server(1), Tcp::SYN);
    assert!(after(&mut h, 29));
    // It is asked for again.
    out(&mut h, server(1), Tcp::SYN);
    assert!(after(&mut h, 29));
    assert!(!after(&mut h, 2));
    open(&mut h, server(1));
    out(&mut h, server(1), Tcp::FIN | Tcp::ACK);
    back(&mut h, server(1), Tcp::FIN | Tcp::ACK);
    assert!(after(&mut h, 59));
    // The same port begins anew.
    out(&mut h, server(2), Tcp::SYN);
    assert!(after(&mut h, 29));
    out(&mut h, server(2), Tcp::ACK);
    assert!(after(&mut h, 7439));
}

#[test]
fn a_reset_is_the_end_unless_packets_follow() {
    for inbound in [false, true] {
        let reset = |h: &mut Harness| match inbound {
            false => out(h, server(1), Tcp::RST),
            true => back(h, server(1), Tcp::RST),
        };
        let mut h = harness(&[SNAT, "drop"]);
        open(&mut h, server(1));
        reset(&mut h);
        assert!(after(&mut h, 239));
        // Another one is an answer to whatever came in, and prolongs nothing.
        reset(&mut h);
        assert!(!after(&mut h, 2));
        open(&mut h, server(1));
        reset(&mut h);
        out(&mut h, server(1), Tcp::ACK);
        assert!(after(&mut h, 7439), "it was not of this connection");
    }
}

#[test]
fn resets_that_answer_unknown_hosts_keep_no_mapping_alive() {
    let mut h = harness(&[SNAT, "drop"]);
    out(&mut h, server(1), Tcp::SYN);
    for _ in 0..2 {
        assert!(after(&mut h, 100));
        back(&mut h, server(9), Tcp::SYN);
        out(&mut h, server(9), Tcp::RST | Tcp::ACK);
    }
    assert!(!after(&mut h, 41));
}

#[test]
fn the_end_of_one_connection_leaves_others_of_the_port_alone() {
    for end in [Tcp::FIN | Tcp::ACK, Tcp::RST] {
        let mut h = harness(&[SNAT, "drop"]);
        open(&mut h, server(1));
        open(&mut h, server(2));
        out(&mut h, server(2), end);
        back(&mut h, server(2), end);
        assert!(after(&mut h, 7438), "the first is open still");
        // Nor does one that comes in and is refused.
        let mut h = harness(&[SNAT, "drop"]);
        open(&mut h, server(1));
        back(&mut h, server(9), Tcp::SYN);
        out(&mut h, server(9), Tcp::RST | Tcp::ACK);
        assert!(after(&mut h, 7438));
    }
}

#[test]
fn packets_from_outside_keep_a_mapping_alive_if_they_may() {
    for (args, lives) in [(&[SNAT, "drop"][..], true), (&[SNAT, "drop", "INBOUND_REFRESH false"], false)] {
        let mut h = harness(args);
        send(&mut h, 0, ONE, server(1));
        h.now += 200 * SECOND;
        send(&mut h, 1, server(1), OUT);
        assert_eq!(after(&mut h, 200), lives);
    }
}
