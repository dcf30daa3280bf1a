//! The two ends of a connection (section 6.3) as state machines: bytes and times go in, bytes and events come out.
//!
//! Whoever drives one has the socket and the clock. After bytes came ([`Controller::receive`], [`Switch::receive`]) or time passed (`tick`),
//! it takes events (`poll`) until there are none, writes what is in `output`, says how much of it went (`sent`), and sleeps until the socket
//! moves or `next_timeout` is over. A state machine that is given more than it can keep takes less of it: the rest stays in the
//! socket, so that a peer that floods only stops itself.

mod channel;
mod controller;
mod join;
mod notification;
mod switch;

use std::time::Duration;

pub use channel::CloseReason;
pub use controller::{Controller, ControllerEvent, RequestError};
pub use notification::Notification;
pub use switch::{ConnectionId, RequestId, Switch, SwitchEvent};

/// A time, since any start that stays the same.
pub type Time = Duration;

/// How much a connection may keep, and how long it may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Bytes that came and were not looked at. At least one message (65,535).
    pub input: usize,
    /// Bytes that wait to be written. Replies may go beyond it, up to twice as much; then the peer is too slow.
    pub output: usize,
    /// Requests that wait for an answer.
    pub requests: usize,
    /// Bytes of multipart messages of which the last part has not come.
    pub parts: usize,
    /// How long the start of a connection may take.
    pub handshake: Duration,
    /// After how much silence the peer is asked whether it is there.
    pub idle: Duration,
    /// How long it may take to say so.
    pub echo: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            input: 1 << 18,
            output: 1 << 22,
            requests: 4096,
            parts: 1 << 26,
            handshake: Duration::from_secs(10),
            idle: Duration::from_secs(15),
            echo: Duration::from_secs(15),
        }
    }
}
