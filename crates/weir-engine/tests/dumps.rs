//! Capture files in graphs.

use std::path::Path;
use std::sync::Arc;

use weir_engine::{Engine, Until};
use weir_io::pcap::{Format, PcapReader, PcapWriter};
use weir_packet::Packet;
use weir_plan::Classes;

const SECOND: u64 = 1_000_000_000;

/// A capture of one packet a second, from 1000 on: UDP to port 0, 1, 2 and so on.
fn capture(path: &Path, n: u16) {
    let mut writer = PcapWriter::create(path, 65_535).unwrap();
    for i in 0..n {
        let frame = weir_net::build::udp4(([10, 0, 0, 1].into(), 9), ([10, 0, 0, 2].into(), i), b"x");
        let mut p = Packet::from_bytes(&frame).unwrap();
        p.timestamp = (1000 + u64::from(i)) * SECOND;
        writer.write(&p).unwrap();
    }
    writer.flush().unwrap();
}

fn engine(config: &str) -> Engine {
    let mut engine = Engine::new(Arc::new(Classes::default())).unwrap();
    engine.load("g", config, "test").unwrap();
    engine.run(&Until::default()).unwrap();
    engine
}

/// Times in seconds of what a graph with `FromDump` writes.
fn times(arguments: &str) -> Vec<u64> {
    let dir = tempfile::tempdir().unwrap();
    let [from, to] = ["in", "out"].map(|name| dir.path().join(name));
    capture(&from, 200);
    drop(engine(&format!("FromDump({}, STOP true{arguments}) -> ToDump({});", from.display(), to.display())));
    let mut reader = PcapReader::open(&to).unwrap();
    std::iter::from_fn(|| reader.next_packet().unwrap()).map(|p| p.timestamp / SECOND).collect()
}

#[test]
fn a_window_of_time_is_read() {
    assert_eq!(times(""), (1000..1200).collect::<Vec<_>>());
    assert_eq!(times(", START 1150, END 1153"), [1150, 1151, 1152]);
    assert_eq!(times(", START_AFTER 3, INTERVAL 2"), [1003, 1004]);
    assert_eq!(times(", END_AFTER 2s"), [1000, 1001]);
    assert_eq!(times(", SAMPLE 0").len(), 0);
    let some = times(", SAMPLE 0.5").len();
    assert!((50..150).contains(&some), "{some} of 200");
}

#[test]
fn windows_that_contradict_are_refused() {
    let mut engine = Engine::new(Arc::new(Classes::default())).unwrap();
    for (arguments, error) in [
        ("START 1, START_AFTER 2", "START or START_AFTER"),
        ("END 1, INTERVAL 2", "one of END, END_AFTER and INTERVAL"),
        ("SAMPLE 2", "number from 0 to 1"),
    ] {
        let text =
            engine.load("g", &format!("FromDump(x, {arguments}) -> Discard;"), "t").unwrap_err().texts();
        assert!(text.join(" ").contains(error), "{arguments}: {text:?}");
    }
}

#[test]
fn a_small_queue_behind_a_capture_loses_nothing_that_is_pulled_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let from = dir.path().join("in");
    capture(&from, 200);
    for queue in ["Queue(5)", "Queue(1)", "SimpleQueue(3)"] {
        let config = format!(
            "FromDump({}, STOP true) -> {queue} -> Unqueue -> c :: Counter -> Discard;",
            from.display()
        );
        assert_eq!(engine(&config).read("g", "c.count").unwrap(), "200", "{config}");
    }
    let config = format!(
        "FromDump({}, STOP true) -> t :: Classifier(12/0800, -); t[0] -> Queue(2) -> Unqueue -> c :: Counter -> Discard; \
         t[1] -> Discard;",
        from.display()
    );
    assert_eq!(engine(&config).read("g", "c.count").unwrap(), "200");
    // Who pulls more slowly than packets come has losses, as in Click.
    let config = format!("FromDump({}, STOP true) -> q :: Queue(5); q -> Idle;", from.display());
    assert_eq!(engine(&config).read("g", "q.drops").unwrap(), "195");
}

