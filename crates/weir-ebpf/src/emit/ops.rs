//! Operations.

use weir_ir::MetaField;
use weir_ir::program::{BlockId, Op};

use super::Emit;
use super::frame::number;
use crate::insn::{Cond, Helper, Insn, Reg, Size, Src};
use crate::maps::{Map, MapKind, Role};
use crate::refuse::Cause;
use crate::{Clock, Hook};
use Reg::{R0, R1, R6, R10};

impl Emit<'_> {
    pub(super) fn op(&mut self, b: BlockId, at: usize) {
        let p = self.p;
        let op = &p.block(b).ops[at];
        if op.dst().is_some_and(|d| self.places.fused.contains_key(&d)) {
            return;
        }
        match op {
            Op::Const { .. } => {}
            Op::Binary { op, dst, a, b: y } => self.binary(b, *op, *dst, *a, *y),
            Op::Compare { op, dst, a, b } => self.compare(*op, *dst, *a, *b),
            Op::Not { dst, a } => self.not(*dst, *a),
            Op::Resize { dst, a } => self.resize(*dst, *a),
            Op::Select { dst, cond, a, b } => self.select(*dst, *cond, *a, *b),
            Op::Sum16 { dst, a, b } => self.sum16(*dst, *a, *b),

            Op::Load { dst, layer, off } => self.load_bytes(b, *dst, *layer, *off),
            Op::Store { layer, off, src } => self.store_bytes(b, *layer, *off, *src),
            Op::Rest { dst, layer } => self.rest(*dst, *layer),
            Op::Distance { dst, from, to } => self.distance(*dst, *from, *to),
            Op::SetMark { layer, base, off } => self.set_mark(*layer, *base, *off),
            Op::ClearMark { layer } => self.clear_mark(*layer),
            Op::LoadAnno { dst, off } => self.load_anno(*dst, *off),
            Op::StoreAnno { off, src } => self.store_anno(*off, *src),
            Op::LoadMeta { dst, field } => {
                match self.frame.meta.get(&number(*field)) {
                    Some(slot) => {
                        let slot = *slot;
                        self.load(Size::B8, R1, R10, slot);
                    }
                    None => self.fetch_meta(number(*field), R1),
                }
                match (field, self.options.hook) {
                    (MetaField::PacketType, Hook::Xdp) => {
                        self.refuse(b, Cause::Asks("the kind of receiver of a packet"));
                    }
                    (MetaField::Checksum, Hook::Tc) => {
                        self.refuse(b, Cause::Asks("the state of a packet's checksum"));
                    }
                    _ => {}
                }
                self.keep(*dst, R1);
            }
            Op::StoreMeta { field, src } => {
                if let Some(slot) = self.frame.meta.get(&number(*field)).copied() {
                    let keep = self.label();
                    self.fetch(R1, *src);
                    // Only a device leaves a checksum to be finished.
                    if *field == MetaField::Checksum {
                        self.jump_if(Cond::Eq, R1, Src::Imm(2), keep);
                    }
                    self.store(Size::B8, R10, slot, Src::Reg(R1));
                    self.at(keep);
                }
            }
            Op::Checksum { dst, layer, start, end } => self.checksum(b, *dst, *layer, *start, *end),
            Op::CopyBytes { to, from, len } => self.copy_bytes(b, *to, *from, *len),
            Op::CompareBytes { dst, a, b: other, len } => self.compare_bytes(b, *dst, *a, *other, *len),
            Op::FindByte { .. } => self.refuse(b, Cause::Searches),

            Op::Hash { .. } => self.refuse(b, Cause::Hashes),
            Op::Random { dst } => {
                self.call(Helper::Random);
                self.cut(R0, weir_ir::Width::W32);
                self.keep(*dst, R0);
            }
            Op::Now { dst } => {
                self.now(R0);
                self.keep(*dst, R0);
            }
            Op::Pull { n } => self.pull(b, *n),
            Op::Trim { len } => self.trim(*len),

            Op::Index { dst, table, index } => self.index(b, *dst, *table, *index),
            Op::Get { dst, entry, field } => self.get(b, *dst, *entry, *field),
            Op::GetKey { dst, entry, field } => self.get_key(b, *dst, *entry, *field),
            Op::Set { entry, field, src } => self.set_field(b, at, *entry, *field, *src),
            Op::Touch { entry, after } => self.touch(*entry, *after),
            // Its place may be another entry's at once, while a processor still writes to it.
            Op::Remove { entry } => {
                let table = self.table_name(*entry);
                self.refuse(b, Cause::Removes { table });
            }
            Op::Link { a, .. } => {
                let table = self.table_name(*a);
                self.refuse(b, Cause::Links { table });
            }
            Op::GroupCount { table, .. } | Op::Size { table, .. } => {
                let table = self.p.tables[table.0 as usize].decl.name.clone();
                self.refuse(b, Cause::Counts { table });
            }
            Op::Fork { .. } => self.refuse(b, Cause::Starts),
            Op::Release { .. } => self.refuse(b, Cause::Holds),
            Op::Notify { .. } => self.refuse(b, Cause::Notifies),
        }
    }

    /// What the kernel gives with a packet, into a register.
    pub(super) fn fetch_meta(&mut self, field: u8, dst: Reg) {
        match (MetaField::ALL[field as usize], self.options.hook) {
            (MetaField::Timestamp, _) => self.now(dst),
            // `__sk_buff::pkt_type`, `__sk_buff::gso_size`
            (MetaField::PacketType, Hook::Tc) => self.load(Size::B4, dst, R6, 4),
            (MetaField::SegmentSize, Hook::Tc) => self.load(Size::B4, dst, R6, 176),
            // XDP sees packets before anything of the others is made of them: no hash, no unfinished checksum, no segments.
            _ => self.set(dst, 0),
        }
    }

    /// The time, which is the same for all that is done with a packet.
    pub(super) fn now(&mut self, dst: Reg) {
        if let Some(slot) = self.frame.time {
            self.load(Size::B8, dst, R10, slot);
        }
    }

    /// What time it is, into `r0`.
    pub(super) fn ask_time(&mut self) {
        match self.options.clock {
            Clock::Kernel => self.call(Helper::Ktime),
            Clock::Map => {
                let map =
                    self.map(Map { role: Role::Clock, kind: MapKind::Array, key: 4, value: 8, entries: 1 });
                self.put(Insn::MapValue { dst: R0, map, off: 0 });
                self.load(Size::B8, R0, R0, 0);
            }
        }
    }
}
