//! A switch and controllers against each other, and against bytes.

use std::time::Duration;

use crate::world::{World, ZERO, features, flow, limits};
use weir_openflow::action::Instruction;
use weir_openflow::connection::{
    CloseReason, Controller, ControllerEvent, Limits, Notification, RequestError, Switch, SwitchEvent,
};
use weir_openflow::error::{bad_match, bad_request, flow_mod_failed, role_request_failed};
use weir_openflow::flow::{FlowMod, PacketIn};
use weir_openflow::hello::HelloElement;
use weir_openflow::message::{AsyncConfig, RoleMessage};
use weir_openflow::multipart::{MultipartReply, MultipartRequest, Part};
use weir_openflow::numbers::{FlowModCommand, PacketInReason};
use weir_openflow::stats::{FlowStats, FlowStatsRequest};
use weir_openflow::{BufferId, Bytes, Frame, Match, Message, Role, TableId};

fn packet(reason: PacketInReason) -> Notification {
    Notification::PacketIn(PacketIn {
        buffer: BufferId::NONE,
        total_len: 60,
        reason,
        table: TableId(0),
        cookie: 0,
        matching: Match::any_packet(),
        data: Bytes(vec![0; 60]),
    })
}

fn replied(event: &ControllerEvent) -> &Message {
    match event {
        ControllerEvent::Reply { message, .. } => message,
        other => panic!("not an answer: {other:?}"),
    }
}

fn failed(event: &ControllerEvent) -> weir_openflow::ErrorCode {
    match event {
        ControllerEvent::Failed { error, .. } => error.code,
        other => panic!("not an error: {other:?}"),
    }
}

#[test]
fn changes_are_done_when_a_barrier_behind_them_is_answered_and_not_before() {
    let mut world = World::with(1);
    let first = world.request(0, flow(1));
    let second = world.request(0, flow(2));
    let barrier = world.request(0, Message::BarrierRequest);
    let behind = world.request(0, flow(3));
    world.run();
    let ids: Vec<_> = world
        .said
        .drain(..)
        .map(|e| match e {
            SwitchEvent::Request { id, .. } => id,
            other => panic!("no request: {other:?}"),
        })
        .collect();
    assert_eq!(ids.len(), 2, "nothing behind the barrier before it is answered");
    world.switch.fail(ids[1], flow_mod_failed::TABLE_FULL);
    let heard = world.heard(0);
    assert!(matches!(&heard[..], [ControllerEvent::Failed { xid, error }]
        if *xid == second && error.code == flow_mod_failed::TABLE_FULL && error.data.0.len() == 64));

    world.switch.finish(ids[0]);
    let heard = world.heard(0);
    assert!(
        matches!(&heard[..], [ControllerEvent::Done { xid }, ControllerEvent::Reply { xid: answered, .. }]
        if *xid == first && *answered == barrier)
    );
    let Some(SwitchEvent::Request { id, .. }) = world.said.pop_front() else {
        panic!("what is behind comes now")
    };
    world.switch.finish(id);
    assert_eq!(world.heard(0), [], "no barrier, no word about change {behind}");
}

#[test]
fn a_long_answer_is_divided_and_joined() {
    let mut world = World::with(1);
    let flows: Vec<FlowStats> = (0..5000)
        .map(|n| FlowStats {
            table: TableId(0),
            duration_sec: 1,
            duration_nsec: 2,
            priority: n,
            idle_timeout: 0,
            hard_timeout: 0,
            flags: Default::default(),
            cookie: 0,
            packet_count: 0,
            byte_count: 0,
            matching: Match::any_packet(),
            instructions: vec![Instruction::GotoTable(TableId(1))],
        })
        .collect();
    let ask = MultipartRequest::Flow(FlowStatsRequest::all(TableId::ALL));
    world.request(0, Message::MultipartRequest(Part::of(ask)));
    world.run();
    let Some(SwitchEvent::Request { id, .. }) = world.said.pop_front() else { panic!("a request") };
    let answer = Message::MultipartReply(Part::of(MultipartReply::Flow(flows)));
    world.switch.answer(id, answer.clone()).expect("it can be divided");
    world.switch.finish(id);
    assert!(world.switch.output(id.connection).len() > 4 * 65_535);
    assert_eq!(replied(&world.heard(0)[0]), &answer);
}

