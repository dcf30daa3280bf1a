use weir_packet::Buffers;

use crate::common::limit::{HandlerCall, Length, Limit, flag};
use crate::prelude::*;

engine_node! {
    /// Generates packets of random bytes as fast as they are taken.
    ///
    /// The output may be pushed or pulled. While all queues that the packets lead to are full, none is made.
    RandomSource: "0/1", "h/a", Source, Process;
    example "RandomSource(64, LIMIT 1000, STOP true) -> Discard;";
    params {
        /// Length of the packets.
        pos length: Length,
        /// How many packets.
        pos limit: Limit = Limit::NONE,
        /// How many packets are pushed at a time.
        pos burst: u32 = 32,
        /// Whether it generates packets now.
        pos active: bool = true,
        /// Whether to end the run after the last packet.
        key stop: bool = false,
        /// A write handler to call after the last packet, and its value.
        key end_call: Option<HandlerCall> = None,
        /// Whether packets bear the time at which they were made.
        key timestamp: bool = true,
    }
    handlers {
        /// Number of packets generated so far.
        read count = |s, _| Ok(s.state.count.to_string()),
        /// Starts anew.
        write reset = |s, _, _| { (s.state.count, s.state.called) = (0, false); Ok(()) },
        /// Length of the packets.
        read length = |s, _| Ok(s.length.to_string()),
        /// Changes the length of the packets.
        write length = |s, value, _| {
            s.length = <Length as weir_elements::FromArg>::from_arg(value)?;
            Ok(())
        },
        /// How many packets are pushed at a time.
        read burst = |s, _| Ok(s.burst.to_string()),
        /// Changes how many packets are pushed at a time.
        write burst = |s, value, _| {
            s.burst = <u32 as weir_elements::FromArg>::from_arg(value)?;
            Ok(())
        },
        /// Whether it generates packets.
        read active = |s, _| Ok(s.active.to_string()),
        /// Lets it generate packets, or not.
        write active = |s, value, _| { s.active = flag(value)?; Ok(()) },
        /// How many packets it generates; -1: no limit.
        read limit = |s, _| Ok(s.limit.0.map_or("-1".to_owned(), |l| l.to_string())),
        /// Changes how many packets it generates.
        write limit = |s, value, _| {
            s.limit = <Limit as weir_elements::FromArg>::from_arg(value)?;
            Ok(())
        },
    }
    state Made;
}

#[derive(Default)]
struct Made {
    count: u64,
    /// Whether END_CALL was carried out.
    called: bool,
    bytes: Vec<u8>,
    /// Where all packets end up, if that is in queues.
    queues: Vec<usize>,
}

impl RandomSource {
    fn make(&mut self, buffers: &mut Buffers, cx: &mut Cx<'_>) -> Option<Packet> {
        if !self.active || self.limit.reached(self.state.count) {
            return None;
        }
        let length = self.length.bytes();
        self.state.bytes.clear();
        while self.state.bytes.len() < length {
            self.state.bytes.extend_from_slice(&cx.env().random().to_ne_bytes());
        }
        self.state.bytes.truncate(length);
        let mut packet = buffers.packet(&self.state.bytes).ok()?;
        if self.timestamp {
            packet.timestamp = cx.now();
        }
        self.state.count += 1;
        if self.stop && self.limit.reached(self.state.count) {
            cx.env().ask_stop();
        }
        Some(packet)
    }

    /// Whether END_CALL is to be carried out.
    fn calls(&self) -> bool {
        self.end_call.is_some() && self.limit.reached(self.state.count) && !self.state.called
    }

    /// Carries out END_CALL behind the last packet.
    fn end_calls(&mut self, cx: &mut Cx<'_>) {
        if self.calls()
            && let Some(call) = &self.end_call
        {
            self.state.called = true;
            call.carry_out(cx);
        }
    }
}

impl Behavior for RandomSource {
    fn place(&mut self, here: &Neighbours<'_>) -> Result<(), String> {
        self.state.queues = here.queues(0);
        Ok(())
    }

    fn pull(&mut self, _port: u32, cx: &mut Cx<'_>) -> Option<Packet> {
        self.end_calls(cx);
        self.make(&mut Buffers::take(1), cx)
    }

    fn gives(&self, _port: u32, _asks: &dyn Fn(u32) -> bool) -> Option<bool> {
        Some(self.active && !self.limit.reached(self.state.count))
    }

    fn fills(&self) -> &[usize] {
        &self.state.queues
    }

    fn has_task(&self) -> bool {
        true
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> Ran {
        if !cx.output_is_push(0) {
            return Ran::Idle;
        }
        self.end_calls(cx);
        let room = cx.room_in(&self.state.queues);
        let burst = (self.burst.max(1) as usize).min(room);
        if burst == 0 {
            return Ran::Idle;
        }
        let mut buffers = Buffers::take(burst);
        for _ in 0..burst {
            // The call comes when the packets have gone on.
            let Some(packet) = self.make(&mut buffers, cx) else {
                return if self.calls() { Ran::Busy } else { Ran::Idle };
            };
            cx.emit(0, packet);
        }
        Ran::Busy
    }

    fn adopt(&mut self, old: &mut dyn EngineNode) {
        if let Some(old) = old.as_any().downcast_mut::<RandomSource>() {
            (self.state.count, self.state.called) = (old.state.count, old.state.called);
        }
    }
}
