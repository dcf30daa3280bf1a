//! How a table finds entries: one index for each kind.

use crate::decl::{Kind, TableDecl};
use crate::exact::Index;
use crate::lpm::Lpm;
use crate::prefix_rows::PrefixRows;
use crate::rules::Rules;

/// The index of a table.
#[derive(Debug)]
pub(crate) enum Finder {
    Exact(Index),
    Lpm {
        /// From keys to answers.
        index: Lpm,
        rows: PrefixRows,
    },
    Rules(Box<Rules>),
    Array,
}

impl Finder {
    pub(crate) fn new(decl: &TableDecl) -> Finder {
        match decl.kind {
            Kind::Exact => Finder::Exact(Index::new()),
            Kind::Lpm => {
                Finder::Lpm { index: Lpm::new(decl.key[0].width.bits()), rows: PrefixRows::default() }
            }
            Kind::Rules => {
                let widths: Vec<u32> = decl.key.iter().map(|f| f.width.bits()).collect();
                Finder::Rules(Box::new(Rules::new(&widths)))
            }
            Kind::Array => Finder::Array,
        }
    }

    /// Forgets all entries.
    pub(crate) fn clear(&mut self) {
        match self {
            Finder::Exact(index) => *index = Index::new(),
            Finder::Lpm { index, rows } => {
                index.clear();
                *rows = PrefixRows::default();
            }
            Finder::Rules(rules) => rules.clear(),
            Finder::Array => {}
        }
    }

    /// Memory in bytes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Finder::Exact(index) => index.bytes(),
            Finder::Lpm { index, rows } => index.bytes() + rows.bytes(),
            Finder::Rules(rules) => rules.bytes(),
            Finder::Array => 0,
        }
    }

    /// What a lookup costs in nanoseconds, about, as the content stands.
    pub(crate) fn lookup_cost(&self) -> u32 {
        match self {
            Finder::Exact(_) => 5,
            Finder::Lpm { index, .. } => index.lookup_cost(),
            Finder::Rules(rules) => rules.lookup_cost(),
            Finder::Array => 0,
        }
    }

    /// Many changes are to come: what is costly waits for [`settle`](Finder::settle).
    pub(crate) fn hold(&mut self) {
        match self {
            Finder::Lpm { index, .. } => index.hold(),
            Finder::Rules(rules) => rules.hold(),
            Finder::Exact(_) | Finder::Array => {}
        }
    }

    /// No changes are to come for now: everything is built.
    pub(crate) fn settle(&mut self) {
        match self {
            Finder::Lpm { index, .. } => index.settle(),
            Finder::Rules(rules) => rules.settle(),
            Finder::Exact(_) | Finder::Array => {}
        }
    }

    /// After a change: builds what it pays to build.
    pub(crate) fn prepare(&mut self) {
        if let Finder::Rules(rules) = self {
            rules.prepare();
        }
    }
}
