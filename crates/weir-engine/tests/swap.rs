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
