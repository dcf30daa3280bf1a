//! Full tables, capacities in common, and patterns that change.

use super::*;

#[test]
fn the_mapping_that_expires_next_gives_way_when_its_guarantee_has_ended() {
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
    assert_eq!(h.read("size"), "0", "the mapping of the other has given way");
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
    assert_eq!(h.send_ip(0, &udp((inside(3), 1), server(1), b""))[0].reason(), "Full");
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
