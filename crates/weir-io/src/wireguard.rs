//! Ports that exchange IPv4 packets with one other host inside of WireGuard's (the paper of Donenfeld, NDSS 2017; the crate `boringtun`).
//!
//! Both ends have a UDP port and an address that do not change. A packet is taken only if the other end's key has sealed it, and if it
//! is from the other end's address to this one: so an address inside proves who sent. The first packet begins a handshake, and waits for
//! its end with at most [`MAX_WAITING`] others. Without packets, nothing is sent and nothing wakes up.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use boringtun::noise::{Tunn, TunnResult};
use boringtun::x25519::{PublicKey, StaticSecret};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use socket2::{Domain, Protocol, Socket, Type};
use weir_net::{Headers, WireGuardKey};
use weir_packet::{Packet, entry};

use crate::af_packet::sys;
use crate::tunnel::socket_error;
use crate::{Lost, Port, PortError, PortStats, offload};

/// The file of this host's key, in the folder of a process's ports.
pub const KEY_FILE: &str = "wireguard.key";
/// Most packets that wait for the end of a handshake: as many as the tunnel keeps.
const MAX_WAITING: u64 = 256;
/// Longest datagram.
const BUFFER: usize = 65_536;
/// Bytes that the kernel lets wait, in each direction.
const SOCKET_BYTES: usize = 4 << 20;
/// How often the tunnel looks at its times while it is in use.
const TICK: Duration = Duration::from_millis(500);
/// A tunnel that is not used for so long has no keys of sessions any more, and no times to look at.
const FORGOTTEN: Duration = Duration::from_secs(600);
/// First byte of a message that carries a packet.
const DATA: u8 = 4;

/// Which tunnel a port is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// This end.
    pub local: SocketAddrV4,
    /// The other end.
    pub remote: SocketAddrV4,
    /// The other end's key.
    pub peer: WireGuardKey,
    /// The file with this host's private key, in base64; a relative path is one in the folder of the process's ports.
    pub key_file: PathBuf,
}

impl Options {
    /// The same with a folder for a relative path.
    #[must_use]
    pub fn in_folder(&self, folder: &Path) -> Options {
        Options { key_file: folder.join(&self.key_file), ..self.clone() }
    }
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "wireguard {} to {}", self.local, self.remote)
    }
}

/// The private key in a file, which is made if there is none; gives the public key.
///
/// # Errors
/// The file cannot be read or made, or holds no key.
pub fn identity(file: &Path) -> io::Result<WireGuardKey> {
    match private_key(file) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        other => return other.map(|key| WireGuardKey(PublicKey::from(&key).to_bytes())),
    }
    let mut bytes = [0; 32];
    fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    // Others find the whole file or none.
    let new = file.with_extension("new");
    let mut options = OpenOptions::new();
    let mut out = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    writeln!(out, "{}", WireGuardKey(bytes))?;
    out.sync_all()?;
    fs::rename(&new, file)?;
    Ok(WireGuardKey(PublicKey::from(&StaticSecret::from(bytes)).to_bytes()))
}

fn private_key(file: &Path) -> io::Result<StaticSecret> {
    let named = |kind, e: &dyn fmt::Display| io::Error::new(kind, format!("{}: {e}", file.display()));
    let text = fs::read_to_string(file).map_err(|e| named(e.kind(), &e))?;
    let key: WireGuardKey = text.trim().parse().map_err(|e| named(io::ErrorKind::InvalidData, &e))?;
    Ok(StaticSecret::from(key.0))
}

/// A tunnel to another host.
pub struct WireGuardPort {
    name: String,
    local: Ipv4Addr,
    remote: Ipv4Addr,
    tunnel: Tunn,
    socket: UdpSocket,
    timer: TimerFd,
    /// Readable when the socket or the timer is.
    epoll: Epoll,
    /// When the timer is due next, if it runs.
    due: Option<Instant>,
    used: Instant,
    /// What is received, and what the tunnel makes.
    received: Box<[u8]>,
    made: Box<[u8]>,
    /// A message that the socket did not take yet.
    unsent: Vec<u8>,
    /// Packets that wait for a handshake.
    waiting: u64,
    stats: PortStats,
}

impl fmt::Debug for WireGuardPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WireGuardPort").field("name", &self.name).finish_non_exhaustive()
    }
}

