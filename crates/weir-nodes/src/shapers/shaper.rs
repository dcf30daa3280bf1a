use crate::common::gap::Gap;
use crate::prelude::*;

engine_node! {
    /// Gives at most so many packets per second to those who pull.
    ///
    /// Packets come at equal distances if they are pulled often enough. Those that are pulled from output 1, while none is
    /// due on output 0, do not count.
    Shaper: "1/1-2", "l/l", Delay, Graph;
    example "Idle -> Queue -> Shaper(1000) -> Discard;";
    params {
        /// Packets per second.
        pos rate: u32,
    }
    handlers {
        /// Packets per second.
        read rate = |s, _| Ok(s.rate.to_string()),
        /// Changes the rate.
        write rate = |s, value, _| {
            s.rate = <u32 as weir_elements::FromArg>::from_arg(value.trim())?;
            s.state.reset();
            Ok(())
        },
        /// Forgets the past: the next packet is due at once.
        write reset = |s, _, _| { s.state.reset(); Ok(()) },
    }
    state Gap;
}

impl Behavior for Shaper {
    fn pull(&mut self, port: u32, cx: &mut Cx<'_>) -> Option<Packet> {
        let now = cx.now();
        let is_due = self.rate > 0 && self.state.is_due(now);
        if is_due != (port == 0) {
            if let Some(due) = self.state.due().filter(|_| self.rate > 0 && port == 0) {
                cx.try_at(due);
            }
            return None;
        }
        let packet = cx.pull(0)?;
        if is_due {
            self.state.happened(now, 1, self.rate);
        }
        Some(packet)
    }

    fn adopt(&mut self, old: &mut dyn EngineNode) {
        if let Some(old) = old.as_any().downcast_mut::<Shaper>() {
            self.state = std::mem::take(&mut old.state);
        }
    }
}
