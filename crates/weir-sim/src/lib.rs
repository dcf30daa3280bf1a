//! A domain in a simulation: the real controller with its real store, and a network, nodes and disks that are simulated, with faults. All that happens follows from a
//! seed: what a seed found happens again.
//!
//! - [`network`]: requests and answers on their way; connections that end, and what arrives all the same
//! - [`node`]: what a node's interface promises: graphs that are put and deleted whole, and how far its controller had got
//! - [`asked`]: what the clients asked for, and what may be so because of it
//! - [`tasks`]: what goes on at the same time, one step at a time
//! - [`etcd`]: the log of several controllers, of which one leads
//! - [`domain`]: one run, from its first fault to the end, in which all has to be as it was asked

#![forbid(unsafe_code)]

pub mod asked;
pub mod domain;
pub mod etcd;
pub mod network;
pub mod node;
pub mod tasks;

pub use domain::{Report, simulate, simulate_moves, simulate_several};
