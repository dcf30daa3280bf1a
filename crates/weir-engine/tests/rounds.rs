//! Functions whose state is copied in rounds while they work, and that stop and go on while their graph runs.

mod common;

use common::{answer, engine, number, numbered, received, send, settle};
use weir_engine::{Engine, ExecutorKind, Threads};
use weir_io::memory::MemoryPort;

/// A NAT with a limit of connections behind it, and a filter of duplicates, with gates that say so.
fn config(gate: &str) -> String {
    format!(
        "f :: {{
            nat :: IPRewriter(pattern 10.9.9.9 1024-65535 - - 0 1, drop);
            limit :: ConnectionLimit(60); wifi :: WifiDupeFilter;
            input [0] -> [0] nat; input [1] -> [1] nat; nat [0] -> limit -> [0] output; nat [1] -> [1] output;
            limit [1] -> Discard; input [2] -> wifi -> [2] output;
        }};
        FromDevice(a) -> Strip(14) -> MarkIPHeader -> gate_f_0 :: FunctionGate(f, {gate}) -> [0] f;
        FromDevice(b) -> Strip(14) -> MarkIPHeader -> gate_f_1 :: FunctionGate(f, {gate}) -> [1] f;
        FromDevice(c) -> gate_f_2 :: FunctionGate(f, {gate}) -> [2] f;
        f [0] -> ToDevice(b); f [1] -> ToDevice(a); f [2] -> ToDevice(c);"
    )
}

const RUNS: &str = "CAPACITY 1000";
const STOPPED: &str = "STOPPED true, CAPACITY 1000";
const MOVING: &str = "STOPPED true, MOVING true, CAPACITY 1000";

/// A packet of UDP, or the first of a TCP connection, from a port of an inside host to a server.
fn packet(port: u16, host: u8, server: u8, tcp: bool) -> Vec<u8> {
    let mut f = vec![0; 14 + 20 + if tcp { 20 } else { 8 }];
    f[12..14].copy_from_slice(&[8, 0]);
    let length = (f.len() - 14) as u8;
    let ip = &mut f[14..34];
    (ip[0], ip[3], ip[8], ip[9]) = (0x45, length, 64, if tcp { 6 } else { 17 });
    ip[12..16].copy_from_slice(&[10, 0, 0, host]);
    ip[16..20].copy_from_slice(&[10, 0, 1, server]);
    let sum: u32 = ip.chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]]))).sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    f[34..36].copy_from_slice(&port.to_be_bytes());
    f[37] = 53;
    if tcp {
        (f[46], f[47]) = (0x50, 0x02);
    } else {
        f[39] = 8;
    }
    f
}

/// A frame of a station, with its sequence number; sent again perhaps.
fn wifi(station: u8, sequence: u8, again: bool) -> Vec<u8> {
    let mut f = vec![0; 40];
    (f[0], f[1]) = (0x08, if again { 0x08 } else { 0 });
    (f[4], f[10], f[15], f[22]) = (2, 2, station, sequence << 4);
    f
}

/// The answer to a packet that came out; of TCP, one that accepts.
fn accept(packet: &[u8]) -> Vec<u8> {
    let mut f = answer(packet);
    if f.len() > 47 {
        f[47] = 0x12;
    }
    f
}

fn hold(engine: &mut Engine, stops: bool) -> Result<Vec<String>, String> {
    let reads = ["gate_f_0.length", "gate_f_0.stopped"].map(str::to_owned);
    engine.exchange("g", &[], &[("f".to_owned(), stops)], &reads)
}

/// What each table has, line by line: both directions of the NAT, connections by server, and stations.
fn rows(engine: &mut Engine) -> Vec<String> {
    let tables = [
        "f/nat.table",
        "f/limit.servers",
        "f/limit.connections",
        "f/limit.rejected",
        "f/wifi.stats",
        "f/wifi.dupes",
    ];
    let text = |table: &&str| format!("{table}: {}", engine.read("g", table).unwrap());
    let mut rows: Vec<String> =
        tables.iter().map(text).flat_map(|t| t.lines().map(str::to_owned).collect::<Vec<_>>()).collect();
    rows.sort();
    rows
}

/// Some traffic of all kinds; `outside` are the packets that came out so far.
fn traffic(engine: &mut Engine, far: &mut [MemoryPort], rng: &mut fastrand::Rng, outside: &mut Vec<Vec<u8>>) {
    let some = rng.usize(0..40);
    send(&mut far[0], (0..some).map(|_| packet(rng.u16(2000..2300), rng.u8(1..5), rng.u8(1..4), rng.bool())));
    send(&mut far[2], (0..some).map(|_| wifi(rng.u8(1..20), rng.u8(0..3), rng.bool())));
    settle(engine);
    outside.extend(received(&mut far[1]));
    received(&mut far[2]);
    // Answers find their mapping, wherever it is now.
    let some = rng.usize(0..10).min(outside.len());
    let answers: Vec<Vec<u8>> = (0..some).map(|_| accept(&outside[rng.usize(0..outside.len())])).collect();
    send(&mut far[1], answers);
    settle(engine);
    assert_eq!(received(&mut far[0]).len(), some, "each answer goes to who asked");
}

