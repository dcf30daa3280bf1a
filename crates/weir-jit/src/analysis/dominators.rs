//! Through which blocks all paths to a block go.

use weir_ir::program::{BlockId, End, Op, Program};

use crate::analysis::lanes::Lanes;
use crate::analysis::starts::order;

/// The dominators of the blocks that runs reach, with packets that go on in another element.
pub(crate) struct Dominators {
    order: Vec<BlockId>,
    /// For each block its place in the order.
    place: Vec<Option<usize>>,
    /// For each place the place of the closest dominator; `None` where runs start, and where their paths meet first.
    above: Vec<Option<usize>>,
}

impl Dominators {
    /// By iteration over the blocks in reverse postorder (Cooper, Harvey and Kennedy, "A simple, fast dominance
    /// algorithm").
    pub fn of(p: &Program) -> Dominators {
        let order = order(p, &Lanes::default());
        let mut place = vec![None; p.blocks.len()];
        for (i, id) in order.iter().enumerate() {
            place[id.0 as usize] = Some(i);
        }
        let mut before: Vec<Vec<usize>> = vec![Vec::new(); order.len()];
        let mut starts = vec![false; order.len()];
        let mut start = |id: BlockId| {
            if let Some(at) = place[id.0 as usize] {
                starts[at] = true;
            }
        };
        p.entries.iter().for_each(|e| start(e.block));
        for (i, &id) in order.iter().enumerate() {
            let block = p.block(id);
            for op in &block.ops {
                if let Op::Fork { target, .. } | Op::Release { target, .. } = op {
                    start(target.block);
                }
            }
            let mut next: Vec<BlockId> = block.end.targets().into_iter().map(|t| t.block).collect();
            if let End::Enter { block, .. } = block.end {
                next.push(block);
            }
            for to in next.into_iter().filter_map(|id| place[id.0 as usize]) {
                before[to].push(i);
            }
        }
        let mut d = Dominators { above: vec![None; order.len()], order, place };
        // Not reached yet, as far as the iteration goes.
        let mut known = starts.clone();
        let mut changed = true;
        while changed {
            changed = false;
            for i in 0..d.order.len() {
                let mut paths = before[i].iter().copied().filter(|&b| known[b]);
                let above = match (starts[i], paths.next()) {
                    (true, _) | (_, None) => None,
                    (false, Some(first)) => paths.try_fold(first, |a, b| d.meet(a, b)),
                };
                let is_known = known[i] || before[i].iter().any(|&b| known[b]);
                if (d.above[i], known[i]) != (above, is_known) {
                    (d.above[i], known[i], changed) = (above, is_known, true);
                }
            }
        }
        d
    }

    fn meet(&self, mut a: usize, mut b: usize) -> Option<usize> {
        while a != b {
            // Dominators come first in the order.
            if a < b {
                std::mem::swap(&mut a, &mut b);
            }
            a = self.above[a]?;
        }
        Some(a)
    }

    /// The blocks, dominators first.
    pub fn order(&self) -> &[BlockId] {
        &self.order
    }

    /// Whether each path to `b` goes through `a`.
    pub fn dominate(&self, a: BlockId, b: BlockId) -> bool {
        let (Some(a), Some(mut b)) = (self.place[a.0 as usize], self.place[b.0 as usize]) else {
            return false;
        };
        while b > a {
            match self.above[b] {
                Some(above) => b = above,
                None => return false,
            }
        }
        a == b
    }
}
