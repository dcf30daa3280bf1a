//! A packet through the tables.

use std::hash::{Hash, Hasher};
use std::rc::Rc;

use weir_openflow::PortNo;
use weir_openflow::action::{Action, SetField};
use weir_openflow::connection::Time;
use weir_openflow::numbers::{GroupType, MaxLen, PacketInReason, PortConfig};
use weir_openflow::oxm::{Field, Oxm};
use weir_packet::Packet;

use crate::edit::{Undone, Work};
use crate::groups::{is_live, select};
use crate::hash::Mixed;
use crate::meters::Verdict;
use crate::ports::Port;
use crate::set::ActionSet;
use crate::{Drop, Effect, Pipeline, Upcall};

/// Most packets that one becomes: groups of groups could make any number.
const COPIES: u32 = 1024;
/// Groups that lead to others lead no deeper than this.
const DEPTH: u8 = 64;

/// A packet on its path.
pub(crate) struct Run {
    work: Work,
    /// The port that it leaves at, unless it is changed before: then a copy of it does.
    pending: Option<u32>,
    /// Which entry it is at, for packets to the controller.
    table: u8,
    cookie: u64,
    is_miss: bool,
    /// How many more copies there may be.
    copies: u32,
    /// How many groups led here.
    depth: u8,
    now: Time,
}

/// The end of a packet's path.
#[derive(Clone, Copy)]
struct Ended(Drop);

impl Pipeline {
    /// A packet that came in at a port.
    pub fn receive(&mut self, in_port: u32, packet: Packet, now: Time) {
        let Some(port) = self.ports.get_mut(&in_port) else { return self.drop(Drop::PortDown) };
        if !port.takes() {
            port.rx.dropped += 1;
            return self.drop(Drop::PortDown);
        }
        port.rx.count(packet.len());
        let mut run = Run::new(packet, in_port, now);
        if self.standalone {
            let done = self.output(&mut run, PortNo::NORMAL, MaxLen(0));
            return self.end(run, done);
        }
        self.through_tables(run);
    }

    /// A packet of a controller's, or one that was kept for it.
    pub(crate) fn send_out(&mut self, packet: Packet, in_port: u32, actions: &[Action], now: Time) {
        let mut run = Run::new(packet, in_port, now);
        let done = self.apply(&mut run, actions, true);
        self.end(run, done);
    }

    /// One that was kept, from the first table on.
    pub(crate) fn resume(&mut self, packet: Packet, in_port: u32, now: Time) {
        self.through_tables(Run::new(packet, in_port, now));
    }

    fn through_tables(&mut self, mut run: Run) {
        let done = self.tables(&mut run);
        self.end(run, done);
    }

    /// The packet itself leaves at its last port.
    fn end(&mut self, run: Run, done: Result<(), Ended>) {
        if let Err(Ended(why)) = done {
            self.drop(why);
        }
        if let Some(port) = run.pending {
            self.send(port, run.work.packet);
        }
    }

    fn tables(&mut self, run: &mut Run) -> Result<(), Ended> {
        let (mut table, mut set) = (0_u8, ActionSet::default());
        loop {
            let found = self
                .tables
                .get_mut(usize::from(table))
                .and_then(|t| t.lookup(table, &run.work.key, &mut self.remembered));
            let entry = found.and_then(|id| self.entries.get_mut(&id)).ok_or(Ended(Drop::NoEntry))?;
            entry.count(run.work.packet.len(), run.now);
            let program = Rc::clone(&entry.program);
            (run.table, run.cookie, run.is_miss) = (table, entry.cookie, entry.is_miss());
            if let Some(meter) = program.meter.and_then(|id| self.meters.get_mut(&id)) {
                match meter.measure(run.work.packet.len(), segments(&run.work.packet), run.now) {
                    Verdict::Pass => {}
                    Verdict::Drop => return Err(Ended(Drop::Meter)),
                    Verdict::Remark(levels) => run.work.remark(levels),
                }
            }
            let is_end = program.goto.is_none() && program.write.is_empty() && set.is_empty();
            self.apply(run, &program.apply, is_end)?;
            if program.clear {
                set.clear();
            }
            set.write(&program.write);
            if let Some((value, mask)) = program.metadata {
                let metadata = run.work.key.get(Field::Metadata) as u64 & !mask | value & mask;
                run.work.key.set(Field::Metadata, metadata.into());
            }
            match program.goto {
                Some(next) => table = next,
                None => break,
            }
        }
        self.apply(run, &set.in_order(), true)?;
        if run.copies == COPIES { Err(Ended(Drop::Entry)) } else { Ok(()) }
    }

