//! Code of slow paths ([`crate::analysis::slow_paths`]): a function for each, and the call of it.
//!
//! Both sides have their values in memory, the *exchange*: in registers they would be in the way of the packets that do not
//! come by. The function keeps all registers itself.

use std::mem::offset_of;

use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, BlockArg, InstBuilder, MemFlagsData, StackSlot, types};
use cranelift_frontend::FunctionBuilder;
use cranelift_module::ModuleError;
use rustc_hash::FxHashSet;
use weir_ir::program::{BlockId, Target, Type, Value, Width};

use crate::abi::helpers::Ctx;
use crate::analysis::slow_paths::{SlowPath, SlowPaths, used};
use crate::translate::emit::Emitter;
use crate::translate::frame::{Frame, Kept, StackSpace, slot};
use crate::translate::packet::NOWHERE;
use crate::translate::values::Values;
use crate::translate::{Translator, int};

/// What the exchange begins with. For all packets alike, the context, and the address of where the batch's packets end;
/// then in, the packet, and out, the number of the exit from 1 on, or 0 and behind it the outcome of a packet that has
/// ended.
const CONTEXT: i32 = 0;
const BATCH_END: i32 = 8;
const PACKET: i32 = 16;
const EXIT: i32 = 16;
const OUTCOME: i32 = 24;

/// Where a value is: behind that, in, those that are given, and out, what the exit's block takes.
fn value_at(number: usize) -> i32 {
    32 + 16 * number as i32
}

/// The name of a path's function.
pub(crate) fn slow_path_name(number: usize) -> String {
    format!("slow{number}")
}

