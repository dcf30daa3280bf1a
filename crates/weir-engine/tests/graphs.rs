//! Graphs with packets going through them.

mod common;

use common::{engine, number, numbered, received, run, send, settle};
use weir_engine::{Stopped, Until};
use weir_plan::{Classes, Plan};

#[test]
fn packets_go_from_device_to_device_by_push_and_by_pull() {
    for config in [
        "FromDevice(a) -> ToDevice(b);",
        "FromDevice(a) -> Null -> ToDevice(b);",
        "FromDevice(a) -> Queue -> ToDevice(b);",
        "FromDevice(a) -> Null -> Queue -> Null -> Null -> ToDevice(b, BURST 3);",
        "FromDevice(a) -> Queue -> Unqueue -> Null -> ToDevice(b);",
    ] {
        let (mut engine, mut far) = engine(&["a", "b"]);
        engine.load("g", config, "test.click").unwrap();
        send(&mut far[0], (0..500).map(numbered));
        settle(&mut engine);
        let got: Vec<u32> = received(&mut far[1]).iter().map(|f| number(f)).collect();
        assert_eq!(got, (0..500).collect::<Vec<_>>(), "{config}");
        assert!(engine.status("g").unwrap().drops.is_empty());
    }
}

#[test]
fn a_pull_skips_what_is_dropped_and_pushes_what_leaves_elsewhere() {
    let (mut engine, mut far) = engine(&["a", "b", "c"]);
    // Packets that are no IP packets leave the checker on output 1, which is pushed.
    let config = "FromDevice(a) -> Queue -> Strip(14) -> check :: CheckIPHeader -> ToDevice(b);
                  check [1] -> ToDevice(c);";
    engine.load("g", config, "test.click").unwrap();
    let good = weir_net::build::udp4(([10, 0, 0, 1].into(), 1), ([10, 0, 0, 2].into(), 2), b"x");
    send(&mut far[0], [numbered(1), good.clone(), numbered(2), numbered(3), good.clone()]);
    settle(&mut engine);
    assert_eq!(received(&mut far[1]), [&good[14..], &good[14..]]);
    assert_eq!(received(&mut far[2]).len(), 3);
}

#[test]
fn behind_a_device_nobody_reads_annotations() {
    let exits = |to: &str| {
        let config = format!("FromDevice(a) -> CheckIPHeader(14) -> {to};");
        let plan = Plan::new(&Classes::default(), &config, "test.click").unwrap();
        plan.program().plain_exits.clone()
    };
    assert_eq!(exits("ToDevice(b)"), [0]);
    // What is in a queue (0) may be taken over by a graph that reads all of it; what a device pulls (1) is read by nobody else.
    assert_eq!(exits("Queue -> Null -> ToDevice(b)"), [1]);
    assert!(exits("ToLink(b)").is_empty());
}

#[test]
fn a_full_queue_drops_and_counts() {
    let (mut engine, mut far) = engine(&["a"]);
    engine
        .load("g", "FromDevice(a) -> q :: Queue(4) -> u :: Unqueue(ACTIVE false) -> d :: Discard;", "t")
        .unwrap();
    send(&mut far[0], (0..10).map(numbered));
    settle(&mut engine);
    assert_eq!(engine.read("g", "q.length").unwrap(), "4");
    assert_eq!(engine.read("g", "q.drops").unwrap(), "6");
    assert_eq!(engine.read("g", "q.highwater_length").unwrap(), "4");
    assert_eq!(engine.status("g").unwrap().drops["q"]["Full"], 6);
    engine.write("g", "u.active", "true").unwrap();
    settle(&mut engine);
    assert_eq!(engine.read("g", "q.length").unwrap(), "0");
    assert_eq!(engine.read("g", "u.count").unwrap(), "4");
    assert_eq!(engine.status("g").unwrap().drops["d"]["Discarded"], 4);
}

#[test]
fn a_source_ends_the_run_after_its_last_packet() {
    let (mut engine, _) = engine(&[]);
    let stopped = run(&mut engine, "s :: InfiniteSource(LIMIT 1000, STOP true, LENGTH 20) -> d :: Discard;");
    assert_eq!(stopped, Stopped::Requested);
    assert_eq!(engine.read("g", "s.count").unwrap(), "1000");
    assert_eq!(engine.status("g").unwrap().drops["d"]["Discarded"], 1000);
}

#[test]
fn a_run_without_anything_more_to_do_is_exhausted() {
    let (mut engine, _) = engine(&[]);
    assert_eq!(
        run(&mut engine, "InfiniteSource(LIMIT 10) -> Queue -> Unqueue -> Discard;"),
        Stopped::Exhausted
    );
    assert_eq!(engine.status("g").unwrap().drops.values().next().unwrap()["Discarded"], 10);
}

