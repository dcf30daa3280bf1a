//! Access to tables. What is found at the first place is found without a call; growing, colliding and rare kinds
//! call back.

use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, MemFlagsData, types};
use rustc_hash::FxHashMap;
use weir_ir::program::{Block, BlockId, End, Op, TableId, Target, Type, Value, Width};
use weir_table::{
    HASH_ODD, HASH_TOP, Kind, LAST_TIME, MOST_SLACK, NO_ENTRY, SLACK_SHIFT, View, WINDOW, slack,
};

use crate::abi::helpers::{Ctx, Helper};
use crate::analysis::slow_paths::SlowPaths;
use crate::translate::addresses::Address;
use crate::translate::frame::Kept;
use crate::translate::network::fields_in_order;
use crate::translate::{Translator, int};

/// Uses of an entry from which on the address of its row is kept.
const OFTEN: u32 = 4;

/// Knowledge of tables while a program is translated.
pub(crate) struct Rows {
    /// The addresses of rows that are kept, by slot.
    pub addresses: FxHashMap<ir::Value, ir::Value>,
    /// For tables that are searched: minus the address of the first row.
    pub negated: FxHashMap<TableId, Kept>,
    /// Times that come so many nanoseconds after now.
    pub times: FxHashMap<u64, Kept>,
    /// For each block whether it is given the address of the row with its first parameter, an entry.
    pub given: Vec<bool>,
    /// What does not change of tables is read before the loop over packets.
    pub read_ahead: bool,
    /// The slots of cells, which are constants.
    pub cells: FxHashMap<ir::Value, u32>,
}

impl Default for Rows {
    fn default() -> Rows {
        Rows {
            addresses: FxHashMap::default(),
            negated: FxHashMap::default(),
            times: FxHashMap::default(),
            given: Vec::new(),
            read_ahead: true,
            cells: FxHashMap::default(),
        }
    }
}

impl Rows {
    /// Whether a block is given the address of a row.
    pub fn is_given(&self, block: BlockId) -> bool {
        self.given.get(block.0 as usize).copied().unwrap_or(false)
    }
}

impl Translator<'_, '_> {
    // --- where things are -------------------------------------------------------------------------------------

    /// Address of a table, as an offset from the first one.
    fn table(&mut self, table: TableId, off: usize) -> (ir::Value, i32) {
        (self.first_table(), (View::STRIDE * table.0 as usize + off) as i32)
    }

