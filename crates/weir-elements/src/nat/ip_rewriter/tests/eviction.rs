//! Full tables, capacities in common, and patterns that change.

use super::*;

#[test]
fn the_mapping_that_expires_next_is_evicted_when_its_guarantee_has_ended() {
    let mut h = harness(&["pattern 192.0.2.1 1024-65535# - - 0 1", "drop", "CAPACITY 2", "UDP_GUARANTEE 4"]);
    let (one, two, three) = ((inside(1), 1), (inside(2), 1), (inside(3), 1));
    assert_eq!(send(&mut h, 0, one, server(1)).1.1, 1024);
    h.now += SECOND;
    send(&mut h, 0, two, server(1));
    h.now += SECOND;
    send(&mut h, 0, one, server(1));
    h.now += 2 * SECOND;
    assert_eq!(h.send_ip(0, &udp(three, server(1), b""))[0].reason(), "Full", "both are guaranteed");
    h.now += SECOND;
    let (_, outside, _) = send(&mut h, 0, three, server(1));
    assert_eq!(outside.1, 1027, "the flow that was refused has used up a number");
    assert_eq!((h.read("size"), h.read("mapping_failures")), ("2".into(), "1".into()));
    let reply = |h: &mut Harness, port| {
        h.send_ip(1, &udp(server(1), ([192, 0, 2, 1], port), b""))[0].reason().to_owned()
    };
    assert_eq!(send(&mut h, 1, server(1), ([192, 0, 2, 1], 1024)).2, one);
    assert_eq!(reply(&mut h, 1025), "NoMatch", "the one without packets has gone, in both directions");
    h.write("capacity", "0").unwrap();
    assert_eq!(h.send_ip(0, &udp((inside(4), 1), server(1), b""))[0].reason(), "Full");
}

#[test]
fn a_mapping_without_guarantee_does_not_take_the_place_of_one_that_lives_longer() {
    let mut h = harness(&[SNAT, "drop", "CAPACITY 1", "UDP_GUARANTEE 0", "GUARANTEE 0"]);
    send(&mut h, 0, (inside(1), 1), server(1));
    send(&mut h, 0, (inside(2), 1), server(1));
    assert_eq!(h.read("mapping_failures"), "0", "a UDP flow may follow another at once");
    h.write("clear", "").unwrap();
    let (outside, _) = send_tcp(&mut h, 0, (inside(1), 1), server(1), Tcp::ACK, b"data");
    send_tcp(&mut h, 1, server(1), ([192, 0, 2, 1], outside.1), Tcp::ACK, b"data");
    assert_eq!(h.send_ip(0, &udp((inside(2), 1), server(1), b""))[0].reason(), "Full", "TCP lives a day");
}

#[test]
fn rewriters_have_a_capacity_in_common() {
    let elements: [(&str, &str, &[&str], u32, u32); 2] = [
        ("one", "UDPRewriter", &["pattern 192.0.2.1 1024-65535# - - 0 1", "drop", "CAPACITY two"], 2, 2),
        ("two", "IPRewriter", &["pattern 192.0.2.2 1024-65535# - - 0 1", "drop", "CAPACITY 2"], 2, 2),
    ];
    let mut h = Harness::graph(&elements, &[]);
    let new = |h: &mut Harness, element, host| {
        h.now += SECOND;
        h.send_to(element, 0, ip_packet(&udp((inside(host), 1), server(1), b""))).remove(0)
    };
    new(&mut h, 0, 1).out();
    new(&mut h, 1, 2).out();
    assert_eq!(new(&mut h, 0, 3).reason(), "Full");
    h.now += 3 * SECOND;
    new(&mut h, 1, 4).out();
    assert_eq!(h.read("size"), "0", "the mapping of the other was evicted");
    new(&mut h, 0, 5).out();
    assert_eq!(new(&mut h, 1, 6).reason(), "Full");
    h.write("capacity", "3").unwrap();
    new(&mut h, 1, 6).out();
}

#[test]
fn patterns_change_while_it_runs() {
    let mut h = harness(&["pattern 192.0.2.1 1024-65535# - - 0 1", "keep 0 1", "drop"]);
    send(&mut h, 0, (inside(1), 1), server(1));
    assert_eq!(h.read("pattern0"), "192.0.2.1 1024-65535 - - [1]\n");
    h.write("pattern0", "pattern 192.0.2.9 3000-3001# - - 0 1").unwrap();
    assert_eq!(h.read("patterns"), "192.0.2.9 3000-3001 - -\n<keep>\n<drop>\n");
    assert_eq!(h.read("size"), "0", "the mappings that the input has made go");
    let ports: Vec<_> = (1..3).map(|n| send(&mut h, 0, (inside(n), 1), server(1)).1).collect();
    assert_eq!(ports, [([192, 0, 2, 9], 3000), ([192, 0, 2, 9], 3001)]);
    assert_eq!(h.send_ip(0, &udp((inside(3), 1), server(1), b""))[0].reason(), "NoPort");
    for (input, text, what) in [
        ("pattern0", "pattern 192.0.2.9 3000-3001 - - 0 1", "another form"),
        ("pattern0", "pattern 192.0.2.9 3000-3001# - - 0 0", "another form"),
        ("pattern0", "drop", "this is no pattern"),
        ("pattern2", "drop", "input 2 has no pattern of its own"),
    ] {
        let e = h.write(input, text).unwrap_err();
        assert!(e.contains(what) && e.contains("hotconfig"), "{e}");
    }
}