/// Begins the function of a path. Gives the address of the exchange, and the packet, too.
pub(crate) fn open_slow_path(
    b: &mut FunctionBuilder<'_>,
    values: StackSlot,
) -> ([ir::Value; 2], Frame, ir::Value) {
    let entry = b.create_block();
    b.append_block_params_for_function_params(entry);
    b.switch_to_block(entry);
    let at = b.block_params(entry)[0];
    let [ctx, packet, batch_end] =
        [CONTEXT, PACKET, BATCH_END].map(|off| b.ins().load(types::I64, MemFlagsData::trusted(), at, off));
    let (context, end) = (Kept::there(at, CONTEXT as usize), Kept::there(batch_end, 0));
    let first_table = Kept::there(ctx, offset_of!(Ctx<'_>, first_table));
    let values = StackSpace::new(&mut FuncCursor::new(b.func).at_bottom(entry), values);
    let ended = b.create_block();
    b.append_block_param(ended, types::I64);
    ([at, packet], Frame { entry, ended, context, end, values, passed: None, first_table }, ctx)
}

impl<'b> Translator<'_, 'b> {
    /// The function of a path.
    pub fn translate_slow_path(
        mut self,
        path: &SlowPath,
        [exchange, packet]: [ir::Value; 2],
    ) -> Result<FunctionBuilder<'b>, Box<ModuleError>> {
        self.packet.at = packet;
        self.tables.read_ahead = false;
        self.code.regions.fixed = self.code.fixed_here();
        path.constants.iter().for_each(|op| self.values.note_form(&mut self.code, op));
        let first = path.blocks[0];
        for &id in path.blocks[1..].iter().chain(&path.exits) {
            self.take_params(id);
        }
        let unknown = self.here.unknown(&self.lanes, &path.blocks);
        let to = self.jumps.block(first);
        self.code.b.ins().jump(to, &[]);
        for &id in &path.blocks {
            self.here.block = id;
            self.start_block(self.jumps.blocks[id.0 as usize], !unknown[id.0 as usize]);
            self.values.take_given(&mut self.code, path, exchange, id);
            self.translate_block(id);
        }
        self.code.note_nothing();
        for (number, &id) in path.exits.iter().enumerate() {
            let block = self.jumps.block(id);
            self.code.b.switch_to_block(block);
            let values = self.code.b.block_params(block).to_vec();
            for (i, value) in values.into_iter().enumerate() {
                self.code.store_value(value, exchange, value_at(i), self.code.regions.frame);
            }
            self.code.leave(exchange, 1 + number);
        }
        self.code.b.switch_to_block(self.code.frame.ended);
        let outcome = self.code.b.block_params(self.code.frame.ended)[0];
        self.code.b.ins().store(self.code.regions.frame, outcome, exchange, OUTCOME);
        self.code.leave(exchange, 0);
        self.close()
    }

    /// Space for what goes to paths and comes back: to be called once, before anything is translated.
    pub fn exchange(&mut self, slow: &SlowPaths) -> StackSpace {
        let taken = |b: &BlockId| self.p.block(*b).params.len();
        let most = |w: &SlowPath| w.exits.iter().map(taken).max().unwrap_or(0).max(w.given.len());
        let most = slow.paths.iter().map(most).max().unwrap_or(0);
        let slot = slot(self.code.b.func, value_at(most) as usize, 4);
        let mut before = self.code.frame.before(&mut self.code.b);
        let exchange = StackSpace::new(&mut before, slot);
        let end = self.code.frame.end.address(&mut before);
        for (value, off) in [(self.code.ctx, CONTEXT), (end, BATCH_END)] {
            before.ins().store(self.code.regions.frame, value, exchange.at, off);
        }
        exchange
    }

    /// The first block of a path: calls its function, and goes on where that says.
    pub fn call_slow_path(&mut self, slow: &SlowPaths, number: usize, exchange: &StackSpace) {
        let (path, at) = (&slow.paths[number], exchange.at);
        self.code.b.ins().store(self.code.regions.frame, self.packet.at, at, PACKET);
        for (i, &v) in path.given.iter().enumerate() {
            let value = self.values.get(&mut self.code, v);
            self.code.store_value(value, at, value_at(i), self.code.regions.frame);
        }
        let given = exchange.number.get(&mut self.code.b);
        let function = match self.code.calls.local(self.code.b.func, &slow_path_name(number)) {
            Ok(function) => function,
            Err(e) => return self.code.calls.fail(e),
        };
        self.code.b.ins().call(function, &[given]);
        if !path.keeps_places {
            self.packet.places = NOWHERE;
        }
        let exit = self.code.b.ins().load(types::I64, self.code.regions.frame, at, EXIT);
        for (i, &id) in path.exits.iter().enumerate() {
            let [to, next] = std::array::from_fn(|_| self.code.b.create_block());
            [to, next].into_iter().for_each(|block| self.code.b.set_cold_block(block));
            let is = self.code.b.ins().icmp_imm_u(IntCC::Equal, exit, 1 + i as i64);
            self.code.b.ins().brif(is, to, &[], next, &[]);
            self.code.b.switch_to_block(to);
            self.go_to_exit(id, at);
            self.code.b.switch_to_block(next);
        }
        let outcome = self.code.b.ins().load(types::I64, self.code.regions.frame, at, OUTCOME);
        self.code.end_packet(outcome);
    }

    /// Goes on behind a path, which has begun loops anew where that is needed.
    fn go_to_exit(&mut self, id: BlockId, at: ir::Value) {
        self.code.addresses.clear();
        let params = self.p.block(id).params.iter().enumerate();
        let taken: Vec<ir::Value> =
            params.map(|(i, &v)| self.values.exchanged(&mut self.code, v, at, value_at(i))).collect();
        let target = Target { block: id, args: Vec::new() };
        let row = self.tables.is_given(id).then(|| {
            self.tables.row_given(&mut self.code, &self.here, &self.lanes, &mut self.values, &target, &taken)
        });
        if let Some(lane) = self.lanes.entered_from_outside(&self.here, id) {
            self.lanes.enter(&mut self.code, lane);
        }
        self.jumps.reach(&mut self.code, &mut self.packet, id);
        let args: Vec<BlockArg> = taken.into_iter().chain(row).map(BlockArg::Value).collect();
        let to = self.jumps.block(id);
        self.code.b.ins().jump(to, &args);
    }
}

impl Values<'_> {
    /// Takes what a block uses of what is given.
    fn take_given(&mut self, code: &mut Emitter<'_, '_>, path: &SlowPath, exchange: ir::Value, id: BlockId) {
        let wanted: FxHashSet<Value> = used(self.p, id).into_iter().collect();
        for (i, &v) in path.given.iter().enumerate().filter(|(_, v)| wanted.contains(v)) {
            let value = self.exchanged(code, v, exchange, value_at(i));
            self.set(v, value);
        }
    }

    /// Reads a value that stands in the exchange as it is in a register.
    fn exchanged(&mut self, code: &mut Emitter<'_, '_>, v: Value, at: ir::Value, off: i32) -> ir::Value {
        match self.p.ty(v) {
            Type::Int(Width::W128) => code.load_value(Width::W128, at, off, code.regions.frame),
            Type::Int(w) => code.b.ins().load(int(w), code.regions.frame, at, off),
            Type::Entry(_) => code.b.ins().load(types::I32, code.regions.frame, at, off),
        }
    }
}

impl Emitter<'_, '_> {
    fn leave(&mut self, exchange: ir::Value, exit: usize) {
        let exit = self.imm(types::I64, exit as u128);
        self.b.ins().store(self.regions.frame, exit, exchange, EXIT);
        self.b.ins().return_(&[]);
    }
}
