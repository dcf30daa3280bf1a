//! What the tests make programs and packets with.

use weir_ir::{Builder, Program};

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
