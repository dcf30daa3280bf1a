//! Entries of tables: reading and writing them, looking them up and making them.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, types};
use weir_ir::program::{TableId, Target, Type, Value, Width};
use weir_table::{Kind, View, WINDOW};

use crate::abi::helpers::Helper;
use crate::translate::{Translator, int};

impl Translator<'_, '_> {
    pub fn get_field(&mut self, dst: Value, entry: Value, field: u32) -> ir::Value {
        if let Some(form) =
            self.values.part(&mut self.code, &self.here, &mut self.packet, &mut self.tables, &self.lanes, dst)
        {
            return self.values.machine_form(&mut self.code, dst, form);
        }
        let Type::Entry(table) = self.p.ty(entry) else {
            unreachable!("the checker proved that this is an entry")
        };
        let (layout, field) = (self.known.uses.layout(table), field as usize);
        let (off, network) = (layout.value[field] as i32, layout.network[field]);
        let width = self.p.width(dst);
        if let Some(v) =
            self.lanes.lane_value(&mut self.code, &self.here, &mut self.tables, entry, off, int(width))
        {
            return self.values.machine_form(&mut self.code, dst, v);
        }
        let (table, row) =
            self.tables.row_of(&mut self.code, &self.here, &self.lanes, &mut self.values, entry);
        // What programs do not write stays as it is during a run. A cell is there; of an entry that depends on the packet
        // that is known only here.
        let slot = self.values.get(&mut self.code, entry);
        let is_cell = self.tables.cells.contains_key(&slot) && !self.lanes.cells.contains_key(&entry);
        let stays = is_cell && !self.known.uses.written[table.0 as usize];
        let rows = if stays { self.code.regions.fixed } else { self.code.regions.rows };
        // A bit in a row is 0 or 1: nothing else is written there.
        let v = match width {
            Width::W1 => self.code.load(types::I8, row, off, rows),
            width => self.code.load_value(width, row, off, rows),
        };
        if network { self.values.machine_form(&mut self.code, dst, v) } else { v }
    }

    pub fn get_key(&mut self, dst: Value, entry: Value, field: u32) -> ir::Value {
        let (table, row) =
            self.tables.row_of(&mut self.code, &self.here, &self.lanes, &mut self.values, entry);
        let width = self.p.width(dst);
        match self.p.tables[table.0 as usize].decl.kind {
            Kind::Exact => {
                let at = self.known.uses.layout(table).key[field as usize];
                let off = (8 * at.word + at.shift as usize / 8) as i32;
                let form = self.code.load_value(width, row, off, self.code.regions.rows);
                self.values.machine_form(&mut self.code, dst, form)
            }
            Kind::Array => {
                let slot = self.values.get(&mut self.code, entry);
                let wide = self.code.b.ins().uextend(types::I64, slot);
                match width {
                    Width::W128 => self.code.widened(wide),
                    Width::W64 => wide,
                    _ => self.code.b.ins().ireduce(int(width), wide),
                }
            }
            Kind::Lpm | Kind::Rules => self.code.imm(int(width), 0),
        }
    }

    pub fn set_field(&mut self, entry: Value, field: u32, src: Value) {
        let Type::Entry(table) = self.p.ty(entry) else {
            unreachable!("the checker proved that this is an entry")
        };
        if self.p.tables[table.0 as usize].decl.group == Some(field) {
            let [table, slot] = self.lanes.entry(&mut self.code, &self.here, &mut self.values, entry);
            let (field, v) = (self.code.imm32(field), self.values.get(&mut self.code, src));
            let (low, high) = self.code.halves(v);
            return self.code.call(Helper::Set, &[table, slot, field, low, high]);
        }
        let (_, row) = self.tables.row_of(&mut self.code, &self.here, &self.lanes, &mut self.values, entry);
        let row = if self.lanes.may_be_gone(&self.here, entry) {
            self.tables.row_or_nowhere(&mut self.code, entry, table, row)
        } else {
            row
        };
        let layout = self.known.uses.layout(table);
        let off = layout.value[field as usize] as i32;
        let v = if layout.network[field as usize] {
            self.values.network(&mut self.code, src)
        } else {
            self.values.get(&mut self.code, src)
        };
        self.code.store_value(v, row, off, self.code.regions.rows);
    }

