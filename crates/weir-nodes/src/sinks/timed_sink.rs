use std::time::Duration;

use crate::common::delay::{nanos, seconds};
use crate::prelude::*;

engine_node! {
    /// Pulls a packet in each interval and drops it (`Discarded`).
    TimedSink: "1/0", "l/l", Sink, Graph;
    example "Idle -> Queue -> TimedSink(0.1);";
    params {
        /// The interval.
        pos interval: Duration = Duration::from_millis(500),
    }
    check |s| if s.interval.is_zero() { Err("INTERVAL: write a time above 0".into()) } else { Ok(()) };
    handlers {
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
        /// Number of packets pulled so far.
        read count = |s, _| Ok(s.state.count.to_string()),
    }
    state Pulled;
}

#[derive(Default)]
struct Pulled {
    count: u64,
    next: Option<u64>,
}

impl Behavior for TimedSink {
    fn has_task(&self) -> bool {
        true
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> Ran {
        let (now, interval) = (cx.now(), nanos(self.interval));
        let next = *self.state.next.get_or_insert(now.saturating_add(interval));
        if now < next {
            return Ran::Until(next);
        }
        if let Some(packet) = cx.pull(0) {
            self.state.count += 1;
            cx.drop(&Reason::DISCARDED, packet);
        }
        let next = next.saturating_add(interval).max(now.saturating_add(1));
        self.state.next = Some(next);
        Ran::Until(next)
    }

    fn adopt(&mut self, old: &mut dyn EngineNode) {
        if let Some(old) = old.as_any().downcast_mut::<TimedSink>() {
            self.state = std::mem::take(&mut old.state);
        }
    }
}
