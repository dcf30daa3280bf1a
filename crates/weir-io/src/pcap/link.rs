//! What the packets of a capture begin with, and where an IP header is behind that.
//!
//! Numbers and layouts are those of <https://www.tcpdump.org/linktypes.html>.

use weir_net::Headers;
use weir_packet::{Layer, Packet};

/// A link type (`LINKTYPE_…`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link(pub u16);

const ETHERNET: u16 = 1;
const FDDI: u16 = 10;
/// PPP with the address and control bytes of HDLC, or Cisco HDLC.
const PPP_HDLC: u16 = 50;
const IEEE802_11: u16 = 105;
const IEEE802_11_PRISM: u16 = 119;
const IEEE802_11_RADIOTAP: u16 = 127;
const IEEE802_11_AVS: u16 = 163;

/// EtherTypes, and numbers of PPP (RFC 1661, RFC 5072).
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const TAGS: [u16; 3] = [0x8100, 0x88a8, 0x9100];
const PPP_IPV4: u16 = 0x0021;
const PPP_IPV6: u16 = 0x0057;

impl Link {
    /// Of the number in a header: the upper bits say how long the FCS is, and whether that is known.
    pub(super) fn of_header(number: u32) -> Link {
        Link(number as u16)
    }

    /// Whether packets begin with an Ethernet header.
    pub(super) fn is_ethernet(self) -> bool {
        self.0 == ETHERNET
    }

    /// Whether it is known where an IP header is.
    pub(super) fn has_ip(self) -> bool {
        matches!(
            self.0,
            0 | 1
                | 9
                | 10
                | 12
                | 14
                | 50
                | 51
                | 100
                | 101
                | 104
                | 105
                | 107
                | 108
                | 113
                | 117
                | 119
                | 123
                | 127
                | 138
                | 163
                | 192
                | 228
                | 229
                | 276
        )
    }

    /// Marks the network and transport header of an IP packet. Marks nothing if it is not one.
    pub(super) fn mark_ip(self, packet: &mut Packet) {
        let bytes = packet.bytes();
        let Some(h) = ip_at(self.0, bytes, 0).and_then(|at| Headers::of_ip(bytes, at)) else { return };
        let data = packet.data();
        packet.set_layer(Layer::Net, Some(data + h.net as u32));
        packet
            .set_layer(Layer::Transport, h.transport.map(|t| data + t as u32).filter(|&t| t <= packet.end()));
    }
}

fn byte(b: &[u8], at: usize) -> Option<u8> {
    b.get(at).copied()
}

fn be16(b: &[u8], at: usize) -> Option<u16> {
    b.get(at..)?.first_chunk().map(|b| u16::from_be_bytes(*b))
}

fn le16(b: &[u8], at: usize) -> Option<u16> {
    b.get(at..)?.first_chunk().map(|b| u16::from_le_bytes(*b))
}

fn be32(b: &[u8], at: usize) -> Option<u32> {
    b.get(at..)?.first_chunk().map(|b| u32::from_be_bytes(*b))
}

/// Where the IP header is of what begins with a link header at `at`.
fn ip_at(link: u16, b: &[u8], at: usize) -> Option<usize> {
    match link {
        // Raw IP: as the standard says, of BSD, of OpenBSD, of version 4, of version 6.
        101 | 12 | 14 | 228 | 229 => Some(at),
        ETHERNET => behind_ethertype(b, at + 12),
        // Null and loop of BSD: the family, in the byte order of the machine or of the network.
        0 => {
            let family = be32(b, at)?;
            (is_family(family) || is_family(family.swap_bytes())).then_some(at + 4)
        }
        108 => is_family(be32(b, at)?).then_some(at + 4),
        // Linux cooked, versions 1 and 2.
        113 => behind_ethertype(b, at + 14),
        276 => match be16(b, at)? {
            IPV4 | IPV6 => Some(at + 20),
            // The tag's two bytes, then a type.
            tag if TAGS.contains(&tag) => behind_ethertype(b, at + 22),
            _ => None,
        },
        9 => behind_ppp(b, at),
        PPP_HDLC => match byte(b, at)? {
            0xff => behind_ppp(b, at),
            0x0f | 0x8f => behind_ethertype(b, at + 2),
            _ => None,
        },
        // PPPoE (RFC 2516, section 4): sessions, not discovery.
        51 => (byte(b, at + 1)? == 0).then(|| behind_ppp(b, at + 6)).flatten(),
        104 => behind_ethertype(b, at + 2),
        // Frame relay (RFC 2427): a two-byte address, unnumbered information, then the protocol.
        107 => match (byte(b, at + 2)?, byte(b, at + 3)?) {
            (0x03, 0xcc | 0x8e) => Some(at + 4),
            // SNAP, with or without a byte that aligns it.
            (0x03, 0x80) => behind_ethertype(b, at + 7),
            (0x03, 0x00) if byte(b, at + 4)? == 0x80 => behind_ethertype(b, at + 8),
            _ => None,
        },
        // Frames with LLC, not those that run the ring.
        FDDI => (byte(b, at)? & 0xf0 == 0x50).then(|| behind_llc(b, at + 13)).flatten(),
        100 => behind_llc(b, at),
        // SunATM: four bytes about the circuit.
        123 => behind_llc(b, at + 4),
        138 => behind_ethertype(b, at + 16),
        // OpenBSD's log: the header says its length, which is padded, and the family.
        117 => {
            let len = usize::from(byte(b, at)?).next_multiple_of(4);
            is_family(byte(b, at + 1)?.into()).then_some(at + len)
        }
        // PPI: a header with its length, and the link type of what follows.
        192 => {
            let (len, inner) = (le16(b, at + 2)?, le16(b, at + 4)?);
            if len < 8 || inner == 192 {
                return None;
            }
            ip_at(inner, b, at + usize::from(len))
        }
        IEEE802_11 => behind_wifi(b, at, false),
        // A Prism header has 144 bytes, unless it is AVS's, which begins with its version and says its length.
        IEEE802_11_PRISM | IEEE802_11_AVS => {
            let avs = be32(b, at)? & 0xffff_f000 == 0x8021_1000;
            let len = if avs { be32(b, at + 4)? as usize } else { 144 };
            behind_wifi(b, at.checked_add(len)?, false)
        }
        IEEE802_11_RADIOTAP => {
            let len = usize::from(le16(b, at + 2)?);
            (len >= 8).then(|| behind_wifi(b, at + len, radiotap_pads(b, at).unwrap_or(false))).flatten()
        }
        _ => None,
    }
}

