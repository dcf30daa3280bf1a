//! Memory of a peer that cannot shrink.
//!
//! Whoever reads what was cut off a file that has shrunk is ended by the kernel (`SIGBUS`). Memory that is sealed against that
//! (`F_SEAL_SHRINK`, fcntl(2)) cannot; pages that its owner takes out of it (`fallocate(2)`) come back as zeros.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::af_packet::sys::check;

/// Whether a file is memory (of ordinary pages: the kernel may have no huge page left where one was taken out) that
/// cannot shrink.
pub fn is_sealed_memory(fd: BorrowedFd<'_>) -> bool {
    // SAFETY: no memory is passed.
    let seals = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GET_SEALS) };
    if seals < 0 || seals & libc::F_SEAL_SHRINK == 0 {
        return false;
    }
    // SAFETY: all fields are integers.
    let mut system: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes into `system`, which is a whole one.
    let done = unsafe { libc::fstatfs(fd.as_raw_fd(), &raw mut system) };
    done == 0 && system.f_type == libc::TMPFS_MAGIC
}

/// The size of a file in bytes.
///
/// # Errors
/// If the kernel cannot say it.
pub fn file_size(fd: BorrowedFd<'_>) -> io::Result<u64> {
    // SAFETY: all fields are integers.
    let mut status: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes into `status`, which is a whole one.
    check(unsafe { libc::fstat(fd.as_raw_fd(), &raw mut status) } as isize)?;
    Ok(u64::try_from(status.st_size).unwrap_or(0))
}
