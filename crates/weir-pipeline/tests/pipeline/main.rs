//! What packets and controllers meet, step by step.

use proptest::prelude::*;
use weir_net::{EtherAddr, Headers, checksum};
use weir_openflow::action::{Action, Instruction, SetField};
use weir_openflow::connection::{Notification, Time};
use weir_openflow::error::{bad_action, bad_instruction, bad_request, flow_mod_failed, group_mod_failed};
use weir_openflow::flow::{FlowMod, PacketOut};
use weir_openflow::meter::{Bucket, GroupMod};
use weir_openflow::multipart::{MultipartReply, MultipartRequest, Part};
use weir_openflow::numbers::{
    FlowModCommand, FlowModFlags, FlowRemovedReason, GroupModCommand, GroupType, MaxLen, PacketInReason,
};
use weir_openflow::oxm::{Field, FieldValue, Oxm};
use weir_openflow::stats::{FlowStats, FlowStatsRequest};
use weir_openflow::{BufferId, ErrorCode, GroupId, Match, Message, PortNo, TableId};
use weir_packet::Packet;
use weir_pipeline::{Drop, Effect, Options, Pipeline};

const PORTS: u32 = 4;

fn switch() -> Pipeline {
    let options = Options { datapath: 1, name: "test".into(), tables: 4, version: "1".into() };
    let mut pipeline = Pipeline::new(options);
    for n in 1..=PORTS {
        pipeline.add_port(n, &format!("p{n}"), EtherAddr([2, 0, 0, 0, 0, n as u8]), Time::ZERO);
    }
    pipeline.notifications();
    pipeline
}

fn secs(n: u64) -> Time {
    Time::from_secs(n)
}

fn output(port: u32) -> Action {
    Action::output(PortNo(port))
}

fn set(field: Field, value: u128) -> Action {
    Action::SetField(SetField(Oxm::Basic(FieldValue::new(field, value).unwrap())))
}

fn apply(actions: Vec<Action>) -> Vec<Instruction> {
    vec![Instruction::apply(actions)]
}

fn ip() -> Match {
    Match::any_packet().with(Field::EthType, 0x800_u16).unwrap()
}

fn udp() -> Match {
    ip().with(Field::IpProto, 17_u8).unwrap()
}

fn do_it(p: &mut Pipeline, m: FlowMod) -> Result<(), ErrorCode> {
    p.request(Message::FlowMod(m), Time::ZERO).map(drop)
}

fn add(p: &mut Pipeline, table: u8, priority: u16, matching: Match, instructions: Vec<Instruction>) {
    do_it(p, FlowMod::add(TableId(table), priority, matching, instructions)).unwrap();
}

fn flows(p: &mut Pipeline, request: FlowStatsRequest) -> Vec<FlowStats> {
    let ask = Message::MultipartRequest(Part::of(MultipartRequest::Flow(request)));
    match p.request(ask, Time::ZERO) {
        Ok(Some(Message::MultipartReply(Part { body: MultipartReply::Flow(flows), .. }))) => flows,
        other => panic!("{other:?}"),
    }
}

/// A datagram, or a segment, with right checksums.
fn frame(protocol: u8, source: u8, port: u16, payload: &[u8]) -> Vec<u8> {
    let (from, to) = ([10, 0, 0, source], [10, 0, 1, 1]);
    let builder = etherparse::PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4(from, to, 9);
    let mut frame = Vec::new();
    match protocol {
        6 => builder.tcp(port, 80, 1, 2).write(&mut frame, payload),
        17 => builder.udp(port, 53).write(&mut frame, payload),
        _ => builder.icmpv4_echo_request(1, 2).write(&mut frame, payload),
    }
    .unwrap();
    frame
}

fn send(p: &mut Pipeline, port: u32, frame: &[u8], now: Time) -> Vec<(u32, Vec<u8>)> {
    p.receive(port, Packet::from_bytes(frame).unwrap(), now);
    sent(p)
}

/// What leaves, where; what is for the controller is at port 0.
fn sent(p: &mut Pipeline) -> Vec<(u32, Vec<u8>)> {
    let shown = |effect| match effect {
        Effect::Send { port, packet } => (port, packet.bytes().to_vec()),
        Effect::Controller(upcall) => (0, upcall.packet.bytes().to_vec()),
    };
    p.effects().into_iter().map(shown).collect()
}

fn ports(p: &mut Pipeline, frame: &[u8]) -> Vec<u32> {
    send(p, 1, frame, Time::ZERO).into_iter().map(|(port, _)| port).collect()
}

