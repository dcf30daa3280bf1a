//! Ports on network interfaces, by packet sockets (packet(7)).
//!
//! Reception is from a ring in shared memory with one frame for each packet, sending by `sendmmsg`. Both carry the
//! virtio-net header, so that unfinished checksums and packets that await segmentation pass through as they are.
//!
//! Packets that do not fit a frame of the ring, which are those that await segmentation, wait whole in the queue of the
//! socket (`PACKET_COPY_THRESH`) and cost one system call each: so frames stay small.
//!
//! `TPACKET_V3` takes the virtio-net header too, but it hands packets over in blocks, which close when they are full or
//! after a timeout of at least a millisecond. One packet at a time over veth (Linux 6.18) took 520 us on average to be
//! delivered, with `TPACKET_V2` 3.5 us; every hop would add that to the round-trip time.

mod fanout;
pub(crate) mod ring;
pub(crate) mod sys;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use weir_net::EtherAddr;
use weir_packet::{Checksum, Packet, entry};

use crate::hand_over::{self, Handed};
use crate::offload::{self, OffloadError};
use crate::vnet;
use crate::{Lost, Netns, Port, PortError, PortStats};
use ring::{Frame, Ring};

pub use fanout::Fanout;

/// Length of the two addresses of a frame, and of a VLAN tag behind them.
const ADDRESSES: usize = 12;
const TAG: usize = 4;

/// Options of an AF_PACKET port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Receive frames for other hosts too.
    pub promiscuous: bool,
    /// Send past the queueing discipline of the interface. Faster, but the kernel then drops packets that await
    /// segmentation if the device cannot segment: clear `send_offloads` for such a device.
    pub bypass_qdisc: bool,
    /// Leave unfinished checksums and segmentation of sent packets to the kernel and the device. Otherwise the port
    /// does both in software.
    pub send_offloads: bool,
    /// Packets that the receive ring holds; rounded up. A frame takes 2 KB at an MTU of 1500.
    pub ring_frames: usize,
    /// Bytes of large packets that may wait beside the ring.
    pub queue_bytes: usize,
    /// Share the packets of the interface with the other ports of a group.
    pub fanout: Option<Fanout>,
    /// Receive at all. A port that does not is for sending.
    pub receive: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            promiscuous: true,
            bypass_qdisc: false,
            send_offloads: true,
            ring_frames: 8192,
            queue_bytes: 8 << 20,
            fanout: None,
            receive: true,
        }
    }
}

/// A port on a network interface.
#[derive(Debug)]
pub struct AfPacketPort {
    name: String,
    method: String,
    // Dropped before the socket: the mapping goes first.
    ring: Ring,
    socket: OwnedFd,
    mac: EtherAddr,
    send_offloads: bool,
    shared: bool,
    gone: bool,
    stats: PortStats,
}

impl AfPacketPort {
    /// Opens a port on an interface of the network namespace of this thread.
    ///
    /// Needs `CAP_NET_RAW`. The interface may be down; [`Port::receive`] then says so once.
    pub fn open(name: &str, options: &Options) -> Result<AfPacketPort, PortError> {
        let fail = |action, source: io::Error| match source.kind() {
            io::ErrorKind::PermissionDenied => {
                PortError::Permission { name: name.to_owned(), action, needs: "CAP_NET_RAW" }
            }
            _ if matches!(source.raw_os_error(), Some(libc::ENODEV | libc::ENXIO)) => not_found(name),
            _ => PortError::Os { name: name.to_owned(), action, source },
        };
        let index = nix::net::if_::if_nametoindex(name).map_err(|_| not_found(name))?;
        let socket = sys::socket().map_err(|e| fail("open a packet socket", e))?;
        let interface = sys::interface(&socket, name).map_err(|e| fail("ask for its address", e))?;
        if !matches!(interface.arphrd, libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK) {
            return Err(PortError::NotEthernet { name: name.to_owned(), arphrd: interface.arphrd });
        }
        let set = |option, value: i32, action| {
            sys::set_option(&socket, libc::SOL_PACKET, option, value).map_err(|e| fail(action, e))
        };
        set(libc::PACKET_VNET_HDR, 1, "carry offloads")?;
        set(libc::PACKET_IGNORE_OUTGOING, 1, "ignore its own packets")?;
        set(libc::PACKET_COPY_THRESH, 1, "receive large packets")?;
        if options.bypass_qdisc {
            set(libc::PACKET_QDISC_BYPASS, 1, "bypass the queueing discipline")?;
        }
        let bytes = i32::try_from(options.queue_bytes).unwrap_or(i32::MAX);
        // Beyond the system's limit needs CAP_NET_ADMIN; without it, the limit has to do.
        if sys::set_option(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, bytes).is_err() {
            sys::set_option(&socket, libc::SOL_SOCKET, libc::SO_RCVBUF, bytes)
                .map_err(|e| fail("set the receive buffer", e))?;
        }
        // Ethernet header and two VLAN tags, of which the kernel takes out one.
        let ring = Ring::new(&socket, options.ring_frames, interface.mtu as usize + 22)
            .map_err(|e| fail("set up the receive ring", e))?;
        if options.promiscuous {
            sys::set_promiscuous(&socket, index).map_err(|e| fail("make it promiscuous", e))?;
        }
        // Last, so that nothing arrives before the options hold.
        let protocol = if options.receive { sys::ALL_PROTOCOLS } else { sys::NO_PROTOCOL };
        sys::bind(&socket, index, protocol).map_err(|e| fail("bind to it", e))?;
        if let Some(group) = options.fanout {
            fanout::join(&socket, group).map_err(|e| fail("share its packets in a fanout group", e))?;
        }
        Ok(AfPacketPort {
            name: name.to_owned(),
            method: "AF_PACKET".to_owned(),
            ring,
            socket,
            mac: EtherAddr(interface.mac),
            send_offloads: options.send_offloads,
            shared: options.fanout.is_some(),
            gone: false,
            stats: PortStats::default(),
        })
    }

