//! How whoever sleeps on a port is woken: by signals of the peer, which are asked for only when there is nothing to take, and
//! by the thread that keeps the connection, when something about it changed.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use weir_packet::{Packet, PacketType, entry};

use super::signal;
use crate::PortStats;

/// How many times a port is asked for packets in vain before it looks whether a signal was left over.
const IN_VAIN: u32 = 16;

/// Notifies a port that something about its connection has changed.
#[derive(Debug)]
pub struct Changes {
    /// Counts the changes.
    version: AtomicU32,
    /// Readable when there is a change.
    changed: OwnedFd,
}

impl Changes {
    /// None yet.
    ///
    /// # Errors
    /// If there are no descriptors left.
    pub fn new() -> io::Result<Changes> {
        Ok(Changes { version: AtomicU32::new(0), changed: signal::eventfd()? })
    }

    /// Says that there is a change, after it was made.
    pub fn notify(&self) {
        self.version.fetch_add(1, Ordering::Release);
        self.make_readable();
    }

    /// A number that grows with each change.
    #[inline]
    pub fn version(&self) -> u32 {
        self.version.load(Ordering::Acquire)
    }

    /// Makes the descriptor readable, and so ends the sleep of who watches it.
    pub fn make_readable(&self) {
        // It stays in this process: nobody makes it wait.
        let _ = nix::unistd::write(&self.changed, &1_u64.to_ne_bytes());
    }

    /// What is readable when there are changes.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.changed.as_fd()
    }
}

/// A ring from which packets are taken, whose peer can signal that there are some.
pub trait Source {
    /// An error of the peer that ends the connection.
    type Fault;

    /// Appends at most `max` packets to `out`. Returns how many were no packets.
    fn take(&mut self, out: &mut Vec<Packet>, max: usize) -> Result<u64, Self::Fault>;

    /// How many slots hold packets.
    fn filled(&self) -> Result<u16, Self::Fault>;

    /// Whether the last `take` ended before its time, with some left.
    fn is_cut(&self) -> bool {
        false
    }

    /// Says whether signals are wanted. Who wants them looks for packets after this.
    fn want_signals(&self, wanted: bool);

    /// What is readable when the peer has signalled.
    fn fd(&self) -> BorrowedFd<'_>;

    /// Makes it unreadable.
    fn clear_signals(&self) {
        signal::clear(self.fd());
    }
}

/// A port's knowledge of who sleeps on it.
#[derive(Debug, Default)]
pub struct Watch {
    /// The version of the changes that is known.
    pub version: u32,
    /// Whether someone sleeps on the port.
    pub watched: bool,
    /// Whether we made the descriptor of changes readable ourselves.
    pub readable: bool,
    /// Whether the peer was asked for signals, and may have sent some.
    asked: bool,
    /// How often there was nothing since it was asked.
    in_vain: u32,
}

impl Watch {
    /// Whether there are changes that were not looked at. They are known from here on.
    #[inline]
    pub fn is_behind(&mut self, changes: &Changes) -> bool {
        let version = changes.version();
        version != std::mem::replace(&mut self.version, version)
    }

    /// Another peer, or another ring, takes the place of the one before.
    pub fn begin_again(&mut self) {
        self.asked = false;
    }

    /// Someone sleeps on the port from now on: it is readable if there is something already.
    pub fn start<S: Source>(&mut self, changes: &Changes, source: Option<&S>, over: bool) {
        if std::mem::replace(&mut self.watched, true) {
            return;
        }
        signal::clear(changes.fd());
        self.readable = over || changes.version() != self.version;
        if let Some(source) = source {
            // What was signalled before is looked for here.
            source.clear_signals();
            source.want_signals(true);
            (self.asked, self.in_vain) = (true, 0);
            // What makes no sense is found by who takes it.
            self.readable |= !matches!(source.filled(), Ok(0));
        }
        if self.readable {
            changes.make_readable();
        }
    }

    /// Takes packets, and sees to it that the port is readable while there are more and someone sleeps on it. `over`: the peer
    /// is gone and signals no more. Returns how many were no packets.
    ///
    /// # Errors
    /// What the peer did.
    pub fn take<S: Source>(
        &mut self,
        source: &mut S,
        changes: &Changes,
        over: bool,
        out: &mut Vec<Packet>,
        max: usize,
    ) -> Result<u64, S::Fault> {
        let (before, mut malformed) = (out.len(), 0);
        loop {
            let round = out.len();
            let space = max - (round - before);
            malformed += source.take(out, space)?;
            if !self.watched || over {
                return Ok(malformed);
            }
            let n = out.len() - before;
            if (n == max || source.is_cut()) && source.filled()? > 0 {
                // No signals while there is more: we notify whoever watches ourselves.
                if self.asked {
                    source.want_signals(false);
                    source.clear_signals();
                    self.asked = false;
                }
                if !self.readable {
                    changes.make_readable();
                    self.readable = true;
                }
                return Ok(malformed);
            }
            if self.readable {
                self.make_unreadable(changes);
            }
            if self.asked {
                self.in_vain += 1;
                // Only what this round took counts: a peer may fill the ring with what is no packet as fast as it is emptied.
                if out.len() > round || self.in_vain >= IN_VAIN {
                    source.clear_signals();
                    if self.in_vain >= IN_VAIN {
                        self.make_unreadable(changes);
                    }
                    self.in_vain = 0;
                    // Those that were signalled just before that.
                    if source.filled()? > 0 {
                        continue;
                    }
                }
                return Ok(malformed);
            }
            source.want_signals(true);
            (self.asked, self.in_vain) = (true, 0);
            if source.filled()? == 0 {
                return Ok(malformed);
            }
        }
    }

    /// Makes the descriptor of changes unreadable, unless there are some beyond those that are known. They may come at any moment:
    /// it is looked for them behind that.
    pub fn make_unreadable(&mut self, changes: &Changes) {
        signal::clear(changes.fd());
        self.readable = changes.version() != self.version;
        if self.readable {
            changes.make_readable();
        }
    }
}

/// Completes packets that have just come, and counts them.
pub fn arrived(packets: &mut [Packet], stats: &mut PortStats) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |t| t.as_nanos() as u64);
    for p in packets {
        p.timestamp = now;
        p.packet_type = packet_type(p.bytes()) as u8;
        entry::DEVICE.mark(p, None);
        stats.received(p.len());
    }
}

/// To whom a frame is addressed: the port has no address of its own.
fn packet_type(frame: &[u8]) -> PacketType {
    match frame.get(..6) {
        Some([0xff, 0xff, 0xff, 0xff, 0xff, 0xff]) => PacketType::Broadcast,
        Some([first, ..]) if first & 1 != 0 => PacketType::Multicast,
        _ => PacketType::Host,
    }
}
