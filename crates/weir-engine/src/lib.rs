//! The data-plane process: graphs, engine nodes, workers, hot swap, snapshot, handlers, traces.
//!
//! [`Engine`] runs graphs in the thread that calls it.

#![forbid(unsafe_code)]

mod classes;
mod device;
mod engine;
mod env;
mod executor;
mod links;
#[macro_use]
mod node;
mod nodes;
mod plan;
pub mod protocol;
mod router;
mod watch;
mod worker;

pub use classes::{AnyClass, Classes};
pub use device::Opener;
pub use engine::{Engine, Stopped, Until};
pub use env::Notice;
pub use executor::ExecutorKind;
pub use node::{Model, NodeClass};
pub use plan::{Plan, PlanError};
pub use watch::Listener;
pub use worker::{Handle, Worker, WorkerOptions};
