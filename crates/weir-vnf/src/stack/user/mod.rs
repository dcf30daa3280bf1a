//! TCP, UDP, ARP, neighbour discovery and echoes over Ethernet frames. Pure: frames come in and go out, and time is passed in.
//!
//! ```text
//! frame ─► Stack::input ─► wire: headers ─► neighbours (ARP, NDP)
//!                                      ├──► icmp
//!                                      ├──► udp
//!                                      └──► tcp: the connection by its addresses and ports ─► machines: smoltcp, of this one alone
//!                                            ├─ handshake: what has no connection yet, or none any more
//!                                            └─ wheel: when which connection is to be looked at again
//! Stack::poll ─► what there is to send ─► neighbours: where to ─► frames
//! ```

mod handshake;
mod icmp;
mod machines;
mod neighbours;
mod tcp;
mod udp;
mod wheel;
mod wire;

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use nix::errno::Errno;
use weir_net::{EtherAddr, FlowKey, ethertype, proto};
use weir_packet::Packet;

pub(crate) use wheel::Micros;

use crate::{Protocol, ServerId};

/// How the stack is set up.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    /// Its Ethernet address.
    pub(crate) ether: EtherAddr,
    /// Its addresses, with the lengths of their links' prefixes.
    pub(crate) addresses: Vec<(IpAddr, u8)>,
    pub(crate) gateways: Vec<IpAddr>,
    /// Bytes of an IP packet.
    pub(crate) mtu: u16,
    /// Whether segments may be longer than that, for the device to cut.
    pub(crate) cuts: bool,
    /// Bytes that each connection may have under way, in each direction.
    pub(crate) buffer: usize,
    pub(crate) share: Share,
}

/// Which connections are this core's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) member: usize,
    pub(crate) of: usize,
}

impl Share {
    fn has(self, tuple: &Tuple) -> bool {
        self.of == 1 || {
            let protocol = proto::TCP;
            let (src, dst) = (tuple.remote, tuple.local);
            let key = FlowKey {
                src: src.ip(),
                dst: dst.ip(),
                protocol,
                src_port: src.port(),
                dst_port: dst.port(),
            };
            self.member == self.of_key(&key)
        }
    }

    fn of_key(self, key: &FlowKey) -> usize {
        // Of TCP and UDP alike, which no two connections need to be spread by.
        let key = FlowKey { protocol: proto::TCP, ..*key };
        key.symmetric_hash(0) as usize % self.of
    }
}

/// The core that a frame is for; `None`: all, which each look at it.
pub(crate) fn member_of(frame: &[u8], cores: usize) -> Option<usize> {
    let key = FlowKey::of_frame(frame)?;
    matches!(key.protocol, proto::TCP | proto::UDP).then(|| Share { member: 0, of: cores }.of_key(&key))
}

impl Config {
    fn is_own(&self, address: IpAddr) -> bool {
        self.addresses.iter().any(|(own, _)| *own == address)
    }

    /// Whether an address is on one of our links.
    fn is_near(&self, address: IpAddr) -> bool {
        self.addresses.iter().any(|(own, len)| is_in(address, *own, *len))
    }

    /// The address that we have towards another.
    fn source(&self, target: IpAddr) -> Option<IpAddr> {
        let near = self.addresses.iter().find(|(own, len)| is_in(target, *own, *len));
        let gateway = self.gateways.iter().find(|g| g.is_ipv4() == target.is_ipv4());
        let by = || gateway.and_then(|g| self.addresses.iter().find(|(own, len)| is_in(*g, *own, *len)));
        near.or_else(by).map(|(own, _)| *own)
    }

    /// The neighbour that packets to an address go to.
    fn hop(&self, target: IpAddr) -> Option<IpAddr> {
        if self.is_near(target) {
            return Some(target);
        }
        self.gateways.iter().find(|g| g.is_ipv4() == target.is_ipv4()).copied()
    }
}

