//! Where the headers of a frame start.

use crate::{Ipv4, Ipv6, ethertype, proto};

/// Network protocol of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Network {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// Where the headers of a frame start. Offsets count from the first byte given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Headers {
    /// Which network protocol.
    pub network: Network,
    /// Start of the network header.
    pub net: usize,
    /// Start of the transport header; `None` in fragments other than the first.
    pub transport: Option<usize>,
    /// Transport protocol (IPv6: behind the extension headers).
    pub protocol: u8,
    /// End of the datagram by its length field, or of the bytes if they are fewer: Ethernet padding lies behind.
    pub end: usize,
    /// Whether this is a fragment.
    pub fragment: bool,
}

impl Headers {
    /// Finds the headers of an Ethernet frame with any number of VLAN tags. `None` if it is not valid IPv4 or IPv6.
    pub fn of_frame(frame: &[u8]) -> Option<Headers> {
        let mut at = 12;
        loop {
            let kind = frame.get(at..at + 2)?;
            match u16::from_be_bytes([kind[0], kind[1]]) {
                ethertype::VLAN | ethertype::QINQ => at += 4,
                ethertype::IPV4 | ethertype::IPV6 => return Headers::of_ip(frame, at + 2),
                _ => return None,
            }
        }
    }

    /// Finds the headers behind `net`, where an IPv4 or IPv6 header starts.
    pub fn of_ip(bytes: &[u8], net: usize) -> Option<Headers> {
        let rest = bytes.get(net..)?;
        if rest.first()? >> 4 == 4 {
            let ip = Ipv4::new(rest).ok()?;
            let transport = (ip.fragment_offset() == 0).then(|| net + ip.header_len());
            Some(Headers {
                network: Network::V4,
                net,
                transport,
                protocol: ip.protocol(),
                end: net + usize::from(ip.total_len()).min(rest.len()),
                fragment: transport.is_none() || ip.more_fragments(),
            })
        } else {
            let ip = Ipv6::new(rest).ok()?;
            let end = net + 40 + ip.payload().len();
            let mut found = Headers {
                network: Network::V6,
                net,
                transport: None,
                protocol: ip.next_header(),
                end,
                fragment: false,
            };
            found.walk_extensions(bytes, net + 40)?;
            Some(found)
        }
    }

    /// Follows extension headers (RFC 8200 4, RFC 4302 2) to the transport header. `None` if one is cut off.
    fn walk_extensions(&mut self, bytes: &[u8], mut at: usize) -> Option<()> {
        loop {
            let len = match self.protocol {
                0 | 43 | 60 => 8 * (1 + usize::from(*bytes.get(at + 1)?)),
                44 => 8,
                51 => 4 * (2 + usize::from(*bytes.get(at + 1)?)),
                _ => break,
            };
            let header = bytes.get(at..at + len).filter(|_| at + len <= self.end)?;
            let kind = std::mem::replace(&mut self.protocol, header[0]);
            if kind == 44 {
                let field = u16::from_be_bytes([header[2], header[3]]);
                self.fragment |= field & !0x6 != 0;
                if field & 0xfff8 != 0 {
                    return Some(());
                }
            }
            at += len;
        }
        self.transport = Some(at);
        Some(())
    }
}

/// A frame with zero for its TCP or UDP checksum, which is the hardware's to finish: two frames that differ in nothing else are the same
/// packet.
pub fn without_transport_checksum(frame: &[u8]) -> Vec<u8> {
    let mut bytes = frame.to_vec();
    let checksum = Headers::of_frame(frame).and_then(|h| {
        let offset = match h.protocol {
            proto::TCP => 16,
            proto::UDP => 6,
            _ => return None,
        };
        Some(h.transport? + offset)
    });
    if let Some(field) = checksum.and_then(|at| bytes.get_mut(at..at + 2)) {
        field.fill(0);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::{NetSlice, SlicedPacket};
    use proptest::prelude::*;

    #[test]
    fn tags_and_extension_headers_are_skipped() {
        let mut frame = vec![0; 12];
        frame.extend([0x88, 0xa8, 0, 1, 0x81, 0, 0, 2, 0x86, 0xdd]);
        let net = frame.len();
        frame.extend([0x60, 0, 0, 0, 0, 24, 0, 64]);
        frame.extend([0; 32]);
        frame.extend([44, 0, 1, 4, 0, 0, 0, 0]);
        frame.extend([17, 0, 0, 1, 0, 0, 0, 9]);
        frame.extend([0, 1, 0, 2, 0, 8, 0, 0]);
        frame.extend([0xee; 6]);
        let h = Headers::of_frame(&frame).unwrap();
        assert_eq!((h.network, h.net, h.protocol), (Network::V6, net, 17));
        assert_eq!(h.transport, Some(net + 56));
        assert!(h.fragment);
        assert_eq!(h.end, frame.len() - 6);
    }

    proptest! {
        #[test]
        fn agrees_with_etherparse(
            v6: bool,
            tagged: bool,
            udp: bool,
            ports: (u16, u16),
            payload in proptest::collection::vec(any::<u8>(), 0..64),
            padding in 0usize..16,
        ) {
            use etherparse::{PacketBuilder, VlanId};
            let builder = PacketBuilder::ethernet2([2; 6], [4; 6]);
            let id = VlanId::try_new(7).unwrap();
            let builder = match (tagged, v6) {
                (false, false) => builder.ipv4([10, 0, 0, 1], [10, 0, 0, 2], 9),
                (false, true) => builder.ipv6([1; 16], [2; 16], 9),
                (true, false) => builder.single_vlan(id).ipv4([10, 0, 0, 1], [10, 0, 0, 2], 9),
                (true, true) => builder.single_vlan(id).ipv6([1; 16], [2; 16], 9),
            };
            let mut frame = Vec::new();
            if udp {
                builder.udp(ports.0, ports.1).write(&mut frame, &payload).unwrap();
            } else {
                builder.tcp(ports.0, ports.1, 1, 2).write(&mut frame, &payload).unwrap();
            }
            let end = frame.len();
            frame.resize(end + padding, 0xee);
            let ours = Headers::of_frame(&frame).unwrap();
            let theirs = SlicedPacket::from_ethernet(&frame).unwrap();
            let header_len = match theirs.net.as_ref().unwrap() {
                NetSlice::Ipv4(s) => s.header().slice().len(),
                NetSlice::Ipv6(s) => s.header().slice().len(),
                other => panic!("{other:?}"),
            };
            prop_assert_eq!(ours.net, if tagged { 18 } else { 14 });
            prop_assert_eq!(ours.transport, Some(ours.net + header_len));
            prop_assert_eq!(ours.end, end);
            prop_assert_eq!(ours.network == Network::V6, v6);
            prop_assert_eq!(ours.protocol, if udp { 17 } else { 6 });
        }
    }

    #[test]
    fn frames_that_differ_in_a_transport_checksum_are_the_same_without_it() {
        let mut frame = [vec![0; 12], vec![0x08, 0x00]].concat();
        let mut ip = vec![0x45, 0, 0, 32, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        ip.extend([0, 53, 0, 53, 0, 12, 0xab, 0xcd, 1, 2, 3, 4]);
        frame.extend(ip);
        let mut other = frame.clone();
        other[41] = 0;
        assert_eq!(without_transport_checksum(&frame), without_transport_checksum(&other));
        other[42] = 0;
        assert_ne!(without_transport_checksum(&frame), without_transport_checksum(&other));
        assert_eq!(without_transport_checksum(&frame[..30]), &frame[..30]);
    }
}
