//! The documents people write and read: service graphs, function templates, requests, requirements.
//!
//! Everything here follows "parse, don't validate": a value of these types is well formed, so the layers above never check again.
//! A document with mistakes gives all of them at once ([`DocErrors`]), each with its path, its line and what would be right.
//!
//! - [`doc`]: how such documents are read: a tree with positions, and typed values out of it
//! - [`graph`]: the service graph (SF-FG, COMPOSER paper section 5.1.1) in JSON and YAML
//! - [`template`]: function templates ("images", Scylla paper sections III.B and V.A)
//! - [`nearest`]: the known name that is most like one that is not known
//! - [`request`]: requests for processing: modules, links, requirements (CHANGE paper figure 2.2)
//! - [`requirement`]: what must hold for traffic (CHANGE paper section 2.2.2)
//! - [`schema`]: JSON Schemas of these documents, and the manual's tables of their fields
#![forbid(unsafe_code)]

pub mod doc;
mod error;
pub mod graph;
pub mod nearest;
pub mod request;
pub mod requirement;
pub mod schema;
pub mod template;
pub mod value;

pub use error::{DocError, DocErrors, Position, ValueError};
