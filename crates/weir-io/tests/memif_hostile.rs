//! Peers that lie. Each lie ends the connection, with a reason that the peer gets, or the packet that it is about, which is
//! counted; nothing else comes of it.

mod common;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{is_up, memif};
use weir_io::memif::MemifPort;
use weir_io::{Port, PortError, PortStats};
use weir_packet::Packet;

/// The outcome of a lie.
struct Outcome {
    /// The reason that the peer got, or `open`.
    told: String,
    stats: PortStats,
    received: Vec<Packet>,
    port: MemifPort,
}

/// Peers of this role tell these lies to ports of the other, which send and receive all the time.
fn tell(role: &str, dir: &Path, lies: &[&str]) -> BTreeMap<String, Outcome> {
    let open = |lie: &str| {
        let socket = dir.join(lie);
        match role {
            "slave" => memif(&format!("memif:{}?role=master&secret=hush", socket.display())),
            _ => memif(&format!("memif:{}?secret=hush", socket.display())),
        }
    };
    let mut ports: Vec<(String, MemifPort, Vec<Packet>)> =
        lies.iter().map(|lie| ((*lie).to_owned(), open(lie), Vec::new())).collect();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/memif_liar.py");
    let mut liar: Child = Command::new("/usr/bin/python3")
        .arg(script)
        .args([role, &dir.display().to_string()])
        .args(lies)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let out = liar.stdout.take().unwrap();
    let said =
        std::thread::spawn(move || BufReader::new(out).lines().map_while(Result::ok).collect::<Vec<_>>());
    let (start, mut longest) = (Instant::now(), Duration::ZERO);
    // Long enough for all of them; the connections that are still there are to stay.
    while start.elapsed() < Duration::from_secs(4) {
        for (_, port, received) in &mut ports {
            let before = Instant::now();
            port.fd();
            match port.receive(received, 32) {
                Ok(_) | Err(PortError::NoPeer { .. }) => {}
                Err(e) => panic!("{e}"),
            }
            match port.send(&mut vec![Packet::from_bytes(&[7; 60]).unwrap()]) {
                Ok(_) | Err(PortError::NoPeer { .. }) => {}
                Err(e) => panic!("{e}"),
            }
            longest = longest.max(before.elapsed());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(longest < Duration::from_secs(2), "a port kept us for {longest:?}");
    drop(liar.stdin.take());
    assert!(liar.wait().unwrap().success());
    let mut told: BTreeMap<String, String> = BTreeMap::new();
    for line in said.join().unwrap() {
        let (lie, end) = line.split_once(": ").unwrap();
        told.insert(lie.to_owned(), end.to_owned());
    }
    let outcome = |(lie, mut port, received): (String, MemifPort, Vec<Packet>)| {
        let told = told.remove(&lie).unwrap_or_else(|| panic!("{lie}: nothing was said"));
        let stats = port.stats();
        (lie, Outcome { told, stats, received, port })
    };
    ports.into_iter().map(outcome).collect()
}

/// Lies that end the connection, and the reason that the peer gets.
fn end_the_connection(role: &str, lies: &[(&str, &str)]) {
    let dir = tempfile::tempdir().unwrap();
    let names: Vec<&str> = lies.iter().map(|(lie, _)| *lie).collect();
    let outcomes = tell(role, dir.path(), &names);
    for (lie, reason) in lies {
        let outcome = &outcomes[*lie];
        assert!(outcome.told.contains(reason), "{lie}: {}", outcome.told);
        assert!(outcome.received.is_empty(), "{lie}");
    }
}

#[test]
fn slaves_that_do_not_keep_to_the_protocol() {
    end_the_connection(
        "slave",
        &[
            ("short", "a message has 128 bytes, not 5"),
            ("long", "a message has 128 bytes, not 129"),
            ("kind", "no message of the kind 77"),
            ("early", "`connect` was not to come now"),
            ("hello", "`hello` was not to come now"),
            ("version", "versions from 0x300"),
            ("secret", "the secret is wrong"),
            ("id", "no interface 1 here"),
            ("mode", "the mode 1"),
            ("again", "`init` was not to come now"),
            ("no-descriptor", "came without a descriptor"),
            ("two-descriptors", "more than one descriptor"),
            ("more", "`ack` was not to come now"),
            ("direct", "`direct switched` was not to come now"),
            ("few", "before both rings"),
        ],
    );
}

#[test]
fn slaves_whose_memory_is_not_what_they_say() {
    end_the_connection(
        "slave",
        &[
            ("unsealed", "no memory that is sealed against shrinking"),
            ("pipe", "no memory that is sealed against shrinking"),
            ("linger", "no memory that is sealed against shrinking"),
            ("short-file", "its file 8192"),
            ("no-size", "region 0 has 0 bytes"),
            ("huge", "region 0 has 9223372036854775808 bytes"),
            ("large", "region 0 has 536870912 bytes"),
            ("region", "region 1 is not the next"),
            ("ring-0", "not a ring 1"),
            ("ring-1", "not a ring 1"),
            ("twice", "not twice"),
            ("no-signal", "cannot be signalled"),
            ("ring-region", "does not lie within region 3"),
            ("ring-outside", "does not lie within region 0"),
            ("unaligned", "no multiple of 8"),
            ("log2", "the logarithm 40"),
            ("log2-15", "the logarithm 15"),
            ("cookie", "it begins with 0x0"),
        ],
    );
}

#[test]
fn slaves_that_write_nonsense_into_rings() {
    end_the_connection(
        "slave",
        &[
            ("head", "the position 1025 is impossible"),
            ("head-back", "the position 65535 is impossible"),
            ("free-head", "the position 1031 is impossible"),
            ("free-region", "of region 9"),
            ("free-outside", "2048 bytes at 4294967295 of region 0"),
            ("free-empty", "no buffer of 0 bytes"),
            ("free-endless", "no buffer of 4294967295 bytes"),
        ],
    );
}

#[test]
fn masters_that_lie() {
    end_the_connection(
        "master",
        &[
            ("version", "versions from 0x300 to 0x400"),
            ("no-hello", "`ack` was not to come now"),
            ("early", "`connected` was not to come now"),
            ("hello", "`hello` was not to come now"),
            ("acks", "`ack` was not to come now"),
            ("init", "`init` was not to come now"),
            ("direct", "`direct memory` was not to come now"),
            ("tail", "the position 77 is impossible"),
            ("free-tail", "the position 1025 is impossible"),
        ],
    );
}

#[test]
fn packets_that_are_none_are_counted_and_the_rest_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let lies = ["packets", "all-chained", "hole", "dies", "full-signal", "silent"];
    let mut all = tell("slave", dir.path(), &lies);
    let frame: Vec<u8> = (0..60).collect();
    for (lie, malformed, received) in [
        ("packets", 9, 1),
        ("all-chained", 1, 0),
        ("hole", 0, 2),
        ("dies", 0, 3),
        ("full-signal", 0, 1),
        ("silent", 0, 0),
    ] {
        let Outcome { told, stats, received: packets, port } = all.get_mut(lie).unwrap();
        assert_eq!(told, if lie == "dies" { "dead" } else { "open" }, "{lie}");
        assert_eq!((stats.rx_malformed, packets.len()), (malformed, received), "{lie}");
        let expected = if lie == "hole" { vec![0; 60] } else { frame.clone() };
        assert!(packets.iter().all(|p| p.bytes() == expected), "{lie}");
        // What the peer did not take was sent for nothing: the 16 that fit, if it never reads.
        let lost = port.stats();
        if lie == "silent" {
            assert_eq!(stats.tx_packets, 16);
            let _ = is_up(port);
            common::until(|| {
                is_up(port);
                port.stats().tx_errors.down == 16
            });
            assert_eq!(port.stats().tx_packets, 0);
        } else if lie == "full-signal" {
            assert!(lost.tx_packets > 500, "{lie}: {lost:?}");
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let mut all =
        tell("master", dir.path(), &["packets", "all-chained", "scribbles", "small", "full-signal"]);
    for (lie, malformed, lens) in [
        ("packets", 3, vec![60, 61]),
        ("all-chained", 1, vec![]),
        ("scribbles", 0, vec![]),
        ("small", 0, vec![]),
        ("full-signal", 0, vec![]),
    ] {
        let Outcome { told, stats, received, .. } = all.remove(lie).unwrap();
        assert_eq!(told, "open", "{lie}");
        let found: Vec<usize> = received.iter().map(Packet::len).collect();
        assert_eq!((stats.rx_malformed, found), (malformed, lens), "{lie}");
        // It never takes any.
        assert_eq!(stats.tx_packets, if lie == "small" { 8 } else { 1024 }, "{lie}");
    }
}
