//! Queues: nodes that store packets until they are pulled.

use crate::node::NodeClass;

#[macro_use]
pub(crate) mod storage;

pub(crate) mod front_drop_queue;
pub(crate) mod full_note_queue;
pub(crate) mod function_gate;
pub(crate) mod mixed_queue;
pub(crate) mod notifier_queue;
pub(crate) mod queue;
pub(crate) mod quick_note_queue;
pub(crate) mod red;
pub(crate) mod simple_queue;
pub(crate) mod thread_safe_queue;

/// All classes of this folder.
pub(crate) const CLASSES: &[NodeClass] = &[
    front_drop_queue::CLASS,
    full_note_queue::CLASS,
    function_gate::CLASS,
    mixed_queue::CLASS,
    notifier_queue::CLASS,
    queue::CLASS,
    quick_note_queue::CLASS,
    red::CLASS,
    simple_queue::CLASS,
    thread_safe_queue::CLASS,
];
