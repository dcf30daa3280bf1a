//! Signals between the two sides: eventfds that both have.
//!
//! Both sides have the same open file: the other side may make it blocking, and its counter full, at any moment. A write
//! would then wait until the other side reads, for ever. So signals are sent by the kernel itself, as the notice that a
//! request of asynchronous I/O is done (`IOCB_FLAG_RESFD`, `io_submit(2)`), which adds to the counter and never waits; the
//! request reads no bytes of an empty file. Reading has a flag that keeps it from waiting.

use std::cell::OnceCell;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use socket2::Socket;

/// Notices that the kernel keeps until they are fetched.
const NOTICES: usize = 64;

/// `struct iocb` (linux/aio_abi.h), on machines of this byte order.
#[repr(C)]
#[derive(Default)]
struct Request {
    data: u64,
    #[cfg(target_endian = "little")]
    key: u32,
    rw_flags: i32,
    #[cfg(target_endian = "big")]
    key: u32,
    opcode: u16,
    priority: i16,
    file: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    signal: u32,
}

/// `IOCB_CMD_PREAD`.
const READ: u16 = 0;
/// `IOCB_FLAG_RESFD`.
const SIGNAL: u32 = 1;

/// `struct io_event`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Notice {
    data: u64,
    request: u64,
    result: i64,
    result2: i64,
}

const _: () = assert!(size_of::<Request>() == 64 && size_of::<Notice>() == 32);

/// The sending end of a thread's signals.
struct Sender {
    context: usize,
    empty: OwnedFd,
}

thread_local! {
    static SENDER: OnceCell<Sender> = const { OnceCell::new() };
}