#[test]
fn one_controller_is_primary_and_late_elections_are_refused() {
    let mut world = World::with(2);
    assert_eq!(world.roles(), [Role::Equal, Role::Equal]);
    let answer = world.role(0, Role::Primary, 10);
    assert_eq!(replied(&answer), &Message::RoleReply(RoleMessage { role: Role::Primary, generation: 10 }));
    world.role(1, Role::Primary, 11);
    assert_eq!(world.roles(), [Role::Secondary, Role::Primary]);
    assert_eq!(failed(&world.role(0, Role::Primary, 10)), role_request_failed::STALE);
    assert_eq!(world.roles(), [Role::Secondary, Role::Primary]);
    let asked = world.role(0, Role::NoChange, 0);
    assert_eq!(replied(&asked), &Message::RoleReply(RoleMessage { role: Role::Secondary, generation: 11 }));
    // The counter wraps.
    world.role(1, Role::Secondary, u64::MAX / 2);
    world.role(1, Role::Secondary, u64::MAX - 5);
    world.role(1, Role::Primary, 3);
    assert_eq!(world.roles()[1], Role::Primary);
    // To be equal needs no election.
    world.role(0, Role::Equal, 0);
    assert_eq!(world.roles(), [Role::Equal, Role::Primary]);
}

#[test]
fn a_secondary_controller_reads_and_changes_nothing() {
    let mut world = World::with(1);
    world.role(0, Role::Secondary, 1);
    world.said.clear();
    world.request(0, flow(1));
    assert_eq!(failed(&world.heard(0)[0]), bad_request::IS_SLAVE);
    assert!(matches!(world.said.pop_front(), Some(SwitchEvent::Refused { .. })));
    world.request(0, Message::MultipartRequest(Part::of(MultipartRequest::Desc)));
    world.run();
    assert!(matches!(world.said.pop_front(), Some(SwitchEvent::Request { .. })));
}

#[test]
fn controllers_hear_what_they_asked_to_hear() {
    let mut world = World::with(3);
    world.role(1, Role::Secondary, 1);
    let only_invalid = AsyncConfig { packet_in: [0b100, 0], ..AsyncConfig::default() };
    world.request(2, Message::SetAsync(only_invalid.clone()));
    world.request(2, Message::GetAsyncRequest);
    assert_eq!(replied(&world.heard(2)[0]), &Message::GetAsyncReply(only_invalid));
    let counts = |world: &mut World, reason| {
        world.switch.notify(packet(reason)).expect("it is short");
        (0..3).map(|n| world.heard(n).len()).collect::<Vec<_>>()
    };
    assert_eq!(counts(&mut world, PacketInReason::NoMatch), [1, 0, 0]);
    assert_eq!(counts(&mut world, PacketInReason::InvalidTtl), [0, 0, 1]);
}

#[test]
fn a_controller_that_does_not_read_loses_packets_and_is_not_served_further() {
    let small = Limits { output: 10_000, ..limits() };
    let mut world = World::new(&small);
    world.connect();
    world.connect();
    world.run();
    let (slow, other) = (world.controllers[0].0, world.controllers[1].0);
    for _ in 0..1000 {
        world.switch.notify(packet(PacketInReason::NoMatch)).expect("it is short");
        // The other one reads.
        let read = world.switch.output(other).len();
        world.switch.sent(other, read);
    }
    assert!(world.switch.dropped(slow) > 800);
    assert_eq!(world.switch.dropped(other), 0);
    assert!(world.switch.output(slow).len() <= 10_000);
    // What it asks waits, and what it floods with stays with it.
    let echo = Frame { xid: 1, message: Message::EchoRequest(vec![0; 60_000].into()) }.encode().unwrap();
    let taken: usize = (0..100).map(|_| world.switch.receive(slow, &echo, ZERO)).sum();
    assert!(taken <= small.input);
    while world.switch.poll().is_some() {}
    assert!(world.switch.output(slow).len() <= 2 * 10_000 + echo.len());
}

#[test]
fn a_silent_peer_is_asked_and_then_given_up() {
    let mut world = World::with(1);
    let limits = limits();
    let (id, controller, _) = &mut world.controllers[0];
    let due = controller.next_timeout().expect("silence is noticed");
    assert_eq!(due, limits.idle);
    controller.tick(due - Duration::from_nanos(1));
    assert!(controller.output().is_empty());
    controller.tick(due);
    assert!(!controller.output().is_empty(), "it asks");
    // An answer in time.
    let bytes = controller.output().to_vec();
    controller.sent(bytes.len());
    world.switch.receive(*id, &bytes, due);
    assert_eq!(world.switch.poll(), None);
    let bytes = world.switch.output(*id).to_vec();
    world.switch.sent(*id, bytes.len());
    controller.receive(&bytes, due + limits.echo / 2);
    assert_eq!(controller.poll(), None);
    controller.tick(due + limits.echo);
    assert_eq!(controller.poll(), None);
    // And none.
    let asked = controller.next_timeout().expect("it asks again");
    controller.tick(asked);
    controller.tick(asked + limits.echo);
    assert_eq!(controller.poll(), Some(ControllerEvent::Closed(CloseReason::Silent)));
    assert_eq!(controller.poll(), None);
    assert_eq!(controller.request(Message::BarrierRequest), Err(RequestError::NotReady));
}

