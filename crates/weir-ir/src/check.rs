//! The checker: what it accepts cannot read outside its packet, loses no packet, and ends.

mod types;

use std::fmt;

use crate::facts::{Facts, Known, facts, facts_by};
use crate::flow::Flow;
use crate::program::{Amount, Block, BlockId, End, EntryKind, Layer, Op, Program, Value};

/// A rule that a program breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckError {
    /// The block.
    pub block: BlockId,
    /// The operation in it; `None` for its end or the block itself.
    pub op: Option<usize>,
    /// What is wrong, and what would be right.
    pub what: String,
}

impl fmt::Display for CheckError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.op {
            Some(i) => write!(f, "b{}, operation {i}: {}", self.block.0, self.what),
            None => write!(f, "b{}: {}", self.block.0, self.what),
        }
    }
}

impl std::error::Error for CheckError {}

/// Checks a program: numbers and types, definition before use, forward jumps, linear packets, proved bounds.
pub fn check(program: &Program) -> Result<(), Vec<CheckError>> {
    known_if_checked(program).map(drop)
}

/// As [`check`]; gives what is known of the packet's bounds at each place of the program, as bounds are proved by it.
///
/// # Errors
/// As [`check`].
pub fn known_if_checked(program: &Program) -> Result<Known, Vec<CheckError>> {
    let mut c = Checker { p: program, errors: Vec::new(), block: BlockId(0), op: None };
    c.tables();
    if c.errors.is_empty() {
        c.references();
    }
    if c.errors.is_empty() {
        c.each_block(|c, block| c.order(c.block, block));
    }
    if !c.errors.is_empty() {
        return Err(c.errors);
    }
    let flow = Flow::of(program);
    c.definitions(&flow);
    c.packets();
    let known = facts_by(program, &flow);
    c.bounds(&known);
    if c.errors.is_empty() { Ok(known) } else { Err(c.errors) }
}

/// Whether all accesses of a program that is sound but for that are proved to be within the packet.
pub(crate) fn is_within_bounds(program: &Program) -> bool {
    let mut c = Checker { p: program, errors: Vec::new(), block: BlockId(0), op: None };
    c.bounds(&facts(program));
    c.errors.is_empty()
}

struct Checker<'a> {
    p: &'a Program,
    errors: Vec<CheckError>,
    block: BlockId,
    op: Option<usize>,
}

impl<'a> Checker<'a> {
    fn err(&mut self, what: impl Into<String>) {
        self.errors.push(CheckError { block: self.block, op: self.op, what: what.into() });
    }

