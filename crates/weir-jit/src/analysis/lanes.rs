//! Paths that do the same with other constants: those behind the outputs of a switch, as of a router whose outputs all
//! count the time to live down and write an Ethernet header. In machine code they become one path, on which the number
//! of the output (the *lane*) chooses the constants. Nothing has to be guessed then: which output a packet takes
//! cannot be predicted, and a wrong guess costs more than all that follows.
//!
//! Only machine code has lanes; the program stays as it is. Blocks of different lanes that do the same form a
//! [`Group`]. Where the lanes part, the lane's number chooses the path. A block that is reached from elsewhere too, as
//! what follows an element that makes packets, is in a group only if no value from before is used there.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rustc_hash::{FxHashMap, FxHashSet};
use weir_ir::program::{Block, BlockId, End, Op, Program, Target, Type, Value, Width};
use weir_table::{Kind, Layout};

/// Most cases of a switch that differ from lane to lane: they are compared one by one.
const MOST_CASES: usize = 4;

/// Blocks that do the same, one for each lane. The code is that of the first.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    /// Number of the fork.
    pub fork: usize,
    pub blocks: Vec<BlockId>,
}

/// A switch whose paths are lanes.
#[derive(Debug, Clone)]
pub(crate) struct Fork {
    /// The block that ends with the switch.
    pub from: BlockId,
    /// The case of the first lane; those of the others follow one by one.
    pub first: u128,
    /// The first block of each lane.
    pub paths: Vec<BlockId>,
}

/// All lanes of a program.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    pub forks: Vec<Fork>,
    pub groups: Vec<Group>,
    /// The group of each block that is in one.
    group: FxHashMap<BlockId, usize>,
}

/// Counts of the edges into each block.
struct Arrivals {
    forward: Vec<u32>,
    back: Vec<u32>,
    /// Runs start here, or come from another element.
    root: Vec<bool>,
    /// The last block that all paths from roots lead through; the number of blocks if there is none.
    parent: Vec<usize>,
}

impl Lanes {
    /// Finds the lanes of a checked program.
    pub fn of(p: &Program) -> Lanes {
        let mut lanes = Lanes::default();
        let is_switch = |b: &Block| matches!(b.end, End::Switch { .. });
        if !p.blocks.iter().any(is_switch) {
            return lanes;
        }
        let paths = Arrivals::of(p);
        for (b, block) in p.blocks.iter().enumerate().filter(|(_, b)| is_switch(b)) {
            let from = BlockId(b as u32);
            if lanes.group.contains_key(&from) {
                continue;
            }
            let Some((first, starts)) = candidates(p, &paths, &block.end) else { continue };
            if let Some(groups) = Growth::new(p, &paths, starts.len()).grow(&starts, &lanes) {
                let fork = lanes.forks.len();
                for blocks in groups {
                    lanes.group.extend(blocks.iter().map(|&b| (b, lanes.groups.len())));
                    lanes.groups.push(Group { fork, blocks });
                }
                lanes.forks.push(Fork { from, first, paths: starts });
            }
        }
        lanes
    }

    /// The group that a block is in.
    pub fn group(&self, b: BlockId) -> Option<&Group> {
        Some(&self.groups[*self.group.get(&b)?])
    }

    /// The block whose code is this one's.
    pub fn code_of(&self, b: BlockId) -> BlockId {
        self.group(b).map_or(b, |g| g.blocks[0])
    }

    /// The fork and the lane that a block is in.
    pub fn place(&self, b: BlockId) -> Option<(usize, usize)> {
        let group = self.group(b)?;
        Some((group.fork, group.blocks.iter().position(|&other| other == b)?))
    }

    /// The number of the fork that a block ends with.
    pub fn fork_at(&self, b: BlockId) -> Option<usize> {
        self.forks.iter().position(|f| f.from == b)
    }
}

