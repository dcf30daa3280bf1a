//! Instructions on numbers, whatever they stand for.
//!
//! The machine has no numbers of 128 bits: they are two halves, of which the code often needs one, or knows one to be 0. So
//! they are worked on half by half, and put together only for what takes them whole. And numbers of fewer bits than a
//! register, which is filled up with zeros when they are loaded.

use cranelift_codegen::ir::{self, InstBuilder, MemFlagsData, types};
use cranelift_frontend::FunctionBuilder;
use rustc_hash::FxHashMap;
use weir_ir::program::Width;

use crate::translate::addresses::Addresses;
use crate::translate::calls::Callees;
use crate::translate::frame::Frame;
use crate::translate::{Regions, int};

/// Makes the instructions of a function.
pub(crate) struct Emitter<'a, 'b> {
    pub b: FunctionBuilder<'b>,
    /// The functions and data that they refer to.
    pub calls: Callees<'a>,
    /// The address of the context.
    pub ctx: ir::Value,
    pub frame: Frame,
    /// Addresses that are known in this block.
    pub addresses: Addresses,
    /// The kinds of memory that they read and write.
    pub regions: Regions,
    /// The halves of numbers that were put together, the lower one first.
    halves_of: FxHashMap<ir::Value, (ir::Value, ir::Value)>,
    /// Numbers of fewer bits that are in a register of 64 bits, all others of them 0.
    extended: FxHashMap<ir::Value, ir::Value>,
}

impl<'a, 'b> Emitter<'a, 'b> {
    pub fn new(
        b: FunctionBuilder<'b>,
        calls: Callees<'a>,
        ctx: ir::Value,
        frame: Frame,
        regions: Regions,
    ) -> Emitter<'a, 'b> {
        Emitter {
            b,
            calls,
            ctx,
            frame,
            addresses: Addresses::default(),
            regions,
            halves_of: FxHashMap::default(),
            extended: FxHashMap::default(),
        }
    }

    pub fn imm(&mut self, ty: ir::Type, value: u128) -> ir::Value {
        if ty != types::I128 {
            return self.b.ins().iconst(ty, value as i64);
        }
        let low = self.b.ins().iconst(types::I64, value as i64);
        let high = self.b.ins().iconst(types::I64, (value >> 64) as i64);
        self.wide(low, high)
    }

    pub fn imm32(&mut self, value: u32) -> ir::Value {
        self.imm(types::I32, value.into())
    }

    pub fn low_bit(&mut self, v: ir::Value) -> ir::Value {
        let one = self.imm(types::I8, 1);
        self.b.ins().band(v, one)
    }