/// Runs packets at their times, in hundredths of a second: `>` from a client (UDP, or TCP in lower case with data), `<` to the
/// number of the port that the rewriter gave it. Gives the packets that were dropped, by their place in the list.
fn refused(h: &mut Harness, packets: &[(u64, &str, u8)]) -> Vec<(u64, String)> {
    let mut refused = Vec::new();
    for &(time, what, n) in packets {
        h.now = time * SECOND / 100;
        h.expire();
        let (client, port) = ((inside(n), 1), (OUTSIDE, 1023 + u16::from(n)));
        let out = match what {
            "> udp" => h.send_ip(0, &udp(client, server(1), b"")),
            "< udp" => h.send_ip(1, &udp(server(1), port, b"")),
            "> tcp" => h.send_ip(0, &tcp(client, server(1), Tcp::ACK, 1, b"data")),
            "< tcp" => h.send_ip(1, &tcp(server(1), port, Tcp::ACK, 1, b"data")),
            "> ack" => h.send_ip(0, &tcp(client, server(1), Tcp::ACK, 1, b"")),
            "< ack" => h.send_ip(1, &tcp(server(1), port, Tcp::ACK, 1, b"")),
            other => panic!("{other}"),
        };
        if let Outcome::Drop(_) = &out[0] {
            refused.push((time, out[0].reason().to_owned()));
        }
    }
    refused
}

#[test]
fn a_guarantee_ends_in_time_however_often_the_mapping_was_used() {
    let args = ["pattern 192.0.2.1 1024-65535# - - 0 1", "drop", "CAPACITY 2"];
    let used = [
        (10, "> udp", 1),
        (20, "> udp", 2),
        (30, "> udp", 1),
        (40, "< udp", 1),
        (60, "> udp", 1),
        (400, "< udp", 2),
    ];
    for (new, full) in [(559, true), (560, false)] {
        let mut h = harness(&args);
        let packets = [&used[..], &[(new, "> udp", 3), (900, "< udp", 2)]].concat();
        let lost = if full { vec![(new, "Full".to_owned())] } else { vec![] };
        assert_eq!(refused(&mut h, &packets), lost, "5 s after 0.6 s: {new}");
    }
}

#[test]
fn a_mapping_in_use_goes_when_its_timeout_says() {
    let args = ["pattern 192.0.2.1 1024-65535# - - 0 1", "drop", "UDP_TIMEOUT 64"];
    let used = [(100, "> udp", 1), (200, "> udp", 1), (300, "> udp", 1)];
    for (then, gone) in [(300 + 6399, false), (300 + 6400, true)] {
        let mut h = harness(&args);
        let packets = [&used[..], &[(then, "< udp", 1)]].concat();
        assert_eq!(refused(&mut h, &packets).len(), usize::from(gone), "{then}");
    }
}

#[test]
fn of_connections_without_guarantee_the_one_that_was_idle_longest_is_evicted() {
    let mut h = Harness::new(
        "TCPRewriter",
        &["pattern 192.0.2.1 1024-65535# - - 0 1", "drop", "CAPACITY 2", "GUARANTEE 0"],
        2,
        2,
    );
    let packets = [
        (100, "> ack", 1),
        (200, "> ack", 2),
        // The first is used again, and the second has to go; then the first has data, and lives longer.
        (300, "< ack", 1),
        (400, "> ack", 3),
        (500, "< ack", 2),
        (600, "> tcp", 1),
        (700, "< tcp", 1),
        (800, "> ack", 4),
        (900, "< ack", 3),
        (1000, "< ack", 4),
        (1100, "< ack", 1),
    ];
    let gone = |time| (time, "NoMatch".to_owned());
    assert_eq!(refused(&mut h, &packets), [gone(500), gone(900)]);
}

#[test]
fn a_stream_stays_when_a_question_and_its_answer_are_evicted() {
    let mut h = Harness::new(
        "UDPRewriter",
        &[
            "pattern 192.0.2.1 1024-65535# - - 0 1",
            "drop",
            "CAPACITY 3",
            "GUARANTEE 1",
            "TIMEOUT 4",
            "STREAMING_TIMEOUT 5",
        ],
        2,
        2,
    );
    let packets = [
        (10, "> udp", 1),
        (20, "< udp", 1),
        (30, "> udp", 2),
        (40, "> udp", 3),
        // With its third packet, the first is a stream until 5.60, and the others go at 4.70 and 4.80.
        (60, "< udp", 1),
        (70, "< udp", 2),
        (80, "< udp", 3),
        (365, "> udp", 4),
        (370, "< udp", 2),
        (470, "< udp", 3),
        (555, "< udp", 1),
        (556, "< udp", 4),
    ];
    assert_eq!(refused(&mut h, &packets), [(370, "NoMatch".to_owned())]);
}

#[test]
fn the_mapping_of_another_rewriter_is_evicted_when_its_guarantee_ends() {
    let elements: [(&str, &str, &[&str], u32, u32); 2] = [
        ("one", "IPRewriter", &["pattern 192.0.2.1 1024-65535# - - 0 1", "drop", "CAPACITY two"], 2, 2),
        ("two", "IPRewriter", &["pattern 192.0.2.2 1024-65535# - - 0 1", "drop", "CAPACITY 2"], 2, 2),
    ];
    for (then, full) in [(659, true), (660, false)] {
        let mut h = Harness::graph(&elements, &[]);
        let mut send = |time, element, host| {
            h.now = time * SECOND / 100;
            h.send_to(element, 0, ip_packet(&udp((inside(host), 1), server(1), b""))).remove(0)
        };
        for (time, element, host) in [(10, 0, 1), (20, 1, 2), (160, 0, 1), (300, 1, 2)] {
            send(time, element, host).out();
        }
        let last = send(then, 1, 3);
        assert_eq!(matches!(last, Outcome::Drop(_)), full, "5 s after 1.6 s: {then}");
    }
}
