//! Properties: whatever is changed, checksums stay right; whatever comes, nothing stops; the right entry takes a packet.

use proptest::prelude::*;
use weir_net::{Headers, Network, checksum};
use weir_openflow::action::Action;
use weir_openflow::connection::Time;
use weir_openflow::oxm::Field;

use super::*;

/// The same over IPv6.
fn frame6(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let builder = etherparse::PacketBuilder::ethernet2([2; 6], [4; 6]).ipv6([1; 16], [2; 16], 9);
    let mut frame = Vec::new();
    match protocol {
        6 => builder.tcp(1000, 80, 1, 2).write(&mut frame, payload),
        17 => builder.udp(1000, 53).write(&mut frame, payload),
        _ => builder.icmpv6_echo_request(1, 2).write(&mut frame, payload),
    }
    .unwrap();
    frame
}

/// Whether all checksums of a frame are right.
fn is_right(frame: &[u8]) -> bool {
    let Some(h) = Headers::of_frame(frame) else { return true };
    let network = &frame[h.net..];
    let segment = h.transport.map(|at| &frame[at..h.end]);
    if h.network == Network::V6 {
        let ip = weir_net::Ipv6::new(network).unwrap();
        let pseudo = |s: &[u8]| checksum::pseudo6(ip.src(), ip.dst(), h.protocol, s.len() as u32);
        return segment.is_none_or(|s| pseudo(s).add_bytes(s).finish() == 0);
    }
    let ip = weir_net::Ipv4::new(network).unwrap();
    let sum = segment.map_or(0, |s| match h.protocol {
        6 | 17 => ip.pseudo_header(s.len() as u16).add_bytes(s).finish(),
        _ => checksum::checksum(s),
    });
    ip.checksum_ok() && sum == 0
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
        value(Field::Ipv6Src),
        value(Field::Ipv6Dst),
        value(Field::Ipv6Flabel),
        value(Field::Icmpv6Code),
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
        protocol in prop::sample::select(&[1_u8, 6, 17, 58][..]),
        is_v6: bool,
        changes in prop::collection::vec(any_change(), 1..8),
        payload in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let mut p = switch();
        let before = if is_v6 { frame6(protocol, &payload) } else { frame(protocol, 9, 1000, &payload) };
        prop_assert!(is_right(&before));
        let actions = [changes, vec![output(2)]].concat();
        // Then as a bucket, too, which has them in its own order.
        let bucket = vec![Bucket::of(actions.clone())];
        p.request(group(GroupModCommand::Add, 1, GroupType::Indirect, bucket), Time::ZERO).unwrap();
        let out = PacketOut::new([actions, vec![Action::Group(GroupId(1))]].concat(), before);
        p.request(Message::PacketOut(out), Time::ZERO).unwrap();
        let sent = sent(&mut p);
        prop_assert_eq!(sent.len(), 2);
        for (_, frame) in sent {
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