/// Address families of IPv4 and IPv6: of all systems; of Linux, NetBSD and OpenBSD, FreeBSD, macOS.
fn is_family(family: u32) -> bool {
    matches!(family, 2 | 10 | 24 | 28 | 30)
}

/// Behind an EtherType and VLAN tags, if that says IP.
fn behind_ethertype(b: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match be16(b, at)? {
            IPV4 | IPV6 => return Some(at + 2),
            tag if TAGS.contains(&tag) => at += 4,
            _ => return None,
        }
    }
}

/// Behind the protocol of PPP (RFC 1661), which may be short, with or without address and control in front (RFC 1662).
fn behind_ppp(b: &[u8], at: usize) -> Option<usize> {
    let at = if b.get(at..)?.starts_with(&[0xff, 0x03]) { at + 2 } else { at };
    let first = byte(b, at)?;
    if first & 1 == 1 {
        return matches!(u16::from(first), PPP_IPV4 | PPP_IPV6).then_some(at + 1);
    }
    matches!(be16(b, at)?, PPP_IPV4 | PPP_IPV6).then_some(at + 2)
}

/// Behind an LLC header with SNAP (IEEE 802.2, RFC 1042).
fn behind_llc(b: &[u8], at: usize) -> Option<usize> {
    let llc = b.get(at..at + 6)?;
    // Ethernet's types, also those that Cisco's bridges write.
    let known = matches!(llc, [0xaa, 0xaa, 0x03, 0, 0, 0 | 0xf8]);
    known.then(|| behind_ethertype(b, at + 6)).flatten()
}

/// Behind the header of an IEEE 802.11 frame that carries data; with `padded`, what follows begins at a multiple of four.
fn behind_wifi(b: &[u8], at: usize, padded: bool) -> Option<usize> {
    let [control, flags] = *b.get(at..)?.first_chunk::<2>()?;
    // Version 0, data; not a subtype without data, and not encrypted.
    if control & 0x0f != 0x08 || control & 0x40 != 0 || flags & 0x40 != 0 {
        return None;
    }
    let mut len = if flags & 0x03 == 0x03 { 30 } else { 24 };
    if control & 0x80 != 0 {
        // Several frames in one have headers of their own.
        if byte(b, at + len)? & 0x80 != 0 {
            return None;
        }
        len += if flags & 0x80 != 0 { 6 } else { 2 };
    }
    behind_llc(b, at + if padded { len.next_multiple_of(4) } else { len })
}

/// Whether a radiotap header says that there is padding behind the 802.11 header (radiotap.org, field "Flags").
fn radiotap_pads(b: &[u8], at: usize) -> Option<bool> {
    let present = le16(b, at + 4)?;
    if present & 2 == 0 {
        return Some(false);
    }
    // Further words say that they are there by their highest bit.
    let mut fields = at + 4;
    while byte(b, fields + 3)? & 0x80 != 0 {
        fields += 4;
    }
    fields += 4;
    if present & 1 != 0 {
        // A time of eight bytes comes first, at a multiple of eight from the header's start.
        fields = at + (fields - at).next_multiple_of(8) + 8;
    }
    Some(byte(b, fields)? & 0x20 != 0)
}
