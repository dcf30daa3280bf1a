#[path = "gen_tmp.rs"]
mod generate;
use generate::{Tape, element, wires};
use proptest::prelude::*;
use weir_ir::program::EntryKind;
use weir_ir::{Layer, Program, check, link};
use weir_packet::Packet;
use weir_verify::testing::*;
use weir_verify::*;
fn graph(choices: &[Vec<u8>], wiring: &[u8]) -> Program {
    let programs: Vec<Program> = choices
        .iter()
        .enumerate()
        .map(|(i, bytes)| element(&Tape::new(bytes), &format!("e{i}"), 2 + i as u32 % 2))
        .collect();
    for p in &programs {
        check(p).unwrap();
    }
    let wires = wires(&Tape::new(wiring), &programs);
    link(&programs, |e, port| wires[e][port as usize], programs.len().max(2) as u32).unwrap()
}
fn start() -> impl Strategy<Value = (Vec<u8>, [u8; 4], u8)> {
    let bytes = prop_oneof![
        5 => prop::collection::vec(prop_oneof![any::<u8>(), 0..3_u8], 40..100),
        1 => prop::collection::vec(any::<u8>(), 0..30),
    ];
    (bytes, prop::array::uniform4(prop_oneof![4 => 0..20_u8, 1 => 200..=255_u8]), any::<u8>())
}
fn trials(p: &Program, starts: &[(Vec<u8>, [u8; 4], u8)]) -> Vec<Trial> {
    let entries: Vec<_> = p
        .entries
        .iter()
        .filter(|e| matches!(e.kind, EntryKind::Packet { .. } | EntryKind::Timer { .. }))
        .collect();
    let mut now = 0;
    starts
        .iter()
        .map(|(b, m, a)| {
            now += u64::from(*a) * 3;
            let e = entries[*a as usize % entries.len()];
            let packet = matches!(e.kind, EntryKind::Packet { .. }).then(|| {
                let mut pk = Packet::from_bytes(b).unwrap();
                let n = (a / 16) as u32 % 8;
                if (n as usize) <= pk.len() {
                    pk.pull(n);
                }
                for (i, l) in Layer::ALL[1..].iter().enumerate() {
                    let at = pk.floor() + m[i] as u32;
                    if at <= pk.end() {
                        pk.set_layer(*l, Some(at));
                    }
                }
                pk.anno.fill(*a);
                pk
            });
            Trial { entry: e.block, packet, args: vec![], now, randoms: vec![*a as u32 * 77, 3, 9] }
        })
        .collect()
}
proptest! {
  #![proptest_config(ProptestConfig{cases: std::env::var("N").ok().and_then(|n|n.parse().ok()).unwrap_or(500), failure_persistence: None, max_shrink_iters: 3000, ..ProptestConfig::default()})]
  #[test] fn covered(choices in prop::collection::vec(prop::collection::vec(any::<u8>(), 20..400), 1..4), wiring in prop::collection::vec(any::<u8>(), 24), starts in prop::collection::vec(start(),1..8)){
    let p=graph(&choices,&wiring);
    let s=assert_covered(&p, trials(&p,&starts));
    if s.open>0 { println!("open {s:?}"); }
  }
  #[test] fn replayed(choices in prop::collection::vec(prop::collection::vec(any::<u8>(), 20..120), 1..3), wiring in prop::collection::vec(any::<u8>(), 24)){
    let p=graph(&choices,&wiring);
    for e in &p.entries { let s=assert_replayed(&p,e.block,&SymbolicInput{marks:[None,Some(2),None,Some(-1)],pulled:1..=4,..Default::default()},Limits{paths:60,..Default::default()});
    println!("R {} {} {:?}",s.agreed,s.open,s.incomplete); }
  }
}
