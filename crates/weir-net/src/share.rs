//! Ports of an address that several have: whose a packet is.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{EtherAddr, ethertype, proto};

/// The protocols that a share of an address has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocols {
    /// TCP and UDP, and of ICMP the echoes that it sends with an identifier of its ports.
    #[default]
    All,
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

impl Protocols {
    /// The numbers of IP protocols.
    pub fn numbers(self) -> &'static [u8] {
        match self {
            Protocols::All => &[proto::ICMP, proto::TCP, proto::UDP],
            Protocols::Tcp => &[proto::TCP],
            Protocols::Udp => &[proto::UDP],
        }
    }
}

impl FromStr for Protocols {
    type Err = NoPortShare;
    fn from_str(text: &str) -> Result<Protocols, NoPortShare> {
        match text {
            "all" => Ok(Protocols::All),
            "tcp" => Ok(Protocols::Tcp),
            "udp" => Ok(Protocols::Udp),
            _ => Err(NoPortShare),
        }
    }
}

impl fmt::Display for Protocols {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Protocols::All => "all",
            Protocols::Tcp => "tcp",
            Protocols::Udp => "udp",
        })
    }
}

/// Some ports of an address, of which others have the other ports. Its text is `10.0.0.9:20000-20015`, with `/tcp` or `/udp` behind it
/// if it has one protocol only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PortShare {
    address: Ipv4Addr,
    first: u16,
    last: u16,
    protocols: Protocols,
}

/// No share is written so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "that is no address with ports: write one such as 10.0.0.9:20000-20015, 10.0.0.9:20000-20015/udp or 10.0.0.9:443/tcp"
)]
pub struct NoPortShare;

impl PortShare {
    /// Ports from `first` to `last`; nothing if there are none, or the address is none of a host.
    pub fn new(address: Ipv4Addr, protocols: Protocols, first: u16, last: u16) -> Option<PortShare> {
        let host = !(address.is_unspecified() || address.is_multicast() || address.is_broadcast());
        (host && first > 0 && first <= last).then_some(PortShare { address, first, last, protocols })
    }

    /// The address.
    pub fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// The first and the last port.
    pub fn ports(&self) -> (u16, u16) {
        (self.first, self.last)
    }

    /// The protocols.
    pub fn protocols(&self) -> Protocols {
        self.protocols
    }

    /// Whether a packet could be of both.
    pub fn overlaps(&self, other: &PortShare) -> bool {
        let apart = self.protocols != other.protocols
            && self.protocols != Protocols::All
            && other.protocols != Protocols::All;
        self.address == other.address && self.first <= other.last && other.first <= self.last && !apart
    }

    /// The Ethernet address that it sends from, by which answers of ARP are told apart: no other share of the address has it.
    pub fn mac(&self) -> EtherAddr {
        let [_, b, c, d] = self.address.octets();
        let [high, low] = self.first.to_be_bytes();
        let kind = match self.protocols {
            Protocols::All => 0x12,
            Protocols::Tcp => 0x16,
            Protocols::Udp => 0x1a,
        };
        EtherAddr([kind, b, c, d, high, low])
    }
}

/// The Ethernet address of an IPv4 address that a module has, or several share.
pub fn module_mac(address: Ipv4Addr) -> EtherAddr {
    let [a, b, c, d] = address.octets();
    EtherAddr([0x02, 0xc4, a, b, c, d])
}

impl fmt::Display for PortShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PortShare { address, first, last, protocols } = self;
        write!(f, "{address}:{first}-{last}")?;
        if *protocols == Protocols::All { Ok(()) } else { write!(f, "/{protocols}") }
    }
}

impl FromStr for PortShare {
    type Err = NoPortShare;
    fn from_str(text: &str) -> Result<PortShare, NoPortShare> {
        let (text, protocols) = match text.split_once('/') {
            Some((text, word @ ("tcp" | "udp"))) => (text, word.parse()?),
            Some(_) => return Err(NoPortShare),
            None => (text, Protocols::All),
        };
        let (address, ports) = text.split_once(':').ok_or(NoPortShare)?;
        let (first, last) = ports.split_once('-').unwrap_or((ports, ports));
        let number = |t: &str| t.parse::<u16>().map_err(|_| NoPortShare);
        let address = address.parse().map_err(|_| NoPortShare)?;
        PortShare::new(address, protocols, number(first)?, number(last)?).ok_or(NoPortShare)
    }
}

impl TryFrom<String> for PortShare {
    type Error = NoPortShare;
    fn try_from(text: String) -> Result<PortShare, NoPortShare> {
        text.parse()
    }
}

impl From<PortShare> for String {
    fn from(share: PortShare) -> String {
        share.to_string()
    }
}

/// What a frame wants that comes for an address of which several have ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// A port of a protocol; of ICMP, the identifier of an echo.
    Port(u8, u16),
    /// To know who has the address, by ARP.
    Who,
    /// Whoever has this Ethernet address, with an answer of ARP.
    Answer(EtherAddr),
    /// It is a part of a packet: nobody knows of which port.
    Fragment,
    /// Nothing that a share has.
    Nothing,
}

/// An ICMP message about a packet has that packet's header behind its own.
const QUOTE: usize = 8;

