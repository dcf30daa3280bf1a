//! What other systems say of themselves: routing tables, firewall rules, transfer functions.
//!
//! A reader here either understands a line, or says that it does not: nothing is passed over in silence.

mod route;

pub use route::{ImportedAction, ImportedHop, ImportedRoute};
