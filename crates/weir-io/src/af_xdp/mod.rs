//! Ports on network interfaces, by AF_XDP sockets (Documentation/networking/af_xdp.rst): fastest for small packets.
//!
//! The port takes all packets of its queues from the kernel, before its stack sees them. A port has all queues of its
//! interface, or those that fall to it where several ports, each of a thread of its own, share the interface: then the
//! kernel, or the hardware, spreads packets, and each port sends by a queue of its own. Segmentation offload does not
//! reach it: packets arrive and leave with at most the MTU, and the port finishes checksums and segments in software. Over
//! veth, the kernel lets the other end know, so that its packets come in segments; their checksums may come unfinished
//! still, which the port finds out ([`offload`](crate::offload)).
//!
//! Each packet is copied between its buffer and the memory that the kernel shares with the socket (UMEM), and each socket
//! has a UMEM of its own: `docs/decisions/0007-interfaces.md` says why.

mod program;
mod queues;
mod ring;
mod socket;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use weir_net::EtherAddr;
use weir_packet::{Packet, PacketType, entry};

use crate::af_packet::{not_found, sys};
use crate::interface::Share;
use crate::{Lost, Netns, Port, PortError, PortStats, offload};
use program::{MAX_QUEUES, Mode, Program};
use queues::{Counts, Queues};
use socket::Socket;

/// Bytes of a frame beside its payload: Ethernet header and two VLAN tags.
const LINK_HEADERS: usize = 22;
/// Ethernet header and the VLAN tag that a device takes beyond its MTU.
const SENT_HEADERS: usize = 18;

/// Options of an AF_XDP port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Receive frames for other hosts too.
    pub promiscuous: bool,
    /// The queue of the interface to receive and send by; `None`: all, or those that `share` says.
    pub queue: Option<u32>,
    /// Which part of the queues is this port's: they are dealt round, if there are at least as many as ports. Otherwise
    /// the first port has all of them.
    pub share: Option<Share>,
    /// Packets that each ring holds; rounded up to a power of two. A frame takes 2 KB at an MTU of 1500, and there are
    /// two rings a queue.
    pub ring_frames: u32,
    /// Take packets after the driver, even if it can run the program itself.
    pub generic: bool,
    /// Let the driver run on the thread of the port, this long at a time, instead of by interrupts. For devices whose
    /// driver supports it.
    pub busy_poll: Option<Duration>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            promiscuous: true,
            queue: None,
            share: None,
            ring_frames: 1024,
            generic: false,
            busy_poll: None,
        }
    }
}

/// A port on some or all queues of a network interface.
#[derive(Debug)]
pub struct AfXdpPort {
    name: String,
    method: String,
    /// At least one.
    sockets: Vec<Socket>,
    /// Whether other ports have the other queues.
    shared: bool,
    /// The socket that is asked first for packets.
    turn: usize,
    /// Readable when one of the sockets is, or the watch reports something.
    ready: Epoll,
    /// A packet socket that learns when the interface goes down or away, and keeps it promiscuous.
    watch: OwnedFd,
    program: Arc<Program>,
    mac: EtherAddr,
    /// Longest packet to send.
    longest: usize,
    gone: bool,
    stats: PortStats,
}

