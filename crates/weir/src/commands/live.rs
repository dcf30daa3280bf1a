//! Following a stream of a node until its end, a time, or Ctrl-C.

use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde::de::DeserializeOwned;
use weir_api::client::{ClientError, Lines};

use crate::ui::Failure;

/// Items that wait for whoever prints them.
const BACKLOG: usize = 1024;

enum Message<T> {
    Item(Result<T, ClientError>),
    End,
    Stop,
}

/// How following ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The node has no more.
    Complete,
    /// The time was over, or the user pressed Ctrl-C.
    Stopped,
}

/// Hands each item to `each`. SIGINT and SIGTERM end it as if the stream had ended, so that files are complete and
/// summaries are printed.
pub(crate) fn follow<T: DeserializeOwned + Send + 'static>(
    lines: Lines<T>,
    time: Option<Duration>,
    mut each: impl FnMut(T) -> Result<(), Failure>,
) -> Result<Ended, Failure> {
    let (sender, receiver) = sync_channel(BACKLOG);
    let stop: SyncSender<Message<T>> = sender.clone();
    ctrlc::set_handler(move || {
        // Blocks only while items wait before it.
        _ = stop.send(Message::Stop);
    })
    .context("cannot catch signals")?;
    thread::spawn(move || {
        for item in lines {
            if sender.send(Message::Item(item)).is_err() {
                return;
            }
        }
        _ = sender.send(Message::End);
    });
    let end = time.map(|t| Instant::now() + t);
    loop {
        let message = match end {
            None => receiver.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(end) => receiver.recv_timeout(end.saturating_duration_since(Instant::now())),
        };
        match message {
            Ok(Message::Item(item)) => each(item?)?,
            Ok(Message::Stop) | Err(RecvTimeoutError::Timeout) => return Ok(Ended::Stopped),
            Ok(Message::End) | Err(RecvTimeoutError::Disconnected) => return Ok(Ended::Complete),
        }
    }
}
