//! Memory that both sides have mapped.
//!
//! The slave makes it. Where that is the other side, a region is taken only if its file is memory that is sealed against
//! shrinking, as those of DPDK and VPP are.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;

use crate::af_packet::sys::check;
use crate::shared::sealed::{file_size, is_sealed_memory};

/// Most regions of a connection.
pub const MOST: usize = 16;
/// Most bytes of all regions of a peer that is not trusted: what it has not touched yet, this process pays for.
const MOST_BYTES: u64 = 256 << 20;

/// A mapped region.
#[derive(Debug)]
struct Region {
    start: NonNull<u8>,
    len: usize,
}

impl Region {
    fn map(fd: BorrowedFd<'_>, len: usize) -> io::Result<Region> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let (null, fd) = (std::ptr::null_mut(), fd.as_raw_fd());
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe { libc::mmap(null, len, access, libc::MAP_SHARED, fd, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Region { start: NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?, len })
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: this is the mapping made in `map`, and nothing refers to it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// All regions of a connection, in the order of their numbers.
#[derive(Debug, Default)]
pub struct Memory {
    regions: Vec<Region>,
    bytes: u64,
}

// SAFETY: the mappings belong to this value and are not bound to a thread; it gives out raw addresses only.
unsafe impl Send for Memory {}
// SAFETY: as above; shared references change nothing of the value itself.
unsafe impl Sync for Memory {}

/// Why a region of the other side is not taken.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// Not the next number, or too many.
    #[error("region {index} is not the next, which is {next}, or beyond {}, the last", MOST - 1)]
    Index {
        /// Its number.
        index: u16,
        /// The number that was to come.
        next: usize,
    },
    /// A size that is zero or too large.
    #[error("region {index} has {size} bytes; all together have at least one and at most {most}")]
    Size {
        /// Its number.
        index: u16,
        /// Its size.
        size: u64,
        /// How many all may have.
        most: u64,
    },
    /// The file is shorter than the region.
    #[error("region {index} has {size} bytes, its file {file}")]
    Short {
        /// Its number.
        index: u16,
        /// Its size.
        size: u64,
        /// The size of the file.
        file: u64,
    },
    /// The file may shrink.
    #[error("region {0} is no memory that is sealed against shrinking (F_SEAL_SHRINK)")]
    Unsealed(u16),
    /// The kernel refuses it.
    #[error("region {index} cannot be mapped: {source}")]
    Map {
        /// Its number.
        index: u16,
        /// Why.
        source: io::Error,
    },
}

impl Memory {
    /// One region of our own, sealed, and the descriptor to give away.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub fn make(len: usize) -> io::Result<(Memory, OwnedFd)> {
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        // SAFETY: the name ends with zero.
        let fd = check(unsafe { libc::memfd_create(c"memif".as_ptr(), flags) } as isize)?;
        // SAFETY: the descriptor is new, valid and ours.
        let fd = unsafe { OwnedFd::from_raw_fd(fd as i32) };
        let size = libc::off_t::try_from(len).map_err(|_| io::ErrorKind::InvalidInput)?;
        // SAFETY: no memory is passed, here and below.
        check(unsafe { libc::ftruncate(fd.as_raw_fd(), size) } as isize)?;
        let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
        // SAFETY: as above.
        check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, seals) } as isize)?;
        let mut memory = Memory::default();
        memory.regions.push(Region::map(std::os::fd::AsFd::as_fd(&fd), len)?);
        Ok((memory, fd))
    }

    /// One region, made by somebody who is trusted.
    ///
    /// # Errors
    /// If it cannot be mapped.
    pub fn of_master(fd: BorrowedFd<'_>, len: usize) -> io::Result<Memory> {
        Ok(Memory { regions: vec![Region::map(fd, len)?], bytes: len as u64 })
    }

    /// Adds the region of this number, made by the other side. `unsealed`: it is trusted not to shrink it.
    ///
    /// # Errors
    /// If it is not the next, too large, larger than its file, or may shrink.
    pub fn add(&mut self, index: u16, size: u64, fd: BorrowedFd<'_>, unsealed: bool) -> Result<(), Refused> {
        let next = self.regions.len();
        if usize::from(index) != next || next >= MOST {
            return Err(Refused::Index { index, next });
        }
        // Offsets have 32 bits.
        let most = if unsealed { MOST as u64 * (1 << 32) } else { MOST_BYTES };
        let fits = self.bytes.checked_add(size).is_some_and(|all| all <= most) && size <= 1 << 32;
        let Some(len) = usize::try_from(size).ok().filter(|&n| n > 0 && fits) else {
            return Err(Refused::Size { index, size, most });
        };
        // This comes first: what is no memory can be a file of the other side's, which never answers.
        if !unsealed && !is_sealed_memory(fd) {
            return Err(Refused::Unsealed(index));
        }
        let map = |source| Refused::Map { index, source };
        let file = file_size(fd).map_err(map)?;
        if file < size {
            return Err(Refused::Short { index, size, file });
        }
        self.regions.push(Region::map(fd, len).map_err(map)?);
        self.bytes += size;
        Ok(())
    }

    /// The address of `len` bytes of a region, if they are inside of it. They stay mapped as long as `self` is there, and
    /// may change at any moment.
    #[inline]
    pub fn place(&self, region: u16, offset: u32, len: usize) -> Option<NonNull<u8>> {
        let region = self.regions.get(usize::from(region))?;
        let end = (offset as usize).checked_add(len)?;
        // SAFETY: the offset is inside of the mapping, or behind its last byte.
        (end <= region.len).then(|| unsafe { region.start.add(offset as usize) })
    }
}
