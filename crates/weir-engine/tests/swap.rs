//! Hot swap, snapshot and restore.

mod common;

use common::{engine, number, numbered, received, send, settle};
use weir_io::Port;

#[test]
fn a_thousand_swaps_lose_no_packet_and_keep_their_order() {
    let (mut engine, mut far) = engine(&["a", "b"]);
    // Four graphs that differ in everything but the queue.
    let configs = [
        "FromDevice(a) -> q :: Queue(100000) -> u :: Unqueue(3) -> ToDevice(b);",
        "FromDevice(a) -> Null -> q :: Queue(100000) -> ToDevice(b, BURST 5);",
        "FromDevice(a) -> q :: Queue(100000) -> Null -> u :: Unqueue(1) -> Null -> Null -> ToDevice(b);",
        "FromDevice(a) -> Null -> Null -> q :: Queue(100000) -> r :: RatedUnqueue(1000000) -> ToDevice(b);",
    ];
    engine.load("g", configs[0], "t").unwrap();
    let (mut sent, mut got) = (0, Vec::new());
    for swap in 1..=1000usize {
        send(&mut far[0], (sent..sent + 40).map(numbered));
        sent += 40;
        for _ in 0..swap % 7 {
            engine.round().unwrap();
        }
        engine.set_time(1_000_000_000 + swap as u64 * 1000);
        engine.load("g", configs[swap % configs.len()], "t").unwrap();
        got.extend(received(&mut far[1]).iter().map(|f| number(f)));
    }
    engine.load("g", configs[0], "t").unwrap();
    for step in 0..20_000 {
        if got.len() == sent as usize {
            break;
        }
        engine.set_time(2_000_000_000 + step * 1000);
        engine.round().unwrap();
        got.extend(received(&mut far[1]).iter().map(|f| number(f)));
    }
    assert_eq!(got.len(), sent as usize);
    assert!(got.iter().enumerate().all(|(i, &n)| i as u32 == n), "in order, none twice");
    assert_eq!(engine.list()[0].swaps, 1001);
    assert!(engine.status("g").unwrap().drops.is_empty());
}

#[test]
fn a_broken_configuration_leaves_the_graph_as_it_was() {
    let (mut engine, mut far) = engine(&["a", "b"]);
    engine
        .load("g", "FromDevice(a) -> q :: Queue -> u :: Unqueue(ACTIVE false) -> ToDevice(b);", "t")
        .unwrap();
    send(&mut far[0], (0..3).map(numbered));
    settle(&mut engine);
    for broken in [
        "FromDevice(a) -> q :: Queue(",
        "FromDevice(a) -> q :: Queue(x) -> Unqueue -> ToDevice(b);",
        "FromDevice(a) -> q :: Queue -> Unqueue -> ToDevice(nosuch);",
        "FromDevice(a) -> q :: Quue -> Unqueue -> ToDevice(b);",
    ] {
        engine.load("g", broken, "t").unwrap_err();
        assert_eq!(engine.read("g", "q.length").unwrap(), "3");
    }
    engine.write("g", "u.active", "true").unwrap();
    settle(&mut engine);
    assert_eq!(received(&mut far[1]).len(), 3);
    assert_eq!(engine.list()[0].swaps, 0);
}

#[test]
fn counts_tables_and_drops_survive_a_swap() {
    let (mut engine, mut far) = engine(&["a"]);
    engine.load("g", "FromDevice(a) -> c :: Counter -> d :: Discard;", "t").unwrap();
    send(&mut far[0], (0..5).map(numbered));
    settle(&mut engine);
    engine.load("g", "FromDevice(a) -> Null -> c :: Counter -> d :: Discard;", "t").unwrap();
    send(&mut far[0], (0..2).map(numbered));
    settle(&mut engine);
    assert_eq!(engine.read("g", "c.count").unwrap(), "7");
    assert_eq!(engine.status("g").unwrap().drops["d"]["Discarded"], 7);
    assert_eq!(engine.status("g").unwrap().devices[0].rx_packets, 7);
}

#[test]
fn a_queue_that_shrinks_keeps_the_oldest_packets() {
    let (mut engine, mut far) = engine(&["a", "b"]);
    let config = |capacity| {
        format!("FromDevice(a) -> q :: Queue({capacity}) -> u :: Unqueue(ACTIVE false) -> ToDevice(b);")
    };
    engine.load("g", &config(10), "t").unwrap();
    send(&mut far[0], (0..10).map(numbered));
    settle(&mut engine);
    engine.load("g", &config(4), "t").unwrap();
    engine.write("g", "u.active", "true").unwrap();
    settle(&mut engine);
    let got: Vec<u32> = received(&mut far[1]).iter().map(|f| number(f)).collect();
    assert_eq!(got, [0, 1, 2, 3]);
    assert_eq!(engine.read("g", "q.drops").unwrap(), "6");
}

