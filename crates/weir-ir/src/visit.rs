//! Which values an operation defines and uses. Written once, for reading and for renaming.

use crate::program::{Amount, End, Op, TableId, Value};

macro_rules! visitors {
    ($op_fn:ident, $end_fn:ident, $own_fn:ident, $amount:ident, $targets:ident, $iter:ident $(, $mut_:tt)?) => {
        impl Op {
            /// Calls `f` with each value and whether the operation defines it.
            pub fn $op_fn(& $($mut_)? self, mut f: impl FnMut(& $($mut_)? Value, bool)) {
                match self {
                    Op::Const { dst, .. } | Op::Load { dst, .. } | Op::Rest { dst, .. }
                    | Op::Distance { dst, .. } | Op::LoadAnno { dst, .. } | Op::LoadMeta { dst, .. }
                    | Op::CompareBytes { dst, .. } | Op::Random { dst } | Op::Now { dst }
                    | Op::Index { dst, .. } | Op::Size { dst, .. } => f(dst, true),
                    Op::Binary { dst, a, b, .. } | Op::Compare { dst, a, b, .. } | Op::Sum16 { dst, a, b } => {
                        f(a, false);
                        f(b, false);
                        f(dst, true);
                    }
                    Op::Not { dst, a } | Op::Resize { dst, a } => {
                        f(a, false);
                        f(dst, true);
                    }
                    Op::Select { dst, cond, a, b } => {
                        f(cond, false);
                        f(a, false);
                        f(b, false);
                        f(dst, true);
                    }
                    Op::Store { src, .. } | Op::StoreAnno { src, .. } | Op::StoreMeta { src, .. } => f(src, false),
                    Op::SetMark { off, .. } => $amount(off, &mut f),
                    Op::ClearMark { .. } | Op::CopyBytes { .. } => {}
                    Op::Checksum { dst, end, .. } => {
                        $amount(end, &mut f);
                        f(dst, true);
                    }
                    Op::FindByte { dst, end, byte, .. } => {
                        $amount(end, &mut f);
                        f(byte, false);
                        f(dst, true);
                    }
                    Op::Hash { dst, args } => {
                        args.$iter().for_each(|v| f(v, false));
                        f(dst, true);
                    }
                    Op::Pull { n } => $amount(n, &mut f),
                    Op::Trim { len } => f(len, false),
                    Op::Get { dst, entry, .. } | Op::GetKey { dst, entry, .. } => {
                        f(entry, false);
                        f(dst, true);
                    }
                    Op::Set { entry, src, .. } => {
                        f(entry, false);
                        f(src, false);
                    }
                    Op::Touch { entry, after } => {
                        f(entry, false);
                        f(after, false);
                    }
                    Op::Link { a, b } => {
                        f(a, false);
                        f(b, false);
                    }
                    Op::Remove { entry } => f(entry, false),
                    Op::GroupCount { dst, value, .. } => {
                        f(value, false);
                        f(dst, true);
                    }
                    Op::Fork { target, .. } => target.args.$iter().for_each(|v| f(v, false)),
                    Op::Release { entry, target } => {
                        f(entry, false);
                        target.args.$iter().for_each(|v| f(v, false));
                    }
                    Op::Notify { args, .. } => args.$iter().for_each(|v| f(v, false)),
                }
            }
        }

        impl End {
            /// Calls `f` with each value that the end uses, arguments of its targets included.
            pub fn $end_fn(& $($mut_)? self, mut f: impl FnMut(& $($mut_)? Value)) {
                self.$own_fn(&mut f);
                for t in self.$targets() {
                    t.args.$iter().for_each(&mut f);
                }
            }

            /// Calls `f` with each value that the end itself uses, without the arguments of its targets.
            pub fn $own_fn(& $($mut_)? self, mut f: impl FnMut(& $($mut_)? Value)) {
                match self {
                    End::Branch { cond: v, .. } | End::Switch { value: v, .. } | End::Hold { entry: v, .. } => f(v),
                    End::Require { n, .. } | End::Push { n, .. } | End::Unpull { n, .. } | End::Put { n, .. } => {
                        $amount(n, &mut |v, _| f(v));
                    }
                    End::Lookup { key, .. } | End::Insert { key, .. } => key.$iter().for_each(&mut f),
                    End::Claim { key, lo, hi, start, .. } => {
                        key.$iter().for_each(&mut f);
                        f(lo);
                        f(hi);
                        f(start);
                    }
                    End::Meter { entry, cost, rate, burst, .. } => {
                        f(entry);
                        f(cost);
                        f(rate);
                        f(burst);
                    }
                    End::Soonest { .. } | End::Jump(_) | End::Again { .. } | End::Emit { .. } | End::Drop { .. } | End::Finish
                    | End::Enter { .. } | End::Exit { .. } => {}
                }
            }
        }
    };
}

