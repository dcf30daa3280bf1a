//! What compiled code reads of a table.

use std::mem::offset_of;

use crate::exact::DEFAULT_SEED;
use crate::finder::Finder;
use crate::lpm::LpmView;
use crate::rules::RulesView;
use crate::table::Table;

/// The part of a [`Table`] that compiled code knows. It changes with the table; rows never move.
#[derive(Debug)]
#[repr(C)]
pub struct View {
    /// The row of slot 0.
    pub(crate) rows: *mut u8,
    /// Exact tables: cells of 64 bits, the upper half of a key's hash (never 0) and the slot; 0 is empty.
    pub(crate) cells: *const u64,
    /// Exact tables: a hash `h` starts its search at cell `h & mask`.
    pub(crate) mask: u64,
    /// Exact tables: the seed of [`hash`](crate::hash).
    pub(crate) seed: u64,
    /// Exact tables: 1 if there are more cells than these, which compiled code does not know; else 0.
    pub(crate) grows: u64,
    /// Number of entries.
    pub(crate) live: u32,
    /// Tables by prefix: how to search.
    pub(crate) lpm: LpmView,
    /// Tables of rules: how to search.
    pub(crate) rules: RulesView,
}

// SAFETY: the pointers are to memory that the table owns, and the view moves with the table.
unsafe impl Send for View {}
// SAFETY: a shared view is only read; who writes through its pointers has the table for itself.
unsafe impl Sync for View {}

impl View {
    pub(crate) fn new(rows: *mut u8) -> View {
        View {
            rows,
            cells: std::ptr::null(),
            mask: 0,
            seed: DEFAULT_SEED,
            grows: 0,
            live: 0,
            lpm: LpmView::NONE,
            rules: RulesView::NONE,
        }
    }

    /// Takes over where a changed index is.
    pub(crate) fn update(&mut self, finder: &Finder) {
        match finder {
            Finder::Exact(index) => {
                (self.cells, self.mask) = index.view();
                self.grows = index.grows().into();
            }
            Finder::Lpm { index, .. } => self.lpm = index.view(),
            Finder::Rules(rules) => self.rules = rules.view(),
            Finder::Array => {}
        }
    }
}

/// Offsets in bytes from the address of a [`Table`].
impl View {
    /// Of the address of the rows, 64 bits.
    pub const ROWS: usize = offset_of!(Table, view) + offset_of!(View, rows);
    /// Of the address of the cells, 64 bits.
    pub const CELLS: usize = offset_of!(Table, view) + offset_of!(View, cells);
    /// Of the mask, 64 bits.
    pub const MASK: usize = offset_of!(Table, view) + offset_of!(View, mask);
    /// Of the seed, 64 bits.
    pub const SEED: usize = offset_of!(Table, view) + offset_of!(View, seed);
    /// Of whether a search that ends at an empty cell has to go on elsewhere, 64 bits: 0 or 1.
    pub const GROWS: usize = offset_of!(Table, view) + offset_of!(View, grows);
    /// Of the number of entries, 32 bits.
    pub const LIVE: usize = offset_of!(Table, view) + offset_of!(View, live);
    /// Of the [`LpmView`].
    pub const LPM: usize = offset_of!(Table, view) + offset_of!(View, lpm);
    /// Of the [`RulesView`].
    pub const RULES: usize = offset_of!(Table, view) + offset_of!(View, rules);
    /// Distance of two tables of a set.
    pub const STRIDE: usize = size_of::<Table>();
}
