//! From a program to a function of the compiler: blocks, and the order in which they are translated.

pub(crate) mod addresses;
pub(crate) mod arith;
pub(crate) mod batch;
pub(crate) mod calls;
pub(crate) mod emit;
pub(crate) mod ends;
pub(crate) mod entries;
pub(crate) mod flow_lookup;
pub(crate) mod frame;
pub(crate) mod here;
pub(crate) mod jumps;
pub(crate) mod lanes;
pub(crate) mod layers;
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

use cranelift_codegen::ir::{self, AliasRegionData, MemFlagsData, StackSlot, types};
use cranelift_frontend::FunctionBuilder;
use cranelift_jit::JITModule;
use cranelift_module::ModuleError;
use weir_ir::Known;
use weir_ir::program::{Block, BlockId, End, Op, Program, Width};
use weir_packet::Meta;

use crate::analysis::lanes::Lanes;
use crate::analysis::slow_paths::SlowPaths;
use crate::analysis::starts::{Starts, order};
use crate::analysis::uses::Uses;
use crate::flows::CachePlan;
use crate::translate::batch::Batch;
use crate::translate::calls::Callees;
use crate::translate::emit::Emitter;
use crate::translate::frame::{Frame, slot};
use crate::translate::here::{Analyses, Here};
use crate::translate::jumps::Jumps;
use crate::translate::lanes::LaneState;
use crate::translate::notes::Numbers;
use crate::translate::packet::PacketState;
use crate::translate::tables::Tables;
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
    pub flows: &'a CachePlan,
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

/// Translates one program, with parts that each know their own: instructions, calls, the packet, values, tables, lanes,
/// jumps. Rust's word for a type of the compiler is `ir::`; the program's own come without.
pub(crate) struct Translator<'a, 'b> {
    pub p: &'a Program,
    pub known: Analyses<'a>,
    pub notes: Notes,
    pub code: Emitter<'a, 'b>,
    pub packet: PacketState,
    pub values: Values<'a>,
    pub tables: Tables<'a>,
    pub lanes: LaneState,
    pub jumps: Jumps,
    pub here: Here<'a>,
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
        let known = Analyses { starts, uses, flows, bounds: known };
        let t = Translator {
            p,
            known,
            notes,
            code: Emitter::new(b, Callees::new(module), ctx, frame, regions),
            packet,
            values: Values::new(p),
            tables: Tables::new(p, uses),
            lanes: LaneState::default(),
            jumps: Jumps::new(blocks, uses.loops.clone()),
            here: Here { p, known, block: BlockId(0), op: 0 },
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
        self.packet.at = batch.packet(&mut self.code);
        self.lanes = LaneState::new(&mut self.code.b, lanes);
        for group in &self.lanes.of.groups {
            for b in &group.blocks {
                self.jumps.blocks[b.0 as usize] = self.jumps.blocks[group.blocks[0].0 as usize];
            }
        }
        let mut order = order(self.p, &self.lanes.of);
        let unknown = self.here.unknown(&self.lanes, &order);
        order.retain(|&id| !slow.has(id) || slow.path_at(id).is_some());
        self.tables.given = self.tables.blocks_given_rows(&self.here, &self.lanes, slow);
        for &id in &order {
            self.take_params(id);
            // Apart from the code of the packets that pass.
            if self.known.uses.exceptions[id.0 as usize] || slow.has(id) {
                self.code.b.set_cold_block(self.jumps.blocks[id.0 as usize]);
            }
        }
        let here = self.code.fixed_here();
        if self.tables.used_by(&order) > MOST_AHEAD {
            self.tables.read_ahead = false;
            self.code.regions.fixed = here;
        }
        let usual = self.code.regions.fixed;
        self.dispatch(batch, &order);
        let exchange = (!slow.paths.is_empty()).then(|| self.exchange(slow));
        for &id in &order {
            self.here.block = id;
            // What only paths of few packets need is not read before the loop, where it would take registers from others.
            self.code.regions.fixed = if self.here.is_exception() { here } else { usual };
            self.start_block(self.jumps.blocks[id.0 as usize], !unknown[id.0 as usize]);
            match (slow.path_at(id), &exchange) {
                (Some(number), Some(exchange)) => self.call_slow_path(slow, number, exchange),
                _ => self.translate_block(id),
            }
        }
        self.code.note_nothing();
        batch.close(&mut self.code);
        self.close()
    }

    /// Gives a block its parameters.
    pub fn take_params(&mut self, id: BlockId) {
        let block = self.p.block(id);
        let to = self.jumps.blocks[id.0 as usize];
        for (i, &param) in block.params.iter().enumerate() {
            let ty = self.values.ty(param);
            let value = self.code.b.append_block_param(to, ty);
            self.values.set(param, value);
            for b in self.lanes.of.group(id).map_or(&[][..], |g| &g.blocks) {
                self.values.numbers[self.p.block(*b).params[i].0 as usize] = Some(value);
            }
        }
        if self.tables.is_given(id) {
            let row = self.code.b.append_block_param(to, types::I64);
            let slot = self.values.get(&mut self.code, block.params[0]);
            self.tables.addresses.insert(slot, row);
        }
    }

    /// The operations of a block that was started, and its end.
    pub fn translate_block(&mut self, id: BlockId) {
        let block = self.p.block(id);
        self.notes.probe(&mut self.code, self.p, id);
        self.values.plan(self.known.uses, id);
        for i in 0..block.ops.len() {
            self.notes.note(&mut self.code, id, i);
            if !self.values.is_stored(i) {
                self.lane_op(i);
            }
        }
        self.notes.note(&mut self.code, id, block.ops.len());
        self.lane_end();
    }

    /// What was made, if all went well.
    pub fn close(mut self) -> Result<FunctionBuilder<'b>, Box<ModuleError>> {
        self.code.b.seal_all_blocks();
        self.code.calls.finish().map(|()| self.code.b)
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
