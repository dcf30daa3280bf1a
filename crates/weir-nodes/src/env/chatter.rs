//! Chatter sockets: whoever connects is sent what elements print.
//!
//! Each client has a thread of its own that writes, so that one which does not read delays nobody; it is cut off once too
//! much waits for it.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use crate::env::sockets::{Listener, Stream, Where};

/// Clients at a time.
const MAX_CLIENTS: usize = 64;
/// Bytes that may wait for a client.
const MAX_BACKLOG: usize = 500_000;
/// How long a client may leave what it is sent unread.
const PATIENCE: Duration = Duration::from_secs(60);
/// What a client is sent first.
const GREETING: &str = "Click::ChatterSocket/1.0\r\n";

/// All chatter sockets of an engine. A socket outlives a hot swap: who opens the same address again gets the same one.
#[derive(Default)]
pub struct Chatters {
    open: BTreeMap<(Where, String), Weak<Chatter>>,
}

impl Chatters {
    /// Listens at an address, or finds who does so already.
    pub fn open(&mut self, kind: Where, address: &str, greeting: bool) -> Result<Arc<Chatter>, String> {
        let key = (kind, address.to_owned());
        if let Some(chatter) = self.open.get(&key).and_then(Weak::upgrade) {
            return Ok(chatter);
        }
        let listener = Listener::open(kind, address, false)?;
        let chatter = Chatter::start(listener, greeting).map_err(|e| format!("{address}: {e}"))?;
        self.open.retain(|_, chatter| chatter.strong_count() > 0);
        self.open.insert(key, Arc::downgrade(&chatter));
        Ok(chatter)
    }

    /// Sends a message to all clients of all sockets.
    pub fn print(&self, message: &str) {
        for chatter in self.open.values().filter_map(Weak::upgrade) {
            chatter.print(message);
        }
    }
}

/// A listener and its clients. It ends with its last owner.
pub struct Chatter {
    listener: Arc<Listener>,
    clients: Arc<Mutex<Vec<Client>>>,
    closed: Arc<AtomicBool>,
}

struct Client {
    stream: Stream,
    messages: Sender<Arc<str>>,
    /// Bytes that wait.
    behind: Arc<AtomicUsize>,
}

impl Chatter {
    fn start(listener: Listener, greeting: bool) -> io::Result<Arc<Chatter>> {
        let chatter = Arc::new(Chatter {
            listener: Arc::new(listener),
            clients: Arc::default(),
            closed: Arc::default(),
        });
        let (listener, clients, closed) =
            (chatter.listener.clone(), chatter.clients.clone(), chatter.closed.clone());
        thread::Builder::new()
            .name("weir-chatter".to_owned())
            .spawn(move || listen(&listener, &clients, &closed, greeting))?;
        Ok(chatter)
    }

    /// The TCP port, if it is one.
    pub fn port(&self) -> Option<u16> {
        self.listener.port()
    }

    fn print(&self, message: &str) {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if clients.is_empty() {
            return;
        }
        let line: Arc<str> = format!("{message}\r\n").into();
        clients.retain(|client| {
            let behind = client.behind.fetch_add(line.len(), Ordering::AcqRel) + line.len();
            // One that is gone takes nothing more.
            let keeps_up = behind <= MAX_BACKLOG && client.messages.send(line.clone()).is_ok();
            if !keeps_up {
                client.stream.close();
            }
            keeps_up
        });
    }
}

impl Drop for Chatter {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::Release);
        self.listener.wake();
        // The threads write what still waits, and end.
        self.clients.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

fn listen(listener: &Listener, clients: &Mutex<Vec<Client>>, closed: &AtomicBool, greeting: bool) {
    while let Ok(stream) = listener.accept() {
        if closed.load(Ordering::Acquire) {
            return;
        }
        let mut list = clients.lock().unwrap_or_else(PoisonError::into_inner);
        let Ok(copy) = stream.clone() else { continue };
        if list.len() >= MAX_CLIENTS {
            stream.close();
            continue;
        }
        let (messages, queue) = channel();
        let behind = Arc::new(AtomicUsize::new(0));
        let waits = behind.clone();
        let spawned = thread::Builder::new().name("weir-chatter".to_owned()).spawn(move || {
            // A client that breaks off is no error of ours.
            let _ = write(stream, &queue, &waits, greeting);
        });
        if spawned.is_ok() {
            list.push(Client { stream: copy, messages, behind });
        }
    }
}

fn write(
    mut stream: Stream,
    messages: &Receiver<Arc<str>>,
    behind: &AtomicUsize,
    greeting: bool,
) -> io::Result<()> {
    // Without this, one that never reads would hold its thread when the graph is gone.
    stream.set_write_timeout(PATIENCE)?;
    if greeting {
        stream.write_all(GREETING.as_bytes())?;
    }
    for message in messages {
        stream.write_all(message.as_bytes())?;
        behind.fetch_sub(message.len(), Ordering::AcqRel);
    }
    Ok(())
}
