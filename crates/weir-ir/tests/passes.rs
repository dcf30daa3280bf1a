//! The passes keep what a program means: random programs, linked to random graphs with cycles, do the same before
//! and after each pass, on random packets, and are accepted by the checker.

#[path = "passes/generate.rs"]
mod generate;
#[path = "passes/world.rs"]
mod world;

use generate::{Tape, element, wires};
use proptest::prelude::*;
use weir_ir::program::EntryKind;
use weir_ir::{PASSES, Program, check, link, optimize, retain_entries, stages};
use world::{Start, observe};

/// A graph of one to four elements. The choices decide everything about it.
fn graph(choices: &[Vec<u8>], wiring: &[u8], keep_all: bool) -> Program {
    let programs: Vec<Program> = choices
        .iter()
        .enumerate()
        .map(|(i, bytes)| element(&Tape::new(bytes), &format!("e{i}"), 2 + i as u32 % 2))
        .collect();
    for p in &programs {
        check(p).unwrap_or_else(|e| panic!("the generator writes sound programs: {} in\n{p:#?}", e[0]));
    }
    let wires = wires(&Tape::new(wiring), &programs);
    let mut p = link(&programs, |e, port| wires[e][port as usize], programs.len().max(2) as u32).unwrap();
    if !keep_all {
        retain_entries(&mut p, |e| e.owner == 0 || !matches!(e.kind, EntryKind::Packet { .. }));
    }
    p
}

fn start() -> impl Strategy<Value = Start> {
    let bytes = prop_oneof![
        5 => prop::collection::vec(prop_oneof![any::<u8>(), 0..3_u8], 40..100),
        1 => prop::collection::vec(any::<u8>(), 0..30),
    ];
    (bytes, prop::array::uniform4(prop_oneof![4 => 0..20_u8, 1 => 200..=255_u8]), any::<u8>())
        .prop_map(|(bytes, marks, anno)| Start { bytes, marks, anno })
}

fn choices() -> impl Strategy<Value = Vec<Vec<u8>>> {
    prop::collection::vec(prop::collection::vec(any::<u8>(), 20..400), 1..4)
}

fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(300)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn the_passes_keep_the_meaning(
        choices in choices(),
        wiring in prop::collection::vec(any::<u8>(), 24),
        keep_all in any::<bool>(),
        packets in prop::collection::vec(start(), 1..5),
    ) {
        let program = graph(&choices, &wiring, keep_all);
        prop_assert_eq!(check(&program), Ok(()));
        let expected = observe(&program, &packets);
        // In the order in which they run, and each one on the program as it was.
        let single = PASSES.iter().map(|(name, pass)| {
            let mut p = program.clone();
            pass(&mut p);
            (*name, p)
        });
        for (name, p) in stages(program.clone()).into_iter().chain(single) {
            prop_assert!(check(&p).is_ok(), "after {}: {:?}\n{:#?}", name, check(&p), p);
            let found = observe(&p, &packets);
            prop_assert_eq!(&found, &expected, "after {}: {:#?}", name, p);
        }
        let best = optimize(program.clone());
        let ops = |p: &Program| p.blocks.iter().map(|b| b.ops.len()).sum::<usize>();
        prop_assert!(best.blocks.len() <= program.blocks.len());
        prop_assert!(ops(&best) <= ops(&program) + 4, "{} operations became {}", ops(&program), ops(&best));
    }
}
