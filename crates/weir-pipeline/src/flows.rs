//! Changes of flow entries (section 6.4), and their end by time.

use std::collections::BTreeSet;
use std::rc::Rc;

use rustc_hash::FxHashMap;
use weir_openflow::action::{Action, SetField};
use weir_openflow::connection::{Notification, Time};
use weir_openflow::error::{bad_instruction, bad_request, flow_mod_failed, meter_mod_failed};
use weir_openflow::flow::FlowMod;
use weir_openflow::numbers::{FlowModCommand, FlowModFlags, FlowRemovedReason};
use weir_openflow::oxm::{Field, Oxm};
use weir_openflow::stats::FlowStatsRequest;
use weir_openflow::{BufferId, ErrorCode, GroupId, Match, PortNo, TableId};

use crate::entry::{Entry, Program};
use crate::key::Pattern;
use crate::table::EntryId;
use crate::{MAX_ENTRIES, Pipeline, check, set};

/// Which entries are meant, beside their table and match.
struct Filter {
    cookie: u64,
    cookie_mask: u64,
    out_port: PortNo,
    out_group: GroupId,
}

impl Filter {
    fn takes(&self, entry: &Entry) -> bool {
        entry.has_cookie(self.cookie, self.cookie_mask)
            && entry.program.leads_to(self.out_port, self.out_group)
    }
}

impl Pipeline {
    /// Changes entries.
    pub(crate) fn flow_mod(&mut self, mut m: FlowMod, now: Time) -> Result<(), ErrorCode> {
        let pattern = Pattern::of(&m.matching)?;
        let deletes = matches!(m.command, FlowModCommand::Delete | FlowModCommand::DeleteStrict);
        let is_all = m.table == TableId::ALL && deletes;
        if m.table.0 >= self.options.tables && !is_all {
            return Err(flow_mod_failed::BAD_TABLE_ID);
        }
        let mut filter = Filter {
            cookie: m.cookie,
            cookie_mask: m.cookie_mask,
            out_port: PortNo::ANY,
            out_group: GroupId::ANY,
        };
        if deletes {
            (filter.out_port, filter.out_group) = (m.out_port, m.out_group);
            let gone = self.meant(m.table, &pattern, m.command, m.priority, &filter);
            gone.into_iter().for_each(|id| self.remove(id, FlowRemovedReason::Delete, now));
            return Ok(());
        }
        let program = self.program(&mut m)?;
        let buffer = m.buffer;
        if buffer != BufferId::NONE && !self.buffers.has(buffer) {
            return Err(bad_request::BUFFER_UNKNOWN);
        }
        let is_unusual = program.actions().any(is_unusual);
        let program = Rc::new(program);
        if m.command == FlowModCommand::Add {
            self.add(m, pattern, program, now)?;
        } else {
            for id in self.meant(m.table, &pattern, m.command, m.priority, &filter) {
                let Some(entry) = self.entries.get_mut(&id) else { continue };
                entry.program = Rc::clone(&program);
                if m.flags.has(FlowModFlags::RESET_COUNTS) {
                    (entry.packets, entry.bytes) = (0, 0);
                }
            }
        }
        self.wants_plain |= is_unusual;
        if let Some((port, packet)) = self.buffers.take(buffer) {
            self.resume(packet, port, now);
        }
        Ok(())
    }

    /// What an entry is to do, if it can be done.
    fn program(&self, m: &mut FlowMod) -> Result<Program, ErrorCode> {
        let program = Program::of(std::mem::take(&mut m.instructions), m.table.0, self.options.tables)?;
        if program.meter.is_some_and(|meter| !self.meters.contains_key(&meter)) {
            return Err(meter_mod_failed::UNKNOWN_METER);
        }
        if program.metadata.is_some_and(|(value, mask)| value & !mask != 0) {
            return Err(bad_instruction::UNSUP_METADATA);
        }
        self.check_actions(&program.apply, &m.matching, false)?;
        // Those of the set are done in the order of a set.
        self.check_actions(&set::of(&program.write), &m.matching, false)?;
        Ok(program)
    }

