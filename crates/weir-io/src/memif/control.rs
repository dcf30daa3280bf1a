//! The thread of a port that keeps its control connection: it listens or connects, again and again, and hands each
//! connection that is ready to the port.
//!
//! It is a thread of its own because the other side can keep it waiting: to close a descriptor that came from there, even
//! one that nobody asked for, can take as long as its last owner likes (a socket with `SO_LINGER`). The thread that moves
//! packets never touches one before it is known to be an eventfd or memory.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use socket2::Socket;

use super::direct::{Order, Reports, is_for};
use super::handshake::{End, Handshake, Outgoing};
use super::link::Link;
use super::message::Message;
use super::options::{Options, Role};
use super::socket;
use crate::shared::watch::Changes;
use crate::shared::{LOOK, accept, connect, is_gone, listen, signal};

/// How long a peer has from connecting until everything is there.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long until a slave tries to connect again the first time, doubled each time: mostly who listens comes just after it.
const FIRST_RETRY: Duration = Duration::from_millis(1);
/// The longest such pause, and that of a master who cannot accept.
const RETRY: Duration = Duration::from_millis(100);
/// How long a peer that broke the protocol is left alone.
const PAUSE: Duration = Duration::from_secs(1);
/// How many connections this process has had.
static CONNECTIONS: AtomicU64 = AtomicU64::new(0);

/// State that the port and its thread share.
#[derive(Debug)]
pub struct Shared {
    /// Of what the port wants to know.
    pub changes: Changes,
    state: Mutex<State>,
    /// Wakes the thread.
    wake: OwnedFd,
}

#[derive(Debug, Default)]
struct State {
    /// A connection that the port has not taken yet.
    link: Option<Link>,
    up: bool,
    /// Why it is not up.
    why: String,
    /// What the peer did, as the port found it.
    fault: Option<String>,
    stop: bool,
    /// The number of the last connection, unlike those of all other ports: a port that is opened anew has no peer of the one before.
    epoch: u64,
    /// What the port wants to say to this one.
    outgoing: Vec<Outgoing>,
    /// What the master of this one wants, and the port has not taken yet.
    orders: Vec<Order>,
    /// What the slave of this one has said.
    reports: Reports,
}

impl State {
    /// Another connection is ready.
    fn begin(&mut self, link: Link) {
        (self.up, self.link) = (true, Some(link));
        self.epoch = CONNECTIONS.fetch_add(1, Ordering::Relaxed) + 1;
        self.outgoing.clear();
        self.orders.clear();
        self.reports = Reports::default();
    }
}

/// How a connection stands.
pub struct Standing {
    /// A new connection.
    pub link: Option<Link>,
    /// Whether there is a connection.
    pub up: bool,
    /// The number of the last connection.
    pub epoch: u64,
    /// What its master wants.
    pub orders: Vec<Order>,
    /// What its slave has said.
    pub reports: Reports,
}

impl Shared {
    /// Nothing is connected yet.
    pub fn new() -> io::Result<Shared> {
        let why = "nobody has connected yet".to_owned();
        let state = Mutex::new(State { why, ..State::default() });
        Ok(Shared { changes: Changes::new()?, state, wake: signal::eventfd()? })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How the connection stands; it may be newer than the version of the changes that was seen.
    pub fn standing(&self) -> Standing {
        let mut state = self.lock();
        let (link, orders) = (state.link.take(), std::mem::take(&mut state.orders));
        Standing { link, up: state.up, epoch: state.epoch, orders, reports: state.reports }
    }

    /// Says something to the peer of a connection, if that is still the one.
    pub fn say(&self, epoch: u64, messages: impl IntoIterator<Item = Outgoing>) {
        let mut state = self.lock();
        if state.up && state.epoch == epoch {
            state.outgoing.extend(messages);
            drop(state);
            self.wake();
        }
    }

    /// Why there is no connection.
    pub fn why(&self) -> String {
        self.lock().why.clone()
    }

    /// Ends the connection for what the peer did.
    pub fn complain(&self, fault: String) {
        let mut state = self.lock();
        (state.up, state.link) = (false, None);
        state.why.clone_from(&fault);
        state.fault = Some(fault);
        drop(state);
        self.wake();
    }

    /// Ends the thread.
    pub fn stop(&self) {
        self.lock().stop = true;
        self.wake();
    }

    fn wake(&self) {
        // It stays in this process: nobody makes it wait.
        let _ = nix::unistd::write(&self.wake, &1_u64.to_ne_bytes());
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.changes.notify();
    }
}

/// A connection.
struct Peer {
    socket: Socket,
    handshake: Handshake,
    /// Until when it has to be ready; `None`: it is.
    until: Option<Instant>,
    /// Whether it may speak about direct rings: a slave that knows them, or a master that is trusted.
    is_direct: bool,
    /// The memory of a direct ring whose socket is still to come.
    memory: Option<OwnedFd>,
}

/// The thread.
pub struct Keeper {
    options: Options,
    /// What a master listens on.
    listener: Option<Socket>,
    shared: Arc<Shared>,
    /// One that is ready, and one that is to be.
    peers: Vec<Peer>,
    /// When to accept or to connect again.
    again: Instant,
    /// How long a slave pauses then.
    pause: Duration,
}

impl Keeper {
    /// Listens, as master.
    ///
    /// # Errors
    /// If the socket cannot be made.
    pub fn new(options: &Options, shared: Arc<Shared>) -> io::Result<Keeper> {
        let listener = match options.role {
            Role::Master => Some(listen(&options.socket, socket::KIND, options.is_open)?),
            Role::Slave => None,
        };
        let (again, pause) = (Instant::now(), FIRST_RETRY);
        Ok(Keeper { options: options.clone(), listener, shared, peers: Vec::new(), again, pause })
    }

