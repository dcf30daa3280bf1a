//! Random frames between few hosts, right and wrong.

use std::net::Ipv4Addr;

use weir_net::{EtherAddr, build, checksum};

use super::Numbers;

/// Few addresses, so that flows meet: hosts of the examples, and such as no packet should come from or go to.
pub const HOSTS: [[u8; 4]; 13] = [
    [10, 0, 0, 1],
    [10, 0, 0, 1],
    [10, 0, 0, 2],
    [10, 0, 0, 2],
    [10, 0, 1, 1],
    [10, 2, 0, 9],
    [192, 0, 2, 1],
    [192, 0, 2, 7],
    [10, 255, 255, 255],
    [224, 0, 0, 1],
    [255, 255, 255, 255],
    [0, 0, 0, 0],
    [127, 0, 0, 1],
];

const PORTS: [u16; 8] = [1, 53, 80, 443, 1024, 1025, 5000, 65535];

fn host(n: &mut Numbers) -> Ipv4Addr {
    // Mostly the first ones, which are ordinary.
    let few = if n.once_in(6) { HOSTS.len() } else { 8 };
    HOSTS[n.below(few)].into()
}

fn ether(n: &mut Numbers) -> EtherAddr {
    *n.pick(&[
        build::SRC_ETHER,
        build::DST_ETHER,
        EtherAddr([2, 0, 0, 0, 0, 9]),
        EtherAddr([0x33, 0x33, 0, 0, 0, 1]),
        EtherAddr::BROADCAST,
    ])
}

fn payload(n: &mut Numbers) -> Vec<u8> {
    let len = *n.pick(&[0, 0, 1, 7, 8, 18, 40, 41, 100, 560, 1400]);
    (0..len).map(|_| n.below(256) as u8).collect()
}

/// A packet, most often of TCP, from its IPv4 header on.
pub fn ip(n: &mut Numbers) -> Vec<u8> {
    let (src, dst) = (host(n), host(n));
    let (sport, dport) = (*n.pick(&PORTS), *n.pick(&PORTS));
    let data = payload(n);
    let frame = match n.below(12) {
        0..=4 => {
            let flags = if n.once_in(3) {
                n.below(256) as u8
            } else {
                *n.pick(&[2, 2, 2, 0x12, 0x10, 0x18, 0x11, 4, 0x14])
            };
            let fields =
                build::TcpFields { flags, seq: n.below(99) as u32, ack: n.below(99) as u32, window: 512 };
            build::tcp4((src, sport), (dst, dport), fields, &data)
        }
        5..=8 => {
            let mut f = build::udp4((src, sport), (dst, dport), &data);
            if n.once_in(4) {
                f[40..42].fill(0);
            }
            f
        }
        9..=10 => {
            let mut f = build::icmp_echo(src, dst, sport, dport, &data);
            if n.once_in(3) {
                f[34] = *n.pick(&[0, 3, 5, 11, 12, 13]);
                fix_icmp(&mut f[34..]);
            }
            f
        }
        _ => {
            let p = build::ipv4(src, dst, n.below(256) as u8, &data);
            build::ethernet(build::DST_ETHER, build::SRC_ETHER, 0x0800, &p)
        }
    };
    let mut p = frame[14..].to_vec();
    if n.once_in(6) {
        add_options(n, &mut p);
    }
    if n.once_in(4) {
        p[8] = *n.pick(&[0, 1, 1, 2, 255]);
    }
    if n.once_in(6) {
        let fragment: u16 = *n.pick(&[0x2000, 0x2001, 0x0003, 0x1fff, 0x4000, 0x8000]);
        p[6..8].copy_from_slice(&fragment.to_be_bytes());
    }
    if n.once_in(8) {
        p[1] = n.below(256) as u8;
    }
    fix_header(&mut p);
    p
}

/// An ICMP error about a packet, from its IPv4 header on.
pub fn icmp_error(n: &mut Numbers, about: &[u8]) -> Vec<u8> {
    let keep = *n.pick(&[20, 28, 28, 48, 548]);
    let mut message = vec![*n.pick(&[3, 3, 4, 5, 11, 12]), n.below(5) as u8, 0, 0, 0, 0, 0, 0];
    message.extend(&about[..about.len().min(keep)]);
    fix_icmp(&mut message);
    let to = about.get(12..16).and_then(|b| <[u8; 4]>::try_from(b).ok()).unwrap_or([10, 0, 0, 1]);
    build::ipv4(host(n), to.into(), 1, &message)
}

