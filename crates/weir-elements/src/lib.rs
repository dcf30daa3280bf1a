//! The element library: one file an element.
//!
//! An element's file holds its manual page, parameters and handlers (the `element!` macro), its program (the
//! function `program`) and its tests. To add one: write the file, and add it to the `mod.rs` of its family.

#![forbid(unsafe_code)]

#[macro_use]
mod macros;
mod anno;
mod args;
mod class;
pub mod fields;
mod headers;
mod names;
mod prelude;
pub mod reference;
mod routes;
#[doc(hidden)]
pub mod testing;

mod basic;
mod classify;
mod ethernet;
mod ip;
mod ip6;
mod nat;
mod times;
mod timestamps;

mod shaping;
mod tunnel;
mod wifi;

mod registry;

pub use args::{Args, Bandwidth, CellValue, FromArg, FromRest};
pub use times::{Time, parse_time, time_text};

pub use class::{Class, Configure, Configured, class};
pub use names::{NameKind, Names, with_names};
pub use registry::{class_named, classes};

/// Filter expressions as programs, for elements of other crates.
pub use classify::filter;

/// Rates of token buckets, for engine nodes.
pub mod token_rate {
    pub use crate::shaping::rate::{FULL, Rate, Spec, THRESHOLD};
}

/// Pieces of programs, for elements of other crates.
pub mod build {
    pub use crate::headers::{
        ether_bits, halves, load_ether, store_ether, update_checksum, update_ip_checksum,
        update_transport_checksum,
    };
}

#[doc(hidden)]
pub mod private {
    //! What the `element!` macro refers to.
    pub use weir_ir::{Builder, ClassInfo, Element, HandlerInfo, ParamInfo, ParamKind, Peers, State};
    pub use weir_packet::Packet;

    /// The number that follows `prefix` in the name of a handler (3 in `active3`).
    pub fn numbered(handler: &str, prefix: &str) -> Option<u32> {
        handler.strip_prefix(prefix)?.parse().ok()
    }
}
