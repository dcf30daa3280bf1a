//! Scripts, messages and information for other elements: what controls a graph.

use crate::node::NodeClass;

pub(crate) mod block_thread;
pub(crate) mod counter;
pub(crate) mod error;
pub(crate) mod info;
pub(crate) mod message;
pub(crate) mod random_seed;
pub(crate) mod script;
pub(crate) mod static_thread_sched;
pub(crate) mod time_filter;

/// All classes of this folder.
pub(crate) const CLASSES: &[NodeClass] = &[
    block_thread::CLASS,
    error::CLASS,
    info::CLASSES[0],
    info::CLASSES[1],
    info::CLASSES[2],
    info::CLASSES[3],
    info::CLASSES[4],
    info::CLASSES[5],
    info::CLASSES[6],
    message::CLASS,
    random_seed::CLASS,
    script::CLASSES[0],
    script::CLASSES[1],
    static_thread_sched::CLASS,
    time_filter::CLASS,
];
