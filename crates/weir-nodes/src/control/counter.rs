use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use weir_elements::FromArg;

use crate::node::{Control, Modes};
use crate::prelude::*;

engine_node! {
    /// Counts packets and bytes, and calls handlers at given counts: what `Counter` is with `COUNT_CALL` or
    /// `BYTE_COUNT_CALL`.
    Counter: "1/1", "a/a", Delay, Graph;
    example "InfiniteSource -> Counter(COUNT_CALL 5 s.switch 1) -> s :: Switch -> Discard; s [1] -> Discard;";
    params {
        /// Handler that is called when so many packets have come.
        key count_call: Option<Call> = None,
        /// Handler that is called when so many bytes have come.
        key byte_count_call: Option<Call> = None,
    }
    state Arc<Counts>;
}

/// Whether a counter with these arguments calls handlers.
pub(crate) fn calls(args: &[String]) -> bool {
    let keyword = |a: &String| weir_click::first_word(a).map(|(word, _)| word.to_owned());
    args.iter().filter_map(keyword).any(|word| matches!(word.as_str(), "COUNT_CALL" | "BYTE_COUNT_CALL"))
}

/// A write handler to call at a count: `N HANDLER [VALUE]`.
pub(crate) struct Call {
    at: u64,
    handler: String,
    value: String,
}

impl FromArg for Call {
    const SYNTAX: &'static str = "number, handler and value";

    fn from_arg(text: &str) -> Result<Call, String> {
        let (number, call) = weir_click::first_word(text).unwrap_or_default();
        let at = u64::from_arg(number).map_err(|_| {
            format!(
                "'{number}' is not a count: write a number, a handler and its value, such as '5 s.switch 1'"
            )
        })?;
        let (handler, value) = weir_click::first_word(call).unwrap_or_default();
        if handler.is_empty() {
            return Err(format!("no handler to call at {at}: write its name behind the number"));
        }
        let value = String::from_arg(value)?;
        Ok(Call { at, handler: handler.to_owned(), value })
    }
}

/// Counts, which handlers can reach while one of them is being called.
#[derive(Default)]
struct Counts {
    packets: AtomicU64,
    bytes: AtomicU64,
    /// Whether the handlers were called, since the last reset.
    called: AtomicBool,
    bytes_called: AtomicBool,
}

impl Counter {
    /// At which of these packets a handler is to be called.
    fn next_call(&self, packets: &[Packet]) -> Option<usize> {
        let counts = &self.state;
        let waits = |call: &Option<Call>, called: &AtomicBool| {
            call.as_ref().filter(|_| !called.load(Relaxed)).map(|c| c.at)
        };
        let at = waits(&self.count_call, &counts.called);
        let bytes_at = waits(&self.byte_count_call, &counts.bytes_called);
        let mut count = counts.packets.load(Relaxed);
        let mut bytes = counts.bytes.load(Relaxed);
        packets.iter().position(|packet| {
            count += 1;
            bytes += packet.len() as u64;
            at == Some(count) || bytes_at.is_some_and(|at| bytes >= at)
        })
    }

    fn count(&self, packet: &Packet, cx: &mut Cx<'_>) {
        let counts = &self.state;
        let packets = counts.packets.fetch_add(1, Relaxed) + 1;
        let len = packet.len() as u64;
        let bytes = counts.bytes.fetch_add(len, Relaxed) + len;
        let due = [
            (self.count_call.as_ref().filter(|c| packets == c.at), &counts.called),
            (self.byte_count_call.as_ref().filter(|c| bytes >= c.at), &counts.bytes_called),
        ];
        for (call, called) in due {
            if let Some(call) = call
                && !called.swap(true, Relaxed)
            {
                let mut errors = Vec::new();
                cx.write_handler((&call.handler, &call.value), &mut errors);
                for e in errors {
                    cx.print(format!("{} :: {}: {e}", cx.name(), cx.class()));
                }
            }
        }
    }
}

impl Behavior for Counter {
    fn push(&mut self, _port: u32, packets: &mut Vec<Packet>, cx: &mut Cx<'_>) {
        // Those before a call have gone on by the time of the call.
        let now = match self.next_call(packets) {
            Some(0) => 1,
            Some(before) => before,
            None => packets.len(),
        };
        for packet in packets.drain(..now.min(packets.len())) {
            self.count(&packet, cx);
            cx.emit(0, packet);
        }
    }

    fn pull(&mut self, _port: u32, cx: &mut Cx<'_>) -> Option<Packet> {
        let packet = cx.pull(0)?;
        self.count(&packet, cx);
        Some(packet)
    }

    fn adopt(&mut self, old: &mut dyn EngineNode) {
        if let Some(old) = old.as_any().downcast_mut::<Counter>() {
            self.state.packets.store(old.state.packets.load(Relaxed), Relaxed);
            self.state.bytes.store(old.state.bytes.load(Relaxed), Relaxed);
        }
    }

    fn control(&self) -> Option<Arc<dyn Control>> {
        Some(self.state.clone())
    }
}

impl Control for Counts {
    fn modes(&self, handler: &str) -> Option<Modes> {
        match handler {
            "count" | "byte_count" => Some(Modes::READ),
            "reset" | "reset_counts" => Some(Modes::WRITE),
            _ => None,
        }
    }

    fn more_handlers(&self) -> Vec<String> {
        ["count", "byte_count", "reset", "reset_counts"].map(str::to_owned).into()
    }

    fn read(&self, handler: &str, _arg: &str, _cx: &mut Cx<'_>) -> Result<String, String> {
        let count = if handler == "count" { &self.packets } else { &self.bytes };
        Ok(count.load(Relaxed).to_string())
    }

    fn write(&self, _handler: &str, _value: &str, _cx: &mut Cx<'_>) -> Result<(), String> {
        self.packets.store(0, Relaxed);
        self.bytes.store(0, Relaxed);
        self.called.store(false, Relaxed);
        self.bytes_called.store(false, Relaxed);
        Ok(())
    }
}
