//! Engine nodes: one file each, with manual, parameters, handlers and behaviour. To add one, write the file and add
//! it here.

use crate::node::NodeClass;

mod from_device;
mod queue;
mod to_device;

/// All classes of engine nodes.
pub(crate) const CLASSES: &[NodeClass] = &[from_device::CLASS, queue::CLASS, to_device::CLASS];

/// What a node's file needs.
mod prelude {
    pub(super) use weir_ir::Reason;
    pub(super) use weir_packet::Packet;

    pub(super) use crate::env::Env;
    pub(super) use crate::node::{Behavior, Cx, EngineNode, Ran};
}
