//! Numbers of 128 bits. The machine has none: they are two halves, of which the code often needs one, or knows one to
//! be 0. So they are worked on half by half, and put together only for what takes them whole. And numbers of fewer bits than
//! a register, which is filled up with zeros when they are loaded.

use cranelift_codegen::ir::{self, InstBuilder, MemFlagsData, types};
use rustc_hash::FxHashMap;
use weir_ir::program::{BinOp, Value};

use crate::compile::Translator;

/// The halves of numbers that were put together, the lower one first.
pub(crate) type Halves = FxHashMap<ir::Value, (ir::Value, ir::Value)>;

impl Translator<'_, '_> {
    /// A number of 128 bits.
    pub(crate) fn wide(&mut self, low: ir::Value, high: ir::Value) -> ir::Value {
        let v = self.b.ins().iconcat(low, high);
        self.wide.insert(v, (low, high));
        v
    }

    /// The lower and upper half of a value in 128 bits.
    pub(crate) fn halves(&mut self, v: ir::Value) -> (ir::Value, ir::Value) {
        if let Some(&halves) = self.wide.get(&v) {
            return halves;
        }
        match self.b.func.dfg.value_type(v) {
            types::I128 => self.b.ins().isplit(v),
            types::I64 => (v, self.imm(types::I64, 0)),
            _ => (self.extend(types::I64, v), self.imm(types::I64, 0)),
        }
    }

    /// What an operation gives for numbers of 128 bits, if it can be done half by half.
    pub(crate) fn by_halves(&mut self, op: BinOp, a: Value, b: Value) -> Option<ir::Value> {
        let v = self.get(a);
        let (low, high) = self.halves(v);
        let (low, high) = match op {
            BinOp::And | BinOp::Or | BinOp::Xor => {
                let other = self.get(b);
                let (other_low, other_high) = self.halves(other);
                let mut half = |a, b| match op {
                    BinOp::And => self.b.ins().band(a, b),
                    BinOp::Or => self.b.ins().bor(a, b),
                    _ => self.b.ins().bxor(a, b),
                };
                (half(low, other_low), half(high, other_high))
            }
            BinOp::Shl | BinOp::Shr => {
                let by = i64::try_from(self.constant(b)?).ok().filter(|by| *by < 128)?;
                let zero = self.imm(types::I64, 0);
                let left = op == BinOp::Shl;
                // The half from which bits come into the other one.
                let (from, to) = if left { (low, high) } else { (high, low) };
                let mut shift = |v, by: i64, left| match left {
                    _ if by == 0 => v,
                    true => self.b.ins().ishl_imm_u(v, by),
                    false => self.b.ins().ushr_imm_u(v, by),
                };
                let (from, to) = match by {
                    0 => (from, to),
                    64.. => (zero, shift(from, by - 64, left)),
                    _ => {
                        let across = shift(from, 64 - by, !left);
                        let (from, to) = (shift(from, by, left), shift(to, by, left));
                        (from, self.b.ins().bor(to, across))
                    }
                };
                if left { (from, to) } else { (to, from) }
            }
            _ => return None,
        };
        Some(self.wide(low, high))
    }

    /// 128 bits are selected in halves: the compiler would make a minimum of some selections, and has none for them.
    pub(crate) fn select(&mut self, cond: ir::Value, a: ir::Value, b: ir::Value) -> ir::Value {
        if self.b.func.dfg.value_type(a) != types::I128 {
            return self.b.ins().select(cond, a, b);
        }
        let ((a_low, a_high), (b_low, b_high)) = (self.halves(a), self.halves(b));
        let low = self.b.ins().select(cond, a_low, b_low);
        let high = self.b.ins().select(cond, a_high, b_high);
        self.wide(low, high)
    }

    /// Reads a number of at most 64 bits. The machine fills the register up with zeros, so more bits cost nothing later.
    pub(crate) fn load(&mut self, ty: ir::Type, at: ir::Value, off: i32, flags: MemFlagsData) -> ir::Value {
        let all = match ty {
            types::I8 => self.b.ins().uload8(types::I64, flags, at, off),
            types::I16 => self.b.ins().uload16(types::I64, flags, at, off),
            types::I32 => self.b.ins().uload32(flags, at, off),
            _ => return self.b.ins().load(ty, flags, at, off),
        };
        let v = self.b.ins().ireduce(ty, all);
        self.extended.insert(v, all);
        v
    }

    /// A number with more bits, up to 64, the new ones 0.
    pub(crate) fn extend(&mut self, to: ir::Type, v: ir::Value) -> ir::Value {
        match self.extended.get(&v) {
            Some(&all) if to == types::I64 => all,
            Some(&all) => self.b.ins().ireduce(to, all),
            None => self.b.ins().uextend(to, v),
        }
    }

    /// From a smaller number to one of 128 bits.
    pub(crate) fn widened(&mut self, v: ir::Value) -> ir::Value {
        let (low, high) = self.halves(v);
        self.wide(low, high)
    }

    /// Both halves as a 128-bit number in the other byte order.
    pub(crate) fn turned_wide(&mut self, v: ir::Value) -> ir::Value {
        let (low, high) = self.halves(v);
        let [low, high] = [low, high].map(|half| self.b.ins().bswap(half));
        self.wide(high, low)
    }
}
