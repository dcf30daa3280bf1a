//! Queues, schedulers, shapers and sources, with a clock that the test sets.

mod common;

use common::{engine, number, numbered, received, send, settle};
use weir_engine::Engine;

const MS: u64 = 1_000_000;

fn load(engine: &mut Engine, config: &str) {
    engine.load("g", config, "test.click").unwrap_or_else(|e| panic!("{e}"));
}

fn read(engine: &mut Engine, handler: &str) -> u64 {
    engine.read("g", handler).unwrap().parse().unwrap()
}

/// Lets the time pass in steps of a millisecond.
fn pass(engine: &mut Engine, ms: u64) {
    for _ in 0..ms {
        let now = engine.now();
        engine.set_time(now + MS);
        settle(engine);
    }
}

/// Loads `config`, in which device `a` feeds a queue, and gives the numbers that device `b` sends for 0 to `n`.
fn order(config: &str, n: u32, before: &[(&str, &str)]) -> Vec<u32> {
    let (mut engine, mut far) = engine(&["a", "b"]);
    load(&mut engine, config);
    before.iter().for_each(|(handler, value)| engine.write("g", handler, value).unwrap());
    send(&mut far[0], (0..n).map(numbered));
    settle(&mut engine);
    engine.write("g", "u.active", "true").unwrap();
    settle(&mut engine);
    received(&mut far[1]).iter().map(|f| number(f)).collect()
}

#[test]
fn queues_differ_in_what_they_give_up() {
    let queue =
        |class: &str| format!("FromDevice(a) -> {class} -> u :: Unqueue(ACTIVE false) -> ToDevice(b);");
    for class in
        ["Queue", "FullNoteQueue", "QuickNoteQueue", "NotifierQueue", "SimpleQueue", "ThreadSafeQueue"]
    {
        assert_eq!(order(&queue(&format!("{class}(4)")), 6, &[]), [0, 1, 2, 3], "{class}");
    }
    assert_eq!(order(&queue("FrontDropQueue(4)"), 6, &[]), [2, 3, 4, 5]);
    // Even numbers come in at the end, odd ones in front.
    let mixed = "FromDevice(a) -> c :: Classifier(17/00%01, -) -> q :: MixedQueue(4);
                 c [1] -> [1] q -> u :: Unqueue(ACTIVE false) -> ToDevice(b);";
    assert_eq!(order(mixed, 4, &[]), [3, 1, 0, 2]);
    assert_eq!(order(mixed, 6, &[]).len(), 4);
}

