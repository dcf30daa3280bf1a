//! ICMP (RFC 792, 4443): echoes are answered, and what did not arrive is said.

use std::net::{IpAddr, SocketAddr};

use nix::errno::Errno;
use weir_net::{Headers, Ipv4, Ipv6, proto};
use weir_packet::Packet;

use super::wire::{self, Datagram};
use super::{Config, Outcome, Tuple};

/// A packet of ours that did not arrive.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unreachable {
    pub(super) protocol: u8,
    pub(super) tuple: Tuple,
    pub(super) error: Errno,
}

/// Answers an echo.
pub(super) fn echo(packet: &Packet, d: &Datagram, out: &mut Outcome) {
    let message = &packet.bytes()[d.transport..d.end];
    let reply = wire::ip(d.target, d.source, d.protocol, 64, message.len(), |bytes| {
        bytes.copy_from_slice(message);
        bytes[0] = if d.protocol == proto::ICMP { 0 } else { 129 };
        wire::sum_icmp(bytes, d.target, d.source);
    });
    out.send(d.source, reply);
}

/// Says that nobody is at a port (code 3 of type 3; of ICMPv6, 4 of 1).
pub(super) fn no_port(config: &Config, packet: &Packet, d: &Datagram, out: &mut Outcome) {
    let v4 = d.target.is_ipv4();
    // As much of the packet as fits into what every link takes.
    let most = if v4 { 576 - 28 } else { 1280 - 48 }.min(usize::from(config.mtu) - 48);
    let quoted = &packet.bytes()[wire::ETHERNET..d.end];
    let quoted = &quoted[..quoted.len().min(most)];
    let protocol = if v4 { proto::ICMP } else { proto::ICMPV6 };
    let reply = wire::ip(d.target, d.source, protocol, 64, 8 + quoted.len(), |bytes| {
        (bytes[0], bytes[1]) = if v4 { (3, 3) } else { (1, 4) };
        bytes[8..].copy_from_slice(quoted);
        wire::sum_icmp(bytes, d.target, d.source);
    });
    out.send(d.source, reply);
}

/// Reads a message that says that something did not arrive.
pub(super) fn unreachable(message: &[u8], protocol: u8) -> Option<Unreachable> {
    let (&kind, &code) = (message.first()?, message.get(1)?);
    let error = match (protocol, kind, code) {
        (proto::ICMP, 3, 2 | 3) | (proto::ICMPV6, 1, 4) => Errno::ECONNREFUSED,
        (proto::ICMP, 3, 0 | 1 | 5..=13) | (proto::ICMPV6, 1, 0..=3) => Errno::EHOSTUNREACH,
        _ => return None,
    };
    lost(message.get(8..)?, error)
}

/// The connection that a packet of ours, or the beginning of one, belongs to.
pub(super) fn lost(ip: &[u8], error: Errno) -> Option<Unreachable> {
    let headers = Headers::of_ip(ip, 0)?;
    let at = headers.transport?;
    let port = |at: usize| Some(u16::from_be_bytes([*ip.get(at)?, *ip.get(at + 1)?]));
    let (from, to): (IpAddr, IpAddr) = match ip.first()? >> 4 {
        4 => Ipv4::new(ip).ok().map(|v| (v.src().into(), v.dst().into()))?,
        _ => Ipv6::new(ip).ok().map(|v| (v.src().into(), v.dst().into()))?,
    };
    let tuple = Tuple { local: SocketAddr::new(from, port(at)?), remote: SocketAddr::new(to, port(at + 2)?) };
    Some(Unreachable { protocol: headers.protocol, tuple, error })
}
