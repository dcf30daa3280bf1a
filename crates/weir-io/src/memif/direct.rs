//! Direct rings: two slaves of one program send to each other past it.
//!
//! A program that is the master of two slaves, and hands everything that one of them sends to the other, can join them: it
//! makes memory with one ring, and a pair of sockets by which one side wakes the other and learns that it is gone, and gives
//! each side its end over the control connections. This is Weir's own addition to memif: only slaves that say in their first
//! message that they know it (`direct=true`) are asked. Both slaves trust the master. They do not trust each other: the
//! receiver checks the ring as a master does, and a send by a socket never waits.
//!
//! No packet is lost, comes twice or overtakes another when a ring is taken into use:
//!
//! 1. Both sides get their ends. The sender sends by the ring from now on, and says so ([`Message::DirectSwitched`]); the
//!    receiver takes nothing from it yet.
//! 2. The master takes what the sender had sent before, until there is nothing left. From then on it takes nothing more.
//! 3. When all of that has been sent to the receiver, the master says so ([`Message::DirectGo`]). The receiver takes first
//!    what came from the master, then what is in the ring.
//!
//! Nor when it is given up, because the master says so ([`Message::DirectStop`]) or one side has ended:
//!
//! 1. The sender closes its end and sends to the master again, which takes nothing yet.
//! 2. The receiver takes what is left in the ring, and says so ([`Message::DirectEnded`]).
//! 3. The master takes what the sender sends.
//!
//! Both are waited for a bounded time only. Then the master takes from the sender again, and asks the receiver to stop as well: it takes
//! what is in the ring, at most as much as a ring holds, and ends, whatever the sender does.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use socket2::{Domain, Socket, Type};
use weir_packet::Packet;

use super::link::{Fault, Own, Receiver, Sender, Source};
use super::message::Message;
use super::options::Role;
use super::region::Memory;
use super::ring::Ring;
use crate::shared::signal::Signal;
use crate::shared::watch::{Changes, Watch};

/// Logarithm of the size of a direct ring.
const LOG2_SIZE: u8 = 10;
/// Bytes of its buffers.
const BUFFER: u32 = 2048;
/// Where the counts of sender and receiver are, a cache line each.
const COUNTS: u32 = Ring::bytes(LOG2_SIZE).next_multiple_of(64) as u32;
const COUNT: u32 = 64;
/// The buffers, which the sender has.
const OWN: Own = Own { start: COUNTS + 2 * COUNT, size: BUFFER };
/// Bytes of all.
const BYTES: usize = OWN.start as usize + ((BUFFER as usize) << LOG2_SIZE);
/// How often there is nothing to take until the sender looks whether its receiver is still there.
const IN_VAIN: u32 = 16;
/// Most packets that a ring holds.
pub const MOST: u64 = 1 << LOG2_SIZE;

/// Packets and bytes that one side has counted, where the master sees them.
#[derive(Debug)]
struct Count {
    /// Keeps the counts mapped.
    _memory: Arc<Memory>,
    start: NonNull<u8>,
}

// SAFETY: the counts lie in memory that is kept mapped, and are reached by atomic accesses only.
unsafe impl Send for Count {}

impl Count {
    fn at(memory: &Arc<Memory>, sender: bool) -> io::Result<Count> {
        let at = COUNTS + if sender { 0 } else { COUNT };
        let start = memory.place(0, at, COUNT as usize).ok_or(io::ErrorKind::InvalidInput)?;
        Ok(Count { _memory: memory.clone(), start })
    }

    fn words(&self) -> [&AtomicU64; 2] {
        // SAFETY: `at` has checked that they lie in the memory, aligned to a cache line. All accesses of both sides are atomic,
        // or those of another process.
        [0, 8].map(|at| unsafe { AtomicU64::from_ptr(self.start.as_ptr().add(at).cast()) })
    }

    fn get(&self) -> Traffic {
        let [packets, bytes] = self.words().map(|word| word.load(Ordering::Relaxed));
        Traffic { packets, bytes }
    }

    fn set(&self, to: Traffic) {
        let [packets, bytes] = self.words();
        packets.store(to.packets, Ordering::Relaxed);
        bytes.store(to.bytes, Ordering::Relaxed);
    }
}

