//! Least and greatest number that a value can be: from its type, its operation, and the branches on the path.
//!
//! A walk over the dominator tree narrows ranges at each path that only one branch leads to, and widens them again
//! when it leaves the block.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::flow::{Edge, Flow, Step};
use crate::interp::binary;
use crate::program::{Amount, BinOp, BlockId, CmpOp, End, Op, Program, Type, Value, Width};

/// Least and greatest number that a value can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    pub lo: u128,
    pub hi: u128,
}

impl Range {
    pub const ZERO: Range = Range { lo: 0, hi: 0 };
}

/// The ranges of all values at one block of a walk.
pub(crate) struct Walk {
    ranges: Vec<Range>,
    /// How a value was made, and its width, where that says something about its operands.
    defs: Vec<Option<(Def, Width)>>,
    /// Pairs of which the first is no greater than the second.
    ordered: Vec<(Value, Value)>,
    /// Ranges that hold again when the walk leaves a block.
    undo: Vec<(Value, Range)>,
    /// How much there was to undo, and how many pairs, before each block that the walk is in.
    marks: Vec<(usize, usize)>,
    /// How many steps back from a condition the walk is at.
    depth: u32,
}

/// The definition of a value by others.
#[derive(Debug, Clone, Copy)]
enum Def {
    Binary(BinOp, Value, Value),
    Compare(CmpOp, Value, Value),
    Not(Value),
    Resize(Value),
    Select { cond: Value, a: Value, b: Value },
}

impl Def {
    fn of(op: &Op) -> Option<Def> {
        Some(match *op {
            Op::Binary { op, a, b, .. } => Def::Binary(op, a, b),
            Op::Compare { op, a, b, .. } => Def::Compare(op, a, b),
            Op::Not { a, .. } => Def::Not(a),
            Op::Resize { a, .. } => Def::Resize(a),
            Op::Select { cond, a, b, .. } => Def::Select { cond, a, b },
            _ => return None,
        })
    }
}

/// Most steps back from a condition to what it was made of.
const MAX_DEPTH: u32 = 32;
/// Most steps back from a value to what it was made of, when its range is asked for anew.
const MAX_STEPS: u32 = 4;

impl Walk {
    /// Before the first block.
    pub fn new(p: &Program) -> Walk {
        let all = |ty: &Type| match *ty {
            Type::Int(w) => Range { lo: 0, hi: w.max() },
            Type::Entry(_) => Range { lo: 0, hi: u128::MAX },
        };
        Walk {
            ranges: p.types.iter().map(all).collect(),
            defs: vec![None; p.types.len()],
            ordered: Vec::new(),
            undo: Vec::new(),
            marks: Vec::new(),
            depth: 0,
        }
    }

    /// Enters a block; its operations have to be [`define`](Walk::define)d next.
    pub fn enter(&mut self, p: &Program, flow: &Flow, b: usize) {
        self.marks.push((self.undo.len(), self.ordered.len()));
        if let Some(Edge { from, index }) = flow.only_edge_into(b) {
            self.learn_edge(&p.blocks[from].end, index);
        }
    }

    /// Leaves the block that was entered last.
    pub fn leave(&mut self) {
        let (undo, ordered) = self.marks.pop().unwrap_or((0, 0));
        self.ordered.truncate(ordered);
        while self.undo.len() > undo
            && let Some((v, range)) = self.undo.pop()
        {
            self.ranges[v.0 as usize] = range;
        }
    }

    /// The next operation of the block.
    pub fn define(&mut self, p: &Program, op: &Op) {
        let Some(dst) = op.dst() else { return };
        if let Op::Const { value, .. } = *op {
            self.ranges[dst.0 as usize] = Range { lo: value, hi: value };
        }
        let Some(def) = Def::of(op) else { return };
        let width = p.width(dst);
        if let Some(range) = self.range_of(def, width, 0) {
            self.ranges[dst.0 as usize] = range;
        }
        self.defs[dst.0 as usize] = Some((def, width));
    }

    /// What is known of a value here.
    pub fn range(&self, v: Value) -> Range {
        self.ranges[v.0 as usize]
    }

    /// As [`range`](Walk::range), and with what was found out about its operands since it was made.
    fn range_now(&self, v: Value, steps: u32) -> Range {
        let known = self.range(v);
        let anew = match self.defs[v.0 as usize] {
            Some((def, width)) if steps > 0 => self.range_of(def, width, steps - 1),
            _ => None,
        };
        let Some(anew) = anew else { return known };
        let both = Range { lo: known.lo.max(anew.lo), hi: known.hi.min(anew.hi) };
        if both.lo <= both.hi { both } else { known }
    }

