//! Actions as programs.

use std::net::IpAddr;

use weir_elements::build::{ether_bits, halves, store_ether, update_ip_checksum, update_transport_checksum};
use weir_elements::filter::Headers;
use weir_filter::TAG_TYPES;
use weir_ir::{Builder, Layer, Reason, V, Width};

use crate::rule::Action;

/// Carries out the actions of one rule and ends the packet.
pub(crate) fn apply(b: &mut Builder, actions: &[Action], headers: &Headers) {
    let last_output = actions.iter().rposition(|a| matches!(a, Action::Output(_)));
    let Some(last) = last_output else {
        return b.drop(Reason::DENIED);
    };
    for (i, action) in actions[..=last].iter().enumerate() {
        match *action {
            Action::Output(port) if i == last => b.emit(port),
            Action::Output(port) => b.fork(|b| b.emit(port)),
            Action::PopVlan => pop_vlan(b),
            Action::PushVlan(id) => push_vlan(b, id),
            Action::SetVlan(id) => set_vlan(b, id),
            Action::DecTtl => dec_ttl(b, headers),
            Action::SetEtherSrc(a) => set_ether(b, 6, ether_bits(a)),
            Action::SetEtherDst(a) => set_ether(b, 0, ether_bits(a)),
            Action::SetIpSrc(a) => set_address(b, headers, a, 12, 8),
            Action::SetIpDst(a) => set_address(b, headers, a, 16, 24),
            Action::SetTos(tos) => set_tos(b, headers, tos),
            Action::SetTpSrc(port) => set_port(b, headers, 0, port),
            Action::SetTpDst(port) => set_port(b, headers, 2, port),
        }
    }
}

/// Does `body` for frames with a VLAN tag (18 bytes known), `other` for the rest.
fn if_tagged(b: &mut Builder, body: impl Fn(&mut Builder), other: impl Fn(&mut Builder)) {
    b.if_has(
        Layer::Data,
        18,
        |b| {
            let kind = b.load(Width::W16, Layer::Data, 12);
            b.switch(
                kind,
                &TAG_TYPES.map(u128::from),
                |b, case| if case.is_some() { body(b) } else { other(b) },
            );
        },
        &other,
    );
}

fn pop_vlan(b: &mut Builder) {
    if_tagged(
        b,
        |b| {
            b.copy_bytes((Layer::Data, 4), (Layer::Data, 0), 12);
            b.pull(4);
            b.set_mark(Layer::Mac, Layer::Data, 0);
        },
        |_| {},
    );
}

fn push_vlan(b: &mut Builder, id: u16) {
    b.require(Layer::Data, 14, Reason::TRUNCATED);
    b.push(4);
    b.copy_bytes((Layer::Data, 0), (Layer::Data, 4), 12);
    b.store_const(Width::W32, Layer::Data, 12, 0x8100_0000 | u32::from(id));
    b.set_mark(Layer::Mac, Layer::Data, 0);
}

fn set_vlan(b: &mut Builder, id: u16) {
    if_tagged(
        b,
        |b| {
            let tci = b.load(Width::W16, Layer::Data, 14);
            let rest = b.and(tci, 0xf000);
            let tci = b.or(rest, id);
            b.store(Layer::Data, 14, tci);
        },
        |b| push_vlan(b, id),
    );
}

fn set_ether(b: &mut Builder, off: u32, addr: u64) {
    b.require(Layer::Data, 14, Reason::TRUNCATED);
    let addr = b.constant(Width::W64, addr);
    store_ether(b, Layer::Data, off, addr);
}

/// `v4` for IPv4 packets with 20 header bytes, `v6` for IPv6 packets with 40, nothing for others.
fn by_family(b: &mut Builder, headers: &Headers, v4: impl Fn(&mut Builder), v6: impl Fn(&mut Builder)) {
    let kind = headers.ether_type();
    b.switch(kind, &[0x0800, 0x86dd], |b, case| match case {
        Some(0) => b.if_has(Layer::Net, 20, &v4, |_| {}),
        Some(_) => b.if_has(Layer::Net, 40, &v6, |_| {}),
        None => {}
    });
}

