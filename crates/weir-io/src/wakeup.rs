//! Who sleeps, and whether it was woken: the protocol between a thread that sleeps and those that have something for it.
//!
//! It stands in a file without other parts, so that a model checker can run it (`tests/wakeup_model.rs`): `atomic` is that
//! of the standard library here, and the checker's there.

use super::atomic::{AtomicU8, Ordering, fence};

/// The sleeper runs, and nothing came since it last began to look for work.
const AWAKE: u8 = 0;
/// The sleeper sleeps, or is about to.
const ASLEEP: u8 = 1;
/// Something came: the sleeper does not sleep before it has looked for work again.
const WOKEN: u8 = 2;

/// The state that a sleeper and its wakers share. A waker first puts the work where the sleeper looks for it, and then calls
/// [`wake`](Wakeup::wake). The sleeper looks for work after each [`rise`](Wakeup::rise).
///
/// A wakeup is never lost: it stays until the sleeper asks for sleep, whatever the sleeper does in between.
#[derive(Debug)]
pub(crate) struct Wakeup {
    state: AtomicU8,
}

impl Wakeup {
    pub fn new() -> Wakeup {
        Wakeup { state: AtomicU8::new(AWAKE) }
    }

    /// Says that there is work. Returns whether the sleeper sleeps, so that it has to be signalled.
    ///
    /// While it works and a wakeup is noted already, which is so under load, this writes nothing.
    pub fn wake(&self) -> bool {
        // The work is written before the state is read here, and the state is written before work is looked for in
        // `rise`. So if the mark that is read here is one that `rise` takes away, the work is seen behind that.
        fence(Ordering::SeqCst);
        self.state.load(Ordering::Relaxed) != WOKEN && self.state.swap(WOKEN, Ordering::AcqRel) == ASLEEP
    }

    /// Whether there was a wakeup since the sleeper last rose.
    pub fn is_woken(&self) -> bool {
        self.state.load(Ordering::Relaxed) == WOKEN
    }

    /// The sleeper asks for sleep; returns whether it may wait for a signal. [`rise`](Wakeup::rise) follows in each case.
    pub fn may_sleep(&self) -> bool {
        self.state.compare_exchange(AWAKE, ASLEEP, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// The sleeper goes on, and looks for work.
    pub fn rise(&self) {
        self.state.swap(AWAKE, Ordering::AcqRel);
        fence(Ordering::SeqCst);
    }
}
