//! Random programs side by side: behind each output of a switch the same one, with other constants, or nearly so.

use weir_ir::program::{EntryKind, Op};
use weir_ir::testing::{Start, Tape, element};
use weir_ir::{Builder, Layer, Program, Reason, Width::*, Wire, check, link, retain_entries};

use crate::hold::{Random, Rounds};

/// How many programs there are.
pub const PROGRAMS: u64 = 200;
const PACKETS: usize = 60;
const LANES: usize = 4;

/// A program, and what happens to it.
pub fn program(seed: u64) -> (Program, Rounds) {
    let mut random = Random(seed ^ 0x1a9e5);
    let length = random.pick(&[4, 8, 16, 40, 90]);
    let choices: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
    let mut programs = vec![switch()];
    for lane in 0..LANES {
        let mut own = choices.clone();
        // Now and then a lane does something else from some place on.
        if random.below(12) == 0 {
            let at = random.below(length);
            own[at] = random.next() as u8;
        }
        let copy = element(&Tape::new(&own), &format!("lane{lane}"), 3);
        programs.push(with_other_constants(copy, &mut random));
    }
    let common: Vec<u8> = (0..20).map(|_| random.next() as u8).collect();
    programs.push(element(&Tape::new(&common), "common", 2));
    let last = programs.len() - 1;
    let ways = random.pick(&[[0, 1, 2], [1, 0, 2], [0, 3, 1], [2, 1, 0]]);
    let wire = |from: usize, port: u32| match from {
        0 => Some(Wire::Input { element: 1 + port as usize, port: 0 }),
        _ if from == last => Some(Wire::Exit(LANES as u32)),
        _ => match ways[port as usize] {
            0 => Some(Wire::Exit(from as u32 - 1)),
            1 => Some(Wire::Input { element: last, port: 0 }),
            // Round the lanes: a way leads from one into the next.
            2 if from + 1 < last => Some(Wire::Input { element: from + 1, port: 0 }),
            _ => None,
        },
    };
    let mut program = link(&programs, wire, LANES as u32 + 1).unwrap();
    retain_entries(&mut program, |e| e.owner == 0 || !matches!(e.kind, EntryKind::Packet { .. }));
    let packets = (0..PACKETS).map(|_| {
        let mut bytes: Vec<u8> = (0..30 + random.below(40)).map(|_| random.below(4) as u8).collect();
        bytes[0] = random.below(LANES + 1) as u8;
        Start {
            bytes,
            marks: std::array::from_fn(|_| random.pick(&[0, 4, 14, 20])),
            anno: random.next() as u8,
        }
    });
    let packets = packets.collect();
    let rounds = Rounds::new(&program, packets, &mut random);
    (program, rounds)
}

/// A lane for each of the least numbers of the first byte; others are dropped.
fn switch() -> Program {
    let mut b = Builder::new("switch", 1, LANES as u32);
    b.input(0, |b| {
        b.require(Layer::Data, 1, Reason::TRUNCATED);
        let v = b.load(W8, Layer::Data, 0);
        let cases: Vec<u128> = (0..LANES as u128).collect();
        b.switch(v, &cases, |b, case| match case {
            Some(lane) => b.emit(lane as u32),
            None => b.drop(Reason::NO_MATCH),
        });
    });
    b.finish()
}

/// Changes constants as far as the program stays allowed.
fn with_other_constants(mut other: Program, random: &mut Random) -> Program {
    for b in 0..other.blocks.len() {
        for i in 0..other.blocks[b].ops.len() {
            let Op::Const { dst, value } = other.blocks[b].ops[i] else { continue };
            if random.below(3) > 0 {
                continue;
            }
            let value = (value ^ random.pick(&[1, 2, 0x81_u128])) & other.width(dst).max();
            let before = std::mem::replace(&mut other.blocks[b].ops[i], Op::Const { dst, value });
            if check(&other).is_err() {
                other.blocks[b].ops[i] = before;
            }
        }
    }
    other
}
