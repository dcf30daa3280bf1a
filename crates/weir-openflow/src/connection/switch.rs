//! The end of a switch: all its controllers, for what one may do depends on the others.

mod requests;

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

use crate::connection::channel::{Channel, Incoming};
use crate::connection::join::Joiner;
use crate::connection::{CloseReason, Limits, Notification, Time};
use crate::error::{DecodeError, EncodeError, ErrorCode};
use crate::message::{AsyncConfig, ErrorMessage, Features, Frame, Message, SwitchConfig};
use crate::multipart::{MultipartRequest, Part};
use crate::numbers::{MaxLen, Role};

/// The type of error messages.
const ERROR: u8 = 1;

/// A connection of a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(u64);

/// A request that was handed over and has to be finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId {
    /// Whose it is.
    pub connection: ConnectionId,
    number: u64,
}

/// A switch as its controllers see it.
///
/// Hello, echo, features, configuration, roles, barriers and asynchronous messages are handled here. All else
/// comes as [`SwitchEvent::Request`], in the order of its connection; each is finished by [`Switch::finish`], after any number of [`Switch::answer`],
/// or by [`Switch::fail`]. What a secondary controller may not do is refused here, but for messages of experimenters: [`Switch::role`] says which it is. Behind a barrier nothing of that connection comes before all that is before it is finished.
#[derive(Debug)]
pub struct Switch {
    features: Features,
    limits: Limits,
    connections: BTreeMap<ConnectionId, Connection>,
    next_connection: u64,
    /// Whose turn it is: the connections before it had theirs.
    turn: ConnectionId,
    /// The newest election that is known.
    generation: Option<u64>,
    events: VecDeque<SwitchEvent>,
}

#[derive(Debug)]
struct Connection {
    channel: Channel,
    role: Role,
    asynchronous: AsyncConfig,
    config: SwitchConfig,
    /// Requests that are not finished: transaction and start.
    open: BTreeMap<u64, (u32, Vec<u8>)>,
    next_request: u64,
    /// The transaction of a barrier that waits for them.
    barrier: Option<u32>,
    parts: Joiner<MultipartRequest>,
    /// Notifications that its output had no place for.
    dropped: u64,
}

/// An event at a switch's end of its connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SwitchEvent {
    /// A controller is there.
    Up(ConnectionId),
    /// Something to be done, and finished.
    Request {
        /// What it is finished by.
        id: RequestId,
        /// What is asked; a multipart request is whole.
        message: Message,
    },
    /// A controller's role is another.
    Role {
        /// Whose.
        connection: ConnectionId,
        /// What it is now.
        role: Role,
    },
    /// Bytes that are no message, or none that a controller may send; it got an error.
    Refused {
        /// Whose.
        connection: ConnectionId,
        /// What is wrong with them.
        error: DecodeError,
    },
    /// A controller reports an error in something that it got.
    Error {
        /// Which one.
        connection: ConnectionId,
        /// What it says.
        error: ErrorMessage,
    },
    /// The end of a connection, whose requests need not be finished any more.
    Closed {
        /// Which one.
        connection: ConnectionId,
        /// Why.
        reason: CloseReason,
    },
}

impl Switch {
    /// A switch without controllers. Each connection has these limits.
    pub fn new(features: Features, limits: Limits) -> Switch {
        Switch {
            features,
            limits,
            connections: BTreeMap::new(),
            next_connection: 0,
            turn: ConnectionId(0),
            generation: None,
            events: VecDeque::new(),
        }
    }

    /// A connection that was just made, whoever made it.
    pub fn connect(&mut self, now: Time) -> ConnectionId {
        let id = ConnectionId(self.next_connection);
        self.next_connection += 1;
        let connection = Connection {
            channel: Channel::new(self.limits.clone(), now),
            role: Role::Equal,
            asynchronous: AsyncConfig::default(),
            config: SwitchConfig { flags: 0, miss_send_len: MaxLen(128) },
            open: BTreeMap::new(),
            next_request: 0,
            barrier: None,
            parts: Joiner::new(self.limits.parts),
            dropped: 0,
        };
        self.connections.insert(id, connection);
        id
    }

    /// The other side is gone, or has to go.
    pub fn disconnect(&mut self, id: ConnectionId) {
        self.connections.remove(&id);
    }

    /// Takes bytes that came, and says how many. The rest is for later.
    pub fn receive(&mut self, id: ConnectionId, bytes: &[u8], now: Time) -> usize {
        self.connections.get_mut(&id).map_or(bytes.len(), |c| c.channel.receive(bytes, now))
    }

    /// Bytes to be written.
    pub fn output(&self, id: ConnectionId) -> &[u8] {
        self.connections.get(&id).map_or(&[], |c| c.channel.output())
    }

