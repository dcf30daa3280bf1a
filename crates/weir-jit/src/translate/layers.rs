//! Bytes and metadata of the packet.

use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, MemFlagsData, types};
use weir_ir::Layer;
use weir_ir::program::{Amount, MetaField, Value};
use weir_packet::{BUFFER_OFFSET, Checksum, Meta, UNSET};

use crate::abi::helpers::Helper;
use crate::translate::POSITIONS;
use crate::translate::addresses::Address;
use crate::translate::emit::Emitter;
use crate::translate::packet::{KnownPosition, PacketState, SAID_DIRTY};
use crate::translate::values::Values;

/// Longest range that is summed, copied, compared or cleared without a call.
pub(crate) const INLINE: u32 = 64;

impl PacketState {
    pub fn meta(&mut self, code: &mut Emitter<'_, '_>, ty: ir::Type, off: usize) -> ir::Value {
        let place = off / 4;
        if let Some(v) = self.known(code, place) {
            return v;
        }
        let region = code.meta_region(off);
        let v = code.load(ty, self.at, off as i32, region);
        if place < POSITIONS && code.is_settled() {
            self.places[place] = KnownPosition::Is(v);
        }
        v
    }

    pub fn set_meta(&mut self, code: &mut Emitter<'_, '_>, off: usize, v: ir::Value) {
        let region = code.meta_region(off);
        if off / 4 >= POSITIONS {
            self.note_dirty(code, off, off + 1);
        }
        code.b.ins().store(region, v, self.at, off as i32);
        let known = if code.is_settled() { KnownPosition::Is(v) } else { KnownPosition::Unknown };
        if let Some(place) = self.places.get_mut(off / 4) {
            *place = known;
        }
    }

    /// Says that metadata is written, from an offset on to another, which most packets leave as it was.
    pub fn note_dirty(&mut self, code: &mut Emitter<'_, '_>, from: usize, to: usize) {
        if from < Meta::REST_OFFSET && self.places[SAID_DIRTY] == KnownPosition::Unknown {
            let yes = self.set_dirty(code, Meta::DIRTY_FIRST_OFFSET);
            self.places[SAID_DIRTY] =
                if code.is_settled() { KnownPosition::Is(yes) } else { KnownPosition::Unknown };
        }
        if to > Meta::REST_OFFSET {
            self.set_dirty(code, Meta::DIRTY_REST_OFFSET);
        }
    }

    fn set_dirty(&mut self, code: &mut Emitter<'_, '_>, off: usize) -> ir::Value {
        let yes = code.imm(types::I8, 1);
        code.b.ins().store(code.regions.meta, yes, self.at, off as i32);
        yes
    }

    /// Position of a layer ([`UNSET`] if it is not set).
    pub fn position(&mut self, code: &mut Emitter<'_, '_>, layer: Layer) -> ir::Value {
        if let Some(at) = self.sliced.and_then(|p| p[layer as usize]) {
            return at;
        }
        let at = self.meta(code, types::I32, position_offset(layer));
        if let Some(positions) = &mut self.sliced {
            positions[layer as usize] = Some(at);
        }
        at
    }

    pub fn end(&mut self, code: &mut Emitter<'_, '_>) -> ir::Value {
        self.meta(code, types::I32, Meta::END_OFFSET)
    }

    /// Address of `layer + off`, which the checker proved to be in the packet: a base and an offset.
    pub fn bytes_at(&mut self, code: &mut Emitter<'_, '_>, layer: Layer, off: u32) -> (ir::Value, i32) {
        let position = self.position(code, layer);
        let position = if self.sliced.is_some() { code.within(position, off) } else { position };
        let at = code.address(Address::Byte(position), |code| {
            let position = code.extend(types::I64, position);
            code.b.ins().iadd(self.at, position)
        });
        match i32::try_from(u64::from(off) + BUFFER_OFFSET as u64 + u64::from(INLINE)) {
            Ok(past) => (at, past - INLINE as i32),
            // No packet is that long: this is never reached, but compiled.
            Err(_) => (at, BUFFER_OFFSET as i32),
        }
    }

