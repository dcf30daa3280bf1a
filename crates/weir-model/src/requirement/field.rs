//! Header fields by name: what `invariant` can speak of.

use std::fmt;

use weir_filter::text::closest;
use weir_filter::{protocol_name, protocol_number};

use super::RequirementError;
use super::parse::Line;
use crate::error::quote;

/// A field of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HeaderField {
    /// Ethernet source address.
    EtherSrc,
    /// Ethernet destination address.
    EtherDst,
    /// EtherType, behind VLAN tags.
    EtherType,
    /// The outermost VLAN tag: whether there is one, and its identifier.
    Vlan,
    /// IP version.
    IpVersion,
    /// IPv4 header length.
    IpHeaderLen,
    /// IPv4 type of service, IPv6 traffic class.
    Tos,
    /// The upper six bits of the type of service.
    Dscp,
    /// The lower two bits of the type of service.
    Ecn,
    /// IPv4 total length, IPv6 payload length.
    IpLen,
    /// IPv4 identification.
    IpId,
    /// IPv4 fragment flags and offset.
    IpFrag,
    /// IPv4 time to live, IPv6 hop limit.
    Ttl,
    /// IPv4 protocol, IPv6 next header.
    Proto,
    /// IP source address.
    IpSrc,
    /// IP destination address.
    IpDst,
    /// Transport source port.
    SrcPort,
    /// Transport destination port.
    DstPort,
    /// TCP sequence number.
    TcpSeq,
    /// TCP acknowledgement number.
    TcpAck,
    /// TCP flags.
    TcpFlags,
    /// TCP window.
    TcpWindow,
    /// ICMP type.
    IcmpType,
    /// ICMP code.
    IcmpCode,
    /// All bytes behind the transport header; behind the IP header for protocols that have none known here.
    Payload,
}

/// A field that must keep its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeptField {
    /// Which field.
    pub field: HeaderField,
    /// Only of packets of this IP protocol (when they begin), as in `tcp payload`.
    pub proto: Option<u8>,
}

/// The header that a field lies in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FieldLayer {
    /// The Ethernet header.
    Ether,
    /// The IPv4 header.
    Ipv4,
    /// The IPv6 header.
    Ipv6,
    /// The transport header.
    Transport,
}

/// Where a field lies in its header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Bits {
    /// The header.
    pub layer: FieldLayer,
    /// First bit, the header's most significant bit being 0.
    pub offset: u16,
    /// Number of bits.
    pub width: u16,
}

use HeaderField as F;

/// Every field with its names, the canonical one first. Those of the filter language are among them.
const NAMES: &[(HeaderField, &[&str])] = &[
    (F::EtherSrc, &["ether src", "ether src host"]),
    (F::EtherDst, &["ether dst", "ether dst host"]),
    (F::EtherType, &["ether proto", "ether type", "ethertype"]),
    (F::Vlan, &["vlan", "vlan id"]),
    (F::IpVersion, &["ip vers", "vers"]),
    (F::IpHeaderLen, &["ip hl", "hl"]),
    (F::Tos, &["ip tos", "tos"]),
    (F::Dscp, &["ip dscp", "dscp"]),
    (F::Ecn, &["ip ecn", "ecn"]),
    (F::IpLen, &["ip len", "len"]),
    (F::IpId, &["ip id", "id"]),
    (F::IpFrag, &["ip frag", "frag"]),
    (F::Ttl, &["ip ttl", "ttl"]),
    (F::Proto, &["proto", "ip proto"]),
    (F::IpSrc, &["ip src", "ip src host", "src host", "src ip", "src"]),
    (F::IpDst, &["ip dst", "ip dst host", "dst host", "dst ip", "dst"]),
    (F::SrcPort, &["src port", "sport"]),
    (F::DstPort, &["dst port", "dport"]),
    (F::TcpSeq, &["tcp seq", "seq"]),
    (F::TcpAck, &["tcp ack"]),
    (F::TcpFlags, &["tcp flags", "tcp opt"]),
    (F::TcpWindow, &["tcp win", "win"]),
    (F::IcmpType, &["icmp type"]),
    (F::IcmpCode, &["icmp code"]),
    (F::Payload, &["payload", "data"]),
];

/// Protocols whose header begins with two ports: TCP, UDP, DCCP, SCTP, UDP-Lite.
const WITH_PORTS: [u8; 5] = [6, 17, 33, 132, 136];

impl HeaderField {
    /// All fields.
    pub fn all() -> impl Iterator<Item = HeaderField> {
        NAMES.iter().map(|(f, _)| *f)
    }

