//! A packet on its path through the tables, and what actions change of it.
//!
//! Checksums are kept right by what changed (RFC 1624). One that is still to be finished by hardware holds the sum of the pseudo
//! header alone: of what changes, it counts addresses only.

mod headers;

use weir_net::checksum::{Sum, update16};
use weir_openflow::oxm::Field;
use weir_packet::{Checksum, Packet};

use crate::key::Key;
use crate::parse::{self, Layout, Network, parse};

/// Bytes of the shortest Ethernet frame, without its checksum.
const SHORTEST: usize = 60;

/// A packet, its fields as they are now, and what tables pass on with it.
#[derive(Debug)]
pub struct Work {
    /// The packet.
    pub packet: Packet,
    /// Its fields.
    pub key: Key,
    /// Its headers.
    pub layout: Layout,
}

impl Clone for Work {
    fn clone(&self) -> Work {
        Work { packet: self.packet.copy(), key: self.key, layout: self.layout }
    }
}

/// The part of the changed bytes that a checksum covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Covered {
    /// The header of IPv4.
    Header,
    /// That, and the pseudo header of the transport.
    Address,
    /// The transport's header.
    Body,
    /// Nothing.
    Nothing,
}

/// Why an action cannot be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Undone {
    /// Its TTL would be 0.
    Ttl,
    /// It would be too long.
    Space,
}

impl Work {
    /// A packet that came in at a port.
    pub fn new(packet: Packet, in_port: u32) -> Work {
        let (mut key, layout) = parse(packet.bytes());
        key.set(Field::InPort, in_port.into());
        Work { packet, key, layout }
    }

    /// Where it came in.
    pub fn in_port(&self) -> u32 {
        self.key.get(Field::InPort) as u32
    }

    /// Looks at the bytes anew, after headers came or went.
    fn renew(&mut self) {
        let (mut key, layout) = parse(self.packet.bytes());
        for field in [Field::InPort, Field::Metadata, Field::TunnelId] {
            key.set(field, self.key.get(field));
        }
        (self.key, self.layout) = (key, layout);
    }

    /// Writes bytes, and the checksums that cover them. Sums are of 16-bit words from `base` on.
    fn write(&mut self, base: usize, at: usize, new: &[u8], covered: Covered) {
        let bytes = self.packet.bytes_mut();
        let end = at + new.len();
        if bytes.len() < end {
            return;
        }
        if covered == Covered::Nothing {
            return bytes[at..end].copy_from_slice(new);
        }
        // Whole words around the bytes.
        let (from, to) = (at - (at - base) % 2, (end + (end - base) % 2).min(bytes.len()));
        let before = Sum::default().add_bytes(&bytes[from..to]).fold();
        bytes[at..end].copy_from_slice(new);
        let after = Sum::default().add_bytes(&bytes[from..to]).fold();
        let change = |sum: u16| update16(sum, before, after);
        if let (Covered::Header | Covered::Address, Some((Network::V4, net))) = (covered, self.layout.network)
        {
            self.sum(net + 10, change);
        }
        if covered != Covered::Header {
            self.transport_sum(covered, change);
        }
    }

    fn sum(&mut self, at: usize, change: impl Fn(u16) -> u16) {
        if let Some(field) = self.packet.bytes_mut().get_mut(at..at + 2) {
            let sum = change(u16::from_be_bytes([field[0], field[1]]));
            field.copy_from_slice(&sum.to_be_bytes());
        }
    }

    fn transport_sum(&mut self, covered: Covered, change: impl Fn(u16) -> u16) {
        let Some((protocol, at)) = self.layout.transport else { return };
        let field = at
            + match protocol {
                6 => 16,
                17 => 6,
                1 if covered == Covered::Body => 2,
                58 => 2,
                132 if covered == Covered::Body => return self.sctp_sum(at),
                _ => return,
            };
        let partial = self.packet.checksum() == Checksum::Partial
            && self.packet.csum_start as usize == self.packet.data() as usize + at;
        if partial {
            if covered == Covered::Address {
                self.sum(field, |sum| !change(!sum));
            }
            return;
        }
        self.sum(field, |sum| match (protocol, sum) {
            // None (RFC 768).
            (17, 0) => 0,
            (17, sum) => match change(sum) {
                0 => 0xffff,
                sum => sum,
            },
            (_, sum) => change(sum),
        });
    }

