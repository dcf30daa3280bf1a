//! Options of a worker.

use std::time::Duration;

use weir_io::interface::Method;

use crate::executor::ExecutorKind;

/// Options of a worker.
#[derive(Debug, Clone, Copy)]
pub struct WorkerOptions {
    /// How many workers.
    pub workers: usize,
    /// The core to which the thread is bound; further workers are bound to those behind it.
    pub core: Option<usize>,
    /// What runs the programs.
    pub executor: ExecutorKind,
    /// Whether the elements of compiled graphs are measured: it costs less than a percent of the time, and the memory
    /// of the code once more.
    pub profile: bool,
    /// How devices are opened whose elements name no method.
    pub method: Method,
    /// How long workers wait awake for the next packet where packets come more often than that; zero: never.
    pub busy_poll: Option<Duration>,
    /// Whether graphs are interpreted until the first packets come: for a process that may never see any.
    pub lazy: bool,
    /// Whether the process has huge pages from the first graph on: before, it has little to keep.
    pub huge_pages: bool,
    /// Whether it waits for what another data plane has, and moves no packets meanwhile.
    pub parked: bool,
}

impl Default for WorkerOptions {
    fn default() -> Self {
        WorkerOptions {
            workers: 1,
            core: None,
            executor: ExecutorKind::default(),
            profile: true,
            method: Method::Auto,
            busy_poll: None,
            lazy: false,
            huge_pages: false,
            parked: false,
        }
    }
}
