//! Bundles: changes that happen all at once, or not at all. They are OpenFlow 1.4's (section 7.3.9 there), and an extension of the ONF
//! for 1.3 (EXT-230), which Open vSwitch has.

use crate::error::{DecodeError, EncodeError, bad_request};
use crate::message::{ExperimenterMessage, Frame, Message};
use crate::wire::{Reader, Wire};

/// The number of the ONF as an experimenter.
pub const ONF: u32 = 0x4f4e_4600;
/// What [`Control`] is called.
const CONTROL: u32 = 2300;
/// What a message in a bundle is called.
const ADD: u32 = 2301;

codes! {
    /// What is done to a bundle, and what was done (`onf_bundle_ctrl_type`).
    BundleStep: u16, bad_request::BAD_EXP_TYPE {
        /// It is to begin.
        OpenRequest = 0 "open_request",
        /// It has begun.
        OpenReply = 1 "open_reply",
        /// It is to take nothing more.
        CloseRequest = 2 "close_request",
        /// It takes nothing more.
        CloseReply = 3 "close_reply",
        /// It is to happen.
        CommitRequest = 4 "commit_request",
        /// It happened.
        CommitReply = 5 "commit_reply",
        /// It is to be forgotten.
        DiscardRequest = 6 "discard_request",
        /// It is forgotten.
        DiscardReply = 7 "discard_reply",
    }
}

flags! {
    /// How a bundle happens (`onf_bundle_flags`).
    BundleFlags: u16 {
        /// Packets see all of it or nothing.
        ATOMIC = 0 "atomic",
        /// Its changes happen in their order.
        ORDERED = 1 "ordered",
    }
}

record! {
    /// A step of a bundle.
    => pub struct Control {
        /// Its number, which the controller chooses.
        bundle: u32;
        /// The step.
        step: BundleStep;
        /// How it happens.
        flags: BundleFlags;
    }
}

impl Control {
    /// As a message.
    pub fn message(&self) -> Message {
        let mut data = Vec::new();
        self.write(&mut data);
        Message::Experimenter(ExperimenterMessage { experimenter: ONF, kind: CONTROL, data: data.into() })
    }

    /// What a message says of a bundle; `None`: it is about something else.
    ///
    /// # Errors
    /// If it says it in a way that is not known.
    pub fn of(message: &ExperimenterMessage) -> Option<Result<Control, DecodeError>> {
        let ours = message.experimenter == ONF && message.kind == CONTROL;
        // Properties may follow; there are none but those of experimenters.
        ours.then(|| Control::read(&mut Reader::new(&message.data.0, bad_request::BAD_LEN)))
    }
}

/// A change as a part of a bundle. Both have the same transaction id.
///
/// # Errors
/// If it does not fit a message.
pub fn add(bundle: u32, flags: BundleFlags, change: &Frame) -> Result<Frame, EncodeError> {
    let mut data = Vec::new();
    bundle.write(&mut data);
    data.extend([0; 2]);
    flags.write(&mut data);
    data.extend(change.encode()?);
    let message = ExperimenterMessage { experimenter: ONF, kind: ADD, data: data.into() };
    Ok(Frame { xid: change.xid, message: Message::Experimenter(message) })
}
