//! Fields of headers by their names.

use weir_ir::{Builder, Layer, V, Width};

use crate::headers::{load_ether, store_ether};

/// A field of a header: its place behind the mark of its layer, and its width.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    layer: Layer,
    off: u32,
    width: Width,
}

impl Field {
    const fn new(layer: Layer, off: u32, width: Width) -> Field {
        Field { layer, off, width }
    }

    /// The same field of a header that begins `off` bytes behind the mark of `layer`.
    pub const fn at(self, layer: Layer, off: u32) -> Field {
        Field { layer, off: off + self.off, width: self.width }
    }

    /// Reads it; the packet has to have it.
    pub fn load(self, b: &mut Builder) -> V {
        b.load(self.width, self.layer, self.off)
    }

    /// Writes it; the packet has to have it.
    pub fn store(self, b: &mut Builder, v: V) {
        debug_assert_eq!(v.width, self.width, "{self:?}");
        b.store(self.layer, self.off, v);
    }

    /// Writes a constant to it; the packet has to have it.
    pub fn store_const(self, b: &mut Builder, value: impl Into<u128>) {
        b.store_const(self.width, self.layer, self.off, value);
    }
}

/// An Ethernet address in a frame. As a value it has the form of [`crate::headers::ether_bits`].
#[derive(Debug, Clone, Copy)]
pub struct EtherAddress {
    off: u32,
}

impl EtherAddress {
    /// The address at an offset in the frame.
    pub const fn at(off: u32) -> EtherAddress {
        EtherAddress { off }
    }

    /// Reads it; the frame has to have it.
    pub fn load(self, b: &mut Builder) -> V {
        load_ether(b, Layer::Data, self.off)
    }

    /// Writes it; the frame has to have it.
    pub fn store(self, b: &mut Builder, addr: V) {
        store_ether(b, Layer::Data, self.off, addr);
    }
}

