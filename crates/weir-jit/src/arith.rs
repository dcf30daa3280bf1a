//! Arithmetic on values.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, types};
use weir_ir::program::{BinOp, CmpOp, Value, Width};

use crate::compile::{Translator, int};
use crate::helpers::{Ctx, Helper};

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
            BinOp::Add => self.b.ins().iadd(x, y),
            BinOp::Sub => self.b.ins().isub(x, y),
            BinOp::Mul => self.b.ins().imul(x, y),
            BinOp::Rem if width == Width::W128 => {
                self.put_values(0, [a, b]);
                let at = self.frame_address();
                self.call(Helper::Rem, &[at]);
                self.load_value(width, at, 0, self.regions.frame)
            }
            BinOp::Rem => {
                // The machine traps on a divisor of 0; a remainder of 1 is the 0 that is wanted.
                let (zero, one) = (self.imm(int(width), 0), self.imm(int(width), 1));
                let no_divisor = self.b.ins().icmp(IntCC::Equal, y, zero);
                let divisor = self.b.ins().select(no_divisor, one, y);
                self.b.ins().urem(x, divisor)
            }
            BinOp::And => self.b.ins().band(x, y),
            BinOp::Or => self.b.ins().bor(x, y),
            BinOp::Xor => self.b.ins().bxor(x, y),
            BinOp::Shl | BinOp::Shr
                if let Some(by) = self.constant(b).filter(|by| *by < u128::from(width.bits())) =>
            {
                let by = by as i64;
                if op == BinOp::Shl { self.b.ins().ishl_imm_u(x, by) } else { self.b.ins().ushr_imm_u(x, by) }
            }
            BinOp::Shl | BinOp::Shr => {
                // The machine takes the distance modulo the width.
                let r = if op == BinOp::Shl { self.b.ins().ishl(x, y) } else { self.b.ins().ushr(x, y) };
                let bits = self.imm(int(width), width.bits().into());
                let within = self.b.ins().icmp(IntCC::UnsignedLessThan, y, bits);
                let zero = self.imm(int(width), 0);
                self.select(within, r, zero)
            }
        };
        // Of bits that are 0 or 1 these make such bits.
        let is_bit = matches!(op, BinOp::And | BinOp::Or | BinOp::Xor);
        if width == Width::W1 && !is_bit { self.low_bit(r) } else { r }
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
        self.b.ins().icmp(code, a, b)
    }

    /// Whether a checksum is all ones, which it is if the sum before it is folded is a multiple of all ones but 0. By the
    /// inverse of a divisor modulo 2^64, multiples become their quotients, and all else numbers that no quotient is (T.
    /// Granlund and P. L. Montgomery, "Division by invariant integers using multiplication", section 9).
    fn compare_checksum(&mut self, code: IntCC, a: Value, b: Value) -> Option<ir::Value> {
        const ONES: u64 = 0xffff;
        const INVERSE: u64 = 0xfffe_fffe_fffe_ffff;
        const _: () = assert!(ONES.wrapping_mul(INVERSE) == 1);
        let (sum, other) = match (self.unfolded.get(&a), self.unfolded.get(&b)) {
            (Some(&sum), _) => (sum, b),
            (None, Some(&sum)) => (sum, a),
            (None, None) => return None,
        };
        if self.constant(other) != Some(ONES.into()) || !matches!(code, IntCC::Equal | IntCC::NotEqual) {
            return None;
        }
        let inverse = self.imm(types::I64, INVERSE.into());
        let quotient = self.b.ins().imul(sum, inverse);
        let less = self.b.ins().iadd_imm_s(quotient, -1);
        // Quotients have less than 32 bits, as sums have less than 48.
        let code = match code {
            IntCC::Equal => IntCC::UnsignedLessThanOrEqual,
            _ => IntCC::UnsignedGreaterThan,
        };
        let most = self.imm(types::I64, u32::MAX.into());
        Some(self.b.ins().icmp(code, less, most))
    }

    pub(crate) fn not(&mut self, width: Width, a: Value) -> ir::Value {
        let a = self.get(a);
        if width == Width::W1 {
            let one = self.imm(types::I8, 1);
            return self.b.ins().bxor(a, one);
        }
        self.b.ins().bnot(a)
    }

    pub(crate) fn resize(&mut self, to: Width, a: Value) -> ir::Value {
        let (v, from) = (self.get(a), self.ty(a));
        let r = match int(to) {
            types::I128 if from != types::I128 => self.widened(v),
            ty if from == types::I128 && ty != types::I128 => {
                let (low, _) = self.halves(v);
                if ty == types::I64 { low } else { self.b.ins().ireduce(ty, low) }
            }
            ty if ty.bits() > from.bits() => self.extend(ty, v),
            ty if ty.bits() < from.bits() => self.b.ins().ireduce(ty, v),
            _ => v,
        };
        if to == Width::W1 && self.p.width(a) != Width::W1 { self.low_bit(r) } else { r }
    }

    /// Ones' complement sum: a carry out of the 16 bits comes back in. Sums of sums are added up first: only what
    /// something else uses is folded.
    pub(crate) fn sum16(&mut self, dst: Value, a: Value, b: Value) -> ir::Value {
        let [(a, n), (b, m)] = [a, b].map(|v| match self.sums.get(&v) {
            Some(&sum) => sum,
            None => {
                let value = self.get(v);
                (self.extend(types::I32, value), 1)
            }
        });
        let sum = self.b.ins().iadd(a, b);
        // A sum of so few words stays below 32 bits.
        if n + m < MAX_TERMS {
            self.sums.insert(dst, (sum, n + m));
        }
        self.folded(sum)
    }

    /// A sum of 16-bit words, below 32 bits, as one word.
    pub(crate) fn folded(&mut self, sum: ir::Value) -> ir::Value {
        let word = self.fold(sum);
        self.b.ins().ireduce(types::I16, word)
    }

    /// The ones' complement sum of both halves of a sum, in half the bits. Each half is added to the other: the carry
    /// out of the lower one is what comes back into the upper one.
    pub(crate) fn fold(&mut self, sum: ir::Value) -> ir::Value {
        let half = i64::from(self.b.func.dfg.value_type(sum).bits() / 2);
        let turned = self.b.ins().rotl_imm_u(sum, half);
        let both = self.b.ins().iadd(sum, turned);
        self.b.ins().ushr_imm_u(both, half)
    }

    /// As [`weir_ir::interp::hash`].
    pub(crate) fn hash(&mut self, args: &[Value]) -> ir::Value {
        const FIRST: u64 = 0x9e37_79b9_7f4a_7c15;
        let seed = self.fixed(std::mem::offset_of!(Ctx<'_>, hash_seed));
        let first = self.imm(types::I64, FIRST.into());
        let mut h = self.b.ins().bxor(seed, first);
        for &a in args {
            let v = self.get(a);
            let (low, high) = self.halves(v);
            let x = self.b.ins().bxor(h, low);
            let turned = self.b.ins().rotl_imm_u(h, 32);
            let odd = self.imm(types::I64, 0xd6e8_feb8_6659_fd93);
            let y = self.b.ins().bxor(turned, odd);
            let y = self.b.ins().bxor(y, high);
            let m = self.product_halves_xored(x, y);
            let more = self.imm(types::I64, 0x5851_f42d_4c95_7f2d);
            h = self.b.ins().bxor(m, more);
        }
        let first = self.imm(types::I64, FIRST.into());
        let h = self.product_halves_xored(h, first);
        self.b.ins().ireduce(types::I32, h)
    }

    /// One half of the product of two numbers of 64 bits upon the other: of one multiplication, which has both.
    pub(crate) fn product_halves_xored(&mut self, a: ir::Value, b: ir::Value) -> ir::Value {
        let [a, b] = [a, b].map(|v| self.b.ins().uextend(types::I128, v));
        let product = self.b.ins().imul(a, b);
        let (low, high) = self.b.ins().isplit(product);
        self.b.ins().bxor(low, high)
    }
}