    /// Those of some amounts that are no greater than `v` when so much is added: known from comparisons, and where
    /// `v` is a sum with a constant.
    fn within(&self, used: &FxHashSet<Value>, v: Value) -> Vec<(Value, u32)> {
        let mut all = vec![(v, 0)];
        if let Some((Def::Binary(BinOp::Add, a, b), w)) = self.defs[v.0 as usize] {
            for (x, c) in [(a, self.range(b)), (b, self.range(a))] {
                if c.lo == c.hi && self.range(x).hi.checked_add(c.lo).is_some_and(|sum| sum <= w.max()) {
                    all.extend(u32::try_from(c.lo).ok().map(|c| (x, c)));
                }
            }
        }
        let below = |&(x, c): &(Value, u32)| {
            self.ordered.iter().filter(move |(_, b)| *b == x).map(move |&(a, _)| (a, c)).collect::<Vec<_>>()
        };
        all.extend(all.iter().flat_map(below).collect::<Vec<_>>());
        all.retain(|(x, _)| *x != v && used.contains(x));
        all
    }

    /// Narrows the range of a value. A path on which nothing is left is never taken; nothing is said about it.
    fn narrow(&mut self, v: Value, lo: u128, hi: u128) {
        let old = self.range(v);
        let new = Range { lo: old.lo.max(lo), hi: old.hi.min(hi) };
        if new.lo > new.hi || new == old || self.depth >= MAX_DEPTH {
            return;
        }
        self.depth += 1;
        self.undo.push((v, old));
        self.ranges[v.0 as usize] = new;
        match self.defs[v.0 as usize] {
            Some((Def::Compare(op, a, b), _)) if new.lo == new.hi => self.learn(op, a, b, new.lo == 1),
            Some((Def::Not(a), Width::W1)) => self.narrow(a, 1 - new.hi, 1 - new.lo),
            Some((Def::Binary(BinOp::And, a, b), Width::W1)) if new.lo == 1 => {
                self.narrow(a, 1, 1);
                self.narrow(b, 1, 1);
            }
            Some((Def::Binary(BinOp::Or, a, b), Width::W1)) if new.hi == 0 => {
                self.narrow(a, 0, 0);
                self.narrow(b, 0, 0);
            }
            // Nothing was cut off.
            Some((Def::Resize(a), w)) if self.range(a).hi <= w.max() => self.narrow(a, new.lo, new.hi),
            _ => {}
        }
        self.depth -= 1;
    }

    fn learn(&mut self, op: CmpOp, a: Value, b: Value, holds: bool) {
        let (ra, rb) = (self.range(a), self.range(b));
        match (op, holds) {
            (CmpOp::Eq, true) | (CmpOp::Ne, false) => {
                self.narrow(a, rb.lo, rb.hi);
                self.narrow(b, ra.lo, ra.hi);
            }
            (CmpOp::Eq, false) | (CmpOp::Ne, true) => {
                for (v, r, other) in [(a, ra, rb), (b, rb, ra)] {
                    if other.lo == other.hi {
                        if r.lo == other.lo {
                            self.narrow(v, r.lo.saturating_add(1), r.hi);
                        } else if r.hi == other.lo {
                            self.narrow(v, r.lo, r.hi.saturating_sub(1));
                        }
                    }
                }
            }
            (CmpOp::Lt, true) => {
                self.ordered.push((a, b));
                self.narrow(a, 0, rb.hi.saturating_sub(1));
                self.narrow(b, ra.lo.saturating_add(1), u128::MAX);
            }
            (CmpOp::Le, true) => {
                self.ordered.push((a, b));
                self.narrow(a, 0, rb.hi);
                self.narrow(b, ra.lo, u128::MAX);
            }
            (CmpOp::Lt, false) => self.learn(CmpOp::Le, b, a, true),
            (CmpOp::Le, false) => self.learn(CmpOp::Lt, b, a, true),
        }
    }

    fn learn_edge(&mut self, end: &End, i: usize) {
        match end {
            End::Branch { cond, .. } => {
                let truth = u128::from(i == 0);
                self.narrow(*cond, truth, truth);
            }
            End::Switch { value, cases, .. } => {
                if let Some((c, _)) = cases.get(i) {
                    self.narrow(*value, *c, *c);
                }
            }
            _ => {}
        }
    }

    /// What an operation can give; `None` if it gives anything of its type.
    fn range_of(&self, def: Def, width: Width, steps: u32) -> Option<Range> {
        let range = |v| self.range_now(v, steps);
        match def {
            Def::Compare(op, a, b) => {
                let (a, b) = (range(a), range(b));
                let apart = a.hi < b.lo || b.hi < a.lo;
                let same = a.lo == a.hi && a == b;
                let truth = match op {
                    CmpOp::Eq if same || apart => same,
                    CmpOp::Ne if same || apart => apart,
                    CmpOp::Lt if a.hi < b.lo => true,
                    CmpOp::Lt if a.lo >= b.hi => false,
                    CmpOp::Le if a.hi <= b.lo => true,
                    CmpOp::Le if a.lo > b.hi => false,
                    _ => return None,
                };
                Some(Range { lo: truth.into(), hi: truth.into() })
            }
            Def::Not(a) => {
                let (a, max) = (range(a), width.max());
                Some(Range { lo: max - a.hi, hi: max - a.lo })
            }
            Def::Resize(a) => Some(range(a)).filter(|r| r.hi <= width.max()),
            Def::Select { cond, a, b } => {
                let (c, a, b) = (range(cond), range(a), range(b));
                Some(match (c.lo, c.hi) {
                    (0, 0) => b,
                    (1, 1) => a,
                    _ => Range { lo: a.lo.min(b.lo), hi: a.hi.max(b.hi) },
                })
            }
            Def::Binary(op, a, b) => binary_range(op, width, range(a), range(b)),
        }
    }
}

