//! Looks for a run that takes a path.
//!
//! Starts with values that the path's sets allow and updates one broken condition at a time, from its result down to
//! the symbols that it depends on. What is found is turned into a packet and tables, and counts only if the path
//! covers the run that starts from them.

pub(crate) mod build;
pub(crate) mod candidate;
pub(crate) mod defaults;
pub(crate) mod eval;
pub(crate) mod lazy_tables;
pub(crate) mod replay;
pub(crate) mod smt;

use std::collections::HashSet;

use weir_ir::interp::sum16;
use weir_ir::program::{BinOp, EntryKind, Width};
use weir_packet::{HUGE_CAPACITY, Packet};

use crate::explore::deadline::Deadline;
use crate::explore::path::Path;
use crate::model::anchors::is_behind;
use crate::model::expr::{Expr, Exprs, MemId, Node, Symbol};
use crate::model::facts::Facts;
use crate::model::set::Set;
use crate::network::Network;
use crate::solve::build::build;
use crate::solve::candidate::{Candidate, Users};
use crate::solve::defaults::wishes;
use crate::solve::eval::{ConcreteRun, Evaluator, HeldPackets, Model};
use crate::solve::lazy_tables::LazyTables;
use crate::solve::smt::{Answer, Smt};

/// How often the search starts afresh.
const STARTS: u32 = 24;
/// The same, where it is only looked for what is found at once.
const FEW: u32 = 2;
/// How often it starts with a packet as readers know them.
const USUAL: u32 = 8;
/// How many conditions are updated from one start.
const STEPS: u32 = 150;
/// How many words of a range are tried when its sum is to change.
const WORDS: i64 = 32;
/// Steps between two looks at the clock.
const LOOK: u32 = 4;

/// The start of a concrete run.
#[derive(Debug)]
pub struct ConcreteInput {
    /// The packets that come in, in order.
    pub packets: Vec<Packet>,
    /// Arguments of the entry.
    pub args: Vec<u128>,
    /// The time.
    pub now: u64,
    /// Random numbers; 0 beyond them.
    pub randoms: Vec<u32>,
    /// Seed of hashes.
    pub hash_seed: u64,
    /// Tables.
    pub tables: LazyTables,
    /// Copies of what their entries hold.
    pub held: HeldPackets,
}

impl ConcreteInput {
    /// The run that starts from this.
    pub fn run<'a>(&'a self, net: &'a Network) -> ConcreteRun<'a> {
        ConcreteRun {
            net,
            tables: &self.tables.set,
            numbers: Some(&self.tables.numbers),
            held: &self.held,
            packets: &self.packets,
            args: &self.args,
            now: self.now,
            randoms: &self.randoms,
            hash_seed: self.hash_seed,
        }
    }
}

/// The kind of start of a run, beside what is in the tables.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Entered {
    /// Packets, if any.
    Packets,
    /// The key of an entry of this table.
    Expire { table: u32 },
    /// So many arguments.
    Message { params: u32 },
}

/// The goal of a search: a run on which all this holds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Goal<'a> {
    pub(crate) exprs: &'a Exprs,
    pub(crate) facts: &'a Facts,
    /// How many packets come in.
    pub(crate) inputs: u32,
    pub(crate) entry: Entered,
    /// Whether all tables of the network are to be there, rather than those that the facts speak of.
    pub(crate) whole: bool,
}

/// The answer about a goal.
#[derive(Debug)]
pub(crate) enum Solution {
    /// A run on which it holds.
    Found(Box<ConcreteInput>),
    /// There is none.
    Impossible,
    /// None was found, which proves nothing.
    Unknown,
    /// As `Unknown`; and z3 is not installed.
    Missing,
}

