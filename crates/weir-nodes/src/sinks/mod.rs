//! Sinks: nodes that pull packets and end them.

use crate::node::NodeClass;

pub(crate) mod discard;
pub(crate) mod timed_sink;

/// All classes of this folder.
pub(crate) const CLASSES: &[NodeClass] = &[timed_sink::CLASS];
