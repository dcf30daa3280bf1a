use crate::prelude::*;

queue_node! {
    /// A `Queue` that lets no source know when it is full: what comes then leaves on output 1, or is dropped (`Full`).
    SimpleQueue: "1/1-2", "h/lh";
    example "Idle -> SimpleQueue(500) -> Discard;";
    push |q, _, packet, capacity, cx| q.push_last(packet, capacity, cx);
    full false;
}
