//! The loop that drives graphs, devices and links.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use weir_packet::Packet;

use super::Engine;
use crate::device::Change;
use crate::router::Router;

/// Packets that are received from a device at once.
const RX_BATCH: usize = 32;
/// Deliveries between graphs in one round; more wait for the next.
const LINK_DELIVERIES: usize = 4096;
/// Rounds between two looks at which devices are readable, while there is work.
const ROUNDS_PER_POLL: u32 = 8;

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
    /// Does what is to be done now, for a short while. Returns whether there is more to do.
    pub fn round(&mut self) -> io::Result<bool> {
        self.rounds = self.rounds.wrapping_add(1);
        if self.rounds.is_multiple_of(ROUNDS_PER_POLL) {
            self.env.devices.wait(Some(Duration::ZERO))?;
        }
        self.env.tick();
        self.env.devices.retry(self.env.now);
        self.env.watch.expire(self.env.now);
        for device in 0..self.env.devices.len() {
            self.receive(device);
        }
        for id in 0..self.graphs.len() {
            if let Some(router) = &mut self.graphs[id]
                && router.wants_round(self.env.now)
            {
                router.round(&mut self.env);
            }
        }
        if let Some((graph, plan)) = self.env.swap.take()
            && let Err(errors) = self.install(&graph, plan, "")
        {
            self.env.notice(Some(&graph), "print", errors.to_string());
        }
        self.deliver_links();
        for device in 0..self.env.devices.len() {
            self.env.devices.flush(device, self.env.now);
        }
        for change in std::mem::take(&mut self.env.devices.changes) {
            match change {
                Change::Opened(text) => self.env.notice(None, "device-opened", text),
                Change::Up(text) => self.env.notice(None, "device-up", text),
                Change::Down(text) => self.env.notice(None, "device-down", text),
            }
        }
        Ok(self.env.devices.any_readable() || self.wake().is_some_and(|t| t <= self.env.now))
    }

    fn receive(&mut self, device: usize) {
        self.env.devices.receive(device, &mut self.rx, RX_BATCH, self.env.now);
        if self.rx.is_empty() {
            return;
        }
        let readers = self.env.devices.readers(device).to_vec();
        let Some((last, others)) = readers.split_last() else { return self.rx.clear() };
        for reader in others {
            let copies: Vec<Packet> = self.rx.iter().map(Packet::copy).collect();
            if let Some(router) = &mut self.graphs[reader.graph] {
                router.inject(&mut self.env, reader.link, copies);
            }
        }
        let packets = self.rx.drain(..);
        if let Some(router) = &mut self.graphs[last.graph] {
            router.inject(&mut self.env, last.link, packets);
        }
    }

    /// Takes packets over links between graphs, and runs the graphs they come into.
    fn deliver_links(&mut self) {
        for _ in 0..LINK_DELIVERIES {
            let Some((entrance, packets)) = self.env.links.next() else { return };
            if let Some(router) = &mut self.graphs[entrance.graph] {
                router.inject(&mut self.env, entrance.link, packets);
                router.round(&mut self.env);
            }
        }
    }

    /// When there is something to do, if nothing comes in.
    fn wake(&self) -> Option<u64> {
        let graphs = self.graphs.iter().flatten().filter_map(Router::next_round).min();
        let links = self.env.links.waiting().then_some(0);
        [graphs, links, self.env.devices.wake(), self.env.watch.wake()].into_iter().flatten().min()
    }

    /// Sleeps until there is something to do, at most for `most`.
    pub fn sleep(&mut self, most: Option<Duration>) -> io::Result<()> {
        let wake = self.wake().map(|t| self.env.real_span(t.saturating_sub(self.env.now)));
        let timeout = match (wake, most) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        self.env.devices.wait(timeout)
    }

    /// Runs until there is a reason to stop.
    ///
    /// # Errors
    /// If the operating system refuses to let the thread sleep.
    pub fn run(&mut self, until: &Until) -> io::Result<Stopped> {
        self.env.tick();
        let start = self.env.now;
        loop {
            let more = self.round()?;
            if std::mem::take(&mut self.env.stop) {
                self.round()?;
                return Ok(Stopped::Requested);
            }
            if until.flag.as_ref().is_some_and(|f| f.load(Ordering::Relaxed)) {
                return Ok(Stopped::Flag);
            }
            let left = until.deadline.map(|d| d.saturating_sub(Duration::from_nanos(self.env.now - start)));
            if left == Some(Duration::ZERO) {
                return Ok(Stopped::Deadline);
            }
            if more {
                continue;
            }
            if let Some(next) = self.wake()
                && self.env.jump(next)
            {
                continue;
            }
            let listens = self.graphs.iter().flatten().any(Router::listens);
            let idle = self.wake().is_none() && !self.env.devices.may_receive() && !listens;
            // A clock that stands still brings no later event either.
            if (idle || (!self.env.real_time() && !self.env.devices.may_receive())) && !until.forever {
                return Ok(Stopped::Exhausted);
            }
            self.sleep(left)?;
        }
    }
}
