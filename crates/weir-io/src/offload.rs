//! Checksum and segmentation offload in software.

use weir_net::{Headers, Ipv4, Ipv6, Network, Tcp, Udp, checksum, proto};
use weir_packet::{Checksum, Gso, Layer, NoSpace, Packet};

/// The offload data of a packet does not fit its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OffloadError {
    /// The checksum field or the start of the sum lies outside the packet.
    #[error("the partial checksum lies outside the packet")]
    ChecksumPlace,
    /// The packet is to be segmented, but its headers are not those of its segmentation type.
    #[error("the packet's headers do not fit its segmentation type {0:?}")]
    Headers(Gso),
    /// A segment does not fit a packet.
    #[error(transparent)]
    NoSpace(#[from] NoSpace),
}

/// The segmentation type of a packet.
pub fn gso(packet: &Packet) -> Gso {
    if packet.gso_size == 0 {
        return Gso::None;
    }
    match packet.gso {
        1 => Gso::TcpV4,
        3 => Gso::Udp,
        4 => Gso::TcpV6,
        _ => Gso::None,
    }
}

/// Whether a checksum of the packet is to be completed. One of a header that was taken off, as at the end of a tunnel, is
/// not.
pub(crate) fn is_partial(packet: &Packet) -> bool {
    packet.checksum() == Checksum::Partial && packet.csum_start >= packet.data()
}

/// Completes a partial transport checksum. Packets whose checksum is not partial stay as they are.
///
/// # Errors
/// If the place of the checksum is not inside the packet, which is left unchanged.
pub fn finish_checksum(packet: &mut Packet) -> Result<(), OffloadError> {
    if !is_partial(packet) {
        return Ok(());
    }
    let (start, field) = checksum_place(packet)?;
    let udp = packet.csum_offset == 6;
    let bytes = packet.bytes_mut();
    let sum = checksum::checksum(&bytes[start..]);
    // In UDP, zero would say "no checksum" (RFC 768).
    let sum = if udp && sum == 0 { 0xffff } else { sum };
    bytes[field..field + 2].copy_from_slice(&sum.to_be_bytes());
    packet.csum = Checksum::Full as u8;
    Ok(())
}

/// Finishes the packet at position `i` of a batch: its checksum is completed; segments stand in its place if it is to be
/// segmented.
///
/// # Errors
/// As [`finish_checksum`] and [`segment`]; the batch is unchanged then.
pub fn finish(batch: &mut Vec<Packet>, i: usize) -> Result<(), OffloadError> {
    if gso(&batch[i]) == Gso::None {
        return finish_checksum(&mut batch[i]);
    }
    let segments = segment(&batch[i])?;
    batch.splice(i..=i, segments);
    Ok(())
}

/// Finds an unfinished checksum of TCP or UDP in a packet that came without offload data: the field then holds the sum
/// of the pseudo header alone. Marks such a packet as partial.
///
/// A complete checksum may look so at random, one in 65,536; it is recognised by being right.
pub(crate) fn detect_partial(packet: &mut Packet) {
    let Some((transport, offset)) = unfinished(packet.bytes()) else { return };
    packet.csum = Checksum::Partial as u8;
    packet.csum_start = packet.data() + transport as u32;
    packet.csum_offset = offset;
}

/// Where the unfinished sum starts, and where it goes, counted from there.
fn unfinished(frame: &[u8]) -> Option<(usize, u16)> {
    let h = Headers::of_frame(frame).filter(|h| !h.fragment)?;
    let transport = h.transport?;
    let offset = match h.protocol {
        proto::TCP => 16,
        proto::UDP => 6,
        _ => return None,
    };
    let segment = frame.get(transport..h.end)?;
    let field = segment.get(offset..offset + 2)?;
    let pseudo = pseudo_header(frame, &h, segment.len())?;
    let is_pseudo = pseudo.fold().to_be_bytes() == [field[0], field[1]];
    (is_pseudo && pseudo.add_bytes(segment).finish() != 0).then_some((transport, offset as u16))
}

/// Where the sum starts and where it goes, counted from the first byte of the packet; the field is inside.
pub(crate) fn checksum_place(packet: &Packet) -> Result<(usize, usize), OffloadError> {
    let start = packet.csum_start.checked_sub(packet.data()).ok_or(OffloadError::ChecksumPlace)? as usize;
    let field = start + usize::from(packet.csum_offset);
    if field + 2 > packet.len() { Err(OffloadError::ChecksumPlace) } else { Ok((start, field)) }
}

