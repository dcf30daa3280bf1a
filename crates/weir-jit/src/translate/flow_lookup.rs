//! What lookups become whose results are kept.

use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, BlockArg, InstBuilder, types};
use weir_ir::program::{Target, Value};

use crate::abi::helpers::{Ctx, Helper};
use crate::flows::cache::{NONE, View};
use crate::flows::{MOST_WORDS, Site, WAYS};
use crate::translate::Translator;
use crate::translate::emit::Emitter;

/// Odd numbers for the words of a key: digits of the golden ratio and of primes' square roots.
const FACTORS: [u64; MOST_WORDS] = [
    0x9e37_79b9_7f4a_7c15,
    0xbb67_ae85_84ca_a73b,
    0x3c6e_f372_fe94_f82b,
    0xa54f_f53a_5f1d_36f1,
    0x510e_527f_ade6_82d1,
    0x9b05_688c_2b3e_6c1f,
    0x1f83_d9ab_fb41_bd6b,
    0x5be0_cd19_137e_2179,
];

impl Translator<'_, '_> {
    /// Looks a key up: in the packet's entry, if there is a cache, and else in the table.
    pub fn kept_lookup(&mut self, number: usize, key: &[Value], hit: &Target, miss: &Target) {
        let site = self.known.flows.sites[number];
        let group = site.group;
        let words = self.values.packed_key(&mut self.code, key);
        let [on, there, learn, off] = std::array::from_fn(|_| self.code.b.create_block());
        let [entry, last] = [types::I64; 2].map(|ty| self.code.b.append_block_param(there, ty));
        self.code.b.set_cold_block(learn);
        let entries = self.code.group_view(group, offset_of!(View, entries));
        self.code.b.ins().brif(entries, on, &[], off, &[]);

        self.code.b.switch_to_block(on);
        let first = if site.leads { self.lead(&site, entries, &words) } else { self.code.current(group) };
        let ways = if site.leads { WAYS } else { 1 };
        for way in 0..ways {
            let next = if way + 1 < ways { self.code.b.create_block() } else { learn };
            let stride = self.known.flows.groups[group].stride;
            let entry = self.code.b.ins().iadd_imm_s(first, (way * stride) as i64);
            let (differs, last) = self.code.compare_section(&site, entry, &words);
            self.code.b.ins().brif(differs, next, &[], there, &[entry, last].map(BlockArg::Value));
            self.code.b.switch_to_block(next);
        }
        self.code.put_words(&words);
        let (at, n) = (self.code.frame_number(), self.code.imm32(words.len() as u32));
        let lookup = self.code.imm32(number as u32);
        let found = self.code.result(Helper::Learn, &[lookup, first, at, n]);
        self.found(found, hit, None, miss);

        self.code.b.switch_to_block(there);
        if site.leads && self.known.flows.groups[group].sites.len() > 1 {
            let current = self.code.fixed(offset_of!(Ctx<'_>, flow_entries));
            self.code.b.ins().store(self.code.regions.outcomes, entry, current, 8 * group as i32);
        }
        let hits = self.code.fixed(offset_of!(Ctx<'_>, flow_hits));
        let n = self.code.b.ins().load(types::I64, self.code.regions.outcomes, hits, 8 * number as i32);
        let n = self.code.b.ins().iadd_imm_s(n, 1);
        self.code.b.ins().store(self.code.regions.outcomes, n, hits, 8 * number as i32);
        let slot = self.code.b.ins().ireduce(types::I32, last);
        let is = self.code.b.ins().icmp_imm_u(IntCC::NotEqual, slot, i64::from(NONE));
        self.branch(is, hit, &[slot], miss);

        self.code.b.switch_to_block(off);
        self.table_lookup(site.table, key, hit, miss);
    }

    /// The first of the entries that may be the packet's, by the leader's key.
    fn lead(&mut self, site: &Site, entries: ir::Value, words: &[ir::Value]) -> ir::Value {
        let hash = self.code.flow_hash(words);
        let shift = self.code.group_view(site.group, offset_of!(View, shift));
        let off = self.code.b.ins().ushr(hash, shift);
        let set = WAYS * self.known.flows.groups[site.group].stride;
        let off = self.code.b.ins().band_imm_s(off, -(set as i64));
        self.code.b.ins().iadd(entries, off)
    }
}

impl Emitter<'_, '_> {
    /// Whether the section of an entry is another key's, or too old, as a number other than 0; if not, the lower half
    /// of the second value is what was found.
    fn compare_section(
        &mut self,
        site: &Site,
        entry: ir::Value,
        words: &[ir::Value],
    ) -> (ir::Value, ir::Value) {
        let (rows, section) = (self.regions.rows, site.section as i32);
        let stamp = self.group_view(site.group, offset_of!(View, stamp));
        let last = self.b.ins().load(types::I64, rows, entry, section + 8 * words.len() as i32);
        let last = self.b.ins().bxor(last, stamp);
        let mut differs = self.b.ins().ushr_imm_u(last, 32);
        for (i, &word) in words.iter().enumerate() {
            let known = self.b.ins().load(types::I64, rows, entry, section + 8 * i as i32);
            let x = self.b.ins().bxor(known, word);
            differs = self.b.ins().bor(differs, x);
        }
        (differs, last)
    }

    /// The hash of a key, by multiplication and shift (Dietzfelbinger and others 1997): its upper bits depend on all bits.
    pub fn flow_hash(&mut self, words: &[ir::Value]) -> ir::Value {
        let mut hash = self.imm(types::I64, 0);
        for (&word, factor) in words.iter().zip(FACTORS) {
            let factor = self.imm(types::I64, factor.into());
            let product = self.b.ins().imul(word, factor);
            hash = self.b.ins().iadd(hash, product);
        }
        hash
    }

    /// The entry that the leader found last: this packet's, unless it came here without the leader's lookup, as no
    /// packet does.
    pub fn current(&mut self, group: usize) -> ir::Value {
        let current = self.fixed(offset_of!(Ctx<'_>, flow_entries));
        self.b.ins().load(types::I64, self.regions.outcomes, current, 8 * group as i32)
    }

    /// A field of what is known of a group.
    fn group_view(&mut self, group: usize, off: usize) -> ir::Value {
        let views = self.fixed(offset_of!(Ctx<'_>, flows));
        let off = (group * size_of::<View>() + off) as i32;
        self.b.ins().load(types::I64, self.regions.fixed, views, off)
    }
}
