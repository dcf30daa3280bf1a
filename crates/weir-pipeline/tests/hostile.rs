//! Whatever controllers ask, and whatever packets are: nothing panics, and what is counted agrees.

use proptest::prelude::*;
use weir_net::EtherAddr;
use weir_openflow::connection::Time;
use weir_openflow::multipart::{MultipartReply, MultipartRequest, Part};
use weir_openflow::{Choices, Frame, Message};
use weir_packet::Packet;
use weir_pipeline::{Effect, Options, Pipeline};

/// Entries by the tables' own counts.
fn counted(p: &mut Pipeline, now: Time) -> u32 {
    match p.request(Message::MultipartRequest(Part::of(MultipartRequest::Table)), now) {
        Ok(Some(Message::MultipartReply(Part { body: MultipartReply::Table(tables), .. }))) => {
            tables.iter().map(|t| t.active_count).sum()
        }
        other => panic!("{other:?}"),
    }
}

/// An event at a switch.
#[derive(Debug, Clone)]
enum Step {
    /// A message that these choices lead to.
    Message(Vec<u8>),
    /// A packet at a port.
    Packet(u32, Vec<u8>),
    /// Seconds pass.
    Time(u16),
    /// A link comes or goes.
    Link(u32, bool),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => prop::collection::vec(any::<u8>(), 0..300).prop_map(Step::Message),
        4 => (0_u32..5, prop::collection::vec(any::<u8>(), 0..200)).prop_map(|(n, b)| Step::Packet(n, b)),
        1 => any::<u16>().prop_map(Step::Time),
        1 => (0_u32..5, any::<bool>()).prop_map(|(n, up)| Step::Link(n, up)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn nothing_that_is_asked_stops_it(steps in prop::collection::vec(any_step(), 1..40)) {
        let options = Options { datapath: 1, name: "t".into(), tables: 254, version: "1".into() };
        let mut p = Pipeline::new(options);
        let mut now = Time::ZERO;
        for n in 1..=3 {
            p.add_port(n, "p", EtherAddr([0; 6]), now);
        }
        for step in steps {
            match step {
                Step::Message(choices) => {
                    let made = Frame::any(&mut Choices::new(&choices));
                    // As it comes over a connection: what a reader refuses never gets here.
                    let read = made.encode().ok().and_then(|bytes| Frame::decode(&bytes).ok());
                    let Some(Frame { message, .. }) = read else { continue };
                    if let Ok(Some(answer)) = p.request(message, now) {
                        // It can be said.
                        let parts = match answer {
                            Message::MultipartReply(part) => Part::split(part.body).into_iter().map(Message::MultipartReply).collect(),
                            other => vec![other],
                        };
                        for message in parts {
                            prop_assert!(Frame { xid: 1, message }.encode().is_ok(), "it can be said");
                        }
                    }
                }
                Step::Packet(port, bytes) => p.receive(port, Packet::from_bytes(&bytes).unwrap(), now),
                Step::Time(seconds) => {
                    now += Time::from_secs(seconds.into());
                    p.tick(now);
                    prop_assert!(p.next_timeout().is_none_or(|at| at > now));
                }
                Step::Link(port, up) => p.set_link(port, up),
            }
            for effect in p.effects() {
                match effect {
                    Effect::Send { port, .. } => prop_assert!((1..=3).contains(&port)),
                    Effect::Controller { packet, upcall } => {
                        let message = Message::PacketIn(p.packet_in(packet, upcall));
                        prop_assert!(Frame { xid: 0, message }.encode().is_ok(), "it can be said");
                    }
                }
            }
            p.notifications();
            prop_assert_eq!(counted(&mut p, now) as usize, p.entry_count());
        }
    }
}
