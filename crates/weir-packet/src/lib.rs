//! The packet: one contiguous buffer with headroom and tailroom, layer marks, annotations and metadata.
//!
//! A [`Packet`] owns one block of memory: [`Meta`] first, the bytes right behind it. Compiled code and the
//! interpreter address the same block, so its layout (`repr(C)`) is part of the contract. Positions are byte
//! offsets from the start of the buffer (the first byte behind `Meta`), never pointers.
//!
//! Memory that a packet exposes is always defined: a byte is either what was received or written, or zero. A
//! recycled buffer never shows an earlier packet ([`Meta::floor`]).

mod batch;
pub mod entry;
mod meta;
mod packet;
mod pool;

pub use batch::{Buffers, RawBatch, fetch};
pub use meta::{ANNO_LEN, Checksum, Gso, Layer, Meta, PacketType, Provenance, UNSET};
pub use packet::{BUFFER_OFFSET, NoSpace, Packet};
pub use pool::{HEADROOM, HUGE_CAPACITY, LARGE_CAPACITY, MAX_LEN, SMALL_CAPACITY};
