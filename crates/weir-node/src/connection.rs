//! A connection to the data-plane process: many commands and streams at once over one Unix socket.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::AbortHandle;
use tokio::time::timeout;
use weir_protocol::{Answer, Command, Event, MAX_LINE, Reply, Request};

/// How long the data plane may take for a command.
const ANSWER_TIME: Duration = Duration::from_secs(60);
/// Events of one stream that may wait for a slow reader.
const STREAM_BACKLOG: usize = 4096;

/// Why a command was not carried out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The data plane refused it, and nothing was changed: one text an error.
    #[error("the data plane refused: {}", .0.join("; "))]
    Refused(Vec<String>),
    /// The data plane cannot be reached, or was lost on the way: it may have been carried out.
    #[error("the data plane cannot be reached: {0}")]
    Lost(String),
}

/// Whatever carries out commands: the data-plane process, or a test's stand-in.
pub trait DataPlane: Send + Sync + 'static {
    /// Carries out one command.
    fn call(&self, command: Command) -> impl Future<Output = Result<Answer, CallError>> + Send;
}

struct Waiter {
    /// Gets the reply; taken when it came.
    reply: Option<oneshot::Sender<Result<Answer, CallError>>>,
    /// Gets the events that follow.
    events: Option<mpsc::Sender<Event>>,
    overrun: Arc<AtomicBool>,
}

type Waiters = Arc<Mutex<HashMap<u64, Waiter>>>;

fn lock(waiters: &Waiters) -> MutexGuard<'_, HashMap<u64, Waiter>> {
    waiters.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An open connection.
#[derive(Debug)]
pub struct Connection {
    out: mpsc::Sender<Request>,
    waiters: Waiters,
    next: AtomicU64,
    closed: watch::Receiver<bool>,
    /// What reads from it: the other side may keep it open for ever.
    reader: AbortHandle,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl std::fmt::Debug for Waiter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Waiter").field("stream", &self.events.is_some()).finish_non_exhaustive()
    }
}

/// The events of a trace, capture or subscription. Dropping it ends them.
#[derive(Debug)]
pub struct EventStream {
    id: u64,
    events: mpsc::Receiver<Event>,
    overrun: Arc<AtomicBool>,
    waiters: Waiters,
    out: mpsc::Sender<Request>,
}

impl Connection {
    /// Connects to the socket at `path`.
    ///
    /// # Errors
    /// Those of connecting.
    pub async fn open(path: &Path) -> std::io::Result<Connection> {
        Connection::open_bounded(path, MAX_LINE).await
    }

    /// The same to one that is trusted less: it may say no more than so many bytes at a time.
    ///
    /// # Errors
    /// Those of connecting.
    pub async fn open_bounded(path: &Path, most: usize) -> std::io::Result<Connection> {
        let (read, write) = UnixStream::connect(path).await?.into_split();
        let waiters = Waiters::default();
        let (out, requests) = mpsc::channel(64);
        let (close, closed) = watch::channel(false);
        tokio::spawn(send(write, requests));
        let theirs = waiters.clone();
        let reader = tokio::spawn(async move {
            receive(read, &theirs, most).await;
            // Those who wait learn it by their channels.
            lock(&theirs).clear();
            _ = close.send(true);
        });
        let reader = reader.abort_handle();
        Ok(Connection { out, waiters, next: AtomicU64::new(1), closed, reader })
    }

    /// Whether it is closed.
    pub fn is_closed(&self) -> bool {
        *self.closed.borrow()
    }

    /// Returns when the connection is closed.
    pub async fn closed(&self) {
        let mut closed = self.closed.clone();
        _ = closed.wait_for(|c| *c).await;
    }

