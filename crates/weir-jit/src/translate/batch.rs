//! The loop over a batch: around the whole program, so that a packet costs no call.

use std::mem::offset_of;

use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    self, BlockArg, BlockCall, InstBuilder, JumpTableData, MemFlagsData, StackSlot, TrapCode, types,
};
use cranelift_frontend::FunctionBuilder;
use weir_ir::program::BlockId;

use crate::abi::cold_calls::PASSED_SIZE;
use crate::abi::helpers::Ctx;
use crate::translate::Translator;
use crate::translate::frame::{Frame, Kept, StackSpace, slot};

/// Starts that are compared one by one rather than looked up.
const COMPARED: usize = 4;

/// The parts of the loop. All arrays that go with the packets have 64 bits for each, so that one address leads through
/// all of them.
#[derive(Clone, Copy)]
pub(crate) struct Batch {
    /// Takes the next packet: the block's parameter is where its address stands.
    pub head: ir::Block,
    /// Number of the start.
    start: Kept,
    pub args: ir::Value,
    /// Where the address of the current packet stands.
    at: ir::Value,
    /// Where those of all packets stand.
    packets: ir::Value,
    /// How far from it the outcomes are.
    to_outcomes: Kept,
}

impl Batch {
    /// Begins the function: the builder is left in the block that takes a packet. Gives the context too.
    pub fn open(b: &mut FunctionBuilder<'_>, values: StackSlot) -> (Batch, Frame, ir::Value) {
        let entry = b.create_block();
        b.append_block_params_for_function_params(entry);
        b.switch_to_block(entry);
        let [ctx, packets, count, start, args] = std::array::from_fn(|i| b.block_params(entry)[i]);
        let (head, ended) = (b.create_block(), b.create_block());
        let at = b.append_block_param(head, types::I64);
        b.append_block_param(ended, types::I64);
        let size = b.ins().ishl_imm_u(count, 3);
        let end = b.ins().iadd(packets, size);
        let mut before = FuncCursor::new(b.func).at_bottom(entry);
        let read = |before: &mut FuncCursor<'_>, off: usize| {
            before.ins().load(types::I64, MemFlagsData::trusted(), ctx, off as i32)
        };
        let outcomes = read(&mut before, offset_of!(Ctx<'_>, outcomes));
        let to_outcomes = before.ins().isub(outcomes, packets);
        let first_table = read(&mut before, offset_of!(Ctx<'_>, first_table));
        let start = before.ins().uextend(types::I64, start);
        let [context, end, to_outcomes, first_table, start] =
            [ctx, end, to_outcomes, first_table, start].map(|number| Kept::new(&mut before, number));
        let passed = slot(before.func, PASSED_SIZE, 3);
        let [values, passed] = [values, passed].map(|slot| StackSpace::new(&mut before, slot));
        b.ins().jump(head, &[BlockArg::Value(packets)]);
        b.switch_to_block(head);
        let batch = Batch { head, start, args, at, packets, to_outcomes };
        (batch, Frame { entry, ended, context, end, values, passed: Some(passed), first_table }, ctx)
    }
}

impl Translator<'_, '_> {
    /// The current packet: to be called once, where [`Batch::open`] left the builder.
    pub(crate) fn take_packet(&mut self, batch: &Batch) {
        self.packet.at = self.code.b.ins().load(types::I64, self.code.regions.args, batch.at, 0);
    }

    /// Writes the current packet's number of an array that goes with the packets.
    pub(crate) fn note_result(&mut self, batch: &Batch, array: ir::Value, result: ir::Value) {
        let distance = self.code.b.ins().isub(array, batch.packets);
        self.note_at(batch, distance, result);
    }

    /// The same, of the array that is so far from the packets.
    fn note_at(&mut self, batch: &Batch, distance: ir::Value, result: ir::Value) {
        let to = self.code.b.ins().iadd(batch.at, distance);
        self.code.b.ins().store(self.code.regions.outcomes, result, to, 0);
    }

    /// Where the address of the next packet stands, and whether there is one.
    pub(crate) fn next_packet(&mut self, batch: &Batch) -> (ir::Value, ir::Value) {
        let next = self.code.b.ins().iadd_imm_s(batch.at, 8);
        let end = self.frame.end.get(&mut self.code.b);
        let is_more = self.code.b.ins().icmp(IntCC::UnsignedLessThan, next, end);
        (next, is_more)
    }

    /// From the loop's head to the block where the runs of this batch start.
    pub(crate) fn dispatch(&mut self, batch: &Batch, reached: &[BlockId]) {
        let numbered = reached.iter().filter_map(|&id| Some((self.known.starts.numbers[id.0 as usize]?, id)));
        let numbered: Vec<(u32, BlockId)> = numbered.collect();
        if numbered.len() <= COMPARED {
            let Some((last, others)) = numbered.split_last() else { return self.never() };
            self.compare_starts(batch, others);
            // Only numbers of starts are passed in.
            return self.start_at(batch, last.1);
        }
        // Most packets come in by entries.
        let takes_packets = |id| matches!(self.known.starts.entry(id), Some((_, true)));
        let (entries, others): (Vec<_>, Vec<_>) =
            numbered.into_iter().partition(|&(_, id)| takes_packets(id));
        if entries.len() <= COMPARED && others.len() > 1 {
            self.compare_starts(batch, &entries);
            self.look_start_up(batch, &others);
        } else {
            self.look_start_up(batch, &[entries, others].concat());
        }
    }

    fn compare_starts(&mut self, batch: &Batch, numbered: &[(u32, BlockId)]) {
        for &(number, id) in numbered {
            let (path, next) = (self.code.b.create_block(), self.code.b.create_block());
            let start = batch.start.get(&mut self.code.b);
            let is = self.code.b.ins().icmp_imm_u(IntCC::Equal, start, i64::from(number));
            self.code.b.ins().brif(is, path, &[], next, &[]);
            self.code.b.switch_to_block(path);
            self.start_at(batch, id);
            self.code.b.switch_to_block(next);
        }
    }

    fn look_start_up(&mut self, batch: &Batch, numbered: &[(u32, BlockId)]) {
        let never = self.code.b.create_block();
        let mut table = vec![never; self.known.starts.len()];
        let paths: Vec<(ir::Block, BlockId)> = numbered
            .iter()
            .map(|&(number, id)| {
                let path = self.code.b.create_block();
                table[number as usize] = path;
                (path, id)
            })
            .collect();
        let lists = &mut self.code.b.func.dfg.value_lists;
        let default = BlockCall::new(never, [], lists);
        let table: Vec<BlockCall> = table.into_iter().map(|path| BlockCall::new(path, [], lists)).collect();
        let table = self.code.b.create_jump_table(JumpTableData::new(default, &table));
        let start = batch.start.get(&mut self.code.b);
        let start = self.code.b.ins().ireduce(types::I32, start);
        self.code.b.ins().br_table(start, table);
        self.code.b.switch_to_block(never);
        self.never();
        for (path, id) in paths {
            self.code.b.switch_to_block(path);
            self.start_at(batch, id);
        }
    }

    /// Only numbers of starts are passed in.
    fn never(&mut self) {
        if let Some(block) = self.code.b.current_block() {
            self.code.b.set_cold_block(block);
        }
        self.code.b.ins().trap(TrapCode::unwrap_user(1));
    }

    fn start_at(&mut self, batch: &Batch, id: BlockId) {
        let mut given = Vec::new();
        for (i, &param) in self.p.block(id).params.iter().enumerate() {
            let v =
                self.code.load_value(self.p.width(param), batch.args, 16 * i as i32, self.code.regions.args);
            given.push(BlockArg::Value(v));
        }
        self.probe_start(id);
        self.enter_from_outside(id);
        let to = self.jumps.block(id);
        self.code.b.ins().jump(to, &given);
    }

    /// The current packet starts others, which run before the next one: it is the last of this batch.
    pub(crate) fn stop_behind(&mut self) {
        let before_all = self.code.imm(types::I64, 0);
        self.frame.end.set(&mut self.code.b, before_all);
    }

    /// Ends the current packet, with an outcome of 64 bits.
    pub(crate) fn end_packet(&mut self, outcome: ir::Value) {
        self.code.b.ins().jump(self.frame.ended, &[BlockArg::Value(outcome)]);
    }

    /// Ends the function: what follows the end of a packet.
    pub(crate) fn close_batch(&mut self, batch: &Batch) {
        self.code.b.switch_to_block(self.frame.ended);
        let outcome = self.code.b.block_params(self.frame.ended)[0];
        let distance = batch.to_outcomes.get(&mut self.code.b);
        self.note_at(batch, distance, outcome);
        let (next, is_more) = self.next_packet(batch);
        let done = self.code.b.create_block();
        self.code.b.ins().brif(is_more, batch.head, &[BlockArg::Value(next)], done, &[]);
        // Behind the loop, so that a packet takes one jump fewer.
        self.code.b.set_cold_block(done);
        self.code.b.switch_to_block(done);
        // How many that were, the caller works out: the first address would have to be kept.
        self.code.b.ins().return_(&[next]);
    }
}
