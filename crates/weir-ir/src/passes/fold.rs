//! Constant folding and algebraic identities, on values and on choices.

use crate::interp::{binary, compare, sum16};
use crate::program::{Amount, BinOp, CmpOp, End, Op, Program, Type, Value, Width};

use super::dead;
use super::rename::Rename;
use super::sums;

/// Folds.
pub(super) fn run(p: &mut Program) {
    let mut f = Folder { defs: vec![None; p.types.len()], rename: Rename::new(p), made: Vec::new() };
    amounts(p);
    for b in 0..p.blocks.len() {
        let ops = std::mem::take(&mut p.blocks[b].ops);
        let mut kept = Vec::with_capacity(ops.len());
        for mut op in ops {
            op.visit_values_mut(|v, def| {
                if !def {
                    *v = f.rename.of(*v);
                }
            });
            let folded = f.op(p, op);
            kept.append(&mut f.made);
            kept.extend(folded);
        }
        p.blocks[b].ops = kept;
        let mut end = std::mem::replace(&mut p.blocks[b].end, End::Finish);
        end.visit_values_mut(|v| *v = f.rename.of(*v));
        p.blocks[b].end = f.end(end);
    }
    f.rename.apply(p);
    dead::run(p);
}

/// Amounts that are constant values become constants. Not so for a value that jumps pass along: what is required by
/// it is known of the parameter too, which need not be constant. All at once, so that what is required and what is
/// accessed stay of one kind.
fn amounts(p: &mut Program) {
    let mut constant: Vec<Option<u32>> = vec![None; p.types.len()];
    for op in p.blocks.iter().flat_map(|b| &b.ops) {
        if let Op::Const { dst, value } = op {
            constant[dst.0 as usize] = u32::try_from(*value).ok();
        }
    }
    for block in &p.blocks {
        for op in &block.ops {
            if let Op::Fork { target, .. } | Op::Release { target, .. } = op {
                target.args.iter().for_each(|v| constant[v.0 as usize] = None);
            }
        }
        for t in block.end.targets() {
            t.args.iter().for_each(|v| constant[v.0 as usize] = None);
        }
    }
    let change = |n: &mut Amount| {
        if let Amount::Value(v) = *n
            && let Some(c) = constant[v.0 as usize]
        {
            *n = Amount::Const(c);
        }
    };
    for block in &mut p.blocks {
        for op in &mut block.ops {
            match op {
                Op::SetMark { off: n, .. }
                | Op::Checksum { end: n, .. }
                | Op::FindByte { end: n, .. }
                | Op::Pull { n } => change(n),
                _ => {}
            }
        }
        match &mut block.end {
            End::Require { n, .. } | End::Push { n, .. } | End::Unpull { n, .. } | End::Put { n, .. } => {
                change(n);
            }
            _ => {}
        }
    }
}

/// Knowledge about values while a program is folded.
pub(super) struct Folder {
    /// The operation behind each value, where its meaning depends on its operands only.
    defs: Vec<Option<Op>>,
    rename: Rename,
    /// Operations to stand before the one at hand.
    made: Vec<Op>,
}

impl Folder {
    /// The operation that defines a value.
    pub fn def(&self, v: Value) -> Option<&Op> {
        self.defs.get(v.0 as usize)?.as_ref()
    }

    /// The constant that a value is.
    pub fn constant(&self, v: Value) -> Option<u128> {
        match self.def(v) {
            Some(Op::Const { value, .. }) => Some(*value),
            _ => None,
        }
    }

    /// Adds an operation with a new value before the one at hand.
    pub fn make(&mut self, p: &mut Program, width: Width, op: impl FnOnce(Value) -> Op) -> Value {
        let v = Value(p.types.len() as u32);
        p.types.push(Type::Int(width));
        let op = op(v);
        self.defs.push(Some(op.clone()));
        self.made.push(op);
        v
    }