    /// Address of the first table.
    pub(crate) fn first_table(&mut self) -> ir::Value {
        if self.rows.read_ahead && !self.is_exception() {
            return self.fixed(offset_of!(Ctx<'_>, first_table));
        }
        let at = Address::Fixed(offset_of!(Ctx<'_>, first_table));
        self.address(at, |t| t.frame.first_table.get(&mut t.code.b))
    }

    /// What changes with the table.
    pub(crate) fn view(&mut self, ty: ir::Type, table: TableId, off: usize) -> ir::Value {
        let (base, off) = self.table(table, off);
        self.code.b.ins().load(ty, self.code.regions.views, base, off)
    }

    /// What does not change during a run.
    pub(crate) fn constant_view(&mut self, table: TableId, off: usize) -> ir::Value {
        self.address(Address::Table(table, off), |t| {
            let (base, off) = t.table(table, off);
            t.code.b.ins().load(types::I64, t.code.regions.fixed, base, off)
        })
    }

    /// Address of the row of a slot.
    fn row(&mut self, table: TableId, slot: ir::Value) -> ir::Value {
        self.address(Address::Row(table, slot), |t| {
            let rows = t.constant_view(table, View::ROWS);
            t.row_at(rows, table, slot)
        })
    }

    fn row_at(&mut self, rows: ir::Value, table: TableId, slot: ir::Value) -> ir::Value {
        let stride = self.known.uses.layouts[table.0 as usize].stride as u64;
        if let Some(&index) = self.rows.cells.get(&slot) {
            let off = u64::from(index) * stride;
            return if off == 0 { rows } else { self.code.b.ins().iadd_imm_u(rows, off as i64) };
        }
        let slot = self.code.extend(types::I64, slot);
        self.row_numbered(rows, table, slot)
    }

    pub(crate) fn row_numbered(&mut self, rows: ir::Value, table: TableId, slot: ir::Value) -> ir::Value {
        let off = self.row_offset(table, slot);
        self.code.b.ins().iadd(rows, off)
    }

    /// How far a row is behind the first one, by its slot of 64 bits.
    fn row_offset(&mut self, table: TableId, slot: ir::Value) -> ir::Value {
        let stride = self.known.uses.layouts[table.0 as usize].stride as u64;
        if stride.is_power_of_two() {
            self.code.b.ins().ishl_imm_u(slot, i64::from(stride.trailing_zeros()))
        } else {
            let stride = self.code.imm(types::I64, stride.into());
            self.code.b.ins().imul(slot, stride)
        }
    }

    /// The blocks that are given the address of the row with their first parameter, as they use it often: the compiler
    /// makes a sum anew wherever it is used as an address, which takes two registers up to the last use of the row, but
    /// not what a block is given.
    pub(crate) fn blocks_given_rows(&self, slow: &SlowPaths) -> Vec<bool> {
        let p = self.p;
        let is_given = |b: BlockId, block: &Block| {
            let Some(&first) = block.params.first() else { return false };
            let Type::Entry(table) = p.ty(first) else { return false };
            let often = match p.tables[table.0 as usize].decl.kind {
                Kind::Exact => OFTEN,
                // What is found there is one more than the slot: that goes into the address.
                Kind::Lpm => 1,
                Kind::Array | Kind::Rules => return false,
            };
            self.known.uses.rows[first.0 as usize] >= often
                && self.known.starts.numbers[b.0 as usize].is_none()
                && !slow.has(b)
                && self.lanes.of.group(b).is_none()
        };
        p.blocks.iter().zip(0..).map(|(block, b)| is_given(BlockId(b), block)).collect()
    }

    /// The address of the row that a block is given, with what the end before it supplies.
    pub(crate) fn row_given(&mut self, target: &Target, supplied: &[ir::Value]) -> ir::Value {
        let first = self.p.block(target.block).params[0];
        match (supplied.first(), self.p.ty(first)) {
            (Some(slot), _) if self.rows.addresses.contains_key(slot) => self.rows.addresses[slot],
            (Some(&slot), Type::Entry(table)) => self.row(table, slot),
            _ => self.row_of(target.args[0]).1,
        }
    }

    /// The table of an entry, and the address of its row.
    pub(crate) fn row_of(&mut self, entry: Value) -> (TableId, ir::Value) {
        let Type::Entry(table) = self.p.ty(entry) else {
            unreachable!("the checker proved that this is an entry")
        };
        let slot = self.get(entry);
        if let Some(&row) = self.rows.addresses.get(&slot) {
            return (table, row);
        }
        let row = match self.lane_rows(entry) {
            Some(rows) => self.row_at(rows, table, slot),
            None => self.row(table, slot),
        };
        (table, row)
    }

    /// How many tables have rows that the blocks read or write in place.
    pub(crate) fn tables_used(&self, blocks: &[BlockId]) -> usize {
        let mut used = vec![false; self.p.tables.len()];
        for block in blocks.iter().map(|&b| self.p.block(b)) {
            for op in &block.ops {
                if let Op::Get { entry, .. }
                | Op::GetKey { entry, .. }
                | Op::Set { entry, .. }
                | Op::Touch { entry, .. } = op
                    && let Type::Entry(t) = self.p.ty(*entry)
                {
                    used[t.0 as usize] = true;
                }
            }
            if let End::Lookup { table, .. } | End::Insert { table, .. } = block.end {
                used[table.0 as usize] |= self.p.tables[table.0 as usize].decl.kind == Kind::Exact;
            }
        }
        used.into_iter().filter(|&u| u).count()
    }

    // --- entries ----------------------------------------------------------------------------------------------

    pub(crate) fn get_field(&mut self, dst: Value, entry: Value, field: u32) -> ir::Value {
        if let Some(form) = self.part(dst) {
            return self.machine_form(dst, form);
        }
        let Type::Entry(table) = self.p.ty(entry) else {
            unreachable!("the checker proved that this is an entry")
        };
        let (layout, field) = (self.layout(table), field as usize);
        let (off, network) = (layout.value[field] as i32, layout.network[field]);
        let width = self.p.width(dst);
        if let Some(v) = self.lane_value(entry, off, int(width)) {
            return self.machine_form(dst, v);
        }
        let (table, row) = self.row_of(entry);
        // What programs do not write stays as it is during a run. A cell is there; of an entry that depends on the packet
        // that is known only here.
        let slot = self.get(entry);
        let is_cell = self.rows.cells.contains_key(&slot) && !self.lanes.cells.contains_key(&entry);
        let stays = is_cell && !self.known.uses.written[table.0 as usize];
        let rows = if stays { self.code.regions.fixed } else { self.code.regions.rows };
        // A bit in a row is 0 or 1: nothing else is written there.
        let v = match width {
            Width::W1 => self.code.load(types::I8, row, off, rows),
            width => self.code.load_value(width, row, off, rows),
        };
        if network { self.machine_form(dst, v) } else { v }
    }

    pub(crate) fn get_key(&mut self, dst: Value, entry: Value, field: u32) -> ir::Value {
        let (table, row) = self.row_of(entry);
        let width = self.p.width(dst);
        match self.p.tables[table.0 as usize].decl.kind {
            Kind::Exact => {
                let at = self.known.uses.layouts[table.0 as usize].key[field as usize];
                let off = (8 * at.word + at.shift as usize / 8) as i32;
                let form = self.code.load_value(width, row, off, self.code.regions.rows);
                self.machine_form(dst, form)
            }
            Kind::Array => {
                let slot = self.get(entry);
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

    pub(crate) fn set_field(&mut self, entry: Value, field: u32, src: Value) {
        let Type::Entry(table) = self.p.ty(entry) else {
            unreachable!("the checker proved that this is an entry")
        };
        if self.p.tables[table.0 as usize].decl.group == Some(field) {
            let [table, slot] = self.entry(entry);
            let (field, v) = (self.code.imm32(field), self.get(src));
            let (low, high) = self.code.halves(v);
            return self.call(Helper::Set, &[table, slot, field, low, high]);
        }
        let (_, row) = self.row_of(entry);
        let row = if self.may_be_gone(entry) { self.row_or_nowhere(entry, table, row) } else { row };
        let layout = &self.known.uses.layouts[table.0 as usize];
        let off = layout.value[field as usize] as i32;
        let v = if layout.network[field as usize] { self.network(src) } else { self.get(src) };
        self.code.store_value(v, row, off, self.code.regions.rows);
    }

    /// The row of an entry, or space that nothing reads if a program has removed the entry. So all writes behind one
    /// another look once, and need no blocks of their own.
    fn row_or_nowhere(&mut self, entry: Value, table: TableId, row: ir::Value) -> ir::Value {
        self.address(Address::RowOrNowhere(entry), |t| {
            let link = t.known.uses.layouts[table.0 as usize].link as i32;
            debug_assert_eq!(NO_ENTRY, 0);
            let there = t.code.b.ins().load(types::I64, t.code.regions.rows, row, link);
            // Helpers find their values there, but only those that were put there for them just before.
            let nowhere = t.frame_number();
            t.code.b.ins().select(there, row, nowhere)
        })
    }

    /// An operation may remove entries: which are there has to be looked up again.
    pub(crate) fn forget_entries(&mut self) {
        self.addresses.retain(|of, _| !matches!(of, Address::RowOrNowhere(_)));
    }

    /// Whether a program may have removed the entry since it was found.
    fn may_be_gone(&self, entry: Value) -> bool {
        match (self.lanes.cells.get(&entry), self.p.ty(entry)) {
            (Some(cells), _) => cells.iter().any(|(t, _)| self.known.uses.removes[t.0 as usize]),
            (None, Type::Entry(t)) => self.known.uses.removes[t.0 as usize],
            (None, Type::Int(_)) => false,
        }
    }

    /// Lets an entry expire later, if it does not already. What makes it expire earlier, or needs a timer, is a call's.
    pub(crate) fn touch(&mut self, entry: Value, after: Value) {
        if self.is_slow_path() {
            let ([table, slot], after) = (self.entry(entry), self.get(after));
            return self.call(Helper::Touch, &[table, slot, after]);
        }
        let (table, row) = self.row_of(entry);
        let slot = self.get(entry);
        let expires = self.known.uses.layouts[table.0 as usize].expires as i32;
        let rows = self.code.regions.rows;
        let [now, when, slack] = self.times(after);
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
        let live = self.live(entry);
        let is_large = self.code.b.ins().icmp_imm_u(IntCC::UnsignedGreaterThan, live, i64::from(WINDOW));
        let latest = self.code.b.ins().select(is_large, latest, when);
        self.code.b.ins().store(rows, latest, row, expires);
        self.code.b.ins().jump(done, &[]);

        self.code.b.switch_to_block(call);
        let (number, after) = (self.table_number(entry), self.get(after));
        self.call(Helper::Touch, &[number, slot, after]);
        self.code.b.ins().jump(done, &[]);
        self.code.b.switch_to_block(done);
        self.packet.settle(&self.code.b);
    }

    /// Number of entries of an entry's table.
    fn live(&mut self, entry: Value) -> ir::Value {
        let number = self.table_number(entry);
        let number = self.code.extend(types::I64, number);
        let off = self.code.b.ins().imul_imm_u(number, View::STRIDE as i64);
        let first = self.first_table();
        let table = self.code.b.ins().iadd(first, off);
        self.code.b.ins().load(types::I32, self.code.regions.views, table, View::LIVE as i32)
    }

    /// The time now; when an entry goes at the earliest that lives for `after` from now on, and how much later it may. Never
    /// is 0 here, a time at which nothing goes.
    fn times(&mut self, after: Value) -> [ir::Value; 3] {
        let now = self.fixed(offset_of!(Ctx<'_>, now));
        let last = self.code.imm(types::I64, LAST_TIME.into());
        let now = self.code.b.ins().umin(now, last);
        if let Some(after) = self.values.constant(after).and_then(|after| u64::try_from(after).ok())
            && (1..=LAST_TIME).contains(&after)
        {
            let slack = self.code.imm(types::I64, slack(after).into());
            return [now, self.time_in(after), slack];
        }
        let after = self.get(after);
        let after = self.code.b.ins().umin(after, last);
        let share = self.code.b.ins().ushr_imm_u(after, i64::from(SLACK_SHIFT));
        let most = self.code.imm(types::I64, MOST_SLACK.into());
        let slack = self.code.b.ins().umin(share, most);
        let when = self.code.b.ins().iadd(now, after);
        let never = self.code.imm(types::I64, 0);
        [now, self.code.b.ins().select(after, when, never), slack]
    }

    /// The time that comes `after` now, at most [`LAST_TIME`]: worked out before the loop, as the compiler would make the
    /// sum anew for each packet.
    fn time_in(&mut self, after: u64) -> ir::Value {
        let kept = *self.rows.times.entry(after).or_insert_with(|| {
            let mut before = self.frame.before(&mut self.code.b);
            let now = offset_of!(Ctx<'_>, now) as i32;
            let now = before.ins().load(types::I64, MemFlagsData::trusted(), self.ctx, now);
            let last = before.ins().iconst(types::I64, LAST_TIME as i64);
            let now = before.ins().umin(now, last);
            let when = before.ins().iadd_imm_s(now, after as i64);
            Kept::new(&mut before, when)
        });
        kept.get(&mut self.code.b)
    }

    // --- finding ----------------------------------------------------------------------------------------------

    /// Looks a key up and goes on.
    pub(crate) fn lookup(&mut self, table: TableId, key: &[Value], hit: &Target, miss: &Target) {
        match self.known.flows.site(self.here.block) {
            Some(site) => self.kept_lookup(site, key, hit, miss),
            None => self.table_lookup(table, key, hit, miss),
        }
    }

    /// Looks a key up in its table and goes on.
    pub(crate) fn table_lookup(&mut self, table: TableId, key: &[Value], hit: &Target, miss: &Target) {
        match self.p.tables[table.0 as usize].decl.kind {
            Kind::Exact if self.is_slow_path() => {
                let found = self.with_key(Helper::Lookup, table, key);
                self.found(found, hit, None, miss);
            }
            Kind::Exact => {
                let (words, hash) = self.exact_key(table, key);
                let slow = self.find_exact(table, &words, hash, hit);
                self.code.b.switch_to_block(slow);
                let call = self.code.b.create_block();
                self.code.b.set_cold_block(call);
                let grows = self.view(types::I64, table, View::GROWS);
                let (nothing, args) = self.edge(miss, &[]);
                self.code.b.ins().brif(grows, call, &[], nothing, &args);
                self.code.b.switch_to_block(call);
                self.put_words(&words);
                let (at, n) = (self.frame_number(), self.code.imm32(words.len() as u32));
                let number = self.code.imm32(table.0);
                let found = self.result(Helper::FindWords, &[number, at, n]);
                self.found(found, hit, None, miss);
            }
            Kind::Lpm if self.p.width(key[0]) == Width::W32 => self.lookup_prefix(table, key, hit, miss),
            Kind::Lpm => {
                let found = self.with_key(Helper::Lookup, table, key);
                self.found(found, hit, None, miss);
            }
            Kind::Rules => self.lookup_rules(table, key, hit, miss),
            Kind::Array => {
                let (index, ty) = (self.get(key[0]), self.ty(key[0]));
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
    pub(crate) fn insert(&mut self, table: TableId, key: &[Value], ok: &Target, full: &Target) {
        // What only a new key needs is not found, as a rule, and code that seldom runs should be short.
        if !self.is_slow_path() {
            let (words, hash) = self.exact_key(table, key);
            let slow = self.find_exact(table, &words, hash, ok);
            self.code.b.switch_to_block(slow);
        }
        let found = self.with_key(Helper::Insert, table, key);
        self.found(found, ok, None, full);
    }

    /// The words of a key ([`weir_table::Layout::key`]), and their hash.
    pub(crate) fn exact_key(&mut self, table: TableId, key: &[Value]) -> (Vec<ir::Value>, ir::Value) {
        let layout = self.known.uses.layouts[table.0 as usize].clone();
        let mut words: Vec<Option<ir::Value>> = vec![None; layout.key_words];
        let fields = fields_in_order(&layout, key);
        let mut rest = &fields[..];
        while let Some((&(at, v), behind)) = rest.split_first() {
            let pair = behind.first().and_then(|&(_, next)| self.pair(v, next));
            rest = if pair.is_some() { &behind[1..] } else { behind };
            let value = pair.unwrap_or_else(|| self.network(v));
            let (low, high) = self.code.halves(value);
            let (at, shift) = ((at / 64) as usize, at % 64);
            let low = if shift == 0 { low } else { self.code.b.ins().ishl_imm_u(low, i64::from(shift)) };
            let word = words[at];
            words[at] = Some(word.map_or(low, |w| self.code.b.ins().bor(w, low)));
            if self.p.width(v) == Width::W128 {
                words[at + 1] = Some(high);
            }
        }
        let words: Vec<ir::Value> = words.into_iter().flatten().collect();
        let mut h = self.constant_view(table, View::SEED);
        for pair in words.chunks(2) {
            let a = self.code.b.ins().bxor(pair[0], h);
            let odd = self.code.imm(types::I64, HASH_ODD.into());
            let b = pair.get(1).map_or(odd, |&b| self.code.b.ins().bxor(b, odd));
            h = self.code.product_halves_xored(a, b);
        }
        (words, self.code.b.ins().bor_imm_u(h, HASH_TOP as i64))
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
        let mask = self.view(types::I64, table, View::MASK);
        let [head, other_tag, compare, next, slow] = std::array::from_fn(|_| self.code.b.create_block());
        [other_tag, next, slow].into_iter().for_each(|block| self.code.b.set_cold_block(block));
        let first = self.code.b.ins().band(hash, mask);
        let tag = self.code.b.ins().ushr_imm_u(hash, 32);
        let tag = self.code.b.ins().ireduce(types::I32, tag);
        let [number, cells] = std::array::from_fn(|_| self.code.b.append_block_param(head, types::I64));
        let first_cells = self.view(types::I64, table, View::CELLS);
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
        // Read anew: few packets come back here, and registers are rare.
        let first_table = self.frame.first_table.get(&mut self.code.b);
        let [mask, cells] = [View::MASK, View::CELLS].map(|field| {
            let off = (View::STRIDE * table.0 as usize + field) as i32;
            self.code.b.ins().load(types::I64, self.code.regions.views, first_table, off)
        });
        let number = self.code.b.ins().band(number, mask);
        self.code.b.ins().jump(head, &[number.into(), cells.into()]);

        self.code.b.switch_to_block(compare);
        let slot = self.code.load(types::I32, at, 0, self.code.regions.views);
        let row = match words.len() {
            1 => self.row(table, slot),
            _ => self.found_row(table, slot),
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

    /// Address of the row of a slot that was found, where several words of a key are compared: a difference, as a sum would
    /// be made anew for each access, of two registers.
    fn found_row(&mut self, table: TableId, slot: ir::Value) -> ir::Value {
        let negated = *self.rows.negated.entry(table).or_insert_with(|| {
            let mut before = self.frame.before(&mut self.code.b);
            let flags = MemFlagsData::trusted();
            let first_table = offset_of!(Ctx<'_>, first_table) as i32;
            let first_table = before.ins().load(types::I64, flags, self.ctx, first_table);
            let rows = (View::STRIDE * table.0 as usize + View::ROWS) as i32;
            let rows = before.ins().load(types::I64, flags, first_table, rows);
            let negated = before.ins().ineg(rows);
            Kept::new(&mut before, negated)
        });
        let wide = self.code.extend(types::I64, slot);
        let off = self.row_offset(table, wide);
        let negated = negated.get(&mut self.code.b);
        let row = self.code.b.ins().isub(off, negated);
        self.rows.addresses.insert(slot, row);
        row
    }

    pub(crate) fn put_words(&mut self, words: &[ir::Value]) {
        let at = self.frame_address();
        for (i, &w) in words.iter().enumerate() {
            self.code.b.ins().store(self.code.regions.frame, w, at, 8 * i as i32);
        }
    }
}
