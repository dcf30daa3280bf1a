//! Extension headers of IPv6 (RFC 8200 section 4): the verifier walks over them as elements do, of any length.

use std::ops::RangeInclusive;

use proptest::prelude::*;
use weir_check::{Status, World};
use weir_model::requirement::Requirement;
use weir_plan::{Classes, Plan};
use weir_verify::Limits;
use weir_verify::testing::Paths;

use Status::{Holds, Violated};

fn world(config: &str) -> World {
    World::of_click(&Plan::new(&Classes::default(), config, "test").unwrap_or_else(|e| panic!("{e:?}")))
}

fn asked(config: &str, line: &str) -> Status {
    let mut world = world(config);
    let question = world.question(&Requirement::parse(line).unwrap()).unwrap_or_else(|e| panic!("{e:?}"));
    world.net.finish();
    let answer = world.answer(&question, Limits::of_networks());
    // Shown if the test fails.
    println!("{config}\n{line}: {} {:?} {:?}", answer.status, answer.doubt, answer.explored);
    answer.status
}

const CHECKS: [&str; 3] = ["CheckIP6Header", "MarkIP6Header", "Null"];

#[test]
fn a_port_is_stopped_whatever_stands_in_front_of_it() {
    // Destination options; hop-by-hop options and a routing header of 16 bytes; a first fragment.
    let chains = [
        "ip6[6] = 60 and ip6[40] = 6 and ip6[41] = 0 and ip6[50:2] = PORT and ip6[4:2] = 28",
        "ip6[6] = 0 and ip6[40:2] = 0x2b00 and ip6[48:2] = 0x0601 and ip6[66:2] = PORT and ip6[4:2] = 44",
        "ip6[6] = 44 and ip6[40] = 6 and ip6[42:2] = 1 and ip6[50:2] = PORT and ip6[4:2] = 28",
    ];
    for check in CHECKS {
        let config = format!(
            "FromNetfront(a) -> {check} -> IP6Filter(deny tcp dst port 22, allow all) -> ToNetfront(b);"
        );
        for chain in chains {
            let ask = |port: &str| format!("never a b {}", chain.replace("PORT", port));
            assert_eq!(asked(&config, &ask("22")), Holds, "{check}");
            assert_eq!(asked(&config, &ask("23")), Violated, "{check}");
        }
        assert_eq!(asked(&config, "never a b ip6 and tcp dst port 22"), Holds);
    }
}

#[test]
fn headers_of_any_number_and_length_are_walked_over() {
    let config = "FromNetfront(a) -> CheckIP6Header -> IP6Filter(deny tcp, allow all) -> ToNetfront(b);";
    assert_eq!(asked(config, "can a b ip6 protochain 17 and not udp"), Holds);
    assert_eq!(asked(config, "never a b ip6 protochain 6 and dst port 22"), Holds);
    let open = config.replace("deny tcp", "deny tcp dst port 22");
    assert_eq!(asked(&open, "never a b ip6 protochain 6"), Violated);
}

#[test]
fn all_packets_of_a_flow_are_followed_through_their_headers() {
    let config = "FromNetfront(a) -> MarkIP6Header -> IP6Filter(allow udp, deny all) -> ToNetfront(b);";
    let sent = "ip6 and ip6[6] = 60 and ip6[40] = 17 and ip6[41] = 2 and ip6[4:2] = 32 and len = 72";
    assert_eq!(asked(config, &format!("all a b {sent}")), Holds);
    assert_eq!(asked(&config.replace("allow udp", "allow tcp"), &format!("all a b {sent}")), Violated);
}

/// An IPv6 packet behind these extension headers: protocol, length in units, bytes of each.
fn packet(chain: &[(u8, u8, u8)], last: u8, payload: &[u8], cut: usize) -> Vec<u8> {
    let mut rest = Vec::new();
    for (i, (kind, units, fill)) in chain.iter().enumerate() {
        let len = match kind {
            44 => 8,
            51 => 4 * (usize::from(*units) + 2),
            _ => 8 * (usize::from(*units) + 1),
        };
        let next = chain.get(i + 1).map_or(last, |(kind, ..)| *kind);
        rest.extend([&[next, *units, 0, *fill][..], &vec![*fill; len - 4]].concat());
    }
    rest.extend(payload);
    let len = (rest.len() as u16).to_be_bytes();
    let first = chain.first().map_or(last, |(kind, ..)| *kind);
    let mut packet = [&[0x60, 0, 0, 0, len[0], len[1], first, 64][..], &[0x20; 32], &rest].concat();
    packet.truncate(packet.len() - cut.min(packet.len() - 20));
    packet
}

fn packets() -> impl Strategy<Value = Vec<u8>> {
    let kind = prop_oneof![Just(0_u8), Just(43), Just(44), Just(51), Just(60)];
    let units: RangeInclusive<u8> = 0..=3;
    let chain = prop::collection::vec((kind, units, prop_oneof![3 => Just(0_u8), 1 => any::<u8>()]), 0..5);
    let last = prop_oneof![Just(6_u8), Just(17), Just(58), Just(59)];
    let payload = prop::collection::vec(prop_oneof![3 => Just(0_u8), 1 => any::<u8>()], 0..30);
    (chain, last, payload, prop_oneof![4 => Just(0_usize), 1 => 0..60_usize])
        .prop_map(|(chain, last, payload, cut)| packet(&chain, last, &payload, cut))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2))]

    /// What the verifier says of a path is what happens to each packet that takes it.
    #[test]
    fn each_packet_takes_a_way(packets in prop::collection::vec(packets(), 40)) {
        for chain in [
            "CheckIP6Header -> DecIP6HLIM",
            "IP6Filter(deny tcp, allow all)",
            "IP6Filter(deny tcp dst port 0, allow all)",
            "IP6Mirror -> IP6Filter(allow all)",
        ] {
            let mut world = world(&format!("FromNetfront(a) -> {chain} -> ToNetfront(b);"));
            world.net.finish();
            let start = world.locations.iter().find(|s| s.name == "a").and_then(|s| s.edge_ports[0].start.clone());
            let start = start.unwrap();
            let paths = Paths::new(&world.net, &[start.place], &start.input, Limits::of_networks());
            prop_assert_eq!(paths.incomplete, None, "{}", chain);
            for p in &packets {
                paths.assert_taken(std::slice::from_ref(p), &[]);
            }
        }
    }
}
