//! Actions on plain bytes, with every checksum computed anew.

use std::net::IpAddr;

use weir_model::graph::Actions;
use weir_net::checksum::{checksum, pseudo4, pseudo6};

use super::frames::fill;

/// Where the EtherType stands behind all VLAN tags.
fn type_at(f: &[u8]) -> usize {
    let mut at = 12;
    while matches!(f[at..at + 2], [0x81, 0] | [0x88, 0xa8]) {
        at += 4;
    }
    at
}

fn tagged(f: &[u8]) -> bool {
    type_at(f) > 12
}

fn push(f: &mut Vec<u8>, id: u16) {
    f.splice(12..12, [0x81, 0].into_iter().chain(id.to_be_bytes()));
}

/// What an intact frame becomes; `None` if its time to live is over.
pub fn apply(actions: &Actions, frame: &[u8]) -> Option<Vec<u8>> {
    let mut f = frame.to_vec();
    if actions.pop_vlan && tagged(&f) {
        f.drain(12..16);
    }
    if let Some(id) = actions.push_vlan {
        push(&mut f, id.get());
    }
    if let Some(id) = actions.set_vlan {
        if tagged(&f) {
            f[14] = f[14] & 0xf0 | (id.get() >> 8) as u8;
            f[15] = id.get() as u8;
        } else {
            push(&mut f, id.get());
        }
    }
    if let Some(mac) = actions.set_ether_src {
        f[6..12].copy_from_slice(&mac.0);
    }
    if let Some(mac) = actions.set_ether_dst {
        f[..6].copy_from_slice(&mac.0);
    }
    let at = type_at(&f);
    match f[at..at + 2] {
        [8, 0] => network4(actions, &mut f[at + 2..])?,
        [0x86, 0xdd] => network6(actions, &mut f[at + 2..])?,
        _ => {}
    }
    Some(f)
}

fn ports(actions: &Actions, proto: u8, segment: &mut [u8]) {
    if !matches!(proto, 6 | 17) {
        return;
    }
    for (at, port) in [(0, actions.set_tp_src), (2, actions.set_tp_dst)] {
        if let Some(port) = port {
            segment[at..at + 2].copy_from_slice(&port.to_be_bytes());
        }
    }
}

fn network4(actions: &Actions, p: &mut [u8]) -> Option<()> {
    if actions.dec_ttl {
        if p[8] <= 1 {
            return None;
        }
        p[8] -= 1;
    }
    for (at, addr) in [(12, actions.set_ip_src), (16, actions.set_ip_dst)] {
        if let Some(IpAddr::V4(a)) = addr {
            p[at..at + 4].copy_from_slice(&a.octets());
        }
    }
    if let Some(tos) = actions.set_ip_tos {
        p[1] = tos;
    }
    let header = usize::from(p[0] & 15) * 4;
    let total = usize::from(u16::from_be_bytes([p[2], p[3]]));
    p[10..12].fill(0);
    let sum = checksum(&p[..header]);
    p[10..12].copy_from_slice(&sum.to_be_bytes());
    let [src, dst] = [12, 16].map(|at| <[u8; 4]>::try_from(&p[at..at + 4]).unwrap().into());
    let (proto, later) = (p[9], p[6] & 0x1f != 0 || p[7] != 0);
    if later {
        return Some(());
    }
    let segment = &mut p[header..total];
    ports(actions, proto, segment);
    // No checksum stays none.
    if proto != 58 && (proto != 17 || segment[6..8] != [0, 0]) {
        let pseudo = pseudo4(src, dst, proto, segment.len() as u16);
        fill(proto, segment, pseudo);
    }
    Some(())
}

fn network6(actions: &Actions, p: &mut [u8]) -> Option<()> {
    if actions.dec_ttl {
        if p[7] <= 1 {
            return None;
        }
        p[7] -= 1;
    }
    for (at, addr) in [(8, actions.set_ip_src), (24, actions.set_ip_dst)] {
        if let Some(IpAddr::V6(a)) = addr {
            p[at..at + 16].copy_from_slice(&a.octets());
        }
    }
    if let Some(tos) = actions.set_ip_tos {
        p[0] = 0x60 | tos >> 4;
        p[1] = tos << 4 | p[1] & 15;
    }
    let len = usize::from(u16::from_be_bytes([p[4], p[5]]));
    let [src, dst] = [8, 24].map(|at| <[u8; 16]>::try_from(&p[at..at + 16]).unwrap().into());
    let proto = p[6];
    let segment = &mut p[40..40 + len];
    ports(actions, proto, segment);
    if proto != 1 {
        let pseudo = pseudo6(src, dst, proto, segment.len() as u32);
        fill(proto, segment, pseudo);
    }
    Some(())
}
