use crate::common::limit::{Limit, flag};
use crate::prelude::*;

engine_node! {
    /// Pulls packets as fast as it can and pushes them out.
    Unqueue: "1/1", "l/h", Delay, Graph;
    example "Idle -> Queue -> Unqueue -> Discard;";
    params {
        /// Most packets that are pulled at a time.
        pos burst: u32 = 32,
        /// Whether it pulls now.
        key active: bool = true,
        /// How many packets it pulls in all.
        key limit: Limit = Limit::NONE => "-1",
    }
    handlers {
        /// Number of packets pulled so far.
        read count = |u, _| Ok(u.state.to_string()),
        /// Starts anew.
        write reset = |u, _, _| { u.state = 0; Ok(()) },
        /// Whether it pulls.
        read active = |u, _| Ok(u.active.to_string()),
        /// Lets it pull, or not.
        write active = |u, value, _| { u.active = flag(value)?; Ok(()) },
    }
    state u64;
}

impl Behavior for Unqueue {
    fn has_task(&self) -> bool {
        true
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> Ran {
        for _ in 0..self.burst.max(1) {
            if !self.active || self.limit.reached(self.state) {
                return Ran::Idle;
            }
            let Some(packet) = cx.pull(0) else { return Ran::Idle };
            self.state += 1;
            cx.emit(0, packet);
        }
        Ran::Busy
    }

    fn adopt(&mut self, old: &mut dyn EngineNode) {
        if let Some(old) = old.as_any().downcast_mut::<Unqueue>() {
            self.state = old.state;
        }
    }
}
