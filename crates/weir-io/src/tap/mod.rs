//! Ports on virtual interfaces that the port makes itself (TUN/TAP, Documentation/networking/tuntap.rst): the other end
//! is the kernel's own stack.
//!
//! Packets carry the virtio-net header, so that packets of the kernel pass unsegmented, up to 64 KB each, with their
//! checksums unfinished, in both directions.

mod setup;

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{SystemTime, UNIX_EPOCH};

use weir_net::{EtherAddr, Headers};
use weir_packet::{MAX_LEN, Packet, entry};

use crate::af_packet::sys;
use crate::hand_over::{self, Handed};
use crate::offload::OffloadError;
use crate::{Lost, Netns, Port, PortError, PortStats, vnet};

/// The header that packets of a virtual interface begin with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Kind {
    /// Ethernet header.
    #[default]
    Tap,
    /// IP header.
    Tun,
}

/// Options of a virtual interface that is made or found. What is `None` is left as the kernel has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// What packets begin with.
    pub kind: Kind,
    /// The kernel's address and the length of its prefix. Given one, the interface is brought up.
    pub address: Option<(Ipv4Addr, u8)>,
    /// The kernel's IPv6 address and the length of its prefix, likewise.
    pub address6: Option<(Ipv6Addr, u8)>,
    /// Where the kernel shall send packets by default; in the prefix of `address`.
    pub gateway: Option<Ipv4Addr>,
    /// The kernel's Ethernet address.
    pub ether: Option<EtherAddr>,
    /// Largest payload of a packet in bytes.
    pub mtu: Option<u32>,
}

/// Makes a TAP interface in the network namespace of this thread, with one queue, which some other program is to have the other end of.
/// It stays until it is removed.
///
/// # Errors
/// The system refuses.
pub fn make(name: &str) -> io::Result<()> {
    setup::persist(&setup::attach_alone(name)?)
}

/// The other end of an interface that was [made](make) so, to be handed on: packets with their virtio-net header.
///
/// # Errors
/// The system refuses, or somebody has it.
pub fn end(name: &str) -> io::Result<OwnedFd> {
    // It would be made, were it not there.
    nix::net::if_::if_nametoindex(name)?;
    setup::attach_alone(name)
}

/// A port on a virtual interface. The interface goes away with the last port on it, unless it was there before.
#[derive(Debug)]
pub struct TapPort {
    name: String,
    kind: Kind,
    fd: OwnedFd,
    /// For questions about the interface: a socket of its network namespace.
    socket: OwnedFd,
    /// Space for one packet of any length.
    buffer: Box<[u8]>,
    mac: Option<EtherAddr>,
    down: bool,
    stats: PortStats,
}

impl TapPort {
    /// Makes an interface in the network namespace of this thread, or opens one more queue of an interface that was made
    /// so. With an empty name the kernel chooses one, which [`Port::name`] returns.
    ///
    /// Needs `CAP_NET_ADMIN` and `/dev/net/tun`.
    pub fn open(name: &str, options: &Options) -> Result<TapPort, PortError> {
        let fail = |action, source: io::Error| match source.kind() {
            io::ErrorKind::PermissionDenied => {
                PortError::Permission { name: name.to_owned(), action, needs: "CAP_NET_ADMIN" }
            }
            _ => match source.raw_os_error() {
                Some(libc::EBUSY) => PortError::Busy { name: name.to_owned(), what: "the device".to_owned() },
                _ => PortError::Os { name: name.to_owned(), action, source },
            },
        };
        if name.len() >= libc::IFNAMSIZ {
            let why = format!("an interface's name has at most {} bytes", libc::IFNAMSIZ - 1);
            return Err(fail("make the interface", io::Error::new(io::ErrorKind::InvalidInput, why)));
        }
        let (fd, name) =
            setup::attach(name, options.kind).map_err(|e| fail("make the interface (/dev/net/tun)", e))?;
        let socket = sys::asking().map_err(|e| fail("open a socket", e))?;
        let mac = match options.kind {
            Kind::Tap => sys::interface(&socket, &name).ok().map(|i| EtherAddr(i.mac)),
            Kind::Tun => None,
        };
        let buffer = vec![0; MAX_LEN].into_boxed_slice();
        let kind = options.kind;
        let mut port =
            TapPort { name, kind, fd, socket, buffer, mac, down: false, stats: PortStats::default() };
        port.configure(options)?;
        Ok(port)
    }

    /// Goes on with a port of another process.
    pub(crate) fn go_on(name: &str, kind: Kind, fds: Vec<OwnedFd>) -> io::Result<TapPort> {
        let fd = hand_over::only(fds)?;
        let socket = sys::asking()?;
        let mac = match kind {
            Kind::Tap => sys::interface(&socket, name).ok().map(|i| EtherAddr(i.mac)),
            Kind::Tun => None,
        };
        let (name, buffer) = (name.to_owned(), vec![0; MAX_LEN].into_boxed_slice());
        Ok(TapPort { name, kind, fd, socket, buffer, mac, down: false, stats: PortStats::default() })
    }

    /// Opens a port in another network namespace.
    pub fn open_in(netns: &Netns, name: &str, options: &Options) -> Result<TapPort, PortError> {
        netns.run(|| TapPort::open(name, options))?
    }

    /// Gives the interface addresses and the rest of `options`.
    fn configure(&mut self, options: &Options) -> Result<(), PortError> {
        setup::configure(&self.socket, &self.name, options).map_err(|(action, source)| {
            match source.kind() {
                io::ErrorKind::PermissionDenied => {
                    PortError::Permission { name: self.name.clone(), action, needs: "CAP_NET_ADMIN" }
                }
                _ => PortError::Os { name: self.name.clone(), action, source },
            }
        })?;
        if self.kind == Kind::Tap {
            self.mac = sys::interface(&self.socket, &self.name).ok().map(|i| EtherAddr(i.mac));
        }
        Ok(())
    }