/// Looks for a run that takes a path of a network of one program. `None`: not found, which proves nothing.
pub fn solve(net: &Network, path: &Path) -> Option<ConcreteInput> {
    let program = net.node(0).program()?;
    let kind = program.entries.iter().find(|e| e.block == path.entry).map(|e| &e.kind);
    let (inputs, entry) = match kind {
        None | Some(EntryKind::Packet { .. }) => (1, Entered::Packets),
        Some(EntryKind::Timer { .. }) => (0, Entered::Packets),
        Some(EntryKind::Expire { table }) => (0, Entered::Expire { table: table.0 }),
        Some(EntryKind::Message { .. }) => {
            (0, Entered::Message { params: program.block(path.entry).params.len() as u32 })
        }
    };
    let goal = Goal { exprs: &path.exprs, facts: &path.facts, inputs, entry, whole: true };
    let mut facts = goal.facts.clone();
    if !facts.sharpen(goal.exprs) {
        return None;
    }
    search(net, &Goal { facts: &facts, ..goal }, STARTS, &Deadline::start(None))
}

/// The effort of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effort {
    /// As long as it takes to find plain packets.
    Quick,
    /// Until no more comes of changing values.
    Usual,
    /// With the help of z3, too.
    Thorough,
}

/// Looks for a run on which a goal's facts hold.
pub(crate) fn decide(
    net: &Network,
    goal: &Goal<'_>,
    smt: &Smt,
    effort: Effort,
    deadline: &Deadline,
) -> Solution {
    let mut facts = goal.facts.clone();
    if !facts.sharpen(goal.exprs) {
        return Solution::Impossible;
    }
    let goal = Goal { facts: &facts, ..*goal };
    let starts = if effort == Effort::Quick { FEW } else { STARTS };
    if let Some(input) = search(net, &goal, starts, deadline) {
        return Solution::Found(Box::new(input));
    }
    if effort != Effort::Thorough || deadline.is_over() {
        return Solution::Unknown;
    }
    let conditions = facts.conditions();
    match smt.ask(net, &goal, &conditions, deadline) {
        Answer::Impossible => Solution::Impossible,
        Answer::Unknown => Solution::Unknown,
        Answer::Missing => Solution::Missing,
        Answer::Model(model) => {
            let symbols = symbols_of(goal.exprs, &conditions);
            let input = build(net, &goal, &symbols, &model);
            let input = input.filter(|input| holds(goal.exprs, &conditions, &input.run(net)));
            input.map_or(Solution::Unknown, |input| Solution::Found(Box::new(input)))
        }
    }
}

/// Looks for a run on which a goal's facts hold, by changing values.
fn search(net: &Network, goal: &Goal<'_>, starts: u32, deadline: &Deadline) -> Option<ConcreteInput> {
    let x = goal.exprs;
    let conditions = goal.facts.conditions();
    let symbols = symbols_of(x, &conditions);
    let users = Users::of(x, &conditions);
    let mut wished = Model::default();
    // The first are the most important.
    for (s, v) in wishes(x, goal.facts, goal.inputs).into_iter().flatten() {
        wished.entry(s).or_insert(v);
    }
    for start in 0..starts {
        if deadline.is_over() {
            return None;
        }
        let (mut model, seed) = (wished.clone(), u64::from(start) + 1);
        // What is hashed may be fixed: then only another seed leads to another path.
        model.insert(Symbol::HashSeed, start.saturating_sub(USUAL).into());
        let candidate = Candidate::new(x, net, &users, model);
        let mut s = Solver { x, net, facts: goal.facts, conditions: &conditions, candidate, seed };
        for &e in &symbols {
            s.choose(e, start);
        }
        if s.search(deadline)
            && let Some(input) = build(net, goal, &symbols, s.candidate.model())
            && holds(x, &conditions, &input.run(net))
        {
            return Some(input);
        }
    }
    None
}

/// Whether all conditions hold on a run.
fn holds(x: &Exprs, conditions: &[Expr], run: &ConcreteRun<'_>) -> bool {
    let mut eval = Evaluator::of_run(x, run);
    conditions.iter().all(|&c| eval.eval(c) != 0)
}

/// All symbols that expressions depend on, those within symbols included, each after those that it depends on.
fn symbols_of(x: &Exprs, roots: &[Expr]) -> Vec<Expr> {
    let mut seen = HashSet::new();
    let mut found = Vec::new();
    // (expression, whether its operands are done)
    let mut work: Vec<(Expr, bool)> = roots.iter().rev().map(|&e| (e, false)).collect();
    while let Some((e, done)) = work.pop() {
        if done {
            found.push(e);
            continue;
        }
        if !seen.insert(e) {
            continue;
        }
        if matches!(x.node(e), Node::Symbol(_)) {
            work.push((e, true));
        }
        work.extend(x.operands(e).into_iter().map(|o| (o, false)));
    }
    found
}