    /// The checksum of SCTP is one of the whole packet (RFC 9260, appendix A).
    fn sctp_sum(&mut self, at: usize) {
        let end = self.layout.end;
        let Some(chunk) = self.packet.bytes_mut().get_mut(at..end).filter(|c| c.len() >= 12) else { return };
        chunk[8..12].fill(0);
        let mut crc = u32::MAX;
        for &byte in chunk.iter() {
            crc ^= u32::from(byte);
            for _ in 0..8 {
                crc = crc >> 1 ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 };
            }
        }
        chunk[8..12].copy_from_slice(&(!crc).to_le_bytes());
    }

    /// Sets a field. One that the packet does not have stays so.
    pub fn set_field(&mut self, field: Field, value: u128) {
        let all = value.to_be_bytes();
        let bytes = &all[16 - field.bytes()..];
        let Layout { kind_at, tagged, mpls, network, transport, nd_address, protocol_at, .. } = self.layout;
        let net = network.map(|(_, at)| at).unwrap_or(0);
        let is = |n: Network| network.is_some_and(|(kind, _)| kind == n);
        let protocol = |numbers: &[u8]| transport.filter(|(p, _)| numbers.contains(p)).map(|(_, at)| at);
        match field {
            Field::EthDst => self.write(0, 0, bytes, Covered::Nothing),
            Field::EthSrc => self.write(0, 6, bytes, Covered::Nothing),
            Field::EthType => {
                self.write(0, kind_at, bytes, Covered::Nothing);
                return self.renew();
            }
            Field::VlanVid if tagged => self.bits(14, 0x0fff, value as u16),
            Field::VlanPcp if tagged => self.bits(14, 0xe000, (value as u16) << 13),
            Field::IpDscp if is(Network::V4) => self.traffic_class(net, 0xfc, (value as u8) << 2),
            Field::IpEcn if is(Network::V4) => self.traffic_class(net, 0x03, value as u8),
            Field::IpDscp if is(Network::V6) => self.bits(net, 0x0fc0, (value as u16) << 6),
            Field::IpEcn if is(Network::V6) => self.bits(net, 0x0030, (value as u16) << 4),
            Field::IpProto => {
                let Some(at) = protocol_at else { return };
                let old = u16::from(self.packet.bytes()[at]);
                let covered = if is(Network::V4) { Covered::Header } else { Covered::Nothing };
                self.write(net, at, bytes, covered);
                // The pseudo header has it too.
                self.transport_sum(Covered::Address, |sum| update16(sum, old, value as u16));
                return self.renew();
            }
            Field::Ipv4Src if is(Network::V4) => self.write(net, net + 12, bytes, Covered::Address),
            Field::Ipv4Dst if is(Network::V4) => self.write(net, net + 16, bytes, Covered::Address),
            Field::Ipv6Src if is(Network::V6) => self.write(net, net + 8, bytes, Covered::Address),
            Field::Ipv6Dst if is(Network::V6) => self.write(net, net + 24, bytes, Covered::Address),
            Field::Ipv6Flabel if is(Network::V6) => {
                let first = u32::from_be_bytes(*self.packet.bytes()[net..].first_chunk().unwrap_or(&[0; 4]));
                let word = first & 0xfff0_0000 | value as u32;
                self.write(net, net, &word.to_be_bytes(), Covered::Nothing);
            }
            Field::ArpOp if is(Network::Arp) => self.write(net, net + 6, bytes, Covered::Nothing),
            Field::ArpSha if is(Network::Arp) => self.write(net, net + 8, bytes, Covered::Nothing),
            Field::ArpSpa if is(Network::Arp) => self.write(net, net + 14, bytes, Covered::Nothing),
            Field::ArpTha if is(Network::Arp) => self.write(net, net + 18, bytes, Covered::Nothing),
            Field::ArpTpa if is(Network::Arp) => self.write(net, net + 24, bytes, Covered::Nothing),
            Field::TcpSrc
            | Field::UdpSrc
            | Field::SctpSrc
            | Field::TcpDst
            | Field::UdpDst
            | Field::SctpDst => {
                let (number, offset) = match field {
                    Field::TcpSrc => (6, 0),
                    Field::TcpDst => (6, 2),
                    Field::UdpSrc => (17, 0),
                    Field::UdpDst => (17, 2),
                    Field::SctpSrc => (132, 0),
                    _ => (132, 2),
                };
                let Some(at) = protocol(&[number]) else { return };
                self.write(at, at + offset, bytes, Covered::Body);
            }
            Field::Icmpv4Type | Field::Icmpv4Code | Field::Icmpv6Type | Field::Icmpv6Code => {
                let (number, offset) = match field {
                    Field::Icmpv4Type => (1, 0),
                    Field::Icmpv4Code => (1, 1),
                    Field::Icmpv6Type => (58, 0),
                    _ => (58, 1),
                };
                let Some(at) = protocol(&[number]) else { return };
                self.write(at, at + offset, bytes, Covered::Body);
                return self.renew();
            }
            Field::Ipv6NdTarget
                if self.key.get(Field::Icmpv6Type) >> 1 == 135 >> 1 || self.is_advertisement() =>
            {
                let Some(at) = protocol(&[58]) else { return };
                self.write(at, at + 8, bytes, Covered::Body);
            }
            Field::Ipv6NdSll | Field::Ipv6NdTll => {
                let (Some(at), Some(address)) = (protocol(&[58]), nd_address) else { return };
                self.write(at, address, bytes, Covered::Body);
            }
            Field::MplsLabel | Field::MplsTc | Field::MplsBos => {
                let Some(at) = mpls else { return };
                let (mask, shift) = match field {
                    Field::MplsLabel => (0xffff_f000_u32, 12),
                    Field::MplsTc => (0x0e00, 9),
                    _ => (0x0100, 8),
                };
                let Some(&word) = self.packet.bytes().get(at..).and_then(|b| b.first_chunk()) else { return };
                let word = u32::from_be_bytes(word) & !mask | (value as u32) << shift;
                self.write(at, at, &word.to_be_bytes(), Covered::Nothing);
            }
            Field::PbbIsid if self.key.get(Field::EthType) == parse::PBB.into() => {
                self.write(0, kind_at + 3, bytes, Covered::Nothing);
            }
            Field::TunnelId => {}
            _ => return,
        }
        // One without a tag still has none.
        let value = if field == Field::VlanVid { value | 0x1000 } else { value };
        self.key.set(field, value);
    }

    fn is_advertisement(&self) -> bool {
        self.key.get(Field::Icmpv6Type) == 136
    }

    /// Sets bits of a word that no checksum covers.
    fn bits(&mut self, at: usize, mask: u16, value: u16) {
        if let Some(word) = self.packet.bytes_mut().get_mut(at..at + 2) {
            let new = u16::from_be_bytes([word[0], word[1]]) & !mask | value & mask;
            word.copy_from_slice(&new.to_be_bytes());
        }
    }

    fn traffic_class(&mut self, net: usize, mask: u8, value: u8) {
        let Some(&class) = self.packet.bytes().get(net + 1) else { return };
        self.write(net, net + 1, &[class & !mask | value & mask], Covered::Header);
    }
}
