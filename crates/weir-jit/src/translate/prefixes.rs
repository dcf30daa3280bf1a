//! Lookups of the longest prefix of an IPv4 address.

use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, MemFlagsData, types};
use weir_ir::program::{TableId, Target, Value};
use weir_table::{LpmView, View};

use crate::abi::helpers::Helper;
use crate::translate::Translator;
use crate::translate::emit::Emitter;

impl Translator<'_, '_> {
    /// Looks an IPv4 address up by the algorithm that the table has chosen: what the others read is null.
    pub fn lookup_prefix(&mut self, table: TableId, key: &[Value], hit: &Target, miss: &Target) {
        let [directory, other, ranges, call] = std::array::from_fn(|_| self.code.b.create_block());
        self.code.b.set_cold_block(call);
        let blocks = self.tables.view(
            &mut self.code,
            &self.here,
            types::I64,
            table,
            View::LPM + offset_of!(LpmView, blocks),
        );
        self.code.b.ins().brif(blocks, directory, &[], other, &[]);

        self.code.b.switch_to_block(directory);
        self.lookup_directory(table, key[0], blocks, hit, miss);

        self.code.b.switch_to_block(other);
        let starts = self.tables.view(
            &mut self.code,
            &self.here,
            types::I64,
            table,
            View::LPM + offset_of!(LpmView, ranges),
        );
        self.code.b.ins().brif(starts, ranges, &[], call, &[]);

        self.code.b.switch_to_block(ranges);
        self.lookup_range(key[0], starts, hit, miss);

        self.code.b.switch_to_block(call);
        let found = self.values.with_key(&mut self.code, Helper::Lookup, table, key);
        self.found(found, hit, None, miss);
    }

    /// Counts the ranges that start at or before the address.
    fn lookup_range(&mut self, key: Value, at: ir::Value, hit: &Target, miss: &Target) {
        let views = self.code.regions.views;
        let addr = self.values.get(&mut self.code, key);
        // Four comparisons at a time give all ones or zeros, which are packed to a byte each and then to a bit.
        let addrs = self.code.b.ins().splat(types::I32X4, addr);
        let mut lanes: Vec<ir::Value> = Vec::new();
        for i in 0..LpmView::RANGE_COUNT / 4 {
            let starts = self.code.b.ins().load(types::I32X4, views, at, 16 * i as i32);
            lanes.push(self.code.b.ins().icmp(IntCC::UnsignedLessThanOrEqual, starts, addrs));
        }
        let [a, b, c, d] = lanes[..] else { unreachable!("there are 16 starts") };
        let (low, high) = (self.code.b.ins().snarrow(a, b), self.code.b.ins().snarrow(c, d));
        let bytes = self.code.b.ins().snarrow(low, high);
        let bits = self.code.b.ins().vhigh_bits(types::I64, bytes);
        let count = self.code.b.ins().popcnt(bits);
        let off = self.code.b.ins().ishl_imm_u(count, 2);
        let at = self.code.b.ins().iadd(at, off);
        let slot = self.code.b.ins().load(types::I32, views, at, 4 * LpmView::RANGE_COUNT as i32);
        let none = self.code.imm32(u32::MAX);
        let is = self.code.b.ins().icmp(IntCC::NotEqual, slot, none);
        self.branch(is, hit, &[slot], miss);
    }

