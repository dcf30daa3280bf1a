//! Frames for tests, traces and tools, with all lengths and checksums filled in.
//!
//! The functions give Ethernet frames from [`SRC_ETHER`] to [`DST_ETHER`]; change fields by the views of this crate
//! (`Ethernet::new(&mut frame[..])?.set_dst(..)`). Payloads that do not fit the 16-bit length fields are cut.

use std::net::Ipv4Addr;

use crate::checksum::Sum;
use crate::{EtherAddr, checksum, ethertype, proto};

/// Source address of built frames.
pub const SRC_ETHER: EtherAddr = EtherAddr([2, 0, 0, 0, 0, 1]);
/// Destination address of built frames.
pub const DST_ETHER: EtherAddr = EtherAddr([2, 0, 0, 0, 0, 2]);

/// Header fields of a TCP segment beside ports and checksum.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TcpFields {
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgement number.
    pub ack: u32,
    /// Flags, as in [`Tcp::flags`](crate::Tcp::flags).
    pub flags: u8,
    /// Window.
    pub window: u16,
}

/// An Ethernet frame around a payload.
pub fn ethernet(dst: EtherAddr, src: EtherAddr, ethertype: u16, payload: &[u8]) -> Vec<u8> {
    [&dst.octets()[..], &src.octets(), &ethertype.to_be_bytes(), payload].concat()
}

