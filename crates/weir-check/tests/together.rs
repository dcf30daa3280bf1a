//! What is asked together is answered as if it were asked alone; and whose addresses are whose.

use proptest::prelude::*;
use weir_check::{Question, Status, World};
use weir_model::requirement::Requirement;
use weir_plan::{Classes, Plan};
use weir_topology::Topology;
use weir_verify::Limits;

use Status::{Holds, Violated};

/// A router with rules of iptables between the internet and a client.
const FILTERED: &str = "
boxes:
  inet: {kind: internet}
  pc: {kind: client, owns: 10.1.0.7}
  r:
    kind: router
    interfaces: {wan: 192.0.2.2/30, lan: 10.1.0.1/24}
    routes: [default via 192.0.2.1]
    firewall: {file: r.rules}
links: [r:wan - inet, r:lan - pc]
";

const RULES: &str = "*filter
:INPUT DROP [0:0]
:FORWARD DROP [0:0]
-A FORWARD -p tcp -j ACCEPT
COMMIT
";

/// Two clients behind a switch, a server behind a Click box, and what belongs to nobody.
const SWITCHED: &str = "
boxes:
  inet: {kind: internet, sources: own}
  a: {kind: client, owns: 10.1.0.7, sources: own}
  b: {kind: client, owns: [10.1.0.8, 10.2.0.0/24]}
  srv: {kind: host, owns: 10.3.0.0/16}
  sw: {kind: switch}
  r:
    kind: router
    interfaces: {wan: 192.0.2.2/30, lan: 10.1.0.1/16, dmz: 10.3.0.1/24}
    routes: [default via 192.0.2.1, 10.2.0.0/16 via 10.1.0.8, 10.3.0.0/16 dev dmz]
  box:
    kind: click
    ports: [left, right]
    config: 'in_0 -> IPFilter(allow udp, deny all) -> out_1; in_1 -> out_0;'
links: [r:wan - inet, r:lan - sw:up, sw:1 - a, sw:2 - b, r:dmz - box:left, box:right - srv]
";

const CLICK: &str = "
FromDevice(lan) -> c :: Classifier(12/0800, -);
c[0] -> Strip(14) -> f :: IPFilter(deny dst net 10.9.0.0/16, allow tcp or udp, deny all) -> Unstrip(14) -> out :: Queue -> ToDevice(wan);
c[1] -> Discard;
FromDevice(wan) -> Queue -> ToDevice(lan);
";

fn topology(text: &str) -> World {
    let topology =
        Topology::parse_with(text, &mut |_| Ok(RULES.to_owned())).unwrap_or_else(|e| panic!("{e}"));
    World::of_topology(&topology, &Classes::default(), |_, _| false).unwrap()
}

/// The answers to some lines, asked together of a world.
fn answers(mut world: World, lines: &[&str]) -> Vec<Status> {
    let parse = |l: &&str| Requirement::parse(l).unwrap_or_else(|e| panic!("{l}: {}", e.message));
    let questions: Vec<Question> =
        lines.iter().map(parse).map(|r| world.question(&r).unwrap_or_else(|e| panic!("{e:?}"))).collect();
    world.net.finish();
    questions.iter().map(|q| world.answer(q, Limits::of_networks()).status).collect()
}

fn assert_all(text: &str, wanted: &[(&str, Status)]) {
    let lines: Vec<&str> = wanted.iter().map(|(l, _)| *l).collect();
    let found: Vec<(&str, Status)> = lines.iter().copied().zip(answers(topology(text), &lines)).collect();
    assert_eq!(found, wanted);
}

#[test]
fn a_prefix_that_is_asked_for_changes_no_other_answer() {
    assert_all(
        FILTERED,
        &[("never inet pc tcp", Violated), ("can inet 10.1.0.0/24", Holds), ("can inet pc udp", Violated)],
    );
}

