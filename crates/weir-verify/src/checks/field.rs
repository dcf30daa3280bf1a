//! Header fields as a requirement names them.

use weir_ir::program::Width;

/// A part of a packet that an invariant speaks of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// Bits of the Ethernet header.
    Ether(Bits),
    /// Bits of the IP header, by its version. `None`: there is no such field.
    Net {
        /// In IPv4.
        v4: Option<Bits>,
        /// In IPv6.
        v6: Option<Bits>,
    },
    /// Bits of the transport header.
    Transport(Bits),
    /// What follows the transport header, or for other protocols the network header.
    Payload,
}

/// Bits of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bits {
    /// Bytes in front of the number that they are in.
    pub offset: u32,
    /// Width of that number.
    pub width: Width,
    /// Bits of the number that count.
    pub mask: u128,
}

impl Bits {
    /// A whole number.
    pub fn number(offset: u32, width: Width) -> Bits {
        Bits { offset, width, mask: width.max() }
    }
}
