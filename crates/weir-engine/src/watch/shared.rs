//! One [`Watch`] for all workers: a packet that is followed may go from one to another.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Watch;

/// A worker's access to what is watched. It costs nothing while nobody watches.
#[derive(Clone, Default)]
pub(crate) struct SharedWatch(Arc<Shared>);

#[derive(Default)]
struct Shared {
    active: AtomicBool,
    watch: Mutex<Watch>,
}

/// Exclusive access to what is watched.
pub(crate) struct Watching<'a> {
    watch: MutexGuard<'a, Watch>,
    active: &'a AtomicBool,
}

impl SharedWatch {
    /// Whether anyone watches. If so, graphs run step by step.
    pub fn active(&self) -> bool {
        self.0.active.load(Ordering::Relaxed)
    }

    /// What is watched. Whoever has it must not ask for it again.
    pub fn lock(&self) -> Watching<'_> {
        let watch = self.0.watch.lock().unwrap_or_else(PoisonError::into_inner);
        Watching { watch, active: &self.0.active }
    }

    /// When a trace that waits for its packets is given up.
    pub fn wake(&self) -> Option<u64> {
        if self.active() { self.lock().wake() } else { None }
    }

    /// Reports traces whose packets have not ended in time.
    pub fn expire(&self, now: u64) {
        if self.active() {
            self.lock().expire(now);
        }
    }
}

impl Deref for Watching<'_> {
    type Target = Watch;

    fn deref(&self) -> &Watch {
        &self.watch
    }
}

impl DerefMut for Watching<'_> {
    fn deref_mut(&mut self) -> &mut Watch {
        &mut self.watch
    }
}

impl Drop for Watching<'_> {
    fn drop(&mut self) {
        self.active.store(self.watch.active(), Ordering::Relaxed);
    }
}
