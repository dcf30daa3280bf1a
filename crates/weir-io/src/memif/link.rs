//! The two rings of a connection, each from the side of its sender or its receiver.
//!
//! Our own positions are kept here, and written to the shared memory, never read from it.

use std::cell::Cell;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{Ordering, fence};

use weir_packet::{Buffers, MAX_LEN, Packet};

use super::region::Memory;
use super::ring::{Descriptor, NEXT, Ring};
use crate::shared::signal::Signal;
pub use crate::shared::watch::Source;

/// Bytes of an Ethernet header.
pub(crate) const SHORTEST: usize = 14;

/// An error of the other side that ends the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A position that cannot be.
    #[error("the position {theirs} is impossible: ours is {ours} of {size} slots")]
    Position {
        /// What it says.
        theirs: u16,
        /// Where we are.
        ours: u16,
        /// How many slots there are.
        size: u16,
    },
    /// A free buffer that is none.
    #[error("there is no buffer of {} bytes at {} of region {}", .0.len, .0.offset, .0.region)]
    Buffer(Descriptor),
}

/// Buffers of our own, one for each slot: we are the slave.
#[derive(Debug, Clone, Copy)]
pub struct Own {
    /// Where the first is, in region 0.
    pub start: u32,
    /// Bytes of each.
    pub size: u32,
}

impl Own {
    fn descriptor(self, slot: u16) -> Descriptor {
        Descriptor { flags: 0, region: 0, len: self.size, offset: self.start + u32::from(slot) * self.size }
    }
}

/// Both rings of a connection.
#[derive(Debug)]
pub struct Link {
    /// That by which packets are sent.
    pub tx: Sender,
    /// That by which packets are received.
    pub rx: Receiver,
    /// What the other side calls its interface.
    pub peer: String,
    /// Whether the other side is a slave that knows direct rings.
    pub knows_direct: bool,
}

/// The sender's side of a ring. All positions are those of the first slot that is not sent.
#[derive(Debug)]
pub struct Sender {
    ring: Ring,
    signal: Signal,
    own: Option<Own>,
    ours: u16,
    /// How far the other side was when it was last looked at.
    theirs: u16,
    /// By slot, the length of the packet that ends there, or 0.
    sent: Box<[u32]>,
}

impl Sender {
    /// `signal` is what the other side sleeps on.
    pub fn new(ring: Ring, signal: Signal, own: Option<Own>) -> Sender {
        let sent = vec![0; usize::from(ring.size())].into();
        let sender = Sender { ring, signal, own, ours: 0, theirs: 0, sent };
        if let Some(own) = own {
            (0..sender.ring.size()).for_each(|slot| sender.ring.set_descriptor(slot, own.descriptor(slot)));
        } else {
            sender.ring.set_tail(0);
        }
        sender
    }

    /// How many slots are free now.
    ///
    /// # Errors
    /// If the other side says what cannot be.
    pub fn free(&mut self) -> Result<u16, Fault> {
        let (theirs, free) = self.look();
        self.theirs = if free.is_some() { theirs } else { self.theirs };
        free.ok_or(Fault::Position { theirs, ours: self.ours, size: self.ring.size() })
    }

    /// Where the other side says that it is, and how many slots are free then, unless it cannot be there.
    fn look(&self) -> (u16, Option<u16>) {
        let (ours, size) = (self.ours, self.ring.size());
        if self.own.is_some() {
            let tail = self.ring.tail();
            (tail, size.checked_sub(ours.wrapping_sub(tail)))
        } else {
            let head = self.ring.head();
            (head, Some(head.wrapping_sub(ours)).filter(|&n| n <= size))
        }
    }

    /// Puts a packet into the free slots, and takes them from `free`; `false` if they are too few. The other side sees it after
    /// [`publish`](Sender::publish).
    ///
    /// # Errors
    /// If a buffer of the other side's is none.
    #[inline]
    pub fn put(&mut self, bytes: &[u8], free: &mut u16) -> Result<bool, Fault> {
        let (mut rest, mut used) = (bytes, 0);
        loop {
            if used == *free {
                return Ok(false);
            }
            let slot = self.ring.slot(self.ours.wrapping_add(used));
            let buffer = match self.own {
                Some(own) => own.descriptor(slot),
                None => self.ring.descriptor(slot),
            };
            let room = (buffer.len as usize).min(MAX_LEN);
            let to = self.ring.memory().place(buffer.region, buffer.offset, room).filter(|_| room > 0);
            let to = to.ok_or(Fault::Buffer(buffer))?;
            let (now, behind) = rest.split_at(rest.len().min(room));
            // SAFETY: the place has `room` bytes, and is no memory that Rust knows: nothing else of this process refers
            // to it.
            unsafe { std::ptr::copy_nonoverlapping(now.as_ptr(), to.as_ptr(), now.len()) };
            let flags = if behind.is_empty() { 0 } else { NEXT };
            self.ring.set_descriptor(slot, Descriptor { flags, len: now.len() as u32, ..buffer });
            used += 1;
            if behind.is_empty() {
                self.sent[usize::from(slot)] = bytes.len() as u32;
                self.ours = self.ours.wrapping_add(used);
                *free -= used;
                return Ok(true);
            }
            self.sent[usize::from(slot)] = 0;
            rest = behind;
        }
    }

