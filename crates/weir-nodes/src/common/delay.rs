//! What elements that delay packets share.

use std::time::Duration;

use crate::prelude::*;

/// Before this the time of a packet was never set (one second after the epoch, as Click has it).
const UNSET: u64 = 1_000_000_000;

/// A packet that waits for its time.
#[derive(Default)]
pub(crate) struct Held(pub Option<Packet>);

impl Held {
    /// Pulls a packet, unless one waits, and gives it if it is time: a packet's timestamp and the delay after it.
    /// Otherwise says when it is time; `None`: there is no packet.
    pub fn pull(&mut self, delay: Duration, cx: &mut Cx<'_>) -> Result<Packet, Option<u64>> {
        let now = cx.now();
        let packet = match self.0.take() {
            Some(packet) => packet,
            None => {
                let mut packet = cx.pull(0).ok_or(None)?;
                let from = if packet.timestamp < UNSET { now } else { packet.timestamp };
                packet.timestamp = from.saturating_add(nanos(delay));
                packet
            }
        };
        if packet.timestamp <= now {
            return Ok(packet);
        }
        let due = packet.timestamp;
        cx.waits(&packet);
        self.0 = Some(packet);
        Err(Some(due))
    }
}

/// In nanoseconds.
pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// In seconds, as handlers show it.
pub(crate) fn seconds(time: Duration) -> String {
    format!("{}s", time.as_secs_f64())
}
