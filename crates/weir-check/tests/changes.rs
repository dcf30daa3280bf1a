//! What changes do to traffic, and what packets can reach.

use weir_check::report::{Changes, Coverage, Fated};
use weir_check::{Extent, Status, World};
use weir_plan::{Classes, Plan};
use weir_topology::Topology;
use weir_verify::Limits;

fn click(config: &str) -> World {
    World::of_click(&Plan::new(&Classes::default(), config, "test").unwrap())
}

fn between(old: &World, new: &World) -> Changes {
    let changes = Changes::between(("old", old), ("new", new), Extent::default());
    let again = Changes::between(("old", old), ("new", new), Extent::default());
    assert_eq!(changes, again, "the same question has the same answer");
    changes
}

fn changes(old: &str, new: &str) -> Changes {
    between(&click(old), &click(new))
}

/// The classes as `PLACE: BEFORE / AFTER`.
fn classes(c: &Changes) -> Vec<String> {
    let text = |list: &[Fated]| list.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ");
    c.differences.iter().map(|d| format!("{}: {} / {}", d.place, text(&d.before), text(&d.after))).collect()
}

const BOX: &str = "FromDevice(lan) -> Classifier(12/0800) -> Strip(14) -> CheckIPHeader -> FILTER
    -> EtherEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2) -> Queue -> ToDevice(wan);";

fn filter(element: &str) -> String {
    BOX.replace("FILTER", element)
}

#[test]
fn the_same_configuration_treats_nothing_differently() {
    let text = filter("f :: IPFilter(allow tcp, deny all)");
    let c = changes(&text, &text);
    assert_eq!((c.verdict(), c.differences.len()), (Status::Holds, 0), "{c}");
    // Another way to say the same.
    let c = changes(&text, &filter("f :: IPFilter(deny not tcp, allow all)"));
    assert_eq!(c.verdict(), Status::Holds, "{c}");
    // Another name for an element, and one more that changes nothing.
    let c = changes(&text, &filter("c :: Counter -> g :: IPFilter(allow tcp, deny all)"));
    assert_eq!(c.verdict(), Status::Holds, "{c}");
}

#[test]
fn what_passes_now_and_what_does_no_more_is_shown_with_a_packet_each() {
    let c = changes(
        &filter("IPFilter(allow tcp dst port 80, deny all)"),
        &filter("IPFilter(allow udp dst port 53, deny all)"),
    );
    assert_eq!(c.verdict(), Status::Violated);
    let mut found: Vec<(bool, u8)> = Vec::new();
    for d in &c.differences {
        let packet = &d.packets.last().unwrap().bytes;
        let gained = d.after.iter().any(|f| f.arrival() == Some("wan"));
        assert_ne!(gained, d.before.iter().any(|f| f.arrival() == Some("wan")), "{d}");
        found.push((gained, packet[23]));
    }
    found.sort_unstable();
    assert_eq!(found, [(false, 6), (true, 17)], "{c}");
}

#[test]
fn packets_that_are_rewritten_differently_are_shown_with_both_rewritings() {
    let c = changes(
        &filter("SetIPAddress(192.0.2.1) -> StoreIPAddress(dst)"),
        &filter("SetIPAddress(192.0.2.2) -> StoreIPAddress(dst)"),
    );
    let [text] = &classes(&c)[..] else { panic!("{c}") };
    assert!(text.contains("-> 192.0.2.1") && text.contains("-> 192.0.2.2"), "{text}");
    // What a time to live becomes is a rewriting, too.
    let c = changes(&filter("Null"), &filter("DecIPTTL"));
    let found = classes(&c);
    assert!(found.iter().any(|t| t.contains("ip ttl")), "{found:?}");
    assert!(found.iter().any(|t| t.ends_with("dropped: TtlExpired")), "{found:?}");
}

#[test]
fn ways_in_that_only_one_has_are_told() {
    let c = changes("FromDevice(a) -> Discard;", "FromDevice(b) -> Discard;");
    assert_eq!((&c.only_before[..], &c.only_after[..]), (&["a".to_owned()][..], &["b".to_owned()][..]));
    assert_eq!(c.verdict(), Status::Violated);
}

#[test]
fn what_is_not_known_is_no_pass() {
    let text = filter("IPReassembler");
    let c = changes(&text, &filter("Counter -> IPReassembler"));
    assert_eq!(c.verdict(), Status::Inconclusive, "{c}");
    assert!(c.reason.as_ref().is_some_and(|r| r.contains("IPReassembler")), "{c}");
}

const NETWORK: &str = "version: 1
name: n
boxes:
  internet: {kind: internet}
  phone: {kind: client, owns: 10.1.0.7}
  gw:
    kind: router
    interfaces: {wan: 192.0.2.2/30, lan: 10.1.0.1/16}
    routes: [default via 192.0.2.1]
  fw: {kind: firewall, ports: [lan, wan], rules: [allow from lan all, RULE]}
links: ['gw:wan - internet', 'gw:lan - fw:wan', 'fw:lan - phone']
";

#[test]
fn boxes_of_a_topology_are_compared_where_packets_end() {
    let world = |rule: &str| {
        let t = Topology::parse(&NETWORK.replace("RULE", rule)).unwrap();
        World::of_topology(&t, &Classes::default(), |_, _| false).unwrap()
    };
    let c = between(&world("allow udp dst port 1500"), &world("allow udp dst port 1501"));
    let ways: Vec<(&str, bool)> = c
        .differences
        .iter()
        .map(|d| (d.place.as_str(), d.after.iter().any(|f| f.arrival() == Some("phone"))))
        .collect();
    assert!(ways.contains(&("internet", true)) && ways.contains(&("internet", false)), "{c}");
    assert_eq!(c.reason, None);
    // What arrives comes before what is dropped for other reasons.
    let first = &c.differences[0];
    assert!(first.after.iter().chain(&first.before).any(|f| f.arrival().is_some()), "{c}");
}

