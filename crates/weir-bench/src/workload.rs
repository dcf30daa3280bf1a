//! What is measured: graphs, the packets that go through them, and what has to come out.

use std::fmt::Write;
use std::net::Ipv4Addr;

use weir_net::build::udp4;
use weir_net::checksum::checksum;

/// Length of all frames, without the frame check sequence.
pub const FRAME_LEN: usize = 64;
/// Number of prepared frames where the workload does not say otherwise.
const FRAMES: usize = 1024;
/// Payload that makes a UDP datagram over IPv4 fill a frame.
const PAYLOAD: usize = FRAME_LEN - 14 - 20 - 8;
/// Address that source NAT gives to packets.
const OUTSIDE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const SERVER: (Ipv4Addr, u16) = (Ipv4Addr::new(198, 51, 100, 1), 53);

/// A frame.
pub type Frame = [u8; FRAME_LEN];

/// A route of the router.
#[derive(Debug, Clone, Copy)]
pub struct Route {
    /// Network address.
    pub addr: u32,
    /// Prefix length.
    pub len: u32,
    /// Output.
    pub output: u32,
}

const fn route(addr: [u8; 4], len: u32, output: u32) -> Route {
    Route { addr: u32::from_be_bytes(addr), len, output }
}

/// The router's routes: five different prefix lengths, four outputs.
pub const ROUTES: [Route; 8] = [
    route([10, 1, 2, 0], 24, 0),
    route([198, 51, 100, 0], 24, 1),
    route([203, 0, 113, 0], 24, 2),
    route([10, 1, 0, 0], 16, 3),
    route([192, 168, 0, 0], 16, 0),
    route([172, 16, 0, 0], 12, 1),
    route([10, 0, 0, 0], 8, 2),
    route([0, 0, 0, 0], 0, 3),
];

/// Ethernet header that each output of the router writes: next hop, own address, IPv4.
pub const ETHERNET: [[u8; 14]; 4] = [ethernet(0), ethernet(1), ethernet(2), ethernet(3)];

const fn ethernet(output: u8) -> [u8; 14] {
    [2, 0, 0, 0, 2, output, 2, 0, 0, 0, 1, output, 8, 0]
}

/// A graph, its packets and what becomes of them.
#[derive(Debug)]
pub struct Workload {
    /// Name for `--only`.
    pub name: &'static str,
    /// What it is, for people.
    pub about: &'static str,
    /// The graph: Click text with an `Input` and an `Output`.
    pub text: String,
    /// Packets, in the order in which they are sent, again and again.
    pub frames: Vec<Frame>,
    /// For each frame the exit that it has to take, and its bytes then.
    pub expected: Vec<(u32, Frame)>,
    /// Whether the hand-written router can stand in for the graph.
    pub router: bool,
}

/// All workloads.
pub fn all() -> Vec<Workload> {
    let rules =
        "CheckIPHeader → IPFilter; the last rule matches, each before it names a source address and a port.";
    let nat = "CheckIPHeader → IPRewriter; the flows are in the table before the measurement.";
    vec![
        null(),
        router(),
        filter("filter-10", rules, 10),
        filter("filter-100", rules, 100),
        source_nat("nat-1", nat, 1),
        source_nat("nat-1000", nat, 1000),
    ]
}

fn null() -> Workload {
    let frames = frames(FRAMES, |r, _| (random_source(r), SERVER));
    let expected = frames.iter().map(|&f| (0, f)).collect();
    Workload {
        name: "null",
        about: "One Null element.",
        text: "Input -> Null -> Output;".into(),
        frames,
        expected,
        router: false,
    }
}

fn router() -> Workload {
    let mut text = "out :: Output;\nrt :: StaticIPLookup(".to_owned();
    for (i, r) in ROUTES.iter().enumerate() {
        let comma = if i == 0 { "" } else { ", " };
        _ = write!(text, "{comma}{}/{} {}", Ipv4Addr::from(r.addr), r.len, r.output);
    }
    text += ");\nInput -> Strip(14) -> CheckIPHeader -> rt;\n";
    for output in 0..ETHERNET.len() {
        _ = writeln!(
            text,
            "rt [{output}] -> DecIPTTL -> \
             EtherEncap(0x0800, 02:00:00:00:01:0{output}, 02:00:00:00:02:0{output}) -> [{output}] out;"
        );
    }
    // The same share for each route. Host parts are such that no longer prefix has them.
    let hosts: [[u8; 4]; 8] = [
        [10, 1, 2, 7],
        [198, 51, 100, 7],
        [203, 0, 113, 7],
        [10, 1, 9, 7],
        [192, 168, 9, 7],
        [172, 20, 9, 7],
        [10, 9, 9, 7],
        [8, 8, 8, 7],
    ];
    let frames = frames(FRAMES, |r, i| (random_source(r), (Ipv4Addr::from(hosts[i % 8]), 9)));
    let expected = frames.iter().map(|f| {
        let route = hosts.iter().position(|h| f[30..34] == *h).unwrap_or_default();
        let output = ROUTES[route].output;
        let mut out = *f;
        out[..14].copy_from_slice(&ETHERNET[output as usize]);
        out[22] -= 1;
        out[24..26].fill(0);
        let sum = checksum(&out[14..34]);
        out[24..26].copy_from_slice(&sum.to_be_bytes());
        (output, out)
    });
    let expected = expected.collect();
    Workload {
        name: "router",
        about: "Strip → CheckIPHeader → StaticIPLookup (8 routes, 5 prefix lengths, even load) → DecIPTTL → \
                EtherEncap (4 outputs).",
        text,
        frames,
        expected,
        router: true,
    }
}

