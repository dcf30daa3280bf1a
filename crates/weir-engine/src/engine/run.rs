//! The loop that drives graphs, devices and links.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use weir_nodes::env::device::Change;
use weir_packet::Packet;

use super::Engine;
use crate::library::Gate;

/// Packets that are received from a device at once.
const RX_BATCH: usize = 32;
/// Deliveries between graphs in one round; more wait for the next.
const LINK_DELIVERIES: usize = 4096;
/// Rounds between two looks at which devices are readable, while there is work.
const ROUNDS_PER_POLL: u32 = 8;

/// How often is looked whether other workers are done, when this one is.
const OTHERS: Duration = Duration::from_millis(1);

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// An element asked for it (`STOP true`), or the handler `stop` was written.
    Requested,
    /// The flag that the caller gave was set.
    Flag,
    /// The time is over.
    Deadline,
    /// Nothing can happen any more: no device, no timer, no source that has more.
    Exhausted,
}

/// When a run ends, beside a request of an element.
#[derive(Debug, Clone, Default)]
pub struct Until {
    /// After so much time.
    pub deadline: Option<Duration>,
    /// When this is set; use [`Engine::waker`] afterwards.
    pub flag: Option<Arc<AtomicBool>>,
    /// Not when everything is exhausted: more may come from outside.
    pub forever: bool,
}

impl Engine {
    /// Has a gate opened when the first packets come.
    pub(crate) fn set_gate(&mut self, gate: Option<Arc<Gate>>) {
        self.gate = gate;
    }

    /// The number of a graph's last load or swap; 0 if there is no such graph.
    pub(crate) fn generation(&self, graph: &str) -> u64 {
        self.names.get(graph).and_then(|&id| self.graphs.get(id)).map_or(0, |r| r.generation)
    }

    /// Does what is to be done now, for a short while. Returns whether there is more to do.
    pub fn round(&mut self) -> io::Result<bool> {
        if self.parked {
            return Ok(false);
        }
        let mut others = false;
        if let Some(pool) = &self.pool {
            others = pool.lock().round()?;
            self.hear();
        }
        self.rounds = self.rounds.wrapping_add(1);
        if self.rounds.is_multiple_of(ROUNDS_PER_POLL) {
            self.rt.env.devices.poll()?;
        }
        self.rt.env.tick();
        self.rt.env.devices.retry(self.rt.env.now);
        self.rt.watch.expire(self.rt.env.now);
        // First what other workers wait to be rid of, so that they can take from this one.
        let arrived = self.take_in();
        let blocked = self.rt.is_blocked();
        for device in 0..if blocked { 0 } else { self.rt.env.devices.count() } {
            self.receive(device);
        }
        self.graphs.round(&mut self.rt);
        if let Some((graph, plan)) = self.rt.swap.take()
            && let Err(errors) = self.install(&graph, plan, "")
        {
            self.rt.env.notice(Some(&graph), "print", errors.to_string());
        }
        self.deliver_links();
        // A graph may send without having received.
        if self.gate.is_some() && self.rt.env.devices.is_sending() {
            self.open_gate();
        }
        for device in 0..self.rt.env.devices.count() {
            self.rt.env.devices.flush(device, self.rt.env.now);
        }
        let moving = self.rt.env.devices.are_joins_moving();
        if self.rt.env.devices.has_joins() && (moving || self.rounds.is_multiple_of(ROUNDS_PER_POLL)) {
            self.drive_joins();
        }
        self.count_losses();
        if let Some(exchange) = &mut self.rt.exchange {
            exchange.flush();
            if exchange.has_backlog() && !arrived {
                // The receiver may need this core.
                std::thread::yield_now();
            }
            others |= exchange.has_backlog() || exchange.has_inbound();
        }
        others |= self.pool.as_ref().is_some_and(|p| p.lock().has_inbound());
        for change in std::mem::take(&mut self.rt.env.devices.changes) {
            match change {
                // The first worker has a port of each device, and reports.
                _ if self.rt.worker() > 0 => {}
                Change::Opened(text) => self.rt.env.notice(None, "device-opened", text),
                Change::Up(text) => self.rt.env.notice(None, "device-up", text),
                Change::Down(text) => self.rt.env.notice(None, "device-down", text),
            }
        }
        let more =
            others || self.rt.env.devices.any_readable() || self.wake().is_some_and(|t| t <= self.rt.env.now);
        if !more && self.rt.env.devices.has_joins() {
            // Whatever has woken this round may concern them; what it leads to is reported by the ports.
            self.drive_joins();
            return Ok(self.rt.env.devices.has_losses());
        }
        Ok(more)
    }

