//! Matches and fields.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::Out;
use crate::matching::Match;
use crate::numbers::PortNo;
use crate::oxm::{Field, FieldValue, Form, Oxm};

/// Words that stand for a protocol: EtherType, IP protocol, word.
const PROTOCOLS: &[(u128, Option<u128>, &str)] = &[
    (0x800, Some(1), "icmp"),
    (0x800, Some(6), "tcp"),
    (0x800, Some(17), "udp"),
    (0x800, Some(132), "sctp"),
    (0x86dd, Some(58), "icmp6"),
    (0x86dd, Some(6), "tcp6"),
    (0x86dd, Some(17), "udp6"),
    (0x86dd, Some(132), "sctp6"),
    (0x800, None, "ip"),
    (0x86dd, None, "ipv6"),
    (0x806, None, "arp"),
    (0x8035, None, "rarp"),
    (0x8847, None, "mpls"),
    (0x8848, None, "mplsm"),
];

/// The order in which `ovs-ofctl` prints fields.
const ORDER: &[Field] = &[
    Field::TunnelId,
    Field::Metadata,
    Field::InPort,
    Field::InPhyPort,
    Field::VlanVid,
    Field::VlanPcp,
    Field::EthSrc,
    Field::EthDst,
    Field::EthType,
    Field::Ipv6Src,
    Field::Ipv6Dst,
    Field::Ipv6Flabel,
    Field::ArpSpa,
    Field::ArpTpa,
    Field::Ipv4Src,
    Field::Ipv4Dst,
    Field::ArpOp,
    Field::IpProto,
    Field::ArpSha,
    Field::ArpTha,
    Field::IpDscp,
    Field::IpEcn,
    Field::MplsLabel,
    Field::MplsTc,
    Field::MplsBos,
    Field::Icmpv4Type,
    Field::Icmpv4Code,
    Field::Icmpv6Type,
    Field::Icmpv6Code,
    Field::Ipv6NdTarget,
    Field::Ipv6NdSll,
    Field::Ipv6NdTll,
    Field::TcpSrc,
    Field::UdpSrc,
    Field::SctpSrc,
    Field::TcpDst,
    Field::UdpDst,
    Field::SctpDst,
    Field::PbbIsid,
    Field::Ipv6Exthdr,
];

impl fmt::Display for Match {
    fn fmt(&self, f: Out<'_, '_>) -> fmt::Result {
        let normal = self.normal();
        let exact = |field| normal.get(field).filter(|v| v.mask().is_none()).map(FieldValue::value);
        let (eth, proto) = (exact(Field::EthType), exact(Field::IpProto));
        let protocol = PROTOCOLS.iter().find(|(e, p, _)| Some(*e) == eth && (p.is_none() || *p == proto));
        let mut words = Vec::new();
        if let Some((_, known, word)) = protocol {
            words.push((*word).to_owned());
            let told = |v: &&FieldValue| {
                v.field() == Field::EthType || v.field() == Field::IpProto && known.is_some()
            };
            words.extend(ordered(&normal).filter(|v| !told(v)).map(match_word));
        } else {
            words.extend(ordered(&normal).map(match_word));
        }
        let others = normal.fields().iter().filter(|oxm| matches!(oxm, Oxm::Other(_)));
        words.extend(others.map(ToString::to_string));
        f.write_str(&words.join(","))
    }
}

/// The fields of the specification, in the order of printing; twice the same one as often as it is there.
fn ordered(matching: &Match) -> impl Iterator<Item = &FieldValue> {
    ORDER.iter().flat_map(move |field| matching.basic().filter(move |v| v.field() == *field))
}

fn match_word(v: &FieldValue) -> String {
    let name = v.field().match_name();
    match (v.field(), v.value(), v.mask()) {
        // With a tag: the VLAN alone. Without: 0.
        (Field::VlanVid, value @ 0x1000.., None) => format!("{name}={}", value & 0xfff),
        (Field::VlanVid, value, None) => format!("vlan_tci={value:#06x}/0x1fff"),
        (Field::VlanVid, value, Some(mask)) => format!("vlan_tci={value:#06x}/{mask:#06x}"),
        // In the place that it has in the header.
        (Field::IpDscp, value, None) => format!("{name}={}", value << 2),
        _ => format!("{name}={}", Shown(v)),
    }
}

/// A value with its mask.
struct Shown<'a>(&'a FieldValue);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: Out<'_, '_>) -> fmt::Result {
        let form = self.0.field().form();
        let Some(mask) = self.0.mask() else { return number(f, form, self.0.value()) };
        let form = if form == Form::Decimal { Form::Hex } else { form };
        number(f, form, self.0.value())?;
        f.write_str("/")?;
        let bits = self.0.field().bits();
        let ones = (mask << (128 - bits)).leading_ones();
        let prefix = ones == mask.count_ones();
        match form {
            Form::Ipv4 | Form::Ipv6 if prefix => write!(f, "{ones}"),
            _ => number(f, form, mask),
        }
    }
}

fn number(f: Out<'_, '_>, form: Form, value: u128) -> fmt::Result {
    match form {
        Form::Decimal => write!(f, "{value}"),
        Form::Hex if value == 0 => f.write_str("0"),
        Form::EtherType => write!(f, "0x{value:04x}"),
        Form::Label => write!(f, "0x{value:05x}"),
        Form::Hex => write!(f, "{value:#x}"),
        Form::Port => write!(f, "{}", PortNo(value as u32)),
        Form::Ether => {
            let b = value.to_be_bytes();
            let address: [u8; 6] = std::array::from_fn(|i| b[10 + i]);
            write!(f, "{}", weir_net::EtherAddr(address))
        }
        Form::Ipv4 => write!(f, "{}", Ipv4Addr::from(value as u32)),
        Form::Ipv6 => write!(f, "{}", Ipv6Addr::from(value)),
    }
}

impl Oxm {
    /// As an action that sets it.
    pub(super) fn set_text(&self, f: Out<'_, '_>) -> fmt::Result {
        match self {
            Oxm::Basic(v) => write!(f, "set_field:{}->{}", Shown(v), v.field().name()),
            Oxm::Other(_) => write!(f, "set_field:{self}"),
        }
    }
}

impl fmt::Display for Oxm {
    fn fmt(&self, f: Out<'_, '_>) -> fmt::Result {
        match self {
            Oxm::Basic(v) => f.write_str(&match_word(v)),
            Oxm::Other(o) => write!(f, "oxm({:#06x},{})=", o.class(), o.field())
                .and_then(|()| o.body().iter().try_for_each(|b| write!(f, "{b:02x}"))),
        }
    }
}
