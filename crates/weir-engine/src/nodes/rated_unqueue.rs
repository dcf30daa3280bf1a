use super::limit::flag;
use super::pace::Pace;
use super::prelude::*;

engine_node! {
    /// Pulls packets at a steady rate and pushes them out.
    RatedUnqueue: "1/1", "l/h", Delay;
    example "Idle -> Queue -> RatedUnqueue(1000) -> Discard;";
    params {
        /// Packets per second.
        pos rate: u32,
        /// Whether it pulls now.
        key active: bool = true,
    }
    handlers {
        /// Number of packets pulled so far.
        read count = |u, _| Ok(u.state.count.to_string()),
        /// Packets per second.
        read rate = |u, _| Ok(u.rate.to_string()),
        /// Changes the rate.
        write rate = |u, value, _| {
            u.rate = <u32 as weir_elements::FromArg>::from_arg(value.trim())?;
            Ok(())
        },
        /// Whether it pulls.
        read active = |u, _| Ok(u.active.to_string()),
        /// Lets it pull, or not.
        write active = |u, value, _| { u.active = flag(value)?; Ok(()) },
    }
    state Pulled;
}

#[derive(Default)]
struct Pulled {
    count: u64,
    pace: Pace,
    /// Not before this time: a packet that was missing when it was due must not bring the next one forward.
    not_before: u64,
}

impl Behavior for RatedUnqueue {
    fn has_task(&self) -> bool {
        true
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> Ran {
        if !self.active || self.rate == 0 {
            return Ran::Idle;
        }
        if cx.now() < self.state.not_before {
            return Ran::Until(self.state.not_before);
        }
        for _ in 0..self.state.pace.due(cx.now(), self.rate) {
            let Some(packet) = cx.pull(0) else {
                self.state.pace.unused();
                return Ran::Idle;
            };
            self.state.count += 1;
            self.state.not_before = cx.now() + 1_000_000_000 / u64::from(self.rate);
            cx.emit(0, packet);
        }
        self.state.pace.next()
    }

    fn adopt(&mut self, old: &mut dyn EngineNode) {
        if let Some(old) = old.as_any().downcast_mut::<RatedUnqueue>() {
            self.state = std::mem::take(&mut old.state);
        }
    }
}
