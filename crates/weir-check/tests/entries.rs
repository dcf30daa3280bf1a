//! Packets come in as they can come in: of every length, with the marks, checksum states and packet types that ports leave
//! with them, and without anything that is left of another graph.

use proptest::prelude::*;
use weir_check::{Status, World};
use weir_ir::program::MetaField;
use weir_model::requirement::Requirement;
use weir_net::build;
use weir_packet::entry::{self, Entry};
use weir_plan::{Classes, Plan};
use weir_topology::Topology;
use weir_verify::Limits;
use weir_verify::testing::Paths;

use Status::{Holds, Violated};

fn world(config: &str) -> World {
    World::of_click(&Plan::new(&Classes::default(), config, "test").unwrap_or_else(|e| panic!("{e:?}")))
}

fn asked(mut world: World, line: &str) -> Status {
    let question = world.question(&Requirement::parse(line).unwrap()).unwrap_or_else(|e| panic!("{e:?}"));
    world.net.finish();
    let answer = world.answer(&question, Limits::of_networks());
    // Shown if the test fails.
    println!("{line}: {} {:?}", answer.status, answer.doubt);
    answer.status
}

#[test]
fn frames_may_be_longer_than_the_usual_mtu() {
    let long = "FromDevice(a) -> c :: CheckLength(2000); c[0] -> Discard; c[1] -> Queue -> ToDevice(b);";
    assert_eq!(asked(world(long), "never a b"), Violated);
    assert_eq!(asked(world(&long.replace("2000", "65535")), "never a b"), Violated);
    assert_eq!(asked(world(&long.replace("2000", "262143")), "never a b"), Violated);
    assert_eq!(asked(world(&long.replace("2000", "262144")), "never a b"), Holds);
    // An interface for IP packets gives long ones too.
    let ip = "FromNetfront(a) -> IPFilter(allow ip len > 9000, deny all) -> ToNetfront(b);";
    assert_eq!(asked(world(ip), "never a b"), Violated);
}

#[test]
fn the_headers_of_ip_packets_are_marked_where_they_come_in() {
    for entrance in ["FromNetfront(a)", "t :: KernelTun(10.0.0.1/24, DEVNAME a)"] {
        let inner = format!("{entrance} -> StripIPHeader -> Strip(8) -> CheckIPHeader -> ToNetfront(b);");
        assert_eq!(asked(world(&inner), "never a b"), Violated, "{entrance}");
    }
    // Frames have no mark but that of their first byte.
    let frames = "FromDevice(a) -> StripToNetworkHeader -> Queue -> ToDevice(b);";
    assert_eq!(asked(world(frames), "never a b"), Holds);
}

#[test]
fn a_device_has_its_name_whichever_element_reads_it() {
    for class in ["FromDevice", "PollDevice", "FromHost"] {
        let config = format!("{class}(a) -> Queue -> ToDevice(b);");
        assert_eq!(asked(world(&config), "can a b"), Holds, "{class}");
    }
}

#[test]
fn the_filter_of_a_device_is_part_of_the_proof() {
    let config = |filter: &str| format!("FromDevice(a, BPF_FILTER {filter}) -> Queue -> ToDevice(b);");
    for (filter, line, status) in [
        ("udp dst port 5 or 7", "never a b tcp", Holds),
        ("udp dst port 5 or 7", "never a b udp dst port 6", Holds),
        ("udp dst port 5 or 7", "never a b udp dst port 7", Violated),
        ("udp dst port 5 or 7", "only a b udp", Holds),
        ("udp dst port 5 or 7", "all a b udp dst port 7", Holds),
        ("not udp", "never a b udp", Holds),
        ("not udp", "never a b tcp", Violated),
        ("vlan 7 and tcp", "never a b not vlan", Holds),
        ("vlan 7 and tcp", "can a b vlan 7 and tcp", Holds),
    ] {
        assert_eq!(asked(world(&config(filter)), line), status, "{filter}: {line}");
    }
    // It leaves no marks.
    let unmarked =
        "FromDevice(a, BPF_FILTER udp dst port 5) -> StripToNetworkHeader -> Queue -> ToDevice(b);";
    assert_eq!(asked(world(unmarked), "never a b"), Holds);
}

