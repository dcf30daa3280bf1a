//! Ports to virtual machines and to programs that bring a network driver of their own: **vhost-user**, as QEMU and DPDK's
//! `virtio_user` speak it.
//!
//! The other side has a network card, as it seems to it (virtio 1.2 section 5.1): its *driver* puts buffers into two rings in its
//! own memory, one for each direction, and a program beside it, the *front end*, says by a Unix socket where memory and rings
//! are. The port is the device, the *back end*: it copies frames out of that memory and into it. While both are busy there are no
//! system calls; who is about to sleep asks for signals.
//!
//! The other side is not trusted. It may write anything into the memory, at any moment, and send any message: what it says
//! is read once and checked; a packet that is none is skipped and counted, and what makes no sense of a whole ring ends the
//! connection, with a reason. It can harm neither the memory nor the time of this process
//! (`docs/decisions/0020-vhost-user.md`).
//!
//! A port outlives its front end: it says once that it has none, or that the driver has stopped ([`PortError::NoPeer`]), and goes
//! on by itself.

pub mod backend;
mod control;
pub mod device;
pub mod memory;
pub mod net;
mod options;
pub mod ring;

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use weir_packet::Packet;

use crate::shared::signal;
use crate::shared::watch::{Watch, arrived};
use crate::{Lost, Port, PortError, PortStats};
use control::{Keeper, Shared};
use net::{Put, SHORTEST, Sender};
use ring::Fault;

pub use crate::shared::SocketAddress;
pub use crate::shared::watch::Source;
pub use options::{Options, PREFIX, Role};

/// How long the end of a port waits for that of its thread, which a front end may keep waiting.
const FAREWELL: Duration = Duration::from_millis(100);

/// A port to a virtual machine, or to a program with a driver of its own.
#[derive(Debug)]
pub struct VhostPort {
    name: String,
    method: String,
    options: Options,
    shared: Arc<Shared>,
    /// Ends with the thread.
    ended: Receiver<()>,
    /// Whether packets passed in both directions when it was last looked.
    up: bool,
    /// Whether it was reported that there is no peer.
    reported: bool,
    watch: Watch,
    stats: PortStats,
}

impl VhostPort {
    /// Opens a port. A server listens from here on; a client connects as soon as it can.
    ///
    /// # Errors
    /// [`PortError::Busy`] if another process listens on the socket, and if the kernel refuses something.
    pub fn open(options: &Options) -> Result<VhostPort, PortError> {
        let name = options.to_string();
        let failed = |action: &'static str| {
            let name = name.clone();
            move |source: std::io::Error| match source.kind() {
                std::io::ErrorKind::AddrInUse => PortError::Busy { name, what: "the socket".to_owned() },
                _ => PortError::Os { name, action, source },
            }
        };
        let shared = Arc::new(Shared::new(options).map_err(failed("make an eventfd"))?);
        let keeper = Keeper::new(options, shared.clone()).map_err(failed("listen on its socket"))?;
        // What has to work later, when it would be too late to say so.
        signal::send(shared.changes.fd()).map_err(failed("send signals (fs.aio-max-nr)"))?;
        let (ends, ended) = channel::<()>();
        thread::Builder::new()
            .name("weir-vhost".to_owned())
            .spawn(move || {
                keeper.run();
                drop(ends);
            })
            .map_err(failed("start a thread"))?;
        let side = match options.role {
            Role::Server => "server",
            Role::Client => "client",
        };
        Ok(VhostPort {
            method: format!("vhost-user ({side})"),
            name,
            options: options.clone(),
            shared,
            ended,
            up: false,
            reported: false,
            watch: Watch::default(),
            stats: PortStats::default(),
        })
    }

    /// Takes note of what has changed.
    #[cold]
    fn look(&mut self) {
        self.watch.readable = true;
        self.watch.begin_again();
    }

    /// Ends the connection for what the driver wrote.
    #[cold]
    fn complain(&mut self, what: &'static str, fault: Fault) {
        self.up = false;
        self.shared.complain(format!("in the ring {what} the driver, {fault}"));
    }

    fn no_peer(&self) -> PortError {
        PortError::NoPeer { name: self.name.clone(), why: self.shared.why() }
    }
}

impl Port for VhostPort {
    fn name(&self) -> &str {
        &self.name
    }

