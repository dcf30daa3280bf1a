//! Ports on the outer packets of tunnels: IPv4 packets of GRE, or of one UDP port, for an address of this host.
//!
//! What comes in is taken by a packet socket on all interfaces, behind a filter in the kernel, since that says which checksums and
//! which segmentation a sender on the same machine left undone; other sockets do not. It sees no packets for other hosts,
//! and none that a bridge has taken. Outer packets that come in fragments are not put together (RFC 7348 section 4.3 lets
//! them be dropped). What goes out is given to the kernel's IP as it is (`IP_HDRINCL`): it finds the route and the neighbour, and refuses
//! what is longer than the MTU of the route. A third socket holds a UDP port, so that nobody else has it and no host learns by ICMP that nobody
//! listens, or receives GRE, which others may receive as well; it gets nothing.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use socket2::{Domain, Protocol as Number, Socket, Type};
use weir_net::{Headers, proto};
use weir_packet::{Checksum, MAX_LEN, Packet, entry};

use crate::af_packet::ring::{Frame, Ring};
use crate::af_packet::sys;
use crate::hand_over::{self, Handed};
use crate::{Lost, Port, PortError, PortStats, offload, vnet};

/// GRE's IP protocol number.
const GRE: u8 = 47;
/// Packets that the receive ring holds, of 2 KB each; longer ones wait in the queue of the socket.
const RING_FRAMES: usize = 4096;
const RING_PAYLOAD: usize = 1900;
/// Bytes of large packets that may wait beside the ring.
const QUEUE_BYTES: i32 = 8 << 20;
/// Bytes that the kernel lets wait to be sent.
const SEND_BYTES: usize = 4 << 20;

/// The protocol that carries the packets of tunnels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carrier {
    /// GRE (IP protocol 47).
    Gre,
    /// A port of UDP.
    Udp(u16),
}

/// Which packets a port is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// The address of this host that they are for.
    pub local: Ipv4Addr,
    /// What they are.
    pub carrier: Carrier,
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.carrier {
            Carrier::Gre => write!(f, "gre at {}", self.local),
            Carrier::Udp(port) => write!(f, "udp at {}:{port}", self.local),
        }
    }
}

/// A port on outer packets.
#[derive(Debug)]
pub struct TunnelPort {
    name: String,
    // Dropped before the socket: the mapping goes first.
    ring: Ring,
    receiver: OwnedFd,
    sender: OwnedFd,
    holder: Socket,
    stats: PortStats,
}

impl TunnelPort {
    /// Opens a port in the network namespace of this thread. Needs `CAP_NET_RAW`.
    ///
    /// # Errors
    /// The address is none of this host, another program has the UDP port, or the kernel refuses something else.
    pub fn open(options: &Options) -> Result<TunnelPort, PortError> {
        let name = options.to_string();
        let fail = |action| socket_error(&name, options.local, action);
        let holder = hold(options).map_err(fail("take the port"))?;
        let sender = sender(options.local).map_err(fail("open a raw socket"))?;
        let receiver = sys::socket().map_err(fail("open a packet socket"))?;
        let set = |level, option, value: i32, action| {
            sys::set_option(&receiver, level, option, value).map_err(fail(action))
        };
        set(libc::SOL_PACKET, libc::PACKET_VNET_HDR, 1, "carry offloads")?;
        set(libc::SOL_PACKET, libc::PACKET_COPY_THRESH, 1, "receive large packets")?;
        // Beyond the system's limit needs CAP_NET_ADMIN; without it, the limit has to do.
        if set(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, QUEUE_BYTES, "").is_err() {
            set(libc::SOL_SOCKET, libc::SO_RCVBUF, QUEUE_BYTES, "set the receive buffer")?;
        }
        sys::attach_filter(&receiver, &filter(options)).map_err(fail("filter packets"))?;
        let ring =
            Ring::new(&receiver, RING_FRAMES, RING_PAYLOAD).map_err(fail("set up the receive ring"))?;
        // Last, so that nothing arrives before the options hold. IPv4 only, so that what a bridge or a bond passes on comes once.
        sys::bind(&receiver, 0, libc::ETH_P_IP as u16).map_err(fail("receive"))?;
        Ok(TunnelPort { name, ring, receiver, sender, holder, stats: PortStats::default() })
    }

    /// Goes on with a port of another process.
    pub(crate) fn go_on(options: &Options, fds: Vec<OwnedFd>, handed: &Handed) -> io::Result<TunnelPort> {
        let [receiver, sender, holder] =
            <[OwnedFd; 3]>::try_from(fds).map_err(|_| io::ErrorKind::InvalidData)?;
        let ring = Ring::map(&receiver, handed.ring.ok_or(io::ErrorKind::InvalidData)?)?;
        let (name, stats) = (options.to_string(), PortStats::default());
        Ok(TunnelPort { name, ring, receiver, sender, holder: holder.into(), stats })
    }

