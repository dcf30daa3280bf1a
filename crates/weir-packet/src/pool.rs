//! Buffers come from a free list of the thread, so that a packet costs no allocation once traffic flows. Where one
//! thread makes packets and another frees them, buffers go back by the depot, many at a time.

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::meta::{Dirty, Head, Meta, Size};

/// Free bytes in front of a new packet: space for a tunnel's headers.
pub const HEADROOM: u32 = 128;
/// Buffer size of an ordinary packet. With its metadata it is no power of two: else the metadata of all packets of a batch
/// would fall into a few sets of the first-level cache, which are too small for them.
pub const SMALL_CAPACITY: u32 = 2048;
/// Buffer size of a packet that segmentation offload made: 64 KB and the headers around it.
pub const LARGE_CAPACITY: u32 = 65_536 + 512;
/// Buffer size of the longest packets: a packet of the most bytes that capture files have (the limit of libpcap), and the usual
/// space in front.
pub const HUGE_CAPACITY: u32 = MAX_LEN as u32 + HEADROOM;
/// Longest packet in bytes.
pub const MAX_LEN: usize = 262_144;

/// Free buffers a thread keeps of each size but the largest; more go back to the allocator.
const KEEP: usize = 4096;
/// Small buffers that go from thread to thread at a time.
const MAGAZINE: usize = 64;
/// Most magazines in the depot.
const MAGAZINES: usize = 64;

/// Free buffers of one size: a stack. It has no destructor, so that reaching it costs no check; [`Guard`] empties it
/// when the thread ends.
struct List {
    /// Space for [`KEEP`] buffers, or null before the first.
    blocks: Cell<*mut NonNull<Meta>>,
    len: Cell<usize>,
    /// [`KEEP`], or 0 before the first buffer and after the thread's end.
    space: Cell<usize>,
}

impl List {
    const fn new() -> List {
        List { blocks: Cell::new(std::ptr::null_mut()), len: Cell::new(0), space: Cell::new(0) }
    }

    #[inline]
    fn pop(&self) -> Option<NonNull<Meta>> {
        let len = self.len.get().checked_sub(1)?;
        self.len.set(len);
        // SAFETY: `blocks` has `len + 1` buffers.
        Some(unsafe { self.blocks.get().add(len).read() })
    }

    /// Keeps a buffer, if there is space.
    #[inline]
    fn push(&self, block: NonNull<Meta>) -> bool {
        let len = self.len.get();
        let fits = len < self.space.get();
        if fits {
            // SAFETY: there is space for more than `len` buffers.
            unsafe { self.blocks.get().add(len).write(block) };
            self.len.set(len + 1);
        }
        fits
    }

    /// Makes space, once for a thread that has not ended.
    fn open(&self) {
        if self.blocks.get().is_null() && GUARD.try_with(|_| ()).is_ok() {
            // SAFETY: the layout's size is not zero.
            let blocks = unsafe { alloc(stack_layout()) };
            if !blocks.is_null() {
                self.blocks.set(blocks.cast());
                self.space.set(KEEP);
            }
        }
    }

    /// Frees everything, for good.
    fn close(&self, size: Size) {
        self.space.set(0);
        while let Some(block) = self.pop() {
            // SAFETY: blocks of this list were allocated with this layout and nothing refers to them.
            unsafe { dealloc(block.as_ptr().cast(), layout(size)) };
        }
        let blocks = self.blocks.replace(std::ptr::null_mut());
        if !blocks.is_null() {
            // SAFETY: allocated by `open` with this layout, and not reachable any more.
            unsafe { dealloc(blocks.cast(), stack_layout()) };
        }
    }
}

/// The first of some free buffers; each begins with the address of the next, or null.
struct Magazine(NonNull<Meta>);

// SAFETY: a magazine owns its buffers, which belong to no thread.
unsafe impl Send for Magazine {}

/// Magazines that threads with too many small buffers left for those with too few.
static DEPOT: Mutex<Vec<Magazine>> = Mutex::new(Vec::new());
/// How many there are, about, so that nobody asks for the lock in vain.
static IN_DEPOT: AtomicUsize = AtomicUsize::new(0);

