//! Pairs of a program and a packet: interpreted, compiled, optimised, both, and in batches, each must show the same.

mod chains;
mod flows;
mod hold;
mod lanes;
mod large;

use proptest::prelude::*;
use weir_ir::testing::{Case, Start};

use hold::{Random, Rounds, Tally, hold};

/// Programs that every run checks, and the packets that each takes.
const PROGRAMS: u64 = 2000;
const PACKETS: usize = 100;
/// Pairs that a run checks at least.
const PAIRS: usize = 200_000;

#[test]
fn generated_programs_mean_the_same_everywhere() {
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get() as u64).min(PROGRAMS);
    let tally = std::thread::scope(|s| {
        let share = |n: u64| {
            move || {
                let mut tally = Tally::default();
                (n..PROGRAMS).step_by(threads as usize).for_each(|seed| generated(seed, &mut tally));
                tally
            }
        };
        let running: Vec<_> = (0..threads).map(|n| s.spawn(share(n))).collect();
        running
            .into_iter()
            .map(|t| t.join().expect("what differs was printed"))
            .fold(Tally::default(), |a, b| a.and(&b))
    });
    println!("{PROGRAMS} generated programs: {tally}");
    assert!(tally.pairs >= PAIRS, "{tally}");
    // The programs do something with the packets.
    assert!(tally.exits * 5 > tally.pairs && tally.drops * 20 > tally.pairs, "{tally}");
    assert!(tally.notices > tally.pairs && tally.orphans > 0 && tally.rows > 1000, "{tally}");
}

#[test]
fn programs_with_large_tables_mean_the_same_everywhere() {
    let mut tally = Tally::default();
    for seed in 0..large::PROGRAMS {
        let (program, rounds) = large::program(seed);
        hold(&format!("large program {seed}"), &program, &rounds, &mut tally);
    }
    println!("{} programs with large tables: {tally}", large::PROGRAMS);
    assert!(tally.pairs >= 50_000 && tally.most_rows > 8192, "{tally}");
}

#[test]
fn chains_of_arithmetic_mean_the_same_everywhere() {
    let mut tally = Tally::default();
    for seed in 0..chains::PROGRAMS {
        let (program, rounds) = chains::program(seed);
        hold(&format!("chains {seed}"), &program, &rounds, &mut tally);
    }
    println!("{} programs of arithmetic: {tally}", chains::PROGRAMS);
    assert!(tally.exits == tally.pairs && tally.notices == 40 * tally.pairs, "{tally}");
}

#[test]
fn programs_side_by_side_mean_the_same_everywhere() {
    let (mut tally, mut merged) = (Tally::default(), 0);
    for seed in 0..lanes::PROGRAMS {
        let (program, rounds) = lanes::program(seed);
        hold(&format!("lanes {seed}"), &program, &rounds, &mut tally);
        let best = weir_ir::optimize(program);
        // Blocks without code: those of lanes beside the first.
        let code = weir_jit::listing(&best).unwrap();
        let with_code: std::collections::HashSet<_> =
            code.iter().filter_map(|i| Some(i.origin?.block)).collect();
        merged += usize::from(with_code.len() * 2 < best.blocks.len());
    }
    println!("{} programs side by side, {merged} of them merged: {tally}", lanes::PROGRAMS);
    assert!(tally.exits * 5 > tally.pairs && merged * 6 > lanes::PROGRAMS as usize, "{merged}, {tally}");
}

#[test]
fn flows_mean_the_same_while_tables_change() {
    let mut tally = Tally::default();
    for seed in 0..flows::PROGRAMS {
        let (program, rounds) = flows::program(seed);
        hold(&format!("flows {seed}"), &program, &rounds, &mut tally);
    }
    println!("{} programs of flows: {tally}", flows::PROGRAMS);
    assert!(tally.exits > tally.pairs / 2 && tally.notices > 2 * tally.pairs, "{tally}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn other_programs_mean_the_same_everywhere(seed in PROGRAMS..u64::MAX) {
        generated(seed, &mut Tally::default());
    }
}

fn generated(seed: u64, tally: &mut Tally) {
    let case = Case::of_seed(seed);
    let mut random = Random(seed ^ 0x5eed);
    let mut packets: Vec<Start> = case.packets.clone();
    while packets.len() < PACKETS {
        let near = &case.packets[random.below(case.packets.len())];
        packets.push(variant(near, &mut random));
    }
    let rounds = Rounds::new(&case.program, packets, &mut random);
    hold(&format!("Case::of_seed({seed})"), &case.program, &rounds, tally);
}

/// A packet that differs a little from another one, or in everything.
fn variant(near: &Start, random: &mut Random) -> Start {
    let mut start = near.clone();
    if random.below(4) == 0 {
        start.bytes = (0..random.below(120)).map(|_| random.next() as u8).collect();
    }
    for _ in 0..random.below(6) {
        let n = start.bytes.len();
        if let Some(b) = start.bytes.get_mut(random.below(n)) {
            *b = random.pick(&[0, 1, 2, 5, 20, 0x45, 0x7f, 0x80, 0xff, 3]);
        }
    }
    if random.below(3) == 0 {
        start.marks[random.below(4)] = random.pick(&[0, 4, 14, 20, 34, 200]);
    }
    if random.below(8) == 0 {
        start.bytes.truncate(random.below(40));
    }
    start.anno = random.next() as u8;
    start
}
