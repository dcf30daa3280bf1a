//! From a program to a function of the compiler: blocks, and the order in which they are translated.

use cranelift_codegen::ir::{self, AliasRegionData, FuncRef, InstBuilder, MemFlagsData, StackSlot, types};
use cranelift_frontend::{FunctionBuilder, Variable};
use cranelift_jit::JITModule;
use cranelift_module::{FuncId, Linkage, Module, ModuleError};
use rustc_hash::FxHashMap;
use weir_ir::Known;
use weir_ir::program::{Amount, Block, BlockId, End, Op, Program, TableId, Type, Value, Width};

use weir_packet::Meta;

use crate::ahead::Positions;
use crate::aside::Aside;
use crate::batch::Batch;
use crate::edges::Edge;
use crate::flows::Plan;
use crate::frame::{Frame, Kept, Room, slot};
use crate::helpers::Helper;
use crate::known::{Address, Addresses};
use crate::lanes::Lanes;
use crate::listing::Numbers;
use crate::merged::Brought;
use crate::module::Input;
use crate::network::Network;
use crate::places::{NOWHERE, Places};
use crate::rare::{helper_signature, passed_at, rare_signature};
use crate::starts::{Starts, order};
use crate::uses::Uses;
use crate::wide::Halves;

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

/// What a translation has beside the program.
#[derive(Debug, Clone, Default)]
pub(crate) struct Notes {
    /// The code remembers which operation it comes from.
    pub numbers: Option<Numbers>,
    /// The code reads the clock at the start of these blocks.
    pub probes: Option<Vec<bool>>,
}

/// Translates one program. Rust's word for a type of the compiler is `ir::`; the program's own come without.
pub(crate) struct Translator<'a, 'b> {
    pub p: &'a Program,
    pub starts: &'a Starts,
    pub module: &'a mut JITModule,
    pub b: FunctionBuilder<'b>,
    pub blocks: Vec<ir::Block>,
    pub values: Vec<Option<ir::Value>>,
    /// For each header of a loop that goes round the number of its counter.
    pub loops: Vec<Option<u32>>,
    /// The helpers that are called, each perhaps by what keeps all registers.
    helpers: FxHashMap<(Helper, bool), FuncRef>,
    pub edges: Vec<Edge>,
    pub regions: Regions,
    pub ctx: ir::Value,
    pub packet: ir::Value,
    pub frame: Frame,
    /// Where the layers are, if that is not what the packet says: in a slice.
    pub positions: Option<Positions>,
    /// Ones' complement sums that are not folded, with the number of words in them.
    pub sums: FxHashMap<Value, (ir::Value, u32)>,
    /// Checksums of this block before they are folded.
    pub unfolded: FxHashMap<Value, ir::Value>,
    /// Values in network byte order.
    pub network: Network,
    /// Numbers of 128 bits.
    pub wide: Halves,
    /// Numbers of fewer bits that are in a register of 64 bits, all others of them 0.
    pub extended: FxHashMap<ir::Value, ir::Value>,
    pub uses: &'a Uses,
    /// The addresses of rows that are kept, by slot.
    pub rows: FxHashMap<ir::Value, ir::Value>,
    /// For tables that are searched: minus the address of the first row.
    pub negated_rows: FxHashMap<TableId, Kept>,
    /// Times that come so many nanoseconds after now.
    pub times_kept: FxHashMap<u64, Kept>,
    /// For each block whether it is given the address of the row with its first parameter, an entry.
    pub given_rows: Vec<bool>,
    /// The lookups whose results are kept for each flow.
    pub flows: &'a Plan,
    /// What does not change of tables is read before the loop over packets.
    pub reads_ahead: bool,
    /// The slots of cells, which are constants.
    pub cells: FxHashMap<ir::Value, u32>,
    /// Addresses that are known in this block.
    pub addresses: Addresses,
    /// The block that is being translated.
    pub here: BlockId,
    /// The number of the operation in it.
    pub at: usize,
    pub notes: Notes,
    /// Ways that are one in the code.
    pub lanes: Lanes,
    /// For each fork the number of the lane that was taken.
    pub lane_numbers: Vec<Variable>,
    /// The code goes from lanes to ways of their own.
    pub parting: bool,
    /// Cells of tables that depend on the lane: table and index for each.
    pub lane_cells: FxHashMap<Value, Vec<(TableId, u32)>>,
    /// Numbers that were brought together for lanes.
    pub brought: Brought,
    /// Positions of the packet that are known.
    pub places: Places,
    /// For each position what it is where ways meet that all know it, but not the same.
    pub place_numbers: Vec<Variable>,
    /// The same as `places` for blocks that are still to come.
    pub places_at: FxHashMap<ir::Block, Places>,
    /// The block that dominates what follows.
    pub settled: Option<ir::Block>,
    /// What is known of the packet's bounds.
    pub bounds: &'a Known,
    /// What went wrong on the way.
    pub failed: Option<Box<ModuleError>>,
}

