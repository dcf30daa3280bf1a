//! Fragments become packets again.

mod common;

use common::{engine, received, send, settle};
use weir_engine::Engine;
use weir_io::memory::MemoryPort;
use weir_net::{Ipv4, build};

const CONFIG: &str =
    "FromDevice(a) -> Strip(14) -> CheckIPHeader -> r :: IPReassembler(HIMEM 3000) -> ToDevice(b);
                      r [1] -> ToDevice(c);";

fn start() -> (Engine, Vec<MemoryPort>) {
    let (mut engine, far) = engine(&["a", "b", "c"]);
    engine.load("g", CONFIG, "test.click").unwrap();
    (engine, far)
}

/// A fragment of the payload from `start` to `end`, in an Ethernet frame.
fn fragment(id: u16, payload: &[u8], start: usize, end: usize) -> Vec<u8> {
    let mut ip = build::ipv4([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 17, &payload[start..end]);
    let more = if end < payload.len() { 0x2000 } else { 0 };
    ip[4..6].copy_from_slice(&id.to_be_bytes());
    ip[6..8].copy_from_slice(&(more | (start / 8) as u16).to_be_bytes());
    Ipv4::new(&mut ip[..]).unwrap().fill_checksum();
    build::ethernet(build::DST_ETHER, build::SRC_ETHER, 0x0800, &ip)
}

fn whole(id: u16, payload: &[u8]) -> Vec<u8> {
    fragment(id, payload, 0, payload.len()).split_off(14)
}

fn payload() -> Vec<u8> {
    (0..100).collect()
}

#[test]
fn fragments_in_any_order_become_the_packet() {
    let p = payload();
    let cuts = [(0, 24), (24, 48), (48, 96), (96, 100)];
    for (i, order) in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2], [2, 0, 3, 1]].iter().enumerate() {
        let (mut engine, mut far) = start();
        let id = i as u16;
        for (n, &at) in order.iter().enumerate() {
            assert!(received(&mut far[1]).is_empty(), "it waits for all");
            let (start, end) = cuts[at];
            let mut frames = vec![fragment(id, &p, start, end)];
            if n == 2 {
                frames.push(frames[0].clone());
            }
            send(&mut far[0], frames);
            settle(&mut engine);
        }
        assert_eq!(received(&mut far[1]), [whole(id, &p)], "{order:?}");
        assert_eq!(engine.status("g").unwrap().drops["r"]["Consumed"], 4);
        assert!(engine.read("g", "r.dump").unwrap().contains("good reassemblies:   1\n"));
    }
}

#[test]
fn packets_of_different_identification_do_not_mix_and_whole_ones_pass() {
    let (mut engine, mut far) = start();
    let p = payload();
    send(&mut far[0], [fragment(1, &p, 0, 48), fragment(2, &p, 48, 100), fragment(3, &p, 0, 100)]);
    settle(&mut engine);
    assert_eq!(received(&mut far[1]), [whole(3, &p)]);
    send(&mut far[0], [fragment(2, &p, 0, 48), fragment(1, &p, 48, 100)]);
    settle(&mut engine);
    assert_eq!(received(&mut far[1]), [whole(2, &p), whole(1, &p)]);
}

#[test]
fn the_later_of_two_that_overlap_counts() {
    let (mut engine, mut far) = start();
    let (p, other) = (payload(), vec![0xee; 100]);
    send(&mut far[0], [fragment(1, &p, 0, 48), fragment(1, &other, 24, 72), fragment(1, &p, 72, 100)]);
    settle(&mut engine);
    let mut wanted = p;
    wanted[24..72].fill(0xee);
    assert_eq!(received(&mut far[1]), [whole(1, &wanted)]);
}

#[test]
fn what_is_not_complete_after_30_seconds_leaves_on_output_1_or_is_dropped() {
    let (mut engine, mut far) = start();
    let p = payload();
    send(&mut far[0], [fragment(1, &p, 0, 24), fragment(1, &p, 48, 96), fragment(2, &p, 48, 96)]);
    settle(&mut engine);
    engine.set_time(31_000_000_000 - 1);
    settle(&mut engine);
    assert!(engine.read("g", "r.dump").unwrap().contains(" 10.0.0.1 > 10.0.0.2 1 (0,24) (48,96)\n"));
    engine.set_time(31_000_000_000);
    settle(&mut engine);
    let mut partial = p[..96].to_vec();
    partial[24..48].fill(0);
    assert_eq!(received(&mut far[2]), [whole(1, &partial)]);
    assert!(received(&mut far[1]).is_empty());
    assert_eq!(engine.status("g").unwrap().drops["r"]["TimedOut"], 1, "of the other, the first is missing");
}

#[test]
fn fragments_that_wait_are_bounded_and_wrong_ones_refused() {
    let (mut engine, mut far) = start();
    let p = vec![7; 1600];
    send(&mut far[0], (0..4).map(|id| fragment(id, &p, 0, 800)));
    settle(&mut engine);
    send(&mut far[0], (0..4).rev().map(|id| fragment(id, &p, 800, 1600)));
    settle(&mut engine);
    let drops = engine.status("g").unwrap().drops;
    assert_eq!(drops["r"]["Full"], 1, "the one that waited longest");
    assert_eq!(received(&mut far[1]), [3, 2, 1].map(|id| whole(id, &p)));
    // A middle fragment of odd length, one that ends behind the longest packet, and one behind the end.
    let mut long = fragment(9, &p, 0, 800);
    long[20..22].copy_from_slice(&[0x3f, 0xff]);
    Ipv4::new(&mut long[14..]).unwrap().fill_checksum();
    let odd = fragment(9, &p, 0, 801);
    send(&mut far[0], [odd, long, fragment(9, &p[..80], 40, 80), fragment(9, &p, 80, 160)]);
    settle(&mut engine);
    assert_eq!(engine.status("g").unwrap().drops["r"]["BadFragment"], 3);
}

#[test]
fn fragments_survive_a_change_of_the_graph() {
    let (mut engine, mut far) = start();
    let p = payload();
    send(&mut far[0], [fragment(1, &p, 0, 48)]);
    settle(&mut engine);
    engine.load("g", &CONFIG.replace("3000", "5000"), "test.click").unwrap();
    send(&mut far[0], [fragment(1, &p, 48, 100)]);
    settle(&mut engine);
    assert_eq!(received(&mut far[1]), [whole(1, &p)]);
}
