//! Where values stand: on no way through a program is one that is still used written over by another.

use weir_ir::Frame;
use weir_ir::program::{BlockId, End, Op, Program, Value};
use weir_ir::testing::Case;

/// Blocks of a way.
const STEPS: usize = 200;

/// The blocks where runs start.
fn starts(p: &Program) -> Vec<BlockId> {
    let mut all: Vec<BlockId> = p.entries.iter().map(|e| e.block).collect();
    for block in &p.blocks {
        all.extend(block.ops.iter().filter_map(|op| match op {
            Op::Fork { target, .. } | Op::Release { target, .. } => Some(target.block),
            _ => None,
        }));
        if let End::Enter { block, .. } = block.end {
            all.push(block);
        }
    }
    all
}

/// Goes a way, whose targets are chosen by numbers, and looks at each value where it is used.
fn go(p: &Program, frame: &Frame, from: BlockId, mut number: impl FnMut() -> usize) {
    let mut holds: Vec<Option<Value>> = vec![None; frame.len()];
    let mut at = from;
    for _ in 0..STEPS {
        let block = p.block(at);
        let used = |v: Value, holds: &[Option<Value>]| {
            assert_eq!(holds[frame.place(v)], Some(v), "block {} of\n{p}", at.0);
        };
        for &v in &block.params {
            holds[frame.place(v)] = Some(v);
        }
        for op in &block.ops {
            op.visit_values(|v, defined| {
                if !defined {
                    used(*v, &holds);
                }
            });
            if let Some(v) = op.dst() {
                holds[frame.place(v)] = Some(v);
            }
        }
        block.end.visit_values(|v| used(*v, &holds));
        let targets = block.end.targets();
        if targets.is_empty() {
            return;
        }
        at = targets[number() % targets.len()].block;
    }
}

#[test]
fn a_value_stands_where_it_was_put_as_long_as_it_is_used() {
    let mut shared = 0;
    for seed in 0..400_u64 {
        let p = Case::of_seed(seed).program;
        let frame = Frame::of(&p);
        shared += usize::from(frame.len() < p.types.len());
        let mut state = seed;
        for start in starts(&p) {
            for _ in 0..20 {
                go(&p, &frame, start, || {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (state >> 33) as usize
                });
            }
        }
    }
    assert!(shared > 40, "values share places in {shared} programs only");
}
