//! Two stages: before a batch runs, the keys that its packets will look up are worked out as far as they follow from
//! the packets alone, so that what they are looked up in is in the cache by then.
//!
//! A [`Slice`] is the part of a program that makes the key of one lookup. It follows the shortest path there, without
//! looking whether a packet takes it, and changes nothing: if it is wrong, a line is fetched in vain. So nothing of
//! what a batch means depends on it.

use std::collections::VecDeque;

use rustc_hash::FxHashSet;
use weir_ir::program::{Amount, BlockId, End, EntryKind, Op, Program, TableId, Type, Value, Width};
use weir_table::Kind;

use crate::analysis::slow_paths::paths_of_new_keys;
use crate::flows::CachePlan;

/// Most lookups of an entry that are looked at.
const MOST: usize = 4;
/// Tables of fewer entries are in the cache anyway.
const SMALL_TABLE: u32 = 4096;

/// A lookup whose key follows from the packet.
#[derive(Debug, Clone)]
pub(crate) struct Slice {
    /// The entry it begins at.
    pub entry: BlockId,
    /// The table.
    pub table: TableId,
    /// The group that the lookup leads, if its results are kept for each flow.
    pub group: Option<usize>,
    pub key: Vec<Value>,
    /// The path to the lookup: blocks, each with the number of the exit that is taken.
    pub path: Vec<(BlockId, usize)>,
}

impl Slice {
    /// The slices of all entries for packets.
    pub fn of(p: &Program, plan: &CachePlan) -> Vec<Slice> {
        let packets = p.entries.iter().filter(|e| matches!(e.kind, EntryKind::Packet { .. }));
        // What a new key needs is not fetched: nearly all packets would wait for it in vain.
        let unlikely: FxHashSet<BlockId> = paths_of_new_keys(p).into_iter().flatten().collect();
        packets.flat_map(|e| Slice::from_entry(p, plan, e.block, &unlikely)).collect()
    }

    fn from_entry(
        p: &Program,
        plan: &CachePlan,
        entry: BlockId,
        unlikely: &FxHashSet<BlockId>,
    ) -> Vec<Slice> {
        let mut found: Vec<Slice> = Vec::new();
        let mut from: Vec<Option<(BlockId, usize)>> = vec![None; p.blocks.len()];
        let mut seen = unlikely.clone();
        seen.insert(entry);
        let mut queue = VecDeque::from([entry]);
        while let Some(id) = queue.pop_front() {
            let end = &p.block(id).end;
            let group =
                plan.site(id).map(|i| &plan.sites[i]).filter(|site| site.leads).map(|site| site.group);
            if let End::Lookup { table, key, .. } | End::Insert { table, key, .. } = end
                && (group.is_some() || wanted(p, *table))
                && !found.iter().any(|s| s.table == *table && s.key == *key)
                && found.len() < MOST
            {
                let mut path = vec![(id, 0)];
                let mut at = id;
                while let Some((before, exit)) = from[at.0 as usize] {
                    path.push((before, exit));
                    at = before;
                }
                path.reverse();
                let slice = Slice { entry, table: *table, group, key: key.clone(), path };
                if slice.needed(p).is_some() {
                    found.push(slice);
                }
            }
            let mut exits: Vec<(usize, BlockId)> =
                end.targets().into_iter().map(|t| t.block).enumerate().collect();
            match end {
                // Another round leads to nothing else.
                End::Again { .. } => drop(exits.remove(0)),
                End::Enter { block, back: false } => exits.push((exits.len(), *block)),
                _ => {}
            }
            for (i, exit) in exits {
                if seen.insert(exit) {
                    from[exit.0 as usize] = Some((id, i));
                    queue.push_back(exit);
                }
            }
        }
        found
    }

    /// The values that make the key, and the amounts by which layers move on the path; `None` if one of them follows
    /// from more than the packet.
    pub fn needed(&self, p: &Program) -> Option<FxHashSet<Value>> {
        let mut needed: FxHashSet<Value> = self.key.iter().copied().collect();
        for (i, &(id, exit)) in self.path.iter().enumerate().rev() {
            let block = p.block(id);
            if i + 1 < self.path.len() {
                if let End::Push { n: Amount::Value(v), .. } | End::Unpull { n: Amount::Value(v), .. } =
                    block.end
                {
                    needed.insert(v);
                }
                let next = p.block(self.path[i + 1].0);
                let target = block.end.targets().get(exit).copied();
                let args = target.map_or(&[][..], |t| &t.args);
                let supplied = block.end.supplied(exit);
                if next.params.iter().take(supplied).any(|v| needed.contains(v)) {
                    return None;
                }
                for (param, arg) in next.params.iter().skip(supplied).zip(args) {
                    if needed.contains(param) {
                        needed.insert(*arg);
                    }
                }
            } else if i == 0 && block.params.iter().any(|v| needed.contains(v)) {
                return None;
            }
            for op in block.ops.iter().rev() {
                match op {
                    Op::SetMark { off: Amount::Value(v), .. } | Op::Pull { n: Amount::Value(v) } => {
                        needed.insert(*v);
                    }
                    op if op.dst().is_some_and(|v| needed.contains(&v)) => {
                        needed.extend(operands(p, op)?);
                    }
                    _ => {}
                }
            }
        }
        Some(needed)
    }
}

