//! [`Packet`]: the owner of one buffer.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use crate::meta::{ANNO_LEN, Dirty, Head, Layer, Meta, Provenance, Size, UNSET};
use crate::pool::{self, HEADROOM, HUGE_CAPACITY, MAX_LEN, SMALL_CAPACITY};

/// Distance from the address of a packet (its [`Meta`]) to position 0 of its buffer.
pub const BUFFER_OFFSET: usize = size_of::<Meta>();

/// Bytes that every processor copies at once.
const BLOCK: usize = 16;

/// Copies bytes. Short ones, which most packets are, without a call: in blocks, of which the last may overlap.
#[inline(always)]
fn copy<const BLOCK: usize>(from: &[u8], to: &mut [u8]) {
    let len = from.len();
    if !(BLOCK..=8 * BLOCK).contains(&len) || to.len() != len {
        return to.copy_from_slice(from);
    }
    let (from, to) = (from.as_ptr(), to.as_mut_ptr());
    // SAFETY: both have `len` bytes, and no block that is copied ends behind that.
    let block = |at: usize| unsafe {
        std::ptr::copy_nonoverlapping(from.add(at), to.add(at), BLOCK);
    };
    block(0);
    // No loop: the compiler would make a call of it.
    macro_rules! blocks {
        () => {};
        ($n:literal $($more:literal)*) => {
            block($n * BLOCK);
            if ($n + 2) * BLOCK < len {
                blocks!($($more)*);
            }
        };
    }
    // Most packets are small: for them the code goes straight on.
    if len > 2 * BLOCK {
        std::hint::cold_path();
        blocks!(1 2 3 4 5 6);
    }
    block(len - BLOCK);
}

/// The buffer has not enough free bytes on that side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no space in the packet's buffer (packets have at most {MAX_LEN} bytes)")]
pub struct NoSpace;

/// A packet. Dereferences to its [`Meta`].
#[repr(transparent)]
pub struct Packet(NonNull<Meta>);

// SAFETY: a packet is the only owner of its block, and the block holds plain data.
unsafe impl Send for Packet {}
// SAFETY: shared references only read.
unsafe impl Sync for Packet {}

impl Packet {
    /// An empty packet with [`HEADROOM`] free bytes in front, in a buffer for `len` bytes.
    #[inline]
    pub fn with_capacity(len: usize) -> Result<Packet, NoSpace> {
        Packet::with_headroom(0, len)
    }

    /// The same with `front` more free bytes in front, for what is still to be put there: with it, the packet has at most
    /// [`MAX_LEN`] bytes.
    #[inline]
    pub fn with_headroom(front: usize, len: usize) -> Result<Packet, NoSpace> {
        if front > MAX_LEN || len > MAX_LEN - front {
            return Err(NoSpace);
        }
        let data = HEADROOM + front as u32;
        Ok(Packet(pool::take(data + len as u32, data)))
    }

    /// A packet with these bytes.
    #[inline]
    pub fn from_bytes(bytes: &[u8]) -> Result<Packet, NoSpace> {
        Packet::from_bytes_behind(0, bytes)
    }

    /// The same with `front` more free bytes in front.
    #[inline]
    pub fn from_bytes_behind(front: usize, bytes: &[u8]) -> Result<Packet, NoSpace> {
        let mut p = Packet::with_headroom(front, bytes.len())?;
        let data = p.head.data as usize;
        p.head_mut().end += bytes.len() as u32;
        copy::<BLOCK>(bytes, &mut p.buffer_mut()[data..data + bytes.len()]);
        Ok(p)
    }

    /// The packet with these bytes in a small block of the free list that nothing else uses. They fit.
    #[inline(always)]
    pub(crate) fn small(block: NonNull<Meta>, bytes: &[u8]) -> Packet {
        // SAFETY: the block is ours alone, and had a packet before.
        unsafe { pool::renew(block, Size::Small, HEADROOM) };
        Packet::filled::<BLOCK>(block, bytes)
    }

