//! Where runs start, and in which order blocks are translated.

use weir_ir::Reason;
use weir_ir::program::{BlockId, End, EntryKind, Op, Program};

use crate::analysis::lanes::Lanes;

/// The blocks where runs may start, and the loops that they count.
#[derive(Debug)]
pub(crate) struct Starts {
    /// For each block its number as a start, and whether it has a packet, if it is an entry.
    entries: Vec<Option<(u32, bool)>>,
    /// For each block its number as a start: entries and targets of forks and releases.
    pub numbers: Vec<Option<u32>>,
    /// For each start the number of the block's parameters.
    params: Vec<usize>,
    /// Number of loop headers.
    pub loops: usize,
}

impl Starts {
    pub fn of(program: &Program) -> Starts {
        let n = program.blocks.len();
        let mut s = Starts { entries: vec![None; n], numbers: vec![None; n], params: Vec::new(), loops: 0 };
        for e in &program.entries {
            let number = s.add(program, e.block);
            s.entries[e.block.0 as usize] = Some((number, matches!(e.kind, EntryKind::Packet { .. })));
        }
        for block in &program.blocks {
            s.loops += usize::from(block.loop_limit.is_some());
            for op in &block.ops {
                if let Op::Fork { target, .. } | Op::Release { target, .. } = op {
                    s.add(program, target.block);
                }
            }
        }
        s
    }

    fn add(&mut self, program: &Program, block: BlockId) -> u32 {
        *self.numbers[block.0 as usize].get_or_insert_with(|| {
            self.params.push(program.block(block).params.len());
            self.params.len() as u32 - 1
        })
    }

    /// Number of an entry and whether it starts with a packet.
    pub fn entry(&self, block: BlockId) -> Option<(u32, bool)> {
        self.entries.get(block.0 as usize).copied().flatten()
    }

    /// Number of starts.
    pub fn len(&self) -> usize {
        self.params.len()
    }

    /// How many arguments a start takes.
    pub fn params(&self, start: u32) -> usize {
        self.params[start as usize]
    }

    /// Number of a start.
    pub fn number(&self, block: BlockId) -> u32 {
        self.numbers[block.0 as usize].expect("targets of forks and releases are starts")
    }
}

/// Where the code of a block goes on to, packets that it starts included.
pub(crate) fn successors(p: &Program, lanes: &Lanes, id: BlockId) -> Vec<BlockId> {
    let mut to = Vec::new();
    for &id in lanes.group(id).map_or(&[id][..], |g| &g.blocks) {
        let block = p.block(id);
        to.extend(block.end.targets().into_iter().map(|t| lanes.code_of(t.block)));
        to.extend(block.ops.iter().filter_map(|op| match op {
            Op::Fork { target, .. } | Op::Release { target, .. } => Some(target.block),
            _ => None,
        }));
        if let End::Enter { block, .. } = block.end {
            to.push(block);
        }
    }
    to
}

/// For each block whether it is for exceptions: all paths from it end with a drop, or go back to an element that the packet
/// came by, as an error message that has to be routed.
pub(crate) fn exceptions(p: &Program) -> Vec<bool> {
    let mut usual = vec![false; p.blocks.len()];
    let mut changed = true;
    while changed {
        changed = false;
        // Most paths lead to later blocks.
        for (i, block) in p.blocks.iter().enumerate().rev() {
            let is_usual = match &block.end {
                End::Drop { reason } => *reason == Reason::DISCARDED,
                End::Enter { back: true, .. } => false,
                End::Enter { block, back: false } => usual[block.0 as usize],
                end => end.targets().is_empty() || end.targets().iter().any(|t| usual[t.block.0 as usize]),
            };
            changed |= is_usual != usual[i];
            usual[i] = is_usual;
        }
    }
    usual.iter().map(|usual| !usual).collect()
}

/// The blocks that runs reach, in reverse postorder: what defines a value comes before what uses it. Of each group of
/// lanes there is the first.
pub(crate) fn order(p: &Program, lanes: &Lanes) -> Vec<BlockId> {
    let next = |id| successors(p, lanes, id);
    let (mut seen, mut post) = (vec![false; p.blocks.len()], Vec::new());
    for e in p.entries.iter().rev() {
        let mut stack = Vec::new();
        if !std::mem::replace(&mut seen[e.block.0 as usize], true) {
            stack.push((e.block, next(e.block)));
        }
        while let Some((id, paths)) = stack.last_mut() {
            match paths.pop() {
                Some(n) if !seen[n.0 as usize] => {
                    seen[n.0 as usize] = true;
                    stack.push((n, next(n)));
                }
                Some(_) => {}
                None => {
                    post.push(*id);
                    stack.pop();
                }
            }
        }
    }
    post.reverse();
    post
}
