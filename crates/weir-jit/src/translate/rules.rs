//! Finding rules.

use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, types};
use weir_ir::program::{TableId, Target, Value};
use weir_table::{RulesView, View};

use crate::abi::helpers::{Helper, NOT_FOUND};
use crate::translate::Translator;
use crate::translate::emit::Emitter;
use crate::translate::here::Here;
use crate::translate::tables::Tables;

impl Translator<'_, '_> {
    /// Looks for the first rule that matches: without a call if the rules have the form for that ([`RulesView`]).
    pub fn lookup_rules(&mut self, table: TableId, key: &[Value], hit: &Target, miss: &Target) {
        let words = self.values.packed_key(&mut self.code, key);
        let [tuple, call, done] = std::array::from_fn(|_| self.code.b.create_block());
        let found = self.code.b.append_block_param(done, types::I64);
        if words.len() <= RulesView::WORDS {
            let algorithm = self.tables.rules_view(
                &mut self.code,
                &self.here,
                types::I32,
                table,
                offset_of!(RulesView, algorithm),
            );
            self.code.b.ins().brif(algorithm, tuple, &[], call, &[]);
            self.code.b.switch_to_block(tuple);
            self.tables.find_in_tuple(&mut self.code, &self.here, table, &words, done);
        } else {
            self.code.b.ins().jump(call, &[]);
        }

        self.code.b.switch_to_block(call);
        self.code.put_words(&words);
        let (at, n) = (self.code.frame_number(), self.code.imm32(words.len() as u32));
        let number = self.code.imm32(table.0);
        let called = self.code.result(Helper::FindRule, &[number, at, n]);
        self.code.b.ins().jump(done, &[called.into()]);

        self.code.b.switch_to_block(done);
        self.found(found, hit, None, miss);
    }
}

