//! Engine nodes: one file each, with manual, parameters, handlers and behaviour. To add one, write the file and add
//! it here.

use crate::node::NodeClass;

#[macro_use]
mod storage;

mod access_points;
mod aggregate_counter;
mod aggregate_ip_flows;
mod bandwidth_rated_unqueue;
mod bandwidth_shaper;
mod block_thread;
mod bucket;
mod chatter_socket;
mod control_socket;
mod counter;
mod delay;
mod delay_shaper;
mod delay_unqueue;
mod discard;
mod drr_sched;
mod error;
mod fast_udp_source;
mod finish_offloads;
mod flows;
mod from_device;
mod from_dump;
mod from_host;
mod from_ip_summary_dump;
mod from_link;
mod from_netfront;
mod front_drop_queue;
mod full_note_queue;
mod gap;
mod host_address;
mod icmp_ping_source;
mod infinite_source;
mod info;
mod ip_reassembler;
mod kernel_tap;
mod kernel_tun;
mod limit;
mod link_unqueue;
mod mcast_socket;
mod message;
mod mixed_queue;
mod notifier_queue;
mod pace;
mod poll_device;
mod prio_sched;
mod pull_switch;
mod queue;
mod quick_note_queue;
mod random_seed;
mod random_source;
mod rated_source;
mod rated_unqueue;
mod red;
mod round_robin_sched;
mod script;
mod sending;
mod shaper;
mod simple_pull_switch;
mod simple_queue;
mod socket;
mod static_pull_switch;
mod static_thread_sched;
mod stride_sched;
mod summary;
mod thread_safe_queue;
mod time_filter;
mod time_sorted_sched;
mod timed_sink;
mod timed_source;
mod timed_unqueue;
mod to_device;
mod to_dump;
mod to_host;
mod to_host_sniffers;
mod to_ip_summary_dump;
mod to_link;
mod to_netfront;
mod unqueue;

/// All classes of engine nodes.
pub(crate) const CLASSES: &[NodeClass] = &[
    access_points::CLASS,
    aggregate_counter::CLASS,
    aggregate_ip_flows::CLASS,
    bandwidth_rated_unqueue::CLASS,
    bandwidth_shaper::CLASS,
    block_thread::CLASS,
    chatter_socket::CLASS,
    control_socket::CLASS,
    delay_shaper::CLASS,
    delay_unqueue::CLASS,
    drr_sched::CLASS,
    error::CLASS,
    fast_udp_source::CLASS,
    finish_offloads::CLASS,
    from_device::CLASS,
    from_dump::CLASS,
    from_host::CLASS,
    from_ip_summary_dump::CLASS,
    from_link::CLASS,
    from_netfront::CLASS,
    front_drop_queue::CLASS,
    full_note_queue::CLASS,
    icmp_ping_source::CLASS,
    infinite_source::CLASS,
    info::CLASSES[0],
    info::CLASSES[1],
    info::CLASSES[2],
    info::CLASSES[3],
    info::CLASSES[4],
    info::CLASSES[5],
    info::CLASSES[6],
    ip_reassembler::CLASS,
    kernel_tap::CLASS,
    kernel_tun::CLASS,
    link_unqueue::CLASS,
    mcast_socket::CLASS,
    message::CLASS,
    mixed_queue::CLASS,
    notifier_queue::CLASS,
    poll_device::CLASS,
    prio_sched::CLASS,
    pull_switch::CLASS,
    queue::CLASS,
    quick_note_queue::CLASS,
    random_seed::CLASS,
    random_source::CLASS,
    rated_source::CLASS,
    rated_unqueue::CLASS,
    red::CLASS,
    round_robin_sched::CLASS,
    script::CLASSES[0],
    script::CLASSES[1],
    shaper::CLASS,
    simple_pull_switch::CLASS,
    simple_queue::CLASS,
    socket::CLASS,
    static_pull_switch::CLASS,
    static_thread_sched::CLASS,
    stride_sched::CLASS,
    thread_safe_queue::CLASS,
    time_filter::CLASS,
    time_sorted_sched::CLASS,
    timed_sink::CLASS,
    timed_source::CLASS,
    timed_unqueue::CLASS,
    to_device::CLASS,
    to_dump::CLASS,
    to_host::CLASS,
    to_host_sniffers::CLASS,
    to_ip_summary_dump::CLASS,
    to_link::CLASS,
    to_netfront::CLASS,
    unqueue::CLASS,
];

pub(crate) use storage::PACKET;

/// The node that stands for a packet program which has to work by itself, or to call handlers. `pulls` says that its
/// first input is one that pulls.
pub(crate) fn instead(class: &str, args: &[String], pulls: bool) -> Option<&'static NodeClass> {
    match class {
        "Discard" if pulls => Some(&discard::CLASS),
        "Counter" if counter::calls(args) => Some(&counter::CLASS),
        _ => None,
    }
}

/// What a node's file needs.
mod prelude {
    pub(super) use weir_ir::Reason;
    pub(super) use weir_packet::Packet;

    pub(super) use crate::env::Env;
    pub(super) use crate::neighbours::Neighbours;
    pub(super) use crate::node::{Behavior, Cx, EngineNode, Ran};
}
