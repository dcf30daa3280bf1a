//! Packets made and freed together: the list of free buffers is reached once for all of them.

use std::mem::MaybeUninit;
use std::ops::Deref;
use std::ptr::NonNull;

use crate::meta::Meta;
use crate::packet::{NoSpace, Packet};
use crate::pool::{self, HEADROOM, SMALL_CAPACITY};

/// Bytes of a cache line.
const LINE: usize = 64;

/// Longest packet of the buffers here.
const SMALL: usize = (SMALL_CAPACITY - HEADROOM) as usize;

/// Brings the start of a frame, as far as headers go, into the core's second-level cache, so that
/// [`Packet::from_frames`] need not wait for it. Pays for frames that are further away, a batch before they are copied.
/// (The first level has few places for lines that are on their way; tables need them.)
#[inline]
pub fn fetch(frame: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        let start = frame.as_ptr().cast::<i8>();
        // SAFETY: the instruction reads nothing that the program could see, and does not fault.
        unsafe {
            _mm_prefetch::<_MM_HINT_T1>(start);
            if frame.len() > LINE {
                _mm_prefetch::<_MM_HINT_T1>(start.wrapping_add(LINE));
            }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = frame;
}

/// Buffers taken from the thread's free list, to make packets of. What is not used goes back on drop.
///
/// ```
/// let frames = [[1_u8; 60], [2; 60]];
/// let mut buffers = weir_packet::Buffers::take(frames.len());
/// let packets: Vec<_> = frames.iter().map(|f| buffers.packet(f).unwrap()).collect();
/// assert_eq!(packets[1].bytes(), frames[1]);
/// ```
#[derive(Debug)]
pub struct Buffers {
    blocks: [MaybeUninit<NonNull<Meta>>; Buffers::MOST],
    /// How many of them are there.
    len: usize,
}

impl Buffers {
    /// Most packets that are made without reaching for the list again.
    pub const MOST: usize = 32;

    /// Buffers for `n` packets, or for [`Buffers::MOST`] if that is less. More packets than that can be made.
    #[inline]
    pub fn take(n: usize) -> Buffers {
        let mut blocks = [MaybeUninit::uninit(); Buffers::MOST];
        let len = pool::take_some(n, &mut blocks);
        Buffers { blocks, len }
    }

    /// A packet with these bytes.
    #[inline]
    pub fn packet(&mut self, bytes: &[u8]) -> Result<Packet, NoSpace> {
        let Some(last) = self.len.checked_sub(1).filter(|_| bytes.len() <= SMALL) else {
            return Packet::from_bytes(bytes);
        };
        self.len = last;
        // SAFETY: the first `last + 1` are there.
        Ok(Packet::small(unsafe { self.blocks[last].assume_init() }, bytes))
    }
}

impl Drop for Buffers {
    #[inline]
    fn drop(&mut self) {
        if self.len > 0 {
            // SAFETY: the first `len` are there. They came from the list, so that their metadata is that of a small
            // packet, and nothing uses them.
            unsafe { pool::give_all(std::slice::from_raw_parts(self.blocks.as_ptr().cast(), self.len)) };
        }
    }
}

impl Packet {
    /// Adds a packet for each of these frames to `packets`: as [`from_bytes`](Packet::from_bytes) for each, and quicker,
    /// as the list of free buffers, and what the processor can do, are looked at once for many.
    ///
    /// # Errors
    /// If a frame is too long. The packets of those before it have been added.
    #[inline]
    pub fn from_frames(frames: &[&[u8]], packets: &mut Vec<Packet>) -> Result<(), NoSpace> {
        let mut rest = frames;
        while !rest.is_empty() {
            packets.reserve(rest.len());
            let old = packets.len();
            // The buffers' addresses come to where the packets will be, which are nothing else.
            let space = packets.spare_capacity_mut();
            // SAFETY: a packet is the address of its metadata.
            let space = unsafe { &mut *(std::ptr::from_mut(space) as *mut [MaybeUninit<NonNull<Meta>>]) };
            let n = pool::take_some(rest.len(), space);
            // SAFETY: so many blocks of the list are there, and nothing else uses them.
            let blocks = unsafe { space[..n].assume_init_ref() };
            let made = fill(blocks, rest);
            if made < n {
                // SAFETY: these blocks came from the list, and nothing uses them.
                unsafe { pool::give_all(&blocks[made..]) };
            }
            // SAFETY: so many are packets; the length is written when all are made, not for each.
            unsafe { packets.set_len(old + made) };
            rest = &rest[made..];
            // A frame that fits no small block, or for which there is none.
            if let Some((frame, others)) = rest.split_first() {
                packets.push(Packet::from_bytes(frame)?);
                rest = others;
            }
        }
        Ok(())
    }

    /// Frees all packets of a batch.
    #[inline]
    pub fn free(batch: &mut Vec<Packet>) {
        let raw = Packet::into_raw_batch(batch);
        // SAFETY: the packets are ours.
        unsafe { Packet::free_raw(&raw) };
    }

    /// Frees packets by their addresses.
    ///
    /// # Safety
    /// As for [`from_raw`](Packet::from_raw), for each.
    #[inline]
    pub unsafe fn free_raw(raw: &[*mut Meta]) {
        // SAFETY: a `NonNull` has the layout of the pointer, and the addresses of packets are not null.
        let blocks = unsafe { std::slice::from_raw_parts(raw.as_ptr().cast(), raw.len()) };
        // SAFETY: passed on to the caller.
        unsafe { pool::give_all(blocks) };
    }

    /// All packets of a batch as with [`into_raw`](Packet::into_raw). The batch is empty when the result is dropped.
    pub fn into_raw_batch(batch: &mut Vec<Packet>) -> RawBatch<'_> {
        let n = batch.len();
        // SAFETY: 0 is no more than the capacity; the packets are the result's.
        unsafe { batch.set_len(0) };
        RawBatch { batch, n }
    }
}

