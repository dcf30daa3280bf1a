//! Operations.

use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, types};
use weir_ir::Layer;
use weir_ir::program::{Amount, Op, Target, Value};
use weir_packet::{Meta, UNSET};
use weir_table::View;

use crate::abi::helpers::{Ctx, Helper};
use crate::translate::layers::{INLINE, mark_offset, meta_offset};
use crate::translate::{Translator, int};

impl Translator<'_, '_> {
    /// Does an operation; a store perhaps together with the next one.
    pub fn op(&mut self, op: &Op, next: Option<&Op>) {
        if let Op::Const { .. } = op {
            return self.values.note_form(&mut self.code, op);
        }
        if let Some((dst, v)) = self.value_op(op) {
            self.values.note_form(&mut self.code, op);
            return self.values.set(dst, v);
        }
        if !matches!(op, Op::Set { .. } | Op::Store { .. }) {
            self.code.addresses.forget_entries();
        }
        match op {
            Op::Store { layer, off, src } => {
                let (at, off) = self.packet.bytes_at(&mut self.code, *layer, *off);
                if let Some(Op::Store { src: next, .. }) = next
                    && let Some(both) = self.values.pair(*src, *next)
                {
                    self.code.b.ins().store(self.code.regions.bytes, both, at, off);
                } else {
                    let bytes = self.code.regions.bytes;
                    self.values.store_be(&mut self.code, *src, at, off, bytes);
                }
            }
            Op::SetMark { layer, base, off } => {
                let (base, off) =
                    (self.packet.position(&mut self.code, *base), self.values.amount(&mut self.code, *off));
                let at = self.code.b.ins().iadd(base, off);
                self.packet.set_meta(&mut self.code, mark_offset(*layer), at);
            }
            Op::ClearMark { layer } => {
                let unset = self.code.imm32(UNSET);
                self.packet.set_meta(&mut self.code, mark_offset(*layer), unset);
            }
            Op::StoreAnno { off, src } => {
                let off = offset_of!(Meta, anno) + *off as usize;
                self.packet.note_dirty(&mut self.code, off, off + self.p.width(*src).bytes() as usize);
                let meta = self.code.unaligned_meta();
                self.values.store_be(&mut self.code, *src, self.packet.at, off as i32, meta);
            }
            Op::StoreMeta { field, src } => {
                self.packet.store_meta(&mut self.code, &mut self.values, *field, *src);
            }
            Op::CopyBytes { to, from, len } => self.packet.copy_bytes(&mut self.code, *to, *from, *len),
            Op::Pull { n } => {
                let (data, n) = (
                    self.packet.position(&mut self.code, Layer::Data),
                    self.values.amount(&mut self.code, *n),
                );
                let data = self.code.b.ins().iadd(data, n);
                self.packet.set_meta(&mut self.code, Meta::DATA_OFFSET, data);
            }
            Op::Trim { len } => {
                let (data, end, len) = (
                    self.packet.position(&mut self.code, Layer::Data),
                    self.packet.end(&mut self.code),
                    self.values.get(&mut self.code, *len),
                );
                let now = self.code.b.ins().isub(end, data);
                let len = self.code.b.ins().umin(len, now);
                let end = self.code.b.ins().iadd(data, len);
                self.packet.set_meta(&mut self.code, Meta::END_OFFSET, end);
            }
            Op::Set { entry, field, src } => self.set_field(*entry, *field, *src),
            Op::Touch { entry, after } => self.touch(*entry, *after),
            Op::Link { a, b } => {
                let ([ta, a], [tb, b]) = (
                    self.lanes.entry(&mut self.code, &self.here, &mut self.values, *a),
                    self.lanes.entry(&mut self.code, &self.here, &mut self.values, *b),
                );
                self.code.call(Helper::Link, &[ta, a, tb, b]);
            }
            Op::Remove { entry } => {
                let [table, slot] = self.lanes.entry(&mut self.code, &self.here, &mut self.values, *entry);
                self.code.call(Helper::Remove, &[table, slot]);
            }
            Op::Fork { copy, target } => {
                let copy = self.code.imm32((*copy).into());
                let [start, args, n, at, starter] = self.strand(target);
                self.code.call(Helper::Fork, &[self.packet.at, copy, start, args, n, at, starter]);
                self.code.stop_behind();
            }
            Op::Release { entry, target } => {
                let [table, slot] = self.lanes.entry(&mut self.code, &self.here, &mut self.values, *entry);
                let [start, args, n, at, starter] = self.strand(target);
                self.code.call(Helper::Release, &[table, slot, start, args, n, at, starter]);
                self.code.stop_behind();
            }
            Op::Notify { args, packet, .. } => {
                self.values.put_values(&mut self.code, 0, args.iter().copied());
                let packet = if *packet { self.packet.at } else { self.code.imm(types::I64, 0) };
                let event = self.lanes.each_op(&mut self.code, &self.here, |op| match op {
                    Op::Notify { event, .. } => *event,
                    _ => 0,
                });
                let (n, args) = (self.code.imm32(args.len() as u32), self.code.frame_number());
                self.code.call(Helper::Notify, &[event, args, n, packet]);
            }
            _ => unreachable!("operations that define a value are done above"),
        }
    }