    /// Works until it is stopped.
    pub fn run(mut self) {
        while let Ok(ready) = self.wait() {
            signal::clear(self.shared.wake.as_fd());
            let (stop, fault, outgoing) = {
                let mut state = self.shared.lock();
                (state.stop, state.fault.take(), std::mem::take(&mut state.outgoing))
            };
            if stop {
                self.peers.iter().for_each(|peer| say_goodbye(&peer.socket, "the port is closed"));
                break;
            }
            if let Some(fault) = fault {
                self.again = Instant::now() + PAUSE;
                for i in
                    (0..self.peers.len()).rev().filter(|&i| self.peers[i].until.is_none()).collect::<Vec<_>>()
                {
                    self.end(i, &fault, true);
                }
            }
            for message in outgoing {
                if let Some(i) = self.peers.iter().position(|p| p.until.is_none()) {
                    self.answer(i, Some(message));
                }
            }
            let now = Instant::now();
            // From behind, since those that end are taken out.
            for i in (0..self.peers.len()).rev() {
                let late = self.peers[i].until.is_some_and(|until| until <= now);
                if late {
                    self.end(i, "the peer was not ready in time", true);
                } else if ready.contains(&i) {
                    self.hear(i);
                }
            }
            self.meet(now);
        }
    }

    /// Waits until there is something to do; gives the peers that have said something.
    fn wait(&self) -> nix::Result<Vec<usize>> {
        let mut list = vec![PollFd::new(self.shared.wake.as_fd(), PollFlags::POLLIN)];
        list.extend(self.peers.iter().map(|p| PollFd::new(p.socket.as_fd(), PollFlags::POLLIN)));
        let now = Instant::now();
        let mut until: Option<Instant> = self.peers.iter().filter_map(|p| p.until).min();
        if self.wants_peer() {
            match &self.listener {
                Some(listener) if self.again <= now => {
                    list.push(PollFd::new(listener.as_fd(), PollFlags::POLLIN));
                    if self.peers.is_empty() {
                        until = Some(now + LOOK);
                    }
                }
                _ => until = Some(until.map_or(self.again, |until| until.min(self.again))),
            }
        }
        let timeout = until.map_or(PollTimeout::NONE, |until| {
            // Rounded up, so that it is not woken in vain.
            let millis = until.saturating_duration_since(now).as_millis() + 1;
            PollTimeout::try_from(millis).unwrap_or(PollTimeout::MAX)
        });
        match poll(&mut list, timeout) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(e) => return Err(e),
        }
        let said = |fd: &PollFd<'_>| fd.revents().is_some_and(|events| !events.is_empty());
        Ok((0..self.peers.len()).filter(|&i| said(&list[i + 1])).collect())
    }

    /// Whether one more peer is to come: a master takes one while another is connected, to refuse it with that reason.
    fn wants_peer(&self) -> bool {
        match self.options.role {
            Role::Master => self.peers.iter().all(|p| p.until.is_none()),
            Role::Slave => self.peers.is_empty(),
        }
    }