fn is_in(address: IpAddr, of: IpAddr, len: u8) -> bool {
    let shift = |bits: u32| bits - u32::from(len).min(bits);
    match (address, of) {
        (IpAddr::V4(a), IpAddr::V4(b)) => {
            let (a, b) = (u64::from(u32::from(a)), u64::from(u32::from(b)));
            a >> shift(32) == b >> shift(32)
        }
        (IpAddr::V6(a), IpAddr::V6(b)) => {
            len == 0 || u128::from(a) >> shift(128) == u128::from(b) >> shift(128)
        }
        _ => false,
    }
}

/// The address that an interface of IPv6 has by itself (RFC 4291 2.5.6).
pub(crate) fn link_local(ether: EtherAddr) -> Ipv6Addr {
    let [a, b, c, d, e, f] = ether.octets().map(u16::from);
    Ipv6Addr::new(0xfe80, 0, 0, 0, (a ^ 2) << 8 | b, c << 8 | 0xff, 0xfe00 | d, e << 8 | f)
}

/// Whether an address may be that of a stack.
pub(crate) fn may_be_own(address: IpAddr) -> bool {
    wire::is_host(address)
}

/// A connection's addresses and ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Tuple {
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
}

/// Whether a port may be used for a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Port {
    Free,
    /// With sequence numbers behind this one.
    Behind(u32),
    Taken,
}

/// Names a connection of the stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key(usize);

/// Something for the function to look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ready {
    /// A connection came, or a datagram.
    Server(ServerId),
    Connection {
        /// By this name ([`Stack::own`]).
        owner: usize,
        /// There is data, an end or an error.
        readable: bool,
        /// The connection is made, takes more data, or failed.
        writable: bool,
    },
}

/// Frames that were not for anybody, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StackCounters {
    /// Frames that came.
    pub received: u64,
    /// Frames that were sent.
    pub sent: u64,
    /// To another Ethernet or IP address, or of a protocol that there is nothing for.
    pub other: u64,
    /// Cut, or with fields that make no sense.
    pub malformed: u64,
    /// With a checksum that is not right.
    pub checksum: u64,
    /// A part of a datagram: these are not put together.
    pub fragments: u64,
    /// To a port where nobody listens, or of a connection that there is not: its sender hears of it.
    pub no_port: u64,
    /// Datagrams for which there was no space.
    pub full: u64,
    /// To be sent to somebody who does not say where it is, or to whom there is no way.
    pub unreachable: u64,
}

/// What the parts of the stack want to have done.
#[derive(Debug, Default)]
struct Outcome {
    /// IP packets with space for their Ethernet header, and whom they are for.
    packets: Vec<(Packet, IpAddr)>,
    ready: VecDeque<Ready>,
    counters: StackCounters,
}

impl Outcome {
    fn send(&mut self, target: IpAddr, packet: Option<Packet>) {
        self.packets.extend(packet.map(|p| (p, target)));
    }
}

/// The stack of one core.
#[derive(Debug)]
pub(crate) struct Stack {
    config: Config,
    tcp: tcp::Tcp,
    udp: udp::Udp,
    neighbours: neighbours::Neighbours,
    outcome: Outcome,
    frames: Vec<Packet>,
}

impl Stack {
    pub(crate) fn new(config: Config, now: Micros) -> Self {
        Self {
            tcp: tcp::Tcp::new(&config, now),
            udp: udp::Udp::new(now),
            neighbours: neighbours::Neighbours::new(),
            outcome: Outcome::default(),
            frames: Vec::new(),
            config,
        }
    }

