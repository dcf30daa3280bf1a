use std::time::Duration;

use weir_elements::token_rate::{Rate, Spec};

use crate::common::bucket::Bucket;
use crate::common::limit::flag;
use crate::prelude::*;

engine_node! {
    /// Pulls packets at a steady rate and pushes them out.
    ///
    /// The rate is that of a token bucket, which holds what 20 ms bring, at least one packet, unless `BURST_DURATION` or
    /// `BURST_SIZE` say otherwise; it starts full, and fills every millisecond.
    RatedUnqueue: "1/1", "l/h", Delay, Graph;
    example "Idle -> Queue -> RatedUnqueue(1000) -> Discard;";
    params {
        /// Packets per second.
        pos rate: u32,
        /// How long the bucket takes to fill.
        key burst_duration: Option<Duration> = None,
        /// How many packets the bucket holds.
        key burst_size: Option<u32> = None,
        /// Whether it pulls now.
        key active: bool = true,
    }
    check |u| u.spec().check("BURST_SIZE");
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

/// Most packets that are pulled at a time.
const BURST: usize = 256;

#[derive(Default)]
pub(crate) struct Pulled {
    pub count: u64,
    bucket: Bucket,
}

impl Pulled {
    /// Pulls as long as the bucket holds `wanted` tokens, of which a packet takes `cost`.
    pub fn run(&mut self, rate: Rate, wanted: u32, cost: fn(&Packet) -> u32, cx: &mut Cx<'_>) -> Ran {
        self.bucket.fill(rate, cx.now());
        for _ in 0..BURST {
            if !self.bucket.contains(rate, wanted) {
                return self.bucket.when(rate, wanted).map_or(Ran::Idle, Ran::Until);
            }
            let Some(packet) = cx.pull(0) else { return Ran::Idle };
            self.bucket.take(rate, cost(&packet));
            self.count += 1;
            cx.emit(0, packet);
        }
        Ran::Busy
    }
}

impl RatedUnqueue {
    fn spec(&self) -> Spec {
        Spec { rate: self.rate, burst_duration: self.burst_duration, burst: self.burst_size, bytes: false }
    }
}

impl Behavior for RatedUnqueue {
    fn has_task(&self) -> bool {
        true
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> Ran {
        if !self.active {
            return Ran::Idle;
        }
        let rate = self.spec().rate();
        self.state.run(rate, 1, |_| 1, cx)
    }

    fn adopt(&mut self, old: &mut dyn EngineNode) {
        if let Some(old) = old.as_any().downcast_mut::<RatedUnqueue>() {
            self.state = std::mem::take(&mut old.state);
        }
    }
}
