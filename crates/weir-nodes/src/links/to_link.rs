use weir_ir::program::MAX_HOPS;
use weir_packet::MAX_LEN;

use crate::prelude::*;

/// No graph takes packets from the link.
const LINK_DOWN: Reason = Reason::new("LinkDown");
/// The packet fills its buffer.
const TOO_LONG: Reason = Reason::new("TooLong");

engine_node! {
    /// Hands packets to the graph that has the `FromLink` of the same name.
    ///
    /// They come there as from a device: without annotations, and with no layer marked but the link header. Packets that no
    /// graph takes are dropped (`LinkDown`), and those of more than 262,144 bytes (`TooLong`).
    ToLink: "1/0", "h/h", Sink, Links;
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
        self.state = Some(env.links.own_id(&self.name));
        Ok(())
    }

    fn push(&mut self, _port: u32, packets: &mut Vec<Packet>, cx: &mut Cx<'_>) {
        let Some(id) = self.state.filter(|&id| cx.env().links.is_up(id)) else {
            return packets.drain(..).for_each(|p| cx.drop(&LINK_DOWN, p));
        };
        // Graphs may be joined in a circle.
        for packet in packets.extract_if(.., |p| p.hops >= MAX_HOPS) {
            cx.drop(&Reason::LOOP_LIMIT, packet);
        }
        // In such a one there is no space for what the next graph may put in front.
        for packet in packets.extract_if(.., |p| p.len() > MAX_LEN) {
            cx.drop(&TOO_LONG, packet);
        }
        packets.iter_mut().for_each(|p| p.hops += 1);
        cx.env().links.send(id, packets);
        // There was no space for the tag of an access point.
        packets.drain(..).for_each(|p| cx.drop(&Reason::NO_SPACE, p));
    }

    fn on_every_worker(&self) -> bool {
        true
    }
}
