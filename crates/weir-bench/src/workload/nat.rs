//! Source NAT.

use std::net::Ipv4Addr;

use weir_net::build::udp4;

use super::frames::{End, Frames, Popularity, Random, udp};
use super::{Expected, FRAME_LEN, FRAMES, Workload};

/// Address that packets get.
const OUTSIDE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);
/// Flows to one server; their source ports differ, so that each keeps its own.
const PORTS: u32 = 50_000;

/// The graph.
pub fn text() -> String {
    format!(
        "out :: Output; rw :: IPRewriter(pattern {OUTSIDE} 1024-65535 - - 0 1);\n\
         Input -> CheckIPHeader(14) -> rw; rw [0] -> [0] out; rw [1] -> [1] out;"
    )
}

/// Source and destination of a flow.
fn flow(i: u32) -> (End, End) {
    let [_, a, b, c] = i.to_be_bytes();
    let server = Ipv4Addr::from(u32::from(SERVER) + i / PORTS);
    ((Ipv4Addr::new(10, a, b, c), 2000 + (i % PORTS) as u16), (server, 53))
}

/// So many flows, all in the table before the measurement. If they are uniform, each has as many packets as any other.
pub fn source_nat(flows: usize, popularity: Popularity) -> Workload {
    let count = if flows < FRAMES { FRAMES - FRAMES % flows } else { flows };
    let mut r = Random::new(0x5eed);
    let mut frames = Frames::with_capacity(count, FRAME_LEN);
    for i in popularity.choose(count, flows) {
        let (src, dst) = flow(i);
        frames.push(&udp(&mut r, src, dst, FRAME_LEN));
    }
    let expected = Expected::exact(&frames, |f| {
        let port = |at: usize| u16::from_be_bytes([f[at], f[at + 1]]);
        let dst = Ipv4Addr::new(f[30], f[31], f[32], f[33]);
        (0, udp4((OUTSIDE, port(34)), (dst, port(36)), &f[42..]))
    });
    let mut before = Frames::default();
    if popularity == Popularity::Zipf {
        before = Frames::of(new_flows(flows as u32));
    }
    Workload { before: vec![(0, before)], ..Workload::new(text(), frames, expected) }
}

/// A packet of each of the flows.
pub fn new_flows(n: u32) -> impl ExactSizeIterator<Item = Vec<u8>> {
    (0..n as usize).map(|i| {
        let (src, dst) = flow(i as u32);
        udp4(src, dst, &[0; FRAME_LEN - 42])
    })
}
