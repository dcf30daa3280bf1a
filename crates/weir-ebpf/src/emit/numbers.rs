//! Arithmetic.

use weir_ir::Width;
use weir_ir::program::{BinOp, BlockId, CmpOp, Op, Value};

use super::Emit;
use crate::insn::{Alu, Cond, Insn, Label, Reg, Src};
use crate::refuse::Cause;
use Reg::{R1, R2, R3, R4};

impl Emit<'_> {
    /// Cuts a register to a width.
    pub(super) fn cut(&mut self, r: Reg, w: Width) {
        match w {
            Width::W1 => self.alu(Alu::And, r, Src::Imm(1)),
            Width::W8 => self.alu(Alu::And, r, Src::Imm(0xff)),
            Width::W16 => self.alu(Alu::And, r, Src::Imm(0xffff)),
            Width::W32 => self.put(Insn::Alu { op: Alu::Mov, wide: false, dst: r, src: Src::Reg(r) }),
            Width::W64 | Width::W128 => {}
        }
    }

    pub(super) fn binary(&mut self, b: BlockId, op: BinOp, dst: Value, x: Value, y: Value) {
        let w = self.p.width(dst);
        if w == Width::W128 {
            return self.binary_wide(b, op, dst, x, y);
        }
        self.fetch(R1, x);
        let src = self.src(y, R2);
        let bits = w.bits() as i32;
        match op {
            BinOp::Add => self.alu(Alu::Add, R1, src),
            BinOp::Sub => self.alu(Alu::Sub, R1, src),
            BinOp::Mul => self.alu(Alu::Mul, R1, src),
            BinOp::And => self.alu(Alu::And, R1, src),
            BinOp::Or => self.alu(Alu::Or, R1, src),
            BinOp::Xor => self.alu(Alu::Xor, R1, src),
            // The machine leaves the dividend if the divisor is 0, and takes shifts modulo 64.
            BinOp::Rem => match src {
                Src::Imm(0) => self.set(R1, 0),
                Src::Imm(_) => self.alu(Alu::Mod, R1, src),
                Src::Reg(r) => {
                    let (zero, done) = (self.label(), self.label());
                    self.jump_if(Cond::Eq, r, Src::Imm(0), zero);
                    self.alu(Alu::Mod, R1, src);
                    self.jump(done);
                    self.at(zero);
                    self.set(R1, 0);
                    self.at(done);
                }
            },
            BinOp::Shl | BinOp::Shr => {
                let alu = if op == BinOp::Shl { Alu::Lsh } else { Alu::Rsh };
                match src {
                    Src::Imm(n) if (0..bits).contains(&n) => self.alu(alu, R1, src),
                    Src::Imm(_) => self.set(R1, 0),
                    Src::Reg(r) => {
                        let (zero, done) = (self.label(), self.label());
                        self.jump_if(Cond::Ge, r, Src::Imm(bits), zero);
                        self.alu(alu, R1, src);
                        self.jump(done);
                        self.at(zero);
                        self.set(R1, 0);
                        self.at(done);
                    }
                }
            }
        }
        if matches!(op, BinOp::Add | BinOp::Sub | BinOp::Mul | BinOp::Shl) {
            self.cut(R1, w);
        }
        self.keep(dst, R1);
    }

    fn binary_wide(&mut self, b: BlockId, op: BinOp, dst: Value, x: Value, y: Value) {
        self.fetch_half(R1, x, 0);
        self.fetch_half(R2, x, 1);
        let constant = self.places.constants.get(&y).copied();
        match op {
            BinOp::And | BinOp::Or | BinOp::Xor | BinOp::Add | BinOp::Sub => {
                self.fetch_half(R3, y, 0);
                self.fetch_half(R4, y, 1);
            }
            _ => {}
        }
        let pair = |e: &mut Self, alu| {
            e.alu(alu, R1, Src::Reg(R3));
            e.alu(alu, R2, Src::Reg(R4));
        };
        match op {
            BinOp::And => pair(self, Alu::And),
            BinOp::Or => pair(self, Alu::Or),
            BinOp::Xor => pair(self, Alu::Xor),
            BinOp::Add => {
                pair(self, Alu::Add);
                // A sum that is less than a summand has a carry.
                let done = self.label();
                self.jump_if(Cond::Ge, R1, Src::Reg(R3), done);
                self.alu(Alu::Add, R2, Src::Imm(1));
                self.at(done);
            }
            BinOp::Sub => {
                let done = self.label();
                self.alu(Alu::Sub, R2, Src::Reg(R4));
                self.jump_if(Cond::Ge, R1, Src::Reg(R3), done);
                self.alu(Alu::Sub, R2, Src::Imm(1));
                self.at(done);
                self.alu(Alu::Sub, R1, Src::Reg(R3));
            }
            BinOp::Shl | BinOp::Shr => {
                let Some(n) = constant else {
                    return self.refuse(b, Cause::Wide("shifts by a number of bits"));
                };
                // Left is right with the halves exchanged.
                let (near, far, out, back) = match op {
                    BinOp::Shl => (R1, R2, Alu::Lsh, Alu::Rsh),
                    _ => (R2, R1, Alu::Rsh, Alu::Lsh),
                };
                match n {
                    0 => {}
                    1..=63 => {
                        let n = n as i32;
                        self.mov(R3, near);
                        self.alu(back, R3, Src::Imm(64 - n));
                        self.alu(out, far, Src::Imm(n));
                        self.alu(Alu::Or, far, Src::Reg(R3));
                        self.alu(out, near, Src::Imm(n));
                    }
                    64..=127 => {
                        self.mov(far, near);
                        self.alu(out, far, Src::Imm(n as i32 - 64));
                        self.set(near, 0);
                    }
                    _ => {
                        self.set(R1, 0);
                        self.set(R2, 0);
                    }
                }
            }
            BinOp::Mul => return self.refuse(b, Cause::Wide("products")),
            BinOp::Rem => return self.refuse(b, Cause::Wide("remainders")),
        }
        self.keep_half(dst, 0, R1);
        self.keep_half(dst, 1, R2);
    }

    /// Jumps if two values compare so.
    fn jump_if_compares(&mut self, op: CmpOp, x: Value, y: Value, to: Label) {
        if self.p.width(x) == Width::W128 {
            return self.jump_if_wide(op, x, y, to);
        }
        let cond = match op {
            CmpOp::Eq => Cond::Eq,
            CmpOp::Ne => Cond::Ne,
            CmpOp::Lt => Cond::Lt,
            CmpOp::Le => Cond::Le,
        };
        let a = self.reg(x, R1);
        let b = self.src(y, R2);
        self.jump_if(cond, a, b, to);
    }

    fn jump_if_wide(&mut self, op: CmpOp, x: Value, y: Value, to: Label) {
        self.fetch_half(R1, x, 0);
        self.fetch_half(R2, x, 1);
        self.fetch_half(R3, y, 0);
        self.fetch_half(R4, y, 1);
        match op {
            CmpOp::Eq | CmpOp::Ne => {
                self.alu(Alu::Xor, R1, Src::Reg(R3));
                self.alu(Alu::Xor, R2, Src::Reg(R4));
                self.alu(Alu::Or, R1, Src::Reg(R2));
                let cond = if op == CmpOp::Eq { Cond::Eq } else { Cond::Ne };
                self.jump_if(cond, R1, Src::Imm(0), to);
            }
            CmpOp::Lt | CmpOp::Le => {
                let not = self.label();
                self.jump_if(Cond::Lt, R2, Src::Reg(R4), to);
                self.jump_if(Cond::Gt, R2, Src::Reg(R4), not);
                self.jump_if(if op == CmpOp::Lt { Cond::Lt } else { Cond::Le }, R1, Src::Reg(R3), to);
                self.at(not);
            }
        }
    }

    pub(super) fn compare(&mut self, op: CmpOp, dst: Value, x: Value, y: Value) {
        let (yes, done) = (self.label(), self.label());
        self.jump_if_compares(op, x, y, yes);
        self.set(R1, 0);
        self.jump(done);
        self.at(yes);
        self.set(R1, 1);
        self.at(done);
        self.keep(dst, R1);
    }

    /// Jumps if a condition holds.
    pub(super) fn jump_if_true(&mut self, cond: Value, to: Label) {
        match self.places.fused.get(&cond).cloned() {
            Some(Op::Compare { op, a, b, .. }) => self.jump_if_compares(op, a, b, to),
            _ => {
                let r = self.reg(cond, R1);
                self.jump_if(Cond::Ne, r, Src::Imm(0), to);
            }
        }
    }

    pub(super) fn not(&mut self, dst: Value, a: Value) {
        let w = self.p.width(dst);
        let wide = w == Width::W128;
        // Both halves are read before a place of theirs may be written.
        self.fetch(R1, a);
        if wide {
            self.fetch_half(R2, a, 1);
        }
        self.alu(Alu::Xor, R1, Src::Imm(-1));
        self.cut(R1, w);
        self.keep(dst, R1);
        if wide {
            self.alu(Alu::Xor, R2, Src::Imm(-1));
            self.keep_half(dst, 1, R2);
        }
    }

    pub(super) fn resize(&mut self, dst: Value, a: Value) {
        let (to, from) = (self.p.width(dst), self.p.width(a));
        self.fetch(R1, a);
        if to == Width::W128 {
            self.fetch_half(R2, a, 1);
            self.keep_half(dst, 1, R2);
        }
        if to < from {
            self.cut(R1, to);
        }
        self.keep(dst, R1);
    }

    pub(super) fn select(&mut self, dst: Value, cond: Value, a: Value, b: Value) {
        let wide = self.p.width(dst) == Width::W128;
        let done = self.label();
        self.fetch(R3, cond);
        self.fetch(R1, a);
        if wide {
            self.fetch_half(R2, a, 1);
        }
        self.jump_if(Cond::Ne, R3, Src::Imm(0), done);
        self.fetch(R1, b);
        if wide {
            self.fetch_half(R2, b, 1);
        }
        self.at(done);
        self.keep(dst, R1);
        if wide {
            self.keep_half(dst, 1, R2);
        }
    }

    /// Adds the halves of 32 bits of a sum in `r`, and the halves of 16 bits, until it is one of 16 bits. Uses `t`.
    pub(super) fn fold(&mut self, r: Reg, t: Reg) {
        let low = |e: &mut Self, bits: i32| {
            e.mov(t, r);
            e.alu(Alu::Rsh, t, Src::Imm(bits));
            if bits == 32 {
                e.cut(r, Width::W32);
            } else {
                e.cut(r, Width::W16);
            }
            e.alu(Alu::Add, r, Src::Reg(t));
        };
        low(self, 32);
        low(self, 32);
        low(self, 16);
        low(self, 16);
        low(self, 16);
    }

    pub(super) fn sum16(&mut self, dst: Value, a: Value, b: Value) {
        self.fetch(R1, a);
        let src = self.src(b, R2);
        self.alu(Alu::Add, R1, src);
        self.mov(R2, R1);
        self.alu(Alu::Rsh, R2, Src::Imm(16));
        self.cut(R1, Width::W16);
        self.alu(Alu::Add, R1, Src::Reg(R2));
        self.keep(dst, R1);
    }
}
