//! Ports on shared memory: **memif**, VPP's packet interface between two processes (version 2.0), which DPDK speaks too
//! (`net_memif`).
//!
//! Two sides have one memory with a ring for each direction, and exchange by a Unix socket where it is. The *master*
//! listens on the socket; the *slave* connects, makes the memory and gives it away. Frames begin with an Ethernet header and
//! are copied once by each side. While both are busy there are no system calls; who is about to sleep asks for signals.
//!
//! The other side is not trusted. It may write anything into the memory, at any moment, and send any message: what it says
//! is read once and checked; a packet that is none is skipped and counted, and what makes no sense of a whole ring ends the
//! connection, with a reason that both sides get. It can harm neither the memory nor the time of this process
//! (`docs/decisions/0016-memif.md`).
//!
//! A port outlives its peer: it says once that it has none ([`PortError::NoPeer`]), and goes on by itself with the next.
//! Packets that the peer had not taken when it went away are counted as not sent.

mod control;
pub mod direct;
pub mod handshake;
mod joined;
pub mod link;
pub mod message;
mod options;
mod region;
mod ring;
mod socket;

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use weir_packet::Packet;

use crate::shared::signal;
use crate::shared::watch::{Source, Watch, arrived};
use crate::{Lost, Port, PortError, PortStats, offload};
use control::{Keeper, Shared};
use direct::{OfMaster, OfSlave, SendEnd};
use link::{Fault, Link, SHORTEST, Sender};

pub use crate::shared::SocketAddress;
pub use options::{Options, PREFIX, Role};

/// How long the end of a port waits for that of its thread, which a peer may keep waiting.
const FAREWELL: Duration = Duration::from_millis(100);

/// A port on shared memory.
#[derive(Debug)]
pub struct MemifPort {
    name: String,
    method: String,
    options: Options,
    shared: Arc<Shared>,
    /// Ends with the thread.
    ended: Receiver<()>,
    link: Option<Link>,
    /// The number of the connection.
    epoch: u64,
    /// Direct rings, as slave.
    slave: OfSlave,
    /// Those of the slave, as master.
    master: OfMaster,
    /// Whether the peer is gone, and only what it sent is still to be taken.
    over: bool,
    /// Whether it was reported that there is no peer.
    reported: bool,
    /// Readable when there are changes, or the peer has signalled.
    ready: Epoll,
    /// Who sleeps on that.
    watch: Watch,
    stats: PortStats,
}

impl MemifPort {
    /// Opens a port. A master listens from here on; a slave connects as soon as it can.
    ///
    /// # Errors
    /// [`PortError::Busy`] if another process listens on the socket, and if the kernel refuses something.
    pub fn open(options: &Options) -> Result<MemifPort, PortError> {
        let name = options.to_string();
        let failed = |action: &'static str| {
            let name = name.clone();
            move |source: std::io::Error| match source.kind() {
                std::io::ErrorKind::AddrInUse => PortError::Busy { name, what: "the socket".to_owned() },
                _ => PortError::Os { name, action, source },
            }
        };
        let shared = Arc::new(Shared::new().map_err(failed("make an eventfd"))?);
        let keeper = Keeper::new(options, shared.clone()).map_err(failed("listen on its socket"))?;
        // What has to work later, when it would be too late to say so.
        signal::send(shared.changes.fd()).map_err(failed("send signals (fs.aio-max-nr)"))?;
        let ready = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)
            .map_err(|e| failed("make an epoll instance")(e.into()))?;
        ready
            .add(shared.changes.fd(), EpollEvent::new(EpollFlags::EPOLLIN, 0))
            .map_err(|e| failed("watch an eventfd")(e.into()))?;
        let (ends, ended) = channel::<()>();
        thread::Builder::new()
            .name("weir-memif".to_owned())
            .spawn(move || {
                keeper.run();
                drop(ends);
            })
            .map_err(failed("start a thread"))?;
        let side = match options.role {
            Role::Master => "master",
            Role::Slave => "slave",
        };
        Ok(MemifPort {
            method: format!("memif ({side})"),
            name,
            options: options.clone(),
            shared,
            ended,
            link: None,
            epoch: 0,
            slave: OfSlave::default(),
            master: OfMaster::default(),
            over: false,
            reported: false,
            ready,
            watch: Watch::default(),
            stats: PortStats::default(),
        })
    }

    /// Takes note of a peer that came or went.
    #[cold]
    fn look(&mut self) {
        self.watch.readable = true;
        let changes = self.shared.standing();
        // What a peer has left is received, until another one is there.
        if self.link.is_some() && (changes.link.is_some() || !changes.up) {
            self.over = true;
            self.leave_direct();
        }
        if let Some(link) = changes.link {
            self.drop_link();
            if let Err(e) = self.ready.add(link.rx.fd(), EpollEvent::new(EpollFlags::EPOLLIN, 1)) {
                // Nobody would be woken by its packets.
                self.shared.complain(format!("its signals cannot be watched: {e}"));
                return;
            }
            self.master = OfMaster { known: link.knows_direct, ..OfMaster::default() };
            (self.link, self.over, self.reported) = (Some(link), !changes.up, false);
            self.epoch = changes.epoch;
            self.watch.begin_again();
        }
        self.master.reports = changes.reports;
        for order in changes.orders {
            self.obey(order);
        }
        // Orders of a peer that is gone hold no longer, also if they came with its end.
        if self.over || self.link.is_none() {
            self.leave_direct();
        }
    }

    /// Gives up the rings, and counts what the peer has not taken.
    fn drop_link(&mut self) {
        let Some(link) = self.link.take() else { return };
        let _ = self.ready.delete(link.rx.fd());
        let (packets, bytes) = link.tx.unread();
        self.stats.tx_packets = self.stats.tx_packets.saturating_sub(packets);
        self.stats.tx_bytes = self.stats.tx_bytes.saturating_sub(bytes);
        self.stats.tx_errors.down += packets;
        self.over = false;
    }

    /// Ends the connection for what the peer wrote.
    #[cold]
    fn complain(&mut self, what: &'static str, fault: Fault) {
        // One that is gone already may have a successor, which has done nothing.
        if !self.over {
            self.shared.complain(format!("in the ring {what}, {fault}"));
        }
        self.drop_link();
    }

    fn no_peer(&self) -> PortError {
        PortError::NoPeer { name: self.name.clone(), why: self.shared.why() }
    }

    /// Takes packets.
    fn take(&mut self, out: &mut Vec<Packet>, max: usize) -> Result<(), Fault> {
        let Some(link) = &mut self.link else { return Ok(()) };
        self.stats.rx_malformed +=
            self.watch.take(&mut link.rx, &self.shared.changes, self.over, out, max)?;
        Ok(())
    }
}

