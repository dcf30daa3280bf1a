//! Values of expressions, for a concrete run or for a model that the solver made up.

use std::collections::HashMap;

use rustc_hash::FxHashMap;
use weir_ir::interp::{binary, checksum, hash, load_meta, sum16};
use weir_ir::program::{Layer, MetaField};
use weir_packet::{HEADROOM, HUGE_CAPACITY, LARGE_CAPACITY, Packet, SMALL_CAPACITY};
use weir_table::{EntryRef, Table, TableSet};

use crate::model::anchors::is_behind;
use crate::model::expr::{At, Claim, EntryAt, Expr, Exprs, Mem, MemId, Node, Source, SourceId, Symbol};
use crate::model::packet::{Mark, SymbolicPacket};
use crate::network::Network;
use crate::solve::lazy_tables::Numbers;

/// Copies of the packets that table entries hold.
pub type HeldPackets = HashMap<EntryRef, Vec<Packet>>;

/// All that a run depends on, as it is before the run.
#[derive(Debug, Clone, Copy)]
pub struct ConcreteRun<'a> {
    /// The programs and their declarations.
    pub net: &'a Network,
    /// Its tables, as far as they are there: those that are not are empty.
    pub tables: &'a TableSet,
    /// Their numbers in the network; `None`: as they stand.
    pub numbers: Option<&'a Numbers>,
    /// What their entries hold.
    pub held: &'a HeldPackets,
    /// The packets that come in, in order.
    pub packets: &'a [Packet],
    /// Arguments of the entry; for an expire program, the slot.
    pub args: &'a [u128],
    /// The time.
    pub now: u64,
    /// The random numbers that the host gives; 0 beyond them.
    pub randoms: &'a [u32],
    /// Seed of hashes.
    pub hash_seed: u64,
}

impl ConcreteRun<'_> {
    /// A table of the network, with its number in the set.
    fn table(&self, table: u32) -> Option<(u32, &Table)> {
        let number = match self.numbers {
            Some(numbers) => numbers.get(table)?,
            None => table,
        };
        Some((number, self.tables.table(number)))
    }

    /// The entry of a table that expires next, and the nanoseconds that it has left.
    fn soonest(&self, table: u32) -> Option<(u32, u64)> {
        self.tables.soonest(self.table(table)?.0, self.now)
    }
}

/// The parts of a packet that count, to compare predictions with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConcretePacket {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Marks relative to the first byte.
    pub marks: [Option<i64>; 4],
    /// Annotations.
    pub anno: Vec<u8>,
    /// Metadata in the order of [`MetaField::ALL`].
    pub meta: [u128; MetaField::ALL.len()],
}

impl From<&Packet> for ConcretePacket {
    fn from(p: &Packet) -> ConcretePacket {
        ConcretePacket {
            bytes: p.bytes().to_vec(),
            marks: [1, 2, 3, 4].map(|i| p.layer(Layer::ALL[i]).map(|at| i64::from(at) - i64::from(p.data()))),
            anno: p.anno.to_vec(),
            meta: MetaField::ALL.map(|f| load_meta(p, f)),
        }
    }
}

/// Made-up values of symbols; of bytes by where they really are. If it has one for [`Symbol::Head`], the packet lies as
/// far in front as can be.
pub(crate) type Model = FxHashMap<Symbol, u128>;

fn model_value(model: &Model, s: &Symbol) -> u128 {
    model.get(s).copied().unwrap_or(0)
}

/// How many bytes of a packet of a model stand in what is headroom in others.
pub(crate) fn moved(model: &Model, p: SourceId) -> u32 {
    let bytes = model_value(model, &Symbol::Pulled(p)) + model_value(model, &Symbol::Len(p));
    if model.contains_key(&Symbol::Head(p)) { bytes.min(HEADROOM.into()) as u32 } else { 0 }
}

#[derive(Debug, Clone, Copy)]
enum Values<'a> {
    Run(&'a ConcreteRun<'a>),
    Model(&'a Network, &'a Model),
}

/// Computes values of expressions, each once.
#[derive(Debug)]
pub struct Evaluator<'a> {
    exprs: &'a Exprs,
    values: Values<'a>,
    memo: FxHashMap<Expr, u128>,
}