/// Makes packets of small blocks from the list that nothing else uses, until one runs out or a frame does not fit; gives
/// how many.
#[inline]
fn fill(blocks: &[NonNull<Meta>], frames: &[&[u8]]) -> usize {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has what the function needs.
        return unsafe { fill_avx2(blocks, frames) };
    }
    fill_by(blocks, frames, Packet::small)
}

/// # Safety
/// The processor has AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn fill_avx2(blocks: &[NonNull<Meta>], frames: &[&[u8]]) -> usize {
    fill_by(blocks, frames, |block, frame| Packet::small_avx2(block, frame))
}

#[inline(always)]
fn fill_by(
    blocks: &[NonNull<Meta>],
    frames: &[&[u8]],
    small: impl Fn(NonNull<Meta>, &[u8]) -> Packet,
) -> usize {
    let mut made = 0;
    for (&block, &frame) in blocks.iter().zip(frames) {
        if frame.len() > SMALL {
            break;
        }
        std::mem::forget(small(block, frame));
        made += 1;
    }
    made
}

/// The addresses of a batch of packets, each of which has to become a packet again.
#[derive(Debug)]
pub struct RawBatch<'a> {
    batch: &'a mut Vec<Packet>,
    n: usize,
}

impl Deref for RawBatch<'_> {
    type Target = [*mut Meta];
    #[inline]
    fn deref(&self) -> &[*mut Meta] {
        // SAFETY: the vector's memory has `n` packets, each of which is the address of its metadata.
        unsafe { std::slice::from_raw_parts(self.batch.as_ptr().cast(), self.n) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_a_batch_are_like_others() {
        let frames: Vec<Vec<u8>> = (0..100).map(|i| vec![i; 20 * i as usize]).collect();
        for round in 0..3 {
            let mut buffers = Buffers::take(frames.len());
            let mut made: Vec<Packet> = frames.iter().map(|f| buffers.packet(f).unwrap()).collect();
            for (p, f) in made.iter().zip(&frames) {
                let one = Packet::from_bytes(f).unwrap();
                assert_eq!(
                    (p.bytes(), p.data(), p.floor()),
                    (&f[..], one.data(), one.floor()),
                    "round {round}"
                );
                assert_eq!((p.anno, p.hash, p.timestamp), (one.anno, one.hash, one.timestamp));
            }
            made[50].anno = [7; crate::ANNO_LEN];
            made[50].hash = 3;
            Packet::free(&mut made);
            assert!(made.is_empty());
        }
    }

    #[test]
    fn a_batch_of_frames_becomes_the_same_packets() {
        let frames: Vec<Vec<u8>> = (0..200)
            // More that follow each other than there are buffers at a time, and some that take a large one.
            .map(|i| (0..if i < 150 { i } else { 10 * i }).map(|b| (i ^ b) as u8).collect())
            .collect();
        for _ in 0..2 {
            let mut packets = Vec::new();
            let slices: Vec<&[u8]> = frames.iter().map(|f| &f[..]).collect();
            Packet::from_frames(&slices, &mut packets).unwrap();
            for (p, f) in packets.iter().zip(&frames) {
                let one = Packet::from_bytes(f).unwrap();
                assert_eq!((p.bytes(), format!("{:?}", **p)), (&f[..], format!("{:?}", *one)));
            }
            let long = [&[1; 60][..], &[0; crate::MAX_LEN + 1], &[2; 60]];
            assert_eq!(Packet::from_frames(&long, &mut packets), Err(NoSpace));
            assert_eq!((packets.len(), packets[200].bytes()), (201, &[1; 60][..]));
            // Those of the second round are made of buffers that others have written all over.
            for p in &mut packets {
                (p.anno, p.hash, p.timestamp, p.in_port) = ([7; crate::ANNO_LEN], 3, 4, 5);
                (p.csum, p.csum_start, p.csum_offset, p.gso, p.gso_size) = (2, 6, 7, 3, 8);
                (p.packet_type, p.hops, p.trace) = (1, 9, 10);
                let end = p.end();
                p.set_layer(crate::Layer::Net, Some(end));
            }
        }
    }

    #[test]
    fn no_buffer_is_given_twice() {
        drop(Packet::from_bytes(&[1]).unwrap());
        let mut two = [Buffers::take(32), Buffers::take(40)];
        let mut packets: Vec<Packet> = Vec::new();
        for i in 0..200_u8 {
            packets.push(two[usize::from(i % 2)].packet(&[i; 30]).unwrap());
            packets.push(Packet::from_bytes(&[i; 31]).unwrap());
        }
        drop(two);
        packets.extend((0..100_u8).map(|i| Packet::from_bytes(&[i; 32]).unwrap()));
        for (i, pair) in packets[..400].chunks(2).enumerate() {
            assert_eq!((pair[0].bytes(), pair[1].bytes()), (&[i as u8; 30][..], &[i as u8; 31][..]));
        }
    }

    #[test]
    fn more_are_freed_than_the_list_keeps() {
        let mut packets: Vec<Packet> =
            (0..5000).map(|i| Packet::from_bytes(&[i as u8; 40]).unwrap()).collect();
        packets.push(Packet::from_bytes(&[9; 9000]).unwrap());
        Packet::free(&mut packets);
        let again = Buffers::take(8).packet(&[1; 9000]).unwrap();
        assert_eq!(again.len(), 9000);
    }
}
