//! What packets and controllers meet, step by step.

use weir_net::EtherAddr;
use weir_openflow::action::{Action, Instruction, SetField};
use weir_openflow::connection::{Notification, Time};
use weir_openflow::error::{bad_action, bad_instruction, bad_request, flow_mod_failed, group_mod_failed};
use weir_openflow::flow::{FlowMod, PacketIn, PacketOut};
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

mod properties;

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

/// A datagram, a segment or an echo request, with right checksums.
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
        Effect::Controller { packet, .. } => (0, packet.bytes().to_vec()),
    };
    p.effects().into_iter().map(shown).collect()
}

/// The message of the packet for the controller.
fn packet_in(p: &mut Pipeline) -> PacketIn {
    match p.effects().pop() {
        Some(Effect::Controller { packet, upcall }) => p.packet_in(packet, upcall),
        other => panic!("nothing for the controller: {other:?}"),
    }
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
fn as_many_groups_as_there_may_be_stop_nothing() {
    let mut p = switch();
    // Each group watches the next one with each of its buckets, and the last one a port without link.
    let watch = |id: u32| Bucket {
        watch_group: GroupId(id),
        weight: 1,
        ..Bucket::of(vec![Action::Group(GroupId(id))])
    };
    let dead = Bucket { watch_port: PortNo(4), ..Bucket::of(vec![output(4)]) };
    p.set_link(4, false);
    p.request(group(GroupModCommand::Add, 0, GroupType::FastFailover, vec![dead]), Time::ZERO).unwrap();
    for n in 1..=100 {
        let buckets = vec![watch(n - 1); 200];
        p.request(group(GroupModCommand::Add, n, GroupType::Select, buckets), Time::ZERO).unwrap();
    }
    add(&mut p, 0, 1, ip(), apply(vec![Action::Group(GroupId(10))]));
    add(&mut p, 0, 2, udp(), apply(vec![Action::Group(GroupId(100))]));
    assert_eq!(ports(&mut p, &frame(6, 9, 1, b"")), [0_u32; 0], "nothing is live");
    p.set_link(4, true);
    assert_eq!(ports(&mut p, &frame(6, 9, 1, b"")), [4]);
    // One that watches more groups than are looked at is not live; one that leads through more ends the packet.
    assert_eq!(ports(&mut p, &frame(17, 9, 1, b"")), [0_u32; 0]);
    let all = vec![Bucket::of(vec![Action::Group(GroupId(99))])];
    p.request(group(GroupModCommand::Modify, 100, GroupType::All, all), Time::ZERO).unwrap();
    assert_eq!(ports(&mut p, &frame(17, 9, 1, b"")), [0_u32; 0]);
    assert_eq!(p.drops()[&Drop::NoBucket], 3);
}

#[test]
fn a_packet_of_a_controller_makes_no_more_than_others() {
    let mut p = switch();
    add(&mut p, 0, 1, ip(), apply(vec![output(2); 100]));
    let actions = vec![Action::output(PortNo::TABLE); 100];
    p.request(Message::PacketOut(PacketOut::new(actions, frame(17, 9, 1, b""))), Time::ZERO).unwrap();
    assert!(p.is_loaded());
    assert!((1000..=1024).contains(&sent(&mut p).len()));
    assert_eq!(p.drops()[&Drop::Copies], 2, "of the copy that was one too many, and of the packet itself");
    assert!(!p.is_loaded());
}

#[test]
fn what_is_refused_keeps_the_packet_and_its_time() {
    let mut p = switch();
    let to_controller =
        Action::Output(weir_openflow::action::Output { port: PortNo::CONTROLLER, max_len: MaxLen(20) });
    add(&mut p, 0, 0, Match::any_packet(), apply(vec![to_controller]));
    p.receive(3, Packet::from_bytes(&frame(17, 9, 5, b"payload")).unwrap(), Time::ZERO);
    let buffer = packet_in(&mut p).buffer;
    let flags = FlowModFlags::CHECK_OVERLAP;
    let overlap = FlowMod { buffer, flags, ..FlowMod::add(TableId(0), 0, ip(), apply(vec![output(2)])) };
    assert_eq!(do_it(&mut p, overlap), Err(flow_mod_failed::OVERLAP));
    let out = PacketOut { buffer, in_port: PortNo(3), ..PacketOut::new(vec![output(0)], vec![]) };
    assert_eq!(p.request(Message::PacketOut(out.clone()), Time::ZERO), Err(bad_action::BAD_OUT_PORT));
    p.request(Message::PacketOut(PacketOut { actions: vec![output(2)], ..out }), Time::ZERO).unwrap();
    assert_eq!(sent(&mut p).len(), 1, "the packet was still there");
    // Of an entry that was replaced, and of one that was removed, no time is left to wait for.
    let timed = |idle_timeout, priority| FlowMod {
        idle_timeout,
        ..FlowMod::add(TableId(0), priority, ip(), apply(vec![output(2)]))
    };
    do_it(&mut p, timed(5, 1)).unwrap();
    do_it(&mut p, timed(9, 1)).unwrap();
    assert_eq!(p.next_timeout(), Some(secs(9)));
    do_it(&mut p, FlowMod::new(FlowModCommand::Delete, TableId::ALL, Match::any_packet())).unwrap();
    assert_eq!(p.next_timeout(), None);
}

#[test]
fn counters_say_who_refers_to_groups_and_meters() {
    let mut p = switch();
    let leaf = vec![Bucket::of(vec![output(2)])];
    p.request(group(GroupModCommand::Add, 1, GroupType::All, leaf), Time::ZERO).unwrap();
    let to = vec![Bucket::of(vec![Action::Group(GroupId(1))])];
    p.request(group(GroupModCommand::Add, 2, GroupType::All, to), Time::ZERO).unwrap();
    let twice = vec![
        Instruction::apply(vec![Action::Group(GroupId(1))]),
        Instruction::WriteActions(vec![Action::Group(GroupId(1))].into()),
    ];
    add(&mut p, 0, 1, ip(), twice.clone());
    add(&mut p, 0, 1, udp(), apply(vec![Action::Group(GroupId(1))]));
    let all = weir_openflow::stats::GroupRequest { group: GroupId::ALL };
    let ask = Message::MultipartRequest(Part::of(MultipartRequest::Group(all)));
    let Ok(Some(Message::MultipartReply(Part { body: MultipartReply::Group(stats), .. }))) =
        p.request(ask, Time::ZERO)
    else {
        panic!("no answer")
    };
    // Two entries and a group; an entry counts once.
    assert_eq!(stats.iter().map(|s| s.ref_count).collect::<Vec<_>>(), [3, 0]);
    let found = flows(&mut p, FlowStatsRequest::all(TableId(0)));
    assert_eq!(found[0].instructions, twice, "as they were given");
}

#[test]
fn a_controller_teaches_no_place() {
    let mut p = switch();
    let normal = vec![Action::output(PortNo::NORMAL)];
    add(&mut p, 0, 0, Match::any_packet(), apply(normal.clone()));
    let mut frame = frame(17, 9, 5, b"");
    p.request(Message::PacketOut(PacketOut::new(normal, frame.clone())), Time::ZERO).unwrap();
    assert_eq!(sent(&mut p).len(), 4);
    let (to, from) = frame[..12].split_at_mut(6);
    to.swap_with_slice(from);
    assert_eq!(ports(&mut p, &frame), [2, 3, 4], "where its receiver is, nobody knows");
    p.not_sent(2, 7);
    assert_eq!(p.drops()[&Drop::PortFull], 7);
}

#[test]
fn packets_for_the_controller_are_kept_until_it_sends_them_on() {
    let mut p = switch();
    let to_controller =
        Action::Output(weir_openflow::action::Output { port: PortNo::CONTROLLER, max_len: MaxLen(20) });
    add(&mut p, 0, 0, Match::any_packet(), apply(vec![to_controller]));
    let frame = frame(17, 9, 5, b"payload");
    p.receive(3, Packet::from_bytes(&frame).unwrap(), Time::ZERO);
    let message = packet_in(&mut p);
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
    let buffer = packet_in(&mut p).buffer;
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
