use crate::prelude::*;

queue_node! {
    /// A queue that makes space for a new packet, when it is full, by giving up the oldest: that leaves on output 1, or is
    /// dropped (`Full`).
    FrontDropQueue: "1/1-2", "h/lh";
    example "Idle -> FrontDropQueue(500) -> Discard;";
    push |q, _, packet, capacity, cx| q.push_last_drop_first(packet, capacity, cx);
    full false;
}
