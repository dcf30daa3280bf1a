//! UDP: servers, and connections with one peer.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};

use nix::errno::Errno;
use slab::Slab;
use weir_net::{Udp as View, proto};
use weir_packet::Packet;

use super::wire::{self, Datagram};
use super::{Config, Key, Outcome, Ready, Tuple};
use crate::ServerId;

/// Bytes of datagrams that wait to be read, per server or connection and core; each counts as its packet's memory.
const WAITING: usize = 4 << 20;

/// Ports that connections have.
const PORTS: std::ops::Range<u16> = 32_768..61_000;

#[derive(Debug)]
pub(super) struct Udp {
    sockets: Slab<Socket>,
    /// Those with a peer.
    connected: HashMap<Tuple, usize>,
    servers: Vec<(ServerId, usize)>,
    next_port: u16,
}

#[derive(Debug)]
struct Socket {
    local: SocketAddr,
    /// Of a connection.
    peer: Option<SocketAddr>,
    owner: Option<usize>,
    waiting: VecDeque<(SocketAddr, Packet, Datagram)>,
    bytes: usize,
    error: Option<Errno>,
}

impl Udp {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            sockets: Slab::new(),
            connected: HashMap::new(),
            servers: Vec::new(),
            next_port: PORTS.start + (seed % u64::from(PORTS.end - PORTS.start)) as u16,
        }
    }

    pub(super) fn listen(&mut self, id: ServerId, address: SocketAddr) -> io::Result<SocketAddr> {
        let servers: Vec<SocketAddr> = self.servers.iter().map(|(_, s)| self.sockets[*s].local).collect();
        let taken = |port| {
            servers.iter().any(|s| {
                let (a, b) = (s.ip(), address.ip());
                s.port() == port && (a == b || a.is_unspecified() || b.is_unspecified())
            })
        };
        let port = match address.port() {
            0 => PORTS.rev().find(|&p| !taken(p)),
            port => Some(port).filter(|&p| !taken(p)),
        };
        let local = SocketAddr::new(address.ip(), port.ok_or(Errno::EADDRINUSE)?);
        let socket = self.sockets.insert(Socket::new(local, None));
        self.servers.push((id, socket));
        Ok(local)
    }

    pub(super) fn connect(&mut self, config: &Config, to: SocketAddr) -> io::Result<Key> {
        let local = config.source(to.ip()).filter(|_| wire::is_host(to.ip())).ok_or(Errno::ENETUNREACH)?;
        for _ in PORTS {
            let port = self.next_port;
            self.next_port = if port + 1 < PORTS.end { port + 1 } else { PORTS.start };
            let tuple = Tuple { local: SocketAddr::new(local, port), remote: to };
            if config.share.has(&tuple)
                && !self.connected.contains_key(&tuple)
                && self.server(tuple.local).is_none()
            {
                let index = self.sockets.insert(Socket::new(tuple.local, Some(to)));
                self.connected.insert(tuple, index);
                return Ok(Key(index));
            }
        }
        Err(Errno::EADDRNOTAVAIL.into())
    }

    fn server(&self, local: SocketAddr) -> Option<(ServerId, usize)> {
        let fits = |(_, s): &&(ServerId, usize)| {
            let address = self.sockets[*s].local;
            let any = address.ip().is_unspecified() && address.is_ipv4() == local.is_ipv4();
            address.port() == local.port() && (any || address.ip() == local.ip())
        };
        self.servers.iter().find(fits).copied()
    }

    /// Reads a datagram for one of our addresses, whose checksum is right. Gives it back if it is for nobody.
    pub(super) fn input(&mut self, packet: Packet, d: Datagram, out: &mut Outcome) -> Option<Packet> {
        let Ok(view) = View::new(&packet.bytes()[d.transport..d.end]) else {
            out.counters.malformed += 1;
            return None;
        };
        let d = Datagram { end: d.end.min(d.transport + usize::from(view.length())), ..d };
        let tuple = Tuple {
            local: SocketAddr::new(d.target, view.dst_port()),
            remote: SocketAddr::new(d.source, view.src_port()),
        };
        let connected = self.connected.get(&tuple).copied();
        let (index, server) = match connected {
            Some(index) => (index, None),
            None => match self.server(tuple.local) {
                Some((id, index)) => (index, Some(id)),
                None => return Some(packet),
            },
        };
        let socket = &mut self.sockets[index];
        let size = packet.capacity() as usize;
        if socket.bytes + size > WAITING {
            out.counters.full += 1;
            return None;
        }
        if socket.waiting.is_empty() {
            match (server, socket.owner) {
                (Some(server), _) => out.ready.push_back(Ready::Server(server)),
                (None, Some(owner)) => {
                    out.ready.push_back(Ready::Connection { owner, readable: true, writable: false });
                }
                (None, None) => {}
            }
        }
        socket.bytes += size;
        socket.waiting.push_back((tuple.remote, packet, d));
        None
    }

    fn read(socket: &mut Socket, memory: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        if let Some(error) = socket.error.take() {
            return Err(error.into());
        }
        let (from, packet, d) = socket.waiting.pop_front().ok_or(io::ErrorKind::WouldBlock)?;
        socket.bytes -= packet.capacity() as usize;
        let data = &packet.bytes()[d.transport + 8..d.end];
        let n = data.len().min(memory.len());
        memory[..n].copy_from_slice(&data[..n]);
        Ok((n, from))
    }

    /// Takes the first datagram that came to a server; what does not fit is cut off.
    pub(super) fn receive_from(
        &mut self,
        server: ServerId,
        memory: &mut [u8],
    ) -> io::Result<(usize, SocketAddr)> {
        let (_, index) = self.servers.iter().find(|s| s.0 == server).ok_or(Errno::ENOTSOCK)?;
        Self::read(&mut self.sockets[*index], memory)
    }

    pub(super) fn receive(&mut self, Key(index): Key, memory: &mut [u8]) -> io::Result<usize> {
        let socket = self.sockets.get_mut(index).ok_or(Errno::ENOTCONN)?;
        Self::read(socket, memory).map(|(n, _)| n)
    }

    pub(super) fn send(
        &mut self,
        config: &Config,
        Key(index): Key,
        data: &[u8],
        out: &mut Outcome,
    ) -> io::Result<()> {
        let socket = self.sockets.get_mut(index).ok_or(Errno::ENOTCONN)?;
        if let Some(error) = socket.error.take() {
            return Err(error.into());
        }
        datagram(config, socket.local, socket.peer.ok_or(Errno::EDESTADDRREQ)?, data, out)
    }

    pub(super) fn send_from(
        &mut self,
        config: &Config,
        server: ServerId,
        to: SocketAddr,
        data: &[u8],
        out: &mut Outcome,
    ) -> io::Result<()> {
        let (_, index) = self.servers.iter().find(|s| s.0 == server).ok_or(Errno::ENOTSOCK)?;
        let mut local = self.sockets[*index].local;
        if local.ip().is_unspecified() {
            local.set_ip(config.source(to.ip()).ok_or(Errno::ENETUNREACH)?);
        }
        datagram(config, local, to, data, out)
    }

    pub(super) fn own(&mut self, Key(index): Key, owner: usize) {
        if let Some(socket) = self.sockets.get_mut(index) {
            socket.owner = Some(owner);
        }
    }

    pub(super) fn close(&mut self, Key(index): Key) {
        if let Some(socket) = self.sockets.try_remove(index)
            && let Some(remote) = socket.peer
        {
            self.connected.remove(&Tuple { local: socket.local, remote });
        }
    }

    /// The network says that a datagram of a connection did not arrive.
    pub(super) fn unreachable(&mut self, tuple: &Tuple, error: Errno, out: &mut Outcome) {
        if let Some(&index) = self.connected.get(tuple) {
            let socket = &mut self.sockets[index];
            socket.error = Some(error);
            if let Some(owner) = socket.owner {
                out.ready.push_back(Ready::Connection { owner, readable: true, writable: false });
            }
        }
    }
}