/// The address that a frame without a tag is for, and what it wants there; nothing if it is neither of IPv4 nor of ARP.
pub fn wanted(frame: &[u8]) -> Option<(Ipv4Addr, Wanted)> {
    let address = |bytes: &[u8], at: usize| {
        Some(Ipv4Addr::new(*bytes.get(at)?, *bytes.get(at + 1)?, *bytes.get(at + 2)?, *bytes.get(at + 3)?))
    };
    let kind = word(frame, 12)?;
    if kind == ethertype::ARP {
        let wanted = match word(frame, 20)? {
            1 => Wanted::Who,
            2 => Wanted::Answer(EtherAddr(frame.get(..6)?.try_into().ok()?)),
            _ => Wanted::Nothing,
        };
        return Some((address(frame, 38)?, wanted));
    }
    if kind != ethertype::IPV4 {
        return None;
    }
    let ip = frame.get(14..)?;
    Some((address(ip, 16)?, port(ip).unwrap_or(Wanted::Nothing)))
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

/// What an IPv4 packet to a shared address wants; nothing if it is too short to say.
fn port(ip: &[u8]) -> Option<Wanted> {
    if word(ip, 6)? & 0x3fff != 0 {
        return Some(Wanted::Fragment);
    }
    let payload = ip.get(usize::from(ip.first()? & 0x0f) * 4..)?;
    let protocol = *ip.get(9)?;
    match protocol {
        proto::TCP | proto::UDP => Some(Wanted::Port(protocol, word(payload, 2)?)),
        proto::ICMP => match payload.first()? {
            0 => Some(Wanted::Port(proto::ICMP, word(payload, 4)?)),
            // About a packet that a share sent, which has it as its source.
            3 | 11 | 12 => {
                let quoted = payload.get(QUOTE..)?;
                let inner = quoted.get(20..)?;
                let plain =
                    quoted[0] == 0x45 && word(quoted, 6)? & 0x1fff == 0 && quoted[12..16] == ip[16..20];
                match quoted[9] {
                    proto::TCP | proto::UDP if plain => Some(Wanted::Port(quoted[9], word(inner, 0)?)),
                    proto::ICMP if plain && inner.first() == Some(&8) => {
                        Some(Wanted::Port(proto::ICMP, word(inner, 4)?))
                    }
                    _ => None,
                }
            }
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build;
    use proptest::prelude::*;

    #[test]
    fn a_share_is_its_text() {
        for text in ["10.0.0.9:20000-20015", "10.0.0.9:1-65535/udp", "10.0.0.9:443-443/tcp"] {
            assert_eq!(text.parse::<PortShare>().unwrap().to_string(), text);
        }
        assert_eq!("10.0.0.9:443".parse::<PortShare>().unwrap().ports(), (443, 443));
        for text in [
            "10.0.0.9",
            "10.0.0.9:0-5",
            "10.0.0.9:9-5",
            "10.0.0.9:5-9/sctp",
            "224.0.0.1:5",
            "10.0.0.9:5-70000",
            "x:5",
        ] {
            text.parse::<PortShare>().unwrap_err();
        }
    }

    #[test]
    fn shares_of_one_protocol_each_lie_beside_each_other() {
        let share = |t: &str| t.parse::<PortShare>().unwrap();
        let all = share("10.0.0.9:100-199");
        for (text, is) in [
            ("10.0.0.9:199-300", true),
            ("10.0.0.9:200-300", false),
            ("10.0.0.9:150-150/tcp", true),
            ("10.0.0.8:150-150", false),
        ] {
            assert_eq!((all.overlaps(&share(text)), share(text).overlaps(&all)), (is, is), "{text}");
        }
        assert!(!share("10.0.0.9:1-9/tcp").overlaps(&share("10.0.0.9:1-9/udp")));
        assert_ne!(share("10.0.0.9:1-9/tcp").mac(), share("10.0.0.9:1-9/udp").mac());
    }

    const SHARED: [u8; 4] = [10, 0, 0, 9];
    const HOST: [u8; 4] = [192, 0, 2, 1];

    fn of(frame: &[u8]) -> Wanted {
        wanted(frame).map_or(Wanted::Nothing, |(_, wanted)| wanted)
    }

    #[test]
    fn errors_are_for_who_sent_what_they_are_about() {
        let sent = build::udp4((SHARED.into(), 20_001), (HOST.into(), 53), b"question");
        let error = |kind: u8, quoted: &[u8]| {
            let body = [&[kind, 3, 0, 0, 0, 0, 0, 0][..], quoted].concat();
            build::ipv4(HOST.into(), SHARED.into(), proto::ICMP, &body)
        };
        let framed = |ip: Vec<u8>| [&[0; 12][..], &[8, 0], &ip].concat();
        assert_eq!(of(&framed(error(3, &sent[14..]))), Wanted::Port(proto::UDP, 20_001));
        assert_eq!(of(&framed(error(5, &sent[14..]))), Wanted::Nothing, "a redirection");
        let of_another = build::udp4(([10, 0, 0, 8].into(), 20_001), (HOST.into(), 53), b"question");
        assert_eq!(of(&framed(error(3, &of_another[14..]))), Wanted::Nothing);
        let mut fragment = sent.clone();
        fragment[14 + 7] = 1;
        assert_eq!(of(&framed(error(3, &fragment[14..]))), Wanted::Nothing);
        let to = build::udp4((HOST.into(), 53), (SHARED.into(), 20_001), b"answer");
        assert_eq!(of(&to), Wanted::Port(proto::UDP, 20_001));
        let mut fragment = to.clone();
        fragment[14 + 6] = 0x20;
        assert_eq!(of(&fragment), Wanted::Fragment, "also the first");
    }

    proptest! {
        #[test]
        fn any_frame_is_read(bytes in proptest::collection::vec(any::<u8>(), 0..90), kind in 0_usize..3) {
            let mut bytes = bytes;
            if bytes.len() > 14 {
                let kind = [[8, 0], [8, 6], [0x86, 0xdd]][kind];
                bytes[12..14].copy_from_slice(&kind);
            }
            wanted(&bytes);
        }
    }
}
