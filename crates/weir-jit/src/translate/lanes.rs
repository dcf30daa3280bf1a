//! Code of lanes ([`crate::analysis::lanes`]): what differs from lane to lane is chosen by the lane's number.

use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    self, InstBuilder, MemFlagsData, StackSlot, StackSlotData, StackSlotKind, types,
};
use cranelift_frontend::{FunctionBuilder, Switch, Variable};
use rustc_hash::FxHashMap;
use weir_ir::program::{BlockId, End, Op, TableId, Target, Type, Value};
use weir_table::View;

use crate::abi::helpers::Ctx;
use crate::analysis::lanes::{Group, Lanes};
use crate::translate::Translator;
use crate::translate::emit::Emitter;
use crate::translate::frame::StackSpace;
use crate::translate::here::Here;
use crate::translate::tables::Tables;
use crate::translate::values::Values;

/// Most numbers of cells that are brought together before the loop: each costs the batch a little.
const MOST_VALUES: usize = 64;

/// Numbers of cells that are brought together for lanes.
#[derive(Debug, Default)]
pub(crate) struct Brought {
    count: usize,
    /// Where they are.
    space: Option<(StackSlot, StackSpace)>,
}

/// The lanes of a program while it is translated.
#[derive(Default)]
pub(crate) struct LaneState {
    pub of: Lanes,
    /// For each fork the number of the lane that was taken.
    pub numbers: Vec<Variable>,
    /// The code goes from lanes to paths of their own.
    pub parting: bool,
    /// Cells of tables that depend on the lane: table and index for each.
    pub cells: FxHashMap<Value, Vec<(TableId, u32)>>,
    /// Numbers that were brought together for lanes.
    pub brought: Brought,
}

impl LaneState {
    pub fn new(b: &mut FunctionBuilder<'_>, of: Lanes) -> LaneState {
        let numbers = of.forks.iter().map(|_| b.declare_var(types::I64)).collect();
        LaneState { of, numbers, ..LaneState::default() }
    }

    /// The group of a block.
    pub fn group(&self, block: BlockId) -> Option<&Group> {
        self.of.group(block)
    }

    /// The number of the lane, 64 bits.
    pub fn number(&self, b: &mut FunctionBuilder<'_>, fork: usize) -> ir::Value {
        b.use_var(self.numbers[fork])
    }

    /// Says which lane it is.
    pub fn enter(&self, code: &mut Emitter<'_, '_>, (fork, lane): (usize, usize)) {
        let lane = code.imm(types::I64, lane as u128);
        code.b.def_var(self.numbers[fork], lane);
    }

    /// The fork and the lane of a block that the current one leads to from outside of the lanes.
    pub fn entered_from_outside(&self, here: &Here<'_>, to: BlockId) -> Option<(usize, usize)> {
        let place = self.of.place(to)?;
        let inside = self.group(here.block).is_some_and(|g| g.fork == place.0);
        (self.parting || !inside).then_some(place)
    }

    /// One of these constants, one for each lane of the current block.
    pub fn by_lane(
        &self,
        code: &mut Emitter<'_, '_>,
        here: &Here<'_>,
        ty: ir::Type,
        all: &[u128],
    ) -> ir::Value {
        let Some(fork) = self.group(here.block).map(|g| g.fork).filter(|_| all.iter().any(|&c| c != all[0]))
        else {
            return code.imm(ty, all[0]);
        };
        let lane = self.number(&mut code.b, fork);
        if ty == types::I128 {
            let [low, high] = [0, 64].map(|shift| {
                let half: Vec<u128> = all.iter().map(|c| u128::from((c >> shift) as u64)).collect();
                self.by_lane(code, here, types::I64, &half)
            });
            return code.wide(low, high);
        }
        // Often each is as much greater than the one before.
        let step = all[1].wrapping_sub(all[0]);
        let wide = if all.windows(2).all(|w| w[1].wrapping_sub(w[0]) == step) {
            let (first, step) = (code.imm(types::I64, all[0]), code.imm(types::I64, step));
            let more = code.b.ins().imul(lane, step);
            code.b.ins().iadd(more, first)
        } else {
            let at = code.constants(all);
            let off = code.b.ins().ishl_imm_u(lane, 3);
            let at = code.b.ins().iadd(at, off);
            code.b.ins().load(types::I64, MemFlagsData::trusted(), at, 0)
        };
        if ty == types::I64 { wide } else { code.b.ins().ireduce(ty, wide) }
    }

