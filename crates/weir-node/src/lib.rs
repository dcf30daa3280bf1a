//! The node daemon: what should run comes in over REST and is kept in a store; a pure reconcile core computes the
//! steps to it, and the data-plane process carries them out (COMPOSER paper, sections 5.1 to 5.4).
//!
//! The daemon may end in any way and at any time: packets go on, and when it comes back it adopts what runs and updates
//! the rest.
//!
//! - [`desired`]: from a document to what has to run for it
//! - [`reconcile`]: from what should run and what runs to steps
//! - [`node`]: changes, one at a time, all or nothing
//! - [`instance`], [`compute`]: what drivers run, and the drivers of functions that are not inline
//! - [`resolve`], [`candidates`]: from what a function has to be able to do to an image; [`expand`]: functions made of functions; [`resources`], [`accounts`]: what that may take
//! - [`store`], [`history`], [`images`], [`events`]: what is kept, what is offered, what is told
//! - [`engine`], [`connection`]: the data-plane process, supervised and spoken to
//! - [`suspend`]: graphs that run while packets come
//! - [`tenancy`]: whose graphs are; [`rest`]: the interface
#![forbid(unsafe_code)]

pub mod accounts;
mod added;
mod apply;
pub mod archives;
pub mod candidates;
mod changes;
pub mod compute;
pub mod connection;
pub mod cores;
pub mod desired;
mod domain;
pub mod engine;
pub mod expand;
pub mod guard;
mod history;
mod image_check;
pub mod images;
pub mod instance;
pub mod join;
pub mod membership;
mod metrics;
mod monitoring;
mod mtu;
mod neighbours;
pub mod node;
mod perform;
pub mod plan;
mod preflight;
mod process;
pub mod proof;
mod queries;
pub mod reconcile;
pub mod resolve;
pub mod resources;
pub mod rest;
mod run;
mod schedule;
mod secrets;
pub mod status;
pub mod store;
pub mod suspend;
pub mod tenancy;
#[cfg(test)]
mod testing;
pub mod traces;
pub mod traffic;
mod tunnels;
mod upgrade;
mod usage;
mod view;

pub use run::{LoginOptions, NodeError, Options, new_admin_token, run, serve};
