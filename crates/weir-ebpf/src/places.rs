//! Where values stand: two registers that calls leave alone, and the stack.
//!
//! Values that are needed at the same time stand in different places. In static single assignment form it is enough to give
//! each value, where it is defined, a place that no value has which is needed there (S. Hack, D. Grund, G. Goos, "Register
//! allocation for programs in SSA form").

use std::collections::HashMap;

use weir_ir::program::{BlockId, End, Op, Program, Value, Width};

use crate::insn::Reg;
use crate::usage::successors;

/// A place of 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Location {
    /// A register.
    Reg(Reg),
    /// A word of the stack.
    Stack(i16),
}

const REGISTERS: [Reg; 2] = [Reg::R8, Reg::R9];

/// A set of values.
#[derive(Clone, PartialEq, Eq)]
struct Set(Vec<u64>);

impl Set {
    fn add(&mut self, v: Value) -> bool {
        let (w, bit) = (v.0 as usize / 64, 1 << (v.0 % 64));
        let new = self.0[w] & bit == 0;
        self.0[w] |= bit;
        new
    }

    fn remove(&mut self, v: Value) {
        self.0[v.0 as usize / 64] &= !(1 << (v.0 % 64));
    }

    fn iter(&self) -> impl Iterator<Item = Value> + '_ {
        self.0.iter().enumerate().flat_map(|(i, &w)| {
            (0..64).filter(move |b| w >> b & 1 != 0).map(move |b| Value(i as u32 * 64 + b))
        })
    }
}

/// The places of a program's values.
#[derive(Debug)]
pub struct Places {
    /// Numbers of the places, the lower half first.
    of: HashMap<Value, (u32, Option<u32>)>,
    /// How many places there are.
    count: u32,
    /// Where the places on the stack begin.
    base: i16,
    /// Values that are known, and stand nowhere.
    pub constants: HashMap<Value, u128>,
    /// Conditions that are compared where they are branched on.
    pub fused: HashMap<Value, Op>,
}

impl Places {
    /// Gives places to the values of the blocks that are reached.
    pub fn of(program: &Program, reached: &[bool]) -> Places {
        let blocks: Vec<BlockId> =
            (0..program.blocks.len() as u32).map(BlockId).filter(|b| reached[b.0 as usize]).collect();
        let mut uses = HashMap::<Value, u32>::new();
        let mut constants = HashMap::new();
        for &b in &blocks {
            let block = program.block(b);
            for op in &block.ops {
                op.visit_values(|v, defined| *uses.entry(*v).or_default() += u32::from(!defined));
                if let Op::Const { dst, value } = op {
                    constants.insert(*dst, *value);
                }
            }
            block.end.visit_values(|v| *uses.entry(*v).or_default() += 1);
        }
        let mut fused = HashMap::new();
        for &b in &blocks {
            let block = program.block(b);
            let End::Branch { cond, .. } = block.end else { continue };
            let compare = block.ops.iter().find(|op| op.dst() == Some(cond));
            if let Some(op @ Op::Compare { a, .. }) = compare
                && uses.get(&cond) == Some(&1)
                && program.width(*a) != Width::W128
            {
                fused.insert(cond, op.clone());
            }
        }
        let mut p = Places { of: HashMap::new(), count: 0, base: 0, constants, fused };
        let live_in = p.live(program, &blocks);
        for &b in &blocks {
            p.place_block(program, b, &live_in);
        }
        p
    }

    fn empty(program: &Program) -> Set {
        Set(vec![0; program.types.len().div_ceil(64)])
    }

    /// What is needed at the end of a block, without what it passes on.
    fn live_out(program: &Program, b: BlockId, live_in: &HashMap<BlockId, Set>) -> Set {
        let mut live = Places::empty(program);
        for s in successors(program, b) {
            if let Some(set) = live_in.get(&s) {
                set.iter().for_each(|v| _ = live.add(v));
            }
        }
        live
    }

    fn needs_place(&self, v: Value) -> bool {
        !self.constants.contains_key(&v)
    }

