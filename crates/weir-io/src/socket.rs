//! Ports on sockets: a packet is a datagram, or what a stream gives at a time.

use std::fmt;
use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use weir_packet::{MAX_LEN, Packet, entry};

use crate::{Lost, Port, PortError, PortStats};

/// The kind and the address of a socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// UDP at an address; packets go to whom the last one came from.
    UdpServer(SocketAddrV4),
    /// UDP to an address; to 0.0.0.0, packets go to their destination address annotation. Perhaps from an address.
    UdpClient(SocketAddrV4, Option<SocketAddrV4>),
    /// UDP to all of a group, and what all of a group send.
    Multicast {
        /// The group.
        group: SocketAddrV4,
        /// Where packets come from, which also gives the interface; what comes from there is not received.
        source: Option<SocketAddrV4>,
        /// Whether programs on this machine, this one included, receive what is sent.
        local: bool,
    },
    /// TCP at an address: one client at a time.
    TcpServer(SocketAddrV4),
    /// TCP to an address, perhaps from an address.
    TcpClient(SocketAddrV4, Option<SocketAddrV4>),
    /// A Unix stream socket at a path: one client at a time. The path is removed at the end.
    UnixServer(PathBuf),
    /// A Unix stream socket to a path.
    UnixClient(PathBuf),
    /// A Unix datagram socket at a path; packets go to whom the last one came from. The path is removed at the end.
    UnixDatagramServer(PathBuf),
    /// A Unix datagram socket to a path, perhaps from a path, which is removed at the end.
    UnixDatagramClient(PathBuf, Option<PathBuf>),
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::UdpServer(at) => write!(f, "udp at {at}"),
            Kind::UdpClient(to, None) => write!(f, "udp to {to}"),
            Kind::UdpClient(to, Some(from)) => write!(f, "udp to {to} from {from}"),
            Kind::Multicast { group, source: None, .. } => write!(f, "multicast {group}"),
            Kind::Multicast { group, source: Some(source), .. } => {
                write!(f, "multicast {group} from {source}")
            }
            Kind::TcpServer(at) => write!(f, "tcp at {at}"),
            Kind::TcpClient(to, None) => write!(f, "tcp to {to}"),
            Kind::TcpClient(to, Some(from)) => write!(f, "tcp to {to} from {from}"),
            Kind::UnixServer(path) | Kind::UnixDatagramServer(path) => {
                write!(f, "unix at {}", path.display())
            }
            Kind::UnixClient(path) | Kind::UnixDatagramClient(path, _) => {
                write!(f, "unix to {}", path.display())
            }
        }
    }
}

/// Options of a socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Where it is, and what it talks to.
    pub kind: Kind,
    /// Longest packet that is received, in bytes; the rest of a datagram is lost, that of a stream is the next packet.
    pub snaplen: usize,
    /// Size of the kernel's buffer for sending, in bytes.
    pub send_buffer: Option<usize>,
    /// Size of the kernel's buffer for receiving, in bytes.
    pub receive_buffer: Option<usize>,
    /// Whether small packets go out at once (TCP).
    pub nodelay: bool,
    /// Whether packets bear the time at which they came.
    pub timestamp: bool,
}

impl Options {
    /// A socket with the kernel's buffers, for packets of 2,048 bytes.
    pub fn new(kind: Kind) -> Options {
        Options {
            kind,
            snaplen: 2048,
            send_buffer: None,
            receive_buffer: None,
            nodelay: true,
            timestamp: true,
        }
    }
}

/// A port on a socket.
#[derive(Debug)]
pub struct SocketPort {
    name: String,
    options: Options,
    ends: Ends,
    /// Readable when one of the sockets is.
    epoll: Epoll,
    buffer: Box<[u8]>,
    /// Paths to remove.
    paths: Vec<PathBuf>,
    stats: PortStats,
}

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one for each port, and it does not move")]
enum Ends {
    Datagram {
        receiver: Socket,
        /// `None`: the receiver sends.
        sender: Option<Socket>,
        peer: Option<SockAddr>,
        /// Whether packets go to whom the last one came from.
        answers: bool,
        /// Whose packets are not received.
        own: Option<SockAddr>,
    },
    Stream {
        listener: Option<Socket>,
        stream: Option<Socket>,
        /// The rest of a packet that the stream did not take.
        unsent: Vec<u8>,
        ended: bool,
    },
}