#[test]
fn rated_nodes_follow_the_clock() {
    let (mut engine, _) = engine(&[]);
    let config = "s :: RatedSource(RATE 100) -> Queue -> u :: RatedUnqueue(10) -> Discard;";
    engine.load("g", config, "t").unwrap();
    for step in 0..=1000 {
        engine.set_time(1_000_000_000 + step * 1_000_000);
        settle(&mut engine);
    }
    assert_eq!(engine.read("g", "s.count").unwrap(), "101");
    // A bucket of one token fills in whole milliseconds, and fractions are rounded down: every 101 ms, as in Click.
    assert_eq!(engine.read("g", "u.count").unwrap(), "10");
}

#[test]
fn the_real_clock_paces_too() {
    let mut engine = weir_engine::Engine::new(std::sync::Arc::default()).unwrap();
    engine.load("g", "s :: RatedSource(RATE 200, LIMIT 20, STOP true) -> Discard;", "t").unwrap();
    let start = std::time::Instant::now();
    assert_eq!(engine.run(&Until::default()).unwrap(), Stopped::Requested);
    assert!(start.elapsed().as_millis() >= 90, "19 gaps of 5 ms");
}

#[test]
fn a_scheduler_takes_turns() {
    let (mut engine, mut far) = engine(&["a", "b", "c"]);
    let config = "s :: RoundRobinSched; FromDevice(a) -> Queue -> s; FromDevice(b) -> Queue -> Null -> [1] s;
                  s -> ToDevice(c);";
    engine.load("g", config, "t").unwrap();
    send(&mut far[0], (0..3).map(numbered));
    send(&mut far[1], (10..15).map(numbered));
    settle(&mut engine);
    let got: Vec<u32> = received(&mut far[2]).iter().map(|f| number(f)).collect();
    assert_eq!(got, [0, 10, 1, 11, 2, 12, 13, 14]);
}

#[test]
fn a_capture_file_is_read_and_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (first, second, third) = (path("first.pcap"), path("second.pcap"), path("third.pcap"));
    {
        let (mut engine, _) = engine(&[]);
        run(&mut engine, &format!("InfiniteSource(LIMIT 100, LENGTH 90) -> ToDump(\"{first}\");"));
    }
    {
        let (mut engine, _) = engine(&[]);
        let config = format!(
            "FromDump({first}, STOP true) -> c :: ToDump({second}) -> Queue -> ToDump({third}, SNAPLEN 50);"
        );
        assert_eq!(run(&mut engine, &config), Stopped::Requested);
        engine.run(&Until::default()).unwrap();
        assert_eq!(engine.read("g", "c.count").unwrap(), "100");
    }
    assert_eq!(std::fs::read(&first).unwrap(), std::fs::read(&second).unwrap());
    assert_eq!(std::fs::read(&third).unwrap().len(), 24 + 100 * (16 + 50));
}

#[test]
fn forced_ip_packets_have_their_headers_marked() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("in.pcap");
    let mut writer = weir_io::pcap::PcapWriter::create(&file, 65_535).unwrap();
    let ip = weir_net::build::udp4(([10, 0, 0, 1].into(), 1), ([10, 0, 0, 2].into(), 2), b"x");
    for frame in [&ip, &numbered(1), &ip] {
        writer.write(&weir_packet::Packet::from_bytes(frame).unwrap()).unwrap();
    }
    writer.flush().unwrap();
    drop(writer);
    let (mut engine, mut far) = engine(&["out"]);
    // DecIPTTL needs the network header to be marked.
    let config = format!("f :: FromDump({}, FORCE_IP true) -> DecIPTTL -> ToDevice(out);", file.display());
    run(&mut engine, &config);
    let got = received(&mut far[0]);
    assert_eq!(got.len(), 2);
    assert_eq!(got[0][22], ip[22] - 1);
    assert_eq!(engine.status("g").unwrap().drops["f"]["NotIp"], 1);
}

#[test]
fn graphs_are_joined_by_links() {
    let (mut engine, mut far) = engine(&["a", "b"]);
    engine.load("lsi", "FromDevice(a) -> to :: ToLink(in); FromLink(out) -> ToDevice(b);", "t").unwrap();
    send(&mut far[0], (0..3).map(numbered));
    settle(&mut engine);
    assert_eq!(engine.status("lsi").unwrap().drops["to"]["LinkDown"], 3);
    assert_eq!(engine.read("lsi", "to.up").unwrap(), "false");
    engine.load("tenant", "FromLink(in) -> Queue -> Unqueue -> ToLink(out);", "t").unwrap();
    assert_eq!(engine.read("lsi", "to.up").unwrap(), "true");
    send(&mut far[0], (0..300).map(numbered));
    settle(&mut engine);
    let got: Vec<u32> = received(&mut far[1]).iter().map(|f| number(f)).collect();
    assert_eq!(got, (0..300).collect::<Vec<_>>());
    let error = engine.load("thief", "FromLink(in) -> Discard;", "t").unwrap_err();
    assert_eq!(error.to_string(), "graph 'tenant' has the FromLink of 'in' already");
    engine.unload("tenant").unwrap();
    assert_eq!(engine.read("lsi", "to.up").unwrap(), "false");
}

