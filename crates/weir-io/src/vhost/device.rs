//! The device: what the front end has said of its memory and its rings, and those rings that run. It knows no sockets and no
//! threads.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::memory::{self, Memory};
use super::net::{self, Receiver, Scratch, Sender, Side};
use super::options::Options;
use super::ring::{Addresses, NoRing, Ring};
use crate::shared::signal;

/// The ring by which the driver receives, and that by which it sends.
pub const TO_DRIVER: usize = 0;
/// As above.
pub const FROM_DRIVER: usize = 1;

/// The front end knows protocol features, and enables rings (`VHOST_USER_F_PROTOCOL_FEATURES`).
const PROTOCOL: u64 = 1 << 30;
/// Chains may have a table of their own (`VIRTIO_F_INDIRECT_DESC`).
const INDIRECT: u64 = 1 << 28;
/// All features that are offered.
pub const FEATURES: u64 = net::OFFERED | PROTOCOL | INDIRECT;

/// A message of a front end that ends the connection.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// Features that were not offered.
    #[error("it takes features that were not offered: {0:#x}")]
    Features(u64),
    /// A number of a ring that is not there.
    #[error("there is no ring {0}: one for each direction, 0 and 1")]
    Number(u32),
    /// A size that no ring has.
    #[error("ring {ring} has {size} descriptors; it is a power of two up to {most} (queue=…)")]
    Size {
        /// Which one.
        ring: usize,
        /// Its size.
        size: u32,
        /// Most that it may have.
        most: u16,
    },
    /// A position that no ring has.
    #[error("ring {ring} begins at {position}, which is none of its positions")]
    Position {
        /// Which one.
        ring: usize,
        /// What was said.
        position: u32,
    },
    /// Something that cannot change while a ring runs.
    #[error("ring {0} runs: its size and position cannot change")]
    Running(usize),
    /// More often than anybody has a reason to.
    #[error("its rings stop and start all the time")]
    Restless,
    /// It would have to be polled.
    #[error("ring {0} comes without an eventfd by which the driver signals")]
    NoSignal(usize),
    /// No eventfd.
    #[error("ring {ring} comes with a descriptor that cannot be signalled: {source}")]
    Signal {
        /// Which one.
        ring: usize,
        /// Why not.
        source: io::Error,
    },
    /// The memory cannot be taken.
    #[error(transparent)]
    Memory(#[from] memory::Refused),
    /// There is no ring where it is said to be.
    #[error("ring {ring} is none: {source}")]
    Ring {
        /// Which one.
        ring: usize,
        /// Why not.
        source: NoRing,
    },
}

/// An eventfd of a driver. To use it never waits.
#[derive(Debug)]
pub struct Signal(OwnedFd);

impl Signal {
    /// What the driver signals a ring by; there has to be one.
    ///
    /// # Errors
    /// If it is no eventfd, or counts down by one for each time that it is read.
    pub fn of_driver(index: u32, fd: Option<OwnedFd>) -> Result<Signal, Refused> {
        let ring = number(index)?;
        let fd = fd.ok_or(Refused::NoSignal(ring))?;
        // Whatever it is, this does not wait; nothing else is done with what is no eventfd.
        let wrong = |source| Refused::Signal { ring, source };
        if signal::is_semaphore(fd.as_fd()).map_err(wrong)? {
            // One signal of such a file would be as many as it likes.
            return Err(wrong(io::Error::new(io::ErrorKind::InvalidInput, "it is a semaphore")));
        }
        Ok(Signal(fd))
    }

    /// What we signal the driver by, if it wants that.
    ///
    /// # Errors
    /// If it is no eventfd.
    pub fn to_driver(index: u32, fd: Option<OwnedFd>) -> Result<Option<Signal>, Refused> {
        let ring = number(index)?;
        let Some(fd) = fd else { return Ok(None) };
        signal::send(fd.as_fd()).map_err(|source| Refused::Signal { ring, source })?;
        Ok(Some(Signal(fd)))
    }
}