#[test]
fn a_difference_may_show_only_after_another_packet_came() {
    let world = |fields: &str| {
        let rules = "rules: [allow from lan all, RULE]";
        let text = NETWORK.replace(rules, &format!("rules: [allow from lan udp]{fields}"));
        let t = Topology::parse(&text).unwrap();
        World::of_topology(&t, &Classes::default(), |_, _| false).unwrap()
    };
    let c = between(&world(""), &world(", stateful: true"));
    let reply = c
        .differences
        .iter()
        .find(|d| d.place == "internet" && d.after.iter().any(|f| f.arrival() == Some("phone")));
    let d = reply.unwrap_or_else(|| panic!("{c}"));
    assert_eq!((d.packets.len(), d.packets[0].place.as_str()), (2, "phone"), "{d}");
    assert_eq!(d.before[0].end, "dropped: Denied", "{d}");
}

fn coverage(config: &str) -> Coverage {
    Coverage::of("test", &click(config), Limits::of_networks())
}

fn dead(c: &Coverage) -> Vec<String> {
    assert!(c.unknown.is_empty() && c.reason.is_none(), "{c}");
    c.dead.iter().map(ToString::to_string).collect()
}

#[test]
fn rules_and_ports_that_no_packet_reaches_are_dead() {
    let c = coverage(&filter(
        "f :: IPFilter(deny tcp, allow tcp dst port 80, allow udp, deny udp dst port 53, deny all)",
    ));
    assert_eq!(
        dead(&c),
        [
            "f :: IPFilter: no packet is decided by rule 2 'allow tcp dst port 80'",
            "f :: IPFilter: no packet is decided by rule 4 'deny udp dst port 53'"
        ]
    );
    let c = coverage(
        "FromDevice(a) -> c :: Classifier(12/0800, 12/0806, 12/0800 23/06, -);
         c [0] -> Discard; c [1] -> Discard; c [2] -> x :: Counter -> Discard; c [3] -> Discard;",
    );
    let found = dead(&c);
    assert!(
        found
            .contains(&"c :: Classifier: no packet leaves by output 2, pattern 3 '12/0800 23/06'".to_owned())
    );
    assert!(found.contains(&"x :: Counter: no packet comes to it".to_owned()), "{found:?}");
}

#[test]
fn what_is_before_an_element_counts_for_its_rules() {
    let c = coverage(&filter("IPFilter(allow udp, deny all) -> f :: IPFilter(allow tcp, deny all)"));
    let found = dead(&c);
    assert!(
        found.contains(&"f :: IPFilter: no packet is decided by rule 1 'allow tcp'".to_owned()),
        "{found:?}"
    );
    assert!(found.iter().any(|d| d.contains(":: ToDevice: no packet comes to it")), "{found:?}");
}

#[test]
fn nothing_is_called_dead_unless_all_was_explored() {
    let text = filter("r :: IPReassembler -> f :: IPFilter(deny tcp, allow tcp, deny all)");
    let c = coverage(&text);
    assert!(c.dead.is_empty() && c.reason.is_some(), "{c}");
    assert!(c.unknown.iter().any(|d| d.node == "f"), "{c}");
    assert!(!c.consolidation.may && c.consolidation.reasons[0].contains("r :: IPReassembler"), "{c}");
}

#[test]
fn drops_are_told_with_a_packet_each() {
    let c = coverage(&filter("f :: IPFilter(allow udp, deny all) -> t :: DecIPTTL"));
    let found: Vec<(&str, &str)> = c.drops.iter().map(|d| (d.node.as_str(), d.reason.as_str())).collect();
    for wanted in [("f", "Denied"), ("t", "TtlExpired")] {
        assert!(found.contains(&wanted), "{found:?}");
    }
    for d in &c.drops {
        assert!(d.found && !d.packets.is_empty(), "{c}");
        let end = d.trace.iter().any(|s| s.node == d.node && s.end == Some(format!("dropped: {}", d.reason)));
        assert!(end, "{c}");
    }
    assert!(c.clone().short().drops.iter().all(|d| d.packets.is_empty()));
}

#[test]
fn what_is_known_and_has_bounds_may_be_consolidated() {
    let c = coverage(&filter("IPFilter(allow all)"));
    assert!(c.consolidation.may && c.consolidation.reasons.is_empty(), "{c}");
}

#[test]
fn what_people_send_is_told_before_what_no_host_sends() {
    let text = |middle: &str| {
        format!(
            "FromDevice(lan) -> kind :: Classifier(12/0800, -); kind[0] -> {middle} out :: Queue -> ToDevice(wan);
             kind[1] -> out;"
        )
    };
    let c = changes(&text("CheckIPHeader(14) -> IPFilter(deny icmp, allow all) ->"), &text(""));
    let first = &c.differences[0];
    assert!(first.well_formed && first.packets[0].summary.contains("ICMP echo request"), "{c}");
    assert_eq!((first.before[0].end.as_str(), first.after[0].arrival()), ("dropped: Denied", Some("wan")));
    let well_formed: Vec<bool> = c.differences.iter().map(|d| d.well_formed).collect();
    assert!(well_formed.is_sorted_by(|a, b| a >= b), "{c}");
    // However many classes there are.
    let text = c.to_string();
    let lines =
        text.lines().filter(|l| l.starts_with("different, of packets that no host sends: from lan")).count();
    assert_eq!(lines, 1, "{text}");
}
