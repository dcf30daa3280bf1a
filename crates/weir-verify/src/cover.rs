//! Ways that others stand for.
//!
//! Where it is asked what comes to a place, and not by which way, a way need not be followed if all that can come of its
//! packets comes of those of another way that came to the same input before: the packet is the same, and all that the
//! other way assumed is known on this one. Then each run that goes this way has a twin that goes the other; nothing is
//! hidden, and nothing is shown that is not.
//!
//! What was drawn at random on the way is left aside if nothing depends on it any more: the twin draws what it needs.

use std::rc::Rc;

use rpds::List;
use rustc_hash::FxHashMap;
use weir_ir::interp::binary;
use weir_ir::program::{BlockId, End, Op, Program, Value, Width};

use crate::explore::{Explorer, State};
use crate::expr::{Expr, Exprs, Node, Symbol};
use crate::facts::Facts;
use crate::network::Place;
use crate::packet::{Mark, SymbolicPacket};
use crate::set::Set;

/// Most ways with the same packet that are kept at an input: looking through more costs more than it saves.
const MOST: usize = 8;
/// So many intervals of a random number's values are tried.
const TRIED: usize = 4;

/// Ways that came to inputs.
#[derive(Debug, Default)]
pub(crate) struct Ways {
    by_place: FxHashMap<Place, Vec<Alike>>,
    /// Whether an expression depends on a random number.
    drawn: FxHashMap<Expr, bool>,
}

/// Ways that came to an input with the same packet.
#[derive(Debug)]
struct Alike {
    packet: SymbolicPacket,
    laps: u32,
    used_past: bool,
    /// Whether something in the packet depends on a random number.
    drawn: bool,
    ways: Vec<Way>,
}

/// What a way assumed.
#[derive(Debug)]
struct Way {
    conditions: List<Expr>,
    /// Whether what it says of random numbers may be left aside.
    draws_again: bool,
}

impl Ways {
    /// Forgets all ways.
    pub(crate) fn clear(&mut self) {
        self.by_place.clear();
    }

    fn is_drawn(&mut self, x: &Exprs, e: Expr) -> bool {
        match x.node(e) {
            Node::Const(_) => return false,
            Node::Symbol(Symbol::Random(_)) => return true,
            // Another may stand for what a key finds that depends on one.
            _ => {}
        }
        if let Some(&known) = self.drawn.get(&e) {
            return known;
        }
        let found = x.operands(e).into_iter().any(|o| self.is_drawn(x, o));
        self.drawn.insert(e, found);
        found
    }

    /// Whether each random number that conditions speak of may be drawn again, whatever else holds: each of these conditions
    /// is about one of them alone, and a value is found with which all that are about it hold.
    fn draws_again(&mut self, x: &Exprs, facts: &Facts) -> bool {
        let mut by_number: Vec<(Expr, Vec<Expr>)> = Vec::new();
        for &c in facts.conditions_newest_first() {
            if !self.is_drawn(x, c) {
                continue;
            }
            let Some(number) = number_in(x, c) else { return false };
            match by_number.iter_mut().find(|(n, _)| *n == number) {
                Some((_, conditions)) => conditions.push(c),
                None => by_number.push((number, vec![c])),
            }
        }
        by_number.iter().all(|(number, conditions)| {
            // A value of its low bits is one of it.
            let parts = [Width::W8, Width::W16].into_iter().filter_map(|w| x.find(w, &Node::Resize(*number)));
            let sets: Vec<Set> = parts.chain([*number]).map(|e| facts.set(x, e)).collect();
            let mut ends =
                sets.iter().flat_map(|s| s.intervals().iter().take(TRIED)).flat_map(|&(lo, hi)| [lo, hi]);
            ends.any(|v| conditions.iter().all(|c| with(x, *c, v) == Some(1)))
        })
    }

    fn packet_is_drawn(&mut self, x: &Exprs, p: &SymbolicPacket) -> bool {
        let later = p.marks.iter().filter_map(|m| if let Mark::Later(_, e) = m { Some(*e) } else { None });
        let rest = [p.end.0, p.hops, p.head, p.capacity];
        let written = p.mem.writes.values().chain(p.anno.iter()).chain(&p.meta).copied();
        written.chain(later).chain(rest).any(|e| self.is_drawn(x, e))
    }
}

/// The one random number that a condition is about, if it is about nothing else.
fn number_in(x: &Exprs, e: Expr) -> Option<Expr> {
    match *x.node(e) {
        Node::Symbol(Symbol::Random(_)) => Some(e),
        Node::Not(a) | Node::Resize(a) | Node::In(a, _) => number_in(x, a),
        Node::Binary(_, a, b) | Node::Equal(a, b) | Node::Less(a, b) => {
            match (x.constant_value(a), x.constant_value(b)) {
                (None, Some(_)) => number_in(x, a),
                (Some(_), None) => number_in(x, b),
                _ => None,
            }
        }
        _ => None,
    }
}

