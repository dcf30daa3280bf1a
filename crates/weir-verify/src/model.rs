//! What is known: expressions over unknown numbers, facts about them, and packets made of them.

pub(crate) mod anchors;
pub(crate) mod expr;
pub(crate) mod facts;
pub(crate) mod list;
pub(crate) mod packet;
pub(crate) mod ranges;
pub(crate) mod set;
pub(crate) mod simplify;
pub(crate) mod sums;
pub(crate) mod terms;
