//! Positions of layers that are in registers already, from block to block.
//!
//! The compiler looks for what is in memory too, but forgets it wherever ways meet.

use cranelift_codegen::ir;
use weir_ir::program::{BlockId, End, Program};

use crate::compile::POSITIONS;
use crate::starts::Starts;

/// Positions that are known, with 64 bits, by their offset in the metadata.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Known([Option<ir::Value>; POSITIONS]);

impl Known {
    pub fn get(&self, off: usize) -> Option<ir::Value> {
        self.0[off / 4]
    }

    pub fn set(&mut self, off: usize, position: ir::Value) {
        self.0[off / 4] = Some(position);
    }

    /// What is the same in both.
    fn and(self, other: Known) -> Known {
        Known(std::array::from_fn(|i| self.0[i].filter(|_| self.0[i] == other.0[i])))
    }
}

/// What is known where blocks end.
pub(crate) struct Ways {
    /// For each block those that go to it.
    from: Vec<Vec<BlockId>>,
    /// Blocks where runs start.
    starts: Vec<bool>,
    known: Vec<Option<Known>>,
}

impl Ways {
    /// The ways between blocks.
    pub fn of(p: &Program, starts: &Starts, blocks: &[BlockId]) -> Ways {
        let mut from = vec![Vec::new(); p.blocks.len()];
        for &id in blocks {
            let end = &p.block(id).end;
            let mut to: Vec<BlockId> = end.targets().into_iter().map(|t| t.block).collect();
            if let End::Enter { block, .. } = end {
                to.push(*block);
            }
            for block in to {
                from[block.0 as usize].push(id);
            }
        }
        let starts = starts.numbers.iter().map(Option::is_some).collect();
        Ways { from, starts, known: vec![None; p.blocks.len()] }
    }

    /// What is known at the start of a block: what all that lead there know. Where a loop may come back, nothing is.
    pub fn enter(&self, id: BlockId) -> Known {
        if self.starts[id.0 as usize] {
            return Known::default();
        }
        let known = self.from[id.0 as usize].iter().map(|b| self.known[b.0 as usize].unwrap_or_default());
        known.reduce(Known::and).unwrap_or_default()
    }

    /// Notes what is known at the end of a block.
    pub fn leave(&mut self, id: BlockId, end: &End, known: Known) {
        let moves = matches!(
            end,
            End::Push { .. } | End::Unpull { .. } | End::Put { .. } | End::Hold { .. } | End::Again { .. }
        );
        self.known[id.0 as usize] = Some(if moves { Known::default() } else { known });
    }
}
