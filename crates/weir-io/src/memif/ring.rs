//! A ring as it stands in shared memory (`memif.h`): 128 bytes with the positions, then descriptors of 16 bytes.
//!
//! `head` is written by the slave, `tail` by the master. In the ring to the master, slots from `tail` to `head` hold
//! packets; in the ring to the slave, they are free buffers, and a packet is in a slot that `tail` has passed. Every word
//! may hold anything, at any moment: each is read once, and what was read is what is checked and used.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

use super::region::Memory;

/// What a ring begins with.
const COOKIE: u32 = 0x03E3_1F20;
/// Where the parts of a ring are.
const FLAGS: usize = 4;
const HEAD: usize = 6;
const TAIL: usize = 64;
const DESCRIPTORS: usize = 128;
/// Bytes of a descriptor.
const DESCRIPTOR: usize = 16;
/// The receiver of the packets wants no signals (`MEMIF_RING_FLAG_MASK_INT`).
const QUIET: u16 = 1;
/// The packet goes on in the next slot (`MEMIF_DESC_FLAG_NEXT`).
pub const NEXT: u16 = 1;
/// Logarithm of the size of the largest ring.
pub const LARGEST: u8 = 14;

/// A buffer of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Descriptor {
    /// [`NEXT`], or 0.
    pub flags: u16,
    /// The region of the buffer.
    pub region: u16,
    /// Bytes of the packet, or that there is room for.
    pub len: u32,
    /// Where it begins in the region.
    pub offset: u32,
}

impl Descriptor {
    fn words(self) -> [u64; 2] {
        let mut first = [0; 8];
        first[..2].copy_from_slice(&self.flags.to_ne_bytes());
        first[2..4].copy_from_slice(&self.region.to_ne_bytes());
        first[4..].copy_from_slice(&self.len.to_ne_bytes());
        let mut second = [0; 8];
        second[..4].copy_from_slice(&self.offset.to_ne_bytes());
        [first, second].map(u64::from_ne_bytes)
    }

    fn of(words: [u64; 2]) -> Descriptor {
        let [[a, b, c, d, e @ ..], [f, g, h, i, ..]] = words.map(u64::to_ne_bytes);
        Descriptor {
            flags: u16::from_ne_bytes([a, b]),
            region: u16::from_ne_bytes([c, d]),
            len: u32::from_ne_bytes(e),
            offset: u32::from_ne_bytes([f, g, h, i]),
        }
    }
}

/// A ring of a power of two of slots.
#[derive(Debug)]
pub struct Ring {
    /// Keeps the ring mapped.
    memory: Arc<Memory>,
    start: NonNull<u8>,
    size: u16,
}

// SAFETY: the ring lies in memory that it keeps mapped, and is reached by atomic accesses only.
unsafe impl Send for Ring {}

/// Why there is no ring at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoRing {
    /// A size that no ring has.
    #[error("its size has the logarithm {0}, the largest has {LARGEST}")]
    Size(u8),
    /// It is not inside of its region, or that is not there.
    #[error("it does not lie within region {0}")]
    Outside(u16),
    /// It begins between two words.
    #[error("it begins at {0}, which is no multiple of 8")]
    Unaligned(u32),
    /// It does not begin as rings do.
    #[error("it begins with {0:#x}, not with {COOKIE:#x}")]
    Cookie(u32),
}

impl Ring {
    /// Bytes of a ring.
    pub const fn bytes(log2_size: u8) -> usize {
        DESCRIPTORS + (DESCRIPTOR << log2_size)
    }

    /// The ring at a place, which may not be one yet.
    ///
    /// # Errors
    /// If it has no valid size, is not within its region, or is not aligned.
    pub fn at(memory: &Arc<Memory>, region: u16, offset: u32, log2_size: u8) -> Result<Ring, NoRing> {
        if log2_size > LARGEST {
            return Err(NoRing::Size(log2_size));
        }
        let start = memory.place(region, offset, Ring::bytes(log2_size)).ok_or(NoRing::Outside(region))?;
        if !offset.is_multiple_of(8) {
            return Err(NoRing::Unaligned(offset));
        }
        Ok(Ring { memory: memory.clone(), start, size: 1 << log2_size })
    }

    /// Makes it an empty ring.
    pub fn begin(&self) {
        self.set_head(0);
        self.set_tail(0);
        self.set_quiet(false);
        self.cookie().store(COOKIE, Ordering::Release);
    }

    /// Checks that the other side has made it one.
    ///
    /// # Errors
    /// If it does not begin as rings do.
    pub fn check(&self) -> Result<(), NoRing> {
        match self.cookie().load(Ordering::Acquire) {
            COOKIE => Ok(()),
            other => Err(NoRing::Cookie(other)),
        }
    }

