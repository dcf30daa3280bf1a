//! Where the layers of the packet are.

use weir_ir::Layer;
use weir_ir::program::BlockId;

use super::Emit;
use crate::insn::{Alu, Cond, Reg, Size, Src};
use Reg::{R1, R2, R3, R7, R10};

/// A layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    /// Not set.
    Unset,
    /// So many bytes behind the first byte of the frame.
    At(i32),
    /// A pointer on the stack (0 if it may be unset), and how many bytes behind it the kernel's verifier knows to be there.
    Slot { maybe: bool, seen: u32 },
}

/// The layers, and how many bytes of the frame the kernel's verifier knows to be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Marks {
    pub of: [Mark; 5],
    pub seen: u32,
}

const NO_LIMIT: u32 = u32::MAX;

impl Marks {
    pub fn at_entry(marked: bool) -> Marks {
        let mac = if marked { Mark::At(0) } else { Mark::Unset };
        Marks { of: [Mark::At(0), mac, Mark::Unset, Mark::Unset, Mark::Unset], seen: 0 }
    }

    pub fn get(&self, layer: Layer) -> Mark {
        self.of[layer as usize]
    }

    /// Bytes that the kernel's verifier knows to be there from the layer on.
    pub fn seen(&self, layer: Layer) -> u32 {
        match self.get(layer) {
            Mark::Unset => NO_LIMIT,
            Mark::At(off) => u32::try_from(i64::from(self.seen) - i64::from(off)).unwrap_or(0),
            Mark::Slot { seen, .. } => seen,
        }
    }

    /// What is known where paths meet.
    fn meet(&self, other: &Marks) -> Marks {
        let mut of = self.of;
        for layer in Layer::ALL {
            let (a, b) = (self.get(layer), other.get(layer));
            let same = matches!((a, b), (Mark::Unset, Mark::Unset)) || (a == b && matches!(a, Mark::At(_)));
            if !same {
                let maybe = |m| matches!(m, Mark::Unset | Mark::Slot { maybe: true, .. });
                let seen = self.seen(layer).min(other.seen(layer));
                of[layer as usize] = Mark::Slot { maybe: maybe(a) || maybe(b), seen };
            }
        }
        Marks { of, seen: self.seen.min(other.seen) }
    }

    /// Nothing is known any more of what is there.
    pub fn forget(&mut self) {
        self.seen = 0;
        for m in &mut self.of {
            if let Mark::Slot { seen, .. } = m {
                *seen = 0;
            }
        }
    }
}

/// The place of a layer's pointer on the stack.
pub(super) fn slot(layer: Layer) -> i16 {
    -16 - 8 * layer as i16
}

