//! Sources: nodes that generate packets.

use crate::node::NodeClass;

pub(crate) mod fast_udp_source;
mod generator;
pub(crate) mod icmp_ping_source;
pub(crate) mod infinite_source;
pub(crate) mod random_source;
pub(crate) mod rated_source;
pub(crate) mod timed_source;

/// All classes of this folder.
pub(crate) const CLASSES: &[NodeClass] = &[
    fast_udp_source::CLASS,
    icmp_ping_source::CLASS,
    infinite_source::CLASS,
    random_source::CLASS,
    rated_source::CLASS,
    timed_source::CLASS,
];