#[test]
fn a_checksum_that_is_left_to_the_device_is_not_looked_at() {
    // Bytes that no finished checksum can have: one of UDP is not 0 where it has to be there.
    let config = "FromDevice(a) -> CheckIPHeader(14) -> IPFilter(allow udp and ip[20:2] = 0 and ip[22:2] = 0 and \
                  ip[24:2] = 8 and ip[26:2] = 1 and src host 10.0.0.1 and dst host 10.0.0.2 and ip[2:2] = 28 and \
                  ip[0] = 0x45, deny all) -> CheckUDPHeader -> Queue -> ToDevice(b);";
    assert_eq!(asked(world(config), "never a b"), Violated);
    // A file has no such packets.
    let config = config.replace("FromDevice(a)", "FromDump(a)");
    assert_eq!(asked(world(&config), "never a b"), Holds);
}

#[test]
fn nothing_is_left_of_the_network_in_front_of_a_device() {
    let text = |entrance: &str| {
        format!(
            "boxes:\n  a: {{kind: host, owns: 10.0.0.1}}\n  b: {{kind: host, owns: 10.0.0.2}}\n  box:\n    kind: click\n    \
             ports: [left, right]\n    config: '{entrance} -> Queue -> ToDevice(right); FromDevice(right) -> Queue -> \
             ToDevice(left);'\nlinks: [a - box:left, box:right - b]\n"
        )
    };
    let answer = |entrance: &str| {
        let topology = Topology::parse(&text(entrance)).unwrap_or_else(|e| panic!("{e}"));
        asked(World::of_topology(&topology, &Classes::default(), |_, _| false).unwrap(), "can a b")
    };
    assert_eq!(answer("FromDevice(left)"), Holds);
    assert_eq!(answer("FromDevice(left) -> CheckIPHeader(14)"), Holds);
    // Links of a topology carry packets with a mark, devices do not.
    assert_eq!(answer("FromDevice(left) -> StripToNetworkHeader -> Unstrip(14)"), Violated);
    // Nor do devices deliver annotations.
    assert_eq!(answer("FromDevice(left) -> s :: PaintSwitch(47); s[1] -> Discard; s[0]"), Holds);
}

/// Chains of elements behind an entry, whose packets leave at `b`.
const CHAINS: &[&str] = &[
    "CheckLength(1800)",
    "Strip(14) -> CheckIPHeader -> Unstrip(14)",
    "Strip(14) -> CheckIPHeader -> CheckUDPHeader -> Unstrip(14)",
    "CheckIPHeader(14) -> CheckTCPHeader",
    "VLANEncap(VLAN_TCI 5)",
    "EtherEncap(0x0800, 02:00:00:00:00:01, 02:00:00:00:00:02) -> Strip(20)",
    "HostEtherFilter(02:00:00:00:00:02)",
    "MarkMACHeader -> StripToNetworkHeader",
];

const IP_CHAINS: &[&str] = &[
    "StripIPHeader -> Strip(8)",
    "CheckIPHeader -> CheckUDPHeader",
    "CheckIPHeader -> DecIPTTL",
    "SetUDPChecksum",
    "CheckLength(1800)",
    "GREEncap(1.2.3.4, 5.6.7.8)",
    "IPEncap(4, 1.2.3.4, 5.6.7.8)",
    "CheckIPHeader -> IPFilter(allow udp dst port 53, deny all) -> SetIPDSCP(3)",
];

/// A packet with metadata that its entry lets come in so.
#[derive(Debug, Clone)]
struct Sent {
    bytes: Vec<u8>,
    packet_type: u8,
    checksum: u8,
    segment: u16,
    time: u64,
}

