//! Entries, their actions and their packets.

use std::fmt;

use super::{Out, buffer, duration};
use crate::action::{Action, Instruction};
use crate::flow::{DEFAULT_PRIORITY, FlowMod, FlowRemoved, PacketIn, PacketOut};
use crate::matching::Match;
use crate::numbers::{BufferId, FlowModCommand, FlowModFlags, GroupId, PacketInReason, PortNo, TableId};
use crate::stats::{AggregateStats, FlowStats, FlowStatsRequest};

/// Priority and match, as they stand before actions; `None`: without a priority.
fn rule(f: Out<'_, '_>, priority: Option<u16>, matching: &Match) -> fmt::Result {
    let matching = matching.to_string();
    let between = if matching.is_empty() { "" } else { "," };
    match priority.filter(|p| *p != DEFAULT_PRIORITY) {
        Some(priority) => write!(f, "priority={priority}{between}{matching}"),
        None => f.write_str(&matching),
    }
}

/// As C prints it: zero without `0x`.
fn hex(f: Out<'_, '_>, n: u64) -> fmt::Result {
    if n == 0 { f.write_str("0") } else { write!(f, "{n:#x}") }
}

pub(super) fn actions(actions: &[Action], f: Out<'_, '_>) -> fmt::Result {
    if actions.is_empty() {
        return f.write_str("drop");
    }
    actions.iter().enumerate().try_for_each(|(i, a)| write!(f, "{}{a}", if i == 0 { "" } else { "," }))
}

pub(crate) fn action(a: &Action, f: Out<'_, '_>) -> fmt::Result {
    match a {
        Action::Output(o) if o.port == PortNo::CONTROLLER => write!(f, "CONTROLLER:{}", o.max_len.0),
        Action::Output(o) if o.port.0 > crate::numbers::PORT_MAX => write!(f, "{}", o.port),
        Action::Output(o) => write!(f, "output:{}", o.port),
        Action::SetMplsTtl(ttl) => write!(f, "set_mpls_ttl({ttl})"),
        Action::SetNwTtl(ttl) => write!(f, "mod_nw_ttl:{ttl}"),
        Action::PushVlan(kind) | Action::PushMpls(kind) | Action::PopMpls(kind) | Action::PushPbb(kind) => {
            write!(f, "{}:0x{kind:04x}", a.name())
        }
        Action::SetQueue(queue) => write!(f, "set_queue:{}", queue.0),
        Action::Group(group) => write!(f, "group:{}", group.0),
        Action::SetField(field) => field.0.set_text(f),
        Action::Experimenter(e) => write!(f, "experimenter({:#x},{:?})", e.experimenter, e.data),
        Action::CopyTtlOut
        | Action::CopyTtlIn
        | Action::DecMplsTtl
        | Action::PopVlan
        | Action::DecNwTtl
        | Action::PopPbb => f.write_str(a.name()),
    }
}

pub(crate) fn instruction(i: &Instruction, f: Out<'_, '_>) -> fmt::Result {
    match i {
        Instruction::GotoTable(table) => write!(f, "goto_table:{}", table.0),
        Instruction::WriteMetadata(m) => {
            f.write_str("write_metadata:")?;
            hex(f, m.metadata)?;
            match m.mask {
                u64::MAX => Ok(()),
                mask => f.write_str("/").and_then(|()| hex(f, mask)),
            }
        }
        Instruction::WriteActions(list) => {
            f.write_str("write_actions(")?;
            actions(&list.actions, f)?;
            f.write_str(")")
        }
        Instruction::ApplyActions(list) => actions(&list.actions, f),
        Instruction::ClearActions(_) => f.write_str("clear_actions"),
        Instruction::Meter(meter) => write!(f, "meter:{meter}"),
        Instruction::Experimenter(e) => write!(f, "experimenter({:#x},{:?})", e.experimenter, e.data),
    }
}

/// Instructions, in the order in which they are done (section 5.9).
fn instructions(list: &[Instruction], f: Out<'_, '_>) -> fmt::Result {
    let order = |i: &&Instruction| match i {
        Instruction::Meter(_) => 0,
        Instruction::ApplyActions(_) => 1,
        Instruction::ClearActions(_) => 2,
        Instruction::WriteActions(_) => 3,
        Instruction::Experimenter(_) => 4,
        Instruction::WriteMetadata(_) => 5,
        Instruction::GotoTable(_) => 6,
    };
    let does = |i: &&Instruction| !matches!(i, Instruction::ApplyActions(a) if a.actions.is_empty());
    let mut list: Vec<&Instruction> = list.iter().filter(does).collect();
    list.sort_by_key(order);
    if list.is_empty() {
        return f.write_str("drop");
    }
    list.iter().enumerate().try_for_each(|(i, a)| write!(f, "{}{a}", if i == 0 { "" } else { "," }))
}

/// The names of flags, a space before each.
fn flags(f: Out<'_, '_>, flags: FlowModFlags) -> fmt::Result {
    if flags == FlowModFlags::default() { Ok(()) } else { write!(f, "{flags} ") }
}

