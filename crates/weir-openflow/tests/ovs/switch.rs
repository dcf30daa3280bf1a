//! Our controller's end against Open vSwitch.

use std::net::Ipv4Addr;

use crate::lab::{Client, Ovs, bridge, eventually};
use weir_openflow::action::{Action, Instruction, SetField, WriteMetadata};
use weir_openflow::error::{bad_match, bad_request, flow_mod_failed, group_mod_failed, role_request_failed};
use weir_openflow::flow::{FlowMod, PacketOut};
use weir_openflow::message::{AsyncConfig, PortMod, RoleMessage, SwitchConfig};
use weir_openflow::meter::{Band, Bucket, GroupMod, MeterBand, MeterMod, RemarkBand};
use weir_openflow::multipart::{MultipartReply, MultipartRequest};
use weir_openflow::numbers::{
    FlowModCommand, FlowModFlags, FlowRemovedReason, GroupModCommand, GroupType, MaxLen, MeterFlags,
    MeterModCommand, PacketInReason, PortConfig, PortFeatures, PortReason, QueueId,
};
use weir_openflow::oxm::{Field, FieldValue, Oxm};
use weir_openflow::stats::{FlowStatsRequest, GroupRequest, MeterRequest, PortRequest, QueueRequest};
use weir_openflow::{GroupId, Match, Message, MeterId, PortNo, Role, TableId};

/// Ethernet, IPv4, UDP: a packet of 42 bytes and more.
const PACKET: &str = "0200000000020200000000010800450000240000000040117cc80a0000010a000002\
                      13880035001000007061796c6f616421";

/// Lines without what differs from run to run.
fn entries(dump: &str) -> Vec<String> {
    let start = |line: &str| line.find("priority=").or_else(|| line.find("actions=")).unwrap_or(0);
    let table = |line: &str| line.split("table=").nth(1).and_then(|t| t.split(',').next()).map(str::to_owned);
    let mut lines: Vec<String> = dump
        .lines()
        .filter(|l| l.contains("actions="))
        .map(|l| format!("table={} {}", table(l).unwrap_or_default(), &l[start(l)..]))
        .collect();
    lines.sort();
    lines
}