    /// The memory in which buffers are.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// How many slots there are.
    #[inline]
    pub fn size(&self) -> u16 {
        self.size
    }

    /// The slot of a position.
    #[inline]
    pub fn slot(&self, position: u16) -> u16 {
        position & (self.size - 1)
    }

    fn cookie(&self) -> &AtomicU32 {
        // SAFETY: `at` has checked that the ring lies in the memory, and is aligned to 8 bytes; here and below. Mappings begin
        // with pages. All accesses of both sides are atomic, or those of another process.
        unsafe { AtomicU32::from_ptr(self.start.as_ptr().cast()) }
    }

    #[inline]
    fn half(&self, at: usize) -> &AtomicU16 {
        // SAFETY: as above; `at` is one of the constants, which are even.
        unsafe { AtomicU16::from_ptr(self.start.as_ptr().add(at).cast()) }
    }

    #[inline]
    fn word(&self, slot: u16, word: usize) -> &AtomicU64 {
        let at = DESCRIPTORS + usize::from(slot & (self.size - 1)) * DESCRIPTOR + word * 8;
        // SAFETY: as above; the ring has so many descriptors of two words.
        unsafe { AtomicU64::from_ptr(self.start.as_ptr().add(at).cast()) }
    }

    /// The position of the slave. What it did before is seen.
    #[inline]
    pub fn head(&self) -> u16 {
        self.half(HEAD).load(Ordering::Acquire)
    }

    /// Shows the position of the slave, and what was done before.
    #[inline]
    pub fn set_head(&self, to: u16) {
        self.half(HEAD).store(to, Ordering::Release);
    }

    /// The position of the master. What it did before is seen.
    #[inline]
    pub fn tail(&self) -> u16 {
        self.half(TAIL).load(Ordering::Acquire)
    }

    /// Shows the position of the master, and what was done before.
    #[inline]
    pub fn set_tail(&self, to: u16) {
        self.half(TAIL).store(to, Ordering::Release);
    }

    /// Whether the receiver of the packets wants no signals.
    #[inline]
    pub fn is_quiet(&self) -> bool {
        self.half(FLAGS).load(Ordering::Relaxed) & QUIET != 0
    }

    /// Says whether we, who receive the packets, want no signals.
    #[inline]
    pub fn set_quiet(&self, quiet: bool) {
        self.half(FLAGS).store(if quiet { QUIET } else { 0 }, Ordering::Relaxed);
    }

    /// The buffer of a slot.
    #[inline]
    pub fn descriptor(&self, slot: u16) -> Descriptor {
        Descriptor::of([0, 1].map(|i| self.word(slot, i).load(Ordering::Relaxed)))
    }

    /// Sets the buffer of a slot.
    #[inline]
    pub fn set_descriptor(&self, slot: u16, to: Descriptor) {
        for (i, word) in to.words().into_iter().enumerate() {
            self.word(slot, i).store(word, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words stand where `memif.h` has them.
    #[test]
    fn a_ring_has_the_published_layout() {
        let (memory, _) = Memory::make(4096).unwrap();
        let ring = Ring::at(&Arc::new(memory), 0, 64, 2).unwrap();
        assert!(ring.check().is_err());
        ring.begin();
        ring.set_head(0x0102);
        ring.set_tail(0x0304);
        ring.set_quiet(true);
        ring.set_descriptor(1, Descriptor { flags: NEXT, region: 2, len: 0x0403_0201, offset: 0x0807_0605 });
        // SAFETY: the region has 4096 bytes, and nothing else changes them now.
        let bytes = unsafe { std::slice::from_raw_parts(ring.start.as_ptr(), 160) };
        assert_eq!(bytes[..8], [0x20, 0x1f, 0xe3, 0x03, 1, 0, 2, 1]);
        assert_eq!(bytes[64..66], [4, 3]);
        assert_eq!(bytes[144..160], [1, 0, 2, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0]);
        assert_eq!(ring.descriptor(5), ring.descriptor(1), "slots are counted round");
        assert_eq!(ring.check(), Ok(()));
    }

    #[test]
    fn a_ring_lies_within_its_region() {
        let (memory, _) = Memory::make(4096).unwrap();
        let memory = Arc::new(memory);
        let at = |region, offset, log2| Ring::at(&memory, region, offset, log2).map(|r| r.size());
        assert_eq!(at(0, 4096 - 128 - 32, 1), Ok(2));
        assert_eq!(at(0, 4096 - 128 - 24, 1), Err(NoRing::Outside(0)));
        assert_eq!(at(0, u32::MAX, 1), Err(NoRing::Outside(0)));
        assert_eq!(at(1, 0, 1), Err(NoRing::Outside(1)));
        assert_eq!(at(0, 4, 1), Err(NoRing::Unaligned(4)));
        assert_eq!(at(0, 0, 15), Err(NoRing::Size(15)));
    }
}
