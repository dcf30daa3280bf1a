use crate::common::limit::{Data, Length, Limit, flag};
use crate::common::pace::Pace;
use crate::prelude::*;

engine_node! {
    /// Generates packets at a steady rate.
    RatedSource: "0/1", "h/h", Source, Graph;
    example "RatedSource(RATE 1000, LENGTH 60, LIMIT 1000) -> Discard;";
    params {
        /// What the packets contain.
        pos data: Data = Data::default(),
        /// Packets per second.
        pos rate: u32 = 10,
        /// How many packets.
        pos limit: Limit = Limit::NONE => "-1",
        /// Whether it generates packets now.
        pos active: bool = true,
        /// Length of the packets: the data is repeated or cut.
        key length: Option<Length> = None,
        /// Whether to end the run after the last packet.
        key stop: bool = false,
    }
    handlers {
        /// Number of packets generated so far.
        read count = |s, _| Ok(s.state.count.to_string()),
        /// Starts anew.
        write reset = |s, _, _| { s.state.count = 0; Ok(()) },
        /// Whether it generates packets.
        read active = |s, _| Ok(s.active.to_string()),
        /// Lets it generate packets, or not.
        write active = |s, value, _| { s.active = flag(value)?; Ok(()) },
        /// Packets per second.
        read rate = |s, _| Ok(s.rate.to_string()),
        /// Changes the rate.
        write rate = |s, value, _| {
            s.rate = <u32 as weir_elements::FromArg>::from_arg(value.trim())?;
            Ok(())
        },
    }
    state Made;
}

#[derive(Default)]
struct Made {
    count: u64,
    pace: Pace,
}

impl Behavior for RatedSource {
    fn generates(&self) -> Option<Vec<u8>> {
        Some(self.data.of_length(self.length))
    }

    fn has_task(&self) -> bool {
        true
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> Ran {
        if !self.active || self.limit.reached(self.state.count) {
            self.state.pace = Pace::default();
            return Ran::Idle;
        }
        let due = self.state.pace.due(cx.now(), self.rate).min(self.limit.left(self.state.count));
        let data = self.data.of_length(self.length);
        for _ in 0..due {
            let Ok(mut packet) = Packet::from_bytes(&data) else { break };
            packet.timestamp = cx.now();
            cx.emit(0, packet);
        }
        self.state.count += due;
        if self.limit.reached(self.state.count) {
            if self.stop {
                cx.env().ask_stop();
            }
            return Ran::Idle;
        }
        self.state.pace.next()
    }

    fn adopt(&mut self, old: &mut dyn EngineNode) {
        if let Some(old) = old.as_any().downcast_mut::<RatedSource>() {
            self.state = std::mem::take(&mut old.state);
        }
    }
}
