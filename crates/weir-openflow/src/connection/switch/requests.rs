//! What controllers ask: answered here, or handed over.

use super::{ConnectionId, RequestId, Switch, SwitchEvent};
use crate::connection::CloseReason;
use crate::connection::join::Joined;
use crate::error::{DecodeError, ErrorCode, bad_request, role_request_failed, switch_config_failed};
use crate::message::{Frame, Message, RoleMessage};
use crate::multipart::{MultipartRequest, Part};
use crate::numbers::Role;

impl Switch {
    /// Answers what can be answered here, and hands over the rest.
    pub(super) fn take(&mut self, id: ConnectionId, frame: Frame, length: usize, start: Vec<u8>) {
        let Frame { xid, message } = frame;
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let answer = |message| Frame { xid, message };
        let changes = match &message {
            Message::PacketOut(_)
            | Message::FlowMod(_)
            | Message::GroupMod(_)
            | Message::PortMod(_)
            | Message::TableMod(_)
            | Message::MeterMod(_) => true,
            Message::MultipartRequest(part) => {
                matches!(&part.body, MultipartRequest::TableFeatures(tables) if !tables.is_empty())
            }
            _ => false,
        };
        if changes && connection.role == Role::Secondary {
            let what = format!("{} of a secondary controller; it may only read", message.name());
            return self.refuse(id, xid, bad_request::IS_SLAVE, what, &start);
        }
        match message {
            Message::FeaturesRequest => {
                connection.channel.put(&answer(Message::FeaturesReply(self.features.clone())));
            }
            Message::GetConfigRequest => {
                connection.channel.put(&answer(Message::GetConfigReply(connection.config.clone())));
            }
            // Fragments are not handled in a special way.
            Message::SetConfig(config) if config.flags == 0 => connection.config = config,
            Message::SetConfig(config) => {
                let what = format!("flags {:#x}; 0 is possible: fragments as they are", config.flags);
                self.refuse(id, xid, switch_config_failed::BAD_FLAGS, what, &start);
            }
            Message::GetAsyncRequest => {
                connection.channel.put(&answer(Message::GetAsyncReply(connection.asynchronous.clone())));
            }
            Message::SetAsync(config) => connection.asynchronous = config,
            Message::RoleRequest(request) => self.role_request(id, xid, &request, &start),
            Message::BarrierRequest => {
                connection.barrier = Some(xid);
                connection.pass_barrier();
            }
            Message::MultipartRequest(part) => match connection.parts.push(xid, part, length) {
                Joined::Whole(body) => {
                    self.hand_over(id, xid, Message::MultipartRequest(Part::of(body)), start);
                }
                Joined::Waiting => {}
                Joined::TooLong => {
                    let what = format!("its parts have more than {} bytes", self.limits.parts);
                    self.refuse(id, xid, bad_request::MULTIPART_BUFFER_OVERFLOW, what, &start);
                }
                Joined::Mismatch => {
                    let what = "a part that does not belong to the one before".to_owned();
                    self.refuse(id, xid, bad_request::BAD_MULTIPART, what, &start);
                }
                Joined::TooMany => connection.channel.close(CloseReason::Parts),
            },
            Message::Error(error) => self.events.push_back(SwitchEvent::Error { connection: id, error }),
            // What the other side of a connection says, said by the wrong one.
            Message::FeaturesReply(_)
            | Message::GetConfigReply(_)
            | Message::PacketIn(_)
            | Message::FlowRemoved(_)
            | Message::PortStatus(_)
            | Message::MultipartReply(_)
            | Message::BarrierReply
            | Message::QueueGetConfigReply(_)
            | Message::RoleReply(_)
            | Message::GetAsyncReply(_) => {
                let what = format!("{} is what a switch says", message.name());
                self.refuse(id, xid, bad_request::BAD_TYPE, what, &start);
            }
            message => self.hand_over(id, xid, message, start),
        }
    }

    fn hand_over(&mut self, id: ConnectionId, xid: u32, message: Message, start: Vec<u8>) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let number = connection.next_request;
        connection.next_request += 1;
        connection.open.insert(number, (xid, start));
        self.events.push_back(SwitchEvent::Request { id: RequestId { connection: id, number }, message });
    }

    fn refuse(&mut self, id: ConnectionId, xid: u32, code: ErrorCode, what: String, start: &[u8]) {
        self.with(id, |c| c.channel.error(xid, code, start));
        self.events
            .push_back(SwitchEvent::Refused { connection: id, error: DecodeError::new(code, 0, what) });
    }

    /// At most one primary, and no late elections (section 6.3, "Multiple Controllers").
    fn role_request(&mut self, id: ConnectionId, xid: u32, request: &RoleMessage, start: &[u8]) {
        if matches!(request.role, Role::Primary | Role::Secondary) {
            // The difference as a signed number, so that the counter may wrap.
            let late = |known: u64| (request.generation.wrapping_sub(known) as i64) < 0;
            if self.generation.is_some_and(late) {
                let known = self.generation.unwrap_or_default();
                let what = format!("generation {} is older than {known}", request.generation);
                return self.refuse(id, xid, role_request_failed::STALE, what, start);
            }
            self.generation = Some(request.generation);
        }
        if request.role == Role::Primary {
            let others =
                self.connections.iter_mut().filter(|(other, c)| **other != id && c.role == Role::Primary);
            for (other, connection) in others {
                connection.role = Role::Secondary;
                self.events.push_back(SwitchEvent::Role { connection: *other, role: Role::Secondary });
            }
        }
        // Of no election at all: all ones.
        let generation = self.generation.unwrap_or(u64::MAX);
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if request.role != Role::NoChange && request.role != connection.role {
            connection.role = request.role;
            self.events.push_back(SwitchEvent::Role { connection: id, role: request.role });
        }
        let message = Message::RoleReply(RoleMessage { role: connection.role, generation });
        connection.channel.put(&Frame { xid, message });
    }
}