#[test]
fn a_start_that_takes_too_long_is_given_up() {
    let mut controller = Controller::new(limits(), ZERO);
    let mut switch = Switch::new(features(), limits());
    let id = switch.connect(ZERO);
    // A hello is not all of it for a controller.
    controller.receive(switch.output(id), ZERO);
    controller.tick(limits().handshake);
    assert_eq!(controller.poll(), Some(ControllerEvent::Closed(CloseReason::Handshake)));
    switch.tick(limits().handshake);
    assert_eq!(switch.poll(), Some(SwitchEvent::Closed { connection: id, reason: CloseReason::Handshake }));
}

/// How a switch takes a first message.
fn greeted(bytes: &[u8]) -> (Option<SwitchEvent>, Option<Message>) {
    let mut switch = Switch::new(features(), limits());
    let id = switch.connect(ZERO);
    let hello = switch.output(id).len();
    switch.sent(id, hello);
    switch.receive(id, bytes, ZERO);
    (switch.poll(), Frame::decode(switch.output(id)).ok().map(|f| f.message))
}

#[test]
fn versions_are_agreed_on_by_bitmap_or_by_the_smaller_one() {
    let hello = |version: u8, elements: Vec<HelloElement>| {
        let mut bytes = Frame { xid: 9, message: Message::Hello(elements) }.encode().unwrap();
        bytes[0] = version;
        bytes
    };
    let up = |bytes: &[u8]| matches!(greeted(bytes).0, Some(SwitchEvent::Up(_)));
    assert!(up(&hello(4, vec![])));
    assert!(up(&hello(6, vec![])));
    assert!(up(&hello(6, vec![HelloElement::versions(&[1, 4, 6])])));
    assert!(up(&hello(4, vec![HelloElement::Other { kind: 7, body: vec![1, 2, 3].into() }])));
    // What follows is nothing that is known, and says nothing.
    assert!(up(&[5, 0, 0, 11, 0, 0, 0, 1, 1, 2, 3]));
    // Nor does what stands behind a bitmap, or the padding that is missing behind an element.
    let mut longer = hello(1, vec![HelloElement::versions(&[1, 4])]);
    longer.extend([7, 7, 0, 2, 9]);
    longer[3] += 5;
    assert!(up(&longer));
    assert!(up(&[1, 0, 0, 26, 0, 0, 0, 1, 0, 1, 0, 8, 0, 0, 0, 0x12, 0, 7, 0, 10, 1, 2, 3, 4, 5, 6]));
    for refused in [hello(1, vec![]), hello(6, vec![HelloElement::versions(&[1, 5, 6])])] {
        let (event, answer) = greeted(&refused);
        assert!(matches!(event, Some(SwitchEvent::Closed { reason: CloseReason::Version(_), .. })));
        let Some(Message::Error(e)) = answer else { panic!("the other side is told") };
        assert_eq!(e.code, weir_openflow::error::hello_failed::INCOMPATIBLE);
    }
    let (event, _) = greeted(&Frame { xid: 1, message: Message::FeaturesRequest }.encode().unwrap());
    assert!(matches!(event, Some(SwitchEvent::Closed { reason: CloseReason::NoHello(_), .. })));
}

#[test]
fn what_is_wrong_is_answered_by_its_error_and_the_rest_goes_on() {
    let mut world = World::with(1);
    let id = world.controllers[0].0;
    let mut bad = Frame { xid: 77, message: flow(1) }.encode().unwrap();
    bad[49] = 9; // the type of its match
    let mut old = bad.clone();
    old[0] = 1;
    let good = Frame { xid: 78, message: flow(1) }.encode().unwrap();
    world.switch.receive(id, &[bad.clone(), old, good].concat(), ZERO);
    let first = world.switch.poll();
    assert!(
        matches!(&first, Some(SwitchEvent::Refused { error, .. })
        if error.code == bad_match::BAD_TYPE && error.at == 48 && error.path == "OFPT_FLOW_MOD.matching"),
        "{first:?}"
    );
    assert!(
        matches!(world.switch.poll(), Some(SwitchEvent::Refused { error, .. }) if error.code == bad_request::BAD_VERSION)
    );
    assert!(matches!(world.switch.poll(), Some(SwitchEvent::Request { .. })));
    let heard = world.heard(0);
    assert!(matches!(&heard[0], ControllerEvent::Failed { xid: 77, error }
        if error.code == bad_match::BAD_TYPE && error.data.0 == bad[..64]));
    assert_eq!(failed(&heard[1]), bad_request::BAD_VERSION);
    // After a length that cannot be, nothing is known any more.
    world.switch.receive(id, &[4, 14, 0, 7, 0, 0, 0, 1], ZERO);
    let closed = world.switch.poll();
    assert!(matches!(closed, Some(SwitchEvent::Closed { reason: CloseReason::Length(7), .. })), "{closed:?}");
    assert_eq!(world.switch.poll(), None);
}