/// An entry of each kind: matches, instructions, actions.
fn flows() -> Vec<FlowMod> {
    let matching = |f: fn(Match) -> Result<Match, weir_openflow::ValueError>| {
        f(Match::any_packet()).expect("it is a match")
    };
    let set = |field, value: u128| {
        Action::SetField(SetField(Oxm::Basic(FieldValue::new(field, value).expect("it fits"))))
    };
    let tcp = matching(|m| {
        m.with(Field::InPort, PortNo(1))?
            .with(Field::EthType, 0x800_u16)?
            .with(Field::IpProto, 6_u8)?
            .with_masked(Field::Ipv4Dst, Ipv4Addr::new(10, 1, 0, 0), Ipv4Addr::new(255, 255, 0, 0))?
            .with(Field::TcpDst, 80_u16)
    });
    let vlan = matching(|m| {
        m.with(Field::VlanVid, 0x1000_u16 | 5)?.with(Field::VlanPcp, 3_u8)?.with_masked(
            Field::Metadata,
            0xff_u8,
            0xffff_u16,
        )
    });
    let nd = matching(|m| {
        m.with(Field::EthType, 0x86dd_u16)?
            .with(Field::IpProto, 58_u8)?
            .with(Field::Icmpv6Type, 135_u8)?
            .with(Field::Ipv6NdTarget, std::net::Ipv6Addr::LOCALHOST)
    });
    let arp = matching(|m| {
        m.with(Field::EthType, 0x806_u16)?
            .with(Field::ArpOp, 1_u16)?
            .with(Field::ArpTpa, Ipv4Addr::new(10, 0, 0, 9))?
            .with_masked(Field::EthDst, 0x0100_0000_0000_u64, 0x0100_0000_0000_u64)
    });
    let mpls = matching(|m| {
        m.with(Field::EthType, 0x8847_u16)?.with(Field::MplsLabel, 77_u32)?.with(Field::MplsBos, 1_u8)
    });
    let label = matching(|m| {
        m.with(Field::EthType, 0x86dd_u16)?.with(Field::Ipv6Flabel, 0x12345_u32)?.with(Field::IpDscp, 46_u8)
    });
    let go = |actions: Vec<Action>| vec![Instruction::apply(actions)];
    vec![
        FlowMod::add(TableId(0), 10, tcp.clone(), go(vec![Action::output(PortNo(2))])),
        FlowMod {
            cookie: 0xabc,
            idle_timeout: 60,
            hard_timeout: 600,
            flags: FlowModFlags::SEND_FLOW_REM,
            ..FlowMod::add(
                TableId(0),
                20,
                vlan,
                vec![
                    Instruction::Meter(MeterId(7)),
                    Instruction::apply(vec![
                        Action::PopVlan,
                        Action::PushVlan(0x8100),
                        set(Field::VlanVid, 0x1009),
                    ]),
                    Instruction::WriteActions(vec![Action::Group(GroupId(1))].into()),
                    Instruction::WriteMetadata(WriteMetadata { metadata: 0x12, mask: 0xff }),
                    Instruction::GotoTable(TableId(1)),
                ],
            )
        },
        FlowMod::add(
            TableId(1),
            30,
            nd,
            go(vec![set(Field::EthSrc, 0x0200_0000_0001), Action::output(PortNo::CONTROLLER)]),
        ),
        FlowMod::add(
            TableId(1),
            31,
            arp,
            go(vec![Action::output(PortNo::FLOOD), Action::output(PortNo::IN_PORT)]),
        ),
        FlowMod::add(
            TableId(1),
            32,
            mpls,
            go(vec![Action::DecMplsTtl, Action::PopMpls(0x800), Action::output(PortNo(1))]),
        ),
        FlowMod::add(
            TableId(2),
            33,
            label,
            go(vec![Action::SetQueue(QueueId(3)), Action::DecNwTtl, Action::SetNwTtl(9)]),
        ),
        FlowMod::add(TableId(2), 1, Match::any_packet(), vec![]),
        FlowMod::add(
            TableId(3),
            5,
            tcp,
            go(vec![
                set(Field::Ipv4Src, 0x0a00_0001),
                set(Field::TcpSrc, 8080),
                Action::output(PortNo::NORMAL),
            ]),
        ),
    ]
}

fn group(command: GroupModCommand, kind: GroupType, id: u32, buckets: Vec<Bucket>) -> Message {
    Message::GroupMod(GroupMod { command, kind, group: GroupId(id), buckets })
}

fn meter(id: u32, flags: MeterFlags, bands: Vec<MeterBand>) -> MeterMod {
    MeterMod { command: MeterModCommand::Add, flags, meter: MeterId(id), bands }
}

