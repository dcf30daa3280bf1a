//! The end of a controller.

mod bundles;

use std::collections::{BTreeMap, VecDeque};

use crate::bundle::{BundleStep, Control};
use crate::connection::channel::{Channel, Incoming, SendError};
use crate::connection::join::{Joined, Joiner};
use crate::connection::{CloseReason, Limits, Time};
use crate::error::{DecodeError, EncodeError};
use crate::message::{ErrorMessage, Features, Frame, Message};
use crate::multipart::{MultipartReply, Part};

/// A connection to a switch.
///
/// The start (hello, features) runs by itself; [`ControllerEvent::Ready`] is its end. Each request gets a transaction id, by which
/// its answer is known. Changes have none: they are known to be done when a barrier behind them is answered.
#[derive(Debug)]
pub struct Controller {
    channel: Channel,
    features: Option<Features>,
    /// Requests that wait, each with what answers it.
    waiting: BTreeMap<u32, Answer>,
    /// Changes and barriers that were sent, in their order.
    sent: VecDeque<Sent>,
    /// Bundles that are to happen, by their transactions.
    bundles: BTreeMap<u32, Bundle>,
    parts: Joiner<MultipartReply>,
    events: VecDeque<ControllerEvent>,
}

/// The expected answer to a request: a message of this type, and of this kind if it is a multipart.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    message: u8,
    part: Option<u16>,
}

impl Answer {
    const FEATURES: Answer = Answer { message: 6, part: None };
    const BARRIER: Answer = Answer { message: 21, part: None };

