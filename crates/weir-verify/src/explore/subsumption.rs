//! Paths that others stand for.
//!
//! Where it is asked what comes to a place, and not by which path, a path need not be followed if all that can come of its
//! packets comes of those of another path that came to the same input before: the packet is the same, and all that the
//! other path assumed is known on this one. Then each run that goes this path has a twin that goes the other; nothing is
//! hidden, and nothing is shown that is not.
//!
//! What was drawn at random on the path is left out if nothing depends on it any more: the twin draws what it needs.

use rustc_hash::FxHashMap;
use weir_ir::interp::binary;
use weir_ir::program::{BlockId, End, Op, Program, Value, Width};

use crate::explore::Explorer;
use crate::explore::state::State;
use crate::model::expr::{Expr, Exprs, Node, Symbol};
use crate::model::facts::Facts;
use crate::model::list::List;
use crate::model::packet::{Mark, SymbolicPacket};
use crate::model::set::Set;
use crate::network::NodePort;

/// Most paths with the same packet that are kept at an input: looking through more costs more than it saves.
const MOST: usize = 8;
/// So many intervals of a random number's values are tried.
const TRIED: usize = 4;

/// Paths that came to inputs.
#[derive(Debug, Default)]
pub(crate) struct SeenPaths {
    by_place: FxHashMap<NodePort, Vec<Alike>>,
    drawn: Drawn,
}

/// The expressions that depend on a random number.
#[derive(Debug, Default)]
struct Drawn(FxHashMap<Expr, bool>);

/// Paths that came to an input with the same packet.
#[derive(Debug)]
struct Alike {
    packet: SymbolicPacket,
    laps: u32,
    /// Whether something in the packet depends on a random number.
    drawn: bool,
    paths: Vec<SeenPath>,
}

/// The conditions of a path.
#[derive(Debug)]
struct SeenPath {
    conditions: List<Expr>,
    /// Whether what it says of random numbers may be left out.
    draws_again: bool,
}

impl SeenPaths {
    /// Forgets all paths.
    pub(crate) fn clear(&mut self) {
        self.by_place.clear();
    }
}

impl Drawn {
    fn is_drawn(&mut self, x: &Exprs, e: Expr) -> bool {
        match x.node(e) {
            Node::Const(_) => return false,
            Node::Symbol(Symbol::Random(_)) => return true,
            // Another may stand for what a key finds that depends on one.
            _ => {}
        }
        if let Some(&known) = self.0.get(&e) {
            return known;
        }
        let found = x.operands(e).into_iter().any(|o| self.is_drawn(x, o));
        self.0.insert(e, found);
        found
    }

    /// Whether each random number that conditions speak of may be drawn again, whatever else holds: each of these conditions
    /// is about one of them alone, and a value is found with which all that are about it hold.
    fn draws_again(&mut self, x: &Exprs, facts: &Facts) -> bool {
        let mut by_number: Vec<(Expr, Vec<Expr>)> = Vec::new();
        for &c in facts.conditions_newest_first().iter() {
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

    /// Whether something in a packet, but for these bytes of its annotations, depends on a random number.
    fn packet_is_drawn(&mut self, x: &Exprs, p: &SymbolicPacket, unread: u64) -> bool {
        let later = p.marks.iter().filter_map(|m| if let Mark::Later(_, e) = m { Some(*e) } else { None });
        let rest = [p.end.0, p.hops, p.head, p.capacity];
        let anno = p.anno.iter().enumerate().filter(|(i, _)| unread >> i & 1 == 0).map(|(_, e)| e);
        let all = p.mem.writes.values().chain(anno).chain(&p.meta).copied();
        all.chain(later).chain(rest).any(|e| self.is_drawn(x, e))
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
    // What is not known yet is behind a path back, and may read all.
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
    /// The bytes of annotations, a bit each, that are not read at an input.
    fn unread(&mut self, at: NodePort) -> u64 {
        let node = self.node(at.node);
        *self.liveness.overwritten.entry(at).or_insert_with(|| match (node.program(), node.entry(at.port)) {
            (Some(program), Some(entry)) => overwritten(program, entry),
            _ => 0,
        })
    }

    /// Whether another path that came to an input stands for this one. If not, this one may for later ones.
    pub(crate) fn is_subsumed(&mut self, st: &State, at: NodePort) -> bool {
        let settled = st.is_settled() && st.entries.iter().all(|e| self.net.info(e.table).is_fixed());
        if !settled || self.branch.guide.is_some() || self.branch.frontier.paths.is_none() {
            return false;
        }
        let unread = self.unread(at);
        let (Some(packet), Some(paths), x) = (&st.packet, &mut self.branch.frontier.paths, &self.branch.x)
        else {
            return false;
        };
        let SeenPaths { by_place, drawn } = paths;
        let all = by_place.entry(at).or_default();
        let same = |a: &Alike| a.laps == st.laps && is_alike(&a.packet, packet, unread);
        let alike = all.iter().position(same).unwrap_or_else(|| {
            let (drawn, packet) = (drawn.packet_is_drawn(x, packet, unread), packet.clone());
            all.push(Alike { packet, laps: st.laps, drawn, paths: Vec::new() });
            all.len() - 1
        });
        let alike = &mut all[alike];
        let covers = |w: &SeenPath| {
            let ignored = |c| w.draws_again && drawn.0.get(&c).is_some_and(|drawn| *drawn);
            st.facts.imply(x, &w.conditions, ignored)
        };
        let subsumed = alike.paths.iter().rev().any(covers);
        if !subsumed && alike.paths.len() < MOST {
            let draws_again = !alike.drawn && drawn.draws_again(x, &st.facts);
            alike
                .paths
                .push(SeenPath { conditions: st.facts.conditions_newest_first().clone(), draws_again });
        }
        subsumed
    }
}

/// Whether two packets are the same but for bytes of annotations that are not read.
fn is_alike(a: &SymbolicPacket, b: &SymbolicPacket, unread: u64) -> bool {
    let rest = |p: &SymbolicPacket| (p.data, p.floor, p.end, p.marks, p.hops, p.head, p.capacity);
    let mut anno = a.anno.iter().zip(b.anno.iter()).enumerate();
    rest(a) == rest(b)
        && a.anchors == b.anchors
        && a.meta == b.meta
        && anno.all(|(i, (a, b))| a == b || unread >> i & 1 == 1)
        && a.mem == b.mem
}
