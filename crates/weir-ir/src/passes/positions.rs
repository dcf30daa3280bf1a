//! Where layers stand to each other: which marks have a distance that is the same on every path.
//!
//! A position is a base and an offset. A base is some place in the packet that does not move; two layers with the
//! same base are both set, and their distance is known. Nothing is known about the distance of two bases.

use crate::program::{Amount, End, Layer, Op, Program};

use crate::flow::Flow;

/// A place in the packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Position {
    /// Where the base came from: block, operation in it, layer.
    pub base: u64,
    /// Bytes from the base.
    pub off: i64,
}

/// The position of each layer, in the order of [`Layer::ALL`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Positions([Position; 5]);

/// A base that nothing else has: of the `step`th place in a block (0: its start, then its operations, then its paths
/// out) for a layer.
fn fresh(block: usize, step: usize, layer: usize) -> Position {
    Position { base: (block as u64) << 32 | (step as u64) << 3 | layer as u64, off: 0 }
}

impl Positions {
    fn unknown(block: usize) -> Positions {
        Positions(std::array::from_fn(|layer| fresh(block, 0, layer)))
    }

    /// Position of `layer + off`.
    pub fn at(&self, layer: Layer, off: u32) -> Position {
        let Position { base, off: start } = self.0[layer as usize];
        Position { base, off: start + i64::from(off) }
    }

    /// After the `i`th operation of a block.
    pub fn after(&mut self, op: &Op, block: usize, i: usize) {
        let new = |layer: Layer| fresh(block, i + 1, layer as usize);
        match *op {
            Op::SetMark { layer, base, off } => {
                self.0[layer as usize] = match off {
                    Amount::Const(off) => self.at(base, off),
                    Amount::Value(_) => new(layer),
                };
            }
            Op::ClearMark { layer } => self.0[layer as usize] = new(layer),
            Op::Pull { n } => {
                self.0[0] = match n {
                    Amount::Const(n) => self.at(Layer::Data, n),
                    Amount::Value(_) => new(Layer::Data),
                };
            }
            _ => {}
        }
    }

    /// On the `i`th edge out of a block.
    pub fn on_edge(mut self, end: &End, i: usize, block: usize, ops: usize) -> Positions {
        if let (End::Push { n, .. } | End::Unpull { n, .. }, 0) = (end, i) {
            match n {
                Amount::Const(n) => self.0[0].off -= i64::from(*n),
                Amount::Value(_) => self.0[0] = fresh(block, ops + 1, 0),
            }
        }
        self
    }

    /// What is known where several paths meet: what all agree about stays; other layers get new bases, a common one
    /// if their distance is the same on all paths.
    fn meet(paths: &[Positions], block: usize) -> Positions {
        let mut out = Positions::unknown(block);
        let mut moved: Vec<usize> = Vec::new();
        for layer in 0..5 {
            let first = paths[0].0[layer];
            if paths.iter().all(|w| w.0[layer] == first) {
                out.0[layer] = first;
                continue;
            }
            let apart = paths[0].0[layer].off;
            let with = moved.iter().copied().find(|&m| {
                paths.iter().all(|w| {
                    w.0[layer].base == w.0[m].base && w.0[layer].off - w.0[m].off == apart - paths[0].0[m].off
                })
            });
            if let Some(m) = with {
                let Position { base, off } = out.0[m];
                out.0[layer] = Position { base, off: off + apart - paths[0].0[m].off };
            }
            moved.push(layer);
        }
        out
    }
}

/// Layers that an operation moves, as a set of bits.
fn moves(op: &Op) -> u8 {
    match op {
        Op::SetMark { layer, .. } | Op::ClearMark { layer } => 1 << *layer as u8,
        Op::Pull { .. } => 1,
        _ => 0,
    }
}

/// The places at the start of each block.
pub(super) fn places(p: &Program, flow: &Flow) -> Vec<Positions> {
    let n = p.blocks.len();
    let mut at: Vec<Positions> = (0..n).map(Positions::unknown).collect();
    let mut out = at.clone();
    for b in 0..n {
        if !flow.root[b] {
            let paths: Vec<Positions> = flow.preds[b]
                .iter()
                .filter(|e| flow.reached(e.from))
                .map(|e| {
                    out[e.from].on_edge(&p.blocks[e.from].end, e.index, e.from, p.blocks[e.from].ops.len())
                })
                .collect();
            if !paths.is_empty() {
                at[b] = Positions::meet(&paths, b);
            }
            let mut moved = 0;
            for inner in flow.body(b) {
                let block = &p.blocks[inner];
                moved |= block.ops.iter().map(moves).fold(0, |a, m| a | m);
                moved |= u8::from(matches!(block.end, End::Push { .. } | End::Unpull { .. }));
            }
            for layer in (0..5).filter(|l| moved & 1 << l != 0) {
                // The step of the start is taken by the bases of meeting paths; loops have one of their own.
                at[b].0[layer] = fresh(b, 0x1000_0000, layer);
            }
        }
        let mut here = at[b];
        for (i, op) in p.blocks[b].ops.iter().enumerate() {
            here.after(op, b, i);
        }
        out[b] = here;
    }
    at
}
