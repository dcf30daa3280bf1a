//! The data-plane process: graphs, engine nodes, workers, hot swap, snapshot, handlers, traces.
//!
//! [`Engine`] runs graphs in the thread that calls it. [`Worker`] is an engine in a thread of its own; [`serve`] puts it
//! behind a Unix socket on which the control side speaks [`weir_protocol`].

#![forbid(unsafe_code)]

mod chatter;
mod classes;
mod control;
mod device;
mod divide;
mod engine;
mod env;
mod exchange;
mod executor;
mod fast;
mod inbox;
mod library;
mod links;
mod memory;
mod names;
mod neighbours;
#[macro_use]
mod node;
mod nodes;
mod plan;
mod problem;
mod router;
mod series;
mod server;
mod shared;
mod sharing;
mod sockets;
mod team;
mod watch;
mod worker;

pub use classes::{AnyClass, Classes};
pub use control::Modes;
pub use device::Opener;
pub use engine::{Engine, Stopped, Until};
pub use env::{Notice, Printer, Reader};
pub use executor::ExecutorKind;
pub use fast::Fast;
pub use node::{Model, NodeClass, Reach};
pub use plan::Plan;
pub use problem::{Places, PlanError, Problem};
pub use server::{ServeError, serve};
pub use team::Threads;
pub use watch::Listener;
pub use worker::{Handle, Worker, WorkerOptions, bind as bind_thread};
