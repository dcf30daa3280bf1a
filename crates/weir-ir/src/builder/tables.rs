//! Operations on tables.

use super::*;

impl Builder {
    /// An entry of an array.
    pub fn index(&mut self, table: TableId, index: u32) -> E {
        let value = self.value(Type::Entry(table));
        self.op(Op::Index { dst: value, table, index });
        E { value, table }
    }

    /// The value of a cell.
    pub fn read_cell(&mut self, cell: TableId) -> V {
        let e = self.index(cell, 0);
        self.get(e, "value")
    }

    /// Changes a cell.
    pub fn write_cell(&mut self, cell: TableId, v: V) {
        let e = self.index(cell, 0);
        self.set(e, "value", v);
    }

    /// A value field.
    ///
    /// # Panics
    /// If the table has no such field.
    pub fn get(&mut self, e: E, field: &str) -> V {
        let (field, width) = self.field(e.table, field);
        self.define(width, |dst| Op::Get { dst, entry: e.value, field })
    }

    /// A key field, by number.
    pub fn key(&mut self, e: E, field: u32) -> V {
        let width = self.program.tables[e.table.0 as usize].decl.key[field as usize].width;
        self.define(width, |dst| Op::GetKey { dst, entry: e.value, field })
    }

    /// Changes a value field.
    ///
    /// # Panics
    /// If the table has no such field.
    pub fn set(&mut self, e: E, field: &str, v: impl Into<Arg>) {
        let (field, width) = self.field(e.table, field);
        let v = self.arg(v.into(), width);
        self.op(Op::Set { entry: e.value, field, src: v.value });
    }

    /// Lets an entry expire after so many nanoseconds, or a little later if it lives already, in a large table; 0 is never.
    pub fn touch(&mut self, e: E, after: impl Into<Arg>) {
        let after = self.arg(after.into(), Width::W64);
        self.op(Op::Touch { entry: e.value, after: after.value });
    }

    /// Ties two entries together.
    pub fn link(&mut self, a: E, b: E) {
        self.op(Op::Link { a: a.value, b: b.value });
    }

    /// Removes an entry.
    pub fn remove(&mut self, e: E) {
        self.op(Op::Remove { entry: e.value });
    }

    /// Number of entries in a group.
    pub fn group_count(&mut self, table: TableId, value: V) -> V {
        self.define(Width::W32, |dst| Op::GroupCount { dst, table, value: value.value })
    }

    /// Number of entries.
    pub fn size(&mut self, table: TableId) -> V {
        self.define(Width::W32, |dst| Op::Size { dst, table })
    }

    /// Looks a key up.
    pub fn lookup(
        &mut self,
        table: TableId,
        key: &[V],
        hit: impl FnOnce(&mut Builder, E),
        miss: impl FnOnce(&mut Builder),
    ) {
        let key = values(key);
        self.with_entry(table, hit, miss, |hit, miss| End::Lookup { table, key, hit, miss });
    }

    /// Looks a key up and goes on with the entry; `miss` has to end.
    pub fn find(&mut self, table: TableId, key: &[V], miss: impl FnOnce(&mut Builder)) -> E {
        let key = values(key);
        self.or_leave(table, miss, |hit, miss| End::Lookup { table, key, hit, miss })
    }

    /// Finds or makes an entry and goes on with it; `full` has to end.
    pub fn insert(&mut self, table: TableId, key: &[V], full: impl FnOnce(&mut Builder)) -> E {
        let key = values(key);
        self.or_leave(table, full, |ok, full| End::Insert { table, key, ok, full })
    }

    /// Makes an entry with a free key (see [`End::Claim`]) and goes on with it and the claimed value; `full` has to
    /// end.
    #[expect(
        clippy::too_many_arguments,
        reason = "a claim has that many parts, and each call names them all"
    )]
    pub fn claim(
        &mut self,
        table: TableId,
        key: &[V],
        hole: u32,
        lo: V,
        hi: V,
        start: V,
        full: impl FnOnce(&mut Builder),
    ) -> (E, V) {
        let width = self.program.tables[table.0 as usize].decl.key[hole as usize].width;
        let key = values(key);
        let claimed = self.value(Type::Int(width));
        let (lo, hi, start) = (lo.value, hi.value, start.value);
        let e = self.or_leave_with(table, vec![claimed], full, |ok, full| End::Claim {
            table,
            key,
            hole,
            lo,
            hi,
            start,
            ok,
            full,
        });
        (e, V { value: claimed, width })
    }

    /// Finds the entry of an exact table that expires next (see [`End::Soonest`]) and goes on with it and the nanoseconds
    /// that it has left; `miss` has to end.
    pub fn soonest(&mut self, table: TableId, miss: impl FnOnce(&mut Builder)) -> (E, V) {
        let left = self.value(Type::Int(Width::W64));
        let e = self.or_leave_with(table, vec![left], miss, |hit, miss| End::Soonest { table, hit, miss });
        (e, V { value: left, width: Width::W64 })
    }

    /// Takes tokens from the bucket in a field; does `over` if there are not enough.
    pub fn meter(
        &mut self,
        e: E,
        field: &str,
        [cost, rate, burst]: [V; 3],
        ok: impl FnOnce(&mut Builder),
        over: impl FnOnce(&mut Builder),
    ) {
        let (field, _) = self.field(e.table, field);
        let (cost, rate, burst) = (cost.value, rate.value, burst.value);
        self.either(ok, over, |ok, over| End::Meter { entry: e.value, field, cost, rate, burst, ok, over });
    }
}
