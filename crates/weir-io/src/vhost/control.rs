//! The thread of a port that keeps its control connection: it listens or connects, again and again, and has what the front end
//! says answered.
//!
//! It is a thread of its own because the other side can keep it waiting: by a message that never ends, and by descriptors that
//! take their time to close. The thread that moves packets never waits for it: if the device is being changed, there are no
//! packets now.

use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use socket2::{Socket, Type};

use super::backend::Backend;
use super::device::{Device, Refused, Signal};
use super::options::{Options, Role};
use crate::shared::watch::Changes;
use crate::shared::{LOOK, accept, connect, is_gone, listen, signal};

/// How long until a client tries to connect again, and a server takes the next.
const RETRY: Duration = Duration::from_millis(100);
/// How long a front end that broke the protocol is left alone.
const PAUSE: Duration = Duration::from_secs(1);
/// How often a front end may stop a ring in a second.
const MOST_STOPS: u32 = 64;
/// How long what a front end has left is kept for whoever takes it.
const KEEP: Duration = Duration::from_secs(1);

/// State that the port and its thread share.
#[derive(Debug)]
pub struct Shared {
    /// Of the device, and of the connection.
    pub changes: Changes,
    /// Readable when there are changes, or the driver has signalled.
    pub ready: Epoll,
    device: Mutex<Device>,
    state: Mutex<State>,
    /// Wakes the thread.
    wake: OwnedFd,
}

#[derive(Debug, Default)]
struct State {
    /// Why packets do not pass.
    why: String,
    /// What the driver did, as the port found it.
    fault: Option<String>,
    /// By which the connection is ended.
    stream: Option<UnixStream>,
    /// Whether what the front end has left was taken.
    drained: bool,
    /// Since when it was counted how often rings were stopped, and how often that was.
    stops: (Option<Instant>, u32),
    stop: bool,
}

impl Shared {
    /// Nothing is connected yet.
    ///
    /// # Errors
    /// If there are no descriptors left.
    pub fn new(options: &Options) -> io::Result<Shared> {
        let ready = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let changes = Changes::new()?;
        ready.add(changes.fd(), EpollEvent::new(EpollFlags::EPOLLIN, 0))?;
        let state = State { why: "nobody has connected yet".to_owned(), ..State::default() };
        let device = Mutex::new(Device::new(options));
        Ok(Shared { changes, ready, device, state: Mutex::new(state), wake: signal::eventfd()? })
    }

