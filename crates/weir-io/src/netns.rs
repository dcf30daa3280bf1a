//! Work inside another network namespace.

use std::fs::File;
use std::path::PathBuf;
use std::{fmt, io, thread};

use nix::sched::{CloneFlags, setns};

use crate::PortError;

/// A network namespace.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Netns {
    /// That of a process.
    Pid(u32),
    /// One that `ip netns add` named.
    Named(String),
    /// A file such as `/proc/1/ns/net` or a bind mount of one.
    Path(PathBuf),
}

impl Netns {
    /// The file that stands for the namespace.
    pub fn path(&self) -> PathBuf {
        match self {
            Netns::Pid(pid) => format!("/proc/{pid}/ns/net").into(),
            Netns::Named(name) => PathBuf::from("/run/netns").join(name),
            Netns::Path(path) => path.clone(),
        }
    }

    /// Runs `f` on a thread of its own inside the namespace; the caller's thread stays where it is.
    ///
    /// Sockets opened by `f` belong to the namespace for good.
    pub fn run<T: Send>(&self, f: impl FnOnce() -> T + Send) -> Result<T, PortError> {
        let fail = |source| PortError::Namespace { netns: self.to_string(), source };
        let file = File::open(self.path()).map_err(fail)?;
        thread::scope(|scope| {
            let worker = scope.spawn(|| {
                setns(&file, CloneFlags::CLONE_NEWNET)?;
                Ok::<T, nix::Error>(f())
            });
            match worker.join() {
                Ok(done) => done.map_err(|e| fail(io::Error::from(e))),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }
}

impl fmt::Display for Netns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Netns::Pid(pid) => write!(f, "of process {pid}"),
            Netns::Named(name) => write!(f, "`{name}`"),
            Netns::Path(path) => write!(f, "{}", path.display()),
        }
    }
}