    /// Lets an entry expire later, if it does not already. What makes it expire earlier, or needs a timer, is a call's.
    pub fn touch(&mut self, entry: Value, after: Value) {
        if self.code.is_slow_path() {
            let ([table, slot], after) = (
                self.lanes.entry(&mut self.code, &self.here, &mut self.values, entry),
                self.values.get(&mut self.code, after),
            );
            return self.code.call(Helper::Touch, &[table, slot, after]);
        }
        let (table, row) =
            self.tables.row_of(&mut self.code, &self.here, &self.lanes, &mut self.values, entry);
        let slot = self.values.get(&mut self.code, entry);
        let expires = self.known.uses.layout(table).expires as i32;
        let rows = self.code.regions.rows;
        let [now, when, slack] = self.tables.times(&mut self.code, &mut self.values, after);
        let [late, later, call, done] = std::array::from_fn(|_| self.code.b.create_block());
        [late, later, call].into_iter().for_each(|block| self.code.b.set_cold_block(block));
        // What is used often is found as it has to be ([`weir_table::TableSet::touch`]). An entry that never goes does so
        // after all times.
        let own = self.code.b.ins().load(types::I64, rows, row, expires);
        let beyond = self.code.b.ins().isub(own, when);
        let lasts = self.code.b.ins().icmp(IntCC::UnsignedLessThanOrEqual, beyond, slack);
        self.code.b.ins().brif(lasts, done, &[], late, &[]);

        // What goes later has its timer, which finds that out.
        self.code.b.switch_to_block(late);
        let lives = self.code.b.ins().icmp(IntCC::UnsignedGreaterThan, own, now);
        let earlier = self.code.b.ins().icmp(IntCC::UnsignedLessThan, own, when);
        let is_later = self.code.b.ins().band(lives, earlier);
        self.code.b.ins().brif(is_later, later, &[], call, &[]);
        self.code.b.switch_to_block(later);
        let latest = self.code.b.ins().iadd(when, slack);
        let live = self.tables.live(&mut self.code, &self.here, &self.lanes, entry);
        let is_large = self.code.b.ins().icmp_imm_u(IntCC::UnsignedGreaterThan, live, i64::from(WINDOW));
        let latest = self.code.b.ins().select(is_large, latest, when);
        self.code.b.ins().store(rows, latest, row, expires);
        self.code.b.ins().jump(done, &[]);

        self.code.b.switch_to_block(call);
        let (number, after) = (
            self.lanes.table_number(&mut self.code, &self.here, entry),
            self.values.get(&mut self.code, after),
        );
        self.code.call(Helper::Touch, &[number, slot, after]);
        self.code.b.ins().jump(done, &[]);
        self.code.b.switch_to_block(done);
        self.code.settle();
    }

    /// Looks a key up and goes on.
    pub fn lookup(&mut self, table: TableId, key: &[Value], hit: &Target, miss: &Target) {
        match self.known.flows.site(self.here.block) {
            Some(site) => self.kept_lookup(site, key, hit, miss),
            None => self.table_lookup(table, key, hit, miss),
        }
    }

    /// Looks a key up in its table and goes on.
    pub fn table_lookup(&mut self, table: TableId, key: &[Value], hit: &Target, miss: &Target) {
        match self.p.tables[table.0 as usize].decl.kind {
            Kind::Exact if self.code.is_slow_path() => {
                let found = self.values.with_key(&mut self.code, Helper::Lookup, table, key);
                self.found(found, hit, None, miss);
            }
            Kind::Exact => {
                let (words, hash) =
                    self.tables.exact_key(&mut self.code, &self.here, &mut self.values, table, key);
                let slow = self.find_exact(table, &words, hash, hit);
                self.code.b.switch_to_block(slow);
                let call = self.code.b.create_block();
                self.code.b.set_cold_block(call);
                let grows = self.tables.view(&mut self.code, &self.here, types::I64, table, View::GROWS);
                let (nothing, args) = self.edge(miss, &[]);
                self.code.b.ins().brif(grows, call, &[], nothing, &args);
                self.code.b.switch_to_block(call);
                self.code.put_words(&words);
                let (at, n) = (self.code.frame_number(), self.code.imm32(words.len() as u32));
                let number = self.code.imm32(table.0);
                let found = self.code.result(Helper::FindWords, &[number, at, n]);
                self.found(found, hit, None, miss);
            }
            Kind::Lpm if self.p.width(key[0]) == Width::W32 => self.lookup_prefix(table, key, hit, miss),
            Kind::Lpm => {
                let found = self.values.with_key(&mut self.code, Helper::Lookup, table, key);
                self.found(found, hit, None, miss);
            }
            Kind::Rules => self.lookup_rules(table, key, hit, miss),
            Kind::Array => {
                let (index, ty) = (self.values.get(&mut self.code, key[0]), self.values.ty(key[0]));
                let capacity = self.p.tables[table.0 as usize].decl.capacity;
                let max = self.p.width(key[0]).max();
                let slot = match ty {
                    types::I32 => index,
                    types::I8 | types::I16 => self.code.b.ins().uextend(types::I32, index),
                    _ => self.code.b.ins().ireduce(types::I32, index),
                };
                if max < u128::from(capacity) {
                    let (hit, args) = self.edge(hit, &[slot]);
                    self.code.b.ins().jump(hit, &args);
                } else {
                    let capacity = self.code.imm(ty, capacity.into());
                    let inside = self.code.b.ins().icmp(IntCC::UnsignedLessThan, index, capacity);
                    self.branch(inside, hit, &[slot], miss);
                }
            }
        }
    }

