//! From a program to a function of the compiler: blocks, and the order in which they are translated.

pub(crate) mod addresses;
pub(crate) mod arith;
pub(crate) mod batch;
pub(crate) mod calls;
pub(crate) mod emit;
pub(crate) mod ends;
pub(crate) mod flow_lookup;
pub(crate) mod frame;
pub(crate) mod jumps;
pub(crate) mod lanes;
pub(crate) mod network;
pub(crate) mod notes;
pub(crate) mod ops;
pub(crate) mod packet;
pub(crate) mod prefixes;
pub(crate) mod probes;
pub(crate) mod rules;
pub(crate) mod slice;
pub(crate) mod slow_path;
pub(crate) mod tables;
pub(crate) mod values;
pub(crate) mod wide;

use cranelift_codegen::ir::{self, AliasRegionData, InstBuilder, MemFlagsData, StackSlot, types};
use cranelift_frontend::FunctionBuilder;
use cranelift_jit::JITModule;
use cranelift_module::ModuleError;
use weir_ir::Known;
use weir_ir::program::{Amount, Block, BlockId, End, Op, Program, Type, Value, Width};

use weir_packet::Meta;

use crate::abi::cold_calls::passed_at;
use crate::abi::helpers::Helper;
use crate::analysis::lanes::Lanes;
use crate::analysis::slow_paths::SlowPaths;
use crate::analysis::starts::{Starts, order};
use crate::analysis::uses::Uses;
use crate::flows::Plan;
use crate::translate::addresses::{Address, Addresses};
use crate::translate::batch::Batch;
use crate::translate::calls::Callees;
use crate::translate::emit::Emitter;
use crate::translate::frame::{Frame, StackSpace, slot};
use crate::translate::jumps::Jumps;
use crate::translate::lanes::LaneState;
use crate::translate::notes::Numbers;
use crate::translate::packet::PacketState;
use crate::translate::tables::Rows;
use crate::translate::values::Values;

/// Numbers of 32 bits at the start of a packet's metadata, up to the last mark.
pub(crate) const POSITIONS: usize = Meta::MARKS_OFFSET / 4 + 4;

/// Most tables whose addresses are read before the loop over packets. Those of more have no registers: each would be
/// read from the frame all the same, and whatever is known everywhere takes long to compile.
const MOST_AHEAD: usize = 8;

/// Kinds of memory that never overlap: a write to one leaves what is known of the others.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Regions {
    /// Positions in the packet: a kind for each, since a change of one leaves the others.
    pub positions: [MemFlagsData; POSITIONS],
    /// Annotations and other metadata of the packet.
    pub meta: MemFlagsData,
    /// Bytes of the packet.
    pub bytes: MemFlagsData,
    /// The frame.
    pub frame: MemFlagsData,
    /// Counters of loops.
    pub rounds: MemFlagsData,
    /// What does not change during a run. The compiler may read it before it is needed, unless there is too much of it.
    pub fixed: MemFlagsData,
    /// Arguments of the start.
    pub args: MemFlagsData,
    /// Rows of tables.
    pub rows: MemFlagsData,
    /// What changes with a table's index.
    pub views: MemFlagsData,
    /// Outcomes of packets.
    pub outcomes: MemFlagsData,
}

/// A checked program, with the analyses that its compilation needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Input<'a> {
    pub program: &'a Program,
    /// What is known of the packet's bounds.
    pub known: &'a Known,
    pub starts: &'a Starts,
    /// The lookups whose results are kept for each flow.
    pub flows: &'a Plan,
    pub uses: &'a Uses,
}

/// Options of a translation.
#[derive(Debug, Clone, Default)]
pub(crate) struct Notes {
    /// The code remembers which operation it comes from.
    pub numbers: Option<Numbers>,
    /// The code reads the clock at the start of these blocks.
    pub probes: Option<Vec<bool>>,
}

/// The analyses of a program that its translation needs.
#[derive(Clone, Copy)]
pub(crate) struct Analyses<'a> {
    /// Where runs may start.
    pub starts: &'a Starts,
    /// What is used of values and tables.
    pub uses: &'a Uses,
    /// The lookups whose results are kept for each flow.
    pub flows: &'a Plan,
    /// What is known of the packet's bounds.
    pub bounds: &'a Known,
}

