//! Where jumps go.

use cranelift_codegen::ir::{self, BlockArg, InstBuilder};
use weir_ir::program::{BlockId, Target};

use crate::compile::Translator;

/// An edge that does something on the way.
pub(crate) struct Edge {
    from: ir::Block,
    to: BlockId,
    args: Vec<BlockArg>,
    /// The fork and the lane that it leads into.
    lane: Option<(usize, usize)>,
}

impl Translator<'_, '_> {
    /// Counts a loop from its first round again.
    pub fn enter_from_outside(&mut self, block: BlockId) {
        if let Some((at, off)) = self.counter(block) {
            let one = self.imm32(1);
            self.b.ins().store(self.regions.rounds, one, at, off);
        }
    }

    /// Where the counter of a loop header is.
    pub fn counter(&mut self, header: BlockId) -> Option<(ir::Value, i32)> {
        let n = self.loops[header.0 as usize]?;
        let at = self.fixed(std::mem::offset_of!(crate::helpers::Ctx<'_>, rounds));
        Some((at, 4 * n as i32))
    }

    /// Where a jump to a target goes, and with what.
    pub fn edge(&mut self, target: &Target, supplied: &[ir::Value]) -> (ir::Block, Vec<BlockArg>) {
        let args = self.edge_args(target, supplied);
        let lane = self.lane_from_outside(target.block);
        self.reach(target.block);
        if self.loops[target.block.0 as usize].is_none() && lane.is_none() {
            return (self.blocks[target.block.0 as usize], args);
        }
        let from = self.b.create_block();
        self.edges.push(Edge { from, to: target.block, args, lane });
        (from, Vec::new())
    }

    /// As [`edge`](Translator::edge), for another round of a loop.
    pub fn back_edge(&mut self, target: &Target) -> (ir::Block, Vec<BlockArg>) {
        self.reach(target.block);
        (self.blocks[target.block.0 as usize], self.edge_args(target, &[]))
    }

    /// A block of its own that goes to a target.
    pub fn way(&mut self, target: &Target, supplied: &[ir::Value]) -> ir::Block {
        let args = self.edge_args(target, supplied);
        let lane = self.lane_from_outside(target.block);
        self.reach(target.block);
        if args.is_empty() && self.loops[target.block.0 as usize].is_none() && lane.is_none() {
            return self.blocks[target.block.0 as usize];
        }
        let from = self.b.create_block();
        self.edges.push(Edge { from, to: target.block, args, lane });
        from
    }

    /// A block that stands for several of the program.
    pub fn virtual_block(&mut self) -> BlockId {
        self.blocks.push(self.b.create_block());
        self.loops.push(None);
        BlockId(self.blocks.len() as u32 - 1)
    }

    /// The code of a block.
    pub fn block(&self, id: BlockId) -> ir::Block {
        self.blocks[id.0 as usize]
    }

    fn edge_args(&mut self, target: &Target, supplied: &[ir::Value]) -> Vec<BlockArg> {
        let given: Vec<ir::Value> = target.args.iter().map(|&v| self.get(v)).collect();
        let row = self.is_given_row(target.block).then(|| self.row_given(target, supplied));
        supplied.iter().copied().chain(given).chain(row).map(BlockArg::Value).collect()
    }

    /// Makes the edges that do something on the way, once the block that they come from has ended.
    pub fn finish_edges(&mut self) {
        self.addresses.clear();
        for e in std::mem::take(&mut self.edges) {
            self.b.switch_to_block(e.from);
            self.enter_from_outside(e.to);
            if let Some(lane) = e.lane {
                self.enter_lane(lane);
            }
            self.b.ins().jump(self.blocks[e.to.0 as usize], &e.args);
        }
    }
}
