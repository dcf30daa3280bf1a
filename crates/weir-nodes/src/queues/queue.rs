use crate::prelude::*;

queue_node! {
    /// Stores packets first in, first out, until they are pulled.
    ///
    /// A packet that comes when the queue is full leaves on output 1, or is dropped (`Full`). Sources that make packets
    /// as fast as they can, such as `InfiniteSource`, stop while all queues that they lead to are full. A hot swap
    /// keeps the packets of a queue of the same name, as far as they fit.
    Queue: "1/1-2", "h/lh";
    example "Idle -> Queue(500) -> Discard;";
    push |q, _, packet, capacity, cx| q.push_last(packet, capacity, cx);
    full true;
}
