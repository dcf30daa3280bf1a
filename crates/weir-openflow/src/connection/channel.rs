//! What both ends have in common: framing, hello, echo, buffers.

use crate::connection::{Limits, Time};
use crate::error::{DecodeError, EncodeError, ErrorCode, bad_request, hello_failed};
use crate::hello::{self, HelloElement};
use crate::message::{ErrorMessage, Frame, HEADER, Header, Message, VERSION};

/// How many bytes of a message that was wrong its error quotes (section 7.4.4: 64 at least).
const QUOTED: usize = 64;

/// The type of hello messages.
const HELLO: u8 = 0;

/// Why a connection ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CloseReason {
    /// The peer has no version in common with us.
    #[error("the peer speaks {0}; only OpenFlow 1.3 (version 0x04) is spoken here")]
    Version(String),
    /// The peer says that it has no version in common with us.
    #[error("the peer refuses our version: {0}")]
    Refused(String),
    /// Something else came before the hello.
    #[error("the first message is {0}, and no OFPT_HELLO")]
    NoHello(String),
    /// A length that no message has: where the next one starts is not known any more.
    #[error("a message says that it has {0} bytes; its header alone has 8")]
    Length(u16),
    /// The start took too long.
    #[error("the peer has not finished the start of the connection in time")]
    Handshake,
    /// The peer does not answer.
    #[error("the peer has not answered an echo request in time")]
    Silent,
    /// The peer does not read.
    #[error("the peer does not take what it asked for: {0} bytes wait")]
    Slow(usize),
    /// More parts of multipart messages than are kept.
    #[error("the peer began more multipart messages than are kept")]
    Parts,
}

/// A received message, or bytes that are none.
#[derive(Debug)]
pub(crate) enum Incoming {
    /// The first message of the peer, and it suits us.
    Hello,
    /// A message, how long it was, and its start for errors.
    Frame { frame: Frame, length: usize, start: Vec<u8> },
    /// Bytes that are none. Their sender has got no error.
    Malformed { header: Header, error: DecodeError, start: Vec<u8> },
    /// The end. It comes once, and nothing after it.
    Closed(CloseReason),
}

/// A message that was not put into the output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SendError {
    Encode(EncodeError),
    /// The output has no place for it.
    Full,
    Closed,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    /// Our hello is sent, the peer's has not come.
    Hello,
    /// Messages go to and fro. Whether the start is over, whoever uses this says.
    Up { ready: bool },
    /// The end, which was reported or not.
    Closed { reason: CloseReason, told: bool },
}

/// One end of a connection.
#[derive(Debug)]
pub(crate) struct Channel {
    limits: Limits,
    state: State,
    input: Buffer,
    output: Buffer,
    next_xid: u32,
    opened: Time,
    /// When something came last.
    heard: Time,
    /// When the peer was asked whether it is there, if it has not said anything since.
    asked: Option<Time>,
}

impl Channel {
    /// A connection that was just made. Its hello waits in the output.
    pub(crate) fn new(limits: Limits, now: Time) -> Channel {
        let mut channel = Channel {
            limits,
            state: State::Hello,
            input: Buffer::default(),
            output: Buffer::default(),
            next_xid: 1,
            opened: now,
            heard: now,
            asked: None,
        };
        let xid = channel.xid();
        channel.put(&Frame { xid, message: Message::Hello(vec![HelloElement::versions(&[VERSION])]) });
        channel
    }