#[test]
fn what_we_install_the_switch_has_and_what_it_has_we_read() {
    let (ovs, mut client) = bridge();
    let features = client.features();
    assert_eq!((features.datapath, features.n_tables, features.auxiliary), (0xab, 254, 0));

    let out = |port| Bucket::of(vec![Action::output(PortNo(port))]);
    let groups = [
        (GroupType::Select, 1, vec![Bucket { weight: 3, ..out(1) }, Bucket { weight: 1, ..out(2) }]),
        (GroupType::All, 2, vec![out(1), out(2)]),
        (GroupType::Indirect, 3, vec![out(2)]),
        (
            GroupType::FastFailover,
            4,
            vec![Bucket { watch_port: PortNo(1), ..out(1) }, Bucket { watch_port: PortNo(2), ..out(2) }],
        ),
    ];
    for (kind, id, buckets) in groups.clone() {
        assert_eq!(client.change(group(GroupModCommand::Add, kind, id, buckets)), Ok(()));
    }
    let drop = MeterBand::Drop(Band { rate: 1000, burst_size: 100 });
    let meters = [
        meter(7, MeterFlags::KBPS | MeterFlags::BURST | MeterFlags::STATS, vec![drop]),
        meter(8, MeterFlags::PKTPS, vec![MeterBand::Drop(Band { rate: 5, burst_size: 5 })]),
    ];
    for meter in meters.clone() {
        assert_eq!(client.change(Message::MeterMod(meter)), Ok(()));
    }
    for flow in flows() {
        assert_eq!(client.change(Message::FlowMod(flow.clone())), Ok(()), "{flow}");
    }

    // Read by us, and by its own program: the same, to the letter.
    let MultipartReply::Flow(stats) =
        client.multipart(MultipartRequest::Flow(FlowStatsRequest::all(TableId::ALL)))
    else {
        panic!("another reply")
    };
    let ours: String = stats.iter().map(|s| format!("{s}\n")).collect();
    assert_eq!(entries(&ours), entries(&ovs.ofctl("dump-flows", &[])));
    // And what was installed.
    let mut read: Vec<_> = stats
        .iter()
        .map(|s| (s.table, s.priority, s.matching.to_string(), s.cookie, s.idle_timeout, s.flags.0))
        .collect();
    let mut sent: Vec<_> = flows()
        .iter()
        .map(|f| (f.table, f.priority, f.matching.to_string(), f.cookie, f.idle_timeout, f.flags.0))
        .collect();
    read.sort();
    sent.sort();
    assert_eq!(read, sent);
    let instructions = |f: &FlowMod| f.instructions.clone();
    let second = stats.iter().find(|s| s.cookie == 0xabc).expect("it is there");
    assert_eq!(second.instructions, instructions(&flows()[1]));

    let one = FlowStatsRequest { cookie: 0xabc, cookie_mask: u64::MAX, ..FlowStatsRequest::all(TableId(0)) };
    let MultipartReply::Aggregate(sums) = client.multipart(MultipartRequest::Aggregate(one)) else {
        panic!("another reply")
    };
    assert_eq!(sums.flow_count, 1);

    let MultipartReply::GroupDesc(described) = client.multipart(MultipartRequest::GroupDesc) else {
        panic!("another reply")
    };
    let mut described: Vec<_> = described.into_iter().map(|g| (g.kind, g.group.0, g.buckets)).collect();
    described.sort_by_key(|(_, id, _)| *id);
    assert_eq!(described, groups);
    let all = GroupRequest { group: GroupId::ALL };
    let MultipartReply::Group(counted) = client.multipart(MultipartRequest::Group(all)) else {
        panic!("another reply")
    };
    assert_eq!(counted.iter().find(|g| g.group.0 == 1).map(|g| (g.ref_count, g.buckets.len())), Some((1, 2)));
    let MultipartReply::GroupFeatures(can) = client.multipart(MultipartRequest::GroupFeatures) else {
        panic!("another reply")
    };
    assert_eq!(can.types, 0b1111);

    let all = || MeterRequest { meter: MeterId::ALL };
    let MultipartReply::MeterConfig(mut configured) = client.multipart(MultipartRequest::MeterConfig(all()))
    else {
        panic!("another reply")
    };
    configured.sort_by_key(|m| m.meter);
    let configured: Vec<_> = configured.into_iter().map(|m| meter(m.meter.0, m.flags, m.bands)).collect();
    assert_eq!(configured, meters);
    let MultipartReply::Meter(measured) = client.multipart(MultipartRequest::Meter(all())) else {
        panic!("another reply")
    };
    assert_eq!(measured.iter().find(|m| m.meter.0 == 7).map(|m| (m.flow_count, m.bands.len())), Some((1, 1)));
    let MultipartReply::MeterFeatures(can) = client.multipart(MultipartRequest::MeterFeatures) else {
        panic!("another reply")
    };
    assert!(can.max_meter > 0 && can.max_bands > 0);
}

