//! Bundles, as a controller has them.

use weir_openflow::Message;
use weir_openflow::bundle::{BundleStep, Control};
use weir_openflow::connection::{ControllerEvent, RequestError, SwitchEvent};
use weir_openflow::error::flow_mod_failed;

use crate::world::{World, flow};

#[test]
fn a_bundle_happens_only_if_all_of_it_is_taken() {
    let mut world = World::with(1);
    let controller = &mut world.controllers[0].1;
    assert_eq!(
        controller.bundle(vec![Message::BarrierRequest]),
        Err(RequestError::NoChange("OFPT_BARRIER_REQUEST"))
    );
    for refused in [false, true] {
        let xid = world.controllers[0].1.bundle(vec![flow(1), flow(2)]).expect("it can be sent");
        world.run();
        // It begins, its changes; the barrier is answered when they are finished.
        for (n, event) in std::mem::take(&mut world.said).into_iter().enumerate() {
            let SwitchEvent::Request { id, message: Message::Experimenter(_) } = event else {
                panic!("{event:?}")
            };
            if refused && n == 2 {
                world.switch.fail(id, flow_mod_failed::TABLE_FULL);
            } else {
                world.switch.finish(id);
            }
        }
        let heard = world.heard(0);
        let Some(SwitchEvent::Request { id, message: Message::Experimenter(last) }) = world.said.pop_front()
        else {
            panic!("it ends")
        };
        let control = Control::of(&last).expect("it is about the bundle").expect("it is known");
        if refused {
            assert!(matches!(&heard[..], [ControllerEvent::Failed { xid: failed, .. }] if *failed == xid));
            assert_eq!((control.bundle, control.step), (xid, BundleStep::DiscardRequest));
            world.switch.finish(id);
        } else {
            assert_eq!(heard, []);
            assert_eq!((control.bundle, control.step), (xid, BundleStep::CommitRequest));
            let done = Control { step: BundleStep::CommitReply, ..control };
            world.switch.answer(id, done.message()).expect("it is short");
            world.switch.finish(id);
            assert_eq!(world.heard(0), [ControllerEvent::Done { xid }]);
        }
    }
}
