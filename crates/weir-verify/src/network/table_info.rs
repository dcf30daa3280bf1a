//! What a program may do to its tables, at any time.

use std::sync::OnceLock;

use weir_ir::program::{End, Op, Program, TableInit, Type, Value};
use weir_table::{Kind, Row, Table, TableDecl};

use crate::model::ranges::{Results, by_result};

/// The operations that the whole program may do on a table, at any time before the run.
#[derive(Debug, Clone)]
pub(crate) struct TableInfo {
    /// It may have entries that neither the first content nor this exploration put there.
    pub(crate) open: bool,
    /// First content in the order of lookup.
    pub(crate) rows: Vec<Row>,
    /// It may have other entries than its first ones.
    pub(crate) grows: bool,
    /// Its first entries may be gone.
    pub(crate) shrinks: bool,
    /// Which value fields may have changed.
    pub(crate) changes: Vec<bool>,
    /// Its entries may hold packets.
    pub(crate) holds: bool,
    /// Its entries may be linked.
    pub(crate) linked: bool,
    /// The control side may have changed it.
    edited: bool,
    /// A program asks for the key of an entry.
    keys_read: bool,
    results: OnceLock<Option<Results>>,
}

/// First content of a table, in the order of lookup. Rows that do not fit are left out, as they never get in.
pub(crate) fn first_rows(t: &TableInit) -> Vec<Row> {
    // All entries of an array are there from the start.
    if t.rows.is_empty() && t.decl.kind != Kind::Array {
        return Vec::new();
    }
    let Ok(mut table) = Table::new(t.decl.clone()) else { return Vec::new() };
    if table.insert_rows_unindexed(&t.rows, 0).is_err() {
        // A row that does not fit is refused when the program is loaded.
        t.rows.iter().for_each(|row| drop(table.insert_row(row, 0)));
    }
    table.rows().into_iter().map(|(_, row)| row).collect()
}

/// `open`: the tables may hold anything that programs could have put there.
pub(crate) fn table_infos(p: &Program, open: bool) -> Vec<TableInfo> {
    let mut infos: Vec<TableInfo> = p
        .tables
        .iter()
        .map(|t| {
            // Who else shares the table is not known before linking.
            let edited = open && t.decl.shared_name.is_some() && p.elements.len() == 1;
            TableInfo {
                open,
                rows: first_rows(t),
                grows: edited,
                shrinks: edited || t.rows.iter().any(|r| r.ttl.is_some()),
                changes: vec![edited; t.decl.value.len()],
                holds: edited && t.decl.held > 0,
                linked: false,
                edited,
                keys_read: false,
                results: OnceLock::new(),
            }
        })
        .collect();
    let table_of = |v: Value| match p.ty(v) {
        Type::Entry(t) => t.0 as usize,
        Type::Int(_) => usize::MAX,
    };
    let mut at = |t: usize, f: &mut dyn FnMut(&mut TableInfo)| infos.get_mut(t).map(f);
    for block in &p.blocks {
        for op in &block.ops {
            match op {
                Op::Set { entry, field, .. } => {
                    at(table_of(*entry), &mut |t| t.changes[*field as usize] = true);
                }
                Op::GetKey { entry, .. } => {
                    at(table_of(*entry), &mut |t| t.keys_read = true);
                }
                Op::Touch { entry, .. } | Op::Remove { entry } => {
                    at(table_of(*entry), &mut |t| t.shrinks = true);
                }
                Op::Link { a, b } => {
                    for v in [a, b] {
                        at(table_of(*v), &mut |t| (t.linked, t.shrinks) = (true, true));
                    }
                }
                _ => {}
            }
        }
        match &block.end {
            End::Insert { table, .. } | End::Claim { table, .. } => {
                at(table.0 as usize, &mut |t| t.grows = true);
            }
            End::Meter { entry, field, .. } => {
                at(table_of(*entry), &mut |t| t.changes[*field as usize] = true);
            }
            End::Hold { entry, .. } => {
                at(table_of(*entry), &mut |t| t.holds = true);
            }
            _ => {}
        }
    }
    infos
}

impl TableInfo {
    /// Adds what another program that shares the table may do to it.
    pub(crate) fn join(&mut self, other: &TableInfo) {
        self.grows |= other.grows;
        self.shrinks |= other.shrinks;
        self.changes.iter_mut().zip(&other.changes).for_each(|(a, b)| *a |= b);
        self.holds |= other.holds;
        self.linked |= other.linked;
        self.keys_read |= other.keys_read;
    }

    /// Whether nothing that a program does shows in it.
    pub(crate) fn is_fixed(&self) -> bool {
        !(self.grows
            || self.shrinks
            || self.changes.contains(&true)
            || self.holds
            || self.linked
            || self.edited)
    }

    /// Whether the control side may have changed it.
    pub(crate) fn is_edited(&self) -> bool {
        self.edited
    }

    /// What a table of prefixes says, by result, if its rows differ in nothing else.
    pub(crate) fn results(&self, decl: &TableDecl) -> Option<&Results> {
        let lpm = decl.kind == Kind::Lpm
            && self.is_fixed()
            && !self.keys_read
            && decl.key.len() == 1
            && decl.group.is_none();
        let first = || lpm.then(|| by_result(&self.rows, decl.key[0].width.max())).flatten();
        self.results.get_or_init(first).as_ref()
    }
}
