//! Nodes that keep packets of a flow together.

use crate::node::NodeClass;

pub(crate) mod aggregate_counter;
pub(crate) mod aggregate_ip_flows;
pub(crate) mod ip_reassembler;
pub(crate) mod table;

/// All classes of this folder.
pub(crate) const CLASSES: &[NodeClass] =
    &[aggregate_counter::CLASS, aggregate_ip_flows::CLASS, ip_reassembler::CLASS];
