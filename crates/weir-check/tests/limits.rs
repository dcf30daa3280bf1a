//! How far answers go, what they say when that is not far enough, and what packets they speak of.

use std::time::Duration;

use weir_check::report::{Finding, Report};
use weir_check::{Answer, Status, World};
use weir_model::requirement::Requirement;
use weir_plan::{Classes, Plan};
use weir_verify::Limits;

fn ask(config: &str, requirement: &str, time: Option<Duration>) -> Finding {
    let mut world = World::of_click(&Plan::new(&Classes::default(), config, "test").unwrap());
    let question = world.question(&Requirement::parse(requirement).unwrap()).unwrap();
    world.net.finish();
    let answer: Answer = world.answer(&question, Limits { time, ..Limits::of_networks() });
    Report::new("test", &world, &[answer]).findings.remove(0)
}

fn answer(config: &str, requirement: &str) -> Finding {
    ask(config, requirement, None)
}

const ROUTER: &str = "FromDevice(a) -> c :: Classifier(12/0800, -);
    c[0] -> CheckIPHeader(14) -> DecIPTTL -> FILTER -> Queue -> ToDevice(b); c[1] -> Discard;";

fn router(filter: &str) -> String {
    ROUTER.replace("FILTER", filter)
}

#[test]
fn where_there_is_no_time_nothing_is_said_but_how_far_it_was_looked() {
    let text = router("Null");
    for requirement in
        ["never a b", "can a b udp", "all a b ip", "only a b tcp", "invariant a b ip src", "noloops"]
    {
        let found = ask(&text, requirement, Some(Duration::ZERO));
        assert_eq!(found.verdict, Status::Inconclusive, "{found}");
        assert!(found.reason.contains("time"), "{found}");
        assert!(found.explored.is_some_and(|e| e.starts_with("0 paths")));
    }
}

#[test]
fn an_answer_does_not_depend_on_time_that_is_left() {
    for requirement in ["never a b", "can a b tcp", "all a b ip", "never a b arp"] {
        let (long, any) = (Duration::from_secs(3600), router("IPFilter(deny tcp dst port 22, allow all)"));
        assert_eq!(ask(&any, requirement, Some(long)).to_string(), answer(&any, requirement).to_string());
    }
}

#[test]
fn what_is_not_known_is_shown_with_a_packet_and_the_place() {
    let found = answer(&router("r :: IPReassembler"), "never a b tcp");
    assert_eq!(found.verdict, Status::Inconclusive);
    assert!(found.reason.contains("r :: IPReassembler"), "{found}");
    assert_eq!(found.stopped_at.last().map(String::as_str), Some("r"), "{found}");
    assert!(!found.packets.is_empty() && found.trace.iter().any(|s| s.node == "r"), "{found}");
}

#[test]
fn all_that_hosts_send_passes_an_ordinary_router() {
    let text = router("IPFilter(deny tcp dst port 22, allow all)");
    let found = answer(&text, "all a b ip and udp");
    assert_eq!((found.verdict, found.packets.is_empty()), (Status::Violated, false), "{found}");
    for holds in [
        "well-formed all a b ip and udp",
        "well-formed never a b tcp dst port 22",
        "well-formed can a b icmp",
    ] {
        let found = answer(&text, holds);
        assert_eq!(found.verdict, Status::Holds, "{found}");
    }
    let found = answer(&text, "well-formed all a b ip and tcp");
    assert_eq!(found.verdict, Status::Violated, "{found}");
    assert!(found.packets[0].summary.contains(".22:"), "{found}");
}

#[test]
fn a_payload_that_nothing_writes_is_kept() {
    let found = answer(
        "FromDevice(a) -> CheckIPHeader(14) -> DecIPTTL -> Queue -> ToDevice(b);",
        "invariant a b payload",
    );
    assert_eq!(found.verdict, Status::Holds, "{found}");
    let cut = "FromDevice(a) -> CheckIPHeader(14) -> Truncate(60) -> Queue -> ToDevice(b);";
    assert_eq!(answer(cut, "invariant a b payload").verdict, Status::Violated);
}

#[test]
fn a_packet_that_is_shown_is_as_plain_as_can_be() {
    let found = answer("FromDevice(a) -> VLANDecap -> Queue -> ToDevice(b);", "never a b udp");
    let bytes = &found.packets[0].bytes;
    assert!(bytes.len() <= 46, "{found}");
    let net = if bytes[12..14] == [0x81, 0] { 18 } else { 14 };
    assert_eq!(bytes[net], 0x45, "{found}");
    assert_eq!((bytes[net + 8], bytes[net + 9]), (64, 17), "{found}");
    assert_eq!(weir_net::checksum::checksum(&bytes[net..net + 20]), 0, "{found}");
}
