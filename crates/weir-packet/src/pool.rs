//! Buffers come from a free list of the thread, so that a packet costs no allocation once traffic flows.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::cell::RefCell;
use std::ptr::NonNull;

use crate::meta::Meta;

/// Free bytes in front of a new packet: room for a tunnel's headers.
pub const HEADROOM: u32 = 128;
/// Buffer size of an ordinary packet: with its metadata, 2 KB.
pub const SMALL_CAPACITY: u32 = 2048 - size_of::<Meta>() as u32;
/// Buffer size of a packet that segmentation offload made: 64 KB and the headers around it.
pub const LARGE_CAPACITY: u32 = 65_536 + 512;
/// Longest packet in bytes.
pub const MAX_LEN: usize = (LARGE_CAPACITY - HEADROOM) as usize;

/// Free buffers a thread keeps of each size; more go back to the allocator.
const KEEP: usize = 4096;

#[derive(Default)]
struct Pool {
    small: Vec<NonNull<Meta>>,
    large: Vec<NonNull<Meta>>,
}

impl Drop for Pool {
    fn drop(&mut self) {
        for (list, capacity) in [(&self.small, SMALL_CAPACITY), (&self.large, LARGE_CAPACITY)] {
            for &block in list {
                // SAFETY: blocks on a free list were allocated with this layout and nothing refers to them.
                unsafe { dealloc(block.as_ptr().cast(), layout(capacity)) };
            }
        }
    }
}

thread_local! {
    static POOL: RefCell<Pool> = RefCell::default();
}

fn layout(capacity: u32) -> Layout {
    Layout::from_size_align(size_of::<Meta>() + capacity as usize, align_of::<Meta>())
        .expect("both capacities are constants far below the limit")
}

/// A block of `Meta` and at least `need` bytes; its metadata is fresh, its bytes are initialised (not cleared).
pub(crate) fn take(need: u32, data: u32) -> NonNull<Meta> {
    let capacity = if need <= SMALL_CAPACITY { SMALL_CAPACITY } else { LARGE_CAPACITY };
    debug_assert!(need <= capacity);
    let recycled = POOL
        .try_with(|p| {
            let mut p = p.borrow_mut();
            if capacity == SMALL_CAPACITY { p.small.pop() } else { p.large.pop() }
        })
        .ok()
        .flatten();
    let block = recycled.unwrap_or_else(|| {
        let layout = layout(capacity);
        // SAFETY: the layout's size is not zero.
        NonNull::new(unsafe { alloc_zeroed(layout) }.cast()).unwrap_or_else(|| handle_alloc_error(layout))
    });
    // SAFETY: the block is large and aligned enough for `Meta`, and ours alone.
    unsafe { block.as_ptr().write(Meta::fresh(capacity, data)) };
    block
}

/// Gives a block back.
///
/// # Safety
/// `block` came from [`take`] and nothing uses it any more.
pub(crate) unsafe fn give(block: NonNull<Meta>) {
    // SAFETY: the caller owns the block, so its metadata is readable.
    let capacity = unsafe { block.as_ref() }.capacity;
    let kept = POOL
        .try_with(|p| {
            let mut p = p.borrow_mut();
            let list = if capacity == SMALL_CAPACITY { &mut p.small } else { &mut p.large };
            let room = list.len() < KEEP;
            if room {
                list.push(block);
            }
            room
        })
        .unwrap_or(false);
    if !kept {
        // SAFETY: allocated by `take` with this layout.
        unsafe { dealloc(block.as_ptr().cast(), layout(capacity)) };
    }
}