#[test]
fn the_addresses_of_a_router_are_its_own_and_not_behind_its_interfaces() {
    assert_all(
        FILTERED,
        &[
            ("can inet 10.1.0.1 tcp dst port 22", Violated),
            ("can inet r:local tcp dst port 22", Violated),
            ("never pc 192.0.2.2", Holds),
            ("can inet r:lan tcp", Violated),
        ],
    );
    // Without rules it takes what is for it.
    let open = FILTERED.replace("    firewall: {file: r.rules}\n", "");
    assert_all(&open, &[("can inet 10.1.0.1 tcp dst port 22", Holds), ("can pc r:local", Holds)]);
}

#[test]
fn who_sends_from_own_addresses_sends_from_none_of_others() {
    let lines = [
        ("can inet srv udp and src host 198.51.100.9", Holds),
        ("never inet srv src net 10.1.0.0/24", Violated),
        ("never inet srv src host 10.1.0.7", Holds),
        ("never inet srv src host 10.1.0.1", Holds),
        ("never inet srv src net 10.2.0.0/24", Holds),
    ];
    assert_all(SWITCHED, &lines);
    let any = SWITCHED.replace("internet, sources: own", "internet");
    assert_all(&any, &[("never inet srv src host 10.1.0.7", Violated)]);
}

#[test]
fn all_with_a_prefix_asks_where_packets_are_for() {
    assert_all(
        SWITCHED,
        &[
            (
                "all inet 10.3.0.0/17 udp and src net 198.51.100.0/24 and dst net 10.3.0.0/17 and ip[8] > 9",
                Holds,
            ),
            (
                "all inet 10.3.0.0/17 udp and src net 198.51.100.0/24 and dst net 10.3.0.0/16 and ip[8] > 9",
                Violated,
            ),
        ],
    );
}

/// Lines about a topology, from places and filters.
fn lines(places: &'static [&'static str], most: usize) -> impl Strategy<Value = Vec<String>> {
    let filters = ["", "tcp", "udp dst port 53", "dst net 10.1.0.0/24", "src host 10.1.0.7"];
    let line = (0..3_usize, 0..places.len(), 0..places.len(), 0..filters.len()).prop_map(
        move |(form, from, to, filter)| {
            let form = ["can", "never", "only"][form];
            format!("{form} {} {} {}", places[from], places[to], filters[filter])
        },
    );
    proptest::collection::vec(line, 2..most)
}

fn assert_same_apart(world: &World, lines: &[String]) {
    // Some speak of places that packets do not begin at or come to.
    let asked = |l: &&String| Requirement::parse(l).is_ok_and(|r| world.clone().question(&r).is_ok());
    let lines: Vec<&str> = lines.iter().filter(asked).map(String::as_str).collect();
    let apart: Vec<Status> = lines.iter().flat_map(|l| answers(world.clone(), &[l])).collect();
    let together = answers(world.clone(), &lines);
    assert_eq!(lines.iter().zip(together).collect::<Vec<_>>(), lines.iter().zip(apart).collect::<Vec<_>>());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn what_is_asked_together_is_answered_as_alone(
        filtered in lines(
            &["inet", "pc", "r:local", "10.1.0.0/24", "10.1.0.1", "10.0.0.0/8", "192.0.2.2", "10.1.0.7"], 6),
        switched in lines(
            &["inet", "a", "b", "srv", "r:local", "10.1.0.0/24", "10.2.0.9", "10.3.0.0/17", "10.0.0.0/8", "8.8.0.0/16"], 6),
        click in lines(&["lan", "wan", "10.1.0.0/16", "10.9.0.1", "0/0"], 6),
    ) {
        assert_same_apart(&topology(FILTERED), &filtered);
        assert_same_apart(&topology(SWITCHED), &switched);
        let plan = Plan::new(&Classes::default(), CLICK, "test").unwrap();
        assert_same_apart(&World::of_click(&plan), &click);
    }
}
