use weir_elements::Time;

use super::prelude::*;

/// A packet's time lies outside of the range.
const OUT_OF_RANGE: Reason = Reason::new("OutOfTimeRange");

engine_node! {
    /// Lets packets pass whose time lies in a range: not before its start, and before its end.
    ///
    /// Others leave on output 1, or are dropped (`OutOfTimeRange`). At most one of the parameters for the start may be
    /// given, and one of those for the end. Relative times count from the first packet's time (`…_AFTER`), from the
    /// beginning of the run (`…_DELAY`), or from the start (`INTERVAL`).
    TimeFilter: "1/1-2", "a/ah", Delay;
    example "Idle -> TimeFilter(START_AFTER 1, INTERVAL 10, STOP true) -> Discard;";
    params {
        /// The start, in seconds since 1970.
        pos start: Option<Time> = None,
        /// The end.
        pos end: Option<Time> = None,
        /// The start, in seconds after the first packet.
        key start_after: Option<Time> = None,
        /// The start, in seconds after the beginning of the run.
        key start_delay: Option<Time> = None,
        /// The end, in seconds after the first packet.
        key end_after: Option<Time> = None,
        /// The end, in seconds after the beginning of the run.
        key end_delay: Option<Time> = None,
        /// The end, in seconds after the start.
        key interval: Option<Time> = None,
        /// Whether to end the run at the first packet behind the end.
        key stop: bool = false,
    }
    handlers {
        /// The start; it may be wrong before the first packet.
        read start = |f, _| Ok(text(f.state.start)),
        /// Changes the start.
        write start = |f, value, _| { f.state.start = time(value)?; Ok(()) },
        /// The end; it may be wrong before the first packet.
        read end = |f, _| Ok(text(f.state.end)),
        /// Changes the end.
        write end = |f, value, _| { f.state.end = time(value)?; Ok(()) },
        /// The time from the start to the end.
        read interval = |f, _| Ok(text(f.state.end.saturating_sub(f.state.start))),
        /// Moves the end to that time after the start.
        write interval = |f, value, _| { f.state.end = f.state.start.saturating_add(time(value)?); Ok(()) },
        /// Moves the end by that time.
        write extend_interval = |f, value, _| { f.state.end = f.state.end.saturating_add(time(value)?); Ok(()) },
    }
    state Range;
}

#[derive(Default)]
struct Range {
    /// Nanoseconds since 1970.
    start: i64,
    end: i64,
    /// Whether a packet came.
    ready: bool,
}

fn text(time: i64) -> String {
    weir_elements::time_text(time.cast_unsigned())
}

fn time(value: &str) -> Result<i64, String> {
    <Time as weir_elements::FromArg>::from_arg(value).map(|t| t.0)
}

impl TimeFilter {
    fn passes(&mut self, packet: &Packet, env: &mut Env) -> bool {
        let now = packet.timestamp.cast_signed();
        if !self.state.ready {
            self.state.ready = true;
            if let Some(Time(t)) = self.start_after {
                self.state.start = now.saturating_add(t);
            }
            if let Some(Time(t)) = self.end_after {
                self.state.end = now.saturating_add(t);
            } else if let Some(Time(t)) = self.interval {
                self.state.end = self.state.start.saturating_add(t);
            }
        }
        env.stop |= self.stop && now >= self.state.end;
        (self.state.start..self.state.end).contains(&now)
    }
}

impl Behavior for TimeFilter {
    fn open(&mut self, env: &mut Env) -> Result<(), String> {
        let starts = [self.start, self.start_after, self.start_delay];
        let ends = [self.end, self.end_after, self.end_delay, self.interval];
        for (names, given) in [
            ("START, START_AFTER and START_DELAY", starts.iter().flatten().count()),
            ("END, END_AFTER, END_DELAY and INTERVAL", ends.iter().flatten().count()),
        ] {
            if given > 1 {
                return Err(format!("{names} exclude each other: give at most one"));
            }
        }
        let now = env.now.cast_signed();
        let later = |delay: Option<Time>| delay.map(|Time(t)| now.saturating_add(t));
        self.state.start = self.start.map(|t| t.0).or(later(self.start_delay)).unwrap_or(i64::MIN);
        self.state.end = self.end.map(|t| t.0).or(later(self.end_delay)).unwrap_or(i64::MAX);
        Ok(())
    }

    fn push(&mut self, _port: u32, packets: &mut Vec<Packet>, cx: &mut Cx<'_>) {
        for packet in packets.drain(..) {
            if self.passes(&packet, cx.env) {
                cx.emit(0, packet);
            } else if cx.ports().1 > 1 {
                cx.emit(1, packet);
            } else {
                cx.drop(&OUT_OF_RANGE, packet);
            }
        }
    }

    fn pull(&mut self, _port: u32, cx: &mut Cx<'_>) -> Option<Packet> {
        loop {
            let packet = cx.pull(0)?;
            if self.passes(&packet, cx.env) {
                return Some(packet);
            } else if cx.ports().1 > 1 {
                cx.emit(1, packet);
            } else {
                cx.drop(&OUT_OF_RANGE, packet);
            }
        }
    }

    fn adopt(&mut self, old: &mut dyn EngineNode) {
        if let Some(old) = old.as_any().downcast_mut::<TimeFilter>() {
            self.state = std::mem::take(&mut old.state);
        }
    }
}
