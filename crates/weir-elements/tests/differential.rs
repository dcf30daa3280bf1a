//! Every element, alone and in graphs: the interpreter, the compiler, the passes and the symbolic execution agree on
//! what it does.

mod corpus;
mod support;

use std::collections::BTreeSet;

use support::{cases, graph, sequence};
use weir_ir::Program;
use weir_jit::differential::{Seen, Step, assert_same};
use weir_verify::testing::{Case, assert_covered, assert_replayed};
use weir_verify::{Limits, SymbolicInput};

/// All configurations.
fn all() -> Vec<String> {
    let examples = weir_elements::classes().flat_map(|c| c.info.examples).map(|e| (*e).to_owned());
    let alone = cases::ALONE.iter().map(|e| format!("Idle -> {e} -> Discard;"));
    let behind = cases::BEHIND_CHECK.iter().map(|e| format!("Idle -> CheckIPHeader -> {e} -> Discard;"));
    let graphs = cases::GRAPHS.iter().map(|g| (*g).to_owned());
    examples.chain(alone).chain(behind).chain(graphs).collect()
}

/// The frames of the corpus.
fn frames() -> Vec<Vec<u8>> {
    corpus::corpus().into_iter().map(|(_, frame)| frame).collect()
}

/// A seed that other configurations do not change (FNV-1a).
fn seed_of(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |h: u64, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
        >> 8
}

/// Interpreted, compiled, optimised, and optimised and compiled: all the same.
#[test]
fn all_ways_to_run_a_graph_agree() {
    let frames = frames();
    let mut reasons = BTreeSet::new();
    for text in &all() {
        let g = graph::linked(text);
        if g.points.is_empty() {
            continue;
        }
        let whole = cases::GRAPHS.contains(&text.as_str());
        let discards: Vec<u32> =
            (0..).zip(&g.classes).filter(|(_, c)| *c == "Discard").map(|(e, _)| e).collect();
        let mut ends = BTreeSet::new();
        // Some ways need luck: a whole graph has more than one try.
        for seed in (0..4).map(|n| seed_of(text) + n) {
            let steps = sequence::steps(&g, &frames, seed, if text.len() > 300 { 6000 } else { 2000 });
            let (wanted, tables) = sequence::interpret(&g.program, seed, &steps);
            assert_same(&g.program, seed, &steps);
            let fast: Vec<Vec<Seen>> = assert_same(&g.fast, seed, &steps)
                .into_iter()
                .map(|s| sequence::by_owner(&g.fast, s))
                .collect();
            for (n, (fast, wanted)) in fast.iter().zip(&wanted).enumerate() {
                assert!(
                    fast == wanted,
                    "{text}\nstep {n}, {:?}: optimised {fast:#?}, as written {wanted:#?}",
                    steps[n]
                );
            }
            let (_, fast_tables) = sequence::interpret(&g.fast, seed, &steps);
            assert_eq!(fast_tables, tables, "{text}");
            for seen in wanted.into_iter().flatten() {
                if let Seen::Dropped { at, .. } = &seen {
                    ends.insert(at.0);
                }
                match seen {
                    Seen::Dropped { reason, .. } => reasons.insert(reason.to_string()),
                    Seen::Orphaned { .. } => reasons.insert("TimedOut".into()),
                    _ => false,
                };
            }
            if !whole || discards.iter().all(|e| ends.contains(e)) {
                break;
            }
        }
        let missed: Vec<&u32> = discards.iter().filter(|e| !ends.contains(e)).collect();
        assert!(missed.is_empty() || !whole, "{text}: no packet came to {missed:?}");
    }
    // The sequences reach what they are meant for.
    for reason in [
        "LoopLimit",
        "TtlExpired",
        "NotAnswered",
        "NoRoute",
        "Full",
        "NoMatch",
        "Denied",
        "BadChecksum",
        "Fragment",
        "Truncated",
        "TimedOut",
        "Consumed",
        "Discarded",
        "NotRewritable",
        "WrongPaint",
        "BadOption",
        "NeedsFragments",
        "SameNetwork",
        "Duplicate",
        "Encrypted",
        "NotSNAP",
    ] {
        assert!(reasons.contains(reason), "no packet was dropped as {reason}: {reasons:?}");
    }
}

