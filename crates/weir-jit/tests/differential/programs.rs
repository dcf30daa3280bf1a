//! What the tests make programs and packets with.

use weir_ir::{Builder, Program, Reason};
use weir_jit::differential::Seen;

/// A program with one input, so many outputs and one event.
pub fn one(outputs: u32, body: impl FnOnce(&mut Builder, u32)) -> Program {
    let mut b = Builder::new("Test", 1, outputs);
    let event = b.event("seen");
    b.input(0, |b| body(b, event));
    b.finish()
}

/// Bytes that differ from place to place.
pub fn frame(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 251 + 1) as u8).collect()
}

/// How many packets left.
pub fn exits(seen: &[Vec<Seen>]) -> usize {
    seen.iter().flatten().filter(|s| matches!(s, Seen::Exit { .. })).count()
}

/// How many packets ended for this reason.
pub fn drops(seen: &[Vec<Seen>], reason: &Reason) -> usize {
    seen.iter().flatten().filter(|s| matches!(s, Seen::Dropped { reason: r, .. } if r == reason)).count()
}
