//! Arithmetic on values.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, types};
use weir_ir::program::{BinOp, CmpOp, Value, Width};

use crate::abi::helpers::{Ctx, Helper};
use crate::translate::{Translator, int};

/// Most words of a sum that is not folded.
pub(crate) const MAX_TERMS: u32 = 1 << 15;

impl Translator<'_, '_> {
    pub(crate) fn binary(&mut self, op: BinOp, dst: Value, a: Value, b: Value) -> ir::Value {
        let width = self.p.width(dst);
        if width == Width::W128
            && let Some(r) = self.by_halves(op, a, b)
        {
            return r;
        }
        let (x, y) = (self.get(a), self.get(b));
        let r = match op {
            BinOp::Add => self.code.b.ins().iadd(x, y),
            BinOp::Sub => self.code.b.ins().isub(x, y),
            BinOp::Mul => self.code.b.ins().imul(x, y),
            BinOp::Rem if width == Width::W128 => {
                self.put_values(0, [a, b]);
                let at = self.frame_address();
                self.call(Helper::Rem, &[at]);
                self.code.load_value(width, at, 0, self.code.regions.frame)
            }
            BinOp::Rem => {
                // The machine traps on a divisor of 0; a remainder of 1 is the 0 that is wanted.
                let (zero, one) = (self.code.imm(int(width), 0), self.code.imm(int(width), 1));
                let no_divisor = self.code.b.ins().icmp(IntCC::Equal, y, zero);
                let divisor = self.code.b.ins().select(no_divisor, one, y);
                self.code.b.ins().urem(x, divisor)
            }
            BinOp::And => self.code.b.ins().band(x, y),
            BinOp::Or => self.code.b.ins().bor(x, y),
            BinOp::Xor => self.code.b.ins().bxor(x, y),
            BinOp::Shl | BinOp::Shr
                if let Some(by) = self.values.constant(b).filter(|by| *by < u128::from(width.bits())) =>
            {
                let by = by as i64;
                if op == BinOp::Shl {
                    self.code.b.ins().ishl_imm_u(x, by)
                } else {
                    self.code.b.ins().ushr_imm_u(x, by)
                }
            }
            BinOp::Shl | BinOp::Shr => {
                // The machine takes the distance modulo the width.
                let r = if op == BinOp::Shl {
                    self.code.b.ins().ishl(x, y)
                } else {
                    self.code.b.ins().ushr(x, y)
                };
                let bits = self.code.imm(int(width), width.bits().into());
                let within = self.code.b.ins().icmp(IntCC::UnsignedLessThan, y, bits);
                let zero = self.code.imm(int(width), 0);
                self.code.select(within, r, zero)
            }
        };
        // Of bits that are 0 or 1 these make such bits.
        let is_bit = matches!(op, BinOp::And | BinOp::Or | BinOp::Xor);
        if width == Width::W1 && !is_bit { self.code.low_bit(r) } else { r }
    }

    pub(crate) fn compare(&mut self, op: CmpOp, a: Value, b: Value) -> ir::Value {
        let code = match op {
            CmpOp::Eq => IntCC::Equal,
            CmpOp::Ne => IntCC::NotEqual,
            CmpOp::Lt => IntCC::UnsignedLessThan,
            CmpOp::Le => IntCC::UnsignedLessThanOrEqual,
        };
        if let Some(is) = self.compare_checksum(code, a, b) {
            return is;
        }
        if let Some(equal) = self.compare_forms(op, a, b) {
            return equal;
        }
        let (a, b) = (self.get(a), self.get(b));
        self.code.b.ins().icmp(code, a, b)
    }

