//! The tables of a run: a network has many, and a run needs those of the nodes that it comes by.

use rustc_hash::FxHashMap;
use weir_ir::program::Program;
use weir_table::{Row, Table, TableSet};

use crate::network::{Body, Instance, Network, NodeId};

/// Tables that are made when they are first asked for.
#[derive(Debug, Default)]
pub struct LazyTables {
    /// Those that there are, in the order in which they were asked for.
    pub set: TableSet,
    pub(crate) numbers: Numbers,
}

/// For tables of a network their numbers in a set.
#[derive(Debug, Default)]
pub struct Numbers(FxHashMap<u32, u32>);

impl Numbers {
    /// The number in the set, if the table is there.
    pub(crate) fn get(&self, table: u32) -> Option<u32> {
        self.0.get(&table).copied()
    }
}

impl LazyTables {
    /// The number in the set of a table of the network; if it is made only now, with those of its first rows which `stays`
    /// says are there. `None` if it cannot be made.
    pub(crate) fn number(
        &mut self,
        net: &Network,
        table: u32,
        mut stays: impl FnMut(usize, &Row) -> bool,
    ) -> Option<u32> {
        if let Some(known) = self.numbers.get(table) {
            return Some(known);
        }
        let mut made = Table::new(net.decl(table).clone()).ok()?;
        let rows = net.rows(table).iter().enumerate().filter(|(i, row)| stays(*i, row));
        // Asked a few times, if at all: an index costs more.
        made.insert_rows_unindexed(rows.map(|(_, row)| row), 0).ok()?;
        let number = self.set.push(made);
        self.numbers.0.insert(table, number);
        Some(number)
    }

    /// A node's program, and the numbers of its tables, which are made if they are not there.
    pub(crate) fn program<'a>(&mut self, net: &'a Network, node: NodeId) -> Option<(&'a Program, Vec<u32>)> {
        let Body::Program(Instance { program, tables, .. }) = &net.node(node).body else { return None };
        self.set.reserve(tables.len());
        let numbers: Option<Vec<u32>> = tables.iter().map(|&t| self.number(net, t, |_, _| true)).collect();
        Some((program, numbers?))
    }
}