struct Solver<'a> {
    x: &'a Exprs,
    net: &'a Network,
    facts: &'a Facts,
    conditions: &'a [Expr],
    candidate: Candidate<'a>,
    seed: u64,
}

impl Solver<'_> {
    /// A random number (xorshift); the same in each search.
    fn random(&mut self) -> u64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        self.seed
    }

    fn coin(&mut self) -> bool {
        self.random() >> 32 & 1 == 0
    }

    /// Gives a symbol a value from its set: what is usual or the lowest at first, a random one later.
    fn choose(&mut self, e: Expr, start: u32) {
        let Node::Symbol(s) = self.x.node(e) else { return };
        if let Symbol::Head(_) | Symbol::Capacity(_) = s {
            if start % 2 == 1 && matches!(s, Symbol::Head(_)) {
                self.candidate.set(s, 0);
            }
            return;
        }
        let set = self.facts.set(self.x, e);
        let Some((lo, _)) = set.hull() else { return };
        let lengths = matches!(s, Symbol::Len(_) | Symbol::Pulled(_) | Symbol::Size(_) | Symbol::Group(..));
        let v = match self.candidate.get(s) {
            Some(v) if start < USUAL && set.contains(v) => v,
            // The next above: a length that is wanted may be too short.
            Some(v) if start < USUAL && lengths => set.at_least(v).unwrap_or(lo),
            _ if start == 0 || lengths => lo,
            _ => self.member(e),
        };
        self.candidate.set(s, v);
    }

    /// A random member of an expression's set.
    fn member(&mut self, e: Expr) -> u128 {
        let set = self.facts.set(self.x, e);
        self.member_of(&set).unwrap_or(0)
    }

    /// A random member of a set.
    fn member_of(&mut self, set: &Set) -> Option<u128> {
        let intervals = set.intervals();
        let (pick, r) = (self.random() as usize, u128::from(self.random()) << 64 | u128::from(self.random()));
        intervals.get(pick % intervals.len().max(1)).map(|&(lo, hi)| match (hi - lo).checked_add(1) {
            Some(n) => lo + r % n,
            None => r,
        })
    }

    fn eval(&mut self, e: Expr) -> u128 {
        self.candidate.eval(e)
    }

    fn search(&mut self, deadline: &Deadline) -> bool {
        for step in 0..STEPS {
            if step.is_multiple_of(LOOK) && deadline.is_over() {
                return false;
            }
            let broken: Vec<Expr> =
                self.conditions.iter().copied().filter(|&c| self.candidate.eval(c) == 0).collect();
            let Some(&first) = broken.first() else { return true };
            let which = if step % 3 == 2 { broken[self.random() as usize % broken.len()] } else { first };
            self.force(which, 1);
        }
        false
    }

    /// Tries to change symbols so that an expression has a value.
    fn force(&mut self, e: Expr, v: u128) -> bool {
        let w = self.x.width(e);
        let v = v & w.max();
        if self.eval(e) == v {
            return true;
        }
        match self.x.node(e).clone() {
            Node::Const(_) | Node::MeterState(_) | Node::Symbol(Symbol::Head(_) | Symbol::Capacity(_)) => {
                false
            }
            Node::Symbol(s) => {
                let fits = self.facts.set(self.x, e).contains(v);
                if fits {
                    self.candidate.set(&s, v);
                }
                fits
            }
            Node::Not(a) => self.force(a, !v),
            Node::Equal(a, b) => self.force_equal(a, b, v == 1),
            Node::Less(a, b) => self.force_less(a, b, v == 1),
            Node::In(a, to) => {
                let to = if v == 1 { Set::clone(&to) } else { to.complement(self.x.width(a)) };
                let within = self.facts.set(self.x, a).intersect(&to);
                self.member_of(&within).is_some_and(|m| self.force(a, m))
            }
            Node::Binary(op, a, b) => self.force_binary(op, a, b, v, w),
            Node::Resize(a) => {
                let (from, now) = (self.x.width(a), self.eval(a));
                self.force(a, if from < w { v } else { now & !w.max() | v })
            }
            Node::Select(c, a, b) => {
                let flip = self.random().is_multiple_of(4);
                let taken = (self.eval(c) != 0) != flip;
                if taken {
                    self.force(c, 1) && self.force(a, v)
                } else {
                    self.force(c, 0) && self.force(b, v)
                }
            }
            Node::Concat(bytes) => {
                let n = bytes.len();
                bytes.iter().enumerate().all(|(i, &b)| self.force(b, v >> (8 * (n - 1 - i)) & 0xff))
            }
            Node::Byte(a, i) => {
                let shift = 8 * (self.x.width(a).bytes() - 1 - i);
                let now = self.eval(a);
                self.force(a, now & !(0xff << shift) | v << shift)
            }
            Node::Sum16(a, b) => {
                let (a, b) = if self.coin() { (a, b) } else { (b, a) };
                let (p, q) = (self.eval(a) as u16, self.eval(b) as u16);
                self.force(a, sum16(v as u16, !q).into()) || self.force(b, sum16(v as u16, !p).into())
            }
            Node::Checksum { mem, from, start, end } => {
                let len = (self.eval(end) as u32).saturating_sub(start).min(HUGE_CAPACITY);
                let now = self.eval(e) as u16;
                self.force_sum(mem, from, len, now, v as u16)
            }
            Node::Find { mem, from, start, end, byte } => {
                let (end, byte) = (self.eval(end).min(HUGE_CAPACITY.into()) as u32, self.eval(byte) as u8);
                let Some(want) = (v as u32).checked_sub(start) else { return false };
                (0..i64::from(end.saturating_sub(start))).all(|i| match i.cmp(&want.into()) {
                    std::cmp::Ordering::Less => {
                        self.byte(mem, from + i) != byte || self.force_byte(mem, from + i, !byte)
                    }
                    std::cmp::Ordering::Equal => self.force_byte(mem, from + i, byte),
                    std::cmp::Ordering::Greater => true,
                })
            }
            Node::Hash(args) => {
                // Any other argument gives any other hash.
                let arg = args.get(self.random() as usize % args.len().max(1)).copied();
                let r = self.random();
                arg.is_some_and(|a| self.force(a, r.into()))
            }
            Node::MeterOk(args) => {
                let empty = (self.eval(args[1]).max(1) & u128::from(u64::MAX)) << 64;
                self.force(args[0], if v == 1 { 0 } else { empty })
            }
            Node::ClaimOk(c) => {
                if v == 1 {
                    let lo = self.eval(c.lo);
                    self.eval(c.hi) >= lo || self.force(c.hi, lo)
                } else {
                    let capacity = self.net.decl(c.table).capacity;
                    self.force(c.size, capacity.into())
                }
            }
            Node::Claimed(c) => {
                let lo = self.eval(c.lo);
                v.checked_sub(lo).is_some_and(|d| self.force(c.start, d))
            }
        }
    }

    fn force_equal(&mut self, a: Expr, b: Expr, want: bool) -> bool {
        let (a, b) = if self.coin() { (a, b) } else { (b, a) };
        if want {
            let (p, q) = (self.eval(a), self.eval(b));
            return self.force(a, q) || self.force(b, p);
        }
        for e in [a, b] {
            let (v, other) = (self.eval(e), self.member(e));
            if [other, v.wrapping_add(1), v.wrapping_sub(1)].into_iter().any(|o| o != v && self.force(e, o)) {
                return true;
            }
        }
        false
    }

    fn force_less(&mut self, a: Expr, b: Expr, want: bool) -> bool {
        let (p, q, max) = (self.eval(a), self.eval(b), self.x.width(a).max());
        let first_a = self.coin();
        if !want {
            return self.either(first_a, |s| s.force(a, q), |s| s.force(b, p));
        }
        let up = |s: &mut Self| p < max && (s.force(b, p + 1) || s.force(b, max));
        let r = self.random();
        let down =
            |s: &mut Self| q > 0 && [q - 1, 0, u128::from(r) % q].into_iter().any(|less| s.force(a, less));
        self.either(first_a, down, up)
    }

    /// One way to do something, or the other if that does not work; `first`: in this order.
    #[expect(clippy::if_same_then_else, reason = "the first that works has its effect, so the order counts")]
    fn either(&mut self, first: bool, a: impl Fn(&mut Self) -> bool, b: impl Fn(&mut Self) -> bool) -> bool {
        if first { a(self) || b(self) } else { b(self) || a(self) }
    }

    fn force_binary(&mut self, op: BinOp, a: Expr, b: Expr, v: u128, w: Width) -> bool {
        let (p, q) = (self.eval(a), self.eval(b));
        if w == Width::W1 && matches!(op, BinOp::And | BinOp::Or) {
            if v == u128::from(op == BinOp::And) {
                return self.force(a, v) && self.force(b, v);
            }
            let first = self.coin();
            return self.either(first, |s| s.force(a, v), |s| s.force(b, v));
        }
        match op {
            BinOp::Add => self.force(a, v.wrapping_sub(q)) || self.force(b, v.wrapping_sub(p)),
            BinOp::Sub => self.force(a, v.wrapping_add(q)) || self.force(b, p.wrapping_sub(v)),
            BinOp::Xor => self.force(a, v ^ q) || self.force(b, v ^ p),
            BinOp::And => {
                (v & !q == 0 && self.force(a, p & !q | v)) || (v & !p == 0 && self.force(b, q & !p | v))
            }
            BinOp::Or => self.force(a, v & !q | p & q & v) || self.force(b, v & !p | q & p & v),
            BinOp::Shl => q < w.bits().into() && self.force(a, v >> q),
            BinOp::Shr if q < w.bits().into() => {
                // With the bits that are shifted out as they are, or without.
                self.force(a, v << q | p & !(w.max() << q)) && self.eval(a) >> q == v
                    || self.force(a, v << q) && self.eval(a) >> q == v
            }
            BinOp::Shr => false,
            // The least product that is not below: what follows may look at its high bits only.
            BinOp::Mul => q != 0 && self.force(a, v.div_ceil(q)),
            BinOp::Rem => q > v && self.force(a, p - p % q + v),
        }
    }

    /// Changes a 16-bit word in a range so that the sum becomes what it should be.
    fn force_sum(&mut self, mem: MemId, from: i64, len: u32, now: u16, want: u16) -> bool {
        let words = i64::from(len / 2);
        // The word where IPv4 has its checksum, if the others need not change.
        let first = match self.random() {
            r if words >= 10 && !r.is_multiple_of(4) => 5,
            r => r as i64 & i64::MAX,
        };
        (0..words.min(WORDS)).any(|i| {
            let at = from + (first.wrapping_add(i) & i64::MAX) % words * 2;
            let word = u16::from_be_bytes([self.byte(mem, at), self.byte(mem, at + 1)]);
            let [high, low] = sum16(sum16(word, !now), want).to_be_bytes();
            let before = self.candidate.model().clone();
            let done = self.force_byte(mem, at, high) && self.force_byte(mem, at + 1, low);
            if !done {
                self.candidate.restore(before);
            }
            done
        })
    }

    fn byte(&mut self, mem: MemId, at: i64) -> u8 {
        match self.written(mem, at) {
            Some(b) => self.eval(b) as u8,
            None => self.candidate.get(&Symbol::Byte(self.x.mem(mem).source, at)).map_or(0, |v| v as u8),
        }
    }

    /// What was written at a position, by whatever number.
    fn written(&mut self, mem: MemId, at: i64) -> Option<Expr> {
        let mem = self.x.mem(mem);
        if mem.writes.contains_key(&at) || !(mem.has_behind() || is_behind(at)) {
            return mem.writes.get(&at).copied();
        }
        let real = self.candidate.real_position(at);
        mem.writes.iter().find(|(other, _)| self.candidate.real_position(**other) == real).map(|(_, b)| *b)
    }

    fn force_byte(&mut self, mem: MemId, at: i64, v: u8) -> bool {
        if let Some(b) = self.written(mem, at) {
            return self.force(b, v.into());
        }
        let mem = self.x.mem(mem);
        let symbol = Symbol::Byte(mem.source, at);
        match self.x.find_symbol(&symbol) {
            Some(e) => self.force(e, v.into()),
            None => {
                self.candidate.set(&symbol, v.into());
                true
            }
        }
    }
}