    /// Reads a number of at most 64 bits. The machine fills the register up with zeros, so more bits cost nothing later.
    pub fn load(&mut self, ty: ir::Type, at: ir::Value, off: i32, flags: MemFlagsData) -> ir::Value {
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

    /// A value from memory in the machine's byte order.
    pub fn load_value(&mut self, w: Width, at: ir::Value, off: i32, flags: MemFlagsData) -> ir::Value {
        let v = match w {
            Width::W128 => {
                let low = self.b.ins().load(types::I64, flags, at, off);
                let high = self.b.ins().load(types::I64, flags, at, off + 8);
                return self.wide(low, high);
            }
            _ => self.load(int(w), at, off, flags),
        };
        if w == Width::W1 { self.low_bit(v) } else { v }
    }

    /// A value to memory as it is.
    pub fn store_value(&mut self, v: ir::Value, at: ir::Value, off: i32, flags: MemFlagsData) {
        if self.b.func.dfg.value_type(v) == types::I128 {
            let (low, high) = self.halves(v);
            self.b.ins().store(flags, low, at, off);
            self.b.ins().store(flags, high, at, off + 8);
        } else {
            self.b.ins().store(flags, v, at, off);
        }
    }

    /// A number of 128 bits.
    pub fn wide(&mut self, low: ir::Value, high: ir::Value) -> ir::Value {
        let v = self.b.ins().iconcat(low, high);
        self.halves_of.insert(v, (low, high));
        v
    }

    /// The lower and upper half of a value in 128 bits.
    pub fn halves(&mut self, v: ir::Value) -> (ir::Value, ir::Value) {
        if let Some(&halves) = self.halves_of.get(&v) {
            return halves;
        }
        match self.b.func.dfg.value_type(v) {
            types::I128 => self.b.ins().isplit(v),
            types::I64 => (v, self.imm(types::I64, 0)),
            _ => (self.extend(types::I64, v), self.imm(types::I64, 0)),
        }
    }

    /// From a smaller number to one of 128 bits.
    pub fn widened(&mut self, v: ir::Value) -> ir::Value {
        let (low, high) = self.halves(v);
        self.wide(low, high)
    }

    /// A number with more bits, up to 64, the new ones 0.
    pub fn extend(&mut self, to: ir::Type, v: ir::Value) -> ir::Value {
        match self.extended.get(&v) {
            Some(&all) if to == types::I64 => all,
            Some(&all) => self.b.ins().ireduce(to, all),
            None => self.b.ins().uextend(to, v),
        }
    }

    /// 128 bits are selected in halves: the compiler would make a minimum of some selections, and has none for them.
    pub fn select(&mut self, cond: ir::Value, a: ir::Value, b: ir::Value) -> ir::Value {
        if self.b.func.dfg.value_type(a) != types::I128 {
            return self.b.ins().select(cond, a, b);
        }
        let ((a_low, a_high), (b_low, b_high)) = (self.halves(a), self.halves(b));
        let low = self.b.ins().select(cond, a_low, b_low);
        let high = self.b.ins().select(cond, a_high, b_high);
        self.wide(low, high)
    }

    /// From the machine's byte order to the network's, or back.
    pub fn turned(&mut self, width: Width, v: ir::Value) -> ir::Value {
        match width {
            Width::W1 | Width::W8 => v,
            Width::W128 => self.turned_wide(v),
            _ => self.b.ins().bswap(v),
        }
    }

    /// Both halves as a 128-bit number in the other byte order.
    fn turned_wide(&mut self, v: ir::Value) -> ir::Value {
        let (low, high) = self.halves(v);
        let [low, high] = [low, high].map(|half| self.b.ins().bswap(half));
        self.wide(high, low)
    }

    /// The ones' complement sum of both halves of a sum, in half the bits. Each half is added to the other: the carry
    /// out of the lower one is what comes back into the upper one.
    pub fn fold(&mut self, sum: ir::Value) -> ir::Value {
        let half = i64::from(self.b.func.dfg.value_type(sum).bits() / 2);
        let turned = self.b.ins().rotl_imm_u(sum, half);
        let both = self.b.ins().iadd(sum, turned);
        self.b.ins().ushr_imm_u(both, half)
    }

    /// A sum of 16-bit words, below 32 bits, as one word.
    pub fn folded(&mut self, sum: ir::Value) -> ir::Value {
        let word = self.fold(sum);
        self.b.ins().ireduce(types::I16, word)
    }

    pub fn folded_to_word(&mut self, sum: ir::Value) -> ir::Value {
        // To 32 bits, then to 16.
        let sum = self.fold(sum);
        let sum = self.b.ins().ireduce(types::I32, sum);
        let sum = self.fold(sum);
        let sum = self.b.ins().ireduce(types::I16, sum);
        self.b.ins().bswap(sum)
    }

    /// One half of the product of two numbers of 64 bits upon the other: of one multiplication, which has both.
    pub fn product_halves_xored(&mut self, a: ir::Value, b: ir::Value) -> ir::Value {
        let [a, b] = [a, b].map(|v| self.b.ins().uextend(types::I128, v));
        let product = self.b.ins().imul(a, b);
        let (low, high) = self.b.ins().isplit(product);
        self.b.ins().bxor(low, high)
    }
}