macro_rules! fields {
    ($(#[doc = $doc:literal])* $module:ident at $layer:ident: $($(#[doc = $fdoc:literal])* $name:ident = $off:literal, $width:ident;)*) => {
        $(#[doc = $doc])*
        pub mod $module {
            use super::{Field, Layer, Width};

            $($(#[doc = $fdoc])* pub const $name: Field = Field::new(Layer::$layer, $off, Width::$width);)*
        }
    };
}

fields! {
    /// The IPv4 header (RFC 791), at the `net` mark.
    ipv4 at Net:
    /// Version (4), and header length in words of 4 bytes.
    VERSION_IHL = 0, W8;
    /// DSCP and ECN.
    TOS = 1, W8;
    /// Length of the packet.
    LENGTH = 2, W16;
    /// Identification.
    ID = 4, W16;
    /// Flags and fragment offset.
    FRAGMENT = 6, W16;
    /// Time to live.
    TTL = 8, W8;
    /// Protocol of the payload.
    PROTOCOL = 9, W8;
    /// Header checksum.
    CHECKSUM = 10, W16;
    /// Source address.
    SRC = 12, W32;
    /// Destination address.
    DST = 16, W32;
}

fields! {
    /// The IPv6 header (RFC 8200), at the `net` mark.
    ipv6 at Net:
    /// Version (4), traffic class (8) and flow label.
    START = 0, W32;
    /// Version, and the upper half of the traffic class.
    VERSION = 0, W8;
    /// Version (4), traffic class (8), and the first bits of the flow label.
    VERSION_CLASS = 0, W16;
    /// Length of what follows the header.
    PAYLOAD_LENGTH = 4, W16;
    /// Protocol of what follows.
    NEXT_HEADER = 6, W8;
    /// Hop limit.
    HOP_LIMIT = 7, W8;
    /// Source address.
    SRC = 8, W128;
    /// Destination address.
    DST = 24, W128;
}

fields! {
    /// An extension header of IPv6 (RFC 8200 section 4), at the `cursor` mark.
    ipv6_extension at Cursor:
    /// Protocol of what follows.
    NEXT_HEADER = 0, W8;
    /// Length, in units that depend on the header.
    LENGTH = 1, W8;
    /// Of a fragment header: offset in units of 8 bytes in the upper 13 bits, and whether more follow.
    FRAGMENT = 2, W16;
}

fields! {
    /// An option of IPv4 (RFC 791 section 3.1) or TCP, at the `cursor` mark.
    option at Cursor:
    /// Kind.
    KIND = 0, W8;
    /// Length; kinds 0 and 1 have none.
    LENGTH = 1, W8;
    /// Of routes and timestamps of IPv4: where the next entry goes, 1 the first byte of the option.
    POINTER = 2, W8;
    /// Of timestamps: routers that found no place (4), and the form (4).
    OVERFLOW_AND_FORM = 3, W8;
}

fields! {
    /// Ports of TCP, UDP and their kin, at the `transport` mark.
    ports at Transport:
    /// Source port.
    SRC = 0, W16;
    /// Destination port.
    DST = 2, W16;
}

fields! {
    /// The TCP header (RFC 9293), at the `transport` mark.
    tcp at Transport:
    /// Sequence number.
    SEQ = 4, W32;
    /// Acknowledgement number.
    ACK = 8, W32;
    /// Header length in words of 4 bytes, in the upper four bits.
    DATA_OFFSET = 12, W8;
    /// Flags.
    FLAGS = 13, W8;
    /// Window.
    WINDOW = 14, W16;
    /// Checksum.
    CHECKSUM = 16, W16;
}

fields! {
    /// The UDP header (RFC 768), at the `transport` mark.
    udp at Transport:
    /// Length of header and payload.
    LENGTH = 4, W16;
    /// Checksum; 0: none.
    CHECKSUM = 6, W16;
}

fields! {
    /// The ICMP header (RFC 792), at the `transport` mark.
    icmp at Transport:
    /// Type.
    TYPE = 0, W8;
    /// Code.
    CODE = 1, W8;
    /// Checksum.
    CHECKSUM = 2, W16;
    /// Identifier of an echo.
    ID = 4, W16;
    /// Sequence number of an echo.
    SEQUENCE = 6, W16;
    /// Of a parameter problem: offset of the wrong byte.
    PROBLEM = 4, W8;
    /// Of a redirect: the better gateway.
    GATEWAY = 4, W32;
    /// Of "fragmentation needed" (RFC 1191): the next link's MTU.
    MTU = 6, W16;
}

fields! {
    /// The ICMPv6 header (RFC 4443), at the `transport` mark.
    icmpv6 at Transport:
    /// Type.
    TYPE = 0, W8;
    /// Type and code.
    TYPE_CODE = 0, W16;
    /// Type, code and checksum.
    START = 0, W32;
    /// Checksum.
    CHECKSUM = 2, W16;
    /// Of an error: the MTU, or the offset of the wrong byte; else 0.
    DETAIL = 4, W32;
    /// Of neighbour discovery (RFC 4861 section 4): flags.
    FLAGS = 4, W8;
    /// Of neighbour discovery: flags, and bytes that are reserved.
    FLAGS_RESERVED = 4, W32;
    /// Of neighbour discovery: the address that the message speaks of.
    TARGET = 8, W128;
}

fields! {
    /// The Ethernet header (IEEE 802.3) of a frame; [`ETHER_DST`] and [`ETHER_SRC`] are its addresses.
    ether at Data:
    /// `EtherType` of what follows.
    TYPE = 12, W16;
}

/// The receiver of a frame.
pub const ETHER_DST: EtherAddress = EtherAddress::at(0);
/// The sender of a frame.
pub const ETHER_SRC: EtherAddress = EtherAddress::at(6);
/// The sender's Ethernet address in an ARP message.
pub const ARP_SENDER: EtherAddress = EtherAddress::at(22);
/// The Ethernet address in an ARP message of whom it is for.
pub const ARP_TARGET: EtherAddress = EtherAddress::at(32);

fields! {
    /// The first VLAN tag (IEEE 802.1Q) of a frame, behind its own `EtherType`.
    vlan at Data:
    /// Priority, drop eligibility, and identifier of the VLAN.
    TCI = 14, W16;
    /// `EtherType` of what follows the tag.
    TYPE = 16, W16;
}

fields! {
    /// ARP for IPv4 and Ethernet (RFC 826), in a frame; [`ARP_SENDER`] and [`ARP_TARGET`] are its Ethernet addresses.
    arp at Data:
    /// Address families and lengths of addresses, and the operation.
    START = 14, W64;
    /// Address families.
    FAMILIES = 14, W32;
    /// Lengths of addresses.
    LENGTHS = 18, W16;
    /// Operation: 1 asks, 2 answers.
    OPERATION = 20, W16;
    /// IPv4 address of the sender.
    SENDER_IP = 28, W32;
    /// IPv4 address that is asked for, or that of whom the answer is for.
    TARGET_IP = 38, W32;
}

fields! {
    /// The GRE header (RFC 2784, RFC 2890), at the `transport` mark.
    gre at Transport:
    /// Flags and version.
    FLAGS = 0, W16;
    /// `EtherType` of what follows.
    PROTOCOL = 2, W16;
    /// Checksum, if the flags say that it is there.
    CHECKSUM = 4, W16;
}

fields! {
    /// The VXLAN header (RFC 7348), behind the UDP header at the `transport` mark.
    vxlan at Transport:
    /// Flags.
    FLAGS = 8, W8;
    /// Flags, and bytes that are reserved.
    START = 8, W32;
    /// Network identifier, and a byte that is reserved.
    VNI = 12, W32;
}

fields! {
    /// The GTP-U header (3GPP TS 29.281), behind the UDP header at the `transport` mark.
    gtpu at Transport:
    /// Version, protocol type and flags.
    FLAGS = 8, W8;
    /// Message type.
    TYPE = 9, W8;
    /// Length of what follows the first eight bytes.
    LENGTH = 10, W16;
    /// Tunnel endpoint identifier.
    TEID = 12, W32;
    /// Sequence number, if the flags say that it is there.
    SEQUENCE = 16, W16;
    /// Type of the first extension header.
    NEXT_EXTENSION = 19, W8;
    /// The first extension header, of four bytes.
    EXTENSION = 20, W32;
}

fields! {
    /// The last four bytes of a GTP-U extension header, or its only ones (3GPP TS 29.281 section 5.2), at the `cursor` mark.
    gtpu_extension at Cursor:
    /// Length in units of four bytes, in the first ones.
    LENGTH = 0, W8;
    /// Type of the next extension header, in the last ones.
    NEXT_EXTENSION = 3, W8;
}

fields! {
    /// The header of an IEEE 802.11 frame.
    wifi at Data:
    /// Frame control.
    CONTROL = 0, W16;
    /// Fragment (4) and sequence number (12).
    SEQUENCE_CONTROL = 22, W16;
}