impl AfXdpPort {
    /// Opens a port on an interface of the network namespace of this thread.
    ///
    /// Needs `CAP_NET_ADMIN`, `CAP_BPF` and `CAP_NET_RAW`, or root. The interface may be down; [`Port::receive`] then
    /// says so once.
    ///
    /// # Errors
    /// [`PortError::Busy`] if another process has an XDP program there or uses the queue; the kernel says so, too, for a
    /// moment after a port was closed. [`PortError::NoQueue`] if there are fewer queues than ports that share them, and
    /// this is not the first.
    pub fn open(name: &str, options: &Options) -> Result<AfXdpPort, PortError> {
        let fail = |action, source: io::Error| failure(name, action, source);
        let index = nix::net::if_::if_nametoindex(name).map_err(|_| not_found(name))?;
        let watch = sys::socket().map_err(|e| fail("open a packet socket", e))?;
        let interface = sys::interface(&watch, name).map_err(|e| fail("ask for its address", e))?;
        if interface.arphrd != libc::ARPHRD_ETHER {
            return Err(PortError::NotEthernet { name: name.to_owned(), arphrd: interface.arphrd });
        }
        let counts = Counts::of(&watch, name);
        let queues = match options.queue {
            Some(queue) => Queues::one(queue),
            None => Queues::of(counts, options.share).ok_or_else(|| PortError::NoQueue {
                name: name.to_owned(),
                queues: counts.rx.min(counts.tx),
            })?,
        };
        if let Some(beyond) = queues.own.iter().find(|&&queue| queue >= MAX_QUEUES) {
            let what = format!("queue {beyond} is beyond {}, the last one that is supported", MAX_QUEUES - 1);
            return Err(fail("choose its queues", io::Error::new(io::ErrorKind::InvalidInput, what)));
        }
        let cookie = cookie(&watch).map_err(|e| fail("ask for its network namespace", e))?;
        let program = Program::on((cookie, index), options.generic).map_err(|e| match e.raw_os_error() {
            Some(libc::EBUSY) => PortError::Busy { name: name.to_owned(), what: "the XDP hook".to_owned() },
            _ => fail("load the program that redirects packets (XDP)", e),
        })?;
        let ready = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)
            .map_err(|e| fail("create an epoll descriptor", e.into()))?;
        let mut sockets = Vec::new();
        let packets = options.ring_frames.clamp(64, 1 << 15).next_power_of_two();
        for &queue in &queues.own {
            let socket = Socket::new(packets, interface.mtu as usize + LINK_HEADERS, options.busy_poll)
                .map_err(|e| fail("set up an AF_XDP socket", e))?;
            socket.bind(index, queue).map_err(|e| match e.raw_os_error() {
                Some(libc::EBUSY) => {
                    PortError::Busy { name: name.to_owned(), what: format!("queue {queue}") }
                }
                _ => fail("bind an AF_XDP socket to its queue", e),
            })?;
            program.redirect(queue, socket.fd()).map_err(|e| fail("redirect a queue", e))?;
            ready
                .add(socket.fd(), EpollEvent::new(EpollFlags::EPOLLIN, 0))
                .map_err(|e| fail("watch a socket", e.into()))?;
            sockets.push(socket);
        }
        if options.promiscuous {
            sys::set_promiscuous(&watch, index).map_err(|e| fail("make it promiscuous", e))?;
        }
        sys::bind(&watch, index, sys::NO_PROTOCOL).map_err(|e| fail("bind to it", e))?;
        ready.add(&watch, EpollEvent::new(EpollFlags::empty(), 0)).map_err(|e| fail("watch it", e.into()))?;
        let mode = match (program.mode, sockets.iter().all(Socket::zero_copy)) {
            (Mode::Native, true) => "native, without copies",
            (Mode::Native, false) => "native",
            (Mode::Generic, _) => "generic: its driver cannot run the program",
        };
        let method = format!("AF_XDP ({mode}, {})", queues.text);
        Ok(AfXdpPort {
            name: name.to_owned(),
            method,
            sockets,
            shared: queues.shared,
            turn: 0,
            ready,
            watch,
            program,
            mac: EtherAddr(interface.mac),
            longest: interface.mtu as usize + SENT_HEADERS,
            gone: false,
            stats: PortStats::default(),
        })
    }

    /// Opens a port on an interface of another network namespace.
    pub fn open_in(netns: &Netns, name: &str, options: &Options) -> Result<AfXdpPort, PortError> {
        netns.run(|| AfXdpPort::open(name, options))?
    }

    /// Whether the driver runs the program.
    pub fn is_native(&self) -> bool {
        self.program.mode == Mode::Native
    }

    /// Adds the reason for which this method was chosen to what [`Port::method`] says.
    pub(crate) fn because(&mut self, why: &str) {
        self.method = format!("{}: {why}", self.method);
    }

    /// The error for an interface that does not work any more: removed or down.
    fn broken(&mut self) -> PortError {
        let name = self.name.clone();
        self.gone = self.gone || sys::bound_index(&self.watch).is_ok_and(|index| index < 0);
        if self.gone { PortError::Gone { name } } else { PortError::Down { name } }
    }

    /// Reports an interface that went down or was removed.
    fn check(&mut self) -> Result<(), PortError> {
        if self.gone {
            return Err(self.broken());
        }
        match sys::take_error(&self.watch) {
            Ok(0) => Ok(()),
            Ok(libc::ENETDOWN) => Err(self.broken()),
            Ok(number) => Err(self.os("receive", io::Error::from_raw_os_error(number))),
            Err(e) => Err(self.os("receive", e)),
        }
    }

    fn os(&self, action: &'static str, source: io::Error) -> PortError {
        PortError::Os { name: self.name.clone(), action, source }
    }

    /// Puts packets from the front of a batch into the ring, as many as there is space for; returns how many went.
    fn queue(&mut self, batch: &mut Vec<Packet>) -> usize {
        let mut n = 0;
        while n < batch.len() {
            if offload::finish(batch, n).is_err() {
                batch.remove(n);
                self.stats.tx_errors.offload += 1;
                continue;
            }
            let bytes = batch[n].bytes();
            if bytes.len() < 14 {
                batch.remove(n);
                self.stats.tx_errors.refused += 1;
            } else if bytes.len() > self.longest.min(self.sockets[0].longest()) {
                batch.remove(n);
                self.stats.tx_errors.too_long += 1;
            } else if self.sockets[0].queue(bytes) {
                self.stats.sent(batch[n].len());
                n += 1;
            } else {
                break;
            }
        }
        batch.drain(..n);
        n
    }
}

