//! The protocol of sleeping and waking, in every order in which its steps can happen: no wakeup is lost.
//!
//! The checker finds a lost wakeup as a thread that sleeps for ever ("deadlock"). What stands in for the descriptor that
//! signals is a flag: it wakes who waits for it, and is drained.

use std::collections::VecDeque;

use loom::sync::{Arc, Condvar, Mutex, atomic};
use loom::thread;

#[path = "../src/wakeup.rs"]
mod wakeup;

use wakeup::Wakeup;

struct Shared {
    wakeup: Wakeup,
    signal: Mutex<bool>,
    signalled: Condvar,
    /// Where the sleeper looks for work.
    inbox: Mutex<VecDeque<u32>>,
}

impl Shared {
    fn new() -> Arc<Shared> {
        Arc::new(Shared {
            wakeup: Wakeup::new(),
            signal: Mutex::new(false),
            signalled: Condvar::new(),
            inbox: Mutex::new(VecDeque::new()),
        })
    }

    /// As `Waker::wake`.
    fn wake(&self) {
        if self.wakeup.wake() {
            *self.signal.lock().unwrap() = true;
            self.signalled.notify_one();
        }
    }

    /// As `Poller::sleep` without a time limit; `early`: a device ends the sleep.
    fn sleep(&self, early: bool) {
        let may_sleep = self.wakeup.may_sleep();
        let mut signal = self.signal.lock().unwrap();
        while may_sleep && !early && !*signal {
            signal = self.signalled.wait(signal).unwrap();
        }
        let signalled = *signal;
        drop(signal);
        self.wakeup.rise();
        if signalled {
            *self.signal.lock().unwrap() = false;
        }
    }

    fn send(&self, n: u32) {
        self.inbox.lock().unwrap().push_back(n);
        self.wake();
    }
}

/// A worker's loop: it takes one thing from its inbox a round, and sleeps only if there was none. A device ends the first
/// `early` sleeps.
fn work(shared: &Shared, expected: u32, mut early: u32) {
    let mut sum = 0;
    while sum < expected {
        let got = shared.inbox.lock().unwrap().pop_front();
        match got {
            Some(n) => sum += n,
            None => {
                shared.sleep(early > 0);
                early = early.saturating_sub(1);
            }
        }
    }
}

fn check(test: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(test);
}

#[test]
fn what_two_threads_send_is_seen() {
    check(|| {
        let shared = Shared::new();
        let senders = [1, 2].map(|n| {
            let shared = shared.clone();
            thread::spawn(move || shared.send(n))
        });
        work(&shared, 3, 0);
        for sender in senders {
            sender.join().unwrap();
        }
        shared.wakeup.rise();
        assert!(!shared.wakeup.is_woken(), "a wakeup ends one sleep");
    });
}

#[test]
fn what_is_sent_while_a_device_ends_the_sleep_is_seen() {
    check(|| {
        let shared = Shared::new();
        let other = shared.clone();
        let sender = thread::spawn(move || {
            other.send(1);
            other.send(2);
        });
        work(&shared, 3, 1);
        sender.join().unwrap();
    });
}

/// Work that is written and seen without a lock, as in the rings between workers: the fences of the protocol order it.
#[test]
fn work_that_no_lock_orders_is_seen() {
    use atomic::{AtomicU32, Ordering};
    check(|| {
        let (shared, ring) = (Shared::new(), Arc::new(AtomicU32::new(0)));
        let (other, out) = (shared.clone(), ring.clone());
        let sender = thread::spawn(move || {
            for n in 1..3 {
                out.store(n, Ordering::Relaxed);
                other.wake();
            }
        });
        while ring.load(Ordering::Relaxed) < 2 {
            shared.sleep(false);
        }
        sender.join().unwrap();
    });
}
