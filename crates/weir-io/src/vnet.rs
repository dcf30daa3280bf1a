//! The virtio-net header that the kernel puts before each frame of packet sockets (`PACKET_VNET_HDR`) and virtual
//! interfaces (`IFF_VNET_HDR`); virtio 1.2 section 5.1.6.

use weir_net::{Tcp, ethertype, proto};
use weir_packet::{Checksum, Gso, Packet};

use crate::offload::{self, OffloadError};

/// Length of the header in bytes.
pub const LEN: usize = 10;

const NEEDS_CSUM: u8 = 1;
const DATA_VALID: u8 = 2;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
/// UDP datagrams of equal size. Type 3, which is IP fragmentation, does not reach packet sockets.
const GSO_UDP_L4: u8 = 5;
/// The segments but the first lose the CWR flag (RFC 3168 6.1.2).
const GSO_ECN: u8 = 0x80;

/// Puts what the header says into the metadata of a packet that was received with it.
///
/// # Errors
/// If the header names a place outside the packet or an unknown type.
pub fn decode(header: [u8; LEN], packet: &mut Packet) -> Result<(), OffloadError> {
    let [flags, kind, _, _, gso0, gso1, start0, start1, off0, off1] = header;
    packet.gso_size = if kind == 0 { 0 } else { u16::from_ne_bytes([gso0, gso1]) };
    packet.gso = match kind & !GSO_ECN {
        0 => Gso::None,
        GSO_TCPV4 => Gso::TcpV4,
        GSO_TCPV6 => Gso::TcpV6,
        GSO_UDP_L4 => Gso::Udp,
        _ => return Err(OffloadError::Headers(Gso::None)),
    } as u8;
    if flags & NEEDS_CSUM != 0 {
        packet.csum = Checksum::Partial as u8;
        packet.csum_start = packet.data() + u32::from(u16::from_ne_bytes([start0, start1]));
        packet.csum_offset = u16::from_ne_bytes([off0, off1]);
        offload::checksum_place(packet)?;
    } else if flags & DATA_VALID != 0 {
        packet.csum = Checksum::Full as u8;
    }
    Ok(())
}

/// The header for a packet that is to be sent. A packet with segmentation gets a partial checksum first.
///
/// # Errors
/// If the metadata does not fit the bytes.
pub fn encode(packet: &mut Packet) -> Result<[u8; LEN], OffloadError> {
    let mut header = [0; LEN];
    let gso = offload::gso(packet);
    if gso != Gso::None {
        let (h, transport, payload) = offload::gso_layout(packet)?;
        let partial = offload::is_partial(packet);
        if !partial || offload::checksum_place(packet)?.0 != transport {
            offload::make_partial(packet)?;
        }
        header[1] = match gso {
            Gso::TcpV4 => GSO_TCPV4,
            Gso::TcpV6 => GSO_TCPV6,
            Gso::Udp => GSO_UDP_L4,
            Gso::None => 0,
        };
        if h.protocol == proto::TCP && packet.bytes()[transport + 13] & Tcp::CWR != 0 {
            header[1] |= GSO_ECN;
        }
        header[2..4].copy_from_slice(&(payload as u16).to_ne_bytes());
        header[4..6].copy_from_slice(&packet.gso_size.to_ne_bytes());
    }
    if offload::is_partial(packet) {
        let (start, _) = offload::checksum_place(packet)?;
        let start = u16::try_from(start).map_err(|_| OffloadError::ChecksumPlace)?;
        header[0] = NEEDS_CSUM;
        header[6..8].copy_from_slice(&start.to_ne_bytes());
        header[8..10].copy_from_slice(&packet.csum_offset.to_ne_bytes());
    }
    Ok(header)
}

/// As [`encode`], for a packet that begins with its IP header.
pub fn encode_ip(packet: &mut Packet) -> Result<[u8; LEN], OffloadError> {
    let wrong = OffloadError::Headers(offload::gso(packet));
    let kind = match packet.bytes().first().map(|b| b >> 4) {
        Some(4) => ethertype::IPV4,
        Some(6) => ethertype::IPV6,
        _ => return Err(wrong),
    };
    packet.push(ETHERNET).map_err(OffloadError::NoSpace)?;
    packet.bytes_mut()[12..14].copy_from_slice(&kind.to_be_bytes());
    let header = encode(packet);
    packet.pull(ETHERNET);
    let mut header = header?;
    for (set, at) in [(header[1] != 0, 2), (header[0] != 0, 6)] {
        if set {
            let position = u16::from_ne_bytes([header[at], header[at + 1]]);
            let position = position.checked_sub(ETHERNET as u16).ok_or(wrong)?;
            header[at..at + 2].copy_from_slice(&position.to_ne_bytes());
        }
    }
    Ok(header)
}