    /// The value that an operation defines; `None` if it defines none.
    fn value_op(&mut self, op: &Op) -> Option<(Value, ir::Value)> {
        let dst = op.dst()?;
        let width = self.p.width(dst);
        let v = match op {
            Op::Binary { op, a, b, .. } => self.values.binary(&mut self.code, *op, dst, *a, *b),
            Op::Compare { op, a, b, .. } => self.values.compare(&mut self.code, *op, *a, *b),
            Op::Not { a, .. } => self.values.not(&mut self.code, width, *a),
            Op::Resize { a, .. } => self.values.resize(&mut self.code, width, *a),
            Op::Select { cond, a, b, .. } => {
                let (cond, a, b) = (
                    self.values.get(&mut self.code, *cond),
                    self.values.get(&mut self.code, *a),
                    self.values.get(&mut self.code, *b),
                );
                self.code.select(cond, a, b)
            }
            Op::Load { layer, off, .. } => {
                let form = match self.values.part(
                    &mut self.code,
                    &self.here,
                    &mut self.packet,
                    &mut self.tables,
                    &self.lanes,
                    dst,
                ) {
                    Some(form) => form,
                    None => {
                        let (at, off) = self.packet.bytes_at(&mut self.code, *layer, *off);
                        self.code.load_value(width, at, off, self.code.regions.bytes)
                    }
                };
                self.values.machine_form(&mut self.code, dst, form)
            }
            Op::Rest { layer, .. } => {
                // A mark that is not set is beyond every end.
                let (at, end) =
                    (self.packet.position(&mut self.code, *layer), self.packet.end(&mut self.code));
                let rest = self.code.b.ins().isub(end, at);
                if self.here.is_within(&self.lanes, *layer) {
                    return Some((dst, rest));
                }
                let within = self.code.b.ins().icmp(IntCC::UnsignedLessThanOrEqual, at, end);
                let zero = self.code.imm32(0);
                self.code.b.ins().select(within, rest, zero)
            }
            Op::Distance { from, to, .. } => self.packet.distance(&mut self.code, *from, *to),
            Op::LoadAnno { off, .. } => {
                let off = offset_of!(Meta, anno) + *off as usize;
                let form =
                    self.code.load_value(width, self.packet.at, off as i32, self.code.unaligned_meta());
                self.values.machine_form(&mut self.code, dst, form)
            }
            Op::LoadMeta { field, .. } => self.packet.meta(&mut self.code, int(width), meta_offset(*field)),
            Op::Checksum { layer, start, end: Amount::Const(end), .. }
                if (1..=INLINE).contains(&end.saturating_sub(*start)) =>
            {
                let sum = self.packet.sum_of_words(&mut self.code, *layer, *start, *end);
                self.values.unfolded.insert(dst, sum);
                self.code.folded_to_word(sum)
            }
            Op::Checksum { layer, start, end, .. } => {
                self.packet.checksum(&mut self.code, &mut self.values, *layer, *start, *end)
            }
            Op::Sum16 { a, b, .. } => self.values.sum16(&mut self.code, dst, *a, *b),
            Op::CompareBytes { a, b, len, .. } => self.packet.compare_bytes(&mut self.code, *a, *b, *len),
            Op::FindByte { layer, start, end, byte, .. } => {
                let (base, start, end, byte) = (
                    self.packet.position(&mut self.code, *layer),
                    self.code.imm32(*start),
                    self.values.amount(&mut self.code, *end),
                    self.values.get(&mut self.code, *byte),
                );
                let byte = self.code.b.ins().uextend(types::I32, byte);
                self.code.result(Helper::FindByte, &[self.packet.at, base, start, end, byte])
            }
            Op::Hash { args, .. } => self.values.hash(&mut self.code, args),
            Op::Random { .. } => self.code.result(Helper::Random, &[]),
            Op::Now { .. } => self.code.fixed(offset_of!(Ctx<'_>, now)),
            Op::Index { index, .. } => {
                let slot = self.code.imm32(*index);
                self.tables.cells.insert(slot, *index);
                slot
            }
            Op::Get { entry, field, .. } => self.get_field(dst, *entry, *field),
            Op::GetKey { entry, field, .. } => self.get_key(dst, *entry, *field),
            Op::GroupCount { table, value, .. } => {
                let (table, v) = (self.code.imm32(table.0), self.values.get(&mut self.code, *value));
                let (low, high) = self.code.halves(v);
                self.code.result(Helper::GroupCount, &[table, low, high])
            }
            Op::Size { table, .. } => {
                self.tables.view(&mut self.code, &self.here, types::I32, *table, View::LIVE)
            }
            _ => return None,
        };
        Some((dst, v))
    }

    /// What starts another packet: number of the start, its arguments and how many, the block and the element.
    fn strand(&mut self, target: &Target) -> [ir::Value; 5] {
        self.values.put_values(&mut self.code, 0, target.args.iter().copied());
        let (p, starts) = (self.p, self.known.starts);
        let start = self.lanes.each_op(&mut self.code, &self.here, |op| match op {
            Op::Fork { target, .. } | Op::Release { target, .. } => starts.number(target.block),
            _ => 0,
        });
        let here = self.lanes.each(&mut self.code, &self.here, |b| b.0);
        let starter = self.lanes.each(&mut self.code, &self.here, |b| p.block(b).owner);
        [start, self.code.frame_number(), self.code.imm32(target.args.len() as u32), here, starter]
    }
}
