//! Links to other graphs, and between devices.

use crate::node::NodeClass;

pub(crate) mod access_points;
pub(crate) mod direct_link;
pub(crate) mod from_link;
pub(crate) mod to_link;

/// All classes of this folder.
pub(crate) const CLASSES: &[NodeClass] =
    &[access_points::CLASS, direct_link::CLASS, from_link::CLASS, to_link::CLASS];
