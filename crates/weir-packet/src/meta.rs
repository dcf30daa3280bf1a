//! What a packet carries beside its bytes.

use std::mem::offset_of;

use crate::pool::{HUGE_CAPACITY, LARGE_CAPACITY, SMALL_CAPACITY};

/// Length of the annotation area in bytes (Click's `Packet::anno_size`).
pub const ANNO_LEN: usize = 48;

/// The value of a layer mark that is not set.
pub const UNSET: u32 = u32::MAX;

/// A position that loads and stores are relative to.
///
/// `Data` is the first byte of the packet and moves with push and pull; the others are marks: absolute positions
/// that an element sets, and which survive push and pull.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Layer {
    /// The first byte of the packet.
    Data = 0,
    /// Link header.
    Mac = 1,
    /// Network header.
    Net = 2,
    /// Transport header.
    Transport = 3,
    /// A free mark for walks over options and extension headers.
    Cursor = 4,
}

impl Layer {
    /// All layers, in the order of their numbers.
    pub const ALL: [Layer; 5] = [Layer::Data, Layer::Mac, Layer::Net, Layer::Transport, Layer::Cursor];

    /// The name in the text form of the IR.
    pub fn name(self) -> &'static str {
        match self {
            Layer::Data => "data",
            Layer::Mac => "mac",
            Layer::Net => "net",
            Layer::Transport => "transport",
            Layer::Cursor => "cursor",
        }
    }

    /// The layer of that name.
    pub fn from_name(name: &str) -> Option<Layer> {
        Layer::ALL.into_iter().find(|l| l.name() == name)
    }
}

/// The state of a packet's transport checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Checksum {
    /// The checksum field is whatever the sender wrote: complete, but not verified.
    #[default]
    Unknown = 0,
    /// Complete and verified (by hardware, or by the local sender's kernel).
    Full = 1,
    /// Only the pseudo header is summed; the rest is left to whoever sends the packet to a real wire
    /// (Linux `CHECKSUM_PARTIAL`; [`Meta::csum_start`] and [`Meta::csum_offset`] say where).
    Partial = 2,
}

/// To whom the link layer delivered the packet (Click's `Packet::PacketType`, Linux `PACKET_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum PacketType {
    /// To this host.
    #[default]
    Host = 0,
    /// Link-layer broadcast.
    Broadcast = 1,
    /// Link-layer multicast.
    Multicast = 2,
    /// To another host, seen in promiscuous mode.
    OtherHost = 3,
    /// Sent by this host.
    Outgoing = 4,
}

/// The origin of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Provenance {
    /// It came in, or is a copy of one that did, whatever was changed in it.
    #[default]
    Sent = 0,
    /// An element made it of a packet to answer that: an ICMP error, an echo reply, an answer of ARP.
    Answer = 1,
    /// An element made it, of nothing that came in: a question of ARP, or what answers that.
    Made = 2,
}

/// The segmentation of a large packet before it reaches a wire (virtio-net `gso_type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Gso {
    /// Nothing to cut.
    #[default]
    None = 0,
    /// TCP over IPv4.
    TcpV4 = 1,
    /// UDP datagrams of equal size.
    Udp = 3,
    /// TCP over IPv6.
    TcpV6 = 4,
}

/// The metadata that every new packet is given: one vector. The rest is written anew only where the packet that had the
/// buffer before changed it, which most packets never do.
#[derive(Debug, Clone)]
#[repr(C, align(32))]
pub(crate) struct Head {
    /// Position of the first byte of the packet.
    pub data: u32,
    /// Position behind the last byte of the packet.
    pub end: u32,
    pub size: Size,
    pub dirty: Dirty,
    /// Lowest position that has ever been part of this packet: bytes from here on are defined.
    pub floor: u32,
    /// Marks of `mac`, `net`, `transport` and `cursor`, or [`UNSET`].
    pub marks: [u32; 4],
}

/// The size of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Size {
    /// That of an ordinary packet; 0, as in memory that nobody has written.
    Small = 0,
    /// That of a packet that segmentation offload made.
    Large = 1,
    /// That of the longest packets, which are infrequent: it comes from the allocator and goes back to it.
    Huge = 2,
}

impl Size {
    /// The smallest with so many bytes.
    #[inline]
    pub const fn of(need: u32) -> Size {
        if need <= SMALL_CAPACITY {
            Size::Small
        } else if need <= LARGE_CAPACITY {
            Size::Large
        } else {
            Size::Huge
        }
    }

    /// Bytes of the buffer.
    #[inline]
    pub const fn capacity(self) -> u32 {
        match self {
            Size::Small => SMALL_CAPACITY,
            Size::Large => LARGE_CAPACITY,
            Size::Huge => HUGE_CAPACITY,
        }
    }
}

