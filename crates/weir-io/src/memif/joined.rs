//! What a port does with direct rings: as master it has its slaves joined, as slave it sends and receives by them.

use std::io;
use std::os::fd::BorrowedFd;

use nix::sys::epoll::{EpollEvent, EpollFlags};
use weir_packet::Packet;

use super::direct::{DirectRing, Order, Reports, Traffic};
use super::message::Message;
use super::{MemifPort, put};

impl MemifPort {
    /// The number of the connection to a peer, while there is one.
    pub fn peer(&self) -> Option<u64> {
        self.link.as_ref().filter(|_| !self.over).map(|_| self.epoch)
    }

    /// Whether the peer is a slave that knows direct rings.
    pub fn knows_direct(&self) -> bool {
        self.master.known
    }

    /// Gives the slave its end of a direct ring.
    ///
    /// # Errors
    /// If no descriptors are left.
    pub fn give_direct(&mut self, ring: &mut DirectRing, sends: bool) -> io::Result<()> {
        self.shared.say(self.epoch, ring.given(sends)?);
        if sends {
            self.master.draining = Some(ring.id);
        }
        Ok(())
    }

    /// Asks the slave to take from its direct ring: it has got all else.
    pub fn go_direct(&self, id: u32) {
        self.shared.say(self.epoch, [(Message::DirectGo(id), None)]);
    }

    /// Asks the slave to use its direct ring no more.
    pub fn stop_direct(&self, id: u32) {
        self.shared.say(self.epoch, [(Message::DirectStop(id), None)]);
    }

    /// What the slave has said.
    pub fn direct_reports(&self) -> Reports {
        self.master.reports
    }

    /// Whether the connection of this number has ended, and what came by it is still to be taken.
    pub fn has_rest(&self, peer: u64) -> bool {
        self.link.is_some() && self.over && self.epoch == peer
    }

    /// Whether the slave sends by its direct ring, all that it sent before was taken, and nothing is taken from it since.
    pub fn is_held(&self) -> bool {
        self.master.held
    }

    /// Takes again what the slave sends here.
    pub fn release(&mut self) {
        (self.master.held, self.master.draining) = (false, None);
        self.watch.readable = true;
        self.shared.changes.make_readable();
    }

    /// Does what the master wants.
    pub(super) fn obey(&mut self, order: Order) {
        match order {
            Order::Send(end) => {
                // Nothing is to be read there: only that the other side is gone.
                let _ = self.ready.add(end.tx.fd(), EpollEvent::new(EpollFlags::empty(), 2));
                let id = end.id;
                self.slave.out = Some(end);
                // All that went by the other ring is there already.
                self.shared.say(self.epoch, [(Message::DirectSwitched(id), None)]);
            }
            Order::Receive(end) => self.slave.into = Some(end),
            Order::Go(id) => {
                if self.slave.into.as_ref().is_some_and(|end| end.id == id) {
                    self.open_direct();
                }
            }
            Order::Stop(id) => {
                if self.slave.out.as_ref().is_some_and(|end| end.id == id) {
                    self.send_no_more();
                }
                if self.slave.into.as_ref().is_some_and(|end| end.id == id) {
                    self.open_direct();
                    self.stop_receiving();
                }
            }
        }
    }

    /// Takes what is in the direct ring, and nothing that comes after.
    fn stop_receiving(&mut self) {
        let Some(end) = &mut self.slave.into else { return };
        end.stop();
        if end.is_over() {
            self.receive_no_more();
        }
    }

    /// Takes what comes by the direct ring from now on.
    fn open_direct(&mut self) {
        let Some(end) = self.slave.into.as_mut().filter(|end| !end.is_open()) else { return };
        end.open();
        let refused =
            |fd: &BorrowedFd<'_>| self.ready.add(fd, EpollEvent::new(EpollFlags::EPOLLIN, 3)).is_err();
        if end.fds().iter().any(refused) {
            // Nobody would be woken by its packets. The end of the socket notifies the sender.
            self.receive_no_more();
        }
    }

    /// Closes the end of the ring by which this side sends.
    pub(super) fn send_no_more(&mut self) {
        let Some(end) = self.slave.out.take() else { return };
        let _ = self.ready.delete(end.tx.fd());
        let id = end.id;
        drop(end);
        self.shared.say(self.epoch, [(Message::DirectEnded { id, sends: true }, None)]);
    }

    /// Closes the end of the ring by which this side receives.
    fn receive_no_more(&mut self) {
        let Some(end) = self.slave.into.take() else { return };
        for fd in end.fds() {
            let _ = self.ready.delete(fd);
        }
        let id = end.id;
        drop(end);
        self.shared.say(self.epoch, [(Message::DirectEnded { id, sends: false }, None)]);
    }

    /// The master is gone, and with it its rings: what was sent by them is still taken.
    pub(super) fn leave_direct(&mut self) {
        self.send_no_more();
        self.open_direct();
    }

    /// Sends by the direct ring. `None`: there is none, or its receiver is gone.
    pub(super) fn send_direct(&mut self, batch: &mut Vec<Packet>) -> Option<usize> {
        let end = self.slave.out.as_mut()?;
        let before = Traffic { packets: self.stats.tx_packets, bytes: self.stats.tx_bytes };
        let put = put(batch, &mut end.tx, &mut self.stats);
        let (packets, bytes) = (self.stats.tx_packets - before.packets, self.stats.tx_bytes - before.bytes);
        end.sent(Traffic { packets, bytes });
        match put {
            Ok((n, signalled)) => {
                if (!signalled || n == 0 && !batch.is_empty()) && end.is_alone() {
                    self.send_no_more();
                    return (n > 0).then_some(n);
                }
                Some(n)
            }
            Err(_) => {
                self.send_no_more();
                None
            }
        }
    }

    /// Takes from the direct ring.
    pub(super) fn take_direct(&mut self, out: &mut Vec<Packet>, max: usize) {
        let Some(end) = self.slave.into.as_mut().filter(|end| end.is_open()) else { return };
        match end.take(out, max) {
            Ok(malformed) => self.stats.rx_malformed += malformed,
            Err(_) => return self.receive_no_more(),
        }
        if end.is_over() {
            self.receive_no_more();
        }
    }
}
