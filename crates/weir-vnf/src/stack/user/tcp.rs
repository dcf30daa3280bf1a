//! TCP: connections by their addresses and ports, servers, and what becomes of segments of neither.

mod replies;
mod watch;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};

use nix::errno::Errno;
use slab::Slab;
use smoltcp::socket::tcp::{RecvError, State};
use smoltcp::wire::{TcpControl, TcpPacket, TcpRepr, TcpTimestampRepr};
use weir_net::Tcp as View;
use weir_packet::Packet;

use super::handshake::{HalfOpen, Step, Syn, TimeWait};
use super::machines::{Machine, Machines};
use super::wheel::{Micros, Wheel};
use super::wire::Datagram;
use super::{Config, Key, Outcome, Port, Tuple, wire};
use crate::ServerId;
use replies::{acknowledgement, is_behind, number, plain, reset, sequence};

/// Connections of a server that the function was not called for yet.
const BACKLOG: usize = 4096;

/// Ports that connections begin from.
const PORTS: std::ops::Range<u16> = 32_768..61_000;

#[derive(Debug)]
pub(super) struct Tcp {
    machines: Machines,
    connections: Slab<Connection>,
    /// Connections that get segments.
    known: HashMap<Tuple, usize>,
    servers: Vec<Server>,
    half_open: HalfOpen,
    ended: TimeWait,
    timers: Wheel<usize>,
    /// Connections that may have something to send.
    stirred: Vec<usize>,
    next_port: u16,
}

#[derive(Debug)]
struct Server {
    id: ServerId,
    address: SocketAddr,
    accepted: VecDeque<usize>,
}

#[derive(Debug)]
struct Connection {
    machine: Machine,
    tuple: Tuple,
    /// Our sequence numbers on the wire are smoltcp's and this.
    shift: u32,
    /// The first one on the wire, as long as smoltcp's is not known.
    first: Option<u32>,
    state: State,
    error: Option<Errno>,
    /// The name of it that [`Ready`] has; `None` if the function does not know it, or does not any more.
    owner: Option<usize>,
    closed: bool,
    is_stirred: bool,
    /// A write was cut short.
    wants_to_write: bool,
    /// Bytes that can be read, and whether the end can, as it was said last.
    said: (usize, bool),
    /// When a timer fires.
    timer: Option<Micros>,
    /// Since when something is unanswered, or the peer's end is awaited, and what of it then was.
    since: Option<(Micros, usize)>,
    /// The next sequence numbers of both directions, as they were last sent.
    last: (u32, u32),
    /// The window that was last sent, as it was written.
    window: u16,
    /// When a SYN may be answered again.
    challenge: Micros,
}

impl Tcp {
    pub(super) fn new(config: &Config, now: Micros) -> Self {
        let half_open = HalfOpen::new(now);
        Self {
            machines: Machines::new(config, half_open.random(0)),
            connections: Slab::new(),
            known: HashMap::new(),
            servers: Vec::new(),
            next_port: PORTS.start + (half_open.random(1) % u64::from(PORTS.end - PORTS.start)) as u16,
            half_open,
            ended: TimeWait::new(),
            timers: Wheel::new(now),
            stirred: Vec::new(),
        }
    }

    pub(super) fn listen(&mut self, id: ServerId, address: SocketAddr) -> io::Result<SocketAddr> {
        let taken = |servers: &[Server], port| {
            servers.iter().any(|s| {
                let (a, b) = (s.address.ip(), address.ip());
                s.address.port() == port && (a == b || a.is_unspecified() || b.is_unspecified())
            })
        };
        let port = match address.port() {
            0 => PORTS.rev().find(|&p| !taken(&self.servers, p)),
            port => Some(port).filter(|&p| !taken(&self.servers, p)),
        };
        let address = SocketAddr::new(address.ip(), port.ok_or(Errno::EADDRINUSE)?);
        self.servers.push(Server { id, address, accepted: VecDeque::new() });
        Ok(address)
    }

    fn server(&self, local: SocketAddr) -> Option<usize> {
        let fits = |s: &Server| {
            let any = s.address.ip().is_unspecified() && s.address.is_ipv4() == local.is_ipv4();
            s.address.port() == local.port() && (any || s.address.ip() == local.ip())
        };
        self.servers.iter().position(fits)
    }

