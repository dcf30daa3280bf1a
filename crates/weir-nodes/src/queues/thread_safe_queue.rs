use crate::prelude::*;

queue_node! {
    /// A `Queue`: here all queues may be used by several threads.
    ThreadSafeQueue: "1/1-2", "h/lh";
    example "Idle -> ThreadSafeQueue(500) -> Discard;";
    push |q, _, packet, capacity, cx| q.push_last(packet, capacity, cx);
    full true;
}
