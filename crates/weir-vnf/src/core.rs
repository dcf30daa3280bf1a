//! One core: its connections, their request objects, and what a function does with them.

mod events;

use std::collections::{HashMap, VecDeque};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use mio::{Poll, Token};
use slab::Slab;

use crate::notices::Notices;
use crate::remote::cache::Cache;
use crate::remote::wire::Reply;
use crate::remote::{Redis, Remote};
use crate::requests::{RequestId, Requests};
use crate::socket::{Listener, Socket, Transport};
use crate::stack::StackCounters;
use crate::stack::link::Link;
use crate::{BUFFER_SIZE, Buffer, Error, Function, Protocol, ServerId, Store};

/// Bytes that may wait to be sent on one connection.
pub const SEND_LIMIT: usize = 4 << 20;

/// Connections that one core may have.
pub(crate) const MAX_CONNECTIONS: usize = 1 << 24;

/// Tokens from here on are sockets of servers.
const LISTENERS: usize = MAX_CONNECTIONS;

/// The token of the waker: there are notices, or the loop is to stop.
pub(crate) const WAKE: Token = Token(usize::MAX - 1);

/// The token of the connection with Redis.
const REMOTE: Token = Token(usize::MAX - 2);

/// The token of the device of a stack in user space.
const DEVICE: Token = Token(usize::MAX - 3);

/// Names a connection of one core. A name is not used again for another connection, so one that was closed stays unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Connection {
    index: u32,
    core: u32,
    generation: u64,
}

/// The continuation of a command of remote state, for when its reply has come.
pub(crate) struct Then<F: Function>(ThenDo<F>);

type ThenDo<F> = Box<dyn FnOnce(&mut F, &mut Core<F>, Result<Reply, Error>)>;

impl<F: Function> Then<F> {
    pub(crate) fn new(then: impl FnOnce(&mut F, &mut Core<F>, Result<Reply, Error>) + 'static) -> Self {
        Self(Box::new(then))
    }
}

impl<F: Function> std::fmt::Debug for Then<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Then")
    }
}

/// State that cores have in common.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) store: Arc<Store>,
    pub(crate) notices: Notices,
    pub(crate) redis: Option<Redis>,
    pub(crate) limit: Duration,
    /// When the callback that runs was called, in milliseconds since `epoch`; 0 if none does.
    pub(crate) busy: Arc<AtomicU64>,
    pub(crate) epoch: Instant,
    /// Of a stack in user space.
    pub(crate) link: Option<Link>,
}

/// One core of a running function: what its callbacks work with. Not shared between threads.
#[derive(Debug)]
pub struct Core<F: Function> {
    number: u32,
    poll: Poll,
    listeners: Vec<Listener>,
    sockets: Slab<Socket>,
    /// Where the connections with peers of UDP servers are.
    peers: HashMap<(ServerId, SocketAddr), usize>,
    requests: Requests<F::Request>,
    store: Arc<Store>,
    notices: Notices,
    generation: u64,
    /// Sockets and listeners that had more than their turn.
    again: Vec<Token>,
    /// Connections that failed while a callback ran.
    failed: Vec<(Connection, Error)>,
    /// How long a callback may take.
    limit: Duration,
    busy: Arc<AtomicU64>,
    epoch: Instant,
    pub(crate) remote: Option<Remote<Then<F>>>,
    pub(crate) cache: Cache,
    /// What the cache has answered.
    pub(crate) later: VecDeque<Then<F>>,
    link: Option<Link>,
}

impl<F: Function> Core<F> {
    pub(crate) fn new(
        number: u32,
        poll: Poll,
        listeners: Vec<Listener>,
        Shared { store, notices, redis, limit, busy, epoch, link }: Shared,
    ) -> Result<Self, Error> {
        let mut core = Self {
            number,
            poll,
            listeners,
            sockets: Slab::new(),
            peers: HashMap::new(),
            requests: Requests::new(number),
            store,
            notices,
            generation: 0,
            again: Vec::new(),
            failed: Vec::new(),
            limit,
            busy,
            epoch,
            cache: Cache::new(redis.as_ref().map_or(0, |r| r.cache)),
            remote: redis.map(|redis| Remote::new(redis, Instant::now())),
            later: VecDeque::new(),
            link,
        };
        if let Some(link) = &mut core.link {
            link.watch(core.poll.registry(), DEVICE)?;
        }
        for (n, listener) in core.listeners.iter_mut().enumerate() {
            listener.watch(core.poll.registry(), Token(LISTENERS + n))?;
        }
        Ok(core)
    }

    /// The number of this core's loop, from 0.
    pub fn number(&self) -> usize {
        self.number as usize
    }

    /// State shared by all cores.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Request objects on this core.
    pub fn requests(&self) -> usize {
        self.requests.len()
    }

    /// Open connections on this core, also those that only have something left to send.
    pub fn connections(&self) -> usize {
        self.sockets.len()
    }

