//! Frames in memory, and the random numbers that they are made of.

use std::net::Ipv4Addr;
use std::ops::Index;

use weir_net::build::udp4;

/// Frames start on cache lines, as in a device's buffers.
const LINE: usize = 64;
/// Bytes of Ethernet, IPv4 and UDP headers.
const HEADERS: usize = 14 + 20 + 8;

/// Frames, each on as many cache lines as the longest takes.
#[derive(Debug, Clone, Default)]
pub struct Frames {
    bytes: Vec<u8>,
    /// Where the first starts.
    start: usize,
    /// From the start of one to that of the next.
    stride: usize,
    /// Length of each.
    lens: Vec<usize>,
}

impl Frames {
    /// None, with memory for `count` frames of up to `len` bytes.
    pub fn with_capacity(count: usize, len: usize) -> Frames {
        let stride = len.next_multiple_of(LINE);
        let mut bytes: Vec<u8> = Vec::with_capacity((count + 1) * stride);
        let start = bytes.as_ptr().align_offset(LINE).min(LINE);
        bytes.resize(start, 0);
        Frames { bytes, start, stride, lens: Vec::with_capacity(count) }
    }

    /// These frames. None is longer than the first.
    pub fn of(list: impl ExactSizeIterator<Item = Vec<u8>>) -> Frames {
        let mut list = list.peekable();
        let mut frames = Frames::with_capacity(list.len(), list.peek().map_or(0, Vec::len));
        for frame in list {
            frames.push(&frame);
        }
        frames
    }

    /// Appends a frame.
    ///
    /// # Panics
    /// If it is longer than what there is memory for.
    pub fn push(&mut self, frame: &[u8]) {
        assert!(frame.len() <= self.stride, "a frame of {} bytes", frame.len());
        self.lens.push(frame.len());
        self.bytes.extend_from_slice(frame);
        self.bytes.resize(self.start + self.lens.len() * self.stride, 0);
    }

    /// Number of frames.
    pub fn len(&self) -> usize {
        self.lens.len()
    }

    /// Whether they are more than the second-level cache of a core keeps beside tables.
    pub fn are_far(&self) -> bool {
        self.bytes.len() > 256 << 10
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        (0..self.len()).map(|i| &self[i])
    }

    /// A frame, to change.
    #[cfg(test)]
    pub fn get_mut(&mut self, i: usize) -> &mut [u8] {
        &mut self.bytes[self.start + i * self.stride..][..self.lens[i]]
    }
}

impl Index<usize> for Frames {
    type Output = [u8];
    #[inline]
    fn index(&self, i: usize) -> &[u8] {
        &self.bytes[self.start + i * self.stride..][..self.lens[i]]
    }
}

/// An address and a port.
pub type End = (Ipv4Addr, u16);

/// A UDP datagram in a frame of `len` bytes, with a random payload.
pub fn udp(r: &mut Random, src: End, dst: End, len: usize) -> Vec<u8> {
    let payload: Vec<u8> = (HEADERS..len).map(|_| r.below(256) as u8).collect();
    udp4(src, dst, &payload)
}

/// UDP frames of `len` bytes in a random order, always the same: `ends` says for number I from where to where.
pub fn udp_frames(n: usize, len: usize, ends: impl Fn(&mut Random, usize) -> (End, End)) -> Frames {
    let mut r = Random::new(0x5eed);
    let order = r.permutation(n);
    Frames::of(order.into_iter().map(|i| {
        let (src, dst) = ends(&mut r, i as usize);
        udp(&mut r, src, dst, len)
    }))
}

/// A random address of 10.0.0.0/8 with a random port.
pub fn random_source(r: &mut Random) -> End {
    let [a, b, c, _] = (r.below(1 << 32) as u32).to_be_bytes();
    (Ipv4Addr::new(10, a, b, c), 1024 + r.below(60_000) as u16)
}

/// Random numbers (xorshift64*, Vigna 2014) from a fixed seed.
pub struct Random(u64);

impl Random {
    /// The numbers of a seed.
    pub fn new(seed: u64) -> Random {
        Random(seed.max(1))
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    /// From 0 to `n` - 1.
    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// From 0 to 1, without 1.
    fn unit(&mut self) -> f64 {
        self.next() as f64 / (1_u64 << 48) as f64
    }

    /// One of a list.
    pub fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as u64) as usize]
    }

    /// The numbers 0 to `n` - 1 in some order.
    pub fn permutation(&mut self, n: usize) -> Vec<u32> {
        let mut list: Vec<u32> = (0..n as u32).collect();
        for i in (1..n).rev() {
            list.swap(i, self.below(i as u64 + 1) as usize);
        }
        list
    }
}

/// How popular the things are that packets go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Popularity {
    /// All alike.
    Uniform,
    /// The one of rank R is chosen with a probability proportional to R to the power of -1.1.
    Zipf,
}

impl Popularity {
    /// Which of `things` each of `n` packets goes to. If all are alike, each thing has as many packets as any other,
    /// or one more.
    pub fn choose(self, n: usize, things: usize) -> Vec<u32> {
        let mut r = Random::new(0xca5e);
        match self {
            Popularity::Uniform => {
                let order = r.permutation(n);
                order.into_iter().map(|i| i % things as u32).collect()
            }
            Popularity::Zipf => {
                let by_rank = r.permutation(things);
                let mut sum = 0.0;
                let weights = (1..=things).map(|rank| {
                    sum += (rank as f64).powf(-1.1);
                    sum
                });
                let cumulated: Vec<f64> = weights.collect();
                let choose = |_| {
                    let at = r.unit() * sum;
                    by_rank[cumulated.partition_point(|c| *c <= at).min(things - 1)]
                };
                (0..n).map(choose).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_keep_their_lengths_and_start_on_cache_lines() {
        let frames = Frames::of([vec![1; 100], vec![2; 64], vec![], vec![3; 7]].into_iter());
        assert_eq!(frames.iter().map(<[u8]>::len).collect::<Vec<_>>(), [100, 64, 0, 7]);
        assert_eq!((&frames[1], &frames[3]), (&[2; 64][..], &[3; 7][..]));
        assert!(frames.iter().all(|f| f.as_ptr().align_offset(LINE) == 0));
    }

    #[test]
    fn popularity_is_even_or_follows_zipf() {
        let count = |p: Popularity, n, things| {
            let mut counts = vec![0; things];
            p.choose(n, things).iter().for_each(|&i| counts[i as usize] += 1);
            counts.sort_by_key(|&c| std::cmp::Reverse(c));
            counts
        };
        assert_eq!(count(Popularity::Uniform, 1000, 10), [100; 10]);
        let zipf = count(Popularity::Zipf, 100_000, 1000);
        // 1 / (the sum of r^-1.1 for r of 1 to 1000) is 0.179; rank 2 has 2^-1.1 of that.
        assert!((17_000..18_800).contains(&zipf[0]) && (7_900..8_900).contains(&zipf[1]), "{:?}", &zipf[..4]);
    }
}
