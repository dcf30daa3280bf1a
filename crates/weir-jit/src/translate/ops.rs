//! Operations.

use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, MemFlagsData, types};
use weir_ir::Layer;
use weir_ir::program::{Amount, MetaField, Op, Target, Value};
use weir_packet::{BUFFER_OFFSET, Checksum, Meta, UNSET};
use weir_table::View;

use crate::abi::helpers::{Ctx, Helper};
use crate::translate::addresses::Address;
use crate::translate::packet::{KnownPosition, SAID_DIRTY};
use crate::translate::{POSITIONS, Translator, int};

/// Longest range that is summed, copied, compared or cleared without a call.
pub(crate) const INLINE: u32 = 64;

impl Translator<'_, '_> {
    /// Does an operation; a store perhaps together with the next one.
    pub(crate) fn op(&mut self, op: &Op, next: Option<&Op>) {
        if let Op::Const { .. } = op {
            return self.note_form(op);
        }
        if let Some((dst, v)) = self.value_op(op) {
            self.note_form(op);
            return self.values.set(dst, v);
        }
        if !matches!(op, Op::Set { .. } | Op::Store { .. }) {
            self.forget_entries();
        }
        match op {
            Op::Store { layer, off, src } => {
                let (at, off) = self.bytes_at(*layer, *off);
                if let Some(Op::Store { src: next, .. }) = next
                    && let Some(both) = self.pair(*src, *next)
                {
                    self.code.b.ins().store(self.code.regions.bytes, both, at, off);
                } else {
                    self.store_be(*src, at, off, self.code.regions.bytes);
                }
            }
            Op::SetMark { layer, base, off } => {
                let (base, off) = (self.position(*base), self.amount(*off));
                let at = self.code.b.ins().iadd(base, off);
                self.set_meta(mark_offset(*layer), at);
            }
            Op::ClearMark { layer } => {
                let unset = self.code.imm32(UNSET);
                self.set_meta(mark_offset(*layer), unset);
            }
            Op::StoreAnno { off, src } => {
                let off = offset_of!(Meta, anno) + *off as usize;
                self.note_dirty(off, off + self.p.width(*src).bytes() as usize);
                self.store_be(*src, self.packet.at, off as i32, self.unaligned_meta());
            }
            Op::StoreMeta { field, src } => self.store_meta(*field, *src),
            Op::CopyBytes { to, from, len } => self.copy_bytes(*to, *from, *len),
            Op::Pull { n } => {
                let (data, n) = (self.position(Layer::Data), self.amount(*n));
                let data = self.code.b.ins().iadd(data, n);
                self.set_meta(Meta::DATA_OFFSET, data);
            }
            Op::Trim { len } => {
                let (data, end, len) = (self.position(Layer::Data), self.packet_end(), self.get(*len));
                let now = self.code.b.ins().isub(end, data);
                let len = self.code.b.ins().umin(len, now);
                let end = self.code.b.ins().iadd(data, len);
                self.set_meta(Meta::END_OFFSET, end);
            }
            Op::Set { entry, field, src } => self.set_field(*entry, *field, *src),
            Op::Touch { entry, after } => self.touch(*entry, *after),
            Op::Link { a, b } => {
                let ([ta, a], [tb, b]) = (self.entry(*a), self.entry(*b));
                self.call(Helper::Link, &[ta, a, tb, b]);
            }
            Op::Remove { entry } => {
                let [table, slot] = self.entry(*entry);
                self.call(Helper::Remove, &[table, slot]);
            }
            Op::Fork { copy, target } => {
                let copy = self.code.imm32((*copy).into());
                let [start, args, n, at, starter] = self.strand(target);
                self.call(Helper::Fork, &[self.packet.at, copy, start, args, n, at, starter]);
                self.stop_behind();
            }
            Op::Release { entry, target } => {
                let [table, slot] = self.entry(*entry);
                let [start, args, n, at, starter] = self.strand(target);
                self.call(Helper::Release, &[table, slot, start, args, n, at, starter]);
                self.stop_behind();
            }
            Op::Notify { args, packet, .. } => {
                self.put_values(0, args.iter().copied());
                let packet = if *packet { self.packet.at } else { self.code.imm(types::I64, 0) };
                let event = self.each_op(|_, op| match op {
                    Op::Notify { event, .. } => *event,
                    _ => 0,
                });
                let (n, args) = (self.code.imm32(args.len() as u32), self.frame_number());
                self.call(Helper::Notify, &[event, args, n, packet]);
            }
            _ => unreachable!("operations that define a value are done above"),
        }
    }