    /// A block for the first two bytes of the address, where one comparison finds the word for the third; for longer prefixes
    /// and blocks of many ranges, arrays ([`LpmView::blocks`]). Most packets pass one branch: a word that is positive names a
    /// slot.
    fn lookup_directory(
        &mut self,
        table: TableId,
        key: Value,
        blocks: ir::Value,
        hit: &Target,
        miss: &Target,
    ) {
        let views = self.code.regions.views;
        let [other, array, short, found] = std::array::from_fn(|_| self.code.b.create_block());
        let word = self.code.b.append_block_param(found, types::I64);
        let named = self.code.b.append_block_param(array, types::I32);
        self.code.b.set_cold_block(short);
        let word_at = |t: &mut Self, at: ir::Value, off: i32| {
            let wide = t.code.b.ins().uload32(views, at, off);
            (t.code.b.ins().ireduce(types::I32, wide), wide)
        };
        let load = |t: &mut Self, off: usize, index: ir::Value| {
            let base = t.tables.view(&mut t.code, &t.here, types::I64, table, View::LPM + off);
            let index = t.code.b.ins().ishl_imm_u(index, 2);
            let at = t.code.b.ins().iadd(base, index);
            word_at(t, at, 0)
        };
        // The first byte of the address is the highest of the key, and the lowest of what the packet has.
        let (addr, number, third) = match self.values.network_form(&mut self.code, key) {
            Some(form) => {
                let wide = self.code.b.ins().uextend(types::I64, form);
                let turned = self.code.b.ins().bswap(wide);
                (form, self.code.b.ins().ushr_imm_u(turned, 48), 2)
            }
            None => {
                let addr = self.values.get(&mut self.code, key);
                let wide = self.code.extend(types::I64, addr);
                (addr, self.code.b.ins().ushr_imm_u(wide, 16), 1)
            }
        };
        let off = self.code.b.ins().ishl_imm_u(number, 6);
        let block = self.code.b.ins().iadd(blocks, off);
        let starts = self.code.b.ins().load(types::I8X16, views, block, 0);
        let thirds = self.code.byte_everywhere(addr, third);
        let lanes = self.code.b.ins().icmp(IntCC::UnsignedLessThanOrEqual, starts, thirds);
        let bits = self.code.b.ins().vhigh_bits(types::I64, lanes);
        let count = self.code.b.ins().popcnt(bits);
        let off = self.code.b.ins().ishl_imm_u(count, 2);
        let at = self.code.b.ins().iadd(block, off);
        let (w, wide_word) = word_at(self, at, -4);
        let is_slot = self.code.b.ins().icmp_imm_s(IntCC::SignedGreaterThan, w, 0);
        self.code.b.ins().brif(is_slot, found, &[wide_word.into()], other, &[]);

        self.code.b.switch_to_block(other);
        self.code.b.ins().brif(w, array, &[w.into()], short, &[]);

        // The array of a block may name that of a group.
        self.code.b.switch_to_block(array);
        let is_of_block = self.code.b.ins().band_imm_u(named, 1 << 30);
        let addr = self.values.get(&mut self.code, key);
        let third = self.code.b.ins().ushr_imm_u(addr, 8);
        let byte = self.code.b.ins().select(is_of_block, third, addr);
        let byte = self.code.b.ins().band_imm_u(byte, 0xff);
        let byte = self.code.b.ins().uextend(types::I64, byte);
        let number = self.code.b.ins().band_imm_u(named, 0x3fff_ffff);
        let number = self.code.b.ins().uextend(types::I64, number);
        let number = self.code.b.ins().ishl_imm_u(number, 8);
        let index = self.code.b.ins().bor(number, byte);
        let (w, wide_word) = load(self, offset_of!(LpmView, arrays), index);
        let is_slot = self.code.b.ins().icmp_imm_s(IntCC::SignedGreaterThan, w, 0);
        let rest = self.code.b.create_block();
        self.code.b.ins().brif(is_slot, found, &[wide_word.into()], rest, &[]);
        self.code.b.switch_to_block(rest);
        self.code.b.ins().brif(w, array, &[w.into()], short, &[]);

        self.code.b.switch_to_block(short);
        let addr = self.values.get(&mut self.code, key);
        let index = self.code.b.ins().ushr_imm_u(addr, 24);
        let index = self.code.b.ins().uextend(types::I64, index);
        let (w, wide_word) = load(self, offset_of!(LpmView, fallback), index);
        let (nothing, args) = self.edge(miss, &[]);
        self.code.b.ins().brif(w, found, &[wide_word.into()], nothing, &args);

        // The row of a word lies one in front of the row of a slot of that number.
        self.code.b.switch_to_block(found);
        let slot = self.code.b.ins().iadd_imm_s(word, -1);
        let slot = self.code.b.ins().ireduce(types::I32, slot);
        let rows = self.tables.constant_view(&mut self.code, &self.here, table, View::ROWS);
        let behind = self.tables.row_numbered(&mut self.code, rows, table, word);
        let row = self.code.b.ins().iadd_imm_s(behind, -(self.known.uses.layout(table).stride as i64));
        self.tables.addresses.insert(slot, row);
        let (hit, args) = self.edge(hit, &[slot]);
        self.code.b.ins().jump(hit, &args);
    }
}

impl Emitter<'_, '_> {
    /// A byte of a number of 32 bits, its lowest being 0, in all 16 of a vector.
    fn byte_everywhere(&mut self, number: ir::Value, byte: u8) -> ir::Value {
        let vector = self.b.ins().scalar_to_vector(types::I32X4, number);
        let bytes = MemFlagsData::new().with_endianness(ir::Endianness::Little);
        let vector = self.b.ins().bitcast(types::I8X16, bytes, vector);
        let mask = self.b.func.dfg.immediates.push(ir::ConstantData::from(&[byte; 16][..]));
        self.b.ins().shuffle(vector, vector, mask)
    }
}
