//! The loop of a core: what happens, handed to the callbacks of the function.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mio::{Events, Token};

use super::{Connection, Core, DEVICE, LISTENERS, REMOTE, WAKE};
use crate::remote::Remote;
use crate::remote::wire::Reply;
use crate::socket::{Listener, Received, Transport};
use crate::stack::link::Link;
use crate::stack::user::Ready;
use crate::{BUFFER_SIZE, Buffer, Error, Function, Protocol, ServerId};

/// Buffers read from one connection before the others have their turn, and connections accepted at once.
const TURN: usize = 32;

impl<F: Function> Core<F> {
    /// Runs until `stop` is set and the waker of [`WAKE`] fires.
    pub(crate) fn run(&mut self, function: &mut F, stop: &AtomicBool) -> Result<(), Error> {
        let mut events = Events::with_capacity(1024);
        self.call(function, None, Function::start);
        while !stop.load(Ordering::Acquire) {
            self.report(function);
            self.work_remote(function);
            let wait = self.wait();
            match self.poll.poll(&mut events, wait) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                polled => polled.map_err(|source| Error::Io { what: "wait for events", source })?,
            }
            for token in std::mem::take(&mut self.again) {
                self.readable(function, token, true);
                self.report(function);
            }
            for event in &events {
                if event.is_writable() {
                    self.writable(function, event.token());
                }
                if event.is_readable() || event.is_error() || event.is_read_closed() {
                    let all = event.is_error() || event.is_read_closed();
                    self.readable(function, event.token(), all);
                }
                self.report(function);
            }
            self.work_link(function);
        }
        self.end_link();
        Ok(())
    }

    /// Reads frames of a stack in user space, hands on what came of them, and sends what there is to send.
    fn work_link(&mut self, function: &mut F) {
        let Some(link) = &mut self.link else { return };
        link.receive();
        while let Some(ready) = self.link.as_mut().and_then(|l| l.stack.ready()) {
            match ready {
                Ready::Server(server) => self.accept(function, server),
                Ready::Connection { owner, readable, writable } => {
                    if writable {
                        self.writable(function, Token(owner));
                    }
                    if readable {
                        self.readable(function, Token(owner), true);
                    }
                }
            }
            self.report(function);
        }
        self.link.iter_mut().for_each(Link::flush);
    }

    /// The function ends, and with it the connections of a stack in user space.
    fn end_link(&mut self) {
        let Some(link) = &mut self.link else { return };
        for (_, socket) in &self.sockets {
            if let Transport::User { key, protocol, .. } = socket.transport {
                link.stack.close(key, protocol);
            }
        }
        link.flush();
    }

    /// How long nothing needs to be done, if nothing happens.
    fn wait(&self) -> Option<Duration> {
        if !self.again.is_empty() || !self.later.is_empty() {
            return Some(Duration::ZERO);
        }
        let next = self.remote.as_ref().and_then(Remote::next);
        // The kernel counts in milliseconds, and rounds up.
        let remote = next.map(|next| next.saturating_duration_since(Instant::now()));
        let link = self.link.as_ref().and_then(Link::wait);
        remote.into_iter().chain(link).min()
    }

    /// Sends the commands that callbacks have asked for, all at once, and hands on what became of earlier ones.
    fn work_remote(&mut self, function: &mut F) {
        // What these ask for is answered in the next round, so that they cannot keep the loop from its work.
        for then in std::mem::take(&mut self.later) {
            self.call(function, None, |f, core| (then.0)(f, core, Ok(Reply::Nil)));
        }
        // As long as outcomes come, since what is done with them may be to ask again.
        while let Some(remote) = &mut self.remote {
            let outcomes = remote.work(Instant::now(), self.poll.registry(), REMOTE);
            if outcomes.is_empty() {
                return;
            }
            for (then, outcome) in outcomes {
                self.call(function, None, |f, core| (then.0)(f, core, outcome));
                self.report(function);
            }
        }
    }

    /// Runs a callback, and says so if it held up the others.
    fn call(
        &mut self,
        function: &mut F,
        connection: Option<Connection>,
        callback: impl FnOnce(&mut F, &mut Self),
    ) {
        let begun = Instant::now();
        self.busy.store((begun - self.epoch).as_millis() as u64 + 1, Ordering::Relaxed);
        callback(function, self);
        self.busy.store(0, Ordering::Relaxed);
        let took = begun.elapsed();
        if took > self.limit {
            function.blocked(self, connection, took);
        }
    }

    fn readable(&mut self, function: &mut F, token: Token, all: bool) {
        if token == WAKE {
            self.notify(function);
        } else if token == REMOTE {
            // It is read with the rest of its work, once a round.
            self.remote.iter_mut().for_each(Remote::set_readable);
        } else if token == DEVICE {
            // Likewise.
            self.link.iter_mut().for_each(Link::set_readable);
        } else if token.0 >= LISTENERS {
            self.accept(function, ServerId(token.0 - LISTENERS));
        } else if let Some(socket) = self.sockets.get(token.0) {
            self.read(function, self.name(token.0, socket.generation), all);
        }
    }

    fn notify(&mut self, function: &mut F) {
        while let Ok((orchestrator, notice)) = self.notices.try_recv() {
            self.call(function, None, |f, core| f.notify(core, orchestrator, &notice));
        }
    }

    fn accept(&mut self, function: &mut F, server: ServerId) {
        for _ in 0..TURN {
            let accepted = match &self.listeners[server.0] {
                Listener::Tcp(listener) => {
                    listener.accept().map(|(stream, _)| Transport::Tcp { stream, connected: true })
                }
                Listener::User(Protocol::Tcp) => {
                    let Some(link) = &mut self.link else { return };
                    let Some((key, _)) = link.stack.accept(server) else { return };
                    Ok(Transport::User { key, protocol: Protocol::Tcp, connected: true })
                }
                Listener::Udp(_) | Listener::User(_) => return self.datagrams(function, server),
            };
            match accepted {
                Ok(transport) => {
                    // A connection that cannot be watched is refused by dropping it.
                    if let Ok(connection) = self.add(transport, Some(server)) {
                        self.call(function, Some(connection), |f, core| f.accept(core, connection, server));
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // The peer was gone already.
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                Err(_) => {
                    exhausted();
                    break;
                }
            }
        }
        self.again.push(Token(LISTENERS + server.0));
    }

    /// Reads datagrams of a server's peers.
    fn datagrams(&mut self, function: &mut F, server: ServerId) {
        for _ in 0..TURN {
            let mut buffer = Buffer::new();
            let received = match (&self.listeners[server.0], &mut self.link) {
                (Listener::Udp(socket), _) => buffer.datagram(|memory| socket.recv_from(memory)),
                (_, Some(link)) => buffer.datagram(|memory| link.stack.receive_from(server, memory)),
                _ => return,
            };
            match received {
                Ok((fits, from)) => {
                    // A datagram for which there is no place is lost, as others are.
                    let Ok(connection) = self.peer(function, server, from) else { continue };
                    if fits {
                        self.call(function, Some(connection), |f, core| f.read(core, connection, buffer));
                    } else {
                        self.call(function, Some(connection), |f, core| {
                            f.error(core, connection, &Error::TooLong);
                        });
                    }
                    self.end_without_requests(connection);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // The second: a datagram that was sent before did not arrive.
                Err(error)
                    if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionRefused) => {}
                Err(_) => {
                    exhausted();
                    break;
                }
            }
        }
        self.again.push(Token(LISTENERS + server.0));
    }

    /// The connection with a peer of a UDP server.
    fn peer(&mut self, function: &mut F, server: ServerId, from: SocketAddr) -> Result<Connection, Error> {
        if let Some(&index) = self.peers.get(&(server, from))
            && let Some(socket) = self.sockets.get(index)
        {
            return Ok(self.name(index, socket.generation));
        }
        let connection = self.add(Transport::Peer(from), Some(server))?;
        self.peers.insert((server, from), connection.index as usize);
        self.call(function, Some(connection), |f, core| f.accept(core, connection, server));
        // The callback may have closed it.
        self.socket(connection).map(|_| connection)
    }

    /// Reads what there is. A stream of which less came than there was place for is read empty: if more comes, the loop hears of it anew.
    /// `all`: there may be an end or an error behind the data, of which it has heard already.
    fn read(&mut self, function: &mut F, connection: Connection, all: bool) {
        for _ in 0..TURN {
            // The callback of the last buffer may have closed the connection.
            let Ok((socket, link)) = self.parts(connection) else { return };
            if !socket.is_readable() {
                return;
            }
            let mut buffer = Buffer::new();
            match socket.receive(&mut buffer, link) {
                Ok(Received::Data) => {
                    let empty = !all && buffer.len() < BUFFER_SIZE && socket.is_stream();
                    self.call(function, Some(connection), |f, core| f.read(core, connection, buffer));
                    if empty {
                        return;
                    }
                }
                Ok(Received::TooLong) => {
                    self.call(function, Some(connection), |f, core| {
                        f.error(core, connection, &Error::TooLong);
                    });
                }
                Ok(Received::End) => {
                    socket.ended = true;
                    self.call(function, Some(connection), |f, core| {
                        f.error(core, connection, &Error::PeerClosed);
                    });
                    return self.end_without_requests(connection);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(source) => {
                    return self.fail(function, connection, &Error::Io { what: "receive", source });
                }
            }
        }
        self.again.push(Token(connection.index as usize));
    }

    /// Closes a connection that lasts only as long as its request objects, if it has none.
    fn end_without_requests(&mut self, connection: Connection) {
        if self.socket(connection).is_ok_and(|s| s.ended && s.requests.is_empty()) {
            let _ = self.close(connection);
        }
    }

    /// A connection was made, or failed to be, or takes more data.
    fn writable(&mut self, function: &mut F, token: Token) {
        let Some(socket) = self.sockets.get_mut(token.0) else { return };
        let waited = !socket.is_flushed();
        let outcome = socket.writable(&mut self.link);
        let (done, generation) = (socket.closing && socket.is_flushed(), socket.generation);
        let connection = self.name(token.0, generation);
        match outcome {
            Err(error) => self.fail(function, connection, &error),
            Ok(()) if done => self.remove(connection),
            Ok(()) if waited && self.queued(connection).is_ok_and(|bytes| bytes == 0) => {
                self.call(function, Some(connection), |f, core| f.sent(core, connection));
            }
            Ok(()) => {}
        }
    }

    /// Hands the failures of sending to the function, which its callbacks were not to wait for.
    fn report(&mut self, function: &mut F) {
        while let Some((connection, error)) = self.failed.pop() {
            self.fail(function, connection, &error);
        }
    }

    /// Hands an error to the function, unless it closed the connection before, and closes the connection.
    fn fail(&mut self, function: &mut F, connection: Connection, error: &Error) {
        if self.socket(connection).is_ok() {
            self.call(function, Some(connection), |f, core| f.error(core, connection, error));
        }
        if let Ok(socket) = self.socket(connection) {
            socket.clear();
            let _ = self.close(connection);
        } else {
            self.remove(connection);
        }
    }
}

/// Files or memory are used up: what comes waits in the kernel until the next turn.
fn exhausted() {
    std::thread::sleep(Duration::from_millis(1));
}
