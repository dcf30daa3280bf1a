//! Packets that wait, and packets that elements make: which of them arrive.

use weir_check::report::{Changes, Finding, Report};
use weir_check::{Answer, Extent, Status, World};
use weir_model::requirement::Requirement;
use weir_plan::{Classes, Plan};
use weir_verify::Limits;

fn world(config: &str) -> World {
    World::of_click(&Plan::new(&Classes::default(), config, "test").unwrap())
}

fn answer(config: &str, requirement: &str) -> Finding {
    let mut world = world(config);
    let question = world.question(&Requirement::parse(requirement).unwrap()).unwrap();
    world.net.finish();
    let answer: Answer = world.answer(&question, Limits::of_networks());
    Report::new("test", &world, &[answer]).findings.remove(0)
}

fn verdict(config: &str, requirement: &str) -> (Status, Vec<String>) {
    let f = answer(config, requirement);
    (f.verdict, f.waiting)
}

/// What IPv4 packets from `lan` wait for until they leave by `wan`; answers come in by `ANSWERS`.
const ARP: &str = "FromDevice(lan) -> c :: Classifier(12/0800, -); c [1] -> Discard;
    c [0] -> Strip(14) -> CheckIPHeader -> SetIPAddress(10.0.0.9)
    -> aq :: ARPQuerier(10.0.0.1, 2:0:0:0:0:1) -> BEHIND -> Queue -> ToDevice(wan);
    ANSWERS -> [1] aq;";

/// The same of IPv6 packets.
const ND: &str = "FromDevice(lan) -> c :: Classifier(12/86dd, -); c [1] -> Discard;
    c [0] -> Strip(14) -> CheckIP6Header -> GetIP6Address(24)
    -> aq :: IP6NDSolicitor(2001:db8::1, 2:0:0:0:0:1) -> BEHIND -> Queue -> ToDevice(wan);
    ANSWERS -> [1] aq;";

const ANSWERS: &str =
    "FromDevice(wan) -> a :: Classifier(12/0806 20/0002, 12/86dd 20/3a 54/88, -) [0] -> w :: Null;
    a [1] -> w; a [2] -> Discard; w";

fn network(text: &str, behind: &str, answers: &str) -> String {
    text.replace("BEHIND", behind).replace("ANSWERS", answers)
}

const CASES: [(&str, &str); 2] = [
    (ARP, "well-formed all lan wan ip and udp dst port 53"),
    (ND, "well-formed all lan wan ip6 and udp dst port 53 and not dst net ff00::/8"),
];

#[test]
fn a_packet_that_waits_arrives_once_its_answer_comes() {
    for (text, all) in CASES {
        let found = answer(&network(text, "Null", ANSWERS), all);
        assert_eq!((found.verdict, &found.waiting[..]), (Status::Holds, &["aq".to_owned()][..]), "{found}");
        assert!(found.to_string().contains("assumed: what packets wait for at aq comes"), "{found}");
    }
    let without = "FromDevice(lan) -> Queue -> ToDevice(wan);";
    assert_eq!(verdict(without, "all lan wan"), (Status::Holds, Vec::new()));
}

/// The question for the address leaves at once: it is no arrival of the packet that waits.
#[test]
fn a_packet_that_nothing_lets_go_does_not_arrive() {
    for (text, all) in CASES {
        let found = answer(&network(text, "Null", "Idle"), all);
        assert_eq!(found.verdict, Status::Violated, "{found}");
        let ends: Vec<_> =
            found.trace.iter().filter(|s| s.packet == 0).filter_map(|s| s.end.as_deref()).collect();
        assert_eq!(ends, ["waits here"], "{found}");
        let asks = |c: &String| c.starts_with("a packet of its own: ");
        assert!(found.trace.iter().any(|s| s.node == "aq" && s.changes.iter().any(asks)), "{found}");
        let can = all.replace("well-formed all", "can");
        assert_eq!(verdict(&network(text, "Null", "Idle"), &can).0, Status::Violated);
        assert_eq!(verdict(&network(text, "Null", ANSWERS), &can).0, Status::Holds);
    }
}

/// What waits, and becomes an answer when it is let go, does not arrive itself.
#[test]
fn a_packet_that_is_answered_after_it_waited_does_not_arrive() {
    let answers = "Strip(14) -> MarkIPHeader -> ICMPPingResponder -> Unstrip(14)";
    let all =
        "well-formed all lan wan icmp type echo and src host 10.0.0.1 and dst host 10.0.0.2 and ip[6:2] = 0";
    assert_ne!(verdict(&network(ARP, answers, ANSWERS), all).0, Status::Holds);
    assert_eq!(verdict(&network(ARP, "Null", ANSWERS), all).0, Status::Holds);
}