    /// Reads a segment for one of our addresses, whose checksum is right.
    pub(super) fn input(
        &mut self,
        config: &Config,
        mut packet: Packet,
        d: &Datagram,
        now: Micros,
        out: &mut Outcome,
    ) {
        let bytes = &mut packet.bytes_mut()[d.transport..d.end];
        let Ok(mut view) = View::new(bytes) else { return out.counters.malformed += 1 };
        let tuple = Tuple {
            local: SocketAddr::new(d.target, view.dst_port()),
            remote: SocketAddr::new(d.source, view.src_port()),
        };
        if let Some(&index) = self.known.get(&tuple) {
            let connection = &mut self.connections[index];
            let flags = view.flags() & (View::ACK | View::SYN | View::RST);
            if flags == View::SYN && connection.state != State::SynSent {
                return connection.challenge(now, out);
            }
            if flags & View::ACK != 0 {
                view.set_ack(view.ack().wrapping_sub(connection.shift));
            }
            self.machines.input(&mut connection.machine, packet, wire::ETHERNET, now);
            self.finish(index, out);
            self.review(index, now, true, out);
            return self.stir(index);
        }
        let Ok(segment) = TcpPacket::new_checked(&packet.bytes()[d.transport..d.end]) else {
            return out.counters.malformed += 1;
        };
        let ignored = smoltcp::phy::ChecksumCapabilities::ignored();
        let (source, target) = (d.source.into(), d.target.into());
        let Ok(segment) = TcpRepr::parse(&segment, &source, &target, &ignored) else {
            return out.counters.malformed += 1;
        };
        if self.late(tuple, &segment, out) {
            return;
        }
        let Some(server) = self.server(tuple.local) else {
            return reset(tuple, &segment, out);
        };
        if segment.control == TcpControl::Syn && segment.ack_number.is_none() {
            let syn = Syn::of(&segment);
            let answer = self.half_open.syn(tuple, syn, now);
            return self.answer(config, tuple, syn, answer, now, out);
        }
        match self.half_open.segment(tuple, &segment, now) {
            Step::Made(syn, answer) if self.servers[server].accepted.len() < BACKLOG => {
                if self.accepted(config, server, tuple, syn, answer, now) {
                    self.input(config, packet, d, now, out);
                }
            }
            Step::Reset => reset(tuple, &segment, out),
            Step::Made(..) | Step::Ignore => {}
        }
    }

    /// Whether a segment belongs to a connection that is over.
    fn late(&mut self, tuple: Tuple, segment: &TcpRepr<'_>, out: &mut Outcome) -> bool {
        let Some(ended) = self.ended.get(&tuple) else { return false };
        let is_syn = segment.control == TcpControl::Syn && segment.ack_number.is_none();
        if is_syn && is_behind(segment.seq_number.0 as u32, ended.theirs) {
            self.ended.remove(&tuple);
            return false;
        }
        if segment.control != TcpControl::Rst && (segment.segment_len() > 0 || is_syn) {
            let reply = acknowledgement(tuple, (ended.ours, ended.theirs));
            out.send(tuple.remote.ip(), wire::segment(tuple.local.ip(), tuple.remote.ip(), &reply));
        }
        true
    }

    /// Answers a SYN.
    fn answer(
        &mut self,
        config: &Config,
        tuple: Tuple,
        syn: Syn,
        answer: u32,
        now: Micros,
        out: &mut Outcome,
    ) {
        let headers = if tuple.local.is_ipv4() { 40 } else { 60 };
        let reply = TcpRepr {
            seq_number: number(answer),
            ack_number: Some(number(syn.first.wrapping_add(1))),
            // That of a SYN is not scaled.
            window_len: self.window(config, None),
            window_scale: syn.scale.map(|_| self.machines.scale()),
            max_seg_size: Some(config.mtu - headers),
            sack_permitted: syn.selective,
            timestamp: syn.stamp.map(|theirs| TcpTimestampRepr::new((now / 1000) as u32, theirs)),
            ..plain(tuple, TcpControl::Syn)
        };
        out.send(tuple.remote.ip(), wire::segment(tuple.local.ip(), tuple.remote.ip(), &reply));
    }

    /// All of our window, as it is written to a peer with this scale.
    fn window(&self, config: &Config, scale: Option<u8>) -> u16 {
        (config.buffer >> scale.map_or(0, |_| self.machines.scale())).min(65_535) as u16
    }

    /// A handshake is over but for its last segment: makes the connection from what is known of it.
    fn accepted(
        &mut self,
        config: &Config,
        server: usize,
        tuple: Tuple,
        syn: Syn,
        answer: u32,
        now: Micros,
    ) -> bool {
        let mut machine = self.machines.machine();
        if machine.socket().listen(tuple.local).is_err() {
            return false;
        }
        let theirs = TcpRepr {
            src_port: tuple.remote.port(),
            dst_port: tuple.local.port(),
            seq_number: number(syn.first),
            window_len: u16::MAX,
            max_seg_size: Some(syn.segment),
            window_scale: syn.scale,
            sack_permitted: syn.selective,
            timestamp: syn.stamp.map(|theirs| TcpTimestampRepr::new(theirs, 0)),
            ..plain(tuple, TcpControl::Syn)
        };
        let Some(packet) = wire::segment(tuple.remote.ip(), tuple.local.ip(), &theirs) else { return false };
        self.machines.input(&mut machine, packet, wire::ETHERNET, now);
        self.machines.output(&mut machine, now);
        // It was sent already, with another sequence number.
        let sent = self.machines.sent();
        let Some(seq) = sent.last().and_then(|(packet, _)| sequence(packet)) else { return false };
        let index = self.insert(Connection {
            shift: answer.wrapping_sub(seq),
            last: (answer.wrapping_add(1), syn.first.wrapping_add(1)),
            window: self.window(config, syn.scale),
            state: machine.socket().state(),
            ..Connection::new(machine, tuple)
        });
        self.servers[server].accepted.push_back(index);
        true
    }

