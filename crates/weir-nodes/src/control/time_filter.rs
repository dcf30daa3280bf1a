use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};

use weir_elements::Time;

use crate::node::{Control, Modes};
use crate::prelude::*;

/// A packet's time lies outside of the range.
const OUT_OF_RANGE: Reason = Reason::new("OutOfTimeRange");

engine_node! {
    /// Lets packets pass whose time lies in a range: not before its start, and before its end.
    ///
    /// Others leave on output 1, or are dropped (`OutOfTimeRange`). At most one of the parameters for the start may be
    /// given, and one of those for the end. Relative times count from the first packet's time (`…_AFTER`), from the
    /// beginning of the run (`…_DELAY`), or from the start (`INTERVAL`).
    TimeFilter: "1/1-2", "a/ah", Delay, Graph;
    example "s :: Script(TYPE PASSIVE, print $1, write t.extend_interval 1); Idle -> t :: TimeFilter(0, 1, END_CALL s.run $t) -> Discard;";
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
        /// The write handler to call when the first packet behind the end comes, and its value, in which `$t` is the
        /// packet's time. If it moves the end behind the packet, that passes. Excludes STOP.
        key end_call: Option<Verbatim> = None,
    }
    check |f| if f.stop && f.end_call.is_some() { Err("STOP and END_CALL exclude each other".into()) } else { Ok(()) };
    handlers {
        /// The start; it may be wrong before the first packet.
        read start = |f, _| f.state.range.read("start"),
        /// Changes the start.
        write start = |f, value, _| f.state.range.write("start", value),
        /// The end; it may be wrong before the first packet.
        read end = |f, _| f.state.range.read("end"),
        /// Changes the end.
        write end = |f, value, _| f.state.range.write("end", value),
        /// The time from the start to the end.
        read interval = |f, _| f.state.range.read("interval"),
        /// Moves the end to that time after the start.
        write interval = |f, value, _| f.state.range.write("interval", value),
        /// Moves the end by that time.
        write extend_interval = |f, value, _| f.state.range.write("extend_interval", value),
    }
    state Filter;
}

#[derive(Default)]
struct Filter {
    /// Shared with the handlers, which may be called while the node calls another.
    range: Arc<Range>,
    /// Whether a packet came.
    ready: bool,
}

/// Times in nanoseconds since 1970.
#[derive(Default)]
struct Range {
    start: AtomicI64,
    end: AtomicI64,
    /// Whether END_CALL was carried out, and the end was not moved since.
    called: AtomicBool,
}

impl Range {
    fn start(&self) -> i64 {
        self.start.load(Relaxed)
    }

    fn end(&self) -> i64 {
        self.end.load(Relaxed)
    }

    fn set_end(&self, time: i64) {
        self.end.store(time, Relaxed);
        self.called.store(false, Relaxed);
    }

    fn read(&self, handler: &str) -> Result<String, String> {
        let time = match handler {
            "start" => self.start(),
            "end" => self.end(),
            "interval" => self.end().saturating_sub(self.start()),
            _ => return Err(format!("no read handler '{handler}'")),
        };
        Ok(weir_elements::time_text(time.cast_unsigned()))
    }

    fn write(&self, handler: &str, value: &str) -> Result<(), String> {
        let Time(time) = weir_elements::FromArg::from_arg(value)?;
        match handler {
            "start" => self.start.store(time, Relaxed),
            "end" => self.set_end(time),
            "interval" => self.set_end(self.start().saturating_add(time)),
            "extend_interval" => self.set_end(self.end().saturating_add(time)),
            _ => return Err(format!("no write handler '{handler}'")),
        }
        Ok(())
    }
}

impl Control for Range {
    fn modes(&self, handler: &str) -> Option<Modes> {
        match handler {
            "start" | "end" | "interval" => Some(Modes { write: true, ..Modes::READ }),
            "extend_interval" => Some(Modes::WRITE),
            _ => None,
        }
    }

    fn read(&self, handler: &str, _arg: &str, _cx: &mut Cx<'_>) -> Result<String, String> {
        Range::read(self, handler)
    }

    fn write(&self, handler: &str, value: &str, _cx: &mut Cx<'_>) -> Result<(), String> {
        Range::write(self, handler, value)
    }
}

/// An argument as it is written.
#[derive(Debug, Clone)]
pub(crate) struct Verbatim(String);

impl weir_elements::FromArg for Verbatim {
    const SYNTAX: &'static str = "write handler and value";
    fn from_arg(text: &str) -> Result<Verbatim, String> {
        Ok(Verbatim(text.to_owned()))
    }
}

impl TimeFilter {
    fn passes(&mut self, packet: &Packet, cx: &mut Cx<'_>) -> bool {
        let now = packet.timestamp.cast_signed();
        let range = self.state.range.clone();
        if !self.state.ready {
            self.state.ready = true;
            if let Some(Time(t)) = self.start_after {
                range.start.store(now.saturating_add(t), Relaxed);
            }
            if let Some(Time(t)) = self.end_after {
                range.end.store(now.saturating_add(t), Relaxed);
            } else if let Some(Time(t)) = self.interval {
                range.end.store(range.start().saturating_add(t), Relaxed);
            }
        }
        if now >= range.end() && now >= range.start() {
            if self.stop {
                cx.env().ask_stop();
            }
            self.end_calls(now, &range, cx);
        }
        (range.start()..range.end()).contains(&now)
    }

    /// Carries out END_CALL for a packet of that time, and again while it moves the end without reaching the packet.
    fn end_calls(&self, now: i64, range: &Range, cx: &mut Cx<'_>) {
        let Some(Verbatim(call)) = &self.end_call else { return };
        let time = weir_elements::time_text(now.cast_unsigned());
        let call = call.replace("${t}", &time).replace("$t", &time);
        let (handler, value) = call.split_once(char::is_whitespace).unwrap_or((&call, ""));
        while now >= range.end() && !range.called.swap(true, Relaxed) {
            let before = range.end();
            let mut errors = Vec::new();
            cx.write_handler((handler, value.trim()), &mut errors);
            errors.into_iter().for_each(|e| cx.print(e));
            if range.end() <= before {
                break;
            }
        }
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
        let start = self.start.map(|t| t.0).or(later(self.start_delay)).unwrap_or(i64::MIN);
        let end = self.end.map(|t| t.0).or(later(self.end_delay)).unwrap_or(i64::MAX);
        self.state.range.start.store(start, Relaxed);
        self.state.range.end.store(end, Relaxed);
        Ok(())
    }

    fn control(&self) -> Option<Arc<dyn Control>> {
        Some(self.state.range.clone())
    }

    fn push(&mut self, _port: u32, packets: &mut Vec<Packet>, cx: &mut Cx<'_>) {
        for packet in packets.drain(..) {
            if self.passes(&packet, cx) {
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
            if self.passes(&packet, cx) {
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
            // The handlers are those of the range that is here.
            let old = &old.state;
            self.state.ready = old.ready;
            self.state.range.start.store(old.range.start(), Relaxed);
            self.state.range.end.store(old.range.end(), Relaxed);
            self.state.range.called.store(old.range.called.load(Relaxed), Relaxed);
        }
    }
}
