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
    /// Always [`BUFFER_SIZE`] bytes and one more, by which a datagram that is too long is seen; none in `drop`.
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
        let bytes = rested.unwrap_or_else(|| vec![0; BUFFER_SIZE + 1]);
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
        &mut self.bytes[..BUFFER_SIZE]
    }

    /// Says that the first `len` bytes of its memory are data; at most [`BUFFER_SIZE`] are.
    pub fn set_len(&mut self, len: usize) {
        self.len = len.min(BUFFER_SIZE);
    }

    /// Fills an empty buffer; how many bytes came, and what else `read` says.
    pub(crate) fn fill<T>(
        &mut self,
        read: impl FnOnce(&mut [u8]) -> std::io::Result<(usize, T)>,
    ) -> std::io::Result<(usize, T)> {
        let (len, more) = read(&mut self.bytes[..BUFFER_SIZE])?;
        self.len = len;
        Ok((len, more))
    }

    /// Fills an empty buffer with a datagram; whether it fitted, and what else `read` says.
    pub(crate) fn datagram<T>(
        &mut self,
        read: impl FnOnce(&mut [u8]) -> std::io::Result<(usize, T)>,
    ) -> std::io::Result<(bool, T)> {
        let (len, more) = read(&mut self.bytes)?;
        self.set_len(len);
        Ok((len <= BUFFER_SIZE, more))
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
