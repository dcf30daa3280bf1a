//! Requirements of Click configurations, service graphs and topologies, checked before anything runs.
//!
//! Documents become a [`World`]: a [`weir_verify::Network`] with names ([`click`] puts configurations into it).
//! [`World::question`] makes a question about it of a requirement, [`World::answer`] asks it, and [`report`] shows the
//! answer to people and programs.

#![forbid(unsafe_code)]

mod again;
mod answer;
pub mod click;
mod compare;
mod coverage;
mod enforcer;
mod error;
pub mod filter;
mod hosts;
mod question;
pub mod report;
mod routes;
mod security;
mod world;

pub use again::Watch;
pub use answer::{Answer, Asked, Status};
pub use compare::Extent;
pub use enforcer::{ANSWERS, Enforcer, enforcer};
pub use error::Error;
pub use question::Question;
pub use security::Party;
pub use world::{EdgePort, Location, Matching, Modules, World, anything};
