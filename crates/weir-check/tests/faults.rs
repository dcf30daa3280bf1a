//! Planted faults: each document in `faults/` breaks what it requires in a way that is easy to miss.
//!
//! Lines that begin with `- ` stand in the broken document only, lines that begin with `+ ` in the repaired one only. The
//! broken one breaks every requirement in it (or, with a line `broken: inconclusive`, none of them is known to hold); in
//! the repaired one every requirement holds. What is shown of either is replayed here once more, and held against the
//! requirement without the verifier's checks.
//!
//! Documents in `faults/security/` are modules at 172.100.10.1 whose owner registered 172.16.15.133. Their first line says
//! who asks for them, and which rule the broken one breaks at which stage.

mod shows;

use std::fs;
use std::path::{Path, PathBuf};

use weir_check::report::Report;
use weir_check::{Asked, Modules, Party, Question, Status, World};
use weir_model::request::Request;
use weir_model::requirement::Requirement;
use weir_plan::Classes;
use weir_topology::{Policy, Requester, Topology};
use weir_verify::checks::Evidence;
use weir_verify::{Hop, Limits};

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
        let exists = shows::is_about_one(&q.requirement.goal);
        let evidence = answer.evidence.as_deref();
        assert_eq!(
            evidence.is_some(),
            wanted == if exists { Status::Holds } else { Status::Violated },
            "{}",
            report()
        );
        if let Some(e) = evidence {
            replays(&world, e);
            assert!(shows::shown(&world, &q.requirement.goal, e), "the packets do not show it\n{}", report());
        }
    }
}

/// What is shown happens again on tables with their declared contents. It may leave out what comes later: behind what has
/// no space, by choice of the host, or where a packet has left a module.
fn replays(world: &World, e: &Evidence) {
    let again = e.rerun(&world.net).expect("the packets are not too long");
    let mut hops = again.hops.iter();
    let happens = |h: &Hop| hops.any(|a| (a.place, &a.before) == (h.place, &h.before));
    assert!(e.replay.hops.iter().all(happens), "{:#?}", e.replay);
}

#[test]
fn each_planted_fault_is_found_and_its_repaired_twin_holds() {
    for (name, text) in documents("faults") {
        let open = text.contains("broken: inconclusive");
        let (broken, repaired) = (version(&text, "- ", "+ "), version(&text, "+ ", "- "));
        assert_ne!(broken, repaired, "{name} has no fault");
        asked(&name, &broken, if open { Status::Inconclusive } else { Status::Violated });
        asked(&name, &repaired, Status::Holds);
    }
}

/// Where modules are placed: the first address is 172.100.10.1.
const PLATFORM: &str = "
boxes:
  internet: {kind: internet}
  client: {kind: client, owns: 172.16.15.133}
  platform: {kind: platform, owns: 172.100.10.0/29}
  hub: {kind: switch}
links: [hub:a - internet, hub:b - platform, hub:c - client]
";

/// What the requester of a module is answer: the rule that it breaks, and the stage that shows it.
fn answer(name: &str, text: &str, role: Requester) -> String {
    let (topology, request) = (Topology::parse(PLATFORM).unwrap(), Request::parse(text).unwrap());
    assert!(request.requirements.is_empty(), "{name}: modules are asked for their rules");
    let classes = Classes::default();
    let modules = Modules::new(&classes, &request, name).unwrap();
    let network = World::of_topology(&topology, &classes, |_, _| false).unwrap();
    let world = network.with_modules(&modules, "platform", &Default::default()).unwrap();
    let registered = vec!["172.16.15.133".parse().unwrap()];
    let party = Party { role, registered, modules: Vec::new() };
    let [answer] = &world.security(&party, &Policy::default(), Limits::of_networks())[..] else {
        panic!("{name} is one module")
    };
    let Asked::Security { broken, .. } = &answer.asked else { panic!("its rules were asked for") };
    if let Some(e) = &answer.evidence {
        replays(&world, e);
    }
    match (answer.status, broken) {
        (Status::Holds, None) => "safe".to_owned(),
        (Status::Violated, Some((rule, stage))) if answer.evidence.is_some() => {
            format!("{rule:?}, {stage:?}")
        }
        (status, broken) => format!("{status}: {broken:?}, {:?}", answer.doubt),
    }
}

#[test]
fn each_unsafe_module_is_found_and_its_repaired_twin_is_safe() {
    for (name, text) in documents("faults/security") {
        let first = text.lines().next().and_then(|l| l.strip_prefix("// ")?.split_once(": "));
        let (who, wanted) =
            first.unwrap_or_else(|| panic!("{name}: the first line says who asks, and what is broken"));
        let who = match who {
            "third-party" => Requester::ThirdParty,
            "client" => Requester::Client,
            who => panic!("{name}: nothing is forbidden to '{who}'"),
        };
        assert_eq!(answer(&name, &version(&text, "- ", "+ "), who), wanted, "{name}, broken");
        assert_eq!(answer(&name, &version(&text, "+ ", "- "), who), "safe", "{name}, repaired");
    }
}

/// What leaves by another module that the one is linked with.
#[test]
fn linked_modules_are_proved_together() {
    let verdicts = |second: &str, registered: &[&str]| -> Vec<Status> {
        let text =
            format!("a:\nFromNetfront(x) -> CheckIPHeader -> ToNetfront(y);\nb:\n{second}\na:y -> b:z\n");
        let (topology, request) = (Topology::parse(PLATFORM).unwrap(), Request::parse(&text).unwrap());
        let classes = Classes::default();
        let modules = Modules::new(&classes, &request, "linked").unwrap();
        let network = World::of_topology(&topology, &classes, |_, _| false).unwrap();
        let world = network.with_modules(&modules, "platform", &Default::default()).unwrap();
        let registered = registered.iter().map(|a| a.parse().unwrap()).collect();
        let party = Party { role: Requester::ThirdParty, registered, modules: Vec::new() };
        let answers = world.security(&party, &Policy::default(), Limits::of_networks());
        answers.iter().map(|a| a.status).collect()
    };
    let (good, bad) = (vec![Status::Holds; 2], vec![Status::Violated, Status::Holds]);
    let to =
        |what: &str| format!("FromNetfront(z) -> CheckIPHeader -> StoreIPAddress({what}) -> ToNetfront(z);");
    let client = &["172.16.15.133"];
    assert_eq!(verdicts(&to("172.16.15.133, dst"), client), good);
    assert_eq!(verdicts(&to("172.16.15.133, dst"), &[]), bad, "nobody agreed");
    assert_eq!(verdicts(&to("8.8.8.8, src"), client), bad, "a spoofed source");
    assert_eq!(verdicts(&to("172.100.10.2, src"), client), good, "the other module's own address");
}
