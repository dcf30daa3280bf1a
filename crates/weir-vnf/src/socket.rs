//! What is behind a connection, and a server: sockets of the kernel, or of the stack in user space.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use mio::net::{TcpListener, TcpStream, UdpSocket};
use mio::{Interest, Registry, Token};
use smallvec::SmallVec;
use socket2::{Domain, Protocol as Number, Socket as Plain, Type};

use crate::stack::link::Link;
use crate::stack::user::Key;
use crate::{Buffer, Error, Protocol, RequestId, ServerId};

/// Connections that wait to be accepted, per server and core.
const BACKLOG: i32 = 1024;

/// Bytes that the kernel keeps of datagrams that wait to be read, per server and core, if it allows that much.
const DATAGRAMS: usize = 4 << 20;

/// The socket of a server.
#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(TcpListener),
    Udp(UdpSocket),
    /// The stack in user space listens.
    User(Protocol),
}

impl Listener {
    /// Listens at an address beside other sockets of the process.
    pub(crate) fn new(
        address: SocketAddr,
        protocol: Protocol,
        interface: Option<&str>,
    ) -> std::io::Result<Self> {
        let (kind, number) = match protocol {
            Protocol::Tcp => (Type::STREAM, Number::TCP),
            Protocol::Udp => (Type::DGRAM, Number::UDP),
        };
        let socket = Plain::new(Domain::for_address(address), kind, Some(number))?;
        socket.bind_device(interface.map(str::as_bytes))?;
        // Not for UDP, where any process could then take the port as well, and with it the datagrams.
        socket.set_reuse_address(protocol == Protocol::Tcp)?;
        socket.set_reuse_port(true)?;
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        Ok(match protocol {
            Protocol::Tcp => {
                socket.listen(BACKLOG)?;
                Self::Tcp(TcpListener::from_std(socket.into()))
            }
            Protocol::Udp => {
                // More than the kernel allows is cut to that.
                let _ = socket.set_recv_buffer_size(DATAGRAMS);
                Self::Udp(UdpSocket::from_std(socket.into()))
            }
        })
    }

    /// The address of a socket of the kernel.
    pub(crate) fn address(&self) -> std::io::Result<SocketAddr> {
        match self {
            Self::Tcp(listener) => listener.local_addr(),
            Self::Udp(socket) => socket.local_addr(),
            Self::User(_) => Err(ErrorKind::Unsupported.into()),
        }
    }

    pub(crate) fn watch(&mut self, registry: &Registry, token: Token) -> Result<(), Error> {
        let watched = match self {
            Self::Tcp(listener) => registry.register(listener, token, Interest::READABLE),
            Self::Udp(socket) => registry.register(socket, token, Interest::READABLE),
            Self::User(_) => Ok(()),
        };
        watched.map_err(|source| Error::Io { what: "watch the socket of a server", source })
    }
}

/// The transport of a connection's data.
#[derive(Debug)]
pub(crate) enum Transport {
    Tcp {
        stream: TcpStream,
        connected: bool,
    },
    Udp(UdpSocket),
    /// A peer of a UDP server: its data goes by the server's socket.
    Peer(SocketAddr),
    /// On the stack in user space; `connected` is of TCP.
    User {
        key: Key,
        protocol: Protocol,
        connected: bool,
    },
}

impl Transport {
    /// Begins a connection.
    pub(crate) fn connect(to: SocketAddr, protocol: Protocol) -> std::io::Result<Self> {
        Ok(match protocol {
            Protocol::Tcp => Self::Tcp { stream: TcpStream::connect(to)?, connected: false },
            Protocol::Udp => {
                let any: SocketAddr = if to.is_ipv4() {
                    (Ipv4Addr::UNSPECIFIED, 0).into()
                } else {
                    (Ipv6Addr::UNSPECIFIED, 0).into()
                };
                let socket = UdpSocket::bind(any)?;
                socket.connect(to)?;
                Self::Udp(socket)
            }
        })
    }