#[test]
fn multipart_requests_that_are_too_long_or_do_not_belong_together_are_refused_as_a_whole() {
    let mut world = World::new(&Limits { parts: 1000, ..limits() });
    world.connect();
    world.heard(0);
    world.said.clear();
    let id = world.controllers[0].0;
    let part = |xid, more, body| {
        Frame { xid, message: Message::MultipartRequest(Part { more, body }) }.encode().unwrap()
    };
    let tables = || {
        use weir_openflow::table_features::TableFeatures;
        let one = |n| TableFeatures {
            table: TableId(n),
            name: weir_openflow::Name::new("t"),
            metadata_match: 0,
            metadata_write: 0,
            config: Default::default(),
            max_entries: 1,
            properties: Vec::new(),
        };
        MultipartRequest::TableFeatures((0..10).map(one).collect())
    };
    // The last part is no request of its own.
    let long = [part(5, true, tables()), part(5, true, tables()), part(5, false, tables())].concat();
    world.switch.receive(id, &long, ZERO);
    world.run();
    assert_eq!(failed(&world.heard(0)[0]), bad_request::MULTIPART_BUFFER_OVERFLOW);
    assert!(matches!(world.said.make_contiguous(), [SwitchEvent::Refused { .. }]), "{:?}", world.said);
    world.said.clear();
    let mixed = [part(6, true, MultipartRequest::Desc), part(6, false, MultipartRequest::Table)].concat();
    world.switch.receive(id, &mixed, ZERO);
    assert_eq!(failed(&world.heard(0)[0]), bad_request::BAD_MULTIPART);
    assert!(matches!(world.said.make_contiguous(), [SwitchEvent::Refused { .. }]));
}

#[test]
fn a_controller_sends_no_more_than_it_can_keep_track_of() {
    let few = Limits { requests: 3, ..limits() };
    let mut world = World::with(0);
    let id = world.switch.connect(ZERO);
    world.controllers.push((id, Controller::new(few, ZERO), Vec::new()));
    world.run();
    for n in 0..3 {
        world.request(0, flow(n));
    }
    assert_eq!(world.controllers[0].1.request(flow(3)), Err(RequestError::Busy(3)));
    let delete = FlowMod::new(FlowModCommand::Delete, TableId::ALL, Match::any_packet());
    assert!(world.controllers[0].1.request(Message::FlowMod(delete)).is_err());
    assert!(matches!(
        world.controllers[0].1.request(Message::BarrierReply),
        Err(RequestError::NoRequest("OFPT_BARRIER_REPLY"))
    ));
}

#[test]
fn an_answer_of_which_a_part_is_wrong_is_over() {
    let mut world = World::with(1);
    let asked = world.request(0, Message::MultipartRequest(Part::of(MultipartRequest::Table)));
    let part = |more| {
        let body = MultipartReply::Table(vec![]);
        Frame { xid: asked, message: Message::MultipartReply(Part { more, body }) }.encode().unwrap()
    };
    let (first, mut second, third) = (part(true), part(true), part(false));
    second[9] = 99; // no kind
    let controller = &mut world.controllers[0].1;
    controller.receive(&[first, second, third].concat(), ZERO);
    let malformed = controller.poll();
    assert!(matches!(malformed, Some(ControllerEvent::Malformed { xid, error })
        if xid == asked && error.code == bad_request::BAD_MULTIPART));
    assert!(matches!(controller.poll(), Some(ControllerEvent::Said(_))), "it answers nothing now");
    assert_eq!(controller.poll(), None);
}

#[test]
fn an_answer_to_something_else_is_none() {
    let mut world = World::with(1);
    let asked = world.request(0, Message::MultipartRequest(Part::of(MultipartRequest::Table)));
    let reply =
        |body| Frame { xid: asked, message: Message::MultipartReply(Part::of(body)) }.encode().unwrap();
    let controller = &mut world.controllers[0].1;
    let both = [reply(MultipartReply::PortDesc(vec![])), reply(MultipartReply::Table(vec![]))].concat();
    controller.receive(&both, ZERO);
    assert!(matches!(controller.poll(), Some(ControllerEvent::Said(_))));
    assert!(matches!(controller.poll(), Some(ControllerEvent::Reply { xid, .. }) if xid == asked));
}
