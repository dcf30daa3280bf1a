//! Which operation of the program each instruction comes from.

use cranelift_codegen::ir::SourceLoc;
use weir_ir::program::{BlockId, Program};

use crate::translate::Notes;
use crate::translate::emit::Emitter;

/// A place in a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Origin {
    /// The block.
    pub block: BlockId,
    /// Which of its operations; their number stands for the end of the block.
    pub op: usize,
}

/// Numbers of a program's operations and ends, in the order of its text.
#[derive(Debug, Clone)]
pub(crate) struct Numbers {
    /// Of the first operation of each block.
    first: Vec<u32>,
}

impl Numbers {
    pub fn of(p: &Program) -> Numbers {
        let mut next = 0;
        let first = p.blocks.iter().map(|b| {
            let first = next;
            next += b.ops.len() as u32 + 1;
            first
        });
        Numbers { first: first.collect() }
    }

    pub fn origin(&self, loc: SourceLoc) -> Option<Origin> {
        if loc.is_default() {
            return None;
        }
        let block = self.first.partition_point(|&f| f <= loc.bits()).checked_sub(1)?;
        Some(Origin { block: BlockId(block as u32), op: (loc.bits() - self.first[block]) as usize })
    }
}

impl Notes {
    /// What is made next comes from an operation of a block, or its end.
    pub fn note(&self, code: &mut Emitter<'_, '_>, id: BlockId, op: usize) {
        if let Some(numbers) = &self.numbers {
            code.b.set_srcloc(SourceLoc::new(numbers.first[id.0 as usize] + op as u32));
        }
    }
}

impl Emitter<'_, '_> {
    /// What is made next comes from nothing in the program.
    pub fn note_nothing(&mut self) {
        self.b.set_srcloc(SourceLoc::default());
    }
}
