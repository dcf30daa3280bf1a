//! Paths by which packets of others leave the same in tables are one.

use std::collections::BTreeSet;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::explore::session::Session;
use crate::explore::tables::Missed;
use crate::explore::trace::{Part, Trace};
use crate::model::expr::{Expr, Exprs, Node, Source, Symbol};

/// The reason for which a packet of others is let in, by what is likelier to lead somewhere.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// A path that depends on all packets before looked in vain for what it makes, or read what it changes.
    #[default]
    Wanted,
    /// It is the first of its kind.
    New,
    /// What makes an entry that is wanted needs it.
    Needed,
    /// It is one more of its kind. What may come after it is not looked at.
    Last,
}

/// The prospects of letting in one more packet of others.
#[derive(Debug, Clone, Default)]
pub(super) struct Prospect {
    pub(super) rank: Rank,
    /// Kinds of each packet.
    pub(super) kinds: Vec<BTreeSet<usize>>,
    /// How many entries the last packet makes.
    pub(super) makes: usize,
    /// Tables in which a path that had found entries of all packets looked in vain, here or where one that is needed was let in.
    pub(super) wanted: BTreeSet<u32>,
    /// Fields, by table and number, that such a path read of what they left.
    pub(super) read: BTreeSet<(u32, u32)>,
}

/// The paths that make the same entries, whatever else they assume, and wherever in the packet they take them from: behind
/// a longer header a port stands elsewhere, and may be the same.
pub(super) struct Site {
    /// Those that differ in what they make or in their path.
    pub(super) traces: Vec<Trace>,
    pub(super) prospect: Prospect,
    shape: Shape,
    /// What all of them assume.
    conditions: FxHashSet<Expr>,
    /// Bytes in place of which others have other ones.
    moved: FxHashSet<Expr>,
}

/// Entries, with numbers in place of the bytes of packets.
struct Shape {
    /// What they are.
    numbers: Vec<u128>,
    /// The bytes, in order.
    bytes: Vec<Expr>,
}

impl Prospect {
    pub(super) fn learn(&mut self, missed: Missed) {
        self.wanted.extend(missed.behind);
        self.read.extend(missed.read);
    }

    fn join(&mut self, other: Prospect) {
        self.rank = self.rank.min(other.rank);
        self.makes = self.makes.min(other.makes);
        self.kinds.iter_mut().zip(other.kinds).for_each(|(all, kinds)| all.extend(kinds));
        self.wanted.extend(other.wanted);
        self.read.extend(other.read);
    }
}

impl Site {
    /// Adds what a packet left to what is the same.
    pub(super) fn add(sites: &mut Vec<Site>, x: &Exprs, trace: Trace, prospect: Prospect) {
        // They are mostly alike.
        let (numbers, bytes) =
            sites.first().map_or((256, 16), |s| (s.shape.numbers.len(), s.shape.bytes.len()));
        let mut d = Describe {
            x,
            shape: Shape { numbers: Vec::with_capacity(numbers), bytes: Vec::with_capacity(bytes) },
            seen: FxHashMap::default(),
        };
        trace.describe_entries(|part| match part {
            Part::Number(n) => d.shape.numbers.push(n),
            Part::Value(e) => d.value(e),
        });
        let shape = d.shape;
        let conditions: FxHashSet<Expr> = trace.conditions().into_iter().collect();
        let is_last = |p: &Prospect| p.rank == Rank::Last;
        let same =
            |s: &&mut Site| s.shape.numbers == shape.numbers && is_last(&s.prospect) == is_last(&prospect);
        let Some(site) = sites.iter_mut().find(same) else {
            let moved = FxHashSet::default();
            let traces = vec![trace];
            return sites.push(Site { traces, prospect, shape, conditions, moved });
        };
        site.prospect.join(prospect);
        site.conditions.retain(|c| conditions.contains(c));
        let pairs = site.shape.bytes.iter().zip(&shape.bytes);
        site.moved.extend(pairs.filter(|(a, b)| a != b).map(|(a, _)| *a));
        site.traces.push(trace);
    }

    /// A trace for all of them: nothing is assumed that is not of all.
    pub(super) fn merged(&self, session: &mut Session<'_>) -> Trace {
        let (x, first) = (session.exprs(), &self.traces[0]);
        let mut conditions = first.conditions();
        let mut known = FxHashMap::default();
        let from = self.moved.iter().min().copied().unwrap_or(Expr(u32::MAX));
        let moved = |e| self.moved.contains(&e);
        conditions.retain(|c| self.conditions.contains(c) && !x.mentions(*c, from, &moved, &mut known));
        session.weakened(first.clone(), &conditions)
    }
}

/// Puts expressions into a shape.
struct Describe<'a> {
    x: &'a Exprs,
    shape: Shape,
    /// Those that are described, in order: they are known by their number when they come again.
    seen: FxHashMap<Expr, u32>,
}

impl Describe<'_> {
    fn value(&mut self, e: Expr) {
        let x = self.x;
        match x.node(e) {
            Node::Const(v) => return self.write([2, x.width(e).bits().into(), *v]),
            Node::Symbol(Symbol::Byte(source, _)) if matches!(x.source(*source), Source::Input(_)) => {
                let bytes = &mut self.shape.bytes;
                let number = bytes.iter().position(|b| *b == e).unwrap_or_else(|| {
                    bytes.push(e);
                    bytes.len() - 1
                });
                return self.write([1, source.0.into(), number as u128]);
            }
            _ => {}
        }
        if let Some(&number) = self.seen.get(&e) {
            return self.write([13, number.into()]);
        }
        self.seen.insert(e, self.seen.len() as u32);
        match x.node(e) {
            Node::Concat(bytes) => self.parts(e, 3, bytes),
            Node::Resize(a) => self.parts(e, 4, &[*a]),
            Node::Byte(a, i) => {
                self.write([(*i).into()]);
                self.parts(e, 5, &[*a]);
            }
            Node::Binary(op, a, b) => {
                self.write([*op as u128]);
                self.parts(e, 6, &[*a, *b]);
            }
            Node::Not(a) => self.parts(e, 7, &[*a]),
            Node::Sum16(a, b) => self.parts(e, 8, &[*a, *b]),
            Node::Equal(a, b) => self.parts(e, 9, &[*a, *b]),
            Node::Less(a, b) => self.parts(e, 10, &[*a, *b]),
            Node::Select(c, a, b) => self.parts(e, 11, &[*c, *a, *b]),
            Node::Claimed(c) => {
                self.write([12, c.table.into(), c.hole.into()]);
                for (key, there) in &c.changes {
                    self.write([(*there).into()]);
                    key.iter().for_each(|k| self.value(*k));
                }
                let rest = [c.lo, c.hi, c.start, c.size];
                c.key.iter().chain(&rest).for_each(|v| self.value(*v));
            }
            // Whatever else it is, it has to be just that.
            _ => self.write([0, e.0.into()]),
        }
    }

    /// An operation, by its number, and its operands.
    fn parts(&mut self, e: Expr, operation: u128, operands: &[Expr]) {
        self.write([operation, self.x.width(e).bits().into(), operands.len() as u128]);
        operands.iter().for_each(|o| self.value(*o));
    }

    fn write<const N: usize>(&mut self, numbers: [u128; N]) {
        self.shape.numbers.extend(numbers);
    }
}