impl<'a> Evaluator<'a> {
    /// With the values of a run.
    pub fn of_run(exprs: &'a Exprs, run: &'a ConcreteRun<'a>) -> Evaluator<'a> {
        Evaluator { exprs, values: Values::Run(run), memo: FxHashMap::default() }
    }

    /// With made-up values of the symbols; those that are missing have their lowest.
    pub(crate) fn of_model(exprs: &'a Exprs, net: &'a Network, model: &'a Model) -> Evaluator<'a> {
        Evaluator { exprs, values: Values::Model(net, model), memo: FxHashMap::default() }
    }

    /// Goes on with what an earlier evaluator of the same values found out.
    pub(crate) fn with_memo(mut self, memo: FxHashMap<Expr, u128>) -> Evaluator<'a> {
        self.memo = memo;
        self
    }

    pub(crate) fn into_memo(self) -> FxHashMap<Expr, u128> {
        self.memo
    }

    /// The value of an expression.
    pub fn eval(&mut self, e: Expr) -> u128 {
        if let Some(&v) = self.memo.get(&e) {
            return v;
        }
        let max = self.exprs.width(e).max();
        let v = self.compute(e) & max;
        self.memo.insert(e, v);
        v
    }

    fn compute(&mut self, e: Expr) -> u128 {
        let exprs = self.exprs;
        let w = exprs.width(e);
        match exprs.node(e) {
            Node::Const(v) => *v,
            Node::Symbol(s) => match self.values {
                Values::Run(run) => self.symbol(run, s),
                Values::Model(_, model) => self.in_model(model, e, s),
            },
            Node::Binary(op, a, b) => binary(*op, w, self.eval(*a), self.eval(*b)),
            Node::Equal(a, b) => (self.eval(*a) == self.eval(*b)).into(),
            Node::In(a, set) => set.contains(self.eval(*a)).into(),
            Node::Less(a, b) => (self.eval(*a) < self.eval(*b)).into(),
            Node::Not(a) => !self.eval(*a),
            Node::Resize(a) => self.eval(*a),
            Node::Select(c, a, b) => {
                let chosen = if self.eval(*c) != 0 { a } else { b };
                self.eval(*chosen)
            }
            Node::Concat(bytes) => bytes.iter().fold(0, |v, &b| v << 8 | self.eval(b)),
            Node::Byte(a, i) => self.eval(*a) >> (8 * (exprs.width(*a).bytes() - 1 - i)),
            Node::Sum16(a, b) => sum16(self.eval(*a) as u16, self.eval(*b) as u16).into(),
            Node::Checksum { mem, from, start, end } => {
                let end = self.eval(*end) as u32;
                let bytes: Vec<u8> = self.range(*mem, *from, *start, end);
                checksum(&bytes).into()
            }
            Node::Find { mem, from, start, end, byte } => {
                let (end, byte) = (self.eval(*end) as u32, self.eval(*byte) as u8);
                let at = self.range(*mem, *from, *start, end).iter().position(|&b| b == byte);
                at.map_or(end, |i| start + i as u32).into()
            }
            Node::Hash(args) => {
                let args: Vec<u128> = args.iter().map(|&a| self.eval(a)).collect();
                let seed = match self.values {
                    Values::Run(run) => run.hash_seed,
                    Values::Model(_, model) => model_value(model, &Symbol::HashSeed) as u64,
                };
                hash(seed, &args).into()
            }
            Node::MeterOk(args) => self.meter(args).0.into(),
            Node::MeterState(args) => self.meter(args).1,
            Node::ClaimOk(c) => self.claim(c).is_some().into(),
            Node::Claimed(c) => self.claim(c).unwrap_or(0),
        }
    }

    fn meter(&mut self, args: &[Expr; 5]) -> (bool, u128) {
        let [mut state, now, cost, rate, burst] = args.map(|a| self.eval(a));
        let ok = weir_table::meter(&mut state, now as u64, cost as u64, rate as u64, burst as u64);
        (ok, state)
    }

    /// As [`weir_table::Table::claim`], on what was there before the run and what it did since.
    fn claim(&mut self, c: &Claim) -> Option<u128> {
        let mut key: Vec<u128> = c.key.iter().map(|&k| self.eval(k)).collect();
        let [lo, hi, start, size] = [c.lo, c.hi, c.start, c.size].map(|e| self.eval(e));
        let changes: Vec<(Vec<u128>, bool)> =
            c.changes.iter().map(|(k, there)| (k.iter().map(|&k| self.eval(k)).collect(), *there)).collect();
        if lo > hi {
            return None;
        }
        let net = match self.values {
            Values::Run(run) => run.net,
            Values::Model(net, _) => net,
        };
        let capacity = net.decl(c.table).capacity;
        if size >= capacity.into() {
            return None;
        }
        let span = (hi - lo).saturating_add(1);
        let mut candidate = lo + start % span;
        for _ in 0..span.min(size + 1) {
            *key.get_mut(c.hole as usize)? = candidate;
            let taken = match changes.iter().rev().find(|(k, _)| *k == key) {
                Some((_, there)) => *there,
                None => match self.values {
                    Values::Run(run) => run.table(c.table).is_some_and(|(_, t)| t.lookup(&key).is_some()),
                    Values::Model(..) => false,
                },
            };
            if !taken {
                return Some(candidate);
            }
            candidate = if candidate == hi { lo } else { candidate + 1 };
        }
        None
    }

    /// Bytes of a range, as [`weir_ir::program::Op::Checksum`] reads it; none if no packet has so many.
    fn range(&mut self, mem: MemId, from: i64, start: u32, end: u32) -> Vec<u8> {
        let len = Some(end.saturating_sub(start)).filter(|&n| n <= HUGE_CAPACITY).unwrap_or(0);
        let mem = self.exprs.mem(mem);
        (from..from + i64::from(len)).map(|at| self.mem_byte(mem, at)).collect()
    }

    fn mem_byte(&mut self, mem: &Mem, at: i64) -> u8 {
        let mut written = mem.writes.get(&at).copied();
        if written.is_none() && (mem.has_behind() || is_behind(at)) {
            // It may have been written by another number of the position.
            let real = self.real(at);
            written = mem.writes.iter().find(|(other, _)| self.real(**other) == real).map(|(_, b)| *b);
        }
        match written {
            Some(b) => self.eval(b) as u8,
            None => self.source_byte(mem.source, at),
        }
    }

    /// A position, counted from where the first byte of its packet was, whatever anchor it is behind.
    pub(crate) fn real(&mut self, at: i64) -> i64 {
        let exprs = self.exprs;
        match exprs.anchor_of(at) {
            Some((anchor, k)) => anchor.base + i64::from(self.eval(anchor.off) as u32) + k,
            None => at,
        }
    }

    fn source_byte(&mut self, s: SourceId, at: i64) -> u8 {
        match self.values {
            Values::Run(run) => self.byte_of(run, s, at),
            Values::Model(_, model) => {
                let at = self.real(at);
                model.get(&Symbol::Byte(s, at)).map_or(0, |&v| v as u8)
            }
        }
    }

    fn byte_of(&mut self, run: &'a ConcreteRun<'a>, s: SourceId, at: i64) -> u8 {
        let at = self.real(at);
        let byte = |p: &Packet| {
            let i = usize::try_from(at + i64::from(p.data())).ok()?;
            p.buffer().get(i).copied()
        };
        self.packet_of(run, s).and_then(byte).unwrap_or(0)
    }

    fn packet_of(&mut self, run: &'a ConcreteRun<'a>, s: SourceId) -> Option<&'a Packet> {
        match self.exprs.source(s) {
            Source::Input(i) => run.packets.get(*i as usize),
            Source::Empty => None,
            Source::Held(at, i) => {
                let slot = self.slot(run, at)?;
                let table = run.table(at.table)?.0;
                run.held.get(&EntryRef { table, slot })?.get(*i as usize)
            }
        }
    }

