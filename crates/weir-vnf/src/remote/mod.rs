//! The connection of a core with Redis: commands are sent one behind the other, replies come in their order, and each command has its
//! reply or an error within a stated time.

pub(crate) mod cache;
mod state;
pub(crate) mod wire;

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};

pub use state::{CacheUse, Swapped};
use wire::Reply;

use crate::Error;

/// Where shared state is, and how long to wait for it.
#[derive(Debug, Clone)]
pub struct Redis {
    /// Its address.
    pub address: SocketAddr,
    /// Its password, if it wants one.
    pub password: Option<String>,
    /// When a command without a reply has failed. A second is a good choice.
    pub timeout: Duration,
    /// Bytes of the cache of each core.
    pub cache: usize,
}

impl Redis {
    /// Redis at an address, without a password, with a timeout of a second, and caches of 64 MiB.
    pub fn new(address: SocketAddr) -> Self {
        Self { address, password: None, timeout: Duration::from_secs(1), cache: 64 << 20 }
    }
}

/// How long it waits until it connects again.
const RETRY: Duration = Duration::from_millis(100);

/// Bytes of commands that may wait to be sent.
const WAITING: usize = 64 << 20;

/// Bytes read at once.
const CHUNK: usize = 64 << 10;

/// A command without a reply yet, and what is to happen then.
#[derive(Debug)]
struct Command<T> {
    /// Where its bytes begin, counted from the first that was ever to be sent.
    begin: u64,
    deadline: Instant,
    then: T,
}

/// Outcomes of commands.
pub(crate) type Outcomes<T> = Vec<(T, Result<Reply, Error>)>;

/// A core's connection with Redis.
#[derive(Debug)]
pub(crate) struct Remote<T> {
    redis: Redis,
    link: Option<Link>,
    /// When it may connect again.
    retry: Instant,
    /// Commands that wait for a reply, the oldest first.
    commands: VecDeque<Command<T>>,
    /// Bytes of commands that are not sent; the first is the `sent`-th of all.
    out: VecDeque<u8>,
    sent: u64,
    /// What is read into.
    chunk: Vec<u8>,
}

#[derive(Debug)]
struct Link {
    stream: TcpStream,
    connected: bool,
    /// What is sent before all commands, and whether its reply has come.
    greeting: Vec<u8>,
    greeted: bool,
    /// Whether there may be something to read.
    readable: bool,
    input: Vec<u8>,
}

impl<T> Remote<T> {
    pub(crate) fn new(redis: Redis, now: Instant) -> Self {
        Self {
            redis,
            link: None,
            retry: now,
            commands: VecDeque::new(),
            out: VecDeque::new(),
            sent: 0,
            chunk: vec![0; CHUNK],
        }
    }

    /// Queues a command; `then` comes back with its outcome.
    pub(crate) fn push(&mut self, now: Instant, command: &[u8], then: T) -> Result<(), Error> {
        if self.out.len() + command.len() > WAITING {
            return Err(Error::SendQueueFull);
        }
        let begin = self.sent + self.out.len() as u64;
        self.out.extend(command);
        self.commands.push_back(Command { begin, deadline: now + self.redis.timeout, then });
        Ok(())
    }

    /// Something has happened to the connection.
    pub(crate) fn set_readable(&mut self) {
        if let Some(link) = &mut self.link {
            link.readable = true;
        }
    }

    /// When [`Remote::work`] has to be called, if nothing happens before.
    pub(crate) fn next(&self) -> Option<Instant> {
        let first = self.commands.front()?.deadline;
        Some(if self.link.is_none() { first.min(self.retry) } else { first })
    }

    /// Connects, sends and receives what is possible now; what became of commands, in their order.
    pub(crate) fn work(&mut self, now: Instant, registry: &Registry, token: Token) -> Outcomes<T> {
        let mut outcomes = Vec::new();
        if self.link.is_none() && now >= self.retry && !self.commands.is_empty() {
            match self.connect(registry, token) {
                Ok(link) => self.link = Some(link),
                Err(_) => self.retry = now + RETRY,
            }
        }
        if let Some(link) = &mut self.link {
            let mut replies = Vec::new();
            // Twice, since commands wait for the reply to the greeting.
            let worked = link
                .send(&mut self.out, &mut self.sent)
                .and_then(|()| link.receive(&mut self.chunk, &mut replies))
                .and_then(|()| link.send(&mut self.out, &mut self.sent));
            for reply in replies {
                // A reply that nobody waits for cannot be: it is dropped with the connection below.
                let Some(command) = self.commands.pop_front() else { break };
                let outcome = match reply {
                    Reply::Error(text) => Err(Error::RemoteRefused(text)),
                    reply => Ok(reply),
                };
                outcomes.push((command.then, outcome));
            }
            match worked {
                Ok(()) => {}
                Err(Failed::Lost) => self.lose(now, &mut outcomes),
                Err(Failed::Refused(text)) => {
                    self.lose(now, &mut outcomes);
                    self.out.clear();
                    for command in self.commands.drain(..) {
                        outcomes.push((command.then, Err(Error::RemoteRefused(text.clone()))));
                    }
                }
            }
        }
        self.expire(now, &mut outcomes);
        outcomes
    }

