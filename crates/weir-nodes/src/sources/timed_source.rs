use std::time::Duration;

use crate::common::delay::{nanos, seconds};
use crate::common::limit::{Data, Limit, flag};
use crate::prelude::*;

engine_node! {
    /// Generates a packet in each interval; the first at the end of the first interval.
    TimedSource: "0/1", "h/h", Source, Graph;
    example "TimedSource(0.1, DATA \"tick\", LIMIT 10) -> Discard;";
    params {
        /// The interval.
        pos interval: Duration = Duration::from_millis(500),
        /// What the packets contain.
        pos data: Data = Data::default(),
        /// How many packets.
        key limit: Limit = Limit::NONE => "-1",
        /// Whether it generates packets now.
        key active: bool = true,
        /// Whether to end the run an interval after the last packet.
        key stop: bool = false,
        /// Accepted for Click's sake: packets have as much headroom as all.
        key headroom: u32 = 0,
    }
    check |s| if s.interval.is_zero() { Err("INTERVAL: write a time above 0".into()) } else { Ok(()) };
    handlers {
        /// Number of packets generated so far.
        read count = |s, _| Ok(s.state.count.to_string()),
        /// Starts anew.
        write reset = |s, _, _| { s.state = Made::default(); Ok(()) },
        /// The interval.
        read interval = |s, _| Ok(seconds(s.interval)),
        /// Changes the interval.
        write interval = |s, value, _| {
            let interval = <Duration as weir_elements::FromArg>::from_arg(value)?;
            if interval.is_zero() {
                return Err("write a time above 0".to_owned());
            }
            s.interval = interval;
            Ok(())
        },
        /// Changes what the packets contain.
        write data = |s, value, _| { s.data = <Data as weir_elements::FromArg>::from_arg(value)?; Ok(()) },
        /// Whether it generates packets.
        read active = |s, _| Ok(s.active.to_string()),
        /// Lets it generate packets, or not.
        write active = |s, value, _| { s.active = flag(value)?; Ok(()) },
    }
    state Made;
}

#[derive(Default)]
struct Made {
    count: u64,
    /// When the next packet is due.
    next: Option<u64>,
}

impl Behavior for TimedSource {
    fn generates(&self) -> Option<Vec<u8>> {
        Some(self.data.of_length(None))
    }

    fn has_task(&self) -> bool {
        true
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> Ran {
        if !self.active {
            self.state.next = None;
            return Ran::Idle;
        }
        let (now, interval) = (cx.now(), nanos(self.interval));
        let next = *self.state.next.get_or_insert(now.saturating_add(interval));
        if now < next {
            return Ran::Until(next);
        }
        if self.limit.reached(self.state.count) {
            if self.stop {
                cx.env().ask_stop();
            }
            return Ran::Idle;
        }
        if let Ok(mut packet) = Packet::from_bytes(&self.data.of_length(None)) {
            packet.timestamp = now;
            cx.emit(0, packet);
        }
        self.state.count += 1;
        // One that is late by more than an interval does not catch up.
        let next = next.saturating_add(interval).max(now.saturating_add(1));
        self.state.next = Some(next);
        Ran::Until(next)
    }

    fn adopt(&mut self, old: &mut dyn EngineNode) {
        if let Some(old) = old.as_any().downcast_mut::<TimedSource>() {
            self.state = std::mem::take(&mut old.state);
        }
    }
}
