//! Packet sockets that share the packets of an interface (`PACKET_FANOUT`, packet(7)).

use std::io;
use std::os::fd::OwnedFd;

use super::sys;

/// A group of ports that share the packets of one interface: each packet goes to one of them.
///
/// All packets of a flow, of both directions, go to the same port: the kernel's hash is symmetric. Fragments go by
/// their addresses alone, so perhaps to another port than the rest of their flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fanout {
    /// Number of the group. In a network namespace, a group has one interface.
    pub group: u16,
}

/// A packet socket joins a group; it has to be bound.
pub fn join(socket: &OwnedFd, fanout: Fanout) -> io::Result<()> {
    // Mode 0 (PACKET_FANOUT_HASH) in the upper half.
    sys::set_option(socket, libc::SOL_PACKET, libc::PACKET_FANOUT, i32::from(fanout.group))
}