#[test]
fn tables_move_a_hundred_times_in_rounds_and_each_entry_is_there() {
    tables_move(100, |_| 1);
}

#[test]
fn tables_move_between_engines_of_different_numbers_of_workers() {
    tables_move(25, |rng| rng.usize(1..4));
}

/// Moves a function so many times, each time to an engine with so many workers.
fn tables_move(times: usize, workers: impl Fn(&mut fastrand::Rng) -> usize) {
    let mut rng = fastrand::Rng::with_seed(41);
    let devices = ["a", "b", "c"];
    let (mut here, mut far) = engine(&devices);
    here.set_workers(workers(&mut rng), &Threads::None).unwrap();
    here.load("g", &config(MOVING), "t").unwrap();
    hold(&mut here, false).unwrap();
    let mut outside: Vec<Vec<u8>> = Vec::new();
    for i in 0..times {
        traffic(&mut here, &mut far, &mut rng, &mut outside);
        let (mut there, their) = engine(&devices);
        there.set_workers(workers(&mut rng), &Threads::None).unwrap();
        // Compiling takes most of the time.
        if i % 10 != 0 {
            there.set_executor(ExecutorKind::Interpreter);
        }
        there.load("g", &config(MOVING), "t").unwrap();
        let mut before = None;
        for _ in 0..rng.usize(1..4) {
            let round = here.export_round("g", "f", &mut before, false).unwrap();
            there.import_round("g", "f", &round).unwrap();
            traffic(&mut here, &mut far, &mut rng, &mut outside);
        }
        hold(&mut here, true).unwrap();
        let round = here.export_round("g", "f", &mut before, true).unwrap();
        there.import_round("g", "f", &round).unwrap();
        assert_eq!(rows(&mut here), rows(&mut there));
        // Its whole state is the same too, but for the order of entries.
        assert_eq!(here.export("g", "f").unwrap().len(), there.export("g", "f").unwrap().len());
        hold(&mut there, false).unwrap();
        (here, far) = (there, their);
    }
    let all = rows(&mut here);
    assert!(all.len() > 300, "{} rows", all.len());
    assert!(all.iter().any(|row| row.starts_with("f/limit.rejected") && !row.ends_with(" 0")), "{all:?}");
}

#[test]
fn a_function_stops_and_goes_on_at_a_word_and_begins_stopped() {
    let numbers =
        |far: &mut Vec<MemoryPort>| received(&mut far[1]).iter().map(|f| number(f)).collect::<Vec<_>>();
    let config = |gate: &str| {
        format!(
            "FromDevice(a) -> gate_f_0 :: FunctionGate(f, {gate}) -> f :: {{ input -> q :: Queue(50) -> u :: RatedUnqueue(1000) -> output }} -> ToDevice(b);"
        )
    };
    let (mut e, mut far) = engine(&["a", "b"]);
    // What begins so is stopped, and what ran goes on.
    e.load("g", &config(MOVING), "t").unwrap();
    send(&mut far[0], (0..3).map(numbered));
    settle(&mut e);
    assert_eq!(numbers(&mut far), [] as [u32; 0]);
    e.load("g", &config(RUNS), "t").unwrap();
    e.load("g", &config(MOVING), "t").unwrap();
    let mut now = 2_000_000_000;
    let mut wait = |e: &mut Engine| {
        for _ in 0..50 {
            now += 1_000_000;
            e.set_time(now);
            settle(e);
        }
    };
    send(&mut far[0], (3..6).map(numbered));
    wait(&mut e);
    assert_eq!(numbers(&mut far), [0, 1, 2, 3, 4, 5]);
    // Nothing happens in it while it is stopped.
    send(&mut far[0], (6..20).map(numbered));
    settle(&mut e);
    assert_eq!(hold(&mut e, true).unwrap(), ["0", "true"]);
    let before = numbers(&mut far).len() as u32;
    send(&mut far[0], (20..30).map(numbered));
    wait(&mut e);
    assert_eq!(numbers(&mut far), [] as [u32; 0], "what is in it waits, and so do its tasks");
    assert_eq!(hold(&mut e, true).unwrap(), ["10", "true"], "once more changes nothing");
    assert_eq!(hold(&mut e, false).unwrap()[1], "false");
    wait(&mut e);
    assert_eq!(numbers(&mut far), (6 + before..30).collect::<Vec<_>>());
    // Only what is about to move can be stopped so.
    e.load("g", &config(RUNS), "t").unwrap();
    assert!(hold(&mut e, true).unwrap_err().contains("is not about to move"));
    hold(&mut e, false).unwrap();
    let none = e.exchange("g", &[], &[("nat".to_owned(), true)], &[]).unwrap_err();
    assert!(none.contains("nothing can stop function 'nat'"), "{none}");
}