    /// As [`small`](Packet::small), with wider writes, and in the order of the addresses: a processor is as quick as it
    /// can write, and two writes that follow each other to one cache line are as one.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    #[inline]
    pub(crate) fn small_avx2(block: NonNull<Meta>, bytes: &[u8]) -> Packet {
        use std::arch::x86_64::{__m256i, _mm256_setr_epi32, _mm256_setzero_si256, _mm256_store_si256};
        let [data, unset] = [HEADROOM, UNSET].map(u32::cast_signed);
        let head = _mm256_setr_epi32(data, data, 0, data, unset, unset, unset, unset);
        let zero = _mm256_setzero_si256();
        let vectors = block.as_ptr().cast::<__m256i>();
        // SAFETY: the block is ours alone, and begins with four such vectors of metadata, aligned as they have to be; it
        // had a packet before.
        unsafe {
            let dirty = block.as_ref().head.dirty;
            _mm256_store_si256(vectors, head);
            if dirty != Dirty::NONE {
                if dirty.first {
                    _mm256_store_si256(vectors.add(1), zero);
                }
                if dirty.rest {
                    (2..4).for_each(|i| _mm256_store_si256(vectors.add(i), zero));
                }
            }
        }
        Packet::filled::<{ 2 * BLOCK }>(block, bytes)
    }

    /// The packet of a block whose metadata is that of an empty one. Bytes are copied in blocks of `BLOCK`.
    #[inline(always)]
    fn filled<const BLOCK: usize>(block: NonNull<Meta>, bytes: &[u8]) -> Packet {
        debug_assert!(bytes.len() <= (SMALL_CAPACITY - HEADROOM) as usize);
        // SAFETY: the bytes of a block for small packets are initialised; so many fit, and the block is ours alone.
        let to = unsafe {
            let start = block.as_ptr().cast::<u8>().add(BUFFER_OFFSET + HEADROOM as usize);
            std::slice::from_raw_parts_mut(start, bytes.len())
        };
        let mut packet = Packet(block);
        // By itself, as the rest stays the same from packet to packet.
        packet.head_mut().end = HEADROOM + bytes.len() as u32;
        copy::<BLOCK>(bytes, to);
        packet
    }

    /// Where the packet is. To reach it so changes nothing else, as to reach the metadata by [`DerefMut`] does.
    #[inline(always)]
    fn head_mut(&mut self) -> &mut Head {
        // SAFETY: we own the block, and its metadata is initialised.
        unsafe { &mut self.0.as_mut().head }
    }

    /// A second packet with the same bytes, marks, annotations and metadata.
    pub fn copy(&self) -> Packet {
        let mut copy = Packet(pool::take(self.capacity(), self.head.data));
        let (from, to) = (self.head.floor as usize, self.head.end as usize);
        *copy = (**self).clone();
        copy.buffer_mut()[from..to].copy_from_slice(&self.buffer()[from..to]);
        copy
    }

    /// An empty packet that an element makes ([`Provenance::Made`]).
    pub fn made() -> Packet {
        let mut p = Packet(pool::take(pool::SMALL_CAPACITY, HEADROOM));
        p.provenance = Provenance::Made as u8;
        p
    }

    /// The same with the annotations, in-port, timestamp and trace of this one.
    pub fn successor(&self) -> Packet {
        let mut p = Packet::made();
        p.anno = self.anno;
        p.timestamp = self.timestamp;
        p.in_port = self.in_port;
        p.trace = self.trace;
        p.hops = self.hops;
        p
    }

    /// Makes it one as it comes to another graph ([`entry::LINK`](crate::entry::LINK)): without marks but `mac` on its first
    /// byte, annotations, and bytes that were in front.
    #[inline]
    pub fn hand_over(&mut self) {
        let head = self.head_mut();
        head.floor = head.data;
        head.marks = [head.data, UNSET, UNSET, UNSET];
        if head.dirty != Dirty::NONE {
            self.anno = [0; ANNO_LEN];
            (self.hash, self.in_port, self.provenance) = (0, 0, 0);
        }
        if (self.capacity() - (self.head.end - self.head.data)) < HEADROOM {
            self.make_space();
        }
    }

