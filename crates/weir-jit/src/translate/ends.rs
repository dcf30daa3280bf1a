//! How blocks end.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, BlockArg, InstBuilder, types};
use cranelift_frontend::Switch;
use weir_ir::Layer;
use weir_ir::program::{Amount, BinOp, End, MAX_HOPS, TableId, Target, Value};
use weir_packet::Meta;
use weir_table::network_order;

use crate::abi::helpers::{Helper, NOT_FOUND};
use crate::abi::outcome::Outcome;
use crate::translate::emit::Emitter;
use crate::translate::layers::{INLINE, pieces};
use crate::translate::packet::{NOWHERE, PacketState};
use crate::translate::values::Values;
use crate::translate::{Translator, int};

/// Cases that are compared one by one.
const COMPARED: usize = 4;
/// Most "and" and "or" in each other that become branches.
const MOST_PARTS: usize = 3;

/// A block to go to, and what it is given.
type Side = (ir::Block, Vec<BlockArg>);

impl Translator<'_, '_> {
    pub fn end(&mut self, end: &End) {
        match end {
            End::Jump(t) => {
                let (to, args) = self.edge(t, &[]);
                self.code.b.ins().jump(to, &args);
            }
            End::Branch { cond, then, other } => {
                let (then, other) = (self.edge(then, &[]), self.edge(other, &[]));
                self.branch_by_parts(*cond, &then, &other, MOST_PARTS);
            }
            End::Switch { value, cases, default } => self.switch(*value, cases, default),
            End::Again { header, exit } => self.again(header, exit),
            End::Require { layer, n, ok, fail } => {
                let there = self.packet.has(&mut self.code, &mut self.values, *layer, *n);
                self.branch(there, ok, &[], fail);
            }
            End::Push { n, ok, fail } => self.push(*n, ok, fail),
            End::Unpull { n, ok, fail } => self.unpull(*n, ok, fail),
            End::Put { n, ok, fail } => {
                let n = self.values.amount(&mut self.code, *n);
                let done = self.code.result(Helper::Put, &[self.packet.at, n]);
                self.packet.places = NOWHERE;
                self.branch(done, ok, &[], fail);
            }
            End::Lookup { table, key, hit, miss } => self.lookup(*table, key, hit, miss),
            End::Insert { table, key, ok, full } => self.insert(*table, key, ok, full),
            End::Claim { table, key, hole, lo, hi, start, ok, full } => {
                self.values.put_values(&mut self.code, 0, key.iter().copied().chain([*lo, *hi, *start]));
                let args = [
                    self.code.imm32(table.0),
                    self.code.frame_number(),
                    self.code.imm32(key.len() as u32),
                    self.code.imm32(*hole),
                ];
                let found = self.code.result(Helper::Claim, &args);
                let (width, at) = (self.p.width(*lo), self.code.frame_address());
                let claimed = self.code.load_value(width, at, 16 * key.len() as i32, self.code.regions.frame);
                self.found(found, ok, Some(claimed), full);
            }
            End::Soonest { table, hit, miss } => {
                let args = [self.code.imm32(table.0), self.code.frame_number()];
                let found = self.code.result(Helper::Soonest, &args);
                let at = self.code.frame_address();
                let left = self.code.load_value(weir_ir::program::Width::W64, at, 0, self.code.regions.frame);
                self.found(found, hit, Some(left), miss);
            }
            End::Meter { entry, field, cost, rate, burst, ok, over } => {
                let [table, slot] = self.lanes.entry(&mut self.code, &self.here, &mut self.values, *entry);
                let field = self.code.imm32(*field);
                let [cost, rate, burst] = [cost, rate, burst].map(|v| self.values.get(&mut self.code, *v));
                let enough = self.code.result(Helper::Meter, &[table, slot, field, cost, rate, burst]);
                self.branch(enough, ok, &[], over);
            }
            End::Hold { entry, full } => {
                let [table, slot] = self.lanes.entry(&mut self.code, &self.here, &mut self.values, *entry);
                let held = self.code.result(Helper::Hold, &[table, slot, self.packet.at]);
                let over = self.code.b.create_block();
                let (to, args) = self.edge(full, &[]);
                self.code.b.ins().brif(held, over, &[], to, &args);
                self.code.b.switch_to_block(over);
                self.finish(Outcome::Over);
            }
            End::Emit { .. } | End::Exit { .. } => self.finish(Outcome::Exit),
            End::Drop { .. } => self.finish(Outcome::Dropped),
            End::Finish => self.finish(Outcome::Over),
            End::Enter { block, back: false } => {
                self.jumps.enter_from_outside(&mut self.code, *block);
                let to = self.jumps.block(*block);
                self.jumps.reach(&mut self.code, &mut self.packet, *block);
                self.code.b.ins().jump(to, &[]);
            }
            End::Enter { block, back: true } => {
                let hops = self.packet.meta(&mut self.code, types::I8, std::mem::offset_of!(Meta, hops));
                let most = self.code.imm(types::I8, MAX_HOPS.into());
                let over = self.code.b.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, hops, most);
                let (drop, go) = (self.code.b.create_block(), self.code.b.create_block());
                self.code.b.set_cold_block(drop);
                self.code.b.ins().brif(over, drop, &[], go, &[]);
                self.code.b.switch_to_block(drop);
                self.finish(Outcome::Dropped);
                self.code.b.switch_to_block(go);
                let one = self.code.imm(types::I8, 1);
                let hops = self.code.b.ins().iadd(hops, one);
                self.packet.set_meta(&mut self.code, std::mem::offset_of!(Meta, hops), hops);
                self.jumps.enter_from_outside(&mut self.code, *block);
                let to = self.jumps.block(*block);
                self.jumps.reach(&mut self.code, &mut self.packet, *block);
                self.code.b.ins().jump(to, &[]);
            }
        }
    }

    pub fn branch(&mut self, cond: ir::Value, then: &Target, supplied: &[ir::Value], other: &Target) {
        let (then, then_args) = self.edge(then, supplied);
        let (other, other_args) = self.edge(other, &[]);
        self.code.b.ins().brif(cond, then, &then_args, other, &other_args);
    }

    /// Branches on comparisons that are joined by "and" and "or" one by one: nearly always the first ones decide, or all
    /// are false, and a comparison that is branched on is one instruction, where one that makes a value is three.
    fn branch_by_parts(&mut self, cond: Value, then: &Side, other: &Side, most: usize) {
        let Some((op, a, b)) = self.here.parts_of(cond).filter(|_| most > 0) else {
            let cond = self.values.get(&mut self.code, cond);
            self.code.b.ins().brif(cond, then.0, &then.1, other.0, &other.1);
            return;
        };
        let next = (self.code.b.create_block(), Vec::new());
        match op {
            BinOp::And => self.branch_by_parts(a, &next, other, most - 1),
            _ => self.branch_by_parts(a, then, &next, most - 1),
        }
        self.code.b.switch_to_block(next.0);
        self.branch_by_parts(b, then, other, most - 1);
    }

    /// Ends the packet's run, with the number of the block if it is dropped.
    fn finish(&mut self, outcome: Outcome) {
        let p = self.p;
        let all = self.lanes.numbers(&self.here, |b| {
            outcome.with(match (outcome, &p.block(b).end) {
                (Outcome::Over, _) => 0,
                (Outcome::Exit, End::Emit { port: number } | End::Exit { exit: number }) => *number,
                _ => b.0,
            })
        });
        let code = self.lanes.by_lane(&mut self.code, &self.here, types::I64, &all);
        self.code.end_packet(code);
    }

    pub fn switch(&mut self, value: Value, cases: &[(u128, Target)], default: &Target) {
        if cases.len() <= COMPARED {
            return self.switch_by_comparing(value, cases, default);
        }
        let value = self.values.get(&mut self.code, value);
        let mut paths = Switch::new();
        for (case, target) in cases {
            // The first of equal cases counts.
            if !paths.entries().contains_key(case) {
                let path = self.path(target, &[]);
                paths.set_entry(*case, path);
            }
        }
        let default = self.path(default, &[]);
        paths.emit(&mut self.code.b, value, default);
    }

    fn switch_by_comparing(&mut self, value: Value, cases: &[(u128, Target)], default: &Target) {
        let width = self.p.width(value);
        let form = self.values.network_form(&mut self.code, value);
        for (case, target) in cases {
            let (v, case) = match form {
                Some(form) => (form, network_order(width, *case)),
                None => (self.values.get(&mut self.code, value), *case),
            };
            let case = self.code.imm(int(width), case);
            let is = self.code.b.ins().icmp(IntCC::Equal, v, case);
            let next = self.code.b.create_block();
            let path = self.path(target, &[]);
            self.code.b.ins().brif(is, path, &[], next, &[]);
            self.code.b.switch_to_block(next);
        }
        let default = self.path(default, &[]);
        self.code.b.ins().jump(default, &[]);
    }

    fn again(&mut self, header: &Target, exit: &Target) {
        let (Some((at, off)), Some(limit)) =
            (self.jumps.counter(&mut self.code, header.block), self.p.block(header.block).loop_limit)
        else {
            unreachable!("the checker proved that this is the header of a loop")
        };
        let rounds = self.code.b.ins().load(types::I32, self.code.regions.rounds, at, off);
        let limit = self.code.imm32(limit);
        let done = self.code.b.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, rounds, limit);
        let next = self.code.b.create_block();
        let (exit, exit_args) = self.edge(exit, &[]);
        self.code.b.ins().brif(done, exit, &exit_args, next, &[]);
        self.code.b.switch_to_block(next);
        let one = self.code.imm32(1);
        let rounds = self.code.b.ins().iadd(rounds, one);
        self.code.b.ins().store(self.code.regions.rounds, rounds, at, off);
        let (header, args) = self.back_edge(header);
        self.code.b.ins().jump(header, &args);
    }

    fn push(&mut self, n: Amount, ok: &Target, fail: &Target) {
        if let Amount::Const(n @ 1..=INLINE) = n {
            let data = self.packet.position(&mut self.code, Layer::Data);
            if self.here.has_headroom(&self.lanes, n) {
                return self.step_back(data, n, ok);
            }
            let [space, call] = std::array::from_fn(|_| self.code.b.create_block());
            self.code.b.set_cold_block(call);
            let is = self.code.b.ins().icmp_imm_u(IntCC::UnsignedGreaterThanOrEqual, data, i64::from(n));
            self.code.b.ins().brif(is, space, &[], call, &[]);
            self.code.b.switch_to_block(space);
            self.code.settle();
            let floor = self.packet.meta(&mut self.code, types::I32, Meta::FLOOR_OFFSET);
            let start = self.code.b.ins().iadd_imm_s(data, -i64::from(n));
            let floor = self.code.b.ins().umin(floor, start);
            self.packet.set_meta(&mut self.code, Meta::FLOOR_OFFSET, floor);
            self.step_back(data, n, ok);
            self.code.b.switch_to_block(call);
            self.code.addresses.clear();
        }
        let n = self.values.amount(&mut self.code, n);
        let done = self.code.result(Helper::Push, &[self.packet.at, n]);
        self.packet.places = NOWHERE;
        self.branch(done, ok, &[], fail);
    }

    /// The packet begins `n` bytes in front of `data`, with zeros, where there is space.
    fn step_back(&mut self, data: ir::Value, n: u32, ok: &Target) {
        let data = self.code.b.ins().iadd_imm_s(data, -i64::from(n));
        self.packet.set_meta(&mut self.code, Meta::DATA_OFFSET, data);
        let (at, off) = self.packet.bytes_at(&mut self.code, Layer::Data, 0);
        let cleared = if self.here.writes_first(ok.block, n) { 0 } else { n };
        for (i, ty) in pieces(cleared, types::I64) {
            let zero = self.code.imm(ty, 0);
            self.code.b.ins().store(self.code.regions.bytes, zero, at, off + i as i32);
        }
        let (to, args) = self.edge(ok, &[]);
        self.code.b.ins().jump(to, &args);
    }

    fn unpull(&mut self, n: Amount, ok: &Target, fail: &Target) {
        if let Amount::Const(n) = n
            && self.here.has_headroom(&self.lanes, n)
        {
            let data = self.packet.position(&mut self.code, Layer::Data);
            let data = self.code.b.ins().iadd_imm_s(data, -i64::from(n));
            self.packet.set_meta(&mut self.code, Meta::DATA_OFFSET, data);
            let (ok, args) = self.edge(ok, &[]);
            self.code.b.ins().jump(ok, &args);
            return;
        }
        let n = self.values.amount(&mut self.code, n);
        let data = self.packet.position(&mut self.code, Layer::Data);
        let floor = self.packet.meta(&mut self.code, types::I32, Meta::FLOOR_OFFSET);
        let most = self.code.b.ins().isub(data, floor);
        let there = self.code.b.ins().icmp(IntCC::UnsignedLessThanOrEqual, n, most);
        let done = self.code.b.create_block();
        let (fail, fail_args) = self.edge(fail, &[]);
        self.code.b.ins().brif(there, done, &[], fail, &fail_args);
        self.code.b.switch_to_block(done);
        self.code.settle();
        let data = self.code.b.ins().isub(data, n);
        self.packet.set_meta(&mut self.code, Meta::DATA_OFFSET, data);
        let (ok, ok_args) = self.edge(ok, &[]);
        self.code.b.ins().jump(ok, &ok_args);
    }

    /// Goes on with an entry, and perhaps another value, if there is one.
    pub fn found(&mut self, found: ir::Value, hit: &Target, with: Option<ir::Value>, miss: &Target) {
        let none = self.code.imm(types::I64, NOT_FOUND.into());
        let is = self.code.b.ins().icmp(IntCC::NotEqual, found, none);
        let slot = self.code.b.ins().ireduce(types::I32, found);
        let supplied: Vec<ir::Value> = [slot].into_iter().chain(with).collect();
        self.branch(is, hit, &supplied, miss);
    }
}

impl PacketState {
    /// Whether there are `n` bytes from a layer on. A mark that is not set is beyond every end.
    pub fn has(
        &mut self,
        code: &mut Emitter<'_, '_>,
        values: &mut Values<'_>,
        layer: Layer,
        n: Amount,
    ) -> ir::Value {
        let (from, end) = (self.position(code, layer), self.end(code));
        let n = values.amount(code, n);
        let [from, end, n] = [from, end, n].map(|v| code.extend(types::I64, v));
        let to = code.b.ins().iadd(from, n);
        code.b.ins().icmp(IntCC::UnsignedLessThanOrEqual, to, end)
    }
}

impl Values<'_> {
    pub fn with_key(
        &mut self,
        code: &mut Emitter<'_, '_>,
        helper: Helper,
        table: TableId,
        key: &[Value],
    ) -> ir::Value {
        self.put_values(code, 0, key.iter().copied());
        let args = [code.imm32(table.0), code.frame_number(), code.imm32(key.len() as u32)];
        code.result(helper, &args)
    }
}
