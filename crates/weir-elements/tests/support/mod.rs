//! What the differential test runs: graphs, packets, and sequences of both.

pub mod cases;
pub mod frames;
pub mod graph;
pub mod sequence;

/// Numbers that look random and are the same in each run.
pub struct Numbers(u64);

impl Numbers {
    /// Numbers that follow from a seed.
    pub fn new(seed: u64) -> Numbers {
        Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x2545_f491_4f6c_dd1d)
    }

    /// The next number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mixed = u128::from(self.0 >> 16) * 0xd6e8_feb8_6659_fd93;
        (mixed >> 32) as u32 as usize % n.max(1)
    }

    /// True once in `n` times.
    pub fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// One of some things.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}