    /// Carries out a command that gives one answer.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn call(&self, command: Command) -> Result<Answer, CallError> {
        let (id, reply) = self.send(command, None, Arc::default()).await?;
        self.answer(id, reply).await
    }

    /// Begins a trace, capture or subscription.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn stream(&self, command: Command) -> Result<EventStream, CallError> {
        let (sender, events) = mpsc::channel(STREAM_BACKLOG);
        let overrun = Arc::new(AtomicBool::new(false));
        let (id, reply) = self.send(command, Some(sender), overrun.clone()).await?;
        let stream =
            EventStream { id, events, overrun, waiters: self.waiters.clone(), out: self.out.clone() };
        self.answer(id, reply).await.map(|_| stream)
    }

    async fn send(
        &self,
        command: Command,
        events: Option<mpsc::Sender<Event>>,
        overrun: Arc<AtomicBool>,
    ) -> Result<(u64, oneshot::Receiver<Result<Answer, CallError>>), CallError> {
        let (sender, reply) = oneshot::channel();
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        lock(&self.waiters).insert(id, Waiter { reply: Some(sender), events, overrun });
        if *self.closed.borrow() || self.out.send(Request { id, command }).await.is_err() {
            lock(&self.waiters).remove(&id);
            return Err(CallError::Lost("the connection was closed".into()));
        }
        Ok((id, reply))
    }

    async fn answer(
        &self,
        id: u64,
        reply: oneshot::Receiver<Result<Answer, CallError>>,
    ) -> Result<Answer, CallError> {
        match timeout(ANSWER_TIME, reply).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(CallError::Lost("the connection was closed".into())),
            Err(_) => {
                lock(&self.waiters).remove(&id);
                Err(CallError::Lost(format!("no answer within {} seconds", ANSWER_TIME.as_secs())))
            }
        }
    }
}

impl EventStream {
    /// The next event; none after the end.
    pub async fn next(&mut self) -> Option<Event> {
        self.events.recv().await
    }

    /// Whether it ended because its reader was too slow.
    pub fn overrun(&self) -> bool {
        self.overrun.load(Ordering::Relaxed)
    }
}

impl Drop for EventStream {
    fn drop(&mut self) {
        let running = lock(&self.waiters).remove(&self.id).is_some();
        if running || self.overrun() {
            // Nothing waits for the reply. If the queue is full the data plane goes on until its own end.
            _ = self.out.try_send(Request { id: 0, command: Command::Cancel { request: self.id } });
        }
    }
}

async fn send(mut write: OwnedWriteHalf, mut requests: mpsc::Receiver<Request>) {
    while let Some(request) = requests.recv().await {
        let Ok(mut line) = serde_json::to_vec(&request) else { continue };
        line.push(b'\n');
        if write.write_all(&line).await.is_err() {
            break;
        }
    }
}

async fn receive(read: OwnedReadHalf, waiters: &Waiters, most: usize) {
    let mut read = BufReader::new(read);
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut read).take(most as u64).read_until(b'\n', &mut line).await {
            Ok(n) if n > 0 && line.ends_with(b"\n") => {}
            Ok(0) => return,
            Ok(n) => return tracing::warn!("the data plane sent {n} bytes without an end of line"),
            Err(e) => return tracing::warn!("reading from the data plane: {e}"),
        }
        match serde_json::from_slice(&line) {
            Ok(reply) => dispatch(reply, waiters),
            Err(e) => return tracing::warn!("the data plane sent what is not of the protocol: {e}"),
        }
    }
}

fn dispatch(reply: Reply, waiters: &Waiters) {
    let mut waiters = lock(waiters);
    let (id, result) = match reply {
        Reply::Done { id, answer } => (id, Ok(answer)),
        Reply::Failed { id, errors } => (id, Err(CallError::Refused(errors))),
        Reply::Event { id, event } => {
            let Some(waiter) = waiters.get_mut(&id) else { return };
            // Events may overtake the answer, since the engine does not wait; even the last one may.
            if let Some(sender) = waiter.reply.take() {
                _ = sender.send(Ok(Answer::Nothing));
            }
            let end = event == Event::End;
            let overrun = !end && waiter.events.as_ref().is_some_and(|e| e.try_send(event).is_err());
            waiter.overrun.store(overrun, Ordering::Relaxed);
            if end || overrun {
                waiters.remove(&id);
            }
            return;
        }
    };
    let Some(waiter) = waiters.get_mut(&id) else { return };
    let over = waiter.events.is_none() || result.is_err();
    if let Some(sender) = waiter.reply.take() {
        _ = sender.send(result);
    }
    if over {
        waiters.remove(&id);
    }
}