impl SocketPort {
    /// Opens a socket. A client of a stream waits until it is connected.
    ///
    /// # Errors
    /// If the kernel refuses something; addresses in use, for example.
    pub fn open(options: &Options) -> Result<SocketPort, PortError> {
        let name = options.kind.to_string();
        let failed = |action: &'static str| {
            let name = name.clone();
            move |source: io::Error| PortError::Os { name, action, source }
        };
        let mut paths = Vec::new();
        let ends = open(options, &mut paths).map_err(failed("open the socket"))?;
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)
            .map_err(|e| failed("create an epoll instance")(e.into()))?;
        let port = SocketPort {
            name: name.clone(),
            options: options.clone(),
            ends,
            epoll,
            buffer: vec![0; options.snaplen.clamp(1, MAX_LEN)].into(),
            paths,
            stats: PortStats::default(),
        };
        let watched = match &port.ends {
            Ends::Datagram { receiver, .. } => Some(receiver),
            Ends::Stream { listener, stream, .. } => listener.as_ref().or(stream.as_ref()),
        };
        watched.map_or(Ok(()), |s| watch(&port.epoll, s)).map_err(failed("watch the socket"))?;
        Ok(port)
    }

    /// The address that the socket is at, if it is an IPv4 one.
    pub fn local_addr(&self) -> Option<SocketAddrV4> {
        let socket = match &self.ends {
            Ends::Datagram { receiver, .. } => receiver,
            Ends::Stream { listener, stream, .. } => listener.as_ref().or(stream.as_ref())?,
        };
        socket.local_addr().ok()?.as_socket_ipv4()
    }

    fn failed(&self, action: &'static str, source: io::Error) -> PortError {
        PortError::Os { name: self.name.clone(), action, source }
    }

    /// The next bytes; `None` if there are none now.
    fn read(&mut self) -> io::Result<Option<usize>> {
        match &mut self.ends {
            Ends::Datagram { receiver, peer, answers, own, .. } => loop {
                let (n, from) = match receive_from(receiver, &mut self.buffer) {
                    // The answer to a packet that nobody took, as ICMP gives it.
                    Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => continue,
                    other => other?,
                };
                if own.as_ref().is_some_and(|own| *own == from) {
                    continue;
                }
                if *answers {
                    *peer = Some(from);
                }
                return Ok(Some(n));
            },
            Ends::Stream { listener, stream, unsent, ended } => {
                if let (Some(listener), None) = (&*listener, &*stream) {
                    let (client, _) = listener.accept()?;
                    client.set_nonblocking(true)?;
                    if self.options.nodelay && matches!(self.options.kind, Kind::TcpServer(_)) {
                        client.set_tcp_nodelay(true)?;
                    }
                    watch(&self.epoll, &client)?;
                    *stream = Some(client);
                }
                let Some(socket) = stream else { return Ok(None) };
                match (&*socket).read(&mut self.buffer) {
                    Ok(0) => {}
                    Err(e) if e.kind() == io::ErrorKind::ConnectionReset => {}
                    other => return other.map(Some),
                }
                // Closing it also takes it out of the epoll instance.
                *stream = None;
                unsent.clear();
                *ended = listener.is_none();
                Ok(None)
            }
        }
    }

    /// Sends a packet; false if the socket takes none now.
    fn write(&mut self, packet: &Packet) -> io::Result<bool> {
        match &mut self.ends {
            Ends::Datagram { receiver, sender, peer, .. } => {
                let socket = sender.as_ref().unwrap_or(receiver);
                let annotated;
                let to = match (&self.options.kind, peer.as_ref()) {
                    (Kind::UdpClient(to, _), _) if to.ip().is_unspecified() => {
                        let [a, b, c, d, ..] = packet.anno;
                        annotated = SockAddr::from(SocketAddrV4::new(Ipv4Addr::new(a, b, c, d), to.port()));
                        &annotated
                    }
                    (_, Some(peer)) => peer,
                    (_, None) => return Err(io::ErrorKind::NotConnected.into()),
                };
                socket.send_to(packet.bytes(), to).map(|_| true)
            }
            Ends::Stream { stream, unsent, .. } => {
                let Some(stream) = stream else { return Err(io::ErrorKind::NotConnected.into()) };
                while !unsent.is_empty() {
                    let n = (&*stream).write(unsent)?;
                    unsent.drain(..n);
                }
                let n = (&*stream).write(packet.bytes())?;
                unsent.extend(packet.bytes().iter().skip(n));
                Ok(true)
            }
        }
    }
}