#[test]
fn a_snapshot_moves_state_to_another_engine() {
    let config = "FromDevice(a) -> c :: Counter -> q :: Queue -> u :: Unqueue(ACTIVE false) -> ToDevice(b);";
    let (mut first, mut far) = engine(&["a", "b"]);
    first.load("g", config, "t").unwrap();
    send(&mut far[0], (0..5).map(numbered));
    settle(&mut first);
    let snapshot = first.snapshot("g").unwrap();
    assert_eq!(first.read("g", "q.length").unwrap(), "5", "taking a snapshot changes nothing");

    let (mut second, mut far) = engine(&["a", "b"]);
    second.load("g", config, "t").unwrap();
    second.restore("g", snapshot.clone()).unwrap();
    assert_eq!(second.read("g", "c.count").unwrap(), "5");
    assert_eq!(second.snapshot("g").unwrap(), snapshot);
    second.write("g", "u.active", "true").unwrap();
    settle(&mut second);
    let got: Vec<u32> = received(&mut far[1]).iter().map(|f| number(f)).collect();
    assert_eq!(got, [0, 1, 2, 3, 4]);
}

#[test]
fn a_snapshot_that_does_not_fit_changes_nothing() {
    let (mut engine, mut far) = engine(&["a"]);
    engine.load("g", "FromDevice(a) -> c :: Counter -> Discard;", "t").unwrap();
    send(&mut far[0], (0..5).map(numbered));
    settle(&mut engine);
    let mut snapshot = engine.snapshot("g").unwrap();
    for table in snapshot["tables"].as_array_mut().unwrap() {
        table["decl"]["key"][0]["name"] = "other".into();
    }
    let error = engine.restore("g", snapshot).unwrap_err();
    assert!(error.contains("c :: Counter"), "{error}");
    assert_eq!(engine.read("g", "c.count").unwrap(), "5");
    let error = engine.restore("g", serde_json::json!({"tables": 3})).unwrap_err();
    assert!(error.starts_with("this is not a snapshot"), "{error}");
}

#[test]
fn a_device_that_no_graph_uses_any_more_is_closed() {
    let (mut engine, mut far) = engine(&["a", "b"]);
    engine.load("g", "FromDevice(a) -> ToDevice(b);", "t").unwrap();
    engine.load("g", "FromDevice(a) -> Discard;", "t").unwrap();
    assert!(!far[0].ended());
    assert!(far[1].ended(), "the port of b is gone");
    engine.unload("g").unwrap();
    assert!(far[0].ended());
    assert!(far[1].send(&mut vec![weir_packet::Packet::from_bytes(&[0; 60]).unwrap()]).is_err());
}

/// A NAT box with ARP on the inside; `extra` goes into the path.
fn nat(extra: &str) -> String {
    format!(
        "FromDevice(a) -> Strip(14) -> CheckIPHeader -> {extra}
           rw :: IPRewriter(pattern 192.0.2.1 1024-65535 - - 0 1, drop) -> ToDevice(b);
         FromDevice(b) -> CheckIPHeader -> {extra} [1] rw;
         rw [1] -> arp :: ARPQuerier(10.0.0.254, 02:00:00:00:00:fe) -> ToDevice(a);"
    )
}

#[test]
fn mappings_and_neighbours_survive_a_swap() {
    use std::net::Ipv4Addr;
    let (mut engine, mut far) = engine(&["a", "b"]);
    engine.load("g", &nat(""), "t").unwrap();
    engine.write("g", "arp.insert", "10.0.0.1 02:00:00:00:00:01").unwrap();
    let (inside, outside): (Ipv4Addr, Ipv4Addr) = ([10, 0, 0, 1].into(), [198, 51, 100, 1].into());
    let mut ports = Vec::new();
    for round in 0..6 {
        send(&mut far[0], [weir_net::build::udp4((inside, 5000), (outside, 53), b"query")]);
        settle(&mut engine);
        let sent = received(&mut far[1]);
        assert_eq!(sent.len(), 1);
        let header = weir_net::Ipv4::new(&sent[0][..]).unwrap();
        assert_eq!(header.src(), Ipv4Addr::from([192, 0, 2, 1]));
        let port = u16::from_be_bytes([sent[0][20], sent[0][21]]);
        ports.push(port);
        // The answer finds its way back, to the hardware address that was learnt before the first swap.
        let answer = weir_net::build::udp4((outside, 53), (header.src(), port), b"answer");
        send(&mut far[1], [answer[14..].to_vec()]);
        settle(&mut engine);
        let back = received(&mut far[0]);
        assert_eq!(back.len(), 1, "round {round}");
        assert_eq!(back[0][..6], [2, 0, 0, 0, 0, 1]);
        assert_eq!(back[0][30..34], inside.octets());
        engine.load("g", &nat(["Null ->", "Null -> Null ->", ""][round % 3]), "t").unwrap();
    }
    assert!(ports.iter().all(|p| *p == ports[0]), "the mapping stays: {ports:?}");
}