/// The place in the program that is being translated.
#[derive(Clone, Copy)]
pub(crate) struct Here {
    pub block: BlockId,
    /// The number of the operation in it.
    pub op: usize,
}

/// Translates one program, with parts that each know their own: instructions, calls, the packet, values, tables, lanes,
/// jumps. Rust's word for a type of the compiler is `ir::`; the program's own come without.
pub(crate) struct Translator<'a, 'b> {
    pub p: &'a Program,
    pub known: Analyses<'a>,
    pub notes: Notes,
    pub code: Emitter<'b>,
    pub calls: Callees<'a>,
    pub ctx: ir::Value,
    pub frame: Frame,
    pub packet: PacketState,
    pub values: Values,
    pub rows: Rows,
    pub lanes: LaneState,
    pub jumps: Jumps,
    /// Addresses that are known in this block.
    pub addresses: Addresses,
    pub here: Here,
}

impl<'a, 'b> Translator<'a, 'b> {
    /// Begins a function as `open` does, which is given space for values, and gives the frame and the context.
    pub fn new<T>(
        Input { program: p, known, starts, flows, uses }: Input<'a>,
        notes: Notes,
        module: &'a mut JITModule,
        mut b: FunctionBuilder<'b>,
        open: impl FnOnce(&mut FunctionBuilder<'b>, StackSlot) -> (T, Frame, ir::Value),
    ) -> (T, Translator<'a, 'b>) {
        // Also for a row that is gone.
        let row = uses.layouts.iter().zip(&uses.removes).filter(|(_, r)| **r).map(|(l, _)| l.stride).max();
        let values = p.blocks.iter().map(frame_values).max().unwrap_or(0).max(2);
        let values = slot(b.func, (16 * values).max(row.unwrap_or(0)), 4);
        let (opened, frame, ctx) = open(&mut b, values);
        let mut region = |user_id, description: &'static str| {
            let data = AliasRegionData { user_id, description: description.into() };
            let region = b.func.dfg.alias_regions.insert(data);
            MemFlagsData::new().with_notrap().with_alias_region(Some(region))
        };
        let regions = Regions {
            positions: std::array::from_fn(|i| region(16 + i as u32, "packet position").with_aligned()),
            meta: region(0, "packet metadata").with_aligned(),
            bytes: region(1, "packet bytes"),
            frame: region(2, "frame").with_aligned(),
            rounds: region(3, "loop counters").with_aligned(),
            fixed: region(4, "context").with_aligned().with_readonly().with_can_move(),
            args: region(8, "arguments").with_aligned(),
            rows: region(5, "rows").with_aligned(),
            views: region(6, "views").with_aligned(),
            outcomes: region(7, "outcomes").with_aligned(),
        };
        let blocks = p.blocks.iter().map(|_| b.create_block()).collect();
        let packet = PacketState::new(&mut b, ctx);
        let t = Translator {
            p,
            known: Analyses { starts, uses, flows, bounds: known },
            notes,
            code: Emitter::new(b, regions),
            calls: Callees::new(module),
            ctx,
            frame,
            packet,
            values: Values::new(p.types.len()),
            rows: Rows::default(),
            lanes: LaneState::default(),
            jumps: Jumps::new(blocks, uses.loops.clone()),
            addresses: Addresses::default(),
            here: Here { block: BlockId(0), op: 0 },
        };
        (opened, t)
    }