impl WireGuardPort {
    /// Opens a tunnel in the network namespace of this thread. Nothing is sent before the first packet.
    ///
    /// # Errors
    /// The address is none of this host, another program has the UDP port, the file holds no key, or the kernel refuses something else.
    pub fn open(options: &Options) -> Result<WireGuardPort, PortError> {
        let name = options.to_string();
        let fail = |action| socket_error(&name, *options.local.ip(), action);
        let socket = connect(options).map_err(fail("take the UDP port"))?;
        let key = private_key(&options.key_file).map_err(fail("read the private key"))?;
        let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, flags).map_err(io::Error::from);
        let timer = timer.map_err(fail("make a timer"))?;
        let watch = || -> io::Result<Epoll> {
            let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
            epoll.add(&socket, EpollEvent::new(EpollFlags::EPOLLIN, 0))?;
            epoll.add(&timer, EpollEvent::new(EpollFlags::EPOLLIN, 0))?;
            Ok(epoll)
        };
        let epoll = watch().map_err(fail("watch the socket"))?;
        let index = u32::from(options.remote.port()) ^ u32::from(*options.remote.ip());
        Ok(WireGuardPort {
            name,
            local: *options.local.ip(),
            remote: *options.remote.ip(),
            tunnel: Tunn::new(key, PublicKey::from(options.peer.0), None, None, index & 0xff_ffff, None),
            socket,
            timer,
            epoll,
            due: None,
            used: Instant::now(),
            received: vec![0; BUFFER].into(),
            made: vec![0; BUFFER].into(),
            unsent: Vec::new(),
            waiting: 0,
            stats: PortStats::default(),
        })
    }

    /// Notes that the tunnel is in use.
    fn note_use(&mut self, now: Instant) -> Result<(), PortError> {
        self.used = now;
        if self.due.is_none() {
            let every = Expiration::Interval(TimeSpec::from_duration(TICK));
            let set = self.timer.set(every, TimerSetTimeFlags::empty());
            set.map_err(|e| self.failed("set a timer", e.into()))?;
            self.due = Some(now + TICK);
        }
        Ok(())
    }

    /// Does what is due.
    fn tick(&mut self, now: Instant) -> Result<(), PortError> {
        let Some(mut due) = self.due.filter(|due| *due <= now) else { return Ok(()) };
        while due <= now {
            due += TICK;
        }
        self.due = Some(due);
        // It is readable until then.
        _ = nix::unistd::read(&self.timer, &mut [0; 8]);
        match self.tunnel.update_timers(&mut self.made) {
            TunnResult::WriteToNetwork(message) => {
                transmit(&self.socket, message, &mut self.unsent, &mut self.stats);
            }
            // Nobody answered: the tunnel has forgotten what waited.
            TunnResult::Err(_) => {
                self.stats.tx_errors.down += std::mem::take(&mut self.waiting);
            }
            _ => {}
        }
        if now.duration_since(self.used) > FORGOTTEN {
            self.timer.unset().map_err(|e| self.failed("unset a timer", e.into()))?;
            self.due = None;
        }
        Ok(())
    }

    /// What a datagram says.
    fn open_datagram(&mut self, len: usize) -> Option<Packet> {
        let datagram = self.received.get(..len)?;
        match self.tunnel.decapsulate(None, datagram, &mut self.made) {
            TunnResult::WriteToTunnelV4(bytes, source) => {
                let packet = (source == self.remote).then(|| to_packet(bytes, self.local)).flatten();
                self.stats.rx_malformed += u64::from(packet.is_none());
                packet
            }
            TunnResult::WriteToNetwork(message) => {
                transmit(&self.socket, message, &mut self.unsent, &mut self.stats);
                self.send_waiting();
                None
            }
            // A keepalive.
            TunnResult::Done => None,
            TunnResult::Err(_) | TunnResult::WriteToTunnelV6(..) => {
                self.stats.rx_malformed += 1;
                None
            }
        }
    }

    /// Sends what waited for a handshake that has ended.
    fn send_waiting(&mut self) {
        while let TunnResult::WriteToNetwork(message) = self.tunnel.decapsulate(None, &[], &mut self.made) {
            if message.first() == Some(&DATA) {
                self.waiting = self.waiting.saturating_sub(1);
            }
            transmit(&self.socket, message, &mut self.unsent, &mut self.stats);
        }
    }

    /// Sends a packet, or lets it wait for a handshake.
    fn seal(&mut self, packet: &Packet) {
        match self.tunnel.encapsulate(packet.bytes(), &mut self.made) {
            TunnResult::WriteToNetwork(message) => {
                let waits = message.first() != Some(&DATA);
                let sent = transmit(&self.socket, message, &mut self.unsent, &mut self.stats);
                if waits {
                    self.waits();
                } else if sent {
                    self.stats.sent(packet.len());
                }
            }
            TunnResult::Done => self.waits(),
            _ => self.stats.tx_errors.refused += 1,
        }
    }

    fn waits(&mut self) {
        if self.waiting < MAX_WAITING {
            self.waiting += 1;
        } else {
            self.stats.tx_errors.down += 1;
        }
    }

    fn failed(&self, action: &'static str, source: io::Error) -> PortError {
        PortError::Os { name: self.name.clone(), action, source }
    }
}