    /// Reads a frame. What is to be done then comes by [`Stack::ready`] and [`Stack::poll`].
    pub(crate) fn input(&mut self, packet: Packet, now: Micros) {
        let out = &mut self.outcome;
        out.counters.received += 1;
        let frame = packet.bytes();
        let (Some(to), Some(kind)) = (frame.get(..6), frame.get(12..wire::ETHERNET)) else {
            return out.counters.malformed += 1;
        };
        if to != self.config.ether.octets() && to[0] & 1 == 0 {
            return out.counters.other += 1;
        }
        match u16::from_be_bytes([kind[0], kind[1]]) {
            ethertype::ARP => {
                if self.neighbours.arp(&self.config, frame, now, &mut self.frames).is_none() {
                    out.counters.malformed += 1;
                }
            }
            ethertype::IPV4 | ethertype::IPV6 => match wire::datagram(frame) {
                Ok(d) => self.datagram(packet, d, now),
                Err(wire::Bad::Malformed) => out.counters.malformed += 1,
                Err(wire::Bad::Fragment) => out.counters.fragments += 1,
            },
            _ => out.counters.other += 1,
        }
    }

    fn datagram(&mut self, packet: Packet, d: wire::Datagram, now: Micros) {
        let out = &mut self.outcome;
        let discovers = d.protocol == proto::ICMPV6
            && packet.bytes().get(21) == Some(&255)
            && matches!(
                packet.bytes().get(d.transport),
                Some(&(neighbours::SOLICITATION | neighbours::ADVERTISEMENT))
            );
        let ours = self.config.is_own(d.target) && wire::is_host(d.source);
        if !discovers && !ours {
            return out.counters.other += 1;
        }
        if !wire::is_intact(&packet, &d) {
            return out.counters.checksum += 1;
        }
        let message = &packet.bytes()[d.transport..d.end];
        match (d.protocol, message.first()) {
            (proto::TCP, _) => self.tcp.input(&self.config, packet, &d, now, out),
            (proto::UDP, _) => {
                if let Some(packet) = self.udp.input(packet, d, out) {
                    out.counters.no_port += 1;
                    icmp::no_port(&self.config, &packet, &d, out);
                }
            }
            (proto::ICMPV6, _) if discovers => {
                let IpAddr::V6(source) = d.source else { return };
                if self.neighbours.discovery(&self.config, source, message, now, &mut self.frames).is_none() {
                    out.counters.malformed += 1;
                }
            }
            (proto::ICMP, Some(8)) | (proto::ICMPV6, Some(128)) if message.len() >= 8 => {
                if self.config.share.member == 0 {
                    icmp::echo(&packet, &d, out);
                }
            }
            (proto::ICMP | proto::ICMPV6, _) => {
                if let Some(unreachable) = icmp::unreachable(message, d.protocol) {
                    self.unreachable(&unreachable, now);
                }
            }
            _ => out.counters.other += 1,
        }
    }

    fn unreachable(&mut self, icmp::Unreachable { protocol, tuple, error }: &icmp::Unreachable, now: Micros) {
        match *protocol {
            proto::TCP => self.tcp.unreachable(tuple, *error, now, &mut self.outcome),
            proto::UDP => self.udp.unreachable(tuple, *error, &mut self.outcome),
            _ => {}
        }
    }

    /// Does what is due, and has the connections send what they have. The frames are to be sent now.
    pub(crate) fn poll(&mut self, now: Micros) -> &mut Vec<Packet> {
        self.tcp.poll(&self.config, now, &mut self.outcome);
        for (packet, target) in self.outcome.packets.drain(..) {
            if !self.neighbours.send(&self.config, packet, target, now, &mut self.frames) {
                self.outcome.counters.unreachable += 1;
            }
        }
        for packet in self.neighbours.poll(&self.config, now, &mut self.frames) {
            self.outcome.counters.unreachable += 1;
            if let Some(lost) = icmp::lost(&packet.bytes()[wire::ETHERNET..], Errno::EHOSTUNREACH) {
                self.unreachable(&lost, now);
            }
        }
        self.outcome.counters.sent += self.frames.len() as u64;
        &mut self.frames
    }

    /// Takes back the memory of frames that were sent.
    pub(crate) fn reuse(&mut self, mut frames: Vec<Packet>) {
        frames.clear();
        if self.frames.is_empty() {
            self.frames = frames;
        }
    }