    /// A 32-bit number that each block of the current group has one of.
    pub fn each(
        &self,
        code: &mut Emitter<'_, '_>,
        here: &Here<'_>,
        of: impl Fn(BlockId) -> u32,
    ) -> ir::Value {
        let all = self.numbers(here, of);
        self.by_lane(code, here, types::I32, &all)
    }

    /// A number for each block of the current group, or for the current block alone.
    pub fn numbers(&self, here: &Here<'_>, of: impl Fn(BlockId) -> u32) -> Vec<u128> {
        match self.group(here.block) {
            Some(g) => g.blocks.iter().map(|&b| of(b).into()).collect(),
            None => vec![of(here.block).into()],
        }
    }

    /// As [`each`](Translator::each), of the current operation.
    pub fn each_op(&self, code: &mut Emitter<'_, '_>, here: &Here<'_>, of: impl Fn(&Op) -> u32) -> ir::Value {
        self.each(code, here, |b| of(&here.p.block(b).ops[here.op]))
    }

    /// Number of an entry's table.
    pub fn table_number(&self, code: &mut Emitter<'_, '_>, here: &Here<'_>, entry: Value) -> ir::Value {
        match self.cells.get(&entry) {
            Some(cells) => {
                let all: Vec<u128> = cells.iter().map(|(t, _)| t.0.into()).collect();
                self.by_lane(code, here, types::I32, &all)
            }
            None => {
                let Type::Entry(t) = here.p.ty(entry) else {
                    unreachable!("the checker proved that this is an entry")
                };
                code.imm32(t.0)
            }
        }
    }

    /// Address of the rows of an entry's table, if that depends on the lane.
    pub fn lane_rows(
        &self,
        code: &mut Emitter<'_, '_>,
        here: &Here<'_>,
        tables: &mut Tables<'_>,
        entry: Value,
    ) -> Option<ir::Value> {
        let cells = self.cells.get(&entry)?;
        let offsets: Vec<u128> = cells.iter().map(|(t, _)| (View::STRIDE * t.0 as usize) as u128).collect();
        // What all have in common stands in the instruction, so that tables side by side share what is computed.
        let first = offsets[0];
        let relative: Vec<u128> =
            offsets.iter().map(|o| u128::from((*o as u64).wrapping_sub(first as u64))).collect();
        let off = self.by_lane(code, here, types::I64, &relative);
        let base = tables.first_table(code, here);
        let at = code.b.ins().iadd(base, off);
        // Not to be read before the lane is known to be one.
        Some(code.b.ins().load(types::I64, code.regions.views, at, (first as usize + View::ROWS) as i32))
    }

