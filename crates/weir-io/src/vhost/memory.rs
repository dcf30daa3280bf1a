//! The memory that a front end shares: regions of files of its own.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU64};

use vm_memory::mmap::MmapRegionError;
use vm_memory::{FileOffset, MmapRegion, VolatileMemory, VolatileSlice};

use super::options::Options;
use crate::shared::sealed::{file_size, is_sealed_memory};

/// Most regions. Front ends send at most eight unless they know that there may be more.
const MOST: usize = 32;

/// A region, as the front end describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// Where it begins in the addresses of descriptors.
    pub guest: u64,
    /// Where it begins in the addresses of the front end's process, in which it says where rings are.
    pub user: u64,
    /// Bytes.
    pub size: u64,
    /// Where it begins in its file.
    pub offset: u64,
}

/// Why memory is not taken.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// More regions than anybody has.
    #[error("it shares {0} regions of memory; at most {MOST} are taken")]
    Count(usize),
    /// Too large, or nothing.
    #[error(
        "memory region {index} has {size} bytes; all together have at least one and at most {most} (memory=… in megabytes)"
    )]
    Size {
        /// Which one.
        index: usize,
        /// Its size.
        size: u64,
        /// How many bytes all may have.
        most: u64,
    },
    /// It ends behind its file.
    #[error("memory region {index} ends behind its file, which has {file} bytes")]
    Short {
        /// Which one.
        index: usize,
        /// The size of the file.
        file: u64,
    },
    /// The file may shrink.
    #[error(
        "memory region {0} is no memory that is sealed against shrinking (F_SEAL_SHRINK); unsealed=true takes it from who is trusted"
    )]
    Unsealed(usize),
    /// The kernel refuses it.
    #[error("memory region {index} cannot be mapped: {source}")]
    Map {
        /// Which one.
        index: usize,
        /// Why.
        source: MmapRegionError,
    },
    /// The kernel does not say how large the file is.
    #[error("memory region {index} has a file without a size: {source}")]
    File {
        /// Which one.
        index: usize,
        /// Why.
        source: io::Error,
    },
    /// Two regions at one place, or one behind all places.
    #[error("two memory regions overlap, or one goes beyond the last address")]
    Overlap,
}

/// A region that is mapped.
#[derive(Debug)]
struct Mapped {
    guest: u64,
    user: u64,
    /// As many bytes as are mapped.
    size: u64,
    map: Arc<MmapRegion>,
}

/// Mapped memory. It may change at any moment.
#[derive(Debug)]
pub struct Memory {
    /// In the order of their addresses in descriptors; none reaches into the next.
    regions: Vec<Mapped>,
}

impl Memory {
    /// Maps regions.
    ///
    /// # Errors
    /// If they are too large or too many, overlap, end behind their files, or may shrink.
    pub fn map(regions: Vec<(Region, File)>, options: &Options) -> Result<Memory, Refused> {
        if regions.is_empty() || regions.len() > MOST {
            return Err(Refused::Count(regions.len()));
        }
        let most = if options.unsealed { u64::MAX } else { u64::from(options.memory) << 20 };
        let (mut mapped, mut bytes) = (Vec::new(), 0_u64);
        for (index, (region, file)) in regions.into_iter().enumerate() {
            let Region { guest, user, size, offset } = region;
            let all = bytes.checked_add(size).filter(|&all| all <= most && size > 0);
            let (Some(all), Ok(len)) = (all, usize::try_from(size)) else {
                return Err(Refused::Size { index, size, most });
            };
            bytes = all;
            // This comes first: what is no memory can be a file of the other side's, which never answers.
            if !options.unsealed && !is_sealed_memory(file.as_fd()) {
                return Err(Refused::Unsealed(index));
            }
            let has = file_size(file.as_fd()).map_err(|source| Refused::File { index, source })?;
            if offset.checked_add(size).is_none_or(|end| end > has) {
                return Err(Refused::Short { index, file: has });
            }
            let map = MmapRegion::from_file(FileOffset::new(file, offset), len)
                .map_err(|source| Refused::Map { index, source })?;
            mapped.push(Mapped { guest, user, size, map: Arc::new(map) });
        }
        mapped.sort_by_key(|region| region.guest);
        let next = mapped.iter().skip(1).map(|region| region.guest).chain([u64::MAX]);
        let overlap = |(region, next): (&Mapped, u64)| {
            region.guest.checked_add(region.size).is_none_or(|end| end > next)
        };
        if mapped.iter().zip(next).any(overlap) {
            return Err(Refused::Overlap);
        }
        Ok(Memory { regions: mapped })
    }

    /// Reads bytes; `false` if they are not all within the memory.
    #[inline]
    pub fn read(&self, address: u64, to: &mut [u8]) -> bool {
        let mut rest = to;
        self.each(address, rest.len(), |slice| {
            let (now, behind) = std::mem::take(&mut rest).split_at_mut(slice.len());
            slice.copy_to(now);
            rest = behind;
        })
    }

    /// Writes bytes; `false` if they are not all within the memory.
    #[inline]
    pub fn write(&self, address: u64, bytes: &[u8]) -> bool {
        let mut rest = bytes;
        self.each(address, rest.len(), |slice| {
            let (now, behind) = rest.split_at(slice.len());
            slice.copy_from(now);
            rest = behind;
        })
    }

    /// Gives so many bytes of the memory, in several parts where regions meet; `false` if some are not within the memory.
    #[inline]
    fn each(&self, mut address: u64, mut len: usize, mut with: impl FnMut(VolatileSlice<'_>)) -> bool {
        for region in &self.regions {
            let Some(at) = address.checked_sub(region.guest).filter(|&at| at < region.size) else { continue };
            let now = usize::try_from(region.size - at).map_or(len, |room| room.min(len));
            let Ok(slice) = region.map.get_slice(at as usize, now) else { return false };
            with(slice);
            len -= now;
            if len == 0 {
                return true;
            }
            // The next region may begin where this one ends.
            address = region.guest + region.size;
        }
        len == 0
    }

    /// What is at an address of the front end's process, if so many bytes are in one region.
    pub fn part(&self, user: u64, len: usize) -> Option<Part> {
        self.regions.iter().find_map(|region| {
            let at = user.checked_sub(region.user)?;
            let end = at.checked_add(len as u64)?;
            (end <= region.size).then(|| Part { map: region.map.clone(), start: at as usize })
        })
    }
}

/// A part of the memory, which it keeps mapped.
#[derive(Debug)]
pub struct Part {
    map: Arc<MmapRegion>,
    start: usize,
}

impl Part {
    /// The word of two bytes at an offset. `None` if it is outside, or between two words.
    #[inline]
    pub fn half(&self, at: usize) -> Option<&AtomicU16> {
        self.map.get_atomic_ref(self.start.checked_add(at)?).ok()
    }

    /// The word of eight bytes at an offset. `None` if it is outside, or between two words.
    #[inline]
    pub fn word(&self, at: usize) -> Option<&AtomicU64> {
        self.map.get_atomic_ref(self.start.checked_add(at)?).ok()
    }
}
