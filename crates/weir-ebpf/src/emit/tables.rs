//! Tables: entries are pointers to values of maps.

use weir_ir::Width;
use weir_ir::program::{BlockId, TableId, Target, Type, Value};

use super::Emit;
use crate::insn::{Alu, Cond, Helper, Insn, Reg, Size, Src};
use crate::maps::{Layout, MapKind};
use crate::refuse::Cause;
use Reg::{R0, R1, R2, R3, R4, R10};

/// `BPF_NOEXIST`.
const ONLY_NEW: u64 = 1;

impl Emit<'_> {
    pub(super) fn table_of(&self, entry: Value) -> TableId {
        match self.p.ty(entry) {
            Type::Entry(t) => t,
            Type::Int(_) => unreachable!("the checker proved that this is an entry"),
        }
    }

    pub(super) fn table_name(&self, entry: Value) -> String {
        self.p.tables[self.table_of(entry).0 as usize].decl.name.clone()
    }

    /// Layout and map of a table, if it can be one.
    fn table(&mut self, b: BlockId, t: TableId) -> Option<(Layout, u32)> {
        let decl = &self.p.tables[t.0 as usize].decl;
        let (table, usage) = (decl.name.clone(), self.usages.tables[t.0 as usize].clone());
        let Some(layout) = self.layouts[t.0 as usize].clone() else {
            self.refuse(b, Cause::Rules { table });
            return None;
        };
        let wide = layout.too_wide(usage.inserts);
        let cause = if let Some((of, bytes, most)) = wide {
            Cause::TableTooWide { table, of, bytes, most }
        } else if usage.races {
            Cause::Races { table }
        } else if usage.expires {
            Cause::Expires { table }
        } else {
            let map = self.map(layout.map(t));
            return Some((layout, map));
        };
        self.refuse(b, cause);
        None
    }

    /// The offset of a field in an entry, in parts.
    fn field_parts(at: u32, w: Width) -> Vec<(Size, i16, usize)> {
        match w {
            Width::W128 => vec![(Size::B8, at as i16, 0), (Size::B8, at as i16 + 8, 1)],
            w => vec![(Size::of(w.bytes()), at as i16, 0)],
        }
    }

    /// The key, on the stack; `r2` points to it.
    fn key(&mut self, layout: &Layout, key: &[Value]) {
        let base = self.frame.key;
        if layout.kind == MapKind::LpmTrie {
            let w = layout.key[0].1;
            self.store(Size::B4, R10, base, Src::Imm(w.bits() as i32));
            // The bytes of the address follow at a multiple of 4.
            let mut at = base + 4;
            for half in if w == Width::W128 { vec![1, 0] } else { vec![0] } {
                self.fetch_half(R1, key[0], half);
                match w.bytes().min(8) {
                    8 => {
                        self.put(Insn::ToBe { dst: R1, bits: 64 });
                        self.store(Size::B4, R10, at, Src::Reg(R1));
                        self.alu(Alu::Rsh, R1, Src::Imm(32));
                        self.store(Size::B4, R10, at + 4, Src::Reg(R1));
                        at += 8;
                    }
                    n => {
                        if n > 1 {
                            self.put(Insn::ToBe { dst: R1, bits: 8 * n });
                        }
                        self.store(Size::of(n), R10, at, Src::Reg(R1));
                    }
                }
            }
        } else {
            let filled: u32 = layout.key.iter().map(|k| k.1.bytes()).sum();
            if filled < layout.key_bytes {
                for at in (0..layout.key_bytes).step_by(8) {
                    self.store(Size::B8, R10, base + at as i16, Src::Imm(0));
                }
            }
            for (&(at, w), v) in layout.key.iter().zip(key) {
                for (size, at, half) in Self::field_parts(at, w) {
                    self.fetch_half(R1, *v, half);
                    self.store(size, R10, base + at, Src::Reg(R1));
                }
            }
        }
        self.mov(R2, R10);
        self.alu(Alu::Add, R2, Src::Imm(base.into()));
    }

    pub(super) fn lookup(&mut self, b: BlockId, t: TableId, key: &[Value], hit: &Target, miss: &Target) {
        let Some((layout, map)) = self.table(b, t) else { return };
        let (m, no) = (self.m.clone(), self.label());
        if layout.is_array() {
            // An index that is none of the array's.
            if self.p.width(key[0]) == Width::W128 {
                self.fetch_half(R1, key[0], 1);
                self.jump_if(Cond::Ne, R1, Src::Imm(0), no);
            }
            self.fetch(R1, key[0]);
            self.jump_if(Cond::Ge, R1, Src::Imm(layout.capacity as i32), no);
            self.alu(Alu::Mul, R1, Src::Imm(layout.stride as i32));
            self.array_base(&layout, map, true);
            self.alu(Alu::Add, R0, Src::Reg(R1));
        } else {
            self.key(&layout, key);
            self.put(Insn::Map { dst: R1, map });
            self.call(Helper::MapLookup);
            self.jump_if(Cond::Eq, R0, Src::Imm(0), no);
        }
        self.edge(hit, &[R0]);
        self.at(no);
        self.m = m;
        self.edge(miss, &[]);
    }

    /// The first entry of an array, in `r0`. `r1` may be needed later.
    fn array_base(&mut self, layout: &Layout, map: u32, keep: bool) {
        if layout.kind == MapKind::Array {
            self.put(Insn::MapValue { dst: R0, map, off: 0 });
            return;
        }
        if keep {
            // Between the key of 0 and the layers nothing is free: the distance waits in the key's own upper half.
            self.store(Size::B4, R10, -4, Src::Reg(R1));
        }
        self.store(Size::B4, R10, -8, Src::Imm(0));
        self.mov(R2, R10);
        self.alu(Alu::Add, R2, Src::Imm(-8));
        self.put(Insn::Map { dst: R1, map });
        self.call(Helper::MapLookup);
        let fault = self.fault();
        self.jump_if(Cond::Eq, R0, Src::Imm(0), fault);
        if keep {
            self.load(Size::B4, R1, R10, -4);
            // The verifier of the kernel has forgotten how large it is.
            let most = layout.stride * (layout.capacity - 1);
            self.jump_if(Cond::Gt, R1, Src::Imm(most as i32), fault);
        }
    }

    pub(super) fn insert(&mut self, b: BlockId, t: TableId, key: &[Value], ok: &Target, full: &Target) {
        let Some((layout, map)) = self.table(b, t) else { return };
        if layout.kind != MapKind::Hash {
            return self.lookup(b, t, key, ok, full);
        }
        let (m, no, found) = (self.m.clone(), self.label(), self.label());
        self.key(&layout, key);
        self.put(Insn::Map { dst: R1, map });
        self.call(Helper::MapLookup);
        self.jump_if(Cond::Ne, R0, Src::Imm(0), found);
        let value = self.frame.value;
        for at in (0..layout.stride).step_by(8) {
            self.store(Size::B8, R10, value + at as i16, Src::Imm(0));
        }
        if let Some(copy) = layout.key_copy {
            for at in (0..layout.key_bytes).step_by(4) {
                self.load(Size::B4, R1, R10, self.frame.key + at as i16);
                self.store(Size::B4, R10, value + (copy + at) as i16, Src::Reg(R1));
            }
        }
        let key_at = self.frame.key;
        self.put(Insn::Map { dst: R1, map });
        self.mov(R2, R10);
        self.alu(Alu::Add, R2, Src::Imm(key_at.into()));
        self.mov(R3, R10);
        self.alu(Alu::Add, R3, Src::Imm(value.into()));
        self.set(R4, ONLY_NEW);
        self.call(Helper::MapUpdate);
        // If another processor has made it meanwhile, it is the same entry.
        self.put(Insn::Map { dst: R1, map });
        self.mov(R2, R10);
        self.alu(Alu::Add, R2, Src::Imm(key_at.into()));
        self.call(Helper::MapLookup);
        self.jump_if(Cond::Eq, R0, Src::Imm(0), no);
        self.at(found);
        self.edge(ok, &[R0]);
        self.at(no);
        self.m = m;
        self.edge(full, &[]);
    }

    pub(super) fn index(&mut self, b: BlockId, dst: Value, t: TableId, index: u32) {
        let Some((layout, map)) = self.table(b, t) else { return };
        let off = index * layout.stride;
        if layout.kind == MapKind::Array {
            self.put(Insn::MapValue { dst: R0, map, off });
        } else {
            self.array_base(&layout, map, false);
            if off > 0 {
                self.alu(Alu::Add, R0, Src::Imm(off as i32));
            }
        }
        self.keep(dst, R0);
    }

    pub(super) fn get(&mut self, b: BlockId, dst: Value, entry: Value, field: u32) {
        let t = self.table_of(entry);
        let Some((layout, _)) = self.table(b, t) else { return };
        let (at, w) = layout.value[field as usize];
        let base = self.reg(entry, R1);
        // Both halves are read before the entry's place may be written.
        let parts = Self::field_parts(at, w);
        for (&(size, at, _), to) in parts.iter().zip([R2, R3]) {
            self.load(size, to, base, at);
        }
        for (&(_, _, half), from) in parts.iter().zip([R2, R3]) {
            self.keep_half(dst, half, from);
        }
    }

    pub(super) fn get_key(&mut self, b: BlockId, dst: Value, entry: Value, field: u32) {
        let t = self.table_of(entry);
        let Some((layout, _)) = self.table(b, t) else { return };
        let (Some(copy), MapKind::Hash) = (layout.key_copy, layout.kind) else {
            let table = self.table_name(entry);
            return self.refuse(b, Cause::AsksForKey { table });
        };
        let (at, w) = layout.key[field as usize];
        let base = self.reg(entry, R1);
        let parts = Self::field_parts(copy + at, w);
        for (&(size, at, _), to) in parts.iter().zip([R2, R3]) {
            self.load(size, to, base, at);
        }
        for (&(_, _, half), from) in parts.iter().zip([R2, R3]) {
            self.keep_half(dst, half, from);
        }
    }

    pub(super) fn set_field(&mut self, b: BlockId, op: usize, entry: Value, field: u32, src: Value) {
        let t = self.table_of(entry);
        let Some((layout, _)) = self.table(b, t) else { return };
        let (at, w) = layout.value[field as usize];
        let sum = self.usages.sums.get(&(b, op)).copied();
        if let (Some(more), true) = (sum, layout.kind != MapKind::PerCpuArray) {
            let size = Size::of(w.bytes());
            if !matches!(w, Width::W32 | Width::W64) {
                let table = self.table_name(entry);
                return self.refuse(b, Cause::Races { table });
            }
            self.fetch(R2, more);
            let base = self.reg(entry, R1);
            return self.put(Insn::AtomicAdd { size, base, off: at as i16, src: R2 });
        }
        for (size, at, half) in Self::field_parts(at, w) {
            self.fetch_half(R2, src, half);
            let base = self.reg(entry, R1);
            self.store(size, base, at, Src::Reg(R2));
        }
    }

    /// As `TableSet::touch` says of tables of few entries, without links: a time later than that, and by little, stays.
    pub(super) fn touch(&mut self, entry: Value, after: Value) {
        let t = self.table_of(entry);
        let Some(layout) = self.layouts[t.0 as usize].clone() else { return };
        let at = layout.expiry as i16;
        let (done, write, never) = (self.label(), self.label(), self.label());
        self.now(R0);
        // r2: when it is to go; r4: the latest that is left alone.
        self.fetch(R3, after);
        self.set(R2, 0);
        self.jump_if(Cond::Eq, R3, Src::Imm(0), never);
        self.mov(R2, R0);
        self.alu(Alu::Add, R2, Src::Reg(R3));
        self.at(never);
        self.alu(Alu::Rsh, R3, Src::Imm(weir_table::SLACK_SHIFT as i32));
        let small = self.label();
        self.jump_if(Cond::Le, R3, Src::Imm(weir_table::MOST_SLACK as i32), small);
        self.set(R3, weir_table::MOST_SLACK);
        self.at(small);
        self.mov(R4, R2);
        self.alu(Alu::Add, R4, Src::Reg(R3));
        let base = self.reg(entry, R1);
        self.load(Size::B8, R3, base, at);
        self.jump_if(Cond::Le, R3, Src::Reg(R0), write);
        self.jump_if(Cond::Lt, R3, Src::Reg(R2), write);
        self.jump_if(Cond::Le, R3, Src::Reg(R4), done);
        self.at(write);
        self.store(Size::B8, base, at, Src::Reg(R2));
        self.at(done);
    }
}
