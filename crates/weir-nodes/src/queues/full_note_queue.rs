use crate::prelude::*;

queue_node! {
    /// The older name of `Queue`.
    FullNoteQueue: "1/1-2", "h/lh";
    example "Idle -> FullNoteQueue(500) -> Discard;";
    push |q, _, packet, capacity, cx| q.push_last(packet, capacity, cx);
    full true;
}
