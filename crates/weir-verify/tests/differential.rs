//! The symbolic execution and the interpreter say the same.

mod common;

use proptest::prelude::*;
use weir_ir::Program;
use weir_ir::program::EntryKind;
use weir_packet::Packet;
use weir_verify::testing::{Case, assert_covered, assert_replayed};
use weir_verify::{Limits, SymbolicInput};

/// A run of a program: which entry, bytes (or numbers) for it, time since the one before, random numbers.
type Step = (prop::sample::Index, Vec<u8>, u64, Vec<u32>);

fn steps(bytes: impl Strategy<Value = Vec<u8>>) -> impl Strategy<Value = Vec<Step>> {
    let randoms = prop::collection::vec(0u32..4, 0..3);
    let gap = prop_oneof![Just(0u64), 0..3_000u64, 0..2_000_000_000u64];
    prop::collection::vec((any::<prop::sample::Index>(), bytes, gap, randoms), 1..12)
}

fn few_values() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(
        prop_oneof![0u8..4, Just(9), Just(0x0a), Just(0x2a), Just(0xff), any::<u8>()],
        0..16,
    )
}

fn ip_packet() -> impl Strategy<Value = Vec<u8>> {
    (prop::collection::vec(any::<u8>(), 20..80), 4u8..9, 0u8..3, 0u16..100, any::<bool>()).prop_map(
        |(mut bytes, words, ttl, len, right)| {
            bytes[0] = 0x40 | words;
            bytes[8] = ttl;
            bytes[2..4].copy_from_slice(&len.to_be_bytes());
            let header = (usize::from(words) * 4).min(bytes.len());
            if right {
                bytes[10..12].fill(0);
                let sum = !weir_ir::interp::checksum(&bytes[..header]);
                bytes[10..12].copy_from_slice(&sum.to_be_bytes());
            }
            bytes
        },
    )
}

fn cases(p: &Program, steps: &[Step]) -> Vec<Case> {
    let mut now = 0;
    let entries: Vec<_> = p.entries.iter().filter(|e| !matches!(e.kind, EntryKind::Expire { .. })).collect();
    steps
        .iter()
        .map(|(which, bytes, gap, randoms)| {
            now += gap;
            let e = which.get(&entries);
            let takes_packet = matches!(e.kind, EntryKind::Packet { .. });
            let number = bytes.iter().take(4).fold(0, |v, b| v * 16 + u128::from(*b));
            let params = p.block(e.block).params.len();
            Case {
                entry: e.block,
                packet: takes_packet.then(|| Packet::from_bytes(bytes).unwrap()),
                args: if takes_packet { Vec::new() } else { vec![number; params] },
                now,
                randoms: randoms.clone(),
            }
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn each_run_takes_a_path(steps in steps(few_values())) {
        for (name, p) in common::all() {
            let cases = cases(&p, &steps);
            let n = cases.len();
            let s = assert_covered(&p, cases);
            prop_assert_eq!((s.open, s.incomplete), (0, None), "{}: {:?} of {}", name, s, n);
            prop_assert!(s.agreed >= n);
        }
    }

    #[test]
    fn each_ip_packet_takes_a_path(steps in steps(ip_packet())) {
        for p in [common::dec_ttl(), common::check_header(), common::reshape()] {
            let s = assert_covered(&p, cases(&p, &steps));
            prop_assert_eq!((s.open, s.agreed, s.paths), (0, steps.len(), steps.len()), "a run takes just one path");
        }
    }
}

#[test]
fn solved_paths_replay() {
    for (name, p) in common::all() {
        for e in &p.entries {
            let input = SymbolicInput { pulled: 0..=20, ..SymbolicInput::default() };
            let s = assert_replayed(&p, e.block, &input, Limits { paths: 1500, ..Limits::default() });
            println!("{name} {:?}: {s:?}", e.kind);
            assert!(s.paths > 0, "{name} {:?}: {s:?}", e.kind);
            assert!(s.agreed * 10 >= s.paths * 7, "{name} {:?}: most paths are solved: {s:?}", e.kind);
        }
    }
}
