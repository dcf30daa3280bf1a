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
use crate::translate::emit::Emitter;
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

    /// The current packet: to be called once, where [`Batch::open`] left the builder.
    pub fn packet(&self, code: &mut Emitter<'_, '_>) -> ir::Value {
        code.b.ins().load(types::I64, code.regions.args, self.at, 0)
    }

    /// Writes the current packet's number of an array that goes with the packets.
    pub fn note_result(&self, code: &mut Emitter<'_, '_>, array: ir::Value, result: ir::Value) {
        let distance = code.b.ins().isub(array, self.packets);
        self.note_at(code, distance, result);
    }

    /// The same, of the array that is so far from the packets.
    fn note_at(&self, code: &mut Emitter<'_, '_>, distance: ir::Value, result: ir::Value) {
        let to = code.b.ins().iadd(self.at, distance);
        code.b.ins().store(code.regions.outcomes, result, to, 0);
    }

    /// Where the address of the next packet stands, and whether there is one.
    pub fn next_packet(&self, code: &mut Emitter<'_, '_>) -> (ir::Value, ir::Value) {
        let next = code.b.ins().iadd_imm_s(self.at, 8);
        let end = code.frame.end.get(&mut code.b);
        let is_more = code.b.ins().icmp(IntCC::UnsignedLessThan, next, end);
        (next, is_more)
    }

    /// Ends the function: what follows the end of a packet.
    pub fn close(&self, code: &mut Emitter<'_, '_>) {
        code.b.switch_to_block(code.frame.ended);
        let outcome = code.b.block_params(code.frame.ended)[0];
        let distance = self.to_outcomes.get(&mut code.b);
        self.note_at(code, distance, outcome);
        let (next, is_more) = self.next_packet(code);
        let done = code.b.create_block();
        code.b.ins().brif(is_more, self.head, &[BlockArg::Value(next)], done, &[]);
        // Behind the loop, so that a packet takes one jump fewer.
        code.b.set_cold_block(done);
        code.b.switch_to_block(done);
        // How many that were, the caller works out: the first address would have to be kept.
        code.b.ins().return_(&[next]);
    }
}

impl Translator<'_, '_> {
    /// From the loop's head to the block where the runs of this batch start.
    pub fn dispatch(&mut self, batch: &Batch, reached: &[BlockId]) {
        let numbered = reached.iter().filter_map(|&id| Some((self.known.starts.numbers[id.0 as usize]?, id)));
        let numbered: Vec<(u32, BlockId)> = numbered.collect();
        if numbered.len() <= COMPARED {
            let Some((last, others)) = numbered.split_last() else { return self.code.never() };
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
        self.code.never();
        for (path, id) in paths {
            self.code.b.switch_to_block(path);
            self.start_at(batch, id);
        }
    }

    fn start_at(&mut self, batch: &Batch, id: BlockId) {
        let mut given = Vec::new();
        for (i, &param) in self.p.block(id).params.iter().enumerate() {
            let v =
                self.code.load_value(self.p.width(param), batch.args, 16 * i as i32, self.code.regions.args);
            given.push(BlockArg::Value(v));
        }
        self.notes.probe_start(&mut self.code, self.p, id);
        self.jumps.enter_from_outside(&mut self.code, id);
        let to = self.jumps.block(id);
        self.code.b.ins().jump(to, &given);
    }
}

impl Emitter<'_, '_> {
    /// Only numbers of starts are passed in.
    fn never(&mut self) {
        if let Some(block) = self.b.current_block() {
            self.b.set_cold_block(block);
        }
        self.b.ins().trap(TrapCode::unwrap_user(1));
    }

    /// The current packet starts others, which run before the next one: it is the last of this batch.
    pub fn stop_behind(&mut self) {
        let before_all = self.imm(types::I64, 0);
        self.frame.end.set(&mut self.b, before_all);
    }

    /// Ends the current packet, with an outcome of 64 bits.
    pub fn end_packet(&mut self, outcome: ir::Value) {
        self.b.ins().jump(self.frame.ended, &[BlockArg::Value(outcome)]);
    }
}