/// An answer that goes on in the same direction, where the packet itself never comes.
#[test]
fn an_answer_is_not_the_packet_that_it_answers() {
    let pings = "FromDevice(a) -> Strip(14) -> MarkIPHeader -> ICMPPingResponder -> Unstrip(14) -> Queue -> ToDevice(b);";
    let all =
        "well-formed all a b icmp type echo and src host 10.0.0.1 and dst host 10.0.0.2 and ip[6:2] = 0";
    assert_eq!(verdict(pings, all).0, Status::Violated);
    let passes = pings.replace("-> ICMPPingResponder ", "");
    assert_eq!(verdict(&passes, all).0, Status::Holds);
}

#[test]
fn a_question_is_not_the_packet_that_it_is_asked_for() {
    for (text, all) in CASES {
        let never = all.replace("all", "never");
        let found = answer(&network(text, "Null", "Idle"), &never);
        assert_eq!(found.verdict, Status::Holds, "{found}");
        // It arrives as soon as the address is known.
        let found = answer(&network(text, "Null", ANSWERS), &never);
        assert_eq!(found.verdict, Status::Violated, "{found}");
    }
    // Nor is what answers it.
    let answered = network(ARP, "ARPResponder(0/0 2:0:0:0:0:2)", "Idle");
    assert_eq!(verdict(&answered, "never lan wan ip").0, Status::Holds);
    let only = "only lan wan ip and src host 10.0.0.77";
    let text = network(ARP, "Null", "Idle");
    assert_eq!(verdict(&text, only).0, Status::Holds, "nothing but questions arrives");
}

#[test]
fn what_is_lost_behind_the_place_where_it_waited_does_not_arrive() {
    let lost = network(ARP, "Classifier(12/0806)", ANSWERS);
    let (all, never) = (CASES[0].1, CASES[0].1.replace("all", "never"));
    assert_eq!(verdict(&lost, all).0, Status::Violated);
    assert_eq!(verdict(&lost, &never).0, Status::Holds, "questions are let through, packets are not");
}

/// A packet whose source is behind `wan` is answered with an error that goes there.
#[test]
fn an_error_is_not_the_packet_that_it_answers() {
    let text = "FromNetfront(lan) -> CheckIPHeader -> IPFilter(allow ip hl 5) -> ttl :: DecIPTTL -> out :: ToNetfront(wan);
        ttl [1] -> ICMPError(10.0.0.1, timeexceeded) -> out;";
    assert_eq!(verdict(text, "all lan wan ip hl 5 and ip ttl < 2").0, Status::Violated);
    assert_eq!(verdict(text, "well-formed all lan wan ip").0, Status::Holds);
    // Who asks what comes of packets sees errors, too, which quote them.
    let found = answer(text, "never lan wan ip hl 5 and ip ttl < 2");
    assert_eq!(found.verdict, Status::Violated);
    assert!(found.trace.iter().any(|s| s.class == "ICMPError" && s.changes[0] == "answers it"), "{found}");
    assert_eq!(verdict(text, "can lan wan icmp type 11 and src host 10.0.0.1").0, Status::Holds);
    let ping = "FromNetfront(lan) -> CheckIPHeader -> ICMPPingResponder -> ToNetfront(wan);";
    assert_eq!(verdict(ping, "all lan wan icmp type echo").0, Status::Violated);
}

#[test]
fn a_comparison_tells_what_waits_from_what_is_asked_for_it() {
    let old = network(ARP, "Null", ANSWERS)
        .replace("aq :: ARPQuerier(10.0.0.1, 2:0:0:0:0:1)", "EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2)");
    let old = old.replace("w -> [1] aq", "w -> Discard");
    let new = network(ARP, "Null", ANSWERS);
    let c = Changes::between(("old", &world(&old)), ("new", &world(&new)), Extent::default());
    let first = c.differences.iter().find(|d| d.well_formed).expect("hosts' packets wait now");
    let after: Vec<String> = first.after.iter().map(ToString::to_string).collect();
    assert_eq!(after.len(), 2, "{c}");
    assert!(after.contains(&"waits at aq".to_owned()), "{c}");
    assert!(after.iter().any(|a| a.starts_with("an element's own packet arrives at wan (ARP")), "{c}");
    assert!(first.after.iter().all(|f| f.arrival().is_none()), "{c}");
    assert!(first.before.iter().any(|f| f.arrival() == Some("wan")), "{c}");
}
