use weir_ir::program::MAX_HOPS;

use super::prelude::*;

/// No graph takes packets from the link.
const LINK_DOWN: Reason = Reason::new("LinkDown");

engine_node! {
    /// Hands packets to the graph that has the `FromLink` of the same name.
    ///
    /// Packets that no graph takes are dropped (`LinkDown`).
    ToLink: "1/0", "h/h", Sink;
    example "Idle -> ToLink(uplink);";
    params {
        /// Name of the link.
        pos name: String,
    }
    handlers {
        /// Whether a graph takes packets from the link.
        read up = |l, env| Ok(l.state.is_some_and(|id| env.links.is_up(id)).to_string()),
    }
    state Option<usize>;
}

impl Behavior for ToLink {
    fn open(&mut self, env: &mut Env) -> Result<(), String> {
        self.state = Some(env.links.id(&self.name));
        Ok(())
    }

    fn push(&mut self, _port: u32, packets: &mut Vec<Packet>, cx: &mut Cx<'_>) {
        let Some(id) = self.state.filter(|&id| cx.env.links.is_up(id)) else {
            return packets.drain(..).for_each(|p| cx.drop(&LINK_DOWN, p));
        };
        // Graphs may be joined in a circle.
        for packet in packets.extract_if(.., |p| p.hops >= MAX_HOPS) {
            cx.drop(&Reason::LOOP_LIMIT, packet);
        }
        packets.iter_mut().for_each(|p| p.hops += 1);
        cx.env.links.send(id, packets);
    }

    fn on_every_worker(&self) -> bool {
        true
    }
}
