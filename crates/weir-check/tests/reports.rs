//! Reports as people see them, held against files in `golden/`; `BLESS=1` renews them.

use std::path::Path;

use weir_check::report::{Changes, Coverage, Finding, Report};
use weir_check::{Answer, Extent, Modules, Question, Status, World};
use weir_model::request::Request;
use weir_model::requirement::Requirement;
use weir_plan::Classes;
use weir_topology::Topology;
use weir_verify::Limits;

/// The report on a document with requirements.
fn report(name: &str) -> Report {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    let text = std::fs::read_to_string(path).unwrap();
    let (mut world, requirements): (World, Vec<Requirement>) = if name.ends_with(".yaml") {
        let t = Topology::parse(&text).unwrap();
        (World::of_topology(&t, &Classes::default(), |_, _| false).unwrap(), t.requirements)
    } else {
        let request = Request::parse(&text).unwrap();
        (World::of_request(&request, &Classes::default(), name).unwrap(), request.requirements)
    };
    answered(name, &mut world, &requirements)
}

fn answered(name: &str, world: &mut World, requirements: &[Requirement]) -> Report {
    let questions: Vec<Question> = requirements.iter().map(|r| world.question(r).unwrap()).collect();
    world.net.finish();
    let answers: Vec<Answer> = questions.iter().map(|q| world.answer(q, Limits::default())).collect();
    Report::new(name, world, &answers)
}

/// The report on a request that is placed on a platform.
fn placed(name: &str, topology: &str, platform: &str) -> Report {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let t = Topology::parse(&std::fs::read_to_string(folder.join(topology)).unwrap()).unwrap();
    let request = Request::parse(&std::fs::read_to_string(folder.join(name)).unwrap()).unwrap();
    let classes = Classes::default();
    let modules = Modules::new(&classes, &request, name).unwrap();
    let network = World::of_topology(&t, &classes, |_, _| false).unwrap();
    let mut world = network.with_modules(&modules, platform, &Default::default()).unwrap();
    answered(name, &mut world, &request.requirements)
}

fn golden(name: &str) {
    held(&Path::new(name).with_extension("txt"), || report(name).to_string());
}

/// Holds a text against a file.
fn held(name: &Path, make: impl Fn() -> String) {
    let text = make();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let wanted = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, wanted, "BLESS=1 renews {}", path.display());
    assert_eq!(make(), text, "the same question has the same answer");
}

#[test]
fn a_firewall_that_lets_too_much_pass() {
    golden("firewall.click");
}

#[test]
fn a_request_of_the_paper_on_its_own() {
    golden("push.click");
}

#[test]
fn an_access_network() {
    golden("access.yaml");
}

#[test]
fn a_request_of_the_paper_on_a_platform() {
    held(Path::new("figure-2-4.txt"), || {
        placed("figure-2-4.click", "figure-2-1.yaml", "platform3").to_string()
    });
}

/// A configuration of this folder without its requirements.
fn world(name: &str) -> World {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    let request = Request::parse(&std::fs::read_to_string(path).unwrap()).unwrap();
    World::of_request(&request, &Classes::default(), name).unwrap()
}

#[test]
fn what_a_change_of_a_firewall_does() {
    let names = ["firewall.click", "firewall-changed.click"];
    let [old, new] = names.map(world);
    held(Path::new("firewall-changes.txt"), || {
        Changes::between((names[0], &old), (names[1], &new), Extent::default()).to_string()
    });
}

#[test]
fn what_packets_reach_in_a_firewall() {
    let name = "firewall-changed.click";
    let world = world(name);
    held(Path::new("firewall-coverage.txt"), || {
        Coverage::of(name, &world, Limits::of_networks()).short().to_string()
    });
}

#[test]
fn where_nothing_arrives_a_packet_that_may_have_been_meant_is_shown() {
    let shown = |config: &str| {
        let request = Request::parse(config).unwrap();
        let mut world = World::of_request(&request, &Classes::default(), "test").unwrap();
        answered("test", &mut world, &request.requirements).findings.remove(0)
    };
    let ends = |f: &Finding| f.trace.last().map(|s| (s.node.clone(), s.end.clone().unwrap_or_default()));
    // Nobody took off the Ethernet header, so that the filter sees no IP header.
    let found = shown(
        "FromDevice(lan) -> f :: IPFilter(deny tcp dst port 22, allow all) -> ToDevice(wan);
         REQUIRE can lan wan udp dst port 53",
    );
    assert_eq!(found.verdict, Status::Violated);
    assert!(found.packets[0].summary.contains("198.51.100.1.53: UDP"), "{found}");
    assert_eq!(ends(&found), Some(("f".into(), "dropped: Unmarked".into())));
    // None that matches can be sent: any other is shown.
    let found = shown(
        "FromNetfront(a) -> CheckIPHeader -> f :: IPFilter(allow udp, deny all) -> ToNetfront(b);
         REQUIRE can a b ip proto 17 and tcp dst port 1",
    );
    assert_eq!((found.verdict, found.packets.len()), (Status::Violated, 1), "{found}");
    // It says where the last obstacle is, not how most end.
    let found = shown(
        "FromNetfront(a) -> CheckIPHeader -> p :: IPFilter(allow udp, deny all)
         -> q :: IPFilter(deny udp dst port 7, allow all) -> ToNetfront(b);
         REQUIRE can a b udp dst port 7",
    );
    assert_eq!(found.trace.last().unwrap().decided, ["rule 1 'deny udp dst port 7'"], "{found}");
    // Though all packets pass a switch that is next to where they should arrive.
    let found = shown(
        "FromNetfront(a) -> CheckIPHeader -> s :: IPClassifier(icmp, -);
         s[0] -> out :: ToNetfront(b);
         s[1] -> q :: IPFilter(deny udp dst port 7, allow all) -> Paint(1) -> Paint(2) -> out;
         REQUIRE can a b udp dst port 7",
    );
    assert_eq!(found.trace.last().unwrap().decided, ["rule 1 'deny udp dst port 7'"], "{found}");
    // Nothing is said of what is only not needed.
    let found = shown("FromNetfront(a) -> ToNetfront(b);\nREQUIRE never a b udp");
    assert_eq!((found.verdict, found.packets.len()), (Status::Violated, 1));
    assert!(!found.reason.contains("nearest"), "{found}");
}
