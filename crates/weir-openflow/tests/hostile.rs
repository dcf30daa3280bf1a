//! Any bytes, in any pieces, to both ends of a connection: they go on or end, and keep no more than they may.

use std::time::Duration;

use proptest::prelude::*;
use weir_openflow::connection::{Controller, ControllerEvent, Limits, Switch, SwitchEvent};
use weir_openflow::message::Features;
use weir_openflow::numbers::Capabilities;
use weir_openflow::{Choices, Frame};

const ZERO: Duration = Duration::ZERO;

fn features() -> Features {
    Features { datapath: 7, n_buffers: 0, n_tables: 2, auxiliary: 0, capabilities: Capabilities::FLOW_STATS }
}

/// Small, so that they are met.
fn small() -> Limits {
    Limits { input: 70_000, output: 3_000, requests: 5, parts: 2_000, ..Limits::default() }
}

/// A hello and messages, of which some are changed.
fn stream(choices: &[Vec<u8>], changes: &[(prop::sample::Index, u8)], hello: bool) -> Vec<u8> {
    let mut bytes = if hello { vec![4, 0, 0, 8, 0, 0, 0, 1] } else { Vec::new() };
    for choices in choices {
        bytes.extend(Frame::any(&mut Choices::new(choices)).encode().expect("choices make short messages"));
    }
    if !bytes.is_empty() {
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = *byte;
        }
    }
    bytes
}

fn any_stream() -> impl Strategy<Value = Vec<u8>> {
    let choices = proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..60), 0..30);
    let changes = proptest::collection::vec(any::<(prop::sample::Index, u8)>(), 0..4);
    (choices, changes, prop::bool::weighted(0.9)).prop_map(|(a, b, hello)| stream(&a, &b, hello))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_switch_takes_anything(bytes in any_stream(), piece in 1..500_usize, reads in any::<bool>(), finishes in any::<bool>()) {
        let mut switch = Switch::new(features(), small());
        let id = switch.connect(ZERO);
        let (mut rest, mut open, mut ended) = (&bytes[..], 0, false);
        while !rest.is_empty() {
            let taken = switch.receive(id, &rest[..piece.min(rest.len())], ZERO);
            rest = &rest[taken..];
            let before = switch.output(id).len();
            while let Some(event) = switch.poll() {
                prop_assert!(!ended, "nothing comes after the end: {event:?}");
                match event {
                    SwitchEvent::Request { id, message } => {
                        open += 1;
                        if finishes {
                            open -= 1;
                            // Any answer at all.
                            switch.answer(id, message).expect("it was short");
                            switch.finish(id);
                        }
                    }
                    SwitchEvent::Closed { .. } => ended = true,
                    _ => {}
                }
                prop_assert!(open <= small().requests);
            }
            prop_assert!(switch.output(id).len() <= before.max(small().output) + 70_000);
            if reads {
                switch.sent(id, usize::MAX);
            }
            if taken == 0 {
                break;
            }
        }
        switch.tick(Duration::MAX / 2);
        while switch.poll().is_some() {}
    }

    #[test]
    fn a_controller_takes_anything(bytes in any_stream(), piece in 1..500_usize) {
        let mut controller = Controller::new(small(), ZERO);
        // It asks for its features with the second number.
        let ready = Frame { xid: 2, message: weir_openflow::Message::FeaturesReply(features()) };
        let greeting = [&[4, 0, 0, 8, 0, 0, 0, 1], &ready.encode().unwrap()[..]].concat();
        controller.receive(&greeting, ZERO);
        prop_assert_eq!(controller.poll(), Some(ControllerEvent::Ready(features())));
        let (mut rest, mut ended) = (&bytes[..], false);
        while !rest.is_empty() {
            // What it asks may be answered by what comes.
            let _ = controller.request(Frame::any(&mut Choices::new(rest)).message);
            let _ = controller.bundle(vec![Frame::any(&mut Choices::new(rest)).message]);
            let taken = controller.receive(&rest[..piece.min(rest.len())], ZERO);
            prop_assert!(taken > 0);
            rest = &rest[taken..];
            while let Some(event) = controller.poll() {
                prop_assert!(!ended, "nothing comes after the end: {event:?}");
                ended = matches!(event, ControllerEvent::Closed(_));
            }
            prop_assert!(controller.output().len() <= 3 * small().output + 70_000);
        }
        controller.tick(Duration::MAX / 2);
        while controller.poll().is_some() {}
    }
}
