//! Ends of runs, as numbers.

/// The end of a run of compiled code, in the lowest bits of a number; the others are the exit or the block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// There is no packet any more: it is held, or there was none.
    Over = 0,
    /// The packet leaves.
    Exit = 1,
    /// The packet ends at the end of a block.
    Dropped = 2,
}

impl Outcome {
    pub const BITS: u32 = 2;

    /// The outcome as a number. Programs have fewer than 2^30 blocks and exits.
    pub(crate) fn with(self, number: u32) -> u32 {
        number << Outcome::BITS | self as u32
    }
}