    /// Whether a checksum is all ones, which it is if the sum before it is folded is a multiple of all ones but 0. By the
    /// inverse of a divisor modulo 2^64, multiples become their quotients, and all else numbers that no quotient is (T.
    /// Granlund and P. L. Montgomery, "Division by invariant integers using multiplication", section 9).
    fn compare_checksum(&mut self, code: IntCC, a: Value, b: Value) -> Option<ir::Value> {
        const ONES: u64 = 0xffff;
        const INVERSE: u64 = 0xfffe_fffe_fffe_ffff;
        const _: () = assert!(ONES.wrapping_mul(INVERSE) == 1);
        let (sum, other) = match (self.values.unfolded.get(&a), self.values.unfolded.get(&b)) {
            (Some(&sum), _) => (sum, b),
            (None, Some(&sum)) => (sum, a),
            (None, None) => return None,
        };
        if self.values.constant(other) != Some(ONES.into()) || !matches!(code, IntCC::Equal | IntCC::NotEqual)
        {
            return None;
        }
        let inverse = self.code.imm(types::I64, INVERSE.into());
        let quotient = self.code.b.ins().imul(sum, inverse);
        let less = self.code.b.ins().iadd_imm_s(quotient, -1);
        // Quotients have less than 32 bits, as sums have less than 48.
        let code = match code {
            IntCC::Equal => IntCC::UnsignedLessThanOrEqual,
            _ => IntCC::UnsignedGreaterThan,
        };
        let most = self.code.imm(types::I64, u32::MAX.into());
        Some(self.code.b.ins().icmp(code, less, most))
    }

    pub(crate) fn not(&mut self, width: Width, a: Value) -> ir::Value {
        let a = self.get(a);
        if width == Width::W1 {
            let one = self.code.imm(types::I8, 1);
            return self.code.b.ins().bxor(a, one);
        }
        self.code.b.ins().bnot(a)
    }

    pub(crate) fn resize(&mut self, to: Width, a: Value) -> ir::Value {
        let (v, from) = (self.get(a), self.ty(a));
        let r = match int(to) {
            types::I128 if from != types::I128 => self.code.widened(v),
            ty if from == types::I128 && ty != types::I128 => {
                let (low, _) = self.code.halves(v);
                if ty == types::I64 { low } else { self.code.b.ins().ireduce(ty, low) }
            }
            ty if ty.bits() > from.bits() => self.code.extend(ty, v),
            ty if ty.bits() < from.bits() => self.code.b.ins().ireduce(ty, v),
            _ => v,
        };
        if to == Width::W1 && self.p.width(a) != Width::W1 { self.code.low_bit(r) } else { r }
    }

    /// Ones' complement sum: a carry out of the 16 bits comes back in. Sums of sums are added up first: only what
    /// something else uses is folded.
    pub(crate) fn sum16(&mut self, dst: Value, a: Value, b: Value) -> ir::Value {
        let [(a, n), (b, m)] = [a, b].map(|v| match self.values.sums.get(&v) {
            Some(&sum) => sum,
            None => {
                let value = self.get(v);
                (self.code.extend(types::I32, value), 1)
            }
        });
        let sum = self.code.b.ins().iadd(a, b);
        // A sum of so few words stays below 32 bits.
        if n + m < MAX_TERMS {
            self.values.sums.insert(dst, (sum, n + m));
        }
        self.code.folded(sum)
    }

    /// As [`weir_ir::interp::hash`].
    pub(crate) fn hash(&mut self, args: &[Value]) -> ir::Value {
        const FIRST: u64 = 0x9e37_79b9_7f4a_7c15;
        let seed = self.fixed(std::mem::offset_of!(Ctx<'_>, hash_seed));
        let first = self.code.imm(types::I64, FIRST.into());
        let mut h = self.code.b.ins().bxor(seed, first);
        for &a in args {
            let v = self.get(a);
            let (low, high) = self.code.halves(v);
            let x = self.code.b.ins().bxor(h, low);
            let turned = self.code.b.ins().rotl_imm_u(h, 32);
            let odd = self.code.imm(types::I64, 0xd6e8_feb8_6659_fd93);
            let y = self.code.b.ins().bxor(turned, odd);
            let y = self.code.b.ins().bxor(y, high);
            let m = self.code.product_halves_xored(x, y);
            let more = self.code.imm(types::I64, 0x5851_f42d_4c95_7f2d);
            h = self.code.b.ins().bxor(m, more);
        }
        let first = self.code.imm(types::I64, FIRST.into());
        let h = self.code.product_halves_xored(h, first);
        self.code.b.ins().ireduce(types::I32, h)
    }
}