#[test]
fn the_switch_tells_what_it_is_and_what_it_did() {
    let (_ovs, mut client) = bridge();
    let MultipartReply::Desc(desc) = client.multipart(MultipartRequest::Desc) else {
        panic!("another reply")
    };
    assert_eq!(
        (desc.manufacturer.to_string().as_str(), desc.hardware.to_string().as_str()),
        ("Nicira, Inc.", "Open vSwitch")
    );

    let MultipartReply::PortDesc(ports) = client.multipart(MultipartRequest::PortDesc) else {
        panic!("another reply")
    };
    let mut names: Vec<_> = ports.iter().map(|p| (p.port.0, p.name.to_string())).collect();
    names.sort();
    let wanted = [(1, "p1"), (2, "p2"), (PortNo::LOCAL.0, "br0")].map(|(n, name)| (n, name.to_owned()));
    assert_eq!(names, wanted);

    let MultipartReply::Port(counters) =
        client.multipart(MultipartRequest::Port(PortRequest { port: PortNo(1) }))
    else {
        panic!("another reply")
    };
    assert_eq!(counters.len(), 1);
    let MultipartReply::Table(tables) = client.multipart(MultipartRequest::Table) else {
        panic!("another reply")
    };
    assert_eq!(tables.len(), 254);

    // 254 tables with all that they can: several messages.
    let MultipartReply::TableFeatures(features) = client.multipart(MultipartRequest::TableFeatures(vec![]))
    else {
        panic!("another reply")
    };
    assert_eq!(features.len(), 254);
    assert_eq!(features[253].table, TableId(253));
    let all = QueueRequest { port: PortNo::ANY, queue: QueueId::ALL };
    let MultipartReply::Queue(queues) = client.multipart(MultipartRequest::Queue(all)) else {
        panic!("another reply")
    };
    assert_eq!(queues.len(), 3, "the one queue of each port");

    let config = SwitchConfig { flags: 0, miss_send_len: MaxLen(77) };
    assert_eq!(client.change(Message::SetConfig(config.clone())), Ok(()));
    assert_eq!(client.ask(Message::GetConfigRequest), Ok(Message::GetConfigReply(config)));
    let asynchronous = AsyncConfig { packet_in: [0b101, 0b1], ..AsyncConfig::default() };
    assert_eq!(client.change(Message::SetAsync(asynchronous.clone())), Ok(()));
    let Ok(Message::GetAsyncReply(read)) = client.ask(Message::GetAsyncRequest) else {
        panic!("another reply")
    };
    assert_eq!(read.packet_in, asynchronous.packet_in);
}

