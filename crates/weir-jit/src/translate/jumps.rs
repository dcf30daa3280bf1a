//! Where jumps go.

use cranelift_codegen::ir::{self, BlockArg, InstBuilder};
use cranelift_frontend::FunctionBuilder;
use weir_ir::program::{BlockId, Target};

use crate::translate::Translator;
use crate::translate::emit::Emitter;

/// An edge that does something on the path.
pub(crate) struct Edge {
    from: ir::Block,
    to: BlockId,
    args: Vec<BlockArg>,
    /// The fork and the lane that it leads into.
    lane: Option<(usize, usize)>,
}

/// The blocks of the code, and the edges between them.
pub(crate) struct Jumps {
    /// By block of the program.
    pub blocks: Vec<ir::Block>,
    /// For each header of a loop that goes round the number of its counter.
    pub loops: Vec<Option<u32>>,
    /// Edges that do something and are not made yet.
    pub edges: Vec<Edge>,
}

impl Jumps {
    pub fn new(blocks: Vec<ir::Block>, loops: Vec<Option<u32>>) -> Jumps {
        Jumps { blocks, loops, edges: Vec::new() }
    }

    /// The code of a block.
    pub fn block(&self, id: BlockId) -> ir::Block {
        self.blocks[id.0 as usize]
    }

    /// A block that stands for several of the program.
    pub fn virtual_block(&mut self, b: &mut FunctionBuilder<'_>) -> BlockId {
        self.blocks.push(b.create_block());
        self.loops.push(None);
        BlockId(self.blocks.len() as u32 - 1)
    }

    /// Counts a loop from its first round again.
    pub fn enter_from_outside(&self, code: &mut Emitter<'_, '_>, block: BlockId) {
        if let Some((at, off)) = self.counter(code, block) {
            let one = code.imm32(1);
            code.b.ins().store(code.regions.rounds, one, at, off);
        }
    }

    /// Where the counter of a loop header is.
    pub fn counter(&self, code: &mut Emitter<'_, '_>, header: BlockId) -> Option<(ir::Value, i32)> {
        let n = self.loops[header.0 as usize]?;
        let at = code.fixed(std::mem::offset_of!(crate::abi::helpers::Ctx<'_>, rounds));
        Some((at, 4 * n as i32))
    }
}

impl Translator<'_, '_> {
    /// Where a jump to a target goes, and with what.
    pub fn edge(&mut self, target: &Target, supplied: &[ir::Value]) -> (ir::Block, Vec<BlockArg>) {
        let args = self.edge_args(target, supplied);
        let lane = self.lanes.entered_from_outside(&self.here, target.block);
        self.jumps.reach(&mut self.code, &mut self.packet, target.block);
        if self.jumps.loops[target.block.0 as usize].is_none() && lane.is_none() {
            return (self.jumps.blocks[target.block.0 as usize], args);
        }
        let from = self.code.b.create_block();
        self.jumps.edges.push(Edge { from, to: target.block, args, lane });
        (from, Vec::new())
    }

    /// As [`edge`](Translator::edge), for another round of a loop.
    pub fn back_edge(&mut self, target: &Target) -> (ir::Block, Vec<BlockArg>) {
        self.jumps.reach(&mut self.code, &mut self.packet, target.block);
        (self.jumps.blocks[target.block.0 as usize], self.edge_args(target, &[]))
    }

    /// A block of its own that goes to a target.
    pub fn path(&mut self, target: &Target, supplied: &[ir::Value]) -> ir::Block {
        let args = self.edge_args(target, supplied);
        let lane = self.lanes.entered_from_outside(&self.here, target.block);
        self.jumps.reach(&mut self.code, &mut self.packet, target.block);
        if args.is_empty() && self.jumps.loops[target.block.0 as usize].is_none() && lane.is_none() {
            return self.jumps.blocks[target.block.0 as usize];
        }
        let from = self.code.b.create_block();
        self.jumps.edges.push(Edge { from, to: target.block, args, lane });
        from
    }

    fn edge_args(&mut self, target: &Target, supplied: &[ir::Value]) -> Vec<BlockArg> {
        let given: Vec<ir::Value> = target.args.iter().map(|&v| self.values.get(&mut self.code, v)).collect();
        let row = self.tables.is_given(target.block).then(|| {
            self.tables.row_given(&mut self.code, &self.here, &self.lanes, &mut self.values, target, supplied)
        });
        supplied.iter().copied().chain(given).chain(row).map(BlockArg::Value).collect()
    }

    /// Makes the edges that do something on the path, once the block that they come from has ended.
    pub fn finish_edges(&mut self) {
        self.code.addresses.clear();
        for e in std::mem::take(&mut self.jumps.edges) {
            self.code.b.switch_to_block(e.from);
            self.jumps.enter_from_outside(&mut self.code, e.to);
            if let Some(lane) = e.lane {
                self.lanes.enter(&mut self.code, lane);
            }
            self.code.b.ins().jump(self.jumps.blocks[e.to.0 as usize], &e.args);
        }
    }
}