#[test]
fn graphs_joined_in_a_circle_do_not_run_for_ever() {
    let (mut engine, mut far) = engine(&["a"]);
    engine.load("x", "FromDevice(a) -> t :: ToLink(l); FromLink(k) -> t;", "t").unwrap();
    engine.load("y", "FromLink(l) -> ToLink(k);", "t").unwrap();
    send(&mut far[0], (0..5).map(numbered));
    settle(&mut engine);
    assert_eq!(engine.status("x").unwrap().drops["t"]["LoopLimit"], 5);
}

#[test]
fn every_error_is_told_with_its_place() {
    let (mut engine, _) = engine(&[]);
    let config = "q :: Queue(many);\nInfiniteSource(BURST x) -> q -> Unqueue -> Tee(0, 1) -> Discard;";
    let errors = engine.load("g", config, "x.click").unwrap_err().texts();
    assert!(
        errors
            .iter()
            .any(|e| e == "x.click:1:1: While configuring 'q :: Queue': CAPACITY: 'many' is not a number"),
        "{errors:?}"
    );
    assert!(
        errors.iter().any(|e| e.starts_with("x.click:2:1: While configuring 'InfiniteSource@")),
        "{errors:?}"
    );
    assert!(engine.list().is_empty());
    let errors = engine.load("g", "FromDevice(nosuch0) -> Discard;", "x.click").unwrap_err().texts();
    assert_eq!(errors.len(), 1);
    assert!(errors[0].starts_with("x.click:1:1: While configuring 'FromDevice@"), "{errors:?}");
    assert!(errors[0].contains("there is no interface `nosuch0`"), "{errors:?}");
    // Elements that name one which is not right do not repeat what is wrong with it.
    let config =
        "nat :: IPEndpointRewriter(pattern 192.0.2.1 1024-65535 - - 0 1, drop, FORWARD \"tcp 80 192.0.2.1\");
        Idle -> nat -> Discard; Idle -> [1] nat [1] -> Discard;
        Idle -> ICMPRewriter(nat) -> Discard; Idle -> ICMPRewriter(nat) -> Discard;";
    let errors = engine.load("g", config, "x.click").unwrap_err().texts();
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].contains("'nat :: IPEndpointRewriter': FORWARD"), "{errors:?}");
}

#[test]
fn the_usual_handlers_are_there() {
    let (mut engine, _) = engine(&[]);
    let config = "i :: InfiniteSource(LIMIT 1) -> q :: Queue(7) -> u :: Unqueue -> d :: Discard;";
    engine.load("g", config, "t").unwrap();
    let mut read = |h: &str| engine.read("g", h);
    assert_eq!(read("list").unwrap(), "4\ni\nq\nu\nd\n");
    assert_eq!(read("q.class").unwrap(), "Queue");
    assert_eq!(read("q.name").unwrap(), "q");
    assert_eq!(read("q.config").unwrap(), "7");
    assert_eq!(read("config").unwrap(), config);
    assert_eq!(read("q.ports").unwrap(), "1 input\npush\t-\ti [0]\n1 output\npull\t-\t[0] u\n");
    assert!(read("q.handlers").unwrap().contains("capacity\tr"));
    assert!(read("classes").unwrap().contains("FromDevice\n"));
    assert!(read("flatconfig").unwrap().contains("q :: Queue(7);"));
    assert_eq!(read("version").unwrap(), env!("CARGO_PKG_VERSION"));
    assert!(read("handlers").unwrap().contains("list\tr\n"));
    assert_eq!(read("x.class").unwrap_err(), "no element named 'x'; the handler 'list' names all elements");
    assert_eq!(read("q.nonsense").unwrap_err(), "no 'q.nonsense' read handler");
    assert!(engine.read("h", "list").unwrap_err().contains("there is g"));
    assert_eq!(engine.write("g", "q.capacity", "many").unwrap_err(), "q.capacity: 'many' is not a number");
    engine.write("g", "q.capacity", "9").unwrap();
    assert_eq!(engine.read("g", "q.capacity").unwrap(), "9");
}