    /// The value that an operation defines; `None` if it defines none.
    fn value_op(&mut self, op: &Op) -> Option<(Value, ir::Value)> {
        let dst = op.dst()?;
        let width = self.p.width(dst);
        let v = match op {
            Op::Binary { op, a, b, .. } => self.binary(*op, dst, *a, *b),
            Op::Compare { op, a, b, .. } => self.compare(*op, *a, *b),
            Op::Not { a, .. } => self.not(width, *a),
            Op::Resize { a, .. } => self.resize(width, *a),
            Op::Select { cond, a, b, .. } => {
                let (cond, a, b) = (self.get(*cond), self.get(*a), self.get(*b));
                self.code.select(cond, a, b)
            }
            Op::Load { layer, off, .. } => {
                let form = match self.part(dst) {
                    Some(form) => form,
                    None => {
                        let (at, off) = self.bytes_at(*layer, *off);
                        self.code.load_value(width, at, off, self.code.regions.bytes)
                    }
                };
                self.machine_form(dst, form)
            }
            Op::Rest { layer, .. } => {
                // A mark that is not set is beyond every end.
                let (at, end) = (self.position(*layer), self.packet_end());
                let rest = self.code.b.ins().isub(end, at);
                if self.is_within(*layer) {
                    return Some((dst, rest));
                }
                let within = self.code.b.ins().icmp(IntCC::UnsignedLessThanOrEqual, at, end);
                let zero = self.code.imm32(0);
                self.code.b.ins().select(within, rest, zero)
            }
            Op::Distance { from, to, .. } => self.distance(*from, *to),
            Op::LoadAnno { off, .. } => {
                let off = offset_of!(Meta, anno) + *off as usize;
                let form = self.code.load_value(width, self.packet.at, off as i32, self.unaligned_meta());
                self.machine_form(dst, form)
            }
            Op::LoadMeta { field, .. } => self.meta(int(width), meta_offset(*field)),
            Op::Checksum { layer, start, end: Amount::Const(end), .. }
                if (1..=INLINE).contains(&end.saturating_sub(*start)) =>
            {
                let sum = self.sum_of_words(*layer, *start, *end);
                self.values.unfolded.insert(dst, sum);
                self.code.folded_to_word(sum)
            }
            Op::Checksum { layer, start, end, .. } => self.checksum(*layer, *start, *end),
            Op::Sum16 { a, b, .. } => self.sum16(dst, *a, *b),
            Op::CompareBytes { a, b, len, .. } => self.compare_bytes(*a, *b, *len),
            Op::FindByte { layer, start, end, byte, .. } => {
                let (base, start, end, byte) =
                    (self.position(*layer), self.code.imm32(*start), self.amount(*end), self.get(*byte));
                let byte = self.code.b.ins().uextend(types::I32, byte);
                self.result(Helper::FindByte, &[self.packet.at, base, start, end, byte])
            }
            Op::Hash { args, .. } => self.hash(args),
            Op::Random { .. } => self.result(Helper::Random, &[]),
            Op::Now { .. } => self.fixed(offset_of!(Ctx<'_>, now)),
            Op::Index { index, .. } => {
                let slot = self.code.imm32(*index);
                self.rows.cells.insert(slot, *index);
                slot
            }
            Op::Get { entry, field, .. } => self.get_field(dst, *entry, *field),
            Op::GetKey { entry, field, .. } => self.get_key(dst, *entry, *field),
            Op::GroupCount { table, value, .. } => {
                let (table, v) = (self.code.imm32(table.0), self.get(*value));
                let (low, high) = self.code.halves(v);
                self.result(Helper::GroupCount, &[table, low, high])
            }
            Op::Size { table, .. } => self.view(types::I32, *table, View::LIVE),
            _ => return None,
        };
        Some((dst, v))
    }

    /// What starts another packet: number of the start, its arguments and how many, the block and the element.
    fn strand(&mut self, target: &Target) -> [ir::Value; 5] {
        self.put_values(0, target.args.iter().copied());
        let start = self.each_op(|t, op| match op {
            Op::Fork { target, .. } | Op::Release { target, .. } => t.known.starts.number(target.block),
            _ => 0,
        });
        let here = self.each(|_, b| b.0);
        let starter = self.each(|t, b| t.p.block(b).owner);
        [start, self.frame_number(), self.code.imm32(target.args.len() as u32), here, starter]
    }

    // --- the packet -------------------------------------------------------------------------------------------

    pub(crate) fn meta(&mut self, ty: ir::Type, off: usize) -> ir::Value {
        let place = off / 4;
        if let Some(v) = self.packet.known(&mut self.code.b, place) {
            return v;
        }
        let region = self.meta_region(off);
        let v = self.code.load(ty, self.packet.at, off as i32, region);
        if place < POSITIONS && self.packet.is_settled(&self.code.b) {
            self.packet.places[place] = KnownPosition::Is(v);
        }
        v
    }

    pub(crate) fn set_meta(&mut self, off: usize, v: ir::Value) {
        let region = self.meta_region(off);
        if off / 4 >= POSITIONS {
            self.note_dirty(off, off + 1);
        }
        self.code.b.ins().store(region, v, self.packet.at, off as i32);
        let known =
            if self.packet.is_settled(&self.code.b) { KnownPosition::Is(v) } else { KnownPosition::Unknown };
        if let Some(place) = self.packet.places.get_mut(off / 4) {
            *place = known;
        }
    }

    /// Says that metadata is written, from an offset on to another, which most packets leave as it was.
    fn note_dirty(&mut self, from: usize, to: usize) {
        if from < Meta::REST_OFFSET && self.packet.places[SAID_DIRTY] == KnownPosition::Unknown {
            let yes = self.set_dirty(Meta::DIRTY_FIRST_OFFSET);
            self.packet.places[SAID_DIRTY] = if self.packet.is_settled(&self.code.b) {
                KnownPosition::Is(yes)
            } else {
                KnownPosition::Unknown
            };
        }
        if to > Meta::REST_OFFSET {
            self.set_dirty(Meta::DIRTY_REST_OFFSET);
        }
    }

    fn set_dirty(&mut self, off: usize) -> ir::Value {
        let yes = self.code.imm(types::I8, 1);
        self.code.b.ins().store(self.code.regions.meta, yes, self.packet.at, off as i32);
        yes
    }

    fn meta_region(&self, off: usize) -> MemFlagsData {
        self.code.regions.positions.get(off / 4).copied().unwrap_or(self.code.regions.meta)
    }

    /// Annotations are metadata, but may stand at any offset.
    fn unaligned_meta(&self) -> MemFlagsData {
        MemFlagsData::new().with_notrap().with_alias_region(self.code.regions.meta.alias_region())
    }

    /// Position of a layer ([`UNSET`] if it is not set).
    pub(crate) fn position(&mut self, layer: Layer) -> ir::Value {
        if let Some(at) = self.packet.sliced.and_then(|p| p[layer as usize]) {
            return at;
        }
        let at = self.meta(types::I32, position_offset(layer));
        if let Some(positions) = &mut self.packet.sliced {
            positions[layer as usize] = Some(at);
        }
        at
    }

    pub(crate) fn packet_end(&mut self) -> ir::Value {
        self.meta(types::I32, Meta::END_OFFSET)
    }

    /// Address of `layer + off`, which the checker proved to be in the packet: a base and an offset.
    pub(crate) fn bytes_at(&mut self, layer: Layer, off: u32) -> (ir::Value, i32) {
        let position = self.position(layer);
        let position = if self.packet.sliced.is_some() { self.within(position, off) } else { position };
        let at = self.address(Address::Byte(position), |t| {
            let position = t.code.extend(types::I64, position);
            t.code.b.ins().iadd(t.packet.at, position)
        });
        match i32::try_from(u64::from(off) + BUFFER_OFFSET as u64 + u64::from(INLINE)) {
            Ok(past) => (at, past - INLINE as i32),
            // No packet is that long: this is never reached, but compiled.
            Err(_) => (at, BUFFER_OFFSET as i32),
        }
    }

    fn store_be(&mut self, src: Value, at: ir::Value, off: i32, flags: MemFlagsData) {
        let v = if self.p.width(src).bits() > 8 { self.network(src) } else { self.get(src) };
        self.code.store_value(v, at, off, flags);
    }

    fn distance(&mut self, from: Layer, to: Layer) -> ir::Value {
        let unset = self.code.imm32(UNSET);
        let [a, b] = [from, to].map(|l| self.position(l));
        let mut d = self.code.b.ins().isub(b, a);
        for (layer, at) in [(from, a), (to, b)] {
            if layer != Layer::Data {
                let missing = self.code.b.ins().icmp(IntCC::Equal, at, unset);
                d = self.code.b.ins().select(missing, unset, d);
            }
        }
        d
    }

    fn store_meta(&mut self, field: MetaField, src: Value) {
        let mut v = self.get(src);
        if field == MetaField::Checksum {
            let old = self.meta(types::I8, meta_offset(field));
            let partial = self.code.imm(types::I8, Checksum::Partial as u128);
            let ignored = self.code.b.ins().icmp(IntCC::Equal, v, partial);
            v = self.code.b.ins().select(ignored, old, v);
        }
        self.set_meta(meta_offset(field), v);
    }

    // --- ranges -----------------------------------------------------------------------------------------------

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

    /// The sum does not depend on the byte order, but for the order of its own two bytes (RFC 1071, section 2 B): so
    /// little-endian words are summed, and the result is swapped.
    fn checksum(&mut self, layer: Layer, start: u32, end: Amount) -> ir::Value {
        match end {
            Amount::Const(end) if end <= start => self.code.imm(types::I16, 0),
            Amount::Const(_) => self.checksum_call(layer, start, end),
            Amount::Value(v) => {
                // Most headers have no options.
                let (end_value, usual) = (self.get(v), start + 20);
                let [inline, call, done] = std::array::from_fn(|_| self.code.b.create_block());
                let sum = self.code.b.append_block_param(done, types::I16);
                self.code.b.set_cold_block(call);
                let is = self.code.b.ins().icmp_imm_u(IntCC::Equal, end_value, i64::from(usual));
                self.code.b.ins().brif(is, inline, &[], call, &[]);
                self.code.b.switch_to_block(inline);
                let short = self.sum_of_words(layer, start, usual);
                let short = self.code.folded_to_word(short);
                self.code.b.ins().jump(done, &[short.into()]);
                self.code.b.switch_to_block(call);
                let long = self.checksum_call(layer, start, end);
                self.code.b.ins().jump(done, &[long.into()]);
                self.code.b.switch_to_block(done);
                sum
            }
        }
    }

    /// The sum of little-endian words, below 37 bits.
    fn sum_of_words(&mut self, layer: Layer, start: u32, end: u32) -> ir::Value {
        let (at, off) = self.bytes_at(layer, start);
        let mut sum = self.code.imm(types::I64, 0);
        for (i, ty) in Self::pieces(end - start, types::I32) {
            let (bytes, off) = (self.code.regions.bytes, off + i as i32);
            let v = match ty {
                types::I32 => self.code.b.ins().uload32(bytes, at, off),
                types::I16 => self.code.b.ins().uload16(types::I64, bytes, at, off),
                _ => self.code.b.ins().uload8(types::I64, bytes, at, off),
            };
            sum = self.code.b.ins().iadd(sum, v);
        }
        sum
    }

    fn checksum_call(&mut self, layer: Layer, start: u32, end: Amount) -> ir::Value {
        let base = self.position(layer);
        let (start, end) = (self.code.imm32(start), self.amount(end));
        let [from, to] = [start, end].map(|off| self.code.b.ins().iadd(base, off));
        let sum = self.result(Helper::Checksum, &[self.packet.at, from, to]);
        self.code.b.ins().ireduce(types::I16, sum)
    }

    fn copy_bytes(&mut self, to: (Layer, u32), from: (Layer, u32), len: u32) {
        if len > INLINE {
            let [to, from] = [to, from].map(|r| self.range_at(r));
            let len = self.code.imm32(len);
            return self.call(Helper::CopyBytes, &[self.packet.at, to, from, len]);
        }
        let (from, from_off) = self.bytes_at(from.0, from.1);
        let (to, to_off) = self.bytes_at(to.0, to.1);
        // The ranges may overlap: all is read before anything is written.
        let pieces = Self::pieces(len, types::I64).into_iter().map(|(i, ty)| {
            (i, self.code.b.ins().load(ty, self.code.regions.bytes, from, from_off + i as i32))
        });
        for (i, v) in pieces.collect::<Vec<_>>() {
            self.code.b.ins().store(self.code.regions.bytes, v, to, to_off + i as i32);
        }
    }

    fn compare_bytes(&mut self, a: (Layer, u32), b: (Layer, u32), len: u32) -> ir::Value {
        if len > INLINE {
            let [a, b] = [a, b].map(|r| self.range_at(r));
            let len = self.code.imm32(len);
            let equal = self.result(Helper::CompareBytes, &[self.packet.at, a, b, len]);
            return self.code.b.ins().ireduce(types::I8, equal);
        }
        let ((a, a_off), (b, b_off)) = (self.bytes_at(a.0, a.1), self.bytes_at(b.0, b.1));
        let mut different = self.code.imm(types::I64, 0);
        for (i, ty) in Self::pieces(len, types::I64) {
            let x = self.code.b.ins().load(ty, self.code.regions.bytes, a, a_off + i as i32);
            let y = self.code.b.ins().load(ty, self.code.regions.bytes, b, b_off + i as i32);
            let d = self.code.b.ins().bxor(x, y);
            let d = if ty == types::I64 { d } else { self.code.b.ins().uextend(types::I64, d) };
            different = self.code.b.ins().bor(different, d);
        }
        let zero = self.code.imm(types::I64, 0);
        self.code.b.ins().icmp(IntCC::Equal, different, zero)
    }

    fn range_at(&mut self, (layer, off): (Layer, u32)) -> ir::Value {
        let (base, off) = (self.position(layer), self.code.imm32(off));
        self.code.b.ins().iadd(base, off)
    }
}

pub(crate) fn position_offset(layer: Layer) -> usize {
    if layer == Layer::Data { Meta::DATA_OFFSET } else { mark_offset(layer) }
}

fn mark_offset(layer: Layer) -> usize {
    Meta::MARKS_OFFSET + 4 * (layer as usize - 1)
}

fn meta_offset(field: MetaField) -> usize {
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