    fn receive(&mut self, out: &mut Vec<Packet>, max: usize) -> Result<usize, PortError> {
        if self.watch.is_behind(&self.shared.changes) {
            self.look();
        }
        // Whoever changes it says when that is done.
        let Some(mut device) = self.shared.device() else { return Ok(0) };
        let before = out.len();
        let (over, was_up) = (device.over, self.up);
        self.up = device.is_up();
        self.reported &= !self.up || was_up;
        let mut fault = None;
        let mut waits = over;
        match device.receiver() {
            Some(mut receiver) => {
                match self.watch.take(&mut receiver, &self.shared.changes, over, out, max) {
                    Ok(malformed) => self.stats.rx_malformed += malformed,
                    Err(e) => fault = Some(e),
                }
            }
            None => {
                // Who signals a ring that rests wakes nobody twice.
                let _ = device.kick().map(|kick| signal::clear(kick.as_fd()));
                waits = true;
            }
        }
        device.broken |= fault.is_some();
        drop(device);
        if let Some(fault) = fault
            && !over
        {
            self.complain("from", fault);
        }
        if out.len() > before {
            arrived(&mut out[before..], &mut self.stats);
            return Ok(out.len() - before);
        }
        if self.up || max == 0 {
            return Ok(0);
        }
        if over {
            self.shared.drained();
        }
        if waits {
            // Nothing comes before there are changes.
            self.watch.make_unreadable(&self.shared.changes);
        }
        if std::mem::replace(&mut self.reported, true) {
            return Ok(0);
        }
        Err(self.no_peer())
    }

    fn send(&mut self, batch: &mut Vec<Packet>) -> Result<usize, PortError> {
        let Some(mut device) = self.shared.device() else { return Ok(0) };
        let done = device.sender().map(|mut sender| put(&mut sender, batch, &mut self.stats));
        device.broken |= matches!(done, Some(Err(_)));
        drop(device);
        let Some(done) = done else {
            return if batch.is_empty() { Ok(0) } else { Err(self.no_peer()) };
        };
        done.map_err(|fault| {
            self.complain("to", fault);
            self.no_peer()
        })
    }

    fn fd(&mut self) -> Option<BorrowedFd<'_>> {
        let (watch, changes) = (&mut self.watch, &self.shared.changes);
        match self.shared.device() {
            Some(mut device) => {
                let over = device.over;
                watch.start(changes, device.receiver().as_ref(), over);
            }
            // It is being changed: whoever takes packets looks at what it is then.
            None => watch.start::<net::Receiver<'_>>(changes, None, true),
        }
        Some(self.shared.ready.0.as_fd())
    }

    fn is_up(&self) -> Option<bool> {
        Some(self.up)
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

impl Drop for VhostPort {
    fn drop(&mut self) {
        // While somebody listens there, nobody else takes it over.
        if let (Role::Server, SocketAddress::Path(path)) = (self.options.role, &self.options.socket) {
            // It may be gone already.
            let _ = std::fs::remove_file(path);
        }
        self.shared.stop();
        // It ends when it can.
        let _ = self.ended.recv_timeout(FAREWELL);
    }
}

/// Puts packets from the front of a batch into the ring; returns how many went.
fn put(sender: &mut Sender<'_>, batch: &mut Vec<Packet>, stats: &mut PortStats) -> Result<usize, Fault> {
    let (mut n, mut result) = (0, Ok(()));
    while n < batch.len() {
        let Ok(header) = sender.header(batch, n) else {
            batch.remove(n);
            stats.tx_errors.offload += 1;
            continue;
        };
        let bytes = batch[n].bytes();
        if bytes.len() < SHORTEST {
            batch.remove(n);
            stats.tx_errors.refused += 1;
            continue;
        }
        match sender.put(header, bytes) {
            Ok(Put::Done) => {
                stats.sent(bytes.len());
                n += 1;
            }
            Ok(Put::TooLong) => {
                batch.remove(n);
                stats.tx_errors.too_long += 1;
            }
            Ok(Put::Later) => break,
            Err(fault) => {
                result = Err(fault);
                break;
            }
        }
    }
    let result = sender.publish().and(result);
    if n == batch.len() {
        Packet::free(batch);
    } else {
        batch.drain(..n);
    }
    result.map(|()| n)
}
