//! A flow entry, and what it does.

use std::rc::Rc;

use weir_openflow::action::{Action, Instruction, Padding, WriteMetadata};
use weir_openflow::connection::Time;
use weir_openflow::error::bad_instruction;
use weir_openflow::flow::FlowRemoved;
use weir_openflow::numbers::{FlowModFlags, FlowRemovedReason};
use weir_openflow::stats::FlowStats;
use weir_openflow::{ErrorCode, GroupId, Match, MeterId, PortNo, TableId};

use crate::key::Pattern;

/// The actions on a packet, in the order of section 5.9.
#[derive(Debug, Default)]
pub struct Program {
    /// Through this meter first.
    pub meter: Option<u32>,
    /// These actions at once.
    pub apply: Vec<Action>,
    /// Whether the action set is emptied.
    pub clear: bool,
    /// These actions into the action set.
    pub write: Vec<Action>,
    /// These bits of the metadata, and which.
    pub metadata: Option<(u64, u64)>,
    /// The table after this.
    pub goto: Option<u8>,
}

impl Program {
    /// Of instructions, each of which is there once.
    ///
    /// # Errors
    /// One is there twice, is an experimenter's, or leads back.
    pub fn of(instructions: Vec<Instruction>, table: u8, tables: u8) -> Result<Program, ErrorCode> {
        let mut program = Program::default();
        let mut seen = 0_u32;
        for instruction in instructions {
            let bit = match instruction {
                Instruction::Meter(meter) => {
                    program.meter = Some(meter.0);
                    1
                }
                Instruction::ApplyActions(actions) => {
                    program.apply = actions.actions;
                    2
                }
                Instruction::ClearActions(_) => {
                    program.clear = true;
                    4
                }
                Instruction::WriteActions(actions) => {
                    program.write = actions.actions;
                    8
                }
                Instruction::WriteMetadata(w) => {
                    program.metadata = Some((w.metadata, w.mask));
                    16
                }
                Instruction::GotoTable(TableId(next)) => {
                    if next <= table || next >= tables {
                        return Err(bad_instruction::BAD_TABLE_ID);
                    }
                    program.goto = Some(next);
                    32
                }
                Instruction::Experimenter(_) => return Err(bad_instruction::BAD_EXPERIMENTER),
            };
            // Version 1.3 has no code for an instruction that stands there twice.
            if seen & bit != 0 {
                return Err(bad_instruction::UNSUP_INST);
            }
            seen |= bit;
        }
        Ok(program)
    }

    /// What controllers hear of it; lists without actions are left out.
    fn instructions(&self) -> Vec<Instruction> {
        let list = |actions: &Vec<Action>| (!actions.is_empty()).then(|| actions.clone().into());
        let metadata = self.metadata.map(|(metadata, mask)| WriteMetadata { metadata, mask });
        [
            self.meter.map(|id| Instruction::Meter(MeterId(id))),
            list(&self.apply).map(Instruction::ApplyActions),
            self.clear.then_some(Instruction::ClearActions(Padding {})),
            list(&self.write).map(Instruction::WriteActions),
            metadata.map(Instruction::WriteMetadata),
            self.goto.map(|next| Instruction::GotoTable(TableId(next))),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// All actions, of both lists.
    pub fn actions(&self) -> impl Iterator<Item = &Action> {
        self.apply.iter().chain(&self.write)
    }

    /// Whether actions lead to a port, and to a group; `ANY` is no condition.
    pub fn leads_to(&self, port: PortNo, group: GroupId) -> bool {
        let to_port = |a: &Action| matches!(a, Action::Output(o) if o.port == port);
        let to_group = |a: &Action| matches!(a, Action::Group(g) if *g == group);
        (port == PortNo::ANY || self.actions().any(to_port))
            && (group == GroupId::ANY || self.actions().any(to_group))
    }
}

/// An entry.
#[derive(Debug)]
pub struct Entry {
    /// In which table.
    pub table: u8,
    /// Its priority.
    pub priority: u16,
    /// Which packets.
    pub pattern: Pattern,
    /// The same as the controller said it.
    pub matching: Match,
    /// What the controller knows it by.
    pub cookie: u64,
    /// What it is.
    pub flags: FlowModFlags,
    /// Seconds without packets after which it goes; 0: never.
    pub idle: u16,
    /// Seconds after which it goes; 0: never.
    pub hard: u16,
    /// Since when it is there.
    pub created: Time,
    /// When it is looked at next, to see whether its time is over.
    pub due: Option<Time>,
    /// When its last packet came.
    pub used: Time,
    /// Packets that it took.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// What it does. Entries that were changed together share it.
    pub program: Rc<Program>,
}

impl Entry {
    /// Counts a packet.
    pub fn count(&mut self, bytes: usize, now: Time) {
        self.used = now;
        if !self.flags.has(FlowModFlags::NO_PKT_COUNTS) {
            self.packets += 1;
        }
        if !self.flags.has(FlowModFlags::NO_BYT_COUNTS) {
            self.bytes += bytes as u64;
        }
    }

    /// When it ends if nothing comes for it, and why.
    pub fn end(&self) -> Option<(Time, FlowRemovedReason)> {
        let after = |start: Time, seconds: u16, why| {
            (seconds > 0).then(|| (start + Time::from_secs(seconds.into()), why))
        };
        let hard = after(self.created, self.hard, FlowRemovedReason::HardTimeout);
        let idle = after(self.used, self.idle, FlowRemovedReason::IdleTimeout);
        hard.into_iter().chain(idle).min_by_key(|(at, _)| *at)
    }

    /// Whether it is the table's answer to packets that nothing else takes (section 5.4).
    pub fn is_miss(&self) -> bool {
        self.priority == 0 && self.pattern == Pattern::default()
    }

    /// Whether its cookie is this one in the bits of a mask.
    pub fn has_cookie(&self, cookie: u64, mask: u64) -> bool {
        self.cookie & mask == cookie & mask
    }

    /// What it is, and what it did.
    pub fn stats(&self, now: Time) -> FlowStats {
        let age = now.saturating_sub(self.created);
        FlowStats {
            table: TableId(self.table),
            duration_sec: age.as_secs() as u32,
            duration_nsec: age.subsec_nanos(),
            priority: self.priority,
            idle_timeout: self.idle,
            hard_timeout: self.hard,
            flags: self.flags,
            cookie: self.cookie,
            packet_count: self.packets,
            byte_count: self.bytes,
            matching: self.matching.clone(),
            instructions: self.program.instructions(),
        }
    }

    /// What controllers hear of its end.
    pub fn removed(&self, reason: FlowRemovedReason, now: Time) -> FlowRemoved {
        let age = now.saturating_sub(self.created);
        FlowRemoved {
            cookie: self.cookie,
            priority: self.priority,
            reason,
            table: TableId(self.table),
            duration_sec: age.as_secs() as u32,
            duration_nsec: age.subsec_nanos(),
            idle_timeout: self.idle,
            hard_timeout: self.hard,
            packet_count: self.packets,
            byte_count: self.bytes,
            matching: self.matching.clone(),
        }
    }
}