#[test]
fn what_a_queue_gives_up_leaves_on_output_1() {
    let (mut engine, mut far) = engine(&["a", "b"]);
    load(
        &mut engine,
        "FromDevice(a) -> q :: FrontDropQueue(2) -> Unqueue(ACTIVE false) -> Discard; q [1] -> ToDevice(b);",
    );
    send(&mut far[0], (0..5).map(numbered));
    settle(&mut engine);
    assert_eq!(received(&mut far[1]).iter().map(|f| number(f)).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(read(&mut engine, "q.drops"), 3);
}

#[test]
fn a_source_stops_while_its_queues_are_full_and_goes_on() {
    let (mut engine, _) = engine(&[]);
    load(
        &mut engine,
        "i :: InfiniteSource -> Null -> q :: Queue(10) -> u :: Unqueue(ACTIVE false) -> Discard;",
    );
    settle(&mut engine);
    assert_eq!((read(&mut engine, "i.count"), read(&mut engine, "q.drops")), (10, 0));
    engine.write("g", "q.capacity", "15").unwrap();
    settle(&mut engine);
    assert_eq!(engine.read("g", "q.config").unwrap(), "CAPACITY 15");
    assert_eq!((read(&mut engine, "i.count"), read(&mut engine, "q.drops")), (15, 0));
}

#[test]
fn a_source_makes_room_for_all_when_the_queue_is_drained() {
    let (mut engine, _) = engine(&[]);
    load(&mut engine, "i :: InfiniteSource(LIMIT 100, BURST 3) -> q :: Queue(1) -> d :: Discard;");
    settle(&mut engine);
    assert_eq!((read(&mut engine, "d.count"), read(&mut engine, "q.drops")), (100, 0));
    load(
        &mut engine,
        "i :: RandomSource(20, LIMIT 100) -> q :: NotifierQueue(1) -> d :: Discard(ACTIVE false);",
    );
    settle(&mut engine);
    assert_eq!(read(&mut engine, "q.drops"), 99, "this queue lets no source know");
}

#[test]
fn schedulers_choose_among_their_inputs() {
    let graph = |sched: &str| {
        format!(
            "FromDevice(a) -> c :: Classifier(17/00%03, 17/01%03, -); s :: {sched};
             c [0] -> Queue -> [0] s; c [1] -> Queue -> [1] s; c [2] -> Queue -> [2] s;
             s -> u :: Unqueue(ACTIVE false) -> ToDevice(b);"
        )
    };
    // Inputs 0 and 1 get a quarter of the numbers each, input 2 half.
    assert_eq!(order(&graph("PrioSched"), 8, &[]), [0, 4, 1, 5, 2, 3, 6, 7]);
    assert_eq!(order(&graph("RoundRobinSched"), 8, &[]), [0, 1, 2, 4, 5, 3, 6, 7]);
    assert_eq!(order(&graph("StrideSched(2, 1, 0)"), 8, &[]), [0, 4, 1, 5]);
    assert_eq!(
        order(&graph("StrideSched(1, 1, 0)"), 8, &[("s.tickets2", "1"), ("s.tickets0", "0")]).len(),
        6
    );
    assert_eq!(order(&graph("PullSwitch(1)"), 8, &[]), [1, 5]);
    assert_eq!(order(&graph("PullSwitch"), 8, &[("s.switch", "2")]), [2, 3, 6, 7]);
    assert_eq!(order(&graph("SimplePullSwitch(-1)"), 8, &[]), [0; 0]);
    assert_eq!(order(&graph("StaticPullSwitch(0)"), 8, &[]), [0, 4]);
    // Frames have 60 bytes: two of them for each round of 120.
    assert_eq!(order(&graph("DRRSched(120)"), 12, &[]), [1, 5, 2, 3, 0, 4, 9, 6, 7, 8, 10, 11]);
}

#[test]
fn wrong_tickets_are_refused() {
    let (mut engine, _) = engine(&[]);
    let mut error = |config: &str| engine.load("g", config, "t").unwrap_err().texts().join("\n");
    assert!(
        error("Idle -> Queue -> s :: StrideSched(1, 2) -> Discard;")
            .contains("1 inputs need as many arguments, not 2")
    );
    assert!(error("Idle -> Queue -> DRRSched(0) -> Discard;").contains("QUANTUM"));
    assert!(
        error("Idle -> Queue -> RatedUnqueue(1, BURST_SIZE 1, BURST_DURATION 1) -> Discard;")
            .contains("BURST_SIZE")
    );
    assert!(error("Idle -> RED(5, 50, 0.02) -> Discard;").contains("no nearby Queues"));
    assert!(error("Idle -> RED(50, 5, 0.02) -> Queue -> Discard;").contains("at most MAX_THRESH"));
    assert!(error("Idle -> RED(5, 50, 2) -> Queue -> Discard;").contains("MAX_P"));
    assert!(
        error("n :: Null; Idle -> RED(5, 50, 0, QUEUES n) -> n -> Queue -> Discard;")
            .contains("'n' stores no packets")
    );
    engine.load("g", "Idle -> Queue -> s :: StrideSched(70000) -> Discard;", "t").unwrap();
    assert_eq!(engine.read("g", "s.tickets0").unwrap(), "32768", "more are reduced, as in Click");
}

#[test]
fn rates_hold() {
    for (element, lo, hi) in [
        ("RatedUnqueue(100) -> c :: Counter", 100, 102),
        ("RatedUnqueue(100, BURST_SIZE 50) -> c :: Counter", 148, 151),
        ("BandwidthRatedUnqueue(10kBps) -> c :: Counter", 100, 103),
        ("TimedUnqueue(10ms, 2) -> c :: Counter", 200, 202),
        ("Shaper(100) -> c :: Counter", 99, 101),
        ("BandwidthShaper(80kbps) -> c :: Counter", 99, 101),
    ] {
        let (mut engine, _) = engine(&[]);
        load(
            &mut engine,
            &format!("InfiniteSource(LENGTH 100, LIMIT 100000) -> Queue(1000) -> {element} -> Discard;"),
        );
        pass(&mut engine, 1000);
        let count = read(&mut engine, "c.count");
        assert!((lo..=hi).contains(&count), "{element}: {count}");
    }
}

#[test]
fn a_shaper_gives_the_rest_on_its_second_output() {
    let (mut engine, _) = engine(&[]);
    load(
        &mut engine,
        "InfiniteSource(LIMIT 100) -> s :: Shaper(500); s [0] -> c :: Counter -> r :: RoundRobinSched;
         s [1] -> [1] r; r -> all :: Counter -> TimedSink(1ms);",
    );
    pass(&mut engine, 150);
    let (shaped, all) = (read(&mut engine, "c.count"), read(&mut engine, "all.count"));
    assert!(all == 100 && (48..=52).contains(&shaped), "{shaped} of {all}");
}

#[test]
fn packets_are_delayed_and_none_is_lost() {
    for (element, first) in [
        ("DelayUnqueue(50ms)", 50),
        ("DelayShaper(50ms) -> Unqueue", 50),
        // 60 bytes take 60 ms.
        ("LinkUnqueue(20ms, 1kBps)", 80),
    ] {
        let (mut engine, mut far) = engine(&["a", "b"]);
        load(&mut engine, &format!("FromDevice(a) -> Queue -> {element} -> ToDevice(b);"));
        send(&mut far[0], (0..5).map(numbered));
        settle(&mut engine);
        pass(&mut engine, first - 1);
        assert_eq!(received(&mut far[1]).len(), 0, "{element}");
        pass(&mut engine, 1);
        let mut got = received(&mut far[1]);
        assert!(!got.is_empty(), "{element}");
        pass(&mut engine, 500);
        got.extend(received(&mut far[1]));
        assert_eq!(got.iter().map(|f| number(f)).collect::<Vec<_>>(), [0, 1, 2, 3, 4], "{element}");
    }
}

#[test]
fn a_link_keeps_its_packets_over_a_swap() {
    let (mut engine, mut far) = engine(&["a", "b"]);
    let config = |latency: u32| {
        format!("FromDevice(a) -> Queue -> l :: LinkUnqueue({latency}ms, 100MBps) -> ToDevice(b);")
    };
    load(&mut engine, &config(50));
    send(&mut far[0], (0..5).map(numbered));
    settle(&mut engine);
    pass(&mut engine, 10);
    assert_eq!(read(&mut engine, "l.size"), 5);
    let snapshot = engine.snapshot("g").unwrap();
    load(&mut engine, &config(40));
    engine.restore("g", snapshot).unwrap();
    pass(&mut engine, 50);
    assert_eq!(received(&mut far[1]).len(), 5);
}

#[test]
fn sources_keep_their_time() {
    let (mut engine, _) = engine(&[]);
    load(&mut engine, "t :: TimedSource(100ms, \"tick\", LIMIT 5) -> c :: Counter -> Discard;");
    settle(&mut engine);
    pass(&mut engine, 99);
    assert_eq!(read(&mut engine, "c.count"), 0);
    pass(&mut engine, 1);
    assert_eq!((read(&mut engine, "c.count"), read(&mut engine, "c.byte_count")), (1, 4));
    pass(&mut engine, 1000);
    assert_eq!(read(&mut engine, "c.count"), 5);
}

#[test]
fn early_detection_drops_more_of_longer_queues() {
    let mut dropped = Vec::new();
    for threshold in ["5, 20, 0.1", "5, 20, 0.9", "300, 400, 0.1"] {
        let (mut engine, mut far) = engine(&["a"]);
        let config = format!(
            "FromDevice(a) -> r :: RED({threshold}) -> q :: Queue -> Unqueue(ACTIVE false) -> Discard;"
        );
        load(&mut engine, &config);
        assert_eq!(engine.read("g", "r.queues").unwrap(), "q\n");
        send(&mut far[0], (0..200).map(numbered));
        settle(&mut engine);
        let (drops, length) = (read(&mut engine, "r.drops"), read(&mut engine, "q.length"));
        assert_eq!(drops + length, 200);
        assert!(drops == 0 || engine.status("g").unwrap().drops["r"]["EarlyDrop"] == drops);
        dropped.push(drops);
    }
    assert!(dropped[1] > dropped[0] && dropped[0] > 100 && dropped[2] == 0, "{dropped:?}");
}

#[test]
fn early_detection_works_where_packets_are_pulled() {
    let (mut engine, mut far) = engine(&["a", "b"]);
    load(
        &mut engine,
        "FromDevice(a) -> q :: Queue -> r :: RED(0, 1, 1, STABILITY 0) -> ToDevice(b); r [1] -> d :: Discard;",
    );
    send(&mut far[0], (0..50).map(numbered));
    settle(&mut engine);
    let sent = received(&mut far[1]).len() as u64;
    assert_eq!((sent + read(&mut engine, "d.count"), read(&mut engine, "q.length")), (50, 0));
    assert!(sent < 10, "{sent} packets of a long queue passed");
}

#[test]
fn what_is_pulled_goes_round_a_bypass() {
    let (mut engine, mut far) = engine(&["a", "b"]);
    load(
        &mut engine,
        "FromDevice(a) -> Queue -> b :: Bypass -> ToDevice(b); b [1] -> c :: Counter -> [1] b;",
    );
    for (active, counted) in [("false", 0), ("true", 5), ("false", 5)] {
        engine.write("g", "b.active", active).unwrap();
        send(&mut far[0], (0..5).map(numbered));
        settle(&mut engine);
        assert_eq!((received(&mut far[1]).len(), read(&mut engine, "c.count")), (5, counted));
    }
}

#[test]
fn graphs_at_rest_let_the_engine_sleep() {
    for config in [
        "InfiniteSource -> Queue(5) -> Unqueue(ACTIVE false) -> Discard;",
        "InfiniteSource(LIMIT 5) -> Queue -> Shaper(1000000) -> Unqueue -> Discard;",
        "Idle -> Queue -> PrioSched -> RatedUnqueue(5) -> Discard;",
        "Idle -> Queue -> DelayShaper(1) -> Discard;",
        "RatedSource(ACTIVE false) -> Queue -> LinkUnqueue(1, 1kbps) -> Discard;",
        "Idle -> Queue -> StrideSched(1) -> BandwidthShaper(0) -> ToDevice(a);",
    ] {
        let (mut engine, _far) = engine(&["a"]);
        load(&mut engine, config);
        settle(&mut engine);
        pass(&mut engine, 100);
        assert!(!engine.round().unwrap(), "{config}");
    }
}
