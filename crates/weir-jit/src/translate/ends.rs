//! How blocks end.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, BlockArg, InstBuilder, types};
use cranelift_frontend::Switch;
use weir_ir::Layer;
use weir_ir::program::{Amount, BinOp, BlockId, End, MAX_HOPS, Op, TableId, Target, Value};
use weir_packet::Meta;
use weir_table::network_order;

use crate::abi::helpers::{Helper, NOT_FOUND};
use crate::abi::outcome::Outcome;
use crate::translate::ops::INLINE;
use crate::translate::packet::NOWHERE;
use crate::translate::{Translator, int};

/// Cases that are compared one by one.
const COMPARED: usize = 4;
/// Most "and" and "or" in each other that become branches.
const MOST_PARTS: usize = 3;

/// A block to go to, and what it is given.
type Side = (ir::Block, Vec<BlockArg>);

impl Translator<'_, '_> {
    pub(crate) fn end(&mut self, end: &End) {
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
                let there = self.has(*layer, *n);
                self.branch(there, ok, &[], fail);
            }
            End::Push { n, ok, fail } => self.push(*n, ok, fail),
            End::Unpull { n, ok, fail } => self.unpull(*n, ok, fail),
            End::Put { n, ok, fail } => {
                let n = self.amount(*n);
                let done = self.result(Helper::Put, &[self.packet.at, n]);
                self.packet.places = NOWHERE;
                self.branch(done, ok, &[], fail);
            }
            End::Lookup { table, key, hit, miss } => self.lookup(*table, key, hit, miss),
            End::Insert { table, key, ok, full } => self.insert(*table, key, ok, full),
            End::Claim { table, key, hole, lo, hi, start, ok, full } => {
                self.put_values(0, key.iter().copied().chain([*lo, *hi, *start]));
                let args = [
                    self.code.imm32(table.0),
                    self.frame_number(),
                    self.code.imm32(key.len() as u32),
                    self.code.imm32(*hole),
                ];
                let found = self.result(Helper::Claim, &args);
                let (width, at) = (self.p.width(*lo), self.frame_address());
                let claimed = self.code.load_value(width, at, 16 * key.len() as i32, self.code.regions.frame);
                self.found(found, ok, Some(claimed), full);
            }
            End::Soonest { table, hit, miss } => {
                let args = [self.code.imm32(table.0), self.frame_number()];
                let found = self.result(Helper::Soonest, &args);
                let at = self.frame_address();
                let left = self.code.load_value(weir_ir::program::Width::W64, at, 0, self.code.regions.frame);
                self.found(found, hit, Some(left), miss);
            }
            End::Meter { entry, field, cost, rate, burst, ok, over } => {
                let [table, slot] = self.entry(*entry);
                let field = self.code.imm32(*field);
                let [cost, rate, burst] = [cost, rate, burst].map(|v| self.get(*v));
                let enough = self.result(Helper::Meter, &[table, slot, field, cost, rate, burst]);
                self.branch(enough, ok, &[], over);
            }
            End::Hold { entry, full } => {
                let [table, slot] = self.entry(*entry);
                let held = self.result(Helper::Hold, &[table, slot, self.packet.at]);
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
                self.enter_from_outside(*block);
                let to = self.jumps.block(*block);
                self.reach(*block);
                self.code.b.ins().jump(to, &[]);
            }
            End::Enter { block, back: true } => {
                let hops = self.meta(types::I8, std::mem::offset_of!(Meta, hops));
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
                self.set_meta(std::mem::offset_of!(Meta, hops), hops);
                self.enter_from_outside(*block);
                let to = self.jumps.block(*block);
                self.reach(*block);
                self.code.b.ins().jump(to, &[]);
            }
        }
    }

    pub(crate) fn branch(&mut self, cond: ir::Value, then: &Target, supplied: &[ir::Value], other: &Target) {
        let (then, then_args) = self.edge(then, supplied);
        let (other, other_args) = self.edge(other, &[]);
        self.code.b.ins().brif(cond, then, &then_args, other, &other_args);
    }

    /// Branches on comparisons that are joined by "and" and "or" one by one: nearly always the first ones decide, or all
    /// are false, and a comparison that is branched on is one instruction, where one that makes a value is three.
    fn branch_by_parts(&mut self, cond: Value, then: &Side, other: &Side, most: usize) {
        let Some((op, a, b)) = self.parts_of(cond).filter(|_| most > 0) else {
            let cond = self.get(cond);
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

    /// What an "and" or "or" of the current block joins, if these are comparisons, or joined themselves. A comparison may
    /// stand in another block: it is made again.
    fn parts_of(&self, cond: Value) -> Option<(BinOp, Value, Value)> {
        let ops = &self.p.block(self.here.block).ops;
        let made_by = |v: Value| ops.iter().rev().find(|op| op.dst() == Some(v));
        let Op::Binary { op: op @ (BinOp::And | BinOp::Or), a, b, .. } = *made_by(cond)? else { return None };
        let is_part = |v: Value| {
            let is_joined = || matches!(made_by(v), Some(Op::Binary { op: BinOp::And | BinOp::Or, .. }));
            self.known.uses.compared[v.0 as usize] || is_joined()
        };
        (is_part(a) && is_part(b)).then_some((op, a, b))
    }

    /// Ends the packet's run, with the number of the block if it is dropped.
    fn finish(&mut self, outcome: Outcome) {
        let all = self.numbers(|t, b| {
            outcome.with(match (outcome, &t.p.block(b).end) {
                (Outcome::Over, _) => 0,
                (Outcome::Exit, End::Emit { port: number } | End::Exit { exit: number }) => *number,
                _ => b.0,
            })
        });
        let code = self.by_lane(types::I64, &all);
        self.end_packet(code);
    }

    pub(crate) fn switch(&mut self, value: Value, cases: &[(u128, Target)], default: &Target) {
        if cases.len() <= COMPARED {
            return self.switch_by_comparing(value, cases, default);
        }
        let value = self.get(value);
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
        let form = self.network_form(value);
        for (case, target) in cases {
            let (v, case) = match form {
                Some(form) => (form, network_order(width, *case)),
                None => (self.get(value), *case),
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
            (self.counter(header.block), self.p.block(header.block).loop_limit)
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

    /// Whether there are `n` bytes from a layer on. A mark that is not set is beyond every end.
    fn has(&mut self, layer: Layer, n: Amount) -> ir::Value {
        let (from, end) = (self.position(layer), self.packet_end());
        let n = self.amount(n);
        let [from, end, n] = [from, end, n].map(|v| self.code.extend(types::I64, v));
        let to = self.code.b.ins().iadd(from, n);
        self.code.b.ins().icmp(IntCC::UnsignedLessThanOrEqual, to, end)
    }

    fn push(&mut self, n: Amount, ok: &Target, fail: &Target) {
        if let Amount::Const(n @ 1..=INLINE) = n {
            let data = self.position(Layer::Data);
            if self.has_headroom(n) {
                return self.step_back(data, n, ok);
            }
            let [space, call] = std::array::from_fn(|_| self.code.b.create_block());
            self.code.b.set_cold_block(call);
            let is = self.code.b.ins().icmp_imm_u(IntCC::UnsignedGreaterThanOrEqual, data, i64::from(n));
            self.code.b.ins().brif(is, space, &[], call, &[]);
            self.code.b.switch_to_block(space);
            self.packet.settle(&self.code.b);
            let floor = self.meta(types::I32, Meta::FLOOR_OFFSET);
            let start = self.code.b.ins().iadd_imm_s(data, -i64::from(n));
            let floor = self.code.b.ins().umin(floor, start);
            self.set_meta(Meta::FLOOR_OFFSET, floor);
            self.step_back(data, n, ok);
            self.code.b.switch_to_block(call);
            self.addresses.clear();
        }
        let n = self.amount(n);
        let done = self.result(Helper::Push, &[self.packet.at, n]);
        self.packet.places = NOWHERE;
        self.branch(done, ok, &[], fail);
    }

    /// The packet begins `n` bytes in front of `data`, with zeros, where there is space.
    fn step_back(&mut self, data: ir::Value, n: u32, ok: &Target) {
        let data = self.code.b.ins().iadd_imm_s(data, -i64::from(n));
        self.set_meta(Meta::DATA_OFFSET, data);
        let (at, off) = self.bytes_at(Layer::Data, 0);
        let cleared = if self.writes_first(ok.block, n) { 0 } else { n };
        for (i, ty) in Self::pieces(cleared, types::I64) {
            let zero = self.code.imm(ty, 0);
            self.code.b.ins().store(self.code.regions.bytes, zero, at, off + i as i32);
        }
        let (to, args) = self.edge(ok, &[]);
        self.code.b.ins().jump(to, &args);
    }

    /// Whether a block starts with writing all of a packet's first bytes, before anything can read one. One that stands
    /// for several, where lanes part, is taken for one that does not.
    fn writes_first(&self, b: BlockId, n: u32) -> bool {
        let Some(block) = self.p.blocks.get(b.0 as usize) else { return false };
        let mut written = [false; INLINE as usize];
        for op in &block.ops {
            match *op {
                Op::Store { layer: Layer::Data, off, src } => {
                    let bytes =
                        written.iter_mut().skip(off as usize).take(self.p.width(src).bytes() as usize);
                    bytes.for_each(|byte| *byte = true);
                }
                Op::Const { .. } | Op::Index { .. } | Op::Get { .. } => {}
                Op::SetMark { layer, .. } if layer != Layer::Data => {}
                _ => break,
            }
        }
        written[..n as usize].iter().all(|&w| w)
    }

    fn unpull(&mut self, n: Amount, ok: &Target, fail: &Target) {
        if let Amount::Const(n) = n
            && self.has_headroom(n)
        {
            let data = self.position(Layer::Data);
            let data = self.code.b.ins().iadd_imm_s(data, -i64::from(n));
            self.set_meta(Meta::DATA_OFFSET, data);
            let (ok, args) = self.edge(ok, &[]);
            self.code.b.ins().jump(ok, &args);
            return;
        }
        let n = self.amount(n);
        let data = self.position(Layer::Data);
        let floor = self.meta(types::I32, Meta::FLOOR_OFFSET);
        let most = self.code.b.ins().isub(data, floor);
        let there = self.code.b.ins().icmp(IntCC::UnsignedLessThanOrEqual, n, most);
        let done = self.code.b.create_block();
        let (fail, fail_args) = self.edge(fail, &[]);
        self.code.b.ins().brif(there, done, &[], fail, &fail_args);
        self.code.b.switch_to_block(done);
        self.packet.settle(&self.code.b);
        let data = self.code.b.ins().isub(data, n);
        self.set_meta(Meta::DATA_OFFSET, data);
        let (ok, ok_args) = self.edge(ok, &[]);
        self.code.b.ins().jump(ok, &ok_args);
    }

    pub(crate) fn with_key(&mut self, helper: Helper, table: TableId, key: &[Value]) -> ir::Value {
        self.put_values(0, key.iter().copied());
        let args = [self.code.imm32(table.0), self.frame_number(), self.code.imm32(key.len() as u32)];
        self.result(helper, &args)
    }

    /// Goes on with an entry, and perhaps another value, if there is one.
    pub(crate) fn found(&mut self, found: ir::Value, hit: &Target, with: Option<ir::Value>, miss: &Target) {
        let none = self.code.imm(types::I64, NOT_FOUND.into());
        let is = self.code.b.ins().icmp(IntCC::NotEqual, found, none);
        let slot = self.code.b.ins().ireduce(types::I32, found);
        let supplied: Vec<ir::Value> = [slot].into_iter().chain(with).collect();
        self.branch(is, hit, &supplied, miss);
    }
}
