//! Signals: those that end the run, and those that scripts wait for.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals as Iterator};
use weir_engine::Engine;

/// The signals that have come, and a thread that wakes the engine for them.
pub(super) struct Signals {
    any: Arc<AtomicBool>,
    came: BTreeMap<i32, Arc<AtomicBool>>,
    thread: Handle,
}

impl Signals {
    /// Catches the signals that end a run.
    pub(super) fn new(waker: weir_io::Waker) -> io::Result<Signals> {
        let mut list = Iterator::new(std::iter::empty::<i32>())?;
        let thread = list.handle();
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            for _ in list.forever() {
                waker.wake();
            }
        })?;
        let mut signals = Signals { any: Arc::default(), came: BTreeMap::new(), thread };
        signals.listen(vec![SIGINT, SIGTERM])?;
        Ok(signals)
    }

    /// Is set when a signal has come.
    pub(super) fn any(&self) -> Arc<AtomicBool> {
        self.any.clone()
    }

    /// Catches these too.
    pub(super) fn listen(&mut self, list: Vec<i32>) -> io::Result<()> {
        for signal in list {
            if self.came.contains_key(&signal) {
                continue;
            }
            let flag = Arc::new(AtomicBool::new(false));
            // At once, so that a script which sends itself a signal has it before its next wait is over.
            signal_hook::flag::register(signal, flag.clone())?;
            signal_hook::flag::register(signal, self.any.clone())?;
            self.thread.add_signal(signal)?;
            self.came.insert(signal, flag);
        }
        Ok(())
    }

    /// Hands what has come to the scripts that wait for it; others do what they always do. Returns whether the run is
    /// over.
    pub(super) fn deliver(&self, engine: &mut Engine) -> bool {
        self.any.store(false, Ordering::SeqCst);
        let mut over = false;
        for (&signal, flag) in &self.came {
            if !flag.swap(false, Ordering::SeqCst) || engine.signal(signal) {
                continue;
            }
            match signal {
                SIGINT | SIGTERM => over = true,
                // What ends a process, ends this one.
                other => _ = signal_hook::low_level::emulate_default_handler(other),
            }
        }
        over
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        self.thread.close();
    }
}
