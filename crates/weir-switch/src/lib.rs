//! Flow tables and logical switch instances (LSIs).
//!
//! [`FlowTable`](flow_table::FlowTable) is an element: its rules are a program like any other, so that a graph's
//! switch and its inline functions are linked into one. [`plan`](compile::plan) says what a service graph becomes,
//! [`configuration`](config::configuration) writes that down around one `FlowTable`, the graph-LSI, and
//! [`lsi0`](lsi0::lsi0) writes the configuration of LSI-0, which dispatches traffic of the node's interfaces to the graphs (COMPOSER paper, section 5.2).

#![forbid(unsafe_code)]

pub mod compile;
pub mod config;
pub mod direct;
mod edit;
pub mod flow_table;
pub mod function;
pub mod hash;
pub mod lsi0;
pub mod mtu;
pub mod rule;

use weir_elements::{Class, class};

/// The element classes of this crate.
pub const CLASSES: &[Class] = &[class::<flow_table::FlowTable>("switch")];