#[test]
fn packets_go_up_and_down_and_ends_are_told() {
    let (ovs, mut client) = bridge();
    let up = Instruction::apply(vec![Action::output(PortNo::CONTROLLER)]);
    let hear = FlowMod {
        cookie: 0x77,
        flags: FlowModFlags::SEND_FLOW_REM,
        ..FlowMod::add(TableId(0), 9, Match::any_packet(), vec![up])
    };
    client.change(Message::FlowMod(hear.clone())).expect("it is taken");
    ovs.appctl(&["netdev-dummy/receive", "p1", &PACKET.replace(' ', "")]);
    let packet = client.hear(|m| match m {
        Message::PacketIn(p) => Some(p.clone()),
        _ => None,
    });
    assert_eq!((packet.cookie, packet.reason, packet.table), (0x77, PacketInReason::Action, TableId(0)));
    assert_eq!(packet.matching.get(Field::InPort).map(FieldValue::value), Some(1));
    let hex: String = packet.data.0.iter().map(|b| format!("{b:02x}")).collect();
    assert!(hex.starts_with(&PACKET.replace(' ', "")), "{hex}");

    // Back, out of the other port.
    let down = PacketOut::new(vec![Action::output(PortNo(2))], packet.data.clone());
    client.change(Message::PacketOut(down)).expect("it is taken");
    let sent = eventually(|| std::fs::read(ovs.path("p2.pcap")).ok().filter(|f| f.len() > 40));
    assert!(sent.windows(packet.data.0.len()).any(|w| w == packet.data.0));

    let gone = FlowMod::new(FlowModCommand::Delete, TableId::ALL, Match::any_packet());
    client.change(Message::FlowMod(gone)).expect("it is taken");
    let removed = client.hear(|m| match m {
        Message::FlowRemoved(r) => Some(r.clone()),
        _ => None,
    });
    assert_eq!((removed.cookie, removed.reason, removed.priority), (0x77, FlowRemovedReason::Delete, 9));
    assert_eq!(removed.packet_count, 1);

    ovs.add_port("p3", 3);
    client.hear(|m| {
        matches!(m, Message::PortStatus(s) if s.reason == PortReason::Add && s.port.port == PortNo(3))
            .then_some(())
    });
    let MultipartReply::PortDesc(ports) = client.multipart(MultipartRequest::PortDesc) else {
        panic!("another reply")
    };
    let address = ports.iter().find(|p| p.port == PortNo(3)).map(|p| p.hw_addr).expect("it is there");
    let down = PortMod {
        port: PortNo(3),
        hw_addr: address,
        config: PortConfig::PORT_DOWN,
        mask: PortConfig::PORT_DOWN,
        advertise: PortFeatures::default(),
    };
    client.change(Message::PortMod(down)).expect("it is taken");
    client.hear(|m| {
        matches!(m, Message::PortStatus(s) if s.reason == PortReason::Modify && s.port.config.has(PortConfig::PORT_DOWN)).then_some(())
    });
    ovs.vsctl(&["del-port", "br0", "p3"]);
    client.hear(|m| matches!(m, Message::PortStatus(s) if s.reason == PortReason::Delete).then_some(()));
}

#[test]
fn one_of_two_controllers_is_primary() {
    let ovs = Ovs::start();
    let mut clients = Client::of_bridge(&ovs, &["c1", "c2"]);
    let mut second = clients.pop().expect("two");
    let mut first = clients.pop().expect("two");
    let become_ = |role, generation| Message::RoleRequest(RoleMessage { role, generation });
    let is = |role, generation| Ok(Message::RoleReply(RoleMessage { role, generation }));
    assert_eq!(first.ask(become_(Role::NoChange, 0)), is(Role::Equal, u64::MAX));
    assert_eq!(first.ask(become_(Role::Primary, 5)), is(Role::Primary, 5));
    assert_eq!(second.ask(become_(Role::Primary, 6)), is(Role::Primary, 6));
    assert_eq!(first.ask(become_(Role::NoChange, 0)), is(Role::Secondary, 6));
    assert_eq!(first.ask(become_(Role::Primary, 5)), Err(role_request_failed::STALE));
    let flow = || Message::FlowMod(FlowMod::add(TableId(0), 1, Match::any_packet(), vec![]));
    assert_eq!(first.change(flow()), Err(bad_request::IS_SLAVE));
    assert_eq!(second.change(flow()), Ok(()));
}

#[test]
fn what_the_switch_refuses_comes_with_its_error() {
    let (_ovs, mut client) = bridge();
    let table = FlowMod::add(TableId::ALL, 1, Match::any_packet(), vec![]);
    assert_eq!(client.change(Message::FlowMod(table)), Err(flow_mod_failed::BAD_TABLE_ID));
    let pbb = Match::any_packet().with(Field::EthType, 0x88e7_u16).and_then(|m| m.with(Field::PbbIsid, 1_u8));
    let unknown = FlowMod::add(TableId(0), 1, pbb.expect("it is a match"), vec![]);
    assert_eq!(client.change(Message::FlowMod(unknown)), Err(bad_match::BAD_FIELD));
    let missing = group(GroupModCommand::Modify, GroupType::All, 99, vec![]);
    assert_eq!(client.change(missing), Err(group_mod_failed::UNKNOWN_GROUP));
    let remark = MeterBand::DscpRemark(RemarkBand { rate: 1, burst_size: 0, prec_level: 1 });
    assert!(client.change(Message::MeterMod(meter(9, MeterFlags::KBPS, vec![remark]))).is_err());
}