    /// Whether a packet that did not fit so many free slots is one that never will. A master may keep none of the slots that a slave
    /// sends in; a slave may never give back all of its buffers, so half of them are to do.
    pub fn is_too_long(&self, free: u16) -> bool {
        let size = self.ring.size();
        free >= if self.own.is_some() { size } else { (size / 2).max(1) }
    }

    /// Shows the other side what was put in, and signals if it wants that; `false` if it cannot be signalled.
    pub fn publish(&self) -> bool {
        match self.own {
            Some(_) => self.ring.set_head(self.ours),
            None => self.ring.set_tail(self.ours),
        }
        // The receiver first says that it wants a signal, and then looks for packets; one of both sees the other.
        fence(Ordering::SeqCst);
        self.ring.is_quiet() || self.signal.send().is_ok()
    }

    /// What the other side is signalled by.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.signal.as_fd()
    }

    /// How many packets the other side has not taken, as far as it said, and their bytes.
    pub fn unread(&self) -> (u64, u64) {
        let (now, possible) = self.look();
        let theirs = if possible.is_some() { now } else { self.theirs };
        // The slave gives a buffer back when it has taken the packet.
        let taken = if self.own.is_some() { theirs } else { theirs.wrapping_sub(self.ring.size()) };
        let count = self.ours.wrapping_sub(taken).min(self.ring.size());
        let slots = (1..=count).map(|back| self.ring.slot(self.ours.wrapping_sub(back)));
        let lens = slots.map(|slot| u64::from(self.sent[usize::from(slot)])).filter(|&len| len > 0);
        lens.fold((0, 0), |(packets, bytes), len| (packets + 1, bytes + len))
    }
}

/// The receiver's side of a ring.
#[derive(Debug)]
pub struct Receiver {
    ring: Ring,
    signal: Signal,
    own: Option<Own>,
    /// Whether the other side has closed its end of what it signals by.
    alone: Cell<bool>,
    /// The first slot whose packet was not taken.
    ours: u16,
    parts: Vec<Descriptor>,
}

impl Receiver {
    /// `signal` is what we sleep on. A slave gives the other side buffers by [`give_buffers`](Receiver::give_buffers).
    pub fn new(ring: Ring, signal: Signal, own: Option<Own>) -> Receiver {
        let receiver = Receiver { ring, signal, own, alone: Cell::new(false), ours: 0, parts: Vec::new() };
        receiver.ring.set_quiet(true);
        if own.is_none() {
            receiver.ring.set_tail(0);
        }
        receiver
    }

    /// Gives the master all buffers, for the first time.
    pub fn give_buffers(&self) {
        if let Some(own) = self.own {
            let size = self.ring.size();
            (0..size).for_each(|slot| self.ring.set_descriptor(slot, own.descriptor(slot)));
            self.ring.set_head(self.ours.wrapping_add(size));
        }
    }

    /// Whether the sender has closed its end, as was seen when it was last looked for signals.
    pub fn is_alone(&self) -> bool {
        self.alone.get()
    }

    /// The buffer of a slot; `at` counts from the first whose packet was not taken.
    #[inline]
    fn buffer(&self, at: u16) -> Descriptor {
        let slot = self.ring.slot(self.ours.wrapping_add(at));
        let said = self.ring.descriptor(slot);
        match self.own {
            // Where our own buffers are, and how long, the other side cannot say.
            Some(own) if said.len <= own.size => {
                Descriptor { flags: said.flags, len: said.len, ..own.descriptor(slot) }
            }
            Some(own) => Descriptor { flags: said.flags, len: u32::MAX, ..own.descriptor(slot) },
            None => said,
        }
    }

    /// Collects the parts of a packet of several slots; gives how many.
    fn collect(&mut self, from: u16, filled: u16) -> u16 {
        self.parts.clear();
        for at in from..filled {
            let part = self.buffer(at);
            self.parts.push(part);
            if self.own.is_none() {
                // DPDK (22.11) never takes the flag off a slot where a packet once began that went on in the next. Nothing
                // else comes of it: the slot is ours until it is given back.
                let slot = self.ring.slot(self.ours.wrapping_add(at));
                self.ring.set_descriptor(slot, Descriptor { flags: 0, ..part });
            }
            if part.flags & NEXT == 0 {
                break;
            }
        }
        self.parts.len() as u16
    }

