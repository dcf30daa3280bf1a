//! Filter expressions as programs: the compiled form of `weir_model::filter`.

mod cond;
mod frame;
mod plan;
mod read;
mod rows;
mod test;

pub(super) use cond::{Bit, Cond, Field, Test};
pub(super) use plan::FEW;
pub use plan::{Found, Plan};
pub use read::Headers;

use weir_ir::Layer;
use weir_model::filter::{Field as FieldPrim, Layer as FieldLayer};

/// What a filter looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// A packet whose `net` mark stands on an IPv4 header, of which 20 bytes are known to be there.
    Ip,
    /// A packet whose `net` mark stands on an IPv6 header, of which 40 bytes are known to be there.
    Ip6,
    /// An Ethernet frame.
    Ethernet,
    /// Bytes of a packet of any kind.
    Bytes,
}

/// The mark of the header that a field is in.
fn layer_of(f: &FieldPrim) -> Layer {
    if f.layer == FieldLayer::Ip { Layer::Net } else { Layer::Cursor }
}

#[cfg(test)]
mod lists;
#[cfg(test)]
mod tests;