impl Arrivals {
    fn of(p: &Program) -> Arrivals {
        let n = p.blocks.len();
        let (forward, back, root) = (vec![0; n], vec![0; n], vec![false; n]);
        let mut w = Arrivals { forward, back, root, parent: vec![n; n] };
        p.entries.iter().for_each(|e| w.root[e.block.0 as usize] = true);
        for block in &p.blocks {
            for op in &block.ops {
                if let Op::Fork { target, .. } | Op::Release { target, .. } = op {
                    w.root[target.block.0 as usize] = true;
                }
            }
            for (i, t) in block.end.targets().into_iter().enumerate() {
                let back = matches!(block.end, End::Again { .. }) && i == 0;
                let count = if back { &mut w.back } else { &mut w.forward };
                count[t.block.0 as usize] += 1;
            }
            if let End::Enter { block, .. } = block.end {
                w.root[block.0 as usize] = true;
            }
        }
        w.dominators(p);
        w
    }

    /// From the first block to the last: forward paths lead to later ones.
    fn dominators(&mut self, p: &Program) {
        let n = p.blocks.len();
        let mut depth = vec![0_u32; n + 1];
        let mut seen: Vec<bool> = self.root.clone();
        for (from, block) in p.blocks.iter().enumerate() {
            if !seen[from] {
                continue;
            }
            depth[from] = depth[self.parent[from]] + 1;
            for (i, t) in block.end.targets().into_iter().enumerate() {
                let to = t.block.0 as usize;
                if matches!(block.end, End::Again { .. }) && i == 0 || self.root[to] {
                    continue;
                }
                let (mut a, mut b) = (from, if seen[to] { self.parent[to] } else { from });
                while a != b {
                    if depth[a] >= depth[b] {
                        a = self.parent[a];
                    } else {
                        b = self.parent[b];
                    }
                }
                (seen[to], self.parent[to]) = (true, a);
            }
        }
    }
}

/// The longest run of cases that follow one another and whose blocks look alike: the first case, and the blocks.
fn candidates(p: &Program, paths: &Arrivals, end: &End) -> Option<(u128, Vec<BlockId>)> {
    let End::Switch { value, cases, .. } = end else { return None };
    if p.width(*value) == Width::W128 {
        return None;
    }
    let mut sorted: Vec<&(u128, Target)> = cases.iter().collect();
    // The first of equal cases counts.
    sorted.sort_by_key(|(case, _)| *case);
    sorted.dedup_by_key(|(case, _)| *case);
    let alone = |t: &Target| {
        let b = t.block.0 as usize;
        paths.forward[b] == 1 && !paths.root[b] && p.blocks[b].loop_limit.is_none() && t.args.is_empty()
    };
    let (mut best, mut run): (Vec<BlockId>, Vec<BlockId>) = Default::default();
    let (mut first, mut next) = (0, 0);
    for &&(case, ref t) in sorted.iter().filter(|(_, t)| alone(t)) {
        let alike = |&a: &BlockId| Growth::new(p, paths, 2).is_alike(&[a, t.block]);
        if case != next || !run.first().is_some_and(alike) {
            run.clear();
        }
        run.push(t.block);
        next = case + 1;
        if run.len() > best.len() {
            best.clone_from(&run);
            first = next - run.len() as u128;
        }
    }
    (best.len() > 1).then_some((first, best))
}

/// Blocks that may be a group.
struct Candidate {
    blocks: Vec<BlockId>,
    /// Paths from groups.
    paths: u32,
    /// The first of them is gone to with others too.
    mixed: bool,
}

/// Finds the groups behind a switch.
struct Growth<'a> {
    p: &'a Program,
    paths: &'a Arrivals,
    /// For each lane, which value of the first lane is meant by one of its own.
    same: Vec<FxHashMap<Value, Value>>,
    candidates: FxHashMap<BlockId, Candidate>,
    /// Candidates in the order of the first lane's blocks: what defines a value comes first.
    queue: BinaryHeap<Reverse<BlockId>>,
    groups: Vec<Vec<BlockId>>,
    group: FxHashMap<BlockId, (usize, usize)>,
    /// Paths back to the headers of loops.
    back: FxHashMap<BlockId, u32>,
}

