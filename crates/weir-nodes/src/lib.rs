//! The library of engine nodes: what is not a packet program (queues, schedulers, sources, devices, files, scripts).
//!
//! A node's file holds its manual page, parameters and handlers (the `engine_node!` macro), its behaviour and its tests.
//! To add one: write the file, and add it to the `mod.rs` of its folder. A node does to packets what a [`Cx`](node::Cx)
//! offers, whoever runs the graph; what is known of it before it runs are its [`NodeFacts`](node::NodeFacts).

#![forbid(unsafe_code)]

pub mod env;
#[macro_use]
pub mod node;

mod common;
mod control;
mod devices;
mod files;
mod flows;
mod host;
mod links;
#[macro_use]
mod queues;
mod schedulers;
mod shapers;
mod sinks;
mod sockets;
mod sources;

use node::NodeClass;

/// The classes, folder by folder.
const FOLDERS: &[&[NodeClass]] = &[
    control::CLASSES,
    devices::CLASSES,
    files::CLASSES,
    flows::CLASSES,
    host::CLASSES,
    links::CLASSES,
    queues::CLASSES,
    schedulers::CLASSES,
    shapers::CLASSES,
    sinks::CLASSES,
    sockets::CLASSES,
    sources::CLASSES,
];

/// Bytes that a packet which waits takes: its buffer, and its place.
pub const PACKET_BYTES: u64 = 2048 + 8;

/// All classes of engine nodes.
pub fn classes() -> impl Iterator<Item = &'static NodeClass> {
    FOLDERS.iter().copied().flatten()
}

/// The node that stands for a packet program which has to work by itself, or to call handlers. `pulls` says that its
/// first input is one that pulls.
pub fn instead(class: &str, args: &[String], pulls: bool) -> Option<&'static NodeClass> {
    match class {
        "Discard" if pulls => Some(&sinks::discard::CLASS),
        "Counter" if control::counter::calls(args) => Some(&control::counter::CLASS),
        _ => None,
    }
}

/// What a node's file needs.
mod prelude {
    pub(crate) use weir_ir::Reason;
    pub(crate) use weir_packet::Packet;

    pub(crate) use crate::env::Env;
    pub(crate) use crate::node::{Behavior, Cx, EngineNode, Neighbours, Ran};
}