    /// A constant before the operation at hand.
    pub fn make_const(&mut self, p: &mut Program, width: Width, value: u128) -> Value {
        let value = value & width.max();
        self.make(p, width, |dst| Op::Const { dst, value })
    }

    fn op(&mut self, p: &mut Program, op: Op) -> Option<Op> {
        let op = match fold(self, p, op) {
            Folded::Same(dst, v) => {
                self.rename.set(dst, v);
                return None;
            }
            Folded::Op(op) => op,
        };
        let pure = matches!(
            op,
            Op::Const { .. }
                | Op::Binary { .. }
                | Op::Compare { .. }
                | Op::Not { .. }
                | Op::Resize { .. }
                | Op::Select { .. }
                | Op::Sum16 { .. }
        );
        if pure && let Some(dst) = op.dst() {
            self.defs[dst.0 as usize] = Some(op.clone());
        }
        Some(op)
    }

    fn end(&self, end: End) -> End {
        match end {
            End::Branch { cond, then, other } => match (self.constant(cond), self.def(cond)) {
                (Some(c), _) => End::Jump(if c != 0 { then } else { other }),
                (None, Some(&Op::Not { a, .. })) => End::Branch { cond: a, then: other, other: then },
                _ => End::Branch { cond, then, other },
            },
            End::Switch { value, cases, default } => match self.constant(value) {
                Some(c) => End::Jump(cases.into_iter().find(|(k, _)| *k == c).map_or(default, |(_, t)| t)),
                None => End::Switch { value, cases, default },
            },
            end => end,
        }
    }
}

/// The result of folding an operation.
pub(super) enum Folded {
    /// The first value is the second.
    Same(Value, Value),
    /// This operation, with the same `dst`.
    Op(Op),
}

fn fold(f: &mut Folder, p: &mut Program, op: Op) -> Folded {
    let constant = |dst, value: u128| Folded::Op(Op::Const { dst, value });
    match op {
        Op::Binary { op, dst, a, b } => fold_binary(f, p, op, dst, a, b),
        Op::Compare { op: cmp, dst, a, b } => {
            let truth = |t: bool| constant(dst, t.into());
            if a == b {
                return truth(matches!(cmp, CmpOp::Eq | CmpOp::Le));
            }
            match (f.constant(a), f.constant(b)) {
                (Some(x), Some(y)) => truth(compare(cmp, x, y)),
                // One bit compared with a constant is the bit or its opposite.
                (None, Some(c)) if p.width(a) == Width::W1 && matches!(cmp, CmpOp::Eq | CmpOp::Ne) => {
                    if (cmp == CmpOp::Eq) == (c == 1) {
                        Folded::Same(dst, a)
                    } else {
                        fold(f, p, Op::Not { dst, a })
                    }
                }
                (Some(_), None) if matches!(cmp, CmpOp::Eq | CmpOp::Ne) => {
                    fold(f, p, Op::Compare { op: cmp, dst, a: b, b: a })
                }
                _ => Folded::Op(op),
            }
        }
        Op::Not { dst, a } => match f.def(a).cloned() {
            Some(Op::Const { value, .. }) => constant(dst, !value & p.width(dst).max()),
            Some(Op::Not { a: inner, .. }) => Folded::Same(dst, inner),
            Some(Op::Compare { op: cmp, a, b, .. }) => Folded::Op(match cmp {
                CmpOp::Eq => Op::Compare { op: CmpOp::Ne, dst, a, b },
                CmpOp::Ne => Op::Compare { op: CmpOp::Eq, dst, a, b },
                CmpOp::Lt => Op::Compare { op: CmpOp::Le, dst, a: b, b: a },
                CmpOp::Le => Op::Compare { op: CmpOp::Lt, dst, a: b, b: a },
            }),
            _ => Folded::Op(op),
        },
        Op::Resize { dst, a } => {
            if p.width(a) == p.width(dst) {
                return Folded::Same(dst, a);
            }
            match f.def(a).cloned() {
                Some(Op::Const { value, .. }) => constant(dst, value & p.width(dst).max()),
                // Through a wider middle, or through a middle that is cut further.
                Some(Op::Resize { a: inner, .. })
                    if p.width(a) >= p.width(inner) || p.width(dst) <= p.width(a) =>
                {
                    fold(f, p, Op::Resize { dst, a: inner })
                }
                _ => Folded::Op(op),
            }
        }
        Op::Select { dst, cond, a, b } => match f.constant(cond) {
            Some(0) => Folded::Same(dst, b),
            Some(_) => Folded::Same(dst, a),
            None if a == b => Folded::Same(dst, a),
            None => match (p.width(a), f.constant(a), f.constant(b)) {
                (Width::W1, Some(1), Some(0)) => Folded::Same(dst, cond),
                (Width::W1, Some(0), Some(1)) => fold(f, p, Op::Not { dst, a: cond }),
                _ => Folded::Op(op),
            },
        },
        Op::Sum16 { dst, a, b } => match (f.constant(a), f.constant(b)) {
            (Some(x), Some(y)) => constant(dst, sum16(x as u16, y as u16).into()),
            (Some(0), None) => Folded::Same(dst, b),
            (None, Some(0)) => Folded::Same(dst, a),
            _ => sums::fold(f, p, dst, a, b),
        },
        op => Folded::Op(op),
    }
}

