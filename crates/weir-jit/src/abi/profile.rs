//! Where the time of a program goes, element by element: by samples, so that it costs next to nothing.
//!
//! A second version of the code, made by [`Compiled::instrument`](crate::Compiled::instrument), reads the clock where a
//! packet starts and where it passes from one element to the next. About one batch of [`EVERY`] runs through it, the
//! others through the code as it is. With ten elements and 40 cycles a probe that is two cycles a packet.

use weir_ir::program::{BlockId, End, Program};

/// One of so many batches is measured, on average and in the long run; at first more, so that short runs show
/// something. The distance is random: traffic that repeats itself must not keep step with it.
const EVERY: u64 = 256;
/// Where more cycles passed between two probes, something else ran on this core.
const INTERRUPTED: u64 = 1 << 20;
/// In the argument of a probe: the packet starts here, so it is another one than before.
pub(crate) const STARTS: u32 = 1 << 31;
/// Argument of a probe that another one follows at once: the time between is what a probe itself takes.
pub(crate) const EMPTY: u32 = STARTS - 1;

/// The time that one element took in the batches that were measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    /// Packets (and runs without one) that came into the element; a packet counts again whenever it comes back.
    pub packets: u64,
    /// Cycles of the time stamp counter on x86-64, nanoseconds elsewhere. The time of the probes is taken off.
    pub cycles: u64,
}

/// The measurements of a runner.
#[derive(Debug, Default)]
pub(crate) struct Profile {
    /// By number of the element.
    times: Vec<Time>,
    /// Between probes with nothing between them, in the batch that is measured.
    empty: Time,
    /// The least that a probe took on average in a batch. The mean of all would be more than what the probes of short
    /// elements take, beside which the processor works on.
    probe: Option<f64>,
    /// Batches that were measured.
    batches: u64,
    /// Batches until the next of them.
    left: u64,
    random: u64,
    /// The element that runs (or [`EMPTY`]), and since when.
    last: Option<u32>,
    at: u64,
    /// Whether nothing is counted.
    muted: bool,
}

/// Times between a probe and the next one.
#[derive(Debug, Clone, Copy, Default)]
struct Time {
    packets: u64,
    probes: u64,
    cycles: u64,
}

impl Profile {
    /// What the elements took, without the probes; empty if nothing was measured.
    pub fn spent(&self) -> Vec<Spent> {
        let probe = self.probe.unwrap_or(0.0);
        let spent = |t: &Time| Spent {
            packets: t.packets,
            cycles: t.cycles.saturating_sub((probe * t.probes as f64) as u64),
        };
        self.times.iter().map(spent).collect()
    }

    /// Whether the next batch is measured.
    pub fn is_next(&mut self, elements: usize) -> bool {
        if self.left > 0 {
            self.left -= 1;
            return false;
        }
        if self.batches == 0 {
            self.times.resize(elements, Time::default());
            self.random = clock() | 1;
        }
        // Xorshift (Marsaglia, "Xorshift RNGs", 2003).
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.left = (self.random % (2 * EVERY - 1)).min(self.batches);
        self.batches += 1;
        true
    }

    /// Whether what runs next only brings the code into the caches, and is not counted.
    pub fn mute(&mut self, muted: bool) {
        self.muted = muted;
    }

    /// The code was left.
    pub fn end(&mut self) {
        self.pass(None);
        let empty = std::mem::take(&mut self.empty);
        if empty.probes > 0 {
            let mean = empty.cycles as f64 / empty.probes as f64;
            self.probe = Some(self.probe.map_or(mean, |p| p.min(mean)));
        }
    }

    /// A probe: an element begins.
    #[inline(never)]
    pub fn enter(&mut self, probe: u32) {
        let owner = probe & !STARTS;
        let comes_in = probe & STARTS != 0 || self.last != Some(owner);
        self.pass(Some(owner));
        if let Some(time) = self.times.get_mut(owner as usize)
            && comes_in
            && !self.muted
        {
            time.packets += 1;
        }
    }

    fn pass(&mut self, to: Option<u32>) {
        let now = clock();
        let took = now.wrapping_sub(self.at);
        let time = match self.last {
            Some(EMPTY) => Some(&mut self.empty),
            Some(owner) => self.times.get_mut(owner as usize),
            None => None,
        };
        if let Some(time) = time
            && took < INTERRUPTED
            && !self.muted
        {
            time.probes += 1;
            time.cycles += took;
        }
        self.at = now;
        self.last = to;
    }
}

#[cfg(target_arch = "x86_64")]
fn clock() -> u64 {
    // SAFETY: every x86-64 machine has the instruction, and systems allow it to programs.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
fn clock() -> u64 {
    static START: std::sync::LazyLock<std::time::Instant> = std::sync::LazyLock::new(std::time::Instant::now);
    START.elapsed().as_nanos() as u64
}

/// For each block whether a packet may come from another element.
pub(crate) fn borders(p: &Program) -> Vec<bool> {
    let mut is_border = vec![false; p.blocks.len()];
    for block in &p.blocks {
        let mut next: Vec<BlockId> = block.end.targets().into_iter().map(|t| t.block).collect();
        if let End::Enter { block, .. } = block.end {
            next.push(block);
        }
        for id in next {
            is_border[id.0 as usize] |= p.block(id).owner != block.owner;
        }
    }
    is_border
}