fn wanted(p: &Program, table: TableId) -> bool {
    let decl = &p.tables[table.0 as usize].decl;
    let finds = decl.kind == Kind::Exact || decl.kind == Kind::Lpm && decl.key[0].width == Width::W32;
    finds && decl.capacity > SMALL_TABLE
}

/// What an operation works on, if it can be done ahead of its time.
fn operands(p: &Program, op: &Op) -> Option<Vec<Value>> {
    let is_cell = |v: &Value| match p.ty(*v) {
        Type::Entry(t) => p.tables[t.0 as usize].decl.kind == Kind::Array,
        Type::Int(_) => false,
    };
    Some(match op {
        Op::Binary { dst, a, b, .. } if p.width(*dst) != Width::W128 => vec![*a, *b],
        Op::Compare { a, b, .. } | Op::Sum16 { a, b, .. } => vec![*a, *b],
        Op::Not { a, .. } | Op::Resize { a, .. } => vec![*a],
        Op::Select { cond, a, b, .. } => vec![*cond, *a, *b],
        Op::Hash { args, .. } => args.clone(),
        Op::Get { entry, .. } if is_cell(entry) => vec![*entry],
        Op::Const { .. }
        | Op::Load { .. }
        | Op::LoadAnno { .. }
        | Op::LoadMeta { .. }
        | Op::Index { .. }
        | Op::Now { .. } => Vec::new(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use weir_ir::{Builder, Layer, Reason, TableDecl, V, Width::*};

    use super::*;

    /// A program with a large table, and what it does with the first two words of a packet.
    fn program(body: impl FnOnce(&mut Builder, TableId, [V; 2])) -> Program {
        let mut b = Builder::new("flows", 1, 1);
        let decl = TableDecl::new("flows", Kind::Exact, &[("addr", W32)], &[("out", W8)], 2 * SMALL_TABLE);
        let flows = b.table(decl, Vec::new());
        b.input(0, |b| {
            b.require(Layer::Data, 8, Reason::TRUNCATED);
            let words = [0, 4].map(|at| b.load(W32, Layer::Data, at));
            body(b, flows, words);
        });
        b.finish()
    }

    /// How many keys are worked out ahead for packets that look up two keys; if `learns`, an entry is made where both are
    /// unknown, else such packets are dropped.
    fn slices(learns: bool) -> usize {
        let program = program(|b, flows, [first, second]| {
            b.find(flows, &[first], |b| {
                b.find(flows, &[second], |b| {
                    if learns {
                        b.insert(flows, &[first], |b| b.drop(Reason::DENIED));
                        b.emit(0);
                    } else {
                        b.drop(Reason::NO_MATCH);
                    }
                });
                b.emit(0);
            });
            b.emit(0);
        });
        Slice::of(&program, &CachePlan::of(&program)).len()
    }

    #[test]
    fn what_only_new_keys_need_is_not_fetched() {
        assert_eq!((slices(false), slices(true)), (2, 1));
    }

    #[test]
    fn the_path_behind_a_loop_is_that_of_its_exit() {
        let program = program(|b, flows, [first, second]| {
            let vars = b.repeat(4, &[first, second], |b, this, vars| this.next(b, &[vars[1], vars[0]]));
            b.find(flows, &[vars[0]], |b| b.drop(Reason::NO_MATCH));
            b.emit(0);
        });
        let slices = Slice::of(&program, &CachePlan::of(&program));
        let loops = |block: &BlockId| matches!(program.block(*block).end, End::Again { .. });
        for slice in &slices {
            for pair in slice.path.windows(2).filter(|pair| loops(&pair[0].0)) {
                let targets = program.block(pair[0].0).end.targets();
                assert_eq!(targets[pair[0].1].block, pair[1].0);
            }
        }
        assert!(slices.iter().any(|s| s.path.iter().any(|(block, _)| loops(block))));
    }
}
