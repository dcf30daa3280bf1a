//! What packets are where they come into a graph.
//!
//! This is said once, here. Ports, links and sources make packets as the [`Entry`] of their kind says, and the verifier
//! assumes of packets that come in by one what it says, so that none comes in that was not looked at.

use std::ops::RangeInclusive;

use crate::meta::{Checksum, Layer, PacketType, Provenance};
use crate::packet::Packet;
use crate::pool::{HEADROOM, MAX_LEN};

/// Longest packet, as lengths in packets are counted.
const LONGEST: u32 = MAX_LEN as u32;

/// Which layers of a packet that comes in are marked. The rest is not, so that nothing is left of a graph before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marks {
    /// None.
    None,
    /// `mac`, on the first byte.
    Frame,
    /// `net`, on the first byte, and `transport`, where the IP headers say that it is (behind IPv6 extension headers);
    /// not in fragments other than the first. What is no IP packet does not come in.
    Headers,
}

/// The form of packets that come in by one kind of entry.
///
/// All have at least [`HEADROOM`] free bytes in their buffers. These are as in a new packet: the `cursor` mark, the flow hash, the number of the port, and that no
/// element made it.
/// Bytes that were in front of the packet before do not come back. The bytes, and the time of arrival, may be any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// What it is, for people.
    pub name: &'static str,
    /// Length in bytes.
    pub len: RangeInclusive<u32>,
    /// Which layers are marked.
    pub marks: Marks,
    /// [`PacketType`] as a number. The kernel has more kinds than that of packets for itself.
    pub packet_type: RangeInclusive<u8>,
    /// [`Checksum`] as a number.
    pub checksum: RangeInclusive<u8>,
    /// Whether it may be left to a device to segment it: to a payload of any size.
    pub segments: bool,
    /// Whether annotations may be anything; else they are all 0.
    pub annotated: bool,
    /// Whether it may have gone round in other graphs before, which is counted.
    pub travelled: bool,
    /// Whether the packet has a buffer of its own, with [`HEADROOM`] free bytes in front.
    pub own_buffer: bool,
}

const UNKNOWN: u8 = Checksum::Unknown as u8;
const PARTIAL: u8 = Checksum::Partial as u8;
const HOST: u8 = PacketType::Host as u8;
/// `PACKET_KERNEL` of Linux.
const LAST_TYPE: u8 = 7;

/// What most entries have: a packet of any length for this host, whole, in a buffer of its own.
const USUAL: Entry = Entry {
    name: "",
    len: 0..=LONGEST,
    marks: Marks::None,
    packet_type: HOST..=HOST,
    checksum: UNKNOWN..=UNKNOWN,
    segments: false,
    annotated: false,
    travelled: false,
    own_buffer: true,
};

/// An interface of the kernel (`FromDevice`, `PollDevice`): frames as long as its MTU says, and of senders on the same
/// machine, which leave checksums and segmentation to the device, up to the longest that a buffer holds.
pub static DEVICE: Entry = Entry {
    name: "device",
    marks: Marks::Frame,
    packet_type: HOST..=LAST_TYPE,
    checksum: UNKNOWN..=PARTIAL,
    segments: true,
    ..USUAL
};

/// A virtual interface that gives frames (`KernelTap`, `FromHost`); the sender is the kernel.
pub static TAP: Entry =
    Entry { name: "tap", marks: Marks::Frame, checksum: UNKNOWN..=PARTIAL, segments: true, ..USUAL };

/// A virtual interface that gives IP packets (`KernelTun`, `FromNetfront`); the sender is the kernel.
pub static TUN: Entry = Entry { name: "tun", ..IP_OF_KERNEL };

/// IP packets that the kernel hands over.
const IP_OF_KERNEL: Entry =
    Entry { len: 20..=LONGEST, marks: Marks::Headers, checksum: UNKNOWN..=PARTIAL, segments: true, ..USUAL };

/// The outer packets of tunnels (`TunnelSocket`): IPv4 packets for this host. A sender on the same machine may have left the
/// inner one to be finished.
pub static TUNNEL: Entry = Entry { name: "tunnel", ..IP_OF_KERNEL };

/// A socket of another program (`Socket`, `McastSocket`).
pub static SOCKET: Entry = Entry { name: "socket", marks: Marks::Frame, ..USUAL };

/// A capture file of Ethernet frames (`FromDump`).
pub static FRAMES_OF_FILE: Entry = Entry { name: "capture", marks: Marks::Frame, ..USUAL };

/// A capture file whose packets are read as IP packets (`FromDump` with `FORCE_IP`).
pub static IP_OF_FILE: Entry =
    Entry { name: "capture of IP packets", len: 20..=LONGEST, marks: Marks::Headers, ..USUAL };

/// A source that makes packets of bytes (`InfiniteSource`, `RatedSource`, `FastUDPSource`).
pub static SOURCE: Entry = Entry { name: "source", marks: Marks::None, ..USUAL };

/// A source that makes IP packets, with annotations (`ICMPPingSource`, `FromIPSummaryDump`).
pub static IP_SOURCE: Entry =
    Entry { name: "source of IP packets", marks: Marks::Headers, annotated: true, ..USUAL };

