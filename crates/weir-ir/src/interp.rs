//! The interpreter: the reference for what a program means.

mod meta;
mod numbers;

use std::collections::VecDeque;

use weir_packet::Packet;
use weir_table::{EntryRef, TableSet};

use crate::program::{
    Amount, BlockId, End, EntryKind, Layer, MAX_HOPS, Op, Program, Reason, TableId, Target, Type, Value,
};

pub use meta::{load_meta, store_meta};
pub use numbers::{binary, checksum, compare, hash, sum16};

/// The host of a program: what it needs from outside, and what it gives back.
pub trait Host {
    /// A packet leaves: on an output of an unlinked program, or by an exit of a linked one.
    fn exit(&mut self, port: u32, packet: Packet);
    /// A packet ends at the end of a block.
    fn dropped(&mut self, at: BlockId, reason: &Reason, packet: Packet);
    /// A packet ends because the entry that held it was removed.
    fn orphaned(&mut self, packet: Packet);
    /// The program notifies of an event.
    fn notify(&mut self, _event: u32, _args: &[u128], _packet: Option<&Packet>) {}
    /// A random number.
    fn random(&mut self) -> u32;
    /// Seed of [`Op::Hash`].
    fn hash_seed(&self) -> u64 {
        0
    }
    /// A block is about to run.
    fn step(&mut self, _block: BlockId, _packet: Option<&Packet>) {}
}

/// Most packets that wait for their turn in one run; copies beyond are dropped (`LoopLimit`).
pub const MAX_STRANDS: usize = 4096;

/// Where a packet that an element starts queues up: before all that other elements started, behind those that the same
/// element started just before. So what follows from a packet is done before what was started earlier, as if each element
/// called the next. `waiting` are the elements that started the packets that wait, in the order of their turns.
pub fn turn<T: PartialEq + Copy>(waiting: impl Iterator<Item = T>, starter: T) -> usize {
    waiting.take_while(|other| *other == starter).count()
}

/// A packet that starts when the current one has ended.
#[derive(Debug)]
pub struct Strand {
    /// Number of the element that started it.
    pub starter: u32,
    /// Where.
    pub block: BlockId,
    /// Arguments of the block.
    pub args: Vec<u128>,
    /// The packet.
    pub packet: Packet,
}

/// The interpreter's memory, reused from packet to packet.
#[derive(Debug, Default)]
pub struct Interpreter {
    values: Vec<u128>,
    /// How often each loop header was entered since it was entered from outside.
    rounds: Vec<u32>,
    strands: VecDeque<Strand>,
    /// Where the program's tables are; those behind the last are where their numbers say.
    places: Vec<u32>,
}

impl Interpreter {
    /// Finds the tables of the programs that are run next at these places of the set; without any, at their numbers.
    pub fn place_tables(&mut self, places: &[u32]) {
        self.places.clear();
        self.places.extend_from_slice(places);
    }

    /// Runs a checked program from one of its entries to the end, including all packets that it starts.
    #[expect(
        clippy::too_many_arguments,
        reason = "a run is a program, its state, its host and what starts it"
    )]
    pub fn run(
        &mut self,
        program: &Program,
        tables: &mut TableSet,
        host: &mut impl Host,
        now: u64,
        entry: BlockId,
        args: &[u128],
        packet: Option<Packet>,
    ) {
        self.values.resize(program.types.len(), 0);
        self.rounds.resize(program.blocks.len(), 0);
        self.strand(program, tables, host, now, entry, args, packet);
        while let Some(s) = self.strands.pop_front() {
            self.strand(program, tables, host, now, s.block, &s.args, Some(s.packet));
        }
        for packet in tables.take_orphans() {
            host.orphaned(packet);
        }
    }

    /// Lets everything expire whose time has come: the table's program runs, if it has one, then the entry goes,
    /// unless it was touched.
    pub fn expire(&mut self, program: &Program, tables: &mut TableSet, host: &mut impl Host, now: u64) {
        while let Some(due) = tables.next_due(now) {
            let kind = EntryKind::Expire { table: TableId(due.table) };
            if let Some(e) = program.entries.iter().find(|e| e.kind == kind) {
                self.run(program, tables, host, now, e.block, &[due.slot.into()], None);
            }
            tables.finish_expiry(due, now);
        }
        for packet in tables.take_orphans() {
            host.orphaned(packet);
        }
    }

    #[expect(clippy::too_many_arguments, reason = "one place calls it, with what `run` was given")]
    fn strand(
        &mut self,
        program: &Program,
        tables: &mut TableSet,
        host: &mut impl Host,
        now: u64,
        start: BlockId,
        args: &[u128],
        packet: Option<Packet>,
    ) {
        for (param, arg) in program.block(start).params.iter().zip(args) {
            self.values[param.0 as usize] = *arg;
        }
        let mut run = Run { i: self, program, tables, host, now, packet };
        let mut at = start;
        run.enter_from_outside(at);
        while let Some(next) = run.block(at) {
            at = next;
        }
    }
}

