//! Frames: what comes is read, and what goes is written.

use std::net::{IpAddr, Ipv4Addr};

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{IpProtocol, IpRepr, TcpPacket, TcpRepr};
use weir_net::{EtherAddr, Headers, Ipv4, checksum, ethertype, proto};
use weir_packet::{Checksum, Packet};

/// Bytes of an Ethernet header.
pub(super) const ETHERNET: usize = 14;

/// Where the parts of an IP packet in a frame are. The payload is whole and inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Datagram {
    pub(super) source: IpAddr,
    pub(super) target: IpAddr,
    pub(super) protocol: u8,
    /// Start of the transport header.
    pub(super) transport: usize,
    pub(super) end: usize,
}

/// Why a frame was thrown away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bad {
    /// Neither ARP nor IP, or cut, or with a wrong header checksum.
    Malformed,
    /// A part of a datagram.
    Fragment,
}

/// Reads the headers of a frame that holds an IP packet.
pub(super) fn datagram(frame: &[u8]) -> Result<Datagram, Bad> {
    let headers = Headers::of_ip(frame, ETHERNET).ok_or(Bad::Malformed)?;
    if headers.fragment {
        return Err(Bad::Fragment);
    }
    let transport = headers.transport.ok_or(Bad::Malformed)?;
    let (source, target): (IpAddr, IpAddr) = match frame[12..ETHERNET] {
        [8, 0] => {
            let ip = Ipv4::new(&frame[ETHERNET..]).map_err(|_| Bad::Malformed)?;
            let whole = ETHERNET + usize::from(ip.total_len()) <= frame.len();
            if !whole || !ip.checksum_ok() {
                return Err(Bad::Malformed);
            }
            (ip.src().into(), ip.dst().into())
        }
        [0x86, 0xdd] => {
            let ip = weir_net::Ipv6::new(&frame[ETHERNET..]).map_err(|_| Bad::Malformed)?;
            if ETHERNET + 40 + usize::from(ip.payload_len()) > frame.len() {
                return Err(Bad::Malformed);
            }
            (ip.src().into(), ip.dst().into())
        }
        _ => return Err(Bad::Malformed),
    };
    if transport > headers.end {
        return Err(Bad::Malformed);
    }
    Ok(Datagram { source, target, protocol: headers.protocol, transport, end: headers.end })
}

/// Whether the checksum of a transport protocol is right, or whoever had the packet before answers for it.
pub(super) fn is_intact(packet: &Packet, d: &Datagram) -> bool {
    if packet.checksum() != Checksum::Unknown {
        return true;
    }
    let payload = &packet.bytes()[d.transport..d.end];
    if d.protocol == proto::UDP && d.source.is_ipv4() && payload.get(6..8) == Some(&[0, 0]) {
        return true;
    }
    match (d.source, d.target, d.protocol) {
        (_, IpAddr::V4(_), proto::ICMP) => checksum::checksum(payload) == 0,
        (source, target, protocol) => {
            pseudo(source, target, protocol, payload.len()).add_bytes(payload).finish() == 0
        }
    }
}

fn pseudo(source: IpAddr, target: IpAddr, protocol: u8, len: usize) -> checksum::Sum {
    match (source, target) {
        (IpAddr::V4(s), IpAddr::V4(t)) => checksum::pseudo4(s, t, protocol, len as u16),
        (IpAddr::V6(s), IpAddr::V6(t)) => checksum::pseudo6(s, t, protocol, len as u32),
        // Headers of one packet are of one family.
        _ => checksum::Sum::default(),
    }
}

/// A frame of so many bytes, all 0.
pub(super) fn frame(len: usize) -> Option<Packet> {
    let mut packet = Packet::with_capacity(len).ok()?;
    packet.put(len as u32).ok()?;
    Some(packet)
}

/// What smoltcp sums, and what we: it the headers of IPv4 that it writes.
pub(super) fn checksums() -> ChecksumCapabilities {
    let mut caps = ChecksumCapabilities::ignored();
    caps.ipv4 = smoltcp::phy::Checksum::Tx;
    caps
}

/// An IP packet with so many bytes of payload, which `fill` writes, with space for its Ethernet header in front.
pub(super) fn ip(
    source: IpAddr,
    target: IpAddr,
    protocol: u8,
    hops: u8,
    payload: usize,
    fill: impl FnOnce(&mut [u8]),
) -> Option<Packet> {
    let header = IpRepr::new(source.into(), target.into(), IpProtocol::from(protocol), payload, hops);
    let mut packet = frame(ETHERNET + header.buffer_len())?;
    let bytes = &mut packet.bytes_mut()[ETHERNET..];
    header.emit(&mut *bytes, &checksums());
    fill(&mut bytes[header.header_len()..]);
    Some(packet)
}

/// A segment of TCP without data, with its checksum left to whoever sends it.
pub(super) fn segment(source: IpAddr, target: IpAddr, segment: &TcpRepr<'_>) -> Option<Packet> {
    let mut packet = ip(source, target, proto::TCP, 64, segment.buffer_len(), |bytes| {
        let mut tcp = TcpPacket::new_unchecked(bytes);
        segment.emit(&mut tcp, &source.into(), &target.into(), &ChecksumCapabilities::ignored());
    })?;
    partial(&mut packet, source, target, proto::TCP);
    Some(packet)
}

/// Leaves the checksum of TCP or UDP to whoever sends the packet.
pub(super) fn partial(packet: &mut Packet, source: IpAddr, target: IpAddr, protocol: u8) {
    let start = ETHERNET + if source.is_ipv4() { 20 } else { 40 };
    let offset = if protocol == proto::TCP { 16 } else { 6 };
    let sum = pseudo(source, target, protocol, packet.len() - start).fold();
    packet.bytes_mut()[start + offset..start + offset + 2].copy_from_slice(&sum.to_be_bytes());
    packet.csum = Checksum::Partial as u8;
    packet.csum_start = packet.data() + start as u32;
    packet.csum_offset = offset as u16;
}

/// Writes the checksum of ICMP into a payload.
pub(super) fn sum_icmp(bytes: &mut [u8], source: IpAddr, target: IpAddr) {
    bytes[2..4].fill(0);
    let sum = match source {
        IpAddr::V4(_) => checksum::Sum::default(),
        IpAddr::V6(_) => pseudo(source, target, proto::ICMPV6, bytes.len()),
    };
    let sum = sum.add_bytes(bytes).finish();
    bytes[2..4].copy_from_slice(&sum.to_be_bytes());
}

/// Writes the Ethernet header of a frame.
pub(super) fn address(packet: &mut Packet, to: EtherAddr, from: EtherAddr) {
    let bytes = packet.bytes_mut();
    bytes[..6].copy_from_slice(&to.octets());
    bytes[6..12].copy_from_slice(&from.octets());
    if bytes[12..14] == [0, 0] {
        let kind = if bytes[ETHERNET] >> 4 == 4 { ethertype::IPV4 } else { ethertype::IPV6 };
        bytes[12..14].copy_from_slice(&kind.to_be_bytes());
    }
}

/// The Ethernet address of a group of IPv6.
pub(super) fn group(target: std::net::Ipv6Addr) -> EtherAddr {
    let o = target.octets();
    EtherAddr([0x33, 0x33, o[12], o[13], o[14], o[15]])
}

/// Whether an address may be that of one host.
pub(super) fn is_host(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(a) => {
            !(a.is_unspecified() || a.is_multicast() || a == Ipv4Addr::BROADCAST || a.is_loopback())
        }
        IpAddr::V6(a) => !(a.is_unspecified() || a.is_multicast() || a.is_loopback()),
    }
}
