//! What carries the frames of a stack in user space: a port of weir-io, that the cores share.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token, Waker};
use weir_io::{Port, PortError};
use weir_packet::Packet;

use super::UserStack;
use super::user::{self, Micros, Share, Stack};
use crate::{Error, Protocol, ServerId};

/// Frames that are read before connections have their turn.
const TURN: usize = 64;

/// Frames that one core has for another at most; more are lost, as they are where a card is too fast.
const INBOX: usize = 4096;

/// The frames of one core.
pub(crate) struct Link {
    pub(crate) stack: Stack,
    /// `None`: the first core has the only one.
    port: Option<Box<dyn Port>>,
    inbox: Receiver<Handed>,
    /// The other cores' inboxes, by their numbers.
    others: Vec<Other>,
    number: usize,
    epoch: Instant,
    now: Micros,
    /// Nothing more is to be read for now.
    dry: bool,
    batch: Vec<Packet>,
    /// Frames for others, by their numbers.
    away: Vec<Vec<Packet>>,
}

/// Frames that one core has for another.
enum Handed {
    /// They came, and are of its connections.
    In(Vec<Packet>),
    /// It has the port by which they are to go.
    Out(Vec<Packet>),
}

struct Other {
    inbox: Sender<Handed>,
    waker: Arc<Waker>,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").field("stack", &self.stack).finish_non_exhaustive()
    }
}

/// Opens the port of a stack, once a core or (if it cannot be shared) once, and makes the cores' stacks with their servers.
pub(crate) fn open(
    settings: &UserStack,
    servers: &[(SocketAddr, Protocol)],
    wakers: &[Arc<Waker>],
) -> Result<Vec<Link>, Error> {
    let cores = wakers.len();
    let (senders, inboxes): (Vec<_>, Vec<_>) = wakers.iter().map(|_| channel()).unzip();
    let epoch = Instant::now();
    let mut links = Vec::new();
    // Of the port that a core sends by: its own or the first's.
    let mut facts = (settings.ether(None), None, false);
    for (number, inbox) in inboxes.into_iter().enumerate() {
        let first = links.first().and_then(|l: &Link| l.port.as_deref());
        let port = settings.port(number, cores, first).map_err(failed)?;
        if let Some(port) = &port {
            facts = (settings.ether(port.mac()), port.mtu(), settings.cuts(&**port));
        }
        let (ether, mtu, cuts) = facts;
        let mtu = mtu.unwrap_or(1500).clamp(576, 9000) as u16;
        let share = Share { member: number, of: cores };
        let mut stack = Stack::new(settings.config(ether, mtu, cuts, share), 0);
        for (n, (address, protocol)) in servers.iter().enumerate() {
            let listened = stack.listen(ServerId(n), *address, *protocol);
            listened.map_err(|source| Error::Io { what: "listen", source })?;
        }
        let others = senders.iter().zip(wakers);
        links.push(Link {
            stack,
            port,
            inbox,
            others: others.map(|(s, w)| Other { inbox: s.clone(), waker: w.clone() }).collect(),
            number,
            epoch,
            now: 0,
            dry: false,
            batch: Vec::new(),
            away: (0..cores).map(|_| Vec::new()).collect(),
        });
    }
    Ok(links)
}

fn failed(error: PortError) -> Error {
    let source = match error {
        PortError::Os { source, .. } => source,
        other => io::Error::other(weir_io::with_causes(&other)),
    };
    Error::Io { what: "open the port of the stack in user space", source }
}

impl Link {
    /// Has the loop wake when a frame comes.
    pub(crate) fn watch(&mut self, registry: &Registry, token: Token) -> Result<(), Error> {
        let Some(fd) = self.port.as_mut().and_then(|p| p.fd()) else { return Ok(()) };
        let watched = registry.register(&mut SourceFd(&fd.as_raw_fd()), token, Interest::READABLE);
        watched.map_err(|source| Error::Io { what: "watch a port", source })
    }

    /// The time of this turn.
    pub(crate) fn now(&self) -> Micros {
        self.now
    }

    pub(crate) fn set_readable(&mut self) {
        self.dry = false;
    }

    /// How long nothing needs to be done, if nothing comes.
    pub(crate) fn wait(&self) -> Option<Duration> {
        if !self.dry {
            return Some(Duration::ZERO);
        }
        let next = self.stack.next()?;
        let now = self.epoch.elapsed().as_micros() as Micros;
        Some(Duration::from_micros(next.saturating_sub(now)))
    }

    /// Reads some of the frames that came.
    pub(crate) fn receive(&mut self) {
        self.now = self.epoch.elapsed().as_micros() as Micros;
        self.dry = true;
        let mut batch = std::mem::take(&mut self.batch);
        if let Some(port) = &mut self.port {
            // An interface that is down, or a peer that is not there, may come back: the port sees to it, and until then frames are lost.
            let came = port.receive(&mut batch, TURN).unwrap_or(0);
            self.dry = came == 0;
        }
        for packet in batch.drain(..) {
            self.sort(packet);
        }
        self.batch = batch;
        for (n, packets) in self.away.iter_mut().enumerate() {
            if !packets.is_empty() {
                self.others[n].hand(Handed::In(std::mem::take(packets)));
            }
        }
        for handed in self.inbox.try_iter().take(INBOX / TURN).collect::<Vec<_>>() {
            self.dry = false;
            match handed {
                Handed::In(packets) => packets.into_iter().for_each(|p| self.stack.input(p, self.now)),
                Handed::Out(mut packets) => self.send(&mut packets),
            }
        }
    }

    /// Takes a frame, or puts it where those of another core are.
    fn sort(&mut self, packet: Packet) {
        if self.others.len() == 1 {
            return self.stack.input(packet, self.now);
        }
        match user::member_of(packet.bytes(), self.others.len()) {
            Some(n) if n == self.number => self.stack.input(packet, self.now),
            Some(n) => self.away[n].push(packet),
            None => {
                let away = self.away.iter_mut().enumerate().filter(|(n, _)| *n != self.number);
                away.for_each(|(_, away)| away.push(packet.copy()));
                self.stack.input(packet, self.now);
            }
        }
    }

    /// Sends what the stack has to send.
    pub(crate) fn flush(&mut self) {
        let frames = self.stack.poll(self.now);
        if frames.is_empty() {
            return;
        }
        let mut frames = std::mem::take(frames);
        self.send(&mut frames);
        self.stack.reuse(frames);
    }

    fn send(&mut self, frames: &mut Vec<Packet>) {
        match &mut self.port {
            Some(port) => {
                // What does not fit is lost, and what is lost of TCP is sent again.
                let _ = port.send(frames);
                let _ = port.flush();
                frames.clear();
            }
            None => self.others[0].hand(Handed::Out(std::mem::take(frames))),
        }
    }
}

impl Other {
    fn hand(&self, frames: Handed) {
        // The other end is gone only while the function ends.
        if self.inbox.send(frames).is_ok() {
            let _ = self.waker.wake();
        }
    }
}