    /// Opens a port on an interface of another network namespace.
    pub fn open_in(netns: &Netns, name: &str, options: &Options) -> Result<AfPacketPort, PortError> {
        netns.run(|| AfPacketPort::open(name, options))?
    }

    /// Goes on with a port of another process.
    pub(crate) fn go_on(name: &str, fds: Vec<OwnedFd>, handed: &Handed) -> io::Result<AfPacketPort> {
        let socket = hand_over::only(fds)?;
        let ring = Ring::map(&socket, handed.ring.ok_or(io::ErrorKind::InvalidData)?)?;
        let interface = sys::interface(&socket, name)?;
        Ok(AfPacketPort {
            name: name.to_owned(),
            method: handed.method.clone(),
            ring,
            socket,
            mac: EtherAddr(interface.mac),
            send_offloads: true,
            shared: handed.shared,
            gone: false,
            stats: PortStats::default(),
        })
    }

    /// Adds the reason for which this method was chosen to what [`Port::method`] says.
    pub(crate) fn because(&mut self, why: &str) {
        self.method = format!("AF_PACKET: {why}");
    }

    /// The error for an interface that does not work any more: removed or down.
    fn broken(&mut self) -> PortError {
        let name = self.name.clone();
        self.gone = self.gone || sys::bound_index(&self.socket).is_ok_and(|index| index < 0);
        if self.gone { PortError::Gone { name } } else { PortError::Down { name } }
    }

    /// Reports an interface that went down or was removed while the ring was empty.
    fn check(&mut self) -> Result<(), PortError> {
        if self.gone {
            return Err(self.broken());
        }
        match sys::take_error(&self.socket) {
            Ok(0) => Ok(()),
            Ok(libc::ENETDOWN) => Err(self.broken()),
            Ok(number) => Err(self.os("receive", io::Error::from_raw_os_error(number))),
            Err(e) => Err(self.os("receive", e)),
        }
    }

    fn os(&self, action: &'static str, source: io::Error) -> PortError {
        PortError::Os { name: self.name.clone(), action, source }
    }

    /// Sends the first packets of a batch, at most [`sys::SEND_MAX`]; `false` if the kernel takes none now.
    fn send_some(&mut self, batch: &mut Vec<Packet>) -> Result<bool, PortError> {
        let mut headers = [[0; vnet::LEN]; sys::SEND_MAX];
        let mut ready = 0;
        while ready < batch.len().min(sys::SEND_MAX) {
            match self.prepare(batch, ready) {
                Ok(header) => {
                    headers[ready] = header;
                    ready += 1;
                }
                Err(_) => {
                    batch.remove(ready);
                    self.stats.tx_errors.offload += 1;
                }
            }
        }
        if ready == 0 {
            return Ok(true);
        }
        let frames = headers.iter().zip(batch[..ready].iter().map(Packet::bytes));
        let error = match sys::send_frames(&self.socket, frames) {
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
            Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV) => return Err(self.broken()),
            Some(libc::EMSGSIZE) => self.stats.tx_errors.too_long += 1,
            Some(libc::EINVAL) => self.stats.tx_errors.refused += 1,
            _ => return Err(self.os("send", error)),
        }
        batch.remove(0);
        Ok(true)
    }

    /// Makes the packet at position `i` ready for the kernel and gives its virtio-net header. Without offloads, the
    /// packet is finished first, which may put several in its place.
    fn prepare(&self, batch: &mut Vec<Packet>, i: usize) -> Result<[u8; vnet::LEN], OffloadError> {
        if self.send_offloads {
            return vnet::encode(&mut batch[i]);
        }
        offload::finish(batch, i)?;
        Ok([0; vnet::LEN])
    }
}

