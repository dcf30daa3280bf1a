//! Filter expressions as programs: the compiled form of `weir_filter`.

mod cond;
mod frame;
mod place;
mod plan;
mod read;
mod rows;
mod test;

pub(super) use cond::{Bit, Cond, Field, Test};
pub(super) use plan::FEW;
pub use plan::{MatchedBy, RuleList};
pub use read::Headers;

/// The packets that a filter looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// A packet whose `net` mark stands on an IPv4 header, of which 20 bytes are known to be there.
    Ip,
    /// A packet whose `net` mark stands on an IPv6 header, of which 40 bytes are known to be there.
    Ip6,
    /// The same, where protocol and ports are those behind extension headers (RFC 8200 section 4), as Linux takes them.
    /// Packets whose extension headers cannot be followed, and that are asked for their protocol, are dropped (`BadHeader`).
    Ip6Followed,
    /// An Ethernet frame.
    Ethernet,
    /// Bytes of a packet of any kind.
    Bytes,
}

#[cfg(test)]
mod lists;
#[cfg(test)]
mod tests;