impl Emit<'_> {
    /// The layers are brought to where the block expects them.
    pub(super) fn arrive(&mut self, b: BlockId) {
        let n = b.0 as usize;
        let wanted = match &self.ins[n] {
            None => self.m.clone(),
            Some(old) => old.meet(&self.m),
        };
        if self.ins[n].as_ref() != Some(&wanted) {
            self.changed = true;
            self.ins[n] = Some(wanted.clone());
        }
        if !self.real {
            return;
        }
        for layer in Layer::ALL {
            if let Mark::Slot { .. } = wanted.get(layer) {
                match self.m.get(layer) {
                    Mark::Slot { .. } => {}
                    Mark::Unset => self.store(Size::B8, R10, slot(layer), Src::Imm(0)),
                    Mark::At(off) => {
                        self.point(R1, off);
                        self.store(Size::B8, R10, slot(layer), Src::Reg(R1));
                    }
                }
            }
        }
    }

    /// A pointer to a byte of the frame.
    pub(super) fn point(&mut self, dst: Reg, off: i32) {
        self.mov(dst, R7);
        if off != 0 {
            self.alu(Alu::Add, dst, Src::Imm(off));
        }
    }

    /// A pointer to a layer that is set.
    pub(super) fn pointer(&mut self, dst: Reg, layer: Layer) {
        match self.m.get(layer) {
            Mark::At(off) => self.point(dst, off),
            _ => self.load(Size::B8, dst, R10, slot(layer)),
        }
    }

    /// The distance of a layer that is set from the start of the frame, as a number. Uses `dst` only.
    pub(super) fn position(&mut self, dst: Reg, layer: Layer) {
        match self.m.get(layer) {
            Mark::At(off) => self.set(dst, off as i64 as u64),
            _ => {
                self.load(Size::B8, dst, R10, slot(layer));
                self.alu(Alu::Sub, dst, Src::Reg(R7));
            }
        }
    }

    /// Register and offset by which `layer + off` is reached; what is used for it is `otherwise`.
    pub(super) fn base(&mut self, layer: Layer, off: u32, otherwise: Reg) -> Option<(Reg, i16)> {
        match self.m.get(layer) {
            Mark::At(at) => Some((R7, i16::try_from(i64::from(at) + i64::from(off)).ok()?)),
            _ => {
                let off = i16::try_from(off).ok()?;
                self.load(Size::B8, otherwise, R10, slot(layer));
                Some((otherwise, off))
            }
        }
    }

    /// Convinces the kernel's verifier that so many bytes of the layer are there, as is known here already. Uses `r1` to `r3`.
    pub(super) fn ensure(&mut self, layer: Layer, bytes: u32) {
        if self.m.seen(layer) >= bytes {
            return;
        }
        self.pointer(R1, layer);
        self.mov(R2, R1);
        self.alu(Alu::Add, R2, Src::Imm(bytes as i32));
        self.load_end(R3);
        let fault = self.fault();
        self.jump_if(Cond::Gt, R2, Src::Reg(R3), fault);
        self.saw(layer, bytes);
    }

    /// The kernel's verifier knows so many bytes of the layer.
    pub(super) fn saw(&mut self, layer: Layer, bytes: u32) {
        match &mut self.m.of[layer as usize] {
            Mark::Unset => {}
            Mark::At(off) => {
                self.m.seen = self.m.seen.max(u32::try_from(i64::from(*off) + i64::from(bytes)).unwrap_or(0));
            }
            Mark::Slot { seen, maybe } => {
                *seen = (*seen).max(bytes);
                *maybe = false;
            }
        }
    }

    /// Before a call that makes pointers into the packet invalid: they become distances. Uses `r1`.
    pub(super) fn points_to_distances(&mut self) {
        for layer in Layer::ALL {
            if let Mark::Slot { maybe, .. } = self.m.get(layer) {
                let (unset, done) = (self.label(), self.label());
                self.load(Size::B8, R1, R10, slot(layer));
                if maybe {
                    self.jump_if(Cond::Eq, R1, Src::Imm(0), unset);
                }
                self.alu(Alu::Sub, R1, Src::Reg(R7));
                if maybe {
                    self.jump(done);
                    self.at(unset);
                    self.set(R1, u64::MAX);
                    self.at(done);
                }
                self.store(Size::B8, R10, slot(layer), Src::Reg(R1));
            }
        }
    }

    /// After it: the frame begins so many bytes later (earlier, if negative). Uses `r1` and `r2`.
    pub(super) fn distances_to_points(&mut self, moved: i32) {
        self.load_data();
        for layer in Layer::ALL {
            match self.m.get(layer) {
                Mark::Unset => {}
                Mark::At(off) => self.m.of[layer as usize] = Mark::At(off - moved),
                Mark::Slot { maybe, .. } => {
                    let (unset, done) = (self.label(), self.label());
                    self.load(Size::B8, R1, R10, slot(layer));
                    if maybe {
                        self.jump_if(Cond::Eq, R1, Src::Imm(-1), unset);
                    }
                    if moved != 0 {
                        self.alu(Alu::Add, R1, Src::Imm(-moved));
                    }
                    let fault = self.fault();
                    self.jump_if(Cond::Gt, R1, Src::Imm(0x7fff), fault);
                    self.mov(R2, R7);
                    self.alu(Alu::Add, R2, Src::Reg(R1));
                    if maybe {
                        self.jump(done);
                        self.at(unset);
                        self.set(R2, 0);
                        self.at(done);
                    }
                    self.store(Size::B8, R10, slot(layer), Src::Reg(R2));
                }
            }
        }
        self.m.forget();
    }
}
