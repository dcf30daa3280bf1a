//! Chains of light functions.

use super::frames::{Frames, random_source, udp_frames};
use super::{Expected, FRAME_LEN, FRAMES, Workload};

/// Elements that do little; together they leave a frame with its Ethernet addresses swapped.
const MIXED: [&str; 8] = [
    "Counter",
    "Paint(3)",
    "CheckPaint(3)",
    "EtherMirror",
    "Strip(14)",
    "SetIPAddress(10.0.0.1)",
    "Unstrip(14)",
    "Null",
];

fn chain<'a>(elements: impl Iterator<Item = &'a str>, expect: impl Fn(&[u8]) -> Vec<u8>) -> Workload {
    let mut text = "Input".to_owned();
    elements.for_each(|e| text = format!("{text} -> {e}"));
    text += " -> Output;";
    let server = (std::net::Ipv4Addr::new(198, 51, 100, 1), 53);
    let frames: Frames = udp_frames(FRAMES, FRAME_LEN, |r, _| (random_source(r), server));
    let expected = Expected::exact(&frames, |f| (0, expect(f)));
    Workload::new(text, frames, expected)
}

/// So many `Null`; none is source to sink.
pub fn null(n: usize) -> Workload {
    let chain = chain(std::iter::repeat_n("Null", n), <[u8]>::to_vec);
    if n == 0 { Workload { text: String::new(), ..chain } } else { chain }
}

/// The first `n` of eight light elements.
pub fn mixed(n: usize) -> Workload {
    chain(MIXED.into_iter().take(n), |f| {
        let mut out = f.to_vec();
        if n >= 4 {
            out[..12].rotate_left(6);
        }
        let stripped = if (5..7).contains(&n) { 14 } else { 0 };
        out.split_off(stripped)
    })
}

/// What dpdk-testpmd does in its mode `macswap`: swaps Ethernet addresses.
pub fn macswap() -> Workload {
    mirrored(&["EtherMirror"], false)
}

/// What dpdk-testpmd does in its mode `5tswap`: swaps Ethernet addresses, IP addresses and ports.
pub fn five_tuple_swap() -> Workload {
    mirrored(&["MarkIPHeader(14)", "IPMirror", "EtherMirror"], true)
}

fn mirrored(elements: &[&str], ip: bool) -> Workload {
    chain(elements.iter().copied(), |f| {
        let mut out = f.to_vec();
        out[..12].rotate_left(6);
        if ip {
            out[26..34].rotate_left(4);
            out[34..38].rotate_left(2);
        }
        out
    })
}