impl AsFd for Signal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The state of a ring.
#[derive(Debug, Default)]
struct Queue {
    size: u16,
    addresses: Option<Addresses>,
    /// Where it begins.
    position: u16,
    enabled: bool,
    /// What the driver signals.
    kick: Option<Signal>,
    /// What we signal.
    call: Option<Signal>,
    /// If it runs.
    ring: Option<Ring>,
}

/// A device as a front end has set it up.
#[derive(Debug)]
pub struct Device {
    features: u64,
    memory: Option<Memory>,
    queues: [Queue; 2],
    scratch: Scratch,
    most: u16,
    /// Whether the front end is gone, and only what it sent is still to be taken.
    pub over: bool,
    /// Whether its driver wrote nonsense, so that nothing more is taken or sent.
    pub broken: bool,
}

impl Device {
    /// Nothing is set up yet.
    pub fn new(options: &Options) -> Device {
        Device::with(options.queue)
    }

    fn with(most: u16) -> Device {
        Device {
            features: 0,
            memory: None,
            queues: <[Queue; 2]>::default(),
            scratch: Scratch::default(),
            most,
            over: false,
            broken: false,
        }
    }

    /// Sets everything back. Gives what it was, to be dropped where that may take its time.
    pub fn reset(&mut self) -> Device {
        std::mem::replace(self, Device::with(self.most))
    }

    /// What the driver signals when it has sent.
    pub fn kick(&self) -> Option<&Signal> {
        self.queues[FROM_DRIVER].kick.as_ref()
    }

    /// Whether packets pass in both directions.
    pub fn is_up(&self) -> bool {
        !self.over && self.runs(TO_DRIVER) && self.runs(FROM_DRIVER)
    }

    fn runs(&self, index: usize) -> bool {
        let queue = &self.queues[index];
        // Who knows nothing of enabling has enabled all.
        queue.ring.is_some() && !self.broken && (queue.enabled || self.features & PROTOCOL == 0)
    }

    /// Whether any ring was started.
    pub fn is_started(&self) -> bool {
        self.queues.iter().any(|queue| queue.ring.is_some())
    }

    /// What both sides have agreed on.
    ///
    /// # Errors
    /// If that was not offered.
    pub fn set_features(&mut self, features: u64) -> Result<(), Refused> {
        match features & !FEATURES {
            0 => {
                self.features = features;
                Ok(())
            }
            more => Err(Refused::Features(more)),
        }
    }

    /// All memory that is shared. Gives what it was before.
    ///
    /// # Errors
    /// If a ring that runs is not in it.
    pub fn set_memory(&mut self, memory: Memory) -> Result<Option<Memory>, Refused> {
        let old = self.memory.replace(memory);
        for index in [TO_DRIVER, FROM_DRIVER] {
            if let Some(ring) = self.queues[index].ring.take() {
                self.queues[index].position = ring.position();
            }
            self.start(index)?;
        }
        Ok(old)
    }

    /// The size of a ring.
    ///
    /// # Errors
    /// If it is none, or the ring runs.
    pub fn set_size(&mut self, index: u32, size: u32) -> Result<(), Refused> {
        let most = self.most;
        let (ring, queue) = self.resting(index)?;
        let known = u16::try_from(size).ok().filter(|n| n.is_power_of_two() && *n <= most);
        queue.size = known.ok_or(Refused::Size { ring, size, most })?;
        Ok(())
    }

    /// Where a ring begins.
    ///
    /// # Errors
    /// If it is no position, or the ring runs.
    pub fn set_position(&mut self, index: u32, position: u32) -> Result<(), Refused> {
        let (ring, queue) = self.resting(index)?;
        queue.position = u16::try_from(position).map_err(|_| Refused::Position { ring, position })?;
        Ok(())
    }