#[test]
fn a_packet_that_is_too_long_is_dropped_with_a_reason() {
    let dir = tempfile::tempdir().unwrap();
    let from = dir.path().join("in");
    capture(&from, 2);
    let mut file = std::fs::read(&from).unwrap();
    let record: Vec<u8> = [5_u32, 0, 300_000, 300_000].iter().flat_map(|w| w.to_le_bytes()).collect();
    file.splice(24..24, [&record[..], &[0; 300_000]].concat());
    std::fs::write(&from, file).unwrap();
    let config = format!("d :: FromDump({}, STOP true) -> c :: Counter -> Discard;", from.display());
    let mut e = engine(&config);
    assert_eq!((e.read("g", "d.count").unwrap(), e.read("g", "c.count").unwrap()), ("3".into(), "2".into()));
    assert_eq!(e.status("g").unwrap().drops["d"]["TooLong"], 1);
    let notice = e.take_notices().into_iter().find(|n| n.what == "print").unwrap().text;
    assert!(notice.contains("packet 1 has 300000 bytes, and packets have at most 262144"), "{notice}");
}

/// As big TCP makes them, and as a capture of a loopback interface has them.
#[test]
fn packets_of_any_length_that_captures_have_pass_through_programs() {
    let dir = tempfile::tempdir().unwrap();
    let [from, to] = ["in", "out"].map(|name| dir.path().join(name));
    let lens = [60, 65_920, 65_921, 200_000, 262_144];
    let file = {
        let header = [0xa1b2_3c4d_u32, 4 << 16 | 2, 0, 0, 262_144, 1];
        let mut file: Vec<u8> = header.iter().flat_map(|w| w.to_le_bytes()).collect();
        for (i, len) in (0..).zip(lens) {
            file.extend([i, 0, len, len].iter().flat_map(|w: &u32| w.to_le_bytes()));
            file.extend((0..len).map(|at| (at / 7) as u8));
        }
        file
    };
    std::fs::write(&from, &file).unwrap();
    for changed in
        ["", "-> Strip(14) -> Unstrip(14)", "-> Tee -> EtherEncap(0, 0:0:0:0:0:0, 0:0:0:0:0:0) -> Strip(14)"]
    {
        let config = format!(
            "FromDump({}, STOP true) -> Queue -> Unqueue {changed} -> ToDump({}, SNAPLEN 0);",
            from.display(),
            to.display()
        );
        let mut e = engine(&config);
        assert!(e.status("g").unwrap().drops.is_empty(), "{config}");
        drop(e);
        let written = std::fs::read(&to).unwrap();
        assert!(written[24..] == file[24..], "{config}");
    }
}

#[test]
fn ip_packets_are_written_and_read() {
    let dir = tempfile::tempdir().unwrap();
    let [frames, packets, back] = ["frames", "packets", "back"].map(|name| dir.path().join(name));
    capture(&frames, 5);
    drop(engine(&format!(
        "FromDump({}, STOP true) -> Strip(14) -> ToDump({}, ENCAP IP, NANO false);",
        frames.display(),
        packets.display()
    )));
    let mut e = engine(&format!(
        "FromDump({}, STOP true, FORCE_IP true) -> DecIPTTL -> d :: ToDump({}, ENCAP IP);",
        packets.display(),
        back.display()
    ));
    assert_eq!(e.read("g", "d.count").unwrap(), "5");
    drop(e);
    let read = |path| {
        let mut reader = PcapReader::open(path).unwrap();
        reader.next_packet().unwrap().unwrap()
    };
    let (before, after) = (read(&packets), read(&back));
    assert_eq!(before.bytes()[8], after.bytes()[8] + 1);
    assert_eq!(before.timestamp, after.timestamp);
    let header = std::fs::read(&packets).unwrap()[..24].to_vec();
    let mut wanted = Vec::new();
    let format = Format { snaplen: 262_144, encap: weir_io::pcap::Encap::Ip, nano: false };
    PcapWriter::with_format("x", &mut wanted, format).unwrap();
    assert_eq!(header, wanted);
}