    /// Has the loop wake when something happens.
    pub(crate) fn watch(&mut self, registry: &Registry, token: Token) -> std::io::Result<()> {
        match self {
            Self::Tcp { stream, .. } => {
                // Requests and replies are small, and wait for each other.
                let _ = stream.set_nodelay(true);
                registry.register(stream, token, Interest::READABLE | Interest::WRITABLE)
            }
            Self::Udp(socket) => registry.register(socket, token, Interest::READABLE),
            Self::Peer(_) | Self::User { .. } => Ok(()),
        }
    }

    /// Whether it is a stream.
    pub(crate) fn is_stream(&self) -> bool {
        matches!(self, Self::Tcp { .. } | Self::User { protocol: Protocol::Tcp, .. })
    }
}

/// The outcome of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Received {
    Data,
    /// A datagram that does not fit into a buffer.
    TooLong,
    /// The peer sends no more.
    End,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) transport: Transport,
    pub(crate) generation: u64,
    /// `None`: opened by `Core::connect`.
    pub(crate) server: Option<ServerId>,
    /// The peer sends no more, or (of a peer of a UDP server) there is nothing that says when it does not: the connection lasts as long
    /// as its request objects.
    pub(crate) ended: bool,
    /// The function wants no data for now.
    pub(crate) paused: bool,
    /// Closed by the function; still here until all is sent.
    pub(crate) closing: bool,
    /// Request objects that are linked to it, the oldest link first.
    pub(crate) requests: SmallVec<[RequestId; 2]>,
    /// What waits to be sent; of the first, `sent` bytes are gone.
    queue: VecDeque<Buffer>,
    pub(crate) queued: usize,
    sent: usize,
}

impl Socket {
    pub(crate) fn new(transport: Transport, generation: u64, server: Option<ServerId>) -> Self {
        Self {
            ended: matches!(transport, Transport::Peer(_)),
            transport,
            generation,
            server,
            paused: false,
            closing: false,
            requests: SmallVec::new(),
            queue: VecDeque::new(),
            queued: 0,
            sent: 0,
        }
    }

    /// Whether nothing waits to be sent.
    pub(crate) fn is_flushed(&self) -> bool {
        self.queue.is_empty()
    }

    /// Gives up what waits to be sent.
    pub(crate) fn clear(&mut self) {
        self.queue.clear();
        self.queued = 0;
    }

    pub(crate) fn is_stream(&self) -> bool {
        self.transport.is_stream()
    }

    /// Whether data can come by it.
    pub(crate) fn is_readable(&self) -> bool {
        match self.transport {
            Transport::Tcp { connected, .. } => connected && !self.ended && !self.paused,
            Transport::User { protocol: Protocol::Tcp, connected, .. } => {
                connected && !self.ended && !self.paused
            }
            Transport::Udp(_) | Transport::User { .. } => !self.paused,
            Transport::Peer(_) => false,
        }
    }

    /// Reads what there is into an empty buffer.
    pub(crate) fn receive(
        &mut self,
        buffer: &mut Buffer,
        link: &mut Option<Link>,
    ) -> std::io::Result<Received> {
        match &mut self.transport {
            Transport::User { key, protocol: Protocol::Tcp, .. } => {
                let stack = stack(link)?;
                match buffer.fill(|memory| Ok((stack.read(*key, Protocol::Tcp, memory)?, ())))? {
                    (0, ()) => Ok(Received::End),
                    _ => Ok(Received::Data),
                }
            }
            Transport::User { key, protocol: Protocol::Udp, .. } => {
                let stack = stack(link)?;
                let (fits, ()) =
                    buffer.datagram(|memory| Ok((stack.read(*key, Protocol::Udp, memory)?, ())))?;
                Ok(if fits { Received::Data } else { Received::TooLong })
            }
            Transport::Tcp { stream, .. } => match buffer.fill(|memory| Ok((stream.read(memory)?, ())))? {
                (0, ()) => Ok(Received::End),
                _ => Ok(Received::Data),
            },
            Transport::Udp(socket) => {
                let (fits, ()) = buffer.datagram(|memory| Ok((socket.recv(memory)?, ())))?;
                Ok(if fits { Received::Data } else { Received::TooLong })
            }
            Transport::Peer(_) => Err(ErrorKind::WouldBlock.into()),
        }
    }

