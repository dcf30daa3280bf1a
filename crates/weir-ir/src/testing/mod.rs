//! Random programs and packets, for tests that hold two executions of the IR against each other.
//!
//! Programs are written with the builder, by choices that a [`Tape`] of bytes makes, so that any source of bytes will
//! do: a seed, proptest, a fuzzer. Every program passes the checker, and all operations and ends of the IR occur. A
//! [`Case`] is a linked graph and some packets for it:
//!
//! ```
//! use weir_ir::testing::Case;
//! for seed in 0..10 {
//!     let case = Case::of_seed(seed);
//!     weir_ir::check(&case.program).unwrap();
//!     assert!(!case.packets.is_empty());
//! }
//! ```

mod generate;
mod tables;

use std::cell::Cell;

use weir_packet::{Layer, Packet};

use crate::program::EntryKind;
use crate::{Program, Wire, link, retain_entries};

pub use generate::element;

/// A row of choices. When it is used up, every choice is the first one, which ends things.
#[derive(Debug)]
pub struct Tape<'a> {
    bytes: &'a [u8],
    at: Cell<usize>,
}

impl<'a> Tape<'a> {
    /// A tape over these bytes.
    pub fn new(bytes: &'a [u8]) -> Tape<'a> {
        Tape { bytes, at: Cell::new(0) }
    }

    /// A number below `n`.
    pub fn pick(&self, n: usize) -> usize {
        let at = self.at.replace(self.at.get() + 1);
        usize::from(self.bytes.get(at).copied().unwrap_or(0)) % n
    }

    /// One of a list.
    pub fn of<T: Copy>(&self, list: &[T]) -> T {
        list[self.pick(list.len())]
    }
}

/// A packet to start with: bytes, and where the marks are (beyond the end: not set).
#[derive(Debug, Clone)]
pub struct Start {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Where the marks are, in the order of [`Layer::ALL`], the start of the packet left out.
    pub marks: [u8; 4],
    /// What the annotations are made from.
    pub anno: u8,
}

impl Start {
    /// The packet; `None` if it has more bytes than any packet.
    pub fn packet(&self) -> Option<Packet> {
        let mut p = Packet::from_bytes(&self.bytes).ok()?;
        for (layer, &at) in Layer::ALL[1..].iter().zip(&self.marks) {
            if usize::from(at) <= self.bytes.len() {
                let at = p.data() + u32::from(at);
                p.set_layer(*layer, Some(at));
            }
        }
        p.anno = std::array::from_fn(|i| self.anno.wrapping_mul(i as u8 + 3));
        p.timestamp = 1000;
        Some(p)
    }
}

/// Where the outputs of the elements lead.
pub fn wires(tape: &Tape<'_>, programs: &[Program]) -> Vec<Vec<Option<Wire>>> {
    let n = programs.len();
    (0..n)
        .map(|e| {
            let outputs = programs[e].outputs;
            (0..outputs)
                .map(|port| {
                    let next = Wire::Input { element: (e + 1) % n, port: 0 };
                    match tape.pick(6) {
                        _ if port + 1 == outputs => Some(Wire::Exit(e as u32)),
                        0 => Some(Wire::Exit(0)),
                        1 => None,
                        2 => Some(Wire::Input { element: tape.pick(n), port: 0 }),
                        _ if e + 1 == n => Some(Wire::Exit(1)),
                        _ => Some(next),
                    }
                })
                .collect()
        })
        .collect()
}

/// A linked graph and packets for it.
#[derive(Debug, Clone)]
pub struct Case {
    /// The program, linked and not optimised. Its packet entries are those of input 0 of the elements.
    pub program: Program,
    /// Packets for any of its packet entries.
    pub packets: Vec<Start>,
}

impl Case {
    /// The case of a number; each has its own.
    pub fn of_seed(seed: u64) -> Case {
        let mut state = seed;
        let mut bytes = |n: usize| -> Vec<u8> {
            let words = (0..n.div_ceil(8)).map(|_| splitmix(&mut state).to_le_bytes());
            words.flatten().take(n).collect()
        };
        let shape = bytes(4);
        let lengths = bytes(3);
        let choices: Vec<Vec<u8>> =
            (0..1 + usize::from(shape[0]) % 3).map(|i| bytes(40 + usize::from(lengths[i]))).collect();
        let program = graph(&choices, &bytes(24), shape[1] % 2 == 0);
        let packets = (0..1 + shape[2] % 4).map(|i| start(&bytes(128), (shape[3] >> i) % 2 == 0)).collect();
        Case { program, packets }
    }
}

/// S. Vigna's SplitMix64.
fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ *state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// A packet from 128 bytes of choices; `small` numbers make fields that programs compare with constants alike.
fn start(choices: &[u8], small: bool) -> Start {
    let len = if choices[0].is_multiple_of(6) {
        usize::from(choices[1]) % 30
    } else {
        40 + usize::from(choices[1]) % 60
    };
    let byte = |&b: &u8| if small || b >= 0xc0 { b % 3 } else { b };
    let mark = |i: usize| if choices[i].is_multiple_of(5) { 200 } else { choices[i] % 20 };
    Start {
        bytes: choices[8..8 + len].iter().map(byte).collect(),
        marks: std::array::from_fn(|i| mark(2 + i)),
        anno: choices[6],
    }
}

/// A linked graph of one element for each list of choices, whose exit 1 is plain. With `keep_all`, packets may enter at
/// each of them; else at the first, and timers, messages and expiry stay.
///
/// # Panics
/// If there are no choices.
pub fn graph(choices: &[Vec<u8>], wiring: &[u8], keep_all: bool) -> Program {
    let programs: Vec<Program> = choices
        .iter()
        .enumerate()
        .map(|(i, bytes)| element(&Tape::new(bytes), &format!("e{i}"), 2 + i as u32 % 2))
        .collect();
    let wires = wires(&Tape::new(wiring), &programs);
    let exits = programs.len().max(2) as u32;
    let linked = link(&programs, |e, port| wires.get(e)?.get(port as usize).copied().flatten(), exits);
    let mut p = linked.expect("each element has an input 0, and no table is shared");
    p.plain_exits = vec![1];
    if !keep_all {
        retain_entries(&mut p, |e| e.owner == 0 || !matches!(e.kind, EntryKind::Packet { .. }));
    }
    p
}