    fn use_end(&self, end: &End, live: &mut Set) {
        end.visit_values(|v| match self.fused.get(v) {
            Some(Op::Compare { a, b, .. }) => {
                [a, b].into_iter().filter(|v| self.needs_place(**v)).for_each(|v| _ = live.add(*v));
            }
            _ => {
                if self.needs_place(*v) {
                    live.add(*v);
                }
            }
        });
    }

    fn before(&self, op: &Op, live: &mut Set) {
        if op.dst().is_some_and(|d| self.fused.contains_key(&d)) {
            return;
        }
        op.visit_values(|v, defined| {
            if defined {
                live.remove(*v);
            }
        });
        op.visit_values(|v, defined| {
            if !defined && self.needs_place(*v) {
                live.add(*v);
            }
        });
    }

    /// What is needed at the start of each block, parameters not among it.
    fn live(&self, program: &Program, blocks: &[BlockId]) -> HashMap<BlockId, Set> {
        let mut live_in: HashMap<BlockId, Set> = HashMap::new();
        loop {
            let mut changed = false;
            for &b in blocks.iter().rev() {
                let block = program.block(b);
                let mut live = Places::live_out(program, b, &live_in);
                self.use_end(&block.end, &mut live);
                block.ops.iter().rev().for_each(|op| self.before(op, &mut live));
                block.params.iter().for_each(|v| live.remove(*v));
                if live_in.get(&b) != Some(&live) {
                    live_in.insert(b, live);
                    changed = true;
                }
            }
            if !changed {
                return live_in;
            }
        }
    }

    fn place_block(&mut self, program: &Program, b: BlockId, live_in: &HashMap<BlockId, Set>) {
        let block = program.block(b);
        let mut live = Places::live_out(program, b, live_in);
        self.use_end(&block.end, &mut live);
        // What is needed behind each operation.
        let mut behind = Vec::new();
        for op in block.ops.iter().rev() {
            behind.push(live.clone());
            self.before(op, &mut live);
        }
        // No two parameters have one place, also not those that nobody needs: they are written together.
        block.params.iter().for_each(|v| _ = live.add(*v));
        for v in &block.params {
            self.place(program, *v, &live);
        }
        for (op, behind) in block.ops.iter().zip(behind.iter().rev()) {
            if let Some(dst) = op.dst()
                && self.needs_place(dst)
                && !self.fused.contains_key(&dst)
            {
                self.place(program, dst, behind);
            }
        }
    }

    fn place(&mut self, program: &Program, v: Value, live: &Set) {
        if self.of.contains_key(&v) {
            return;
        }
        let mut taken = Vec::new();
        for other in live.iter().filter(|o| *o != v) {
            if let Some((lo, hi)) = self.of.get(&other) {
                taken.push(*lo);
                taken.extend(hi);
            }
        }
        let mut free = (0..).filter(|n| !taken.contains(n));
        let lo = free.next().unwrap_or(0);
        let hi = if program.width(v) == Width::W128 { free.next() } else { None };
        self.count = self.count.max(lo.max(hi.unwrap_or(0)) + 1);
        self.of.insert(v, (lo, hi));
    }

    /// Bytes of the stack that the values take.
    pub fn stack(&self) -> u32 {
        8 * self.count.saturating_sub(REGISTERS.len() as u32)
    }

    /// Puts the values below this offset from the frame pointer.
    pub fn put_below(&mut self, base: i16) {
        self.base = base;
    }

    /// The places of a value: of its lower 64 bits, and of the others if there are. `None` of what nobody needs.
    pub fn get(&self, v: Value) -> Option<(Location, Option<Location>)> {
        let place = |n: u32| match REGISTERS.get(n as usize) {
            Some(r) => Location::Reg(*r),
            None => Location::Stack(self.base - 8 * (n as i16 - REGISTERS.len() as i16 + 1)),
        };
        self.of.get(&v).map(|&(lo, hi)| (place(lo), hi.map(place)))
    }
}
