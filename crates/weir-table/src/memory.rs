//! Memory of a table: one zeroed block whose address never changes, reserved for the most it may ever hold.
//!
//! A table that grows by copying stops its core for as long as the copy takes, and moves rows that compiled code
//! points at. A [`Region`] reserves address space for the declared capacity instead; the kernel gives a page when
//! it is first touched, so a table that holds little uses little. What is touched should therefore lie together:
//! rows handed out from the front cost what they fill, rows strewn over the block cost up to a huge page each.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::fmt;
use std::io;
use std::ptr::{self, NonNull};

/// Cache line, bytes: every region begins on one and shares none.
const LINE: usize = 64;
/// Smaller regions come from the allocator: a mapping costs a system call and whole pages.
const SMALL: usize = 64 << 10;
/// A huge page, bytes. Regions of this size and more begin on such a boundary and ask for huge pages, which spare
/// a look-up in a large table most of its TLB misses.
const HUGE: usize = 2 << 20;

/// A zeroed block of memory that never moves.
///
/// Begins at a cache line at least; at a page from 64 KB and at 2 MB from 2 MB on.
pub struct Region {
    start: NonNull<u8>,
    len: usize,
    source: Source,
}

/// Brings a line of memory near. Any address will do.
#[inline]
pub(crate) fn fetch(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction reads nothing that the program could see, and does not fault.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// Which pages a region asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pages {
    /// Huge ones: for what is large and touched all over.
    Huge,
    /// Huge ones behind the first 2 MB: for what is filled from the front, and mostly stays small.
    HugeFromSecond,
    /// Small ones: for what is touched here and there.
    Small,
}

/// The source of the bytes, to which they go back.
#[derive(Clone, Copy)]
enum Source {
    /// `alloc_zeroed` with this layout.
    Allocator(Layout),
    /// `mmap` of so many bytes (whole pages).
    Mapped(usize),
}

// SAFETY: a region owns its bytes alone, like a `Box<[u8]>`; neither mappings nor allocations belong to a thread.
unsafe impl Send for Region {}
// SAFETY: through `&Region` safe code can only read; who writes through `as_ptr` answers for data races himself.
unsafe impl Sync for Region {}

impl Region {
    /// Reserves `max_bytes` bytes, all zero, in huge pages if there are as many.
    ///
    /// # Panics
    /// When the memory cannot be had: as when the allocator has none.
    pub fn new(max_bytes: usize) -> Self {
        match Self::reserve(max_bytes, Pages::Huge) {
            Ok(region) => region,
            Err(error) => panic!("{error}"),
        }
    }

    /// Reserves `max_bytes` bytes (0 is legal), all zero. The size may exceed the machine's memory: only touched
    /// pages count.
    ///
    /// # Errors
    /// [`io::ErrorKind::OutOfMemory`] when the allocator has nothing left, or the error of `mmap`: address space
    /// used up or limited (`ulimit -v`), too many mappings (`vm.max_map_count`), or `vm.overcommit_memory = 2`,
    /// under which the kernel counts reserved memory as used.
    pub(crate) fn reserve(max_bytes: usize, pages: Pages) -> io::Result<Self> {
        let refused = |why: io::Error| {
            io::Error::new(why.kind(), format!("cannot reserve {max_bytes} bytes for a table: {why}"))
        };
        let (start, source) =
            if max_bytes < SMALL { allocate(max_bytes) } else { map(max_bytes, pages) }.map_err(refused)?;
        Ok(Self { start, len: max_bytes, source })
    }

    /// Address of the first byte; valid for [`Region::len`] bytes until the region is dropped.
    ///
    /// Writing through it while a slice of [`Region::bytes`] or [`Region::bytes_mut`] lives is undefined
    /// behaviour.
    pub fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Brings the line at an offset near. Any offset will do.
    pub fn fetch(&self, at: usize) {
        fetch(self.as_ptr().wrapping_add(at));
    }

    /// Bytes reserved.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// All bytes of the reserve. Reading an untouched page gives zeros.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: `start` is valid for `len` initialised (zeroed) bytes, `len` is at most `isize::MAX`, and the
        // borrow of `self` forbids writes by safe code.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    /// All bytes of the reserve, to write.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`; the exclusive borrow of `self` makes the slice the only access by safe code.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }

