use crate::prelude::*;

queue_node! {
    /// A `Queue`: here all queues let those who pull know at once that they are empty.
    QuickNoteQueue: "1/1-2", "h/lh";
    example "Idle -> QuickNoteQueue(500) -> Discard;";
    push |q, _, packet, capacity, cx| q.push_last(packet, capacity, cx);
    full true;
}