/// The headers of a packet that is to be segmented: where the transport header starts and where the payload starts
/// and ends.
pub(crate) fn gso_layout(packet: &Packet) -> Result<(Headers, usize, usize), OffloadError> {
    let kind = gso(packet);
    let wrong = OffloadError::Headers(kind);
    let bytes = packet.bytes();
    let h = Headers::of_frame(bytes).filter(|h| !h.fragment).ok_or(wrong)?;
    let transport = h.transport.ok_or(wrong)?;
    let segment = bytes.get(transport..h.end).ok_or(wrong)?;
    let header = match (kind, h.network, h.protocol) {
        (Gso::TcpV4, Network::V4, proto::TCP) | (Gso::TcpV6, Network::V6, proto::TCP) => {
            Tcp::new(segment).map_err(|_| wrong)?.header_len()
        }
        (Gso::Udp, _, proto::UDP) => Udp::new(segment).map(|_| 8).map_err(|_| wrong)?,
        _ => return Err(wrong),
    };
    Ok((h, transport, transport + header))
}

/// Leaves the transport checksum of a TCP or UDP packet to be completed: puts the sum of the pseudo header into the
/// field. The kernel wants packets that it is to segment in this state.
pub(crate) fn make_partial(packet: &mut Packet) -> Result<(), OffloadError> {
    let (h, transport, _) = gso_layout(packet)?;
    let sum = pseudo_header(packet.bytes(), &h, h.end - transport).ok_or(OffloadError::ChecksumPlace)?.fold();
    let offset = if h.protocol == proto::TCP { 16 } else { 6 };
    let at = transport + usize::from(offset);
    let field = packet.bytes_mut().get_mut(at..at + 2).ok_or(OffloadError::ChecksumPlace)?;
    field.copy_from_slice(&sum.to_be_bytes());
    packet.csum = Checksum::Partial as u8;
    packet.csum_start = packet.data() + transport as u32;
    packet.csum_offset = offset;
    Ok(())
}

fn pseudo_header(frame: &[u8], h: &Headers, length: usize) -> Option<checksum::Sum> {
    let ip = frame.get(h.net..)?;
    Some(match h.network {
        Network::V4 => Ipv4::new(ip).ok()?.pseudo_header(u16::try_from(length).ok()?),
        Network::V6 => {
            let ip = Ipv6::new(ip).ok()?;
            checksum::pseudo6(ip.src(), ip.dst(), h.protocol, u32::try_from(length).ok()?)
        }
    })
}

/// Cuts a large packet (TCP or UDP over IPv4 or IPv6, VLAN tags allowed) into segments of its `gso_size`, with
/// complete headers and checksums. Segments keep annotations, marks and the other metadata.
///
/// A packet that needs no segmentation gives one copy of itself with its checksum finished.
///
/// # Errors
/// If the headers do not fit the segmentation type; encapsulated packets are such a case.
pub fn segment(packet: &Packet) -> Result<Vec<Packet>, OffloadError> {
    if gso(packet) == Gso::None {
        let mut copy = packet.copy();
        finish_checksum(&mut copy)?;
        return Ok(vec![copy]);
    }
    let (h, transport, payload_at) = gso_layout(packet)?;
    let bytes = packet.bytes();
    let wrong = OffloadError::Headers(gso(packet));
    let (headers, payload) = (&bytes[..payload_at], &bytes[payload_at..h.end]);
    let size = usize::from(packet.gso_size);
    let count = payload.len().div_ceil(size).max(1);
    let mut segments = Vec::with_capacity(count);
    for i in 0..count {
        let part = &payload[i * size..payload.len().min((i + 1) * size)];
        let mut p = empty_like(packet, headers.len() + part.len())?;
        let frame = p.bytes_mut();
        frame[..payload_at].copy_from_slice(headers);
        frame[payload_at..].copy_from_slice(part);
        fix_ip(&mut frame[h.net..], h.network, i as u16).ok_or(wrong)?;
        let (first, last) = (i == 0, i + 1 == count);
        fix_transport(frame, &h, transport, (i * size) as u32, first, last).ok_or(wrong)?;
        for layer in &Layer::ALL[1..] {
            let mark = packet.layer(*layer).and_then(|at| at.checked_sub(packet.data()));
            if let Some(mark) = mark.filter(|&m| m as usize <= payload_at) {
                let at = p.data() + mark;
                p.set_layer(*layer, Some(at));
            }
        }
        segments.push(p);
    }
    Ok(segments)
}