pub(crate) fn flow_mod(m: &FlowMod, f: Out<'_, '_>) -> fmt::Result {
    write!(f, "{} ", m.command)?;
    if m.table != TableId(0) {
        write!(f, "table:{} ", m.table.0)?;
    }
    let rule = Rule(Some(m.priority), &m.matching).to_string();
    write!(f, "{rule}{}", if rule.is_empty() { "" } else { " " })?;
    // New entries have a cookie, unless it is none; others are chosen by theirs.
    match (m.command, m.cookie) {
        (FlowModCommand::Add, 0 | u64::MAX) => {}
        (FlowModCommand::Add, cookie) => write!(f, "cookie:{cookie:#x} ")?,
        (_, cookie) if m.cookie_mask != 0 => write!(f, "cookie:{cookie:#x}/{:#x} ", m.cookie_mask)?,
        _ => {}
    }
    if m.idle_timeout != 0 {
        write!(f, "idle:{} ", m.idle_timeout)?;
    }
    if m.hard_timeout != 0 {
        write!(f, "hard:{} ", m.hard_timeout)?;
    }
    if m.buffer != BufferId::NONE {
        write!(f, "buf:{:#x} ", m.buffer.0)?;
    }
    if m.out_port != PortNo::ANY {
        write!(f, "out_port:{} ", m.out_port)?;
    }
    if m.out_group != GroupId::ANY && m.command != FlowModCommand::Add {
        write!(f, "out_group:{} ", m.out_group)?;
    }
    flags(f, m.flags)?;
    f.write_str("actions=")?;
    instructions(&m.instructions, f)
}

struct Rule<'a>(Option<u16>, &'a Match);

impl fmt::Display for Rule<'_> {
    fn fmt(&self, f: Out<'_, '_>) -> fmt::Result {
        rule(f, self.0, self.1)
    }
}

pub(crate) fn flow_stats(s: &FlowStats, f: Out<'_, '_>) -> fmt::Result {
    write!(f, "cookie={:#x}, duration=", s.cookie)?;
    duration(f, s.duration_sec, s.duration_nsec)?;
    write!(f, ", table={}, n_packets={}, n_bytes={}, ", s.table.0, s.packet_count, s.byte_count)?;
    if s.idle_timeout != 0 {
        write!(f, "idle_timeout={}, ", s.idle_timeout)?;
    }
    if s.hard_timeout != 0 {
        write!(f, "hard_timeout={}, ", s.hard_timeout)?;
    }
    flags(f, s.flags)?;
    let rule = Rule(Some(s.priority), &s.matching).to_string();
    write!(f, "{rule}{}actions=", if rule.is_empty() { "" } else { " " })?;
    instructions(&s.instructions, f)
}

pub(crate) fn flow_stats_request(s: &FlowStatsRequest, f: Out<'_, '_>) -> fmt::Result {
    let mut words = Vec::new();
    if s.table != TableId::ALL {
        words.push(format!("table={}", s.table));
    }
    if s.out_port != PortNo::ANY {
        words.push(format!("out_port={}", s.out_port));
    }
    if s.out_group != GroupId::ANY {
        words.push(format!("out_group={}", s.out_group));
    }
    if s.cookie_mask != 0 {
        words.push(format!("cookie={:#x}/{:#x}", s.cookie, s.cookie_mask));
    }
    let matching = s.matching.to_string();
    words.extend((!matching.is_empty()).then_some(matching));
    f.write_str(&words.join(" "))
}

pub(crate) fn aggregate(s: &AggregateStats, f: Out<'_, '_>) -> fmt::Result {
    write!(f, "packet_count={} byte_count={} flow_count={}", s.packet_count, s.byte_count, s.flow_count)
}

pub(crate) fn flow_removed(r: &FlowRemoved, f: Out<'_, '_>) -> fmt::Result {
    let rule = Rule(Some(r.priority), &r.matching).to_string();
    write!(f, "{rule} reason={} table_id={} cookie:{:#x} duration=", r.reason, r.table, r.cookie)?;
    duration(f, r.duration_sec, r.duration_nsec)?;
    write!(
        f,
        " idle={} hard={} pkts={} bytes={}",
        r.idle_timeout, r.hard_timeout, r.packet_count, r.byte_count
    )
}

pub(crate) fn packet_in(p: &PacketIn, f: Out<'_, '_>) -> fmt::Result {
    if p.table != TableId(0) {
        write!(f, "table_id={} ", p.table)?;
    }
    if p.cookie != u64::MAX {
        write!(f, "cookie={:#x} ", p.cookie)?;
    }
    write!(f, "total_len={} {} ", p.total_len, p.matching)?;
    let reason = match p.reason {
        PacketInReason::NoMatch => "no_match",
        PacketInReason::Action => "action",
        PacketInReason::InvalidTtl => "invalid_ttl",
    };
    write!(f, "(via {reason}) data_len={}", p.data.0.len())?;
    if p.buffer == BufferId::NONE { f.write_str(" (unbuffered)") } else { buffer(f, p.buffer, " buffer=") }
}

pub(crate) fn packet_out(p: &PacketOut, f: Out<'_, '_>) -> fmt::Result {
    write!(f, "in_port={} actions=", p.in_port)?;
    actions(&p.actions, f)?;
    match p.buffer {
        BufferId::NONE => write!(f, " data_len={}", p.data.0.len()),
        id => buffer(f, id, " buffer="),
    }
}
