//! Messages about flows and their packets (sections 7.3.4.1, 7.3.7, 7.4.1 and 7.4.2).

use crate::action::{Action, Instruction};
use crate::choices::Choices;
use crate::error::{DecodeError, bad_action};
use crate::matching::Match;
use crate::numbers::{
    BufferId, FlowModCommand, FlowModFlags, FlowRemovedReason, GroupId, PacketInReason, PortNo, TableId,
};
use crate::wire::{Bytes, Reader, Wire};

/// The priority that entries have if none is said.
pub const DEFAULT_PRIORITY: u16 = 0x8000;

record! {
    /// `OFPT_FLOW_MOD`
    text crate::text::flow_mod =>
    pub struct FlowMod {
        /// What the controller knows the entry by.
        cookie: u64;
        /// Which bits of the cookie count when entries are chosen.
        cookie_mask: u64;
        /// In which table.
        table: TableId;
        /// What is done.
        command: FlowModCommand;
        /// Seconds without packets after which it goes; 0: never.
        idle_timeout: u16;
        /// Seconds after which it goes; 0: never.
        hard_timeout: u16;
        /// Higher ones are looked at first.
        priority: u16;
        /// A packet that the switch keeps, to send it through the entry.
        buffer: BufferId;
        /// To delete only what sends to this port.
        out_port: PortNo;
        /// To delete only what sends to this group.
        out_group: GroupId;
        /// What it is.
        flags: FlowModFlags, pad 2;
        /// Which packets.
        matching: Match;
        /// What is done to them; nothing: they are dropped.
        instructions: Vec<Instruction>;
    }
}

impl FlowMod {
    /// A change of one table with nothing special about it.
    pub fn new(command: FlowModCommand, table: TableId, matching: Match) -> FlowMod {
        FlowMod {
            cookie: 0,
            cookie_mask: 0,
            table,
            command,
            idle_timeout: 0,
            hard_timeout: 0,
            priority: DEFAULT_PRIORITY,
            buffer: BufferId::NONE,
            out_port: PortNo::ANY,
            out_group: GroupId::ANY,
            flags: FlowModFlags::default(),
            matching,
            instructions: Vec::new(),
        }
    }

    /// A new entry.
    pub fn add(table: TableId, priority: u16, matching: Match, instructions: Vec<Instruction>) -> FlowMod {
        FlowMod { priority, instructions, ..FlowMod::new(FlowModCommand::Add, table, matching) }
    }
}

record! {
    /// `OFPT_FLOW_REMOVED`
    text crate::text::flow_removed =>
    pub struct FlowRemoved {
        /// What the controller knows the entry by.
        cookie: u64;
        /// Its priority.
        priority: u16;
        /// Why it is gone.
        reason: FlowRemovedReason;
        /// In which table it was.
        table: TableId;
        /// How long it was there: seconds,
        duration_sec: u32;
        /// and nanoseconds.
        duration_nsec: u32;
        /// Its idle timeout, in seconds.
        idle_timeout: u16;
        /// Its hard timeout, in seconds.
        hard_timeout: u16;
        /// Packets that it took.
        packet_count: u64;
        /// Their bytes.
        byte_count: u64;
        /// Which packets these were.
        matching: Match;
    }
}

record! {
    /// `OFPT_PACKET_IN`
    text crate::text::packet_in =>
    pub struct PacketIn {
        /// Under which number the switch keeps it.
        buffer: BufferId;
        /// How long the whole packet is, in bytes.
        total_len: u16;
        /// Why it comes.
        reason: PacketInReason;
        /// Which table sent it.
        table: TableId;
        /// The entry that sent it; all ones: none.
        cookie: u64;
        /// Where it came in, its metadata and its tunnel.
        matching: Match, pad 2;
        /// The packet, or its start.
        data: Bytes;
    }
}

/// `OFPT_PACKET_OUT`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PacketOut {
    /// A packet that the switch keeps.
    pub buffer: BufferId,
    /// Where it is to have come in; `CONTROLLER` if nowhere.
    pub in_port: PortNo,
    /// What is done to it.
    pub actions: Vec<Action>,
    /// The packet, if the switch does not keep it.
    pub data: Bytes,
}

impl PacketOut {
    /// A packet of the controller's, with actions.
    pub fn new(actions: Vec<Action>, data: impl Into<Bytes>) -> PacketOut {
        PacketOut { buffer: BufferId::NONE, in_port: PortNo::CONTROLLER, actions, data: data.into() }
    }
}

// By hand: the length of its actions stands before them, and is that of a part of the message.
impl Wire for PacketOut {
    fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let buffer = BufferId::read(r)?;
        let in_port = PortNo::read(r)?;
        let length = usize::from(r.u16()?);
        r.skip(6)?;
        let mut part = r.part(length, bad_action::BAD_LEN)?;
        let actions = Vec::read(&mut part).map_err(|e| e.within("actions"))?;
        Ok(PacketOut { buffer, in_port, actions, data: Bytes::read(r)? })
    }
    fn write(&self, w: &mut Vec<u8>) {
        self.buffer.write(w);
        self.in_port.write(w);
        let length_at = w.len();
        w.extend([0; 8]);
        let start = w.len();
        self.actions.write(w);
        crate::wire::set_length(w, start, length_at);
        self.data.write(w);
    }
    fn any(c: &mut Choices<'_>) -> Self {
        PacketOut {
            buffer: BufferId::any(c),
            in_port: PortNo::any(c),
            actions: Vec::any(c),
            data: Bytes::any(c),
        }
    }
    fn text(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        crate::text::packet_out(self, f)
    }
}
