//! Network devices.

use crate::node::NodeClass;

pub(crate) mod finish_offloads;
pub(crate) mod from_device;
pub(crate) mod poll_device;
pub(crate) mod to_device;

/// All classes of this folder.
pub(crate) const CLASSES: &[NodeClass] =
    &[finish_offloads::CLASS, from_device::CLASS, poll_device::CLASS, to_device::CLASS];