    /// So many of them are written.
    pub fn sent(&mut self, id: ConnectionId, bytes: usize) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.channel.sent(bytes);
        }
    }

    /// Does what is due.
    pub fn tick(&mut self, now: Time) {
        self.connections.values_mut().for_each(|c| c.channel.tick(now));
    }

    /// When something is due.
    pub fn next_timeout(&self) -> Option<Time> {
        self.connections.values().filter_map(|c| c.channel.next_timeout()).min()
    }

    /// What a controller may do.
    pub fn role(&self, id: ConnectionId) -> Option<Role> {
        self.connections.get(&id).map(|c| c.role)
    }

    /// How a controller configured the switch for itself.
    pub fn config(&self, id: ConnectionId) -> Option<&SwitchConfig> {
        self.connections.get(&id).map(|c| &c.config)
    }

    /// How many notifications a controller did not get, because it did not read those before.
    pub fn dropped(&self, id: ConnectionId) -> u64 {
        self.connections.get(&id).map_or(0, |c| c.dropped)
    }

    /// What happened next. Controllers take turns.
    pub fn poll(&mut self) -> Option<SwitchEvent> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
            let (id, incoming) = self.next_incoming()?;
            self.turn = ConnectionId(id.0 + 1);
            match incoming {
                Incoming::Hello => {
                    self.with(id, |c| c.channel.set_ready());
                    self.events.push_back(SwitchEvent::Up(id));
                }
                Incoming::Frame { frame, length, start } => self.take(id, frame, length, start),
                Incoming::Malformed { header, error, start } => {
                    // An error is not answered by an error: that would never end.
                    if header.kind != ERROR {
                        self.with(id, |c| c.channel.error(header.xid, error.code, &start));
                    }
                    self.events.push_back(SwitchEvent::Refused { connection: id, error });
                }
                Incoming::Closed(reason) => {
                    self.with(id, |c| c.open.clear());
                    self.events.push_back(SwitchEvent::Closed { connection: id, reason });
                }
            }
        }
    }

    /// What came, of the first connection from the turn on that has something.
    fn next_incoming(&mut self) -> Option<(ConnectionId, Incoming)> {
        let turn = self.turn;
        let mut from = |ids: (Bound<ConnectionId>, Bound<ConnectionId>)| {
            self.connections.range_mut(ids).find_map(|(id, c)| Some((*id, c.next()?)))
        };
        from((Bound::Included(turn), Bound::Unbounded))
            .or_else(|| from((Bound::Unbounded, Bound::Excluded(turn))))
    }

    fn with(&mut self, id: ConnectionId, f: impl FnOnce(&mut Connection)) {
        if let Some(connection) = self.connections.get_mut(&id) {
            f(connection);
        }
    }

    /// Says something in answer to a request. Multipart replies that are too long for a message are divided.
    ///
    /// # Errors
    /// If it cannot be divided so that it fits; nothing of it is said then.
    pub fn answer(&mut self, id: RequestId, message: Message) -> Result<(), EncodeError> {
        let Some(connection) = self.connections.get_mut(&id.connection) else { return Ok(()) };
        let Some(&(xid, _)) = connection.open.get(&id.number) else { return Ok(()) };
        let frames = match message {
            Message::MultipartReply(part) => {
                let message = |part| Frame { xid, message: Message::MultipartReply(part) };
                Part::split(part.body).into_iter().map(message).collect()
            }
            message => vec![Frame { xid, message }],
        };
        connection.channel.put_all(&frames)
    }

    /// A request is done.
    pub fn finish(&mut self, id: RequestId) {
        self.with(id.connection, |c| {
            c.open.remove(&id.number);
            c.pass_barrier();
        });
    }

    /// A request is done: refused, for this reason.
    pub fn fail(&mut self, id: RequestId, code: ErrorCode) {
        self.with(id.connection, |c| {
            if let Some((xid, start)) = c.open.remove(&id.number) {
                c.channel.error(xid, code, &start);
            }
            c.pass_barrier();
        });
    }

    /// Notifies all controllers that want it. One that does not read what it got before is left out, and counted.
    ///
    /// # Errors
    /// If it does not fit a message; nobody is notified then.
    pub fn notify(&mut self, notification: Notification) -> Result<(), EncodeError> {
        let hears = |c: &&mut Connection| c.channel.is_up() && notification.is_for(&c.asynchronous, c.role);
        let hearers: Vec<&mut Connection> = self.connections.values_mut().filter(hears).collect();
        if hearers.is_empty() {
            return Ok(());
        }
        let bytes = Frame { xid: 0, message: notification.message() }.encode()?;
        for connection in hearers {
            connection.dropped += u64::from(!connection.channel.try_push(&bytes));
        }
        Ok(())
    }
}

impl Connection {
    /// What came next, unless something before it has to be finished, or its answers have to be read.
    fn next(&mut self) -> Option<Incoming> {
        let full = self.open.len() >= self.channel.limits().requests || self.channel.is_full();
        if (self.barrier.is_some() || full) && !self.channel.is_closed() {
            return None;
        }
        self.channel.next()
    }

    /// Answers a barrier if all before it is finished.
    fn pass_barrier(&mut self) {
        if self.open.is_empty()
            && let Some(xid) = self.barrier.take()
        {
            self.channel.put(&Frame { xid, message: Message::BarrierReply });
        }
    }
}
