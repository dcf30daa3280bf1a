use weir_elements::FromArg;

use crate::common::limit::Probability;
use crate::prelude::*;

engine_node! {
    /// Drops packets early, the more the longer queues are on average (Random Early Detection, Floyd and Jacobson 1993).
    ///
    /// Up to `MIN_THRESH` packets on average none is dropped; from there to `MAX_THRESH` the probability grows to `MAX_P`,
    /// and from there to twice `MAX_THRESH` to 1 (gentle), or all are dropped at once. What is dropped leaves on output 1,
    /// if that is connected (otherwise: `EarlyDrop`). The queues are the nearest behind it if packets are pushed, before it
    /// if they are pulled; all their packets count together.
    RED: "1/1-2", "a/ah", Delay, Graph;
    example "Idle -> RED(5, 50, 0.02) -> Queue(200) -> Discard;";
    params {
        /// Average length up to which nothing is dropped.
        pos min_thresh: u32,
        /// Average length at which packets are dropped with `MAX_P`.
        pos max_thresh: u32,
        /// Probability, from 0 to 1.
        pos max_p: Probability,
        /// Names of the queues, separated by spaces.
        key queues: String = String::new(),
        /// How slowly the average follows the length: the weight of a length is 2 to the minus this.
        key stability: u32 = 4,
        /// Whether the probability grows to 1 beyond `MAX_THRESH`, instead of being 1 there.
        key gentle: bool = true,
    }
    check |r| r.checked();
    handlers {
        /// Average length up to which nothing is dropped.
        read min_thresh = |r, _| Ok(r.min_thresh.to_string()),
        /// Changes it.
        write min_thresh = |r, value, _| {
            let n = u32::from_arg(value.trim())?;
            r.change(|r| r.min_thresh = n)
        },
        /// Average length at which packets are dropped with `MAX_P`.
        read max_thresh = |r, _| Ok(r.max_thresh.to_string()),
        /// Changes it.
        write max_thresh = |r, value, _| {
            let n = u32::from_arg(value.trim())?;
            r.change(|r| r.max_thresh = n)
        },
        /// Probability at `MAX_THRESH`.
        read max_p = |r, _| Ok(r.max_p.0.to_string()),
        /// Changes it.
        write max_p = |r, value, _| { r.max_p = Probability::from_arg(value)?; Ok(()) },
        /// Number of packets dropped so far.
        read drops = |r, _| Ok(r.state.drops.to_string()),
        /// Names of the queues, one a line.
        read queues = |r, _| Ok(r.state.names.clone()),
        /// Average length of the queues.
        read avg_queue_size = |r, _| Ok(format!("{:.3}", r.state.average)),
    }
    state Average;
}

/// Dropped before queues are full.
const EARLY_DROP: Reason = Reason::new("EarlyDrop");
/// So often per second the average of an empty queue falls.
const IDLE_RATE: u64 = 50;

#[derive(Default)]
struct Average {
    queues: Vec<usize>,
    names: String,
    average: f64,
    /// When the queues were found empty.
    empty_since: Option<u64>,
    /// Packets since the last drop; `None` below `MIN_THRESH`.
    since_drop: Option<u32>,
    /// Where the next drop comes, as a number from 0 to 1.
    draw: f64,
    drops: u64,
}

impl RED {
    fn checked(&self) -> Result<(), String> {
        if self.max_thresh > 0xffff {
            return Err("MAX_THRESH: write at most 65535".into());
        }
        if self.min_thresh > self.max_thresh {
            return Err("MIN_THRESH must be at most MAX_THRESH".into());
        }
        if self.stability > 16 {
            return Err("STABILITY: write a number from 0 to 16".into());
        }
        Ok(())
    }

    fn change(&mut self, f: impl FnOnce(&mut RED)) -> Result<(), String> {
        let before = (self.min_thresh, self.max_thresh);
        f(self);
        self.checked().inspect_err(|_| (self.min_thresh, self.max_thresh) = before)
    }

