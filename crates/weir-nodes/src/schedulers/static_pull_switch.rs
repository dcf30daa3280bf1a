use crate::prelude::*;

engine_node! {
    /// Pulls from one of its inputs, always the same.
    StaticPullSwitch: "-/1", "l/l", Choose, Graph;
    example "s :: StaticPullSwitch(1); Idle -> Queue -> s; Idle -> Queue -> [1] s; s -> Discard;";
    params {
        /// Number of the input, or -1 for none.
        pos input: i32,
    }
}

impl Behavior for StaticPullSwitch {
    fn pull(&mut self, _port: u32, cx: &mut Cx<'_>) -> Option<Packet> {
        let input = u32::try_from(self.input).ok().filter(|&i| i < cx.ports().0)?;
        cx.pull(input)
    }
}