    /// All whole words of the reserve.
    pub(crate) fn words(&self) -> &[u64] {
        // SAFETY: as in `bytes`; regions begin on a cache line, so the words are aligned.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast(), self.len / 8) }
    }

    /// All whole words of the reserve, to write.
    pub(crate) fn words_mut(&mut self) -> &mut [u64] {
        // SAFETY: as in `bytes_mut` and `words`.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().cast(), self.len / 8) }
    }

    /// All whole words of 32 bits.
    pub(crate) fn half_words(&self) -> &[u32] {
        // SAFETY: as in `words`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast(), self.len / 4) }
    }

    /// All whole words of 32 bits, to write.
    pub(crate) fn half_words_mut(&mut self) -> &mut [u32] {
        // SAFETY: as in `bytes_mut` and `words`.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().cast(), self.len / 4) }
    }

    /// The memory that is real, in bytes; all of it if the system does not say.
    pub(crate) fn resident(&self) -> usize {
        let Source::Mapped(size) = self.source else { return self.len };
        let mut pages = vec![0u8; size.div_ceil(page_size())];
        // SAFETY: the range is mapped, and `pages` has a byte for each of its pages.
        let failed = unsafe { libc::mincore(self.start.as_ptr().cast(), size, pages.as_mut_ptr()) };
        if failed != 0 { self.len } else { pages.iter().filter(|&&p| p & 1 == 1).count() * page_size() }
    }

    /// Makes every byte zero again; a mapped region gives its pages back. The address stays.
    pub fn reset(&mut self) {
        if let Source::Mapped(size) = self.source {
            // SAFETY: the range is the mapping this region owns, private and anonymous: its pages read as zeros
            // afterwards. The exclusive borrow means no slice of it lives.
            if unsafe { libc::madvise(self.start.as_ptr().cast(), size, libc::MADV_DONTNEED) } == 0 {
                return;
            }
            // Refused when the process has locked its memory: then the pages stay, and are cleared like small ones.
        }
        self.bytes_mut().fill(0);
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        match self.source {
            // SAFETY: `start` came from `alloc_zeroed` with this very layout and is given back once.
            Source::Allocator(layout) => unsafe { dealloc(self.start.as_ptr(), layout) },
            Source::Mapped(size) => unmap(self.start.as_ptr(), size),
        }
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Region").field("start", &self.start).field("len", &self.len).finish()
    }
}

/// `len` bytes of the allocator, in whole cache lines.
fn allocate(len: usize) -> io::Result<(NonNull<u8>, Source)> {
    let size = len.max(1).next_multiple_of(LINE);
    let layout =
        Layout::from_size_align(size, LINE).map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, e))?;
    // SAFETY: the layout's size is at least one cache line, so not zero.
    let start = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(io::ErrorKind::OutOfMemory)?;
    Ok((start, Source::Allocator(layout)))
}

/// A private anonymous mapping of `len` bytes in whole pages, at a huge page's boundary when it is that large.
fn map(len: usize, pages: Pages) -> io::Result<(NonNull<u8>, Source)> {
    let large = len >= HUGE;
    let slack = if large { HUGE } else { 0 };
    let too_large = || io::Error::new(io::ErrorKind::InvalidInput, "more than the address space holds");
    let size = len.checked_next_multiple_of(page_size()).ok_or_else(too_large)?;
    let asked = size.checked_add(slack).filter(|n| *n <= isize::MAX as usize).ok_or_else(too_large)?;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new anonymous mapping at an address of the kernel's choice touches nothing that exists.
    let got = unsafe { libc::mmap(ptr::null_mut(), asked, access, flags, -1, 0) };
    if got == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let mut start = got.cast::<u8>();
    if large {
        // Cut to the boundary: of the slack, `front` bytes before it and the rest behind go back.
        let front = start.addr().next_multiple_of(HUGE) - start.addr();
        unmap(start, front);
        start = start.wrapping_add(front);
        unmap(start.wrapping_add(size), slack - front);
        let small = match pages {
            Pages::Huge => 0,
            Pages::HugeFromSecond => HUGE.min(size),
            Pages::Small => size,
        };
        let advise = |from: usize, len: usize, advice| {
            // SAFETY: the range is in the mapping just made. A kernel without huge pages refuses, and small ones
            // serve.
            unsafe { libc::madvise(start.wrapping_add(from).cast(), len, advice) }
        };
        advise(0, small, libc::MADV_NOHUGEPAGE);
        advise(small, size - small, libc::MADV_HUGEPAGE);
    }
    let start = NonNull::new(start).ok_or(io::ErrorKind::OutOfMemory)?;
    Ok((start, Source::Mapped(size)))
}