    /// The device, unless it is being changed: changes follow then.
    #[inline]
    pub fn device(&self) -> Option<MutexGuard<'_, Device>> {
        match self.device.try_lock() {
            Ok(device) => Some(device),
            Err(TryLockError::Poisoned(e)) => Some(e.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why packets do not pass.
    pub fn why(&self) -> String {
        self.state().why.clone()
    }

    /// Ends the connection for what the driver did.
    pub fn complain(&self, fault: String) {
        {
            let mut state = self.state();
            state.why.clone_from(&fault);
            state.fault = Some(fault);
        }
        self.hang_up();
    }

    /// Ends the thread.
    pub fn stop(&self) {
        self.state().stop = true;
        self.hang_up();
    }

    /// What a front end has left was taken.
    pub fn drained(&self) {
        self.state().drained = true;
        self.wake();
    }

    fn hang_up(&self) {
        if let Some(stream) = &self.state().stream {
            // It may have ended already. This never waits.
            let _ = stream.shutdown(Shutdown::Both);
        }
        self.wake();
    }

    fn wake(&self) {
        // It stays in this process: nobody makes it wait.
        let _ = nix::unistd::write(&self.wake, &1_u64.to_ne_bytes());
    }

    /// Changes the device, and notifies the port.
    pub fn change<T>(&self, change: impl FnOnce(&mut Device) -> T) -> T {
        let done = change(&mut self.device.lock().unwrap_or_else(PoisonError::into_inner));
        self.changes.notify();
        done
    }

    /// Watches what the driver signals no more.
    pub fn unwatch(&self, kick: Option<&Signal>) {
        // The other side has the same file open, so that to close it would not be enough.
        let _ = kick.map(|kick| self.ready.delete(kick));
    }

    /// Sets the device back.
    pub fn reset(&self) {
        let old = self.change(Device::reset);
        self.unwatch(old.kick());
        // It is dropped when the device is free again.
    }

    /// Notes that a ring is stopped: each time is an event for people, so that nobody does it all the time.
    ///
    /// # Errors
    /// If somebody does.
    pub fn stops(&self) -> Result<(), Refused> {
        let mut state = self.state();
        let (since, count) = &mut state.stops;
        if since.is_none_or(|since| since.elapsed() > Duration::from_secs(1)) {
            (*since, *count) = (Some(Instant::now()), 0);
        }
        *count += 1;
        if *count > MOST_STOPS { Err(Refused::Restless) } else { Ok(()) }
    }

    /// Says why packets do not pass.
    pub fn set_why(&self, why: &str) {
        why.clone_into(&mut self.state().why);
    }

    /// Whether nobody will take what a front end has left.
    fn is_drained(&self) -> bool {
        let state = self.state();
        state.drained || state.stop
    }
}

/// The thread.
pub struct Keeper {
    options: Options,
    /// What a server listens on.
    listener: Option<Socket>,
    shared: Arc<Shared>,
    /// When to accept or to connect again.
    again: Instant,
}

impl Keeper {
    /// Listens, as server.
    ///
    /// # Errors
    /// If the socket cannot be made.
    pub fn new(options: &Options, shared: Arc<Shared>) -> io::Result<Keeper> {
        let listener = match options.role {
            Role::Server => Some(listen(&options.socket, Type::STREAM, options.is_open)?),
            Role::Client => None,
        };
        Ok(Keeper { options: options.clone(), listener, shared, again: Instant::now() })
    }

    /// Works until it is stopped.
    pub fn run(mut self) {
        while !self.shared.state().stop {
            match self.meet() {
                Ok(Some(stream)) => self.serve(stream),
                Ok(None) => {}
                Err(_) => break,
            }
        }
    }

    /// Waits for somebody, for a while.
    fn meet(&mut self) -> nix::Result<Option<UnixStream>> {
        let now = Instant::now();
        let ready = self.again <= now;
        let socket = match &self.listener {
            Some(listener) => {
                let until = if ready { now + LOOK } else { self.again };
                self.wait(ready.then_some(listener), Some(until))?;
                if !ready {
                    return Ok(None);
                }
                if is_gone(&self.options.socket) {
                    self.again = Instant::now() + LOOK;
                    // It is tried again, if this fails.
                    if let Ok(listener) = listen(&self.options.socket, Type::STREAM, self.options.is_open) {
                        self.listener = Some(listener);
                    }
                    return Ok(None);
                }
                accept(listener)
            }
            None if ready => {
                self.again = now + RETRY;
                connect(&self.options.socket, Type::STREAM)
            }
            None => {
                self.wait(None, Some(self.again))?;
                return Ok(None);
            }
        };
        let stream = socket.and_then(|socket| {
            socket.set_nonblocking(false)?;
            Ok(UnixStream::from(OwnedFd::from(socket)))
        });
        match stream {
            Ok(stream) => return Ok(Some(stream)),
            Err(e) if self.listener.is_none() => self.shared.state().why = format!("cannot connect: {e}"),
            // Nobody is there, or the process has no descriptors left.
            Err(e) if e.kind() != io::ErrorKind::WouldBlock => self.again = now + RETRY,
            Err(_) => {}
        }
        Ok(None)
    }

    /// Waits until somebody connects, the port wants something, or the time has come.
    fn wait(&self, listener: Option<&Socket>, until: Option<Instant>) -> nix::Result<()> {
        let mut list = vec![PollFd::new(self.shared.wake.as_fd(), PollFlags::POLLIN)];
        list.extend(listener.map(|listener| PollFd::new(listener.as_fd(), PollFlags::POLLIN)));
        let timeout = until.map_or(PollTimeout::NONE, |until| {
            // Rounded up, so that it is not woken in vain.
            let millis = until.saturating_duration_since(Instant::now()).as_millis() + 1;
            PollTimeout::try_from(millis).unwrap_or(PollTimeout::MAX)
        });
        let done = match poll(&mut list, timeout) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
            Err(e) => Err(e),
        };
        signal::clear(self.shared.wake.as_fd());
        done
    }

    /// Talks with a front end until one of both has enough.
    fn serve(&mut self, stream: UnixStream) {
        let shared = &self.shared;
        {
            let mut state = shared.state();
            (state.stream, state.fault, state.drained) = (stream.try_clone().ok(), None, false);
            if state.stop {
                return;
            }
            "a front end has connected, but its driver has not started both rings".clone_into(&mut state.why);
        }
        let end = Backend::of(&self.options, shared.clone()).answer(stream);
        let fault = {
            let mut state = shared.state();
            state.stream = None;
            let fault = state.fault.take();
            state.why = fault.clone().unwrap_or_else(|| end.why.clone());
            fault
        };
        let blamed = end.refused || fault.is_some();
        // What it sent can still be taken, unless there is no sense in it.
        let keeps = shared.change(|device| {
            device.over = true;
            !blamed && device.is_started()
        });
        let until = Instant::now() + KEEP;
        while keeps && Instant::now() < until && !shared.is_drained() {
            if self.wait(None, Some(until)).is_err() {
                break;
            }
        }
        shared.reset();
        self.again = Instant::now() + if blamed { PAUSE } else { RETRY };
    }
}