    /// Sends the first packets of a batch, at most [`sys::SEND_MAX`]; `false` if the kernel takes none now.
    fn send_some(&mut self, batch: &mut Vec<Packet>) -> Result<bool, PortError> {
        let packets = batch.iter().take(sys::SEND_MAX).map(|p| (p.bytes(), destination(p.bytes())));
        let error = match sys::send_to(&self.sender, packets) {
            Ok(n) => {
                for p in batch.drain(..n) {
                    self.stats.sent(p.len());
                }
                return Ok(n > 0);
            }
            Err(error) => error,
        };
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::ENOBUFS | libc::EINTR | libc::ENOMEM) => return Ok(false),
            Some(libc::EMSGSIZE) => self.stats.tx_errors.too_long += 1,
            // There is no route just now, for example: the next packet may have another one.
            Some(libc::ENETDOWN) => self.stats.tx_errors.down += 1,
            _ => self.stats.tx_errors.refused += 1,
        }
        batch.remove(0);
        Ok(true)
    }
}

impl Port for TunnelPort {
    fn name(&self) -> &str {
        &self.name
    }

    fn receive(&mut self, out: &mut Vec<Packet>, max: usize) -> Result<usize, PortError> {
        let mut n = 0;
        while n < max {
            let receiver = &self.receiver;
            let Some(packet) = self.ring.next(|frame| to_packet(&frame, receiver)) else { break };
            match packet {
                Some(p) => {
                    self.stats.received(p.len());
                    out.push(p);
                    n += 1;
                }
                None => self.stats.rx_malformed += 1,
            }
        }
        Ok(n)
    }

    fn send(&mut self, batch: &mut Vec<Packet>) -> Result<usize, PortError> {
        let before = self.stats.tx_packets;
        let mut n = 0;
        while n < batch.len() {
            // A raw socket takes whole packets only.
            if offload::finish(batch, n).is_err() {
                batch.remove(n);
                self.stats.tx_errors.offload += 1;
            } else {
                n += 1;
            }
        }
        while !batch.is_empty() && self.send_some(batch)? {}
        Ok((self.stats.tx_packets - before) as usize)
    }

    fn fd(&mut self) -> Option<BorrowedFd<'_>> {
        Some(self.receiver.as_fd())
    }

    fn stats(&mut self) -> PortStats {
        self.stats.rx_dropped += u64::from(sys::take_drops(&self.receiver).unwrap_or(0));
        self.stats
    }

    fn lost(&self) -> Lost {
        self.stats.lost()
    }

    fn method(&self) -> &str {
        "AF_PACKET and a raw IP socket"
    }

    fn hand_over(&mut self) -> Option<Handed> {
        let fds = [self.receiver.as_fd(), self.sender.as_fd(), self.holder.as_fd()];
        Some(Handed {
            fds: fds.map(hand_over::number).to_vec(),
            ring: Some(self.ring.place()),
            method: self.method().to_owned(),
            ..Handed::default()
        })
    }

    fn take_back(&mut self) {
        self.ring.mark_stale();
    }
}

/// What the kernel's refusal of something means for a port at an address of this host.
pub(crate) fn socket_error(
    name: &str,
    local: Ipv4Addr,
    action: &'static str,
) -> impl Fn(io::Error) -> PortError + use<> {
    let name = name.to_owned();
    move |source| match source.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            PortError::Permission { name: name.clone(), action, needs: "CAP_NET_RAW" }
        }
        Some(libc::EADDRNOTAVAIL) => PortError::NoAddress { address: local.to_string() },
        Some(libc::EADDRINUSE) => PortError::Busy { name: name.clone(), what: "the UDP port".to_owned() },
        _ => PortError::Os { name: name.clone(), action, source },
    }
}

/// Whether an interface of this host, in the network namespace of this thread, has an address.
///
/// # Errors
/// None has it.
pub fn check_address(local: Ipv4Addr) -> Result<(), PortError> {
    let bound = Socket::new(Domain::IPV4, Type::DGRAM, None)
        .and_then(|socket| socket.bind(&SocketAddrV4::new(local, 0).into()));
    bound.map_err(|_| PortError::NoAddress { address: local.to_string() })
}

/// The MTU in bytes of the route from an address of this host to another, in the network namespace of this thread, if there is a route.
pub fn route_mtu(local: Ipv4Addr, remote: Ipv4Addr) -> Option<u32> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, None).ok()?;
    socket.bind(&SocketAddrV4::new(local, 0).into()).ok()?;
    // Nothing is sent; the port is that of discard.
    socket.connect(&SocketAddrV4::new(remote, 9).into()).ok()?;
    let mtu: i32 = sys::get_option(&socket, libc::IPPROTO_IP, libc::IP_MTU).ok()?;
    u32::try_from(mtu).ok()
}