#[test]
fn tables_pass_on_metadata_and_the_set_is_done_at_the_end() {
    let mut p = switch();
    let write = weir_openflow::action::WriteMetadata { metadata: 0x50, mask: 0xf0 };
    let first = vec![
        Instruction::WriteActions(vec![output(2), set(Field::Ipv4Src, 7)].into()),
        Instruction::WriteMetadata(write),
        Instruction::GotoTable(TableId(2)),
    ];
    add(&mut p, 0, 1, ip(), first);
    let five = Match::any_packet().with_masked(Field::Metadata, 0x50_u64, 0xf0_u64).unwrap();
    let second = vec![
        Instruction::apply(vec![output(4)]),
        Instruction::WriteActions(vec![output(3), Action::PushVlan(0x8100)].into()),
    ];
    add(&mut p, 2, 1, five, second);
    let frame = frame(17, 9, 5, b"x");
    let out = send(&mut p, 1, &frame, Time::ZERO);
    assert_eq!(out[0], (4, frame.clone()), "as it was when it was applied");
    assert_eq!((out.len(), out[1].0), (2, 3), "of two outputs of the set, the later one");
    assert_eq!(out[1].1[12..18], [0x81, 0, 0, 0, 8, 0]);
    assert_eq!(out[1].1[30..34], [0, 0, 0, 7]);
    // The set is emptied.
    let clear = vec![Instruction::ClearActions(weir_openflow::action::Padding {})];
    add(&mut p, 2, 2, Match::any_packet(), clear);
    assert_eq!(ports(&mut p, &frame), [0_u32; 0]);
    assert_eq!(p.drops()[&Drop::Entry], 1);
}

#[test]
fn entries_end_in_time_and_say_so_with_their_counters() {
    let mut p = switch();
    let with = |idle, hard, priority: u16| FlowMod {
        idle_timeout: idle,
        hard_timeout: hard,
        cookie: priority.into(),
        flags: FlowModFlags::SEND_FLOW_REM,
        ..FlowMod::add(TableId(0), priority, ip(), apply(vec![output(2)]))
    };
    do_it(&mut p, with(5, 0, 1)).unwrap();
    do_it(&mut p, with(5, 12, 2)).unwrap();
    let frame = frame(17, 9, 5, b"x");
    for n in 1..=4 {
        assert_eq!(send(&mut p, 1, &frame, secs(n * 3)).len(), 1, "{n}");
        p.tick(secs(n * 3));
    }
    let gone = |p: &mut Pipeline| {
        let shown = |n| match n {
            Notification::FlowRemoved(r) => {
                (r.cookie, r.reason, r.packet_count, r.byte_count, r.duration_sec)
            }
            other => panic!("{other:?}"),
        };
        p.notifications().into_iter().map(shown).collect::<Vec<_>>()
    };
    let bytes = frame.len() as u64;
    // That of priority 1 had no packets.
    assert_eq!(
        gone(&mut p),
        [(1, FlowRemovedReason::IdleTimeout, 0, 0, 6), (2, FlowRemovedReason::HardTimeout, 4, 4 * bytes, 12)]
    );
    assert_eq!(p.entry_count(), 0);
    assert_eq!(p.next_timeout(), None);
}