/// Which metadata behind the head may be other than a fresh packet's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C, align(2))]
pub(crate) struct Dirty {
    /// The annotations that most elements use: as many as fill a vector.
    pub first: bool,
    /// What is behind those.
    pub rest: bool,
}

impl Dirty {
    pub const NONE: Dirty = Dirty { first: false, rest: false };
    pub const ALL: Dirty = Dirty { first: true, rest: true };
}

impl Head {
    #[inline]
    pub const fn fresh(size: Size, data: u32) -> Head {
        Head { data, end: data, size, dirty: Dirty::NONE, floor: data, marks: [UNSET; 4] }
    }
}

/// Everything of a packet but its bytes. All positions are offsets from the start of the buffer.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
pub struct Meta {
    pub(crate) head: Head,
    /// Annotations in Click's layout.
    pub anno: [u8; ANNO_LEN],
    /// Time of arrival, nanoseconds since the epoch.
    pub timestamp: u64,
    /// Flow hash, 0 if none was computed.
    pub hash: u32,
    /// Number of the port on which the packet entered.
    pub in_port: u16,
    /// [`PacketType`] as a number.
    pub packet_type: u8,
    /// [`Checksum`] as a number.
    pub csum: u8,
    /// With a partial checksum: position of the first byte to sum.
    pub csum_start: u32,
    /// With a partial checksum: where the sum goes, counted from `csum_start`.
    pub csum_offset: u16,
    /// Payload bytes of each segment, when [`Gso`] is not `None`; 0: the packet is not to be segmented, whatever `gso` says.
    pub gso_size: u16,
    /// [`Gso`] as a number.
    pub gso: u8,
    /// How often the packet went round a cycle of the graph.
    pub hops: u8,
    /// Not 0 if this packet is followed by a trace.
    pub trace: u16,
    /// [`Provenance`] as a number.
    pub provenance: u8,
    /// Fills the cache line, so that fresh metadata is written in whole vectors.
    rest: [u8; 19],
}

/// Where compiled code finds the fields that only packets may change, in bytes from the address of a [`Meta`].
impl Meta {
    /// Of [`data`](Meta::data), 32 bits.
    pub const DATA_OFFSET: usize = offset_of!(Meta, head.data);
    /// Of [`end`](Meta::end), 32 bits.
    pub const END_OFFSET: usize = offset_of!(Meta, head.end);
    /// Of [`floor`](Meta::floor), 32 bits.
    pub const FLOOR_OFFSET: usize = offset_of!(Meta, head.floor);
    /// Of the marks: 32 bits each, in the order of [`Layer::ALL`] without `Data`; [`UNSET`] if not set.
    pub const MARKS_OFFSET: usize = offset_of!(Meta, head.marks);
    /// Of a byte that is to be set to 1 by who writes what has no constant here (annotations and the public fields) in front
    /// of [`REST_OFFSET`](Meta::REST_OFFSET).
    pub const DIRTY_FIRST_OFFSET: usize = offset_of!(Meta, head.dirty.first);
    /// The same for what is behind that.
    pub const DIRTY_REST_OFFSET: usize = offset_of!(Meta, head.dirty.rest);
    /// Of what is behind the first annotations.
    pub const REST_OFFSET: usize = 2 * size_of::<Head>();
}

impl Meta {
    /// Position of the first byte of the packet.
    #[inline]
    pub fn data(&self) -> u32 {
        self.head.data
    }

    /// Position behind the last byte of the packet.
    #[inline]
    pub fn end(&self) -> u32 {
        self.head.end
    }

    /// Lowest position whose byte is defined.
    #[inline]
    pub fn floor(&self) -> u32 {
        self.head.floor
    }

    /// Size of the buffer in bytes.
    #[inline]
    pub fn capacity(&self) -> u32 {
        self.head.size.capacity()
    }

    /// The packet's origin.
    pub fn provenance(&self) -> Provenance {
        match self.provenance {
            1 => Provenance::Answer,
            2 => Provenance::Made,
            _ => Provenance::Sent,
        }
    }

    /// The transport checksum's state.
    pub fn checksum(&self) -> Checksum {
        match self.csum {
            1 => Checksum::Full,
            2 => Checksum::Partial,
            _ => Checksum::Unknown,
        }
    }

    #[inline]
    pub(crate) const fn fresh(size: Size, data: u32) -> Meta {
        Meta {
            head: Head::fresh(size, data),
            anno: [0; ANNO_LEN],
            timestamp: 0,
            hash: 0,
            in_port: 0,
            packet_type: 0,
            csum: 0,
            csum_start: 0,
            csum_offset: 0,
            gso_size: 0,
            gso: 0,
            hops: 0,
            trace: 0,
            provenance: 0,
            rest: [0; 19],
        }
    }
}
