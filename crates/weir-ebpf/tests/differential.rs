//! Every element that is compiled, alone and in graphs: the interpreter and the kernel agree on what it does, to the last byte.
//!
//! The kernel runs programs without any interface (`BPF_PROG_TEST_RUN`). It has to be allowed to: these tests are for root.

#[path = "../../weir-elements/tests/support/cases.rs"]
mod cases;
#[path = "../../weir-elements/tests/corpus/mod.rs"]
mod corpus;
mod support;

use std::collections::{BTreeMap, BTreeSet};

use support::{Trial, graph};
use weir_ebpf::{Hook, Options, compile};

/// All configurations.
fn all() -> Vec<String> {
    let examples = weir_elements::classes().flat_map(|c| c.info.examples).map(|e| (*e).to_owned());
    let alone = cases::ALONE.iter().map(|e| format!("Idle -> {e} -> Discard;"));
    let behind = cases::BEHIND_CHECK.iter().map(|e| format!("Idle -> CheckIPHeader -> {e} -> Discard;"));
    let framed = cases::BEHIND_CHECK
        .iter()
        .map(|e| format!("Idle -> Strip(14) -> CheckIPHeader -> {e} -> Unstrip(14) -> Discard;"));
    let graphs = cases::GRAPHS.iter().map(|g| (*g).to_owned());
    let own = support::GRAPHS.iter().map(|g| (*g).to_owned());
    examples.chain(alone).chain(behind).chain(framed).chain(graphs).chain(own).collect()
}

#[test]
fn the_kernel_and_the_interpreter_agree() {
    let frames: Vec<Vec<u8>> = corpus::corpus().into_iter().map(|(_, frame)| frame).collect();
    let (mut compiled, mut packets) = (BTreeSet::new(), 0);
    let mut refused: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let (mut reasons, mut too_complex) = (BTreeSet::new(), BTreeMap::new());
    for text in &all() {
        let g = graph::linked(text);
        for &(owner, port) in &g.points {
            let entry = g.program.packet_entry(owner, port).expect("the point is an input");
            let ways = [
                (&g.program, true, Hook::Xdp),
                (&g.fast, true, Hook::Xdp),
                (&g.fast, false, Hook::Xdp),
                (&g.program, true, Hook::Tc),
                (&g.fast, true, Hook::Tc),
            ];
            for (program, marked, hook) in ways {
                let options = Options { marked, hook, ..support::OPTIONS };
                let entry = program.packet_entry(owner, port).unwrap_or(entry);
                match compile(program, entry, &options) {
                    Ok(object) => {
                        let mut trial = match Trial::new(text, program, entry, object, options) {
                            Ok(trial) => trial,
                            Err(why) => {
                                too_complex.insert(text.clone(), why);
                                continue;
                            }
                        };
                        let seen = trial.run(&frames, if text.len() > 300 { 600 } else { 120 });
                        packets += seen.packets;
                        reasons.extend(seen.reasons);
                        compiled.extend(support::elements(program, entry).iter().map(|e| g.class_of(e)));
                    }
                    Err(why) => {
                        for r in why.0 {
                            let class = g.class_of(&r.element);
                            refused.entry(class).or_default().insert(r.cause.to_string());
                        }
                    }
                }
            }
        }
    }
    println!(
        "compiled: {compiled:?}\nrefused: {refused:#?}\n{packets} packets; dropped for {reasons:?}\ntoo complex: {too_complex:#?}"
    );
    let large: Vec<&String> = too_complex.keys().filter(|t| !t.contains("IPGWOptions")).collect();
    assert!(large.is_empty(), "the kernel's verifier follows all others: {large:?}");
    // What is to be there: so that nothing stops to be compiled unseen.
    for class in [
        "CheckIPHeader",
        "DecIPTTL",
        "Classifier",
        "StaticIPLookup",
        "Strip",
        "Counter",
        "IPFilter",
        "EtherEncap",
    ] {
        assert!(compiled.contains(class), "{class} is compiled");
    }
    for reason in ["BadHeader", "BadChecksum", "TtlExpired", "Truncated", "NoMatch", "Denied"] {
        assert!(reasons.contains(reason), "some packet is dropped for {reason}: {reasons:?}");
    }
}