    fn insert(&mut self, connection: Connection) -> usize {
        let tuple = connection.tuple;
        let index = self.connections.insert(connection);
        self.known.insert(tuple, index);
        index
    }

    pub(super) fn connect(&mut self, config: &Config, to: SocketAddr, now: Micros) -> io::Result<Key> {
        let local = config.source(to.ip()).filter(|_| wire::is_host(to.ip())).ok_or(Errno::ENETUNREACH)?;
        let (tuple, behind) = self.free_port(config, local, to, now).ok_or(Errno::EADDRNOTAVAIL)?;
        let mut machine = self.machines.machine();
        self.machines.connect(&mut machine, to, tuple.local).map_err(|_| Errno::EADDRNOTAVAIL)?;
        let mut first = self.half_open.first_number(tuple, now);
        if let Some(behind) = behind {
            self.ended.remove(&tuple);
            if !is_behind(first, behind) {
                first = behind.wrapping_add(1 << 16);
            }
        }
        let index = self.insert(Connection {
            first: Some(first),
            state: State::SynSent,
            ..Connection::new(machine, tuple)
        });
        self.stir(index);
        Ok(Key(index))
    }

    fn free_port(
        &mut self,
        config: &Config,
        local: IpAddr,
        to: SocketAddr,
        now: Micros,
    ) -> Option<(Tuple, Option<u32>)> {
        self.ended.poll(now);
        for _ in PORTS {
            let port = self.next_port;
            self.next_port = if port + 1 < PORTS.end { port + 1 } else { PORTS.start };
            let tuple = Tuple { local: SocketAddr::new(local, port), remote: to };
            if self.known.contains_key(&tuple)
                || !config.share.has(&tuple)
                || self.server(tuple.local).is_some()
            {
                continue;
            }
            match self.ended.may_open(&tuple, now) {
                Port::Free => return Some((tuple, None)),
                Port::Behind(number) => return Some((tuple, Some(number))),
                Port::Taken => {}
            }
        }
        None
    }

    /// A connection that a server accepted, as long as there are such.
    pub(super) fn accept(&mut self, server: ServerId) -> Option<(Key, SocketAddr)> {
        let server = self.servers.iter_mut().find(|s| s.id == server)?;
        let index = server.accepted.pop_front()?;
        Some((Key(index), self.connections[index].tuple.remote))
    }

    /// The function knows a connection by this name from now on: it is told what happened before.
    pub(super) fn own(&mut self, Key(index): Key, owner: usize, now: Micros, out: &mut Outcome) {
        self.connections[index].owner = Some(owner);
        self.review(index, now, true, out);
    }

    pub(super) fn is_connected(&self, Key(index): Key) -> bool {
        self.connections.get(index).is_some_and(|c| !is_beginning(c.state))
    }

    pub(super) fn error(&self, Key(index): Key) -> Option<io::Error> {
        self.connections.get(index)?.error.map(io::Error::from)
    }

    /// Reads; 0 is the end.
    pub(super) fn read(&mut self, Key(index): Key, memory: &mut [u8]) -> io::Result<usize> {
        let connection = self.connections.get_mut(index).ok_or(Errno::ENOTCONN)?;
        match connection.machine.socket().recv_slice(memory) {
            Ok(0) => connection.error.map_or(Err(io::ErrorKind::WouldBlock.into()), |e| Err(e.into())),
            Ok(n) => {
                connection.said.0 = connection.said.0.saturating_sub(n);
                // The window is larger now.
                self.stir(index);
                Ok(n)
            }
            Err(RecvError::Finished) if connection.error.is_none() => Ok(0),
            Err(_) => connection.error.map_or(Err(io::ErrorKind::WouldBlock.into()), |e| Err(e.into())),
        }
    }