    /// Whether actions can be done to packets of a match.
    pub(crate) fn check_actions<'a>(
        &self,
        actions: impl IntoIterator<Item = &'a Action>,
        matching: &Match,
        may_table: bool,
    ) -> Result<(), ErrorCode> {
        let there = |group: GroupId| self.groups.contains_key(&group.0);
        check::check(actions, matching, &there, may_table)
    }

    fn add(
        &mut self,
        m: FlowMod,
        pattern: Pattern,
        program: Rc<Program>,
        now: Time,
    ) -> Result<(), ErrorCode> {
        let table = usize::from(m.table.0);
        if m.flags.has(FlowModFlags::CHECK_OVERLAP) {
            let entry = |id| self.entries.get(&id);
            let mut others = self.tables[table].with_priority(m.priority).filter_map(entry);
            if others.any(|e| e.pattern.overlaps(&pattern)) {
                return Err(flow_mod_failed::OVERLAP);
            }
        }
        let old = self.tables[table].exact(&pattern, m.priority);
        if old.is_none() && self.entries.len() >= MAX_ENTRIES {
            return Err(flow_mod_failed::TABLE_FULL);
        }
        let old = old.and_then(|id| self.take_out(id));
        let counts =
            old.filter(|_| !m.flags.has(FlowModFlags::RESET_COUNTS)).map_or((0, 0), |e| (e.packets, e.bytes));
        let mut entry = Entry {
            table: m.table.0,
            priority: m.priority,
            pattern,
            matching: m.matching,
            cookie: m.cookie,
            flags: m.flags,
            idle: m.idle_timeout,
            hard: m.hard_timeout,
            created: now,
            due: None,
            used: now,
            packets: counts.0,
            bytes: counts.1,
            program,
        };
        let id = self.new_id();
        self.tables[table].insert(&pattern, entry.priority, id);
        entry.due = entry.end().map(|(at, _)| at);
        self.timeouts.extend(entry.due.map(|at| (at, id)));
        self.entries.insert(id, entry);
        Ok(())
    }

    fn new_id(&mut self) -> EntryId {
        while self.entries.contains_key(&self.next_entry) {
            self.next_entry = self.next_entry.wrapping_add(1);
        }
        let id = self.next_entry;
        self.next_entry = id.wrapping_add(1);
        id
    }

    /// The entries that a change or a question means, in the order in which they were made.
    fn meant(
        &self,
        table: TableId,
        pattern: &Pattern,
        command: FlowModCommand,
        priority: u16,
        filter: &Filter,
    ) -> Vec<EntryId> {
        let tables = match table {
            TableId::ALL => &self.tables[..],
            TableId(n) => self.tables.get(usize::from(n)).map_or(&[][..], std::slice::from_ref),
        };
        let strict = matches!(command, FlowModCommand::DeleteStrict | FlowModCommand::ModifyStrict);
        let mut found = Vec::new();
        for table in tables {
            let ids: Vec<EntryId> = match strict {
                true => table.exact(pattern, priority).into_iter().collect(),
                false => table.under(pattern).collect(),
            };
            let ours = |id: &EntryId| {
                self.entries
                    .get(id)
                    .is_some_and(|e| (strict || pattern.covers(&e.pattern)) && filter.takes(e))
            };
            found.extend(ids.into_iter().filter(ours));
        }
        found.sort_unstable();
        found
    }

    /// The entries that a controller asks for.
    ///
    /// # Errors
    /// A field that is not matched here.
    pub(crate) fn asked(&self, r: &FlowStatsRequest) -> Result<Vec<&Entry>, ErrorCode> {
        let filter = Filter {
            cookie: r.cookie,
            cookie_mask: r.cookie_mask,
            out_port: r.out_port,
            out_group: r.out_group,
        };
        let pattern = Pattern::of(&r.matching)?;
        let ids = self.meant(r.table, &pattern, FlowModCommand::Delete, 0, &filter);
        Ok(ids.iter().filter_map(|id| self.entries.get(id)).collect())
    }

    /// Takes an entry out of its table.
    fn take_out(&mut self, id: EntryId) -> Option<Entry> {
        let entry = self.entries.remove(&id)?;
        if let Some(table) = self.tables.get_mut(usize::from(entry.table)) {
            table.remove(&entry.pattern, entry.priority);
        }
        if let Some(at) = entry.due {
            self.timeouts.remove(&(at, id));
        }
        Some(entry)
    }

    fn remove(&mut self, id: EntryId, reason: FlowRemovedReason, now: Time) {
        if let Some(entry) = self.take_out(id)
            && entry.flags.has(FlowModFlags::SEND_FLOW_REM)
        {
            self.notifications.push(Notification::FlowRemoved(entry.removed(reason, now)));
        }
    }

    /// Removes the entries that do something.
    pub(crate) fn remove_where(
        &mut self,
        reason: FlowRemovedReason,
        now: Time,
        is: impl Fn(&Program) -> bool,
    ) {
        let mut gone: Vec<EntryId> =
            self.entries.iter().filter(|(_, e)| is(&e.program)).map(|(id, _)| *id).collect();
        gone.sort_unstable();
        gone.into_iter().for_each(|id| self.remove(id, reason, now));
    }

    /// Ends entries whose time is over.
    pub fn tick(&mut self, now: Time) {
        while let Some(&(at, id)) = self.timeouts.first().filter(|(at, _)| *at <= now) {
            self.timeouts.remove(&(at, id));
            let Some(entry) = self.entries.get_mut(&id) else { continue };
            match entry.end() {
                Some((end, reason)) if end <= now => self.remove(id, reason, now),
                // Packets came for it.
                end => {
                    entry.due = end.map(|(at, _)| at);
                    self.timeouts.extend(entry.due.map(|at| (at, id)));
                }
            }
        }
    }

    /// When something is due.
    pub fn next_timeout(&self) -> Option<Time> {
        self.timeouts.first().map(|(at, _)| *at)
    }

    /// How many entries use each group or meter, by what a program uses of them.
    pub(crate) fn uses(&self, of: impl Fn(&Program) -> BTreeSet<u32>) -> FxHashMap<u32, usize> {
        let mut counts = FxHashMap::default();
        for id in self.entries.values().flat_map(|e| of(&e.program)) {
            *counts.entry(id).or_default() += 1;
        }
        counts
    }
}

/// Whether an action puts a header in front that hardware does not segment behind, or may change which segments there are.
pub(crate) fn is_unusual(action: &Action) -> bool {
    match action {
        Action::PushMpls(_) | Action::PushPbb(_) => true,
        Action::SetField(SetField(Oxm::Basic(value))) => {
            matches!(value.field(), Field::EthType | Field::IpProto)
        }
        _ => false,
    }
}
