//! Packet buffers: fixed size, recycled per thread, owned by whoever holds them.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};

/// Bytes that a [`Buffer`] holds at most.
pub const BUFFER_SIZE: usize = 2048;

/// Free buffers kept per thread; more are given back to the allocator.
const POOL: usize = 4096;

/// Free buffers that are not used yet: so long it takes until the memory of a freed one is another's, which a pointer of C code that was
/// kept too long would not notice. They fit into the processor's cache.
const REST: usize = 64;

thread_local! {
    static FREE: RefCell<VecDeque<Vec<u8>>> = const { RefCell::new(VecDeque::new()) };
}

/// A packet buffer of up to [`BUFFER_SIZE`] bytes. Keep it as long as you like (that is the paper's "do not evict"); dropping it
/// returns its memory to the pool of the thread that drops it.
#[derive(Debug)]
pub struct Buffer {
    /// Always [`BUFFER_SIZE`] bytes, but in `drop`.
    bytes: Vec<u8>,
    len: usize,
}

impl Buffer {
    /// An empty buffer from this thread's pool.
    pub fn new() -> Self {
        let rested = FREE.with(|free| {
            let mut free = free.borrow_mut();
            if free.len() > REST { free.pop_front() } else { None }
        });
        let bytes = rested.unwrap_or_else(|| vec![0; BUFFER_SIZE]);
        Self { bytes, len: 0 }
    }

    /// Appends as much of `data` as fits; returns how many bytes that was.
    pub fn append(&mut self, data: &[u8]) -> usize {
        let n = data.len().min(BUFFER_SIZE - self.len);
        self.bytes[self.len..self.len + n].copy_from_slice(&data[..n]);
        self.len += n;
        n
    }

    /// All of its memory, to be written; [`Buffer::set_len`] then says how much of it is data. It holds what an earlier use left there.
    pub fn memory(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// Says that the first `len` bytes of its memory are data; at most [`BUFFER_SIZE`] are.
    pub fn set_len(&mut self, len: usize) {
        self.len = len.min(BUFFER_SIZE);
    }

    /// Fills an empty buffer from `source`; how many bytes came.
    pub(crate) fn fill(&mut self, source: &mut impl std::io::Read) -> std::io::Result<usize> {
        self.len = source.read(&mut self.bytes)?;
        Ok(self.len)
    }
}

impl Default for Buffer {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        // A thread that ends has no pool any more: the memory is then just freed.
        let _ = FREE.try_with(|free| {
            let mut free = free.borrow_mut();
            if free.len() < POOL {
                free.push_back(bytes);
            }
        });
    }
}

impl Deref for Buffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_takes_what_fits_and_comes_back_empty() {
        let mut buffer = Buffer::new();
        assert_eq!(buffer.append(&[7; BUFFER_SIZE - 1]), BUFFER_SIZE - 1);
        assert_eq!(buffer.append(b"ab"), 1);
        assert_eq!(buffer.last(), Some(&b'a'));
        drop(buffer);
        assert!(Buffer::new().is_empty());
    }
}