    fn connect(&self, registry: &Registry, token: Token) -> std::io::Result<Link> {
        let mut stream = TcpStream::connect(self.redis.address)?;
        registry.register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)?;
        let _ = stream.set_nodelay(true);
        let mut greeting = Vec::new();
        match &self.redis.password {
            None => wire::command(&mut greeting, &[b"HELLO", b"3"]),
            Some(password) => {
                wire::command(&mut greeting, &[b"HELLO", b"3", b"AUTH", b"default", password.as_bytes()]);
            }
        }
        Ok(Link { stream, connected: false, greeting, greeted: false, readable: false, input: Vec::new() })
    }

    /// The connection is gone: of commands that were sent, if only in part, nobody knows whether they were done.
    fn lose(&mut self, now: Instant, outcomes: &mut Outcomes<T>) {
        self.link = None;
        self.retry = now + RETRY;
        while self.commands.front().is_some_and(|c| c.begin < self.sent)
            && let Some(command) = self.commands.pop_front()
        {
            outcomes.push((command.then, Err(Error::RemoteLost)));
        }
        // What is left of a command that was sent in part.
        let unsent = self.commands.front().map_or(self.out.len(), |c| (c.begin - self.sent) as usize);
        self.out.drain(..unsent);
        self.sent += unsent as u64;
    }

    fn expire(&mut self, now: Instant, outcomes: &mut Outcomes<T>) {
        while self.commands.front().is_some_and(|c| c.deadline <= now)
            && let Some(command) = self.commands.pop_front()
        {
            // A connection that is not even made may never be: the packet that asked for it may be lost.
            let useless = command.begin < self.sent || self.link.as_ref().is_some_and(|link| !link.greeted);
            outcomes.push((command.then, Err(Error::RemoteTimeout(self.redis.timeout))));
            if useless {
                // Also, a late reply would be taken for the next command's.
                self.lose(now, outcomes);
            } else {
                let next = self.commands.front().map_or(self.out.len(), |c| (c.begin - self.sent) as usize);
                self.out.drain(..next);
                self.sent += next as u64;
            }
        }
    }
}

/// Why a connection is of no more use.
#[derive(Debug)]
enum Failed {
    Lost,
    /// Redis does not want us.
    Refused(String),
}

impl From<std::io::Error> for Failed {
    fn from(_: std::io::Error) -> Self {
        Self::Lost
    }
}

impl Link {
    /// Sends as much as the kernel takes.
    fn send(&mut self, out: &mut VecDeque<u8>, sent: &mut u64) -> Result<(), Failed> {
        if !self.connected {
            if let Some(error) = self.stream.take_error()? {
                return Err(error.into());
            }
            match self.stream.peer_addr() {
                Ok(_) => self.connected = true,
                Err(error) if error.kind() == ErrorKind::NotConnected => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
        while !self.greeting.is_empty() {
            match self.write(None)? {
                Some(n) => self.greeting.drain(..n),
                None => return Ok(()),
            };
        }
        // Commands wait until Redis has agreed to the protocol.
        while self.greeted && !out.is_empty() {
            match self.write(Some(out.as_slices().0))? {
                Some(n) => {
                    out.drain(..n);
                    *sent += n as u64;
                }
                None => return Ok(()),
            }
        }
        Ok(())
    }

    /// Writes (`None`: the greeting) once; `None`: the kernel takes nothing now.
    fn write(&mut self, bytes: Option<&[u8]>) -> Result<Option<usize>, Failed> {
        match self.stream.write(bytes.unwrap_or(&self.greeting)) {
            Ok(n) => Ok(Some(n)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(Some(0)),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads what there is.
    fn receive(&mut self, chunk: &mut [u8], replies: &mut Vec<Reply>) -> Result<(), Failed> {
        while self.connected && self.readable {
            match self.stream.read(chunk) {
                Ok(0) => return Err(Failed::Lost),
                Ok(n) => {
                    self.input.extend_from_slice(&chunk[..n]);
                    self.parse(replies)?;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.readable = false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn parse(&mut self, replies: &mut Vec<Reply>) -> Result<(), Failed> {
        let mut at = 0;
        while let Some((reply, length)) = wire::reply(&self.input[at..]).map_err(Failed::Refused)? {
            at += length;
            match reply {
                reply if self.greeted => replies.push(reply),
                Reply::Error(text) => return Err(Failed::Refused(text)),
                _ => self.greeted = true,
            }
        }
        self.input.drain(..at);
        Ok(())
    }
}
