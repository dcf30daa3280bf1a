//! The passes keep what a program means: random programs, linked to random graphs with cycles, do the same before
//! and after each pass, on random packets, and are accepted by the checker.

#[path = "passes/chain.rs"]
mod chain;
#[path = "passes/world.rs"]
mod world;

use proptest::prelude::*;
use weir_ir::program::{End, Op};
use weir_ir::testing::{Case, Start, graph};
use weir_ir::{PASSES, Program, check, optimize, parse, stages};
use world::observe;

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
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

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
        prop_assert!(best.blocks.len() <= program.blocks.len());
        prop_assert!(ops(&best) <= ops(&program) + 4, "{} operations became {}", ops(&program), ops(&best));
    }
}

/// All operations and ends occur, and all programs pass the checker.
#[test]
fn random_cases_are_sound_and_cover_the_whole_language() {
    let mut seen = std::collections::HashSet::new();
    for seed in 0..400 {
        let case = Case::of_seed(seed);
        assert_eq!(check(&case.program), Ok(()), "seed {seed}");
        for block in &case.program.blocks {
            seen.extend(block.ops.iter().map(|op| format!("{:?}", std::mem::discriminant(op))));
            seen.insert(format!("end {:?}", std::mem::discriminant(&block.end)));
        }
    }
    // `emit` becomes `exit` or `enter` when a graph is linked.
    assert_eq!(seen.len(), 38 + 18, "{seen:?}");
}

/// What is known behind a `require` that is never met is contradictory: the packet was made shorter.
#[test]
fn where_no_packet_comes_to_bounds_stay_proved() {
    let text = "element e0
ports 1 -> 1
entry packet 0 -> b0 of e0

b0 of e0:
  require data 16 ok b1 fail b10

b1 of e0:
  mark net = data+0
  v0:32 = 1
  trim v0
  require net 46 ok b2 fail b10

b2 of e0:
  v1:8 = load net+40
  v2:32 = resize v1
  v3:32 = 31
  v4:32 = and v2, v3
  trim v4
  require net 2 ok b5 fail b3

b3 of e0:
  require data 2 ok b4 fail b10

b4 of e0:
  mark net = data+2
  jump b5

b5 of e0:
  require net 2 ok b6 fail b10

b6 of e0:
  require cursor 30 ok b9 fail b7

b7 of e0:
  require data 2 ok b8 fail b10

b8 of e0:
  mark cursor = data+2
  jump b9

b9 of e0:
  exit 0

b10 of e0:
  drop Truncated
";
    let program = parse(text).unwrap();
    assert_eq!(check(&program), Ok(()));
    for (name, p) in stages(program) {
        assert_eq!(check(&p), Ok(()), "after {name}:\n{p}");
    }
}

fn ops(p: &Program) -> usize {
    p.blocks.iter().map(|b| b.ops.len()).sum()
}

fn count(p: &Program, what: impl Fn(&Op) -> bool) -> usize {
    p.blocks.iter().flat_map(|b| &b.ops).filter(|op| what(op)).count()
}

/// Compares with a file, or writes it if `BLESS` is set.
fn golden(path: &str, found: &str) {
    let path = format!("{}/tests/passes/cases/{path}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, found).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(found, expected, "{path} is not what the passes give; if it should be, run with BLESS=1");
}

/// Packets whose first four words are any of those that ones' complement sums treat in a special way.
fn extreme_words() -> Vec<Start> {
    let word = |n: u32| [[0, 0], [0, 1], [0xff, 0xfe], [0xff, 0xff]][n as usize % 4];
    (0..256)
        .map(|n| {
            let mut bytes = [word(n), word(n >> 2), word(n >> 4), word(n >> 6)].concat();
            bytes.resize(64, n as u8);
            Start { bytes, marks: [0, 14, 34, 200], anno: n as u8 }
        })
        .collect()
}

/// Each file starts with the pass that it is for: `; pass NAME`.
#[test]
fn each_pass_does_what_its_cases_say() {
    let dir = format!("{}/tests/passes/cases", env!("CARGO_MANIFEST_DIR"));
    let mut seen = 0;
    for file in std::fs::read_dir(dir).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_none_or(|e| e != "ir") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let name = text.strip_prefix("; pass ").unwrap().split([':', '\n']).next().unwrap();
        let (_, pass) = PASSES.iter().find(|(n, _)| *n == name).unwrap();
        let mut p = parse(&text).unwrap_or_else(|e| panic!("{}: {e:?}", path.display()));
        assert_eq!(check(&p), Ok(()), "{}", path.display());
        let expected = observe(&p, &extreme_words());
        pass(&mut p);
        assert_eq!(check(&p), Ok(()), "{}", path.display());
        assert_eq!(observe(&p, &extreme_words()), expected, "{}", path.display());
        golden(path.with_extension("out").file_name().unwrap().to_str().unwrap(), &p.to_string());
        seen += 1;
    }
    assert!(seen >= 11);
}

#[test]
fn a_router_has_one_check_and_one_checksum_update() {
    let before = chain::router();
    let after = optimize(before.clone());
    golden("router.txt", &after.to_string());
    assert_eq!(check(&after), Ok(()));
    let requires = |p: &Program| p.blocks.iter().filter(|b| matches!(b.end, End::Require { .. })).count();
    assert_eq!((requires(&before), requires(&after)), (6, 3));
    let loads = |p: &Program| count(p, |op| matches!(op, Op::Load { .. }));
    assert_eq!((loads(&before), loads(&after)), (7, 5));
    println!("router: {} blocks, {} operations", before.blocks.len(), ops(&before));
    println!("    to: {} blocks, {} operations", after.blocks.len(), ops(&after));
    let before = chain::two_routers();
    let after = optimize(before.clone());
    println!("two routers: {} blocks, {} operations", before.blocks.len(), ops(&before));
    println!("         to: {} blocks, {} operations", after.blocks.len(), ops(&after));
}

#[test]
fn a_classifier_of_1000_rules_loads_each_field_once() {
    let before = chain::classifier(1000);
    assert!(before.blocks.len() > 5000);
    let time = std::time::Instant::now();
    let after = optimize(before.clone());
    println!("classifier: {} blocks, {} operations", before.blocks.len(), ops(&before));
    println!("        to: {} blocks, {} operations in {:?}", after.blocks.len(), ops(&after), time.elapsed());
    assert_eq!(check(&after), Ok(()));
    assert_eq!(count(&after, |op| matches!(op, Op::Load { layer: weir_ir::Layer::Data, off: 9, .. })), 1);
    assert_eq!(after.blocks.iter().filter(|b| matches!(b.end, End::Require { .. })).count(), 1);
}