/// Packets, and their bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// The packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Traffic {
    /// Both together. What others have counted may be anything.
    #[must_use]
    pub fn and(self, more: Traffic) -> Traffic {
        Traffic {
            packets: self.packets.saturating_add(more.packets),
            bytes: self.bytes.saturating_add(more.bytes),
        }
    }
}

/// A direct ring, as the master has it.
#[derive(Debug)]
pub struct DirectRing {
    /// Its number, unlike those of all others that the same slaves have.
    pub id: u32,
    memory: OwnedFd,
    /// The sockets of sender and receiver, until they are given away.
    sockets: [Option<OwnedFd>; 2],
    sent: Count,
    received: Count,
}

impl DirectRing {
    /// An empty ring.
    ///
    /// # Errors
    /// If there is no memory for it, or no descriptors are left.
    pub fn new(id: u32) -> io::Result<DirectRing> {
        let (memory, fd) = Memory::make(BYTES)?;
        let memory = Arc::new(memory);
        Ring::at(&memory, 0, 0, LOG2_SIZE).map_err(io::Error::other)?.begin();
        let (a, b) = Socket::pair(Domain::UNIX, Type::STREAM, None)?;
        let (sent, received) = (Count::at(&memory, true)?, Count::at(&memory, false)?);
        Ok(DirectRing { id, memory: fd, sockets: [Some(a.into()), Some(b.into())], sent, received })
    }

    /// What the sender has sent, and what the receiver has taken, as they say.
    pub fn traffic(&self) -> (Traffic, Traffic) {
        (self.sent.get(), self.received.get())
    }

    /// What a side gets to have its end. Each side gets it once.
    ///
    /// # Errors
    /// If no descriptors are left.
    pub(super) fn given(&mut self, sends: bool) -> io::Result<[(Message, Option<OwnedFd>); 2]> {
        let memory = self.memory.try_clone()?;
        let socket = self.sockets[usize::from(!sends)].take();
        let ring = Message::DirectRing { id: self.id, sends };
        Ok([(Message::DirectMemory, Some(memory)), (ring, socket)])
    }
}

/// Whether a message is one about direct rings that a side of this role gets.
pub(super) fn is_for(message: &Message, role: Role) -> bool {
    match message {
        Message::DirectMemory
        | Message::DirectRing { .. }
        | Message::DirectGo(_)
        | Message::DirectStop(_) => role == Role::Slave,
        Message::DirectSwitched(_) | Message::DirectEnded { .. } => role == Role::Master,
        _ => false,
    }
}

/// An order of the master to a slave, ready for the port.
#[derive(Debug)]
pub enum Order {
    /// To send by this.
    Send(SendEnd),
    /// To receive by this, when it is asked to.
    Receive(ReceiveEnd),
    /// To take from the ring of this number.
    Go(u32),
    /// To use the ring of this number no more: a sender ends at once, a receiver when it has taken what is there.
    Stop(u32),
}

impl Order {
    /// The end of a ring in memory that the master has made, with its socket.
    ///
    /// # Errors
    /// If it cannot be mapped.
    pub fn of(id: u32, sends: bool, memory: &OwnedFd, socket: OwnedFd) -> io::Result<Order> {
        let memory = Arc::new(Memory::of_master(memory.as_fd(), BYTES)?);
        let ring = Ring::at(&memory, 0, 0, LOG2_SIZE).map_err(io::Error::other)?;
        let (signal, count) = (Signal::Socket(socket.into()), Count::at(&memory, sends)?);
        let traffic = Traffic::default();
        Ok(if sends {
            let tx = Sender::new(ring, signal, Some(OWN));
            Order::Send(SendEnd { id, tx, count, traffic, in_vain: 0 })
        } else {
            let rx = Receiver::new(ring, signal, None);
            let (changes, watch) = (Changes::new()?, Watch::default());
            Order::Receive(ReceiveEnd { id, rx, count, traffic, open: false, left: None, changes, watch })
        })
    }
}

/// The sender's end.
#[derive(Debug)]
pub struct SendEnd {
    /// The ring's number.
    pub id: u32,
    /// The ring.
    pub tx: Sender,
    count: Count,
    traffic: Traffic,
    in_vain: u32,
}

impl SendEnd {
    /// Takes note of packets that were sent.
    pub fn sent(&mut self, more: Traffic) {
        self.traffic = self.traffic.and(more);
        self.count.set(self.traffic);
    }