fn amount(n: &Amount, f: &mut impl FnMut(&Value, bool)) {
    if let Amount::Value(v) = n {
        f(v, false);
    }
}

fn amount_mut(n: &mut Amount, f: &mut impl FnMut(&mut Value, bool)) {
    if let Amount::Value(v) = n {
        f(v, false);
    }
}

visitors!(visit_values, visit_values, visit_own_values, amount, targets, iter);
visitors!(visit_values_mut, visit_values_mut, visit_own_values_mut, amount_mut, targets_mut, iter_mut, mut);

impl Op {
    /// The value that the operation defines.
    pub fn dst(&self) -> Option<Value> {
        // Asked more often than anything else, so not by a visit of all values.
        match *self {
            Op::Const { dst, .. }
            | Op::Binary { dst, .. }
            | Op::Compare { dst, .. }
            | Op::Not { dst, .. }
            | Op::Resize { dst, .. }
            | Op::Select { dst, .. }
            | Op::Load { dst, .. }
            | Op::Rest { dst, .. }
            | Op::Distance { dst, .. }
            | Op::LoadAnno { dst, .. }
            | Op::LoadMeta { dst, .. }
            | Op::Checksum { dst, .. }
            | Op::Sum16 { dst, .. }
            | Op::CompareBytes { dst, .. }
            | Op::FindByte { dst, .. }
            | Op::Hash { dst, .. }
            | Op::Random { dst }
            | Op::Now { dst }
            | Op::Index { dst, .. }
            | Op::Get { dst, .. }
            | Op::GetKey { dst, .. }
            | Op::GroupCount { dst, .. }
            | Op::Size { dst, .. } => Some(dst),
            Op::Store { .. }
            | Op::SetMark { .. }
            | Op::ClearMark { .. }
            | Op::StoreAnno { .. }
            | Op::StoreMeta { .. }
            | Op::CopyBytes { .. }
            | Op::Pull { .. }
            | Op::Trim { .. }
            | Op::Set { .. }
            | Op::Touch { .. }
            | Op::Link { .. }
            | Op::Remove { .. }
            | Op::Fork { .. }
            | Op::Release { .. }
            | Op::Notify { .. } => None,
        }
    }

    /// Whether the operation does something beside defining its value.
    pub fn has_effect(&self) -> bool {
        self.dst().is_none() || matches!(self, Op::Random { .. })
    }

    /// The table that the operation names (not those of its entries).
    pub fn table_mut(&mut self) -> Option<&mut TableId> {
        match self {
            Op::Index { table, .. } | Op::GroupCount { table, .. } | Op::Size { table, .. } => Some(table),
            _ => None,
        }
    }
}

impl End {
    /// The table that the end names.
    pub fn table_mut(&mut self) -> Option<&mut TableId> {
        match self {
            End::Lookup { table, .. }
            | End::Insert { table, .. }
            | End::Claim { table, .. }
            | End::Soonest { table, .. } => Some(table),
            _ => None,
        }
    }
}