/// The packet behind the link header of a frame, from the ring or from the queue of the socket. `None` if it is not whole or its
/// offload data makes no sense.
fn to_packet(frame: &Frame<'_>, socket: &OwnedFd) -> Option<Packet> {
    let front = frame.network;
    let mut p = if frame.bytes.len() == frame.len {
        Packet::from_bytes(frame.bytes.get(front..)?).ok()?
    } else if frame.queued {
        // Received even if it is too long for a packet, since the queue must keep step with the ring.
        let room = frame.len.saturating_sub(front).min(MAX_LEN);
        let mut p = Packet::with_capacity(room).ok()?;
        p.put(room as u32).ok()?;
        let mut link = vec![0; front];
        let len = sys::receive_queued(socket, &mut link, p.bytes_mut()).ok()?;
        (len == frame.len && len == room + front).then_some(p)?
    } else {
        return None;
    };
    vnet::decode(vnet::behind(frame.vnet, front)?, &mut p).ok()?;
    if frame.checksum_valid && p.checksum() == Checksum::Unknown {
        p.csum = Checksum::Full as u8;
    }
    p.timestamp = frame.timestamp;
    let transport = Headers::of_ip(p.bytes(), 0)?.transport;
    entry::TUNNEL.mark(&mut p, transport.map(|at| at as u32));
    Some(p)
}

/// The destination of an IPv4 packet; 0.0.0.0, which the kernel refuses, if it is too short.
fn destination(packet: &[u8]) -> Ipv4Addr {
    let address = packet.get(16..20).and_then(|b| <[u8; 4]>::try_from(b).ok());
    address.map_or(Ipv4Addr::UNSPECIFIED, Ipv4Addr::from)
}

/// A socket that has the protocol or port, and takes no packets.
fn hold(options: &Options) -> io::Result<Socket> {
    let (kind, number, port) = match options.carrier {
        Carrier::Gre => (Type::RAW, Number::from(i32::from(GRE)), 0),
        Carrier::Udp(port) => (Type::DGRAM, Number::UDP, port),
    };
    let socket = Socket::new(Domain::IPV4, kind, Some(number))?;
    sys::attach_filter(&socket, &[statement(RETURN, 0)])?;
    socket.bind(&SocketAddrV4::new(options.local, port).into())?;
    Ok(socket)
}

/// A socket that takes packets with their IP headers (raw(7)).
fn sender(local: Ipv4Addr) -> io::Result<OwnedFd> {
    let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Number::from(libc::IPPROTO_RAW)))?;
    socket.set_nonblocking(true)?;
    socket.set_send_buffer_size(SEND_BYTES)?;
    socket.bind(&SocketAddrV4::new(local, 0).into())?;
    Ok(socket.into())
}

/// Classic BPF: instructions (linux/bpf_common.h).
const LOAD_WORD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const LOAD_HALF: u16 = (libc::BPF_LD | libc::BPF_H | libc::BPF_ABS) as u16;
const LOAD_BYTE: u16 = (libc::BPF_LD | libc::BPF_B | libc::BPF_ABS) as u16;
const LOAD_HALF_BEHIND_X: u16 = (libc::BPF_LD | libc::BPF_H | libc::BPF_IND) as u16;
const X_IS_HEADER_LENGTH: u16 = (libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH) as u16;
const JUMP_IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const JUMP_IF_SET: u16 = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
/// Places counted from the network header, and the type of the packet (linux/filter.h).
const NETWORK: u32 = -0x10_0000_i32 as u32;
const PACKET_TYPE: u32 = (-0x1000_i32 + 4) as u32;

/// An instruction that is no jump.
fn statement(code: u16, k: u32) -> libc::sock_filter {
    libc::sock_filter { code, jt: 0, jf: 0, k }
}

/// The filter of the packets of a port: for this host, with its address and protocol, and of UDP with its port. Fragments have no port
/// but the first, and are left out.
fn filter(options: &Options) -> Vec<libc::sock_filter> {
    // What has to hold: how it is loaded, and what it is.
    let mut wanted = vec![
        (statement(LOAD_WORD, PACKET_TYPE), u32::from(libc::PACKET_HOST)),
        (statement(LOAD_WORD, NETWORK + 16), options.local.to_bits()),
    ];
    let protocol = statement(LOAD_BYTE, NETWORK + 9);
    match options.carrier {
        Carrier::Gre => wanted.push((protocol, u32::from(GRE))),
        Carrier::Udp(_) => wanted.push((protocol, u32::from(proto::UDP))),
    }
    let mut program = Vec::new();
    // How many instructions are left behind a jump is known at the end; each of these has a jump of its own.
    for (load, value) in wanted {
        program.extend([load, libc::sock_filter { code: JUMP_IF_EQUAL, jt: 1, jf: 0, k: value }]);
        program.push(statement(RETURN, 0));
    }
    if let Carrier::Udp(port) = options.carrier {
        program.extend([
            statement(LOAD_HALF, NETWORK + 6),
            libc::sock_filter { code: JUMP_IF_SET, jt: 0, jf: 1, k: 0x1fff },
            statement(RETURN, 0),
            statement(X_IS_HEADER_LENGTH, NETWORK),
            statement(LOAD_HALF_BEHIND_X, NETWORK + 2),
            libc::sock_filter { code: JUMP_IF_EQUAL, jt: 1, jf: 0, k: u32::from(port) },
            statement(RETURN, 0),
        ]);
    }
    program.push(statement(RETURN, u32::MAX));
    program
}