    pub fn distance(&mut self, code: &mut Emitter<'_, '_>, from: Layer, to: Layer) -> ir::Value {
        let unset = code.imm32(UNSET);
        let [a, b] = [from, to].map(|l| self.position(code, l));
        let mut d = code.b.ins().isub(b, a);
        for (layer, at) in [(from, a), (to, b)] {
            if layer != Layer::Data {
                let missing = code.b.ins().icmp(IntCC::Equal, at, unset);
                d = code.b.ins().select(missing, unset, d);
            }
        }
        d
    }

    pub fn store_meta(
        &mut self,
        code: &mut Emitter<'_, '_>,
        values: &mut Values<'_>,
        field: MetaField,
        src: Value,
    ) {
        let mut v = values.get(code, src);
        if field == MetaField::Checksum {
            let old = self.meta(code, types::I8, meta_offset(field));
            let partial = code.imm(types::I8, Checksum::Partial as u128);
            let ignored = code.b.ins().icmp(IntCC::Equal, v, partial);
            v = code.b.ins().select(ignored, old, v);
        }
        self.set_meta(code, meta_offset(field), v);
    }

    /// The sum does not depend on the byte order, but for the order of its own two bytes (RFC 1071, section 2 B): so
    /// little-endian words are summed, and the result is swapped.
    pub fn checksum(
        &mut self,
        code: &mut Emitter<'_, '_>,
        values: &mut Values<'_>,
        layer: Layer,
        start: u32,
        end: Amount,
    ) -> ir::Value {
        match end {
            Amount::Const(end) if end <= start => code.imm(types::I16, 0),
            Amount::Const(_) => self.checksum_call(code, values, layer, start, end),
            Amount::Value(v) => {
                // Most headers have no options.
                let (end_value, usual) = (values.get(code, v), start + 20);
                let [inline, call, done] = std::array::from_fn(|_| code.b.create_block());
                let sum = code.b.append_block_param(done, types::I16);
                code.b.set_cold_block(call);
                let is = code.b.ins().icmp_imm_u(IntCC::Equal, end_value, i64::from(usual));
                code.b.ins().brif(is, inline, &[], call, &[]);
                code.b.switch_to_block(inline);
                let short = self.sum_of_words(code, layer, start, usual);
                let short = code.folded_to_word(short);
                code.b.ins().jump(done, &[short.into()]);
                code.b.switch_to_block(call);
                let long = self.checksum_call(code, values, layer, start, end);
                code.b.ins().jump(done, &[long.into()]);
                code.b.switch_to_block(done);
                sum
            }
        }
    }

    /// The sum of little-endian words, below 37 bits.
    pub fn sum_of_words(
        &mut self,
        code: &mut Emitter<'_, '_>,
        layer: Layer,
        start: u32,
        end: u32,
    ) -> ir::Value {
        let (at, off) = self.bytes_at(code, layer, start);
        let mut sum = code.imm(types::I64, 0);
        for (i, ty) in pieces(end - start, types::I32) {
            let (bytes, off) = (code.regions.bytes, off + i as i32);
            let v = match ty {
                types::I32 => code.b.ins().uload32(bytes, at, off),
                types::I16 => code.b.ins().uload16(types::I64, bytes, at, off),
                _ => code.b.ins().uload8(types::I64, bytes, at, off),
            };
            sum = code.b.ins().iadd(sum, v);
        }
        sum
    }

    fn checksum_call(
        &mut self,
        code: &mut Emitter<'_, '_>,
        values: &mut Values<'_>,
        layer: Layer,
        start: u32,
        end: Amount,
    ) -> ir::Value {
        let base = self.position(code, layer);
        let (start, end) = (code.imm32(start), values.amount(code, end));
        let [from, to] = [start, end].map(|off| code.b.ins().iadd(base, off));
        let sum = code.result(Helper::Checksum, &[self.at, from, to]);
        code.b.ins().ireduce(types::I16, sum)
    }

