//! What nodes of several kinds share.

pub(crate) mod bucket;
pub(crate) mod delay;
pub(crate) mod gap;
pub(crate) mod limit;
pub(crate) mod pace;
pub(crate) mod sending;