impl Socket {
    fn new(local: SocketAddr, peer: Option<SocketAddr>) -> Self {
        Self { local, peer, owner: None, waiting: VecDeque::new(), bytes: 0, error: None }
    }
}

/// Sends a datagram. It is never cut into fragments.
fn datagram(
    config: &Config,
    local: SocketAddr,
    to: SocketAddr,
    data: &[u8],
    out: &mut Outcome,
) -> io::Result<()> {
    let (from, target): (IpAddr, IpAddr) = (local.ip(), to.ip());
    let headers = if from.is_ipv4() { 28 } else { 48 };
    if headers + data.len() > usize::from(config.mtu) {
        return Err(Errno::EMSGSIZE.into());
    }
    let packet = wire::ip(from, target, proto::UDP, 64, 8 + data.len(), |bytes| {
        bytes[..2].copy_from_slice(&local.port().to_be_bytes());
        bytes[2..4].copy_from_slice(&to.port().to_be_bytes());
        bytes[4..6].copy_from_slice(&((8 + data.len()) as u16).to_be_bytes());
        bytes[8..].copy_from_slice(data);
    });
    out.send(
        target,
        packet.map(|mut packet| {
            wire::partial(&mut packet, from, target, proto::UDP);
            packet
        }),
    );
    Ok(())
}