    /// Finds or makes an entry of an exact table, and goes on.
    pub fn insert(&mut self, table: TableId, key: &[Value], ok: &Target, full: &Target) {
        // What only a new key needs is not found, as a rule, and code that seldom runs should be short.
        if !self.code.is_slow_path() {
            let (words, hash) =
                self.tables.exact_key(&mut self.code, &self.here, &mut self.values, table, key);
            let slow = self.find_exact(table, &words, hash, ok);
            self.code.b.switch_to_block(slow);
        }
        let found = self.values.with_key(&mut self.code, Helper::Insert, table, key);
        self.found(found, ok, None, full);
    }

    /// Searches the cells of an exact table, and goes to `hit` from the key's. Gives the block for all else: the key may
    /// be in the index that has been outgrown, or nowhere.
    fn find_exact(
        &mut self,
        table: TableId,
        words: &[ir::Value],
        hash: ir::Value,
        hit: &Target,
    ) -> ir::Block {
        let mask = self.tables.view(&mut self.code, &self.here, types::I64, table, View::MASK);
        let [head, other_tag, compare, next, slow] = std::array::from_fn(|_| self.code.b.create_block());
        [other_tag, next, slow].into_iter().for_each(|block| self.code.b.set_cold_block(block));
        let first = self.code.b.ins().band(hash, mask);
        let tag = self.code.b.ins().ushr_imm_u(hash, 32);
        let tag = self.code.b.ins().ireduce(types::I32, tag);
        let [number, cells] = std::array::from_fn(|_| self.code.b.append_block_param(head, types::I64));
        let first_cells = self.tables.view(&mut self.code, &self.here, types::I64, table, View::CELLS);
        self.code.b.ins().jump(head, &[first.into(), first_cells.into()]);
        self.code.b.switch_to_block(head);
        let at = self.code.b.ins().ishl_imm_u(number, 3);
        let at = self.code.b.ins().iadd(cells, at);
        let found = self.code.b.ins().load(types::I32, self.code.regions.views, at, 4);
        let same = self.code.b.ins().icmp(IntCC::Equal, found, tag);
        self.code.b.ins().brif(same, compare, &[], other_tag, &[]);
        // An empty cell ends the search, as no table is full.
        self.code.b.switch_to_block(other_tag);
        self.code.b.ins().brif(found, next, &[], slow, &[]);
        self.code.b.switch_to_block(next);
        let number = self.code.b.ins().iadd_imm_s(number, 1);
        // Read anew: few packets come back here, and registers are scarce.
        let first_table = self.code.frame.first_table.get(&mut self.code.b);
        let [mask, cells] = [View::MASK, View::CELLS].map(|field| {
            let off = (View::STRIDE * table.0 as usize + field) as i32;
            self.code.b.ins().load(types::I64, self.code.regions.views, first_table, off)
        });
        let number = self.code.b.ins().band(number, mask);
        self.code.b.ins().jump(head, &[number.into(), cells.into()]);

        self.code.b.switch_to_block(compare);
        let slot = self.code.load(types::I32, at, 0, self.code.regions.views);
        let row = match words.len() {
            1 => self.tables.row(&mut self.code, &self.here, table, slot),
            _ => self.tables.found_row(&mut self.code, table, slot),
        };
        // One branch a word: where the tag is the same they all go one path, and need no instruction but a comparison.
        for (i, &word) in words.iter().enumerate() {
            let there = self.code.b.ins().load(types::I64, self.code.regions.rows, row, 8 * i as i32);
            let same = self.code.b.ins().icmp(IntCC::Equal, word, there);
            let more = self.code.b.create_block();
            self.code.b.ins().brif(same, more, &[], next, &[]);
            self.code.b.switch_to_block(more);
        }
        let (hit, args) = self.edge(hit, &[slot]);
        self.code.b.ins().jump(hit, &args);
        slow
    }
}