    /// Moves it into a larger buffer, if it is not too long for that.
    #[cold]
    fn make_space(&mut self) {
        let Ok(mut p) = Packet::from_bytes(self.bytes()) else { return };
        let moved = i64::from(p.head.data) - i64::from(self.head.data);
        let head = p.head.clone();
        *p = (**self).clone();
        p.head = Head { marks: [head.data, UNSET, UNSET, UNSET], dirty: Dirty::ALL, ..head };
        // One in front of the packet stays there: it is that of a header that was taken off.
        p.csum_start = u32::try_from(i64::from(self.csum_start) + moved).unwrap_or(0);
        *self = p;
    }

    /// Number of bytes.
    #[inline]
    pub fn len(&self) -> usize {
        (self.head.end - self.head.data) as usize
    }

    /// Whether there are no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head.end == self.head.data
    }

    /// The bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.buffer()[self.head.data as usize..self.head.end as usize]
    }

    /// The bytes, to change.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let (data, end) = (self.head.data as usize, self.head.end as usize);
        &mut self.buffer_mut()[data..end]
    }

    /// The whole buffer; positions of [`Meta`] index it.
    #[inline]
    pub fn buffer(&self) -> &[u8] {
        // SAFETY: `capacity` initialised bytes follow the metadata in the same allocation, which we own.
        unsafe {
            let start = self.0.as_ptr().cast::<u8>().add(BUFFER_OFFSET);
            std::slice::from_raw_parts(start, self.capacity() as usize)
        }
    }

    /// The whole buffer, to change.
    #[inline]
    pub fn buffer_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `buffer`, and `&mut self` makes the access exclusive.
        unsafe {
            let start = self.0.as_ptr().cast::<u8>().add(BUFFER_OFFSET);
            std::slice::from_raw_parts_mut(start, self.capacity() as usize)
        }
    }

    /// Position of a layer, if it is set.
    pub fn layer(&self, layer: Layer) -> Option<u32> {
        match layer {
            Layer::Data => Some(self.head.data),
            mark => Some(self.head.marks[mark as usize - 1]).filter(|&m| m != UNSET),
        }
    }

    /// Sets the mark of a layer (`None` clears it).
    ///
    /// # Panics
    /// If `layer` is `Data`, or the position is not within the defined bytes of the packet (its end included).
    pub fn set_layer(&mut self, layer: Layer, at: Option<u32>) {
        assert!(layer != Layer::Data, "the start of the packet moves by push and pull only");
        if let Some(at) = at {
            assert!(at >= self.head.floor && at <= self.head.end, "a mark lies within the packet");
        }
        self.head_mut().marks[layer as usize - 1] = at.unwrap_or(UNSET);
    }

    /// The bytes from a layer to the end of the packet; empty if the layer is not set.
    pub fn from_layer(&self, layer: Layer) -> &[u8] {
        match self.layer(layer) {
            Some(at) if at <= self.head.end => &self.buffer()[at as usize..self.head.end as usize],
            _ => &[],
        }
    }

    /// Adds `n` zero bytes in front. Moves the packet within its buffer if the headroom is too small.
    pub fn push(&mut self, n: u32) -> Result<(), NoSpace> {
        if self.head.data < n {
            self.shift(n - self.head.data)?;
        }
        let head = self.head_mut();
        head.data -= n;
        head.floor = head.floor.min(head.data);
        let (from, to) = (head.data as usize, (head.data + n) as usize);
        self.buffer_mut()[from..to].fill(0);
        Ok(())
    }

    /// Removes `n` bytes in front; they can come back by [`unpull`](Packet::unpull).
    ///
    /// # Panics
    /// If the packet has fewer bytes.
    pub fn pull(&mut self, n: u32) {
        assert!(n as usize <= self.len(), "cannot pull more than the packet has");
        self.head_mut().data += n;
    }

    /// Takes back `n` bytes that were pulled before.
    pub fn unpull(&mut self, n: u32) -> Result<(), NoSpace> {
        if self.head.data - self.head.floor < n {
            return Err(NoSpace);
        }
        self.head_mut().data -= n;
        Ok(())
    }

    /// Adds `n` zero bytes at the end.
    pub fn put(&mut self, n: u32) -> Result<(), NoSpace> {
        if self.capacity() - self.head.end < n {
            return Err(NoSpace);
        }
        let (from, to) = (self.head.end as usize, (self.head.end + n) as usize);
        self.head_mut().end += n;
        self.buffer_mut()[from..to].fill(0);
        Ok(())
    }

    /// Cuts the packet to `len` bytes; does nothing if it is shorter.
    pub fn trim(&mut self, len: u32) {
        let head = self.head_mut();
        if len < head.end - head.data {
            head.end = head.data + len;
        }
    }

    /// The packet as the address of its metadata, for compiled code. The memory is freed only by
    /// [`from_raw`](Packet::from_raw).
    #[inline]
    pub fn into_raw(self) -> *mut Meta {
        let p = self.0.as_ptr();
        std::mem::forget(self);
        p
    }

    /// The packet behind an address.
    ///
    /// # Safety
    /// `raw` came from [`into_raw`](Packet::into_raw) and is not used as a packet elsewhere.
    #[inline]
    pub unsafe fn from_raw(raw: *mut Meta) -> Packet {
        // SAFETY: the caller passes an address that `into_raw` gave, which is never null.
        Packet(unsafe { NonNull::new_unchecked(raw) })
    }

    /// Borrows the packet behind an address.
    ///
    /// # Safety
    /// `raw` came from [`into_raw`](Packet::into_raw), and no other reference to it exists during the call.
    #[inline]
    pub unsafe fn with_raw<R>(raw: *mut Meta, f: impl FnOnce(&mut Packet) -> R) -> R {
        // SAFETY: passed on to the caller; `ManuallyDrop` leaves the ownership where it was.
        let mut p = std::mem::ManuallyDrop::new(unsafe { Packet::from_raw(raw) });
        f(&mut p)
    }

    /// Moves the defined bytes `by` positions towards the end.
    fn shift(&mut self, by: u32) -> Result<(), NoSpace> {
        if self.capacity() - self.head.end < by {
            return Err(NoSpace);
        }
        let (from, to) = (self.head.floor as usize, self.head.end as usize);
        self.buffer_mut().copy_within(from..to, from + by as usize);
        self.csum_start += by;
        let head = self.head_mut();
        head.data += by;
        head.end += by;
        head.floor += by;
        for mark in &mut head.marks {
            if *mark != UNSET {
                *mark += by;
            }
        }
        Ok(())
    }
}

