//! The process that workers are copies of. It has one thread: a process with several cannot be copied.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use weir_engine::{WorkerOptions, serve_within};
use weir_io::{Fork, allow_huge_pages, fork};
use weir_plan::Classes;
use weir_protocol::{SpawnReply, SpawnRequest};

use crate::sandbox;

/// Longest request in bytes.
const MAX_LINE: usize = 64 << 10;

/// Makes workers until standard input, a socket, is closed. In a worker it returns when that is asked to end.
///
/// # Errors
/// The operating system refuses something.
pub fn zygote(classes: impl FnOnce() -> Classes) -> io::Result<()> {
    // Each thread of each worker would take 2 MB, and the time to clear them.
    allow_huge_pages(false);
    // Made once: what copies share costs memory once.
    let classes = classes();
    let stream = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    match serve(stream)? {
        None => Ok(()),
        Some(request) => work(&request, classes),
    }
}

/// Answers requests; gives the request in the copy that is to become its worker.
fn serve(mut stream: UnixStream) -> io::Result<Option<SpawnRequest>> {
    let mut children = SigSet::empty();
    children.add(Signal::SIGCHLD);
    children.thread_block()?;
    let ended = SignalFd::with_flags(&children, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
    let mut buffer = Vec::new();
    loop {
        let mut ready =
            [PollFd::new(stream.as_fd(), PollFlags::POLLIN), PollFd::new(ended.as_fd(), PollFlags::POLLIN)];
        match poll(&mut ready, PollTimeout::NONE) {
            Err(nix::errno::Errno::EINTR) => continue,
            other => other?,
        };
        let [asked, died] = ready.map(|fd| fd.revents().is_some_and(|events| !events.is_empty()));
        if died {
            while matches!(ended.read_signal(), Ok(Some(_))) {}
            reap();
        }
        if !asked {
            continue;
        }
        let mut part = [0; 4096];
        let n = stream.read(&mut part)?;
        if n == 0 || buffer.len() > MAX_LINE {
            return Ok(None);
        }
        buffer.extend_from_slice(&part[..n]);
        while let Some(end) = buffer.iter().position(|b| *b == b'\n') {
            let line: Vec<u8> = buffer.drain(..=end).collect();
            let request: SpawnRequest = serde_json::from_slice(&line)?;
            let id = request.id;
            let reply = match copy() {
                Ok(Fork::Child) => {
                    children.thread_unblock()?;
                    return Ok(Some(request));
                }
                Ok(Fork::Parent { child }) => SpawnReply::Started { id, pid: child },
                Err(e) => SpawnReply::Failed { id, what: e.to_string() },
            };
            let mut line = serde_json::to_vec(&reply)?;
            line.push(b'\n');
            stream.write_all(&line)?;
        }
    }
}

/// A copy that is the first process of a namespace of its own.
fn copy() -> io::Result<Fork> {
    let own = std::fs::File::open("/proc/self/ns/pid")?;
    unshare(CloneFlags::CLONE_NEWPID)?;
    let forked = fork();
    if !matches!(forked, Ok(Fork::Child)) {
        // The next one is to have another.
        setns(own, CloneFlags::CLONE_NEWPID)?;
    }
    forked
}

/// Takes note of workers that have ended. Whoever asked for them watches them.
fn reap() {
    while !matches!(waitpid(None, Some(WaitPidFlag::WNOHANG)), Ok(WaitStatus::StillAlive) | Err(_)) {}
}

/// Becomes a worker.
fn work(request: &SpawnRequest, classes: Classes) -> io::Result<()> {
    // From here on messages go to the function's log.
    let listener = sandbox::enter(request)?;
    weir_io::trust_peers();
    let options = WorkerOptions { profile: false, lazy: true, ..WorkerOptions::default() };
    serve_within(listener, classes, options, sandbox::PORTS.into()).map_err(io::Error::other)
}