impl<'a, 'b> Translator<'a, 'b> {
    /// Begins a function as `open` does, which is given room for values, and gives the frame and the context.
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
        let place_numbers = (0..POSITIONS).map(|_| b.declare_var(types::I32)).collect();
        let t = Translator {
            p,
            starts,
            module,
            b,
            blocks,
            values: vec![None; p.types.len()],
            loops: uses.loops.clone(),
            helpers: FxHashMap::default(),
            edges: Vec::new(),
            regions,
            ctx,
            packet: ctx,
            frame,
            positions: None,
            sums: FxHashMap::default(),
            unfolded: FxHashMap::default(),
            network: Network::default(),
            wide: Halves::default(),
            extended: FxHashMap::default(),
            uses,
            rows: FxHashMap::default(),
            negated_rows: FxHashMap::default(),
            times_kept: FxHashMap::default(),
            given_rows: Vec::new(),
            flows,
            reads_ahead: true,
            cells: FxHashMap::default(),
            addresses: Addresses::default(),
            here: BlockId(0),
            at: 0,
            notes,
            lanes: Lanes::default(),
            lane_numbers: Vec::new(),
            parting: false,
            lane_cells: FxHashMap::default(),
            brought: Brought::default(),
            places: NOWHERE,
            place_numbers,
            places_at: FxHashMap::default(),
            settled: None,
            bounds: known,
            failed: None,
        };
        (opened, t)
    }

    /// The whole program, but for the ways aside, which are functions of their own.
    pub fn translate(
        mut self,
        batch: &Batch,
        lanes: Lanes,
        aside: &Aside,
    ) -> Result<FunctionBuilder<'b>, Box<ModuleError>> {
        self.take_packet(batch);
        self.lanes = lanes;
        let forks = self.lanes.forks.iter();
        self.lane_numbers = forks.map(|_| self.b.declare_var(types::I64)).collect();
        for group in &self.lanes.groups {
            for b in &group.blocks {
                self.blocks[b.0 as usize] = self.blocks[group.blocks[0].0 as usize];
            }
        }
        let mut order = order(self.p, &self.lanes);
        let unknown = self.unknown(&order);
        order.retain(|&id| !aside.has(id) || aside.way_at(id).is_some());
        self.given_rows = self.blocks_given_rows(aside);
        for &id in &order {
            self.take_params(id);
            // Out of the way of the packets that pass.
            if self.uses.exceptions[id.0 as usize] || aside.has(id) {
                self.b.set_cold_block(self.blocks[id.0 as usize]);
            }
        }
        let here = self.fixed_here();
        if self.tables_used(&order) > MOST_AHEAD {
            self.reads_ahead = false;
            self.regions.fixed = here;
        }
        let usual = self.regions.fixed;
        self.dispatch(batch, &order);
        let exchange = (!aside.ways.is_empty()).then(|| self.exchange(aside));
        for &id in &order {
            self.here = id;
            // What only ways of few packets need is not read before the loop, where it would take registers from others.
            self.regions.fixed = if self.is_exception() { here } else { usual };
            self.start_block(self.blocks[id.0 as usize], !unknown[id.0 as usize]);
            match (aside.way_at(id), &exchange) {
                (Some(number), Some(exchange)) => self.call_way(aside, number, exchange),
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
        let to = self.blocks[id.0 as usize];
        for (i, &param) in block.params.iter().enumerate() {
            let ty = self.ty(param);
            let value = self.b.append_block_param(to, ty);
            self.set(param, value);
            for b in self.lanes.group(id).map_or(&[][..], |g| &g.blocks) {
                self.values[self.p.block(*b).params[i].0 as usize] = Some(value);
            }
        }
        if self.is_given_row(id) {
            let row = self.b.append_block_param(to, types::I64);
            let slot = self.get(block.params[0]);
            self.rows.insert(slot, row);
        }
    }

    /// What does not change during a run, to be read where it is needed.
    pub(crate) fn fixed_here(&self) -> MemFlagsData {
        let here = MemFlagsData::new().with_notrap().with_aligned().with_readonly();
        here.with_alias_region(self.regions.fixed.alias_region())
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

    /// Something went wrong: what is made is of no use.
    pub(crate) fn fail(&mut self, e: impl Into<Box<ModuleError>>) {
        self.failed.get_or_insert(e.into());
    }

    /// What was made, if all went well.
    pub(crate) fn close(mut self) -> Result<FunctionBuilder<'b>, Box<ModuleError>> {
        self.b.seal_all_blocks();
        match self.failed {
            Some(e) => Err(e),
            None => Ok(self.b),
        }
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
        if let Some(value) = self.values[v.0 as usize] {
            return value;
        }
        let constant = self.constant(v).expect("the checker proved that the value is defined here");
        let ty = self.ty(v);
        self.address(Address::Constant(v), |t| t.imm(ty, constant))
    }

    pub fn set(&mut self, v: Value, to: ir::Value) {
        self.values[v.0 as usize] = Some(to);
    }

    /// Table of an entry, and its slot.
    pub fn entry(&mut self, v: Value) -> [ir::Value; 2] {
        [self.table_number(v), self.get(v)]
    }

    pub fn imm(&mut self, ty: ir::Type, value: u128) -> ir::Value {
        if ty != types::I128 {
            return self.b.ins().iconst(ty, value as i64);
        }
        let low = self.b.ins().iconst(types::I64, value as i64);
        let high = self.b.ins().iconst(types::I64, (value >> 64) as i64);
        self.wide(low, high)
    }

    pub fn imm32(&mut self, value: u32) -> ir::Value {
        self.imm(types::I32, value.into())
    }

    pub fn amount(&mut self, n: Amount) -> ir::Value {
        match n {
            Amount::Const(n) => self.imm32(n),
            Amount::Value(v) => self.get(v),
        }
    }

    /// A value from memory in the machine's byte order.
    pub fn load_value(&mut self, w: Width, at: ir::Value, off: i32, flags: MemFlagsData) -> ir::Value {
        let v = match w {
            Width::W128 => {
                let low = self.b.ins().load(types::I64, flags, at, off);
                let high = self.b.ins().load(types::I64, flags, at, off + 8);
                return self.wide(low, high);
            }
            _ => self.load(int(w), at, off, flags),
        };
        if w == Width::W1 { self.low_bit(v) } else { v }
    }

    pub fn low_bit(&mut self, v: ir::Value) -> ir::Value {
        let one = self.imm(types::I8, 1);
        self.b.ins().band(v, one)
    }

    /// Puts values into the frame from number `first` on.
    pub fn put_values(&mut self, first: usize, values: impl IntoIterator<Item = Value>) {
        let at = self.frame_address();
        for (i, v) in values.into_iter().enumerate() {
            let value = self.get(v);
            let (low, high) = self.halves(value);
            let off = 16 * (first + i) as i32;
            self.b.ins().store(self.regions.frame, low, at, off);
            self.b.ins().store(self.regions.frame, high, at, off + 8);
        }
    }

    /// Where the frame is, to read or write there.
    pub fn frame_address(&mut self) -> ir::Value {
        self.frame.values.at
    }

    /// The same, as a number.
    pub fn frame_number(&mut self) -> ir::Value {
        self.frame.values.number.get(&mut self.b)
    }

    /// A field of the context.
    pub fn fixed(&mut self, off: usize) -> ir::Value {
        self.address(Address::Fixed(off), |t| t.b.ins().load(types::I64, t.regions.fixed, t.ctx, off as i32))
    }

    /// Whether few packets come to this block, which then should need nothing that others would have to keep for it.
    pub(crate) fn is_exception(&self) -> bool {
        self.uses.exceptions[self.here.0 as usize]
    }

    // --- calls ------------------------------------------------------------------------------------------------

    /// A helper, or what keeps all registers and calls it.
    fn helper(&mut self, h: Helper, rarely: bool) -> FuncRef {
        if let Some(&reference) = self.helpers.get(&(h, rarely)) {
            return reference;
        }
        let (name, signature) = match rarely {
            true => (h.rare_name(), rare_signature(self.module)),
            false => (h.name().to_owned(), helper_signature(self.module, h)),
        };
        let id = match self.module.declare_function(&name, Linkage::Import, &signature) {
            Ok(id) => id,
            Err(e) => {
                self.fail(e);
                FuncId::from_u32(0)
            }
        };
        let reference = self.module.declare_func_in_func(id, self.b.func);
        self.helpers.insert((h, rarely), reference);
        reference
    }

    /// What goes to a helper that few packets call, and comes back.
    fn passed(&self, h: Helper) -> Option<Room> {
        self.frame.passed.filter(|_| h.is_rare())
    }

    /// Whether this is a way aside.
    pub(crate) fn is_aside(&self) -> bool {
        self.frame.passed.is_none()
    }

    /// Calls a helper without a result; `args` are those behind the context.
    pub fn call(&mut self, h: Helper, args: &[ir::Value]) {
        let args = self.with_context(h, args);
        if let Some(passed) = self.passed(h) {
            self.call_rarely(h, passed, &args);
        } else {
            let helper = self.helper(h, false);
            self.b.ins().call(helper, &args);
        }
    }

    /// Calls a helper and gives its result; `args` are those behind the context.
    pub fn result(&mut self, h: Helper, args: &[ir::Value]) -> ir::Value {
        let args = self.with_context(h, args);
        if let (Some(passed), Some(ty)) = (self.passed(h), h.result()) {
            self.call_rarely(h, passed, &args);
            return self.b.ins().load(ty, self.regions.frame, passed.at, 0);
        }
        let helper = self.helper(h, false);
        let call = self.b.ins().call(helper, &args);
        self.b.inst_results(call)[0]
    }

    fn with_context(&mut self, h: Helper, args: &[ir::Value]) -> Vec<ir::Value> {
        let context = h.takes_context().then(|| self.frame.context.get(&mut self.b));
        context.into_iter().chain(args.iter().copied()).collect()
    }

    /// Calls a helper by what keeps all registers; its result is where the first argument was.
    fn call_rarely(&mut self, h: Helper, passed: Room, args: &[ir::Value]) {
        let helper = self.helper(h, true);
        for (i, &arg) in args.iter().enumerate() {
            self.b.ins().store(self.regions.frame, arg, passed.at, passed_at(i));
        }
        let passed = passed.number.get(&mut self.b);
        self.b.ins().call(helper, &[passed]);
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
