//! IPv6 (RFC 8200): checks, routing, addresses, errors, and the discovery of neighbours.

use crate::class::{Class, class};

mod address;
mod chain;
mod check_ip6_header;
mod dec_ip6_hlim;
mod get_ip6_address;
mod icmp6;
mod icmp6_error;
mod icmp6_ping_responder;
mod ip6_mirror;
mod ip6_nd_advertiser;
mod ip6_nd_solicitor;
mod ip6_print;
mod lookup_ip6_route;
mod mark_ip6_header;
mod neighbour;
mod set_ip6_address;
mod set_ip6_dscp;

pub(crate) const CLASSES: &[Class] = &[
    class::<check_ip6_header::CheckIP6Header>("ip6"),
    class::<dec_ip6_hlim::DecIP6HLIM>("ip6"),
    class::<get_ip6_address::GetIP6Address>("ip6"),
    class::<icmp6_error::ICMP6Error>("ip6"),
    class::<icmp6_ping_responder::ICMP6PingResponder>("ip6"),
    class::<ip6_mirror::IP6Mirror>("ip6"),
    class::<ip6_nd_advertiser::IP6NDAdvertiser>("ip6"),
    class::<ip6_nd_solicitor::IP6NDSolicitor>("ip6"),
    class::<ip6_print::IP6Print>("ip6"),
    class::<lookup_ip6_route::LookupIP6Route>("ip6"),
    class::<mark_ip6_header::MarkIP6Header>("ip6"),
    class::<set_ip6_address::SetIP6Address>("ip6"),
    class::<set_ip6_dscp::SetIP6DSCP>("ip6"),
];

/// Packets for the tests of the family.
#[cfg(test)]
pub(crate) mod samples {
    use std::net::Ipv6Addr;

    use weir_net::checksum::pseudo6;
    use weir_packet::{Layer, Packet};

    use crate::testing::{Harness, Outcome};

    /// An address in a network of documentation.
    pub(crate) fn addr(n: u16) -> Ipv6Addr {
        Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, n)
    }

    /// A packet with this next header, and hop limit 64.
    pub(crate) fn packet(src: Ipv6Addr, dst: Ipv6Addr, next: u8, payload: &[u8]) -> Vec<u8> {
        let mut p = vec![0x60, 0, 0, 0];
        p.extend((payload.len() as u16).to_be_bytes());
        p.extend([next, 64]);
        p.extend(src.octets());
        p.extend(dst.octets());
        p.extend(payload);
        p
    }

    /// A UDP packet from port 1 to port 2, without checksum.
    pub(crate) fn udp(payload: &[u8]) -> Vec<u8> {
        let mut datagram = vec![0, 1, 0, 2, 0, 8 + payload.len() as u8, 0, 0];
        datagram.extend(payload);
        packet(addr(1), addr(2), 17, &datagram)
    }

    /// An ICMPv6 packet with a right checksum.
    pub(crate) fn icmp(src: Ipv6Addr, dst: Ipv6Addr, message: &[u8]) -> Vec<u8> {
        let mut message = message.to_vec();
        message[2..4].fill(0);
        let sum = pseudo6(src, dst, 58, message.len() as u32).add_bytes(&message).finish();
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        packet(src, dst, 58, &message)
    }

    /// Whether the checksum of an ICMPv6 packet without extension headers is right.
    pub(crate) fn icmp_ok(p: &[u8]) -> bool {
        let ip = weir_net::Ipv6::new(p).unwrap();
        pseudo6(ip.src(), ip.dst(), 58, ip.payload().len() as u32).add_bytes(ip.payload()).fold() == 0xffff
    }

    /// The packet as it is behind `MarkIP6Header`.
    pub(crate) fn marked(bytes: &[u8]) -> Packet {
        let mut p = Packet::from_bytes(bytes).unwrap();
        let start = p.data();
        p.set_layer(Layer::Net, Some(start));
        p
    }

    /// What becomes of a packet with a `net` mark.
    pub(crate) fn sent(e: &mut Harness, bytes: &[u8]) -> Vec<Outcome> {
        e.send_packet(0, marked(bytes))
    }
}
