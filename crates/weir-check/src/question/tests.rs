use weir_plan::{Classes, Plan};
use weir_verify::Limits;

use super::*;
use crate::Status;

const FIREWALL: &str = "FromDevice(in) -> c :: Classifier(12/0800) -> Strip(14) -> CheckIPHeader -> f :: IPFilter(allow udp dst port 53, deny all) \
                        -> q :: Queue -> u :: Unqueue -> Unstrip(14) -> out :: ToDevice(out); \
                        FromDevice(out) -> Discard; f [1] -> Discard; x :: Idle -> y :: Discard;";

fn world() -> World {
    World::of_click(&Plan::new(&Classes::default(), FIREWALL, "test").unwrap())
}

fn verdicts(lines: &[&str]) -> Vec<(String, Status)> {
    let mut world = world();
    let questions: Vec<Question> =
        lines.iter().map(|l| world.question(&Requirement::parse(l).unwrap()).unwrap()).collect();
    world.net.finish();
    let answer = |q: &Question| (q.requirement.text.clone(), world.answer(q, Limits::default()).status);
    questions.iter().map(answer).collect()
}

#[test]
fn requirements_hold_or_not() {
    use Status::{Holds, Violated};
    let wanted = [
        ("can in out udp dst port 53", Holds),
        ("can in out via f, q udp", Holds),
        ("can in out via q, f udp", Violated),
        ("can in out tcp", Violated),
        ("only in out udp dst port 53", Holds),
        ("only in out udp dst port 53 and src net 10.0.0.0/8", Violated),
        ("never in out udp", Violated),
        ("never in y", Holds),
        ("can in f", Holds),
        // Frames begin at `in`, IP packets come to `f`.
        ("can in f tcp", Holds),
        ("can in f ip6", Violated),
        ("never in f ip6", Holds),
        ("invariant in out src, dst, ttl", Holds),
        ("can 10.0.0.0/8 192.168.0.0/16 udp", Holds),
        ("only 0/0 192.168.0.0/16 src net 10.0.0.0/8 and dst net 192.168.0.0/16", Violated),
        ("noloops", Holds),
    ];
    let lines: Vec<&str> = wanted.iter().map(|(l, _)| *l).collect();
    let wanted: Vec<(String, Status)> = wanted.iter().map(|(l, s)| ((*l).to_owned(), *s)).collect();
    assert_eq!(verdicts(&lines), wanted);
}

#[test]
fn what_is_not_there_is_told_with_what_is_near() {
    let mut world = world();
    let mut error = |line: &str| world.question(&Requirement::parse(line).unwrap()).unwrap_err().to_string();
    assert_eq!(
        error("can in owt udp"),
        "line 1: 'can in owt udp': there is no 'owt' here; did you mean 'out'?"
    );
    assert!(error("can zebra out").contains("known here:"), "{}", error("can zebra out"));
    assert!(error("can f out").contains("no packet begins at 'f'; packets begin at in, out, FromDevice@1"));
    assert!(error("can in x").contains("no packet comes to 'x'"));
    assert!(error("can in f:7").contains("f has no port '7'; ports of f: 0"));
    assert!(error("invariant in out vlan").contains("no fixed place"));
}
