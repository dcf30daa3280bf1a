//! What ports on shared memory have in common: their names and sockets, signals, memory that cannot shrink, and how whoever
//! sleeps on one is woken.

pub mod sealed;
pub mod signal;
mod socket_address;
pub mod watch;

pub use socket_address::{BadName, LOOK, SocketAddress, accept, connect, is_gone, listen, pairs};