fn depot() -> MutexGuard<'static, Vec<Magazine>> {
    DEPOT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Moves a magazine of a full list to the depot, if that has space.
fn store(list: &List) {
    if IN_DEPOT.load(Ordering::Relaxed) >= MAGAZINES {
        return;
    }
    let mut first: *mut Meta = std::ptr::null_mut();
    for block in std::iter::from_fn(|| list.pop()).take(MAGAZINE) {
        // SAFETY: a free buffer is ours to write, and large and aligned enough for an address.
        unsafe { block.cast::<*mut Meta>().write(first) };
        first = block.as_ptr();
    }
    if let Some(first) = NonNull::new(first) {
        let mut depot = depot();
        depot.push(Magazine(first));
        IN_DEPOT.store(depot.len(), Ordering::Relaxed);
    }
}

/// A small buffer of the depot; the others of its magazine are put into the list.
fn fetch(list: &List) -> Option<NonNull<Meta>> {
    if IN_DEPOT.load(Ordering::Relaxed) == 0 {
        return None;
    }
    let mut depot = depot();
    let Magazine(first) = depot.pop()?;
    IN_DEPOT.store(depot.len(), Ordering::Relaxed);
    drop(depot);
    list.open();
    // SAFETY: buffers of a magazine begin with the address of the next, here and below.
    let mut next = unsafe { first.cast::<*mut Meta>().read() };
    while let Some(block) = NonNull::new(next) {
        // SAFETY: as above.
        next = unsafe { block.cast::<*mut Meta>().read() };
        if !list.push(block) {
            // SAFETY: buffers of the depot are small ones, allocated with this layout.
            unsafe { dealloc(block.as_ptr().cast(), layout(Size::Small)) };
        }
    }
    Some(first)
}

struct Guard;

impl Drop for Guard {
    fn drop(&mut self) {
        SMALL.with(|l| l.close(Size::Small));
        LARGE.with(|l| l.close(Size::Large));
    }
}

thread_local! {
    static SMALL: List = const { List::new() };
    static LARGE: List = const { List::new() };
    static GUARD: Guard = const { Guard };
}

fn stack_layout() -> Layout {
    Layout::array::<NonNull<Meta>>(KEEP).expect("a small constant")
}

fn layout(size: Size) -> Layout {
    Layout::from_size_align(size_of::<Meta>() + size.capacity() as usize, align_of::<Meta>())
        .expect("the capacities are constants far below the limit")
}

/// Up to `n` small blocks of the list, in one step: each step on the list waits for the one before. They had packets
/// before; their first metadata, as far as the positions, is anything.
#[inline]
pub(crate) fn take_some(n: usize, to: &mut [MaybeUninit<NonNull<Meta>>]) -> usize {
    SMALL.with(|l| {
        let len = l.len.get();
        let n = n.min(to.len()).min(len);
        l.len.set(len - n);
        let to = to.as_mut_ptr().cast::<NonNull<Meta>>();
        // SAFETY: `blocks` has `len` buffers, of which the last `n` are no longer the list's; there is space for as many.
        unsafe { to.copy_from_nonoverlapping(l.blocks.get().add(len - n), n) };
        n
    })
}

/// A block of `Meta` and at least `need` bytes; its metadata is fresh, its bytes are initialised (not cleared).
#[inline]
pub(crate) fn take(need: u32, data: u32) -> NonNull<Meta> {
    let size = Size::of(need);
    let recycled = match size {
        Size::Small => SMALL.with(List::pop),
        Size::Large => LARGE.with(List::pop),
        Size::Huge => None,
    };
    let block = recycled.unwrap_or_else(|| allocate(size));
    // SAFETY: the block is ours alone; it had a packet before, or is all zeros, as metadata that nobody has written.
    unsafe { renew(block, size, data) };
    block
}

