//! Where the values of a program stand while it runs.

use crate::flow::{Flow, Step};
use crate::program::{Op, Program, Value};

/// A program with so few values has a place for each of them.
const FEW: usize = 128;

/// Numbers of the places in which values stand, so that all which a block may use stand in different ones. A value can be
/// used where its block dominates, so blocks of which neither dominates the other share places: of a wide decision tree
/// only one branch takes space.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Frame {
    /// By value; empty: each value stands at its own number.
    places: Vec<u32>,
    len: usize,
}

impl Frame {
    /// The places of a checked program's values.
    pub fn of(p: &Program) -> Frame {
        let n = p.types.len();
        if n <= FEW { Frame { places: Vec::new(), len: n } } else { Frame::by_tree(p) }
    }

    fn by_tree(p: &Program) -> Frame {
        let mut frame = Frame { places: vec![0; p.types.len()], len: 0 };
        // The first free place, at the block and at those that dominate it.
        let mut free = vec![0];
        for step in Flow::of(p).walk() {
            let Step::Enter(b) = step else {
                free.pop();
                continue;
            };
            let mut next = free.last().copied().unwrap_or(0);
            let block = &p.blocks[b];
            for v in block.params.iter().copied().chain(block.ops.iter().filter_map(Op::dst)) {
                frame.places[v.0 as usize] = next;
                next += 1;
            }
            frame.len = frame.len.max(next as usize);
            free.push(next);
        }
        frame
    }

    /// Where a value stands.
    pub fn place(&self, v: Value) -> usize {
        self.places.get(v.0 as usize).copied().unwrap_or(v.0) as usize
    }

    /// Number of places.
    #[expect(clippy::len_without_is_empty, reason = "it is not asked for")]
    pub fn len(&self) -> usize {
        self.len
    }
}