    /// Where a ring is.
    ///
    /// # Errors
    /// If there is none.
    pub fn set_addresses(&mut self, index: u32, addresses: Addresses) -> Result<(), Refused> {
        let ring = number(index)?;
        let queue = &mut self.queues[ring];
        queue.addresses = Some(addresses);
        if let Some(ring) = queue.ring.take() {
            queue.position = ring.position();
        }
        self.start(ring)
    }

    /// What the driver signals; the ring runs from here on. Gives what it was before.
    ///
    /// # Errors
    /// If there is no ring where it was said to be.
    pub fn set_kick(&mut self, index: u32, signal: Signal) -> Result<Option<Signal>, Refused> {
        let ring = number(index)?;
        let old = self.queues[ring].kick.replace(signal);
        self.start(ring)?;
        Ok(old)
    }

    /// What we signal, if the driver wants that. Gives what it was before.
    ///
    /// # Errors
    /// If there is none.
    pub fn set_call(&mut self, index: u32, signal: Option<Signal>) -> Result<Option<Signal>, Refused> {
        Ok(std::mem::replace(&mut self.queues[number(index)?].call, signal))
    }

    /// Whether packets may pass in a ring that runs.
    ///
    /// # Errors
    /// If there is none.
    pub fn set_enabled(&mut self, index: u32, enabled: bool) -> Result<(), Refused> {
        self.queues[number(index)?].enabled = enabled;
        Ok(())
    }

    /// Stops a ring; gives its position, and what it was signalled by.
    ///
    /// # Errors
    /// If there is none.
    pub fn stop(&mut self, index: u32) -> Result<(u16, [Option<Signal>; 2]), Refused> {
        let queue = &mut self.queues[number(index)?];
        if let Some(ring) = queue.ring.take() {
            queue.position = ring.position();
        }
        Ok((queue.position, [queue.kick.take(), queue.call.take()]))
    }

    fn resting(&mut self, index: u32) -> Result<(usize, &mut Queue), Refused> {
        let ring = number(index)?;
        let queue = &mut self.queues[ring];
        if queue.ring.is_some() { Err(Refused::Running(ring)) } else { Ok((ring, queue)) }
    }

    /// Starts a ring, if everything is there.
    fn start(&mut self, index: usize) -> Result<(), Refused> {
        let Queue { size, addresses, position, ref kick, ref ring, .. } = self.queues[index];
        let (Some(memory), Some(addresses), Some(_), None, 1..) = (&self.memory, addresses, kick, ring, size)
        else {
            return Ok(());
        };
        let ring = Ring::at(memory, size, addresses, position);
        self.queues[index].ring = Some(ring.map_err(|source| Refused::Ring { ring: index, source })?);
        Ok(())
    }

    /// The ring by which the driver sends, while packets pass.
    #[inline]
    pub fn receiver(&mut self) -> Option<Receiver<'_>> {
        if !self.runs(FROM_DRIVER) {
            return None;
        }
        let (features, memory, scratch) = (self.features, self.memory.as_ref()?, &mut self.scratch);
        let Queue { ring, kick, call, .. } = &mut self.queues[FROM_DRIVER];
        let (ring, call) = (ring.as_mut()?, call.as_ref());
        let side = Side { ring, memory, call, features, scratch };
        Some(Receiver { side, kick: kick.as_ref()?.as_fd(), cut: false })
    }

    /// The ring by which the driver receives, while packets pass.
    #[inline]
    pub fn sender(&mut self) -> Option<Sender<'_>> {
        if !self.runs(TO_DRIVER) || self.over {
            return None;
        }
        let (features, memory, scratch) = (self.features, self.memory.as_ref()?, &mut self.scratch);
        let Queue { ring, call, .. } = &mut self.queues[TO_DRIVER];
        let (ring, call) = (ring.as_mut()?, call.as_ref());
        Some(Sender::new(Side { ring, memory, call, features, scratch }))
    }
}

fn number(index: u32) -> Result<usize, Refused> {
    match index {
        0 | 1 => Ok(index as usize),
        _ => Err(Refused::Number(index)),
    }
}