    /// What stands at an offset in the cell of the lane, in network byte order, if no program writes it. The numbers of
    /// all lanes are brought together before the loop over the batch, so that a packet reads one and not the address of
    /// it before: most go from there into the packet.
    pub fn lane_value(
        &mut self,
        code: &mut Emitter<'_, '_>,
        here: &Here<'_>,
        tables: &mut Tables<'_>,
        entry: Value,
        off: i32,
        ty: ir::Type,
    ) -> Option<ir::Value> {
        let is_worth_it = tables.read_ahead || !here.is_exception();
        let cells = self.cells.get(&entry).filter(|_| is_worth_it && ty != types::I128)?;
        let cells: Vec<(usize, u32)> = cells.iter().map(|&(t, index)| (t.0 as usize, index)).collect();
        let fork = self.group(here.block)?.fork;
        if cells.iter().any(|&(t, _)| here.known.uses.written[t])
            || self.brought.count + cells.len() > MOST_VALUES
        {
            return None;
        }
        let number = self.brought.count;
        self.brought.count += cells.len();
        let size = 8 * self.brought.count as u32;
        let flags = MemFlagsData::trusted();
        let mut before = code.frame.before(&mut code.b);
        let (slot, space) = *self.brought.space.get_or_insert_with(|| {
            let space = StackSlotData::new(StackSlotKind::ExplicitSlot, size, 3);
            let space = before.func.create_sized_stack_slot(space);
            (space, StackSpace::new(&mut before, space))
        });
        before.func.sized_stack_slots[slot].size = size;
        let first = offset_of!(Ctx<'_>, first_table) as i32;
        let first = before.ins().load(types::I64, flags, code.ctx, first);
        for (i, &(t, index)) in (number..).zip(&cells) {
            let rows = (View::STRIDE * t + View::ROWS) as i32;
            let rows = before.ins().load(types::I64, flags, first, rows);
            let off = off + (index as usize * here.known.uses.layouts[t].stride) as i32;
            let v = before.ins().load(ty, flags, rows, off);
            let v = if ty.bits() > 8 { before.ins().bswap(v) } else { v };
            before.ins().store(flags, v, space.at, 8 * i as i32);
        }
        let lane = self.number(&mut code.b, fork);
        let at = match tables.read_ahead {
            true => space.at,
            false => space.number.get(&mut code.b),
        };
        let more = code.b.ins().ishl_imm_u(lane, 3);
        let at = code.b.ins().iadd(at, more);
        Some(code.load(ty, at, 8 * number as i32, flags))
    }

    /// Table of an entry, and its slot.
    pub fn entry(
        &self,
        code: &mut Emitter<'_, '_>,
        here: &Here<'_>,
        values: &mut Values<'_>,
        v: Value,
    ) -> [ir::Value; 2] {
        [self.table_number(code, here, v), values.get(code, v)]
    }

    /// Whether a program may have removed the entry since it was found.
    pub fn may_be_gone(&self, here: &Here<'_>, entry: Value) -> bool {
        match (self.cells.get(&entry), here.p.ty(entry)) {
            (Some(cells), _) => cells.iter().any(|(t, _)| here.known.uses.removes[t.0 as usize]),
            (None, Type::Entry(t)) => here.known.uses.removes[t.0 as usize],
            (None, Type::Int(_)) => false,
        }
    }
}

impl Translator<'_, '_> {
    /// An operation of the current block, for all lanes.
    pub fn lane_op(&mut self, i: usize) {
        let p = self.p;
        self.here.op = i;
        self.code.settle();
        let first = &p.block(self.here.block).ops[i];
        let next = p.block(self.here.block).ops.get(i + 1).filter(|_| self.values.is_stored(i + 1));
        let Some(group) = self.lanes.group(self.here.block) else { return self.op(first, next) };
        let ops: Vec<&Op> = group.blocks.iter().map(|&b| &p.block(b).ops[i]).collect();
        match first {
            Op::Const { dst, .. } => {
                let all: Vec<u128> = ops.iter().filter_map(|op| constant(op)).collect();
                if all.iter().all(|&c| c == all[0]) {
                    return ops.iter().for_each(|op| self.values.note_form(&mut self.code, op));
                }
                let ty = self.values.ty(*dst);
                let v = self.lanes.by_lane(&mut self.code, &self.here, ty, &all);
                self.values.set(*dst, v);
            }
            Op::Index { dst, .. } => {
                let all: Vec<(TableId, u32)> = ops.iter().filter_map(|op| cell(op)).collect();
                let slots: Vec<u128> = all.iter().map(|c| c.1.into()).collect();
                let slot = self.lanes.by_lane(&mut self.code, &self.here, types::I32, &slots);
                self.values.set(*dst, slot);
                if all.iter().any(|c| c.0 != all[0].0) {
                    self.lanes.cells.insert(*dst, all);
                }
            }
            op => self.op(op, next),
        }
        if let Some(v) = first.dst().and_then(|dst| self.values.numbers[dst.0 as usize]) {
            for other in ops.iter().skip(1).filter_map(|op| op.dst()) {
                self.values.set(other, v);
            }
        }
    }

    /// The end of the current block, for all lanes.
    pub fn lane_end(&mut self) {
        let p = self.p;
        let block = p.block(self.here.block);
        self.code.settle();
        if let Some(fork) = self.lanes.of.fork_at(self.here.block) {
            self.fork(fork, &block.end);
            return self.finish_edges();
        }
        let Some(group) = self.lanes.group(self.here.block).cloned() else {
            self.end(&block.end);
            return self.finish_edges();
        };
        // Where lanes part, a block stands for all that they go to.
        let mut end = block.end.clone();
        let mut parting = Vec::new();
        for (i, t) in end.targets_mut().into_iter().enumerate() {
            let to: Vec<Target> = group.blocks.iter().map(|&b| p.block(b).end.targets()[i].clone()).collect();
            let apart = |t: &Target| self.jumps.block(t.block) != self.jumps.block(to[0].block);
            let across = |(lane, t): (usize, &Target)| {
                self.lanes.of.place(t.block).is_some_and(|(f, l)| f == group.fork && l != lane)
            };
            if to.iter().any(apart) || to.iter().enumerate().any(across) {
                *t = Target { block: self.jumps.virtual_block(&mut self.code.b), args: Vec::new() };
                parting.push((t.block, block.end.supplied(i), to));
            }
        }
        match &end {
            End::Switch { value, cases, default } if self.cases(&group).windows(2).any(|w| w[0] != w[1]) => {
                self.compare_cases(&group, *value, cases, default);
            }
            end => self.end(end),
        }
        self.finish_edges();
        self.lanes.parting = true;
        for (at, supplied, to) in parting {
            self.start_block(self.jumps.block(at), true);
            let params = p.block(to[0].block).params.iter().take(supplied);
            let types: Vec<ir::Type> = params.map(|&v| self.values.ty(v)).collect();
            let here = self.jumps.block(at);
            let supplied: Vec<ir::Value> =
                types.into_iter().map(|ty| self.code.b.append_block_param(here, ty)).collect();
            let mut paths = Switch::new();
            let mut last = None;
            for (lane, t) in to.iter().enumerate() {
                let path = self.path(t, &supplied);
                paths.set_entry(lane as u128, path);
                last = Some(path);
            }
            let lane = self.lanes.number(&mut self.code.b, group.fork);
            paths.emit(&mut self.code.b, lane, last.expect("a group has lanes"));
            self.finish_edges();
        }
        self.lanes.parting = false;
    }