fn dec_ttl(b: &mut Builder, headers: &Headers) {
    let expired = |b: &mut Builder, ttl: V| {
        let over = b.le(ttl, 1);
        b.when(over, |b| b.drop(Reason::TTL_EXPIRED));
    };
    by_family(
        b,
        headers,
        |b| {
            let ttl = b.load(Width::W8, Layer::Net, 8);
            expired(b, ttl);
            let old = b.load(Width::W16, Layer::Net, 8);
            let new = b.sub(old, 0x0100);
            b.store(Layer::Net, 8, new);
            update_ip_checksum(b, &[old], &[new]);
        },
        |b| {
            let limit = b.load(Width::W8, Layer::Net, 7);
            expired(b, limit);
            let limit = b.sub(limit, 1);
            b.store(Layer::Net, 7, limit);
        },
    );
}

fn set_tos(b: &mut Builder, headers: &Headers, tos: u8) {
    by_family(
        b,
        headers,
        |b| {
            let old = b.load(Width::W16, Layer::Net, 0);
            let rest = b.and(old, 0xff00);
            let new = b.or(rest, tos);
            b.store(Layer::Net, 0, new);
            update_ip_checksum(b, &[old], &[new]);
        },
        |b| {
            let old = b.load(Width::W16, Layer::Net, 0);
            let rest = b.and(old, 0xf00f);
            let new = b.or(rest, u16::from(tos) << 4);
            b.store(Layer::Net, 0, new);
        },
    );
}

/// Updates the checksum of a TCP or UDP header (or ICMPv6, whose checksum covers addresses too) if the packet has one.
fn update_transport(b: &mut Builder, headers: &Headers, v6: bool, pseudo: [&[V]; 2], own: [&[V]; 2]) {
    let proto = headers.protocol_number();
    let mut cases = vec![6, 17];
    if v6 && own[0].is_empty() {
        cases.push(58);
    }
    b.switch(proto, &cases, |b, case| {
        let Some(case) = case else { return };
        let off = [16, 6, 2][case];
        b.if_has(
            Layer::Cursor,
            off + 2,
            |b| {
                b.set_mark(Layer::Transport, Layer::Cursor, 0);
                update_transport_checksum(b, off, case == 1, pseudo, own);
            },
            |_| {},
        );
    });
}

fn set_address(b: &mut Builder, headers: &Headers, addr: IpAddr, off4: u32, off6: u32) {
    match addr {
        IpAddr::V4(addr) => by_family(
            b,
            headers,
            |b| {
                let old = b.load(Width::W32, Layer::Net, off4);
                let new = b.constant(Width::W32, u32::from(addr));
                b.store(Layer::Net, off4, new);
                let (old, new) = (halves(b, old), halves(b, new));
                update_ip_checksum(b, &old, &new);
                update_transport(b, headers, false, [&old, &new], [&[], &[]]);
            },
            |_| {},
        ),
        IpAddr::V6(addr) => by_family(
            b,
            headers,
            |_| {},
            |b| {
                let old: Vec<V> = (0..8).map(|i| b.load(Width::W16, Layer::Net, off6 + 2 * i)).collect();
                let new: Vec<V> = addr.segments().iter().map(|&s| b.constant(Width::W16, s)).collect();
                for (i, v) in new.iter().enumerate() {
                    b.store(Layer::Net, off6 + 2 * i as u32, *v);
                }
                update_transport(b, headers, true, [&old, &new], [&[], &[]]);
            },
        ),
    }
}

fn set_port(b: &mut Builder, headers: &Headers, off: u32, port: u16) {
    let proto = headers.protocol_number();
    b.switch(proto, &[6, 17], |b, case| {
        if case.is_none() {
            return;
        }
        b.if_has(
            Layer::Cursor,
            4,
            |b| {
                let old = b.load(Width::W16, Layer::Cursor, off);
                let new = b.constant(Width::W16, port);
                b.store(Layer::Cursor, off, new);
                update_transport(b, headers, false, [&[], &[]], [&[old], &[new]]);
            },
            |_| {},
        );
    });
}