impl Port for AfXdpPort {
    fn name(&self) -> &str {
        &self.name
    }

    fn receive(&mut self, out: &mut Vec<Packet>, max: usize) -> Result<usize, PortError> {
        let before = out.len();
        let (mac, stats) = (self.mac, &mut self.stats);
        for i in 0..self.sockets.len() {
            let count = self.sockets.len();
            let first = out.len();
            let space = u32::try_from(max - (first - before)).unwrap_or(u32::MAX);
            let n = self.sockets[(self.turn + i) % count].receive(space, out) as usize;
            stats.rx_malformed += (n - (out.len() - first)) as u64;
        }
        if out.len() > before {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |t| t.as_nanos() as u64);
            for p in &mut out[before..] {
                offload::detect_partial(p);
                p.timestamp = now;
                p.packet_type = packet_type(p.bytes(), mac) as u8;
                entry::DEVICE.mark(p, None);
                stats.received(p.len());
            }
        }
        self.turn = (self.turn + 1) % self.sockets.len();
        let n = out.len() - before;
        if n == 0 && max > 0 {
            self.check()?;
        }
        Ok(n)
    }

    fn send(&mut self, batch: &mut Vec<Packet>) -> Result<usize, PortError> {
        if self.gone {
            return Err(self.broken());
        }
        let before = self.stats.tx_packets;
        loop {
            let before = self.stats;
            let queued = self.queue(batch);
            let done = self.sockets[0].kick();
            self.stats.tx_packets -= done.refused.0;
            self.stats.tx_bytes -= done.refused.1;
            self.stats.tx_errors.refused += done.refused.0;
            match done.error {
                Some(e) if matches!(e.raw_os_error(), Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV)) => {
                    // They are in the ring, from which nothing takes them.
                    (self.stats.tx_packets, self.stats.tx_bytes) = (before.tx_packets, before.tx_bytes);
                    self.stats.tx_errors.down += queued as u64;
                    return Err(self.broken());
                }
                Some(e) if matches!(e.raw_os_error(), Some(libc::ENOBUFS | libc::ENOMEM)) => break,
                Some(e) => return Err(self.os("send", e)),
                None if batch.is_empty() || queued == 0 => break,
                None => {}
            }
        }
        Ok(self.stats.tx_packets.saturating_sub(before) as usize)
    }

    fn flush(&mut self) -> Result<(), PortError> {
        self.send(&mut Vec::new()).map(drop)
    }

    fn fd(&mut self) -> Option<BorrowedFd<'_>> {
        Some(self.ready.0.as_fd())
    }

    fn stats(&mut self) -> PortStats {
        self.stats.rx_dropped = self.sockets.iter().map(Socket::dropped).sum();
        self.stats
    }

    fn lost(&self) -> Lost {
        self.stats.lost()
    }

    fn mac(&self) -> Option<EtherAddr> {
        Some(self.mac)
    }

    fn method(&self) -> &str {
        &self.method
    }

    fn is_shared(&self) -> bool {
        self.shared
    }

    fn mtu(&self) -> Option<u32> {
        sys::interface(&self.watch, &self.name).ok().map(|i| i.mtu)
    }
}

/// To whom a frame of at least 14 bytes is addressed.
fn packet_type(frame: &[u8], mac: EtherAddr) -> PacketType {
    let to = &frame[..6];
    if to == mac.0 {
        PacketType::Host
    } else if to == [0xff; 6] {
        PacketType::Broadcast
    } else if to[0] & 1 != 0 {
        PacketType::Multicast
    } else {
        PacketType::OtherHost
    }
}

/// What distinguishes the network namespace of a socket from all others.
fn cookie(socket: &OwnedFd) -> io::Result<u64> {
    sys::get_option(socket, libc::SOL_SOCKET, libc::SO_NETNS_COOKIE)
}

/// Whether a port of this process takes packets of an interface of this thread's network namespace by AF_XDP.
pub(crate) fn is_on(name: &str) -> bool {
    let Ok(index) = nix::net::if_::if_nametoindex(name) else { return false };
    let cookie = sys::asking().and_then(|socket| cookie(&socket));
    cookie.is_ok_and(|cookie| Program::runs_on((cookie, index)))
}

/// The error for what the operating system refused.
fn failure(name: &str, action: &'static str, source: io::Error) -> PortError {
    match source.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => PortError::Permission {
            name: name.to_owned(),
            action,
            needs: "CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF (or root)",
        },
        Some(libc::ENODEV | libc::ENXIO) => not_found(name),
        // The memory that is shared with the kernel is locked.
        Some(libc::ENOBUFS | libc::ENOMEM) => PortError::Os {
            name: name.to_owned(),
            action,
            source: io::Error::other(format!(
                "{source}; raise the limit of locked memory (`ulimit -l`), give CAP_IPC_LOCK, or use smaller rings"
            )),
        },
        _ => PortError::Os { name: name.to_owned(), action, source },
    }
}