    /// What a message can be the answer to.
    fn is(message: &Message) -> Answer {
        let part = match message {
            Message::MultipartReply(part) => Some(part.body.kind()),
            _ => None,
        };
        Answer { message: message.kind(), part }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Sent {
    Change(u32),
    Barrier(u32),
}

/// A bundle that is to happen.
#[derive(Debug)]
enum Bundle {
    /// Its changes were sent, and a barrier.
    Filled {
        /// The transaction of the barrier.
        barrier: u32,
        /// Why a change was refused.
        refused: Option<ErrorMessage>,
    },
    /// It was committed.
    Committed,
}

/// An event at a controller's end of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ControllerEvent {
    /// The switch is there.
    Ready(Features),
    /// The answer to a request; a multipart reply is whole.
    Reply {
        /// The request.
        xid: u32,
        /// The answer.
        message: Message,
    },
    /// A change is done: a barrier behind it was answered, and there was no error.
    Done {
        /// The change.
        xid: u32,
    },
    /// A request or change was refused.
    Failed {
        /// The request.
        xid: u32,
        /// Why.
        error: ErrorMessage,
    },
    /// Something that the switch says by itself: packets, entries and ports, messages of experimenters, and what answers nothing
    /// that was asked.
    Said(Frame),
    /// Bytes that are no message. If they were the answer to a request, none will come.
    Malformed {
        /// The transaction id in their header.
        xid: u32,
        /// What is wrong with them.
        error: DecodeError,
    },
    /// The end. Whether requests without an answer were done is not known.
    Closed(CloseReason),
}

/// A request that was not sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The start of the connection is not over, or its end has come.
    #[error("the connection is not ready; wait for the event that says it is")]
    NotReady,
    /// Too many wait.
    #[error("{0} requests wait already; wait for answers, and send a barrier behind changes")]
    Busy(usize),
    /// The output is full.
    #[error("the switch does not read: {0} bytes wait; try again when some of them are sent")]
    Full(usize),
    /// A switch says this, or the connection by itself.
    #[error("{0} is nothing that a controller asks")]
    NoRequest(&'static str),
    /// It changes nothing, so that a bundle cannot have it.
    #[error("{0} is no change; a bundle consists of changes")]
    NoChange(&'static str),
    /// It does not fit a message.
    #[error("it cannot be sent")]
    Encode(#[source] EncodeError),
}

/// What answers a request; `None` of changes.
fn answer_of(message: &Message) -> Result<Option<Answer>, RequestError> {
    let part = match message {
        Message::MultipartRequest(part) => Some(part.body.kind()),
        _ => None,
    };
    match message {
        Message::FeaturesRequest
        | Message::GetConfigRequest
        | Message::MultipartRequest(_)
        | Message::BarrierRequest
        | Message::QueueGetConfigRequest(_)
        | Message::RoleRequest(_)
        | Message::GetAsyncRequest => Ok(Some(Answer { message: message.kind() + 1, part })),
        Message::Experimenter(_)
        | Message::SetConfig(_)
        | Message::PacketOut(_)
        | Message::FlowMod(_)
        | Message::GroupMod(_)
        | Message::PortMod(_)
        | Message::TableMod(_)
        | Message::SetAsync(_)
        | Message::MeterMod(_) => Ok(None),
        other => Err(RequestError::NoRequest(other.name())),
    }
}

impl Controller {
    /// A connection that was just made.
    pub fn new(limits: Limits, now: Time) -> Controller {
        Controller {
            parts: Joiner::new(limits.parts),
            channel: Channel::new(limits, now),
            features: None,
            waiting: BTreeMap::new(),
            sent: VecDeque::new(),
            bundles: BTreeMap::new(),
            events: VecDeque::new(),
        }
    }

    /// What the switch can, when it is there.
    pub fn features(&self) -> Option<&Features> {
        self.features.as_ref()
    }

    /// Takes bytes that came, and says how many. The rest is for later.
    pub fn receive(&mut self, bytes: &[u8], now: Time) -> usize {
        self.channel.receive(bytes, now)
    }

    /// Bytes to be written.
    pub fn output(&self) -> &[u8] {
        self.channel.output()
    }

    /// So many of them are written.
    pub fn sent(&mut self, bytes: usize) {
        self.channel.sent(bytes);
    }

    /// Does what is due.
    pub fn tick(&mut self, now: Time) {
        self.channel.tick(now);
    }

    /// When something is due.
    pub fn next_timeout(&self) -> Option<Time> {
        self.channel.next_timeout()
    }

    /// Asks for something, or changes something; gives the transaction id. A multipart request that is too long for a message is
    /// divided.
    ///
    /// # Errors
    /// If it cannot be sent now, or at all.
    pub fn request(&mut self, message: Message) -> Result<u32, RequestError> {
        let answer = answer_of(&message)?;
        let xid = self.next_xid()?;
        let barrier = message == Message::BarrierRequest;
        let messages = match message {
            Message::MultipartRequest(part) => {
                Part::split(part.body).into_iter().map(Message::MultipartRequest).collect()
            }
            other => vec![other],
        };
        let frames: Vec<Frame> = messages.into_iter().map(|message| Frame { xid, message }).collect();
        self.send(&frames)?;
        match answer {
            Some(answer) => {
                self.waiting.insert(xid, answer);
                self.sent.extend(barrier.then_some(Sent::Barrier(xid)));
            }
            None => self.sent.push_back(Sent::Change(xid)),
        }
        Ok(xid)
    }

    /// The id of the next transaction, if there may be one.
    fn next_xid(&mut self) -> Result<u32, RequestError> {
        if self.features.is_none() {
            return Err(RequestError::NotReady);
        }
        let count = self.waiting.len() + self.sent.len() + self.bundles.len();
        if count >= self.channel.limits().requests {
            return Err(RequestError::Busy(count));
        }
        let mut xid = self.channel.xid();
        while self.waiting.contains_key(&xid) {
            xid = self.channel.xid();
        }
        Ok(xid)
    }

    fn send(&mut self, frames: &[Frame]) -> Result<(), RequestError> {
        self.channel.try_send(frames).map_err(|e| match e {
            SendError::Encode(e) => RequestError::Encode(e),
            SendError::Full => RequestError::Full(self.channel.output().len()),
            SendError::Closed => RequestError::NotReady,
        })
    }

    /// What happened next.
    pub fn poll(&mut self) -> Option<ControllerEvent> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
            match self.channel.next()? {
                Incoming::Hello => {
                    let xid = self.channel.xid();
                    self.waiting.insert(xid, Answer::FEATURES);
                    self.channel.put(&Frame { xid, message: Message::FeaturesRequest });
                }
                Incoming::Frame { frame, length, .. } => self.take(frame, length),
                Incoming::Malformed { header, error, .. } => {
                    self.waiting.remove(&header.xid);
                    self.parts.forget(header.xid);
                    self.events.push_back(ControllerEvent::Malformed { xid: header.xid, error });
                }
                Incoming::Closed(reason) => {
                    self.waiting.clear();
                    self.sent.clear();
                    self.bundles.clear();
                    self.events.push_back(ControllerEvent::Closed(reason));
                }
            }
        }
    }

    fn take(&mut self, frame: Frame, length: usize) {
        let Frame { xid, message } = frame;
        if let Message::Error(error) = message {
            self.waiting.remove(&xid);
            self.parts.forget(xid);
            match self.bundles.get_mut(&xid) {
                // It is reported when nothing more of it can come.
                Some(Bundle::Filled { refused, .. }) => {
                    refused.get_or_insert(error);
                    return;
                }
                Some(Bundle::Committed) => drop(self.bundles.remove(&xid)),
                None => {}
            }
            let refused = Some(error.clone());
            if self.end_of_bundle(xid, refused) {
                return;
            }
            self.sent.retain(|s| *s != Sent::Change(xid));
            self.events.push_back(ControllerEvent::Failed { xid, error });
            return;
        }
        if self.bundles.contains_key(&xid)
            && let Message::Experimenter(m) = &message
            && let Some(Ok(control)) = Control::of(m)
        {
            if control.step == BundleStep::CommitReply {
                self.bundles.remove(&xid);
                self.events.push_back(ControllerEvent::Done { xid });
            }
            return;
        }
        if self.waiting.get(&xid) != Some(&Answer::is(&message)) {
            self.events.push_back(ControllerEvent::Said(Frame { xid, message }));
            return;
        }
        let message = match message {
            Message::MultipartReply(part) => match self.join(xid, part, length) {
                Some(body) => Message::MultipartReply(Part::of(body)),
                None => return,
            },
            other => other,
        };
        self.waiting.remove(&xid);
        match message {
            Message::FeaturesReply(features) if self.features.is_none() => {
                self.channel.set_ready();
                self.features = Some(features.clone());
                self.events.push_back(ControllerEvent::Ready(features));
            }
            message => {
                if message == Message::BarrierReply {
                    self.barrier(xid);
                    if self.end_of_bundle(xid, None) {
                        return;
                    }
                }
                self.events.push_back(ControllerEvent::Reply { xid, message });
            }
        }
    }

    fn join(&mut self, xid: u32, part: Part<MultipartReply>, length: usize) -> Option<MultipartReply> {
        match self.parts.push(xid, part, length) {
            Joined::Whole(body) => Some(body),
            Joined::Waiting => None,
            Joined::TooLong | Joined::TooMany | Joined::Mismatch => {
                self.channel.close(CloseReason::Parts);
                None
            }
        }
    }

    /// All changes before a barrier are done, unless they failed.
    fn barrier(&mut self, xid: u32) {
        if !self.sent.contains(&Sent::Barrier(xid)) {
            return;
        }
        while let Some(sent) = self.sent.pop_front() {
            match sent {
                Sent::Barrier(this) if this == xid => break,
                Sent::Barrier(_) => {}
                Sent::Change(xid) => self.events.push_back(ControllerEvent::Done { xid }),
            }
        }
    }
}