impl Drop for SocketPort {
    fn drop(&mut self) {
        for path in &self.paths {
            // It may be gone already.
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Port for SocketPort {
    fn name(&self) -> &str {
        &self.name
    }

    fn receive(&mut self, out: &mut Vec<Packet>, max: usize) -> Result<usize, PortError> {
        for n in 0..max {
            let len = match self.read() {
                Ok(Some(len)) => len,
                Ok(None) => return Ok(n),
                Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                    return Ok(n);
                }
                Err(e) => return Err(self.failed("receive", e)),
            };
            let bytes = self.buffer.get(..len).unwrap_or(&[]);
            let Ok(mut packet) = Packet::from_bytes(bytes) else {
                self.stats.rx_malformed += 1;
                continue;
            };
            if self.options.timestamp {
                packet.timestamp =
                    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_nanos() as u64);
            }
            entry::SOCKET.mark(&mut packet, None);
            self.stats.received(len);
            out.push(packet);
        }
        Ok(max)
    }

    fn send(&mut self, batch: &mut Vec<Packet>) -> Result<usize, PortError> {
        let (mut done, mut sent) = (0, 0);
        while let Some(packet) = batch.get(done) {
            let len = packet.len();
            match self.write(packet) {
                Ok(true) => {
                    sent += 1;
                    self.stats.sent(len);
                }
                Ok(false) => break,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.raw_os_error() == Some(libc::EMSGSIZE) => self.stats.tx_errors.too_long += 1,
                Err(_) => self.stats.tx_errors.refused += 1,
            }
            done += 1;
        }
        batch.drain(..done);
        Ok(sent)
    }

    fn fd(&mut self) -> Option<BorrowedFd<'_>> {
        Some(self.epoll.0.as_fd())
    }

    fn ended(&self) -> bool {
        matches!(self.ends, Ends::Stream { ended: true, .. })
    }

    fn stats(&mut self) -> PortStats {
        self.stats
    }

    fn lost(&self) -> Lost {
        self.stats.lost()
    }
}

fn watch(epoll: &Epoll, socket: &Socket) -> io::Result<()> {
    Ok(epoll.add(socket, EpollEvent::new(EpollFlags::EPOLLIN, 0))?)
}

fn receive_from(socket: &Socket, buffer: &mut [u8]) -> io::Result<(usize, SockAddr)> {
    // SAFETY: `MaybeUninit<u8>` has the layout of `u8`, and `recv_from` promises never to write uninitialised bytes.
    let buffer = unsafe {
        std::slice::from_raw_parts_mut(buffer.as_mut_ptr().cast::<MaybeUninit<u8>>(), buffer.len())
    };
    socket.recv_from(buffer)
}