    /// Whether the receiver has closed its end.
    pub fn is_alone(&self) -> bool {
        let mut list = [PollFd::new(self.tx.fd(), PollFlags::empty())];
        matches!(poll(&mut list, PollTimeout::ZERO), Ok(1..))
    }

    /// The same, asked when there is nothing to do, and so not each time.
    pub fn is_found_alone(&mut self) -> bool {
        self.in_vain = (self.in_vain + 1) % IN_VAIN;
        self.in_vain == 0 && self.is_alone()
    }
}

/// The receiver's end.
#[derive(Debug)]
pub struct ReceiveEnd {
    /// The ring's number.
    pub id: u32,
    rx: Receiver,
    count: Count,
    traffic: Traffic,
    open: bool,
    /// The most that is still to be taken, once it has been stopped.
    left: Option<u64>,
    /// Readable while there is more, if nobody signals.
    changes: Changes,
    watch: Watch,
}

impl ReceiveEnd {
    /// Packets are taken from now on.
    pub fn open(&mut self) {
        self.open = true;
        self.watch.start(&self.changes, Some(&self.rx), false);
    }

    /// No more is taken than what is in the ring, and than a ring holds: the sender may go on sending.
    pub fn stop(&mut self) {
        self.left = self.left.or(Some(MOST));
    }

    /// What is readable when there are packets, or the sender has closed its end.
    pub fn fds(&self) -> [BorrowedFd<'_>; 2] {
        [self.changes.fd(), self.rx.fd()]
    }

    /// Whether packets are taken.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Appends at most `max` packets to `out`. Returns how many were no packets.
    ///
    /// # Errors
    /// What the sender wrote that makes no sense.
    pub fn take(&mut self, out: &mut Vec<Packet>, max: usize) -> Result<u64, Fault> {
        let before = out.len();
        let left = self.left.map_or(max, |left| usize::try_from(left).unwrap_or(max));
        let malformed = self.watch.take(&mut self.rx, &self.changes, false, out, max.min(left))?;
        let taken = (out.len() - before) as u64 + malformed;
        self.left = self.left.map(|left| left.saturating_sub(taken));
        if out.len() > before {
            let bytes = out[before..].iter().map(|p| p.len() as u64).sum();
            self.traffic = self.traffic.and(Traffic { packets: (out.len() - before) as u64, bytes });
            self.count.set(self.traffic);
        }
        Ok(malformed)
    }

    /// Whether the sender has closed its end, or this one was stopped, and all is taken.
    pub fn is_over(&self) -> bool {
        // What makes no sense is found by who takes it.
        let is_empty = || matches!(self.rx.filled(), Ok(0));
        match self.left {
            Some(left) => left == 0 || is_empty(),
            None => self.rx.is_alone() && is_empty(),
        }
    }
}

/// A slave's state of direct rings.
#[derive(Debug, Default)]
pub struct OfSlave {
    /// By which it sends.
    pub out: Option<SendEnd>,
    /// By which it receives.
    pub into: Option<ReceiveEnd>,
}

/// The last reports of a slave about direct rings, each by the ring's number.
#[derive(Debug, Clone, Copy, Default)]
pub struct Reports {
    /// It sends by this one now.
    pub switched: u32,
    /// It sends by this one no more.
    pub sends_no_more: u32,
    /// It receives by this one no more.
    pub receives_no_more: u32,
}

impl Reports {
    /// Takes note of a message; `false` if it is none of these.
    pub fn take(&mut self, message: &Message) -> bool {
        match *message {
            Message::DirectSwitched(id) => self.switched = id,
            Message::DirectEnded { id, sends: true } => self.sends_no_more = id,
            Message::DirectEnded { id, sends: false } => self.receives_no_more = id,
            _ => return false,
        }
        true
    }
}

/// A master's state of its slave's direct rings.
#[derive(Debug, Default)]
pub struct OfMaster {
    /// Whether the slave knows them.
    pub known: bool,
    /// What it has said.
    pub reports: Reports,
    /// The ring by which it is to send, until all that it sent before is taken.
    pub draining: Option<u32>,
    /// Whether nothing is taken from it.
    pub held: bool,
}

impl OfMaster {
    /// All is taken that had come: takes nothing any more, if the slave sends by its ring now.
    pub fn is_empty(&mut self) {
        if self.draining.is_some_and(|id| id == self.reports.switched) {
            (self.draining, self.held) = (None, true);
        }
    }
}

#[cfg(test)]
mod tests;