    /// A transaction id that was not used for long.
    pub(crate) fn xid(&mut self) -> u32 {
        let xid = self.next_xid;
        self.next_xid = self.next_xid.checked_add(1).unwrap_or(1);
        xid
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(crate) fn is_up(&self) -> bool {
        matches!(self.state, State::Up { .. })
    }

    pub(crate) fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed { .. })
    }

    pub(crate) fn set_ready(&mut self) {
        if let State::Up { ready } = &mut self.state {
            *ready = true;
        }
    }

    pub(crate) fn close(&mut self, reason: CloseReason) {
        if !self.is_closed() {
            self.state = State::Closed { reason, told: false };
            self.input = Buffer::default();
        }
    }

    /// Takes bytes that came; says how many.
    pub(crate) fn receive(&mut self, bytes: &[u8], now: Time) -> usize {
        if self.is_closed() {
            return bytes.len();
        }
        if !bytes.is_empty() {
            self.heard = now;
            self.asked = None;
        }
        // One message has to fit, or none would ever be whole.
        let most = self.limits.input.max(usize::from(u16::MAX));
        let taken = bytes.len().min(most.saturating_sub(self.input.bytes().len()));
        self.input.push(&bytes[..taken]);
        taken
    }

    /// The next message. Echo requests are answered, echo replies taken.
    pub(crate) fn next(&mut self) -> Option<Incoming> {
        loop {
            if let State::Closed { reason, told } = &mut self.state {
                let first = !std::mem::replace(told, true);
                return first.then(|| Incoming::Closed(reason.clone()));
            }
            let header = Header::read(self.input.bytes())?;
            let length = usize::from(header.length);
            if length < HEADER {
                let start = self.input.bytes()[..HEADER].to_vec();
                self.error(header.xid, bad_request::BAD_LEN, &start);
                self.close(CloseReason::Length(header.length));
                continue;
            }
            let bytes = self.input.bytes().get(..length)?;
            let start = bytes[..length.min(QUOTED)].to_vec();
            let decoded = Frame::decode(bytes);
            let hello = self.state == State::Hello && header.kind == HELLO;
            let elements = if hello { hello::readable(&bytes[HEADER..]) } else { Vec::new() };
            self.input.take(length);
            if self.state == State::Hello {
                match self.greet(header, decoded, &elements) {
                    Ok(()) => return Some(Incoming::Hello),
                    Err(reason) => self.close(reason),
                }
                continue;
            }
            match decoded {
                Ok(Frame { xid, message: Message::EchoRequest(data) }) => {
                    self.put(&Frame { xid, message: Message::EchoReply(data) });
                }
                // That something came is what was asked for; a second hello says nothing.
                Ok(Frame { message: Message::EchoReply(_) | Message::Hello(_), .. }) => {}
                Ok(frame) => return Some(Incoming::Frame { frame, length, start }),
                Err(error) => return Some(Incoming::Malformed { header, error, start }),
            }
        }
    }

    /// Looks at the peer's first message (section 6.3, "Connection Setup").
    fn greet(
        &mut self,
        header: Header,
        decoded: Result<Frame, DecodeError>,
        elements: &[HelloElement],
    ) -> Result<(), CloseReason> {
        match decoded {
            _ if header.kind == HELLO => {}
            Ok(Frame { message: Message::Error(e), .. }) => return Err(CloseReason::Refused(e.to_string())),
            Ok(frame) => return Err(CloseReason::NoHello(frame.message.name().to_owned())),
            Err(e) => return Err(CloseReason::NoHello(e.to_string())),
        }
        let bitmap = elements.iter().find_map(|e| match e {
            HelloElement::VersionBitmap(words) => Some(words),
            HelloElement::Other { .. } => None,
        });
        let suits = match bitmap {
            Some(words) => words.first().is_some_and(|w| w & 1 << VERSION != 0),
            // The smaller one of both versions.
            None => header.version >= VERSION,
        };
        if suits {
            self.state = State::Up { ready: false };
            return Ok(());
        }
        let theirs = match bitmap {
            Some(words) => format!("versions {words:x?} (a bitmap)"),
            None => format!("version {:#04x}", header.version),
        };
        let reason = CloseReason::Version(theirs);
        let data = reason.to_string().into_bytes().into();
        let message = Message::Error(ErrorMessage { code: hello_failed::INCOMPATIBLE, data });
        self.put(&Frame { xid: header.xid, message });
        Err(reason)
    }

    /// Puts an answer into the output that is short enough for a message.
    pub(crate) fn put(&mut self, frame: &Frame) {
        let put = self.put_all(std::slice::from_ref(frame));
        debug_assert!(put.is_ok(), "{frame} is too long");
    }

    /// Puts an answer of several messages into the output, however long it is. A peer that does not read its answers is ended.
    pub(crate) fn put_all(&mut self, frames: &[Frame]) -> Result<(), EncodeError> {
        let waiting = self.output.bytes().len();
        if waiting > self.limits.output.saturating_mul(2) {
            self.close(CloseReason::Slow(waiting));
        }
        if !self.is_closed() {
            self.output.push(&encoded(frames)?);
        }
        Ok(())
    }

    /// Whether as much waits to be written as may.
    pub(crate) fn is_full(&self) -> bool {
        self.output.bytes().len() >= self.limits.output
    }

    /// Puts messages into the output if there is place for all of them.
    pub(crate) fn try_send(&mut self, frames: &[Frame]) -> Result<(), SendError> {
        if self.is_closed() {
            return Err(SendError::Closed);
        }
        let bytes = encoded(frames).map_err(SendError::Encode)?;
        if self.try_push(&bytes) { Ok(()) } else { Err(SendError::Full) }
    }

    /// Puts bytes of messages into the output if there is place for them.
    pub(crate) fn try_push(&mut self, bytes: &[u8]) -> bool {
        // What is longer than all of it has its place when nothing else is there.
        let most = self.limits.output.max(bytes.len());
        let fits = !self.is_closed() && self.output.bytes().len() + bytes.len() <= most;
        if fits {
            self.output.push(bytes);
        }
        fits
    }

    /// Says what was wrong with a message, and quotes its start.
    pub(crate) fn error(&mut self, xid: u32, code: ErrorCode, start: &[u8]) {
        self.put(&Frame { xid, message: Message::Error(ErrorMessage { code, data: start.into() }) });
    }

    pub(crate) fn output(&self) -> &[u8] {
        self.output.bytes()
    }

    pub(crate) fn sent(&mut self, n: usize) {
        self.output.take(n);
    }

    /// Does what is due.
    pub(crate) fn tick(&mut self, now: Time) {
        if self.next_timeout().is_none_or(|due| now < due) {
            return;
        }
        match (&self.state, self.asked) {
            (State::Closed { .. }, _) => {}
            (State::Hello | State::Up { ready: false }, _) => self.close(CloseReason::Handshake),
            (State::Up { .. }, Some(_)) => self.close(CloseReason::Silent),
            (State::Up { .. }, None) => {
                let xid = self.xid();
                self.put(&Frame { xid, message: Message::EchoRequest(Vec::new().into()) });
                self.asked = Some(now);
            }
        }
    }

    /// When something is due.
    pub(crate) fn next_timeout(&self) -> Option<Time> {
        match (&self.state, self.asked) {
            (State::Closed { .. }, _) => None,
            (State::Hello | State::Up { ready: false }, _) => self.opened.checked_add(self.limits.handshake),
            (State::Up { .. }, Some(asked)) => asked.checked_add(self.limits.echo),
            (State::Up { .. }, None) => self.heard.checked_add(self.limits.idle),
        }
    }
}

/// The bytes of messages, one behind the other.
fn encoded(frames: &[Frame]) -> Result<Vec<u8>, EncodeError> {
    frames.iter().try_fold(Vec::new(), |mut bytes, frame| {
        bytes.extend(frame.encode()?);
        Ok(bytes)
    })
}

/// Bytes that come behind and go in front.
#[derive(Debug, Default)]
struct Buffer {
    bytes: Vec<u8>,
    start: usize,
}

impl Buffer {
    fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    fn push(&mut self, bytes: &[u8]) {
        // What has gone is cleared when it is more than what is left, so that each byte moves once at most.
        if self.start > self.bytes.len() / 2 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    fn take(&mut self, n: usize) {
        self.start = (self.start + n).min(self.bytes.len());
        if self.start == self.bytes.len() {
            self.bytes.clear();
            self.start = 0;
        }
    }
}