/// A link from another graph of the engine (`FromLink`), as access points of service graphs are: what comes in there, or
/// what the other graph made of it, without its marks and annotations.
pub static LINK: Entry = Entry {
    name: "link",
    marks: Marks::Frame,
    packet_type: 0..=u8::MAX,
    checksum: UNKNOWN..=PARTIAL,
    segments: true,
    travelled: true,
    own_buffer: false,
    ..USUAL
};

/// The link of a topology: IP packets of hosts, which are whole and have their checksums.
pub static WIRE: Entry = Entry { name: "wire", len: 0..=0xffff, marks: Marks::Headers, ..USUAL };

impl Entry {
    /// Marks a packet that was just made, whose transport header, if it is to be marked, begins at this byte.
    #[inline]
    pub fn mark(&self, packet: &mut Packet, transport: Option<u32>) {
        let start = packet.data();
        match self.marks {
            Marks::None => {}
            Marks::Frame => packet.set_layer(Layer::Mac, Some(start)),
            Marks::Headers => {
                packet.set_layer(Layer::Net, Some(start));
                packet.set_layer(Layer::Transport, transport.map(|at| start + at));
            }
        }
    }

    /// Whether a packet is one that may come in so; else what speaks against it. Where the transport header of IP packets
    /// stands is not looked at.
    ///
    /// # Errors
    /// The first thing that cannot be.
    pub fn admits(&self, packet: &Packet) -> Result<(), &'static str> {
        let marked = |layer| packet.layer(layer).is_some_and(|at| at == packet.data());
        let set = |layer| packet.layer(layer).is_some();
        let marks = match self.marks {
            Marks::None => !set(Layer::Mac) && !set(Layer::Net) && !set(Layer::Transport),
            Marks::Frame => marked(Layer::Mac) && !set(Layer::Net) && !set(Layer::Transport),
            Marks::Headers => !set(Layer::Mac) && marked(Layer::Net),
        };
        let len = u32::try_from(packet.len()).unwrap_or(u32::MAX);
        let found = [
            (self.len.contains(&len), "its length"),
            (marks && !set(Layer::Cursor), "its marks"),
            (self.packet_type.contains(&packet.packet_type), "its packet type"),
            (self.checksum.contains(&packet.csum), "the state of its checksum"),
            (self.segments || packet.gso_size == 0, "that it is to be segmented"),
            (self.annotated || packet.anno.iter().all(|a| *a == 0), "its annotations"),
            (self.travelled || packet.hops == 0, "its number of rounds"),
            (packet.floor() == packet.data(), "what was in front of it"),
            (packet.capacity() >= len.saturating_add(HEADROOM), "how much space there is"),
            (!self.own_buffer || packet.data() == HEADROOM, "where it lies in its buffer"),
            (packet.hash == 0 && packet.in_port == 0, "its flow hash or port"),
            (packet.provenance() == Provenance::Sent, "that an element made it"),
        ];
        found.into_iter().find(|(right, _)| !right).map_or(Ok(()), |(_, what)| Err(what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_graph_leaves_with_a_packet_does_not_go_over_a_link() {
        let mut p = Packet::from_bytes(&[7; 100]).unwrap();
        p.pull(20);
        let at = p.data();
        for layer in &Layer::ALL[1..] {
            p.set_layer(*layer, Some(at + 3));
        }
        (p.anno[5], p.hash, p.hops, p.timestamp, p.packet_type, p.provenance) = (9, 4, 3, 77, 2, 1);
        (p.csum, p.csum_start, p.csum_offset) = (Checksum::Partial as u8, at + 34, 6);
        assert_eq!(LINK.admits(&p), Err("its marks"));
        p.hand_over();
        assert_eq!(LINK.admits(&p), Ok(()));
        assert!(p.unpull(1).is_err(), "what was in front is gone");
        assert_eq!((p.hops, p.timestamp, p.packet_type, p.csum_start), (3, 77, 2, at + 34));
        assert_eq!(p.bytes(), [7; 80]);
    }

    #[test]
    fn a_packet_that_fills_its_buffer_gets_room_when_it_goes_over_a_link() {
        let bytes: Vec<u8> = (0..1920).map(|i| i as u8).collect();
        let mut p = Packet::from_bytes(&bytes).unwrap();
        p.push(100).unwrap();
        (p.anno[3], p.hops, p.csum, p.csum_start) = (1, 2, Checksum::Partial as u8, p.data() + 134);
        p.hand_over();
        assert_eq!(LINK.admits(&p), Ok(()));
        assert_eq!((p.len(), &p.bytes()[100..], p.hops), (2020, &bytes[..], 2));
        assert_eq!(p.csum_start - p.data(), 134);
        p.push(HEADROOM).unwrap();
    }

    #[test]
    fn packets_are_marked_as_their_entry_says() {
        for (entry, transport) in [(&DEVICE, None), (&SOURCE, None), (&TUN, Some(20)), (&TUN, None)] {
            let mut p = Packet::from_bytes(&[0x45; 60]).unwrap();
            entry.mark(&mut p, transport);
            assert_eq!(entry.admits(&p), Ok(()), "{}", entry.name);
            assert_eq!(p.layer(Layer::Transport), transport.map(|t| p.data() + t));
            p.hops = 1;
            assert_eq!(entry.admits(&p), Err("its number of rounds"));
        }
    }
}