/// The value of an expression that [`number_in`] finds a number in, where that has this value.
fn with(x: &Exprs, e: Expr, number: u128) -> Option<u128> {
    Some(match x.node(e) {
        Node::Const(v) => *v,
        Node::Symbol(_) => number,
        Node::Not(a) => !with(x, *a, number)? & x.width(e).max(),
        Node::Resize(a) => with(x, *a, number)? & x.width(e).max(),
        Node::In(a, set) => set.contains(with(x, *a, number)?).into(),
        Node::Binary(op, a, b) => binary(*op, x.width(e), with(x, *a, number)?, with(x, *b, number)?),
        Node::Equal(a, b) => (with(x, *a, number)? == with(x, *b, number)?).into(),
        Node::Less(a, b) => (with(x, *a, number)? < with(x, *b, number)?).into(),
        _ => return None,
    })
}

/// The bytes of annotations, a bit each, that a program writes over before it reads them, whatever it does with a packet
/// that enters it at a block. Those of packets that it drops nobody looks at.
fn overwritten(p: &Program, entry: BlockId) -> u64 {
    let bytes = |off: u32, v: Value| ((1_u64 << p.width(v).bytes()) - 1) << off;
    // What is not known yet is behind a way back, and may read all.
    let mut start = vec![0; p.blocks.len()];
    for (i, block) in p.blocks.iter().enumerate().rev() {
        let mut dead = match &block.end {
            End::Drop { .. } => u64::MAX,
            End::Hold { .. } => 0,
            end => {
                end.targets().into_iter().map(|t| start[t.block.0 as usize]).reduce(|a, b| a & b).unwrap_or(0)
            }
        };
        for op in block.ops.iter().rev() {
            match *op {
                Op::StoreAnno { off, src } => dead |= bytes(off, src),
                Op::LoadAnno { dst, off } => dead &= !bytes(off, dst),
                Op::Fork { .. } | Op::Notify { packet: true, .. } => dead = 0,
                _ => {}
            }
        }
        start[i] = dead;
    }
    start[entry.0 as usize]
}

impl Explorer<'_> {
    /// The packet as far as it matters at an input: without the annotations that are not read there.
    pub(crate) fn as_read(&mut self, packet: &SymbolicPacket, at: Place) -> SymbolicPacket {
        let node = self.node(at.node);
        let dead =
            *self.overwritten.entry(at).or_insert_with(|| match (node.program(), node.entry(at.port)) {
                (Some(program), Some(entry)) => overwritten(program, entry),
                _ => 0,
            });
        let mut packet = packet.clone();
        if dead != 0 {
            let none = self.x.constant(Width::W8, 0);
            let anno = Rc::make_mut(&mut packet.anno).iter_mut().enumerate();
            anno.filter(|(i, _)| dead >> i & 1 == 1).for_each(|(_, byte)| *byte = none);
        }
        packet
    }

    /// Whether another way that came to an input stands for this one. If not, this one may for later ones.
    pub(crate) fn is_covered(&mut self, st: &State, at: Place) -> bool {
        let settled = st.is_settled() && st.entries.iter().all(|e| self.net.info(e.table).is_fixed());
        if !settled || self.guide.is_some() || self.course.ways.is_none() {
            return false;
        }
        let Some(packet) = st.packet.as_ref().map(|p| self.as_read(p, at)) else { return false };
        let (Some(ways), x) = (&mut self.course.ways, &self.x) else { return false };
        let mut all = ways.by_place.remove(&at).unwrap_or_default();
        let same = |a: &Alike| a.packet == packet && a.laps == st.laps && a.used_past == st.used_past;
        let alike = all.iter().position(same).unwrap_or_else(|| {
            let drawn = ways.packet_is_drawn(x, &packet);
            let (laps, used_past) = (st.laps, st.used_past);
            all.push(Alike { packet, laps, used_past, drawn, ways: Vec::new() });
            all.len() - 1
        });
        let alike = &mut all[alike];
        let covers = |w: &Way| {
            let aside = |c| w.draws_again && ways.drawn.get(&c).is_some_and(|drawn| *drawn);
            st.facts.imply(x, &w.conditions, aside)
        };
        let covered = alike.ways.iter().rev().any(covers);
        if !covered && alike.ways.len() < MOST {
            let draws_again = !alike.drawn && ways.draws_again(x, &st.facts);
            alike.ways.push(Way { conditions: st.facts.conditions_newest_first().clone(), draws_again });
        }
        ways.by_place.insert(at, all);
        covered
    }
}
