use crate::prelude::*;

engine_node! {
    /// Pulls from the first of its inputs that has a packet: strict priorities.
    PrioSched: "-/1", "l/l", Choose, Graph;
    example "s :: PrioSched; Idle -> Queue -> s; Idle -> Queue -> [1] s; s -> Discard;";
}

impl Behavior for PrioSched {
    fn pull(&mut self, _port: u32, cx: &mut Cx<'_>) -> Option<Packet> {
        (0..cx.ports().0).find_map(|input| cx.pull(input))
    }
}
