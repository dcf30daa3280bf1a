//! Access to tables. What is found at the first place is found without a call; growing, colliding and rare kinds
//! call back.

use std::mem::offset_of;

use cranelift_codegen::ir::{self, InstBuilder, MemFlagsData, types};
use rustc_hash::FxHashMap;
use weir_ir::program::{Block, BlockId, End, Op, Program, TableId, Target, Type, Value, Width};
use weir_table::{HASH_ODD, HASH_TOP, Kind, LAST_TIME, MOST_SLACK, NO_ENTRY, SLACK_SHIFT, View, slack};

use crate::abi::helpers::Ctx;
use crate::analysis::slow_paths::SlowPaths;
use crate::analysis::uses::Uses;
use crate::translate::addresses::Address;
use crate::translate::emit::Emitter;
use crate::translate::frame::Kept;
use crate::translate::here::Here;
use crate::translate::lanes::LaneState;
use crate::translate::network::fields_in_order;
use crate::translate::values::Values;

/// Uses of an entry from which on the address of its row is kept.
const OFTEN: u32 = 4;

/// Knowledge of tables while a program is translated.
pub(crate) struct Tables<'a> {
    p: &'a Program,
    uses: &'a Uses,
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

impl<'a> Tables<'a> {
    pub fn new(p: &'a Program, uses: &'a Uses) -> Tables<'a> {
        Tables {
            p,
            uses,
            addresses: FxHashMap::default(),
            negated: FxHashMap::default(),
            times: FxHashMap::default(),
            given: Vec::new(),
            read_ahead: true,
            cells: FxHashMap::default(),
        }
    }

    /// Whether a block is given the address of a row.
    pub fn is_given(&self, block: BlockId) -> bool {
        self.given.get(block.0 as usize).copied().unwrap_or(false)
    }

    /// Address of a table, as an offset from the first one.
    pub fn table(
        &mut self,
        code: &mut Emitter<'_, '_>,
        here: &Here<'_>,
        table: TableId,
        off: usize,
    ) -> (ir::Value, i32) {
        (self.first_table(code, here), (View::STRIDE * table.0 as usize + off) as i32)
    }

    /// Address of the first table.
    pub fn first_table(&mut self, code: &mut Emitter<'_, '_>, here: &Here<'_>) -> ir::Value {
        if self.read_ahead && !here.is_exception() {
            return code.fixed(offset_of!(Ctx<'_>, first_table));
        }
        let at = Address::Fixed(offset_of!(Ctx<'_>, first_table));
        code.address(at, |code| code.frame.first_table.get(&mut code.b))
    }

    /// What changes with the table.
    pub fn view(
        &mut self,
        code: &mut Emitter<'_, '_>,
        here: &Here<'_>,
        ty: ir::Type,
        table: TableId,
        off: usize,
    ) -> ir::Value {
        let (base, off) = self.table(code, here, table, off);
        code.b.ins().load(ty, code.regions.views, base, off)
    }

    /// What does not change during a run.
    pub fn constant_view(
        &mut self,
        code: &mut Emitter<'_, '_>,
        here: &Here<'_>,
        table: TableId,
        off: usize,
    ) -> ir::Value {
        code.address(Address::Table(table, off), |code| {
            let (base, off) = self.table(code, here, table, off);
            code.b.ins().load(types::I64, code.regions.fixed, base, off)
        })
    }

    /// Address of the row of a slot.
    pub fn row(
        &mut self,
        code: &mut Emitter<'_, '_>,
        here: &Here<'_>,
        table: TableId,
        slot: ir::Value,
    ) -> ir::Value {
        code.address(Address::Row(table, slot), |code| {
            let rows = self.constant_view(code, here, table, View::ROWS);
            self.row_at(code, rows, table, slot)
        })
    }

    fn row_at(
        &mut self,
        code: &mut Emitter<'_, '_>,
        rows: ir::Value,
        table: TableId,
        slot: ir::Value,
    ) -> ir::Value {
        let stride = self.uses.layout(table).stride as u64;
        if let Some(&index) = self.cells.get(&slot) {
            let off = u64::from(index) * stride;
            return if off == 0 { rows } else { code.b.ins().iadd_imm_u(rows, off as i64) };
        }
        let slot = code.extend(types::I64, slot);
        self.row_numbered(code, rows, table, slot)
    }

    pub fn row_numbered(
        &mut self,
        code: &mut Emitter<'_, '_>,
        rows: ir::Value,
        table: TableId,
        slot: ir::Value,
    ) -> ir::Value {
        let off = self.row_offset(code, table, slot);
        code.b.ins().iadd(rows, off)
    }

    /// How far a row is behind the first one, by its slot of 64 bits.
    fn row_offset(&mut self, code: &mut Emitter<'_, '_>, table: TableId, slot: ir::Value) -> ir::Value {
        let stride = self.uses.layout(table).stride as u64;
        if stride.is_power_of_two() {
            code.b.ins().ishl_imm_u(slot, i64::from(stride.trailing_zeros()))
        } else {
            let stride = code.imm(types::I64, stride.into());
            code.b.ins().imul(slot, stride)
        }
    }

    /// The blocks that are given the address of the row with their first parameter, as they use it often: the compiler
    /// makes a sum anew wherever it is used as an address, which takes two registers up to the last use of the row, but
    /// not what a block is given.
    pub fn blocks_given_rows(&self, here: &Here<'_>, lanes: &LaneState, slow: &SlowPaths) -> Vec<bool> {
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
            self.uses.rows[first.0 as usize] >= often
                && here.known.starts.numbers[b.0 as usize].is_none()
                && !slow.has(b)
                && lanes.of.group(b).is_none()
        };
        p.blocks.iter().zip(0..).map(|(block, b)| is_given(BlockId(b), block)).collect()
    }

    /// The address of the row that a block is given, with what the end before it supplies.
    pub fn row_given(
        &mut self,
        code: &mut Emitter<'_, '_>,
        here: &Here<'_>,
        lanes: &LaneState,
        values: &mut Values<'_>,
        target: &Target,
        supplied: &[ir::Value],
    ) -> ir::Value {
        let first = self.p.block(target.block).params[0];
        match (supplied.first(), self.p.ty(first)) {
            (Some(slot), _) if self.addresses.contains_key(slot) => self.addresses[slot],
            (Some(&slot), Type::Entry(table)) => self.row(code, here, table, slot),
            _ => self.row_of(code, here, lanes, values, target.args[0]).1,
        }
    }

    /// The table of an entry, and the address of its row.
    pub fn row_of(
        &mut self,
        code: &mut Emitter<'_, '_>,
        here: &Here<'_>,
        lanes: &LaneState,
        values: &mut Values<'_>,
        entry: Value,
    ) -> (TableId, ir::Value) {
        let Type::Entry(table) = self.p.ty(entry) else {
            unreachable!("the checker proved that this is an entry")
        };
        let slot = values.get(code, entry);
        if let Some(&row) = self.addresses.get(&slot) {
            return (table, row);
        }
        let row = match lanes.lane_rows(code, here, self, entry) {
            Some(rows) => self.row_at(code, rows, table, slot),
            None => self.row(code, here, table, slot),
        };
        (table, row)
    }

    /// How many tables have rows that the blocks read or write in place.
    pub fn used_by(&self, blocks: &[BlockId]) -> usize {
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

    /// The row of an entry, or space that nothing reads if a program has removed the entry. So all writes behind one
    /// another look once, and need no blocks of their own.
    pub fn row_or_nowhere(
        &mut self,
        code: &mut Emitter<'_, '_>,
        entry: Value,
        table: TableId,
        row: ir::Value,
    ) -> ir::Value {
        code.address(Address::RowOrNowhere(entry), |code| {
            let link = self.uses.layout(table).link as i32;
            debug_assert_eq!(NO_ENTRY, 0);
            let there = code.b.ins().load(types::I64, code.regions.rows, row, link);
            // Helpers find their values there, but only those that were put there for them just before.
            let nowhere = code.frame_number();
            code.b.ins().select(there, row, nowhere)
        })
    }

    /// Number of entries of an entry's table.
    pub fn live(
        &mut self,
        code: &mut Emitter<'_, '_>,
        here: &Here<'_>,
        lanes: &LaneState,
        entry: Value,
    ) -> ir::Value {
        let number = lanes.table_number(code, here, entry);
        let number = code.extend(types::I64, number);
        let off = code.b.ins().imul_imm_u(number, View::STRIDE as i64);
        let first = self.first_table(code, here);
        let table = code.b.ins().iadd(first, off);
        code.b.ins().load(types::I32, code.regions.views, table, View::LIVE as i32)
    }

    /// The time now; when an entry goes at the earliest that lives for `after` from now on, and how much later it may. Never
    /// is 0 here, a time at which nothing goes.
    pub fn times(
        &mut self,
        code: &mut Emitter<'_, '_>,
        values: &mut Values<'_>,
        after: Value,
    ) -> [ir::Value; 3] {
        let now = code.fixed(offset_of!(Ctx<'_>, now));
        let last = code.imm(types::I64, LAST_TIME.into());
        let now = code.b.ins().umin(now, last);
        if let Some(after) = values.constant(after).and_then(|after| u64::try_from(after).ok())
            && (1..=LAST_TIME).contains(&after)
        {
            let slack = code.imm(types::I64, slack(after).into());
            return [now, self.time_in(code, after), slack];
        }
        let after = values.get(code, after);
        let after = code.b.ins().umin(after, last);
        let share = code.b.ins().ushr_imm_u(after, i64::from(SLACK_SHIFT));
        let most = code.imm(types::I64, MOST_SLACK.into());
        let slack = code.b.ins().umin(share, most);
        let when = code.b.ins().iadd(now, after);
        let never = code.imm(types::I64, 0);
        [now, code.b.ins().select(after, when, never), slack]
    }

    /// The time that comes `after` now, at most [`LAST_TIME`]: worked out before the loop, as the compiler would make the
    /// sum anew for each packet.
    fn time_in(&mut self, code: &mut Emitter<'_, '_>, after: u64) -> ir::Value {
        let kept = *self.times.entry(after).or_insert_with(|| {
            let mut before = code.frame.before(&mut code.b);
            let now = offset_of!(Ctx<'_>, now) as i32;
            let now = before.ins().load(types::I64, MemFlagsData::trusted(), code.ctx, now);
            let last = before.ins().iconst(types::I64, LAST_TIME as i64);
            let now = before.ins().umin(now, last);
            let when = before.ins().iadd_imm_s(now, after as i64);
            Kept::new(&mut before, when)
        });
        kept.get(&mut code.b)
    }

    /// The words of a key ([`weir_table::Layout::key`]), and their hash.
    pub fn exact_key(
        &mut self,
        code: &mut Emitter<'_, '_>,
        here: &Here<'_>,
        values: &mut Values<'_>,
        table: TableId,
        key: &[Value],
    ) -> (Vec<ir::Value>, ir::Value) {
        let layout = self.uses.layout(table).clone();
        let mut words: Vec<Option<ir::Value>> = vec![None; layout.key_words];
        let fields = fields_in_order(&layout, key);
        let mut rest = &fields[..];
        while let Some((&(at, v), behind)) = rest.split_first() {
            let pair = behind.first().and_then(|&(_, next)| values.pair(v, next));
            rest = if pair.is_some() { &behind[1..] } else { behind };
            let value = pair.unwrap_or_else(|| values.network(code, v));
            let (low, high) = code.halves(value);
            let (at, shift) = ((at / 64) as usize, at % 64);
            let low = if shift == 0 { low } else { code.b.ins().ishl_imm_u(low, i64::from(shift)) };
            let word = words[at];
            words[at] = Some(word.map_or(low, |w| code.b.ins().bor(w, low)));
            if self.p.width(v) == Width::W128 {
                words[at + 1] = Some(high);
            }
        }
        let words: Vec<ir::Value> = words.into_iter().flatten().collect();
        let mut h = self.constant_view(code, here, table, View::SEED);
        for pair in words.chunks(2) {
            let a = code.b.ins().bxor(pair[0], h);
            let odd = code.imm(types::I64, HASH_ODD.into());
            let b = pair.get(1).map_or(odd, |&b| code.b.ins().bxor(b, odd));
            h = code.product_halves_xored(a, b);
        }
        (words, code.b.ins().bor_imm_u(h, HASH_TOP as i64))
    }

    /// Address of the row of a slot that was found, where several words of a key are compared: a difference, as a sum would
    /// be made anew for each access, of two registers.
    pub fn found_row(&mut self, code: &mut Emitter<'_, '_>, table: TableId, slot: ir::Value) -> ir::Value {
        let negated = *self.negated.entry(table).or_insert_with(|| {
            let mut before = code.frame.before(&mut code.b);
            let flags = MemFlagsData::trusted();
            let first_table = offset_of!(Ctx<'_>, first_table) as i32;
            let first_table = before.ins().load(types::I64, flags, code.ctx, first_table);
            let rows = (View::STRIDE * table.0 as usize + View::ROWS) as i32;
            let rows = before.ins().load(types::I64, flags, first_table, rows);
            let negated = before.ins().ineg(rows);
            Kept::new(&mut before, negated)
        });
        let wide = code.extend(types::I64, slot);
        let off = self.row_offset(code, table, wide);
        let negated = negated.get(&mut code.b);
        let row = code.b.ins().isub(off, negated);
        self.addresses.insert(slot, row);
        row
    }
}

impl Emitter<'_, '_> {
    pub fn put_words(&mut self, words: &[ir::Value]) {
        let at = self.frame_address();
        for (i, &w) in words.iter().enumerate() {
            self.b.ins().store(self.regions.frame, w, at, 8 * i as i32);
        }
    }
}