    fn each_block(&mut self, mut f: impl FnMut(&mut Self, &'a Block)) {
        for (i, block) in self.p.blocks.iter().enumerate() {
            (self.block, self.op) = (BlockId(i as u32), None);
            f(self, block);
        }
    }

    fn tables(&mut self) {
        for t in &self.p.tables {
            if let Err(e) = t.decl.check() {
                self.err(e.to_string());
            }
        }
    }

    // --- definition before use, and the order of blocks -------------------------------------------------------

    fn definitions(&mut self, flow: &Flow) {
        let mut defined_in: Vec<Option<u32>> = vec![None; self.p.types.len()];
        self.each_block(|c, block| {
            let here = c.block.0;
            let mut define = |c: &mut Checker, v: Value| {
                if defined_in[v.0 as usize].replace(here).is_some() {
                    c.err(format!("v{} is defined twice", v.0));
                }
            };
            block.params.iter().for_each(|&v| define(c, v));
            block.ops.iter().filter_map(Op::dst).for_each(|v| define(c, v));
        });
        // Whether a value's definition was met on the path through its block.
        let mut met = vec![false; self.p.types.len()];
        self.each_block(|c, block| {
            let here = c.block;
            if !flow.reached(here.0 as usize) {
                return;
            }
            block.params.iter().for_each(|v| met[v.0 as usize] = true);
            let use_value = |c: &mut Checker, met: &[bool], v: Value| {
                let ok = match defined_in[v.0 as usize] {
                    Some(b) if b == here.0 => met[v.0 as usize],
                    Some(b) => flow.dominates(b as usize, here.0 as usize),
                    None => false,
                };
                if !ok {
                    c.err(format!("v{} is used where it is not defined on every path", v.0));
                }
            };
            for (i, op) in block.ops.iter().enumerate() {
                c.op = Some(i);
                op.visit_values(|v, def| {
                    if def {
                        met[v.0 as usize] = true;
                    } else {
                        use_value(c, &met, *v);
                    }
                });
            }
            c.op = None;
            block.end.visit_values(|v| use_value(c, &met, *v));
        });
    }

    fn order(&mut self, here: BlockId, block: &'a Block) {
        for (i, op) in block.ops.iter().enumerate() {
            if let Op::Fork { target, .. } | Op::Release { target, .. } = op
                && target.block <= here
            {
                self.op = Some(i);
                self.err("another packet starts at a later block");
            }
        }
        self.op = None;
        let end = &block.end;
        for (i, t) in end.targets().into_iter().enumerate() {
            let back = matches!(end, End::Again { .. }) && i == 0;
            if back {
                if t.block > here || self.p.block(t.block).loop_limit.is_none() {
                    self.err(format!("b{} is not the header of a loop that this block is in", t.block.0));
                }
            } else if t.block <= here {
                self.err(format!("the jump to b{} does not go forward", t.block.0));
            }
        }
        if let End::Enter { block, back: false } = end
            && *block <= here
        {
            self.err(format!("entering b{} goes back, and is not marked so", block.0));
        }
    }

    // --- linear packets ---------------------------------------------------------------------------------------

    fn packets(&mut self) {
        // Whether a block has a current packet; it must be the same on every path.
        let mut has: Vec<Option<bool>> = vec![None; self.p.blocks.len()];
        let mut work: Vec<(BlockId, bool)> =
            self.p.entries.iter().map(|e| (e.block, matches!(e.kind, EntryKind::Packet { .. }))).collect();
        while let Some((id, with)) = work.pop() {
            (self.block, self.op) = (id, None);
            match has[id.0 as usize].replace(with) {
                Some(w) if w != with => return self.err("the block is reached with a packet and without"),
                Some(_) => continue,
                None => {}
            }
            let block = self.p.block(id);
            for (i, op) in block.ops.iter().enumerate() {
                self.op = Some(i);
                if !with && needs_packet(op) {
                    self.err("there is no packet here");
                }
                if let Op::Fork { target, .. } | Op::Release { target, .. } = op {
                    work.push((target.block, true));
                }
            }
            self.op = None;
            match block.end {
                End::Require { .. }
                | End::Push { .. }
                | End::Unpull { .. }
                | End::Put { .. }
                | End::Emit { .. }
                | End::Drop { .. }
                | End::Hold { .. }
                | End::Enter { .. }
                | End::Exit { .. }
                    if !with =>
                {
                    self.err("there is no packet here");
                }
                End::Finish if with => self.err("the packet is lost here: emit, drop or hold it"),
                End::Enter { block, .. } => work.push((block, with)),
                _ => {}
            }
            work.extend(block.end.targets().into_iter().map(|t| (t.block, with)));
        }
    }

    // --- bounds -----------------------------------------------------------------------------------------------

    fn bounds(&mut self, known: &Known) {
        self.each_block(|c, block| {
            let Some(mut here) = known.at(c.block).cloned() else { return };
            for (i, op) in block.ops.iter().enumerate() {
                c.op = Some(i);
                c.covered(known, &here, op);
                known.step(&mut here, c.block, op);
            }
        });
    }

    fn covered(&mut self, known: &Known, here: &Facts, op: &Op) {
        let (p, block) = (self.p, self.block);
        let mut need = |layer: Layer, off: u32, len: u32| {
            if off.checked_add(len).is_none_or(|end| !known.covered(here, block, layer, Amount::Const(end))) {
                let known = here.bytes(layer).map_or("nothing is".to_owned(), |n| format!("{n} bytes are"));
                self.err(format!(
                    "bytes {off} to {} of {} are not proved to be there ({known} known): require them first",
                    off.saturating_add(len),
                    layer.name()
                ));
            }
        };
        match *op {
            Op::Load { dst: v, layer, off } | Op::Store { layer, off, src: v } => {
                need(layer, off, p.width(v).bytes());
            }
            Op::CopyBytes { to: a, from: b, len } | Op::CompareBytes { a, b, len, .. } => {
                need(a.0, a.1, len);
                need(b.0, b.1, len);
            }
            Op::SetMark { base: layer, off: end, .. }
            | Op::Checksum { layer, end, .. }
            | Op::FindByte { layer, end, .. }
                if !known.covered(here, block, layer, end) =>
            {
                self.err(format!(
                    "the range of {} is not proved to be there: require it first",
                    layer.name()
                ));
            }
            Op::Pull { n } if !known.covered(here, block, Layer::Data, n) => {
                self.err("more is pulled than is proved to be there: require it first");
            }
            _ => {}
        }
    }
}

fn needs_packet(op: &Op) -> bool {
    matches!(
        op,
        Op::Load { .. }
            | Op::Store { .. }
            | Op::Rest { .. }
            | Op::Distance { .. }
            | Op::SetMark { .. }
            | Op::ClearMark { .. }
            | Op::LoadAnno { .. }
            | Op::StoreAnno { .. }
            | Op::LoadMeta { .. }
            | Op::StoreMeta { .. }
            | Op::Checksum { .. }
            | Op::CopyBytes { .. }
            | Op::CompareBytes { .. }
            | Op::FindByte { .. }
            | Op::Pull { .. }
            | Op::Trim { .. }
            | Op::Fork { copy: true, .. }
            | Op::Notify { packet: true, .. }
    )
}