const _: () = assert!(HUGE_CAPACITY as u64 + (HEADROOM as u64) < u32::MAX as u64);

impl Deref for Packet {
    type Target = Meta;
    #[inline]
    fn deref(&self) -> &Meta {
        // SAFETY: we own the block, and its metadata is initialised.
        unsafe { self.0.as_ref() }
    }
}

impl DerefMut for Packet {
    #[inline]
    fn deref_mut(&mut self) -> &mut Meta {
        // SAFETY: as in `deref`, and `&mut self` makes the access exclusive.
        let meta = unsafe { self.0.as_mut() };
        meta.head.dirty = Dirty::ALL;
        meta
    }
}

impl Drop for Packet {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: we own the block and never use it again.
        unsafe { pool::give(self.0) };
    }
}

impl fmt::Debug for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut s = f.debug_struct("Packet");
        s.field("len", &self.len()).field("bytes", &format_args!("{:02x?}", self.bytes()));
        for layer in &Layer::ALL[1..] {
            if let Some(at) = self.layer(*layer) {
                s.field(layer.name(), &(i64::from(at) - i64::from(self.head.data)));
            }
        }
        s.finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::LARGE_CAPACITY;

    #[test]
    fn strip_and_unstrip_bring_the_same_bytes_back() {
        let mut p = Packet::from_bytes(&[1, 2, 3, 4]).unwrap();
        p.pull(2);
        assert_eq!(p.bytes(), [3, 4]);
        p.unpull(2).unwrap();
        assert_eq!(p.bytes(), [1, 2, 3, 4]);
        assert_eq!(p.unpull(1), Err(NoSpace), "bytes that never were part of the packet stay hidden");
    }

    #[test]
    fn every_length_is_copied_whole() {
        let bytes: Vec<u8> = (0..=255).cycle().take(300).collect();
        for len in 0..bytes.len() {
            assert_eq!(Packet::from_bytes(&bytes[..len]).unwrap().bytes(), &bytes[..len], "{len} bytes");
        }
    }

    #[test]
    fn pushed_bytes_are_zero_even_in_a_recycled_buffer() {
        drop(Packet::from_bytes(&[0xff; 1500]).unwrap());
        let mut p = Packet::from_bytes(&[9]).unwrap();
        p.push(100).unwrap();
        p.put(20).unwrap();
        assert!(p.bytes()[..100].iter().all(|&b| b == 0));
        assert_eq!(p.bytes()[100], 9);
        assert!(p.bytes()[101..].iter().all(|&b| b == 0));
    }

    #[test]
    fn push_beyond_the_headroom_moves_marks_along() {
        let mut p = Packet::from_bytes(&[7; 40]).unwrap();
        let net = p.data() + 14;
        p.set_layer(Layer::Net, Some(net));
        p.push(HEADROOM + 60).unwrap();
        assert_eq!(p.len(), 40 + HEADROOM as usize + 60);
        assert_eq!(p.from_layer(Layer::Net), [7; 26]);
        assert_eq!(p.push(4000), Err(NoSpace));
    }

    #[test]
    fn the_longest_packet_fits_and_a_longer_one_is_refused() {
        assert_eq!(Packet::from_bytes(&vec![1; MAX_LEN]).unwrap().len(), MAX_LEN);
        assert!(Packet::from_bytes(&vec![1; MAX_LEN + 1]).is_err());
    }

    #[test]
    fn a_packet_has_the_smallest_buffer_that_it_fits() {
        let capacity = |len: u32| Packet::from_bytes(&vec![3; len as usize]).unwrap().capacity();
        let (small, large) = (SMALL_CAPACITY - HEADROOM, LARGE_CAPACITY - HEADROOM);
        let all = [small, small + 1, large, large + 1, MAX_LEN as u32];
        assert_eq!(
            all.map(capacity),
            [SMALL_CAPACITY, LARGE_CAPACITY, LARGE_CAPACITY, HUGE_CAPACITY, HUGE_CAPACITY]
        );
        // Buffers are used again, each for its size.
        let mut batch: Vec<Packet> =
            all.iter().map(|n| Packet::from_bytes(&vec![4; *n as usize]).unwrap()).collect();
        let mut copy = batch[4].copy();
        copy.push(HEADROOM).unwrap();
        assert_eq!((copy.push(1), &copy.bytes()[HEADROOM as usize..]), (Err(NoSpace), &vec![4; MAX_LEN][..]));
        Packet::free(&mut batch);
        assert_eq!(
            all.map(capacity),
            [SMALL_CAPACITY, LARGE_CAPACITY, LARGE_CAPACITY, HUGE_CAPACITY, HUGE_CAPACITY]
        );
    }

    #[test]
    fn a_copy_is_independent() {
        let mut a = Packet::from_bytes(&[1, 2, 3]).unwrap();
        a.anno[16] = 5;
        let mut b = a.copy();
        b.bytes_mut()[0] = 9;
        b.anno[16] = 6;
        assert_eq!((a.bytes()[0], a.anno[16]), (1, 5));
        assert_eq!((b.bytes()[0], b.anno[16]), (9, 6));
    }

    #[test]
    fn metadata_fits_two_cache_lines() {
        assert_eq!(size_of::<Meta>(), 128);
    }
}
