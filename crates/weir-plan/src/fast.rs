//! The program that runs at speed.

use weir_ir::Program;
use weir_ir::program::BlockId;

/// The linked program of a graph after all passes. Making it takes longer than a graph that starts should wait.
#[derive(Debug)]
pub struct Fast {
    /// The program.
    pub program: Program,
    /// For each block of the linked program that is an entry: the one of this program.
    starts: Vec<Option<BlockId>>,
}

impl Fast {
    /// Optimises a linked program. Only the entries in `used` remain.
    pub fn of(linked: &Program, used: &[bool]) -> Fast {
        let mut program = linked.clone();
        let mut i = 0;
        weir_ir::retain_entries(&mut program, |_| {
            i += 1;
            used[i - 1]
        });
        let program = weir_ir::optimize(program);
        let mut starts = vec![None; linked.blocks.len()];
        let left = linked.entries.iter().zip(used).filter(|(_, used)| **used).map(|(e, _)| e);
        // The passes keep the entries and their order.
        for (of, here) in left.zip(&program.entries) {
            if (of.owner, &of.kind) == (here.owner, &here.kind) {
                starts[of.block.0 as usize] = Some(here.block);
            }
        }
        Fast { program, starts }
    }

    /// Where an entry of the linked program is; `None` if it is not used.
    pub fn start(&self, linked: BlockId) -> Option<BlockId> {
        self.starts.get(linked.0 as usize).copied().flatten()
    }
}