    /// When [`Stack::poll`] is to be called at the latest, if nothing comes before.
    pub(crate) fn next(&self) -> Option<Micros> {
        if !self.outcome.packets.is_empty() || !self.outcome.ready.is_empty() || !self.frames.is_empty() {
            return Some(0);
        }
        [self.tcp.next(), self.neighbours.next()].into_iter().flatten().min()
    }

    /// What the function is to look at.
    pub(crate) fn ready(&mut self) -> Option<Ready> {
        self.outcome.ready.pop_front()
    }

    pub(crate) fn counters(&self) -> StackCounters {
        self.outcome.counters
    }

    /// Has a server listen. Returns its address, with a port if it asked for any.
    pub(crate) fn listen(
        &mut self,
        id: ServerId,
        address: SocketAddr,
        protocol: Protocol,
    ) -> io::Result<SocketAddr> {
        if !address.ip().is_unspecified() && !self.config.is_own(address.ip()) {
            return Err(Errno::EADDRNOTAVAIL.into());
        }
        match protocol {
            Protocol::Tcp => self.tcp.listen(id, address),
            Protocol::Udp => self.udp.listen(id, address),
        }
    }

    /// Begins a connection.
    pub(crate) fn connect(&mut self, to: SocketAddr, protocol: Protocol, now: Micros) -> io::Result<Key> {
        // Without what IPv6 addresses of the kernel have beside: that is in no packet.
        let to = SocketAddr::new(to.ip(), to.port());
        match protocol {
            Protocol::Tcp => self.tcp.connect(&self.config, to, now),
            Protocol::Udp => self.udp.connect(&self.config, to),
        }
    }

    /// A connection that a server accepted.
    pub(crate) fn accept(&mut self, server: ServerId) -> Option<(Key, SocketAddr)> {
        self.tcp.accept(server)
    }

    /// Has events of a connection come by a name.
    pub(crate) fn own(&mut self, key: Key, protocol: Protocol, owner: usize, now: Micros) {
        match protocol {
            Protocol::Tcp => self.tcp.own(key, owner, now, &mut self.outcome),
            Protocol::Udp => self.udp.own(key, owner),
        }
    }

    /// Why a connection of TCP failed.
    pub(crate) fn error(&self, key: Key) -> Option<io::Error> {
        self.tcp.error(key)
    }

    /// Whether a connection of TCP is made.
    pub(crate) fn is_connected(&self, key: Key) -> bool {
        self.tcp.is_connected(key)
    }

    pub(crate) fn read(&mut self, key: Key, protocol: Protocol, memory: &mut [u8]) -> io::Result<usize> {
        match protocol {
            Protocol::Tcp => self.tcp.read(key, memory),
            Protocol::Udp => self.udp.receive(key, memory),
        }
    }

    /// Takes data of a stream, as much as there is space for.
    pub(crate) fn write(&mut self, key: Key, data: &[u8]) -> io::Result<usize> {
        self.tcp.write(key, data)
    }

    /// Sends a datagram by a connection.
    pub(crate) fn send(&mut self, key: Key, data: &[u8]) -> io::Result<()> {
        self.udp.send(&self.config, key, data, &mut self.outcome)
    }

    /// Sends a datagram to a peer of a server.
    pub(crate) fn send_from(&mut self, server: ServerId, to: SocketAddr, data: &[u8]) -> io::Result<()> {
        self.udp.send_from(&self.config, server, to, data, &mut self.outcome)
    }

    /// A datagram that came to a server.
    pub(crate) fn receive_from(
        &mut self,
        server: ServerId,
        memory: &mut [u8],
    ) -> io::Result<(usize, SocketAddr)> {
        self.udp.receive_from(server, memory)
    }

    /// Ends a connection, which nobody knows any more.
    pub(crate) fn close(&mut self, key: Key, protocol: Protocol) {
        match protocol {
            Protocol::Tcp => self.tcp.close(key),
            Protocol::Udp => self.udp.close(key),
        }
    }
}

#[cfg(test)]
mod tests;