fn open(options: &Options, paths: &mut Vec<PathBuf>) -> io::Result<Ends> {
    let socket = |domain, kind, protocol| {
        let socket = Socket::new(domain, kind, protocol)?;
        if let Some(size) = options.send_buffer {
            socket.set_send_buffer_size(size)?;
        }
        if let Some(size) = options.receive_buffer {
            socket.set_recv_buffer_size(size)?;
        }
        Ok::<Socket, io::Error>(socket)
    };
    let udp = || socket(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP));
    let tcp = || socket(Domain::IPV4, Type::STREAM, Some(Protocol::TCP));
    let datagram = |receiver: Socket, peer: Option<SockAddr>| {
        receiver.set_nonblocking(true)?;
        let answers = peer.is_none();
        Ok::<Ends, io::Error>(Ends::Datagram { receiver, sender: None, peer, answers, own: None })
    };
    let server = |listener: Socket, at: &SockAddr| {
        listener.set_reuse_address(true)?;
        listener.bind(at)?;
        listener.listen(2)?;
        listener.set_nonblocking(true)?;
        Ok::<Ends, io::Error>(Ends::Stream {
            listener: Some(listener),
            stream: None,
            unsent: Vec::new(),
            ended: false,
        })
    };
    let client = |stream: Socket, to: &SockAddr| {
        stream.connect(to)?;
        stream.set_nonblocking(true)?;
        Ok::<Ends, io::Error>(Ends::Stream {
            listener: None,
            stream: Some(stream),
            unsent: Vec::new(),
            ended: false,
        })
    };
    match &options.kind {
        Kind::UdpServer(at) => {
            let receiver = udp()?;
            receiver.bind(&(*at).into())?;
            datagram(receiver, None)
        }
        Kind::UdpClient(to, from) => {
            let receiver = udp()?;
            receiver.bind(&from.unwrap_or(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0)).into())?;
            datagram(receiver, Some((*to).into()))
        }
        Kind::Multicast { group, source, local } => {
            let (receiver, sender) = (udp()?, udp()?);
            let interface = source.map_or(Ipv4Addr::UNSPECIFIED, |s| *s.ip());
            receiver.set_reuse_address(true)?;
            receiver.bind(&(*group).into())?;
            receiver.join_multicast_v4(group.ip(), &interface)?;
            sender.set_multicast_loop_v4(*local)?;
            if let Some(source) = source {
                sender.bind(&(*source).into())?;
                sender.set_multicast_if_v4(&interface)?;
            }
            let own = source.map(|_| sender.local_addr()).transpose()?;
            receiver.set_nonblocking(true)?;
            sender.set_nonblocking(true)?;
            let peer = Some((*group).into());
            Ok(Ends::Datagram { receiver, sender: Some(sender), peer, answers: false, own })
        }
        Kind::TcpServer(at) => server(tcp()?, &(*at).into()),
        Kind::TcpClient(to, from) => {
            let stream = tcp()?;
            if let Some(from) = from {
                stream.set_reuse_address(true)?;
                stream.bind(&(*from).into())?;
            }
            stream.set_tcp_nodelay(options.nodelay)?;
            client(stream, &(*to).into())
        }
        Kind::UnixServer(path) => {
            let ends = server(socket(Domain::UNIX, Type::STREAM, None)?, &SockAddr::unix(path)?)?;
            paths.push(path.clone());
            Ok(ends)
        }
        Kind::UnixClient(path) => client(socket(Domain::UNIX, Type::STREAM, None)?, &SockAddr::unix(path)?),
        Kind::UnixDatagramServer(path) => {
            let receiver = socket(Domain::UNIX, Type::DGRAM, None)?;
            receiver.bind(&SockAddr::unix(path)?)?;
            paths.push(path.clone());
            datagram(receiver, None)
        }
        Kind::UnixDatagramClient(to, from) => {
            let receiver = socket(Domain::UNIX, Type::DGRAM, None)?;
            if let Some(from) = from {
                receiver.bind(&SockAddr::unix(from)?)?;
                paths.push(from.clone());
            }
            datagram(receiver, Some(SockAddr::unix(to)?))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Poller;

    const ANY: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0);

    fn port(kind: Kind) -> SocketPort {
        SocketPort::open(&Options::new(kind)).unwrap()
    }

    /// What comes within some seconds.
    fn received(port: &mut SocketPort) -> Vec<u8> {
        let poller = Poller::new().unwrap();
        poller.add(1, port.fd().unwrap()).unwrap();
        let mut out = Vec::new();
        for _ in 0..100 {
            port.receive(&mut out, 1).unwrap();
            if let Some(packet) = out.pop() {
                assert!(packet.timestamp > 0);
                return packet.bytes().to_vec();
            }
            poller.sleep(Some(std::time::Duration::from_millis(100)), &mut Vec::new()).unwrap();
        }
        panic!("nothing came");
    }

    fn send(port: &mut SocketPort, bytes: &[u8]) -> usize {
        let mut batch = vec![Packet::from_bytes(bytes).unwrap()];
        let sent = port.send(&mut batch).unwrap();
        assert!(batch.is_empty());
        sent
    }

    #[test]
    fn a_server_answers_whom_it_heard() {
        let mut server = port(Kind::UdpServer(ANY));
        assert_eq!(send(&mut server, b"to nobody"), 0);
        assert_eq!(server.stats().tx_errors.refused, 1);
        let mut client = port(Kind::UdpClient(server.local_addr().unwrap(), Some(ANY)));
        assert_eq!(send(&mut client, b"question"), 1);
        assert_eq!(received(&mut server), b"question");
        assert_eq!(send(&mut server, b"answer"), 1);
        assert_eq!(received(&mut client), b"answer");
    }

    #[test]
    fn the_annotation_may_tell_where_packets_go() {
        let mut server = port(Kind::UdpServer(ANY));
        let to = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, server.local_addr().unwrap().port());
        let mut client = port(Kind::UdpClient(to, None));
        let mut packet = Packet::from_bytes(b"x").unwrap();
        packet.anno[..4].copy_from_slice(&[127, 0, 0, 1]);
        assert_eq!(client.send(&mut vec![packet]).unwrap(), 1);
        assert_eq!(received(&mut server), b"x");
    }

    #[test]
    fn streams_serve_one_client_after_the_other() {
        let mut server = port(Kind::TcpServer(ANY));
        for _ in 0..2 {
            let mut client = port(Kind::TcpClient(server.local_addr().unwrap(), None));
            send(&mut client, b"hello");
            assert_eq!(received(&mut server), b"hello");
            send(&mut server, b"there");
            assert_eq!(received(&mut client), b"there");
            drop(client);
            assert_eq!(server.receive(&mut Vec::new(), 1).unwrap(), 0);
            assert!(!server.ended());
        }
    }

    #[test]
    fn paths_come_and_go() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (dir.path().join("a"), dir.path().join("b"));
        let mut server = port(Kind::UnixServer(a.clone()));
        let mut client = port(Kind::UnixClient(a.clone()));
        send(&mut client, b"1");
        assert_eq!(received(&mut server), b"1");
        drop((server, client));
        assert!(!a.exists());
        let mut server = port(Kind::UnixDatagramServer(a.clone()));
        let mut client = port(Kind::UnixDatagramClient(a.clone(), Some(b.clone())));
        send(&mut client, b"2");
        assert_eq!(received(&mut server), b"2");
        send(&mut server, b"3");
        assert_eq!(received(&mut client), b"3");
        drop((server, client));
        assert!(!a.exists() && !b.exists());
        assert!(SocketPort::open(&Options::new(Kind::UnixClient(a))).is_err());
    }

    #[test]
    fn a_group_hears_others_and_not_itself() {
        let group =
            SocketAddrV4::new(Ipv4Addr::new(233, 252, 0, 1), 20_000 + (std::process::id() % 20_000) as u16);
        let kind = Kind::Multicast { group, source: Some(ANY), local: true };
        let (mut a, mut b) = (port(kind.clone()), port(kind));
        send(&mut a, b"from a");
        assert_eq!(received(&mut b), b"from a");
        send(&mut b, b"from b");
        assert_eq!(received(&mut a), b"from b");
    }
}
