//! Threads of workers.

use std::io;
use std::thread;
use std::time::Duration;

/// The threads of the other workers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Threads {
    /// In the thread of the first, each in its turn: for tests that can be repeated.
    None,
    /// Each in its own.
    Free,
    /// Each in its own, bound to a core; worker 1 to the first of these.
    Cores(Vec<usize>),
}

/// Binds the calling thread to a processor core.
///
/// # Errors
/// If there is no such core, or the process may not use it.
pub fn bind(core: usize) -> io::Result<()> {
    use nix::sched::{CpuSet, sched_setaffinity};
    let mut set = CpuSet::new();
    set.set(core)?;
    Ok(sched_setaffinity(nix::unistd::Pid::from_raw(0), &set)?)
}

/// The operating system refuses to say what is ready. Goes on, but not in a hurry.
pub(crate) fn troubled(error: &io::Error) -> bool {
    eprintln!("weir: waiting for devices failed: {error}");
    thread::sleep(Duration::from_millis(100));
    true
}

/// What a panic said.
pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message").to_owned()
}