impl Sent {
    fn meta(&self, entry: &Entry) -> weir_verify::checks::Meta {
        let within = |v: u8, range: &std::ops::RangeInclusive<u8>| v.clamp(*range.start(), *range.end());
        MetaField::ALL.map(|field| match field {
            MetaField::PacketType => within(self.packet_type, &entry.packet_type).into(),
            MetaField::Checksum => within(self.checksum, &entry.checksum).into(),
            MetaField::SegmentSize if entry.segments => self.segment.into(),
            MetaField::Timestamp => self.time.into(),
            _ => 0,
        })
    }
}

/// A whole packet of UDP or TCP, or of anything, of any length that a chain cares about.
fn sent() -> impl Strategy<Value = Sent> {
    let payload = prop_oneof![0..40_usize, 1700..1960_usize, Just(9000_usize), Just(60_000_usize)];
    (payload, any::<bool>(), 0..8_u8, 0..3_u8, prop_oneof![Just(0), Just(1448_u16)], any::<u64>(), 0..4_u8)
        .prop_map(|(n, tcp, packet_type, checksum, segment, time, damage)| {
            let ends = (([10, 0, 0, 1].into(), 9), ([10, 0, 0, 2].into(), 53));
            let payload = vec![0x45; n];
            let mut bytes = if tcp {
                build::tcp4(ends.0, ends.1, build::TcpFields::default(), &payload)
            } else {
                build::udp4(ends.0, ends.1, &payload)
            };
            match damage {
                1 => bytes[40] ^= 0x11,
                2 => bytes[12] = 0x81,
                3 => bytes[21] = 1,
                _ => {}
            }
            Sent { bytes, packet_type, checksum, segment, time }
        })
}

/// The paths through a chain behind an entry, if all were explored, and what packets are there.
fn taken(config: &str, entry: &Entry, from: usize, packets: &[Sent]) -> bool {
    let mut world = world(config);
    world.net.finish();
    let start =
        world.locations.iter().find(|s| s.name == "a").and_then(|s| s.edge_ports[0].start.clone()).unwrap();
    assert_eq!(start.input.entry.map(|e| e.name), Some(entry.name), "{config}");
    let limits = Limits { paths: 500, ..Limits::of_networks() };
    let paths = Paths::new(&world.net, &[start.place], &start.input, limits);
    if paths.incomplete.is_some() {
        return false;
    }
    for p in packets {
        paths.assert_taken_with(&[p.bytes[from..].to_vec()], &[p.meta(entry)], &[]);
    }
    true
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    #[test]
    fn each_run_from_an_entry_takes_a_way(packets in proptest::collection::vec(sent(), 8)) {
        let frames = [
            ("FromDevice(a)", &entry::DEVICE),
            ("FromDevice(a, BPF_FILTER udp port 53 or vlan)", &entry::DEVICE),
            ("FromHost(a)", &entry::TAP),
            ("FromLink(a)", &entry::LINK),
            ("FromDump(a)", &entry::FRAMES_OF_FILE),
            ("a :: Socket(UDP, 127.0.0.1, 5000)", &entry::SOCKET),
        ];
        for (entrance, entry) in frames {
            let mut whole = 0;
            for chain in CHAINS {
                let config = format!("{entrance} -> {chain} -> Queue -> ToDevice(b);");
                whole += usize::from(taken(&config, entry, 0, &packets));
            }
            prop_assert!(whole * 2 > CHAINS.len(), "{}: {} of {} explored", entrance, whole, CHAINS.len());
        }
        let mut whole = 0;
        for chain in IP_CHAINS {
            let config = format!("FromNetfront(a) -> {chain} -> ToNetfront(b);");
            whole += usize::from(taken(&config, &entry::TUN, 14, &packets));
        }
        prop_assert!(whole * 2 > IP_CHAINS.len(), "{} of {} explored", whole, IP_CHAINS.len());
    }
}
