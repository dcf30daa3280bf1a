//! The rings that an AF_XDP socket shares with the kernel (Documentation/networking/af_xdp.rst).

use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// Memory shared with the kernel.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping belongs to this value alone and is not bound to a thread.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Zeroed memory of the process.
    pub fn anonymous(len: usize) -> io::Result<Mapping> {
        Mapping::new(len, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
    }

    fn new(len: usize, flags: i32, fd: i32, offset: i64) -> io::Result<Mapping> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = flags | libc::MAP_POPULATE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), len, access, flags, fd, offset) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Mapping { start: NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?, len })
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Address of the first byte.
    pub fn address(&self) -> *mut u8 {
        self.start.as_ptr()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this is the mapping made in `new`, and nothing refers to it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// One ring. The process is at one end of it, the kernel at the other: rings that the process fills (fill, send) are
/// used by [`push`](Ring::push), those that the kernel fills (receive, completion) by [`pop`](Ring::pop).
#[derive(Debug)]
pub struct Ring<T> {
    mapping: Mapping,
    offsets: Offsets,
    mask: u32,
    /// The position at which the process goes on.
    ours: u32,
    entries: PhantomData<T>,
}

/// The offsets of the parts of a ring in its mapping, in bytes.
#[derive(Debug, Clone, Copy)]
struct Offsets {
    producer: usize,
    consumer: usize,
    flags: usize,
    entries: usize,
}

impl<T: Copy> Ring<T> {
    /// Maps a ring of a socket: `page` is one of the `…PGOFF…` constants, `entries` the power of two that was set.
    pub fn map(
        socket: &OwnedFd,
        page: i64,
        offsets: &libc::xdp_ring_offset,
        entries: u32,
    ) -> io::Result<Ring<T>> {
        let at = |offset: u64| usize::try_from(offset).map_err(|_| io::ErrorKind::InvalidData);
        let offsets = Offsets {
            producer: at(offsets.producer)?,
            consumer: at(offsets.consumer)?,
            flags: at(offsets.flags)?,
            entries: at(offsets.desc)?,
        };
        let len = offsets.entries + entries as usize * size_of::<T>();
        let inside = |at: usize| at.is_multiple_of(4) && at + 4 <= len;
        let aligned = offsets.entries.is_multiple_of(align_of::<T>()) && entries.is_power_of_two();
        if !aligned || ![offsets.producer, offsets.consumer, offsets.flags].into_iter().all(inside) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mapping = Mapping::new(len, libc::MAP_SHARED, socket.as_raw_fd(), page)?;
        Ok(Ring { mapping, offsets, mask: entries - 1, ours: 0, entries: PhantomData })
    }

    fn word(&self, at: usize) -> &AtomicU32 {
        // SAFETY: `map` has checked that the word lies in the mapping and is aligned; both sides access it atomically.
        unsafe { AtomicU32::from_ptr(self.mapping.address().add(at).cast()) }
    }

    fn entry(&self, position: u32) -> *mut T {
        let at = self.offsets.entries + (position & self.mask) as usize * size_of::<T>();
        // SAFETY: the mapping has `mask + 1` entries from there on.
        unsafe { self.mapping.address().add(at).cast() }
    }

    /// Entries that the kernel has put in and the process has not taken out.
    pub fn filled(&self) -> u32 {
        self.word(self.offsets.producer).load(Ordering::Acquire).wrapping_sub(self.ours).min(self.mask + 1)
    }

    /// Entries that were filled, `n` at most. They stay until [`release`](Ring::release).
    pub fn entries(&self, n: u32) -> impl ExactSizeIterator<Item = T> + '_ {
        let n = self.filled().min(n);
        // SAFETY: the kernel has filled this entry (acquire load in `filled`) and leaves it alone until the consumer's
        // position is past it.
        (0..n as usize).map(|i| unsafe { self.entry(self.ours.wrapping_add(i as u32)).read() })
    }

    /// Takes out the first `n` of the entries that were filled.
    pub fn release(&mut self, n: u32) {
        debug_assert!(n <= self.filled());
        self.ours = self.ours.wrapping_add(n);
        self.word(self.offsets.consumer).store(self.ours, Ordering::Release);
    }

    /// Entries that the process may put in now.
    pub fn free(&self) -> u32 {
        (self.mask + 1).saturating_sub(self.waiting())
    }

    /// Entries that the process has put in and the kernel has not taken out.
    pub fn waiting(&self) -> u32 {
        self.ours.wrapping_sub(self.word(self.offsets.consumer).load(Ordering::Acquire))
    }

    /// Puts an entry in; `false` if the ring is full. The kernel sees it after [`publish`](Ring::publish).
    pub fn push(&mut self, entry: T) -> bool {
        let space = self.free() > 0;
        if space {
            // SAFETY: the kernel has taken this entry out (acquire load in `free`), and does not read it before the
            // producer's position is past it.
            unsafe { self.entry(self.ours).write(entry) };
            self.ours = self.ours.wrapping_add(1);
        }
        space
    }

    /// Shows the kernel what was put in.
    pub fn publish(&self) {
        self.word(self.offsets.producer).store(self.ours, Ordering::Release);
    }

    /// The entry that the kernel took out last.
    pub fn last_taken(&self) -> T {
        let position = self.word(self.offsets.consumer).load(Ordering::Acquire).wrapping_sub(1);
        // SAFETY: every entry of the mapping is initialised (the kernel zeroes it), the kernel only reads this ring,
        // and the process writes it in `push`, which needs `&mut self`.
        unsafe { self.entry(position).read() }
    }

    /// Whether the kernel sleeps and wants a system call to look at the ring.
    pub fn needs_wakeup(&self) -> bool {
        self.word(self.offsets.flags).load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }
}
