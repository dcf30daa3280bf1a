//! Paths that packets take once a flow: what follows a key that is not in its table, and makes an entry for it.
//!
//! Such a path is long, calls Rust, and uses much of what was read of the packet before the lookup. In one function with the
//! paths of the other packets it would take registers from them, and all together would take longer to compile than both
//! apart. So each is a function of its own ([`crate::translate::slow_path`]).

use rustc_hash::FxHashSet;
use weir_ir::program::{BlockId, End, Op, Program, TableId, Value};
use weir_table::Kind;

use crate::analysis::dominators::Dominators;
use crate::analysis::lanes::Lanes;

/// A slow path.
#[derive(Debug)]
pub(crate) struct SlowPath {
    /// Its blocks, the first one first, each behind what defines its values.
    pub blocks: Vec<BlockId>,
    /// What it takes from before: the first block's parameters, and the values that it uses.
    pub given: Vec<Value>,
    /// Constants from before that it uses.
    pub constants: Vec<Op>,
    /// The blocks that it leads to.
    pub exits: Vec<BlockId>,
    /// No packet is moved in its buffer, so that what follows finds the layers where they were.
    pub keeps_places: bool,
}

/// All slow paths of a program.
#[derive(Debug, Default)]
pub(crate) struct SlowPaths {
    pub paths: Vec<SlowPath>,
    /// For each block the path that it is on.
    of: Vec<Option<usize>>,
}

/// For each lookup of an exact table behind whose miss an entry of that table is made: the blocks that packets reach
/// only by this miss, its own first.
pub(crate) fn paths_of_new_keys(p: &Program) -> Vec<Vec<BlockId>> {
    let is_exact = |t: &TableId| p.tables[t.0 as usize].decl.kind == Kind::Exact;
    if !p.blocks.iter().any(|b| matches!(&b.end, End::Lookup { table, .. } if is_exact(table))) {
        return Vec::new();
    }
    let dominators = Dominators::of(p);
    let mut paths_to = vec![0_u32; p.blocks.len()];
    for block in &p.blocks {
        block.end.targets().into_iter().for_each(|t| paths_to[t.block.0 as usize] += 1);
    }
    let mut paths = Vec::new();
    for block in dominators.order().iter().map(|&b| p.block(b)) {
        let End::Lookup { table, hit, miss, .. } = &block.end else { continue };
        let head = miss.block;
        if !is_exact(table) || paths_to[head.0 as usize] != 1 || head == hit.block {
            continue;
        }
        let on: Vec<BlockId> =
            dominators.order().iter().copied().filter(|&b| dominators.dominate(head, b)).collect();
        let makes = |b: &BlockId| match &p.block(*b).end {
            End::Insert { table: t, .. } | End::Claim { table: t, .. } => t == table,
            _ => false,
        };
        if on.iter().any(makes) {
            paths.push(on);
        }
    }
    paths
}

impl SlowPaths {
    /// Finds the paths of a checked program.
    pub fn of(p: &Program, lanes: &Lanes) -> SlowPaths {
        let mut slow = SlowPaths { of: vec![None; p.blocks.len()], ..SlowPaths::default() };
        for blocks in paths_of_new_keys(p) {
            let free = |b: &BlockId| slow.of[b.0 as usize].is_none() && lanes.group(*b).is_none();
            if blocks.iter().all(free) {
                blocks.iter().for_each(|b| slow.of[b.0 as usize] = Some(slow.paths.len()));
                slow.paths.push(SlowPath::of(p, blocks));
            }
        }
        slow
    }

    /// Whether a block is on such a path.
    pub fn has(&self, b: BlockId) -> bool {
        self.path(b).is_some()
    }

    /// The path that begins with a block.
    pub fn path_at(&self, b: BlockId) -> Option<usize> {
        self.path(b).filter(|&path| self.paths[path].blocks[0] == b)
    }

    fn path(&self, b: BlockId) -> Option<usize> {
        self.of.get(b.0 as usize).copied().flatten()
    }
}

impl SlowPath {
    fn of(p: &Program, blocks: Vec<BlockId>) -> SlowPath {
        let (first, others) = (p.block(blocks[0]), &blocks[1..]);
        let mut inside: FxHashSet<Value> = FxHashSet::default();
        inside.extend(others.iter().flat_map(|&b| &p.block(b).params));
        inside.extend(blocks.iter().flat_map(|&b| &p.block(b).ops).filter_map(Op::dst));
        let mut given: Vec<Value> =
            blocks.iter().flat_map(|&b| used(p, b)).chain(first.params.clone()).collect();
        given.retain(|v| !inside.contains(v));
        given.sort();
        given.dedup();
        let constants = p.blocks.iter().flat_map(|b| &b.ops).filter(|op| match op {
            Op::Const { dst, .. } => given.binary_search(dst).is_ok(),
            _ => false,
        });
        let constants: Vec<Op> = constants.cloned().collect();
        let known: FxHashSet<Value> = constants.iter().filter_map(Op::dst).collect();
        given.retain(|v| !known.contains(v));
        let moves = |b: &BlockId| {
            let ops = p.block(*b).ops.iter().any(|op| {
                matches!(op, Op::SetMark { .. } | Op::ClearMark { .. } | Op::Pull { .. } | Op::Trim { .. })
            });
            ops || matches!(p.block(*b).end, End::Push { .. } | End::Unpull { .. } | End::Put { .. })
        };
        let keeps_places = !blocks.iter().any(moves);
        let mut exits: Vec<BlockId> = Vec::new();
        for end in blocks.iter().map(|&b| &p.block(b).end) {
            exits.extend(end.targets().into_iter().map(|t| t.block));
            if let End::Enter { block, .. } = end {
                exits.push(*block);
            }
        }
        exits.retain(|to| !blocks.contains(to));
        exits.sort();
        exits.dedup();
        SlowPath { blocks, given, constants, exits, keeps_places }
    }
}

/// The values that a block uses, those included that it defines.
pub(crate) fn used(p: &Program, b: BlockId) -> Vec<Value> {
    let block = p.block(b);
    let mut used = Vec::new();
    for op in &block.ops {
        op.visit_values(|v, _| used.push(*v));
        if let Op::Fork { target, .. } | Op::Release { target, .. } = op {
            used.extend(&target.args);
        }
    }
    block.end.visit_own_values(|v| used.push(*v));
    block.end.targets().into_iter().for_each(|t| used.extend(&t.args));
    used
}
