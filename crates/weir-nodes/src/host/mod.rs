//! The kernel's own stack, behind virtual interfaces.

use crate::node::NodeClass;

pub(crate) mod from_host;
pub(crate) mod from_netfront;
pub(crate) mod host_address;
pub(crate) mod kernel_tap;
pub(crate) mod kernel_tun;
pub(crate) mod to_host;
pub(crate) mod to_host_sniffers;
pub(crate) mod to_netfront;

/// All classes of this folder.
pub(crate) const CLASSES: &[NodeClass] = &[
    from_host::CLASS,
    from_netfront::CLASS,
    kernel_tap::CLASS,
    kernel_tun::CLASS,
    to_host::CLASS,
    to_host_sniffers::CLASS,
    to_netfront::CLASS,
];