    /// Does actions; `is_end`: nothing is done with the packet after them.
    fn apply(&mut self, run: &mut Run, actions: &[Action], is_end: bool) -> Result<(), Ended> {
        for (i, action) in actions.iter().enumerate() {
            match action {
                Action::Output(o) => self.output(run, o.port, o.max_len)?,
                Action::Group(group) => self.group(run, group.0, is_end && i + 1 == actions.len())?,
                // There is one queue at each port.
                Action::SetQueue(_) | Action::Experimenter(_) => {}
                change => {
                    self.copy_to_pending(run);
                    match run.change(change) {
                        Ok(()) => {}
                        Err(Undone::Space) => return Err(Ended(Drop::Space)),
                        Err(Undone::Ttl) => {
                            self.tell_controller(run, PacketInReason::InvalidTtl, MaxLen::NO_BUFFER);
                            return Err(Ended(Drop::Ttl));
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn copy_to_pending(&mut self, run: &mut Run) {
        if let Some(port) = run.pending.take() {
            self.send(port, run.work.packet.copy());
        }
    }

    fn output(&mut self, run: &mut Run, port: PortNo, max_len: MaxLen) -> Result<(), Ended> {
        let in_port = run.work.in_port();
        match port {
            PortNo::CONTROLLER => {
                run.spend()?;
                let reason = if run.is_miss { PacketInReason::NoMatch } else { PacketInReason::Action };
                self.tell_controller(run, reason, max_len);
                Ok(())
            }
            PortNo::TABLE => {
                run.spend()?;
                let mut copy = run.copy();
                let done = self.tables(&mut copy);
                run.copies = copy.copies;
                self.end(copy, done);
                Ok(())
            }
            PortNo::IN_PORT => self.leave_at(run, in_port),
            PortNo::ALL | PortNo::FLOOD => self.flood(run, in_port),
            PortNo::NORMAL => match self.learning.learn(&run.work.key, in_port, run.now) {
                Some(port) if port == in_port => Ok(()),
                Some(port) => self.leave_at(run, port),
                None => self.flood(run, in_port),
            },
            // The port where it came in has a name of its own (section 4.5).
            PortNo(n) if n == in_port => Ok(()),
            PortNo(n) => self.leave_at(run, n),
        }
    }

    fn flood(&mut self, run: &mut Run, in_port: u32) -> Result<(), Ended> {
        let ports: Vec<u32> = self.ports.keys().copied().filter(|n| *n != in_port).collect();
        ports.into_iter().try_for_each(|port| self.leave_at(run, port))
    }

    fn leave_at(&mut self, run: &mut Run, port: u32) -> Result<(), Ended> {
        run.spend()?;
        self.copy_to_pending(run);
        run.pending = Some(port);
        Ok(())
    }

    fn send(&mut self, port: u32, packet: Packet) {
        match self.ports.get_mut(&port) {
            Some(to) if to.sends() => {
                to.tx.count(packet.len());
                self.effects.push(Effect::Send { port, packet });
            }
            Some(to) => {
                to.tx.dropped += 1;
                self.drop(Drop::NoPort);
            }
            None => self.drop(Drop::NoPort),
        }
    }

    fn tell_controller(&mut self, run: &Run, reason: PacketInReason, max_len: MaxLen) {
        let in_port = run.work.in_port();
        if self.ports.get(&in_port).is_some_and(|p| p.is(PortConfig::NO_PACKET_IN)) {
            return;
        }
        let field = |field| run.work.key.get(field) as u64;
        let upcall = Upcall {
            reason,
            table: run.table,
            cookie: run.cookie,
            max_len,
            in_port,
            metadata: field(Field::Metadata),
            tunnel: field(Field::TunnelId),
        };
        self.effects.push(Effect::Controller { packet: run.work.packet.copy(), upcall });
    }

    /// Gives it to a group: copies of it, unless nothing is done with it after that.
    fn group(&mut self, run: &mut Run, id: u32, is_end: bool) -> Result<(), Ended> {
        run.depth += 1;
        if run.depth > DEPTH {
            return Err(Ended(Drop::Copies));
        }
        let length = run.work.packet.len();
        let Some(group) = self.groups.get_mut(&id) else { return Err(Ended(Drop::NoBucket)) };
        group.count(length);
        let (kind, buckets) = (group.kind, Rc::clone(&group.buckets));
        let live = |i: &usize| {
            let port = |n| self.ports.get(&n).is_some_and(Port::is_live);
            is_live(&buckets[*i], &self.groups, &port)
        };
        let all = 0..buckets.len();
        let chosen: Vec<usize> = match kind {
            GroupType::All | GroupType::Indirect => all.collect(),
            GroupType::Select => {
                let live: Vec<bool> = all.map(|i| live(&i)).collect();
                select(&buckets, &live, flow_hash(&run.work)).into_iter().collect()
            }
            GroupType::FastFailover => all.into_iter().find(live).into_iter().collect(),
        };
        let Some(last) = chosen.last().copied() else { return Err(Ended(Drop::NoBucket)) };
        for i in chosen {
            run.spend()?;
            if let Some(group) = self.groups.get_mut(&id) {
                group.count_bucket(i, length);
            }
            if is_end && i == last {
                return self.apply(run, &buckets[i].actions, true);
            }
            // A bucket has the packet as it came to the group, and what it does is seen by nobody else (section 5.6.1).
            let mut copy = run.copy();
            let done = self.apply(&mut copy, &buckets[i].actions, true);
            run.copies = copy.copies;
            self.end(copy, done);
        }
        run.depth -= 1;
        Ok(())
    }
}

impl Run {
    fn new(packet: Packet, in_port: u32, now: Time) -> Run {
        let work = Work::new(packet, in_port);
        Run { work, pending: None, table: 0, cookie: u64::MAX, is_miss: false, copies: COPIES, depth: 0, now }
    }

    /// A copy of the packet on a path of its own.
    fn copy(&self) -> Run {
        Run { work: self.work.clone(), pending: None, ..*self }
    }

    fn spend(&mut self) -> Result<(), Ended> {
        self.copies = self.copies.checked_sub(1).ok_or(Ended(Drop::Copies))?;
        Ok(())
    }

    fn change(&mut self, action: &Action) -> Result<(), Undone> {
        let work = &mut self.work;
        match action {
            Action::CopyTtlOut => work.copy_ttl_out(),
            Action::CopyTtlIn => work.copy_ttl_in(),
            Action::SetMplsTtl(ttl) => work.set_mpls_ttl(*ttl),
            Action::DecMplsTtl => work.dec_mpls_ttl()?,
            Action::PushVlan(kind) => work.push_vlan(*kind)?,
            Action::PopVlan => work.pop_vlan(),
            Action::PushMpls(kind) => work.push_mpls(*kind)?,
            Action::PopMpls(kind) => work.pop_mpls(*kind),
            Action::SetNwTtl(ttl) => work.set_ttl(*ttl),
            Action::DecNwTtl => work.dec_ttl()?,
            Action::PushPbb(kind) => work.push_pbb(*kind)?,
            Action::PopPbb => work.pop_pbb(),
            Action::SetField(SetField(Oxm::Basic(value))) => work.set_field(value.field(), value.value()),
            Action::SetField(SetField(Oxm::Other(_)))
            | Action::Output(_)
            | Action::Group(_)
            | Action::SetQueue(_)
            | Action::Experimenter(_) => {}
        }
        Ok(())
    }
}

/// How many packets it is on the wire.
fn segments(packet: &Packet) -> u64 {
    match packet.gso_size {
        0 => 1,
        size => packet.len().div_ceil(size.into()).max(1) as u64,
    }
}

/// A number of the flow: of its addresses and what is behind them, and neither of where it came in nor of metadata.
fn flow_hash(work: &Work) -> u64 {
    let mut hash = Mixed::default();
    let mut key = work.key;
    (key.0[0], key.0[1]) = (0, 0);
    key.hash(&mut hash);
    hash.finish()
}
