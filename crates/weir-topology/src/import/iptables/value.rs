//! Values of matches: addresses, ports, flags, types.

use std::net::{IpAddr, Ipv4Addr};

use weir_filter::text::quote;
use weir_filter::{
    AddressOf, Cmp, Dir, Expr, Field, Layer, Prim, TCP_FLAGS, icmp_type, protocol_number, service_port,
};
use weir_model::value::IpPrefix;

use super::read::Mistake;

/// `tcp`, `6`, `all`.
pub(super) fn protocol(text: &str) -> Result<Option<u8>, Mistake> {
    let number = match text {
        "all" | "0" => return Ok(None),
        "ipv6-icmp" | "icmpv6" => Some(58),
        "ipencap" => Some(4),
        name => protocol_number(name).or_else(|| name.parse().ok()),
    };
    number.map(Some).ok_or_else(|| {
        (format!("{} is not a protocol", quote(text)), "write a name such as tcp, or a number".into())
    })
}

/// One range of ports, `80` or `1024:65535` with `separator` between; `:1023` and `1024:` too. Names of services are known.
pub(super) fn port_range(text: &str, separator: char) -> Result<(u16, u16), Mistake> {
    let port = |t: &str| t.parse().ok().filter(|_| !t.starts_with('+')).or_else(|| service_port(t));
    let range = match text.split_once(separator) {
        None => port(text).map(|p| (p, p)),
        Some(("", "")) => None,
        Some(("", hi)) => port(hi).map(|hi| (0, hi)),
        Some((lo, "")) => port(lo).map(|lo| (lo, u16::MAX)),
        Some((lo, hi)) => port(lo).zip(port(hi)),
    };
    // A service's name may hold the separator.
    let range = range.or_else(|| port(text).map(|p| (p, p)));
    range.filter(|(lo, hi)| lo <= hi).ok_or_else(|| {
        (
            format!("{} is not a port or range of ports", quote(text)),
            format!("write, for example, 80 or 1024{separator}65535"),
        )
    })
}

/// An address, a prefix, or an address with a mask, as a filter.
pub(super) fn address(text: &str, dir: Dir) -> Result<Expr, Mistake> {
    if let Some((addr, mask)) = text.split_once('/')
        && let (Ok(addr), Ok(mask)) = (addr.parse::<Ipv4Addr>(), mask.parse::<Ipv4Addr>())
    {
        return Ok(Prim::Net { of: AddressOf::Ip, dir, addr: addr & mask, mask }.into());
    }
    match text.split_once(',') {
        // `iptables-save` writes one address a rule; `iptables` takes lists.
        Some(_) => Err((format!("{} is a list of addresses", quote(text)), "write one rule for each".into())),
        None => {
            let prefix: IpPrefix = text.parse().map_err(|e: weir_model::ValueError| (e.message, e.help))?;
            Ok(of_prefix(prefix, dir))
        }
    }
}

fn of_prefix(prefix: IpPrefix, dir: Dir) -> Expr {
    match prefix.addr() {
        IpAddr::V4(addr) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(prefix.len())).unwrap_or(0).into();
            Prim::Net { of: AddressOf::Ip, dir, addr, mask }.into()
        }
        IpAddr::V6(addr) => Prim::Net6 { dir, addr, len: prefix.len() }.into(),
    }
}

/// `10.0.0.5-10.0.0.9` as the prefixes that it consists of.
pub(super) fn address_range(text: &str, dir: Dir) -> Result<Expr, Mistake> {
    let bad = || {
        (
            format!("{} is not a range of addresses", quote(text)),
            "write, for example, 10.0.0.5-10.0.0.9".to_string(),
        )
    };
    let (lo, hi) = text.split_once('-').ok_or_else(bad)?;
    let (Ok(lo), Ok(hi)) = (lo.parse::<IpAddr>(), hi.parse::<IpAddr>()) else { return Err(bad()) };
    let (bits, lo, hi) = match (lo, hi) {
        (IpAddr::V4(lo), IpAddr::V4(hi)) => (32, u128::from(u32::from(lo)), u128::from(u32::from(hi))),
        (IpAddr::V6(lo), IpAddr::V6(hi)) => (128_u32, u128::from(lo), u128::from(hi)),
        _ => return Err(bad()),
    };
    if lo > hi {
        return Err(bad());
    }
    let mut arms = Vec::new();
    let mut at = lo;
    loop {
        // The largest block that begins here and does not end behind the range.
        let mut free = at.trailing_zeros().min(bits);
        let last = |free: u32| at | 1_u128.checked_shl(free).map_or(u128::MAX, |size| size - 1);
        while last(free) > hi {
            free -= 1;
        }
        let addr = match bits {
            32 => IpAddr::V4(u32::try_from(at).unwrap_or(u32::MAX).into()),
            _ => IpAddr::V6(at.into()),
        };
        let prefix = IpPrefix::containing(addr, u8::try_from(bits - free).unwrap_or(u8::MAX))
            .map_err(|e| (e.message, e.help))?;
        arms.push(of_prefix(prefix, dir));
        match last(free).checked_add(1) {
            Some(next) if next <= hi => at = next,
            _ => return Ok(Expr::or(arms)),
        }
    }
}