fn filter(name: &'static str, about: &'static str, rules: u32) -> Workload {
    let mut text = "Input -> CheckIPHeader(14) -> IPFilter(".to_owned();
    for i in 1..rules {
        _ = write!(text, "deny src host 172.16.{}.{} and dst port {}, ", i / 250, i % 250 + 1, 1000 + i);
    }
    _ = writeln!(text, "allow udp dst port {}) -> Output;", SERVER.1);
    let frames = frames(FRAMES, |r, _| (random_source(r), SERVER));
    let expected = frames.iter().map(|&f| (0, f)).collect();
    Workload { name, about, text, frames, expected, router: false }
}

fn source_nat(name: &'static str, about: &'static str, flows: usize) -> Workload {
    let inside = |i: usize| {
        let flow = (i % flows) as u16;
        let [high, low] = flow.to_be_bytes();
        // Source ports differ, so that each flow keeps its own.
        (Ipv4Addr::new(10, 0, high, low), 2000 + flow)
    };
    // As many frames of each flow, so that 1,000 flows have 1,000 frames.
    let frames = frames(FRAMES - FRAMES % flows, |_, i| (inside(i), SERVER));
    let expected = frames.iter().map(|f| {
        let port = u16::from_be_bytes([f[34], f[35]]);
        (0, frame((OUTSIDE, port), SERVER, &f[42..]))
    });
    let expected = expected.collect();
    let text = format!(
        "out :: Output; rw :: IPRewriter(pattern {OUTSIDE} 1024-65535 - - 0 1);\n\
         Input -> CheckIPHeader(14) -> rw; rw [0] -> [0] out; rw [1] -> [1] out;"
    );
    Workload { name, about, text, frames, expected, router: false }
}

/// Source and destination.
type Ends = ((Ipv4Addr, u16), (Ipv4Addr, u16));

/// Frames with random payloads in a random order, always the same.
fn frames(n: usize, ends: impl Fn(&mut Random, usize) -> Ends) -> Vec<Frame> {
    let mut r = Random(0x5eed);
    let mut list: Vec<Frame> = (0..n)
        .map(|i| {
            let (src, dst) = ends(&mut r, i);
            let payload: Vec<u8> = (0..PAYLOAD).map(|_| r.below(256) as u8).collect();
            frame(src, dst, &payload)
        })
        .collect();
    for i in (1..list.len()).rev() {
        list.swap(i, r.below(i as u64 + 1) as usize);
    }
    list
}

fn frame(src: (Ipv4Addr, u16), dst: (Ipv4Addr, u16), payload: &[u8]) -> Frame {
    let mut frame = [0; FRAME_LEN];
    frame.copy_from_slice(&udp4(src, dst, payload));
    frame
}

fn random_source(r: &mut Random) -> (Ipv4Addr, u16) {
    let [a, b, c, _] = (r.below(1 << 32) as u32).to_be_bytes();
    (Ipv4Addr::new(10, a, b, c), 1024 + r.below(60_000) as u16)
}

/// Packets of `n` new flows, for a graph with source NAT.
pub fn new_flows(n: u32) -> impl Iterator<Item = Frame> {
    (0..n).map(|i| {
        let [_, a, b, c] = i.to_be_bytes();
        // A port serves one flow to each destination, so destinations change.
        let server = Ipv4Addr::from(u32::from(SERVER.0) + i / 50_000);
        frame((Ipv4Addr::new(10, a, b, c), 2000 + (i % 50_000) as u16), (server, SERVER.1), &[0; PAYLOAD])
    })
}

/// Random numbers (xorshift64*, Vigna 2014) from a fixed seed.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16) % n
    }
}