#[test]
fn all_classes_are_run() {
    let run: BTreeSet<String> = all().iter().flat_map(|text| graph::linked(text).classes).collect();
    let missing: Vec<&str> =
        weir_elements::classes().map(|c| c.info.name).filter(|name| !run.contains(*name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// The elements of the firewall and NAT example.
const VERIFIED: &[&str] = &[
    "Idle -> c :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
     c [0] -> Discard; c [1] -> Discard; c [2] -> Discard; c [3] -> Discard;",
    "Idle -> h :: CheckIPHeader(14, BADSRC 10.255.255.255) -> Discard; h [1] -> Discard;",
    "Idle -> CheckIPHeader -> ttl :: DecIPTTL -> Discard; ttl [1] -> ICMPError(10.0.0.1, timeexceeded) -> Discard;",
    "Idle -> CheckIPHeader -> r :: StaticIPLookup(10.0.0.0/24 0, 10.0.1.0/24 10.0.0.2 1, 0/0 1);
     r [0] -> ttl :: DecIPTTL -> Discard; ttl [1] -> ICMPError(10.0.0.254, timeexceeded) -> r; r [1] -> Discard;",
    "Idle -> t :: Tee; t [0] -> Strip(14) -> j :: Counter; t [1] -> EtherMirror -> j; t [2] -> Discard; j -> Discard;",
    "Idle -> CheckIPHeader -> q :: ARPQuerier(10.0.0.1, 02:00:00:00:00:01, ENTRY_CAPACITY 3) -> Discard;
     Idle -> Classifier(12/0806 20/0002) -> [1] q;",
    "Idle -> CheckIPHeader -> rw :: IPRewriter(pattern 192.0.2.1 1024-1027 - - 0 1, drop, CAPACITY 8);
     rw [0] -> Discard; rw [1] -> Discard; Idle -> CheckIPHeader -> [1] rw;",
    "Idle -> CheckIPHeader -> l :: ConnectionLimit(1, 5 s) -> Discard; l [1] -> Discard;",
    "Idle -> CheckIPHeader -> f :: IPFilter(allow tcp dst port 80 or 443, allow icmp, deny all) -> Discard; f [1] -> Discard;",
];

/// Each run of the interpreter takes a path of the symbolic execution, and ends as the path says.
#[test]
fn runs_take_symbolic_paths() {
    let frames = frames();
    for text in all().iter().map(String::as_str).chain(VERIFIED.iter().copied()) {
        let g = graph::linked(text);
        // A sum over all bytes of a packet is a condition for each length: more paths than a test has time for.
        if g.points.is_empty() || text.contains("CRC32") {
            continue;
        }
        for (kind, program) in [("as written", &g.program), ("optimised", &g.fast)] {
            let steps = sequence::steps(&g, &frames, seed_of(text), 200);
            let cases: Vec<Case> = steps.into_iter().filter_map(|s| case(program, s)).collect();
            let n = cases.len();
            let s = assert_covered(program, cases);
            assert_eq!((s.open, s.incomplete), (0, None), "{text}, {kind}");
            assert!(s.agreed >= n, "{text}, {kind}: {s:?} of {n}");
        }
    }
}

/// A step as the comparison with the symbolic execution takes it.
fn case(p: &Program, step: Step) -> Option<Case> {
    let Step::Packet { owner, port, packet, now } = step else { return None };
    let entry = p.packet_entry(owner, port).expect("the point is an input");
    let randoms = (0..8).map(|i| weir_ir::interp::hash(1, &[i, now.into()])).collect();
    Some(Case { entry, packet: Some(packet), args: Vec::new(), now, randoms })
}

/// Paths are solved, and their solutions take them.
#[test]
fn solved_paths_replay() {
    for text in VERIFIED {
        let g = graph::linked(text);
        for &(owner, port) in &g.points {
            let entry = g.program.packet_entry(owner, port).expect("the point is an input");
            let limits = Limits { paths: 600, ..Limits::default() };
            let s = assert_replayed(&g.program, entry, &SymbolicInput::default(), limits);
            assert!(s.agreed * 6 > s.paths, "{text}, input {port}: too few paths are solved: {s:?}");
        }
    }
}
