//! Operations on numbers of 128 bits, half by half.

use cranelift_codegen::ir::{self, InstBuilder, types};
use weir_ir::program::{BinOp, Value};

use crate::translate::emit::Emitter;
use crate::translate::values::Values;

impl Values<'_> {
    /// What an operation gives for numbers of 128 bits, if it can be done half by half.
    pub fn by_halves(
        &mut self,
        code: &mut Emitter<'_, '_>,
        op: BinOp,
        a: Value,
        b: Value,
    ) -> Option<ir::Value> {
        let v = self.get(code, a);
        let (low, high) = code.halves(v);
        let (low, high) = match op {
            BinOp::And | BinOp::Or | BinOp::Xor => {
                let other = self.get(code, b);
                let (other_low, other_high) = code.halves(other);
                let mut half = |a, b| match op {
                    BinOp::And => code.b.ins().band(a, b),
                    BinOp::Or => code.b.ins().bor(a, b),
                    _ => code.b.ins().bxor(a, b),
                };
                (half(low, other_low), half(high, other_high))
            }
            BinOp::Shl | BinOp::Shr => {
                let by = i64::try_from(self.constant(b)?).ok().filter(|by| *by < 128)?;
                let zero = code.imm(types::I64, 0);
                let left = op == BinOp::Shl;
                // The half from which bits come into the other one.
                let (from, to) = if left { (low, high) } else { (high, low) };
                let mut shift = |v, by: i64, left| match left {
                    _ if by == 0 => v,
                    true => code.b.ins().ishl_imm_u(v, by),
                    false => code.b.ins().ushr_imm_u(v, by),
                };
                let (from, to) = match by {
                    0 => (from, to),
                    64.. => (zero, shift(from, by - 64, left)),
                    _ => {
                        let across = shift(from, 64 - by, !left);
                        let (from, to) = (shift(from, by, left), shift(to, by, left));
                        (from, code.b.ins().bor(to, across))
                    }
                };
                if left { (from, to) } else { (to, from) }
            }
            _ => return None,
        };
        Some(code.wide(low, high))
    }
}