/// Puts packets from the front of a batch into a ring; returns how many went, and whether the other side could be signalled.
fn put(batch: &mut Vec<Packet>, tx: &mut Sender, stats: &mut PortStats) -> Result<(usize, bool), Fault> {
    let (mut n, mut result) = (0, Ok(()));
    let mut free = tx.free()?;
    while n < batch.len() {
        if offload::finish(batch, n).is_err() {
            batch.remove(n);
            stats.tx_errors.offload += 1;
            continue;
        }
        let bytes = batch[n].bytes();
        if bytes.len() < SHORTEST {
            batch.remove(n);
            stats.tx_errors.refused += 1;
            continue;
        }
        match tx.put(bytes, &mut free) {
            Ok(true) => {
                stats.sent(bytes.len());
                n += 1;
            }
            Ok(false) if tx.is_too_long(free) => {
                batch.remove(n);
                stats.tx_errors.too_long += 1;
            }
            Ok(false) => break,
            Err(fault) => {
                result = Err(fault);
                break;
            }
        }
    }
    let signalled = n == 0 || tx.publish();
    if n == batch.len() {
        Packet::free(batch);
    } else {
        batch.drain(..n);
    }
    result.map(|()| (n, signalled))
}

impl Port for MemifPort {
    fn name(&self) -> &str {
        &self.name
    }

    fn receive(&mut self, out: &mut Vec<Packet>, max: usize) -> Result<usize, PortError> {
        if self.watch.is_behind(&self.shared.changes) {
            self.look();
        }
        if self.master.held && !self.over {
            if self.watch.readable {
                self.watch.make_unreadable(&self.shared.changes);
            }
            // Its ring is looked at when it is no longer held; until then its signals wake nobody.
            if let Some(link) = &self.link {
                link.rx.clear_signals();
            }
            return Ok(0);
        }
        let before = out.len();
        if let Err(fault) = self.take(out, max) {
            self.complain("from the peer", fault);
        }
        let n = out.len() - before;
        if n < max {
            self.master.is_empty();
        }
        if n == 0 && self.slave.out.as_mut().is_some_and(SendEnd::is_found_alone) {
            self.send_no_more();
        }
        if n < max && self.slave.into.is_some() {
            self.take_direct(out, max - n);
        }
        let n = out.len() - before;
        if n > 0 {
            arrived(&mut out[before..], &mut self.stats);
            return Ok(n);
        }
        if max == 0 {
            return Ok(0);
        }
        if self.over {
            self.drop_link();
        }
        if self.link.is_some() {
            return Ok(0);
        }
        // Nothing comes before there are changes.
        self.watch.make_unreadable(&self.shared.changes);
        if std::mem::replace(&mut self.reported, true) {
            return Ok(0);
        }
        Err(self.no_peer())
    }

    fn send(&mut self, batch: &mut Vec<Packet>) -> Result<usize, PortError> {
        if self.watch.is_behind(&self.shared.changes) {
            self.look();
        }
        if self.link.is_none() || self.over {
            return if batch.is_empty() { Ok(0) } else { Err(self.no_peer()) };
        }
        if self.slave.out.is_some()
            && let Some(n) = self.send_direct(batch)
        {
            return Ok(n);
        }
        let Some(link) = &mut self.link else { return Ok(0) };
        match put(batch, &mut link.tx, &mut self.stats) {
            Ok((n, _)) => Ok(n),
            Err(fault) => {
                self.complain("to the peer", fault);
                Err(self.no_peer())
            }
        }
    }

    fn as_memif(&mut self) -> Option<&mut MemifPort> {
        Some(self)
    }

    /// Those in a direct ring are for another function, and not counted.
    fn unread(&self) -> Option<u64> {
        Some(self.link.as_ref().filter(|_| !self.over).map_or(0, |link| link.tx.unread().0))
    }

    fn fd(&mut self) -> Option<BorrowedFd<'_>> {
        let source = self.link.as_ref().map(|link| &link.rx);
        self.watch.start(&self.shared.changes, source, self.over);
        Some(self.ready.0.as_fd())
    }

    fn is_up(&self) -> Option<bool> {
        Some(self.link.is_some() && !self.over)
    }

    fn stats(&mut self) -> PortStats {
        self.stats
    }

    fn lost(&self) -> Lost {
        self.stats.lost()
    }

    fn method(&self) -> &str {
        &self.method
    }
}

impl Drop for MemifPort {
    fn drop(&mut self) {
        // While somebody listens there, nobody else takes it over.
        if let (Role::Master, SocketAddress::Path(path)) = (self.options.role, &self.options.socket) {
            // It may be gone already.
            let _ = std::fs::remove_file(path);
        }
        self.shared.stop();
        // It ends when it can.
        let _ = self.ended.recv_timeout(FAREWELL);
    }
}
