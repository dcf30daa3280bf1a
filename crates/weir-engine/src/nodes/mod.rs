//! Engine nodes: one file each, with manual, parameters, handlers and behaviour. To add one, write the file and add
//! it here.

use crate::node::NodeClass;

mod from_device;
mod from_dump;
mod from_link;
mod infinite_source;
mod limit;
mod pace;
mod queue;
mod rated_source;
mod rated_unqueue;
mod round_robin_sched;
mod script;
mod to_device;
mod to_dump;
mod to_link;
mod unqueue;

/// All classes of engine nodes.
pub(crate) const CLASSES: &[NodeClass] = &[
    from_device::CLASS,
    from_dump::CLASS,
    from_link::CLASS,
    infinite_source::CLASS,
    queue::CLASS,
    rated_source::CLASS,
    rated_unqueue::CLASS,
    round_robin_sched::CLASS,
    script::CLASSES[0],
    script::CLASSES[1],
    to_device::CLASS,
    to_dump::CLASS,
    to_link::CLASS,
    unqueue::CLASS,
];

/// What a node's file needs.
mod prelude {
    pub(super) use weir_ir::Reason;
    pub(super) use weir_packet::Packet;

    pub(super) use crate::env::Env;
    pub(super) use crate::node::{Behavior, Cx, EngineNode, Ran};
}