#[test]
fn changes_mean_what_they_cover() {
    let mut p = switch();
    let of = |n: u8| udp().with(Field::UdpSrc, u16::from(n)).unwrap();
    for n in 1..=3 {
        let m = FlowMod { cookie: n.into(), ..FlowMod::add(TableId(0), 10, of(n), apply(vec![output(2)])) };
        do_it(&mut p, m).unwrap();
    }
    let change = |command, matching, priority| FlowMod {
        priority,
        instructions: apply(vec![output(3)]),
        ..FlowMod::new(command, TableId(0), matching)
    };
    let at =
        |p: &mut Pipeline| -> Vec<Vec<u32>> { (1..=3).map(|n| ports(p, &frame(17, 9, n, b""))).collect() };
    do_it(&mut p, change(FlowModCommand::ModifyStrict, udp(), 10)).unwrap();
    assert_eq!(at(&mut p), [[2], [2], [2]], "none has this match itself");
    do_it(&mut p, change(FlowModCommand::ModifyStrict, of(2), 9)).unwrap();
    assert_eq!(at(&mut p), [[2], [2], [2]], "nor this priority");
    do_it(&mut p, change(FlowModCommand::ModifyStrict, of(2), 10)).unwrap();
    assert_eq!(at(&mut p), [[2], [3], [2]]);
    let mut only = change(FlowModCommand::Modify, udp(), 0);
    (only.cookie, only.cookie_mask) = (3, u64::MAX);
    do_it(&mut p, only).unwrap();
    assert_eq!(at(&mut p), [[2], [3], [3]]);
    let delete = FlowMod { out_port: PortNo(3), ..FlowMod::new(FlowModCommand::Delete, TableId::ALL, ip()) };
    do_it(&mut p, delete).unwrap();
    assert_eq!(at(&mut p), [vec![2], vec![], vec![]]);
    // The same match and priority again: its counters go on, unless that is said.
    let packets = |p: &mut Pipeline| flows(p, FlowStatsRequest::all(TableId(0)))[0].packet_count;
    assert_eq!(packets(&mut p), 5);
    add(&mut p, 0, 10, of(1), apply(vec![output(4)]));
    assert_eq!(packets(&mut p), 5);
    let reset = FlowMod {
        flags: FlowModFlags::RESET_COUNTS,
        ..FlowMod::add(TableId(0), 10, of(1), apply(vec![output(4)]))
    };
    do_it(&mut p, reset).unwrap();
    assert_eq!(packets(&mut p), 0);
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let mut p = switch();
    let with = |instructions| FlowMod::add(TableId(1), 5, ip(), instructions);
    let tcp_of_arp = vec![set(Field::TcpSrc, 1), output(1)];
    let late = vec![Action::PushMpls(0x8847), set(Field::Ipv4Src, 1)];
    let pushed = vec![Action::PushVlan(0x8100), set(Field::VlanVid, 0x1005)];
    for (m, code) in [
        (with(vec![Instruction::GotoTable(TableId(1))]), bad_instruction::BAD_TABLE_ID),
        (with(vec![Instruction::GotoTable(TableId(4))]), bad_instruction::BAD_TABLE_ID),
        (with(apply(vec![output(0)])), bad_action::BAD_OUT_PORT),
        (with(apply(vec![Action::output(PortNo::TABLE)])), bad_action::BAD_OUT_PORT),
        (with(apply(vec![Action::Group(GroupId(3))])), bad_action::BAD_OUT_GROUP),
        (with(apply(vec![Action::PushVlan(0x0800)])), bad_action::BAD_ARGUMENT),
        (with(apply(tcp_of_arp)), bad_action::MATCH_INCONSISTENT),
        (with(apply(late)), bad_action::MATCH_INCONSISTENT),
        (with(apply(vec![set(Field::VlanVid, 0x1005)])), bad_action::MATCH_INCONSISTENT),
        (FlowMod::add(TableId(4), 5, ip(), vec![]), flow_mod_failed::BAD_TABLE_ID),
        (FlowMod { buffer: BufferId(5), ..with(vec![]) }, bad_request::BUFFER_UNKNOWN),
    ] {
        assert_eq!(do_it(&mut p, m.clone()), Err(code), "{m:?}");
    }
    assert_eq!(p.entry_count(), 0);
    do_it(&mut p, with(apply(pushed))).unwrap();
    let overlap =
        FlowMod { flags: FlowModFlags::CHECK_OVERLAP, ..FlowMod::add(TableId(1), 5, udp(), vec![]) };
    assert_eq!(do_it(&mut p, overlap.clone()), Err(flow_mod_failed::OVERLAP));
    do_it(&mut p, FlowMod { priority: 6, ..overlap }).unwrap();
}

fn group(command: GroupModCommand, id: u32, kind: GroupType, buckets: Vec<Bucket>) -> Message {
    Message::GroupMod(GroupMod { command, kind, group: GroupId(id), buckets })
}

