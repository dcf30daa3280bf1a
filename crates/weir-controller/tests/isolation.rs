//! Modules that run in one program are proved to be apart: no packet meets the rules of a module that it is not addressed to, nor does
//! anything that another module makes of it.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr};

use weir_check::{Question, Status, World};
use weir_controller::requests::module::{Place, runs};
use weir_model::request::Request;
use weir_model::requirement::Requirement;
use weir_plan::{Classes, Plan};
use weir_verify::Limits;

/// How many modules there are, each with a firewall of its own.
const MODULES: usize = 40;

fn address(n: usize) -> Ipv4Addr {
    Ipv4Addr::from(0x0a00_0001 + n as u32)
}

/// What runs the modules in one program, as the controller writes it.
fn script() -> String {
    let mut text = String::new();
    for n in 0..MODULES {
        let port = 1000 + n;
        _ = writeln!(
            text,
            "c{n}:\nFromNetfront() -> IPFilter(allow udp dst port {port}, deny all) -> IPMirror -> ToNetfront();"
        );
    }
    let addresses: Vec<(String, IpAddr)> =
        (0..MODULES).map(|n| (format!("c{n}"), IpAddr::V4(address(n)))).collect();
    let gateway = Ipv4Addr::new(10, 0, 255, 1);
    let place =
        Place { addresses: &addresses, gateway, classes: &classes(), images: &BTreeMap::new(), share: None };
    runs(&Request::parse(&text).unwrap(), place, &BTreeMap::new()).unwrap().script
}

fn classes() -> Classes {
    Classes::with(weir_switch::CLASSES.iter().copied())
}

/// The answers to questions about a script at an interface.
fn answers(script: &str, lines: &[String]) -> Vec<Status> {
    let whole =
        format!("lan :: FromDevice(lan) -> in_0 :: Null; out_0 :: Null -> Queue -> ToDevice(lan);\n{script}");
    let plan = Plan::new(&classes(), &whole, "modules.click").unwrap_or_else(|e| panic!("{:?}", e.texts()));
    let mut world = World::of_click(&plan);
    let parse = |l: &String| Requirement::parse(l).unwrap_or_else(|e| panic!("{l}: {}", e.message));
    let questions: Vec<Question> =
        lines.iter().map(parse).map(|r| world.question(&r).unwrap_or_else(|e| panic!("{e:?}"))).collect();
    world.net.finish();
    questions.iter().map(|q| world.answer(q, Limits::of_networks()).status).collect()
}

/// What is addressed to a module, and what it makes of that, does not meet the rules of the next one.
fn never_meets_next(n: usize) -> String {
    format!("never lan m{}e1 dst host {}", (n + 1) % MODULES, address(n))
}

/// The `IPFilter` is the second element of each module.
fn rules_meet_own(n: usize) -> String {
    format!("only lan m{n}e1 dst host {}", address(n))
}

#[test]
fn no_packet_meets_the_rules_of_others() {
    let script = script();
    let mut lines: Vec<String> = (0..MODULES).map(rules_meet_own).collect();
    // It does meet those of its own: what was proved is not that nothing arrives.
    lines.extend((0..MODULES).map(|n| format!("can lan m{n}e1 dst host {}", address(n))));
    // Nor does anything that a module makes of its packets.
    lines.extend((0..MODULES).map(never_meets_next));
    let found = answers(&script, &lines);
    let open: Vec<_> = lines.iter().zip(&found).filter(|(_, s)| **s != Status::Holds).collect();
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn a_mistake_in_what_divides_them_is_found() {
    let right = script();
    // The second module's traffic is all of UDP that is not the first one's.
    let wrong = right.replace(&format!("dst host {},", address(1)), "udp,");
    assert_ne!(right, wrong);
    let found = answers(&wrong, &[rules_meet_own(0), rules_meet_own(1)]);
    assert_eq!(found, [Status::Holds, Status::Violated]);
    // What the first one answers goes to the second one.
    assert!(right.contains("m0e2 [0] -> [0] m0e3;"));
    let looped = right.replace("m0e2 [0] -> [0] m0e3;", "Idle -> m0e3;") + "m0e2 [0] -> [0] m1e1;\n";
    assert_eq!(
        answers(&looped, &[never_meets_next(0), never_meets_next(1)]),
        [Status::Violated, Status::Holds]
    );
}
