//! Links to other graphs.

use crate::node::NodeClass;

pub(crate) mod access_points;
pub(crate) mod from_link;
pub(crate) mod to_link;

/// All classes of this folder.
pub(crate) const CLASSES: &[NodeClass] = &[access_points::CLASS, from_link::CLASS, to_link::CLASS];