/// Answers to an outer endpoint that the new configuration gives to somebody else, or to nobody, would not come back.
#[test]
fn mappings_that_the_new_configuration_does_not_give_go() {
    let (mut engine, mut far) = engine(&["a", "b"]);
    let config = |outside: &str, ports: &str, forward: &str| {
        format!(
            "FromDevice(a) -> CheckIPHeader
             -> rw :: IPEndpointRewriter(pattern {outside} {ports} - - 0 1, drop, FORWARD \"{forward}\");
             rw [0] -> ToDevice(b); FromDevice(b) -> CheckIPHeader -> [1] rw; rw [1] -> ToDevice(a);"
        )
    };
    let mut leaves_as = |config: &str, port: u16| {
        engine.load("g", config, "t").unwrap_or_else(|e| panic!("{e}"));
        let frame = weir_net::build::udp4(([10, 0, 0, 5].into(), port), ([8, 8, 8, 8].into(), 53), b"x");
        send(&mut far[0], [frame[14..].to_vec()]);
        settle(&mut engine);
        let out = received(&mut far[1]).remove(0);
        let table = engine.read("g", "rw.table").unwrap();
        let own = table.lines().filter(|l| l.starts_with("udp (10.0.0.5, ")).count();
        (
            format!("{}.{}.{}.{}", out[12], out[13], out[14], out[15]),
            u16::from_be_bytes([out[20], out[21]]),
            own,
        )
    };
    let first = config("192.0.2.1", "1024-65535", "");
    assert_eq!(leaves_as(&first, 7777), ("192.0.2.1".into(), 7777, 1));
    assert_eq!(
        leaves_as(&config("192.0.2.1", "1024-65534", ""), 7777),
        ("192.0.2.1".into(), 7777, 1),
        "it stays"
    );
    let (address, port, mappings) =
        leaves_as(&config("192.0.2.1", "1024-65535", "udp 7777 10.0.0.9 53"), 7777);
    assert_eq!(
        (address.as_str(), port == 7777, mappings),
        ("192.0.2.1", false, 1),
        "the port is forwarded now"
    );
    assert_eq!(leaves_as(&config("192.0.2.9", "1024-65535", ""), 7777), ("192.0.2.9".into(), 7777, 1));
    let (_, port, mappings) = leaves_as(&config("192.0.2.9", "5000-6000", ""), 7777);
    assert!((5000..=6000).contains(&port) && mappings == 1, "{port}, {mappings}");
    // Mappers may change places, so that a name means another.
    let mapped = |first: &str, second: &str| {
        let here = config("192.0.2.9", "5000-6000", "").replace("pattern 192.0.2.9 5000-6000 - - 0 1", "m");
        let mapper = |name, outside| format!("{name} :: RoundRobinIPMapper({outside} 1024-65535 - - 0 1); ");
        format!("{}{}{here}", mapper("m", first), mapper("n", second))
    };
    assert_eq!(leaves_as(&mapped("192.0.2.3", "192.0.2.4"), 8888).0, "192.0.2.3");
    assert_eq!(leaves_as(&mapped("192.0.2.4", "192.0.2.3"), 8888).0, "192.0.2.4");
    // The pattern may stand elsewhere.
    let named = |outside: &str| {
        let here = config("192.0.2.9", "5000-6000", "")
            .replace("pattern 192.0.2.9 5000-6000 - - 0 1", "pattern p 0 1");
        format!("IPRewriterPatterns(p {outside} 1024-65535 - -); {here}")
    };
    assert_eq!(leaves_as(&named("192.0.2.1"), 7777).0, "192.0.2.1");
    assert_eq!(leaves_as(&named("192.0.2.2"), 7777).0, "192.0.2.2");
}
