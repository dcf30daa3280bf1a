//! Header fields as a requirement names them.

use weir_ir::program::{Layer, Width};

/// A part of a packet that an invariant speaks of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// Bits of a header, from its mark: offset in bytes, width of the number there, and which bits count.
    Header {
        /// The layer.
        layer: Layer,
        /// Offset in bytes.
        offset: u32,
        /// Width of the number.
        width: Width,
        /// Bits that count.
        mask: u128,
    },
    /// What follows the transport header, or for other protocols the network header.
    Payload,
}
