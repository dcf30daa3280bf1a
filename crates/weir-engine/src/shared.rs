//! The tables of a graph of which there is one for all workers.
//!
//! At rest they stand here. A worker that runs programs which need them takes the lock once for a batch, and puts them
//! in the places they have in its own set of tables, so that programs see one set. A table is a few words; what it
//! holds does not move.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use weir_io::Waker;
use weir_table::{DeclError, Kind, Table, TableDecl, TableSet};

/// Never.
const NEVER: u64 = u64::MAX;

/// The tables, and when something in them expires.
#[derive(Debug)]
pub(crate) struct Shared {
    tables: Mutex<Vec<(u32, Table)>>,
    /// When the next entry may expire. The first worker sees to it.
    next: AtomicU64,
    waker: Waker,
}

/// A table that stands in the place of one that is elsewhere. No program reaches it.
pub(crate) fn placeholder(decl: &TableDecl) -> Result<Table, DeclError> {
    let capacity = if decl.kind == Kind::Array { 1 } else { decl.capacity.min(16) };
    Table::new(TableDecl { capacity, ..decl.clone() })
}

impl Shared {
    /// With nothing but placeholders; `waker` wakes the first worker.
    pub fn new<'a>(
        tables: impl Iterator<Item = (u32, &'a TableDecl)>,
        waker: Waker,
    ) -> Result<Shared, DeclError> {
        let tables =
            tables.map(|(number, decl)| Ok((number, placeholder(decl)?))).collect::<Result<_, _>>()?;
        Ok(Shared { tables: Mutex::new(tables), next: AtomicU64::new(NEVER), waker })
    }

    /// Runs `f` with the tables in `set`, while no other worker has them. They go back also if `f` panics.
    pub fn with<T, R>(
        &self,
        of: &mut T,
        set: impl Fn(&mut T) -> &mut TableSet,
        first: bool,
        f: impl FnOnce(&mut T) -> R,
    ) -> R {
        // A worker that panicked put the tables back; the graph is taken away soon.
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        exchange(&mut tables, set(of));
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| f(of)));
        exchange(&mut tables, set(of));
        self.plan_expiry(&tables, first);
        drop(tables);
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Puts the tables into a set, or takes them back: while all other workers stand still.
    pub fn exchange(&self, set: &mut TableSet) {
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        exchange(&mut tables, set);
        self.plan_expiry(&tables, true);
    }

    /// When the next entry may expire.
    pub fn next_expiry(&self) -> Option<u64> {
        Some(self.next.load(Ordering::Acquire)).filter(|&t| t != NEVER)
    }

    fn plan_expiry(&self, tables: &[(u32, Table)], first: bool) {
        let next = tables.iter().filter_map(|(_, t)| t.next_expiry()).min().unwrap_or(NEVER);
        let before = self.next.swap(next, Ordering::AcqRel);
        if next < before && !first {
            self.waker.wake();
        }
    }
}

fn exchange(tables: &mut [(u32, Table)], set: &mut TableSet) {
    for (number, table) in tables {
        std::mem::swap(table, set.table_mut(*number));
    }
}
