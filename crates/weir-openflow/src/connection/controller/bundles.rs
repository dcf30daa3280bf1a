//! Changes that happen together.

use super::{Answer, Bundle, Controller, ControllerEvent, RequestError, Sent, answer_of};
use crate::bundle::{self, BundleFlags, BundleStep, Control};
use crate::message::{ErrorMessage, Frame, Message};

/// How our bundles happen.
const FLAGS: BundleFlags = BundleFlags(BundleFlags::ATOMIC.0 | BundleFlags::ORDERED.0);

/// A step of the bundle that has the number of its transaction.
fn step(xid: u32, step: BundleStep) -> Frame {
    Frame { xid, message: Control { bundle: xid, step, flags: FLAGS }.message() }
}

impl Controller {
    /// Changes that happen all at once, or not at all, as a [bundle]; gives the transaction id that they share.
    /// [`ControllerEvent::Done`] comes when they have happened, [`ControllerEvent::Failed`] if they will not. It costs two rounds: a
    /// switch would go on without a change that it refuses, so all have to be taken before the bundle is committed.
    ///
    /// # Errors
    /// If they cannot be sent now, or at all.
    pub fn bundle(&mut self, changes: Vec<Message>) -> Result<u32, RequestError> {
        let (xid, barrier) = (self.next_xid()?, self.next_xid()?);
        let mut frames = vec![step(xid, BundleStep::OpenRequest)];
        for message in changes {
            if answer_of(&message)?.is_some() {
                return Err(RequestError::NoChange(message.name()));
            }
            let change = Frame { xid, message };
            frames.push(bundle::add(xid, FLAGS, &change).map_err(RequestError::Encode)?);
        }
        frames.push(Frame { xid: barrier, message: Message::BarrierRequest });
        self.send(&frames)?;
        self.bundles.insert(xid, Bundle::Filled { barrier, refused: None });
        self.waiting.insert(barrier, Answer::BARRIER);
        self.sent.push_back(Sent::Barrier(barrier));
        Ok(xid)
    }

    /// All changes of the bundle before this barrier are taken, or one was refused, or the barrier itself. Whether there is such a bundle.
    pub(super) fn end_of_bundle(&mut self, barrier: u32, unanswered: Option<ErrorMessage>) -> bool {
        let ends = |b: &Bundle| matches!(b, Bundle::Filled { barrier: this, .. } if *this == barrier);
        let Some(xid) = self.bundles.iter().find(|(_, b)| ends(b)).map(|(xid, _)| *xid) else { return false };
        let refused = match self.bundles.remove(&xid) {
            Some(Bundle::Filled { refused, .. }) => refused.or(unanswered),
            _ => None,
        };
        if let Some(error) = refused {
            self.channel.put(&step(xid, BundleStep::DiscardRequest));
            self.events.push_back(ControllerEvent::Failed { xid, error });
        } else {
            self.channel.put(&step(xid, BundleStep::CommitRequest));
            self.bundles.insert(xid, Bundle::Committed);
        }
        true
    }
}