    /// The slot of an entry that was there before the run.
    fn slot(&mut self, run: &ConcreteRun<'_>, at: &EntryAt) -> Option<u32> {
        let (_, table) = run.table(at.table)?;
        match &at.at {
            At::Key(key) => {
                let key: Vec<u128> = key.iter().map(|&k| self.eval(k)).collect();
                table.lookup(&key)
            }
            At::Row(i) => {
                let row = run.net.rows(at.table).get(*i as usize)?;
                table.find_row(&row.key, row.priority)
            }
        }
    }

    fn partner(&mut self, run: &ConcreteRun<'_>, at: &EntryAt, other: u32) -> Option<u32> {
        let slot = self.slot(run, at)?;
        let p = run.tables.partner(EntryRef { table: run.table(at.table)?.0, slot })?;
        (p.table == run.table(other)?.0).then_some(p.slot)
    }

    fn symbol(&mut self, run: &'a ConcreteRun<'a>, s: &Symbol) -> u128 {
        match s {
            Symbol::Byte(s, at) => self.byte_of(run, *s, *at).into(),
            Symbol::Now => run.now.into(),
            Symbol::HashSeed => run.hash_seed.into(),
            Symbol::Random(i) => run.randoms.get(*i as usize).copied().unwrap_or(0).into(),
            Symbol::Arg(i) => run.args.get(*i as usize).copied().unwrap_or(0),
            Symbol::ArgKey(t, i) => {
                run.args.first().zip(run.table(*t)).map_or(0, |(&slot, (_, t))| t.key(slot as u32, *i))
            }
            Symbol::Has(at) => self.slot(run, at).is_some().into(),
            Symbol::Field(at, f) => {
                self.slot(run, at).zip(run.table(at.table)).map_or(0, |(slot, (_, t))| t.get(slot, *f))
            }
            Symbol::HeldCount(at) => {
                self.slot(run, at).zip(run.table(at.table)).map_or(0, |(slot, (_, t))| t.held(slot)).into()
            }
            Symbol::PartnerIn(at, t) => self.partner(run, at, *t).is_some().into(),
            Symbol::PartnerKey(at, t, f) => {
                self.partner(run, at, *t).zip(run.table(*t)).map_or(0, |(slot, (_, t))| t.key(slot, *f))
            }
            Symbol::Same { table, a, b } => {
                let [a, b] = [a, b].map(|k| {
                    let key: Vec<u128> = k.iter().map(|&k| self.eval(k)).collect();
                    run.table(*table).and_then(|(_, t)| t.lookup(&key))
                });
                (a == b).into()
            }
            Symbol::Expires(t) => run.soonest(*t).is_some().into(),
            Symbol::SoonestKey(t, f) => {
                run.soonest(*t).zip(run.table(*t)).map_or(0, |((slot, _), (_, t))| t.key(slot, *f))
            }
            Symbol::SoonestLeft(t) => run.soonest(*t).map_or(0, |(_, left)| left).into(),
            Symbol::Size(t) => run.table(*t).map_or(0, |(_, t)| t.len()).into(),
            Symbol::Group(t, v) => {
                let value = self.eval(*v);
                run.table(*t).map_or(0, |(_, t)| t.group_count(value)).into()
            }
            Symbol::Len(p)
            | Symbol::Head(p)
            | Symbol::Capacity(p)
            | Symbol::Pulled(p)
            | Symbol::MarkSet(p, _)
            | Symbol::MarkAt(p, _)
            | Symbol::Anno(p, _)
            | Symbol::Meta(p, _)
            | Symbol::Hops(p) => self.packet_of(run, *p).map_or(0, |p| of_packet(p, s)),
        }
    }

