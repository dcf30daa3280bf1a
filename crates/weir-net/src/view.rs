//! Views of headers: a byte slice that was checked once, with getters, and setters where the slice is mutable.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::EtherAddr;
use crate::checksum::{self, Sum};

/// The bytes are not such a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// Fewer bytes than the header has.
    #[error("{header} header needs {need} bytes, there are {have}")]
    Short {
        /// Name of the header.
        header: &'static str,
        /// Bytes it needs.
        need: usize,
        /// Bytes there are.
        have: usize,
    },
    /// A field has a value that it cannot have.
    #[error("{header} header: {field} is {value}")]
    Field {
        /// Name of the header.
        header: &'static str,
        /// Name of the field.
        field: &'static str,
        /// Its value.
        value: usize,
    },
}

/// Declares a view: its name, minimum length, and fields as `getter setter: type @ offset`.
macro_rules! view {
    ($(#[$doc:meta])* $name:ident, $text:literal, $min:literal;
     $($(#[$fdoc:meta])* $get:ident $set:ident: $kind:ident @ $at:literal,)*) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy)]
        pub struct $name<T>(T);

        impl<T: AsRef<[u8]>> $name<T> {
            /// Length of the fixed part in bytes.
            pub const MIN_LEN: usize = $min;

            fn with_min(bytes: T) -> Result<Self, HeaderError> {
                need($text, $min, bytes.as_ref().len())?;
                Ok($name(bytes))
            }

            fn b(&self) -> &[u8] {
                self.0.as_ref()
            }

            $($(#[$fdoc])* pub fn $get(&self) -> view!(@type $kind) { view!(@get $kind self.b(), $at) })*
        }

        impl<T: AsRef<[u8]> + AsMut<[u8]>> $name<T> {
            $(#[doc = concat!("Sets what [`", stringify!($get), "`](Self::", stringify!($get), ") gives.")]
            pub fn $set(&mut self, value: view!(@type $kind)) { view!(@set $kind self.0.as_mut(), $at, value) })*
        }
    };
    (@type u8) => { u8 };
    (@type u16) => { u16 };
    (@type u32) => { u32 };
    (@type ether) => { EtherAddr };
    (@type ip4) => { Ipv4Addr };
    (@type ip6) => { Ipv6Addr };
    (@get u8 $b:expr, $at:literal) => { $b[$at] };
    (@get u16 $b:expr, $at:literal) => { u16::from_be_bytes(array($b, $at)) };
    (@get u32 $b:expr, $at:literal) => { u32::from_be_bytes(array($b, $at)) };
    (@get ether $b:expr, $at:literal) => { EtherAddr(array($b, $at)) };
    (@get ip4 $b:expr, $at:literal) => { Ipv4Addr::from(array::<4>($b, $at)) };
    (@get ip6 $b:expr, $at:literal) => { Ipv6Addr::from(array::<16>($b, $at)) };
    (@set u8 $b:expr, $at:literal, $v:expr) => { $b[$at] = $v };
    (@set u16 $b:expr, $at:literal, $v:expr) => { $b[$at..$at + 2].copy_from_slice(&$v.to_be_bytes()) };
    (@set u32 $b:expr, $at:literal, $v:expr) => { $b[$at..$at + 4].copy_from_slice(&$v.to_be_bytes()) };
    (@set ether $b:expr, $at:literal, $v:expr) => { $b[$at..$at + 6].copy_from_slice(&$v.octets()) };
    (@set ip4 $b:expr, $at:literal, $v:expr) => { $b[$at..$at + 4].copy_from_slice(&$v.octets()) };
    (@set ip6 $b:expr, $at:literal, $v:expr) => { $b[$at..$at + 16].copy_from_slice(&$v.octets()) };
}

fn need(header: &'static str, need: usize, have: usize) -> Result<(), HeaderError> {
    if have < need { Err(HeaderError::Short { header, need, have }) } else { Ok(()) }
}

/// `N` bytes at a position that the view's constructor found to be inside.
fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}

view! {
    /// Ethernet II header (IEEE 802.3).
    Ethernet, "Ethernet", 14;
    /// Destination address.
    dst set_dst: ether @ 0,
    /// Source address.
    src set_src: ether @ 6,
    /// EtherType, or the length of an 802.3 frame if below 0x0600.
    ethertype set_ethertype: u16 @ 12,
}

impl<T: AsRef<[u8]>> Ethernet<T> {
    /// Views an Ethernet header.
    pub fn new(bytes: T) -> Result<Self, HeaderError> {
        Self::with_min(bytes)
    }

    /// Everything behind the header.
    pub fn payload(&self) -> &[u8] {
        &self.b()[14..]
    }
}

view! {
    /// 802.1Q tag, from the tag control information on (behind the EtherType that announces it).
    Vlan, "VLAN", 4;
    /// Tag control information: priority, drop eligibility, identifier.
    tci set_tci: u16 @ 0,
    /// EtherType of what follows.
    ethertype set_ethertype: u16 @ 2,
}

impl<T: AsRef<[u8]>> Vlan<T> {
    /// Views a VLAN tag.
    pub fn new(bytes: T) -> Result<Self, HeaderError> {
        Self::with_min(bytes)
    }

    /// VLAN identifier, 0 to 4095.
    pub fn vid(&self) -> u16 {
        self.tci() & 0x0fff
    }

    /// Priority code point, 0 to 7.
    pub fn priority(&self) -> u8 {
        (self.tci() >> 13) as u8
    }

    /// Everything behind the tag.
    pub fn payload(&self) -> &[u8] {
        &self.b()[4..]
    }
}

view! {
    /// ARP packet for IPv4 over Ethernet (RFC 826).
    Arp, "ARP", 28;
    /// 1 for a request, 2 for a reply.
    operation set_operation: u16 @ 6,
    /// Sender's Ethernet address.
    sender_ether set_sender_ether: ether @ 8,
    /// Sender's IPv4 address.
    sender_ip set_sender_ip: ip4 @ 14,
    /// Target's Ethernet address.
    target_ether set_target_ether: ether @ 18,
    /// Target's IPv4 address.
    target_ip set_target_ip: ip4 @ 24,
}

impl<T: AsRef<[u8]>> Arp<T> {
    /// Views an ARP packet; an error if it is not for IPv4 over Ethernet.
    pub fn new(bytes: T) -> Result<Self, HeaderError> {
        let view = Self::with_min(bytes)?;
        let kind = u64::from_be_bytes(array(view.b(), 0)) >> 16;
        if kind != 0x0001_0800_0604 {
            return Err(HeaderError::Field { header: "ARP", field: "address format", value: kind as usize });
        }
        Ok(view)
    }
}

view! {
    /// IPv4 header (RFC 791).
    Ipv4, "IPv4", 20;
    /// Type of service: DSCP and ECN.
    tos set_tos: u8 @ 1,
    /// Length of header and payload in bytes.
    total_len set_total_len: u16 @ 2,
    /// Identification.
    id set_id: u16 @ 4,
    /// Flags (upper 3 bits) and fragment offset in units of 8 bytes.
    fragment_field set_fragment_field: u16 @ 6,
    /// Time to live.
    ttl set_ttl: u8 @ 8,
    /// Protocol of the payload.
    protocol set_protocol: u8 @ 9,
    /// Header checksum.
    checksum set_checksum: u16 @ 10,
    /// Source address.
    src set_src: ip4 @ 12,
    /// Destination address.
    dst set_dst: ip4 @ 16,
}

impl<T: AsRef<[u8]>> Ipv4<T> {
    /// Views an IPv4 header: version, header length and total length are valid, and the header with its options
    /// is there. The payload may be cut (see [`payload`](Self::payload)).
    pub fn new(bytes: T) -> Result<Self, HeaderError> {
        let view = Self::with_min(bytes)?;
        let field = |field, value| Err(HeaderError::Field { header: "IPv4", field, value });
        let version = usize::from(view.b()[0] >> 4);
        if version != 4 {
            return field("version", version);
        }
        if view.header_len() < 20 {
            return field("header length", view.header_len());
        }
        need("IPv4", view.header_len(), view.b().len())?;
        if usize::from(view.total_len()) < view.header_len() {
            return field("total length", view.total_len().into());
        }
        Ok(view)
    }

    /// Length of the header with options, in bytes.
    pub fn header_len(&self) -> usize {
        usize::from(self.b()[0] & 0x0f) * 4
    }

    /// Fragment offset in bytes.
    pub fn fragment_offset(&self) -> usize {
        usize::from(self.fragment_field() & 0x1fff) * 8
    }

    /// Whether more fragments follow.
    pub fn more_fragments(&self) -> bool {
        self.fragment_field() & 0x2000 != 0
    }

    /// Whether the header's checksum is right.
    pub fn checksum_ok(&self) -> bool {
        checksum::checksum(&self.b()[..self.header_len()]) == 0
    }

    /// The payload: up to the total length, or as far as there are bytes.
    pub fn payload(&self) -> &[u8] {
        let end = usize::from(self.total_len()).min(self.b().len());
        self.b().get(self.header_len()..end).unwrap_or(&[])
    }

    /// Sum of the pseudo header for `length` bytes of payload.
    pub fn pseudo_header(&self, length: u16) -> Sum {
        checksum::pseudo4(self.src(), self.dst(), self.protocol(), length)
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Ipv4<T> {
    /// Computes the header checksum anew.
    pub fn fill_checksum(&mut self) {
        self.set_checksum(0);
        let sum = checksum::checksum(&self.b()[..self.header_len()]);
        self.set_checksum(sum);
    }
}

view! {
    /// IPv6 fixed header (RFC 8200).
    Ipv6, "IPv6", 40;
    /// Length of everything behind the fixed header, in bytes.
    payload_len set_payload_len: u16 @ 4,
    /// Protocol of what follows.
    next_header set_next_header: u8 @ 6,
    /// Hop limit.
    hop_limit set_hop_limit: u8 @ 7,
    /// Source address.
    src set_src: ip6 @ 8,
    /// Destination address.
    dst set_dst: ip6 @ 24,
}

impl<T: AsRef<[u8]>> Ipv6<T> {
    /// Views an IPv6 header.
    pub fn new(bytes: T) -> Result<Self, HeaderError> {
        let view = Self::with_min(bytes)?;
        match usize::from(view.b()[0] >> 4) {
            6 => Ok(view),
            value => Err(HeaderError::Field { header: "IPv6", field: "version", value }),
        }
    }

    /// Everything behind the fixed header: up to the payload length, or as far as there are bytes.
    pub fn payload(&self) -> &[u8] {
        let end = (40 + usize::from(self.payload_len())).min(self.b().len());
        &self.b()[40..end]
    }
}

view! {
    /// TCP header (RFC 9293).
    Tcp, "TCP", 20;
    /// Source port.
    src_port set_src_port: u16 @ 0,
    /// Destination port.
    dst_port set_dst_port: u16 @ 2,
    /// Sequence number.
    seq set_seq: u32 @ 4,
    /// Acknowledgement number.
    ack set_ack: u32 @ 8,
    /// Flags: the bits `FIN` to `CWR` of this module.
    flags set_flags: u8 @ 13,
    /// Window, not scaled.
    window set_window: u16 @ 14,
    /// Checksum.
    checksum set_checksum: u16 @ 16,
    /// Urgent pointer.
    urgent set_urgent: u16 @ 18,
}

impl<T: AsRef<[u8]>> Tcp<T> {
    /// Views a TCP header; with its options it is inside the bytes.
    pub fn new(bytes: T) -> Result<Self, HeaderError> {
        let view = Self::with_min(bytes)?;
        if view.header_len() < 20 {
            return Err(HeaderError::Field { header: "TCP", field: "data offset", value: view.header_len() });
        }
        need("TCP", view.header_len(), view.b().len())?;
        Ok(view)
    }

    /// Length of the header with options, in bytes.
    pub fn header_len(&self) -> usize {
        usize::from(self.b()[12] >> 4) * 4
    }

    /// Option bytes.
    pub fn options(&self) -> &[u8] {
        &self.b()[20..self.header_len()]
    }

    /// Everything behind the header.
    pub fn payload(&self) -> &[u8] {
        &self.b()[self.header_len()..]
    }
}

/// Bits of [`Tcp::flags`] (RFC 9293 3.1, RFC 3168).
impl Tcp<()> {
    /// No more data from the sender.
    pub const FIN: u8 = 0x01;
    /// Synchronise sequence numbers.
    pub const SYN: u8 = 0x02;
    /// Reset.
    pub const RST: u8 = 0x04;
    /// Push.
    pub const PSH: u8 = 0x08;
    /// The acknowledgement number is valid.
    pub const ACK: u8 = 0x10;
    /// The urgent pointer is valid.
    pub const URG: u8 = 0x20;
    /// ECN echo.
    pub const ECE: u8 = 0x40;
    /// Congestion window reduced.
    pub const CWR: u8 = 0x80;
}

view! {
    /// UDP header (RFC 768).
    Udp, "UDP", 8;
    /// Source port.
    src_port set_src_port: u16 @ 0,
    /// Destination port.
    dst_port set_dst_port: u16 @ 2,
    /// Length of header and payload in bytes.
    length set_length: u16 @ 4,
    /// Checksum; 0 means none over IPv4.
    checksum set_checksum: u16 @ 6,
}

impl<T: AsRef<[u8]>> Udp<T> {
    /// Views a UDP header.
    pub fn new(bytes: T) -> Result<Self, HeaderError> {
        let view = Self::with_min(bytes)?;
        match view.length() {
            value @ 0..8 => Err(HeaderError::Field { header: "UDP", field: "length", value: value.into() }),
            _ => Ok(view),
        }
    }

    /// The payload: up to the length field, or as far as there are bytes.
    pub fn payload(&self) -> &[u8] {
        let end = usize::from(self.length()).min(self.b().len());
        &self.b()[8..end]
    }
}

view! {
    /// ICMP header (RFC 792), also ICMPv6 (RFC 4443).
    Icmp, "ICMP", 8;
    /// Type of the message.
    kind set_kind: u8 @ 0,
    /// Code within the type.
    code set_code: u8 @ 1,
    /// Checksum.
    checksum set_checksum: u16 @ 2,
    /// Identifier of an echo message.
    echo_id set_echo_id: u16 @ 4,
    /// Sequence number of an echo message.
    echo_seq set_echo_seq: u16 @ 6,
}

impl<T: AsRef<[u8]>> Icmp<T> {
    /// Views an ICMP header.
    pub fn new(bytes: T) -> Result<Self, HeaderError> {
        Self::with_min(bytes)
    }

    /// Everything behind the header.
    pub fn payload(&self) -> &[u8] {
        &self.b()[8..]
    }
}
