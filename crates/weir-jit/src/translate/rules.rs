//! Finding rules.

use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, types};
use weir_ir::program::{TableId, Target, Value};
use weir_table::{RulesView, View};

use crate::abi::helpers::{Helper, NOT_FOUND};
use crate::translate::Translator;

impl Translator<'_, '_> {
    /// Looks for the first rule that matches: without a call if the rules have the form for that ([`RulesView`]).
    pub(crate) fn lookup_rules(&mut self, table: TableId, key: &[Value], hit: &Target, miss: &Target) {
        let words = self.packed_key(key);
        let [tuple, call, done] = std::array::from_fn(|_| self.code.b.create_block());
        let found = self.code.b.append_block_param(done, types::I64);
        if words.len() <= RulesView::WORDS {
            let algorithm = self.rules_view(types::I32, table, offset_of!(RulesView, algorithm));
            self.code.b.ins().brif(algorithm, tuple, &[], call, &[]);
            self.code.b.switch_to_block(tuple);
            self.find_in_tuple(table, &words, done);
        } else {
            self.code.b.ins().jump(call, &[]);
        }

        self.code.b.switch_to_block(call);
        self.put_words(&words);
        let (at, n) = (self.frame_number(), self.code.imm32(words.len() as u32));
        let number = self.code.imm32(table.0);
        let called = self.result(Helper::FindRule, &[number, at, n]);
        self.code.b.ins().jump(done, &[called.into()]);

        self.code.b.switch_to_block(done);
        self.found(found, hit, None, miss);
    }

    fn rules_view(&mut self, ty: ir::Type, table: TableId, off: usize) -> ir::Value {
        self.view(ty, table, View::RULES + off)
    }

    /// Goes to `done` with the head of the best rule, or all ones.
    fn find_in_tuple(&mut self, table: TableId, words: &[ir::Value], done: ir::Block) {
        let views = self.code.regions.views;
        let stride = 8 * (1 + 2 * words.len() as i64);
        let [tagged, candidate, matching, next, rest, other, step, last] =
            std::array::from_fn(|_| self.code.b.create_block());
        let left = self.code.b.append_block_param(candidate, types::I32);
        let best = self.code.b.append_block_param(rest, types::I64);
        let at_other = self.code.b.append_block_param(other, types::I64);

        let hash = self.tuple_hash(table, words);
        let groups = self.rules_view(types::I64, table, offset_of!(RulesView, groups));
        let wrap = self.rules_view(types::I64, table, offset_of!(RulesView, wrap));
        let off = self.code.b.ins().band(hash, wrap);
        let group = self.code.b.ins().iadd(groups, off);
        let tag = self.code.b.ins().ushr_imm_u(hash, 57);
        let tag = self.code.b.ins().bor_imm_u(tag, 0x80);
        let tag = self.code.b.ins().ireduce(types::I8, tag);
        let tag = self.code.b.ins().splat(types::I8X16, tag);
        let tags = self.code.b.ins().load(types::I8X16, views, group, 0);
        let same = self.code.b.ins().icmp(IntCC::Equal, tags, tag);
        let bits = self.code.b.ins().vhigh_bits(types::I32, same);
        let none = self.code.imm(types::I64, NOT_FOUND.into());
        self.code.b.ins().brif(bits, tagged, &[], rest, &[none.into()]);

        self.code.b.switch_to_block(tagged);
        let cells = self.rules_view(types::I64, table, offset_of!(RulesView, cells));
        let off = self.code.b.ins().load(types::I64, views, group, 16);
        let first = self.code.b.ins().iadd(cells, off);
        self.code.b.ins().jump(candidate, &[bits.into()]);

        self.code.b.switch_to_block(candidate);
        let i = self.code.b.ins().ctz(left);
        let i = self.code.b.ins().uextend(types::I64, i);
        let size = self.code.imm(types::I64, stride as u128);
        let off = self.code.b.ins().imul(i, size);
        let cell = self.code.b.ins().iadd(first, off);
        let differs = self.entry_differs(cell, words);
        self.code.b.ins().brif(differs, next, &[], matching, &[]);

        self.code.b.switch_to_block(matching);
        let head = self.code.b.ins().load(types::I64, views, cell, 0);
        let best_other = self.rules_view(types::I64, table, offset_of!(RulesView, best));
        let decided = self.code.b.ins().icmp(IntCC::UnsignedLessThan, head, best_other);
        self.code.b.ins().brif(decided, done, &[head.into()], rest, &[head.into()]);

        self.code.b.switch_to_block(next);
        let less = self.code.b.ins().iadd_imm_s(left, -1);
        let less = self.code.b.ins().band(left, less);
        let none = self.code.imm(types::I64, NOT_FOUND.into());
        self.code.b.ins().brif(less, candidate, &[less.into()], rest, &[none.into()]);

        // The last of the others matches every key.
        self.code.b.switch_to_block(rest);
        let others = self.rules_view(types::I64, table, offset_of!(RulesView, others));
        self.code.b.ins().jump(other, &[others.into()]);
        self.code.b.switch_to_block(other);
        let differs = self.entry_differs(at_other, words);
        self.code.b.ins().brif(differs, step, &[], last, &[]);
        self.code.b.switch_to_block(step);
        let at = self.code.b.ins().iadd_imm_s(at_other, stride);
        self.code.b.ins().jump(other, &[at.into()]);
        self.code.b.switch_to_block(last);
        let head = self.code.b.ins().load(types::I64, views, at_other, 0);
        let head = self.code.b.ins().umin(head, best);
        self.code.b.ins().jump(done, &[head.into()]);
    }

