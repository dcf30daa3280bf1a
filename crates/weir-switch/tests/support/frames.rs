//! Random frames of few values, so that random rules match them.

use proptest::prelude::*;
use weir_net::checksum::{Sum, checksum, pseudo4, pseudo6};

/// A frame, and whether all of its headers are whole and its checksums right.
#[derive(Debug, Clone)]
pub struct Frame {
    pub bytes: Vec<u8>,
    pub intact: bool,
}

pub const MACS: [[u8; 6]; 3] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2], [0xff; 6]];
pub const V4: [[u8; 4]; 3] = [[10, 0, 0, 1], [10, 0, 1, 2], [192, 0, 2, 1]];
pub const V6: [&str; 3] = ["2001:db8::1", "2001:db8:0:1::2", "fe80::1"];
pub const PORTS: [u16; 4] = [53, 80, 1024, 5000];

fn segment(proto: u8, ports: (u16, u16), flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut s = Vec::new();
    match proto {
        6 => {
            s.extend(ports.0.to_be_bytes());
            s.extend(ports.1.to_be_bytes());
            s.extend([0, 0, 0, 1, 0, 0, 0, 2, 0x50, flags, 2, 0, 0, 0, 0, 0]);
        }
        17 => {
            let len = 8 + payload.len() as u16;
            for word in [ports.0, ports.1, len, 0] {
                s.extend(word.to_be_bytes());
            }
        }
        1 | 58 => s.extend([if proto == 1 { 8 } else { 128 }, flags & 1, 0, 0, 0, 7, 0, 1]),
        _ => {}
    }
    s.extend(payload);
    s
}

/// Writes the checksum of a transport segment, over what is there of it.
pub fn fill(proto: u8, segment: &mut [u8], pseudo: Sum) {
    let (at, pseudo) = match proto {
        6 => (16, pseudo),
        17 => (6, pseudo),
        1 => (2, Sum::default()),
        58 => (2, pseudo),
        _ => return,
    };
    if segment.len() < at + 2 {
        return;
    }
    segment[at..at + 2].fill(0);
    let sum = pseudo.add_bytes(segment).finish();
    let sum = if proto == 17 && sum == 0 { 0xffff } else { sum };
    segment[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}

fn ip4(
    proto: u8,
    addrs: (usize, usize),
    ttl: u8,
    tos: u8,
    options: usize,
    fragment: u16,
    segment: &[u8],
) -> Vec<u8> {
    let (src, dst) = (V4[addrs.0], V4[addrs.1]);
    let mut segment = segment.to_vec();
    // ICMP over IPv6 has another number than over IPv4.
    if fragment & 0x1fff == 0 && proto != 58 {
        let pseudo = pseudo4(src.into(), dst.into(), proto, segment.len() as u16);
        fill(proto, &mut segment, pseudo);
    }
    let header = 20 + 4 * options;
    let mut p = vec![0x40 | (header / 4) as u8, tos, 0, 0, 0, 9, 0, 0, ttl, proto, 0, 0];
    p.extend(src);
    p.extend(dst);
    p.resize(header, 1);
    p[2..4].copy_from_slice(&((header + segment.len()) as u16).to_be_bytes());
    p[6..8].copy_from_slice(&fragment.to_be_bytes());
    let sum = checksum(&p);
    p[10..12].copy_from_slice(&sum.to_be_bytes());
    p.extend(segment);
    p
}

fn ip6(proto: u8, addrs: (usize, usize), hops: u8, tos: u8, segment: &[u8]) -> Vec<u8> {
    let [src, dst] = [addrs.0, addrs.1].map(|i| V6[i].parse::<std::net::Ipv6Addr>().unwrap());
    let mut segment = segment.to_vec();
    let pseudo = pseudo6(src, dst, proto, segment.len() as u32);
    if proto != 1 {
        fill(proto, &mut segment, pseudo);
    }
    let mut p = vec![0x60 | tos >> 4, tos << 4 | 5, 0xab, 0xcd];
    p.extend((segment.len() as u16).to_be_bytes());
    p.extend([proto, hops]);
    p.extend(src.octets());
    p.extend(dst.octets());
    p.extend(segment);
    p
}

fn payload() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop_oneof![Just(0u8), Just(0xff), any::<u8>()], 0..40)
}

/// Frames of all kinds.
pub fn frame() -> impl Strategy<Value = Frame> {
    let two = || (0usize..3, 0usize..3);
    let ports = (prop::sample::select(&PORTS[..]), prop::sample::select(&PORTS[..]));
    let proto =
        prop_oneof![3 => Just(6u8), 3 => Just(17u8), 1 => Just(1u8), 1 => Just(58u8), 1 => Just(47u8)];
    let tags =
        prop::collection::vec((any::<bool>(), prop_oneof![Just(25u16), Just(0x3019), any::<u16>()]), 0..3);
    let fragment =
        prop_oneof![6 => Just(0u16), 1 => Just(0x4000), 1 => Just(0x2000), 1 => Just(0x2005), 1 => Just(7)];
    let ip = (
        (0u8..6, two(), proto, ports),
        (
            prop::sample::select(vec![0u8, 1, 2, 64, 64, 64, 255]),
            prop_oneof![Just(0u8), Just(0x2e), any::<u8>()],
        ),
        (prop_oneof![4 => Just(0usize), 1 => 1usize..11], fragment, any::<u8>(), payload()),
    );
    let harm = prop::option::weighted(0.2, (any::<prop::sample::Index>(), any::<bool>(), any::<u8>()));
    (two(), tags, ip, (any::<bool>(), 0usize..8), harm).prop_map(
        |(macs, tags, ip, (no_sum, padding), harm)| {
            let ((version, addrs, proto, ports), (ttl, tos), (options, fragment, flags, payload)) = ip;
            let segment = segment(proto, ports, flags, &payload);
            let (kind, mut body): (u16, _) = match version {
                0..=2 => (0x0800, ip4(proto, addrs, ttl, tos, options, fragment, &segment)),
                3 | 4 => (0x86dd, ip6(proto, addrs, ttl, tos, &segment)),
                _ => (0x0806, segment),
            };
            // A UDP datagram over IPv4 may go without a checksum.
            if kind == 0x0800 && proto == 17 && no_sum && fragment & 0x1fff == 0 {
                body[20 + 4 * options + 6..][..2].fill(0);
            }
            body.resize(body.len() + padding, 0xdd);
            let mut bytes = [MACS[macs.1], MACS[macs.0]].concat();
            for (service, tci) in tags {
                bytes.extend(if service { [0x88, 0xa8] } else { [0x81, 0] });
                bytes.extend(tci.to_be_bytes());
            }
            bytes.extend(kind.to_be_bytes());
            bytes.extend(body);
            if let Some((at, cut, to)) = harm {
                let at = at.index(bytes.len());
                if cut {
                    bytes.truncate(at);
                } else {
                    bytes[at] = to;
                }
            }
            Frame { bytes, intact: harm.is_none() }
        },
    )
}