fn fold_binary(f: &mut Folder, p: &mut Program, op: BinOp, dst: Value, mut a: Value, mut b: Value) -> Folded {
    use BinOp::{Add, And, Mul, Or, Rem, Shl, Shr, Sub, Xor};
    let w = p.width(dst);
    let constant = |value: u128| Folded::Op(Op::Const { dst, value });
    let commutes = matches!(op, Add | Mul | And | Or | Xor);
    if commutes && f.constant(a).is_some() && f.constant(b).is_none() {
        (a, b) = (b, a);
    }
    if let (Some(x), Some(y)) = (f.constant(a), f.constant(b)) {
        return constant(binary(op, w, x, y));
    }
    if a == b {
        match op {
            Sub | Xor => return constant(0),
            And | Or => return Folded::Same(dst, a),
            _ => {}
        }
    }
    if f.constant(a) == Some(0) && matches!(op, Shl | Shr | Rem) {
        return constant(0);
    }
    if let Some(c) = f.constant(b) {
        match (op, c) {
            (Add | Sub | Or | Xor | Shl | Shr, 0) | (Mul, 1) => return Folded::Same(dst, a),
            (Mul | And | Rem, 0) | (Rem, 1) => return constant(0),
            (And, c) if c == w.max() => return Folded::Same(dst, a),
            (Or, c) if c == w.max() => return constant(c),
            (Xor, c) if c == w.max() => return fold(f, p, Op::Not { dst, a }),
            (Shl | Shr, c) if c >= u128::from(w.bits()) => return constant(0),
            (Rem, c) if c.is_power_of_two() => {
                let mask = f.make_const(p, w, c - 1);
                return Folded::Op(Op::Binary { op: And, dst, a, b: mask });
            }
            _ => {}
        }
        // (x op c1) op c2
        if let Some(&Op::Binary { op: inner, a: x, b: y, .. }) = f.def(a)
            && let Some(d) = f.constant(y)
        {
            let both = match (inner, op) {
                (Add, Add) | (Sub, Sub) => Some((inner, d.wrapping_add(c))),
                (Add, Sub) => Some((Add, d.wrapping_sub(c))),
                (Sub, Add) => Some((Add, c.wrapping_sub(d))),
                (And, And) => Some((And, d & c)),
                (Or, Or) => Some((Or, d | c)),
                (Xor, Xor) => Some((Xor, d ^ c)),
                _ => None,
            };
            if let Some((op, c)) = both {
                let b = f.make_const(p, w, c);
                return fold_binary(f, p, op, dst, x, b);
            }
        }
    }
    Folded::Op(Op::Binary { op, dst, a, b })
}