    fn measure(&mut self, length: usize, now: u64) {
        let weight = 1.0 / f64::from(1_u32 << self.stability);
        let a = &mut self.state;
        if self.stability == 0 || length > 0 {
            a.average += (length as f64 - a.average) * weight;
            a.empty_since = None;
            return;
        }
        let since = a.empty_since.replace(now);
        let steps = since.map_or(1, |t| now.saturating_sub(t) / (1_000_000_000 / IDLE_RATE));
        a.average *= (1.0 - weight).powi(i32::try_from(steps).unwrap_or(i32::MAX));
        if steps == 0 {
            a.empty_since = since;
        }
    }

    fn drops(&mut self, cx: &mut Cx<'_>) -> bool {
        let length = self.state.queues.iter().map(|&q| cx.length_of(q)).sum();
        self.measure(length, cx.now());
        let (min, max) = (f64::from(self.min_thresh), f64::from(self.max_thresh));
        let max_p = self.max_p.0;
        let average = self.state.average;
        if average <= min {
            self.state.since_drop = None;
            return false;
        }
        let limit = if self.gentle && max_p < 1.0 { 2.0 * max } else { max };
        if average > limit {
            self.state.since_drop = None;
            return true;
        }
        let p = if average <= max {
            max_p * (average - min) / (max - min).max(f64::MIN_POSITIVE)
        } else {
            max_p + (1.0 - max_p) * (average - max) / max
        };
        let count = self.state.since_drop.map_or(0, |n| n.saturating_add(1));
        if count > 0 && p > 0.0 && f64::from(count) > self.state.draw / p {
            self.state.since_drop = Some(0);
            self.state.draw = draw(cx);
            return true;
        }
        if count == 0 {
            self.state.draw = draw(cx);
        }
        self.state.since_drop = Some(count);
        false
    }

    fn give_up(&mut self, packet: Packet, cx: &mut Cx<'_>) {
        self.state.drops += 1;
        if cx.ports().1 > 1 {
            cx.emit(1, packet);
        } else {
            cx.drop(&EARLY_DROP, packet);
        }
    }
}

fn draw(cx: &mut Cx<'_>) -> f64 {
    f64::from(cx.env().random()) / f64::from(u32::MAX)
}

impl Behavior for RED {
    fn place(&mut self, here: &Neighbours<'_>) -> Result<(), String> {
        let queues = if self.queues.trim().is_empty() {
            here.storages(here.output_is_push(0))
        } else {
            let mut found = Vec::new();
            for name in self.queues.split_whitespace() {
                let element =
                    here.find(name).ok_or_else(|| format!("QUEUES: there is no element '{name}'"))?;
                if !here.stores(element) {
                    return Err(format!("QUEUES: '{name}' stores no packets; name a Queue"));
                }
                found.push(element);
            }
            found
        };
        if queues.is_empty() {
            return Err("no nearby Queues; name one by QUEUES".into());
        }
        self.state.names = queues.iter().map(|&q| format!("{}\n", here.name(q))).collect();
        self.state.queues = queues;
        Ok(())
    }

    fn push(&mut self, _port: u32, packets: &mut Vec<Packet>, cx: &mut Cx<'_>) {
        for packet in packets.drain(..) {
            if self.drops(cx) {
                self.give_up(packet, cx);
            } else {
                cx.emit(0, packet);
            }
        }
    }

    fn pull(&mut self, _port: u32, cx: &mut Cx<'_>) -> Option<Packet> {
        loop {
            let packet = cx.pull(0)?;
            if !self.drops(cx) {
                return Some(packet);
            }
            self.give_up(packet, cx);
        }
    }

    fn adopt(&mut self, old: &mut dyn EngineNode) {
        if let Some(old) = old.as_any().downcast_mut::<RED>() {
            self.state.average = old.state.average;
            self.state.drops = old.state.drops;
        }
    }
}