    /// The whole program, but for the slow paths, which are functions of their own.
    pub fn translate(
        mut self,
        batch: &Batch,
        lanes: Lanes,
        slow: &SlowPaths,
    ) -> Result<FunctionBuilder<'b>, Box<ModuleError>> {
        self.take_packet(batch);
        self.lanes = LaneState::new(&mut self.code.b, lanes);
        for group in &self.lanes.of.groups {
            for b in &group.blocks {
                self.jumps.blocks[b.0 as usize] = self.jumps.blocks[group.blocks[0].0 as usize];
            }
        }
        let mut order = order(self.p, &self.lanes.of);
        let unknown = self.unknown(&order);
        order.retain(|&id| !slow.has(id) || slow.path_at(id).is_some());
        self.rows.given = self.blocks_given_rows(slow);
        for &id in &order {
            self.take_params(id);
            // Out of the way of the packets that pass.
            if self.known.uses.exceptions[id.0 as usize] || slow.has(id) {
                self.code.b.set_cold_block(self.jumps.blocks[id.0 as usize]);
            }
        }
        let here = self.fixed_here();
        if self.tables_used(&order) > MOST_AHEAD {
            self.rows.read_ahead = false;
            self.code.regions.fixed = here;
        }
        let usual = self.code.regions.fixed;
        self.dispatch(batch, &order);
        let exchange = (!slow.paths.is_empty()).then(|| self.exchange(slow));
        for &id in &order {
            self.here.block = id;
            // What only paths of few packets need is not read before the loop, where it would take registers from others.
            self.code.regions.fixed = if self.is_exception() { here } else { usual };
            self.start_block(self.jumps.blocks[id.0 as usize], !unknown[id.0 as usize]);
            match (slow.path_at(id), &exchange) {
                (Some(number), Some(exchange)) => self.call_slow_path(slow, number, exchange),
                _ => self.translate_block(id),
            }
        }
        self.note_nothing();
        self.close_batch(batch);
        self.close()
    }

    /// Gives a block its parameters.
    pub(crate) fn take_params(&mut self, id: BlockId) {
        let block = self.p.block(id);
        let to = self.jumps.blocks[id.0 as usize];
        for (i, &param) in block.params.iter().enumerate() {
            let ty = self.ty(param);
            let value = self.code.b.append_block_param(to, ty);
            self.values.set(param, value);
            for b in self.lanes.of.group(id).map_or(&[][..], |g| &g.blocks) {
                self.values.numbers[self.p.block(*b).params[i].0 as usize] = Some(value);
            }
        }
        if self.rows.is_given(id) {
            let row = self.code.b.append_block_param(to, types::I64);
            let slot = self.get(block.params[0]);
            self.rows.addresses.insert(slot, row);
        }
    }

    /// What does not change during a run, to be read where it is needed.
    pub(crate) fn fixed_here(&self) -> MemFlagsData {
        let here = MemFlagsData::new().with_notrap().with_aligned().with_readonly();
        here.with_alias_region(self.code.regions.fixed.alias_region())
    }

    /// The operations of a block that was started, and its end.
    pub(crate) fn translate_block(&mut self, id: BlockId) {
        let block = self.p.block(id);
        self.probe(id);
        self.plan(id);
        for i in 0..block.ops.len() {
            self.note(id, i);
            if !self.is_stored(i) {
                self.lane_op(i);
            }
        }
        self.note(id, block.ops.len());
        self.lane_end();
    }

    /// What was made, if all went well.
    pub(crate) fn close(mut self) -> Result<FunctionBuilder<'b>, Box<ModuleError>> {
        self.code.b.seal_all_blocks();
        self.calls.finish().map(|()| self.code.b)
    }

    // --- values -----------------------------------------------------------------------------------------------

    pub fn ty(&self, v: Value) -> ir::Type {
        match self.p.ty(v) {
            Type::Int(w) => int(w),
            Type::Entry(_) => types::I32,
        }
    }

    /// A value; a constant is made where it is used, if it is.
    pub fn get(&mut self, v: Value) -> ir::Value {
        if let Some(value) = self.values.numbers[v.0 as usize] {
            return value;
        }
        let constant = self.values.constant(v).expect("the checker proved that the value is defined here");
        let ty = self.ty(v);
        self.address(Address::Constant(v), |t| t.code.imm(ty, constant))
    }

    /// Table of an entry, and its slot.
    pub fn entry(&mut self, v: Value) -> [ir::Value; 2] {
        [self.table_number(v), self.get(v)]
    }

    pub fn amount(&mut self, n: Amount) -> ir::Value {
        match n {
            Amount::Const(n) => self.code.imm32(n),
            Amount::Value(v) => self.get(v),
        }
    }

    /// Puts values into the frame from number `first` on.
    pub fn put_values(&mut self, first: usize, values: impl IntoIterator<Item = Value>) {
        let at = self.frame_address();
        for (i, v) in values.into_iter().enumerate() {
            let value = self.get(v);
            let (low, high) = self.code.halves(value);
            let off = 16 * (first + i) as i32;
            self.code.b.ins().store(self.code.regions.frame, low, at, off);
            self.code.b.ins().store(self.code.regions.frame, high, at, off + 8);
        }
    }

    /// Where the frame is, to read or write there.
    pub fn frame_address(&mut self) -> ir::Value {
        self.frame.values.at
    }

    /// The same, as a number.
    pub fn frame_number(&mut self) -> ir::Value {
        self.frame.values.number.get(&mut self.code.b)
    }

    /// A field of the context.
    pub fn fixed(&mut self, off: usize) -> ir::Value {
        self.address(Address::Fixed(off), |t| {
            t.code.b.ins().load(types::I64, t.code.regions.fixed, t.ctx, off as i32)
        })
    }

    /// Whether few packets come to this block, which then should need nothing that others would have to keep for it.
    pub(crate) fn is_exception(&self) -> bool {
        self.known.uses.exceptions[self.here.block.0 as usize]
    }

    // --- calls ------------------------------------------------------------------------------------------------

    /// What goes to a helper that few packets call, and comes back.
    fn passed(&self, h: Helper) -> Option<StackSpace> {
        self.frame.passed.filter(|_| h.is_cold())
    }

    /// Whether this is a slow path.
    pub(crate) fn is_slow_path(&self) -> bool {
        self.frame.passed.is_none()
    }

    /// Calls a helper without a result; `args` are those behind the context.
    pub fn call(&mut self, h: Helper, args: &[ir::Value]) {
        let args = self.with_context(h, args);
        if let Some(passed) = self.passed(h) {
            self.call_cold(h, passed, &args);
        } else {
            let helper = self.calls.helper(self.code.b.func, h, false);
            self.code.b.ins().call(helper, &args);
        }
    }

    /// Calls a helper and gives its result; `args` are those behind the context.
    pub fn result(&mut self, h: Helper, args: &[ir::Value]) -> ir::Value {
        let args = self.with_context(h, args);
        if let (Some(passed), Some(ty)) = (self.passed(h), h.result()) {
            self.call_cold(h, passed, &args);
            return self.code.b.ins().load(ty, self.code.regions.frame, passed.at, 0);
        }
        let helper = self.calls.helper(self.code.b.func, h, false);
        let call = self.code.b.ins().call(helper, &args);
        self.code.b.inst_results(call)[0]
    }

    fn with_context(&mut self, h: Helper, args: &[ir::Value]) -> Vec<ir::Value> {
        let context = h.takes_context().then(|| self.frame.context.get(&mut self.code.b));
        context.into_iter().chain(args.iter().copied()).collect()
    }

    /// Calls a helper by what keeps all registers; its result is where the first argument was.
    fn call_cold(&mut self, h: Helper, passed: StackSpace, args: &[ir::Value]) {
        let helper = self.calls.helper(self.code.b.func, h, true);
        for (i, &arg) in args.iter().enumerate() {
            self.code.b.ins().store(self.code.regions.frame, arg, passed.at, passed_at(i));
        }
        let passed = passed.number.get(&mut self.code.b);
        self.code.b.ins().call(helper, &[passed]);
    }
}

/// The compiler's type for a width; a bit takes a byte, 0 or 1.
pub(crate) fn int(w: Width) -> ir::Type {
    match w {
        Width::W1 | Width::W8 => types::I8,
        Width::W16 => types::I16,
        Width::W32 => types::I32,
        Width::W64 => types::I64,
        Width::W128 => types::I128,
    }
}

/// Most values that a block has in the frame at a time.
fn frame_values(block: &Block) -> usize {
    let ops = block.ops.iter().map(|op| match op {
        Op::Notify { args, .. } => args.len(),
        Op::Fork { target, .. } | Op::Release { target, .. } => target.args.len(),
        _ => 2,
    });
    let end = match &block.end {
        End::Lookup { key, .. } | End::Insert { key, .. } => key.len(),
        End::Claim { key, .. } => key.len() + 3,
        End::Soonest { .. } => 1,
        _ => 0,
    };
    ops.max().unwrap_or(0).max(end)
}