impl Sender {
    fn new() -> io::Result<Sender> {
        let mut context = 0_usize;
        // SAFETY: the kernel writes the number of the context, which has this size.
        if unsafe { libc::syscall(libc::SYS_io_setup, NOTICES, &raw mut context) } < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the name ends with zero.
        let fd = unsafe { libc::memfd_create(c"nothing".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            let error = io::Error::last_os_error();
            // SAFETY: the context was made just now.
            unsafe { libc::syscall(libc::SYS_io_destroy, context) };
            return Err(error);
        }
        // SAFETY: the descriptor is new, valid and ours.
        Ok(Sender { context, empty: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    fn signal(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        let mut request = Request {
            opcode: READ,
            file: self.empty.as_raw_fd() as u32,
            flags: SIGNAL,
            signal: fd.as_raw_fd() as u32,
            ..Request::default()
        };
        let mut list = [&raw mut request];
        for _ in 0..2 {
            // SAFETY: the list has one request, which is done when the call returns: it reads no bytes.
            let n = unsafe { libc::syscall(libc::SYS_io_submit, self.context, 1, list.as_mut_ptr()) };
            if n == 1 {
                return Ok(());
            }
            let error = io::Error::last_os_error();
            if error.raw_os_error() != Some(libc::EAGAIN) {
                return Err(error);
            }
            self.fetch();
        }
        Err(io::ErrorKind::WouldBlock.into())
    }

    /// Fetches the notices, so that there is room for more.
    fn fetch(&self) {
        let mut notices = [Notice::default(); NOTICES];
        let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: there is room for so many notices, and the time is a live value.
        unsafe {
            let to = notices.as_mut_ptr();
            libc::syscall(libc::SYS_io_getevents, self.context, 0, NOTICES, to, &raw const now);
        }
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        // SAFETY: the context is ours, and not used any more.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.context) };
    }
}

/// Whether all peers of this process are trusted.
static TRUSTED: AtomicBool = AtomicBool::new(false);

/// From now on signals are sent by writing: a peer can then make the sender wait. For a process that may not use asynchronous I/O,
/// of which the machine has one bound for all processes.
pub fn trust_peers() {
    TRUSTED.store(true, Ordering::Relaxed);
}

/// Adds to the counter of an eventfd, so that it is readable. Never waits, unless [peers are trusted](trust_peers).
///
/// # Errors
/// If the descriptor is none of an eventfd (`EINVAL`), or the system has no asynchronous I/O left (`fs.aio-max-nr`).
pub fn send(fd: BorrowedFd<'_>) -> io::Result<()> {
    if TRUSTED.load(Ordering::Relaxed) {
        return match nix::unistd::write(fd, &1_u64.to_ne_bytes()) {
            // It is readable anyway.
            Ok(_) | Err(nix::errno::Errno::EAGAIN) => Ok(()),
            Err(e) => Err(e.into()),
        };
    }
    SENDER.with(|sender| {
        let sender = match sender.get() {
            Some(sender) => sender,
            None => {
                let new = Sender::new()?;
                sender.get_or_init(|| new)
            }
        };
        sender.signal(fd)
    })
}

/// By which one side wakes the other.
#[derive(Debug)]
pub enum Signal {
    /// An eventfd, of which both have the same open file.
    Event(OwnedFd),
    /// One end of a pair of stream sockets that somebody else has made. What the other side does to its end makes nobody wait here.
    Socket(Socket),
}

/// Most bytes that are read at a time: one for each signal.
const SIGNALS: usize = 512;

impl Signal {
    /// Signals. Never waits, unless [peers are trusted](trust_peers).
    ///
    /// # Errors
    /// If the other side cannot be signalled: it is gone, or the descriptor is none by which this can be done.
    pub fn send(&self) -> io::Result<()> {
        match self {
            Signal::Event(fd) => send(fd.as_fd()),
            Signal::Socket(socket) => {
                match socket.send_with_flags(&[1], libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) {
                    // It has signals enough.
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(()),
                    done => done.map(drop),
                }
            }
        }
    }

    /// Takes back what was signalled. Never waits. Says whether the other side has closed its end.
    pub fn clear(&self) -> bool {
        match self {
            Signal::Event(fd) => {
                clear(fd.as_fd());
                false
            }
            Signal::Socket(socket) => {
                let mut bytes = [MaybeUninit::uninit(); SIGNALS];
                match socket.recv_with_flags(&mut bytes, libc::MSG_DONTWAIT) {
                    Ok(n) => n == 0,
                    Err(e) => e.kind() != io::ErrorKind::WouldBlock,
                }
            }
        }
    }
}

impl AsFd for Signal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Signal::Event(fd) => fd.as_fd(),
            Signal::Socket(socket) => socket.as_fd(),
        }
    }
}

/// Whether an eventfd, which has been signalled at least twice, counts down by one for each read (`EFD_SEMAPHORE`). It is signalled
/// once at the end.
///
/// # Errors
/// It is no eventfd.
pub fn is_semaphore(fd: BorrowedFd<'_>) -> io::Result<bool> {
    send(fd)?;
    send(fd)?;
    let count = clear(fd);
    send(fd)?;
    Ok(count == 1)
}

/// Sets the counter of an eventfd to zero, and gives what it was. Never waits.
pub fn clear(fd: BorrowedFd<'_>) -> u64 {
    let mut counter = 0_u64;
    let part = libc::iovec { iov_base: (&raw mut counter).cast(), iov_len: size_of::<u64>() };
    // SAFETY: the part is a live value of eight bytes. The offset says that the file has no positions.
    // It fails if the counter is zero, which is fine.
    unsafe { libc::preadv2(fd.as_raw_fd(), &raw const part, 1, -1, libc::RWF_NOWAIT) };
    counter
}

/// A new eventfd, which does not wait as long as nobody changes that.
///
/// # Errors
/// If the process has no descriptors left.
pub fn eventfd() -> io::Result<OwnedFd> {
    // SAFETY: no memory is passed.
    let fd = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new, valid and ours.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use nix::sys::eventfd::{EfdFlags, EventFd};

    use super::*;

    #[test]
    fn a_full_counter_of_a_blocking_file_keeps_nobody_waiting() {
        let fd = EventFd::from_flags(EfdFlags::empty()).unwrap();
        fd.write(u64::MAX - 1).unwrap();
        for _ in 0..3 * NOTICES {
            send(fd.as_fd()).unwrap();
        }
        clear(fd.as_fd());
        clear(fd.as_fd());
        send(fd.as_fd()).unwrap();
        assert_eq!(fd.read().unwrap(), 1);
    }

    #[test]
    fn a_semaphore_is_known() {
        for (flags, is) in [(EfdFlags::empty(), false), (EfdFlags::EFD_SEMAPHORE, true)] {
            let fd = EventFd::from_flags(flags).unwrap();
            assert_eq!(is_semaphore(fd.as_fd()).unwrap(), is);
        }
    }

    #[test]
    fn other_files_are_refused() {
        let file = tempfile::tempfile().unwrap();
        assert_eq!(send(file.as_fd()).unwrap_err().raw_os_error(), Some(libc::EINVAL));
        clear(file.as_fd());
    }
}