/// Gives whole pages of one of this module's mappings back; nothing when `size` is 0.
fn unmap(start: *mut u8, size: usize) {
    if size > 0 {
        // SAFETY: callers pass page-aligned parts of mappings they own and do not use them afterwards. Failing
        // (out of mappings when one is split) leaves an unused reserve behind, which holds no memory.
        unsafe { libc::munmap(start.cast(), size) };
    }
}

/// Bytes of a page.
fn page_size() -> usize {
    // SAFETY: reads a constant of the system; no memory is involved.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).unwrap_or(4096)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One size for every way memory is had, with odd ones between.
    const SIZES: [usize; 10] = [0, 1, 64, 1000, SMALL - 1, SMALL, SMALL + 1, HUGE - 1, HUGE, 3 * HUGE + 5];

    #[test]
    fn a_region_is_zero_and_can_be_written_to_its_end() {
        for size in SIZES {
            let mut region = Region::new(size);
            assert_eq!(region.len(), size);
            assert_eq!(region.bytes().len(), size);
            assert!(region.bytes().iter().all(|b| *b == 0), "{size} bytes");
            region.bytes_mut().fill(0xa5);
            assert!(region.bytes().iter().all(|b| *b == 0xa5), "{size} bytes");
        }
    }

    #[test]
    fn reset_clears_and_keeps_the_address() {
        for size in SIZES {
            let mut region = Region::new(size);
            let start = region.as_ptr();
            region.bytes_mut().fill(0xff);
            region.reset();
            assert!(region.bytes().iter().all(|b| *b == 0), "{size} bytes");
            assert_eq!(region.as_ptr(), start);
            region.bytes_mut().fill(1);
            assert!(region.bytes().iter().all(|b| *b == 1), "{size} bytes");
        }
    }

    #[test]
    fn regions_are_aligned() {
        for size in SIZES {
            let wanted = match size {
                HUGE.. => HUGE,
                SMALL.. => page_size(),
                _ => LINE,
            };
            // Several at once: the kernel may happen to place the first at a boundary.
            let regions: Vec<Region> = (0..4).map(|_| Region::new(size)).collect();
            for region in &regions {
                assert_eq!(region.as_ptr().addr() % wanted, 0, "{region:?}");
            }
        }
    }

    #[test]
    fn a_reserve_larger_than_memory_costs_what_is_touched() {
        const RESERVE: usize = 64 << 30;
        let mut region = Region::reserve(RESERVE, Pages::Huge).unwrap();
        assert_eq!(region.resident(), 0);
        let touched = [0, RESERVE / 2, RESERVE - 1];
        touched.into_iter().for_each(|at| region.bytes_mut()[at] = 1);
        assert_eq!(touched.map(|at| region.bytes()[at]), [1; 3]);
        assert!((3 * page_size()..=3 * HUGE).contains(&region.resident()));
        region.reset();
        assert_eq!(region.resident(), 0);
        assert_eq!(touched.map(|at| region.bytes()[at]), [0; 3]);
    }

    #[test]
    fn a_reserve_beyond_the_address_space_is_an_error() {
        for size in [usize::MAX, isize::MAX as usize, 1 << 60] {
            let error = Region::reserve(size, Pages::Huge).unwrap_err();
            assert!(error.to_string().contains(&size.to_string()), "{error}");
        }
    }

    #[test]
    fn a_region_can_be_filled_by_another_thread() {
        let mut region = Region::new(SMALL);
        let region = std::thread::spawn(move || {
            region.bytes_mut()[SMALL - 1] = 7;
            region
        });
        assert_eq!(region.join().unwrap().bytes()[SMALL - 1], 7);
    }
}
