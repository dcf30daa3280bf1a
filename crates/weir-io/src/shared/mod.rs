//! What ports on shared memory have in common: their names and sockets, signals, memory that cannot shrink, and how whoever
//! sleeps on one is woken.

mod place;
pub mod sealed;
pub mod signal;
pub mod watch;

pub use place::{BadName, LOOK, Place, accept, connect, is_gone, listen, pairs};