    /// The canonical name, such as `dst port`.
    pub fn name(self) -> &'static str {
        NAMES
            .iter()
            .find(|(f, _)| *f == self)
            .and_then(|(_, names)| names.first())
            .copied()
            .unwrap_or_default()
    }

    /// Where the field lies in packets with IPv4; `None` for the payload and the VLAN tag, which lie nowhere fixed.
    pub fn bits(self) -> Option<Bits> {
        use FieldLayer::{Ether, Ipv4, Transport};
        let (layer, offset, width) = match self {
            F::EtherDst => (Ether, 0, 48),
            F::EtherSrc => (Ether, 48, 48),
            F::EtherType => (Ether, 96, 16),
            F::IpVersion => (Ipv4, 0, 4),
            F::IpHeaderLen => (Ipv4, 4, 4),
            F::Tos => (Ipv4, 8, 8),
            F::Dscp => (Ipv4, 8, 6),
            F::Ecn => (Ipv4, 14, 2),
            F::IpLen => (Ipv4, 16, 16),
            F::IpId => (Ipv4, 32, 16),
            F::IpFrag => (Ipv4, 48, 16),
            F::Ttl => (Ipv4, 64, 8),
            F::Proto => (Ipv4, 72, 8),
            F::IpSrc => (Ipv4, 96, 32),
            F::IpDst => (Ipv4, 128, 32),
            F::SrcPort => (Transport, 0, 16),
            F::DstPort => (Transport, 16, 16),
            F::TcpSeq => (Transport, 32, 32),
            F::TcpAck => (Transport, 64, 32),
            F::TcpFlags => (Transport, 104, 8),
            F::TcpWindow => (Transport, 112, 16),
            F::IcmpType => (Transport, 0, 8),
            F::IcmpCode => (Transport, 8, 8),
            F::Vlan | F::Payload => return None,
        };
        Some(Bits { layer, offset, width })
    }

    /// Where the field lies in packets with IPv6; `None` also for fields that IPv6 does not have.
    pub fn bits_ipv6(self) -> Option<Bits> {
        let (offset, width) = match self {
            F::IpVersion => (0, 4),
            F::Tos => (4, 8),
            F::Dscp => (4, 6),
            F::Ecn => (10, 2),
            F::IpLen => (32, 16),
            F::Proto => (48, 8),
            F::Ttl => (56, 8),
            F::IpSrc => (64, 128),
            F::IpDst => (192, 128),
            F::IpHeaderLen | F::IpId | F::IpFrag => return None,
            other => return other.bits(),
        };
        Some(Bits { layer: FieldLayer::Ipv6, offset, width })
    }

    /// The IP protocol that alone has this field, if only one has.
    pub fn protocol(self) -> Option<u8> {
        match self {
            F::TcpSeq | F::TcpAck | F::TcpFlags | F::TcpWindow => Some(6),
            F::IcmpType | F::IcmpCode => Some(1),
            _ => None,
        }
    }
}

impl fmt::Display for HeaderField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for KeptField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(proto) = self.proto.and_then(protocol_name) {
            write!(f, "{proto} ")?;
        }
        self.field.fmt(f)
    }
}

/// Reads fields to the end of the line; `,`, `&&` and `and` may stand between them.
pub(super) fn fields(line: &mut Line<'_>) -> Result<Vec<KeptField>, RequirementError> {
    let mut fields = Vec::new();
    loop {
        while matches!(line.peek(), Some("," | "&&" | "and")) {
            line.take();
        }
        if line.peek().is_none() {
            break;
        }
        let field = field(line)?;
        if !fields.contains(&field) {
            fields.push(field);
        }
    }
    if fields.is_empty() {
        return Err(line.error("a field is missing", "write, for example, \"dst port, payload\""));
    }
    Ok(fields)
}

fn field(line: &mut Line<'_>) -> Result<KeptField, RequirementError> {
    if let Some(field) = named(line) {
        return Ok(KeptField { field, proto: None });
    }
    let word = line.peek().unwrap_or_default();
    let Some(number) = protocol_number(word) else {
        let known = NAMES.iter().flat_map(|(_, names)| names.iter().copied());
        let two = line.words(2);
        let help = match closest(&two, known.clone()).or_else(|| closest(word, known)) {
            Some(name) => format!("did you mean {name:?}?"),
            None => {
                let all: Vec<&str> = HeaderField::all().map(HeaderField::name).collect();
                format!("known here: {}", all.join(", "))
            }
        };
        return Err(line.error(format!("{} is not a header field", quote(word)), help));
    };
    let start = line.clone();
    line.take();
    match named(line) {
        Some(field @ F::Payload) => Ok(KeptField { field, proto: Some(number) }),
        Some(field @ (F::SrcPort | F::DstPort)) if WITH_PORTS.contains(&number) => {
            Ok(KeptField { field, proto: Some(number) })
        }
        _ => {
            let example = if WITH_PORTS.contains(&number) { "dst port" } else { "payload" };
            Err(start.error(
                format!("{word:?} is a protocol, not a header field"),
                format!("write a field of it, such as \"{word} {example}\""),
            ))
        }
    }
}

/// Takes the longest name of a field that begins here.
fn named(line: &mut Line<'_>) -> Option<HeaderField> {
    for count in [3, 2, 1] {
        let words = line.words(count).replace("dest", "dst");
        let found = NAMES.iter().find(|(_, names)| names.contains(&words.as_str()));
        if let Some((field, name)) = found.map(|(f, _)| (*f, words)) {
            for _ in name.split(' ') {
                line.take();
            }
            return Some(field);
        }
    }
    None
}
