//! Sockets: packets, handler calls and messages.

use crate::node::NodeClass;

pub(crate) mod chatter_socket;
pub(crate) mod control_socket;
pub(crate) mod mcast_socket;
pub(crate) mod socket;
pub(crate) mod tunnel_socket;
pub(crate) mod wireguard_socket;

/// All classes of this folder.
pub(crate) const CLASSES: &[NodeClass] = &[
    chatter_socket::CLASS,
    control_socket::CLASS,
    mcast_socket::CLASS,
    socket::CLASS,
    tunnel_socket::CLASS,
    wireguard_socket::CLASS,
];
