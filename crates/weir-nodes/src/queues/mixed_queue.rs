use crate::prelude::*;

queue_node! {
    /// A queue whose input 0 puts packets at the end, and whose input 1 puts them in front.
    ///
    /// When it is full, a packet of input 0 is given up; one of input 1 takes the place of the last. What is given up
    /// leaves on output 1, or is dropped (`Full`).
    MixedQueue: "2/1-2", "h/lh";
    example "Idle -> q :: MixedQueue(500) -> Discard; Idle -> [1] q;";
    push |q, port, packet, capacity, cx| match port {
        0 => q.push_last(packet, capacity, cx),
        _ => q.push_first(packet, capacity, cx),
    };
    full false;
}
