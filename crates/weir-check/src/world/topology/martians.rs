//! What no router forwards (RFC 1812 sections 5.3.4, 5.3.5 and 5.3.7, RFC 4291): packets to broadcast addresses of its networks
//! and to groups, which come to itself, and those with addresses that do not go over a wire. As Linux does it, without
//! multicast routing; a route that is written for some groups is followed.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weir_ir::{Builder, Layer, Reason, V, Width};
use weir_model::value::IpPrefix;
use weir_topology::{InterfaceAddr, Router};

/// Why such packets are dropped.
pub(super) const MARTIAN: &str = "Martian";

/// IPv4 sources that are none: 127.0.0.0/8, groups, and the address of all.
const SOURCES: [(u32, u32); 3] =
    [(0x7f00_0000, 0x7fff_ffff), (0xe000_0000, 0xefff_ffff), (u32::MAX, u32::MAX)];

/// Prefixes of destinations that come to the router itself, and of those that end here.
pub(super) fn destinations(r: &Router) -> (Vec<IpPrefix>, Vec<IpPrefix>) {
    let prefix = |addr: IpAddr, len| IpPrefix::new(addr, len).ok();
    let v4 = |bits: u32, len| prefix(Ipv4Addr::from_bits(bits).into(), len);
    let mut own: Vec<IpPrefix> = [v4(u32::MAX, 32), v4(0xe000_0000, 4)].into_iter().flatten().collect();
    let networks = || r.interfaces.iter().flat_map(|i| &i.addresses).map(InterfaceAddr::network);
    // Who has no IPv6 address takes part in no IPv6.
    if networks().any(|n| n.addr().is_ipv6()) {
        own.extend(prefix(Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0).into(), 8));
    }
    for network in networks() {
        // In a network of two (RFC 3021), or of one, nobody is all of them.
        if let (IpAddr::V4(first), len @ 0..=30) = (network.addr(), network.len()) {
            let last = first.to_bits() | u32::MAX.checked_shr(len.into()).unwrap_or(0);
            own.extend([v4(first.to_bits(), 32), v4(last, 32)].into_iter().flatten());
        }
    }
    let ends = [v4(0, 8), v4(0x7f00_0000, 8), prefix(Ipv6Addr::LOCALHOST.into(), 128)];
    (own, ends.into_iter().flatten().collect())
}

/// Drops packets whose source no other host can have: one of those above, or an address of the router itself.
pub(super) fn require_source(b: &mut Builder, r: &Router) {
    b.require(Layer::Net, 1, Reason::TRUNCATED);
    let first = b.load(Width::W8, Layer::Net, 0);
    let version = b.shr(first, 4);
    let own = r.interfaces.iter().flat_map(|i| &i.addresses).map(|a| a.host().addr());
    let own: Vec<u32> = own
        .filter_map(|a| match a {
            IpAddr::V4(a) => Some(a.to_bits()),
            IpAddr::V6(_) => None,
        })
        .collect();
    b.switch(version, &[4, 6], |b, case| match case {
        Some(0) => {
            b.require(Layer::Net, 20, Reason::TRUNCATED);
            let src = b.load(Width::W32, Layer::Net, 12);
            let ranges = SOURCES.into_iter().chain(own.iter().map(|a| (*a, *a)));
            let bad = within(b, src, ranges);
            b.when(bad, |b| b.drop(Reason::new(MARTIAN)));
            // Who has no address yet asks all.
            let none = b.le(src, 0x00ff_ffff_u32);
            b.when(none, |b| {
                let dst = b.load(Width::W32, Layer::Net, 16);
                let all = b.eq(dst, u32::MAX);
                b.unless(all, |b| b.drop(Reason::new(MARTIAN)));
            });
        }
        Some(_) => {
            b.require(Layer::Net, 40, Reason::TRUNCATED);
            let src = b.load(Width::W128, Layer::Net, 8);
            let (group, itself) = (b.ge(src, 0xff_u128 << 120), b.eq(src, 1));
            let bad = b.or(group, itself);
            b.when(bad, |b| b.drop(Reason::new(MARTIAN)));
        }
        None => {}
    });
}

/// Whether a number is in one of these ranges (1 bit).
fn within(b: &mut Builder, v: V, ranges: impl Iterator<Item = (u32, u32)>) -> V {
    let mut any = b.constant(Width::W1, 0_u8);
    for (lo, hi) in ranges {
        let is = if lo == hi {
            b.eq(v, lo)
        } else {
            let (above, below) = (b.ge(v, lo), b.le(v, hi));
            b.and(above, below)
        };
        any = b.or(any, is);
    }
    any
}
