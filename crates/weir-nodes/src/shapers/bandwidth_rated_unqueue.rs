use std::time::Duration;

use weir_elements::token_rate::{Spec, THRESHOLD};
use weir_elements::{Bandwidth, FromArg};

use crate::common::limit::flag;
use crate::prelude::*;
use crate::shapers::rated_unqueue::Pulled;

engine_node! {
    /// Pulls packets at a bandwidth and pushes them out.
    ///
    /// The bandwidth is that of a token bucket, which holds what 20 ms bring unless `BURST_DURATION` or `BURST_BYTES` say
    /// otherwise; it starts full, and fills every millisecond. A packet is pulled when the bucket is not in debt, and may
    /// bring it into debt.
    BandwidthRatedUnqueue: "1/1", "l/h", Delay, Graph;
    example "Idle -> Queue -> BandwidthRatedUnqueue(384kbps) -> Discard;";
    params {
        /// Bandwidth.
        pos rate: Bandwidth,
        /// How long the bucket takes to fill.
        key burst_duration: Option<Duration> = None,
        /// How many bytes the bucket holds.
        key burst_bytes: Option<u32> = None,
        /// Whether it pulls now.
        key active: bool = true,
    }
    check |u| u.spec().check("BURST_BYTES");
    handlers {
        /// Number of packets pulled so far.
        read count = |u, _| Ok(u.state.count.to_string()),
        /// Bandwidth.
        read rate = |u, _| Ok(u.rate.to_string()),
        /// Changes the bandwidth.
        write rate = |u, value, _| { u.rate = Bandwidth::from_arg(value)?; Ok(()) },
        /// Whether it pulls.
        read active = |u, _| Ok(u.active.to_string()),
        /// Lets it pull, or not.
        write active = |u, value, _| { u.active = flag(value)?; Ok(()) },
    }
    state Pulled;
}

impl BandwidthRatedUnqueue {
    fn spec(&self) -> Spec {
        Spec { rate: self.rate.0, burst_duration: self.burst_duration, burst: self.burst_bytes, bytes: true }
    }
}

impl Behavior for BandwidthRatedUnqueue {
    fn has_task(&self) -> bool {
        true
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> Ran {
        if !self.active {
            return Ran::Idle;
        }
        let rate = self.spec().rate();
        self.state.run(rate, THRESHOLD, |packet| packet.len() as u32, cx)
    }

    fn adopt(&mut self, old: &mut dyn EngineNode) {
        if let Some(old) = old.as_any().downcast_mut::<BandwidthRatedUnqueue>() {
            self.state = std::mem::take(&mut old.state);
        }
    }
}