impl Port for AfPacketPort {
    fn name(&self) -> &str {
        &self.name
    }

    fn receive(&mut self, out: &mut Vec<Packet>, max: usize) -> Result<usize, PortError> {
        let mut n = 0;
        while n < max {
            let socket = &self.socket;
            let Some(frame) = self.ring.next(|frame| to_packet(&frame, socket)) else { break };
            match frame {
                Some(p) => {
                    self.stats.received(p.len());
                    out.push(p);
                    n += 1;
                }
                None => self.stats.rx_malformed += 1,
            }
        }
        if n == 0 && max > 0 {
            self.check()?;
        }
        Ok(n)
    }

    fn send(&mut self, batch: &mut Vec<Packet>) -> Result<usize, PortError> {
        let before = self.stats.tx_packets;
        while !batch.is_empty() && self.send_some(batch)? {}
        Ok((self.stats.tx_packets - before) as usize)
    }

    fn fd(&mut self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn stats(&mut self) -> PortStats {
        self.stats.rx_dropped += u64::from(sys::take_drops(&self.socket).unwrap_or(0));
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

    fn hand_over(&mut self) -> Option<Handed> {
        // Those that send otherwise are not opened by name.
        self.send_offloads.then(|| Handed {
            fds: vec![hand_over::number(self.socket.as_fd())],
            ring: Some(self.ring.place()),
            shared: self.shared,
            method: self.method.clone(),
        })
    }

    fn take_back(&mut self) {
        self.ring.mark_stale();
    }

    fn mtu(&self) -> Option<u32> {
        sys::interface(&self.socket, &self.name).ok().map(|i| i.mtu)
    }
}

/// Copies a frame out of the ring, or from the queue of the socket. `None` if it is not whole or its offload data makes
/// no sense.
fn to_packet(frame: &Frame<'_>, socket: &OwnedFd) -> Option<Packet> {
    // A tag that the kernel took off comes back; then the packet has as much space in front as any.
    let vlan = frame.vlan.filter(|_| frame.len >= ADDRESSES);
    let front = if vlan.is_some() { TAG } else { 0 };
    let mut p = if frame.bytes.len() == frame.len {
        Packet::from_bytes_behind(front, frame.bytes).ok()?
    } else if frame.queued {
        // Received even if it is too long for a packet, since the queue must keep step with the ring.
        let space = frame.len.min(weir_packet::MAX_LEN - front);
        let mut p = Packet::with_headroom(front, space).ok()?;
        p.put(space as u32).ok()?;
        let len = sys::receive_queued(socket, &mut [], p.bytes_mut()).ok()?;
        (len == frame.len && len == space).then_some(p)?
    } else {
        return None;
    };
    vnet::decode(frame.vnet, &mut p).ok()?;
    if frame.checksum_valid && p.checksum() == Checksum::Unknown {
        p.csum = Checksum::Full as u8;
    }
    if let Some((protocol, tci)) = vlan {
        p.push(TAG as u32).ok()?;
        let bytes = p.bytes_mut();
        bytes.copy_within(4..16, 0);
        bytes[12..14].copy_from_slice(&protocol.to_be_bytes());
        bytes[14..16].copy_from_slice(&tci.to_be_bytes());
    }
    p.timestamp = frame.timestamp;
    p.packet_type = frame.packet_type;
    entry::DEVICE.mark(&mut p, None);
    Some(p)
}

pub(crate) fn not_found(name: &str) -> PortError {
    let all: Vec<String> = nix::net::if_::if_nameindex()
        .map(|list| list.iter().map(|i| i.name().to_string_lossy().into_owned()).collect())
        .unwrap_or_default();
    PortError::NotFound { name: name.to_owned(), similar: similar(name, all) }
}

/// Up to eight names: those that start with the same letter if there are any, else the first of all.
fn similar(name: &str, mut all: Vec<String>) -> Vec<String> {
    all.sort();
    let first = name.chars().next();
    let alike: Vec<String> = all.iter().filter(|n| n.chars().next() == first).cloned().collect();
    let mut names = if alike.is_empty() { all } else { alike };
    names.truncate(8);
    names
}
