//! smoltcp as the state machine of one connection at a time: a set of sockets has one socket, so that none is looked at but the one that
//! a segment or a timer is for.

use std::cell::Cell;
use std::num::{NonZeroU16, NonZeroUsize};

use smoltcp::iface::{Interface, PollResult, SocketHandle, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, PacketMeta, RxToken, TxToken};
use smoltcp::socket::tcp::{CongestionControl, Socket, SocketBuffer};
use smoltcp::time::Instant;
use smoltcp::wire::HardwareAddress;
use weir_packet::Packet;

use super::wheel::Micros;
use super::{Config, wire};

/// Segments that a connection sends before others have their turn.
const TURN: usize = 64;

/// A segment of more bytes than the link takes, which whoever sends it cuts.
const LARGEST: usize = 60_000;

thread_local! {
    /// The clock of timestamps (RFC 7323): milliseconds. smoltcp asks for it by a function that knows nothing else.
    static STAMPS: Cell<u32> = const { Cell::new(0) };
}

/// The timestamp of now.
pub(super) fn stamp() -> u32 {
    STAMPS.get()
}

/// The interface that all connections of a core share.
pub(super) struct Machines {
    interface: Interface,
    wire: Wire,
    /// Of connections that are over: their memory is used again.
    spare: Vec<Machine>,
    buffer: usize,
}

impl std::fmt::Debug for Machines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Machines").field("spare", &self.spare.len()).finish_non_exhaustive()
    }
}

/// Machines that are kept for later connections.
const SPARE: usize = 256;

/// A connection's state.
#[derive(Debug)]
pub(super) struct Machine {
    set: SocketSet<'static>,
    handle: SocketHandle,
}

impl Machine {
    pub(super) fn socket(&mut self) -> &mut Socket<'static> {
        self.set.get_mut(self.handle)
    }
}

/// A packet that smoltcp sends, and the size of its segments if it is to be cut.
pub(super) type Sent = (Packet, Option<NonZeroU16>);

struct Wire {
    /// The IP packet that is to be processed.
    input: Option<(Packet, usize)>,
    sent: Vec<Sent>,
    capabilities: DeviceCapabilities,
}

impl Machines {
    pub(super) fn new(config: &Config, seed: u64) -> Self {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = usize::from(config.mtu);
        capabilities.checksum = wire::checksums();
        capabilities.segmentation.tcpv4 = NonZeroUsize::new(LARGEST).filter(|_| config.cuts);
        let mut wire = Wire { input: None, sent: Vec::new(), capabilities };
        let mut settings = smoltcp::iface::Config::new(HardwareAddress::Ip);
        settings.random_seed = seed;
        let mut interface = Interface::new(settings, &mut wire, Instant::ZERO);
        // Whether a packet is for us was looked at before.
        interface.set_any_ip(true);
        Self { interface, wire, spare: Vec::new(), buffer: config.buffer }
    }

    /// The window scale that connections offer (RFC 7323 2): the one that smoltcp takes for buffers of this size.
    pub(super) fn scale(&self) -> u8 {
        (usize::BITS - self.buffer.leading_zeros()).saturating_sub(16) as u8
    }

    /// A closed connection.
    pub(super) fn machine(&mut self) -> Machine {
        let mut machine = self.spare.pop().unwrap_or_else(|| {
            let memory = || SocketBuffer::new(vec![0; self.buffer]);
            let mut set = SocketSet::new(Vec::with_capacity(1));
            let handle = set.add(Socket::new(memory(), memory()));
            Machine { set, handle }
        });
        let socket = machine.socket();
        // Requests and replies are small, and wait for each other.
        socket.set_nagle_enabled(false);
        socket.set_congestion_control(CongestionControl::Reno);
        socket.set_tsval_generator(Some(stamp));
        machine
    }

    /// Takes back the memory of a connection that is over.
    pub(super) fn recycle(&mut self, machine: Machine) {
        if self.spare.len() < SPARE {
            self.spare.push(machine);
        }
    }

    pub(super) fn connect(
        &mut self,
        machine: &mut Machine,
        remote: std::net::SocketAddr,
        local: std::net::SocketAddr,
    ) -> Result<(), smoltcp::socket::tcp::ConnectError> {
        machine.socket().connect(self.interface.context(), remote, local)
    }

    /// Gives a connection a packet, whose IP header begins `at`.
    pub(super) fn input(&mut self, machine: &mut Machine, packet: Packet, at: usize, now: Micros) {
        STAMPS.set((now / 1000) as u32);
        self.wire.input = Some((packet, at));
        self.interface.poll_ingress_single(instant(now), &mut self.wire, &mut machine.set);
    }

    /// Has a connection send what it can; whether there may be more.
    pub(super) fn output(&mut self, machine: &mut Machine, now: Micros) -> bool {
        STAMPS.set((now / 1000) as u32);
        for _ in 0..TURN {
            if self.interface.poll_egress(instant(now), &mut self.wire, &mut machine.set) == PollResult::None
            {
                return false;
            }
        }
        true
    }

    /// When a connection wants to send something by itself.
    pub(super) fn next(&mut self, machine: &Machine, now: Micros) -> Option<Micros> {
        let at = self.interface.poll_at(instant(now), &machine.set)?;
        Some((at.total_micros().max(0) as u64).max(now))
    }

    /// What was sent.
    pub(super) fn sent(&mut self) -> Vec<Sent> {
        std::mem::take(&mut self.wire.sent)
    }

    /// Takes back the space of what was sent.
    pub(super) fn reuse(&mut self, sent: Vec<Sent>) {
        if self.wire.sent.is_empty() {
            self.wire.sent = sent;
        }
    }
}

fn instant(now: Micros) -> Instant {
    Instant::from_micros(now as i64)
}

impl Device for Wire {
    type RxToken<'a> = Receive;
    type TxToken<'a> = Send<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Receive, Send<'_>)> {
        let (packet, at) = self.input.take()?;
        Some((Receive { packet, at }, Send { sent: &mut self.sent, cut: None }))
    }

    fn transmit(&mut self, _: Instant) -> Option<Send<'_>> {
        Some(Send { sent: &mut self.sent, cut: None })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        self.capabilities.clone()
    }
}

struct Receive {
    packet: Packet,
    at: usize,
}

impl RxToken for Receive {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        read(&self.packet.bytes()[self.at..])
    }
}

struct Send<'a> {
    sent: &'a mut Vec<Sent>,
    cut: Option<NonZeroU16>,
}

impl TxToken for Send<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, write: F) -> R {
        // No packet of smoltcp is longer than one can be; if one were, it would be lost.
        let Some(mut packet) = wire::frame(wire::ETHERNET + len) else { return write(&mut vec![0; len]) };
        let result = write(&mut packet.bytes_mut()[wire::ETHERNET..]);
        self.sent.push((packet, self.cut));
        result
    }

    fn set_meta(&mut self, meta: PacketMeta) {
        self.cut = meta.segmentation_offload_size;
    }
}
