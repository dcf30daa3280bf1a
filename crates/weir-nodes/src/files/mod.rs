//! Files: captures and summary dumps.

use crate::node::NodeClass;

pub(crate) mod from_dump;
pub(crate) mod from_ip_summary_dump;
pub(crate) mod summary;
pub(crate) mod to_dump;
pub(crate) mod to_ip_summary_dump;

/// All classes of this folder.
pub(crate) const CLASSES: &[NodeClass] =
    &[from_dump::CLASS, from_ip_summary_dump::CLASS, to_dump::CLASS, to_ip_summary_dump::CLASS];
