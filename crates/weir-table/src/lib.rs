//! State tables: where every element keeps what it remembers.
//!
//! A table is declared ([`TableDecl`]): kind, key and value fields, capacity, what counts by group, how many
//! packets an entry may hold. Because it is declared, any table can be listed, edited, snapshot, restored and
//! modelled without code of the element's own. All times are nanoseconds on the clock of the caller; this crate
//! has no clock.

mod bucket;
mod decl;
mod exact;
mod finder;
mod layout;
mod lpm;
mod memory;
mod prefix_rows;
mod row;
mod rules;
mod set;
mod snapshot;
mod table;
mod view;
mod wheel;

pub use bucket::meter;
pub use decl::{DeclError, FieldDecl, Kind, MAX_CAPACITY, Sharing, TableDecl, Width};
pub use exact::{HASH_ODD, HASH_TOP, hash};
pub use layout::{KeyField, Layout, NEVER, NO_ENTRY, network_order};
pub use lpm::LpmView;
pub use memory::Region;
pub use row::{KeyMatch, Row};
pub use rules::RulesView;
pub use set::{EntryRef, LAST_TIME, MOST_SLACK, SLACK_SHIFT, TableSet, WINDOW, slack};
pub use snapshot::{RestoreError, SetSnapshot, TableSnapshot};
pub use table::{Changes, EditError, Frozen, Table};
pub use view::View;