    /// What became of the frames of a stack in user space; `None` on the kernel's.
    pub fn stack_counters(&self) -> Option<StackCounters> {
        self.link.as_ref().map(|link| link.stack.counters())
    }

    /// Opens a connection, without waiting for it: data may be sent at once, a failure arrives as an error event.
    pub fn connect(&mut self, to: SocketAddr, protocol: Protocol) -> Result<Connection, Error> {
        let transport = match &mut self.link {
            Some(link) => {
                let now = link.now();
                link.stack.connect(to, protocol, now).map(|key| {
                    // Datagrams need no handshake.
                    Transport::User { key, protocol, connected: protocol == Protocol::Udp }
                })
            }
            None => Transport::connect(to, protocol),
        };
        self.add(transport.map_err(|source| Error::Io { what: "connect", source })?, None)
    }

    /// Sends a buffer behind what was sent before, without waiting. A failure arrives as an error event. With UDP it is a datagram, which
    /// may be lost.
    ///
    /// Errors: [`Error::UnknownConnection`], also after [`Core::close`]; [`Error::SendQueueFull`], then nothing of `data` is sent.
    pub fn send(&mut self, connection: Connection, data: Buffer) -> Result<(), Error> {
        let (socket, link) = self.parts(connection)?;
        let sent = match &socket.transport {
            stream if stream.is_stream() => {
                if data.is_empty() {
                    return Ok(());
                }
                if socket.queued + data.len() > SEND_LIMIT {
                    return Err(Error::SendQueueFull);
                }
                socket.push(data, link)
            }
            Transport::Udp(udp) => datagram(udp.send(&data))?,
            Transport::User { key, .. } => match link {
                Some(link) => datagram(link.stack.send(*key, &data).map(|()| 0))?,
                None => return Err(Error::UnknownConnection),
            },
            Transport::Peer(to) => {
                let (server, to) = (socket.server.ok_or(Error::UnknownConnection)?, *to);
                match (&self.listeners[server.0], &mut self.link) {
                    (Listener::Udp(udp), _) => datagram(udp.send_to(&data, to))?,
                    (Listener::User(_), Some(link)) => {
                        datagram(link.stack.send_from(server, to, &data).map(|()| 0))?
                    }
                    _ => return Err(Error::UnknownConnection),
                }
            }
            Transport::Tcp { .. } => return Err(Error::UnknownConnection),
        };
        if let Err(error) = sent {
            self.failed.push((connection, error));
        }
        Ok(())
    }

    /// Sends bytes, as [`Core::send`] does with a buffer: all of them or, on an error, none. A datagram of more than [`BUFFER_SIZE`] bytes
    /// is refused ([`Error::TooLong`]).
    pub fn send_bytes(&mut self, connection: Connection, data: &[u8]) -> Result<(), Error> {
        let socket = self.socket(connection)?;
        let tcp = socket.is_stream();
        if tcp && socket.queued + data.len() > SEND_LIMIT {
            return Err(Error::SendQueueFull);
        }
        if !tcp && data.len() > BUFFER_SIZE {
            return Err(Error::TooLong);
        }
        let mut rest = data;
        loop {
            let mut buffer = Buffer::new();
            rest = &rest[buffer.append(rest)..];
            self.send(connection, buffer)?;
            if rest.is_empty() {
                return Ok(());
            }
        }
    }

    /// Bytes that wait to be sent on a connection. [`Function::sent`] is called when there are none any more.
    pub fn queued(&mut self, connection: Connection) -> Result<usize, Error> {
        Ok(self.socket(connection)?.queued)
    }

    /// Has no data of a connection come for now, or has it come again: a function that passes data on to a slower peer lets the kernel hold
    /// up the faster one. Nothing is lost. Peers of UDP servers cannot be held up.
    pub fn pause(&mut self, connection: Connection, paused: bool) -> Result<(), Error> {
        let socket = self.socket(connection)?;
        if socket.paused && !paused {
            self.again.push(Token(connection.index as usize));
        }
        self.socket(connection)?.paused = paused;
        Ok(())
    }

    /// Closes a connection once all that was sent before is out. Its request objects are unlinked now, and no callback comes any more.
    /// A peer that reads nothing holds the connection's buffers, at most [`SEND_LIMIT`] bytes, until it ends or resets.
    pub fn close(&mut self, connection: Connection) -> Result<(), Error> {
        let socket = self.socket(connection)?;
        socket.closing = true;
        let requests = std::mem::take(&mut socket.requests);
        if socket.is_flushed() {
            self.remove(connection);
        }
        for id in requests {
            self.requests.unlink(id);
        }
        Ok(())
    }

    /// Links a new request object to a connection, behind those that are linked to it: several requests of a connection may be under way.
    pub fn attach(&mut self, connection: Connection, request: F::Request) -> Result<RequestId, Error> {
        self.socket(connection)?;
        let id = self.requests.add(request);
        self.socket(connection)?.requests.push(id);
        Ok(id)
    }