#[test]
fn groups_give_packets_to_buckets() {
    let mut p = switch();
    let bucket = |port: u32, weight: u16| Bucket { weight, ..Bucket::of(vec![output(port)]) };
    let watch = |port: u32| Bucket { watch_port: PortNo(port), ..bucket(port, 0) };
    use GroupModCommand::{Add, Modify};
    p.request(group(Add, 1, GroupType::Select, vec![bucket(2, 3), bucket(3, 1), bucket(4, 0)]), Time::ZERO)
        .unwrap();
    add(&mut p, 0, 1, ip(), apply(vec![Action::Group(GroupId(1))]));
    let mut counts = [0; 5];
    for n in 0..4000_u16 {
        let frame = frame(17, 9, n, b"");
        let (one, two) = (ports(&mut p, &frame), ports(&mut p, &frame));
        assert_eq!(one, two, "a flow stays where it is");
        counts[one[0] as usize] += 1;
    }
    assert!(counts[2] > 2700 && counts[2] < 3300 && counts[3] > 700 && counts[4] == 0, "{counts:?}");
    p.request(group(Modify, 1, GroupType::FastFailover, vec![watch(2), watch(3)]), Time::ZERO).unwrap();
    let frame = frame(17, 9, 1, b"");
    assert_eq!(ports(&mut p, &frame), [2]);
    p.set_link(2, false);
    assert_eq!(ports(&mut p, &frame), [3]);
    p.set_link(3, false);
    assert_eq!(ports(&mut p, &frame), [0_u32; 0]);
    // What a bucket changes, the others do not see; nor what follows.
    let change = Bucket::of(vec![set(Field::EthSrc, 1), output(4)]);
    p.request(group(Modify, 1, GroupType::All, vec![change, Bucket::of(vec![output(4)])]), Time::ZERO)
        .unwrap();
    add(&mut p, 0, 1, ip(), apply(vec![Action::Group(GroupId(1)), Action::output(PortNo::IN_PORT)]));
    let out = send(&mut p, 1, &frame, Time::ZERO);
    assert_eq!(out.iter().map(|(port, _)| *port).collect::<Vec<_>>(), [4, 4, 1]);
    assert_eq!((out[0].1[11], &out[1].1, &out[2].1), (1, &frame, &frame));
}

#[test]
fn groups_of_groups_end() {
    let mut p = switch();
    let to = |id: u32| Bucket::of(vec![Action::Group(GroupId(id))]);
    let all = |command, id, buckets| group(command, id, GroupType::All, buckets);
    let last = vec![Bucket::of(vec![output(2)]), Bucket::of(vec![output(3)])];
    p.request(all(GroupModCommand::Add, 0, last), Time::ZERO).unwrap();
    for n in 1..=30 {
        p.request(all(GroupModCommand::Add, n, vec![to(n - 1), to(n - 1)]), Time::ZERO).unwrap();
    }
    let round = p.request(all(GroupModCommand::Modify, 0, vec![to(30)]), Time::ZERO);
    assert_eq!(round, Err(group_mod_failed::LOOP));
    let used = group(GroupModCommand::Delete, 7, GroupType::All, vec![]);
    assert_eq!(p.request(used, Time::ZERO), Err(group_mod_failed::CHAINED_GROUP));
    add(&mut p, 0, 1, ip(), apply(vec![Action::Group(GroupId(30))]));
    let out = send(&mut p, 1, &frame(17, 9, 1, b""), Time::ZERO);
    assert!(out.len() < 1024 && p.drops()[&Drop::Copies] > 0, "2^31 packets are not made: {}", out.len());
    p.request(group(GroupModCommand::Delete, u32::MAX - 3, GroupType::All, vec![]), Time::ZERO).unwrap();
    assert_eq!(p.entry_count(), 0, "entries go with their groups");
}

#[test]
fn packets_for_the_controller_are_kept_until_it_sends_them_on() {
    let mut p = switch();
    let to_controller =
        Action::Output(weir_openflow::action::Output { port: PortNo::CONTROLLER, max_len: MaxLen(20) });
    add(&mut p, 0, 0, Match::any_packet(), apply(vec![to_controller]));
    let frame = frame(17, 9, 5, b"payload");
    p.receive(3, Packet::from_bytes(&frame).unwrap(), Time::ZERO);
    let Some(Effect::Controller(upcall)) = p.effects().pop() else { panic!("nothing for the controller") };
    let message = p.packet_in(upcall);
    assert_eq!((message.data.0.len(), usize::from(message.total_len)), (20, frame.len()));
    assert_eq!(
        (message.reason, message.matching.get(Field::InPort).unwrap().value()),
        (PacketInReason::NoMatch, 3)
    );
    let out =
        PacketOut { buffer: message.buffer, ..PacketOut::new(vec![Action::output(PortNo::FLOOD)], vec![]) };
    let out = PacketOut { in_port: PortNo(3), ..out };
    p.request(Message::PacketOut(out.clone()), Time::ZERO).unwrap();
    assert_eq!(sent(&mut p), [1, 2, 4].map(|n| (n, frame.clone())));
    assert_eq!(
        p.request(Message::PacketOut(out), Time::ZERO),
        Err(bad_request::BUFFER_UNKNOWN),
        "it is sent once"
    );
    // Through the tables, by a new entry.
    p.receive(3, Packet::from_bytes(&frame).unwrap(), Time::ZERO);
    let Some(Effect::Controller(upcall)) = p.effects().pop() else { panic!("nothing for the controller") };
    let buffer = p.packet_in(upcall).buffer;
    do_it(&mut p, FlowMod { buffer, ..FlowMod::add(TableId(0), 1, ip(), apply(vec![output(2)])) }).unwrap();
    assert_eq!(sent(&mut p), [(2, frame)]);
}

