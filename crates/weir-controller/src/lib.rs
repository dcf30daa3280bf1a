//! One domain of many nodes (COMPOSER paper, section 5.1; Scylla paper, section IV). Nodes dial the controller and serve their REST
//! interface on that connection; the controller serves the same interface for all of them together.
//!
//! - [`core`]: what is to be done so that nodes run what they are to run; pure
//! - [`choose`]: which node a graph goes to; pure
//! - [`links`]: which nodes reach each other; [`split`]: a graph of several nodes becomes one a node; pure
//! - [`store`]: nodes, graphs and where they are, in one file
//! - [`fleet`]: the nodes that are connected, and requests to them
//! - [`controller`]: changes, each whole or not at all

#![forbid(unsafe_code)]

mod attend;
pub mod choose;
pub mod controller;
pub mod core;
pub mod fleet;
pub mod links;
mod rest;
mod run;
pub mod split;
pub mod store;

pub use rest::openapi;
pub use run::{ControllerError, Options, run};
