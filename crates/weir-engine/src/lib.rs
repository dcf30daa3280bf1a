//! The data-plane process.

pub mod protocol;