    /// Accepts or connects.
    fn meet(&mut self, now: Instant) {
        if !self.wants_peer() || self.again > now {
            return;
        }
        if self.listener.is_some() && self.peers.is_empty() && is_gone(&self.options.socket) {
            self.again = now + LOOK;
            // It is tried again, if this fails.
            if let Ok(listener) = listen(&self.options.socket, socket::KIND, self.options.is_open) {
                self.listener = Some(listener);
            }
        }
        let socket = match &self.listener {
            Some(listener) => accept(listener),
            None => {
                self.again = now + self.pause;
                self.pause = (self.pause * 2).min(RETRY);
                connect(&self.options.socket, socket::KIND)
            }
        };
        match socket {
            Ok(socket) => {
                let (handshake, first) = Handshake::new(&self.options);
                self.peers.push(Peer {
                    socket,
                    handshake,
                    until: Some(now + PATIENCE),
                    is_direct: false,
                    memory: None,
                });
                self.answer(self.peers.len() - 1, first);
            }
            Err(e) if self.listener.is_some() => {
                // Nobody is there, or the process has no descriptors left.
                if e.kind() != io::ErrorKind::WouldBlock {
                    self.again = now + RETRY;
                }
            }
            Err(e) => self.shared.lock().why = format!("cannot connect: {e}"),
        }
    }

    fn answer(&mut self, i: usize, outgoing: Option<Outgoing>) {
        let Some((message, fd)) = outgoing else { return };
        if let Err(e) = socket::send(&self.peers[i].socket, &message.encode(), fd.as_ref()) {
            self.end(i, &format!("the peer takes no messages: {e}"), false);
        }
    }

    /// Takes one message.
    fn hear(&mut self, i: usize) {
        let (bytes, fd) = match socket::receive(&self.peers[i].socket) {
            Ok(socket::Received::Message(bytes, fd)) => (bytes, fd),
            Ok(socket::Received::End) => return self.end(i, "the peer has closed the connection", false),
            Ok(socket::Received::Surplus) => {
                return self.end(i, "a message came with more than one descriptor", true);
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
            Err(e) => return self.end(i, &format!("the peer cannot be heard: {e}"), false),
        };
        let message = match Message::decode(&bytes) {
            Ok(message) => message,
            Err(e) => return self.end(i, &e.to_string(), true),
        };
        if self.peers[i].is_direct && is_for(&message, self.options.role) {
            return self.direct(i, &message, fd);
        }
        let busy = self.peers.iter().any(|p| p.until.is_none());
        match self.peers[i].handshake.take(message, fd, busy) {
            Ok(done) => {
                let up = done.link.is_some();
                if up {
                    self.peers[i].until = None;
                    self.pause = FIRST_RETRY;
                }
                // The peer learns first that it may send.
                let before = self.peers.len();
                self.answer(i, done.send);
                if let Some(link) = done.link
                    && self.peers.len() == before
                {
                    self.peers[i].is_direct = link.knows_direct || self.options.direct;
                    self.shared.change(|state| state.begin(link));
                }
            }
            Err(end) => self.end(i, &end.to_string(), !matches!(end, End::Peer(_))),
        }
    }

    /// Takes a message about direct rings: what a slave says, or an order of a master, who is trusted.
    fn direct(&mut self, i: usize, message: &Message, fd: Option<OwnedFd>) {
        let order = match *message {
            Message::DirectMemory => {
                self.peers[i].memory = fd;
                return;
            }
            Message::DirectRing { id, sends } => {
                let memory = self.peers[i].memory.take();
                let missing = || std::io::Error::other("it came without its descriptors");
                let both = memory.zip(fd).ok_or_else(missing);
                match both.and_then(|(memory, socket)| Order::of(id, sends, &memory, socket)) {
                    Ok(order) => order,
                    Err(e) => return self.end(i, &format!("no direct ring: {e}"), true),
                }
            }
            Message::DirectGo(id) => Order::Go(id),
            Message::DirectStop(id) => Order::Stop(id),
            _ => {
                self.shared.change(|state| _ = state.reports.take(message));
                return;
            }
        };
        self.shared.change(|state| state.orders.push(order));
    }

    /// Ends a connection; `ours`: it is we who end it.
    fn end(&mut self, i: usize, why: &str, ours: bool) {
        let peer = self.peers.remove(i);
        if ours {
            say_goodbye(&peer.socket, why);
            self.again = self.again.max(Instant::now() + RETRY);
        }
        if peer.until.is_none() {
            // What it sent can still be taken, even if the port has not seen it yet.
            self.shared.change(|state| {
                state.up = false;
                why.clone_into(&mut state.why);
            });
        } else if !self.shared.lock().up {
            why.clone_into(&mut self.shared.lock().why);
        }
    }
}

fn say_goodbye(socket: &Socket, why: &str) {
    let message = Message::Disconnect { code: 0, reason: why.to_owned() };
    // It may be gone.
    let _ = socket::send(socket, &message.encode(), None);
}