    /// Reads one packet; `Ok(None)` if there is none now, or it was malformed.
    fn read(&mut self) -> io::Result<Option<Packet>> {
        let mut header = [0; vnet::LEN];
        let mut parts = [
            libc::iovec { iov_base: header.as_mut_ptr().cast(), iov_len: header.len() },
            libc::iovec { iov_base: self.buffer.as_mut_ptr().cast(), iov_len: self.buffer.len() },
        ];
        // SAFETY: the parts are two live and exclusively borrowed buffers with their lengths.
        let n = unsafe { libc::readv(self.fd.as_raw_fd(), parts.as_mut_ptr(), parts.len() as i32) };
        let n = sys::check(n)?;
        let packet = n.checked_sub(vnet::LEN).and_then(|len| self.packet(header, len));
        if packet.is_none() {
            self.stats.rx_malformed += 1;
        }
        Ok(packet)
    }

    /// The packet that was read.
    fn packet(&self, header: [u8; vnet::LEN], len: usize) -> Option<Packet> {
        let mut p = Packet::from_bytes(self.buffer.get(..len)?).ok()?;
        vnet::decode(header, &mut p).ok()?;
        match self.kind {
            Kind::Tap => entry::TAP.mark(&mut p, None),
            Kind::Tun => {
                let transport = Headers::of_ip(p.bytes(), 0)?.transport;
                entry::TUN.mark(&mut p, transport.map(|at| at as u32));
            }
        }
        Some(p)
    }

    fn write(&self, packet: &mut Packet) -> Result<io::Result<()>, OffloadError> {
        let header = match self.kind {
            Kind::Tap => vnet::encode(packet)?,
            Kind::Tun => vnet::encode_ip(packet)?,
        };
        let bytes = packet.bytes();
        let parts = [
            libc::iovec { iov_base: header.as_ptr().cast_mut().cast(), iov_len: header.len() },
            libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() },
        ];
        // SAFETY: the parts are two live buffers with their lengths, which the call only reads.
        let n = unsafe { libc::writev(self.fd.as_raw_fd(), parts.as_ptr(), parts.len() as i32) };
        Ok(sys::check(n).map(drop))
    }

    /// The error for an interface that does not work: `None` if there is nothing to read or to send by now.
    fn broken(&mut self, error: io::Error, action: &'static str) -> Option<PortError> {
        let name = self.name.clone();
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::EINTR | libc::ENOBUFS | libc::ENOMEM) => None,
            Some(libc::EBADFD) => Some(PortError::Gone { name }),
            Some(libc::EIO) => {
                let first = !std::mem::replace(&mut self.down, true);
                (first || action == "send").then_some(PortError::Down { name })
            }
            _ => Some(PortError::Os { name, action, source: error }),
        }
    }
}

impl Port for TapPort {
    fn name(&self) -> &str {
        &self.name
    }

    fn receive(&mut self, out: &mut Vec<Packet>, max: usize) -> Result<usize, PortError> {
        let (before, malformed) = (out.len(), self.stats.rx_malformed);
        let mut now = 0;
        while out.len() - before < max && self.stats.rx_malformed - malformed < max as u64 {
            match self.read() {
                Ok(Some(mut p)) => {
                    if now == 0 {
                        now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |t| t.as_nanos() as u64);
                    }
                    p.timestamp = now;
                    self.down = false;
                    self.stats.received(p.len());
                    out.push(p);
                }
                Ok(None) => {}
                Err(_) if out.len() > before => break,
                Err(e) => match self.broken(e, "receive") {
                    Some(error) => return Err(error),
                    None => break,
                },
            }
        }
        Ok(out.len() - before)
    }

    fn send(&mut self, batch: &mut Vec<Packet>) -> Result<usize, PortError> {
        let (mut n, mut gone) = (0, 0);
        let mut result = Ok(());
        for p in batch.iter_mut() {
            match self.write(p) {
                Ok(Ok(())) => {
                    self.down = false;
                    self.stats.sent(p.len());
                    n += 1;
                }
                Ok(Err(e)) if e.raw_os_error() == Some(libc::EINVAL) => self.stats.tx_errors.refused += 1,
                Ok(Err(e)) => {
                    result = self.broken(e, "send").map_or(Ok(()), Err);
                    break;
                }
                Err(_) => self.stats.tx_errors.offload += 1,
            }
            gone += 1;
        }
        batch.drain(..gone);
        result.map(|()| n)
    }

    fn fd(&mut self) -> Option<BorrowedFd<'_>> {
        Some(self.fd.as_fd())
    }

    fn stats(&mut self) -> PortStats {
        self.stats
    }

    fn lost(&self) -> Lost {
        self.stats.lost()
    }

    fn mac(&self) -> Option<EtherAddr> {
        self.mac
    }

    fn hand_over(&mut self) -> Option<Handed> {
        Some(Handed {
            fds: vec![hand_over::number(self.fd.as_fd())],
            method: self.method().to_owned(),
            ..Handed::default()
        })
    }

    fn method(&self) -> &str {
        match self.kind {
            Kind::Tap => "TAP: the kernel's stack is the other end, large packets pass unsegmented",
            Kind::Tun => "TUN: the kernel's stack is the other end, large packets pass unsegmented",
        }
    }

    fn mtu(&self) -> Option<u32> {
        sys::interface(&self.socket, &self.name).ok().map(|i| i.mtu)
    }
}
