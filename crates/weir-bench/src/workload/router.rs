//! IPv4 routers: a short one, and the standard one of the Click distribution.

use std::fmt::Write;
use std::net::Ipv4Addr;

use weir_net::checksum::checksum;

use super::frames::{Frames, random_source, udp_frames};
use super::{Expected, FRAMES, Workload};

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

/// An address for each route; no longer prefix has it.
const HOSTS: [[u8; 4]; 8] = [
    [10, 1, 2, 7],
    [198, 51, 100, 7],
    [203, 0, 113, 7],
    [10, 1, 9, 7],
    [192, 168, 9, 7],
    [172, 20, 9, 7],
    [10, 9, 9, 7],
    [8, 8, 8, 7],
];

/// Ethernet header that each output of the router writes: next hop, own address, IPv4.
pub const ETHERNET: [[u8; 14]; 4] = [ethernet(0), ethernet(1), ethernet(2), ethernet(3)];

const fn ethernet(output: u8) -> [u8; 14] {
    [2, 0, 0, 0, 2, output, 2, 0, 0, 0, 1, output, 8, 0]
}

/// The element that writes an output's Ethernet header.
pub fn encap(output: usize) -> String {
    format!("EtherEncap(0x0800, 02:00:00:00:01:0{output}, 02:00:00:00:02:0{output})")
}

/// A frame as it leaves the router on an output.
pub fn routed(frame: &[u8], output: u32) -> Vec<u8> {
    let mut out = frame.to_vec();
    out[..14].copy_from_slice(&ETHERNET[output as usize]);
    out[22] -= 1;
    out[24..26].fill(0);
    let sum = checksum(&out[14..34]);
    out[24..26].copy_from_slice(&sum.to_be_bytes());
    out
}

/// A short router: strip, check, look up (`class` with `routes`), count down, encapsulate.
pub fn text(class: &str, routes: impl Iterator<Item = Route>) -> String {
    let mut text = format!("out :: Output;\nrt :: {class}({});\n", list(routes));
    text += "Input -> Strip(14) -> CheckIPHeader -> rt;\n";
    for output in 0..ETHERNET.len() {
        _ = writeln!(text, "rt [{output}] -> DecIPTTL -> {} -> [{output}] out;", encap(output));
    }
    text
}

/// Routes as arguments of an element.
pub fn list(routes: impl Iterator<Item = Route>) -> String {
    let routes = routes.map(|r| format!("{}/{} {}", Ipv4Addr::from(r.addr), r.len, r.output));
    routes.collect::<Vec<_>>().join(", ")
}

/// The same share of frames of `len` bytes for each route.
fn frames(len: usize) -> (Frames, Expected) {
    let frames = udp_frames(FRAMES, len, |r, i| (random_source(r), (Ipv4Addr::from(HOSTS[i % 8]), 9)));
    let expected = Expected::exact(&frames, |f| {
        let route = HOSTS.iter().position(|h| f[30..34] == *h).unwrap_or_default();
        let output = ROUTES[route].output;
        (output, routed(f, output))
    });
    (frames, expected)
}

/// The short router with 8 routes and frames of `len` bytes.
pub fn short(len: usize) -> Workload {
    let (frames, expected) = frames(len);
    Workload { by_hand: true, ..Workload::new(text("StaticIPLookup", ROUTES.into_iter()), frames, expected) }
}

/// The router of Click's thesis (Kohler 2001, figure 2.9) behind its ARP queriers: four outputs, each with all checks
/// and ICMP errors, which go back to the routing table. Packets come in on an interface of their own, so none needs
/// a redirect.
pub fn click() -> Workload {
    let (frames, expected) = frames(super::FRAME_LEN);
    let mut text = format!(
        "out :: Output;\n\
         c :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);\n\
         rt :: StaticIPLookup(10.255.0.1/32 4, {});\n\
         Input -> c; c [0] -> [5] out; c [1] -> [5] out; c [3] -> Discard;\n\
         c [2] -> Paint(9) -> Strip(14)\n\
           -> CheckIPHeader(INTERFACES 10.254.0.1/24 10.254.1.1/24 10.254.2.1/24 10.254.3.1/24) -> rt;\n\
         rt [4] -> EtherEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2) -> [4] out;\n",
        list(ROUTES.into_iter())
    );
    for (i, own) in (0..ETHERNET.len()).map(|i| (i, format!("10.254.{i}.1"))) {
        _ = write!(
            text,
            "rt [{i}] -> DropBroadcasts -> paint{i} :: PaintTee({}) -> options{i} :: IPGWOptions({own})\n\
               -> FixIPSrc({own}) -> ttl{i} :: DecIPTTL -> frag{i} :: IPFragmenter(1500) -> {} -> [{i}] out;\n\
             paint{i} [1] -> ICMPError({own}, redirect, host) -> rt;\n\
             options{i} [1] -> ICMPError({own}, parameterproblem) -> rt;\n\
             ttl{i} [1] -> ICMPError({own}, timeexceeded) -> rt;\n\
             frag{i} [1] -> ICMPError({own}, unreachable, needfrag) -> rt;\n",
            i + 1,
            encap(i)
        );
    }
    Workload::new(text, frames, expected)
}