/// The answer to a packet: addresses, ports and flags turned round.
pub fn answer(n: &mut Numbers, to: &[u8]) -> Option<Vec<u8>> {
    let mut p = to.to_vec();
    let header = usize::from(p.first()? & 15) * 4;
    if p[0] >> 4 != 4 || header < 20 || p.len() < header + 8 {
        return None;
    }
    let (src, dst) = (p[12..16].to_vec(), p[16..20].to_vec());
    p[12..16].copy_from_slice(&dst);
    p[16..20].copy_from_slice(&src);
    match p[9] {
        6 | 17 => {
            let (sport, dport) = (p[header..header + 2].to_vec(), p[header + 2..header + 4].to_vec());
            p[header..header + 2].copy_from_slice(&dport);
            p[header + 2..header + 4].copy_from_slice(&sport);
            if p[9] == 6 && p.len() >= header + 20 {
                // Changing the flags alone makes the checksum wrong, and elements do not look at both.
                let flags = *n.pick(&[0x12, 0x10, 0x18, 0x11, 0x04]);
                let old = u16::from(p[header + 13]);
                p[header + 13] = flags;
                let sum = u16::from_be_bytes([p[header + 16], p[header + 17]]);
                let sum = checksum::update16(sum, old, flags.into());
                p[header + 16..header + 18].copy_from_slice(&sum.to_be_bytes());
            }
        }
        1 if p[header] == 8 => {
            p[header] = 0;
            fix_icmp(&mut p[header..]);
        }
        _ => {}
    }
    fix_header(&mut p);
    Some(p)
}

/// An Ethernet frame of any kind.
pub fn frame(n: &mut Numbers) -> Vec<u8> {
    let mut f = match n.below(10) {
        0..=2 => {
            let operation = *n.pick(&[1, 1, 2, 2, 2, 3]);
            let (sender, target) = ((ether(n), host(n)), (ether(n), host(n)));
            build::arp(operation, sender, target)
        }
        3 => {
            let mut header = vec![0x60, 0, 0, 0, 0, 20, 17, 64];
            header.extend((0..52).map(|_| n.below(3) as u8));
            build::ethernet(ether(n), ether(n), 0x86dd, &header)
        }
        4 => build::ethernet(ether(n), ether(n), n.below(65536) as u16, &payload(n)),
        _ => {
            let ip = ip(n);
            around(n, &ip)
        }
    };
    if n.once_in(5) {
        for _ in 0..=n.below(2) {
            build::tag_vlan(&mut f, n.below(65536) as u16);
        }
        if n.once_in(3) {
            f[12..14].copy_from_slice(&[0x88, 0xa8]);
        }
    }
    f
}

/// An IEEE 802.11 frame of few stations, often one that was sent again.
pub fn wifi(n: &mut Numbers) -> Vec<u8> {
    let kind = *n.pick(&[0x08, 0x08, 0x08, 0x88, 0x88, 0x48, 0x80, 0xb4]);
    let flags = n.below(4) as u8 | n.pick(&[0, 0, 4, 8, 8, 12, 0x40, 0x48]);
    let mut f = vec![kind, flags, 0, 0];
    for _ in 0..3 {
        f.extend(ether(n).octets());
    }
    f.extend([n.below(3) as u8, n.below(2) as u8]);
    if flags & 3 == 3 {
        f.extend(ether(n).octets());
    }
    if kind == 0x88 {
        f.extend([n.below(3) as u8, 0]);
    }
    f.extend([0xaa, 0xaa, if n.once_in(6) { 4 } else { 3 }, 0, 0, 0, 8, 0]);
    let ip = ip(n);
    f.extend(ip);
    f
}

/// An Ethernet frame around an IPv4 packet.
pub fn around(n: &mut Numbers, ip: &[u8]) -> Vec<u8> {
    build::ethernet(ether(n), ether(n), 0x0800, ip)
}

/// Breaks a packet: cuts it, adds to it, or changes bytes.
pub fn damage(n: &mut Numbers, p: &mut Vec<u8>) {
    match n.below(4) {
        0 => p.truncate(n.below(p.len() + 1)),
        1 => p.truncate(n.below(60)),
        2 => p.extend([0xee; 9]),
        _ => {
            for _ in 0..=n.below(2) {
                let at = n.below(p.len().min(44));
                if let Some(b) = p.get_mut(at) {
                    *b = n.below(256) as u8;
                }
            }
        }
    }
}

fn add_options(n: &mut Numbers, p: &mut Vec<u8>) {
    let options: &[u8] = n.pick::<&[u8]>(&[
        &[1, 1, 1, 0],
        &[7, 7, 4, 0, 0, 0, 0, 0],
        &[68, 12, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        &[131, 7, 4, 10, 0, 0, 2, 0],
        &[7, 39, 4, 0, 0, 0, 0, 0],
        &[148, 4, 0, 0],
    ]);
    p.splice(20..20, options.iter().copied());
    p[0] = 0x40 | (5 + options.len() / 4) as u8;
    let len = p.len() as u16;
    p[2..4].copy_from_slice(&len.to_be_bytes());
}

fn fix_header(p: &mut [u8]) {
    let header = (usize::from(p[0] & 15) * 4).min(p.len());
    p[10..12].fill(0);
    let sum = checksum::checksum(&p[..header]);
    p[10..12].copy_from_slice(&sum.to_be_bytes());
}

fn fix_icmp(message: &mut [u8]) {
    message[2..4].fill(0);
    let sum = checksum::checksum(message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
}