    /// Takes data to send, as much as there is space for.
    pub(super) fn write(&mut self, Key(index): Key, data: &[u8]) -> io::Result<usize> {
        let connection = self.connections.get_mut(index).ok_or(Errno::ENOTCONN)?;
        if let Some(error) = connection.error {
            return Err(error.into());
        }
        if is_beginning(connection.state) {
            connection.wants_to_write = true;
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let n = connection.machine.socket().send_slice(data).map_err(|_| Errno::EPIPE)?;
        connection.wants_to_write = n < data.len();
        if n == 0 && !data.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.stir(index);
        Ok(n)
    }

    /// Closes a connection, which nobody knows any more. What was written is sent, unless data came that was not read: then the peer
    /// hears that it is lost.
    pub(super) fn close(&mut self, Key(index): Key) {
        let Some(connection) = self.connections.get_mut(index) else { return };
        (connection.owner, connection.closed) = (None, true);
        connection.since = None;
        let socket = connection.machine.socket();
        if socket.recv_queue() > 0 {
            socket.abort();
        } else {
            socket.close();
        }
        self.stir(index);
    }

    /// The network says that a packet did not reach its target. Only who is not connected yet takes its word (RFC 5461).
    pub(super) fn unreachable(&mut self, tuple: &Tuple, error: Errno, now: Micros, out: &mut Outcome) {
        if let Some(&index) = self.known.get(tuple)
            && self.connections[index].state == State::SynSent
        {
            self.fail(index, error);
            self.review(index, now, false, out);
        }
    }

    /// Ends a connection without a word to its peer.
    fn fail(&mut self, index: usize, error: Errno) {
        let connection = &mut self.connections[index];
        connection.error = Some(error);
        connection.machine.socket().abort();
        self.known.remove(&self.connections[index].tuple);
    }

    fn stir(&mut self, index: usize) {
        if let Some(connection) = self.connections.get_mut(index)
            && !std::mem::replace(&mut connection.is_stirred, true)
        {
            self.stirred.push(index);
        }
    }

    pub(super) fn next(&self) -> Option<Micros> {
        if !self.stirred.is_empty() {
            return Some(0);
        }
        [self.timers.next(), self.half_open.next()].into_iter().flatten().min()
    }

    /// Sends what there is to send, and does what is due.
    pub(super) fn poll(&mut self, config: &Config, now: Micros, out: &mut Outcome) {
        for (tuple, syn, answer) in self.half_open.poll(now) {
            self.answer(config, tuple, syn, answer, now, out);
        }
        let mut fired = Vec::new();
        self.timers.advance(now, |index| fired.push(index));
        for index in fired {
            if let Some(connection) = self.connections.get_mut(index) {
                connection.timer = connection.timer.filter(|&at| at > now);
                self.stir(index);
            }
        }
        for index in std::mem::take(&mut self.stirred) {
            let Some(connection) = self.connections.get_mut(index) else { continue };
            connection.is_stirred = false;
            if self.known.get(&connection.tuple) != Some(&index) {
                self.review(index, now, false, out);
                continue;
            }
            let more = self.machines.output(&mut connection.machine, now);
            self.finish(index, out);
            self.review(index, now, false, out);
            if more {
                self.stir(index);
            }
        }
    }

    /// Whether no connection is to be looked at by itself, now or later.
    #[cfg(test)]
    pub(super) fn is_quiet(&self) -> bool {
        self.stirred.is_empty() && self.timers.next().is_none()
    }

    /// How many connections are to be looked at now.
    #[cfg(test)]
    pub(super) fn stirred(&self) -> usize {
        self.stirred.len()
    }

    /// Connections, half-open ones that are kept, and those that are over and remembered.
    #[cfg(test)]
    pub(super) fn sizes(&self) -> (usize, usize, usize) {
        (self.connections.len(), self.half_open.kept(), self.ended.len())
    }
}

impl Connection {
    fn new(machine: Machine, tuple: Tuple) -> Self {
        Self {
            machine,
            tuple,
            shift: 0,
            first: None,
            state: State::Closed,
            error: None,
            owner: None,
            closed: false,
            is_stirred: false,
            wants_to_write: false,
            said: (0, false),
            timer: None,
            since: None,
            last: (0, 0),
            window: 0,
            challenge: 0,
        }
    }

    /// A SYN came, of a peer that began anew, or of somebody who wants to reset the connection: the peer is told what is known, and will
    /// say that it is not so any more (RFC 5961 4.2). At most once a second.
    fn challenge(&mut self, now: Micros, out: &mut Outcome) {
        if now >= self.challenge {
            self.challenge = now + 1_000_000;
            let Tuple { local, remote } = self.tuple;
            let reply = TcpRepr { window_len: self.window, ..acknowledgement(self.tuple, self.last) };
            out.send(remote.ip(), wire::segment(local.ip(), remote.ip(), &reply));
        }
    }
}

fn is_beginning(state: State) -> bool {
    matches!(state, State::SynSent | State::SynReceived)
}