/// `SYN,ACK`, `ALL`, `NONE`.
pub(super) fn flags(text: &str) -> Result<u8, Mistake> {
    match text {
        "ALL" => return Ok(0x3f),
        "NONE" => return Ok(0),
        _ => {}
    }
    text.split(',').try_fold(0, |mask, flag| {
        let lower = flag.to_ascii_lowercase();
        let bit = TCP_FLAGS.iter().take(6).position(|f| *f == lower);
        bit.map(|b| mask | 1 << b).ok_or_else(|| {
            (
                format!("{} is not a TCP flag", quote(flag)),
                "known here: FIN, SYN, RST, PSH, ACK, URG, ALL, NONE".to_string(),
            )
        })
    })
}

pub(super) fn tcp_flags(mask: u8, set: u8) -> Expr {
    if mask == 0 {
        return Prim::Proto { number: 6, version: None }.into();
    }
    let (mask, value) = (u32::from(mask), u32::from(set));
    Prim::Field(Field { layer: Layer::Proto(6), offset: 13, width: 1, mask, cmp: Cmp::Eq, value }).into()
}

/// `8`, `3/4`, `echo-request`, `any`.
pub(super) fn icmp(text: &str, layer: Layer) -> Result<Expr, Mistake> {
    let byte = |offset, value: u8| -> Expr {
        Prim::Field(Field { layer, offset, width: 1, mask: 0xff, cmp: Cmp::Eq, value: value.into() }).into()
    };
    if text == "any" {
        return Ok(Expr::True);
    }
    if let Some((kind, code)) = text.split_once('/')
        && let (Ok(kind), Ok(code)) = (kind.parse(), code.parse())
    {
        return Ok(Expr::and([byte(0, kind), byte(1, code)]));
    }
    let v4 = layer == Layer::Proto(1);
    let kind = text.parse().ok().or(match text {
        "echo-request" | "ping" => Some(if v4 { 8 } else { 128 }),
        "echo-reply" | "pong" => Some(if v4 { 0 } else { 129 }),
        "destination-unreachable" => Some(if v4 { 3 } else { 1 }),
        "time-exceeded" | "ttl-exceeded" => Some(if v4 { 11 } else { 3 }),
        "parameter-problem" => Some(if v4 { 12 } else { 4 }),
        "packet-too-big" if !v4 => Some(2),
        "router-solicitation" if !v4 => Some(133),
        "router-advertisement" if !v4 => Some(134),
        "neighbour-solicitation" | "neighbor-solicitation" if !v4 => Some(135),
        "neighbour-advertisement" | "neighbor-advertisement" if !v4 => Some(136),
        "source-quench" if v4 => Some(4),
        other if v4 => icmp_type(other),
        _ => None,
    });
    if let Some(kind) = kind {
        return Ok(byte(0, kind));
    }
    let code = match text {
        "network-unreachable" => 0,
        "host-unreachable" => 1,
        "protocol-unreachable" => 2,
        "port-unreachable" => 3,
        "fragmentation-needed" => 4,
        _ => {
            let help = "write a number such as 8 or 3/4, or a name such as echo-request";
            return Err((format!("{} is not an ICMP type", quote(text)), help.into()));
        }
    };
    if !v4 {
        return Err((
            format!("{} is not an ICMPv6 type", quote(text)),
            "write a number such as 128 or 1/4".into(),
        ));
    }
    Ok(Expr::and([byte(0, 3), byte(1, code)]))
}
