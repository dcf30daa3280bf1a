//! A split ring (virtio 1.2 section 2.7), from the side of the device: a table of descriptors, the heads of chains that the
//! driver makes available, and those that the device has used. Chains are used in the order in which they come.
//!
//! Every word may hold anything, at any moment: each is read once, and what was read is what is checked and used. Our own
//! positions are kept here, and written to the shared memory, never read from it.

use std::sync::atomic::{AtomicU16, AtomicU64, Ordering, fence};

use super::memory::{Memory, Part};

/// Bytes of a descriptor, and of an entry of the used ring.
const DESCRIPTOR: usize = 16;
const USED: usize = 8;
/// Where positions and entries are in both rings; flags come first.
const POSITION: usize = 2;
const ENTRIES: usize = 4;
/// The chain goes on (`VIRTQ_DESC_F_NEXT`).
const NEXT: u16 = 1;
/// The buffer is one to write to (`VIRTQ_DESC_F_WRITE`).
const WRITE: u16 = 2;
/// The buffer holds descriptors (`VIRTQ_DESC_F_INDIRECT`).
const INDIRECT: u16 = 4;
/// In the available ring, the driver wants no signals (`VIRTQ_AVAIL_F_NO_INTERRUPT`); in the used ring, we want none
/// (`VIRTQ_USED_F_NO_NOTIFY`).
const QUIET: u16 = 1;

/// Where the parts of a ring are, in the addresses of the front end's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addresses {
    /// The table of descriptors.
    pub descriptors: u64,
    /// What the driver makes available.
    pub available: u64,
    /// What the device has used.
    pub used: u64,
}

/// Why there is no ring at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoRing {
    /// It is not inside of the memory.
    #[error("its {0} are not within the memory")]
    Outside(&'static str),
    /// It begins between two words.
    #[error("its {0} begin between two words")]
    Unaligned(&'static str),
}

/// An error of the driver, in memory, that ends the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A position that cannot be.
    #[error("the position {theirs} is impossible: ours is {ours} of {size} descriptors")]
    Position {
        /// What it says.
        theirs: u16,
        /// Where we are.
        ours: u16,
        /// How many descriptors there are.
        size: u16,
    },
    /// A number of a descriptor that is not there.
    #[error("there is no descriptor {0}")]
    Descriptor(u16),
    /// A chain of more descriptors than there are: it runs in a circle.
    #[error("the chain that begins with descriptor {0} has no end")]
    Endless(u16),
    /// A table of descriptors that is none.
    #[error("descriptor {0} has no table of descriptors in its buffer")]
    Table(u16),
    /// A buffer to receive into that is none.
    #[error("the chain that begins with descriptor {0} has no buffer to write to")]
    Buffer(u16),
    /// Buffers so small that a packet needs more than there are descriptors.
    #[error("a packet of {0} bytes needs more descriptors than the ring has")]
    Small(usize),
    /// What was inside of the memory is not any more, which cannot be.
    #[error("the ring is gone")]
    Gone,
}

/// A buffer of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Where it is.
    pub address: u64,
    /// Its bytes.
    pub len: u32,
    /// Whether it is one to write to.
    pub writable: bool,
}

/// A descriptor, as it was read.
#[derive(Debug, Clone, Copy)]
struct Descriptor {
    address: u64,
    len: u32,
    flags: u16,
    next: u16,
}

impl Descriptor {
    fn of([address, rest]: [u64; 2]) -> Descriptor {
        Descriptor { address, len: rest as u32, flags: (rest >> 32) as u16, next: (rest >> 48) as u16 }
    }
}

/// A ring that runs.
#[derive(Debug)]
pub struct Ring {
    size: u16,
    descriptors: Part,
    available: Part,
    used: Part,
    /// The first chain that was not used, counted from the beginning of time.
    position: u16,
}

impl Ring {
    /// The ring at a place; `size` is a power of two. Signals are not wanted at first.
    ///
    /// # Errors
    /// If it is not within the memory, or not aligned.
    pub fn at(memory: &Memory, size: u16, at: Addresses, position: u16) -> Result<Ring, NoRing> {
        let count = usize::from(size);
        let part = |what, address, len| memory.part(address, len).ok_or(NoRing::Outside(what));
        // Behind the entries there is room for a position, which is not used here.
        let ring = Ring {
            size,
            descriptors: part("descriptors", at.descriptors, count * DESCRIPTOR)?,
            available: part("available entries", at.available, ENTRIES + 2 * count + 2)?,
            used: part("used entries", at.used, ENTRIES + USED * count + 2)?,
            position,
        };
        ring.descriptors.word(0).ok_or(NoRing::Unaligned("descriptors"))?;
        ring.available.half(0).ok_or(NoRing::Unaligned("available entries"))?;
        // An entry of the used ring has two words of four bytes, the ring is aligned to them.
        ring.used.half(0).ok_or(NoRing::Unaligned("used entries"))?;
        ring.want_signals(false);
        Ok(ring)
    }

    /// How many descriptors there are.
    pub fn size(&self) -> u16 {
        self.size
    }

    /// The position of the first chain that was not used.
    pub fn position(&self) -> u16 {
        self.position
    }

