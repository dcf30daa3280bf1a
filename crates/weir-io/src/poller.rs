//! Sleeping until a port is readable.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use nix::sys::eventfd::{EfdFlags, EventFd};

/// The key under which the waker's descriptor is registered.
const WAKE: u64 = u64::MAX;

/// Sleeps until one of several descriptors is readable, a time has passed, or a [`Waker`] wakes it.
///
/// Readiness is by level: a port that was not drained is reported again.
#[derive(Debug)]
pub struct Poller {
    epoll: Epoll,
    wake: Arc<EventFd>,
}

/// Wakes the thread that sleeps in [`Poller::wait`], or keeps it from the next sleep.
#[derive(Debug, Clone)]
pub struct Waker(Arc<EventFd>);

impl Waker {
    /// Ends the current or the next [`Poller::wait`].
    pub fn wake(&self) {
        // The only failure is a counter at its maximum, and then the sleeper is awake already.
        let _ = self.0.write(1);
    }
}

impl Poller {
    /// A poller without descriptors.
    pub fn new() -> io::Result<Poller> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let wake = EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?;
        epoll.add(&wake, EpollEvent::new(EpollFlags::EPOLLIN, WAKE))?;
        Ok(Poller { epoll, wake: Arc::new(wake) })
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

    /// Sleeps until a descriptor is readable or in error, a waker was used, or `timeout` has passed (`None`: for
    /// ever). Puts the keys of up to 64 ready descriptors into `ready`, which it clears first. Returns whether a waker was
    /// used.
    pub fn wait(&self, timeout: Option<Duration>, ready: &mut Vec<u64>) -> io::Result<bool> {
        ready.clear();
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 64];
        let time = timeout.map(|t| libc::timespec {
            tv_sec: libc::time_t::try_from(t.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: t.subsec_nanos().into(),
        });
        let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // `epoll_wait` counts in milliseconds, which is too coarse for shapers.
        // SAFETY: `events` has room for as many events as are asked for, `time` is null or points to a live value,
        // and there is no signal mask.
        let n = unsafe {
            let fd = self.epoll.0.as_fd().as_raw_fd();
            libc::epoll_pwait2(fd, events.as_mut_ptr(), events.len() as i32, time, std::ptr::null())
        };
        if n < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::Interrupted { Ok(false) } else { Err(error) };
        }
        let mut woken = false;
        for event in events.iter().take(n as usize) {
            match event.u64 {
                WAKE => {
                    woken = true;
                    // Reading resets the counter; that another wake-up came first is no error.
                    let _ = self.wake.read();
                }
                key => ready.push(key),
            }
        }
        Ok(woken)
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
        assert!(poller.wait(None, &mut ready).unwrap());
        thread.join().unwrap();
        assert!(ready.is_empty());
        assert!(!poller.wait(Some(Duration::from_micros(50)), &mut ready).unwrap());
        assert!(ready.is_empty());
    }

    #[test]
    fn readable_descriptors_are_reported_until_they_are_drained() {
        let poller = Poller::new().unwrap();
        let fd = EventFd::from_flags(EfdFlags::EFD_NONBLOCK).unwrap();
        poller.add(3, fd.as_fd()).unwrap();
        let mut ready = Vec::new();
        fd.write(1).unwrap();
        for _ in 0..2 {
            poller.wait(None, &mut ready).unwrap();
            assert_eq!(ready, [3]);
        }
        fd.read().unwrap();
        poller.wait(Some(Duration::ZERO), &mut ready).unwrap();
        assert!(ready.is_empty());
    }
}