#[test]
fn without_a_controller_it_learns() {
    let mut p = switch();
    p.set_standalone(true);
    let mut there = frame(17, 9, 5, b"");
    assert_eq!(ports(&mut p, &there), [2, 3, 4]);
    let (to, from) = (there[0..6].to_vec(), there[6..12].to_vec());
    there[0..6].copy_from_slice(&from);
    there[6..12].copy_from_slice(&to);
    // The addresses of the test's frames are those of groups or not by their lowest bit: 2 and 4 are single ones.
    assert_eq!(send(&mut p, 3, &there, Time::ZERO).iter().map(|(n, _)| *n).collect::<Vec<_>>(), [1]);
    p.set_standalone(false);
    assert_eq!(ports(&mut p, &there), [0_u32; 0]);
    assert_eq!(p.drops()[&Drop::NoEntry], 1);
}

/// Whether all checksums of a frame are right.
fn is_right(frame: &[u8]) -> bool {
    let Some(h) = Headers::of_frame(frame) else { return true };
    let network = &frame[h.net..];
    let header = usize::from(network[0] & 0xf) * 4;
    let Some(transport) = h.transport else { return checksum::checksum(&network[..header]) == 0 };
    let segment = &frame[transport..h.end];
    let pseudo = weir_net::Ipv4::new(network).unwrap().pseudo_header(segment.len() as u16);
    let sum = match h.protocol {
        6 | 17 => pseudo.add_bytes(segment).finish(),
        _ => checksum::checksum(segment),
    };
    checksum::checksum(&network[..header]) == 0 && sum == 0
}

fn any_change() -> impl Strategy<Value = Action> {
    let value = |field: Field| any::<u128>().prop_map(move |v| set(field, v & field.all_bits()));
    prop_oneof![
        value(Field::Ipv4Src),
        value(Field::Ipv4Dst),
        value(Field::IpDscp),
        value(Field::IpEcn),
        value(Field::TcpSrc),
        value(Field::TcpDst),
        value(Field::UdpSrc),
        value(Field::UdpDst),
        value(Field::Icmpv4Code),
        value(Field::EthSrc),
        (2_u8..).prop_map(Action::SetNwTtl),
        Just(Action::PushVlan(0x8100)),
        Just(Action::PopVlan),
        Just(Action::PushMpls(0x8847)),
        Just(Action::PopMpls(0x800)),
        Just(Action::PushPbb(0x88e7)),
        Just(Action::PopPbb),
        Just(Action::CopyTtlOut),
    ]
}

