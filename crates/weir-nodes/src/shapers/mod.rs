//! Shapers: nodes that pull packets and pass them on at a pace.

use crate::node::NodeClass;

pub(crate) mod bandwidth_rated_unqueue;
pub(crate) mod bandwidth_shaper;
pub(crate) mod delay_shaper;
pub(crate) mod delay_unqueue;
pub(crate) mod link_unqueue;
pub(crate) mod rated_unqueue;
pub(crate) mod shaper;
pub(crate) mod timed_unqueue;
pub(crate) mod unqueue;

/// All classes of this folder.
pub(crate) const CLASSES: &[NodeClass] = &[
    bandwidth_rated_unqueue::CLASS,
    bandwidth_shaper::CLASS,
    delay_shaper::CLASS,
    delay_unqueue::CLASS,
    link_unqueue::CLASS,
    rated_unqueue::CLASS,
    shaper::CLASS,
    timed_unqueue::CLASS,
    unqueue::CLASS,
];