    fn in_model(&mut self, model: &Model, e: Expr, s: &Symbol) -> u128 {
        match s {
            // A model has bytes where they really are.
            Symbol::Byte(p, at) => self.source_byte(*p, *at).into(),
            // Packets of a model are made from their bytes, which fixes the rest.
            Symbol::Head(p) => {
                u128::from(HEADROOM) + model_value(model, &Symbol::Pulled(*p)) - u128::from(moved(model, *p))
            }
            Symbol::Capacity(p) => {
                let bytes = model_value(model, &Symbol::Pulled(*p)) + model_value(model, &Symbol::Len(*p));
                let need = u128::from(HEADROOM) + bytes - u128::from(moved(model, *p));
                let sizes = [SMALL_CAPACITY, LARGE_CAPACITY, HUGE_CAPACITY].map(u128::from);
                sizes.into_iter().find(|size| need <= *size).unwrap_or(HUGE_CAPACITY.into())
            }
            _ => model.get(s).copied().unwrap_or(self.exprs.bounds(e).0),
        }
    }

    /// A packet.
    pub fn packet(&mut self, p: &SymbolicPacket) -> ConcretePacket {
        let end = self.eval(p.end.0) as i64 + p.end.1;
        let bytes = (p.data..end).map(|at| self.mem_byte(&p.mem, at)).collect();
        let original = match self.values {
            Values::Run(run) => self.packet_of(run, p.source()).map(ConcretePacket::from),
            Values::Model(..) => None,
        };
        let mut mark = |i: usize| match p.marks[i] {
            Mark::Unset => None,
            Mark::At(at) => Some(self.real(at) - p.data),
            Mark::Later(base, off) => Some(self.real(base) + i64::from(self.eval(off) as u32) - p.data),
            Mark::Original => original.as_ref().and_then(|o| o.marks[i]).map(|at| at - p.data),
        };
        ConcretePacket {
            bytes,
            marks: [mark(0), mark(1), mark(2), mark(3)],
            anno: p.anno.iter().map(|&a| self.eval(a) as u8).collect(),
            meta: p.meta.map(|m| self.eval(m)),
        }
    }
}

/// What a symbol says about its packet.
fn of_packet(p: &Packet, s: &Symbol) -> u128 {
    match s {
        Symbol::Len(_) => p.len() as u128,
        Symbol::Head(_) => p.data().into(),
        Symbol::Capacity(_) => p.capacity().into(),
        Symbol::Pulled(_) => (p.data() - p.floor()).into(),
        Symbol::MarkSet(_, l) => p.layer(*l).is_some().into(),
        Symbol::MarkAt(_, l) => p.layer(*l).map_or(0, |at| at.wrapping_sub(p.data())).into(),
        Symbol::Anno(_, i) => p.anno.get(*i as usize).copied().unwrap_or(0).into(),
        Symbol::Meta(_, f) => load_meta(p, *f),
        Symbol::Hops(_) => p.hops.into(),
        _ => 0,
    }
}
