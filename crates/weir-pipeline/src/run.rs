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
use crate::set::{ActionSet, in_order};
use crate::{Drop, Effect, Pipeline, Upcall};

/// Most packets that one becomes: groups of groups could make any number.
const COPIES: u32 = 1024;
/// Groups that lead or watch deeper than this are not live.
const DEPTH: usize = 16;

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
    now: Time,
}

/// The end of a packet's path.
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
            _ = self.output(&mut run, PortNo::NORMAL, MaxLen(0));
            return self.leave(run);
        }
        self.through_tables(run);
    }

    /// A packet of a controller's, or one that was kept for it.
    pub(crate) fn send_out(&mut self, packet: Packet, in_port: u32, actions: &[Action], now: Time) {
        let mut run = Run::new(packet, in_port, now);
        let done = self.apply(&mut run, actions);
        self.end(run, done.err().map(|e| e.0));
    }

    /// One that was kept, from the first table on.
    pub(crate) fn resume(&mut self, packet: Packet, in_port: u32, now: Time) {
        self.through_tables(Run::new(packet, in_port, now));
    }

    fn through_tables(&mut self, mut run: Run) {
        let done = self.tables(&mut run);
        self.end(run, done.err().map(|e| e.0));
    }

    fn end(&mut self, run: Run, ended: Option<Drop>) {
        if let Some(why) = ended {
            self.drop(why);
        }
        self.leave(run);
    }

    /// The packet itself leaves at its last port.
    fn leave(&mut self, run: Run) {
        if let Some(port) = run.pending {
            self.send(port, run.work.packet);
        }
    }

    fn tables(&mut self, run: &mut Run) -> Result<(), Ended> {
        let (mut table, mut set) = (0_u8, ActionSet::default());
        loop {
            let found = self.tables.get_mut(usize::from(table)).and_then(|t| t.lookup(&run.work.key));
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
            self.apply(run, &program.apply)?;
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
        let actions = set.take();
        if actions.is_empty() && run.pending.is_none() && run.copies == COPIES {
            return Err(Ended(Drop::Entry));
        }
        self.apply(run, &actions)
    }

    fn apply(&mut self, run: &mut Run, actions: &[Action]) -> Result<(), Ended> {
        for action in actions {
            match action {
                Action::Output(o) => self.output(run, o.port, o.max_len)?,
                Action::Group(group) => self.group(run, group.0)?,
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
                self.through_tables(Run { work: run.work.clone(), pending: None, ..*run });
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
        self.effects.push(Effect::Controller(Upcall {
            packet: run.work.packet.copy(),
            reason,
            table: run.table,
            cookie: run.cookie,
            max_len,
            in_port,
            metadata: field(Field::Metadata),
            tunnel: field(Field::TunnelId),
        }));
    }

    fn group(&mut self, run: &mut Run, id: u32) -> Result<(), Ended> {
        let length = run.work.packet.len();
        let Some(group) = self.groups.get_mut(&id) else { return Err(Ended(Drop::NoBucket)) };
        group.count(length);
        let (kind, buckets) = (group.kind, Rc::clone(&group.buckets));
        let live = |i: &usize| {
            let port = |n| self.ports.get(&n).is_some_and(Port::is_live);
            is_live(&buckets[*i], &self.groups, &port, DEPTH)
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
        if chosen.is_empty() {
            return Err(Ended(Drop::NoBucket));
        }
        for i in chosen {
            run.spend()?;
            if let Some(group) = self.groups.get_mut(&id) {
                group.count_bucket(i, length);
            }
            // A bucket has the packet as it came to the group, and what it does is seen by nobody else (section 5.6.1).
            let mut actions = buckets[i].actions.clone();
            in_order(&mut actions);
            let mut copy = Run { work: run.work.clone(), pending: None, ..*run };
            let done = self.apply(&mut copy, &actions);
            run.copies = copy.copies;
            self.end(copy, done.err().map(|e| e.0));
        }
        Ok(())
    }
}

impl Run {
    fn new(packet: Packet, in_port: u32, now: Time) -> Run {
        let work = Work::new(packet, in_port);
        Run { work, pending: None, table: 0, cookie: u64::MAX, is_miss: false, copies: COPIES, now }
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