    /// The cases of the switches that blocks end with.
    fn cases(&self, group: &Group) -> Vec<Vec<u128>> {
        let of = |b: &BlockId| match &self.p.block(*b).end {
            End::Switch { cases, .. } => cases.iter().map(|c| c.0).collect(),
            _ => Vec::new(),
        };
        group.blocks.iter().map(of).collect()
    }

    /// A switch whose cases depend on the lane.
    fn compare_cases(&mut self, group: &Group, value: Value, targets: &[(u128, Target)], default: &Target) {
        let all = self.cases(group);
        let (v, ty) = (self.values.get(&mut self.code, value), self.values.ty(value));
        for (i, (_, target)) in targets.iter().enumerate() {
            let cases: Vec<u128> = all.iter().map(|cases| cases[i]).collect();
            let case = self.lanes.by_lane(&mut self.code, &self.here, ty, &cases);
            let is = self.code.b.ins().icmp(IntCC::Equal, v, case);
            let next = self.code.b.create_block();
            let (to, args) = self.edge(target, &[]);
            self.code.b.ins().brif(is, to, &args, next, &[]);
            self.code.b.switch_to_block(next);
        }
        let (to, args) = self.edge(default, &[]);
        self.code.b.ins().jump(to, &args);
    }

    /// Goes to the lanes of a switch as one, and to its other cases.
    fn fork(&mut self, number: usize, end: &End) {
        let End::Switch { value, cases, default } = end else { unreachable!("a fork is a switch") };
        let fork = self.lanes.of.forks[number].clone();
        let v = self.values.get(&mut self.code, *value);
        let ty = self.values.ty(*value);
        let lane = match fork.first {
            0 => v,
            first => {
                let first = self.code.imm(ty, first);
                self.code.b.ins().isub(v, first)
            }
        };
        let wide = if ty == types::I64 { lane } else { self.code.extend(types::I64, lane) };
        self.code.b.def_var(self.lanes.numbers[number], wide);
        let is = self.code.b.ins().icmp_imm_u(IntCC::UnsignedLessThan, wide, fork.paths.len() as i64);
        let (lanes, other) = (self.jumps.block(fork.paths[0]), self.code.b.create_block());
        self.code.b.ins().brif(is, lanes, &[], other, &[]);
        self.jumps.reach(&mut self.code, &mut self.packet, fork.paths[0]);
        self.code.b.switch_to_block(other);
        let end = fork.first + fork.paths.len() as u128;
        let cases: Vec<(u128, Target)> =
            cases.iter().filter(|(c, _)| !(fork.first..end).contains(c)).cloned().collect();
        self.switch(*value, &cases, default);
    }
}

impl Emitter<'_, '_> {
    /// Address of constants in memory, 64 bits each.
    pub fn constants(&mut self, all: &[u128]) -> ir::Value {
        match self.calls.constants(self.b.func, all.iter().map(|&c| c as u64)) {
            Ok(at) => self.b.ins().symbol_value(types::I64, at),
            Err(e) => {
                self.calls.fail(e);
                self.imm(types::I64, 0)
            }
        }
    }
}

fn constant(op: &Op) -> Option<u128> {
    match op {
        Op::Const { value, .. } => Some(*value),
        _ => None,
    }
}

fn cell(op: &Op) -> Option<(TableId, u32)> {
    match op {
        Op::Index { table, index, .. } => Some((*table, *index)),
        _ => None,
    }
}
