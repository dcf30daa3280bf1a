//! One domain of many nodes (COMPOSER paper, section 5.1; Scylla paper, section IV). Nodes dial the controller and serve their REST
//! interface on that connection; the controller serves the same interface for all of them together.
//!
//! - [`core`]: what is to be done so that nodes run what they are to run; pure
//! - [`admit`]: what becomes of a document; [`choose`]: which node a graph goes to, [`place`]: or its parts; pure
//! - [`policy`]: what the operator requires of graphs, whoever applies them; pure
//! - [`requests`]: processing that is asked for: proved, placed, run, ended
//! - [`links`]: which nodes reach each other, and what passes there; [`split`]: a graph of several nodes becomes one a node; pure
//! - [`lost`]: which graphs are placed anew because nodes of theirs are lost; pure
//! - [`migrate`]: a function goes from a node to another while it works
//! - [`store`]: nodes, graphs and where they are, in one file
//! - [`fleet`]: the nodes that are connected, and requests to them
//! - [`controller`]: changes, each whole or not at all
//! - `several`: one of several controllers leads, with a store in etcd
//! - `backup`: all of it in one file; `doubt`: what becomes of nodes that have seen more than a store that was put back

#![forbid(unsafe_code)]

pub mod admit;
mod attend;
mod backup;
mod changes;
pub mod choose;
pub mod controller;
pub mod core;
mod doubt;
mod facts;
pub mod fleet;
mod history;
mod images;
pub mod links;
pub mod lost;
pub mod migrate;
pub mod place;
mod policies;
pub mod policy;
mod queries;
mod replace;
pub mod requests;
mod reserved;
mod rest;
mod run;
mod search;
mod settle;
mod several;
pub mod split;
pub mod store;
mod traffic;
pub mod view;

pub use backup::{Restored, back_up, restore};
pub use rest::openapi;
pub use run::{ControllerError, Options, etcd, new_admin_token, run};