    /// Links a request object to another connection as well, behind those that are linked to that.
    pub fn link(&mut self, connection: Connection, request: RequestId) -> Result<(), Error> {
        if self.socket(connection)?.requests.contains(&request) {
            return Err(Error::Linked);
        }
        self.requests.link(request)?;
        self.socket(connection)?.requests.push(request);
        Ok(())
    }

    /// The request objects that are linked to a connection, the oldest link first.
    pub fn linked(&mut self, connection: Connection) -> Result<&[RequestId], Error> {
        Ok(&self.socket(connection)?.requests)
    }

    /// The first of [`Core::linked`]: the only one, or the one that an answer is for where answers come in the order of requests.
    pub fn request(&mut self, connection: Connection) -> Result<Option<RequestId>, Error> {
        Ok(self.linked(connection)?.first().copied())
    }

    /// A request object.
    pub fn get(&mut self, request: RequestId) -> Result<&mut F::Request, Error> {
        self.requests.get(request)
    }

    /// Unlinks a request object from a connection; returns it if this was its last link. If it was the connection's last and the peer
    /// closed its side before, the connection is closed too.
    pub fn unlink(
        &mut self,
        connection: Connection,
        request: RequestId,
    ) -> Result<Option<F::Request>, Error> {
        let socket = self.socket(connection)?;
        let at = socket.requests.iter().position(|id| *id == request).ok_or(Error::NotLinked)?;
        socket.requests.remove(at);
        if socket.ended && socket.requests.is_empty() {
            self.close(connection)?;
        }
        Ok(self.requests.unlink(request))
    }

    /// The server that accepted a connection; `None` if [`Core::connect`] opened it.
    pub fn server(&mut self, connection: Connection) -> Result<Option<ServerId>, Error> {
        Ok(self.socket(connection)?.server)
    }

    /// Whether a connection lasts only as long as request objects are linked to it: its peer closed its side, or is one of a UDP server.
    pub fn ends_with_requests(&mut self, connection: Connection) -> Result<bool, Error> {
        Ok(self.socket(connection)?.ended)
    }

    fn add(&mut self, mut transport: Transport, server: Option<ServerId>) -> Result<Connection, Error> {
        if self.sockets.len() >= MAX_CONNECTIONS {
            return Err(Error::TooManyConnections);
        }
        let entry = self.sockets.vacant_entry();
        let index = entry.key();
        transport
            .watch(self.poll.registry(), Token(index))
            .map_err(|source| Error::Io { what: "watch a connection", source })?;
        if let (Transport::User { key, protocol, .. }, Some(link)) = (&transport, &mut self.link) {
            let now = link.now();
            link.stack.own(*key, *protocol, index, now);
        }
        self.generation += 1;
        entry.insert(Socket::new(transport, self.generation, server));
        Ok(self.name(index, self.generation))
    }

    /// Takes a connection away, if it is still there.
    fn remove(&mut self, connection: Connection) {
        let index = connection.index as usize;
        if self.sockets.get(index).is_some_and(|s| s.generation == connection.generation) {
            // Closing a socket ends its watch.
            let socket = self.sockets.remove(index);
            match (socket.transport, socket.server, &mut self.link) {
                (Transport::Peer(from), Some(server), _) => {
                    self.peers.remove(&(server, from));
                }
                (Transport::User { key, protocol, .. }, _, Some(link)) => link.stack.close(key, protocol),
                _ => {}
            }
        }
    }

    fn name(&self, index: usize, generation: u64) -> Connection {
        Connection { index: index as u32, core: self.number, generation }
    }

    /// The socket of a connection that the function has not closed.
    fn socket(&mut self, connection: Connection) -> Result<&mut Socket, Error> {
        self.parts(connection).map(|(socket, _)| socket)
    }

    /// The same, and what it is on if that is not the kernel.
    fn parts(&mut self, connection: Connection) -> Result<(&mut Socket, &mut Option<Link>), Error> {
        let socket = self
            .sockets
            .get_mut(connection.index as usize)
            .filter(|s| s.generation == connection.generation && connection.core == self.number && !s.closing)
            .ok_or(Error::UnknownConnection)?;
        Ok((socket, &mut self.link))
    }
}

/// What became of a datagram: refused for now, or sent, or a failure of the connection.
fn datagram(outcome: std::io::Result<usize>) -> Result<Result<(), Error>, Error> {
    match outcome {
        Ok(_) => Ok(Ok(())),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Err(Error::SendQueueFull),
        Err(error) if error.raw_os_error() == Some(nix::errno::Errno::EMSGSIZE as i32) => Err(Error::TooLong),
        Err(source) => Ok(Err(Error::Io { what: "send", source })),
    }
}
