//! What is found out of a program before it is translated.

pub(crate) mod dominators;
pub(crate) mod lanes;
pub(crate) mod slow_paths;
pub(crate) mod starts;
pub(crate) mod uses;
