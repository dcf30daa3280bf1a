//! The paths between blocks: predecessors, dominators, loops.

use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use crate::program::{BlockId, End, Op, Program};

/// A edge into a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Edge {
    /// The block it comes from.
    pub from: usize,
    /// Which of the targets of that block's end.
    pub index: usize,
}

/// The paths between the blocks of a program.
pub(crate) struct Flow {
    /// The forward edges into each block; jumps that start another packet or element are not among them.
    pub preds: Vec<SmallVec<[Edge; 2]>>,
    /// The blocks that go back to a loop header.
    pub back: Vec<Vec<usize>>,
    /// Whether runs start at the block, so that nothing is known there.
    pub root: Vec<bool>,
    parent: Vec<usize>,
    depth: Vec<u32>,
    /// An ancestor further up, for a search in logarithmic time (E. W. Myers, "An applicative random-access stack").
    jump: Vec<usize>,
    children: Vec<SmallVec<[usize; 2]>>,
    first: Vec<u32>,
    last: Vec<u32>,
}

/// A step of a walk over the dominator tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// The block; its dominators come before it, and so do all blocks with a forward edge into it.
    Enter(usize),
    /// The block and all that it dominates are done.
    Leave(usize),
}

const UNREACHED: usize = usize::MAX;

impl Flow {
    /// The paths of a checked program.
    pub fn of(p: &Program) -> Flow {
        let n = p.blocks.len();
        let mut f = Flow {
            preds: vec![SmallVec::new(); n],
            back: vec![Vec::new(); n],
            root: vec![false; n],
            parent: Vec::new(),
            depth: Vec::new(),
            jump: Vec::new(),
            children: Vec::new(),
            first: Vec::new(),
            last: Vec::new(),
        };
        for e in &p.entries {
            f.root[e.block.0 as usize] = true;
        }
        for (from, block) in p.blocks.iter().enumerate() {
            for op in &block.ops {
                if let Op::Fork { target, .. } | Op::Release { target, .. } = op {
                    f.root[target.block.0 as usize] = true;
                }
            }
            for (index, t) in block.end.targets().into_iter().enumerate() {
                if matches!(block.end, End::Again { .. }) && index == 0 {
                    f.back[t.block.0 as usize].push(from);
                } else {
                    f.preds[t.block.0 as usize].push(Edge { from, index });
                }
            }
            if let End::Enter { block, .. } = block.end {
                f.root[block.0 as usize] = true;
            }
        }
        loop {
            f.dominators();
            // A loop that can be entered beside its header: nothing is known at that header.
            let side: Vec<usize> = (0..n)
                .filter(|&h| !f.root[h] && f.back[h].iter().any(|&b| f.reached(b) && !f.dominates(h, b)))
                .collect();
            if side.is_empty() {
                return f;
            }
            side.into_iter().for_each(|h| f.root[h] = true);
        }
    }

    /// Dominators along forward paths; block number `n` is the place before all roots. Back edges change nothing as
    /// long as each leads to a dominator.
    fn dominators(&mut self) {
        let n = self.preds.len();
        self.parent = vec![UNREACHED; n + 1];
        self.depth = vec![0; n + 1];
        self.jump = vec![n; n + 1];
        self.parent[n] = n;
        self.children = vec![SmallVec::new(); n + 1];
        for i in 0..n {
            let mut common = self.root[i].then_some(n);
            for e in &self.preds[i] {
                if self.parent[e.from] != UNREACHED {
                    common = Some(common.map_or(e.from, |c| self.common_dominator(c, e.from)));
                }
            }
            let Some(parent) = common else { continue };
            self.parent[i] = parent;
            self.depth[i] = self.depth[parent] + 1;
            let (j, d) = (self.jump[parent], &self.depth);
            self.jump[i] = if d[parent] - d[j] == d[j] - d[self.jump[j]] { self.jump[j] } else { parent };
            self.children[parent].push(i);
        }
        self.first = vec![0; n];
        self.last = vec![0; n];
        for (time, step) in self.walk().into_iter().enumerate() {
            match step {
                Step::Enter(b) => self.first[b] = time as u32,
                Step::Leave(b) => self.last[b] = time as u32,
            }
        }
    }

    /// The last block that all paths to either block go through; the number of blocks if there is none.
    pub fn common_dominator(&self, mut a: usize, mut b: usize) -> usize {
        if self.depth[a] < self.depth[b] {
            (a, b) = (b, a);
        }
        while self.depth[a] > self.depth[b] {
            a = if self.depth[self.jump[a]] >= self.depth[b] { self.jump[a] } else { self.parent[a] };
        }
        while a != b {
            (a, b) = if self.jump[a] == self.jump[b] {
                (self.parent[a], self.parent[b])
            } else {
                (self.jump[a], self.jump[b])
            };
        }
        a
    }

    /// Whether anything leads to the block.
    pub fn reached(&self, b: usize) -> bool {
        self.parent[b] != UNREACHED
    }

    /// Whether each path to `b`, which is reached, goes through `a`.
    pub fn dominates(&self, a: usize, b: usize) -> bool {
        self.reached(a) && self.first[a] <= self.first[b] && self.last[b] <= self.last[a]
    }

    /// The reached blocks in the order of the dominator tree.
    pub fn walk(&self) -> Vec<Step> {
        let mut steps = Vec::with_capacity(2 * self.preds.len());
        let mut stack: Vec<Step> = Vec::new();
        let push = |stack: &mut Vec<Step>, b: usize| {
            stack.extend(self.children[b].iter().rev().map(|&c| Step::Enter(c)));
        };
        push(&mut stack, self.preds.len());
        while let Some(step) = stack.pop() {
            steps.push(step);
            if let Step::Enter(b) = step {
                stack.push(Step::Leave(b));
                push(&mut stack, b);
            }
        }
        steps
    }

    /// The one edge into a block, if there is only one.
    pub fn only_edge(&self, b: usize) -> Option<Edge> {
        match self.preds[b].as_slice() {
            [e] if !self.root[b] && self.back[b].is_empty() => Some(*e),
            _ => None,
        }
    }

    /// The one edge into a block that does not go back, if there is only one. What was decided on it about values made
    /// before holds in the block, and in all rounds if it is the header of a loop.
    pub fn only_edge_into(&self, b: usize) -> Option<Edge> {
        match self.preds[b].as_slice() {
            [e] if !self.root[b] => Some(*e),
            _ => None,
        }
    }

    /// The blocks of the loop with this header, which is no root; none if it is no header.
    pub fn body(&self, header: usize) -> Vec<usize> {
        let mut body = Vec::new();
        let mut work: Vec<usize> = self.back[header].iter().copied().filter(|&b| self.reached(b)).collect();
        if work.is_empty() {
            return body;
        }
        body.push(header);
        let mut seen = FxHashSet::from_iter([header]);
        while let Some(b) = work.pop() {
            if seen.insert(b) {
                body.push(b);
                work.extend(self.preds[b].iter().map(|e| e.from).filter(|&q| self.reached(q)));
                work.extend(self.back[b].iter().copied().filter(|&q| self.reached(q)));
            }
        }
        body
    }
}

/// Index of a block.
pub(crate) fn index(b: BlockId) -> usize {
    b.0 as usize
}