/// One packet's path through the program.
struct Run<'a, H> {
    i: &'a mut Interpreter,
    program: &'a Program,
    tables: &'a mut TableSet,
    host: &'a mut H,
    now: u64,
    packet: Option<Packet>,
}

impl<H: Host> Run<'_, H> {
    fn get(&self, v: Value) -> u128 {
        self.i.values[v.0 as usize]
    }

    fn set(&mut self, v: Value, to: u128) {
        self.i.values[v.0 as usize] = to;
    }

    fn amount(&self, n: Amount) -> u32 {
        match n {
            Amount::Const(n) => n,
            Amount::Value(v) => self.get(v) as u32,
        }
    }

    fn packet(&mut self) -> &mut Packet {
        self.packet.as_mut().expect("the checker proved that there is a packet")
    }

    fn take_packet(&mut self) -> Packet {
        self.packet.take().expect("the checker proved that there is a packet")
    }

    /// Index of `layer + off` in the packet's buffer.
    fn at(&mut self, layer: Layer, off: u32) -> usize {
        let base = self.packet().layer(layer).expect("the checker proved that the layer is set");
        (base + off) as usize
    }

    fn bytes(&mut self, layer: Layer, from: u32, to: u32) -> &[u8] {
        let (from, to) = (self.at(layer, from), self.at(layer, to));
        self.packet().buffer().get(from..to).unwrap_or(&[])
    }

    fn entry(&self, v: Value) -> EntryRef {
        let Type::Entry(table) = self.program.ty(v) else {
            unreachable!("the checker proved that this is an entry")
        };
        EntryRef { table: self.table(table), slot: self.get(v) as u32 }
    }

    /// The place of a table.
    fn table(&self, t: TableId) -> u32 {
        self.i.places.get(t.0 as usize).copied().unwrap_or(t.0)
    }

    fn enter_from_outside(&mut self, block: BlockId) {
        if self.program.block(block).loop_limit.is_some() {
            self.i.rounds[block.0 as usize] = 1;
        }
    }

    /// Goes to a target; `supplied` are the arguments that the end itself passes.
    fn go(&mut self, target: &Target, supplied: &[u128]) -> Option<BlockId> {
        self.pass(target, supplied);
        self.enter_from_outside(target.block);
        Some(target.block)
    }

    fn pass(&mut self, target: &Target, supplied: &[u128]) {
        let params = &self.program.block(target.block).params;
        if params.is_empty() {
            return;
        }
        // All arguments are read before any parameter is written: a loop may pass its own parameters on.
        let args: Vec<u128> =
            supplied.iter().copied().chain(target.args.iter().map(|&v| self.get(v))).collect();
        params.iter().zip(args).for_each(|(param, arg)| self.i.values[param.0 as usize] = arg);
    }

    fn drop_packet(&mut self, at: BlockId, reason: &Reason) -> Option<BlockId> {
        let packet = self.take_packet();
        self.host.dropped(at, reason, packet);
        None
    }

    /// Runs one block and says which is next.
    fn block(&mut self, id: BlockId) -> Option<BlockId> {
        let program = self.program;
        let block = program.block(id);
        self.host.step(id, self.packet.as_ref());
        for op in &block.ops {
            self.op(id, op);
        }
        match &block.end {
            End::Jump(t) => self.go(t, &[]),
            End::Branch { cond, then, other } => {
                let t = if self.get(*cond) != 0 { then } else { other };
                self.go(t, &[])
            }
            End::Switch { value, cases, default } => {
                let v = self.get(*value);
                let t = cases.iter().find(|(c, _)| *c == v).map_or(default, |(_, t)| t);
                self.go(t, &[])
            }
            End::Again { header, exit } => {
                let h = header.block.0 as usize;
                let limit = program.blocks[h].loop_limit.unwrap_or(1);
                if self.i.rounds[h] >= limit {
                    return self.go(exit, &[]);
                }
                self.i.rounds[h] += 1;
                self.pass(header, &[]);
                Some(header.block)
            }
            End::Require { layer, n, ok, fail } => {
                let n = self.amount(*n);
                let p = self.packet();
                let there =
                    p.layer(*layer).is_some_and(|at| u64::from(at) + u64::from(n) <= u64::from(p.end()));
                self.go(if there { ok } else { fail }, &[])
            }
            End::Push { n, ok, fail } => {
                let n = self.amount(*n);
                let done = self.packet().push(n).is_ok();
                self.go(if done { ok } else { fail }, &[])
            }
            End::Unpull { n, ok, fail } => {
                let n = self.amount(*n);
                let done = self.packet().unpull(n).is_ok();
                self.go(if done { ok } else { fail }, &[])
            }
            End::Put { n, ok, fail } => {
                let n = self.amount(*n);
                let done = self.packet().put(n).is_ok();
                self.go(if done { ok } else { fail }, &[])
            }
            End::Lookup { table, key, hit, miss } => {
                let key: Vec<u128> = key.iter().map(|&v| self.get(v)).collect();
                match self.tables.table(self.table(*table)).lookup(&key) {
                    Some(slot) => self.go(hit, &[slot.into()]),
                    None => self.go(miss, &[]),
                }
            }
            End::Insert { table, key, ok, full } => {
                let key: Vec<u128> = key.iter().map(|&v| self.get(v)).collect();
                match self.tables.table_mut(self.table(*table)).insert(&key) {
                    Some(slot) => self.go(ok, &[slot.into()]),
                    None => self.go(full, &[]),
                }
            }
            End::Claim { table, key, hole, lo, hi, start, ok, full } => {
                let mut key: Vec<u128> = key.iter().map(|&v| self.get(v)).collect();
                let (lo, hi, start) = (self.get(*lo), self.get(*hi), self.get(*start));
                match self.tables.table_mut(self.table(*table)).claim(&mut key, *hole as usize, lo, hi, start)
                {
                    Some((slot, claimed)) => self.go(ok, &[slot.into(), claimed]),
                    None => self.go(full, &[]),
                }
            }
            End::Soonest { table, hit, miss } => match self.tables.soonest(self.table(*table), self.now) {
                Some((slot, left)) => self.go(hit, &[slot.into(), left.into()]),
                None => self.go(miss, &[]),
            },
            End::Meter { entry, field, cost, rate, burst, ok, over } => {
                let e = self.entry(*entry);
                let [cost, rate, burst] = [cost, rate, burst].map(|v| self.get(*v) as u64);
                let table = self.tables.table_mut(e.table);
                let mut state = table.get(e.slot, *field);
                let enough = weir_table::meter(&mut state, self.now, cost, rate, burst);
                table.set(e.slot, *field, state);
                self.go(if enough { ok } else { over }, &[])
            }
            End::Hold { entry, full } => {
                let e = self.entry(*entry);
                let packet = self.take_packet();
                match self.tables.table_mut(e.table).hold(e.slot, packet) {
                    Ok(()) => None,
                    Err(packet) => {
                        self.packet = Some(packet);
                        self.go(full, &[])
                    }
                }
            }
            End::Emit { port } | End::Exit { exit: port } => {
                let packet = self.take_packet();
                self.host.exit(*port, packet);
                None
            }
            End::Drop { reason } => self.drop_packet(id, reason),
            End::Finish => None,
            End::Enter { block, back } => {
                if *back {
                    let p = self.packet();
                    if p.hops >= MAX_HOPS {
                        return self.drop_packet(id, &Reason::LOOP_LIMIT);
                    }
                    p.hops += 1;
                }
                self.enter_from_outside(*block);
                Some(*block)
            }
        }
    }

    fn op(&mut self, at: BlockId, op: &Op) {
        match op {
            Op::Const { dst, value } => self.set(*dst, *value),
            Op::Binary { op, dst, a, b } => {
                let r = binary(*op, self.program.width(*dst), self.get(*a), self.get(*b));
                self.set(*dst, r);
            }
            Op::Compare { op, dst, a, b } => {
                let r = compare(*op, self.get(*a), self.get(*b));
                self.set(*dst, r.into());
            }
            Op::Not { dst, a } => {
                let r = !self.get(*a) & self.program.width(*dst).max();
                self.set(*dst, r);
            }
            Op::Resize { dst, a } => {
                let r = self.get(*a) & self.program.width(*dst).max();
                self.set(*dst, r);
            }
            Op::Select { dst, cond, a, b } => {
                let r = if self.get(*cond) != 0 { self.get(*a) } else { self.get(*b) };
                self.set(*dst, r);
            }
            Op::Load { dst, layer, off } => {
                let size = self.program.width(*dst).bytes();
                let r = load(self.bytes(*layer, *off, *off + size));
                self.set(*dst, r);
            }
            Op::Store { layer, off, src } => {
                let size = self.program.width(*src).bytes() as usize;
                let (v, at) = (self.get(*src), self.at(*layer, *off));
                store(&mut self.packet().buffer_mut()[at..at + size], v);
            }
            Op::Rest { dst, layer } => {
                let p = self.packet();
                let r = p.layer(*layer).map_or(0, |at| p.end().saturating_sub(at));
                self.set(*dst, r.into());
            }
            Op::Distance { dst, from, to } => {
                let p = self.packet();
                let r = p.layer(*from).zip(p.layer(*to)).map_or(u32::MAX, |(from, to)| to.wrapping_sub(from));
                self.set(*dst, r.into());
            }
            Op::SetMark { layer, base, off } => {
                let off = self.amount(*off);
                let at = self.at(*base, off) as u32;
                self.packet().set_layer(*layer, Some(at));
            }
            Op::ClearMark { layer } => self.packet().set_layer(*layer, None),
            Op::LoadAnno { dst, off } => {
                let (at, size) = (*off as usize, self.program.width(*dst).bytes() as usize);
                let r = load(&self.packet().anno[at..at + size]) & self.program.width(*dst).max();
                self.set(*dst, r);
            }
            Op::StoreAnno { off, src } => {
                let (v, at, size) =
                    (self.get(*src), *off as usize, self.program.width(*src).bytes() as usize);
                store(&mut self.packet().anno[at..at + size], v);
            }
            Op::LoadMeta { dst, field } => {
                let r = load_meta(self.packet(), *field);
                self.set(*dst, r);
            }
            Op::StoreMeta { field, src } => {
                let v = self.get(*src);
                store_meta(self.packet(), *field, v);
            }
            Op::Checksum { dst, layer, start, end } => {
                let end = self.amount(*end);
                let r = if *start < end { checksum(self.bytes(*layer, *start, end)) } else { 0 };
                self.set(*dst, r.into());
            }
            Op::Sum16 { dst, a, b } => {
                let r = sum16(self.get(*a) as u16, self.get(*b) as u16);
                self.set(*dst, r.into());
            }
            Op::CopyBytes { to, from, len } => {
                let (to, from, len) = (self.at(to.0, to.1), self.at(from.0, from.1), *len as usize);
                self.packet().buffer_mut().copy_within(from..from + len, to);
            }
            Op::CompareBytes { dst, a, b, len } => {
                let (a, b, len) = (self.at(a.0, a.1), self.at(b.0, b.1), *len as usize);
                let buffer = self.packet().buffer();
                let r = buffer[a..a + len] == buffer[b..b + len];
                self.set(*dst, r.into());
            }
            Op::FindByte { dst, layer, start, end, byte } => {
                let (end, byte) = (self.amount(*end), self.get(*byte) as u8);
                let found = if *start < end {
                    self.bytes(*layer, *start, end).iter().position(|&b| b == byte).map(|i| start + i as u32)
                } else {
                    None
                };
                self.set(*dst, found.unwrap_or(end).into());
            }
            Op::Hash { dst, args } => {
                let args: Vec<u128> = args.iter().map(|&v| self.get(v)).collect();
                let r = hash(self.host.hash_seed(), &args);
                self.set(*dst, r.into());
            }
            Op::Random { dst } => {
                let r = self.host.random();
                self.set(*dst, r.into());
            }
            Op::Now { dst } => self.set(*dst, self.now.into()),
            Op::Pull { n } => {
                let n = self.amount(*n);
                self.packet().pull(n);
            }
            Op::Trim { len } => {
                let len = self.get(*len) as u32;
                self.packet().trim(len);
            }
            Op::Index { dst, index, .. } => self.set(*dst, (*index).into()),
            Op::Get { dst, entry, field } => {
                let e = self.entry(*entry);
                let r = self.tables.table(e.table).get(e.slot, *field);
                self.set(*dst, r);
            }
            Op::GetKey { dst, entry, field } => {
                let e = self.entry(*entry);
                let r = self.tables.table(e.table).key(e.slot, *field);
                self.set(*dst, r);
            }
            Op::Set { entry, field, src } => {
                let (e, v) = (self.entry(*entry), self.get(*src));
                self.tables.table_mut(e.table).set(e.slot, *field, v);
            }
            Op::Touch { entry, after } => {
                let (e, after) = (self.entry(*entry), self.get(*after) as u64);
                self.tables.touch(e, self.now, after);
            }
            Op::Link { a, b } => {
                let (a, b) = (self.entry(*a), self.entry(*b));
                self.tables.link(a, b);
            }
            Op::Remove { entry } => {
                let e = self.entry(*entry);
                self.tables.remove(e);
            }
            Op::GroupCount { dst, table, value } => {
                let r = self.tables.table(self.table(*table)).group_count(self.get(*value));
                self.set(*dst, r.into());
            }
            Op::Size { dst, table } => {
                let r = self.tables.table(self.table(*table)).len();
                self.set(*dst, r.into());
            }
            Op::Fork { copy, target } => {
                let packet = match (&self.packet, copy) {
                    (Some(p), true) => p.copy(),
                    (Some(p), false) => p.successor(),
                    (None, _) => Packet::made(),
                };
                self.start(at, target, packet);
            }
            Op::Release { entry, target } => {
                let e = self.entry(*entry);
                for packet in self.tables.table_mut(e.table).release(e.slot) {
                    self.start(at, target, packet);
                }
            }
            Op::Notify { event, args, packet } => {
                let args: Vec<u128> = args.iter().map(|&v| self.get(v)).collect();
                self.host.notify(*event, &args, self.packet.as_ref().filter(|_| *packet));
            }
        }
    }

    fn start(&mut self, at: BlockId, target: &Target, packet: Packet) {
        if self.i.strands.len() >= MAX_STRANDS {
            return self.host.dropped(at, &Reason::LOOP_LIMIT, packet);
        }
        let args = target.args.iter().map(|&v| self.get(v)).collect();
        let starter = self.program.block(at).owner;
        let turn = turn(self.i.strands.iter().map(|s| s.starter), starter);
        self.i.strands.insert(turn, Strand { starter, block: target.block, args, packet });
    }
}

fn load(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0, |v, &b| v << 8 | u128::from(b))
}

fn store(bytes: &mut [u8], v: u128) {
    let all = v.to_be_bytes();
    bytes.copy_from_slice(&all[16 - bytes.len()..]);
}
