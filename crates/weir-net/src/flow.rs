//! Flow keys.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::{Headers, Icmp, Ipv4, Ipv6, Network, proto};

/// Addresses, ports and protocol of a packet. Ports are 0 where the protocol has none, or in fragments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowKey {
    /// Source address.
    pub src: IpAddr,
    /// Destination address.
    pub dst: IpAddr,
    /// Source port; the identifier of an ICMP echo message.
    pub src_port: u16,
    /// Destination port; the identifier of an ICMP echo message.
    pub dst_port: u16,
    /// IP protocol.
    pub protocol: u8,
}

impl FlowKey {
    /// The key of an Ethernet frame; `None` if it is not valid IP.
    pub fn of_frame(frame: &[u8]) -> Option<FlowKey> {
        FlowKey::from_headers(frame, &Headers::of_frame(frame)?)
    }

    /// The key of a packet that starts with its IP header; `None` if it is not valid.
    pub fn of_ip(packet: &[u8]) -> Option<FlowKey> {
        FlowKey::from_headers(packet, &Headers::of_ip(packet, 0)?)
    }

    fn from_headers(bytes: &[u8], h: &Headers) -> Option<FlowKey> {
        let net = bytes.get(h.net..)?;
        let (src, dst) = match h.network {
            Network::V4 => Ipv4::new(net).map(|ip| (IpAddr::V4(ip.src()), IpAddr::V4(ip.dst()))).ok()?,
            Network::V6 => Ipv6::new(net).map(|ip| (IpAddr::V6(ip.src()), IpAddr::V6(ip.dst()))).ok()?,
        };
        let segment = h.transport.filter(|_| !h.fragment).and_then(|at| bytes.get(at..h.end)).unwrap_or(&[]);
        let (src_port, dst_port) = match h.protocol {
            // TCP, UDP, DCCP, SCTP and UDP-Lite start with their two ports.
            proto::TCP | proto::UDP | 33 | 132 | 136 => match segment.first_chunk::<4>() {
                Some(&[a, b, c, d]) => (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])),
                None => (0, 0),
            },
            proto::ICMP | proto::ICMPV6 => match Icmp::new(segment) {
                Ok(icmp) if matches!(icmp.kind(), 0 | 8 | 128 | 129) => (icmp.echo_id(), icmp.echo_id()),
                _ => (0, 0),
            },
            _ => (0, 0),
        };
        Some(FlowKey { src, dst, src_port, dst_port, protocol: h.protocol })
    }

    /// The key of the answers.
    #[must_use]
    pub fn reverse(self) -> FlowKey {
        FlowKey {
            src: self.dst,
            dst: self.src,
            src_port: self.dst_port,
            dst_port: self.src_port,
            protocol: self.protocol,
        }
    }

    /// A hash that a flow and its [`reverse`](FlowKey::reverse) share; it depends on nothing but key and seed.
    pub fn symmetric_hash(&self, seed: u32) -> u32 {
        let (a, b) = ((self.src, self.src_port), (self.dst, self.dst_port));
        let (low, high) = if a <= b { (a, b) } else { (b, a) };
        let mut h = mix(u64::from(seed) << 8 | u64::from(self.protocol));
        for (addr, port) in [low, high] {
            let bits = match addr {
                IpAddr::V4(a) => u128::from(a.to_bits()),
                IpAddr::V6(a) => a.to_bits(),
            };
            h = mix(h ^ bits as u64);
            h = mix(h ^ (bits >> 64) as u64 ^ u64::from(port) << 48);
        }
        (h >> 32) as u32
    }
}

impl Default for FlowKey {
    fn default() -> FlowKey {
        let none = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        FlowKey { src: none, dst: none, src_port: 0, dst_port: 0, protocol: 0 }
    }
}

impl fmt::Display for FlowKey {
    /// `tcp 10.0.0.1:1234 > 10.0.0.2:80`; IPv6 addresses in brackets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.protocol {
            proto::TCP => write!(f, "tcp ")?,
            proto::UDP => write!(f, "udp ")?,
            proto::ICMP => write!(f, "icmp ")?,
            proto::ICMPV6 => write!(f, "icmp6 ")?,
            other => write!(f, "proto {other} ")?,
        }
        let end = |addr: IpAddr, port| match addr {
            IpAddr::V4(a) => format!("{a}:{port}"),
            IpAddr::V6(a) => format!("[{}]:{port}", Ipv6Addr::from(a.octets())),
        };
        write!(f, "{} > {}", end(self.src, self.src_port), end(self.dst, self.dst_port))
    }
}

/// The finaliser of MurmurHash3 (64 bits): every input bit reaches every output bit.
fn mix(mut h: u64) -> u64 {
    h = (h ^ h >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    h = (h ^ h >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    h ^ h >> 33
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build;
    use proptest::prelude::*;
    use std::collections::HashSet;

    const A: (Ipv4Addr, u16) = (Ipv4Addr::new(10, 0, 0, 1), 1000);
    const B: (Ipv4Addr, u16) = (Ipv4Addr::new(10, 0, 0, 2), 80);

    #[test]
    fn key_of_a_frame() {
        let key = FlowKey::of_frame(&build::udp4(A, B, b"x")).unwrap();
        assert_eq!(key.to_string(), "udp 10.0.0.1:1000 > 10.0.0.2:80");
        assert_eq!(key.reverse().to_string(), "udp 10.0.0.2:80 > 10.0.0.1:1000");
        let echo = FlowKey::of_frame(&build::icmp_echo(A.0, B.0, 7, 1, b"")).unwrap();
        assert_eq!((echo.src_port, echo.dst_port), (7, 7));
        assert_eq!(FlowKey::of_frame(&[0; 60]), None);
    }

    #[test]
    fn a_fragment_has_no_ports() {
        let mut frame = build::udp4(A, B, &[0; 100]);
        Ipv4::new(&mut frame[14..]).unwrap().set_fragment_field(0x2000);
        let key = FlowKey::of_frame(&frame).unwrap();
        assert_eq!((key.src_port, key.dst_port, key.protocol), (0, 0, 17));
    }

    #[test]
    fn neighbouring_flows_spread() {
        let hashes: HashSet<u32> = (0..4096u16)
            .map(|p| FlowKey { src_port: p, ..FlowKey::default() }.symmetric_hash(0) % 64)
            .collect();
        assert_eq!(hashes.len(), 64);
    }

    proptest! {
        #[test]
        fn both_directions_hash_alike(src: u32, dst: u32, ports: (u16, u16), protocol: u8, seed: u32) {
            let key = FlowKey {
                src: Ipv4Addr::from(src).into(),
                dst: Ipv4Addr::from(dst).into(),
                src_port: ports.0,
                dst_port: ports.1,
                protocol,
            };
            prop_assert_eq!(key.symmetric_hash(seed), key.reverse().symmetric_hash(seed));
            prop_assert_eq!(key.reverse().reverse(), key);
        }
    }
}
