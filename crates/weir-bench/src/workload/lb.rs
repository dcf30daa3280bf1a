//! Load balancers.

use std::fmt::Write;
use std::net::Ipv4Addr;

use weir_net::build::udp4;

use super::frames::{random_source, udp_frames};
use super::{Expected, FRAME_LEN, FRAMES, Workload};

fn back_end(i: u32) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 200, 0, 1)) + i)
}

/// A virtual address, and `n` back ends of which a hash of the flow chooses one, which becomes the destination.
pub fn by_hash(n: u32) -> Workload {
    let mut text = "out :: Output; s :: FlowHashSwitch;\nInput -> CheckIPHeader(14) -> s;\n".to_owned();
    for i in 0..n {
        _ = writeln!(text, "s [{i}] -> SetIPDst({}) -> [{i}] out;", back_end(i));
    }
    let service = (Ipv4Addr::new(198, 51, 100, 1), 80);
    let frames = udp_frames(FRAMES, FRAME_LEN, |r, _| (random_source(r), service));
    let expected = Expected::Balanced {
        exits: n,
        frame: |f, exit| {
            let port = |at: usize| u16::from_be_bytes([f[at], f[at + 1]]);
            let src = Ipv4Addr::new(f[26], f[27], f[28], f[29]);
            udp4((src, port(34)), (back_end(exit), port(36)), &f[42..])
        },
    };
    Workload::new(text, frames, expected)
}
