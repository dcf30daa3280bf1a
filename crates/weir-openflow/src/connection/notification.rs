//! What a switch says by itself (section 6.1.2).

use crate::flow::{FlowRemoved, PacketIn};
use crate::message::{AsyncConfig, Message, PortStatus};
use crate::numbers::Role;

/// A notification: what a switch sends its controllers without a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notification {
    /// A packet.
    PacketIn(PacketIn),
    /// An entry that is gone.
    FlowRemoved(FlowRemoved),
    /// A port that is another.
    PortStatus(PortStatus),
}

impl Notification {
    /// Whether a controller with this configuration and role hears of it.
    pub(super) fn is_for(&self, config: &AsyncConfig, role: Role) -> bool {
        let (masks, reason) = match self {
            Notification::PacketIn(p) => (config.packet_in, p.reason as u32),
            Notification::FlowRemoved(r) => (config.flow_removed, r.reason as u32),
            Notification::PortStatus(s) => (config.port_status, s.reason as u32),
        };
        masks[usize::from(role == Role::Secondary)] & 1 << reason != 0
    }

    pub(super) fn message(self) -> Message {
        match self {
            Notification::PacketIn(p) => Message::PacketIn(p),
            Notification::FlowRemoved(r) => Message::FlowRemoved(r),
            Notification::PortStatus(s) => Message::PortStatus(s),
        }
    }
}