fn binary_range(op: BinOp, w: Width, a: Range, b: Range) -> Option<Range> {
    if a.lo == a.hi && b.lo == b.hi {
        let c = binary(op, w, a.lo, b.lo);
        return Some(Range { lo: c, hi: c });
    }
    let within = |lo: Option<u128>, hi: Option<u128>| {
        let (lo, hi) = lo.zip(hi)?;
        (hi <= w.max()).then_some(Range { lo, hi })
    };
    match op {
        BinOp::Add => within(a.lo.checked_add(b.lo), a.hi.checked_add(b.hi)),
        BinOp::Sub => within(a.lo.checked_sub(b.hi), a.hi.checked_sub(b.lo)),
        BinOp::Mul => within(a.lo.checked_mul(b.lo), a.hi.checked_mul(b.hi)),
        BinOp::And => Some(Range { lo: 0, hi: a.hi.min(b.hi) }),
        BinOp::Or => {
            let bits = 128 - (a.hi | b.hi).leading_zeros();
            let hi = if bits == 128 { u128::MAX } else { (1 << bits) - 1 };
            Some(Range { lo: a.lo.max(b.lo), hi })
        }
        BinOp::Rem if b.lo > 0 => Some(Range { lo: 0, hi: a.hi.min(b.hi - 1) }),
        BinOp::Shr if b.lo == b.hi => {
            let shift = |x| binary(BinOp::Shr, w, x, b.lo);
            Some(Range { lo: shift(a.lo), hi: shift(a.hi) })
        }
        _ => None,
    }
}

/// The bounds of an amount.
#[derive(Debug)]
struct AmountFacts {
    range: Range,
    /// Other amounts, and what can be added to each so that it is no greater than this one.
    within: Vec<(Value, u32)>,
}

/// The bounds of the amounts of a program, where they are used.
#[derive(Debug)]
pub(crate) struct Ranges(FxHashMap<(BlockId, Value), AmountFacts>);

impl Ranges {
    /// Walks over a program.
    pub fn of(p: &Program, flow: &Flow) -> Ranges {
        let mut found = FxHashMap::default();
        let used: FxHashSet<Value> = p.blocks.iter().flat_map(|b| amounts(&b.ops, &b.end)).collect();
        if used.is_empty() {
            return Ranges(found);
        }
        let mut walk = Walk::new(p);
        for step in flow.walk() {
            let Step::Enter(b) = step else {
                walk.leave();
                continue;
            };
            walk.enter(p, flow, b);
            let block = &p.blocks[b];
            block.ops.iter().for_each(|op| walk.define(p, op));
            for v in amounts(&block.ops, &block.end) {
                found.entry((BlockId(b as u32), v)).or_insert_with(|| AmountFacts {
                    range: walk.range_now(v, MAX_STEPS),
                    within: walk.within(&used, v),
                });
            }
        }
        Ranges(found)
    }

    /// Other amounts, and what can be added to each so that it is no greater than `n`, in a block that uses `n`.
    pub fn within(&self, block: BlockId, n: Amount) -> &[(Value, u32)] {
        match n {
            Amount::Value(v) => self.0.get(&(block, v)).map_or(&[], |f| &f.within),
            Amount::Const(_) => &[],
        }
    }

    /// What is known of an amount in a block that uses it.
    pub fn amount(&self, block: BlockId, n: Amount) -> Range {
        match n {
            Amount::Const(n) => Range { lo: n.into(), hi: n.into() },
            Amount::Value(v) => {
                self.0.get(&(block, v)).map_or(Range { lo: 0, hi: u32::MAX.into() }, |f| f.range)
            }
        }
    }
}

/// The values that say how far something reaches, in a block.
fn amounts<'a>(ops: &'a [Op], end: &'a End) -> impl Iterator<Item = Value> + 'a {
    let of = |op: &Op| match *op {
        Op::SetMark { off: n, .. }
        | Op::Checksum { end: n, .. }
        | Op::FindByte { end: n, .. }
        | Op::Pull { n } => Some(n),
        Op::Trim { len } => Some(Amount::Value(len)),
        _ => None,
    };
    ops.iter().filter_map(of).chain(end.amount()).filter_map(|n| match n {
        Amount::Value(v) => Some(v),
        Amount::Const(_) => None,
    })
}
