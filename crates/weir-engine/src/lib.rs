//! The data-plane process: running graphs, workers, hot swap, snapshot, handlers, traces.
//!
//! [`Engine`] runs graphs in the thread that calls it. [`Worker`] is an engine in a thread of its own; [`serve`] puts it
//! behind a Unix socket on which the control side speaks [`weir_protocol`], and [`serve_within`] does so in a sandbox.

#![forbid(unsafe_code)]

mod engine;
mod exchange;
mod executor;
mod hand_over;
mod instance;
mod library;
mod options;
mod router;
mod server;
mod shared;
mod threads;
mod watch;
mod worker;

pub use engine::{Engine, Stopped, Until};
pub use executor::ExecutorKind;
pub use options::WorkerOptions;
pub use router::Reader;
pub use server::{ServeError, serve, serve_within};
pub use threads::{Threads, bind as bind_thread};
pub use watch::{Listener, TraceRequest};
pub use weir_nodes::env::device::Opener;
pub use weir_nodes::env::{Notice, Printer};
pub use worker::{Handle, Worker};
