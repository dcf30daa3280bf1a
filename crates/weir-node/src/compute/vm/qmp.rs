//! QEMU's control socket (QMP): one JSON value a line. Written here: the crate for it generates types for all that QEMU can be asked,
//! and is maintained passively; we ask for nine things.

use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Interest};
use tokio::net::UnixStream;
use tokio::time::timeout;

/// How long QEMU may take for an answer, with all that it says before.
const TIME: Duration = Duration::from_secs(10);
/// Longest line in bytes.
const MAX_LINE: u64 = 1 << 20;

/// A connection.
#[derive(Debug)]
pub(super) struct Qmp {
    stream: BufReader<UnixStream>,
    /// What came of the next line while somebody waited for it only a time.
    partial: Vec<u8>,
}

impl Qmp {
    /// Connects, and makes itself known.
    pub(super) async fn open(socket: &Path) -> io::Result<Qmp> {
        let stream = BufReader::new(UnixStream::connect(socket).await?);
        let mut qmp = Qmp { stream, partial: Vec::new() };
        let greeting = in_time(qmp.line()).await?;
        if greeting.get("QMP").is_none() {
            return Err(io::Error::other(format!("it greets with {greeting}")));
        }
        qmp.ask("qmp_capabilities", json!({})).await?;
        Ok(qmp)
    }

    /// Has a command carried out. The error's kind is `NotFound` where it names a device that is not there.
    pub(super) async fn ask(&mut self, command: &str, arguments: Value) -> io::Result<Value> {
        in_time(self.ask_patiently(command, arguments)).await
    }

    /// Hands QEMU a descriptor, which it calls by a name.
    pub(super) async fn give(&mut self, name: &str, fd: &OwnedFd) -> io::Result<()> {
        in_time(async {
            let line = line("getfd", &json!({"fdname": name}));
            let stream = self.stream.get_ref();
            let send = || {
                let fds = [fd.as_raw_fd()];
                let part = [IoSlice::new(&line.as_bytes()[..1])];
                let with = [ControlMessage::ScmRights(&fds)];
                Ok(sendmsg::<()>(stream.as_raw_fd(), &part, &with, MsgFlags::MSG_NOSIGNAL, None)?)
            };
            // It goes with the first byte.
            stream.async_io(Interest::WRITABLE, send).await?;
            self.stream.get_mut().write_all(&line.as_bytes()[1..]).await?;
            self.answer("getfd").await.map(drop)
        })
        .await
    }

    async fn ask_patiently(&mut self, command: &str, arguments: Value) -> io::Result<Value> {
        self.stream.get_mut().write_all(line(command, &arguments).as_bytes()).await?;
        self.answer(command).await
    }

    async fn answer(&mut self, command: &str) -> io::Result<Value> {
        loop {
            let mut answer = self.line().await?;
            if let Some(value) = answer.get_mut("return") {
                return Ok(value.take());
            }
            if let Some(error) = answer.get("error") {
                let what = error["desc"].as_str().unwrap_or("it refuses").to_owned();
                let kind = match error["class"].as_str() {
                    Some("DeviceNotFound") => io::ErrorKind::NotFound,
                    _ => io::ErrorKind::Other,
                };
                return Err(io::Error::new(kind, format!("{command}: {what}")));
            }
            // An event.
        }
    }

    /// Waits a time for an event about a device.
    pub(super) async fn event(&mut self, name: &str, device: &str, time: Duration) -> io::Result<()> {
        within(time, async {
            loop {
                let line = self.line().await?;
                if line["event"] == name && line["data"]["device"] == device {
                    return Ok(());
                }
            }
        })
        .await
    }

    async fn line(&mut self) -> io::Result<Value> {
        let left = MAX_LINE.saturating_sub(self.partial.len() as u64);
        let read = (&mut self.stream).take(left).read_until(b'\n', &mut self.partial).await?;
        let bytes = std::mem::take(&mut self.partial);
        match read {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => serde_json::from_slice(&bytes).map_err(io::Error::other),
        }
    }
}

/// A command, as QEMU reads it.
fn line(command: &str, arguments: &Value) -> String {
    format!("{}\n", json!({"execute": command, "arguments": arguments}))
}

/// A guest can make events without end: the time is for all of them.
async fn in_time<T>(answer: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    within(TIME, answer).await
}

async fn within<T>(time: Duration, answer: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    timeout(time, answer)
        .await
        .unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "QEMU does not answer")))
}