/// An IPv4 packet (no Ethernet header) with TTL 64 around a payload.
pub fn ipv4(src: Ipv4Addr, dst: Ipv4Addr, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let payload = &payload[..payload.len().min(usize::from(u16::MAX) - 20)];
    let total = (20 + payload.len()) as u16;
    let mut header = [0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    header[2..4].copy_from_slice(&total.to_be_bytes());
    header[12..16].copy_from_slice(&src.octets());
    header[16..20].copy_from_slice(&dst.octets());
    let sum = checksum::checksum(&header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    [&header, payload].concat()
}

/// A UDP datagram in an Ethernet frame.
pub fn udp4(src: (Ipv4Addr, u16), dst: (Ipv4Addr, u16), payload: &[u8]) -> Vec<u8> {
    let payload = &payload[..payload.len().min(usize::from(u16::MAX) - 28)];
    let length = (8 + payload.len()) as u16;
    let mut segment = Vec::with_capacity(length.into());
    for word in [src.1, dst.1, length, 0] {
        segment.extend(word.to_be_bytes());
    }
    segment.extend(payload);
    let sum = checksum::pseudo4(src.0, dst.0, proto::UDP, length).add_bytes(&segment).finish();
    // Zero would say "no checksum" (RFC 768).
    let sum = if sum == 0 { 0xffff } else { sum };
    segment[6..8].copy_from_slice(&sum.to_be_bytes());
    frame4(src.0, dst.0, proto::UDP, &segment)
}

/// A TCP segment without options in an Ethernet frame.
pub fn tcp4(src: (Ipv4Addr, u16), dst: (Ipv4Addr, u16), fields: TcpFields, payload: &[u8]) -> Vec<u8> {
    let payload = &payload[..payload.len().min(usize::from(u16::MAX) - 40)];
    let mut segment = Vec::with_capacity(20 + payload.len());
    segment.extend(src.1.to_be_bytes());
    segment.extend(dst.1.to_be_bytes());
    segment.extend(fields.seq.to_be_bytes());
    segment.extend(fields.ack.to_be_bytes());
    segment.extend([5 << 4, fields.flags]);
    segment.extend(fields.window.to_be_bytes());
    segment.extend([0; 4]);
    segment.extend(payload);
    let sum = checksum::pseudo4(src.0, dst.0, proto::TCP, segment.len() as u16).add_bytes(&segment).finish();
    segment[16..18].copy_from_slice(&sum.to_be_bytes());
    frame4(src.0, dst.0, proto::TCP, &segment)
}

/// An ICMP echo request in an Ethernet frame.
pub fn icmp_echo(src: Ipv4Addr, dst: Ipv4Addr, id: u16, seq: u16, payload: &[u8]) -> Vec<u8> {
    let mut message = vec![8, 0, 0, 0];
    message.extend(id.to_be_bytes());
    message.extend(seq.to_be_bytes());
    message.extend(&payload[..payload.len().min(usize::from(u16::MAX) - 28)]);
    let sum = Sum::default().add_bytes(&message).finish();
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    frame4(src, dst, proto::ICMP, &message)
}

/// An ARP packet in an Ethernet frame: a broadcast request if `operation` is 1, else a reply to the target.
pub fn arp(operation: u16, sender: (EtherAddr, Ipv4Addr), target: (EtherAddr, Ipv4Addr)) -> Vec<u8> {
    let mut body = vec![0, 1, 8, 0, 6, 4];
    body.extend(operation.to_be_bytes());
    for (ether, ip) in [sender, target] {
        body.extend(ether.octets());
        body.extend(ip.octets());
    }
    let dst = if operation == 1 { EtherAddr::BROADCAST } else { target.0 };
    ethernet(dst, sender.0, ethertype::ARP, &body)
}

/// Inserts an 802.1Q tag behind the addresses of a frame; frames shorter than that stay as they are.
pub fn tag_vlan(frame: &mut Vec<u8>, tci: u16) {
    if frame.len() >= 12 {
        let [t0, t1] = ethertype::VLAN.to_be_bytes();
        let [c0, c1] = tci.to_be_bytes();
        frame.splice(12..12, [t0, t1, c0, c1]);
    }
}

fn frame4(src: Ipv4Addr, dst: Ipv4Addr, protocol: u8, segment: &[u8]) -> Vec<u8> {
    ethernet(DST_ETHER, SRC_ETHER, ethertype::IPV4, &ipv4(src, dst, protocol, segment))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Arp, Ipv4, Tcp};
    use etherparse::PacketBuilder;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn frames_equal_those_of_etherparse(
            src: u32, dst: u32, ports: (u16, u16), seq: u32, ack: u32, window: u16,
            payload in proptest::collection::vec(any::<u8>(), 0..100),
        ) {
            let (src, dst) = (Ipv4Addr::from(src), Ipv4Addr::from(dst));
            let start = || PacketBuilder::ethernet2(SRC_ETHER.octets(), DST_ETHER.octets())
                .ip(etherparse::IpHeaders::Ipv4(
                    etherparse::Ipv4Header {
                        dont_fragment: false,
                        time_to_live: 64,
                        source: src.octets(),
                        destination: dst.octets(),
                        ..Default::default()
                    },
                    etherparse::Ipv4Extensions::default(),
                ));
            let mut want = Vec::new();
            start().udp(ports.0, ports.1).write(&mut want, &payload).unwrap();
            prop_assert_eq!(udp4((src, ports.0), (dst, ports.1), &payload), want);
            let mut want = Vec::new();
            start().tcp(ports.0, ports.1, seq, window).ack(ack).psh().write(&mut want, &payload).unwrap();
            let fields = TcpFields { seq, ack, window, flags: Tcp::ACK | Tcp::PSH };
            prop_assert_eq!(tcp4((src, ports.0), (dst, ports.1), fields, &payload), want);
            let mut want = Vec::new();
            start().icmpv4_echo_request(ports.0, ports.1).write(&mut want, &payload).unwrap();
            prop_assert_eq!(icmp_echo(src, dst, ports.0, ports.1, &payload), want);
        }
    }

    #[test]
    fn arp_request_is_broadcast() {
        let frame = arp(1, (SRC_ETHER, [10, 0, 0, 1].into()), (EtherAddr::default(), [10, 0, 0, 2].into()));
        assert_eq!(frame[..6], [0xff; 6]);
        let view = Arp::new(&frame[14..]).unwrap();
        assert_eq!((view.operation(), view.target_ip()), (1, Ipv4Addr::new(10, 0, 0, 2)));
        assert_eq!(view.sender_ether(), SRC_ETHER);
    }

    #[test]
    fn the_largest_payload_is_kept_to_the_length_field() {
        let frame = udp4(([10, 0, 0, 1].into(), 1), ([10, 0, 0, 2].into(), 2), &vec![0; 70_000]);
        assert_eq!(frame.len(), 14 + 65_535);
        assert!(Ipv4::new(&frame[14..]).unwrap().checksum_ok());
    }
}
