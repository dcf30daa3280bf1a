//! Planted faults: each document in `faults/` breaks what it requires in a way that is easy to miss.
//!
//! Lines that begin with `- ` stand in the broken document only, lines that begin with `+ ` in the mended one only. The
//! broken one breaks every requirement in it (or, with a line `broken: inconclusive`, none of them is known to hold); in
//! the mended one every requirement holds. What is shown of either is replayed here once more, and held against the
//! requirement without the verifier's checks.
//!
//! Documents in `faults/security/` are modules at 172.100.10.1 whose owner registered 172.16.15.133. Their first line says
//! who asks for them, and which rule the broken one breaks at which stage.

mod shows;

use std::fs;
use std::path::{Path, PathBuf};

use weir_check::report::Report;
use weir_check::{Question, Status, World};
use weir_engine::Classes;
use weir_model::request::Request;
use weir_model::requirement::Requirement;
use weir_model::topology::Topology;
use weir_verify::checks::{Checker, Evidence, Module, Prefix, Requester, Rules, Verdict, secure};
use weir_verify::{Limits, testing};

/// The documents of a folder, by name.
fn documents(folder: &str) -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(folder);
    let entries = fs::read_dir(&folder).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|e| e.unwrap().path()).filter(|p| p.is_file()).collect();
    files.sort();
    let read =
        |p: &PathBuf| (p.file_name().unwrap().to_str().unwrap().to_owned(), fs::read_to_string(p).unwrap());
    files.iter().map(read).collect()
}

/// One version of a document: without its lines of the other, at the same places.
fn version(text: &str, mine: &str, other: &str) -> String {
    let line = |l: &str| match l {
        l if l.starts_with(other) => "\n".to_owned(),
        l => format!("{}\n", l.strip_prefix(mine).map_or(l.to_owned(), |rest| format!("  {rest}"))),
    };
    text.lines().map(line).collect()
}

fn world(name: &str, text: &str) -> (World, Vec<Requirement>) {
    let classes = Classes::default();
    if name.ends_with(".yaml") {
        let t = Topology::parse(text).unwrap_or_else(|e| panic!("{name}: {e}"));
        let world =
            World::of_topology(&t, &classes, |_, _| false).unwrap_or_else(|e| panic!("{name}: {e:?}"));
        return (world, t.requirements);
    }
    let r = Request::parse(text).unwrap_or_else(|e| panic!("{name}: {e}"));
    (World::of_request(&r, &classes, name).unwrap_or_else(|e| panic!("{e:#?}")), r.requirements)
}

/// Asks all requirements of a document, and holds each against what is wanted.
fn asked(name: &str, text: &str, wanted: Status) {
    let (mut world, requirements) = world(name, text);
    assert!(!requirements.is_empty(), "{name} requires nothing");
    let questions: Vec<Question> = requirements.iter().map(|r| world.question(r).unwrap()).collect();
    world.net.finish();
    for q in &questions {
        let answer = world.answer(q, Limits::of_networks());
        let report = || Report::new(name, &world, std::slice::from_ref(&answer)).to_string();
        assert_eq!(answer.status, wanted, "{}\n{text}", report());
        let exists = shows::is_about_one(&answer.requirement.goal);
        let evidence = answer.evidence.as_deref();
        assert_eq!(
            evidence.is_some(),
            wanted == if exists { Status::Holds } else { Status::Violated },
            "{}",
            report()
        );
        if let Some(e) = evidence {
            replays(&world, e);
            assert!(shows::shown(&world, &answer, e), "the packets do not show it\n{}", report());
        }
    }
}

/// What is shown happens again on tables with their declared contents.
fn replays(world: &World, e: &Evidence) {
    let again = testing::replay_declared(&world.net, e);
    let seen =
        |r: &weir_verify::Replay| -> Vec<_> { r.hops.iter().map(|h| (h.place, h.before.clone())).collect() };
    // What was lost for want of room is lost by choice of the host, which takes all that follows away.
    assert!(seen(&again).starts_with(&seen(&e.replay)));
}

#[test]
fn each_planted_fault_is_found_and_its_mended_twin_holds() {
    for (name, text) in documents("faults") {
        let open = text.contains("broken: inconclusive");
        let (broken, mended) = (version(&text, "- ", "+ "), version(&text, "+ ", "- "));
        assert_ne!(broken, mended, "{name} has no fault");
        asked(&name, &broken, if open { Status::Inconclusive } else { Status::Violated });
        asked(&name, &mended, Status::Holds);
    }
}

/// What the requester of a module is told: the rule that it breaks, and the stage that shows it.
fn told(name: &str, text: &str, who: Requester) -> String {
    let (mut world, requirements) = world(name, text);
    assert!(requirements.is_empty(), "{name}: modules are asked for their rules");
    world.net.finish();
    let gates = world.spots.iter().filter(|s| s.name == "netfront0").flat_map(|s| &s.gates);
    let mut m = Module {
        own: vec![Prefix { address: vec![172, 100, 10, 1], len: 32 }],
        approved: vec![Prefix { address: vec![172, 16, 15, 133], len: 32 }],
        ..Module::default()
    };
    for g in gates {
        m.inputs.extend(g.start.clone());
        m.outputs.extend(g.target);
    }
    m.answers = m.outputs.iter().zip(&m.inputs).map(|(o, i)| (o.place, i.clone())).collect();
    let own: Vec<_> = m.inputs.iter().map(|i| i.place).collect();
    m.sources = world.others.iter().filter(|s| !own.contains(&s.place)).cloned().collect();
    let s = secure(&mut Checker::new(&world.net, Limits::of_networks()), &m, Rules::of(who));
    match (s.verdict, s.broken) {
        (Verdict::Holds(_), None) => "safe".to_owned(),
        (Verdict::Violated(Some(e)), Some((rule, stage))) => {
            replays(&world, &e);
            format!("{rule:?}, {stage:?}")
        }
        (verdict, broken) => format!("{broken:?}: {verdict:?}"),
    }
}

#[test]
fn each_unsafe_module_is_found_and_its_mended_twin_is_safe() {
    for (name, text) in documents("faults/security") {
        let first = text.lines().next().and_then(|l| l.strip_prefix("// ")?.split_once(": "));
        let (who, wanted) =
            first.unwrap_or_else(|| panic!("{name}: the first line says who asks, and what is broken"));
        let who = match who {
            "third-party" => Requester::ThirdParty,
            "client" => Requester::Client,
            who => panic!("{name}: nothing is forbidden to '{who}'"),
        };
        assert_eq!(told(&name, &version(&text, "- ", "+ "), who), wanted, "{name}, broken");
        assert_eq!(told(&name, &version(&text, "+ ", "- "), who), "safe", "{name}, mended");
    }
}