/// A packet of `len` zero bytes with the metadata of another, its checksum complete.
fn empty_like(packet: &Packet, len: usize) -> Result<Packet, NoSpace> {
    let mut p = Packet::with_capacity(len)?;
    p.put(len as u32)?;
    p.anno = packet.anno;
    p.timestamp = packet.timestamp;
    p.hash = packet.hash;
    p.in_port = packet.in_port;
    p.packet_type = packet.packet_type;
    p.hops = packet.hops;
    p.trace = packet.trace;
    p.provenance = packet.provenance;
    p.csum = Checksum::Full as u8;
    Ok(p)
}

fn fix_ip(ip: &mut [u8], network: Network, index: u16) -> Option<()> {
    let len = ip.len();
    match network {
        Network::V4 => {
            let mut ip = Ipv4::new(ip).ok()?;
            ip.set_total_len(u16::try_from(len).ok()?);
            ip.set_id(ip.id().wrapping_add(index));
            ip.fill_checksum();
        }
        Network::V6 => Ipv6::new(ip).ok()?.set_payload_len(u16::try_from(len.checked_sub(40)?).ok()?),
    }
    Some(())
}

fn fix_transport(
    frame: &mut [u8],
    h: &Headers,
    transport: usize,
    offset: u32,
    first: bool,
    last: bool,
) -> Option<()> {
    let length = frame.len() - transport;
    let pseudo = pseudo_header(frame, h, length)?;
    if h.protocol == proto::TCP {
        let mut tcp = Tcp::new(&mut frame[transport..]).ok()?;
        tcp.set_seq(tcp.seq().wrapping_add(offset));
        let mut flags = tcp.flags();
        if !last {
            flags &= !(Tcp::FIN | Tcp::PSH);
        }
        if !first {
            flags &= !Tcp::CWR;
        }
        tcp.set_flags(flags);
        tcp.set_checksum(0);
        let sum = pseudo.add_bytes(&frame[transport..]).finish();
        Tcp::new(&mut frame[transport..]).ok()?.set_checksum(sum);
    } else {
        frame[transport + 4..transport + 6].copy_from_slice(&u16::try_from(length).ok()?.to_be_bytes());
        frame[transport + 6..transport + 8].fill(0);
        let sum = pseudo.add_bytes(&frame[transport..]).finish();
        let sum = if sum == 0 { 0xffff } else { sum };
        frame[transport + 6..transport + 8].copy_from_slice(&sum.to_be_bytes());
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weir_net::build::{self, TcpFields};

    const A: (std::net::Ipv4Addr, u16) = (std::net::Ipv4Addr::new(10, 0, 0, 1), 1000);
    const B: (std::net::Ipv4Addr, u16) = (std::net::Ipv4Addr::new(10, 0, 0, 2), 80);

    /// A frame as a local sender's kernel leaves it: partial checksum, to be cut into segments of `size`.
    fn unfinished_packet(frame: &[u8], kind: Gso, size: u16) -> Packet {
        let mut p = Packet::from_bytes(frame).unwrap();
        p.gso = kind as u8;
        p.gso_size = size;
        make_partial(&mut p).unwrap();
        p
    }

    fn assert_checksums(frame: &[u8]) {
        let h = Headers::of_frame(frame).unwrap();
        assert_eq!(h.end, frame.len());
        if h.network == Network::V4 {
            assert!(Ipv4::new(&frame[h.net..]).unwrap().checksum_ok());
        }
        let segment = &frame[h.transport.unwrap()..];
        let sum = pseudo_header(frame, &h, segment.len()).unwrap().add_bytes(segment).finish();
        assert_eq!(sum, 0, "transport checksum");
    }

    #[test]
    fn the_checksum_of_a_header_that_was_taken_off_is_nobodys() {
        let mut p = Packet::from_bytes(&[7; 100]).unwrap();
        p.csum = Checksum::Partial as u8;
        (p.csum_start, p.csum_offset) = (p.data() + 34, 6);
        p.pull(50);
        assert!(!is_partial(&p));
        finish_checksum(&mut p).unwrap();
        assert_eq!(p.bytes(), [7; 50]);
        assert_eq!(crate::vnet::encode(&mut p).unwrap(), [0; crate::vnet::LEN]);
    }

    #[test]
    fn finishing_gives_the_senders_checksum() {
        let whole = build::udp4(A, B, b"some payload");
        let mut p = unfinished_packet(&whole, Gso::Udp, 100);
        assert_ne!(p.bytes(), whole);
        p.push(20).unwrap();
        finish_checksum(&mut p).unwrap();
        assert_eq!(p.bytes()[20..], whole);
        assert_eq!(p.checksum(), Checksum::Full);
    }

    #[test]
    fn flags_stay_on_the_segment_they_belong_to() {
        let flags = Tcp::FIN | Tcp::PSH | Tcp::CWR | Tcp::ACK;
        let fields = TcpFields { seq: u32::MAX - 10, ack: 1, flags, window: 9 };
        let p = unfinished_packet(&build::tcp4(A, B, fields, &[1; 250]), Gso::TcpV4, 100);
        let segments = segment(&p).unwrap();
        let seen: Vec<_> = segments
            .iter()
            .map(|s| Tcp::new(&s.bytes()[34..]).map(|t| (t.flags(), t.seq(), t.payload().len())).unwrap())
            .collect();
        assert_eq!(
            seen,
            [
                (Tcp::CWR | Tcp::ACK, u32::MAX - 10, 100),
                (Tcp::ACK, 89, 100),
                (Tcp::FIN | Tcp::PSH | Tcp::ACK, 189, 50)
            ]
        );
    }

    #[test]
    fn an_unfinished_checksum_is_found_and_a_complete_one_is_left_alone() {
        for whole in [build::udp4(A, B, b"some payload"), build::tcp4(A, B, TcpFields::default(), &[3; 99])] {
            let kind = if whole[23] == proto::UDP { Gso::Udp } else { Gso::TcpV4 };
            let mut p = Packet::from_bytes(unfinished_packet(&whole, kind, 100).bytes()).unwrap();
            detect_partial(&mut p);
            assert_eq!(p.checksum(), Checksum::Partial);
            finish_checksum(&mut p).unwrap();
            assert_eq!(p.bytes(), whole);
            let mut p = Packet::from_bytes(&whole).unwrap();
            detect_partial(&mut p);
            assert_eq!(p.checksum(), Checksum::Unknown);
            for len in 0..whole.len() {
                detect_partial(&mut Packet::from_bytes(&whole[..len]).unwrap());
            }
        }
    }

    #[test]
    fn metadata_goes_along() {
        let mut p = unfinished_packet(&build::udp4(A, B, &[1; 3000]), Gso::Udp, 1000);
        p.anno[3] = 7;
        p.timestamp = 5;
        let net = p.data() + 14;
        p.set_layer(Layer::Net, Some(net));
        for s in segment(&p).unwrap() {
            assert_eq!((s.anno[3], s.timestamp, s.gso, s.checksum()), (7, 5, 0, Checksum::Full));
            assert_eq!(s.from_layer(Layer::Net)[0], 0x45);
        }
    }

    #[test]
    fn headers_that_do_not_fit_are_errors() {
        let mut p = unfinished_packet(&build::udp4(A, B, &[1; 300]), Gso::Udp, 100);
        p.gso = Gso::TcpV4 as u8;
        assert_eq!(segment(&p).unwrap_err(), OffloadError::Headers(Gso::TcpV4));
        p.gso = Gso::Udp as u8;
        p.bytes_mut()[12] ^= 1;
        assert_eq!(segment(&p).unwrap_err(), OffloadError::Headers(Gso::Udp));
        p.gso_size = 0;
        assert_eq!(segment(&p).unwrap().len(), 1, "nothing to segment");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn segments_carry_the_payload_with_right_checksums(
            payload in proptest::collection::vec(any::<u8>(), 1..5000),
            size in 50u16..2000,
            udp: bool,
            tagged: bool,
        ) {
            let (mut frame, kind) = if udp {
                (build::udp4(A, B, &payload), Gso::Udp)
            } else {
                (build::tcp4(A, B, TcpFields::default(), &payload), Gso::TcpV4)
            };
            if tagged {
                build::tag_vlan(&mut frame, 5);
            }
            let segments = segment(&unfinished_packet(&frame, kind, size)).unwrap();
            prop_assert_eq!(segments.len(), payload.len().div_ceil(usize::from(size)));
            let header = frame.len() - payload.len();
            let mut joined = Vec::new();
            for s in &segments {
                assert_checksums(s.bytes());
                joined.extend_from_slice(&s.bytes()[header..]);
            }
            prop_assert_eq!(joined, payload);
        }
    }
}
