//! Arithmetic on values.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, types};
use weir_ir::program::{BinOp, CmpOp, Value, Width};

use crate::abi::helpers::{Ctx, Helper};
use crate::translate::emit::Emitter;
use crate::translate::int;
use crate::translate::values::Values;

/// Most words of a sum that is not folded.
pub(crate) const MAX_TERMS: u32 = 1 << 15;

impl Values<'_> {
    pub fn binary(
        &mut self,
        code: &mut Emitter<'_, '_>,
        op: BinOp,
        dst: Value,
        a: Value,
        b: Value,
    ) -> ir::Value {
        let width = self.p.width(dst);
        if width == Width::W128
            && let Some(r) = self.by_halves(code, op, a, b)
        {
            return r;
        }
        let (x, y) = (self.get(code, a), self.get(code, b));
        let r = match op {
            BinOp::Add => code.b.ins().iadd(x, y),
            BinOp::Sub => code.b.ins().isub(x, y),
            BinOp::Mul => code.b.ins().imul(x, y),
            BinOp::Rem if width == Width::W128 => {
                self.put_values(code, 0, [a, b]);
                let at = code.frame_address();
                code.call(Helper::Rem, &[at]);
                code.load_value(width, at, 0, code.regions.frame)
            }
            BinOp::Rem => {
                // The machine traps on a divisor of 0; a remainder of 1 is the 0 that is wanted.
                let (zero, one) = (code.imm(int(width), 0), code.imm(int(width), 1));
                let no_divisor = code.b.ins().icmp(IntCC::Equal, y, zero);
                let divisor = code.b.ins().select(no_divisor, one, y);
                code.b.ins().urem(x, divisor)
            }
            BinOp::And => code.b.ins().band(x, y),
            BinOp::Or => code.b.ins().bor(x, y),
            BinOp::Xor => code.b.ins().bxor(x, y),
            BinOp::Shl | BinOp::Shr
                if let Some(by) = self.constant(b).filter(|by| *by < u128::from(width.bits())) =>
            {
                let by = by as i64;
                if op == BinOp::Shl { code.b.ins().ishl_imm_u(x, by) } else { code.b.ins().ushr_imm_u(x, by) }
            }
            BinOp::Shl | BinOp::Shr => {
                // The machine takes the distance modulo the width.
                let r = if op == BinOp::Shl { code.b.ins().ishl(x, y) } else { code.b.ins().ushr(x, y) };
                let bits = code.imm(int(width), width.bits().into());
                let within = code.b.ins().icmp(IntCC::UnsignedLessThan, y, bits);
                let zero = code.imm(int(width), 0);
                code.select(within, r, zero)
            }
        };
        // Of bits that are 0 or 1 these make such bits.
        let is_bit = matches!(op, BinOp::And | BinOp::Or | BinOp::Xor);
        if width == Width::W1 && !is_bit { code.low_bit(r) } else { r }
    }

    pub fn compare(&mut self, code: &mut Emitter<'_, '_>, op: CmpOp, a: Value, b: Value) -> ir::Value {
        let cc = match op {
            CmpOp::Eq => IntCC::Equal,
            CmpOp::Ne => IntCC::NotEqual,
            CmpOp::Lt => IntCC::UnsignedLessThan,
            CmpOp::Le => IntCC::UnsignedLessThanOrEqual,
        };
        if let Some(is) = self.compare_checksum(code, cc, a, b) {
            return is;
        }
        if let Some(equal) = self.compare_forms(code, op, a, b) {
            return equal;
        }
        let (a, b) = (self.get(code, a), self.get(code, b));
        code.b.ins().icmp(cc, a, b)
    }

    /// Whether a checksum is all ones, which it is if the sum before it is folded is a multiple of all ones but 0. By the
    /// inverse of a divisor modulo 2^64, multiples become their quotients, and all else numbers that no quotient is (T.
    /// Granlund and P. L. Montgomery, "Division by invariant integers using multiplication", section 9).
    fn compare_checksum(
        &mut self,
        code: &mut Emitter<'_, '_>,
        cc: IntCC,
        a: Value,
        b: Value,
    ) -> Option<ir::Value> {
        const ONES: u64 = 0xffff;
        const INVERSE: u64 = 0xfffe_fffe_fffe_ffff;
        const _: () = assert!(ONES.wrapping_mul(INVERSE) == 1);
        let (sum, other) = match (self.unfolded.get(&a), self.unfolded.get(&b)) {
            (Some(&sum), _) => (sum, b),
            (None, Some(&sum)) => (sum, a),
            (None, None) => return None,
        };
        if self.constant(other) != Some(ONES.into()) || !matches!(cc, IntCC::Equal | IntCC::NotEqual) {
            return None;
        }
        let inverse = code.imm(types::I64, INVERSE.into());
        let quotient = code.b.ins().imul(sum, inverse);
        let less = code.b.ins().iadd_imm_s(quotient, -1);
        // Quotients have less than 32 bits, as sums have less than 48.
        let cc = match cc {
            IntCC::Equal => IntCC::UnsignedLessThanOrEqual,
            _ => IntCC::UnsignedGreaterThan,
        };
        let most = code.imm(types::I64, u32::MAX.into());
        Some(code.b.ins().icmp(cc, less, most))
    }

    pub fn not(&mut self, code: &mut Emitter<'_, '_>, width: Width, a: Value) -> ir::Value {
        let a = self.get(code, a);
        if width == Width::W1 {
            let one = code.imm(types::I8, 1);
            return code.b.ins().bxor(a, one);
        }
        code.b.ins().bnot(a)
    }

    pub fn resize(&mut self, code: &mut Emitter<'_, '_>, to: Width, a: Value) -> ir::Value {
        let (v, from) = (self.get(code, a), self.ty(a));
        let r = match int(to) {
            types::I128 if from != types::I128 => code.widened(v),
            ty if from == types::I128 && ty != types::I128 => {
                let (low, _) = code.halves(v);
                if ty == types::I64 { low } else { code.b.ins().ireduce(ty, low) }
            }
            ty if ty.bits() > from.bits() => code.extend(ty, v),
            ty if ty.bits() < from.bits() => code.b.ins().ireduce(ty, v),
            _ => v,
        };
        if to == Width::W1 && self.p.width(a) != Width::W1 { code.low_bit(r) } else { r }
    }

    /// Ones' complement sum: a carry out of the 16 bits comes back in. Sums of sums are added up first: only what
    /// something else uses is folded.
    pub fn sum16(&mut self, code: &mut Emitter<'_, '_>, dst: Value, a: Value, b: Value) -> ir::Value {
        let [(a, n), (b, m)] = [a, b].map(|v| match self.sums.get(&v) {
            Some(&sum) => sum,
            None => {
                let value = self.get(code, v);
                (code.extend(types::I32, value), 1)
            }
        });
        let sum = code.b.ins().iadd(a, b);
        // A sum of so few words stays below 32 bits.
        if n + m < MAX_TERMS {
            self.sums.insert(dst, (sum, n + m));
        }
        code.folded(sum)
    }

    /// As [`weir_ir::interp::hash`].
    pub fn hash(&mut self, code: &mut Emitter<'_, '_>, args: &[Value]) -> ir::Value {
        const FIRST: u64 = 0x9e37_79b9_7f4a_7c15;
        let seed = code.fixed(std::mem::offset_of!(Ctx<'_>, hash_seed));
        let first = code.imm(types::I64, FIRST.into());
        let mut h = code.b.ins().bxor(seed, first);
        for &a in args {
            let v = self.get(code, a);
            let (low, high) = code.halves(v);
            let x = code.b.ins().bxor(h, low);
            let turned = code.b.ins().rotl_imm_u(h, 32);
            let odd = code.imm(types::I64, 0xd6e8_feb8_6659_fd93);
            let y = code.b.ins().bxor(turned, odd);
            let y = code.b.ins().bxor(y, high);
            let m = code.product_halves_xored(x, y);
            let more = code.imm(types::I64, 0x5851_f42d_4c95_7f2d);
            h = code.b.ins().bxor(m, more);
        }
        let first = code.imm(types::I64, FIRST.into());
        let h = code.product_halves_xored(h, first);
        code.b.ins().ireduce(types::I32, h)
    }
}
