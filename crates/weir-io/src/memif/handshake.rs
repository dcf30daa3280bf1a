//! How a connection comes to be: what is answered to each message, without sockets and time.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use super::link::{Layout, Link, Own, Receiver, Sender};
use super::message::{AddRing, Hello, Init, Message, SECRET, VERSION};
use super::options::{Options, Role};
use super::region::{self, Memory};
use super::ring::{LARGEST, NoRing, Ring};
use crate::shared::signal::{self, Signal};

/// With what the name of a slave's program ends that knows [direct rings](super::direct).
const KNOWS_DIRECT: &str = " direct";

/// Frames with Ethernet headers (`MEMIF_INTERFACE_MODE_ETHERNET`).
const ETHERNET: u8 = 0;

/// A message to send, perhaps with a descriptor.
pub type Outgoing = (Message, Option<OwnedFd>);

/// The result of a message.
#[derive(Debug, Default)]
pub struct Done {
    /// The answer.
    pub send: Option<Outgoing>,
    /// The connection, when it is ready.
    pub link: Option<Link>,
}

/// Why a connection comes to its end.
#[derive(Debug, thiserror::Error)]
pub enum End {
    /// The other side said so.
    #[error("the peer disconnected{}", said(.0))]
    Peer(String),
    /// A message at a time when it makes no sense.
    #[error("a message `{0}` was not to come now")]
    Unexpected(String),
    /// A version that is not spoken here.
    #[error("it speaks versions from {:#x} to {:#x}, not {VERSION:#x}", .0.0, .0.1)]
    Version((u16, u16)),
    /// Frames of another kind.
    #[error("it wants the mode {0}; only Ethernet frames (0) are known")]
    Mode(u8),
    /// Another interface.
    #[error("there is no interface {0} here")]
    Id(u32),
    /// Not the secret.
    #[error("the secret is wrong or missing")]
    Secret,
    /// There is a connection already.
    #[error("there is a connection already")]
    Busy,
    /// A message came without the descriptor that belongs to it.
    #[error("a message `{0}` came without a descriptor")]
    NoDescriptor(&'static str),
    /// A region cannot be used.
    #[error(transparent)]
    Region(#[from] region::Refused),
    /// A number of a ring that is not there.
    #[error("there is one ring each way, not a ring {0}, and not twice")]
    RingNumber(u16),
    /// A ring cannot be used.
    #[error("the ring {} the master is none: {source}", if *to_master { "to" } else { "from" })]
    Ring {
        /// Which one.
        to_master: bool,
        /// Why not.
        source: NoRing,
    },
    /// A ring came with something else than an eventfd.
    #[error("a ring came with a descriptor that cannot be signalled: {0}")]
    Signal(io::Error),
    /// Not all rings were there.
    #[error("it connects before both rings are there")]
    Incomplete,
    /// There is no memory for the rings.
    #[error("no memory for the rings: {0}")]
    Memory(io::Error),
}

fn said(reason: &str) -> String {
    if reason.is_empty() { String::new() } else { format!(": {reason}") }
}

/// One side of a connection that comes to be.
#[derive(Debug)]
pub enum Handshake {
    /// The side that listens.
    Master(Master),
    /// The side that has connected.
    Slave(Slave),
}

impl Handshake {
    /// At its beginning, and what is sent at once.
    pub fn new(options: &Options) -> (Handshake, Option<Outgoing>) {
        match options.role {
            Role::Master => {
                let hello = Hello {
                    name: program(),
                    versions: (VERSION, VERSION),
                    max_region: region::MOST as u16 - 1,
                    max_rings: (0, 0),
                    max_log2_ring_size: LARGEST,
                };
                (Handshake::Master(Master::new(options)), Some((Message::Hello(hello), None)))
            }
            Role::Slave => (Handshake::Slave(Slave::new(options)), None),
        }
    }

    /// Takes a message; `busy`: there is another connection already.
    ///
    /// # Errors
    /// If the connection is to end.
    pub fn take(&mut self, message: Message, fd: Option<OwnedFd>, busy: bool) -> Result<Done, End> {
        match (self, message) {
            (_, Message::Disconnect { reason, .. }) => Err(End::Peer(reason)),
            (Handshake::Master(master), message) => master.take(message, fd, busy),
            (Handshake::Slave(slave), message) => slave.take(message),
        }
    }
}

fn program() -> String {
    format!("weir {}", env!("CARGO_PKG_VERSION"))
}

fn unexpected(message: &Message) -> End {
    End::Unexpected(message.to_string())
}

/// The bytes of a secret.
fn secret(text: &str) -> [u8; SECRET] {
    let mut bytes = [0; SECRET];
    bytes.iter_mut().zip(text.bytes()).for_each(|(to, from)| *to = from);
    bytes
}

/// The master's side.
#[derive(Debug)]
pub struct Master {
    options: Options,
    begun: bool,
    knows_direct: bool,
    memory: Memory,
    /// From the slave, and to it.
    rings: [Option<(AddRing, OwnedFd)>; 2],
    ready: bool,
}

impl Master {
    fn new(options: &Options) -> Master {
        let options = options.clone();
        let (memory, rings) = (Memory::default(), [None, None]);
        Master { options, begun: false, knows_direct: false, memory, rings, ready: false }
    }

    fn take(&mut self, message: Message, fd: Option<OwnedFd>, busy: bool) -> Result<Done, End> {
        let ack = Done { send: Some((Message::Ack, None)), link: None };
        match message {
            Message::Init(init) if !self.begun => {
                self.admit(&init)?;
                if busy {
                    return Err(End::Busy);
                }
                self.begun = true;
                self.knows_direct = init.name.ends_with(KNOWS_DIRECT);
            }
            _ if !self.begun || self.ready => return Err(unexpected(&message)),
            Message::AddRegion { index, size } => {
                let fd = fd.ok_or(End::NoDescriptor("add region"))?;
                self.memory.add(index, size, fd.as_fd(), self.options.unsealed)?;
            }
            Message::AddRing(ring) => {
                let fd = fd.ok_or(End::NoDescriptor("add ring"))?;
                let place = &mut self.rings[usize::from(!ring.to_master)];
                if ring.index > 0 || place.is_some() {
                    return Err(End::RingNumber(ring.index));
                }
                // Whatever it is, this does not wait; nothing else is done with what is no eventfd.
                let semaphore = signal::is_semaphore(fd.as_fd()).map_err(End::Signal)?;
                if ring.to_master && semaphore {
                    // One signal of such a file would be as many as it likes.
                    return Err(End::Signal(io::Error::new(
                        io::ErrorKind::InvalidInput,
                        "it is a semaphore",
                    )));
                }
                *place = Some((ring, fd));
            }
            Message::Connect(name) => {
                let link = self.link(name)?;
                self.ready = true;
                let answer = Message::Connected(self.options.to_string());
                return Ok(Done { send: Some((answer, None)), link: Some(link) });
            }
            _ => return Err(unexpected(&message)),
        }
        Ok(ack)
    }

    fn admit(&self, init: &Init) -> Result<(), End> {
        if init.version != VERSION {
            return Err(End::Version((init.version, init.version)));
        }
        if init.mode != ETHERNET {
            return Err(End::Mode(init.mode));
        }
        if init.id != self.options.id {
            return Err(End::Id(init.id));
        }
        if !self.options.secret.is_empty() && init.secret != secret(&self.options.secret) {
            return Err(End::Secret);
        }
        Ok(())
    }

    fn link(&mut self, peer: String) -> Result<Link, End> {
        let [Some((from_slave, rx_signal)), Some((to_slave, tx_signal))] = std::mem::take(&mut self.rings)
        else {
            return Err(End::Incomplete);
        };
        let memory = Arc::new(std::mem::take(&mut self.memory));
        let ring = |at: AddRing| {
            let ring = Ring::at(&memory, at.region, at.offset, at.log2_size);
            let ring = ring.and_then(|ring| ring.check().map(|()| ring));
            ring.map_err(|source| End::Ring { to_master: at.to_master, source })
        };
        let rx = Receiver::new(ring(from_slave)?, Signal::Event(rx_signal), None);
        let tx = Sender::new(ring(to_slave)?, Signal::Event(tx_signal), None);
        Ok(Link { tx, rx, peer, knows_direct: self.knows_direct })
    }
}

/// The slave's side.
#[derive(Debug)]
pub struct Slave {
    options: Options,
    /// What is sent after each answer; `None` before the master's hello.
    queue: Option<VecDeque<Outgoing>>,
    link: Option<Link>,
}

impl Slave {
    fn new(options: &Options) -> Slave {
        Slave { options: options.clone(), queue: None, link: None }
    }

    fn take(&mut self, message: Message) -> Result<Done, End> {
        match (message, &mut self.queue) {
            (Message::Hello(hello), None) => {
                if !(hello.versions.0..=hello.versions.1).contains(&VERSION) {
                    return Err(End::Version(hello.versions));
                }
                let log2_size = self.options.log2_ring().min(hello.max_log2_ring_size);
                let (link, mut queue) = self.prepare(log2_size).map_err(End::Memory)?;
                let first = queue.pop_front();
                (self.link, self.queue) = (Some(link), Some(queue));
                Ok(Done { send: first, link: None })
            }
            (Message::Ack, Some(queue)) if !queue.is_empty() => {
                Ok(Done { send: queue.pop_front(), link: None })
            }
            (Message::Connected(peer), Some(queue)) if queue.is_empty() && self.link.is_some() => {
                let link = self.link.take().map(|link| Link { peer, ..link });
                // Not before: the master may begin by setting all positions to zero.
                link.iter().for_each(|link| link.rx.give_buffers());
                Ok(Done { send: None, link })
            }
            (message, _) => Err(unexpected(&message)),
        }
    }

    /// Makes the memory, and the message to the master about it.
    fn prepare(&self, log2_size: u8) -> io::Result<(Link, VecDeque<Outgoing>)> {
        let options = &self.options;
        let layout = Layout::new(log2_size, options.buffer);
        let (memory, fd) = layout.make()?;
        let memory = Arc::new(memory);
        let init = Init {
            version: VERSION,
            id: options.id,
            mode: ETHERNET,
            secret: secret(&options.secret),
            name: if options.direct { program() + KNOWS_DIRECT } else { program() },
        };
        let size = layout.bytes as u64;
        let mut queue: VecDeque<Outgoing> =
            [(Message::Init(init), None), (Message::AddRegion { index: 0, size }, Some(fd))].into();
        let mut ring = |to_master: bool, own: Own| {
            let offset = layout.rings[usize::from(!to_master)];
            let ring = Ring::at(&memory, 0, offset, log2_size).map_err(io::Error::other)?;
            ring.begin();
            let ours = signal::eventfd()?;
            let at = AddRing { to_master, index: 0, region: 0, offset, log2_size };
            queue.push_back((Message::AddRing(at), Some(ours.try_clone()?)));
            Ok::<_, io::Error>((ring, Signal::Event(ours), Some(own)))
        };
        let [to, from] = layout.own();
        let (tx, rx) = (ring(true, to)?, ring(false, from)?);
        queue.push_back((Message::Connect(options.to_string()), None));
        let (tx, rx) = (Sender::new(tx.0, tx.1, tx.2), Receiver::new(rx.0, rx.1, rx.2));
        Ok((Link { tx, rx, peer: String::new(), knows_direct: false }, queue))
    }
}
