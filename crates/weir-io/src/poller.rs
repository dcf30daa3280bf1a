//! Sleeping until a port is readable.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::wakeup::Wakeup;

/// The key under which the descriptor of the signal is registered.
const WAKE: u64 = u64::MAX;

/// Sleeps until one of several descriptors is readable, a time has passed, or a [`Waker`] wakes it.
///
/// Readiness is by level: a port that was not drained is reported again. It belongs to one thread, that which sleeps.
#[derive(Debug)]
pub struct Poller {
    epoll: Epoll,
    wake: Arc<Wake>,
}

/// Wakes the thread that sleeps in [`Poller::sleep`], or keeps it from its next sleep.
#[derive(Debug, Clone)]
pub struct Waker(Arc<Wake>);

#[derive(Debug)]
struct Wake {
    wakeup: Wakeup,
    /// Readable when a sleeper is signalled.
    signal: EventFd,
}

impl Waker {
    /// Ends the current or the next [`Poller::sleep`]. To be called after the work for the sleeper stands where it looks
    /// for it. A system call only if the thread sleeps.
    pub fn wake(&self) {
        if self.0.wakeup.wake() {
            // The only failure is a counter at its maximum, and then the descriptor is readable already.
            let _ = self.0.signal.write(1);
        }
    }
}

impl Poller {
    /// A poller without descriptors.
    pub fn new() -> io::Result<Poller> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let signal = EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?;
        epoll.add(&signal, EpollEvent::new(EpollFlags::EPOLLIN, WAKE))?;
        Ok(Poller { epoll, wake: Arc::new(Wake { wakeup: Wakeup::new(), signal }) })
    }

    /// A handle that wakes this poller from any thread.
    pub fn waker(&self) -> Waker {
        Waker(self.wake.clone())
    }

    /// Watches a descriptor (of [`Port::fd`](crate::Port::fd)) and reports it as `key`, which is any number but
    /// `u64::MAX`. Closing the descriptor ends the watch.
    pub fn add(&self, key: u64, fd: BorrowedFd<'_>) -> io::Result<()> {
        if key == WAKE {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "u64::MAX is not a key"));
        }
        Ok(self.epoll.add(fd, EpollEvent::new(EpollFlags::EPOLLIN, key))?)
    }

    /// Ends the watch of a descriptor.
    pub fn remove(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        Ok(self.epoll.delete(fd)?)
    }

    /// Asks which descriptors are readable or in error now, without sleeping. Puts the keys of up to 64 of them into
    /// `ready`, which it clears first. A wakeup stays for the next [`sleep`](Poller::sleep).
    pub fn poll(&self, ready: &mut Vec<u64>) -> io::Result<()> {
        self.wait(Some(Duration::ZERO), ready).map(drop)
    }

    /// Whether the next [`sleep`](Poller::sleep) ends at once.
    pub fn is_woken(&self) -> bool {
        self.wake.wakeup.is_woken()
    }

    /// Sleeps until a descriptor is readable or in error, a waker was used since the last sleep, or `timeout` has passed
    /// (`None`: for ever); may end earlier. Puts keys into `ready` as [`poll`](Poller::poll) does. The caller looks for
    /// work after it.
    pub fn sleep(&self, timeout: Option<Duration>, ready: &mut Vec<u64>) -> io::Result<()> {
        let timeout = if self.wake.wakeup.may_sleep() { timeout } else { Some(Duration::ZERO) };
        let done = self.wait(timeout, ready);
        self.wake.wakeup.rise();
        if done? {
            // Reading resets the counter. Whoever counted before has its work in place; one that signals only after this
            // ends the next sleep for nothing.
            let _ = self.wake.signal.read();
        }
        Ok(())
    }

    /// Returns whether the sleeper was signalled.
    fn wait(&self, timeout: Option<Duration>, ready: &mut Vec<u64>) -> io::Result<bool> {
        ready.clear();
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 64];
        let time = timeout.map(|t| libc::timespec {
            tv_sec: libc::time_t::try_from(t.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: t.subsec_nanos().into(),
        });
        let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // `epoll_wait` counts in milliseconds, which is too coarse for shapers.
        // SAFETY: `events` has space for as many events as are asked for, `time` is null or points to a live value,
        // and there is no signal mask.
        let n = unsafe {
            let fd = self.epoll.0.as_fd().as_raw_fd();
            libc::epoll_pwait2(fd, events.as_mut_ptr(), events.len() as i32, time, std::ptr::null())
        };
        if n < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::Interrupted { Ok(false) } else { Err(error) };
        }
        let keys = events.iter().take(n as usize).map(|event| event.u64);
        ready.extend(keys.clone().filter(|&key| key != WAKE));
        Ok(keys.into_iter().any(|key| key == WAKE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waker_ends_the_sleep_once() {
        let poller = Poller::new().unwrap();
        let waker = poller.waker();
        let mut ready = vec![7];
        let thread = std::thread::spawn(move || waker.wake());
        poller.sleep(None, &mut ready).unwrap();
        thread.join().unwrap();
        assert!(ready.is_empty());
        // Whether it was asleep when it was woken is not known: at most one more sleep ends for nothing.
        poller.sleep(Some(Duration::from_micros(50)), &mut ready).unwrap();
        assert!(!poller.is_woken());
    }

    #[test]
    fn asking_what_is_readable_does_not_take_a_wakeup_away() {
        let poller = Poller::new().unwrap();
        let mut ready = Vec::new();
        for _ in 0..3 {
            poller.waker().wake();
            poller.poll(&mut ready).unwrap();
            assert!(poller.is_woken());
            // It would not end otherwise.
            poller.sleep(None, &mut ready).unwrap();
            assert!(!poller.is_woken());
        }
    }

    #[test]
    fn readable_descriptors_are_reported_until_they_are_drained() {
        let poller = Poller::new().unwrap();
        let fd = EventFd::from_flags(EfdFlags::EFD_NONBLOCK).unwrap();
        poller.add(3, fd.as_fd()).unwrap();
        let mut ready = Vec::new();
        fd.write(1).unwrap();
        for _ in 0..2 {
            poller.sleep(None, &mut ready).unwrap();
            assert_eq!(ready, [3]);
        }
        fd.read().unwrap();
        poller.poll(&mut ready).unwrap();
        assert!(ready.is_empty());
    }

    #[test]
    fn a_sleep_that_was_woken_reports_what_is_readable_too() {
        let poller = Poller::new().unwrap();
        let fd = EventFd::from_flags(EfdFlags::EFD_NONBLOCK).unwrap();
        poller.add(3, fd.as_fd()).unwrap();
        fd.write(1).unwrap();
        poller.waker().wake();
        let mut ready = Vec::new();
        poller.sleep(None, &mut ready).unwrap();
        assert_eq!(ready, [3]);
    }
}
