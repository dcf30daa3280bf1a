//! Copies of this process.

use std::fs;
use std::io;

/// Which of the two a process is after a [`fork`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fork {
    /// The one that asked for it.
    Parent {
        /// The copy, as this process sees it.
        child: i32,
    },
    /// The copy.
    Child,
}

/// Copies this process, fork(2).
///
/// # Errors
/// If it has more than one thread: the copy would have one, and what the others were about would never come to its end. And those
/// of the system call.
pub fn fork() -> io::Result<Fork> {
    if fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(io::Error::other("a process with several threads cannot be copied"));
    }
    // SAFETY: there is no other thread that could hold a lock or be in the midst of a change, so that the copy finds everything as
    // this thread left it. None can start meanwhile, since this is the only one that could start it.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Fork::Child),
        child => Ok(Fork::Parent { child }),
    }
}