impl Tables<'_> {
    fn rules_view(
        &mut self,
        code: &mut Emitter<'_, '_>,
        here: &Here<'_>,
        ty: ir::Type,
        table: TableId,
        off: usize,
    ) -> ir::Value {
        self.view(code, here, ty, table, View::RULES + off)
    }

    /// Goes to `done` with the head of the best rule, or all ones.
    fn find_in_tuple(
        &mut self,
        code: &mut Emitter<'_, '_>,
        here: &Here<'_>,
        table: TableId,
        words: &[ir::Value],
        done: ir::Block,
    ) {
        let views = code.regions.views;
        let stride = 8 * (1 + 2 * words.len() as i64);
        let [tagged, candidate, matching, next, rest, other, step, last] =
            std::array::from_fn(|_| code.b.create_block());
        let left = code.b.append_block_param(candidate, types::I32);
        let best = code.b.append_block_param(rest, types::I64);
        let at_other = code.b.append_block_param(other, types::I64);

        let hash = self.tuple_hash(code, here, table, words);
        let groups = self.rules_view(code, here, types::I64, table, offset_of!(RulesView, groups));
        let wrap = self.rules_view(code, here, types::I64, table, offset_of!(RulesView, wrap));
        let off = code.b.ins().band(hash, wrap);
        let group = code.b.ins().iadd(groups, off);
        let tag = code.b.ins().ushr_imm_u(hash, 57);
        let tag = code.b.ins().bor_imm_u(tag, 0x80);
        let tag = code.b.ins().ireduce(types::I8, tag);
        let tag = code.b.ins().splat(types::I8X16, tag);
        let tags = code.b.ins().load(types::I8X16, views, group, 0);
        let same = code.b.ins().icmp(IntCC::Equal, tags, tag);
        let bits = code.b.ins().vhigh_bits(types::I32, same);
        let none = code.imm(types::I64, NOT_FOUND.into());
        code.b.ins().brif(bits, tagged, &[], rest, &[none.into()]);

        code.b.switch_to_block(tagged);
        let cells = self.rules_view(code, here, types::I64, table, offset_of!(RulesView, cells));
        let off = code.b.ins().load(types::I64, views, group, 16);
        let first = code.b.ins().iadd(cells, off);
        code.b.ins().jump(candidate, &[bits.into()]);

        code.b.switch_to_block(candidate);
        let i = code.b.ins().ctz(left);
        let i = code.b.ins().uextend(types::I64, i);
        let size = code.imm(types::I64, stride as u128);
        let off = code.b.ins().imul(i, size);
        let cell = code.b.ins().iadd(first, off);
        let differs = code.entry_differs(cell, words);
        code.b.ins().brif(differs, next, &[], matching, &[]);

        code.b.switch_to_block(matching);
        let head = code.b.ins().load(types::I64, views, cell, 0);
        let best_other = self.rules_view(code, here, types::I64, table, offset_of!(RulesView, best));
        let decided = code.b.ins().icmp(IntCC::UnsignedLessThan, head, best_other);
        code.b.ins().brif(decided, done, &[head.into()], rest, &[head.into()]);

        code.b.switch_to_block(next);
        let less = code.b.ins().iadd_imm_s(left, -1);
        let less = code.b.ins().band(left, less);
        let none = code.imm(types::I64, NOT_FOUND.into());
        code.b.ins().brif(less, candidate, &[less.into()], rest, &[none.into()]);

        // The last of the others matches every key.
        code.b.switch_to_block(rest);
        let others = self.rules_view(code, here, types::I64, table, offset_of!(RulesView, others));
        code.b.ins().jump(other, &[others.into()]);
        code.b.switch_to_block(other);
        let differs = code.entry_differs(at_other, words);
        code.b.ins().brif(differs, step, &[], last, &[]);
        code.b.switch_to_block(step);
        let at = code.b.ins().iadd_imm_s(at_other, stride);
        code.b.ins().jump(other, &[at.into()]);
        code.b.switch_to_block(last);
        let head = code.b.ins().load(types::I64, views, at_other, 0);
        let head = code.b.ins().umin(head, best);
        code.b.ins().jump(done, &[head.into()]);
    }

    /// See [`RulesView::salts`].
    fn tuple_hash(
        &mut self,
        code: &mut Emitter<'_, '_>,
        here: &Here<'_>,
        table: TableId,
        words: &[ir::Value],
    ) -> ir::Value {
        let salted: Vec<ir::Value> = (0..words.len().next_multiple_of(2))
            .map(|i| {
                let salt =
                    self.rules_view(code, here, types::I64, table, offset_of!(RulesView, salts) + 8 * i);
                let Some(&word) = words.get(i) else { return salt };
                let mask =
                    self.rules_view(code, here, types::I64, table, offset_of!(RulesView, masks) + 8 * i);
                let word = code.b.ins().band(word, mask);
                code.b.ins().bxor(word, salt)
            })
            .collect();
        let mut hash = None;
        for pair in salted.chunks_exact(2) {
            let h = code.product_halves_xored(pair[0], pair[1]);
            hash = Some(hash.map_or(h, |before| code.b.ins().bxor(before, h)));
        }
        hash.expect("a key has a word")
    }
}

impl Emitter<'_, '_> {
    /// Not zero if a key does not match the entry at an address.
    fn entry_differs(&mut self, at: ir::Value, words: &[ir::Value]) -> ir::Value {
        let views = self.regions.views;
        let mut differs = None;
        for (i, &word) in words.iter().enumerate() {
            let [value, mask] =
                [8, 16].map(|off| self.b.ins().load(types::I64, views, at, off + 16 * i as i32));
            let x = self.b.ins().bxor(word, value);
            let x = self.b.ins().band(x, mask);
            differs = Some(differs.map_or(x, |d| self.b.ins().bor(d, x)));
        }
        differs.expect("a key has a word")
    }

    pub fn or_word(&mut self, words: &mut Vec<ir::Value>, at: usize, bits: ir::Value) {
        match words.get(at) {
            Some(&w) => words[at] = self.b.ins().bor(w, bits),
            None => words.push(bits),
        }
    }
}