    /// The packet of the parts; `None` if it is none.
    fn join(&self) -> Option<Packet> {
        let whole = self.parts.last().is_some_and(|last| last.flags & NEXT == 0);
        let len: u64 = self.parts.iter().map(|part| u64::from(part.len)).sum();
        let len = usize::try_from(len).ok().filter(|len| whole && (SHORTEST..=MAX_LEN).contains(len))?;
        let mut packet = Packet::with_capacity(len).ok()?;
        packet.put(len as u32).ok()?;
        let mut to = packet.bytes_mut();
        for part in &self.parts {
            let len = part.len as usize;
            let start = self.ring.memory().place(part.region, part.offset, len)?;
            let (now, behind) = to.split_at_mut(len);
            // SAFETY: so many bytes are mapped there, and the packet, which is not mapped, has as many.
            unsafe { std::ptr::copy_nonoverlapping(start.as_ptr(), now.as_mut_ptr(), len) };
            to = behind;
        }
        Some(packet)
    }

    /// Gives the buffers of so many slots back.
    fn give_back(&mut self, count: u16) {
        if count == 0 {
            return;
        }
        let after = self.ours.wrapping_add(count);
        match self.own {
            Some(own) => {
                for at in 0..count {
                    let slot = self.ring.slot(self.ours.wrapping_add(at));
                    self.ring.set_descriptor(slot, own.descriptor(slot));
                }
                self.ring.set_head(after.wrapping_add(self.ring.size()));
            }
            None => self.ring.set_tail(after),
        }
        self.ours = after;
    }
}

impl Source for Receiver {
    type Fault = Fault;

    fn fd(&self) -> BorrowedFd<'_> {
        self.signal.as_fd()
    }

    fn clear_signals(&self) {
        if self.signal.clear() {
            self.alone.set(true);
        }
    }

    fn want_signals(&self, wanted: bool) {
        self.ring.set_quiet(!wanted);
        fence(Ordering::SeqCst);
    }

    #[inline]
    fn filled(&self) -> Result<u16, Fault> {
        let (ours, size) = (self.ours, self.ring.size());
        let theirs = if self.own.is_some() { self.ring.tail() } else { self.ring.head() };
        let filled = Some(theirs.wrapping_sub(ours)).filter(|&n| n <= size);
        filled.ok_or(Fault::Position { theirs, ours, size })
    }

    /// What is no packet is too short for Ethernet, too long, not within its memory, or without an end.
    fn take(&mut self, out: &mut Vec<Packet>, max: usize) -> Result<u64, Fault> {
        let filled = self.filled()?;
        let (before, mut at, mut malformed) = (out.len(), 0, 0);
        while at < filled && out.len() - before < max {
            let (mut frames, mut count) = ([&[][..]; Buffers::MOST], 0);
            let room = Buffers::MOST.min(max - (out.len() - before));
            let mut chain = false;
            while at < filled && count < room && !chain {
                let buffer = self.buffer(at);
                chain = buffer.flags & NEXT != 0;
                if chain {
                    break;
                }
                at += 1;
                let len = buffer.len as usize;
                match self.ring.memory().place(buffer.region, buffer.offset, len) {
                    Some(start) if (SHORTEST..=MAX_LEN).contains(&len) => {
                        // SAFETY: so many bytes are mapped there. The other side may change them while they are copied,
                        // which is all that is done with them: what the copy holds is the packet.
                        frames[count] = unsafe { std::slice::from_raw_parts(start.as_ptr(), len) };
                        count += 1;
                    }
                    _ => malformed += 1,
                }
            }
            // None is too long for a packet.
            let _ = Packet::from_frames(&frames[..count], out);
            if chain {
                at += self.collect(at, filled);
                match self.join() {
                    Some(packet) => out.push(packet),
                    None => malformed += 1,
                }
            }
        }
        self.give_back(at);
        Ok(malformed)
    }
}

/// The memory of a slave: two rings, and a buffer for each slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Logarithm of the size of the rings.
    pub log2_size: u8,
    /// Where the rings to the master and from it begin.
    pub rings: [u32; 2],
    /// Where the buffers of each begin.
    pub buffers: [u32; 2],
    /// Bytes of a buffer.
    pub buffer: u32,
    /// Bytes of all.
    pub bytes: usize,
}

impl Layout {
    /// With rings of this size and buffers of so many bytes, which is at most 64 KB.
    pub fn new(log2_size: u8, buffer: u16) -> Layout {
        // Rings and buffers begin with cache lines. The largest ring with the largest buffers has 2 GB.
        let (ring, buffer) = (Ring::bytes(log2_size).next_multiple_of(64) as u32, u32::from(buffer));
        let all = buffer << log2_size;
        let buffers = [2 * ring, 2 * ring + all];
        Layout { log2_size, rings: [0, ring], buffers, buffer, bytes: buffers[1] as usize + all as usize }
    }

    /// Buffers of the rings to the master and from it.
    pub fn own(&self) -> [Own; 2] {
        self.buffers.map(|start| Own { start, size: self.buffer })
    }

    /// Memory for it.
    ///
    /// # Errors
    /// If there is none.
    pub fn make(&self) -> std::io::Result<(Memory, OwnedFd)> {
        Memory::make(self.bytes)
    }
}
