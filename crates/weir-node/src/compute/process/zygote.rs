//! The process that workers are copies of: started when the first worker is asked for, and again if it ends.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::Command;
use tokio::sync::oneshot;
use tokio::time::timeout;
use weir_protocol::{SpawnReply, SpawnRequest};

/// How long it may take to answer.
const TIME: Duration = Duration::from_secs(10);

type Waiters = Arc<Mutex<HashMap<u64, oneshot::Sender<io::Result<i32>>>>>;

/// The process, whether or not it runs right now.
#[derive(Debug)]
pub(super) struct Zygote {
    command: Vec<OsString>,
    state: tokio::sync::Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    requests: Option<OwnedWriteHalf>,
    /// Those who wait for a reply. It ends with the process.
    waiters: Waiters,
    last: u64,
}

impl Zygote {
    /// One that is started by a command line.
    pub(super) fn new(command: Vec<OsString>) -> Zygote {
        Zygote { command, state: tokio::sync::Mutex::default() }
    }

    /// Asks for a worker; gives its process.
    pub(super) async fn spawn(&self, request: SpawnRequest) -> io::Result<i32> {
        let reply = {
            let mut state = self.state.lock().await;
            match self.ask(&mut state, request.clone()).await {
                Ok(reply) => reply,
                // It has ended since it was last asked.
                Err(_) => {
                    state.requests = None;
                    self.ask(&mut state, request).await?
                }
            }
        };
        match timeout(TIME, reply).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(io::Error::other("the process that makes workers has ended")),
            Err(_) => Err(io::Error::other(format!(
                "the process that makes workers does not answer within {} seconds",
                TIME.as_secs()
            ))),
        }
    }

    async fn ask(
        &self,
        state: &mut State,
        request: SpawnRequest,
    ) -> io::Result<oneshot::Receiver<io::Result<i32>>> {
        if state.requests.is_none() {
            (state.requests, state.waiters) =
                self.start().map(|(requests, waiters)| (Some(requests), waiters))?;
        }
        state.last += 1;
        let id = state.last;
        let (sender, receiver) = oneshot::channel();
        state.waiters.lock().unwrap_or_else(PoisonError::into_inner).insert(id, sender);
        let mut line = serde_json::to_vec(&SpawnRequest { id, ..request })?;
        line.push(b'\n');
        match &mut state.requests {
            Some(requests) => requests.write_all(&line).await.map(|()| receiver),
            None => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    fn start(&self) -> io::Result<(OwnedWriteHalf, Waiters)> {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let (program, arguments) =
            self.command.split_first().ok_or_else(|| io::Error::other("there is no command to start it"))?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::from(std::os::fd::OwnedFd::from(theirs))).stdout(Stdio::null());
        let mut child = command.spawn()?;
        // Waited for, so that it leaves no zombie.
        tokio::spawn(async move { child.wait().await });
        let (read, write) = UnixStream::from_std(ours)?.into_split();
        let waiters = Waiters::default();
        tokio::spawn(replies(read, waiters.clone()));
        Ok((write, waiters))
    }
}

/// Gives replies to those who wait, until there are no more.
async fn replies(read: OwnedReadHalf, waiters: Waiters) {
    let mut lines = BufReader::new(read).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let Ok(reply) = serde_json::from_str(&line) else { break };
        let (id, result) = match reply {
            SpawnReply::Started { id, pid } => (id, Ok(pid)),
            SpawnReply::Failed { id, what } => (id, Err(io::Error::other(what))),
        };
        let waiter = waiters.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        let refused = match waiter {
            Some(waiter) => waiter.send(result).err(),
            None => Some(result),
        };
        if let Some(Ok(pid)) = refused {
            // Who asked does not wait any more: nobody would load this one, or watch it.
            _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }
    waiters.lock().unwrap_or_else(PoisonError::into_inner).clear();
}