    /// How many chains are available. What the driver did before is seen.
    ///
    /// # Errors
    /// If it says what cannot be.
    #[inline]
    pub fn filled(&self) -> Result<u16, Fault> {
        let (ours, size) = (self.position, self.size);
        let theirs = load(self.available.half(POSITION), Ordering::Acquire)?;
        let filled = Some(theirs.wrapping_sub(ours)).filter(|&n| n <= size);
        filled.ok_or(Fault::Position { theirs, ours, size })
    }

    /// The head of an available chain, counted from the first that was not used.
    ///
    /// # Errors
    /// If the ring is gone.
    #[inline]
    pub fn head(&self, at: u16) -> Result<u16, Fault> {
        load(self.available.half(ENTRIES + 2 * self.slot(at)), Ordering::Relaxed)
    }

    /// Appends the buffers of a chain to `segments`; returns how many descriptors were read.
    ///
    /// # Errors
    /// If it has more than there are, or one that is not there.
    #[inline]
    pub fn chain(&self, memory: &Memory, head: u16, segments: &mut Vec<Segment>) -> Result<u16, Fault> {
        // Where a table of descriptors is, and how many it has.
        let mut table: Option<(u64, u32)> = None;
        let mut index = head;
        for read in 1..=self.size {
            let descriptor = match table {
                None => self.descriptor(index)?,
                Some((start, count)) => {
                    let inside = Some(u64::from(index)).filter(|&i| i < u64::from(count));
                    let address = inside.and_then(|i| start.checked_add(i * DESCRIPTOR as u64));
                    let mut bytes = [0; DESCRIPTOR];
                    if !address.is_some_and(|address| memory.read(address, &mut bytes)) {
                        return Err(Fault::Table(head));
                    }
                    let [a, b, c, d, e, f, g, h, rest @ ..] = bytes;
                    Descriptor::of([[a, b, c, d, e, f, g, h], rest].map(u64::from_le_bytes))
                }
            };
            if descriptor.flags & INDIRECT != 0 {
                let count = descriptor.len / DESCRIPTOR as u32;
                if table.is_some() || descriptor.flags & NEXT != 0 || count == 0 {
                    return Err(Fault::Table(head));
                }
                (table, index) = (Some((descriptor.address, count)), 0);
                continue;
            }
            segments.push(Segment {
                address: descriptor.address,
                len: descriptor.len,
                writable: descriptor.flags & WRITE != 0,
            });
            if descriptor.flags & NEXT == 0 {
                return Ok(read);
            }
            index = descriptor.next;
        }
        Err(Fault::Endless(head))
    }

    /// Notes that an available chain was used, and how many bytes were written to it. The driver sees it after
    /// [`publish`](Ring::publish).
    ///
    /// # Errors
    /// If the ring is gone.
    #[inline]
    pub fn set_used(&self, at: u16, head: u16, len: u32) -> Result<(), Fault> {
        let start = ENTRIES + USED * self.slot(at);
        // The entry is aligned to four bytes only.
        for (i, half) in [head, 0, len as u16, (len >> 16) as u16].into_iter().enumerate() {
            let to = self.used.half(start + 2 * i).ok_or(Fault::Gone)?;
            to.store(half.to_le(), Ordering::Relaxed);
        }
        Ok(())
    }

    /// Shows the driver that so many more chains were used, all at once.
    ///
    /// # Errors
    /// If the ring is gone.
    #[inline]
    pub fn publish(&mut self, count: u16) -> Result<(), Fault> {
        self.position = self.position.wrapping_add(count);
        let to = self.used.half(POSITION).ok_or(Fault::Gone)?;
        to.store(self.position.to_le(), Ordering::Release);
        // The driver first says that it wants a signal, and then looks for what was used; one of both sees the other.
        fence(Ordering::SeqCst);
        Ok(())
    }

    /// Whether the driver wants to be signalled when chains were used.
    #[inline]
    pub fn wants_signal(&self) -> bool {
        load(self.available.half(0), Ordering::Relaxed).is_ok_and(|flags| flags & QUIET == 0)
    }

    /// Says whether we want to be signalled when chains are available. Who wants it looks for some after this.
    pub fn want_signals(&self, wanted: bool) {
        if let Some(flags) = self.used.half(0) {
            flags.store(if wanted { 0 } else { QUIET.to_le() }, Ordering::Relaxed);
        }
        fence(Ordering::SeqCst);
    }

    fn slot(&self, at: u16) -> usize {
        usize::from(self.position.wrapping_add(at) & (self.size - 1))
    }

    fn descriptor(&self, index: u16) -> Result<Descriptor, Fault> {
        if index >= self.size {
            return Err(Fault::Descriptor(index));
        }
        let start = usize::from(index) * DESCRIPTOR;
        let word = |at| -> Result<u64, Fault> {
            let word: &AtomicU64 = self.descriptors.word(at).ok_or(Fault::Gone)?;
            Ok(u64::from_le(word.load(Ordering::Relaxed)))
        };
        Ok(Descriptor::of([word(start)?, word(start + 8)?]))
    }
}

#[inline]
fn load(half: Option<&AtomicU16>, order: Ordering) -> Result<u16, Fault> {
    Ok(u16::from_le(half.ok_or(Fault::Gone)?.load(order)))
}