    pub fn copy_bytes(&mut self, code: &mut Emitter<'_, '_>, to: (Layer, u32), from: (Layer, u32), len: u32) {
        if len > INLINE {
            let [to, from] = [to, from].map(|r| self.range_at(code, r));
            let len = code.imm32(len);
            return code.call(Helper::CopyBytes, &[self.at, to, from, len]);
        }
        let (from, from_off) = self.bytes_at(code, from.0, from.1);
        let (to, to_off) = self.bytes_at(code, to.0, to.1);
        // The ranges may overlap: all is read before anything is written.
        let pieces = pieces(len, types::I64)
            .into_iter()
            .map(|(i, ty)| (i, code.b.ins().load(ty, code.regions.bytes, from, from_off + i as i32)));
        for (i, v) in pieces.collect::<Vec<_>>() {
            code.b.ins().store(code.regions.bytes, v, to, to_off + i as i32);
        }
    }

    pub fn compare_bytes(
        &mut self,
        code: &mut Emitter<'_, '_>,
        a: (Layer, u32),
        b: (Layer, u32),
        len: u32,
    ) -> ir::Value {
        if len > INLINE {
            let [a, b] = [a, b].map(|r| self.range_at(code, r));
            let len = code.imm32(len);
            let equal = code.result(Helper::CompareBytes, &[self.at, a, b, len]);
            return code.b.ins().ireduce(types::I8, equal);
        }
        let ((a, a_off), (b, b_off)) = (self.bytes_at(code, a.0, a.1), self.bytes_at(code, b.0, b.1));
        let mut different = code.imm(types::I64, 0);
        for (i, ty) in pieces(len, types::I64) {
            let x = code.b.ins().load(ty, code.regions.bytes, a, a_off + i as i32);
            let y = code.b.ins().load(ty, code.regions.bytes, b, b_off + i as i32);
            let d = code.b.ins().bxor(x, y);
            let d = if ty == types::I64 { d } else { code.b.ins().uextend(types::I64, d) };
            different = code.b.ins().bor(different, d);
        }
        let zero = code.imm(types::I64, 0);
        code.b.ins().icmp(IntCC::Equal, different, zero)
    }

    fn range_at(&mut self, code: &mut Emitter<'_, '_>, (layer, off): (Layer, u32)) -> ir::Value {
        let (base, off) = (self.position(code, layer), code.imm32(off));
        code.b.ins().iadd(base, off)
    }
}

impl Emitter<'_, '_> {
    fn meta_region(&self, off: usize) -> MemFlagsData {
        self.regions.positions.get(off / 4).copied().unwrap_or(self.regions.meta)
    }

    /// Annotations are metadata, but may stand at any offset.
    pub fn unaligned_meta(&self) -> MemFlagsData {
        MemFlagsData::new().with_notrap().with_alias_region(self.regions.meta.alias_region())
    }
}

/// A range of known length as pieces that a register takes: offsets and types.
pub(crate) fn pieces(len: u32, largest: ir::Type) -> Vec<(u32, ir::Type)> {
    let (mut at, mut list) = (0, Vec::new());
    for ty in [types::I64, types::I32, types::I16, types::I8] {
        while ty.bytes() <= largest.bytes() && len - at >= ty.bytes() {
            list.push((at, ty));
            at += ty.bytes();
        }
    }
    list
}

pub(crate) fn position_offset(layer: Layer) -> usize {
    if layer == Layer::Data { Meta::DATA_OFFSET } else { mark_offset(layer) }
}

pub(crate) fn mark_offset(layer: Layer) -> usize {
    Meta::MARKS_OFFSET + 4 * (layer as usize - 1)
}

pub(crate) fn meta_offset(field: MetaField) -> usize {
    match field {
        MetaField::PacketType => offset_of!(Meta, packet_type),
        MetaField::InPort => offset_of!(Meta, in_port),
        MetaField::Timestamp => offset_of!(Meta, timestamp),
        MetaField::FlowHash => offset_of!(Meta, hash),
        MetaField::Checksum => offset_of!(Meta, csum),
        MetaField::SegmentSize => offset_of!(Meta, gso_size),
        MetaField::Provenance => offset_of!(Meta, provenance),
    }
}
