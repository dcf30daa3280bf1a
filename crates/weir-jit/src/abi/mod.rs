//! What compiled code and the Rust that it calls agree on.

pub(crate) mod cold_calls;
pub(crate) mod helpers;
pub(crate) mod outcome;
pub(crate) mod profile;
