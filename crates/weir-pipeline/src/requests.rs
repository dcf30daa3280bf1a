//! What controllers ask for: changes, packets, and questions.

use weir_openflow::action::{Action, SetField};
use weir_openflow::connection::{Notification, Time};
use weir_openflow::error::{
    bad_request, group_mod_failed, meter_mod_failed, port_mod_failed, queue_op_failed, table_mod_failed,
};
use weir_openflow::flow::PacketOut;
use weir_openflow::message::{PortMod, PortStatus, TableMod};
use weir_openflow::meter::{GroupMod, MeterMod};
use weir_openflow::multipart::Part;
use weir_openflow::numbers::{FlowRemovedReason, GroupModCommand, METER_MAX, MeterModCommand, PortReason};
use weir_openflow::oxm::Oxm;
use weir_openflow::queue::QueueConfig;
use weir_openflow::{BufferId, ErrorCode, GroupId, Match, Message, MeterId, PortNo, TableId};
use weir_packet::Packet;

use crate::entry::Program;
use crate::flows::is_unusual;
use crate::groups::{Group, MAX_GROUPS, leads};
use crate::meters::Meter;
use crate::{MAX_METERS, Pipeline};

impl Pipeline {
    /// Does what a controller asks, and gives the answer, if there is one.
    ///
    /// # Errors
    /// The code with which it is refused; nothing is changed then.
    pub fn request(&mut self, message: Message, now: Time) -> Result<Option<Message>, ErrorCode> {
        match message {
            Message::FlowMod(m) => self.flow_mod(m, now)?,
            Message::GroupMod(m) => self.group_mod(&m, now)?,
            Message::MeterMod(m) => self.meter_mod(&m, now)?,
            Message::PortMod(m) => self.port_mod(&m)?,
            Message::TableMod(TableMod { table, .. }) => {
                if table != TableId::ALL && table.0 >= self.options.tables {
                    return Err(table_mod_failed::BAD_TABLE);
                }
            }
            Message::PacketOut(m) => self.packet_out(&m, now)?,
            Message::MultipartRequest(part) => {
                let reply = self.reply(part.body, now)?;
                return Ok(Some(Message::MultipartReply(Part::of(reply))));
            }
            Message::QueueGetConfigRequest(q) => {
                if q.port != PortNo::ANY && !self.ports.contains_key(&q.port.0) {
                    return Err(queue_op_failed::BAD_PORT);
                }
                return Ok(Some(Message::QueueGetConfigReply(QueueConfig {
                    port: q.port,
                    queues: Vec::new(),
                })));
            }
            Message::Experimenter(_) => return Err(bad_request::BAD_EXPERIMENTER),
            _ => return Err(bad_request::BAD_TYPE),
        }
        Ok(None)
    }

    fn group_mod(&mut self, m: &GroupMod, now: Time) -> Result<(), ErrorCode> {
        let id = m.group.0;
        if m.command == GroupModCommand::Delete {
            return self.delete_groups(m.group, now);
        }
        let is_there = self.groups.contains_key(&id);
        match m.command {
            GroupModCommand::Add if is_there => return Err(group_mod_failed::GROUP_EXISTS),
            GroupModCommand::Add if self.groups.len() >= MAX_GROUPS => {
                return Err(group_mod_failed::OUT_OF_GROUPS);
            }
            GroupModCommand::Modify if !is_there => return Err(group_mod_failed::UNKNOWN_GROUP),
            _ => {}
        }
        let group = Group::new(m, &self.groups, now)?;
        for bucket in &*group.buckets {
            // Packets of any kind may come to a group: one that lacks a field is left as it is.
            self.check_any_packet(&bucket.actions, false)?;
        }
        self.wants_plain |= group.buckets.iter().flat_map(|b| &b.actions).any(is_unusual);
        self.groups.insert(id, group);
        Ok(())
    }

    /// Whether actions can be done, whatever the packet is.
    fn check_any_packet(&self, actions: &[Action], may_table: bool) -> Result<(), ErrorCode> {
        let others = actions.iter().filter(|a| !matches!(a, Action::SetField(SetField(Oxm::Basic(_)))));
        self.check_actions(others, &Match::any_packet(), may_table)
    }

    fn delete_groups(&mut self, group: GroupId, now: Time) -> Result<(), ErrorCode> {
        if group == GroupId::ALL {
            self.groups.clear();
            let any = |p: &Program| p.actions().any(|a| matches!(a, Action::Group(_)));
            self.remove_where(FlowRemovedReason::GroupDelete, now, any);
            return Ok(());
        }
        let mut buckets = self.groups.values().flat_map(|g| g.buckets.iter());
        if buckets.any(|b| leads(&b.actions).any(|next| next == group.0)) {
            return Err(group_mod_failed::CHAINED_GROUP);
        }
        if self.groups.remove(&group.0).is_some() {
            let uses = |p: &Program| p.leads_to(PortNo::ANY, group);
            self.remove_where(FlowRemovedReason::GroupDelete, now, uses);
        }
        Ok(())
    }

    fn meter_mod(&mut self, m: &MeterMod, now: Time) -> Result<(), ErrorCode> {
        let id = m.meter.0;
        if m.command == MeterModCommand::Delete {
            let gone = |meter: u32| m.meter == MeterId::ALL || meter == id;
            self.meters.retain(|meter, _| !gone(*meter));
            self.remove_where(FlowRemovedReason::Delete, now, |p| p.meter.is_some_and(gone));
            return Ok(());
        }
        if id == 0 || id > METER_MAX {
            return Err(meter_mod_failed::INVALID_METER);
        }
        let old = self.meters.get(&id);
        match (m.command, old) {
            (MeterModCommand::Add, Some(_)) => return Err(meter_mod_failed::METER_EXISTS),
            (MeterModCommand::Modify, None) => return Err(meter_mod_failed::UNKNOWN_METER),
            (MeterModCommand::Add, None) if self.meters.len() >= MAX_METERS => {
                return Err(meter_mod_failed::OUT_OF_METERS);
            }
            _ => {}
        }
        let meter = Meter::new(m, now)?;
        let meter = match old {
            Some(old) => meter.in_place_of(old),
            None => meter,
        };
        self.meters.insert(id, meter);
        Ok(())
    }

    fn port_mod(&mut self, m: &PortMod) -> Result<(), ErrorCode> {
        let port = self.ports.get_mut(&m.port.0).ok_or(port_mod_failed::BAD_PORT)?;
        if port.change(m)? {
            let status = PortStatus { reason: PortReason::Modify, port: port.said(m.port.0) };
            self.notifications.push(Notification::PortStatus(status));
        }
        Ok(())
    }

    fn packet_out(&mut self, m: &PacketOut, now: Time) -> Result<(), ErrorCode> {
        let reserved = matches!(m.in_port, PortNo::CONTROLLER | PortNo::LOCAL);
        if !reserved && !self.ports.contains_key(&m.in_port.0) {
            return Err(bad_request::BAD_PORT);
        }
        self.check_any_packet(&m.actions, true)?;
        let packet = if m.buffer == BufferId::NONE {
            Packet::from_bytes(&m.data.0).map_err(|_| bad_request::BAD_PACKET)?
        } else {
            self.buffers.take(m.buffer).ok_or(bad_request::BUFFER_UNKNOWN)?.1
        };
        self.send_out(packet, m.in_port.0, &m.actions, now);
        Ok(())
    }
}
