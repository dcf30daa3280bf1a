//! Bytes, layers and annotations of the packet.

use weir_ir::program::{Amount, BlockId, Target, Value};
use weir_ir::{Layer, Width};

use super::Emit;
use super::marks::{Mark, slot};
use crate::Hook;
use crate::insn::{Alu, Cond, Helper, Insn, Reg, Size, Src};
use crate::refuse::Cause;
use Reg::{R0, R1, R2, R3, R4, R5, R6, R7, R10};

/// Most bytes of a range to sum whose length is not known.
const MOST_SUM: u32 = 256;
/// Most bytes that are moved or compared at once.
pub(super) const MOST_MOVED: u32 = 64;

impl Emit<'_> {
    fn swap(&mut self, r: Reg, size: Size) {
        if size != Size::B1 {
            self.put(Insn::ToBe { dst: r, bits: size.bytes() * 8 });
        }
    }

    /// The parts of a number in memory: size, offset, and half of the value.
    fn parts(w: Width) -> Vec<(Size, u32, usize)> {
        match w {
            Width::W128 => vec![(Size::B8, 0, 1), (Size::B8, 8, 0)],
            w => vec![(Size::of(w.bytes()), 0, 0)],
        }
    }

    pub(super) fn load_bytes(&mut self, b: BlockId, dst: Value, layer: Layer, off: u32) {
        let w = self.p.width(dst);
        self.ensure(layer, off + w.bytes());
        for (size, more, half) in Self::parts(w) {
            let Some((base, off)) = self.base(layer, off + more, R1) else {
                return self.refuse(b, Cause::FarAccess);
            };
            self.load(size, R1, base, off);
            self.swap(R1, size);
            self.keep_half(dst, half, R1);
        }
    }

    pub(super) fn store_bytes(&mut self, b: BlockId, layer: Layer, off: u32, src: Value) {
        let w = self.p.width(src);
        self.ensure(layer, off + w.bytes());
        for (size, more, half) in Self::parts(w) {
            self.fetch_half(R2, src, half);
            self.swap(R2, size);
            let Some((base, off)) = self.base(layer, off + more, R1) else {
                return self.refuse(b, Cause::FarAccess);
            };
            self.store(size, base, off, Src::Reg(R2));
        }
    }

    pub(super) fn rest(&mut self, dst: Value, layer: Layer) {
        let done = self.label();
        self.set(R1, 0);
        if self.m.get(layer) != Mark::Unset {
            self.pointer(R2, layer);
            if let Mark::Slot { maybe: true, .. } = self.m.get(layer) {
                self.jump_if(Cond::Eq, R2, Src::Imm(0), done);
            }
            self.load_len(R1);
            self.alu(Alu::Sub, R2, Src::Reg(R7));
            self.alu(Alu::Sub, R1, Src::Reg(R2));
            // A layer may be beyond the end.
            let positive = self.label();
            self.jump_if(Cond::Sgt, R1, Src::Imm(0), positive);
            self.set(R1, 0);
            self.at(positive);
        }
        self.at(done);
        self.keep(dst, R1);
    }

    pub(super) fn distance(&mut self, dst: Value, from: Layer, to: Layer) {
        let (a, b) = (self.m.get(from), self.m.get(to));
        match (a, b) {
            (Mark::Unset, _) | (_, Mark::Unset) => self.set(R1, u32::MAX.into()),
            (Mark::At(a), Mark::At(b)) => self.set(R1, u64::from((b - a) as u32)),
            _ => {
                let done = self.label();
                self.set(R1, u32::MAX.into());
                self.pointer(R2, to);
                self.pointer(R3, from);
                for (mark, r) in [(b, R2), (a, R3)] {
                    if let Mark::Slot { maybe: true, .. } = mark {
                        self.jump_if(Cond::Eq, r, Src::Imm(0), done);
                    }
                }
                self.alu(Alu::Sub, R2, Src::Reg(R3));
                self.cut(R2, Width::W32);
                self.mov(R1, R2);
                self.at(done);
            }
        }
        self.keep(dst, R1);
    }

    pub(super) fn set_mark(&mut self, layer: Layer, base: Layer, off: Amount) {
        match (off, self.m.get(base)) {
            (Amount::Const(n), Mark::At(at)) => self.m.of[layer as usize] = Mark::At(at + n as i32),
            (Amount::Const(n), from) => {
                let seen = self.m.seen(base).saturating_sub(n);
                self.load(Size::B8, R1, R10, slot(base));
                if n != 0 {
                    self.alu(Alu::Add, R1, Src::Imm(n as i32));
                }
                self.store(Size::B8, R10, slot(layer), Src::Reg(R1));
                let seen = if from == Mark::Unset { 0 } else { seen };
                self.m.of[layer as usize] = Mark::Slot { maybe: false, seen };
            }
            (Amount::Value(v), _) => {
                let fault = self.fault();
                self.reach(base, v, fault);
                self.store(Size::B8, R10, slot(layer), Src::Reg(R2));
                self.m.of[layer as usize] = Mark::Slot { maybe: false, seen: 0 };
            }
        }
    }

    /// A pointer to so many bytes behind a layer, in `r2`; elsewhere if no frame is as long. Uses `r1`.
    fn reach(&mut self, base: Layer, v: Value, too_far: crate::insn::Label) {
        self.position(R1, base);
        let more = self.src(v, R2);
        self.alu(Alu::Add, R1, more);
        self.jump_if(Cond::Gt, R1, Src::Imm(0x7fff), too_far);
        self.mov(R2, R7);
        self.alu(Alu::Add, R2, Src::Reg(R1));
    }

    pub(super) fn clear_mark(&mut self, layer: Layer) {
        self.m.of[layer as usize] = Mark::Unset;
    }

    pub(super) fn require(&mut self, layer: Layer, n: Amount, ok: &Target, fail: &Target) {
        let before = self.m.clone();
        let no = self.label();
        match (self.m.get(layer), n) {
            (Mark::Unset, _) => return self.edge(fail, &[]),
            (Mark::Slot { maybe: true, .. }, _) => {
                self.load(Size::B8, R1, R10, slot(layer));
                self.jump_if(Cond::Eq, R1, Src::Imm(0), no);
            }
            (Mark::At(_) | Mark::Slot { .. }, Amount::Const(n)) if self.m.seen(layer) >= n && n > 0 => {
                return self.edge(ok, &[]);
            }
            _ => {}
        }
        match n {
            Amount::Const(n) if n > 0x7fff => {
                self.jump(no);
                self.at(no);
                return self.edge(fail, &[]);
            }
            Amount::Const(n) => {
                self.pointer(R2, layer);
                self.alu(Alu::Add, R2, Src::Imm(n as i32));
                self.beyond_linear(layer, n);
            }
            // How long the whole is; nothing is looked at.
            Amount::Value(v) if self.options.hook == Hook::Tc => {
                self.position(R2, layer);
                let more = self.src(v, R1);
                self.alu(Alu::Add, R2, more);
            }
            Amount::Value(v) => self.reach(layer, v, no),
        }
        match (n, self.options.hook) {
            (Amount::Value(_), Hook::Tc) => self.load_len(R3),
            _ => self.load_end(R3),
        }
        self.jump_if(Cond::Gt, R2, Src::Reg(R3), no);
        self.saw(layer, if let Amount::Const(n) = n { n } else { 0 });
        self.edge(ok, &[]);
        self.at(no);
        self.m = before;
        self.edge(fail, &[]);
    }

    /// Of a packet in pieces, what is there may be behind what can be looked at: that is a fault. `r2` points so many bytes behind
    /// the layer. Uses `r1` and `r3`.
    fn beyond_linear(&mut self, layer: Layer, n: u32) {
        let near = |at: i32| i64::from(at) + i64::from(n) <= i64::from(crate::LINEAR);
        if self.options.hook == Hook::Xdp || matches!(self.m.get(layer), Mark::At(at) if near(at)) {
            return;
        }
        let known = self.label();
        self.load_end(R3);
        self.jump_if(Cond::Le, R2, Src::Reg(R3), known);
        self.position(R1, layer);
        self.alu(Alu::Add, R1, Src::Imm(n as i32));
        self.load_len(R3);
        let fault = self.fault();
        self.jump_if(Cond::Le, R1, Src::Reg(R3), fault);
        self.at(known);
    }

    pub(super) fn pull(&mut self, b: BlockId, n: Amount) {
        let Amount::Const(n) = n else { return self.refuse(b, Cause::PullsVariable) };
        self.set_mark(Layer::Data, Layer::Data, Amount::Const(n));
    }

    pub(super) fn unpull(&mut self, b: BlockId, n: Amount, ok: &Target, fail: &Target) {
        match (self.m.get(Layer::Data), n) {
            (Mark::At(at), Amount::Const(n)) if at >= n as i32 => {
                self.m.of[0] = Mark::At(at - n as i32);
                self.edge(ok, &[]);
            }
            (Mark::At(_), Amount::Const(_)) => self.edge(fail, &[]),
            _ => self.refuse(b, Cause::PullsVariable),
        }
    }

    pub(super) fn push(&mut self, b: BlockId, n: Amount, ok: &Target, fail: &Target) {
        let (Mark::At(at), Amount::Const(n)) = (self.m.get(Layer::Data), n) else {
            return self.refuse(b, Cause::PullsVariable);
        };
        if n > 128 {
            return self.refuse(b, Cause::AddsInFront);
        }
        let new = at - n as i32;
        if new < 0 && self.options.hook == Hook::Tc {
            self.refuse(b, Cause::AddsInFront);
        } else if new < 0 {
            let before = self.m.clone();
            self.points_to_distances();
            self.mov(R1, R6);
            self.set(R2, i64::from(new) as u64);
            self.call(Helper::XdpAdjustHead);
            self.store(Size::B8, R10, -8, Src::Reg(R0));
            self.distances_to_points(new);
            let no = self.label();
            self.load(Size::B8, R0, R10, -8);
            self.jump_if(Cond::Ne, R0, Src::Imm(0), no);
            self.m.of[0] = Mark::At(0);
            self.zero_front(n);
            self.edge(ok, &[]);
            self.at(no);
            // Nothing was moved: what was computed for it is put back.
            self.m = before;
            self.m.forget();
            self.put_back(-new);
            self.edge(fail, &[]);
        } else {
            self.m.of[0] = Mark::At(new);
            self.zero_front(n);
            self.edge(ok, &[]);
        }
    }

    /// Pointers that were moved with a frame that stayed where it was.
    fn put_back(&mut self, moved: i32) {
        for layer in Layer::ALL {
            if let Mark::Slot { maybe, .. } = self.m.get(layer) {
                let unset = self.label();
                self.load(Size::B8, R1, R10, slot(layer));
                if maybe {
                    self.jump_if(Cond::Eq, R1, Src::Imm(0), unset);
                }
                self.alu(Alu::Add, R1, Src::Imm(-moved));
                self.store(Size::B8, R10, slot(layer), Src::Reg(R1));
                self.at(unset);
            }
        }
    }

    fn zero_front(&mut self, n: u32) {
        self.ensure(Layer::Data, n);
        for (size, at) in Self::pieces(n) {
            if let Some((base, off)) = self.base(Layer::Data, at, R1) {
                self.store(size, base, off, Src::Imm(0));
            }
        }
    }

    pub(super) fn trim(&mut self, len: Value) {
        let skip = self.label();
        let len = self.reg(len, R5);
        self.position(R1, Layer::Data);
        self.mov(R4, R1);
        self.load_len(R2);
        self.alu(Alu::Sub, R2, Src::Reg(R1));
        self.jump_if(Cond::Ge, len, Src::Reg(R2), skip);
        self.mov(R3, len);
        match self.options.hook {
            // By how much the end moves, and how long the whole is to be.
            Hook::Xdp => self.alu(Alu::Sub, R3, Src::Reg(R2)),
            Hook::Tc => self.alu(Alu::Add, R3, Src::Reg(R4)),
        }
        self.points_to_distances();
        self.mov(R1, R6);
        self.mov(R2, R3);
        match self.options.hook {
            Hook::Xdp => self.call(Helper::XdpAdjustTail),
            Hook::Tc => {
                self.set(R3, 0);
                self.call(Helper::SkbChangeTail);
            }
        }
        let fault = self.fault();
        self.jump_if(Cond::Ne, R0, Src::Imm(0), fault);
        self.distances_to_points(0);
        self.at(skip);
    }

    /// Before a packet leaves: what was pulled goes.
    pub(super) fn trim_front(&mut self, b: BlockId) {
        match self.m.get(Layer::Data) {
            Mark::At(0) => return,
            _ if self.options.hook == Hook::Tc => return self.refuse(b, Cause::MovesFront),
            Mark::At(off) => self.set(R2, off as u64),
            _ => {
                self.load(Size::B8, R2, R10, slot(Layer::Data));
                self.alu(Alu::Sub, R2, Src::Reg(R7));
            }
        }
        self.mov(R1, R6);
        self.call(Helper::XdpAdjustHead);
        let fault = self.fault();
        self.jump_if(Cond::Ne, R0, Src::Imm(0), fault);
    }

    // --- ranges -----------------------------------------------------------------------------------------------

    pub(super) fn checksum(&mut self, b: BlockId, dst: Value, layer: Layer, start: u32, end: Amount) {
        let (least, most) = (self.known.least(b, end).max(start), self.known.most(b, end).max(start));
        if most > 0x7fff || (matches!(end, Amount::Value(_)) && most - start > MOST_SUM) {
            return self.refuse(b, Cause::SumsVariable { most });
        }
        // In the machine's byte order, which is the other one at the end: a ones' complement sum is the same in both (RFC 1071).
        let sure = (least - start) / 2 * 2;
        self.set(R0, 0);
        let fixed = if let Amount::Const(_) = end { least - start } else { sure };
        if fixed > 0 {
            self.ensure(layer, start + fixed);
        }
        let mut at = 0;
        while at < fixed {
            let size = match fixed - at {
                4.. => Size::B4,
                2.. => Size::B2,
                _ => Size::B1,
            };
            let Some((base, off)) = self.base(layer, start + at, R1) else {
                return self.refuse(b, Cause::FarAccess);
            };
            self.load(size, R1, base, off);
            self.alu(Alu::Add, R0, Src::Reg(R1));
            at += size.bytes();
        }
        if let Amount::Value(v) = end {
            let (last, done) = (self.label(), self.label());
            // r2: bytes that are left; r1: where they are.
            self.fetch(R2, v);
            self.jump_if(Cond::Le, R2, Src::Imm((start + fixed) as i32), done);
            self.alu(Alu::Sub, R2, Src::Imm((start + fixed) as i32));
            self.pointer(R1, layer);
            if start + fixed > 0 {
                self.alu(Alu::Add, R1, Src::Imm((start + fixed) as i32));
            }
            self.load_end(R3);
            let fault = self.fault();
            for _ in 0..(most - start - fixed) / 2 {
                self.jump_if(Cond::Lt, R2, Src::Imm(2), last);
                self.mov(R4, R1);
                self.alu(Alu::Add, R4, Src::Imm(2));
                self.jump_if(Cond::Gt, R4, Src::Reg(R3), fault);
                self.load(Size::B2, R4, R1, 0);
                self.alu(Alu::Add, R0, Src::Reg(R4));
                self.alu(Alu::Add, R1, Src::Imm(2));
                self.alu(Alu::Sub, R2, Src::Imm(2));
            }
            self.at(last);
            self.jump_if(Cond::Eq, R2, Src::Imm(0), done);
            self.mov(R4, R1);
            self.alu(Alu::Add, R4, Src::Imm(1));
            self.jump_if(Cond::Gt, R4, Src::Reg(R3), fault);
            self.load(Size::B1, R4, R1, 0);
            self.alu(Alu::Add, R0, Src::Reg(R4));
            self.at(done);
        }
        self.fold(R0, R1);
        self.put(Insn::ToBe { dst: R0, bits: 16 });
        self.keep(dst, R0);
    }

    /// Sizes and offsets that make up a range.
    fn pieces(len: u32) -> Vec<(Size, u32)> {
        let (mut at, mut all) = (0, Vec::new());
        while at < len {
            let size = match len - at {
                8.. => Size::B8,
                4.. => Size::B4,
                2.. => Size::B2,
                _ => Size::B1,
            };
            all.push((size, at));
            at += size.bytes();
        }
        all
    }

    pub(super) fn copy_bytes(&mut self, b: BlockId, to: (Layer, u32), from: (Layer, u32), len: u32) {
        if len > MOST_MOVED {
            return self.refuse(b, Cause::MovesMany(len));
        }
        self.ensure(from.0, from.1 + len);
        self.ensure(to.0, to.1 + len);
        let copy = self.frame.copy;
        // Over the stack, as the ranges may overlap.
        for (size, at) in Self::pieces(len) {
            let Some((base, off)) = self.base(from.0, from.1 + at, R1) else {
                return self.refuse(b, Cause::FarAccess);
            };
            self.load(size, R1, base, off);
            self.store(size, R10, copy + at as i16, Src::Reg(R1));
        }
        for (size, at) in Self::pieces(len) {
            self.load(size, R2, R10, copy + at as i16);
            let Some((base, off)) = self.base(to.0, to.1 + at, R1) else {
                return self.refuse(b, Cause::FarAccess);
            };
            self.store(size, base, off, Src::Reg(R2));
        }
    }

    pub(super) fn compare_bytes(
        &mut self,
        b: BlockId,
        dst: Value,
        x: (Layer, u32),
        y: (Layer, u32),
        len: u32,
    ) {
        if len > MOST_MOVED {
            return self.refuse(b, Cause::MovesMany(len));
        }
        self.ensure(x.0, x.1 + len);
        self.ensure(y.0, y.1 + len);
        let done = self.label();
        self.set(R0, 0);
        for (size, at) in Self::pieces(len) {
            let Some((base, off)) = self.base(x.0, x.1 + at, R1) else {
                return self.refuse(b, Cause::FarAccess);
            };
            self.load(size, R2, base, off);
            let Some((base, off)) = self.base(y.0, y.1 + at, R1) else {
                return self.refuse(b, Cause::FarAccess);
            };
            self.load(size, R3, base, off);
            self.jump_if(Cond::Ne, R2, Src::Reg(R3), done);
        }
        self.set(R0, 1);
        self.at(done);
        self.keep(dst, R0);
    }

    // --- annotations ------------------------------------------------------------------------------------------

    /// The stack is read and written at multiples of the size only.
    fn anno_pieces(&self, w: Width, off: u32) -> Option<(i16, bool)> {
        let at = self.frame.anno? + off as i16;
        Some((at, i32::from(at).rem_euclid(w.bytes().min(8) as i32) == 0))
    }

    pub(super) fn load_anno(&mut self, dst: Value, off: u32) {
        let w = self.p.width(dst);
        let Some((at, aligned)) = self.anno_pieces(w, off) else { return };
        for (size, more, half) in Self::parts(w) {
            let at = at + more as i16;
            if aligned {
                self.load(size, R1, R10, at);
                self.swap(R1, size);
            } else {
                self.set(R1, 0);
                for i in 0..size.bytes() as i16 {
                    self.load(Size::B1, R2, R10, at + i);
                    self.alu(Alu::Lsh, R1, Src::Imm(8));
                    self.alu(Alu::Or, R1, Src::Reg(R2));
                }
            }
            self.keep_half(dst, half, R1);
        }
    }

    pub(super) fn store_anno(&mut self, off: u32, src: Value) {
        let w = self.p.width(src);
        let Some((at, aligned)) = self.anno_pieces(w, off) else { return };
        for (size, more, half) in Self::parts(w) {
            let at = at + more as i16;
            self.fetch_half(R1, src, half);
            if aligned {
                self.swap(R1, size);
                self.store(size, R10, at, Src::Reg(R1));
            } else {
                for i in (0..size.bytes() as i16).rev() {
                    self.store(Size::B1, R10, at + i, Src::Reg(R1));
                    self.alu(Alu::Rsh, R1, Src::Imm(8));
                }
            }
        }
    }
}