impl<'a> Growth<'a> {
    fn new(p: &'a Program, paths: &'a Arrivals, lanes: usize) -> Growth<'a> {
        Growth {
            p,
            paths,
            same: vec![FxHashMap::default(); lanes],
            candidates: FxHashMap::default(),
            queue: BinaryHeap::new(),
            groups: Vec::new(),
            group: FxHashMap::default(),
            back: FxHashMap::default(),
        }
    }

    /// The groups, if the lanes come to an end together.
    fn grow(mut self, starts: &[BlockId], known: &Lanes) -> Option<Vec<Vec<BlockId>>> {
        self.go_to(starts.to_vec());
        let mut together = false;
        while let Some(Reverse(first)) = self.queue.pop() {
            let Some(c) = self.candidates.remove(&first) else { continue };
            let free = |b: &BlockId| !self.paths.root[b.0 as usize] && known.group(*b).is_none();
            let only_here = |b: &BlockId| self.paths.forward[b.0 as usize] == c.paths;
            let anew = |b: &BlockId| self.paths.parent[b.0 as usize] == self.paths.parent.len();
            let reached = c.blocks.iter().all(only_here) || self.are_apart(&c) && c.blocks.iter().all(anew);
            if c.mixed || !reached || !c.blocks.iter().all(free) || !self.is_alike(&c.blocks) {
                continue;
            }
            let number = self.groups.len();
            self.group.extend(c.blocks.iter().enumerate().map(|(lane, &b)| (b, (number, lane))));
            self.groups.push(c.blocks.clone());
            let ends: Vec<&End> = c.blocks.iter().map(|&b| &self.p.block(b).end).collect();
            together |= matches!(ends[0], End::Exit { .. } | End::Emit { .. } | End::Enter { .. });
            for i in 0..ends[0].targets().len() {
                let to: Vec<BlockId> = ends.iter().map(|e| e.targets()[i].block).collect();
                if matches!(ends[0], End::Again { .. }) && i == 0 {
                    let lanes = to.iter().enumerate();
                    let header = self.group.get(&to[0])?.0;
                    if !lanes.into_iter().all(|(lane, b)| self.group.get(b) == Some(&(header, lane))) {
                        return None;
                    }
                    to.into_iter().for_each(|b| *self.back.entry(b).or_default() += 1);
                } else if to.iter().all(|&b| b == to[0]) {
                    together = true;
                } else {
                    self.go_to(to);
                }
            }
        }
        // A loop belongs to the lanes as a whole.
        let rounds = |b: &BlockId| self.back.get(b).copied().unwrap_or(0) == self.paths.back[b.0 as usize];
        (together && self.group.keys().all(rounds)).then_some(self.groups)
    }

    /// Whether no two lanes have a block in common, and none is in a group.
    fn are_apart(&self, c: &Candidate) -> bool {
        let blocks: FxHashSet<&BlockId> = c.blocks.iter().collect();
        blocks.len() == c.blocks.len() && !c.blocks.iter().any(|b| self.group.contains_key(b))
    }

    /// A path from a group to these blocks.
    fn go_to(&mut self, blocks: Vec<BlockId>) {
        let first = blocks[0];
        match self.candidates.get_mut(&first) {
            Some(c) if c.blocks == blocks => c.paths += 1,
            Some(c) => c.mixed = true,
            None => {
                self.candidates.insert(first, Candidate { blocks, paths: 1, mixed: false });
                self.queue.push(Reverse(first));
            }
        }
    }

    /// Whether blocks do the same but for constants, for cells that they use, and for where they lead.
    fn is_alike(&mut self, blocks: &[BlockId]) -> bool {
        let p = self.p;
        let first = p.block(blocks[0]);
        let mut like = |(lane, &b): (usize, &BlockId)| {
            let block = p.block(b);
            first.params.len() == block.params.len()
                && first.ops.len() == block.ops.len()
                && first.loop_limit == block.loop_limit
                && first.params.iter().zip(&block.params).all(|(a, b)| self.is_param(lane, *a, *b))
                && first.ops.iter().zip(&block.ops).all(|(a, b)| self.is_op(lane, a, b))
                && self.is_end(lane, &first.end, &block.end)
        };
        blocks.iter().enumerate().skip(1).all(&mut like)
    }

    fn is_param(&mut self, lane: usize, a: Value, b: Value) -> bool {
        self.same[lane].insert(b, a);
        self.p.ty(a) == self.p.ty(b)
    }

    fn rename(&self, lane: usize, v: &mut Value) {
        *v = self.same[lane].get(v).copied().unwrap_or(*v);
    }

    fn is_op(&mut self, lane: usize, a: &Op, b: &Op) -> bool {
        if std::mem::discriminant(a) != std::mem::discriminant(b) {
            return false;
        }
        if let (Some(x), Some(y)) = (a.dst(), b.dst()) {
            let (x_type, y_type) = (self.p.ty(x), self.p.ty(y));
            let cells = matches!(a, Op::Index { .. }) && self.are_cells(x_type, y_type);
            if x_type != y_type && !cells {
                return false;
            }
            self.same[lane].insert(y, x);
        }
        let mut b = b.clone();
        b.visit_values_mut(|v, _| self.rename(lane, v));
        match (a, &mut b) {
            (Op::Const { value, .. }, Op::Const { value: other, .. }) => *other = *value,
            (Op::Index { table, index, .. }, Op::Index { table: t, index: i, .. }) => {
                (*t, *i) = (*table, *index);
            }
            (Op::Fork { target, .. }, Op::Fork { target: t, .. })
            | (Op::Release { target, .. }, Op::Release { target: t, .. }) => t.block = target.block,
            (Op::Notify { event, .. }, Op::Notify { event: e, .. }) => *e = *event,
            _ => {}
        }
        *a == b
    }

    /// Whether these are entries of different tables that have the same rows, found by their number.
    fn are_cells(&self, a: Type, b: Type) -> bool {
        let (Type::Entry(a), Type::Entry(b)) = (a, b) else { return false };
        let [x, y] = [a, b].map(|t| &self.p.tables[t.0 as usize].decl);
        let plain = [x, y].iter().all(|d| d.kind == Kind::Array && d.group.is_none());
        plain && Layout::of(x) == Layout::of(y)
    }

    fn is_end(&self, lane: usize, a: &End, b: &End) -> bool {
        let (from, mut b) = (a.targets(), b.clone());
        b.visit_values_mut(|v| self.rename(lane, v));
        let to = b.targets_mut();
        if from.len() != to.len() {
            return false;
        }
        to.into_iter().zip(from).for_each(|(b, a)| b.block = a.block);
        match (a, &mut b) {
            (End::Exit { exit }, End::Exit { exit: e }) => *e = *exit,
            (End::Emit { port }, End::Emit { port: p }) => *p = *port,
            (End::Drop { reason }, End::Drop { reason: r }) => r.clone_from(reason),
            (End::Switch { cases, .. }, End::Switch { cases: c, .. }) if cases.len() <= MOST_CASES => {
                c.iter_mut().zip(cases).for_each(|(c, (case, _))| c.0 = *case);
            }
            _ => {}
        }
        *a == b
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A switch on a byte; `path` gives a block for each of three cases: after it comes `b5`.
    fn lanes(path: impl Fn(usize) -> &'static str) -> Lanes {
        let blocks: String = (0..3).map(|i| format!("b{}:\n {}\n", i + 2, path(i))).collect();
        let text = format!(
            "element x\nports 1 -> 3\nentry packet 0 -> b0\nb0:\n require data 4 ok b1 fail b6\n\
             b1:\n v0:8 = load data+0\n switch v0 {{ 7: b2, 8: b3, 9: b4, else: b5 }}\n{blocks}b5:\n exit 2\nb6:\n drop Truncated\n"
        );
        let p = weir_ir::parse(&text).unwrap();
        weir_ir::check(&p).unwrap();
        Lanes::of(&p)
    }

    #[test]
    fn what_differs_in_constants_is_one() {
        let l = lanes(|i| {
            ["v1:8 = 4\n store data+1, v1\n exit 0", "v2:8 = 5\n store data+1, v2\n exit 1", "drop Full"][i]
        });
        assert_eq!((l.forks[0].first, &l.forks[0].paths[..]), (7, &[BlockId(2), BlockId(3)][..]));
        assert_eq!(l.code_of(BlockId(3)), BlockId(2));
        assert_eq!((l.place(BlockId(3)), l.place(BlockId(4))), (Some((0, 1)), None));
        let l = lanes(|_| "jump b5");
        assert_eq!(l.groups.len(), 1, "what all lead to is no lane's");
    }

    #[test]
    fn what_does_something_else_is_not() {
        let ops = [
            "v1:8 = load data+1\n store data+2, v1\n exit 0",
            "v2:8 = load data+2\n store data+2, v2\n exit 1",
            "exit 2",
        ];
        assert!(lanes(|i| ops[i]).forks.is_empty());
    }
}
