//! Schedulers: nodes that choose the input to pull from.

use crate::node::NodeClass;

pub(crate) mod drr_sched;
pub(crate) mod prio_sched;
pub(crate) mod pull_switch;
pub(crate) mod round_robin_sched;
pub(crate) mod simple_pull_switch;
pub(crate) mod static_pull_switch;
pub(crate) mod stride_sched;
pub(crate) mod time_sorted_sched;

/// All classes of this folder.
pub(crate) const CLASSES: &[NodeClass] = &[
    drr_sched::CLASS,
    prio_sched::CLASS,
    pull_switch::CLASS,
    round_robin_sched::CLASS,
    simple_pull_switch::CLASS,
    static_pull_switch::CLASS,
    stride_sched::CLASS,
    time_sorted_sched::CLASS,
];