proptest! {
    #[test]
    fn checksums_stay_right_whatever_is_changed(
        protocol in prop::sample::select(&[1_u8, 6, 17][..]),
        changes in prop::collection::vec(any_change(), 1..8),
        payload in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let mut p = switch();
        let before = frame(protocol, 9, 1000, &payload);
        prop_assert!(is_right(&before));
        let actions = [changes, vec![output(2)]].concat();
        // As a bucket: whatever the packets are.
        p.request(group(GroupModCommand::Add, 1, GroupType::Indirect, vec![Bucket::of(vec![output(2)])]), Time::ZERO).unwrap();
        let out = PacketOut::new(actions, before);
        p.request(Message::PacketOut(out), Time::ZERO).unwrap();
        for (_, frame) in sent(&mut p) {
            prop_assert!(is_right(&frame), "{frame:x?}");
        }
    }

    #[test]
    fn no_bytes_and_no_actions_stop_it(
        bytes in prop::collection::vec(any::<u8>(), 0..120),
        kind in prop::sample::select(&[0x800_u16, 0x806, 0x86dd, 0x8847, 0x8100, 0x88e7][..]),
        changes in prop::collection::vec(any_change(), 0..8),
    ) {
        let mut p = switch();
        let mut frame = bytes;
        if frame.len() >= 14 {
            frame[12..14].copy_from_slice(&kind.to_be_bytes());
        }
        let others = Field::ALL.iter().filter(|f| !matches!(f, Field::InPort | Field::InPhyPort | Field::Metadata | Field::Ipv6Exthdr));
        let all: Vec<Action> = others.map(|f| set(*f, f.all_bits())).collect();
        let ends = vec![Action::CopyTtlIn, Action::DecMplsTtl, Action::DecNwTtl, Action::output(PortNo::FLOOD)];
        let actions = [changes, all, ends].concat();
        p.request(Message::PacketOut(PacketOut::new(actions, frame.clone())), Time::ZERO).unwrap();
        p.set_standalone(true);
        p.receive(1, Packet::from_bytes(&frame).unwrap(), Time::ZERO);
        p.effects();
    }

    #[test]
    fn the_entry_of_the_highest_priority_takes_a_packet(
        entries in prop::collection::vec((0_u16..6, 0_u8..5, 0_u8..4, 0_u16..4, any::<bool>()), 1..40),
        removed in prop::collection::vec(any::<prop::sample::Index>(), 0..10),
        packets in prop::collection::vec((0_u8..4, 0_u16..4, any::<bool>()), 1..20),
    ) {
        let mut p = switch();
        // What stands in a list, and is searched from its start.
        let mut list: Vec<(u16, Match, u64)> = Vec::new();
        for (n, (priority, form, source, port, is_udp)) in entries.into_iter().enumerate() {
            let protocol = if is_udp { 17_u8 } else { 6 };
            let field = if is_udp { Field::UdpSrc } else { Field::TcpSrc };
            let of = |m: Match| m.with(Field::IpProto, protocol).unwrap();
            let from = |m: Match| m.with(Field::Ipv4Src, u32::from_be_bytes([10, 0, 0, source])).unwrap();
            let matching = match form {
                0 => Match::any_packet(),
                1 => ip().with_masked(Field::Ipv4Src, u32::from_be_bytes([10, 0, 0, source & 2]), 0xffff_fffe_u32).unwrap(),
                2 => from(ip()),
                3 => of(ip()).with(field, port).unwrap(),
                _ => of(from(ip())).with(field, port).unwrap(),
            };
            let m = FlowMod { cookie: n as u64, ..FlowMod::add(TableId(0), priority, matching.clone(), apply(vec![output(2)])) };
            do_it(&mut p, m).unwrap();
            list.retain(|(pr, m, _)| (*pr, m) != (priority, &matching));
            list.push((priority, matching, n as u64));
        }
        for at in removed {
            if list.is_empty() {
                break;
            }
            let (priority, matching, _) = list.remove(at.index(list.len()));
            do_it(&mut p, FlowMod { priority, ..FlowMod::new(FlowModCommand::DeleteStrict, TableId(0), matching) }).unwrap();
        }
        prop_assert_eq!(p.entry_count(), list.len());
        for (source, port, is_udp) in packets {
            let frame = frame(if is_udp { 17 } else { 6 }, source, port, b"");
            let (protocol, field) = if is_udp { (17, Field::UdpSrc) } else { (6, Field::TcpSrc) };
            let is = |f: &FieldValue| {
                let value: u128 = match f.field() {
                    Field::EthType => 0x800,
                    Field::IpProto => protocol,
                    Field::Ipv4Src => u32::from_be_bytes([10, 0, 0, source]).into(),
                    own if own == field => port.into(),
                    _ => return false,
                };
                value & f.mask().unwrap_or(u128::MAX) == f.value()
            };
            let best = list.iter().filter(|(_, m, _)| m.basic().all(is)).max_by_key(|(priority, ..)| *priority);
            let before = flows(&mut p, FlowStatsRequest::all(TableId(0)));
            // Twice: the second time it may be remembered.
            let times = 2;
            for _ in 0..times {
                prop_assert_eq!(ports(&mut p, &frame).len(), usize::from(best.is_some()));
            }
            let after = flows(&mut p, FlowStatsRequest::all(TableId(0)));
            let took: Vec<(u64, u64)> = after
                .iter()
                .zip(&before)
                .filter(|(a, b)| a.packet_count != b.packet_count)
                .map(|(a, b)| (a.cookie, a.packet_count - b.packet_count))
                .collect();
            match best {
                None => prop_assert_eq!(took, []),
                // Of one priority, any may: the specification leaves that open.
                Some((priority, ..)) => {
                    prop_assert_eq!((took.len(), took[0].1), (1, times));
                    let found = list.iter().find(|(_, _, cookie)| *cookie == took[0].0).unwrap();
                    prop_assert_eq!(found.0, *priority);
                    prop_assert!(found.1.basic().all(is));
                }
            }
        }
    }
}