#[test]
fn entries_do_not_expire_while_their_function_is_stopped_and_do_when_it_goes_on() {
    let timeout = config(MOVING).replace(", drop)", ", drop, UDP_TIMEOUT 5)");
    let (mut e, mut far) = engine(&["a", "b", "c"]);
    e.load("g", &timeout.replace(MOVING, RUNS), "t").unwrap();
    e.load("g", &timeout, "t").unwrap();
    send(&mut far[0], [packet(2000, 1, 1, false)]);
    settle(&mut e);
    let mappings = |e: &mut Engine| e.read("g", "f/nat.table").unwrap().lines().count();
    assert_eq!(mappings(&mut e), 2, "one in each direction");
    hold(&mut e, true).unwrap();
    e.set_time(100_000_000_000);
    settle(&mut e);
    assert_eq!(mappings(&mut e), 2);
    hold(&mut e, false).unwrap();
    e.set_time(101_000_000_000);
    settle(&mut e);
    assert_eq!(mappings(&mut e), 0);
}

#[test]
fn rounds_that_do_not_fit_are_refused() {
    let (mut e, mut far) = engine(&["a", "b", "c"]);
    e.load("g", &config(RUNS), "t").unwrap();
    send(&mut far[0], [packet(2000, 1, 1, false)]);
    settle(&mut e);
    let round = e.export_round("g", "f", &mut None, false).unwrap();
    assert!(e.import_round("g", "f", &round).unwrap_err().contains("is not stopped"));
    let (mut other, _far) = engine(&["a", "b", "c"]);
    other.load("g", &config(STOPPED).replace("1024-", "1025-"), "t").unwrap();
    assert!(other.import_round("g", "f", &round).unwrap_err().contains("is of another function"));
    for i in [0, 25, 90, 200, round.len() - 1] {
        let mut bytes = round.clone().into_bytes();
        bytes[i] ^= 1;
        other.import_round("g", "f", &String::from_utf8(bytes).unwrap()).unwrap_err();
    }
    let whole = e.export("g", "f").unwrap();
    assert!(other.import_round("g", "f", &whole).unwrap_err().contains("wanted is 'weir-round 1"));
}

#[test]
fn a_newer_version_gets_the_tables_that_it_has_and_no_others_are_lost_unless_that_is_said() {
    let (mut e, mut far) = engine(&["a", "b", "c"]);
    e.load("g", &config(RUNS), "t").unwrap();
    let mut outside = Vec::new();
    traffic(&mut e, &mut far, &mut fastrand::Rng::with_seed(7), &mut outside);
    e.load("g", &config(MOVING), "t").unwrap();
    hold(&mut e, true).unwrap();
    let round = e.export_round("g", "f", &mut None, true).unwrap();
    let before = rows(&mut e);
    assert!(before.len() > 20, "{before:?}");
    let newer = |from: &str, to: &str| {
        let (mut other, far) = engine(&["a", "b", "c"]);
        let text = config(MOVING).replace(from, to);
        assert_ne!(text, config(MOVING));
        other.load("g", &text, "t").unwrap();
        (other, far)
    };
    let none = Some(&[][..]);
    // Other parameters, and elements more: each entry is there.
    let (mut other, _far) = newer("ConnectionLimit(60)", "ConnectionLimit(70)");
    assert!(other.import_round("g", "f", &round).unwrap_err().contains("is of another function"));
    other.import_round_of("g", "f", &round, none).unwrap();
    assert_eq!(rows(&mut other), before);
    let (mut other, _far) = newer("limit -> [0] output", "limit -> more :: WifiDupeFilter -> [0] output");
    other.import_round_of("g", "f", &round, none).unwrap();
    assert_eq!(rows(&mut other), before);
    assert_eq!(other.read("g", "f/more.stats").unwrap(), "");
    // One element less: its tables are lost only if each of them is named.
    let (mut other, _far) = newer("wifi :: WifiDupeFilter", "wifi :: Counter");
    let why = other.import_round_of("g", "f", &round, none).unwrap_err();
    assert!(why.contains("nothing here has the table 'wifi."), "{why}");
    let mut leave: Vec<String> = Vec::new();
    while let Err(why) = other.import_round_of("g", "f", &round, Some(&leave)) {
        let table = why.split('\'').nth(1).unwrap().to_owned();
        assert!(table.starts_with("wifi.") && !leave.contains(&table), "{why}");
        leave.push(table);
    }
    assert!(!leave.is_empty());
    let nat = |e: &mut Engine| e.read("g", "f/nat.table").unwrap();
    assert_eq!(nat(&mut other).lines().count(), nat(&mut e).lines().count());
}
