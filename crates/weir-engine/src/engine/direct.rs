//! Devices that are joined, so that the peer of the one sends to the peer of the other past this process.

use weir_nodes::env::device::Join;

use super::Engine;
use crate::router::Router;

impl Engine {
    /// Joins and parts devices, as far as that can be done now.
    pub(super) fn drive_joins(&mut self) {
        let Engine { graphs, rt, .. } = self;
        let watching = rt.watch.active().then(|| rt.watch.lock());
        let may = |graph: usize| {
            let is_watched = |name: &str| watching.as_ref().is_some_and(|watch| watch.concerns(name));
            graphs.get(graph).is_some_and(|router| !is_watched(&router.name))
        };
        rt.env.devices.drive_joins(rt.env.now, may);
        drop(watching);
        for join in self.rt.env.devices.drained_joins() {
            if self.has_passed(&join) {
                self.rt.env.devices.has_passed(&join);
            }
        }
    }

    /// Whether all packets for the second device of a join have left their graph.
    fn has_passed(&mut self, join: &Join) -> bool {
        if !self.rt.env.devices.is_sent(join.to) {
            // It is tried again when the device takes more.
            return false;
        }
        self.with_rest(|first, rest| {
            first.quiesce(rest);
            first.rt.env.devices.flush(join.to, first.rt.env.now);
            // The graph may be another one by now.
            let router = first.graphs.get(join.graph);
            let sender = router.and_then(|router| router.sender_to(join.to));
            let waits = |engine: &Engine| {
                let router = engine.graphs.get(join.graph);
                let queued = |router: &Router| sender.is_some_and(|element| router.is_scheduled(element));
                router.is_some_and(|router| router.is_busy() || queued(router))
            };
            first.rt.env.devices.is_sent(join.to) && !waits(first) && !rest.iter().any(waits)
        })
    }
}
