use crate::prelude::*;

engine_node! {
    /// Pulls from its inputs in turn; one that has no packet is passed over.
    RoundRobinSched: "1-/1", "l/l", Choose, Graph;
    example "s :: RoundRobinSched; Idle -> Queue -> s; Idle -> Queue -> [1] s; s -> Discard;";
    state u32;
}

impl Behavior for RoundRobinSched {
    fn pull(&mut self, _port: u32, cx: &mut Cx<'_>) -> Option<Packet> {
        let (inputs, _) = cx.ports();
        for _ in 0..inputs {
            let input = self.state % inputs;
            self.state = (input + 1) % inputs;
            if let Some(packet) = cx.pull(input) {
                return Some(packet);
            }
        }
        None
    }
}