    /// See [`RulesView::salts`].
    fn tuple_hash(&mut self, table: TableId, words: &[ir::Value]) -> ir::Value {
        let salted: Vec<ir::Value> = (0..words.len().next_multiple_of(2))
            .map(|i| {
                let salt = self.rules_view(types::I64, table, offset_of!(RulesView, salts) + 8 * i);
                let Some(&word) = words.get(i) else { return salt };
                let mask = self.rules_view(types::I64, table, offset_of!(RulesView, masks) + 8 * i);
                let word = self.code.b.ins().band(word, mask);
                self.code.b.ins().bxor(word, salt)
            })
            .collect();
        let mut hash = None;
        for pair in salted.chunks_exact(2) {
            let h = self.code.product_halves_xored(pair[0], pair[1]);
            hash = Some(hash.map_or(h, |before| self.code.b.ins().bxor(before, h)));
        }
        hash.expect("a key has a word")
    }

    /// Not zero if a key does not match the entry at an address.
    fn entry_differs(&mut self, at: ir::Value, words: &[ir::Value]) -> ir::Value {
        let views = self.code.regions.views;
        let mut differs = None;
        for (i, &word) in words.iter().enumerate() {
            let [value, mask] =
                [8, 16].map(|off| self.code.b.ins().load(types::I64, views, at, off + 16 * i as i32));
            let x = self.code.b.ins().bxor(word, value);
            let x = self.code.b.ins().band(x, mask);
            differs = Some(differs.map_or(x, |d| self.code.b.ins().bor(d, x)));
        }
        differs.expect("a key has a word")
    }

    /// A key for rules: its fields one behind the other, the first in the lowest bytes.
    pub(crate) fn packed_key(&mut self, key: &[Value]) -> Vec<ir::Value> {
        let mut words: Vec<ir::Value> = Vec::new();
        let mut at = 0;
        for &v in key {
            let value = self.get(v);
            let (low, high) = self.code.halves(value);
            let bytes = self.p.width(v).bytes();
            for (i, half) in [low, high].into_iter().take(bytes.div_ceil(8) as usize).enumerate() {
                let (word, shift) = ((at + 8 * i as u32) / 8, 8 * (at % 8));
                let moved =
                    if shift == 0 { half } else { self.code.b.ins().ishl_imm_u(half, i64::from(shift)) };
                self.or_word(&mut words, word as usize, moved);
                if shift + 8 * bytes.min(8) > 64 {
                    let rest = self.code.b.ins().ushr_imm_u(half, i64::from(64 - shift));
                    self.or_word(&mut words, word as usize + 1, rest);
                }
            }
            at += bytes;
        }
        words
    }

    fn or_word(&mut self, words: &mut Vec<ir::Value>, at: usize, bits: ir::Value) {
        match words.get(at) {
            Some(&w) => words[at] = self.code.b.ins().bor(w, bits),
            None => words.push(bits),
        }
    }
}
