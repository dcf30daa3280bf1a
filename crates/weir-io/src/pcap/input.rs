//! The bytes of a capture, read in large blocks.
//!
//! The file is not mapped into memory: one that is cut while it is read would end the process.

use std::io::Read;

/// Bytes that are read at once; what is looked at in one piece is no longer.
pub(super) const BUFFER: usize = 1 << 20;

/// A file or pipe.
pub(super) struct Input {
    stream: Box<dyn Read + Send>,
    buffer: Box<[u8]>,
    /// What was read and not used yet.
    start: usize,
    end: usize,
    /// How many bytes were used.
    used: u64,
}

impl Input {
    pub(super) fn new(stream: impl Read + Send + 'static) -> Input {
        let buffer = vec![0; BUFFER].into_boxed_slice();
        Input { stream: Box::new(stream), buffer, start: 0, end: 0, used: 0 }
    }

    /// What was read and not used yet.
    #[inline]
    pub(super) fn at_hand(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// How many bytes of the file were used.
    pub(super) fn used(&self) -> u64 {
        self.used
    }

    /// Uses bytes that are at hand.
    #[inline]
    pub(super) fn consume(&mut self, len: usize) {
        self.start = (self.start + len).min(self.end);
        self.used += len as u64;
    }

    /// Whether so many bytes are at hand, at most [`BUFFER`]; reads them if need be.
    #[inline]
    pub(super) fn has(&mut self, len: usize) -> Result<bool, String> {
        if self.end - self.start >= len { Ok(true) } else { self.fill(len) }
    }

    fn fill(&mut self, len: usize) -> Result<bool, String> {
        if len > self.buffer.len() {
            return Ok(false);
        }
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        while self.end < len {
            match self.stream.read(&mut self.buffer[self.end..]) {
                Ok(0) => return Ok(false),
                Ok(n) => self.end += n,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(format!("reading failed: {e}")),
            }
        }
        Ok(true)
    }

    /// Passes over so many bytes; false if the file ends before.
    pub(super) fn skip(&mut self, mut len: u64) -> Result<bool, String> {
        while len > 0 {
            if !self.has(1)? {
                return Ok(false);
            }
            let n = usize::try_from(len).unwrap_or(usize::MAX).min(self.end - self.start);
            self.consume(n);
            len -= n as u64;
        }
        Ok(true)
    }
}

/// Numbers of a file in either byte order. Where there are fewer bytes, the number is 0.
#[derive(Debug, Clone, Copy)]
pub(super) struct Order {
    pub big_endian: bool,
}

impl Order {
    #[inline]
    pub(super) fn u32(self, bytes: &[u8], at: usize) -> u32 {
        let Some(b) = bytes.get(at..).and_then(<[u8]>::first_chunk::<4>) else { return 0 };
        if self.big_endian { u32::from_be_bytes(*b) } else { u32::from_le_bytes(*b) }
    }

    pub(super) fn u16(self, bytes: &[u8], at: usize) -> u16 {
        let Some(b) = bytes.get(at..).and_then(<[u8]>::first_chunk::<2>) else { return 0 };
        if self.big_endian { u16::from_be_bytes(*b) } else { u16::from_le_bytes(*b) }
    }

    pub(super) fn i64(self, bytes: &[u8], at: usize) -> i64 {
        let Some(b) = bytes.get(at..).and_then(<[u8]>::first_chunk::<8>) else { return 0 };
        if self.big_endian { i64::from_be_bytes(*b) } else { i64::from_le_bytes(*b) }
    }
}
