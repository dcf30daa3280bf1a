//! What a branch decided is known on its ways: repeated conditions, comparisons that a range decides, and cases that
//! cannot be are removed.

use crate::interp::binary;
use crate::program::{BinOp, CmpOp, End, Op, Program, Type, Value, Width};

use super::dead;
use crate::flow::{Edge, Flow, Step};

/// Removes choices that are made already.
pub(super) fn run(p: &mut Program) {
    let flow = Flow::of(p);
    let mut c =
        Conditions { ranges: Vec::new(), defs: vec![None; p.types.len()], undo: Vec::new(), depth: 0 };
    c.ranges.extend(p.types.iter().map(|ty| match *ty {
        Type::Int(w) => Range { lo: 0, hi: w.max() },
        Type::Entry(_) => Range { lo: 0, hi: u128::MAX },
    }));
    let mut marks: Vec<usize> = Vec::new();
    let mut decided: Vec<(usize, End)> = Vec::new();
    for step in flow.walk() {
        let Step::Enter(b) = step else {
            let mark = marks.pop().unwrap_or(0);
            while c.undo.len() > mark
                && let Some((v, range)) = c.undo.pop()
            {
                c.ranges[v.0 as usize] = range;
            }
            continue;
        };
        marks.push(c.undo.len());
        if let Some(Edge { from, index }) = flow.only_way(b) {
            c.learn_edge(&p.blocks[from].end, index);
        }
        let mut ops = std::mem::take(&mut p.blocks[b].ops);
        for op in &mut ops {
            let Some(dst) = op.dst() else { continue };
            if let Some(range) = c.range_of(p, op) {
                c.ranges[dst.0 as usize] = range;
                if range.lo == range.hi {
                    *op = Op::Const { dst, value: range.lo };
                }
            }
            if matches!(op, Op::Compare { .. } | Op::Not { .. } | Op::Binary { .. } | Op::Resize { .. }) {
                c.defs[dst.0 as usize] = Some((op.clone(), p.width(dst)));
            }
        }
        p.blocks[b].ops = ops;
        // The ends stay as they are until the walk is over: ways are counted by their place in the end.
        let mut end = p.blocks[b].end.clone();
        if c.decide(&mut end) {
            decided.push((b, end));
        }
    }
    for (b, end) in decided {
        p.blocks[b].end = end;
    }
    dead::blocks(p);
    dead::run(p);
}

/// Smallest and largest number that a value can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    lo: u128,
    hi: u128,
}

struct Conditions {
    ranges: Vec<Range>,
    /// How a value was made, and its width, where that says something about its operands.
    defs: Vec<Option<(Op, Width)>>,
    /// Ranges that hold again when the walk leaves a block.
    undo: Vec<(Value, Range)>,
    /// How many steps back from a condition the walk is at.
    depth: u32,
}

/// Most steps back from a condition to what it was made of.
const MAX_DEPTH: u32 = 32;

impl Conditions {
    fn range(&self, v: Value) -> Range {
        self.ranges[v.0 as usize]
    }

    /// Narrows the range of a value. A way on which nothing is left is never taken; nothing is said about it.
    fn narrow(&mut self, v: Value, lo: u128, hi: u128) {
        let old = self.range(v);
        let new = Range { lo: old.lo.max(lo), hi: old.hi.min(hi) };
        if new.lo > new.hi || new == old || self.depth >= MAX_DEPTH {
            return;
        }
        self.depth += 1;
        self.undo.push((v, old));
        self.ranges[v.0 as usize] = new;
        match self.defs[v.0 as usize].clone() {
            Some((Op::Compare { op, a, b, .. }, _)) if new.lo == new.hi => self.learn(op, a, b, new.lo == 1),
            Some((Op::Not { a, .. }, Width::W1)) => self.narrow(a, 1 - new.hi, 1 - new.lo),
            Some((Op::Binary { op: BinOp::And, a, b, .. }, Width::W1)) if new.lo == 1 => {
                self.narrow(a, 1, 1);
                self.narrow(b, 1, 1);
            }
            Some((Op::Binary { op: BinOp::Or, a, b, .. }, Width::W1)) if new.hi == 0 => {
                self.narrow(a, 0, 0);
                self.narrow(b, 0, 0);
            }
            // Nothing was cut off.
            Some((Op::Resize { a, .. }, w)) if self.range(a).hi <= w.max() => self.narrow(a, new.lo, new.hi),
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
                self.narrow(a, 0, rb.hi.saturating_sub(1));
                self.narrow(b, ra.lo.saturating_add(1), u128::MAX);
            }
            (CmpOp::Le, true) => {
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
    fn range_of(&self, p: &Program, op: &Op) -> Option<Range> {
        match *op {
            Op::Const { value, .. } => Some(Range { lo: value, hi: value }),
            Op::Compare { op, a, b, .. } => {
                let (a, b) = (self.range(a), self.range(b));
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
            Op::Not { dst, a } => {
                let (a, max) = (self.range(a), p.width(dst).max());
                Some(Range { lo: max - a.hi, hi: max - a.lo })
            }
            Op::Resize { dst, a } => Some(self.range(a)).filter(|r| r.hi <= p.width(dst).max()),
            Op::Select { cond, a, b, .. } => {
                let (c, a, b) = (self.range(cond), self.range(a), self.range(b));
                Some(match (c.lo, c.hi) {
                    (0, 0) => b,
                    (1, 1) => a,
                    _ => Range { lo: a.lo.min(b.lo), hi: a.hi.max(b.hi) },
                })
            }
            Op::Binary { op, dst, a, b } => binary_range(op, p.width(dst), self.range(a), self.range(b)),
            _ => None,
        }
    }

    /// Leaves out the ways that cannot be taken. Returns whether there were any.
    fn decide(&self, end: &mut End) -> bool {
        match end {
            End::Branch { cond, then, other } => match self.range(*cond) {
                Range { lo: 1, .. } => *end = End::Jump(then.clone()),
                Range { hi: 0, .. } => *end = End::Jump(other.clone()),
                _ => return false,
            },
            End::Switch { value, cases, default } => {
                let range = self.range(*value);
                let before = cases.len();
                cases.retain(|(c, _)| (range.lo..=range.hi).contains(c));
                if range.lo == range.hi
                    && let Some((_, t)) = cases.first()
                {
                    *end = End::Jump(t.clone());
                } else if cases.is_empty() {
                    *end = End::Jump(default.clone());
                } else {
                    return cases.len() != before;
                }
            }
            _ => return false,
        }
        true
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