    /// Queues a buffer, and sends what the stack takes.
    pub(crate) fn push(&mut self, data: Buffer, link: &mut Option<Link>) -> Result<(), Error> {
        self.queued += data.len();
        self.queue.push_back(data);
        if self.queue.len() == 1 { self.flush(link) } else { Ok(()) }
    }

    /// Sends as much as the stack takes.
    fn flush(&mut self, link: &mut Option<Link>) -> Result<(), Error> {
        match &self.transport {
            Transport::Tcp { connected: true, .. } => self.write(),
            Transport::User { connected: true, .. } => self.write_user(link),
            _ => Ok(()),
        }
    }

    /// A connection was made, or failed to be, or takes more data: sends what the stack takes.
    pub(crate) fn writable(&mut self, link: &mut Option<Link>) -> Result<(), Error> {
        match &mut self.transport {
            Transport::User { key, protocol: Protocol::Tcp, connected } => {
                let stack = stack(link).map_err(connect_failed)?;
                if !*connected {
                    if let Some(error) = stack.error(*key) {
                        return Err(connect_failed(error));
                    }
                    *connected = stack.is_connected(*key);
                }
                self.flush(link)
            }
            // What waits to be sent shows as well whether there is a connection, and saves two system calls.
            Transport::Tcp { stream, connected: connected @ false } if self.queue.is_empty() => {
                if let Some(error) = stream.take_error().map_err(connect_failed)? {
                    return Err(connect_failed(error));
                }
                match stream.peer_addr() {
                    Ok(_) => *connected = true,
                    Err(error) if error.kind() == ErrorKind::NotConnected => {}
                    Err(error) => return Err(connect_failed(error)),
                }
                Ok(())
            }
            Transport::Tcp { .. } => self.write(),
            _ => Ok(()),
        }
    }

    fn write_user(&mut self, link: &mut Option<Link>) -> Result<(), Error> {
        let Transport::User { key, .. } = self.transport else { return Ok(()) };
        let failed = |source| Error::Io { what: "send", source };
        let stack = stack(link).map_err(failed)?;
        while let Some(first) = self.queue.front() {
            match stack.write(key, &first[self.sent..]) {
                Ok(n) => self.went(n),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(source) => return Err(failed(source)),
            }
        }
        Ok(())
    }

    /// So much of the first buffer is sent.
    fn went(&mut self, bytes: usize) {
        let Some(first) = self.queue.front() else { return };
        self.sent += bytes;
        if self.sent == first.len() {
            self.queued -= first.len();
            self.sent = 0;
            self.queue.pop_front();
        }
    }

    fn write(&mut self) -> Result<(), Error> {
        let Transport::Tcp { stream, connected } = &mut self.transport else { return Ok(()) };
        while let Some(first) = self.queue.front() {
            match stream.write(&first[self.sent..]) {
                Ok(n) => {
                    *connected = true;
                    self.sent += n;
                    if self.sent == first.len() {
                        self.queued -= first.len();
                        self.sent = 0;
                        self.queue.pop_front();
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    *connected = *connected || stream.peer_addr().is_ok();
                    break;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if !*connected => return Err(connect_failed(error)),
                Err(source) => return Err(Error::Io { what: "send", source }),
            }
        }
        Ok(())
    }
}

/// The stack of a connection that is on one in user space: there is one.
fn stack(link: &mut Option<Link>) -> std::io::Result<&mut crate::stack::user::Stack> {
    link.as_mut().map(|l| &mut l.stack).ok_or_else(|| ErrorKind::NotConnected.into())
}

fn connect_failed(source: std::io::Error) -> Error {
    Error::Io { what: "connect", source }
}