/// Writes the metadata of an empty packet, as far as it is not there.
///
/// # Safety
/// The block is the caller's alone, of this size, and its flag that says whether it is dirty is right.
#[inline(always)]
pub(crate) unsafe fn renew(block: NonNull<Meta>, size: Size, data: u32) {
    // SAFETY: a block begins with metadata, which is the caller's.
    unsafe {
        if block.as_ref().head.dirty != Dirty::NONE {
            block.write(Meta::fresh(size, data));
        } else {
            block.cast::<Head>().write(Head::fresh(size, data));
        }
    }
}

#[cold]
fn allocate(size: Size) -> NonNull<Meta> {
    if size == Size::Small
        && let Some(block) = SMALL.with(fetch)
    {
        return block;
    }
    let layout = layout(size);
    // SAFETY: the layout's size is not zero.
    NonNull::new(unsafe { alloc_zeroed(layout) }.cast()).unwrap_or_else(|| handle_alloc_error(layout))
}

/// Gives a block back.
///
/// # Safety
/// `block` came from [`take`] and nothing uses it any more.
#[inline]
pub(crate) unsafe fn give(block: NonNull<Meta>) {
    // SAFETY: the caller owns the block, so its metadata is readable.
    let size = unsafe { block.as_ref() }.head.size;
    let kept = match size {
        Size::Small => SMALL.with(|l| l.push(block)),
        Size::Large => LARGE.with(|l| l.push(block)),
        Size::Huge => false,
    };
    if !kept {
        // SAFETY: passed on to the caller.
        unsafe { give_first(block, size) };
    }
}

/// As [`give`] for each of many, in one step on the list if they are small and it has space.
///
/// # Safety
/// As for [`give`], for each.
#[inline]
pub(crate) unsafe fn give_all(blocks: &[NonNull<Meta>]) {
    // SAFETY: the caller owns the blocks, so their metadata is readable.
    let others = blocks.iter().fold(0, |o, block| o | unsafe { block.as_ref() }.head.size as u8);
    let kept = SMALL.with(|l| {
        let len = l.len.get();
        let fit = others == Size::Small as u8 && len + blocks.len() <= l.space.get();
        if fit {
            // SAFETY: there is space for as many more than `len` buffers, which are not in the list.
            unsafe { l.blocks.get().add(len).copy_from_nonoverlapping(blocks.as_ptr(), blocks.len()) };
            l.len.set(len + blocks.len());
        }
        fit
    });
    if !kept {
        // SAFETY: passed on to the caller.
        blocks.iter().for_each(|&block| unsafe { give(block) });
    }
}

/// As [`give`], where the list has no space: it is full, or has not been used before; or where there is none.
///
/// # Safety
/// As for [`give`].
#[cold]
unsafe fn give_first(block: NonNull<Meta>, size: Size) {
    let keep = |l: &List| {
        l.open();
        if size == Size::Small && l.space.get() > 0 && l.len.get() >= l.space.get() {
            store(l);
        }
        l.push(block)
    };
    let kept = match size {
        Size::Small => SMALL.with(keep),
        Size::Large => LARGE.with(keep),
        Size::Huge => false,
    };
    if !kept {
        // SAFETY: allocated by `take` with this layout.
        unsafe { dealloc(block.as_ptr().cast(), layout(size)) };
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::mpsc::sync_channel;

    use crate::Packet;

    #[test]
    fn buffers_come_back_from_the_thread_that_frees_them() {
        let (packets, inbox) = sync_channel::<Vec<Packet>>(4);
        let consumer = std::thread::spawn(move || inbox.iter().for_each(drop));
        let mut buffers = HashSet::new();
        const ALL: usize = 100_000;
        for _ in 0..ALL / 50 {
            let batch: Vec<Packet> = (0..50).map(|_| Packet::from_bytes(&[7; 60]).unwrap()).collect();
            buffers.extend(batch.iter().map(|p| p.bytes().as_ptr().addr()));
            packets.send(batch).unwrap();
        }
        drop(packets);
        consumer.join().unwrap();
        assert!(buffers.len() < ALL / 5, "{} buffers for {ALL} packets", buffers.len());
    }
}
