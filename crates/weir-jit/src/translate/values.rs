//! The values of a program in the code.

use cranelift_codegen::ir;
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, types};
use rustc_hash::FxHashMap;
use weir_ir::program::{Amount, Program, Type, Value};

use crate::translate::addresses::Address;
use crate::translate::emit::Emitter;
use crate::translate::int;
use crate::translate::network::Network;

/// The values of a program in the code, and the other forms that some of them have.
pub(crate) struct Values<'a> {
    pub(super) p: &'a Program,
    /// In registers, as they are; constants are made where they are used.
    pub numbers: Vec<Option<ir::Value>>,
    /// In network byte order.
    pub network: Network,
    /// Ones' complement sums that are not folded, with the number of words in them.
    pub sums: FxHashMap<Value, (ir::Value, u32)>,
    /// Checksums of this block before they are folded.
    pub unfolded: FxHashMap<Value, ir::Value>,
}

impl<'a> Values<'a> {
    /// Of a program.
    pub fn new(p: &'a Program) -> Values<'a> {
        Values {
            p,
            numbers: vec![None; p.types.len()],
            network: Network::default(),
            sums: FxHashMap::default(),
            unfolded: FxHashMap::default(),
        }
    }

    pub fn set(&mut self, v: Value, to: ir::Value) {
        self.numbers[v.0 as usize] = Some(to);
    }

    /// A value that is a constant.
    pub fn constant(&self, v: Value) -> Option<u128> {
        self.network.constant(v)
    }

    pub fn ty(&self, v: Value) -> ir::Type {
        match self.p.ty(v) {
            Type::Int(w) => int(w),
            Type::Entry(_) => types::I32,
        }
    }

    /// A value; a constant is made where it is used, if it is.
    pub fn get(&mut self, code: &mut Emitter<'_, '_>, v: Value) -> ir::Value {
        if let Some(value) = self.numbers[v.0 as usize] {
            return value;
        }
        let constant = self.constant(v).expect("the checker proved that the value is defined here");
        let ty = self.ty(v);
        code.address(Address::Constant(v), |code| code.imm(ty, constant))
    }

    pub fn amount(&mut self, code: &mut Emitter<'_, '_>, n: Amount) -> ir::Value {
        match n {
            Amount::Const(n) => code.imm32(n),
            Amount::Value(v) => self.get(code, v),
        }
    }

    /// Puts values into the frame from number `first` on.
    pub fn put_values(
        &mut self,
        code: &mut Emitter<'_, '_>,
        first: usize,
        values: impl IntoIterator<Item = Value>,
    ) {
        let at = code.frame_address();
        for (i, v) in values.into_iter().enumerate() {
            let value = self.get(code, v);
            let (low, high) = code.halves(value);
            let off = 16 * (first + i) as i32;
            code.b.ins().store(code.regions.frame, low, at, off);
            code.b.ins().store(code.regions.frame, high, at, off + 8);
        }
    }

    /// A key for rules: its fields one behind the other, the first in the lowest bytes.
    pub fn packed_key(&mut self, code: &mut Emitter<'_, '_>, key: &[Value]) -> Vec<ir::Value> {
        let mut words: Vec<ir::Value> = Vec::new();
        let mut at = 0;
        for &v in key {
            let value = self.get(code, v);
            let (low, high) = code.halves(value);
            let bytes = self.p.width(v).bytes();
            for (i, half) in [low, high].into_iter().take(bytes.div_ceil(8) as usize).enumerate() {
                let (word, shift) = ((at + 8 * i as u32) / 8, 8 * (at % 8));
                let moved = if shift == 0 { half } else { code.b.ins().ishl_imm_u(half, i64::from(shift)) };
                code.or_word(&mut words, word as usize, moved);
                if shift + 8 * bytes.min(8) > 64 {
                    let rest = code.b.ins().ushr_imm_u(half, i64::from(64 - shift));
                    code.or_word(&mut words, word as usize + 1, rest);
                }
            }
            at += bytes;
        }
        words
    }

    pub fn store_be(
        &mut self,
        code: &mut Emitter<'_, '_>,
        src: Value,
        at: ir::Value,
        off: i32,
        flags: MemFlagsData,
    ) {
        let v = if self.p.width(src).bits() > 8 { self.network(code, src) } else { self.get(code, src) };
        code.store_value(v, at, off, flags);
    }
}