/// A socket for the two ends alone: other sockets of the same address and port have other ends.
fn connect(options: &Options) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_nonblocking(true)?;
    socket.set_reuse_address(true)?;
    socket.set_send_buffer_size(SOCKET_BYTES)?;
    socket.set_recv_buffer_size(SOCKET_BYTES)?;
    socket.bind(&options.local.into())?;
    socket.connect(&options.remote.into())?;
    // What is too long is said, and not sent in fragments.
    let socket = socket.into();
    sys::set_option(&socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DO)?;
    Ok(socket.into())
}

/// Sends a message, or keeps it if the socket takes none now; false if it is lost.
fn transmit(socket: &UdpSocket, message: &[u8], unsent: &mut Vec<u8>, stats: &mut PortStats) -> bool {
    // That the other end refused an earlier message is said instead of sending this one.
    let sent = match socket.send(message) {
        Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => socket.send(message),
        other => other,
    };
    let Err(error) = sent else { return true };
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM | libc::EINTR) if unsent.is_empty() => {
            unsent.extend_from_slice(message);
            return true;
        }
        Some(libc::EMSGSIZE) => stats.tx_errors.too_long += 1,
        Some(libc::ENETDOWN | libc::ENETUNREACH | libc::EHOSTUNREACH) => stats.tx_errors.down += 1,
        _ => stats.tx_errors.refused += 1,
    }
    false
}

/// A packet for this end, from the IP header on.
fn to_packet(bytes: &[u8], local: Ipv4Addr) -> Option<Packet> {
    if *bytes.get(16..20)? != local.octets() {
        return None;
    }
    let mut packet = Packet::from_bytes(bytes).ok()?;
    let transport = Headers::of_ip(packet.bytes(), 0)?.transport;
    entry::TUNNEL.mark(&mut packet, transport.map(|at| at as u32));
    Some(packet)
}

impl Port for WireGuardPort {
    fn name(&self) -> &str {
        &self.name
    }

    fn receive(&mut self, out: &mut Vec<Packet>, max: usize) -> Result<usize, PortError> {
        let now = Instant::now();
        self.tick(now)?;
        let (before, mut came) = (out.len(), false);
        for _ in 0..max {
            let len = match self.socket.recv(&mut self.received) {
                Ok(len) => len,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                // The answer of ICMP to a message that nobody took.
                Err(e)
                    if matches!(e.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::Interrupted) =>
                {
                    continue;
                }
                Err(e) if is_unreachable(&e) => continue,
                Err(e) => return Err(self.failed("receive", e)),
            };
            came = true;
            if let Some(packet) = self.open_datagram(len) {
                self.stats.received(packet.len());
                out.push(packet);
            }
        }
        if came {
            self.note_use(now)?;
        }
        Ok(out.len() - before)
    }

    fn send(&mut self, batch: &mut Vec<Packet>) -> Result<usize, PortError> {
        let lost = self.stats.lost().tx.all();
        let mut n = 0;
        while n < batch.len() {
            // What is sealed is whole.
            if offload::finish(batch, n).is_err() {
                batch.remove(n);
                self.stats.tx_errors.offload += 1;
            } else {
                n += 1;
            }
        }
        if batch.is_empty() {
            return Ok(0);
        }
        self.note_use(Instant::now())?;
        let mut taken = 0;
        self.flush()?;
        while self.unsent.is_empty()
            && let Some(packet) = batch.get(taken)
        {
            self.seal(packet);
            taken += 1;
        }
        batch.drain(..taken);
        Ok(taken.saturating_sub((self.stats.lost().tx.all() - lost) as usize))
    }

    fn flush(&mut self) -> Result<(), PortError> {
        if !self.unsent.is_empty() {
            let message = std::mem::take(&mut self.unsent);
            transmit(&self.socket, &message, &mut self.unsent, &mut self.stats);
        }
        Ok(())
    }

    fn fd(&mut self) -> Option<BorrowedFd<'_>> {
        Some(self.epoll.0.as_fd())
    }

    fn stats(&mut self) -> PortStats {
        self.stats
    }

    fn lost(&self) -> Lost {
        self.stats.lost()
    }

    fn method(&self) -> &str {
        "WireGuard on a UDP socket"
    }
}

fn is_unreachable(e: &io::Error) -> bool {
    matches!(e.raw_os_error(), Some(libc::EHOSTUNREACH | libc::ENETUNREACH | libc::ENETDOWN | libc::EMSGSIZE))
}