    fn receive(&mut self, device: usize) {
        self.rt.env.devices.receive(device, &mut self.rx, RX_BATCH, self.rt.env.now);
        if self.rx.is_empty() {
            return;
        }
        self.open_gate();
        let spread = self.rt.worker() == 0 && !self.rt.env.devices.is_spread(device);
        let readers = self.rt.env.devices.readers(device).len();
        // Which elements read a device does not change while one of them runs.
        for i in 0..readers {
            let Some(&reader) = self.rt.env.devices.readers(device).get(i) else { break };
            let Some(router) = self.graphs.get_mut(reader.graph) else { continue };
            if i + 1 < readers {
                let copies = self.rx.iter().map(Packet::copy);
                router.come_in(&mut self.rt, reader.link, copies, spread);
            } else {
                router.come_in(&mut self.rt, reader.link, self.rx.drain(..), spread);
            }
        }
        self.rx.clear();
    }

    /// There are packets: from now on graphs are compiled.
    fn open_gate(&mut self) {
        if let Some(gate) = self.gate.take() {
            gate.open();
        }
    }

    /// Takes packets over links between graphs, and runs the graphs they come into.
    fn deliver_links(&mut self) {
        for _ in 0..LINK_DELIVERIES {
            let Some((entrance, packets)) = self.rt.env.links.take_next() else { return };
            if let Some(router) = self.graphs.get_mut(entrance.graph) {
                router.inject(&mut self.rt, entrance.link, packets);
                router.round(&mut self.rt);
            }
        }
    }

    /// When there is something to do, if nothing comes in.
    pub(super) fn wake(&self) -> Option<u64> {
        let graphs = self.graphs.wake();
        let links = self.rt.env.links.waiting().then_some(0);
        [graphs, links, self.rt.env.devices.wake(), self.rt.watch.wake()].into_iter().flatten().min()
    }

    /// Sleeps until there is something to do, at most for `most`.
    pub fn sleep(&mut self, most: Option<Duration>) -> io::Result<()> {
        let wake = self
            .wake()
            .filter(|_| !self.parked)
            .map(|t| self.rt.env.real_span(t.saturating_sub(self.rt.env.now)));
        let timeout = match (wake, most) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        self.rt.env.devices.sleep(timeout)
    }

    /// Runs until there is a reason to stop.
    ///
    /// # Errors
    /// If the operating system refuses to let the thread sleep.
    pub fn run(&mut self, until: &Until) -> io::Result<Stopped> {
        self.rt.env.tick();
        let start = self.rt.env.now;
        loop {
            let more = self.round()?;
            if std::mem::take(&mut self.rt.stop) {
                self.round()?;
                return Ok(Stopped::Requested);
            }
            if until.flag.as_ref().is_some_and(|f| f.load(Ordering::Relaxed)) {
                return Ok(Stopped::Flag);
            }
            let left =
                until.deadline.map(|d| d.saturating_sub(Duration::from_nanos(self.rt.env.now - start)));
            if left == Some(Duration::ZERO) {
                return Ok(Stopped::Deadline);
            }
            if more {
                continue;
            }
            if let Some(next) = self.wake()
                && self.rt.env.jump(next)
            {
                continue;
            }
            let listens = self.graphs.iter().any(|(_, r)| r.listens());
            let idle = self.wake().is_none() && !self.rt.env.devices.may_receive() && !listens;
            if idle && !until.forever && self.others_busy() {
                self.sleep(Some(left.unwrap_or(OTHERS).min(OTHERS)))?;
                continue;
            }
            // A clock that stands still brings no later event either.
            if (idle || (!self.rt.env.real_time() && !self.rt.env.devices.may_receive())) && !until.forever {
                return Ok(Stopped::Exhausted);
            }
            self.sleep(left)?;
        }
    }
}