/// The header of a packet of which the first `n` bytes are left out. `None` if it names a place in these.
pub fn behind(mut header: [u8; LEN], n: usize) -> Option<[u8; LEN]> {
    if header[0] & NEEDS_CSUM != 0 {
        let start = u16::from_ne_bytes([header[6], header[7]]);
        let start = start.checked_sub(u16::try_from(n).ok()?)?;
        header[6..8].copy_from_slice(&start.to_ne_bytes());
    }
    Some(header)
}

/// Length of an Ethernet header.
const ETHERNET: u32 = 14;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weir_net::build::{self, TcpFields};

    fn large() -> Packet {
        let ends = (([10, 0, 0, 1].into(), 1), ([10, 0, 0, 2].into(), 2));
        let mut p =
            Packet::from_bytes(&build::tcp4(ends.0, ends.1, TcpFields::default(), &[7; 9000])).unwrap();
        p.gso = Gso::TcpV4 as u8;
        p.gso_size = 1448;
        p
    }

    #[test]
    fn a_large_packet_gets_a_partial_checksum() {
        let mut p = large();
        let whole = p.bytes().to_vec();
        let header = encode(&mut p).unwrap();
        assert_eq!(header[..2], [NEEDS_CSUM, GSO_TCPV4]);
        let mut back = Packet::from_bytes(p.bytes()).unwrap();
        decode(header, &mut back).unwrap();
        assert_eq!((back.gso, back.gso_size, back.checksum()), (1, 1448, Checksum::Partial));
        offload::finish_checksum(&mut back).unwrap();
        assert_eq!(back.bytes(), whole);
    }

    #[test]
    fn a_large_ip_packet_is_described_from_its_ip_header_on() {
        let mut p = large();
        let whole = p.bytes()[14..].to_vec();
        let frame = encode(&mut large()).unwrap();
        p.pull(14);
        let header = encode_ip(&mut p).unwrap();
        assert_eq!(header[..2], frame[..2]);
        let at = |h: [u8; LEN], i: usize| u16::from_ne_bytes([h[i], h[i + 1]]);
        assert_eq!((at(header, 2), at(header, 6)), (at(frame, 2) - 14, at(frame, 6) - 14));
        let mut back = Packet::from_bytes(p.bytes()).unwrap();
        decode(header, &mut back).unwrap();
        offload::finish_checksum(&mut back).unwrap();
        assert_eq!(back.bytes(), whole);
        assert!(encode_ip(&mut Packet::from_bytes(&[0x20; 40]).unwrap()).is_err());
    }

    #[test]
    fn the_congestion_flag_asks_for_ecn_segmentation() {
        let mut p = large();
        Tcp::new(&mut p.bytes_mut()[34..]).unwrap().set_flags(Tcp::CWR | Tcp::ACK);
        assert_eq!(encode(&mut p).unwrap()[1], GSO_TCPV4 | GSO_ECN);
    }

    #[test]
    fn metadata_outside_the_packet_is_an_error() {
        let mut p = Packet::from_bytes(&[0; 60]).unwrap();
        p.csum = Checksum::Partial as u8;
        for (start, offset) in [(p.data() + 59, 0), (p.data(), 59), (u32::MAX, 1)] {
            (p.csum_start, p.csum_offset) = (start, offset);
            assert_eq!(encode(&mut p), Err(OffloadError::ChecksumPlace), "{start} {offset}");
        }
        (p.gso, p.gso_size) = (Gso::Udp as u8, 100);
        assert_eq!(encode(&mut p), Err(OffloadError::Headers(Gso::Udp)));
    }

    proptest! {
        #[test]
        fn no_header_and_no_bytes_break_the_codec(
            header: [u8; LEN],
            bytes in proptest::collection::vec(any::<u8>(), 0..100),
            gso: u8,
        ) {
            let mut p = Packet::from_bytes(&bytes).unwrap();
            if decode(header, &mut p).is_ok() {
                p.gso = gso;
                let _ = encode(&mut p);
                let _ = encode_ip(&mut p);
                let _ = offload::segment(&p);
            }
        }
    }
}
